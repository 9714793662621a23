"""What is hidden from the fits that are compared, and from what weights are learned."""

from __future__ import annotations

import numpy as np

from kronfill._types import Flags, Floats, Index
from kronfill.auto.members import SMALL, Axes
from kronfill.auto.plan import Plan
from kronfill.auto.sources import AxisParts
from kronfill.data import Observations

__all__ = ["hidden_entries", "hidden_items", "part_to_learn_from", "spared"]

VERY_FEW, FEW_ITEMS = 100, 500
"""Fewer rows or columns than this are hidden a fifth at a time, five times or twice; of more, a
tenth once."""
MOST_CELLS = 50_000_000
"""Of larger tables what is missing is not looked at."""
UNLIKE = 0.2
"""Sum of the differences of six shares from which on entries are not missing at random."""
SPARED = 4
"""One of so many hidden entries is not learned from, and tells whether learning paid."""
SEEDS = 8
"""About so many neighbourhoods make up a part of the items."""
LEAST_ITEMS = 5
"""So many rows (columns) with entries are needed for some of them to be hidden."""


def hidden_entries(obs: Observations, plan: Plan, rng: np.random.Generator) -> list[Flags]:
    """Entries to hide, for each fold, as those that are missing; some stay and some go.

    At random where the missing ones look as if they were; where they do not, such as the ends of
    curves or stretches of time, rows (columns) lose what another one lacks.
    """
    count = min(max(1, round(plan.hidden * obs.m)), obs.m - 1)
    order = rng.permutation(obs.m)
    ways = [_at_random(obs, order, count, plan.folds)]
    missing = obs.shape[0] * obs.shape[1] - obs.m
    if min(obs.shape) > 1 and 0 < missing <= MOST_CELLS:
        ways += [_as_others_lack(obs, axis, count, plan.folds, rng) for axis in (0, 1)]
    if len(ways) == 1:
        return ways[0]
    seen = np.zeros(obs.shape, bool)
    seen[obs.rows, obs.cols] = True
    rows_seen, cols_seen = obs.row_counts > 0, obs.col_counts > 0
    lacking = np.nonzero(~seen & np.outer(rows_seen, cols_seen))
    if len(lacking[0]) == 0:
        return ways[0]
    goal = _surroundings(seen, *lacking)

    def unlike(folds: list[Flags]) -> float:
        hidden = folds[0]
        if not max(1, count // 2) <= hidden.sum() <= 2 * count:
            return np.inf
        if not all(0 < fold.sum() < obs.m for fold in folds):  # of very few entries
            return np.inf
        left = seen.copy()
        left[obs.rows[hidden], obs.cols[hidden]] = False
        found = _surroundings(left, obs.rows[hidden], obs.cols[hidden])
        return float(np.abs(found - goal).sum())

    distance = [unlike(way) for way in ways]
    best = int(np.argmin(distance))
    return ways[best] if distance[best] < distance[0] - UNLIKE else ways[0]


def _at_random(obs: Observations, order: Index, count: int, folds: int) -> list[Flags]:
    found = []
    for k in range(folds):
        hidden = np.zeros(obs.m, bool)
        hidden[np.take(order, np.arange(k * count, (k + 1) * count), mode="wrap")] = True
        found.append(hidden)
    return found


def _as_others_lack(
    obs: Observations, axis: int, count: int, folds: int, rng: np.random.Generator
) -> list[Flags]:
    """Some rows (columns, for axis 1) lose the entries that another one lacks."""
    index, other = (obs.rows, obs.cols) if axis == 0 else (obs.cols, obs.rows)
    size, width = obs.shape[axis], obs.shape[1 - axis]
    seen = np.zeros((size, width), bool)
    seen[index, other] = True
    items = np.flatnonzero(seen.any(axis=1))
    givers = items[~seen[items].all(axis=1)]
    if len(givers) == 0:
        return [np.zeros(obs.m, bool)] * folds
    order = rng.permutation(items)
    found, at = [], 0
    for _ in range(folds):
        away = np.zeros((size, width), bool)
        total = 0
        for _ in range(len(items)):
            if total >= count:
                break
            item, giver = order[at % len(items)], givers[rng.integers(len(givers))]
            at += 1
            lost = seen[item] & ~seen[giver]
            if lost.sum() < seen[item].sum():  # no new row, which is another question
                away[item] = lost
                total += int(lost.sum())
        found.append(away[index, other])
    return found


def _surroundings(seen: Flags, rows: Index, cols: Index) -> Floats:
    """What is observed around entries, on average: in the row, in the column, and next to them."""
    n, l = seen.shape
    beside = (
        seen[np.maximum(rows - 1, 0), cols], seen[np.minimum(rows + 1, n - 1), cols],
        seen[rows, np.maximum(cols - 1, 0)], seen[rows, np.minimum(cols + 1, l - 1)],
    )  # fmt: skip
    shares = seen.mean(axis=1)[rows], seen.mean(axis=0)[cols]
    return np.array([*(np.mean(share) for share in shares), *(np.mean(flag) for flag in beside)])


def hidden_items(obs: Observations, axes: Axes, rng: np.random.Generator) -> list[Flags]:
    """Entries of some rows and columns, of those of which something is known, for each fold.

    Where nothing is known about either axis, of both. Of few items, all are hidden in turn, or two
    fifths of them where each has many observations.
    """
    nothing = not any(axis.are_known for axis in axes)
    orders = []
    sides = ((obs.rows, obs.row_counts), (obs.cols, obs.col_counts))
    for axis, (index, counts) in zip(axes, sides, strict=True):
        items = np.flatnonzero(counts)
        if len(items) >= LEAST_ITEMS and (nothing or axis.are_known):
            orders.append((index, rng.permutation(items)))
    fewest = min((len(order) for _, order in orders), default=0)
    share, folds = (0.2, 2) if fewest < FEW_ITEMS else (0.1, 1)
    if fewest < VERY_FEW and obs.m <= SMALL:
        folds = 5
    found = []
    for k in range(folds):
        hidden = np.zeros(obs.m, bool)
        for index, order in orders:
            count = max(1, round(share * len(order)))
            some = np.take(order, np.arange(k * count, (k + 1) * count), mode="wrap")
            hidden |= np.isin(index, some)
        if hidden.any() and not hidden.all():
            found.append(hidden)
    if not found:
        hidden = np.arange(obs.m) % 2 == 1
        found = [hidden]
    return found


def spared(obs: Observations, hidden: Flags, rng: np.random.Generator) -> Flags:
    """A quarter of the hidden entries, whole rows or columns where these are hidden as such."""
    out = np.zeros(obs.m, bool)
    for index in (obs.rows, obs.cols):
        whole = np.setdiff1d(index[hidden], index[~hidden])
        out |= np.isin(index, rng.permutation(whole)[: len(whole) // SPARED])
    if not out.any():
        at = np.flatnonzero(hidden)
        out[rng.permutation(at)[: len(at) // SPARED]] = True
    return out & hidden


def part_to_learn_from(
    obs: Observations, hidden: Flags, axes: Axes, plan: Plan, rng: np.random.Generator
) -> tuple[Index, tuple[Index, Index]]:
    """Observations to learn from, and their rows and columns.

    Whole rows or columns are left out, so that the others are as dense as they are, and those that
    stay are neighbours of one another, so that they are as close as they are.
    """
    keep = np.ones(obs.m, bool) if obs.weights is None else obs.weights > 0
    sides = ((obs.rows, obs.row_counts), (obs.cols, obs.col_counts))
    for axis, (index, counts) in zip(axes, sides, strict=True):
        there = np.flatnonzero(counts)
        if len(there) > plan.items:
            some = _neighbours(axis, there, counts, plan.items, None, rng)
            keep &= np.isin(index, some)
    kept = np.flatnonzero(keep)
    if len(kept) > plan.entries:
        longer = int(np.unique(obs.cols[kept]).size > np.unique(obs.rows[kept]).size)
        index = sides[longer][0]
        counts = np.bincount(index[kept], minlength=obs.shape[longer])
        there = np.flatnonzero(counts)
        some = _neighbours(axes[longer], there, counts, len(there), plan.entries, rng)
        kept = kept[np.isin(index[kept], some)]
        if len(kept) > 2 * plan.entries:
            kept = np.sort(rng.choice(kept, plan.entries, replace=False))
    return kept, (np.unique(obs.rows[kept]), np.unique(obs.cols[kept]))


def _neighbours(
    axis: AxisParts, items: Index, counts: Index, most: int, entries: int | None,
    rng: np.random.Generator,
) -> Index:  # fmt: skip
    """Some items, drawn with their nearest ones, until there are enough of them or of entries."""
    together = 1 if not axis.are_known else max(1, min(len(items), most) // SEEDS)
    first = axis.kernel(axis.first(), np.ones(sum(axis.scales))) if together > 1 else None
    drawn = items[np.argsort(-np.log(rng.random(len(items))) / counts[items])]  # by their entries
    taken, total = np.zeros(len(counts), bool), 0
    for seed in drawn:
        if taken.sum() >= most or (entries is not None and total >= entries):
            break
        near = np.array([seed])
        if first is not None:
            left = items[~taken[items]]
            alike = first.block(np.array([seed]), left)[0]
            near = left[np.argsort(-alike, kind="stable")[:together]]
        elif taken[seed]:
            continue
        if entries is not None:
            enough = int(np.searchsorted(np.cumsum(counts[near]), entries - total)) + 1
            near = near[:enough]
        near = near[: most - int(taken.sum())]
        taken[near] = True
        total += int(counts[near].sum())
    return np.flatnonzero(taken)
