"""IMC: low-rank factors that are linear in features."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from kronfill._types import Floats, Index
from kronfill.data import Observations
from kronfill.estimators.factorised import FactorisedRegressor, fit_in_factors
from kronfill.estimators.fitted.axes import FactorAxis, FeatureAxis, IndicatorAxis
from kronfill.estimators.fitted.bilinear import Bilinear
from kronfill.kernels.features import FeatureTable
from kronfill.ridge.problem import Sampled
from kronfill.solvers.alternating import given_pair

__all__ = ["IMC"]


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

    def _axis_sizes(self) -> tuple[int | None, int | None]:
        self._check_parameters()
        self._tables = tuple(
            None if features is None else FeatureTable.from_data(features)
            for features in (self.row_features, self.col_features)
        )
        row, col = self._tables
        return None if row is None else row.n, None if col is None else col.n

    def _fit_factors(self, observations: Observations) -> None:
        sampled = self._sampled(observations, self.center)
        row = _feature_axis(self._tables[0], self.shape_[0], sampled.rows)
        col = _feature_axis(self._tables[1], self.shape_[1], sampled.cols)
        state = fit_in_factors(self, row, col, sampled)
        bases = row.basis(state.w), col.basis(state.h)
        self.row_coef_, self.col_coef_ = row.coefficients(state.w), col.coefficients(state.h)
        self.W_, self.H_ = bases[0].known(None), bases[1].known(None)
        self._model = Bilinear(*bases, None, state.effects, self.shape_)

    def _pair(self) -> tuple[Floats, Floats]:
        return self.row_coef_, self.col_coef_

    def _scale(self) -> float:
        return float(np.prod([1.0 if t is None else _mean_norm(t.values) for t in self._tables]))

    def _start_values(self, sampled: Sampled, axis: FactorAxis) -> Floats | None:
        start, rank = self._settings().start, self._rank()
        if not isinstance(start, str):
            widths = [
                size if table is None else table.width
                for table, size in zip(self._tables, self.shape_, strict=True)
            ]
            return axis.values(given_pair(start, ((widths[0], rank), (widths[1], rank)))[1])
        if start in ("uniform", "gaussian"):
            width = self._tables[1].width if self._tables[1] else self.shape_[1]
            return axis.values(self._random(start, width))
        return None


def _feature_axis(table: FeatureTable | None, size: int, index: Index) -> FactorAxis:
    return IndicatorAxis(size, index) if table is None else FeatureAxis(table, index)


def _mean_norm(values: Any) -> float:
    """Root mean square length of the feature vectors."""
    total = values.multiply(values).sum() if sp.issparse(values) else np.vdot(values, values)
    return float(np.sqrt(total / values.shape[0]))
