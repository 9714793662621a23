"""How many digits of a solution can be trusted.

A solver leaves a residual e, and rounding leaves one of its own, about eps k ||d|| on each entry. A
prediction is k(x)^T d, so that they move it by

    |k(x)^T A^-1 e| <= ||e|| sqrt(k / (4 mu)),     k the largest diagonal entry of the kernel,

and by far less unless mu is tiny beside the kernel. Where this bound leaves no doubt nothing is
done. Elsewhere the error is measured, whatever the solver: the residual with the kernels as they
were given, of a dual vector that satisfies Z^T d = 0; what that vector predicts beside what the
solver's own form of the function does; and how far predictions move when the problem is solved once
more with values that differ by such residuals.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from kronfill._types import Floats, Index
from kronfill.core.operator import pair_products
from kronfill.ridge.problem import KernelLike, RidgeProblem, RidgeResult, fitted_at
from kronfill.ridge.solution import Solution, Status

__all__ = ["factored_size", "vouched", "vouched_by_size"]

EPS = float(np.finfo(float).eps)
DOUBT = 1e-2
"""Where the bound is above this the error is measured."""
PRECISE = 1e-3
"""A measured error above this, relative to the largest value, is told."""
OBSERVED = 512
"""Observed entries at which the residual is measured, at most."""
DIAGONAL_PROBES = 8
"""Entries of a diagonal that stand for all where they are dear."""
SIDE = 64
"""Rows and columns of the block on which predictions are compared, at most."""


def vouched(
    problem: RidgeProblem, result: RidgeResult, solve: Callable[[RidgeProblem], RidgeResult]
) -> RidgeResult:
    """The result, with a status that says so if too few of its digits can be trusted.

    Parameters
    ----------
    problem : RidgeProblem
        The problem, of one target.
    result : RidgeResult
        Its solution.
    solve : callable
        Solves such a problem again; called only where there is doubt.
    """
    solution = result.solution
    if not solution.converged or not problem.sampled.values.any():
        return result
    with np.errstate(all="ignore"):  # what overflows is in doubt
        if _bound(problem, result) <= DOUBT:
            return result
        error = _Measurement.of(problem, result).error(solve)
    status = solution.status if error <= PRECISE else Status.FEW_DIGITS
    return replace(result, solution=replace(solution, status=status, error=error))


def vouched_by_size(solution: Solution, size: float, mu: float, left_out: float) -> Solution:
    """The same for observations that are not at hand, from mu and the size of the kernel alone.

    Parameters
    ----------
    solution : Solution
        The record.
    size : float
        See :func:`factored_size`; times the largest weight.
    mu : float
        Ridge weight.
    left_out : float
        Share of the kernels that their factors leave out.
    """
    error = (EPS + left_out) * size / mu
    if not solution.converged or error <= PRECISE:
        return solution
    return replace(solution, status=Status.FEW_DIGITS, error=error)


def factored_size(row_phi: Floats, col_phi: Floats) -> float:
    """The largest diagonal entry of the kernel over entries, from the factors of both kernels."""
    row, col = (np.einsum("ij,ij->i", phi, phi).max() for phi in (row_phi, col_phi))
    return float(row * col)


def _bound(problem: RidgeProblem, result: RidgeResult) -> float:
    """About the largest error that the residual, and rounding, can make in a prediction."""
    s = problem.sampled
    least, most = (1.0, 1.0) if s.weights is None else (s.weights.min(), s.weights.max())
    floor = problem.mu / most
    if result.primal is None:  # an identity part of both kernels acts as mu does
        floor += problem.row_kernel.split()[1] * problem.col_kernel.split()[1]
    ratio = np.float64(_size(problem)) / floor
    # The residual is a sum over weighted entries: that of the lightest may be larger.
    left = result.solution.residual * np.sqrt(max(ratio, most / least))
    return float(max(left, EPS * np.sqrt(s.m) * ratio**1.5))


def _size(problem: RidgeProblem) -> float:
    """The largest diagonal entry of the kernel over entries."""
    return _largest(problem.row_kernel) * _largest(problem.col_kernel)


def _largest(kernel: KernelLike) -> float:
    if kernel.by_products:  # each entry costs a product
        kernel = kernel.take(_spread(kernel.n, DIAGONAL_PROBES))
    return float(kernel.diagonal().max())


def _spread(size: int, count: int) -> Index:
    """Up to ``count`` of the numbers below ``size``, evenly spread."""
    return np.unique(np.linspace(0, size - 1, min(size, count)).astype(np.intp))


@dataclass(frozen=True, eq=False)
class _Measurement:
    """A solution, and where and how it is looked at."""

    problem: RidgeProblem
    result: RidgeResult
    dual: Floats
    """The dual vector, less what violates Z^T d = 0."""
    probes: Index
    """Observations at which the residual is taken."""
    rows: Index
    cols: Index
    """Entries at which predictions are compared."""

    @classmethod
    def of(cls, problem: RidgeProblem, result: RidgeResult) -> _Measurement:
        s, dual = problem.sampled, result.dual
        if s.effects is not None:
            dual = s.weights_or_ones * s.effects.remove(dual / s.weights_or_ones)
        probes = _spread(s.m, OBSERVED)
        block = np.meshgrid(*(_spread(n, SIDE) for n in s.shape), indexing="ij")
        rows, cols = (
            np.concatenate([index[probes], side.ravel()])
            for index, side in zip((s.rows, s.cols), block, strict=True)
        )
        return cls(problem, result, dual, probes, rows, cols)

    def error(self, solve: Callable[[RidgeProblem], RidgeResult]) -> float:
        """About the error of the predictions, relative to the largest value."""
        s = self.problem.sampled
        through_dual = fitted_at(self.problem, self.dual, self.rows, self.cols)
        first = self._predicted(self.result)
        effects = self._effects(self.result)
        gap = self._residual(through_dual[: len(self.probes)])
        values = s.values + self._rounding() * np.random.default_rng(0).standard_normal(s.m)
        values[self.probes] += gap
        second = self._predicted(solve(replace(self.problem, sampled=replace(s, values=values))))
        moved = (self._taken_up(gap), first - effects - through_dual, second - first)
        error = max(float(np.abs(part).max()) for part in moved) / float(np.abs(s.values).max())
        return error if np.isfinite(error) else np.inf

    def _predicted(self, result: RidgeResult) -> Floats:
        if result.primal is None:
            function = fitted_at(self.problem, result.dual, self.rows, self.cols)
        else:
            p = result.primal
            function = pair_products(p.row.phi @ p.core, p.col.phi, self.rows, self.cols)
        return function + self._effects(result)

    def _effects(self, result: RidgeResult) -> Floats:
        if result.effects is None:
            return np.zeros(len(self.rows))
        return result.effects.at(self.rows, self.cols)

    @property
    def _noise(self) -> Floats:
        """mu / w of each observation."""
        return self.problem.mu / self.problem.sampled.weights_or_ones

    def _residual(self, fitted: Floats) -> Floats:
        """y - Z beta - (Kbar + mu W^-1) d at the probes."""
        s, at = self.problem.sampled, self.probes
        rest = s.values[at] - fitted - self._noise[at] * self.dual[at]
        return np.asarray(rest - self._effects(self.result)[: len(at)])

    def _taken_up(self, gap: Floats) -> Floats:
        """How much of the residual of an entry its own prediction follows, at most."""
        size = _size(self.problem)
        return gap * size / (size + self._noise[self.probes])

    def _rounding(self) -> Floats:
        """What rounding leaves open in each value, and what the residual does."""
        s, root = self.problem.sampled, np.sqrt(_size(self.problem) + self._noise)
        spread = self.result.solution.residual * float(np.linalg.norm(s.root_weights * s.values))
        left = spread / np.sqrt(s.m) / s.root_weights
        own = EPS * (np.abs(s.values) + root * float(np.linalg.norm(root * self.dual)))
        return np.asarray(own + left)
