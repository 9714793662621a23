"""Intervals that hold whatever the data: split conformal and jackknife+, for every method.

Both rest on one assumption only, that the entry asked about could as well have been one of the
observed ones (exchangeability). It fails for a row or a column without observations: such entries
are refused.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral, Real
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from kronfill._types import Floats, Index
from kronfill.criteria.exact import leave_one_out, leave_one_out_by
from kronfill.data import Observations
from kronfill.errors import DataError, ParameterError
from kronfill.estimators.base import MatrixRegressor, index_pairs, validated
from kronfill.estimators.folds import left_out
from kronfill.estimators.gaussian_process import GaussianProcessRegressor, gaussian_process
from kronfill.estimators.inputs import random_generator
from kronfill.estimators.wrapping import Wrapping
from kronfill.ridge.problem import RidgeProblem
from kronfill.uncertainty.posterior import DualPosterior

__all__ = ["ConformalRegressor"]


METHODS = ("split", "jackknife+")
EXACT_LIMIT = 3000
"""Up to this many observations every one is left out; beyond, folds are."""
CHUNK_FLOATS = 8_000_000


class ConformalRegressor(Wrapping):
    """Prediction intervals with guaranteed coverage, around any of the five methods.

    Parameters
    ----------
    estimator : MC, KMC, IMC, KKMCEX or RRMCEX
        The method; it is cloned, not changed.
    method : {"split", "jackknife+"}, default="split"
        "split" fits to a part of the observations and takes the width from the errors on the rest:
        one fit, coverage at least as asked. "jackknife+" uses every observation for both, by
        leaving each one out: narrower where observations are few, coverage at least
        1 - 2 (1 - coverage), in practice about as asked. For KKMCEX and RRMCEX with up to 3,000
        observations it is exact and costs one factorisation; elsewhere `folds` of the observations
        are left out together (CV+).
    calibration : float, default=0.2
        Share of the observations that "split" keeps for the width.
    folds : int, default=10
        Number of fits of "jackknife+" where single observations cannot be left out.
    random_state : int, default=0
        Seed of the split and of the folds.

    Attributes
    ----------
    estimator_ : estimator
        The fitted method: to the training part for "split", to everything for "jackknife+".
    scores_ : ndarray
        Absolute errors on the observations left out.

    Notes
    -----
    The interval is for the observed value of an entry, noise included, and holds on average over
    entries: not for each row by itself. An entry in a row or a column of which nothing was observed
    is no draw from the same lot as the observed ones, so that no width follows from their errors;
    :meth:`predict_interval` refuses it (unless the matrix is a single row or column, where every
    entry that is left out is of this kind). There the model's own standard deviation is all there
    is: ``KKMCEX.predict_std``. Weights enter the fit, not the errors. With ``mu="auto"`` the exact
    jackknife+ keeps the mu chosen from all observations.

    Observations must be missing at random for the coverage to carry over to the missing entries.

    References
    ----------
    R. Foygel Barber, E. J. Candes, A. Ramdas, R. J. Tibshirani, "Predictive inference with the
    jackknife+", Annals of Statistics 49 (2021).

    Examples
    --------
    >>> import numpy as np, kronfill as kf
    >>> from kronfill.estimators.conformal import ConformalRegressor
    >>> rng = np.random.default_rng(0)
    >>> k = kf.kernels.rbf(np.linspace(0, 1, 30), length_scale=0.3)
    >>> X = rng.permutation(np.argwhere(np.ones((30, 30))))
    >>> y = np.sin(X[:, 0] / 5) * np.cos(X[:, 1] / 5) + 0.1 * rng.standard_normal(900)
    >>> model = ConformalRegressor(kf.KKMCEX(k, k, mu=0.1)).fit(X[:500], y[:500])
    >>> low, high = model.predict_interval(X[500:], coverage=0.9).T
    >>> bool(np.mean((low <= y[500:]) & (y[500:] <= high)) > 0.85)
    True
    """

    def __init__(
        self,
        estimator: Any,
        method: str = "split",
        calibration: float = 0.2,
        folds: int = 10,
        random_state: int = 0,
    ) -> None:
        self.estimator = estimator
        self.method = method
        self.calibration = calibration
        self.folds = folds
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the method and measure its errors on observations left out.

        Parameters
        ----------
        X : array-like of shape (m, 2) or Observations
            As for the method.
        y : array-like of shape (m,), optional
            As for the method.
        sample_weight : array-like of shape (m,), optional
            As for the method.

        Returns
        -------
        self
        """
        self._check_parameters()
        model = cast("MatrixRegressor", clone(self.estimator))
        observations = validated(model, X, y, sample_weight)[1]
        if observations.m < 2:
            msg = "Intervals need at least 2 observations: one to fit, one to measure an error."
            raise DataError(msg)
        if self.method == "split":
            self._bounds = self._split(model, observations)
        elif isinstance(model, GaussianProcessRegressor) and observations.m <= EXACT_LIMIT:
            self._bounds = self._jackknife(model, observations)
        else:
            self._bounds = self._cross_validation(model, observations)
        self._hand_out()
        self.n_features_in_ = 2
        return self

    def predict_interval(self, X: Any, coverage: float = 0.9) -> Floats:
        """Interval for the value of each entry.

        Parameters
        ----------
        X : array-like of shape (t, 2) or Observations
            Row and column index of each entry asked for; rows and columns must have observations,
            for "split" in the part that was fitted to.
        coverage : float, default=0.9
            Share of entries whose value the interval is to contain.

        Returns
        -------
        ndarray of shape (t, 2)
            Lower and upper ends; infinite where there are too few observations for this coverage.
        """
        check_is_fitted(self)
        if isinstance(coverage, bool) or not isinstance(coverage, Real) or not 0 < coverage < 1:
            msg = f"coverage must lie between 0 and 1, got {coverage!r}."
            raise ParameterError(msg)
        self._refuse_cold(X)
        return np.column_stack(self._bounds.at(X, float(coverage)))

    def __sklearn_is_fitted__(self) -> bool:
        return "_bounds" in vars(self)

    def _hand_out(self) -> None:
        self.estimator_, self.scores_ = self._bounds.model, self._bounds.errors()

    def __getstate__(self) -> Any:
        state: dict[str, Any] = dict(super().__getstate__())
        for name in ("estimator_", "scores_"):  # parts of the bounds
            state.pop(name, None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "_bounds" in state:
            self._hand_out()

    # The three ways.

    def _split(self, model: MatrixRegressor, observations: Observations) -> LeftOutErrors:
        m = observations.m
        count = min(max(1, round(self.calibration * m)), m - 1)
        held = np.zeros(m, dtype=bool)
        held[random_generator(self.random_state).choice(m, size=count, replace=False)] = True
        (fold,) = left_out(model.fit, observations, [(~held, held)])
        # Given the fit, held-out entries of warm rows and columns are like those asked about.
        cold = _cold(fold.train, fold.held.rows, fold.held.cols)
        return Around(model, np.sort(np.abs(fold.gap)[~cold]))

    def _jackknife(
        self, model: GaussianProcessRegressor, observations: Observations
    ) -> LeftOutErrors:
        model.fit(observations)
        problem = _dual_problem(model)
        factor = gaussian_process(model).dual_factor
        if factor is not None:
            residuals = leave_one_out_by(factor, problem.sampled)
        else:
            residuals = leave_one_out(problem, np.array([problem.mu]))[0]
        lonely = np.isnan(residuals)  # left out, nothing is known about its effect: any error
        return LeavingOneOut(model, np.where(lonely, 0.0, residuals), lonely)

    def _cross_validation(
        self, model: MatrixRegressor, observations: Observations
    ) -> LeftOutErrors:
        m = observations.m
        folds = min(self.folds, m)
        label = random_generator(self.random_state).permutation(m) % folds
        splits = ((label != k, label == k) for k in range(folds))
        found = list(left_out(lambda part: clone(model).fit(part), observations, splits))
        scores = np.empty(m)
        for k, fold in enumerate(found):
            scores[label == k] = np.abs(fold.gap)
        models = tuple(fold.model for fold in found)
        return LeavingFoldsOut(model.fit(observations), scores, models, label)

    # Input.

    def _check_parameters(self) -> None:
        if not isinstance(self.estimator, MatrixRegressor):
            msg = (
                "estimator must be one of MC, KMC, IMC, KKMCEX and RRMCEX, got "
                f"{type(self.estimator).__name__}."
            )
            raise ParameterError(msg)
        if self.method not in METHODS:
            msg = f"method must be one of {METHODS}, got {self.method!r}."
            raise ParameterError(msg)
        if not isinstance(self.calibration, Real) or not 0 < self.calibration < 1:
            msg = f"calibration must lie between 0 and 1, got {self.calibration!r}."
            raise ParameterError(msg)
        whole = isinstance(self.folds, Integral) and not isinstance(self.folds, bool)
        if not whole or self.folds < 2:
            msg = f"folds must be an integer of at least 2, got {self.folds!r}."
            raise ParameterError(msg)

    def _refuse_cold(self, X: Any) -> None:
        model = self.estimator_
        rows, cols = index_pairs(model, X)
        bad = np.flatnonzero(_cold(model.observations_, rows, cols))
        if len(bad):
            row, col = int(rows[bad[0]]), int(cols[bad[0]])
            axis = "row" if model.observations_.row_counts[row] == 0 else "column"
            part = " in the part that was fitted to" if self.method == "split" else ""
            msg = (
                f"{len(bad)} of {len(rows)} entries have no interval, the first at ({row}, {col}), "
                f"whose {axis} has no observation{part}. Such an entry is not exchangeable with "
                "the observed ones: their errors say nothing about it. Leave it out, or use "
                "predict_std of KKMCEX or RRMCEX."
            )
            raise DataError(msg)


class LeftOutErrors(ABC):
    """A fitted method and its errors on observations left out: ends of intervals follow."""

    model: Any

    @abstractmethod
    def errors(self) -> Floats:
        """Absolute errors on the observations left out."""

    @abstractmethod
    def at(self, X: Any, coverage: float) -> tuple[Floats, Floats]:
        """Lower and upper ends at index pairs."""


@dataclass(frozen=True, eq=False)
class Around(LeftOutErrors):
    """The same width on both sides of every prediction; the errors are sorted."""

    model: Any
    scores: Floats

    def errors(self) -> Floats:
        return self.scores

    def at(self, X: Any, coverage: float) -> tuple[Floats, Floats]:
        middle, width = self.model.predict(X), _smallest(self.scores, coverage)
        return middle - width, middle + width


@dataclass(frozen=True, eq=False)
class LeavingOneOut(LeftOutErrors):
    """Jackknife+ from the residuals r: f^(-i)(t) = f(t) - lambda_ti r_i.

    Where an observation is the only one to tell an effect (``lonely``), r is 0 and the error any.
    """

    model: Any
    residuals: Floats
    lonely: NDArray[np.bool_]

    def errors(self) -> Floats:
        return np.where(self.lonely, np.inf, np.abs(self.residuals))

    @cached_property
    def _posterior(self) -> DualPosterior:
        return DualPosterior(_dual_problem(self.model), gaussian_process(self.model).dual_factor)

    def __getstate__(self) -> dict[str, Any]:
        return {name: part for name, part in vars(self).items() if name != "_posterior"}

    def at(self, X: Any, coverage: float) -> tuple[Floats, Floats]:
        rows, cols = index_pairs(self.model, X)
        middle, targets = self.model.predict(X), gaussian_process(self.model).targets(rows, cols)
        errors, low, high = self.errors(), np.empty(len(rows)), np.empty(len(rows))
        for part in _slices(len(rows), len(errors)):
            moved = self._posterior.influence(targets.take(part)) * self.residuals
            low[part], high[part] = _plus(middle[part, None] - moved, errors, coverage)
        return low, high


@dataclass(frozen=True, eq=False)
class LeavingFoldsOut(LeftOutErrors):
    """CV+: the fit without the fold of i in place of that without i."""

    model: Any
    scores: Floats
    models: tuple[MatrixRegressor, ...]
    label: Index

    def errors(self) -> Floats:
        return self.scores

    def at(self, X: Any, coverage: float) -> tuple[Floats, Floats]:
        predicted = np.column_stack([one.predict(X) for one in self.models])
        low, high = np.empty(len(predicted)), np.empty(len(predicted))
        for part in _slices(len(predicted), len(self.label)):
            left_out = predicted[part][:, self.label]
            low[part], high[part] = _plus(left_out, self.scores, coverage)
        return low, high


def _dual_problem(model: Any) -> RidgeProblem:
    """The problem that a fitted method has solved."""
    process = gaussian_process(model)
    row, col = process.priors
    return RidgeProblem(row.kernel, col.kernel, process.sampled, process.mu)


def _cold(observations: Observations, rows: Any, cols: Any) -> NDArray[np.bool_]:
    """Whether the row or the column of each entry is without observations.

    In a matrix of one row every column has one entry: whichever is left out, its column is cold, so
    that there cold columns are exchangeable. The same goes for a single column.
    """
    n, l = observations.shape
    cold_row, cold_col = observations.row_counts == 0, observations.col_counts == 0
    return np.asarray((cold_row[rows] & (l > 1)) | (cold_col[cols] & (n > 1)))


def _rank(count: int, coverage: float) -> int:
    """The least k with k / (count + 1) >= coverage."""
    return int(np.ceil(round((count + 1) * coverage, 9)))


def _smallest(scores: Floats, coverage: float) -> float:
    """The k-th smallest of sorted scores: that of a further one is below it as often as asked."""
    k = _rank(len(scores), coverage)
    return float(scores[k - 1]) if k <= len(scores) else float("inf")


def _plus(left_out: Floats, scores: Floats, coverage: float) -> tuple[Floats, Floats]:
    """Jackknife+: k-th largest of f^(-i) - s_i and k-th smallest of f^(-i) + s_i, row by row."""
    m = len(scores)
    k = _rank(m, coverage)
    if k > m:
        return np.full(len(left_out), -np.inf), np.full(len(left_out), np.inf)
    low = np.partition(left_out - scores, m - k, axis=1)[:, m - k]
    return low, np.partition(left_out + scores, k - 1, axis=1)[:, k - 1]


def _slices(count: int, width: int) -> Iterator[slice]:
    step = max(1, CHUNK_FLOATS // max(1, width))
    return (slice(first, min(first + step, count)) for first in range(0, count, step))
