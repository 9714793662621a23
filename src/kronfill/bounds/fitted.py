"""Norms of fitted models, evaluated on the function that the model predicts with.

A fitted model is F = Phi_w X Phi_h^T + effects, its bases being kernel sections, kernel factors or
features. The Gram matrix of the columns of a basis in its reproducing kernel Hilbert space gives
every norm: with G = R^T R, ||F||_H = ||R_w X R_h^T||_F and the nuclear norm is that of R_w X R_h^T.
"""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from kronfill.bounds.sides import Side
from kronfill.errors import ParameterError
from kronfill.estimators.base import MatrixRegressor
from kronfill.estimators.model import Basis, Bilinear, Combined, Factored, Features, Sections, Table

__all__ = [
    "fitted_form",
    "mean_square",
    "nuclear_norm",
    "rkhs_norm",
    "side_of",
    "value_nuclear_norm",
]

Floats = NDArray[np.float64]
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
    return estimator._bilinear()


def rkhs_norm(estimator: Any) -> float:
    """Norm of the fitted function in the space of K_h (x) K_w, effects left out: b = ||X||_F."""
    form = fitted_form(estimator)
    return _frobenius(form, _gram(form.row_basis), _gram(form.col_basis))


def nuclear_norm(estimator: Any) -> float:
    """Nuclear norm of X in F = Phi_w X Phi_h^T, effects left out."""
    form = fitted_form(estimator)
    return _nuclear(form, _gram(form.row_basis), _gram(form.col_basis))


def value_nuclear_norm(estimator: Any) -> float:
    """Nuclear norm of the fitted matrix, effects left out."""
    form = fitted_form(estimator)
    return _nuclear(form, _value_gram(form.row_basis), _value_gram(form.col_basis))


def mean_square(estimator: Any) -> float:
    """Mean of F^2 over the whole matrix, effects left out; no N x L array is formed."""
    form = fitted_form(estimator)
    size = _frobenius(form, _value_gram(form.row_basis), _value_gram(form.col_basis))
    return size**2 / (form.shape[0] * form.shape[1])


def side_of(basis: Basis) -> Side:
    """The axis of the class that a fitted basis lives in: all of its kernel, or its features."""
    return _side(basis)


@singledispatch
def _gram(basis: Basis) -> Floats:
    msg = f"no norm is known for the basis {type(basis).__name__}."
    raise ParameterError(msg)


@_gram.register
def _(basis: Sections) -> Floats:
    return basis.kernel.block(basis.items, basis.items)


@_gram.register
def _(basis: Factored) -> Floats:
    return np.eye(basis.factor.rank)


@_gram.register
def _(basis: Features) -> Floats:
    return np.eye(basis.table.values.shape[1])


@_gram.register
def _(basis: Table) -> Floats:
    return np.asarray(basis.values.T @ basis.values)


@_gram.register
def _(basis: Combined) -> Floats:
    return np.asarray(basis.coef.T @ _gram(basis.basis) @ basis.coef)


def _value_gram(basis: Basis) -> Floats:
    values = basis.known(None)
    return np.asarray(values.T @ values)


@singledispatch
def _side(basis: Basis) -> Side:
    msg = f"no class is known for the basis {type(basis).__name__}."
    raise ParameterError(msg)


@_side.register
def _(basis: Sections) -> Side:
    return Side.of_kernel(basis.kernel, "kernel")


@_side.register
def _(basis: Factored) -> Side:
    return Side(basis.factor.phi, np.asarray(basis.kernel.diagonal()))


@_side.register
def _(basis: Features) -> Side:
    return Side.of_factor(basis.known(None))


@_side.register
def _(basis: Table) -> Side:
    return Side.of_factor(np.eye(len(basis.values)))


@_side.register
def _(basis: Combined) -> Side:
    return _side(basis.basis)


def _frobenius(form: Bilinear, row: Floats, col: Floats) -> float:
    """Square root of Tr(X^T G_w X G_h)."""
    if form.core is None:
        square = float(np.sum(row * col))
    elif sp.issparse(form.core):
        square = _sparse_square(sp.csr_array(form.core), row, col)
    else:
        square = float(np.sum((row @ form.core @ col) * form.core))
    return float(np.sqrt(max(square, 0.0)))


def _sparse_square(core: sp.csr_array, row: Floats, col: Floats) -> float:
    """Sum over the nonzeros of X of X * (G_w X G_h), some rows at a time."""
    total, step = 0.0, max(1, CHUNK // max(core.shape))
    for start in range(0, core.shape[0], step):
        part = slice(start, start + step)
        block = np.asarray(row[part] @ core) @ col
        total += float(core[part].multiply(block).sum())
    return total


def _nuclear(form: Bilinear, row: Floats, col: Floats) -> float:
    if sp.issparse(form.core):
        msg = (
            "the nuclear norm of a KKMCEX model in its dual form would need an N x L array; judge "
            "it in the RKHSBall, whose norm is at hand."
        )
        raise ParameterError(msg)
    left, right = _root(row), _root(col)
    core = left @ right.T if form.core is None else left @ form.core @ right.T
    return float(scipy.linalg.svdvals(core, check_finite=False).sum())


def _root(gram: Floats) -> Floats:
    """R with R^T R = G."""
    lam, vec = scipy.linalg.eigh(gram, check_finite=False)
    return np.asarray(np.sqrt(np.maximum(lam, 0.0))[:, None] * vec.T)
