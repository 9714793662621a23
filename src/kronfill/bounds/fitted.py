"""Norms of fitted models, evaluated on the function that the model predicts with.

A fitted model is F = Phi_w X Phi_h^T + effects, its bases being kernel sections, kernel factors or
features. Coordinates R of the columns of a basis in its reproducing kernel Hilbert space give every
norm: ||F||_H = ||R_w X R_h^T||_F, and the nuclear norm is that of R_w X R_h^T. Gram matrices R^T R
would do as well but for rounding: where mu is small X is large, and all but nothing of the sum of
X * (G_w X G_h) is cancelled.
"""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from kronfill._types import Floats
from kronfill.bounds.classes.sides import ClassAxis
from kronfill.errors import ParameterError
from kronfill.estimators.base import MatrixRegressor, bilinear_form
from kronfill.estimators.fitted.bilinear import (
    Basis,
    Bilinear,
    Combined,
    Factored,
    Features,
    Sections,
    ValueBasis,
)

__all__ = [
    "fitted_form",
    "mean_square",
    "nuclear_norm",
    "rkhs_norm",
    "side_of",
    "value_nuclear_norm",
]

CHUNK = 4_000_000


def fitted_form(estimator: Any) -> Bilinear:
    """Return the fitted form of one of the five methods."""
    if not isinstance(estimator, MatrixRegressor):
        msg = (
            "estimator must be a fitted MC, KMC, IMC, KKMCEX or RRMCEX, got "
            f"{type(estimator).__name__}."
        )
        raise ParameterError(msg)
    check_is_fitted(estimator)
    return bilinear_form(estimator)


def rkhs_norm(estimator: Any) -> float:
    """Norm of the fitted function in the space of K_h (x) K_w, effects left out: b = ||X||_F."""
    form = fitted_form(estimator)
    return _frobenius(form, _root(form.row_basis), _root(form.col_basis))


def nuclear_norm(estimator: Any) -> float:
    """Nuclear norm of X in F = Phi_w X Phi_h^T, effects left out."""
    form = fitted_form(estimator)
    return _nuclear(form, _root(form.row_basis), _root(form.col_basis))


def value_nuclear_norm(estimator: Any) -> float:
    """Nuclear norm of the fitted matrix, effects left out."""
    form = fitted_form(estimator)
    return _nuclear(form, form.row_basis.known(None), form.col_basis.known(None))


def mean_square(estimator: Any) -> float:
    """Mean of F^2 over the whole matrix, effects left out; no N x L array is formed."""
    form = fitted_form(estimator)
    size = _frobenius(form, form.row_basis.known(None), form.col_basis.known(None))
    return size**2 / (form.shape[0] * form.shape[1])


def side_of(basis: Basis) -> ClassAxis:
    """The axis of the class that a fitted basis lives in: all of its kernel, or its features."""
    return _side(basis)


@singledispatch
def _root(basis: Basis) -> Floats:
    """R with one column for each of the basis: R^T R are their inner products."""
    msg = f"No norm is known for the basis {type(basis).__name__}."
    raise ParameterError(msg)


@_root.register
def _(basis: Sections) -> Floats:
    if len(basis.items) == 0:  # a kernel of zeros has no pivots
        return np.zeros((0, 0))
    return basis.kernel.take(basis.items).factor().phi.T


@_root.register
def _(basis: Factored) -> Floats:
    return np.eye(basis.factor.rank)


@_root.register
def _(basis: Features) -> Floats:
    return np.eye(basis.table.values.shape[1])


@_root.register
def _(basis: ValueBasis) -> Floats:
    return basis.values


@_root.register
def _(basis: Combined) -> Floats:
    return np.asarray(_root(basis.basis) @ basis.coef)


@singledispatch
def _side(basis: Basis) -> ClassAxis:
    msg = f"No class is known for the basis {type(basis).__name__}."
    raise ParameterError(msg)


@_side.register
def _(basis: Sections) -> ClassAxis:
    return ClassAxis.of_kernel(basis.kernel, "kernel")


@_side.register
def _(basis: Factored) -> ClassAxis:
    return ClassAxis(basis.factor.phi, np.asarray(basis.kernel.diagonal()))


@_side.register
def _(basis: Features) -> ClassAxis:
    return ClassAxis.of_factor(basis.known(None))


@_side.register
def _(basis: ValueBasis) -> ClassAxis:
    return ClassAxis.of_factor(np.eye(len(basis.values)))


@_side.register
def _(basis: Combined) -> ClassAxis:
    return _side(basis.basis)


def _frobenius(form: Bilinear, row: Floats, col: Floats) -> float:
    """Frobenius norm of R_w X R_h^T, some rows at a time."""
    left, right = _lean(row), _lean(col)
    step = max(1, CHUNK // max(1, len(right)))
    parts = [left[first : first + step] for first in range(0, len(left), step)]
    return float(np.sqrt(sum(np.sum(_product(form, part, right) ** 2) for part in parts)))


def _nuclear(form: Bilinear, row: Floats, col: Floats) -> float:
    if sp.issparse(form.core):
        msg = (
            "The nuclear norm of a KKMCEX model in its dual form would need an N x L array; judge "
            "it in the RKHSBall, whose norm is at hand."
        )
        raise ParameterError(msg)
    core = _product(form, _lean(row), _lean(col))
    return float(scipy.linalg.svdvals(core, check_finite=False).sum())


def _product(form: Bilinear, left: Floats, right: Floats) -> Floats:
    if form.core is None:
        return np.asarray(left @ right.T)
    return np.asarray(np.asarray(left @ form.core) @ right.T)


def _lean(root: Floats) -> Floats:
    """The same inner products from no more rows than columns."""
    if len(root) <= root.shape[1]:
        return root
    return np.asarray(scipy.linalg.qr(root, mode="r", check_finite=False)[0][: root.shape[1]])
