"""What a method around another one hands through: what was chosen, and why it cannot be updated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__all__ = ["AroundMethod"]

CHOSEN = ("members_", "shares_", "weights_", "hidden_error_", "choice_", "plan_")
"""Attributes of the method that chooses everything."""


class AroundMethod:
    """A method whose ``estimator_`` is another one, fitted to values that are told otherwise.

    What :class:`~kronfill.AutoMC` has chosen can be read off it too; errors are those of the fit
    inside.
    """

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name in CHOSEN and "estimator_" in vars(self):
                return getattr(self.estimator_, name)
            why = "."
            if name == "partial_fit":
                why = (
                    ": what lies between its values and those of the table would have to be "
                    "learned again. Fit it again to all observations, or use kf.KKMCEX, which can."
                )
            msg = f"{type(self).__name__} has no {name}{why}"
            raise AttributeError(msg)
