"""How ``--help`` shows options: a flag takes no value, so that none is asked for."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand, TyperGroup

__all__ = ["Command", "Group"]


class Command(TyperCommand):
    """A command whose flags are shown without a value."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters."""
        return _plain_flags(super().get_params(ctx))


class Group(TyperGroup):
    """A group of commands whose flags are shown without a value."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters."""
        return _plain_flags(super().get_params(ctx))


def _plain_flags(params: list[Any]) -> list[Any]:
    for param in params:
        if getattr(param, "is_flag", False) and param.metavar is None:
            param.metavar = ""
    return params
