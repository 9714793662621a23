"""A fitted function of row and column with a link behind it: expected values, probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from kronfill._stored import Stored, Tests, of, truths, tuple_of
from kronfill._types import Flags, Floats, Index
from kronfill.likelihoods.links import Link

__all__ = ["LinkedForm"]


@dataclass(frozen=True, eq=False)
class LinkedForm(Stored):
    """What an entry is expected to be, by the link of its kind.

    Attributes
    ----------
    form : fitted form
        The number that is linked.
    links : tuple of 4 Link
        For known rows and columns, new rows, new columns, and both new.
    seen_rows, seen_cols : ndarray of bool
        Which items have observations.
    """

    form: Any
    links: tuple[Link, Link, Link, Link]
    seen_rows: Flags
    seen_cols: Flags
    stored: ClassVar[Tests] = {
        "form": of(object), "links": tuple_of(of(Link), 4), "seen_rows": truths,
        "seen_cols": truths,
    }  # fmt: skip

    def _fits_together(self) -> bool:
        return (
            getattr(self.form, "shape", None) == self.shape
            and all(hasattr(self.form, name) for name in ("pairs", "block", "extended"))
            and len({link.levels.tobytes() for link in self.links}) == 1
        )

    @property
    def shape(self) -> tuple[int, int]:
        """Size of the matrix."""
        return len(self.seen_rows), len(self.seen_cols)

    def pairs(self, rows: Index, cols: Index, what: str = "mean") -> Floats:
        """Of index pairs: the mean, or another method of :class:`Link`."""
        kinds = ~self.seen_rows[rows] + 2 * ~self.seen_cols[cols]
        return self._linked(what, self.form.pairs(rows, cols), kinds)

    def block(self, rows: Index | None, cols: Index | None, what: str = "mean") -> Floats:
        """Of a dense block of known rows and columns."""
        seen = [
            flags if index is None else flags[index]
            for flags, index in ((self.seen_rows, rows), (self.seen_cols, cols))
        ]
        return self._linked(what, self.form.block(rows, cols), _grid(seen[0], seen[1]))

    def extended(self, new_rows: Any, new_cols: Any, what: str = "mean") -> Floats:
        """Of a block of new rows and columns; None stands for all the known ones."""
        f = self.form.extended(new_rows, new_cols)
        seen_r = self.seen_rows if new_rows is None else np.zeros(f.shape[0], bool)
        seen_c = self.seen_cols if new_cols is None else np.zeros(f.shape[1], bool)
        return self._linked(what, f, _grid(seen_r, seen_c))

    def _linked(self, what: str, f: Floats, kinds: Index) -> Floats:
        if not kinds.any():
            return np.asarray(getattr(self.links[0], what)(f))
        some = {
            kind: getattr(self.links[kind], what)(f[kinds == kind]) for kind in np.unique(kinds)
        }
        last = next(iter(some.values())).shape[1:]
        out = np.empty((*f.shape, *last))
        for kind, values in some.items():
            out[kinds == kind] = values
        return out


def _grid(seen_rows: Flags, seen_cols: Flags) -> Index:
    return np.asarray((~seen_rows)[:, None] + 2 * (~seen_cols)[None, :], dtype=np.intp)
