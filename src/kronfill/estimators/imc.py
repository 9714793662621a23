"""IMC: low-rank factors that are linear in features."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from kronfill.data import Observations
from kronfill.estimators.base import effects_of
from kronfill.estimators.factorised import (
    SMALL,
    FactorFit,
    FactorisedRegressor,
    fit_in_factors,
    run_record,
)
from kronfill.estimators.fitted.axes import ObservedFactor
from kronfill.estimators.inputs import check_magnitude, sampled_entries
from kronfill.kernels.features import FeatureTable

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
    rank : int, default=10
        Number of latent factors; at most min(N, L) are used.
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
    objective_ : float
        The objective reached.
    mu_, mean_, row_effects_, col_effects_, solution_, n_iter_, shape_ :
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
        settings = self._settings()
        with self._fitting(observations.m, SMALL):
            mu = self._chosen_mu(observations, tables)
            found = self._solve(observations, tables, mu, settings, settings.start)
        found.solution.warn()
        return self._publish(X, observations, {"_tables": tables}, mu_=mu, **found.attributes)

    def _validated_sides(self) -> Tables:
        self._check_parameters()
        row, col = (
            None if features is None else FeatureTable.from_data(features)
            for features in (self.row_features, self.col_features)
        )
        return row, col

    def _scale(self, sides: Tables) -> float:
        return float(np.prod([1.0 if t is None else _mean_norm(t.values) for t in sides]))

    def _solve(
        self, observations: Observations, sides: Tables, mu: float, settings: Any, start: Any
    ) -> FactorFit:
        sampled = sampled_entries(observations, self.center)
        shape, rank = sampled.shape, self._rank(sampled.shape)
        row = ObservedFactor.of_features(sides[0], shape[0], sampled.rows)
        col = ObservedFactor.of_features(sides[1], shape[1], sampled.cols)
        form, state, solution = fit_in_factors(
            row, col, sampled, mu, settings, start, rank, self.random_state
        )
        coefficients = row.coefficients(state.w), col.coefficients(state.h)
        attributes = {
            **run_record(state, solution),
            **effects_of(form.effects, shape),
            "row_coef_": coefficients[0],
            "col_coef_": coefficients[1],
            "W_": form.row_basis.known(None),
            "H_": form.col_basis.known(None),
            "_model": form,
        }
        return FactorFit(form, solution, coefficients, attributes)


def feature_tables(estimator: Any) -> Tables | None:
    """The encoded features that a fitted IMC knows its axes by; None for another method."""
    return estimator._tables if isinstance(estimator, IMC) else None


def _mean_norm(values: Any) -> float:
    """Root mean square length of the feature vectors."""
    total = values.multiply(values).sum() if sp.issparse(values) else np.vdot(values, values)
    return float(np.sqrt(total / values.shape[0]))
