"""Classes: how much each of them counts, and how likely it is."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.utils.class_weight import compute_class_weight

from kronfill._types import Floats
from kronfill.data import Observations
from kronfill.errors import ParameterError
from kronfill.likelihoods.averages import mean_sigmoid

__all__ = ["class_shares", "class_weighted"]


def class_weighted(
    observations: Observations, classes: NDArray[Any], class_weight: Any
) -> Observations:
    """The observations, whose values are codes, with weights times those of the classes."""
    if class_weight is None:
        return observations
    codes = observations.values.astype(np.intp)
    own = observations.weights
    if isinstance(class_weight, str) and class_weight == "balanced":
        # Weights are repetitions: a class is as large as its weights are.
        total = np.bincount(codes, own, minlength=len(classes))
        each = np.divide(total.sum(), len(classes) * total, where=total > 0, out=total + 1.0)
    else:
        try:
            each = compute_class_weight(class_weight, classes=classes, y=classes[codes])
        except (AttributeError, TypeError, ValueError) as error:
            raise ParameterError(str(error)) from None
    if not (np.isfinite(each) & (each > 0)).all():
        msg = f"class_weight must be positive for every class, got {class_weight!r}."
        raise ParameterError(msg)
    return observations.with_weights(each[codes] if own is None else own * each[codes])


def class_shares(latent: Floats, std: Floats | None, count: int) -> Floats:
    """Probability of the second of two classes, or of all of them along the last axis."""
    share = np.asarray(expit(latent) if std is None else mean_sigmoid(latent, std))
    if count == 2:
        return share
    share = np.maximum(share, np.finfo(float).tiny)
    return np.asarray(share / share.sum(axis=-1, keepdims=True))
