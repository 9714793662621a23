"""How options are shown and read: a flag takes no value, any other option is given once."""

from __future__ import annotations

from collections import Counter
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

__all__ = ["Command", "Group"]


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
