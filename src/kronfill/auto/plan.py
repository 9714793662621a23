"""How much work the choice of everything is to be, settled before it begins."""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Real

from kronfill.data.amounts import count_of, duration_of, size_of
from kronfill.errors import ParameterError, argument

__all__ = ["Plan", "costed", "planned"]

RATE = 4e9
"""Multiplications in a second, about, of the loops that count here."""
SWEEPS = 40
ITERATIONS = 40
"""Of the conjugate gradients in a search for weights, about."""


@dataclass(frozen=True)
class Plan:
    """What :class:`~kronfill.AutoMC` does, and what it is expected to take.

    Parameters
    ----------
    rank : int
        Most latent factors.
    steps : int
        Most steps of a search for weights; 0 leaves them as they are first.
    entries : int
        Most observations from which weights are learned.
    items : int
        Most rows, and most columns, among them.
    hidden : float
        Share of the observations that is hidden from a fit.
    folds : int
        How many times that is done, with other entries each time.
    seconds, bytes : float
        What it is expected to take; no part of the plan.

    Examples
    --------
    >>> from kronfill.auto.plan import planned
    >>> plan = planned((200, 100), 5000, 3)
    >>> plan.folds, plan.steps
    (2, 12)
    >>> planned((2000, 1000), 200_000, 3, budget=100.0).steps < plan.steps
    True
    """

    rank: int = 30
    steps: int = 12
    entries: int = 30_000
    items: int = 2500
    hidden: float = 0.1
    folds: int = 1
    seconds: float = 0.0
    bytes: float = 0.0

    def words(self) -> str:
        """The plan in a sentence."""
        return (
            f"up to {count_of(self.rank, 'factor')}, {count_of(self.steps, 'step')} of each search "
            f"for weights on up to {count_of(self.entries, 'observation')}, "
            f"{count_of(self.folds, 'fold')}; about {duration_of(self.seconds)} and "
            f"{size_of(self.bytes)}"
        )


LARGE_PARTS = 30_000_000
"""Numbers in the parts of one axis, in a search for weights."""
ENOUGH = 1000
"""So many hidden entries tell weights and shares well enough."""


def planned(
    shape: tuple[int, int], m: int, parts: int, *, rank: int = 30, budget: float | None = None
) -> Plan:
    """A plan for m observations of a table, within a budget of seconds if there is one.

    Parameters
    ----------
    shape : tuple of int
        Size of the table.
    m : int
        Number of observations.
    parts : int
        Most parts of the kernel of an axis.
    rank : int, default=30
        Most latent factors.
    budget : float, optional
        Seconds that it may take. Less than the smallest plan takes is refused.
    """
    hidden = 0.2 if m < 5 * ENOUGH else 0.1
    folds = max(1, min(5, round(ENOUGH / max(1.0, hidden * m))))
    items = int((LARGE_PARTS / (parts + 2)) ** 0.5)
    plan = Plan(rank=rank, items=min(2500, items), folds=folds, hidden=hidden)
    plan = costed(plan, shape, m, parts)
    if budget is None:
        return plan
    if isinstance(budget, bool) or not isinstance(budget, Real) or not float(budget) > 0:
        msg = f"budget must be a positive number of seconds or None, got {budget!r}."
        raise ParameterError(msg)
    smaller = (
        {"steps": 8}, {"entries": 15_000}, {"steps": 5}, {"rank": min(rank, 15)},
        {"entries": 5000}, {"steps": 2}, {"rank": min(rank, 8)}, {"folds": 1}, {"steps": 0},
    )  # fmt: skip
    for change in smaller:
        if plan.seconds <= budget:
            break
        plan = costed(replace(plan, **change), shape, m, parts)
    if plan.seconds > budget:
        msg = (
            f"{argument('budget', budget)} is too little: with everything cut down it takes about "
            f"{duration_of(plan.seconds)}. Give as much, or {_QUICKER}"
        )
        raise ParameterError(msg)
    return plan


_QUICKER = "choose the method yourself: KKMCEX, KMC and MC take a fraction of it."


def costed(plan: Plan, shape: tuple[int, int], m: int, parts: int) -> Plan:
    """The plan with what it takes for m observations of a table, as for :func:`planned`."""
    n, l = shape
    p = min(plan.rank, n, l)
    sweep = m * p * (p + 4) + (n + l) * p**3 / 3
    rounds = plan.folds + 2  # the folds, hidden rows and columns, and all
    factors = rounds * SWEEPS * sweep
    part = min(m, plan.entries)
    n1, l1 = (min(size, plan.items) for size in shape)
    share = part / m
    if part <= 1200:  # a factorisation; beyond, conjugate gradients and their preconditioner
        system = part**3 / 3 + 10.0 * part**2
    else:
        system = part * min(n1 + l1, 4000) * ITERATIONS * 2 + 1.5e9 * min(1.0, part / 20_000)
    search = 2 * plan.folds * (1.3 * plan.steps + 1) * (system + parts * (n1**2 + l1**2))
    fit = m * min(n + l, 4000) * 2.0 * ITERATIONS * 2 * rounds
    seconds = (factors + search + fit) / RATE + 0.5
    kept = 8.0 * (parts + 4) * (n1**2 + l1**2) * plan.folds + 8.0 * (n + l) * p * (p + 1)
    return replace(plan, seconds=seconds, bytes=kept + 200.0 * m * (1 + share) + 3e7)
