"""How options are shown and read: a flag takes no value, any other option is given once."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import wraps
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

__all__ = ["Command", "Group", "grouped"]


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Make the fields of dataclasses among the parameters of a command its options."""
    signature = inspect.signature(command, eval_str=True)
    groups: dict[str, Any] = {}
    parameters: list[inspect.Parameter] = []
    for name, parameter in signature.parameters.items():
        if is_dataclass(parameter.annotation):
            groups[name] = parameter.annotation
            parameters += inspect.signature(groups[name], eval_str=True).parameters.values()
        else:
            parameters.append(parameter)
    parameters = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in parameters]

    @wraps(command)
    def run(**options: Any) -> None:
        for name, group in groups.items():
            own = {field.name: options.pop(field.name) for field in fields(group)}
            options[name] = group(**own)
        command(**options)

    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    return run


class Command(TyperCommand):
    """A command whose flags are shown without a value, and which refuses repeated options."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters."""
        return _plain_flags(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments; raise if of two values for one option only the last would count."""
        if not ctx.resilient_parsing:
            _, _, order = self.make_parser(ctx).parse_args(args=list(args))
            counts: Counter[Any] = Counter(order)
            for param, count in counts.items():
                if count > 1 and _takes_one_value(param):
                    msg = f"It is given {count} times, and only the last would count: give it once."
                    raise typer.BadParameter(msg, ctx=ctx, param=param)
        return super().parse_args(ctx, args)


class Group(TyperGroup):
    """A group of commands whose flags are shown without a value."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters."""
        return _plain_flags(super().get_params(ctx))


def _takes_one_value(param: Any) -> bool:
    """Whether a second value would replace the first; flags say the same again."""
    return param.param_type_name == "option" and not (param.multiple or param.is_flag)


def _plain_flags(params: list[Any]) -> list[Any]:
    for param in params:
        if getattr(param, "is_flag", False) and param.metavar is None:
            param.metavar = ""
    return params
