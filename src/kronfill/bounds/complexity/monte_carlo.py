"""Monte Carlo estimates of a Rademacher complexity, with a rigorous upper confidence value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from kronfill.bounds.complexity.patterns import Pattern, draw_pattern
from kronfill.bounds.complexity.signs import SignLaw
from kronfill.bounds.splits import Split
from kronfill.core.threads import one_blas_thread
from kronfill.errors import ParameterError, argument

__all__ = ["MonteCarlo", "check_delta", "estimate"]


@dataclass(frozen=True)
class MonteCarlo:
    """A Monte Carlo estimate of a transductive Rademacher complexity.

    Attributes
    ----------
    value : float
        The estimate, unbiased.
    standard_error : float
        Its standard error.
    upper : float
        Upper confidence value: the true complexity is larger with probability at most ``delta``.
        It is the smallest of Chebyshev's with a proved variance, and the closed form.
    delta : float
        Probability that ``upper`` is too small.
    draws : int
        Sign patterns drawn.
    law : str
        Law of the signs.
    """

    value: float
    standard_error: float
    upper: float
    delta: float
    draws: int
    law: str


def estimate(
    supremum: Callable[[Pattern], float],
    split: Split,
    law: SignLaw,
    *,
    lipschitz: float,
    ceiling: float,
    draws: int,
    delta: float,
    random_state: Any,
    n_jobs: int | None,
) -> MonteCarlo:
    """Estimate from ``draws`` sign patterns: each has its own seed, so workers do not matter.

    ``lipschitz`` is that of the supremum as a function of the signs: its variance is then at most
    ``law.variance() lipschitz^2``, and Cantelli's inequality gives the upper value.
    """
    from joblib import Parallel, delayed

    if isinstance(draws, bool) or not isinstance(draws, int | np.integer) or draws < 2:
        msg = f"draws must be an integer of at least 2, got {draws!r}."
        raise ParameterError(msg)
    check_delta(delta)
    seeds = np.random.SeedSequence(_entropy(random_state)).spawn(int(draws))

    def one(seed: np.random.SeedSequence) -> float:
        rng = np.random.default_rng(seed)
        return supremum(draw_pattern(law, rng, split.entries, split.sizes))

    with one_blas_thread():
        found = Parallel(n_jobs=n_jobs, prefer="threads")(delayed(one)(seed) for seed in seeds)
    suprema, scale, count = np.asarray(found, dtype=float), law.scale(split.sizes), len(found)
    value = scale * float(suprema.mean())
    error = scale * float(suprema.std(ddof=1)) / np.sqrt(count)
    sigma = scale * lipschitz * np.sqrt(law.variance(split.sizes) / count)
    upper = min(value + sigma * np.sqrt((1 - delta) / delta), ceiling)
    return MonteCarlo(value, float(error), float(upper), delta, count, law.name)


def check_delta(delta: Any) -> float:
    """Raise unless 0 < delta < 1."""
    if isinstance(delta, bool) or not isinstance(delta, int | float) or not 0 < delta < 1:
        msg = f"{argument('delta')} must be a number between 0 and 1 (exclusive), got {delta!r}."
        raise ParameterError(msg)
    return float(delta)


def _entropy(random_state: Any) -> Any:
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**63))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31))
    return random_state
