"""MC, KMC and IMC: low-rank factors by alternating ridge regression."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import clone

from kronfill.data import Observations
from kronfill.errors import ConvergenceWarning, ParameterError
from kronfill.estimators.axes import Axis, FeatureAxis, IndicatorAxis, KernelAxis
from kronfill.estimators.base import MatrixRegressor, check_mu, check_rank
from kronfill.estimators.kkmcex import KernelRegressor, set_effects
from kronfill.estimators.model import Bilinear, Combined, Sections, Table
from kronfill.kernels.base import Kernel
from kronfill.kernels.features import FeatureTable
from kronfill.linalg.alternating import (
    ALS,
    Alternation,
    State,
    alternate,
    given_pair,
    leading_pair,
)
from kronfill.linalg.auto import solve_in_factors
from kronfill.linalg.criteria import path_minimum
from kronfill.linalg.effects import AdditiveEffects, EffectsDesign
from kronfill.linalg.halfstep import FactorAlternation, RowAlternation
from kronfill.linalg.ridge import Mask, Sampled
from kronfill.linalg.rowwise import RowWise, RowWiseAlternation, inverse_kernel

__all__ = ["IMC", "KMC", "MC"]

Floats = NDArray[np.float64]
Index = NDArray[np.intp]

FOLDS = 5
FOLDS_LIMIT = 20_000
"""Up to this many observations mu is chosen by cross-validation, beyond by one held-out tenth."""


class FactorisedRegressor(MatrixRegressor):
    """F = W H^T, found by alternation."""

    _small = 5000  # many short steps: waking threads would take longer than the work
    rank: Any
    mu: Any
    center: Any
    solver: Any
    random_state: Any

    def _settings(self) -> Any:
        """Settings of the alternation; the default is :class:`ALS`."""
        settings = ALS() if isinstance(self.solver, str) and self.solver == "auto" else self.solver
        if not isinstance(settings, ALS):
            msg = f"solver must be 'auto' or kf.ALS(...), got {self.solver!r}."
            raise ParameterError(msg)
        return settings

    def _check_parameters(self) -> None:
        check_mu(self.mu)
        check_rank(self.rank)
        self._settings()

    def _fit(self, observations: Observations) -> None:
        self.mu_ = self._held_out_mu(observations) if self.mu == "auto" else float(self.mu)
        self._fit_factors(observations)
        self.solution_.warn(stacklevel=4)

    @abstractmethod
    def _fit_factors(self, observations: Observations) -> None:
        """Fit with mu_ and set the fitted attributes."""

    def _pair(self) -> tuple[Floats, Floats]:
        """The fitted factors in the form in which they can be given as a starting point."""
        return self.W_, self.H_

    def _held_out_mu(self, observations: Observations) -> float:
        """Mu with the smallest error on held-out entries, along warm-started paths.

        Five folds, or one tenth held out once where there are many entries. Above the largest
        value tried, of the size of the data times that of the kernels, the factors are zero.
        """
        folds = _folds(observations)
        if not folds:
            return 1.0
        values = observations.values
        top = float(np.linalg.norm(values - values.mean())) * self._scale() or 1.0
        starts: list[Any] = [self._settings().start] * len(folds)

        def error(mu: float) -> float:
            total = 0.0
            for k, (train, held) in enumerate(folds):
                trial = self._trial(mu, train, starts[k])
                gap = held.values - trial.predict(held)
                total += float(np.sum(gap**2 if held.weights is None else held.weights * gap**2))
                if np.any(trial.H_):  # zero factors are no starting point
                    starts[k] = trial._pair()
            return total

        return path_minimum(error, top * np.logspace(-1, -5, 5))

    def _trial(self, mu: float, train: Observations, start: Any) -> FactorisedRegressor:
        """A quick fit for the choice of mu."""
        settings = replace(self._settings(), sweeps=20, tol=1e-3, start=start)
        trial: FactorisedRegressor = clone(self).set_params(mu=mu, solver=settings)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return trial.fit(train)

    def _scale(self) -> float:
        """Typical size of the square root of the kernel over entries."""
        return 1.0

    def _run(self, problem: Alternation, h: Floats, sampled: Sampled) -> State:
        effects = None if sampled.effects is None else sampled.effects.fit(sampled.values)
        state, self.solution_ = alternate(problem, h, effects, self._settings())
        self.objective_ = state.objective
        self.n_iter_ = self.solution_.iterations
        return state

    def _start_values(self, sampled: Sampled, axis: Axis) -> Floats | None:
        """H at the observed columns, unless the start is worked out in factor space."""
        return None

    def _rank(self) -> int:
        """Number of factors; more than the matrix has rows or columns would add nothing."""
        return min(int(self.rank), *self.shape_)

    def _rng(self) -> np.random.Generator:
        if isinstance(self.random_state, np.random.Generator):
            return self.random_state
        if isinstance(self.random_state, np.random.RandomState):
            return np.random.default_rng(self.random_state.randint(2**31))
        return np.random.default_rng(self.random_state)

    def _random(self, kind: str, size: int) -> Floats:
        rng = self._rng()
        shape = (size, self._rank())
        return rng.random(shape) if kind == "uniform" else rng.standard_normal(shape)


def fit_in_factors(estimator: FactorisedRegressor, row: Axis, col: Axis, sampled: Sampled) -> State:
    """Alternate over coefficients of the two axes, only observed rows and columns entering."""
    shape = (len(row.items), len(col.items))
    mask = Mask(row.at, col.at, shape, sampled.weights)
    design = None
    if sampled.effects is not None:
        design = EffectsDesign(row.at, col.at, shape, sampled.effects.kind, sampled.weights)
    inner = Sampled(mask, sampled.values, design)
    values = estimator._start_values(sampled, col)
    if values is None:
        core = _start_core(estimator, row.phi, col.phi, inner)
        values = col.phi @ leading_pair(core, estimator._rank(), estimator._rng())[1]
    problem = FactorAlternation(row.phi, col.phi, inner, estimator.mu_)
    state = estimator._run(problem, values, inner)
    effects = _expanded(state.effects, row.items, col.items, sampled.shape)
    set_effects(estimator, effects)
    return replace(state, effects=effects)


def _start_core(estimator: FactorisedRegressor, p: Floats, q: Floats, sampled: Sampled) -> Floats:
    """X whose leading singular vectors make the starting point."""
    if estimator._settings().start == "kkmcex":
        return solve_in_factors(p, q, sampled, estimator.mu_).core
    return np.asarray(p.T @ (sampled.sparse(_centred(sampled)) @ q))


def _expanded(
    effects: AdditiveEffects | None, rows: Index, cols: Index, shape: tuple[int, int]
) -> AdditiveEffects | None:
    if effects is None:
        return None
    row, col = np.zeros(shape[0]), np.zeros(shape[1])
    row[rows], col[cols] = effects.row, effects.col
    return AdditiveEffects(effects.mean, row, col)


def _folds(observations: Observations) -> list[tuple[Observations, Observations]]:
    """Training and held-out entries, the same for the same observations."""
    m = observations.m
    if m < 2:
        return []
    count = min(FOLDS, m) if m <= FOLDS_LIMIT else 10
    label = np.random.default_rng(0).permutation(m) % count
    chosen = range(count if m <= FOLDS_LIMIT else 1)
    return [(observations.take(label != k), observations.take(label == k)) for k in chosen]


def _centred(sampled: Sampled) -> Floats:
    """Values less their effects: what the factors have to explain at the start."""
    return sampled.values if sampled.effects is None else sampled.effects.remove(sampled.values)


class MC(FactorisedRegressor):
    r"""Base matrix completion by alternating ridge regressions, equation (1).

    .. math:: \min_{W,H} \|P_{S_m}(M - W H^T)\|_F^2 + \mu (\|W\|_F^2 + \|H\|_F^2)

    Rows decouple: each half-step is one rank x rank system per row (column), spread over threads.

    Parameters
    ----------
    shape : tuple of int, optional
        Size of the matrix; by default that of the observations, or the largest index plus one.
    rank : int, default=10
        Number of latent factors; at most min(N, L) are used.
    mu : float or "auto", default=1.0
        Ridge weight; "auto" takes the value with the smallest error on held-out entries.
    center : {None, "mean", "rows", "cols", "both"}, default=None
        Unpenalised additive effects, fitted along.
    solver : "auto" or ALS, default="auto"
        ``kf.ALS(sweeps=..., tol=..., start=..., accelerate=...)``.
    warm_start : bool, default=False
        Start from the factors of the previous fit.
    random_state : int, Generator or None, default=0
        Seed of random starting points.

    Attributes
    ----------
    W_, H_ : ndarray of shape (N, rank) and (L, rank)
        The factors.
    objective_ : float
        The objective reached; ``solution_.history`` has it after each sweep.
    mu_, mean_, row_effects_, col_effects_, solution_, n_iter_, shape_ :
        As for :class:`KKMCEX`.

    Notes
    -----
    Nothing is known about rows and columns: one without observations has a factor of zeros, so its
    prediction is the centre (``mean_`` plus effects), which is 0 without ``center``.

    Examples
    --------
    >>> import numpy as np, kronfill as kf
    >>> truth = np.outer([1.0, 2.0, 3.0], [1.0, -1.0, 2.0])
    >>> X = np.array([[0, 0], [0, 1], [0, 2], [1, 0], [1, 2], [2, 1]])
    >>> est = kf.MC(shape=(3, 3), rank=1, mu=1e-4).fit(X, truth[X[:, 0], X[:, 1]])
    >>> est.predict([[2, 2]]).round(1)
    array([6.])
    """

    def __init__(
        self,
        shape: Any = None,
        rank: Any = 10,
        mu: Any = 1.0,
        center: Any = None,
        solver: Any = "auto",
        warm_start: bool = False,
        random_state: Any = 0,
    ) -> None:
        self.shape = shape
        self.rank = rank
        self.mu = mu
        self.center = center
        self.solver = solver
        self.warm_start = warm_start
        self.random_state = random_state

    def _axis_sizes(self) -> tuple[int | None, int | None]:
        self._check_parameters()
        if self.shape is None:
            return None, None
        try:
            n, l = (check_rank(size, "each entry of shape") for size in self.shape)
        except (TypeError, ValueError):
            msg = f"shape must be two positive integers or None, got {self.shape!r}."
            raise ParameterError(msg) from None
        return n, l

    def _fit_factors(self, observations: Observations) -> None:
        sampled = self._sampled(observations, self.center)
        h = self._start(sampled)
        state = self._run(RowAlternation(sampled, self.mu_), h, sampled)
        self.W_, self.H_ = state.w, state.h
        set_effects(self, state.effects)
        bases = Table(self.W_), Table(self.H_)
        self._model = Bilinear(*bases, None, state.effects, self.shape_)

    def _start(self, sampled: Sampled) -> Floats:
        rank, (n, l) = self._rank(), sampled.shape
        if self.warm_start and getattr(self, "H_", np.empty(0)).shape == (l, rank):
            return self.H_
        start = self._settings().start
        if not isinstance(start, str):
            return given_pair(start, ((n, rank), (l, rank)))[1]
        if start in ("uniform", "gaussian"):
            return self._random(start, l)
        # KKMCEX with identity kernels is the observed matrix, shrunk: the same singular vectors.
        return leading_pair(sampled.sparse(_centred(sampled)), rank, self._rng())[1]


class KMC(FactorisedRegressor, KernelRegressor):
    r"""Kernel matrix completion, equation (2).

    .. math::
        \min_{W,H} \|P_{S_m}(M - W H^T)\|_F^2
        + \mu (\mathrm{Tr}\, W^T K_w^+ W + \mathrm{Tr}\, H^T K_h^+ H)

    with the columns of W in the range of K_w and those of H in the range of K_h. With H fixed this
    is KKMCEX with the column kernel H H^T, so each half-step is solved exactly and no kernel is
    ever inverted.

    Parameters
    ----------
    row_kernel, col_kernel : Kernel or array-like of shape (N, N) and (L, L), optional
        As for :class:`KKMCEX`.
    rank : int, default=10
        Number of latent factors; at most min(N, L) are used.
    mu : float or "auto", default=1.0
        Ridge weight; "auto" takes the value with the smallest error on held-out entries.
    center : {None, "mean", "rows", "cols", "both"}, default=None
        Unpenalised additive effects, fitted along.
    solver : "auto", ALS or RowWise, default="auto"
        ``kf.ALS(...)``: exact half-steps; ``kf.RowWise(...)``: the solver of the paper's
        experiments, for comparison.
    random_state : int, Generator or None, default=0
        Seed of random starting points.

    Attributes
    ----------
    W_, H_ : ndarray of shape (N, rank) and (L, rank)
        The factors.
    objective_ : float
        The objective reached; ``solution_.history`` has it after each sweep.
    mu_, mean_, row_effects_, col_effects_, solution_, n_iter_, shape_ :
        As for :class:`KKMCEX`.

    See Also
    --------
    IMC : The same from feature matrices.

    Examples
    --------
    >>> import numpy as np, kronfill as kf
    >>> k = kf.kernels.rbf(np.linspace(0, 1, 30), length_scale=0.3)
    >>> X = np.argwhere(np.random.default_rng(0).random((30, 30)) < 0.3)
    >>> y = np.sin(X[:, 0] / 5) * np.cos(X[:, 1] / 5)
    >>> est = kf.KMC(k, k, rank=3, mu=1e-2).fit(X, y)
    >>> est.W_.shape, round(est.score(X, y), 2)
    ((30, 3), 1.0)
    """

    def __init__(
        self,
        row_kernel: Any = None,
        col_kernel: Any = None,
        rank: Any = 10,
        mu: Any = 1.0,
        center: Any = None,
        solver: Any = "auto",
        random_state: Any = 0,
    ) -> None:
        self.row_kernel = row_kernel
        self.col_kernel = col_kernel
        self.rank = rank
        self.mu = mu
        self.center = center
        self.solver = solver
        self.random_state = random_state

    def _settings(self) -> Any:
        return self.solver if isinstance(self.solver, RowWise) else super()._settings()

    def _axis_sizes(self) -> tuple[int | None, int | None]:
        self._check_parameters()
        if isinstance(self.solver, RowWise) and self.center is not None:
            msg = "RowWise is the paper's solver, which has no effects; use center=None."
            raise ParameterError(msg)
        return super()._axis_sizes()

    def _fit_factors(self, observations: Observations) -> None:
        row_kernel, col_kernel = self._resolved()
        sampled = self._sampled(observations, self.center)
        if isinstance(self.solver, RowWise):
            self._fit_rowwise(row_kernel, col_kernel, sampled)
        else:
            row = KernelAxis(row_kernel, sampled.rows)
            col = KernelAxis(col_kernel, sampled.cols)
            state = fit_in_factors(self, row, col, sampled)
            bases = row.basis(state.w), col.basis(state.h)
            self._model = Bilinear(*bases, None, state.effects, self.shape_)
            self.W_, self.H_ = bases[0].known(None), bases[1].known(None)

    def _scale(self) -> float:
        return float(np.prod([np.sqrt(kernel.diagonal().mean()) for kernel in self._resolved()]))

    def _start_values(self, sampled: Sampled, axis: Axis) -> Floats | None:
        """H at the observed columns, unless the start is worked out in factor space."""
        start, rank = self._settings().start, self._rank()
        if not isinstance(start, str):
            n, l = sampled.shape
            return given_pair(start, ((n, rank), (l, rank)))[1][axis.items]
        if start in ("uniform", "gaussian"):
            return self._random(start, sampled.shape[1])[axis.items]
        return None

    def _fit_rowwise(self, row_kernel: Kernel, col_kernel: Kernel, sampled: Sampled) -> None:
        n, l = sampled.shape
        rank, start = self._rank(), self._settings().start
        row_inverse = inverse_kernel(row_kernel.to_array(), "row_kernel")
        col_inverse = inverse_kernel(col_kernel.to_array(), "col_kernel")
        if not isinstance(start, str):
            w, h = given_pair(start, ((n, rank), (l, rank)))
        elif start in ("uniform", "gaussian"):
            both = self._random(start, n + l)
            w, h = both[:n], both[n:]
        else:
            first = KMC(row_kernel, col_kernel, rank, self.mu, solver=ALS(sweeps=1, start=start))
            row = KernelAxis(row_kernel, sampled.rows)
            col = KernelAxis(col_kernel, sampled.cols)
            first.shape_, first.mu_ = self.shape_, self.mu_
            state = fit_in_factors(first, row, col, sampled)
            w, h = row.basis(state.w).known(None), col.basis(state.h).known(None)
        problem = RowWiseAlternation((row_inverse, col_inverse), sampled, self.mu_, w)
        state = self._run(problem, h, sampled)
        self.W_, self.H_ = state.w, state.h
        # W = K_w (K_w^-1 W): the representer form extends to new rows.
        row_basis = Combined(Sections(row_kernel, np.arange(n)), row_inverse @ state.w)
        col_basis = Combined(Sections(col_kernel, np.arange(l)), col_inverse @ state.h)
        self._model = Bilinear(row_basis, col_basis, None, None, self.shape_)
        set_effects(self, None)


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

    def _start_values(self, sampled: Sampled, axis: Axis) -> Floats | None:
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


def _feature_axis(table: FeatureTable | None, size: int, index: Index) -> Axis:
    return IndicatorAxis(size, index) if table is None else FeatureAxis(table, index)


def _mean_norm(values: Any) -> float:
    """Root mean square length of the feature vectors."""
    total = values.multiply(values).sum() if sp.issparse(values) else np.vdot(values, values)
    return float(np.sqrt(total / values.shape[0]))
