"""Kbar d, the values at the observed entries of the function with dual vector d.

The way depends on how the kernels are at hand after a first solve: as thin factors, as factors
beside an identity, or as matrices.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kronfill._types import Floats
from kronfill.core.grouping import Grouped
from kronfill.core.loops.tables import SparseTables
from kronfill.core.operator import SampledKronecker
from kronfill.ridge.dual_operator import DualOperator
from kronfill.ridge.problem import (
    FactorPlusIdentityLike,
    Mask,
    Primal,
    RidgeProblem,
    RidgeResult,
)

__all__ = ["core_of", "entry_products"]

Products = Callable[[Floats], Floats]


def entry_products(problem: RidgeProblem, result: RidgeResult) -> Products:
    """The map d -> Kbar d for the kernels of a problem, by what its first solution has made."""
    mask = problem.sampled.mask
    if result.primal is not None:
        return _through_factors(result.primal, mask)
    if result.with_identity is not None:
        return _beside_identity(*result.with_identity, mask)
    operator = DualOperator(problem.row_kernel, problem.col_kernel, mask)
    return lambda d: np.asarray(operator @ d)


def core_of(primal: Primal, mask: Mask, dual: Floats) -> Floats:
    """Phi_w^T D Phi_h."""
    operator, grouped, flipped = _sampling(primal, mask)
    core = operator.scatter(grouped.gather(dual))
    return np.ascontiguousarray(core.T) if flipped else core


def _through_factors(primal: Primal, mask: Mask) -> Products:
    """Psi Psi^T d."""
    operator, grouped, _ = _sampling(primal, mask)
    return lambda d: grouped.restore(operator.sample(operator.scatter(grouped.gather(d))))


def _sampling(primal: Primal, mask: Mask) -> tuple[SampledKronecker, Grouped, bool]:
    """Psi, grouped by the axis of the larger rank; whether these are the columns."""
    left, right = primal.row.phi, primal.col.phi
    if left.shape[1] < right.shape[1]:
        return SampledKronecker(right, left, mask.by_cols), mask.by_cols, True
    return SampledKronecker(left, right, mask.by_rows), mask.by_rows, False


def _beside_identity(
    row: FactorPlusIdentityLike, col: FactorPlusIdentityLike, mask: Mask
) -> Products:
    """Entries of (P P^T + e_w I) D (Q Q^T + e_h I), D the sparse matrix of d."""
    p, q = (np.ascontiguousarray(side.factor.phi) for side in (row, col))
    tables = SparseTables(mask.by_rows, mask.by_cols)

    def times(d: Floats) -> Floats:
        grouped = mask.by_rows.gather(d)
        by_row, by_col = tables.sums(q, grouped, 0), tables.sums(p, grouped, 1)
        left = np.hstack([p @ (p.T @ by_row) + row.identity * by_row, p])
        right = np.hstack([q, col.identity * by_col])
        smooth = mask.by_rows.restore(tables.products(left, right))
        return np.asarray(smooth + row.identity * col.identity * d)

    return times
