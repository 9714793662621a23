"""Direct solve in factor space, for when the factors are thin: a b unknowns instead of m.

The normal matrix Psi^T W Psi is a sum over rows of (p_i p_i^T) (x) (sum_j w_ij q_j q_j^T). The
inner sums cost m b^2; the outer one is a product of two tall matrices whose columns are the
distinct pairs of components, N (a^2/2)(b^2/2) multiplications.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kronfill._types import Floats
from kronfill.core.limits import FACTOR_RTOL, SUMMED_FLOATS
from kronfill.core.operator import pair_products, row_grams
from kronfill.ridge.effects import AdditiveEffects, EffectsDesign, half_inverse
from kronfill.ridge.factorised import CholeskyFactor, Factorised, SolvedSystem, factorised
from kronfill.ridge.problem import (
    CoreResult,
    FactorLike,
    RidgeProblem,
    RidgeResult,
    RidgeSolver,
    Sampled,
    targets,
)
from kronfill.ridge.solution import Solution, Status

__all__ = [
    "PrimalDirect",
    "effects_blocks",
    "factorised_normal",
    "normal_equations",
    "solve_primal",
]

ACCURATE = 1e-6
"""Normal equations lose digits to rounding; a dual residual below this is what was asked for."""


@dataclass(frozen=True)
class PrimalDirect(RidgeSolver):
    """Cholesky factorisation of the normal equations in the space of the kernels' factors.

    Costs (a b)^3/3 multiplications for factors of ranks a and b, whatever the number of
    observations.

    Examples
    --------
    >>> import numpy as np, kronfill as kf
    >>> rng = np.random.default_rng(0)
    >>> k = kf.kernels.linear(rng.random((40, 3)))
    >>> X = np.argwhere(rng.random((40, 40)) < 0.5)
    >>> est = kf.KKMCEX(k, k, solver=kf.solvers.PrimalDirect()).fit(X, rng.random(len(X)))
    >>> est.solution_.solver
    'PrimalDirect'
    """

    def solve_targets(self, problem: RidgeProblem) -> list[RidgeResult]:
        """Factor both kernels and solve the normal equations."""
        row = problem.row_kernel.factor(rtol=FACTOR_RTOL)
        col = problem.col_kernel.factor(rtol=FACTOR_RTOL)
        return self.solve_factors(row, col, problem)

    def solve_factors(
        self, row: FactorLike, col: FactorLike, problem: RidgeProblem
    ) -> list[RidgeResult]:
        """Solve for kernels that are factored already, for each target."""
        return [
            solve_primal(row.phi, col.phi, one.sampled, problem.mu).over(row, col)
            for one in targets(problem)
        ]


def solve_primal(row_phi: Floats, col_phi: Floats, sampled: Sampled, mu: float) -> CoreResult:
    """Solve min sum_k w_k (y_k - (Z beta)_k - p_k X q_k^T)^2 + mu ||X||_F^2 exactly."""
    gram, moment = normal_equations(row_phi, col_phi, sampled)
    factor = factorised_normal(gram, mu)
    coef, rank = factor.solve(moment), factor.rank
    core = coef.reshape(row_phi.shape[1], col_phi.shape[1])
    rest = sampled.values - pair_products(row_phi @ core, col_phi, sampled.rows, sampled.cols)
    effects: AdditiveEffects | None = None
    if sampled.effects is not None:
        effects = sampled.effects.fit(rest)
        rest -= effects.at(sampled.rows, sampled.cols)
    dual = (rest if sampled.weights is None else rest * sampled.weights) / mu
    residual = _residual(gram, moment, coef, mu, sampled)
    exact = rank == len(coef) and residual <= ACCURATE
    status = Status.EXACT if exact else Status.RANK_DEFICIENT
    solution = Solution(status, "PrimalDirect", residual=residual, rank=rank)
    system = None
    if isinstance(factor, CholeskyFactor):  # eigenvalues would be those of other variances
        system = SolvedSystem.if_small(factor, row_phi, col_phi, sampled.kind)
    return CoreResult(core, dual, effects, solution, system)


def normal_equations(row_phi: Floats, col_phi: Floats, sampled: Sampled) -> tuple[Floats, Floats]:
    """Psi^T M Psi (a b x a b) and Psi^T M y, with X flattened row by row; M frees the effects."""
    gram, moment = _plain_normal_equations(row_phi, col_phi, sampled)
    if sampled.effects is not None:
        cross, effects_gram, effects_moment = effects_blocks(
            row_phi, col_phi, sampled, sampled.effects
        )
        inverse = half_inverse(effects_gram)
        half = cross @ inverse  # C Z^+
        gram -= half @ half.T
        moment -= half @ (inverse.T @ effects_moment)
    return gram, moment


def _plain_normal_equations(
    row_phi: Floats, col_phi: Floats, sampled: Sampled
) -> tuple[Floats, Floats]:
    s = sampled
    a, b = row_phi.shape[1], col_phi.shape[1]
    grouped = s.mask.by_rows
    q = np.ascontiguousarray(col_phi)
    weighted = s.values if s.weights is None else s.values * s.weights
    moment = row_phi.T @ (s.sparse(weighted) @ q)
    upper_a, upper_b = np.triu_indices(a), np.triu_indices(b)
    pairs = np.zeros((len(upper_a[0]), len(upper_b[0])))
    step = max(1, SUMMED_FLOATS // max(1, len(upper_a[0]) + b * b))
    for first in range(0, s.shape[0], step):
        last = min(first + step, s.shape[0])
        inner = row_grams(q, grouped.indptr[first : last + 1], grouped.inner, grouped.weights)
        p = row_phi[first:last]
        pairs += (p[:, upper_a[0]] * p[:, upper_a[1]]).T @ inner[:, upper_b[0], upper_b[1]]
    by_b = np.empty((len(upper_a[0]), b, b))
    by_b[:, upper_b[0], upper_b[1]] = pairs
    by_b[:, upper_b[1], upper_b[0]] = pairs
    gram = np.empty((a, b, a, b))
    gram[upper_a[0], :, upper_a[1], :] = by_b
    gram[upper_a[1], :, upper_a[0], :] = by_b
    return gram.reshape(a * b, a * b), moment.ravel()


def effects_blocks(
    row_phi: Floats, col_phi: Floats, sampled: Sampled, effects: EffectsDesign
) -> tuple[Floats, Floats, Floats]:
    """Psi^T W Z, Z^T W Z and Z^T W y of the effects, as dense arrays."""
    s, weights = sampled, sampled.weights_or_ones
    table = s.sparse(weights)
    by_row, by_col = table @ col_phi, table.T @ row_phi  # sums of q over a row, of p over a column
    ab = row_phi.shape[1] * col_phi.shape[1]
    parts = [(row_phi.T @ by_row).reshape(ab, 1)]
    if effects.kind in ("rows", "both"):
        parts.append(np.einsum("ia,ib->abi", row_phi, by_row).reshape(ab, s.shape[0]))
    if effects.kind in ("cols", "both"):
        parts.append(np.einsum("ja,jb->abj", by_col, col_phi).reshape(ab, s.shape[1]))
    design = effects.matrix()
    weighted = design.multiply(weights[:, None]).tocsr()
    gram = (weighted.T @ design).toarray()
    return np.hstack(parts), gram, weighted.T @ s.values


def factorised_normal(gram: Floats, mu: float) -> Factorised:
    """Normal equations plus mu I; their eigenvalues are sums of squares over all observations.

    The right-hand side lies in the range of the sums, so that a mu just above rounding will do.
    """
    noise = len(gram) * float(np.finfo(float).eps) * float(np.trace(gram))
    return factorised(gram, mu, noise=noise, margin=1.0)


def _residual(gram: Floats, moment: Floats, coef: Floats, mu: float, sampled: Sampled) -> float:
    """Relative dual residual ||Psi R|| / (mu ||y||), R being the primal one."""
    r = moment - gram @ coef - mu * coef
    size = mu * float(np.linalg.norm(sampled.root_weights * sampled.values))
    norm = float(np.sqrt(max(0.0, float(r @ gram @ r))))
    return norm / size if size > 0 else norm
