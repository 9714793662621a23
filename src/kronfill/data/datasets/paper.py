"""The paper's synthetic matrix."""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.linalg

from kronfill._types import Floats
from kronfill.data.arrays import frozen
from kronfill.data.observations import Observations
from kronfill.errors import ParameterError

__all__ = ["PaperMatrix", "make_paper_matrix"]


@dataclass(frozen=True, eq=False)
class PaperMatrix:
    """A synthetic matrix as in the paper's numerical tests; the arrays are read-only.

    Attributes
    ----------
    row_kernel : ndarray, shape (N, N)
        K_w, with ones on its diagonal.
    col_kernel : ndarray, shape (L, L)
        K_h; the same array as `row_kernel` if N = L.
    truth : ndarray, shape (N, L)
        F, without noise.
    data : ndarray, shape (N, L)
        M = F + E.
    observations : Observations
        m entries of `data`.
    """

    row_kernel: Floats = field(repr=False)
    col_kernel: Floats = field(repr=False)
    truth: Floats = field(repr=False)
    data: Floats = field(repr=False)
    observations: Observations


def make_paper_matrix(
    N: int,
    snr: float = np.inf,
    *,
    L: int | None = None,
    rank: int = 30,
    m: int = 1000,
    exponent: float = 1.335,
    power: float = 0.451,
    random_state: int | np.random.Generator | None = None,
) -> PaperMatrix:
    """Make a synthetic matrix as in the paper's numerical tests.

    Parameters
    ----------
    N : int
        Number of rows.
    snr : float, default=inf
        Signal to noise ratio ``||F||^2 / ||E||^2`` that the noise variance is set for.
    L : int, optional
        Number of columns; N by default.
    rank : int, default=30
        Number of columns of the coefficients B and C.
    m : int, default=1000
        Number of observed entries, drawn uniformly without replacement.
    exponent : float, default=1.335
        How fast the weights on the diagonal of D decrease: ``d_k`` is proportional to
        ``k ** -exponent``.
    power : float, default=0.451
        Mean square of the entries of F.
    random_state : int, numpy.random.Generator or None
        The same seed gives the same result. F and the choice of entries do not depend on `snr`.

    Returns
    -------
    PaperMatrix
        Kernels, truth, data and observations.

    Raises
    ------
    ParameterError
        If a parameter is out of its range, or the kernel is not positive semidefinite.

    Notes
    -----
    ``F = K_w B C^T K_h`` with standard Gaussian B and C, scaled to the mean square asked for, and
    ``M = F + E``. Both kernels are ``abs(R D R^H)`` with R the unitary DFT basis, scaled to a unit
    diagonal. The paper prints ``R D R^T``, which is indefinite. ``R D R^H`` is circulant with first
    column ``fft(d) / N``, and so is its absolute value, whose eigenvalues are one more FFT away.
    The paper does not give the weights and the scale of F: `exponent` and `power` stand for them.

    Examples
    --------
    >>> from kronfill.data import datasets
    >>> made = datasets.make_paper_matrix(50, snr=4, m=200, random_state=0)
    >>> made.truth.shape, made.observations.m
    ((50, 50), 200)
    >>> float((made.truth**2).mean().round(12))
    0.451
    """
    n_rows = _whole("N", N, 1)
    n_cols = n_rows if L is None else _whole("L", L, 1)
    n_factors = _whole("rank", rank, 1)
    m = _whole("m", m, 1)
    if m > n_rows * n_cols:
        msg = f"m must be at most N * L = {n_rows * n_cols}, got {m}."
        raise ParameterError(msg)
    _positive("snr", snr)
    _positive("power", power, finite=True)
    rng = _generator(random_state)
    row_kernel = _paper_kernel(n_rows, exponent)
    col_kernel = row_kernel if n_cols == n_rows else _paper_kernel(n_cols, exponent)
    B = rng.standard_normal((n_rows, n_factors))
    C = rng.standard_normal((n_cols, n_factors))
    truth = (row_kernel @ B) @ (col_kernel @ C).T
    truth *= math.sqrt(power / np.mean(np.square(truth)))
    codes = np.sort(rng.choice(n_rows * n_cols, size=m, replace=False, shuffle=False))
    data = truth.copy()
    if np.isfinite(snr):
        data += math.sqrt(power / snr) * rng.standard_normal(truth.shape)
    rows, cols = np.divmod(codes, n_cols)
    observations = Observations(rows, cols, data[rows, cols], (n_rows, n_cols))
    return PaperMatrix(row_kernel, col_kernel, frozen(truth), frozen(data), observations)


def _paper_kernel(size: int, exponent: float) -> Floats:
    """Return abs(R D R^H), scaled to a unit diagonal."""
    weights = np.arange(1, size + 1, dtype=np.float64) ** -_positive(
        "exponent", exponent, finite=True
    )
    column = np.abs(np.fft.fft(weights))
    # abs(R D R^H) is symmetric: entry j of the first column equals entry N - j, up to rounding.
    column = (column + np.roll(column[::-1], 1)) / 2
    column /= column[0]
    smallest = float(np.fft.fft(column).real.min())
    if smallest < -1e-10 * size:
        msg = (
            f"exponent={exponent} gives a kernel that is not positive semidefinite "
            f"(smallest eigenvalue {smallest:.3g}); try a value between 0.5 and 3."
        )
        raise ParameterError(msg)
    return frozen(scipy.linalg.circulant(column))


def _whole(name: str, value: Any, low: int) -> int:
    """Return an integer parameter that is at least `low`."""
    try:
        number = operator.index(value)
    except TypeError:
        msg = f"{name} must be an integer, got {value!r}."
        raise ParameterError(msg) from None
    if number < low:
        msg = f"{name} must be at least {low}, got {number}."
        raise ParameterError(msg)
    return number


def _positive(name: str, value: float, *, finite: bool = False) -> float:
    """Return a parameter that is a positive number, finite if asked for."""
    valid = isinstance(value, (int, float, np.integer, np.floating)) and value > 0
    if not valid or (finite and not np.isfinite(value)):
        msg = f"{name} must be a positive {'finite ' if finite else ''}number, got {value!r}."
        raise ParameterError(msg)
    return float(value)


def _generator(random_state: int | np.random.Generator | None) -> np.random.Generator:
    """Return a Generator from a seed."""
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        msg = f"random_state must be None, an int >= 0 or a Generator, got {random_state!r}."
        raise ParameterError(msg) from None
