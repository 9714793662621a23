"""What each solver is expected to cost: seconds and bytes, from counts of operations.

The rates were measured on two cores; the choice between solvers depends on their ratios only, which
change little from machine to machine. ``python -m benchmarks.choice`` compares with the clock.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from kronfill.core.operator import uses_grams
from kronfill.ridge.dual_operator import DENSE_SHARE
from kronfill.ridge.problem import RidgeProblem, Sampled
from kronfill.solvers import full_scale
from kronfill.solvers.dual_pcg import default_rank

__all__ = [
    "Cost", "Size", "affordable_rank", "cholesky", "dual_pcg", "grid_eigen", "identity_pcg", "pcg",
    "primal_direct",
]  # fmt: skip

PRODUCT = 1 / 6e10
"""Seconds of a multiplication in a matrix product."""
PASS = 1 / 2.7e10
"""Seconds of a multiplication in a loop over observations."""
EIGEN = 1.2e-10
"""Seconds of an eigendecomposition over the cube of its size."""
OBSERVATION = 1.0e-7
"""Seconds of sorting an observation, and of what else is done once with each."""
EVALUATION = 8e-9
"""Seconds of an entry of a kernel."""
START = 3e-3
"""Seconds that any iterative solver takes before its first iteration."""
IDENTITY_ITERATIONS, DUAL_ITERATIONS, FULL_SCALE_ITERATIONS = 35, 100, 14
"""At the usual contrast; of the last, for each power of ten in the contrast."""
CONTRAST = 44.0
"""The usual size of the kernel over mu: similarity 1, constant 1 and identity 0.1 on both axes,
mu = 0.1."""


@dataclass(frozen=True)
class Size:
    """What a cost depends on."""

    m: int
    shape: tuple[int, int]
    items: tuple[int, int]
    """Rows and columns with an observation."""
    effects: int = 0
    """Number of effects, the mean included."""
    contrast: float = CONTRAST
    """Size of the kernel, the mean of its diagonal, over mu."""
    uneven: tuple[float, float] = (1.0, 1.0)
    """Mean square over squared mean of the numbers of observations of an item, on either axis."""

    @classmethod
    def of_problem(cls, problem: RidgeProblem) -> Size:
        """The size of a problem with its kernels and mu."""
        scale = 1.0
        for kernel in (problem.row_kernel, problem.col_kernel):
            scale *= 1.0 if kernel.by_products else float(np.mean(kernel.diagonal()))
        return replace(cls.of(problem.sampled), contrast=scale / problem.mu)

    @classmethod
    def of(cls, s: Sampled) -> Size:
        """The size of a problem with these observations."""
        rows, cols = (int(np.count_nonzero(count)) for count in s.mask.counts)
        effects = 0
        if s.effects is not None:
            kinds = {"mean": 0, "rows": s.shape[0], "cols": s.shape[1], "both": sum(s.shape)}
            effects = 1 + kinds[s.effects.kind]
        uneven = tuple(
            float(np.mean(count[count > 0] ** 2) / np.mean(count[count > 0]) ** 2)
            for count in s.mask.counts
        )
        return cls(s.m, s.shape, (rows, cols), effects, uneven=(uneven[0], uneven[1]))

    def growth(self, ranks: tuple[int, int]) -> float:
        """How iterations in factor space grow with the contrast.

        Where kernels of nearly full rank have more unknowns than there are observations, a small mu
        leaves many of them undecided, the more so the less even the mask is.
        """
        unknowns, cells = ranks[0] * ranks[1], self.shape[0] * self.shape[1]
        undecided = unknowns / cells * min(1.0, (1 - self.m / cells) * unknowns / self.m) ** 2
        power = undecided * (0.45 + 0.25 * min(1.0, max(self.uneven) - 1.0))
        return float(max(1.0, 10 * self.contrast / CONTRAST) ** power)


@dataclass(frozen=True)
class Cost:
    """Expected seconds and bytes."""

    seconds: float
    bytes: float


def cholesky(size: Size) -> Cost:
    """Form Kbar, factor it, measure the residual."""
    m, (r, c), extra = size.m, size.items, size.effects
    kernels = EVALUATION * (r * r + c * c)
    seconds = PRODUCT * (m**3 / 6 + m * m * extra) + 6e-9 * m * m + kernels + 2e-3
    return Cost(seconds, 8.0 * (m * m + 2 * m * extra + r * r + c * c))


def grid_eigen(size: Size) -> Cost:
    """Two eigendecompositions and a few products for each effect."""
    n, l = size.shape
    products = (6 + 4 * size.effects) * PRODUCT * n * l * (n + l)
    seconds = EIGEN * (n**3 + l**3) + products + 2 * OBSERVATION * size.m
    return Cost(seconds, 8.0 * (3 * n * n + 3 * l * l + 6 * n * l))


def affordable_rank(n: int, seconds: float) -> int:
    """Largest rank d for which a factor of n items takes no more than this: a d^2 + b d + c."""
    a, b = 6.5e-11 * n, 1.2e-8 * n + 2e-5
    return int(((b * b + 4 * a * max(0.0, seconds - 5e-4)) ** 0.5 - b) / (2 * a))


def primal_direct(size: Size, ranks: tuple[int, int]) -> Cost:
    """Normal equations and their factorisation."""
    (a, b), m, extra = ranks, size.m, size.effects
    unknowns = a * b
    gram = PRODUCT * (size.shape[0] * unknowns**2 / 4 + 2 * m * b * b) + 3e-8 * unknowns**2
    solve = PRODUCT * (unknowns**3 / 6 + unknowns**2 * (extra + 10) + 10 * extra**3)
    seconds = gram + solve + OBSERVATION * m + 1e-3
    return Cost(seconds, 20.0 * unknowns * (unknowns + extra) + 40.0 * m)


def pcg(size: Size, ranks: tuple[int, int]) -> Cost:
    """Rotation of the factors, then passes over the observations."""
    a, b = max(ranks), min(ranks)
    outer = size.shape[0] if ranks[0] >= ranks[1] else size.shape[1]
    rotate = EIGEN * (a**3 + b**3) + 1.5 * PRODUCT * (outer * a * a + max(size.shape) * b * b)
    sweep = 2 * PRODUCT * outer * a * b + 2e-8 * a * b
    if uses_grams(size.m, outer, b) and size.effects <= 1:
        rotate += 2 * PRODUCT * size.m * b * b
        sweep += PASS * outer * b * b
    else:
        sweep += 2 * PASS * size.m * b * (2 if size.effects > 1 else 1)
    # Passes grow with unknowns per observation; where nothing is missing the basis is exact.
    missing = max(0.0, 1 - size.m / (size.shape[0] * size.shape[1]))
    passes = 3 + (4 + 12 * (a * b / size.m) ** 0.25) * missing**0.15
    passes *= size.growth(ranks)
    memory = 8.0 * (3 * (size.shape[0] * ranks[0] + size.shape[1] * ranks[1]) + 20 * a * b)
    seconds = START + rotate + passes * sweep + OBSERVATION * size.m
    return Cost(seconds, memory + 50.0 * size.m)


def identity_pcg(size: Size, ranks: tuple[int, int]) -> Cost:
    """The same with identity parts."""
    (n, l), (a, b) = size.shape, ranks
    unknowns = n * b + l * a + a * b
    sweep = 4 * PRODUCT * (n + l) * a * b + 1e-7 * unknowns + 2 * PASS * size.m * (a + b)
    # Singular values of the factors, then eigenvectors of them as they are sampled.
    setup = 10 * EIGEN * (a**3 + b**3) + 4 * PRODUCT * (n * a * a + l * b * b)
    iterations = IDENTITY_ITERATIONS * (size.contrast / CONTRAST) ** 0.36
    seconds = 3 * START + setup + max(5.0, iterations) * sweep + 2 * OBSERVATION * size.m
    return Cost(seconds, 8.0 * (14 * unknowns + 6 * (n * a + l * b)) + 70.0 * size.m)


def dual_pcg(size: Size, ranks: tuple[int | None, int | None]) -> Cost:
    """Preconditioner, then products with Kbar; a rank of None is a kernel of full rank."""
    thin = [rank for rank in ranks if rank is not None]
    return _full_scale(size) if not thin else _partial_factor(size, ranks, min(thin))


def _partial_factor(size: Size, ranks: tuple[int | None, int | None], rank: int) -> Cost:
    """With a factor of low rank for a kernel, and a partial factorisation of Kbar."""
    m, (r, c) = size.m, size.items
    other = c if ranks[0] == rank else r
    product = 2 * PASS * m * rank + PRODUCT * other * other * rank
    k = default_rank(m)
    setup = START + 3 * PRODUCT * m * k * k + 3e-8 * m * k + 1e-8 * (r * r + c * c)
    iterations = DUAL_ITERATIONS * (size.contrast / CONTRAST) ** 0.4
    seconds = setup + iterations * (product + 2e-9 * m * k) + 2 * OBSERVATION * m
    return Cost(seconds, 8.0 * (3 * m * k + r * r + c * c) + 80.0 * m)


def _full_scale(size: Size) -> Cost:
    """With two matrices, and the preconditioner of :mod:`kronfill.solvers.full_scale`."""
    m, items = size.m, size.items
    long, short = max(items), min(items)
    kernels = EVALUATION * (long**2 + short**2)
    # Squares of the sizes of groups, which are the observations of an item of the longer axis.
    squares = m * min(full_scale.LARGEST_BLOCK, m / long * size.uneven[items.index(long)])
    if m > DENSE_SHARE * long * short:
        product = 2 * (PASS * m * short + PRODUCT * long * long * short)
    else:
        product = 3 * PASS * m * (long + short)
    k = full_scale.affordable_modes(m, items)
    outer, inner = min(long, full_scale.OUTER_MODES), min(short, full_scale.INNER_MODES)
    apply = PASS * (2 * squares + 30 * m) + 1e-10 * k * k + 4e-9 * long * k + 2e-8 * m
    modes = 1.4 * PRODUCT * long**2 * outer + 0.6 * EIGEN * inner**3 + 8e-10 * outer**2 * long
    core = 1.8 * PRODUCT * (long * k * k / 2 + k**3) + 2.4e-9 * m * k
    setup = 4 * START + kernels + modes + core + 1.2e-8 * squares
    iterations = 3 + FULL_SCALE_ITERATIONS * np.log10(1 + 10 * size.contrast)
    seconds = setup + iterations * (product + apply) + 2 * OBSERVATION * m
    memory = full_scale.most_bytes(m, squares, k) + 16.0 * long * short
    return Cost(float(seconds), memory + 8.0 * (long**2 + short**2) + 80.0 * m)
