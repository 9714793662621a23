"""KKMCEX online: a factorisation that grows, or conjugate gradients from the last solution."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from kronfill._types import Floats, Index
from kronfill.core.limits import DENSE_UPDATES
from kronfill.data import Observations
from kronfill.errors import DataError, DuplicateEntryError, ShapeError
from kronfill.estimators.base import few_threads
from kronfill.estimators.inputs import check_magnitude, sampled_entries
from kronfill.kernels.base import Kernel
from kronfill.kernels.new_items import new_diagonal
from kronfill.online.growing_dual import GrowingDual, NewItem
from kronfill.online.running import Change
from kronfill.online.warm import WarmStart
from kronfill.ridge.effects import AdditiveEffects
from kronfill.ridge.factorised import Factorised
from kronfill.ridge.problem import RidgeProblem, RidgeResult, RidgeSolver, Sampled
from kronfill.ridge.trust import vouched
from kronfill.solvers.auto import Auto
from kronfill.solvers.dense import Cholesky
from kronfill.solvers.iterative import Iterative
from kronfill.solvers.pcg import PCG

__all__ = ["DualMemory", "DualUpdates", "Renewed", "check_one"]


Step = Callable[[GrowingDual, Sampled], bool]
"""Carries a factorisation along; False if rounding forbids it."""


@dataclass(eq=False)
class DualMemory:
    """What a solve leaves behind to go on from: its form, and one of two ways."""

    form: Any
    center: Any
    dual: GrowingDual | None = None
    warm: WarmStart | None = None

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to go on from."""
        return self.dual is None and self.warm is None


@dataclass(frozen=True, eq=False)
class Renewed:
    """The solution for other observations."""

    observations: Observations
    problem: RidgeProblem
    result: RidgeResult


@dataclass(frozen=True, eq=False)
class DualUpdates:
    """A solved problem whose observations, which are kept, come and go."""

    kernels: tuple[Kernel, Kernel]
    observations: Observations
    mu: float
    center: Any
    solver: RidgeSolver
    last: str
    """Name of the solver that made the last solution."""
    solved: tuple[Floats, AdditiveEffects]
    """The last solution: d for each observation that counts, and the effects."""
    memory: DualMemory
    """What the last solve left behind; it is carried along."""
    factor: Factorised | None = None
    """The m x m system of the observations of the moment, if the fit has factorised it."""

    def add(self, new: Observations) -> Renewed:
        """Solve with further observations."""
        old = self.observations
        known = np.flatnonzero(np.isin(_codes(new), _codes(old)))
        if len(known):
            entry = (int(new.rows[known[0]]), int(new.cols[known[0]]))
            msg = (
                f"{len(known)} of the entries, the first {entry}, are observed already. Correct "
                "their values with revise(X, y), or forget(X) them first."
            )
            raise DuplicateEntryError(msg)
        weights = None
        if old.weights is not None or new.weights is not None:
            weights = np.concatenate([_weights(old), _weights(new)])
        change = (sampled_entries(new, None), 1)
        with few_threads(old.m + new.m):
            return self._renewed(_joined(old, new, weights), lambda dual, s: dual.append(s), change)

    def forget(self, rows: Index, cols: Index) -> Renewed:
        """Solve without some of the observations."""
        gone = self._places(rows, cols)
        old = self.observations
        keep = np.ones(old.m, dtype=bool)
        keep[gone] = False
        if not (_weights(old)[keep] > 0).any():
            msg = "These are all observations; at least one must stay. Fit anew instead."
            raise DataError(msg)
        counts = gone[_weights(old)[gone] > 0]
        weights = _weights(old)[counts]
        part = Change(old.rows[counts], old.cols[counts], old.values[counts], weights)
        change = (part.sampled(old.shape, None), -1)
        places = (np.cumsum(_weights(old) > 0) - 1)[counts]  # where they are in the system
        return self._renewed(old.take(keep), lambda dual, _: dual.remove(places), change)

    def revise(self, new: Observations) -> Renewed:
        """Solve with other values of some of the observations; their weights stay."""
        values = self.observations.values.copy()
        values[self._places(new.rows, new.cols)] = new.values
        corrected = self.observations.with_values(values)
        return self._renewed(corrected, lambda dual, s: dual.revise(s), None)

    def fold_in(
        self, item: Any, index: Index, values: Floats, weights: Floats, axis: int
    ) -> Floats:
        """Predict a new item with these observations."""
        kernel = self.kernels[axis]
        cross = kernel.cross(item)
        check_one(len(cross))
        own = float(new_diagonal(kernel, item)[0])
        new = NewItem(axis, cross[0], own, index, values, weights)
        sampled = sampled_entries(self.observations, self.center)
        if not len(index):  # what the others say, and the effects of the other axis
            dual, effects = self.solved
            fitted = new.predicted(sampled, dual, self.kernels[1 - axis])
            other = effects.col if axis == 0 else effects.row
            return np.asarray(fitted + effects.mean + other)
        if sampled.m <= DENSE_UPDATES or isinstance(self.solver, Cholesky):
            growing = self._growing()
            self.memory.dual, self.memory.warm = growing, None
            predicted = None if growing is None else growing.with_item(sampled, new)
            if predicted is not None:
                return predicted
        return self._warm().with_item(self.kernels, sampled, self.mu, new)

    def _places(self, rows: Index, cols: Index) -> Index:
        """Positions of entries among the observations."""
        codes, wanted = _codes(self.observations), rows * self.observations.shape[1] + cols
        if len(np.unique(wanted)) < len(wanted):
            msg = "An entry is named more than once; give each of them once."
            raise DuplicateEntryError(msg)
        order = np.argsort(codes)
        at = np.minimum(np.searchsorted(codes, wanted, sorter=order), len(codes) - 1)
        missing = np.flatnonzero(codes[order[at]] != wanted)
        if len(missing):
            entry = (int(rows[missing[0]]), int(cols[missing[0]]))
            msg = f"{len(missing)} of the entries, the first {entry}, are not among the observed."
            raise DataError(msg)
        return np.asarray(order[at])

    def _renewed(
        self, observations: Observations, step: Step, change: tuple[Sampled, int] | None
    ) -> Renewed:
        """Solve for other observations, from what the last solve left behind if that helps."""
        check_magnitude(observations.values, observations.weights)
        sampled = sampled_entries(observations, self.center)
        problem = RidgeProblem(*self.kernels, sampled, self.mu)
        again: RidgeSolver = self.solver.quiet()
        if self._is_dense(sampled.m):
            result, again = self._step(problem, step), Cholesky()
        elif self._is_warm:
            result = self._warm().solve(sampled, self.mu, change)
        else:
            self.memory.dual = self.memory.warm = None
            result = self.solver.solve(problem)
        return Renewed(observations, problem, vouched(problem, result, again.solve))

    def _is_dense(self, m: int) -> bool:
        """Whether a factorisation is carried along."""
        small = isinstance(self.solver, Auto) and m <= DENSE_UPDATES
        return small or isinstance(self.solver, Cholesky)

    @property
    def _is_warm(self) -> bool:
        """Whether conjugate gradients start from the last solution."""
        auto = isinstance(self.solver, Auto) and self.last == "PCG"
        return auto or isinstance(self.solver, PCG)

    def _step(self, problem: RidgeProblem, step: Step) -> RidgeResult:
        """Carry the factorisation along, or make a new one."""
        dual = self._growing()
        self.memory.dual = self.memory.warm = None  # nothing half changed is used again
        result = None
        if dual is not None and step(dual, problem.sampled):
            result = dual.result(problem.sampled)
        if result is None:
            dual = GrowingDual.of(problem)
            result = None if dual is None else dual.result(problem.sampled)
        if result is None:  # rounding: the batch solver knows what to do
            return Cholesky().solve(problem)
        self.memory.dual = dual
        return result

    def _growing(self) -> GrowingDual | None:
        """The factorisation for the observations of the moment, None if rounding forbids it."""
        if self.memory.dual is not None:
            return self.memory.dual
        sampled = sampled_entries(self.observations, self.center)
        return GrowingDual.of(RidgeProblem(*self.kernels, sampled, self.mu), self.factor)

    def _warm(self) -> WarmStart:
        if self.memory.warm is None:
            settings = self.solver if isinstance(self.solver, PCG) else PCG()
            if isinstance(self.solver, Iterative) and not isinstance(self.solver, PCG):
                shared = {part.name: getattr(self.solver, part.name) for part in fields(Iterative)}
                settings = replace(settings, **shared)
            self.memory.dual, self.memory.warm = None, WarmStart(self.kernels, settings)
        return self.memory.warm


def check_one(count: int) -> None:
    """Raise unless one new item is described."""
    if count != 1:
        msg = f"fold_in takes one new row or column at a time, got {count}; call it for each."
        raise ShapeError(msg)


def _codes(observations: Observations) -> Index:
    return observations.rows.astype(np.intp) * observations.shape[1] + observations.cols


def _weights(observations: Observations) -> Floats:
    return np.ones(observations.m) if observations.weights is None else observations.weights


def _joined(old: Observations, new: Observations, weights: Floats | None) -> Observations:
    """Old and new observations, with the labels of the old ones."""
    return Observations(
        np.concatenate([old.rows, new.rows]),
        np.concatenate([old.cols, new.cols]),
        np.concatenate([old.values, new.values]),
        old.shape,
        weights=weights,
        row_labels=old.row_labels,
        col_labels=old.col_labels,
    )
