"""Leading eigenpairs of a function of a sparse Laplacian, by block Lanczos."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.linalg import eigh, eigh_tridiagonal, qr
from scipy.sparse.csgraph import connected_components

from kronfill._types import Floats
from kronfill.core.low_rank import LowRankFactor
from kronfill.core.memory import require_memory
from kronfill.errors import KernelError
from kronfill.kernels.graphs.laplacian import (
    LaplacianFunction,
    Operator,
    SparseLaplacian,
    chebyshev,
    direct_solver,
)

__all__ = ["SpectralFactor"]

# A Ritz pair has converged when its residual is this share of the largest Ritz value.
_CONVERGED = 1e-12
_MOST_ROUNDS = 500
# Above this share of all eigenpairs a dense decomposition is cheaper.
_DENSE_SHARE = 0.25
# Blocks of vectors that a basis holds beside the wanted ones before it is restarted.
_BLOCKS = 5
_PROBES, _PROBE_STEPS = 8, 60


@dataclass(frozen=True)
class SpectralFactor:
    """The factor U f(Lambda)^(1/2) of f(L) over the smallest eigenvalues of L.

    Attributes
    ----------
    laplacian : SparseLaplacian
        L.
    function : LaplacianFunction
        f; it decreases, so the smallest eigenvalues of L are the largest of the kernel.
    rtol : float
        Share of the trace that may be left out.
    max_rank : int or None
        Largest number of pairs.
    """

    laplacian: SparseLaplacian
    function: LaplacianFunction
    rtol: float
    max_rank: int | None

    def compute(self) -> LowRankFactor | None:
        """Return the factor, or None where so many pairs are needed that a dense one is cheaper."""
        nodes, counts = spectral_density(self.laplacian)
        still = _still_vectors(self.laplacian)
        limit = self.laplacian.n if self.max_rank is None else self.max_rank
        rank = min(limit, max(self._expected_rank(nodes, counts), still.shape[1]))
        vectors: Floats = np.zeros((self.laplacian.n, 0))
        while True:
            if self._dense_is_cheaper(rank):
                return None
            # The smallest eigenvalues that the pairs reach, as the density has it.
            cut = float(nodes[min(np.searchsorted(counts, rank), nodes.size - 1)])
            lam, vectors = self._smallest(still, rank, max(cut, 1e-6), vectors)
            left = self._left_out(lam)
            kept = np.cumsum(self.function.values(lam))
            (enough,) = np.nonzero(left <= self.rtol * kept)
            if enough.size or rank == limit:
                last = int(enough[0]) if enough.size else lam.size - 1
                return self._factor(lam[: last + 1], vectors[:, : last + 1], left[last])
            rank = min(limit, int(1.5 * rank) + 8)

    def _expected_rank(self, nodes: Floats, counts: Floats) -> int:
        """Estimate how many pairs leave out no more than allowed."""
        values = self.function.values(nodes)
        sizes = np.diff(counts, prepend=0.0)
        (enough,) = np.nonzero((counts[-1] - counts) * values <= self.rtol * (sizes @ values))
        return int(np.ceil(counts[enough[0]] if enough.size else counts[-1])) + 8

    def _dense_is_cheaper(self, rank: int) -> bool:
        n = self.laplacian.n
        dense = rank > _DENSE_SHARE * n
        width = rank + _BLOCKS * _width(rank)
        require_memory(
            4 * 8 * n * n if dense else 2 * 8 * n * width,
            f"A factor of about {rank} eigenpairs of a kernel of {n} nodes",
            "Limit the rank (max_rank), let the kernel reach further (a larger t, sigma or number "
            "of steps), or do without a factor: solver=kf.DualPCG().",
        )
        return dense

    def _smallest(
        self, still: sparse.csr_array, rank: int, cut: float, start: Floats
    ) -> tuple[Floats, Floats]:
        """Return the smallest eigenvalues, in order, and their vectors; `start` may have some."""
        known = still[:, :rank].toarray()
        wanted = rank - known.shape[1]
        if wanted == 0:
            return np.zeros(rank), known
        operator = _without(still, _filter(self.laplacian, cut))
        vectors = _leading(operator, self.laplacian.n, wanted, start[:, known.shape[1] :])
        # The filter tells close eigenvalues apart less well than L itself.
        lam, turn = eigh(vectors.T @ (self.laplacian.matrix @ vectors), check_finite=False)
        both = np.concatenate([known, vectors @ turn], axis=1)
        return np.concatenate([np.zeros(known.shape[1]), np.maximum(lam, 0.0)]), both

    def _left_out(self, lam: Floats) -> Floats:
        """Bound the trace of f(L) that the first 1, 2, ... eigenvalues leave out.

        The others are not below the last of these, l, and their mean and variance v follow from
        the traces of L and L^2. As the third derivative of f is not positive, the mean of f is
        largest for eigenvalues at two places (Chebyshev, Markov, Krein): a share
        v / (v + (mean - l)^2) of them at l, the rest at mean + v / (mean - l).
        """
        others = self.laplacian.n - np.arange(1, lam.size + 1)
        matrix = self.laplacian.matrix
        total = matrix.diagonal().sum() - np.cumsum(lam)
        squares = matrix.data @ matrix.data - np.cumsum(lam**2)
        above = np.maximum(total / np.maximum(others, 1) - lam, 0.0)
        variance = np.maximum(squares / np.maximum(others, 1) - (above + lam) ** 2, 0.0)
        spread = variance + above**2
        share = np.divide(variance, spread, out=np.ones_like(lam), where=above > 0)
        far = np.divide(spread, above, out=np.zeros_like(lam), where=above > 0)
        far = np.minimum(lam + far, self.laplacian.top)
        low, high = self.function.values(lam), self.function.values(far)
        bound: Floats = others * (share * low + (1.0 - share) * high)
        return bound

    def _factor(self, lam: Floats, vectors: Floats, left: float) -> LowRankFactor:
        values = self.function.values(lam)
        phi = np.ascontiguousarray(vectors * np.sqrt(values))
        return LowRankFactor(phi, None, float(left / (left + values.sum())))


def spectral_density(laplacian: SparseLaplacian) -> tuple[Floats, Floats]:
    """Estimate how many eigenvalues lie up to certain values.

    Returns
    -------
    nodes : ndarray
        Values in increasing order.
    counts : ndarray
        Estimated number of eigenvalues up to each of them; the last is n.

    Notes
    -----
    Stochastic Lanczos quadrature: the tridiagonal matrices of Lanczos runs from random signs are
    Gauss rules of the spectral density.
    """
    n, matrix = laplacian.n, laplacian.matrix
    now = np.random.default_rng(0).choice([-1.0, 1.0], size=(n, _PROBES)) / np.sqrt(n)
    steps = min(_PROBE_STEPS, n)
    alpha, beta = np.zeros((steps, _PROBES)), np.zeros((steps + 1, _PROBES))
    before = np.zeros_like(now)
    for step in range(steps):
        after = matrix @ now - beta[step] * before
        alpha[step] = np.einsum("ij,ij->j", now, after)
        after -= alpha[step] * now
        beta[step + 1] = np.linalg.norm(after, axis=0)
        # After an exact end the rest of the rule has no weight.
        before, now = now, after / np.where(beta[step + 1] > 0, beta[step + 1], 1.0)
    rules = [eigh_tridiagonal(alpha[:, j], beta[1:steps, j]) for j in range(_PROBES)]
    nodes = np.concatenate([rule[0] for rule in rules])
    weights = np.concatenate([rule[1][0] ** 2 for rule in rules])
    order = np.argsort(nodes, kind="stable")
    counts = np.cumsum(weights[order]) * (n / weights.sum())
    return np.clip(nodes[order], 0.0, laplacian.top), counts


def _still_vectors(laplacian: SparseLaplacian) -> sparse.csr_array:
    """Return the eigenvectors of eigenvalue zero: one for each component, largest first."""
    _, component = connected_components(laplacian.matrix, directed=False)
    sizes = np.bincount(component)
    place = np.empty(sizes.size, dtype=np.intp)
    place[np.argsort(-sizes, kind="stable")] = np.arange(sizes.size)
    norms = np.sqrt(np.bincount(component, laplacian.still**2))
    entries = laplacian.still / norms[component]
    where = (np.arange(laplacian.n), place[component])
    return sparse.csr_array((entries, where), shape=(laplacian.n, sizes.size))


def _filter(laplacian: SparseLaplacian, cut: float) -> Operator:
    """Return a decreasing function of L that tells the eigenvalues up to `cut` from the rest."""
    # Neither reaches so far that the eigenvalues at the cut drown in rounding errors.
    shift = 0.01 * cut * sparse.eye_array(laplacian.n, format="csr")
    inverse = direct_solver(sparse.csr_array(laplacian.matrix + shift))
    return chebyshev(laplacian, 7.0 / cut) if inverse is None else inverse


def _without(still: sparse.csr_array, operator: Operator) -> Operator:
    """Return the operator on the complement of the vectors `still`."""

    def outside(V: Floats) -> Floats:
        return np.ascontiguousarray(V - still @ (still.T @ V))

    return lambda V: outside(operator(outside(V)))


def _width(wanted: int) -> int:
    """Choose how many vectors a basis grows by at a time."""
    return min(128, max(16, wanted // 2))


def _leading(operator: Operator, n: int, wanted: int, start: Floats) -> Floats:
    """Return an orthonormal basis of the leading eigenvectors of a positive operator.

    Block Lanczos with full orthogonalisation: the basis grows by residuals of the first pairs that
    have not converged, and is cut back to its leading Ritz vectors when it gets too large. As many
    random vectors as pairs are wanted begin it, so that no copy of a multiple eigenvalue is missed.
    """
    width = _width(wanted)
    rng = np.random.default_rng(0)
    fresh = rng.standard_normal((n, min(wanted + width, n) - start.shape[1]))
    basis = _orthonormal(operator(np.concatenate([start, fresh], axis=1)))
    images = operator(basis)
    projected = basis.T @ images
    first = 0
    for _ in range(_MOST_ROUNDS):
        values, turn = eigh(projected, check_finite=False)
        values, turn = values[::-1], np.ascontiguousarray(turn[:, ::-1])
        first, residuals = _unconverged(basis, images, values, turn, first, (wanted, width))
        if residuals is None:
            break
        if basis.shape[1] + width > wanted + _BLOCKS * width:
            keep = turn[:, : wanted + width]
            basis, images = basis @ keep, images @ keep
            projected = np.diag(values[: wanted + width])
        room = min(residuals.shape[1], n - basis.shape[1])
        fresh = residuals[:, :room]
        for _ in range(2):  # once is not enough where little is left
            fresh = _orthonormal(fresh - basis @ (basis.T @ fresh))
        basis = np.concatenate([basis, fresh], axis=1)
        images = np.concatenate([images, operator(fresh)], axis=1)
        border = basis.T @ images[:, -fresh.shape[1] :]
        side = border[: projected.shape[0]]
        projected = np.block([[projected, side], [border.T]])
    else:
        msg = (
            f"{wanted} leading eigenvectors of the graph were not found in {_MOST_ROUNDS} rounds; "
            "ask for another number of them (max_rank)."
        )
        raise KernelError(msg)
    return np.ascontiguousarray(basis @ turn[:, :wanted])


def _unconverged(
    basis: Floats,
    images: Floats,
    values: Floats,
    turn: Floats,
    first: int,
    sizes: tuple[int, int],
) -> tuple[int, Floats | None]:
    """Find the first pair that has not converged, and residuals from there on."""
    wanted, width = sizes
    while first < wanted:
        some = slice(first, first + width)
        residuals = images @ turn[:, some] - (basis @ turn[:, some]) * values[some]
        bad = np.linalg.norm(residuals[:, : wanted - first], axis=0) > _CONVERGED * values[0]
        if bad.any():
            return first + int(np.argmax(bad)), residuals
        first += width
    return 0, None


def _orthonormal(block: Floats) -> Floats:
    """Return an orthonormal basis of the columns."""
    (basis, _) = qr(block, mode="economic", check_finite=False)
    return np.asarray(basis)
