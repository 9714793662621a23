"""KKMCEXPoisson: counts whose logarithm of the mean is a function of row and column."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from kronfill._types import Floats
from kronfill.data import Observations
from kronfill.data.arrays import finite_array
from kronfill.errors import DataError, ShapeError, argument
from kronfill.estimators.base import KernelRegressor
from kronfill.estimators.generalized.base import FitTarget, LikelihoodEstimator
from kronfill.estimators.generalized.more_entries import with_more
from kronfill.estimators.inputs import check_magnitude
from kronfill.likelihoods.families import Poisson

__all__ = ["KKMCEXPoisson"]


class KKMCEXPoisson(LikelihoodEstimator, KernelRegressor):
    r"""Log-linear counts over entries, with the kernel K_h (x) K_w.

    .. math::
        \min_f \sum_k w_k (e_k \exp(\eta_k) - y_k \eta_k) + \frac{\mu}{2} \|f\|^2,
        \qquad \eta = f + \text{effects}

    with f in the space of KKMCEX: Poisson regression with a ridge penalty on the features of the
    kernel.

    Parameters
    ----------
    row_kernel, col_kernel : Kernel or array-like of shape (N, N) and (L, L), optional
        Similarity of rows and of columns, as for :class:`KKMCEX`.
    mu : float or "auto", default=1.0
        Ridge weight beside a sum (no mean) of negative log likelihoods. "auto" takes the value with
        the least deviance of counts that are left out, one by one (approximately) or, where there
        are many, a tenth of them.
    center : {None, "mean", "rows", "cols", "both"}, default=None
        Unpenalised additive effects in the logarithm of the mean. Without them an entry of which
        nothing is known has mean 1.
    solver : "auto" or solver object, default="auto"
        Of the weighted KKMCEX problem that each Newton step is.

    Attributes
    ----------
    dual_coef_ : ndarray of shape (m,)
        d with f = sum_k d_k K_w[., r_k] K_h[., c_k]; mu d = w (y - mean) at the solution.
    mu_ : float
        The ridge weight used.
    mean_, row_effects_, col_effects_ : float, ndarray of shape (N,), ndarray of shape (L,)
        The additive effects; zero without ``center``.
    solution_ : Solution
        How the fit went; ``history`` has the objective after each step, which never rises.
    n_iter_ : int
        Newton steps.

    See Also
    --------
    KKMCEXClassifier : The same for classes.

    Examples
    --------
    >>> import numpy as np, kronfill as kf
    >>> docks = kf.kernels.rbf([[0.0], [1.0], [2.0]], length_scale=1.0)
    >>> est = kf.KKMCEXPoisson(docks, mu=0.1, center="mean")
    >>> est.fit([[0, 0], [0, 1], [1, 0]], [8, 2, 4]).predict_matrix().round(1)
    array([[7.9, 2.1],
           [4.1, 2.6],
           [3. , 3.3]])
    >>> est.predict([[0, 0]], exposure=[0.5]).round(2)  # in half the time
    array([3.94])
    """

    exposure_: Floats | None

    def __init__(
        self,
        row_kernel: Any = None,
        col_kernel: Any = None,
        mu: Any = 1.0,
        center: Any = None,
        solver: Any = "auto",
    ) -> None:
        self.row_kernel = row_kernel
        self.col_kernel = col_kernel
        self.mu = mu
        self.center = center
        self.solver = solver

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, exposure: Any = None) -> Self:
        """Fit to observed counts.

        Parameters
        ----------
        X : array-like of shape (m, 2) or Observations
            Row and column index of each observed entry, or the observations themselves.
        y : array-like of shape (m,), optional
            Counts, not negative; left out when ``X`` is an :class:`~kronfill.Observations`.
        sample_weight : array-like of shape (m,), optional
            How much each entry counts.
        exposure : array-like of shape (m,), optional
            How long, or among how many, each count was taken: its mean is exposure times
            exp(eta). 1 by default.

        Returns
        -------
        self
        """
        kernels = self._validated_sides()
        observations = self._observations(X, y, sample_weight, kernels)
        _check_counts(observations)
        taken = _exposures(exposure, observations.m)
        return self._fit_counts(X, kernels, observations, taken)

    def _fit_counts(
        self,
        X: Any,
        kernels: Any,
        observations: Observations,
        exposure: Floats | None,
        resume: bool = False,
    ) -> Self:
        offset = None if exposure is None else np.log(exposure)
        target = FitTarget(observations, Poisson(), offset)
        return self._fit_targets(
            X, kernels, observations, [target], resume=resume, exposure_=exposure
        )

    def partial_fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, exposure: Any = None
    ) -> Self:
        """Add counts; the result is that of a fit to all of them so far, from a warm start.

        Parameters
        ----------
        X, y, sample_weight, exposure :
            As for :meth:`fit`, of entries that were not observed before.

        Returns
        -------
        self

        Notes
        -----
        On an estimator that is not fitted it starts a fit. ``mu="auto"`` is chosen by the first
        call and kept.

        Examples
        --------
        >>> import kronfill as kf
        >>> days = kf.kernels.rbf([[0.0], [1.0], [2.0]], length_scale=1.0)
        >>> est = kf.KKMCEXPoisson(days).partial_fit([[0, 0]], [3]).partial_fit([[1, 0]], [5])
        >>> est.predict([[2, 0]]).round(3)
        array([2.112])
        """
        if not self.__sklearn_is_fitted__():
            return self.fit(X, y, sample_weight, exposure)
        self._check_unchanged()
        new, observations = with_more(self, X, y, sample_weight)
        _check_counts(new)
        taken = _exposures(exposure, new.m)
        if taken is not None or self.exposure_ is not None:
            old = np.ones(self.observations_.m) if self.exposure_ is None else self.exposure_
            taken = np.concatenate([old, np.ones(new.m) if taken is None else taken])
        return self._fit_counts(X, self._kernels, observations, taken, resume=True)

    def predict(self, X: Any, exposure: Any = None) -> Floats:
        """Expected counts at index pairs.

        Parameters
        ----------
        X : array-like of shape (t, 2) or Observations
            Row and column index of each entry asked for.
        exposure : array-like of shape (t,), optional
            As for :meth:`fit`; 1 by default.

        Returns
        -------
        ndarray of shape (t,)
        """
        mean = np.exp(self._latent(X))
        taken = _exposures(exposure, len(mean))
        return mean if taken is None else mean * taken

    def predict_matrix(self, rows: Any = None, cols: Any = None) -> Floats:
        """Expected counts of a dense block.

        Parameters
        ----------
        rows, cols : array-like of int, optional
            Indices of the rows and columns of the block; all by default.

        Returns
        -------
        ndarray of shape (len(rows), len(cols))
        """
        return np.exp(self._latent_block(rows, cols))

    def extrapolate(self, rows: Any = None, cols: Any = None) -> Floats:
        """Expected counts of rows and columns that are not in the table.

        Parameters
        ----------
        rows, cols : object, optional
            What is known about the new rows (columns), as for :meth:`KKMCEX.extrapolate`.

        Returns
        -------
        ndarray of shape (k, l)
        """
        return np.exp(self._latent_new(rows, cols))

    def score(
        self, X: Any, y: Any = None, sample_weight: Any = None, exposure: Any = None
    ) -> float:
        """D^2, the share of the deviance that is explained, as scikit-learn's PoissonRegressor.

        Parameters
        ----------
        X : array-like of shape (t, 2) or Observations
            Entries to predict.
        y : array-like of shape (t,), optional
            Their counts; left out when ``X`` is an :class:`~kronfill.Observations`.
        sample_weight : array-like of shape (t,), optional
            Weights.
        exposure : array-like of shape (t,), optional
            As for :meth:`fit`.

        Returns
        -------
        float
            1 for predictions without an error, 0 for those of a constant (rate).
        """
        check_is_fitted(self)
        y, weights = self._to_score(X, y, sample_weight)
        counts = finite_array(y, "y").astype(float)
        weights = np.ones(len(counts)) if weights is None else weights
        taken = _exposures(exposure, len(counts))
        known = 0.0 if taken is None else np.log(taken)
        rate = float(weights @ counts) / float(weights @ np.exp(known + np.zeros(len(counts))))
        if not rate > 0:
            return float("nan")
        family = Poisson()
        own = float(weights @ family.deviance(counts, known + self._latent(X)))
        constant = known + np.full(len(counts), np.log(rate))
        null = float(weights @ family.deviance(counts, constant))
        return 1.0 - own / null if null > 0 else float("nan")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags


def _check_counts(observations: Observations) -> None:
    check_magnitude(observations.values, observations.weights)
    bad = np.flatnonzero(observations.values < 0)
    if len(bad):
        at = int(bad[0])
        msg = (
            f"Counts must not be negative, got {observations.values[at]:g} at entry "
            f"({observations.rows[at]}, {observations.cols[at]}); for values of both signs use "
            "KKMCEX."
        )
        raise DataError(msg)


def _exposures(exposure: Any, count: int) -> Floats | None:
    """Exposures, checked; None for 1 everywhere."""
    if exposure is None:
        return None
    given = np.asarray(finite_array(exposure, "exposure"), dtype=float)
    if given.shape != (count,):
        msg = f"exposure must have one number per entry, {count}, got shape {given.shape}."
        raise ShapeError(msg)
    if not (given > 0).all():
        at = int(np.argmin(given))
        msg = (
            f"{argument('exposure', float(given[at]))} at position {at} is not positive; leave "
            "entries out at which nothing could be counted."
        )
        raise DataError(msg)
    return given
