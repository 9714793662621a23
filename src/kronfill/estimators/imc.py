"""IMC: low-rank factors that are linear in features."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from kronfill.data import Observations
from kronfill.estimators.base import inner_method
from kronfill.estimators.factorised import (
    SMALL,
    FactorFit,
    FactorisedRegressor,
    FactorProblem,
    FactorSpaceProblem,
)
from kronfill.estimators.fitted.axes import ObservedFactor
from kronfill.estimators.inputs import check_magnitude, sampled_entries
from kronfill.kernels.features import FeatureTable
from kronfill.ridge.solution import Solution
from kronfill.solvers.alternating import State

__all__ = ["IMC", "feature_tables"]

Tables = tuple[FeatureTable | None, FeatureTable | None]


class IMC(FactorisedRegressor):
    r"""Inductive matrix completion: KMC written with feature matrices.

    .. math::
        \min_{A_w, A_h} \|P_{S_m}(M - \Phi_w A_w A_h^T \Phi_h^T)\|_F^2
        + \mu (\|A_w\|_F^2 + \|A_h\|_F^2)

    It has the same solutions as :class:`KMC` with linear kernels, whatever the rank of the
    feature matrices.

    Parameters
    ----------
    row_features, col_features : array-like, sparse matrix or DataFrame, one line per item, optional
        Phi_w and Phi_h; data frames are encoded as in :func:`kronfill.kernels.linear`. None if
        nothing is known about an axis: one indicator per item.
    rank : int or "auto", default=10
        Number of latent factors; at most min(N, L) are used. "auto" chooses it along with mu:
        twice as many as long as the error on held-out entries falls.
    mu : float or "auto", default=1.0
        Ridge weight; "auto" takes the value with the smallest error on held-out entries.
    center : {None, "mean", "rows", "cols", "both"}, default=None
        Unpenalised additive effects, fitted along.
    solver : "auto" or ALS, default="auto"
        ``kf.ALS(...)``; a given starting point is the pair (A_w, A_h).
    random_state : int, Generator or None, default=0
        Seed of random starting points.

    Attributes
    ----------
    row_coef_, col_coef_ : ndarray of shape (d_w, rank) and (d_h, rank)
        A_w and A_h.
    W_, H_ : ndarray of shape (N, rank) and (L, rank)
        Phi_w A_w and Phi_h A_h.
    rank_ : int
        Number of factors.
    objective_ : float
        The objective reached.
    mu_, mu_search_, mean_, row_effects_, col_effects_, solution_, n_iter_, shape_ :
        As for :class:`KKMCEX`.

    Examples
    --------
    >>> import numpy as np, kronfill as kf
    >>> rng = np.random.default_rng(0)
    >>> a, b = rng.standard_normal((40, 3)), rng.standard_normal((30, 2))
    >>> X = np.argwhere(rng.random((40, 30)) < 0.2)
    >>> y = np.einsum("ij,ij->i", a[X[:, 0], :2], b[X[:, 1]])
    >>> est = kf.IMC(a, b, rank=2, mu=0.1).fit(X, y)
    >>> est.extrapolate(rows=[[1.0, 0.0, 0.0]], cols=[[2.0, 5.0]]).round(1)
    array([[2.]])
    """

    _tables: Tables

    def __init__(
        self,
        row_features: Any = None,
        col_features: Any = None,
        rank: Any = 10,
        mu: Any = 1.0,
        center: Any = None,
        solver: Any = "auto",
        random_state: Any = 0,
    ) -> None:
        self.row_features = row_features
        self.col_features = col_features
        self.rank = rank
        self.mu = mu
        self.center = center
        self.solver = solver
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        tables = self._validated_sides()
        observations = self._observations(X, y, sample_weight, tables)
        check_magnitude(observations.values, observations.weights)
        with self._fitting(observations.m, SMALL):
            found = self._found(observations, tables, self._settings().start)
        found["solution_"].warn()
        return self._publish(X, observations, {"_tables": tables}, **found)

    def _validated_sides(self) -> Tables:
        self._check_parameters()
        row, col = (
            None if features is None else FeatureTable.from_data(features)
            for features in (self.row_features, self.col_features)
        )
        return row, col

    def _scale(self, sides: Tables) -> float:
        return float(np.prod([1.0 if t is None else _mean_norm(t.values) for t in sides]))

    def _factor_problem(self, observations: Observations, sides: Tables) -> FactorProblem:
        sampled = sampled_entries(observations, self.center)
        row = ObservedFactor.of_features(sides[0], sampled.shape[0], sampled.rows)
        col = ObservedFactor.of_features(sides[1], sampled.shape[1], sampled.cols)
        return _FeatureProblem(row, col, sampled, self.random_state)


class _FeatureProblem(FactorSpaceProblem):
    """The same, with the coefficients of the features beside the factors."""

    def fitted(self, state: State, solution: Solution) -> FactorFit:
        found = super().fitted(state, solution)
        more = {
            "row_coef_": self.row.coefficients(state.w),
            "col_coef_": self.col.coefficients(state.h),
        }
        return replace(found, attributes=found.attributes | more)


def feature_tables(estimator: Any) -> Tables | None:
    """The encoded features that a fitted IMC knows its axes by; None for another method."""
    method = inner_method(estimator)
    return method._tables if isinstance(method, IMC) else None


def _mean_norm(values: Any) -> float:
    """Root mean square length of the feature vectors."""
    total = values.multiply(values).sum() if sp.issparse(values) else np.vdot(values, values)
    return float(np.sqrt(total / values.shape[0]))
