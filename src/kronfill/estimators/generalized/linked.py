"""LinkedRegressor: any method for values that are not Gaussian."""

from __future__ import annotations

from typing import Any, Self, cast

import numpy as np
from scipy.special import xlogy
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from kronfill._types import Floats
from kronfill.data import Observations
from kronfill.errors import DataError, ParameterError, argument
from kronfill.estimators.around import AroundMethod
from kronfill.estimators.base import (
    MatrixEstimator,
    MatrixRegressor,
    fitted_form,
    fitted_kernels,
    index_pairs,
)
from kronfill.estimators.base import validated_sides as sides_of
from kronfill.estimators.choices import kept
from kronfill.estimators.fitted.bilinear import Bilinear
from kronfill.estimators.generalized.base import LikelihoodEstimator, no_product
from kronfill.estimators.generalized.hidden_latents import hidden_latents
from kronfill.estimators.generalized.learned_links import MOST_LEVELS, deviances, learned_links
from kronfill.estimators.generalized.linked_form import LinkedForm
from kronfill.estimators.generalized.negatives import with_sampled_zeros
from kronfill.estimators.inputs import check_magnitude, random_generator, two_columns
from kronfill.likelihoods.links import Link

__all__ = ["LIKELIHOODS", "MOST_LEVELS", "LinkedRegressor"]

LIKELIHOODS = ("bernoulli", "poisson", "ordinal")


class LinkedRegressor(AroundMethod, MatrixRegressor):
    """Any method for yes or no, counts or ordered levels: its predictions, linked.

    The method predicts a number that orders the entries; a link makes of it the expected value and
    the probability of each value. Links are the likeliest ones for entries that were hidden from
    the method: one for missing entries of known rows and columns, others for new rows, new columns
    and both, of which a method knows less than it seems.

    Parameters
    ----------
    estimator : estimator
        The method, such as ``kf.AutoMC()`` or ``kf.KKMCEX(kernel)``, fitted to the values (of
        counts to log(count + 1/2)); or :class:`KKMCEXClassifier` or :class:`KKMCEXPoisson`, which
        have the likelihood in their fit. It is cloned, not changed.
    likelihood : {"bernoulli", "poisson", "ordinal"}, default="bernoulli"
        Values are 0 and 1, counts, or numbers of a few distinct levels.
    negatives : {None, "sample"}, default=None
        "sample" if ones alone are recorded: see :class:`KKMCEXClassifier`.
    links : tuple of Link, optional
        Links of another fit, its ``links_``, to be kept: none are learned.
    random_state : int, Generator or None, default=0
        Seed of what is hidden, and of ``negatives="sample"``.

    Attributes
    ----------
    estimator_ : estimator
        The fitted method.
    links_ : tuple of 4 Link
        For known rows and columns, new rows, new columns, and both.
    levels_ : ndarray
        The values that there are, sorted; empty for counts.
    deviance_ : dict of str to float
        Mean deviance of the hidden entries of each kind: twice the negative log likelihood above
        that of a perfect prediction.
    mu_, solution_, n_iter_, mean_, row_effects_, col_effects_ :
        Those of the fitted method.
    members_, shares_, weights_, hidden_error_, choice_, plan_ :
        Those of :class:`AutoMC`, if that is the method.

    See Also
    --------
    KKMCEXClassifier, KKMCEXPoisson, KKMCEXOrdinal : Kernels alone.

    Examples
    --------
    >>> import numpy as np, kronfill as kf
    >>> rng = np.random.default_rng(0)
    >>> F = rng.standard_normal((30, 1)) @ rng.standard_normal((1, 20))
    >>> X = np.argwhere(rng.random(F.shape) < 0.6)
    >>> y = rng.random(len(X)) < 1 / (1 + np.exp(-3 * F[X[:, 0], X[:, 1]]))
    >>> est = kf.LinkedRegressor(kf.MC(rank=1, mu=1.0, center="mean")).fit(X, y)
    >>> share = est.predict_proba(X)
    >>> share.shape, bool(((share[:, 1] > 0.5) == y).mean() > 0.7)
    ((348, 2), True)
    """

    estimator_: Any
    links_: tuple[Link, Link, Link, Link]
    levels_: Floats
    noise_variance_ = 0.0
    """``predict_std`` has the noise in it."""

    def __init__(
        self,
        estimator: Any,
        likelihood: str = "bernoulli",
        negatives: Any = None,
        links: Any = None,
        random_state: Any = 0,
    ) -> None:
        self.estimator = estimator
        self.likelihood = likelihood
        self.negatives = negatives
        self.links = links
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the method, hide entries from it, and learn the links.

        Parameters
        ----------
        X : array-like of shape (m, 2) or Observations
            Row and column index of each observed entry, or the observations themselves.
        y : array-like of shape (m,), optional
            Values; left out when ``X`` is an :class:`~kronfill.Observations`, and with
            ``negatives="sample"``.
        sample_weight : array-like of shape (m,), optional
            How much each entry counts.

        Returns
        -------
        self
        """
        known = self._validated_sides()
        if y is None and self.negatives is not None and not isinstance(X, Observations):
            y = np.ones(len(two_columns(X, type(self).__name__)))
        observations = self._observations(X, y, sample_weight, known)
        levels = self._levels(observations)
        rng = random_generator(self.random_state)
        if self.negatives is not None:
            observations = with_sampled_zeros(observations, rng)
        working = observations
        own = isinstance(self.estimator, LikelihoodEstimator)  # its f is the latent number
        if self.likelihood == "poisson" and not own:
            working = observations.with_values(np.log(observations.values + 0.5))
        with self._fitting(observations.m):
            model = clone(self.estimator).fit(working)
            links, hidden = self.links, None
            if links is None:
                twin = kept(model)
                hidden = hidden_latents(lambda part: clone(twin).fit(part), working, rng)
                shares = self.likelihood == "bernoulli" and not own
                links = learned_links(fitted_form(model), observations, levels, hidden, shares)
        sides = {"_kernels": fitted_kernels(model)}
        seen = (observations.row_counts > 0, observations.col_counts > 0)
        return self._publish(
            X,
            observations,
            sides,
            estimator_=model,
            links_=links,
            levels_=levels,
            deviance_=deviances(links, observations, hidden),
            **{name: getattr(model, name) for name in _TAKEN},
            _model=LinkedForm(fitted_form(model), links, *seen),
        )

    def predict_proba(self, X: Any) -> Floats:
        """Probability of each level at index pairs.

        Parameters
        ----------
        X : array-like of shape (t, 2) or Observations
            Row and column index of each entry asked for.

        Returns
        -------
        ndarray of shape (t, n_levels)
            In the order of ``levels_``; of counts there are too many.
        """
        check_is_fitted(self)
        self._check_levels()
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
        self._check_levels()
        return self._linked.extended(rows, cols, "shares")

    def predict_std(self, X: Any) -> Floats:
        """Standard deviation of the value at index pairs: what the mean leaves open.

        Parameters
        ----------
        X : array-like of shape (t, 2) or Observations
            Row and column index of each entry asked for.

        Returns
        -------
        ndarray of shape (t,)
        """
        check_is_fitted(self)
        return self._linked.pairs(*index_pairs(self, X), "std")

    def extrapolate_std(self, rows: Any = None, cols: Any = None) -> Floats:
        """Standard deviation of the values of rows and columns that are not in the table.

        Parameters
        ----------
        rows, cols : object, optional
            As for :meth:`extrapolate`.

        Returns
        -------
        ndarray of shape (k, l)
        """
        check_is_fitted(self)
        return self._linked.extended(rows, cols, "std")

    def deviances(self, X: Any, y: Any = None) -> Floats:
        """Deviance of values at index pairs: twice what :meth:`losses` exceeds the least one by.

        Parameters
        ----------
        X, y :
            As for :meth:`losses`.

        Returns
        -------
        ndarray of shape (t,)
        """
        losses = self.losses(X, y)
        if len(self.levels_):
            return 2.0 * losses
        values = X.values if isinstance(X, Observations) and y is None else np.asarray(y, float)
        return np.asarray(2.0 * (losses - values + xlogy(values, values)))

    def losses(self, X: Any, y: Any = None) -> Floats:
        """Negative log likelihood of values at index pairs.

        Parameters
        ----------
        X : array-like of shape (t, 2) or Observations
            Row and column index of each entry.
        y : array-like of shape (t,), optional
            Their values; left out when ``X`` is an :class:`~kronfill.Observations`.

        Returns
        -------
        ndarray of shape (t,)
            Of counts up to a number that does not depend on the prediction.
        """
        check_is_fitted(self)
        values = X.values if isinstance(X, Observations) and y is None else np.asarray(y, float)
        form = self._linked
        rows, cols = index_pairs(self, X)
        f = form.form.pairs(rows, cols)
        kinds = ~form.seen_rows[rows] + 2 * ~form.seen_cols[cols]
        out = np.empty(len(f))
        for kind in np.unique(kinds):
            mine = kinds == kind
            out[mine] = self.links_[kind].losses(values[mine], f[mine])
        return out

    def _bilinear(self) -> Bilinear:
        raise no_product(self)

    @property
    def _linked(self) -> LinkedForm:
        form = self._model
        assert isinstance(form, LinkedForm)
        return form

    def _check_levels(self) -> None:
        if not len(self.levels_):
            msg = "Counts have no list of levels: predict gives their mean, predict_std the spread."
            raise ParameterError(msg)

    def _validated_sides(self) -> Any:
        if self.likelihood not in LIKELIHOODS:
            msg = f"likelihood must be one of {LIKELIHOODS}, got {self.likelihood!r}."
            raise ParameterError(msg)
        if self.negatives not in (None, "sample"):
            msg = f'negatives must be None or "sample", got {self.negatives!r}.'
            raise ParameterError(msg)
        if self.negatives is not None and self.likelihood != "bernoulli":
            msg = f"{argument('negatives')} is for yes or no: likelihood='bernoulli'."
            raise ParameterError(msg)
        if not isinstance(self.estimator, MatrixEstimator):
            msg = f"estimator must be a method, got {type(self.estimator).__name__}."
            raise ParameterError(msg)
        if self.links is not None and not (
            type(self.links) is tuple and len(self.links) == 4
            and all(isinstance(link, Link) for link in self.links)
        ):  # fmt: skip
            msg = f"links must be links_ of a fit, or None, got {self.links!r}."
            raise ParameterError(msg)
        return sides_of(self.estimator)

    def _levels(self, observations: Observations) -> Floats:
        """The levels, once the values are what the likelihood takes."""
        check_magnitude(observations.values, observations.weights)
        if self.links is not None:
            return cast("Floats", self.links[0].levels)
        used = observations.weights
        values = observations.values if used is None else observations.values[used > 0]
        at = ""
        if self.likelihood == "poisson":
            bad = np.flatnonzero(observations.values < 0)
            if len(bad):
                at = _place(observations, bad[0])
                msg = f"Counts must not be negative, got {at}."
                raise DataError(msg)
            return np.empty(0)
        if self.likelihood == "bernoulli":
            bad = np.flatnonzero((observations.values != 0) & (observations.values != 1))
            if len(bad):
                at = _place(observations, bad[0])
                msg = f"Yes or no is 1 or 0, got {at}; for others use likelihood='ordinal'."
                raise DataError(msg)
            if self.negatives is not None and (values == 0).any():
                msg = (
                    'negatives="sample" is for tables of which ones alone are recorded; this one '
                    "has zeros. Leave negatives out, or give the ones alone."
                )
                raise DataError(msg)
            if self.negatives is None and len(np.unique(values)) < 2:
                msg = (
                    f"All values are {values[0]:g}: nothing tells when they are not. If zeros are "
                    "not recorded, negatives='sample' draws some."
                )
                raise DataError(msg)
            return np.array([0.0, 1.0])
        levels = np.unique(values)
        if not 2 <= len(levels) <= MOST_LEVELS:
            msg = (
                f"Ordered values must have from 2 to {MOST_LEVELS} distinct levels, got "
                f"{len(levels)}; for numbers without levels use likelihood='gaussian'."
            )
            raise DataError(msg)
        return levels


_TAKEN = ("mu_", "solution_", "n_iter_", "mean_", "row_effects_", "col_effects_")


def _place(obs: Observations, at: Any) -> str:
    return f"{obs.values[at]:g} at entry ({obs.rows[at]}, {obs.cols[at]})"
