"""RRMCEX online: running sums, no observation is kept."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self, cast

import numpy as np
from sklearn.utils.validation import check_is_fitted

from kronfill._types import Floats, Index
from kronfill.core.threads import one_blas_thread
from kronfill.data import Observations
from kronfill.errors import DataError
from kronfill.estimators.fitted.bilinear import Basis, Bilinear
from kronfill.estimators.inputs import check_largest
from kronfill.estimators.posterior import GaussianProcess
from kronfill.estimators.updates.online import Online, check_one
from kronfill.online.grouped_sums import GroupedSums
from kronfill.online.growing_dual import NewItem
from kronfill.online.running import SOLVER, Change, RunningSums
from kronfill.online.summed_posterior import SummedPosterior, nothing_sampled
from kronfill.online.two_way_sums import TwoWaySums
from kronfill.ridge.solution import Solution, Status
from kronfill.ridge.trust import vouched_by_size
from kronfill.uncertainty.posterior import Posterior

__all__ = ["OnlineSums"]


class OnlineSums(Online):
    """Learning online from sums: no observation is kept."""

    coef_: Floats
    _bases: tuple[Any, Any]

    def _begin(self) -> None:
        self._sums()
        self._publish()

    def _sums(self) -> RunningSums:
        """The sums over the observations so far, made from the fitted ones where there are none."""
        stream = self._kept()
        if stream is None:
            row, col = (basis.known(None) for basis in self._bases)
            sums = _empty_sums(row, col, self.mu_, self.center)
            sums.add(_batch(self.observations_))
            self._stream = stream = _Sums(self._model, self.center, sums)
        return cast("RunningSums", stream.sums)

    def _arrive(self, new: Observations) -> None:
        with one_blas_thread():
            self._sums().add(_batch(new))
        self._publish()

    def forget(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Remove observations; the result is that of a fit to the others.

        Parameters
        ----------
        X : array-like of shape (k, 2) or Observations
            Row and column index of each entry to remove.
        y : array-like of shape (k,), optional
            The values they had: they were not kept.
        sample_weight : array-like of shape (k,), optional
            The weights they had.

        Returns
        -------
        self

        Notes
        -----
        What was never added cannot be told from what was, unless a row or column has fewer
        observations, or the sums become those of no observations; both are errors.

        Examples
        --------
        >>> import numpy as np, kronfill as kf
        >>> k = kf.kernels.rbf(np.linspace(0, 1, 20), length_scale=0.3)
        >>> X, y = np.argwhere(np.ones((20, 20))), np.arange(400.0)
        >>> est = kf.RRMCEX(k, k, row_rank=3, col_rank=3).partial_fit(X, y)
        >>> coef = est.forget(X[300:], y[300:]).coef_
        >>> bool(np.allclose(coef, est.fit(X[:300], y[:300]).coef_))
        True
        """
        check_is_fitted(self)
        self._check_unchanged()
        with one_blas_thread():
            self._sums().remove(_batch(self._given(X, y, sample_weight)))
        self._publish()
        return self

    def revise(self, X: Any, y: Any, y_old: Any, sample_weight: Any = None) -> Self:
        """Correct values; the result is that of a fit to the corrected ones.

        Parameters
        ----------
        X : array-like of shape (k, 2)
            Row and column index of each entry to correct.
        y : array-like of shape (k,)
            The values that they should have had.
        y_old : array-like of shape (k,)
            The values they had: they were not kept.
        sample_weight : array-like of shape (k,), optional
            The weights they had; they stay.

        Returns
        -------
        self

        Examples
        --------
        >>> import numpy as np, kronfill as kf
        >>> est = kf.RRMCEX(np.eye(2), np.eye(2), row_rank=2, col_rank=2)
        >>> est = est.partial_fit([[0, 0], [1, 1]], [1.0, 7.0])
        >>> est.revise([[1, 1]], [2.0], [7.0]).predict_matrix()
        array([[0.5, 0. ],
               [0. , 1. ]])
        """
        check_is_fitted(self)
        self._check_unchanged()
        old, new = (self._given(X, v, sample_weight) for v in (y_old, y))
        check_largest(new.values, new.weights)
        with one_blas_thread():
            self._sums().revise(_batch(old), _batch(new).values)
        self._publish()
        return self

    def _publish(self) -> None:
        """Set the fitted attributes from the sums; the observations are let go."""
        stream = self._kept()
        sums = stream.sums
        self.coef_ = sums.core
        effects = sums.effects
        n, l = self.shape_
        self.mean_ = 0.0 if effects is None else effects.mean
        self.row_effects_ = np.zeros(n) if effects is None else effects.row
        self.col_effects_ = np.zeros(l) if effects is None else effects.col
        status = Status.EXACT if sums.rank == sums.core.size else Status.RANK_DEFICIENT
        reason = f"running sums over {sums.m} observations"
        solution = Solution(status, SOLVER, reason, residual=sums.drift, rank=sums.rank)
        left_out = sum(basis.left_out for basis in self._bases)
        self.solution_ = vouched_by_size(solution, sums.size * sums.heaviest, self.mu_, left_out)
        self.n_iter_ = 1
        row, col = cast("tuple[Basis, Basis]", self._bases)
        self._model = stream.model = Bilinear(row, col, sums.core, effects, self.shape_)
        self.__dict__.pop("observations_", None)
        self._from_table = True
        self.solution_.warn(stacklevel=4)

    def _read(self) -> GaussianProcess:
        if "observations_" in vars(self):
            return super()._read()
        self._check_unchanged()
        sums = self._sums()
        priors = self._priors()
        return SummedReading(priors, nothing_sampled(self.shape_), self.mu_, sums.least, sums)

    def _folded(
        self, item: Any, index: Index, values: Floats, weights: Floats, axis: int
    ) -> Floats:
        phi = self._bases[axis].new(item)
        check_one(len(phi))
        with one_blas_thread():
            core, effects = self._sums().with_item(phi, index, values, weights, axis)
        other = self._sums().col_phi if axis == 0 else self._sums().row_phi
        fitted = (phi @ core @ other.T if axis == 0 else phi @ core.T @ other.T)[0]
        return NewItem(axis, np.zeros(0), 0.0, index, values, weights).total(fitted, effects)

    def __getstate__(self) -> Any:
        state: dict[str, Any] = dict(super().__getstate__())
        state.pop("_stream", None)  # a model file has no place for the sums
        return state

    def __reduce_ex__(self, protocol: Any) -> Any:
        # Copies and pickles take the sums along: they cannot be made again.
        make, args, state, *rest = cast("tuple[Any, ...]", super().__reduce_ex__(protocol))
        stream = vars(self).get("_stream")
        return (make, args, state if stream is None else {**state, "_stream": stream}, *rest)


@dataclass(eq=False)
class _Sums:
    """What an estimator keeps to go on from."""

    model: Any
    center: Any
    sums: RunningSums


@dataclass(frozen=True, eq=False)
class SummedReading(GaussianProcess):
    """The Gaussian-process reading of running sums."""

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


def _batch(observations: Observations) -> Change:
    """The observations that count, with their weights."""
    o = observations
    if o.weights is None:
        return Change(o.rows, o.cols, o.values, np.ones(o.m))
    used = o.weights > 0
    return Change(o.rows[used], o.cols[used], o.values[used], o.weights[used])


def _empty_sums(row_phi: Floats, col_phi: Floats, mu: float, kind: Any) -> RunningSums:
    if kind == "both":
        return TwoWaySums(row_phi, col_phi, mu)
    return GroupedSums(row_phi, col_phi, mu, kind)
