"""A fitted function on another scale, told in the units of the values, without bias."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from kronfill._stored import Stored, Tests, flag, floats, of, optional, truths, tuple_of
from kronfill._types import Flags, Floats, Index
from kronfill.estimators.transformed.scales import ValueScale

__all__ = ["Limits", "UndoneForm", "binned", "kind_grid"]

BINS = 101
"""Means of so many parts of the errors stand for all of them."""
GRID = 2049
"""Places of a scale between which its way back is interpolated."""
FAR = 20.0
"""Log odds beyond which nothing changes."""


def binned(errors: Floats) -> Floats:
    """The errors in a few numbers with the same mean: those of parts of neighbours."""
    if errors.size <= BINS:
        return np.sort(errors)
    return np.array([part.mean() for part in np.array_split(np.sort(errors), BINS)])


@dataclass(frozen=True, eq=False)
class Limits(Stored):
    """What predictions are brought to: a range, whole numbers."""

    ends: Floats | None
    """The least and the largest number, None where there is no range."""
    rounded: bool
    stored: ClassVar[Tests] = {"ends": optional(floats(1)), "rounded": flag}

    def _fits_together(self) -> bool:
        return self.ends is None or (self.ends.shape == (2,) and bool(self.ends[0] < self.ends[1]))

    def within(self, values: Floats) -> Floats:
        """The nearest values that are allowed."""
        if self.ends is not None:
            values = np.clip(values, *self.ends)
        return np.asarray(np.round(values) if self.rounded else values)


@dataclass(frozen=True, eq=False)
class UndoneForm(Stored):
    """A function of row and column: the mean of what values may be, given their place on a scale.

    The mean of g^-1(z + e) over the errors e of entries of the same kind that were hidden: N. Duan
    (1983), "Smearing estimate", Journal of the American Statistical Association 78, 605-610.
    """

    form: Any
    scale: ValueScale
    errors: tuple[Floats, ...]
    """Errors on the scale, for each kind of entry: known, new row, new column, both new."""
    limits: Limits
    seen_rows: Flags
    seen_cols: Flags
    stored: ClassVar[Tests] = {
        "form": of(object), "scale": of(ValueScale), "errors": tuple_of(floats(1), 4),
        "limits": of(Limits), "seen_rows": truths, "seen_cols": truths,
    }  # fmt: skip

    def _fits_together(self) -> bool:
        return self.form.shape == self.shape and all(part.size > 0 for part in self.errors)

    @property
    def shape(self) -> tuple[int, int]:
        """Size of the matrix."""
        return len(self.seen_rows), len(self.seen_cols)

    def pairs(self, rows: Index, cols: Index) -> Floats:
        """Values at index pairs."""
        kinds = ~self.seen_rows[rows] + 2 * ~self.seen_cols[cols]
        return self.undone(self.form.pairs(rows, cols), kinds)

    def block(self, rows: Index | None, cols: Index | None) -> Floats:
        """Dense block of known rows and columns."""
        r = self.seen_rows if rows is None else self.seen_rows[rows]
        c = self.seen_cols if cols is None else self.seen_cols[cols]
        return self.undone(self.form.block(rows, cols), kind_grid(r, c))

    def extended(self, new_rows: Any, new_cols: Any) -> Floats:
        """Block of new rows and columns; None stands for all the known ones."""
        return self.undone(*self.scaled(new_rows, new_cols))

    def scaled(self, new_rows: Any, new_cols: Any) -> tuple[Floats, Index]:
        """The same block on the scale, and the kind of each entry."""
        found = self.form.extended(new_rows, new_cols)
        r = self.seen_rows if new_rows is None else np.zeros(found.shape[0], bool)
        c = self.seen_cols if new_cols is None else np.zeros(found.shape[1], bool)
        return found, kind_grid(r, c)

    def undone(self, scaled: Floats, kinds: Index) -> Floats:
        """The values expected at places of the scale, within their limits."""
        if self.scale.kind == "none":
            return self.limits.within(scaled)
        out = np.empty(scaled.shape)
        for kind in np.unique(kinds):
            mine = kinds == kind
            out[mine] = self._mean(scaled[mine], self.errors[kind])
        return self.limits.within(out)

    def _mean(self, scaled: Floats, errors: Floats) -> Floats:
        if self.scale.kind == "log":  # the logarithm of a product is a sum
            factor = float(np.exp(np.minimum(errors, 700.0)).mean())
            grown = np.exp(np.minimum(scaled, 700.0)) * factor - self.scale.shift
            return np.asarray(np.maximum(grown, 0.0))
        # Between its ends the way back is a curve; beyond it is flat, or a parabola.
        low, high = self._ends(errors)
        places = np.linspace(low, high, GRID)
        out = np.asarray(np.interp(scaled, places, self._slowly(places, errors)))
        if self.scale.kind == "sqrt":
            far = scaled > high
            z = scaled[far]
            out[far] = z**2 + 2 * z * float(errors.mean()) + float((errors**2).mean())
        return out

    def _ends(self, errors: Floats) -> tuple[float, float]:
        least, most = float(errors.min()), float(errors.max())
        if self.scale.kind == "ranks":
            return float(self.scale.scores[0]) - most, float(self.scale.scores[-1]) - least
        return (-most, max(-least, 1e-9 - most)) if self.scale.kind == "sqrt" else (-FAR, FAR)

    def _slowly(self, scaled: Floats, errors: Floats) -> Floats:
        return np.asarray(self.scale.inverse(scaled[:, None] + errors).mean(axis=1))


def kind_grid(seen_rows: Flags, seen_cols: Flags) -> Index:
    """The kind of each entry of a block: 0 known, 1 new row, 2 new column, 3 both new."""
    return np.asarray((~seen_rows)[:, None] + 2 * (~seen_cols)[None, :], dtype=np.intp)
