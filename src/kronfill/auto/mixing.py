"""Shares of the members of a mix, for each kind of entry."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import nnls

from kronfill._stored import Stored, Tests, floats, of, truths, tuple_of
from kronfill._types import Flags, Floats, Index
from kronfill.estimators.transformed.form import kind_grid

__all__ = ["KNOWN", "MixedForm", "shares"]

KNOWN, NEW_ROW, NEW_COL, NEW_BOTH = range(4)
"""Kinds of entries: both items have observations, the row has none, the column, neither."""
STRESS = 1e3
"""Weight of the condition that shares add up to 1, beside the sizes of the predictions."""
SMALLEST = 0.03
"""A share below is not worth a member."""


def shares(predicted: Floats, observed: Floats, weights: Floats) -> Floats:
    """Shares, not negative and with sum 1, of the mix with the least square error.

    Parameters
    ----------
    predicted : ndarray of shape (members, t)
        What each member says about hidden entries.
    observed, weights : ndarray of shape (t,)
        Their values and weights.

    Examples
    --------
    >>> import numpy as np
    >>> from kronfill.auto.mixing import shares
    >>> shares(np.array([[0.0, 2.0], [2.0, 0.0]]), np.array([0.5, 1.5]), np.ones(2)).round(6)
    array([0.75, 0.25])
    """
    middle = predicted.mean(axis=0)  # what all agree upon tells nothing
    root = np.sqrt(weights)
    design, target = ((predicted - middle) * root).T, (observed - middle) * root
    stress = STRESS * max(float(np.abs(design).max()), float(np.abs(target).max()), 1e-300)
    stress *= np.sqrt(len(observed))
    found, _ = nnls(np.vstack([design, np.full(len(predicted), stress)]), np.append(target, stress))
    if not found.sum() > 0:
        found = np.ones(len(predicted))
    found /= found.sum()
    found[found < SMALLEST] = 0.0
    return np.asarray(found / found.sum())


@dataclass(frozen=True, eq=False)
class MixedForm(Stored):
    """A function of row and column: members mixed with shares that depend on the kind of entry."""

    forms: tuple[Any, ...]
    share: Floats
    """(4, members): for each kind."""
    seen_rows: Flags
    seen_cols: Flags
    stored: ClassVar[Tests] = {
        "forms": tuple_of(of(object)), "share": floats(2), "seen_rows": truths, "seen_cols": truths,
    }  # fmt: skip

    @property
    def shape(self) -> tuple[int, int]:
        """Size of the matrix."""
        return len(self.seen_rows), len(self.seen_cols)

    def _fits_together(self) -> bool:
        return (
            self.share.shape == (4, len(self.forms))
            and len(self.forms) > 0
            and all(form.shape == self.shape for form in self.forms)
        )

    def kinds(self, rows: Index, cols: Index) -> Index:
        """The kind of each entry."""
        return np.asarray(~self.seen_rows[rows] + 2 * ~self.seen_cols[cols], dtype=np.intp)

    def pairs(self, rows: Index, cols: Index) -> Floats:
        """Values at index pairs."""
        kinds = self.kinds(rows, cols)
        return self._mixed(lambda form: form.pairs(rows, cols), kinds)

    def block(self, rows: Index | None, cols: Index | None) -> Floats:
        """Dense block of known rows and columns."""
        r, c = (self.seen_rows, self.seen_cols)
        kinds = kind_grid(r if rows is None else r[rows], c if cols is None else c[cols])
        return self._mixed(lambda form: form.block(rows, cols), kinds)

    def extended(self, new_rows: Any, new_cols: Any) -> Floats:
        """Block of new rows and columns; None stands for all the known ones."""
        first = self.forms[0].extended(new_rows, new_cols)
        r = self.seen_rows if new_rows is None else np.zeros(first.shape[0], bool)
        c = self.seen_cols if new_cols is None else np.zeros(first.shape[1], bool)

        def part(form: Any) -> Floats:
            return np.asarray(first if form is self.forms[0] else form.extended(new_rows, new_cols))

        return self._mixed(part, kind_grid(r, c))

    def _mixed(self, part: Callable[[Any], Floats], kinds: Index) -> Floats:
        there = np.unique(kinds)
        out = np.zeros(kinds.shape)
        for share, form in zip(self.share.T, self.forms, strict=True):
            if share[there].any():
                out += share[kinds] * part(form)
        return out
