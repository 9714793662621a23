"""RRMCEX online: running sums, no observation is kept."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from kronfill._types import Floats, Index
from kronfill.core.threads import one_blas_thread
from kronfill.data import Observations
from kronfill.errors import DataError
from kronfill.estimators.fitted.bilinear import Basis, Bilinear
from kronfill.estimators.gaussian_process.posterior import GaussianProcess
from kronfill.estimators.updates.dual import check_one
from kronfill.online.grouped_sums import GroupedSums
from kronfill.online.growing_dual import NewItem
from kronfill.online.running import SOLVER, Change, RunningSums
from kronfill.online.summed_posterior import SummedPosterior
from kronfill.online.two_way_sums import TwoWaySums
from kronfill.ridge.solution import Solution, Status
from kronfill.ridge.trust import vouched_by_size
from kronfill.uncertainty.posterior import Posterior

__all__ = ["SumUpdates", "SummedProcess"]


@dataclass(eq=False)
class SumUpdates:
    """A solved problem whose observations come and go; sums are kept of them."""

    bases: tuple[Basis, Basis]
    center: Any
    sums: RunningSums
    form: Any = None
    is_empty = False

    @classmethod
    def of(
        cls, bases: tuple[Basis, Basis], mu: float, center: Any, observations: Observations
    ) -> SumUpdates:
        """Sum over observations."""
        row, col = (basis.known(None) for basis in bases)
        both = center == "both"
        sums = TwoWaySums(row, col, mu) if both else GroupedSums(row, col, mu, center)
        sums.add(_counted(observations))
        return cls(bases, center, sums)

    def add(self, new: Observations) -> None:
        """Take in observations."""
        with one_blas_thread():
            self.sums.add(_counted(new))

    def forget(self, old: Observations) -> None:
        """Take observations out."""
        with one_blas_thread():
            self.sums.remove(_counted(old))

    def revise(self, old: Observations, new: Observations) -> None:
        """Correct the values of observations."""
        with one_blas_thread():
            self.sums.revise(_counted(old), _counted(new).values)

    def solved(self) -> tuple[Bilinear, Solution]:
        """The fitted form that follows from the sums, and how it was found."""
        sums = self.sums
        status = Status.EXACT if sums.rank == sums.core.size else Status.RANK_DEFICIENT
        reason = f"running sums over {sums.m} observations"
        solution = Solution(status, SOLVER, reason, residual=sums.drift, rank=sums.rank)
        left_out = sum(basis.left_out for basis in self.bases)
        solution = vouched_by_size(solution, sums.size * sums.heaviest, sums.mu, left_out)
        return Bilinear(*self.bases, sums.core, sums.effects, sums.shape), solution

    def fold_in(
        self, item: Any, index: Index, values: Floats, weights: Floats, axis: int
    ) -> Floats:
        """Predict a new item with these observations."""
        phi = self.bases[axis].new(item)
        check_one(len(phi))
        with one_blas_thread():
            core, effects = self.sums.with_item(phi, index, values, weights, axis)
        other = self.sums.col_phi if axis == 0 else self.sums.row_phi
        fitted = (phi @ core @ other.T if axis == 0 else phi @ core.T @ other.T)[0]
        return NewItem(axis, np.zeros(0), 0.0, index, values, weights).total(fitted, effects)


@dataclass(frozen=True, eq=False)
class SummedProcess(GaussianProcess):
    """The Gaussian process of running sums."""

    sums: RunningSums

    @property
    def dof(self) -> int:
        """See :class:`GaussianProcess`."""
        return self._summed.dof

    @cached_property
    def _summed(self) -> SummedPosterior:
        return SummedPosterior(self.sums)

    @property
    def posterior(self) -> Posterior:
        """See :class:`GaussianProcess`."""
        return self._summed

    @property
    def sampler(self) -> Any:
        """See :class:`GaussianProcess`."""
        msg = (
            "A block of more than 2,000 entries is sampled by fits to simulated observations, and "
            "the observations were not kept. Sample smaller blocks, or fit anew."
        )
        raise DataError(msg)


def _counted(observations: Observations) -> Change:
    """The observations that count, with their weights."""
    o = observations
    if o.weights is None:
        return Change(o.rows, o.cols, o.values, np.ones(o.m))
    used = o.weights > 0
    return Change(o.rows[used], o.cols[used], o.values[used], o.weights[used])
