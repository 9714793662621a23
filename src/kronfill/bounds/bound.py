"""What a theorem returns: a number, what it is made of, and what it needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

__all__ = ["FAILS", "Assumption", "Bound"]

FAILS = "IT DOES NOT APPLY HERE: an assumption fails, see below."
"""What a statement ends with where it is known not to hold."""


@dataclass(frozen=True)
class Assumption:
    """Something a statement needs.

    Attributes
    ----------
    text : str
        What is needed.
    holds : bool or None
        Whether it holds here; None where that cannot be seen from the data.
    """

    text: str
    holds: bool | None = None

    def __str__(self) -> str:
        mark = {True: "holds", False: "DOES NOT HOLD", None: "assumed"}[self.holds]
        return f"[{mark}] {self.text}"


@dataclass(frozen=True)
class Bound:
    """The value of a theorem in one case.

    Attributes
    ----------
    name : str
        Which theorem.
    quantity : str
        What is bounded: "generalization error" or "Rademacher complexity".
    value : float
        The bound, the sum of ``terms``.
    terms : mapping of str to float
        What it is made of.
    assumptions : tuple of Assumption
        What the statement needs, and whether that holds here.
    errata : tuple of str
        What is wrong with the statement as printed, if it is a printed one.
    corrected : Bound or None
        The corrected statement in the same case, if this is a printed one.
    """

    name: str
    quantity: str
    value: float
    terms: Mapping[str, float]
    assumptions: tuple[Assumption, ...] = ()
    errata: tuple[str, ...] = ()
    corrected: Bound | None = field(default=None, repr=False)

    @classmethod
    def of(cls, name: str, quantity: str, terms: dict[str, float], **more: object) -> Bound:
        """Build a bound whose value is the sum of its terms."""
        value = float(sum(terms.values()))
        return cls(name, quantity, value, MappingProxyType(terms), **more)  # type: ignore[arg-type]

    @property
    def valid(self) -> bool:
        """Whether no assumption is known to fail."""
        return all(assumption.holds is not False for assumption in self.assumptions)

    def __str__(self) -> str:
        parts = " + ".join(f"{value:.4g} ({name})" for name, value in self.terms.items())
        lines = [f"{self.name}: {self.quantity} <= {self.value:.4g}", f"  = {parts}"]
        lines += [f"  {assumption}" for assumption in self.assumptions]
        lines += [f"  as printed: {text}" for text in self.errata]
        if self.corrected is not None:
            lines += [f"  corrected: {self.corrected.value:.4g} ({self.corrected.name})"]
        return "\n".join(lines)
