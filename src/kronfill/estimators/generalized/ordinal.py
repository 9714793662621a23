"""KKMCEXOrdinal: ordered ratings, with a probability of each level."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from kronfill._types import Floats, Index
from kronfill.data import Observations
from kronfill.errors import DataError, ParameterError
from kronfill.estimators.base import index_pairs
from kronfill.estimators.folds import left_out
from kronfill.estimators.inputs import random_generator, several_targets
from kronfill.estimators.kkmcex import KKMCEX
from kronfill.likelihoods.families import Ordinal
from kronfill.likelihoods.ordered import ordered_link
from kronfill.streaming.long_table import is_long_table

__all__ = ["KKMCEXOrdinal"]

FOLDS = 5
MOST_LEVELS = 100


class KKMCEXOrdinal(KKMCEX):
    """KKMCEX of ordered ratings, and cut points that make probabilities of its predictions.

    Predictions are those of :class:`KKMCEX`. The probability that a rating is at most the k-th
    level is 1 / (1 + exp(slope f - cuts[k])); slope and cuts are the likeliest ones for predictions
    of ratings that were left out of the fit, a fifth at a time.

    Parameters
    ----------
    row_kernel, col_kernel : Kernel or array-like of shape (N, N) and (L, L), optional
        As for :class:`KKMCEX`.
    mu : float or "auto", default=1.0
        As for :class:`KKMCEX`.
    center : {None, "mean", "rows", "cols", "both"}, default="mean"
        As for :class:`KKMCEX`; ratings are seldom near 0.
    solver : "auto" or solver object, default="auto"
        As for :class:`KKMCEX`.
    random_state : int, Generator or None, default=0
        Seed of the fifths.

    Attributes
    ----------
    levels_ : ndarray of shape (n_levels,)
        The distinct ratings, sorted.
    slope_, cuts_ : float, ndarray of shape (n_levels - 1,)
        What makes probabilities of predictions.

    Notes
    -----
    An ordinal likelihood in place of the square was tried, with cut points and function fitted in
    turn: its probabilities of held-out ratings were lower, and it took several times as long (the
    figures are in ``docs/likelihoods.md``). After ``partial_fit`` slope and cuts are those of the
    last fit.

    Examples
    --------
    >>> import numpy as np, kronfill as kf
    >>> rng = np.random.default_rng(0)
    >>> k = kf.kernels.rbf(np.linspace(0, 1, 20), length_scale=0.3)
    >>> X = rng.permutation(np.argwhere(np.ones((20, 20))))[:300]
    >>> y = np.clip(np.round(3 + np.sin(X[:, 0] / 3) + 0.5 * rng.standard_normal(300)), 1, 5)
    >>> est = kf.KKMCEXOrdinal(k, k).fit(X, y)
    >>> est.levels_
    array([1., 2., 3., 4., 5.])
    >>> est.predict_proba([[4, 4]]).round(2)  # of each star
    array([[0.  , 0.02, 0.29, 0.64, 0.05]])
    """

    levels_: Floats
    slope_: float
    cuts_: Floats

    def __init__(
        self,
        row_kernel: Any = None,
        col_kernel: Any = None,
        mu: Any = 1.0,
        center: Any = "mean",
        solver: Any = "auto",
        random_state: Any = 0,
    ) -> None:
        super().__init__(row_kernel, col_kernel, mu, center, solver)
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit to observed ratings.

        Parameters
        ----------
        X : array-like of shape (m, 2) or Observations
            Row and column index of each observed entry, or the observations themselves.
        y : array-like of shape (m,), optional
            Ratings, numbers of a few distinct levels; left out when ``X`` is an
            :class:`~kronfill.Observations`.
        sample_weight : array-like of shape (m,), optional
            How much each entry counts.

        Returns
        -------
        self
        """
        if is_long_table(X) or several_targets(y) is not None:
            msg = f"{type(self).__name__} takes one target in memory; KKMCEX takes more."
            raise ParameterError(msg)
        kernels = self._validated_sides()
        observations = self._observations(X, y, sample_weight, kernels)
        weights = observations.weights
        counted = observations if weights is None else observations.take(weights > 0)
        levels, codes = np.unique(counted.values, return_inverse=True)
        if not 2 <= len(levels) <= MOST_LEVELS:
            msg = (
                f"Ratings must have from 2 to {MOST_LEVELS} distinct levels, got {len(levels)}; "
                "for numbers without levels use KKMCEX."
            )
            raise DataError(msg)
        super().fit(X, y, sample_weight)
        f = self._predicted_without(counted)
        own = np.ones(counted.m) if counted.weights is None else counted.weights
        slope, cuts = ordered_link(codes.astype(float), own, f, len(levels))
        return self._set_link(levels, slope, cuts)

    def _set_link(self, levels: Floats, slope: float, cuts: Floats) -> Self:
        self.levels_, self.slope_, self.cuts_ = levels, slope, cuts
        return self

    def _predicted_without(self, observations: Observations) -> Floats:
        """Predictions of each rating from a fit without its fold, with the mu that was taken."""
        m = observations.m
        folds = min(FOLDS, m)
        label: Index = random_generator(self.random_state).permutation(m) % folds
        plain = KKMCEX(self.row_kernel, self.col_kernel, self.mu_, self.center, self.solver)
        out = np.empty(m)
        splits = [(label != k, label == k) for k in range(folds)]
        for k, fold in enumerate(left_out(plain.fit, observations, splits)):
            out[label == k] = fold.predicted
        return out

    def predict_proba(self, X: Any) -> Floats:
        """Probability of each level at index pairs.

        Parameters
        ----------
        X : array-like of shape (t, 2) or Observations
            Row and column index of each entry asked for.

        Returns
        -------
        ndarray of shape (t, n_levels)
            In the order of ``levels_``.
        """
        check_is_fitted(self)
        return self._shares(self._model.pairs(*index_pairs(self, X)))

    def extrapolate_proba(self, rows: Any = None, cols: Any = None) -> Floats:
        """Probability of each level for rows and columns that are not in the table.

        Parameters
        ----------
        rows, cols : object, optional
            As for :meth:`extrapolate`.

        Returns
        -------
        ndarray of shape (k, l, n_levels)
        """
        return self._shares(self.extrapolate(rows, cols))

    def _shares(self, f: Floats) -> Floats:
        return Ordinal(self.cuts_).probabilities(self.slope_ * f)
