"""What wraps a method and predicts as it does."""

from __future__ import annotations

from typing import Any

from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from kronfill._types import Floats
from kronfill.estimators.base import MatrixRegressor

__all__ = ["Wrapping"]


class Wrapping(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A regressor whose predictions are those of its ``estimator_``."""

    estimator_: MatrixRegressor

    def predict(self, X: Any) -> Floats:
        """Predict values at index pairs.

        Parameters
        ----------
        X : array-like of shape (t, 2) or Observations
            Row and column index of each entry asked for.

        Returns
        -------
        ndarray of shape (t,)
        """
        check_is_fitted(self)
        fitted: MatrixRegressor = self.estimator_
        return fitted.predict(X)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Coefficient of determination R^2 of the prediction.

        Parameters
        ----------
        X : array-like of shape (t, 2) or Observations
            Entries to predict.
        y, sample_weight : array-like of shape (t,), optional
            As for the method.

        Returns
        -------
        float
        """
        check_is_fitted(self)
        fitted: MatrixRegressor = self.estimator_
        return fitted.score(X, y, sample_weight)

    def save(self, path: Any) -> None:
        """Write it to a file, which :func:`kronfill.load` reads.

        Parameters
        ----------
        path : str or path
            The file, by custom with the ending ``.kf``. One that is there is replaced, in one step,
            once the new one is complete.

        Examples
        --------
        >>> import tempfile, pathlib, kronfill as kf
        >>> model = kf.ConformalRegressor(kf.MC(rank=1)).fit([[0, 0], [0, 1]], [1.0, 2.0])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.save(pathlib.Path(folder) / "model.kf")
        ...     kf.load(pathlib.Path(folder) / "model.kf")
        ConformalRegressor(estimator=MC(rank=1))
        """
        from kronfill.io import save

        save(self, path)
