"""Additive effects as a hypothesis class, and sums of classes.

The supremum over a sum of classes is the sum of the suprema, so their complexities add.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kronfill.bounds.classes.hypothesis import HypothesisClass, check_radius
from kronfill.bounds.complexity.patterns import Pattern
from kronfill.bounds.complexity.signs import SignLaw
from kronfill.bounds.fitted import fitted_form
from kronfill.bounds.splits import Split
from kronfill.errors import ParameterError, ShapeError

__all__ = ["EffectsClass", "SumClass", "effect_norms"]


@dataclass(frozen=True, eq=False)
class EffectsClass(HypothesisClass):
    """Matrices mean + row[i] + col[j] with bounds on the mean and on the norms of the effects.

    Parameters
    ----------
    shape : tuple of int
        Size of the matrices.
    mean : float
        Largest absolute value of the mean.
    rows, cols : float
        Largest Euclidean norms of the row effects and of the column effects.

    Examples
    --------
    >>> import numpy as np
    >>> from kronfill.bounds import EffectsClass
    >>> round(EffectsClass((3, 4), mean=1.0, rows=2.0).supremum(np.ones((3, 4))), 3)
    25.856
    """

    shape: tuple[int, int]
    mean: float = 0.0
    rows: float = 0.0
    cols: float = 0.0

    def __post_init__(self) -> None:
        for name in ("mean", "rows", "cols"):
            check_radius(getattr(self, name), name)

    @property
    def lipschitz(self) -> float:
        """See :class:`HypothesisClass`."""
        n, l = self.shape
        # sums over all entries, over each row, over each column
        return float(self.mean * np.sqrt(n * l) + self.rows * np.sqrt(l) + self.cols * np.sqrt(n))

    def _supremum(self, pattern: Pattern) -> float:
        row_sums = pattern.times(np.ones((self.shape[1], 1)))
        col_sums = pattern.transposed_times(np.ones((self.shape[0], 1)))
        return float(
            self.mean * abs(row_sums.sum())
            + self.rows * np.linalg.norm(row_sums)
            + self.cols * np.linalg.norm(col_sums)
        )

    def _closed_forms(self, split: Split, law: SignLaw) -> dict[str, float]:
        # E (sum sigma)^2 = E ||row sums||^2 = E ||column sums||^2 = s n
        size = np.sqrt(law.keep(split.sizes) * split.sizes.n)
        total = self.mean + self.rows + self.cols
        return {"second moment": float(law.scale(split.sizes) * size * total)}

    def paper_form(self, split: Split) -> float:
        """The second moment under the paper's law; the paper has no such class."""
        return float(split.sizes.q * np.sqrt(split.sizes.n) * (self.mean + self.rows + self.cols))

    def norm_of(self, estimator: Any) -> float:
        """Sum of the three norms of the fitted effects."""
        return float(sum(effect_norms(estimator, 0.0).values()))


@dataclass(frozen=True, eq=False)
class SumClass(HypothesisClass):
    """Matrices that are the sum of one member of each part.

    Parameters
    ----------
    parts : tuple of HypothesisClass
        The parts, all over matrices of one size.

    Examples
    --------
    >>> import numpy as np
    >>> from kronfill.bounds import EffectsClass, NuclearBall, SumClass
    >>> both = SumClass((NuclearBall((3, 4), t=1.0), EffectsClass((3, 4), mean=1.0)))
    >>> round(both.supremum(np.ones((3, 4))), 3)
    15.464
    """

    parts: tuple[HypothesisClass, ...]

    def __post_init__(self) -> None:
        if not self.parts:
            msg = "parts must hold at least one class, got none."
            raise ParameterError(msg)
        if len({part.shape for part in self.parts}) > 1:
            msg = f"parts must agree on the shape, got {[part.shape for part in self.parts]}."
            raise ShapeError(msg)

    @property
    def shape(self) -> tuple[int, int]:  # type: ignore[override]
        """Size of the matrices."""
        return self.parts[0].shape

    @property
    def fixed_before_split(self) -> bool:  # type: ignore[override]
        """Whether no part depends on the split."""
        return all(part.fixed_before_split for part in self.parts)

    @property
    def lipschitz(self) -> float:
        """See :class:`HypothesisClass`."""
        return sum(part.lipschitz for part in self.parts)

    def _supremum(self, pattern: Pattern) -> float:
        return sum(part.supremum(pattern) for part in self.parts)

    def _closed_forms(self, split: Split, law: SignLaw) -> dict[str, float]:
        best = [part.complexity(split, law) for part in self.parts]
        return {" + ".join(one.name for one in best): sum(one.value for one in best)}

    def paper_form(self, split: Split) -> float:
        """Sum of the paper's forms of the parts."""
        return sum(part.paper_form(split) for part in self.parts)

    def norm_of(self, estimator: Any) -> float:
        """Sum of the norms in the parts."""
        return sum(part.norm_of(estimator) for part in self.parts)


def effect_norms(estimator: Any, center: float) -> dict[str, float]:
    """Distance of the mean from ``center``, and Euclidean norms of the row and column effects."""
    effects = fitted_form(estimator).effects
    if effects is None:
        return {}
    return {
        "mean": abs(effects.mean - center),
        "rows": float(np.linalg.norm(effects.row)),
        "cols": float(np.linalg.norm(effects.col)),
    }
