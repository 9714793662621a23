"""Sets of classes and intervals of counts that hold whatever the data: split conformal prediction.

As for :class:`~kronfill.ConformalRegressor` the one assumption is that the entry asked about could
as well have been one of the observed ones; entries of rows and columns without observations are
refused.
"""

from __future__ import annotations

from abc import abstractmethod
from numbers import Real
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.validation import check_is_fitted

from kronfill._types import Flags, Floats
from kronfill.data import Observations
from kronfill.errors import DataError, ParameterError
from kronfill.estimators.base import index_pairs, validated
from kronfill.estimators.conformal.calibration import cold
from kronfill.estimators.conformal.drawing import drawn_entries, warn_if_uneven
from kronfill.estimators.generalized.classifier import KKMCEXClassifier, as_codes, fit_codes
from kronfill.estimators.generalized.poisson import KKMCEXPoisson
from kronfill.estimators.wrapping import Wrapping

__all__ = ["ConformalClassifier", "ConformalCounts"]


class SplitConformal(BaseEstimator):  # type: ignore[misc]
    """A part of the observations is fitted to, the rest says how far one must go."""

    _wants: type
    """The methods that it takes."""
    estimator_: Any
    scores_: Floats

    def __init__(self, estimator: Any, calibration: float = 0.2, random_state: int = 0) -> None:
        self.estimator = estimator
        self.calibration = calibration
        self.random_state = random_state

    @abstractmethod
    def _scores(self, model: Any, held: Observations) -> Floats:
        """How badly the model predicts the values held out, entry by entry."""

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the method and measure its errors on observations left out.

        Parameters
        ----------
        X, y, sample_weight :
            As for the method.

        Returns
        -------
        self
        """
        if not isinstance(self.estimator, self._wants):
            name = self._wants.__name__
            msg = f"estimator must be a {name}, got {type(self.estimator).__name__}."
            raise ParameterError(msg)
        if not isinstance(self.calibration, Real) or not 0 < float(self.calibration) < 1:
            msg = f"calibration must lie between 0 and 1, got {self.calibration!r}."
            raise ParameterError(msg)
        model = clone(self.estimator)
        observations = self._observed(model, X, y, sample_weight)
        m = observations.m
        if m < 2:
            msg = "This needs at least 2 observations: one to fit, one to measure an error."
            raise DataError(msg)
        warn_if_uneven(observations, "These know no weights: look at rare rows by themselves.")
        held = drawn_entries(m, float(self.calibration), self.random_state)
        train, rest = observations.take(~held), observations.take(held)
        self._fit_part(model, train)
        # Given the fit, held-out entries of warm rows and columns are like those asked about.
        warm = ~cold(train, rest.rows, rest.cols)
        scores = self._scores(model, rest.take(warm)) if warm.any() else np.empty(0)
        self.estimator_, self.scores_ = model, np.sort(scores)
        self.n_features_in_ = 2
        return self

    def _observed(self, model: Any, X: Any, y: Any, sample_weight: Any) -> Observations:
        return validated(model, X, y, sample_weight)[1]

    def _fit_part(self, model: Any, train: Observations) -> None:
        model.fit(train)

    def _limit(self, X: Any, coverage: Any) -> float:
        """The score that a share ``coverage`` of entries does not exceed; infinite for too few."""
        check_is_fitted(self)
        real = isinstance(coverage, Real) and not isinstance(coverage, bool)
        if not real or not 0 < float(coverage) < 1:
            msg = f"coverage must lie between 0 and 1, got {coverage!r}."
            raise ParameterError(msg)
        rows, cols = index_pairs(self.estimator_, X)
        bad = np.flatnonzero(cold(self.estimator_.observations_, rows, cols))
        if len(bad):
            entry = (int(rows[bad[0]]), int(cols[bad[0]]))
            msg = (
                f"{len(bad)} of {len(rows)} entries, the first at {entry}, are of a row or column "
                "without an observation in the part that was fitted to. Such an entry is not "
                "exchangeable with the observed ones: their errors say nothing about it. Leave it "
                "out, or use predict_std of the method."
            )
            raise DataError(msg)
        rank = int(np.ceil(float(coverage) * (len(self.scores_) + 1) - 1e-9))
        return float(self.scores_[rank - 1]) if rank <= len(self.scores_) else np.inf

    def __sklearn_is_fitted__(self) -> bool:
        return "estimator_" in vars(self)

    def save(self, path: Any) -> None:
        """Write it to a file, which :func:`kronfill.load` reads.

        Parameters
        ----------
        path : str or path
            The file, by custom with the ending ``.kf``.
        """
        from kronfill.io import save

        save(self, path)


class ConformalClassifier(ClassifierMixin, SplitConformal):  # type: ignore[misc]
    """Sets of classes with guaranteed coverage, around a classifier of entries.

    Parameters
    ----------
    estimator : KKMCEXClassifier
        The method; it is cloned, not changed.
    calibration : float, default=0.2
        Share of the observations that is not fitted to.
    random_state : int, default=0
        Seed of the split.

    Attributes
    ----------
    estimator_ : KKMCEXClassifier
        Fitted to the training part.
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.
    scores_ : ndarray
        One minus the probability of the label, of the observations not fitted to; sorted.

    Notes
    -----
    The set of an entry has the classes whose probability is at least one minus the quantile of the
    scores: the smallest sets for this coverage on average (M. Sadinle, J. Lei, L. Wasserman, "Least
    ambiguous set-valued classifiers with bounded error levels", 2019). It may be empty, or have all
    classes. Coverage holds on average over entries, not for each class by itself.

    Examples
    --------
    >>> import numpy as np, kronfill as kf
    >>> rng = np.random.default_rng(0)
    >>> k = kf.kernels.rbf(np.linspace(0, 1, 30), length_scale=0.3)
    >>> X = rng.permutation(np.argwhere(np.ones((30, 30))))
    >>> y = np.sin(X[:, 0] / 5) * np.cos(X[:, 1] / 5) + 0.3 * rng.standard_normal(900) > 0
    >>> model = kf.ConformalClassifier(kf.KKMCEXClassifier(k, k, mu=0.1)).fit(X[:500], y[:500])
    >>> sets = model.predict_set(X[500:], coverage=0.9)
    >>> bool(sets[np.arange(400), y[500:].astype(int)].mean() > 0.86)
    True
    """

    _wants = KKMCEXClassifier

    def _observed(self, model: Any, X: Any, y: Any, sample_weight: Any) -> Observations:
        observations, self._classes = as_codes(model, X, y, sample_weight)
        return observations

    def _fit_part(self, model: Any, train: Observations) -> None:
        self.classes_ = fit_codes(model, train, self.__dict__.pop("_classes")).classes_

    def _scores(self, model: Any, held: Observations) -> Floats:
        share = model.predict_proba(held)
        return np.asarray(1.0 - share[np.arange(held.m), held.values.astype(np.intp)])

    def predict_set(self, X: Any, coverage: float = 0.9) -> Flags:
        """Which classes each entry may have.

        Parameters
        ----------
        X : array-like of shape (t, 2) or Observations
            Row and column index of each entry asked for; rows and columns must have observations in
            the part that was fitted to.
        coverage : float, default=0.9
            Share of entries whose class the set is to contain.

        Returns
        -------
        ndarray of bool, shape (t, n_classes)
        """
        limit = self._limit(X, coverage)
        return np.asarray(1.0 - self.estimator_.predict_proba(X) <= limit)

    def predict(self, X: Any) -> NDArray[Any]:
        """The likeliest class at index pairs.

        Parameters
        ----------
        X : array-like of shape (t, 2) or Observations
            Row and column index of each entry asked for.

        Returns
        -------
        ndarray of shape (t,)
        """
        check_is_fitted(self)
        return np.asarray(self.estimator_.predict(X))

    def predict_proba(self, X: Any) -> Floats:
        """Probability of each class at index pairs.

        Parameters
        ----------
        X : array-like of shape (t, 2) or Observations
            Row and column index of each entry asked for.

        Returns
        -------
        ndarray of shape (t, n_classes)
        """
        check_is_fitted(self)
        return np.asarray(self.estimator_.predict_proba(X))


class ConformalCounts(SplitConformal, Wrapping):
    """Intervals of counts with guaranteed coverage.

    Parameters
    ----------
    estimator : KKMCEXPoisson
        The method; it is cloned, not changed.
    calibration : float, default=0.2
        Share of the observations that is not fitted to.
    random_state : int, default=0
        Seed of the split.

    Attributes
    ----------
    estimator_ : KKMCEXPoisson
        Fitted to the training part.
    scores_ : ndarray
        abs(count - mean) / sqrt(mean) of the observations not fitted to; sorted.

    Notes
    -----
    The interval grows with the root of the expected count, as counts scatter, and has whole ends,
    none below 0.

    Examples
    --------
    >>> import numpy as np, kronfill as kf
    >>> rng = np.random.default_rng(0)
    >>> k = kf.kernels.rbf(np.linspace(0, 1, 30), length_scale=0.3)
    >>> X = rng.permutation(np.argwhere(np.ones((30, 30))))
    >>> y = rng.poisson(np.exp(1 + np.sin(X[:, 0] / 5) * np.cos(X[:, 1] / 5)))
    >>> model = kf.ConformalCounts(kf.KKMCEXPoisson(k, k, mu=0.1)).fit(X[:500], y[:500])
    >>> low, high = model.predict_interval(X[500:], coverage=0.9).T
    >>> bool(np.mean((low <= y[500:]) & (y[500:] <= high)) > 0.8)  # of about 0.9 on average
    True
    """

    _wants = KKMCEXPoisson

    def _scores(self, model: Any, held: Observations) -> Floats:
        mean = model.predict(held)
        return np.asarray(np.abs(held.values - mean) / np.sqrt(mean))

    def predict_interval(self, X: Any, coverage: float = 0.9) -> Floats:
        """Interval for the count of each entry.

        Parameters
        ----------
        X : array-like of shape (t, 2) or Observations
            Row and column index of each entry asked for; rows and columns must have observations in
            the part that was fitted to.
        coverage : float, default=0.9
            Share of entries whose count the interval is to contain.

        Returns
        -------
        ndarray of shape (t, 2)
            Lower and upper ends, whole numbers; the upper one is infinite where there are too few
            observations for this coverage.
        """
        limit = self._limit(X, coverage)
        mean = self.estimator_.predict(X)
        # A count inside is inside the rounded interval; the small number keeps one on the edge.
        low = np.maximum(0.0, np.ceil(mean - limit * np.sqrt(mean) - 1e-9))
        return np.column_stack([low, np.floor(mean + limit * np.sqrt(mean) + 1e-9)])
