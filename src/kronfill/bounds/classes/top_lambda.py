"""Lambda of Theorem B: the largest eigenvalue of Psi^T diag(g) Psi.

Over X (d_w x d_h), with S_n a whole grid less some entries, the operator is

    X -> (1/u) G_w X G_h - (1/u) [left-out entries] - q [training entries],

where [...] stands for the sum over these entries of phi_w (phi_w^T X phi_h) phi_h^T: no object of
size N L. A list of entries is summed over directly.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, eigsh

from kronfill._types import Floats, Index
from kronfill.bounds.classes.sides import ClassAxis
from kronfill.bounds.splits import Grid, Split

__all__ = ["largest_eigenvalue"]

LARGEST = 2_000_000
"""Up to this many unknowns the eigenvalue is computed; beyond, it is bounded."""
DENSE = 400


def largest_eigenvalue(row: ClassAxis, col: ClassAxis, split: Split) -> float:
    """Lambda, or an upper bound on it where d_w d_h is very large."""
    size = row.phi.shape[1] * col.phi.shape[1]
    if size > LARGEST:
        # Psi^T diag(g) Psi <= (1/u) Psi_u^T Psi_u <= lambda_max(K_w) lambda_max(K_h) / u
        return row.top * col.top / split.sizes.u
    apply = _operator(row, col, split)
    if size <= DENSE:
        columns = [apply(unit) for unit in np.eye(size)]
        return float(np.linalg.eigvalsh(np.array(columns))[-1])
    operator = LinearOperator((size, size), matvec=apply, dtype=float)
    start = np.random.default_rng(0).standard_normal(size)
    value, vector = eigsh(operator, k=1, which="LA", v0=start)
    # A Ritz value is a lower bound; its residual says by how much it can be off.
    residual = float(np.linalg.norm(apply(vector[:, 0]) - value[0] * vector[:, 0]))
    return float(value[0]) + residual


def _operator(row: ClassAxis, col: ClassAxis, split: Split) -> Callable[[Floats], Floats]:
    """X as a vector to the operator of X as a vector."""
    sizes, entries = split.sizes, split.entries
    shape = (row.phi.shape[1], col.phi.shape[1])
    if isinstance(entries, Grid):
        left_out = entries.left_out
        rows, cols = np.append(split.rows, left_out.rows), np.append(split.cols, left_out.cols)
        minus = np.append(np.full(sizes.m, sizes.q), np.full(left_out.n, 1.0 / sizes.u))
    else:
        rows, cols = entries.at(np.arange(entries.n))
        g = np.append(np.full(sizes.m, -1.0 / sizes.m), np.full(sizes.u, 1.0 / sizes.u))

    def apply(vector: Floats) -> Floats:
        x = vector.reshape(shape)
        if not isinstance(entries, Grid):
            return _at_entries(row, col, rows, cols, g, x).ravel()
        whole = row.gram @ x @ col.gram / sizes.u
        return np.asarray(whole - _at_entries(row, col, rows, cols, minus, x)).ravel()

    return apply


def _at_entries(
    row: ClassAxis, col: ClassAxis, rows: Index, cols: Index, weights: Floats, x: Floats
) -> Floats:
    """Sum over entries of weight * phi_w (phi_w^T X phi_h) phi_h^T."""
    values = weights * np.einsum("ij,ij->i", (row.phi @ x)[rows], col.phi[cols])
    matrix = sp.csr_array((values, (rows, cols)), shape=(row.n, col.n))
    return np.asarray(row.phi.T @ (matrix @ col.phi))
