"""KKMCEXClassifier: kernel logistic regression over entries."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from kronfill._types import Floats, Index
from kronfill.data import Observations
from kronfill.data.arrays import finite_array
from kronfill.errors import DataError, ParameterError
from kronfill.estimators.base import Kernels
from kronfill.estimators.generalized.base import FitTarget, LikelihoodEstimator
from kronfill.estimators.generalized.classes import class_shares, class_weighted
from kronfill.estimators.generalized.more_entries import with_more
from kronfill.estimators.generalized.negatives import with_sampled_zeros
from kronfill.estimators.inputs import check_largest, column, two_columns, weights_of
from kronfill.likelihoods.families import Bernoulli

__all__ = ["KKMCEXClassifier", "as_codes", "fit_codes"]


class KKMCEXClassifier(ClassifierMixin, LikelihoodEstimator):  # type: ignore[misc]
    r"""Kernel logistic regression over entries, with the kernel K_h (x) K_w.

    .. math::
        \min_f \sum_k w_k \log(1 + \exp(-s_k \eta_k)) + \frac{\mu}{2} \|f\|^2,
        \qquad \eta = f + \text{effects}, \quad s_k = \pm 1

    with f in the space of KKMCEX: logistic regression with a ridge penalty on the features of the
    kernel, scikit-learn's C being 1/mu. More than two classes are told apart one against the rest.

    Parameters
    ----------
    row_kernel, col_kernel : Kernel or array-like of shape (N, N) and (L, L), optional
        Similarity of rows and of columns, as for :class:`KKMCEX`.
    mu : float or "auto", default=1.0
        Ridge weight beside a sum (no mean) of negative log likelihoods. "auto" takes the value with
        the least deviance of observations that are left out, one by one (approximately) or, where
        there are many, a tenth of them.
    center : {None, "mean", "rows", "cols", "both"}, default=None
        Unpenalised additive effects in the log odds. Without them an entry of which nothing is
        known has probability 1/2.
    class_weight : dict, "balanced" or None, default=None
        Weight of each class, as in scikit-learn; with "balanced" all classes weigh the same,
        sample weights included.
    negatives : {None, "sample"}, default=None
        "sample" if ones alone are recorded (clicks, interactions): ``y`` is left out, and as many
        zeros are drawn at random among the other entries of rows and columns with a one.
        Probabilities are then those of a table with as many ones as zeros: good for ranking.
    solver : "auto" or solver object, default="auto"
        Of the weighted KKMCEX problem that each Newton step is.
    random_state : int, Generator or None, default=0
        Seed of ``negatives="sample"``.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.
    dual_coef_ : ndarray of shape (m,), or (m, n_classes) for more than two classes
        d with f = sum_k d_k K_w[., r_k] K_h[., c_k]; mu d = w (y - p) at the solution.
    mu_ : float
        The ridge weight used.
    mean_, row_effects_, col_effects_ : float, ndarray of shape (N,), ndarray of shape (L,)
        The additive effects, with a last axis for more than two classes; zero without ``center``.
    solution_ : Solution, or a tuple of them for more than two classes
        How the fit went; ``history`` has the objective after each step, which never rises.
    n_iter_ : int
        Newton steps.

    See Also
    --------
    KKMCEXPoisson : The same for counts.

    Notes
    -----
    ``predict_proba`` is the logistic function of ``decision_function``; for more than two classes
    those of all classes, divided by their sum. ``predict_proba(X, averaged=True)`` is its mean over
    Laplace's posterior, which is nearer to 1/2 where little is known.

    Examples
    --------
    >>> import numpy as np, kronfill as kf
    >>> drugs = kf.kernels.rbf([[0.0], [1.0], [2.0]], length_scale=1.0)
    >>> est = kf.KKMCEXClassifier(drugs, mu=0.1)
    >>> est.fit([[0, 0], [0, 1], [2, 0]], ["active", "inactive", "inactive"]).predict([[1, 1]])
    array(['inactive'], dtype='<U8')
    >>> est.predict_proba([[0, 0], [2, 0]]).round(2)  # of each of est.classes_
    array([[0.82, 0.18],
           [0.18, 0.82]])
    """

    classes_: NDArray[Any]

    def __init__(
        self,
        row_kernel: Any = None,
        col_kernel: Any = None,
        mu: Any = 1.0,
        center: Any = None,
        class_weight: Any = None,
        negatives: Any = None,
        solver: Any = "auto",
        random_state: Any = 0,
    ) -> None:
        self.row_kernel = row_kernel
        self.col_kernel = col_kernel
        self.mu = mu
        self.center = center
        self.class_weight = class_weight
        self.negatives = negatives
        self.solver = solver
        self.random_state = random_state

    def _validated_sides(self) -> Kernels:
        if self.negatives not in (None, "sample"):
            msg = f'negatives must be None or "sample", got {self.negatives!r}.'
            raise ParameterError(msg)
        return super()._validated_sides()

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit to observed labels.

        Parameters
        ----------
        X : array-like of shape (m, 2) or Observations
            Row and column index of each observed entry, or the observations themselves.
        y : array-like of shape (m,), optional
            Label of each: text, numbers or truth values; left out when ``X`` is an
            :class:`~kronfill.Observations`, whose values are the labels.
        sample_weight : array-like of shape (m,), optional
            How much each entry counts, times the weight of its class.

        Returns
        -------
        self
        """
        observations, classes = self._as_codes(X, y, sample_weight)
        return self._fit_classes(X, self._validated_sides(), observations, classes)

    def _as_codes(self, X: Any, y: Any, sample_weight: Any) -> tuple[Observations, NDArray[Any]]:
        """The observations with positions among the classes as values, and the classes."""
        kernels = self._validated_sides()
        if self.negatives is not None:
            return self._with_negatives(X, y, sample_weight, kernels), np.array([0, 1])
        labels = self._labels(X, y, "fit")
        classes, codes = np.unique(labels, return_inverse=True)
        observations = self._observations(X, *self._coded(X, codes), sample_weight, kernels)
        if isinstance(X, Observations):
            observations = observations.with_values(codes.astype(float))
        return observations, classes

    def _with_negatives(self, X: Any, y: Any, sample_weight: Any, kernels: Any) -> Observations:
        if y is None and not isinstance(X, Observations):
            y = np.ones(len(two_columns(X, type(self).__name__)))
        ones = self._observations(X, y, sample_weight, kernels)
        if not (ones.values == 1).all():
            at = int(np.argmax(ones.values != 1))
            msg = (
                'negatives="sample" is for tables of which ones alone are recorded; the value at '
                f"entry ({ones.rows[at]}, {ones.cols[at]}) is {ones.values[at]:g}. Leave negatives "
                "out, or give the ones alone."
            )
            raise DataError(msg)
        return with_sampled_zeros(ones, self.random_state)

    @staticmethod
    def _coded(X: Any, codes: Index) -> tuple[Any]:
        return (None if isinstance(X, Observations) else codes.astype(float),)

    def _labels(self, X: Any, y: Any, method: str) -> NDArray[Any]:
        if isinstance(X, Observations):
            weights_of(X, y, None)
            y = X.values
        if y is None:
            raise ParameterError(self._needs_y(method))
        labels = column(y)
        if labels.dtype.kind == "f":
            finite_array(labels, "y")
        try:
            check_classification_targets(labels)
        except ValueError as error:
            raise DataError(str(error)) from None
        return labels

    def _fit_classes(
        self,
        X: Any,
        kernels: Any,
        observations: Observations,
        classes: NDArray[Any],
        resume: bool = False,
    ) -> Self:
        weighted = class_weighted(observations, classes, self.class_weight)
        check_largest(weighted.values, weighted.weights)
        counts = np.bincount(weighted.values.astype(np.intp)[_used(weighted)], minlength=1)
        if np.count_nonzero(counts) < 2:
            present = classes[np.flatnonzero(counts)]
            msg = (
                f"{type(self).__name__} needs observations of at least 2 classes, got 1 class: "
                f"{present[0]!r}."
            )
            raise DataError(msg)
        codes = weighted.values
        positive = [1] if len(classes) == 2 else range(len(classes))
        targets = [
            FitTarget(weighted.with_values((codes == k).astype(float)), Bernoulli())
            for k in positive
        ]
        return self._fit_targets(X, kernels, observations, targets, resume=resume, classes_=classes)

    def partial_fit(
        self, X: Any, y: Any = None, classes: Any = None, sample_weight: Any = None
    ) -> Self:
        """Add observations; the result is that of a fit to all of them so far, from a warm start.

        Parameters
        ----------
        X, y, sample_weight :
            As for :meth:`fit`, of entries that were not observed before.
        classes : array-like of shape (n_classes,), optional
            All labels; needed by the first call if its y lacks one of them.

        Returns
        -------
        self

        Notes
        -----
        ``mu="auto"`` is chosen by the first call and kept.

        Examples
        --------
        >>> import kronfill as kf
        >>> days = kf.kernels.rbf([[0.0], [1.0], [2.0]], length_scale=1.0)
        >>> est = kf.KKMCEXClassifier(days).partial_fit([[0, 0], [1, 0]], [0, 1])
        >>> est.partial_fit([[2, 0]], [1]).predict_proba([[2, 0]]).round(2)
        array([[0.37, 0.63]])
        """
        if self.negatives is not None:
            msg = (
                'partial_fit does not draw zeros: with negatives="sample" fit to all ones anew, or '
                "draw the zeros yourself and leave negatives out."
            )
            raise ParameterError(msg)
        labels = self._labels(X, y, "partial_fit")
        fitted = self.__sklearn_is_fitted__()
        known = np.unique(labels) if classes is None else np.unique(column(classes))
        if fitted:
            if classes is not None and not np.array_equal(known, self.classes_):
                msg = f"classes must be those of the first call, {self.classes_}, got {known}."
                raise ParameterError(msg)
            known = self.classes_
        codes = np.searchsorted(known, labels).clip(max=len(known) - 1)
        strange = np.flatnonzero(known[codes] != labels)
        if len(strange):
            msg = (
                f"The label {labels[strange[0]]!r} at position {strange[0]} is none of the classes "
                f"{known}; give all of them to the first call, or fit anew."
            )
            raise DataError(msg)
        if not fitted:
            kernels = self._validated_sides()
            observations = self._observations(X, *self._coded(X, codes), sample_weight, kernels)
            observations = observations.with_values(codes.astype(float))
            return self._fit_classes(X, kernels, observations, known)
        self._check_unchanged()
        part = X.with_values(codes.astype(float)) if isinstance(X, Observations) else X
        _, everything = with_more(self, part, *self._coded(X, codes), sample_weight)
        return self._fit_classes(X, self._kernels, everything, known, resume=True)

    # Predictions.

    def decision_function(self, X: Any) -> Floats:
        """Log odds at index pairs.

        Parameters
        ----------
        X : array-like of shape (t, 2) or Observations
            Row and column index of each entry asked for.

        Returns
        -------
        ndarray of shape (t,), or (t, n_classes) for more than two classes
            Of ``classes_[1]``; of each class against the rest.
        """
        return self._latent(X)

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
        latent = self._latent(X)
        best = (latent > 0).astype(np.intp) if latent.ndim == 1 else latent.argmax(axis=1)
        return np.asarray(self.classes_[best])

    def predict_proba(self, X: Any, averaged: bool = False) -> Floats:
        """Probability of each class at index pairs.

        Parameters
        ----------
        X : array-like of shape (t, 2) or Observations
            Row and column index of each entry asked for.
        averaged : bool, default=False
            Whether to take the mean over Laplace's posterior of the log odds instead of the value
            at the most likely ones.

        Returns
        -------
        ndarray of shape (t, n_classes)
        """
        latent = self._latent(X)
        std = self.predict_std(X) if averaged else None
        share = class_shares(latent, std, len(self.classes_))
        return share if len(self.classes_) > 2 else np.stack([1.0 - share, share], axis=-1)

    def predict_matrix(self, rows: Any = None, cols: Any = None) -> Floats:
        """Probabilities of a dense block.

        Parameters
        ----------
        rows, cols : array-like of int, optional
            Indices of the rows and columns of the block; all by default.

        Returns
        -------
        ndarray of shape (len(rows), len(cols))
            Of ``classes_[1]``; with a last axis for the classes if there are more than two.
        """
        return class_shares(self._latent_block(rows, cols), None, len(self.classes_))

    def extrapolate(self, rows: Any = None, cols: Any = None, averaged: bool = False) -> Floats:
        """Probabilities of rows and columns that are not in the table.

        Parameters
        ----------
        rows, cols : object, optional
            What is known about the new rows (columns), as for :meth:`KKMCEX.extrapolate`; with
            ``averaged`` as for :meth:`extrapolate_std`.
        averaged : bool, default=False
            As for :meth:`predict_proba`.

        Returns
        -------
        ndarray of shape (k, l)
            Of ``classes_[1]``; with a last axis for the classes if there are more than two.
        """
        check_is_fitted(self)
        std = self.extrapolate_std(rows, cols) if averaged else None
        plain = (_similarities(given) if averaged else given for given in (rows, cols))
        return class_shares(self._latent_new(*plain), std, len(self.classes_))

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Share of entries whose class is predicted.

        Parameters
        ----------
        X : array-like of shape (t, 2) or Observations
            Entries to predict.
        y : array-like of shape (t,), optional
            Their labels; left out when ``X`` is an :class:`~kronfill.Observations`.
        sample_weight : array-like of shape (t,), optional
            Weights.

        Returns
        -------
        float
        """
        y, weights = self._to_score(X, y, sample_weight)
        return float(super().score(X, column(y), sample_weight=weights))


def _used(observations: Observations) -> Any:
    weights = observations.weights
    return slice(None) if weights is None else weights > 0


def _similarities(given: Any) -> Any:
    """Of the pair (similarities, similarity with itself) the first."""
    return given[0] if isinstance(given, tuple) else given


# What other modules may ask of such a method.


def as_codes(
    estimator: KKMCEXClassifier, X: Any, y: Any, sample_weight: Any
) -> tuple[Observations, NDArray[Any]]:
    """The observations that ``fit`` would take, with positions among the classes as values."""
    return estimator._as_codes(X, y, sample_weight)


def fit_codes(
    estimator: KKMCEXClassifier, observations: Observations, classes: NDArray[Any]
) -> KKMCEXClassifier:
    """Fit to what :func:`as_codes` has made, or to a part of it."""
    kernels = estimator._validated_sides()
    return estimator._fit_classes(observations, kernels, observations, classes)
