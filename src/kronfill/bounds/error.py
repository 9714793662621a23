"""The generalization error, equation (8)."""

from __future__ import annotations

from typing import Any

from kronfill.bounds.losses import as_loss
from kronfill.data import Observations
from kronfill.data._arrays import finite_array
from kronfill.errors import DataError, ShapeError
from kronfill.estimators.base import MatrixRegressor

__all__ = ["generalization_error"]


def generalization_error(
    model: Any, train: Observations, test: Observations, loss: Any = "square"
) -> float:
    """Mean loss on test entries less mean loss on training entries, equation (8) of the paper.

    Parameters
    ----------
    model : estimator, array-like of shape (N, L), or pair of arrays
        A fitted model, a matrix of predictions, or the predictions at the training and at the test
        entries.
    train, test : Observations
        The entries with their values.
    loss : Loss, "square" or "absolute", default="square"
        Such as ``Square(clip=(low, high))`` or ``Truncated(Square(), 4.0)``.

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np, kronfill as kf
    >>> train = kf.Observations([0], [0], [1.0], shape=(2, 2))
    >>> test = kf.Observations([0, 1], [1, 1], [2.0, 0.0], shape=(2, 2))
    >>> kf.bounds.generalization_error(np.ones((2, 2)), train, test)
    1.0
    """
    chosen = as_loss(loss)
    for name, part in (("train", train), ("test", test)):
        if not isinstance(part, Observations):
            msg = f"{name} must be an Observations, got {type(part).__name__}."
            raise DataError(msg)
    predicted = _predictions(model, train, test)
    return chosen.mean(test.values, predicted[1]) - chosen.mean(train.values, predicted[0])


def _predictions(model: Any, train: Observations, test: Observations) -> tuple[Any, Any]:
    if isinstance(model, MatrixRegressor):
        return model.predict(train), model.predict(test)
    if isinstance(model, tuple) and len(model) == 2:
        pair = tuple(finite_array(part, "predictions") for part in model)
        if pair[0].shape != train.values.shape or pair[1].shape != test.values.shape:
            msg = (
                f"predictions must have shapes {train.values.shape} and {test.values.shape}, got "
                f"{pair[0].shape} and {pair[1].shape}."
            )
            raise ShapeError(msg)
        return pair[0], pair[1]
    matrix = finite_array(model, "model")
    if matrix.shape != train.shape:
        msg = (
            f"model must be a fitted estimator, a matrix of shape {train.shape} or a pair of "
            f"predictions, got shape {matrix.shape}."
        )
        raise ShapeError(msg)
    return matrix[train.rows, train.cols], matrix[test.rows, test.cols]
