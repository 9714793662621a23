"""KKMCEXOrdinal: ordered ratings, with a probability of each level."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from kronfill._types import Floats
from kronfill.data import Observations
from kronfill.errors import DataError, ParameterError
from kronfill.estimators.base import index_pairs
from kronfill.estimators.gaussian_process.online import more_observations
from kronfill.estimators.generalized.hidden_latents import hidden_latents
from kronfill.estimators.generalized.learned_links import MOST_LEVELS, deviances, learned_links
from kronfill.estimators.generalized.linked_form import LinkedForm
from kronfill.estimators.inputs import random_generator, several_targets
from kronfill.estimators.kkmcex import KKMCEX
from kronfill.likelihoods.links import Link
from kronfill.streaming.long_table import is_long_table

__all__ = ["KKMCEXOrdinal"]


class KKMCEXOrdinal(KKMCEX):
    """KKMCEX of ordered ratings, and cut points that make probabilities of its predictions.

    Predictions are those of :class:`KKMCEX`. The probability that a rating is at most the k-th
    level is 1 / (1 + exp(slope f - cuts[k])); slope and cuts are the likeliest ones for ratings
    that were hidden from the fit. Of new rows and columns less is known: they have slopes and cuts
    of their own, for which rows and columns are hidden.

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
        Seed of what is hidden.

    Attributes
    ----------
    levels_ : ndarray of shape (n_levels,)
        The distinct ratings, sorted.
    links_ : tuple of 4 Link
        What makes probabilities of predictions: the slope and the cuts for known rows and columns,
        new rows, new columns, and both.
    deviance_ : dict of str to float
        Mean deviance of the hidden ratings of each kind: twice the negative log likelihood.

    Notes
    -----
    An ordinal likelihood in place of the square was tried, with cut points and function fitted in
    turn: its probabilities of held-out ratings were lower, and it took several times as long (the
    figures are in ``docs/likelihoods.md``).

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
    >>> est.predict_proba([[4, 4]]).round(1)  # of each star
    array([[0. , 0. , 0.3, 0.6, 0.1]])
    """

    levels_: Floats
    links_: tuple[Link, Link, Link, Link]
    deviance_: dict[str, float]

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
        levels = np.unique(_counted(observations).values)
        if not 2 <= len(levels) <= MOST_LEVELS:
            msg = (
                f"Ratings must have from 2 to {MOST_LEVELS} distinct levels, got {len(levels)}; "
                "for numbers without levels use KKMCEX."
            )
            raise DataError(msg)
        super().fit(X, y, sample_weight)
        self.levels_ = levels
        return self._learn_links()

    def _learn_links(self) -> Self:
        """Links for the present observations, by fits without some, with the mu that was taken."""
        obs, form = _counted(self.observations_), self._model
        rng = random_generator(self.random_state)
        plain = KKMCEX(self.row_kernel, self.col_kernel, self.mu_, self.center, self.solver)
        hidden = hidden_latents(lambda part: clone(plain).fit(part), obs, rng)
        self.links_ = learned_links(form, obs, self.levels_, hidden, shares=False)
        self.deviance_ = deviances(self.links_, obs, hidden)
        return self

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Add ratings; the result is that of a fit to all of them so far.

        Parameters
        ----------
        X, y, sample_weight :
            As for :meth:`KKMCEX.partial_fit`; the ratings are of the levels of the fit.

        Returns
        -------
        self

        Notes
        -----
        The links are learned anew: that takes some fits, where the function itself takes none.

        Examples
        --------
        >>> import kronfill as kf
        >>> days = kf.kernels.rbf([[0.0], [1.0], [2.0]], length_scale=1.0)
        >>> est = kf.KKMCEXOrdinal(days).partial_fit([[0, 0], [1, 0]], [1, 5])
        >>> est.partial_fit([[2, 0]], [5]).predict_proba([[2, 0]]).shape
        (1, 2)
        """
        if self.__sklearn_is_fitted__():
            self._check_levels(X, y)
        return super().partial_fit(X, y, sample_weight)

    def revise(self, X: Any, y: Any = None) -> Self:
        """Correct ratings; the result is that of a fit to the corrected ones.

        Parameters
        ----------
        X, y :
            As for :meth:`KKMCEX.revise`; the ratings are of the levels of the fit.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        self._check_levels(X, y)
        return super().revise(X, y)

    def _check_levels(self, X: Any, y: Any) -> None:
        new = more_observations(self, X, y, None)
        strange = np.flatnonzero(~np.isin(new.values, self.levels_))
        if len(strange):
            at = int(strange[0])
            msg = (
                f"The rating {new.values[at]:g} at entry ({new.rows[at]}, {new.cols[at]}) is none "
                f"of the levels {self.levels_} of the fit; fit to all ratings anew."
            )
            raise DataError(msg)

    def _update(self, change: Callable[[Any], Any]) -> Self:
        return super()._update(change)._learn_links()

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
        return self._linked.pairs(*index_pairs(self, X), "shares")

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
        check_is_fitted(self)
        return self._linked.extended(rows, cols, "shares")

    @property
    def _linked(self) -> LinkedForm:
        obs = self.observations_
        return LinkedForm(self._model, self.links_, obs.row_counts > 0, obs.col_counts > 0)


def _counted(observations: Observations) -> Observations:
    """Those with a weight."""
    weights = observations.weights
    return observations if weights is None else observations.take(weights > 0)
