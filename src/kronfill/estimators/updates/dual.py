"""KKMCEX online: a factorisation that grows, or conjugate gradients from the last solution."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields, replace
from typing import Any, Self, cast

import numpy as np
from sklearn.utils.validation import check_is_fitted

from kronfill._types import Floats, Index
from kronfill.core.limits import DENSE_UPDATES
from kronfill.core.threads import one_thread
from kronfill.data import Observations
from kronfill.errors import DataError, DuplicateEntryError
from kronfill.estimators.inputs import check_largest, check_smallest
from kronfill.estimators.updates.online import Online, check_one
from kronfill.kernels.base import Kernel
from kronfill.kernels.new_items import new_diagonal
from kronfill.online.growing_dual import GrowingDual, NewItem
from kronfill.online.running import Change
from kronfill.online.warm import WarmStart
from kronfill.ridge.problem import RidgeProblem, RidgeResult, RidgeSolver, Sampled
from kronfill.ridge.trust import vouched
from kronfill.solvers.auto import Auto, as_solver
from kronfill.solvers.dense import Cholesky
from kronfill.solvers.iterative import Iterative
from kronfill.solvers.pcg import PCG

__all__ = ["OnlineDual"]


class OnlineDual(Online):
    """Learning online with the observations kept: each has its dual coefficient."""

    dual_coef_: Floats
    _resolved: Callable[[], tuple[Kernel, Kernel]]
    """Both kernels."""

    @abstractmethod
    def _publish(self, sampled: Sampled, result: RidgeResult, observations: Observations) -> None:
        """Set the fitted attributes."""

    def _begin(self) -> None:
        pass

    def _few_threads(self, m: int) -> AbstractContextManager[None]:
        small = m + self.observations_.m <= self._small
        return one_thread() if small else nullcontext()

    def _arrive(self, new: Observations) -> None:
        old = self.observations_
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
        change = (self._sampled(new, None), 1)
        self._renew(_joined(old, new, weights), lambda dual, s: dual.append(s), change)

    def forget(self, X: Any) -> Self:
        """Remove observations; the result is that of a fit to the others.

        Parameters
        ----------
        X : array-like of shape (k, 2) or Observations
            Row and column index of each entry to remove.

        Returns
        -------
        self

        Examples
        --------
        >>> import kronfill as kf
        >>> est = kf.KKMCEX([[1.0, 0.5], [0.5, 1.0]]).fit([[0, 0], [1, 0]], [2.0, 4.0])
        >>> est.forget([[1, 0]]).predict_matrix()
        array([[1. ],
               [0.5]])
        """
        self._check_open()
        gone = self._places(X)
        old = self.observations_
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
        self._renew(old.take(keep), lambda dual, _: dual.remove(places), change)
        return self

    def revise(self, X: Any, y: Any = None) -> Self:
        """Correct values; the result is that of a fit to the corrected ones.

        Parameters
        ----------
        X : array-like of shape (k, 2) or Observations
            Row and column index of each entry to correct.
        y : array-like of shape (k,), optional
            The values that they should have had; their weights stay.

        Returns
        -------
        self

        Examples
        --------
        >>> import kronfill as kf
        >>> est = kf.KKMCEX([[1.0, 0.5], [0.5, 1.0]]).fit([[0, 0]], [9.0])
        >>> est.revise([[0, 0]], [2.0]).predict_matrix()
        array([[1. ],
               [0.5]])
        """
        self._check_open()
        new = self._given(X, y, None)
        old = self.observations_
        values = old.values.copy()
        values[self._places(new)] = new.values
        self._renew(old.with_values(values), lambda dual, s: dual.revise(s), None)
        return self

    def _check_open(self) -> None:
        check_is_fitted(self)
        self._check_unchanged()
        self._dual()  # several targets are refused there

    def _places(self, X: Any) -> Index:
        """Positions of entries among the observations."""
        rows, cols = (X.rows, X.cols) if isinstance(X, Observations) else self._entries(X)
        codes, wanted = _codes(self.observations_), rows * self.shape_[1] + cols
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

    def _renew(
        self,
        observations: Observations,
        step: Callable[[GrowingDual, Sampled], bool],
        change: tuple[Sampled, int] | None,
    ) -> None:
        """Solve for other observations, from what the last solve left behind if that helps."""
        self._dual()  # several targets are refused there
        check_largest(observations.values, observations.weights)
        check_smallest(observations.values, observations.weights)
        sampled = self._sampled(observations, self.center)
        problem = RidgeProblem(*self._resolved(), sampled, self.mu_)
        route = self._route(sampled.m)
        if route == "dense":
            result = self._step(problem, step)
        elif route == "warm":
            result = self._warm().solve(sampled, self.mu_, change)
        else:
            result = as_solver(self.solver).solve(problem)
        again: RidgeSolver = Cholesky() if route == "dense" else as_solver(self.solver).quiet()
        self._publish(sampled, vouched(problem, result, again.solve), observations)
        self.observations_ = observations
        if "_stream" in vars(self):
            self._stream.model = self._model
        self.solution_.warn(stacklevel=5)

    def _route(self, m: int) -> str:
        """How to solve: "dense", "warm", or anew with the solver as it is."""
        solver = as_solver(self.solver)
        auto = isinstance(solver, Auto)
        if isinstance(solver, Cholesky) or (auto and m <= DENSE_UPDATES):
            return "dense"
        warm = isinstance(solver, PCG) or (auto and self.solution_.solver == "PCG")
        return "warm" if warm else "anew"

    def _step(
        self, problem: RidgeProblem, step: Callable[[GrowingDual, Sampled], bool]
    ) -> RidgeResult:
        """Carry the factorisation along, or make a new one."""
        dual = self._growing()
        self.__dict__.pop("_stream", None)  # whatever happens, nothing half changed is used again
        result = None
        if dual is not None and step(dual, problem.sampled):
            result = dual.result(problem.sampled)
        if result is None:
            dual = GrowingDual.of(problem)
            result = None if dual is None else dual.result(problem.sampled)
        if result is None:  # rounding: the batch solver knows what to do
            return Cholesky().solve(problem)
        self._stream = _Dual(self._model, self.center, dual, None)
        return result

    def _growing(self) -> GrowingDual | None:
        """The factorisation for the observations of the moment, None if rounding forbids it."""
        stream = self._kept()
        if stream is not None and stream.dual is not None:
            return cast("GrowingDual", stream.dual)
        sampled = self._sampled(self.observations_, self.center)
        kept = self._solved_system()
        factor = None if kept is None or kept.value is None else kept.value.dual
        return GrowingDual.of(RidgeProblem(*self._resolved(), sampled, self.mu_), factor)

    def _warm(self) -> WarmStart:
        stream = self._kept()
        if stream is None or stream.warm is None:
            solver = as_solver(self.solver)
            settings = solver if isinstance(solver, PCG) else PCG()
            if isinstance(solver, Iterative) and not isinstance(solver, PCG):
                shared = {field.name: getattr(solver, field.name) for field in fields(Iterative)}
                settings = replace(settings, **shared)
            warm = WarmStart(self._resolved(), settings)
            self._stream = stream = _Dual(self._model, self.center, None, warm)
        return cast("WarmStart", stream.warm)

    def _folded(
        self, item: Any, index: Index, values: Floats, weights: Floats, axis: int
    ) -> Floats:
        self._dual()  # several targets are refused there
        kernel = self._resolved()[axis]
        cross = kernel.cross(item)
        check_one(len(cross))
        own = float(new_diagonal(kernel, item)[0])
        new = NewItem(axis, cross[0], own, index, values, weights)
        sampled = self._sampled(self.observations_, self.center)
        if not len(index):
            return self._cold(new, sampled)
        dense = sampled.m <= DENSE_UPDATES or isinstance(as_solver(self.solver), Cholesky)
        if dense:
            dual = self._growing()
            self._stream = _Dual(self._model, self.center, dual, None)
            predicted = None if dual is None else dual.with_item(sampled, new)
            if predicted is not None:
                return predicted
        return self._warm().with_item(self._resolved(), sampled, self.mu_, new)

    def _cold(self, new: NewItem, sampled: Sampled) -> Floats:
        """An item without observations: what the others say, and the effects of the other axis."""
        fitted = new.predicted(sampled, self._dual(), self._resolved()[1 - new.axis])
        other = self.col_effects_ if new.axis == 0 else self.row_effects_
        return np.asarray(fitted + self.mean_ + other)

    def __getstate__(self) -> Any:
        state: dict[str, Any] = dict(super().__getstate__())
        state.pop("_stream", None)  # large, and made again from the observations
        return state


@dataclass(eq=False)
class _Dual:
    """What an estimator keeps to go on from."""

    model: Any
    center: Any
    dual: GrowingDual | None
    warm: WarmStart | None


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
