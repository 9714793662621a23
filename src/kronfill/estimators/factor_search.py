"""mu and rank of MC, KMC and IMC: those with the least error on held-out entries.

Trial fits go along a path of mu, each from the factors of the nearest one, and end when the error
on the held-out entries has settled. Directions that a larger mu has switched off would come back
but slowly: where mu falls much they are given new values.

The objective has many valleys. Those that are reached from large mu can be worse than those that
are reached from small mu, where nothing is switched off: in the end the search comes from below.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np

from kronfill._progress import tell
from kronfill._types import Flags, Floats
from kronfill.criteria.held_out import CRITERION, held_out_part
from kronfill.criteria.search import Search, Trial, chosen, coarse_path, refined
from kronfill.estimators.base import few_threads
from kronfill.estimators.factorised import SMALL, FactorProblem
from kronfill.ridge.solution import Solution, Status
from kronfill.solvers.alternating import State

__all__ = ["HeldOutFactors", "mu_scale", "searched"]

FOLDS = 5
FOLDS_LIMIT = 10_000
"""Up to this many observations five folds are held out in turn, beyond one part."""
TRIAL_SWEEPS = 200
"""Most sweeps of a trial fit; mostly it ends long before."""
SETTLED, STEPS = 5e-4, 3
"""Relative change of the mean square error over so many sweeps that counts as none."""
SWITCHED_OFF, NEW = 0.1, 0.3
"""A direction below this share of its size at the start is given this share of it."""
FALLEN = 2.0
"""They are so only if mu is smaller than that of the start by this factor."""
BELOW, RISE = (10**-0.5, 10**-0.75, 10**-1), 10**0.25
"""Where ways up begin, in units of the best mu, and their steps."""
CLIMBS, OVER = 12, 0.02
"""Most steps of it; it ends where the mean square error is above its least by this share."""
NEARLY = 1.25
"""A minimum of the mean square error up to this factor above the least one is looked at too."""
MORE = 4
"""Trials that refine what is found so."""
FEW = 300
"""Up to so many observations the chance in the error hides which valley is the better one."""
TOP = 1
"""Power of ten where the path begins: at a large mu there are fewer valleys to end up in. For the
same reason no promise of a parabola ends a search: trials do not lie on one curve.
"""
FIRST_RANK = 10
BETTER = 0.004
"""Share by which the mean square error must fall for twice as many factors: 0.2% in its root."""

Start = Literal["near", "last", "new"]
"""What a trial starts from: the factors of the nearest mu, of the last one, or new ones."""


def searched(
    problem: FactorProblem, mu: Any, rank: Any, size: float, settings: Any
) -> tuple[Search, Floats | None]:
    """Choose mu, the rank, or both; values of H to start the fit from, if they are known."""
    s = problem.sampled
    most = min(s.shape)
    first = FIRST_RANK if rank == "auto" else int(rank)
    if s.m < 2:
        return Search(1.0 if mu == "auto" else float(mu), (), CRITERION, min(first, most)), None
    held = HeldOutFactors(problem, _parts(s.m), settings)
    ranks = _Ranks(held, mu_scale(s.values, size), mu)
    ranks.look(min(first, most))
    if rank == "auto":
        ranks.climb(most)
    search = chosen(ranks.trials, CRITERION)
    return search, held.values(search.mu, search.rank)


def mu_scale(values: Floats, size: float) -> float:
    """The unit of mu: above the size of the data times that of the kernels the factors are zero."""
    return 1e-2 * float(np.linalg.norm(values - values.mean())) * size or 1.0


def _parts(m: int) -> list[Flags]:
    """Which observations are hidden: folds in turn, or one part of many."""
    if m > FOLDS_LIMIT:
        return [held_out_part(m)]
    count = min(FOLDS, m)
    label = np.random.default_rng(0).permutation(m) % count
    return [label == fold for fold in range(count)]


class _Ranks:
    """Trials for one rank after the other, each with the mu that suits it."""

    def __init__(self, held: HeldOutFactors, scale: float, mu: Any) -> None:
        self._held, self._scale = held, scale
        self._mu = None if mu == "auto" else float(mu)
        self.trials: list[Trial] = []

    def _ask(self, mu: float, rank: int, start: Start = "near") -> Trial:
        tell("trials to choose mu", len(self.trials), None)
        self.trials.append(self._held(mu, rank, start))
        return self.trials[-1]

    def look(self, rank: int) -> Trial:
        """Trials for a rank, the whole path for the first one; the best of them."""
        if self._mu is not None:
            return self._ask(self._mu, rank)
        mine: list[Trial] = []
        ask = partial(self._ask, rank=rank)
        if not self.trials:
            coarse_path(ask, self._scale, mine, TOP)
            refined(ask, mine, least=0.0)
            for best in _low_points(mine) if self._held.m > FEW else ():
                mine += self._from_below(best, rank)
        else:
            near = _least(self.trials).mu
            mine = [ask(near)]
            if mine[0].error <= 1.1 * _least(self.trials).error:  # else it is hopeless
                mine += [ask(near * 10**0.4), ask(near * 10**-0.4)]
                refined(ask, mine, 2, least=0.0)
        return _least(mine)

    def _from_below(self, best: Trial, rank: int) -> list[Trial]:
        """A new start at a smaller mu, then up from there, from one valley into the next.

        If that leads to a better place, once more from below that one, from several starts.
        """
        found = self._way_up(best.mu * BELOW[0], best.mu, rank)
        if _least(found).error < (1 - BETTER) * best.error:
            refined(partial(self._ask, rank=rank), found, MORE, least=0.0)
            for start in BELOW:
                found += self._way_up(_least(found).mu * start, np.inf, rank)
        return found

    def _way_up(self, mu: float, last: float, rank: int) -> list[Trial]:
        """Trials from one mu to another, or until the error rises."""
        found = [self._ask(mu, rank, "new")]
        while len(found) <= CLIMBS and mu * RISE < 1.01 * last:
            mu *= RISE
            found.append(self._ask(mu, rank, "last"))
            least = _least(found).error
            if all(one.error > (1 + OVER) * least for one in found[-2:]):
                break
        return found

    def climb(self, most: int) -> None:
        """Twice as many factors while that pays; if it never did, half as many while that does."""
        best = _least(self.trials)
        rank = start = int(best.rank or 1)
        while rank < most:
            rank = min(2 * rank, most)
            found = self.look(rank)
            if not found.error < (1 - BETTER) * best.error:
                break
            best = found
        rank = start
        while best.rank == start and rank > 1:
            rank //= 2
            found = self.look(rank)
            if not found.error < best.error:
                break
            best, start = found, rank


def _least(trials: Sequence[Trial]) -> Trial:
    sound = [one for one in trials if one.sound]
    return min(sound or trials, key=lambda one: one.error)


def _low_points(trials: Sequence[Trial]) -> list[Trial]:
    """The best trial, and others that are nearly as good, beyond a rise of the error."""
    order = sorted(trials, key=lambda one: one.mu)
    errors = np.array([np.inf, *(one.error if one.sound else np.inf for one in order), np.inf])
    low = (errors[1:-1] < errors[:-2]) & (errors[1:-1] < errors[2:])
    near = errors[1:-1] <= NEARLY * errors.min()
    return [one for one, at in zip(order, low & near, strict=True) if at] or [_least(trials)]


class HeldOutFactors:
    """Trial fits to all but the held-out entries, for one mu and rank after the other.

    Parameters
    ----------
    problem : FactorProblem
        The problem of all observations.
    parts : list of ndarray of bool
        What is held out, in turn.
    settings : object
        Settings of the alternation.
    sweeps : int
        Most sweeps of a trial fit.
    """

    def __init__(
        self,
        problem: FactorProblem,
        parts: Sequence[Flags],
        settings: Any,
        sweeps: int = TRIAL_SWEEPS,
    ) -> None:
        self._problem, self._parts = problem, parts
        self._settings = replace(settings, sweeps=sweeps, tol=1e-5, callback=None)
        self._trains = [problem.sampled.take(~part) for part in parts]
        self._fresh: dict[int, list[Floats]] = {}
        self._last: dict[int, _Kept] = {}
        self._best: dict[int, _Kept] = {}

    @property
    def m(self) -> int:
        """Number of observations."""
        return self._problem.sampled.m

    def __call__(self, mu: float, rank: int, start: Start = "near") -> Trial:
        """Fit to each training part; the mean square error of what was held out."""
        sums, weight, records = 0.0, 0.0, []
        for error, size, solution in self.folds(mu, rank, start):
            sums, weight = sums + error * size, weight + size
            records.append(solution)
        worst = next((one for one in records if not (one.converged or one.settled)), records[0])
        trial = Trial(mu, sums / weight, worst, rank)
        if rank not in self._best or (trial.sound and trial.error < self._best[rank].error):
            self._best[rank] = replace(self._last[rank], error=trial.error)
        return trial

    def folds(
        self, mu: float, rank: int, start: Start = "near"
    ) -> list[tuple[float, float, Solution]]:
        """Mean square error, weight and record of each part."""
        values, found = [], []
        for k in range(len(self._parts)):
            error, size, solution, h = self._fold(k, mu, self._start(k, mu, rank, start))
            values.append(h)
            found.append((error, size, solution))
        self._last[rank] = _Kept(mu, values)
        return found

    def _fold(
        self, k: int, mu: float, start: Floats
    ) -> tuple[float, float, Solution, Floats | None]:
        problem, part, train = self._problem, self._parts[k], self._trains[k]
        s, errors = problem.sampled, []
        weights = s.weights_or_ones[part]
        rows, cols, values = s.rows[part], s.cols[part], s.values[part]

        def watch(state: State) -> float | None:
            gap = values - problem.at(state, rows, cols)
            errors.append(float(weights @ gap**2 / weights.sum()))
            last = errors[-STEPS - 1 :]
            still = len(last) > STEPS and max(last) - min(last) <= SETTLED * last[-1]
            return (max(last) - min(last)) / max(last[-1], 1e-300) if still else None

        with few_threads(train.m, SMALL):
            state, solution = problem.run(train, mu, start, self._settings, watch)
        if solution.status is Status.SETTLED:
            solution = replace(solution, criterion=CRITERION)
        h = problem.col_values(state)
        # Zero factors are no starting point.
        return errors[-1], float(weights.sum()), solution, h if h.any() else None

    def _start(self, k: int, mu: float, rank: int, start: Start) -> Floats:
        """Values of H to start from, what a larger mu has switched off renewed."""
        if rank not in self._fresh:
            self._fresh[rank] = [
                self._problem.start(self._settings.start, train, mu, rank) for train in self._trains
            ]
        fresh = self._fresh[rank][k]
        kept = {"near": (self._best, self._last), "last": (self._last,), "new": ()}[start]
        near = min(
            (one[rank] for one in kept if rank in one and one[rank].values[k] is not None),
            key=lambda one: abs(np.log(one.mu / mu)),
            default=None,
        )
        if near is None:
            return fresh
        h = near.values[k]
        assert h is not None
        return _revived(h, fresh) if mu * FALLEN < near.mu else h

    def values(self, mu: float, rank: int | None) -> Floats | None:
        """Values of H that the best trial has found, without the first part, if it is this one.

        A fit that goes on from them stays in the valley of which the error was measured.
        """
        best = self._best.get(rank or 0)
        return None if best is None or best.mu != mu else best.values[0]


@dataclass(frozen=True, eq=False)
class _Kept:
    """What trials start from: values of H without each part, None where they are zero."""

    mu: float
    values: list[Floats | None]
    error: float = np.inf


def _revived(h: Floats, fresh: Floats) -> Floats:
    """The factor, its orthogonal directions by size, those that have vanished made anew."""
    lam, turn = np.linalg.eigh(h.T @ h)
    h = h @ turn[:, ::-1]
    size = np.sqrt(np.maximum(lam[::-1], 0.0))
    usual = np.linalg.norm(fresh, axis=0)
    off = size < SWITCHED_OFF * usual
    h[:, off] = NEW * fresh[:, off]
    return np.asarray(h)
