"""Weights of kernels and mu with the least error on hidden entries, by exact derivatives.

With A = Kbar + mu W^-1 over the training entries, a = A^-1 y and f = K_ht a at the hidden entries,
the weighted mean square e of r = f - y_h has, for any change of the kernels or of mu,

    de = <g, dK_ht a> - <v, dA a>,    g = 2 w r,    v = A^-1 K_th g,

so that one more solve gives the derivatives by any number of weights: with U = g at the hidden
entries less v at the training ones, as N x L tables, they are <K_s, U K_h A^T> for a part K_s of
the row kernel, and alike for the columns. What changes the shape of a part, such as the scales of
features, has its derivative from the same matrix U K_h A^T.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize

from kronfill._stored import Stored, Tests, positive, positive_floats, result, whole
from kronfill._types import Flags, Floats, Index
from kronfill.auto.part_arrays import PartArrays
from kronfill.core.threads import one_blas_thread
from kronfill.kernels.algebra import Sum
from kronfill.kernels.given import Identity, Precomputed
from kronfill.ridge.dual_operator import DualOperator
from kronfill.ridge.problem import Mask
from kronfill.solvers.cg import Descent, conjugate_gradients
from kronfill.solvers.full_scale import FullScale, Modes, affordable_modes

__all__ = ["HiddenEntriesError", "HiddenSplit", "LearnedWeights", "learned_weights"]

DIRECT = 1200
"""Up to so many training entries a system is factorised."""
TOL = 1e-3
"""Relative residual of the others."""
MAX_ITERATIONS = 300
STALE = 30
"""Iterations after which a preconditioner of other weights is made anew."""
REACH = (6.0, 3.0)
"""How far logarithms of weights may go down and up."""
MU_REACH, SCALE_REACH = 6.0, 3.0
MU_STEPS = 4
"""Steps of the search for mu alone, with which the other begins and is compared."""
FEW_UNITS, MANY_UNITS = 10, 2000
"""Bounds of the number of independent errors by which a step away from the start is judged."""
SETTLED = 1e-4
"""Relative change of the logarithm of the error at which a search ends."""
CHUNK = 4_000_000
Solve = Callable[[Floats, Floats | None], Floats]
"""For a right-hand side, and a guess to begin with."""
Kept = list[FullScale]
"""The last preconditioner of a search, if there is one: weights change little from step to step."""


@dataclass(frozen=True, eq=False)
class HiddenSplit:
    """Training entries and hidden ones, with their weights, over the same items.

    Those that are ``spared`` are hidden too, and not learned from: they tell whether learning paid.
    """

    rows: Index
    cols: Index
    values: Floats
    weights: Floats
    hidden: Flags
    spared: Flags
    shape: tuple[int, int]


@dataclass(frozen=True, eq=False)
class LearnedWeights(Stored):
    """What a search has found.

    Attributes
    ----------
    row, col : ndarray
        Weight of each part.
    row_scales, col_scales : ndarray
        Scales of the features of those parts that have some.
    mu : float
        Ridge weight.
    error : float
        Mean square error of the hidden entries as a share of their variance.
    evaluations : int
        How often it was computed.
    """

    row: Floats
    col: Floats
    row_scales: Floats
    col_scales: Floats
    mu: float
    error: float = np.nan
    evaluations: int = 0
    stored: ClassVar[Tests] = {
        "row": positive_floats, "col": positive_floats, "row_scales": positive_floats,
        "col_scales": positive_floats, "mu": positive, "error": result, "evaluations": whole,
    }  # fmt: skip


def learned_weights(
    splits: list[HiddenSplit],
    parts: list[tuple[PartArrays, PartArrays]],
    start: LearnedWeights,
    steps: int,
) -> LearnedWeights:
    """Weights and scales of the parts and mu with the least error over all splits.

    Those of the start, with the best mu, stay if others are no better for the entries spared.

    Parameters
    ----------
    splits : list of HiddenSplit
        What is fitted and what is hidden.
    parts : list of pairs of PartArrays
        The parts of both kernels, for each split.
    start : LearnedWeights
        First weights and scales, all positive, and mu.
    steps : int
        Most steps of the search.
    """
    errors = [HiddenEntriesError(split, *pair) for split, pair in zip(splits, parts, strict=True)]
    each = (start.row, start.col, start.row_scales, start.col_scales)
    first = np.log(np.concatenate([*each, [start.mu]]))
    cuts = np.cumsum([len(some) for some in each])
    units = [_units(splits, axis) for axis in (0, 1)]
    doubt = np.repeat([*(2.0 / np.tile(units, 2)), 0.0], [*map(len, each), 1])
    evaluations = 0

    def objective(x: Floats) -> tuple[float, Floats]:
        nonlocal evaluations
        evaluations += 1
        found = [error(*unpack(x)) for error in errors]
        value = float(np.mean([one[0] for one in found]))
        slope = np.exp(x) * np.mean([one[1] for one in found], axis=0) / value
        penalty, by_step = _penalty(x - first, doubt)
        return float(np.log(value)) + penalty, slope + by_step

    def unpack(x: Floats) -> tuple[Floats, Floats, Floats, Floats, float]:
        row, col, row_scales, col_scales, mu = np.split(np.exp(x), cuts)
        return row, col, row_scales, col_scales, float(mu[0])

    def searched(x: Floats, bounds: Any, most: int) -> Any:
        options = {"maxiter": most, "maxfun": int(1.5 * most) + 1, "ftol": SETTLED}
        return minimize(objective, x, jac=True, method="L-BFGS-B", bounds=bounds, options=options)

    weights = int(cuts[1])
    about_mu = (first[-1] - MU_REACH, first[-1] + MU_REACH)
    untuned = searched(first, [*((v, v) for v in first[:-1]), about_mu], MU_STEPS)
    bounds = [(v - REACH[0], v + REACH[1]) for v in first[:weights]]
    bounds += [(v - SCALE_REACH, v + SCALE_REACH) for v in first[weights:-1]]
    done = searched(untuned.x, [*bounds, about_mu], steps)
    spared = [sum(error.spared(*unpack(one.x)) for error in errors) for one in (untuned, done)]
    if spared[1] > spared[0]:  # what was learned is of no use beyond what it was learned from
        done = untuned
    error = float(np.exp(done.fun - _penalty(done.x - first, doubt)[0]))
    return LearnedWeights(*unpack(done.x), error, evaluations)


def _penalty(away: Floats, doubt: Floats) -> tuple[float, Floats]:
    """What a step away from the start costs, and its derivatives.

    With n independent errors n / 2 times the logarithm of their mean square is a log likelihood;
    a Cauchy prior of unit width on logarithms lets few weights go far, and keeps most.
    """
    square = 1 + away**2
    return float(doubt @ np.log(square)), 2 * doubt * away / square


def _units(splits: list[HiddenSplit], axis: int) -> int:
    """Number of independent errors: rows (columns) hidden as a whole, or else hidden entries."""
    count = 0
    for split in splits:
        index, learned = (split.rows, split.cols)[axis], split.hidden & ~split.spared
        count += len(np.setdiff1d(index[learned], index[~split.hidden]))
    if count == 0:
        count = sum(int((split.hidden & ~split.spared).sum()) for split in splits)
    return int(np.clip(count, FEW_UNITS, MANY_UNITS))


class HiddenEntriesError:
    """Mean square error of hidden entries, as a share of their variance, and its derivatives.

    Parameters
    ----------
    split : HiddenSplit
        What is fitted and what is hidden.
    row_parts, col_parts : PartArrays
        Parts of the kernels.
    """

    def __init__(self, split: HiddenSplit, row_parts: PartArrays, col_parts: PartArrays) -> None:
        hidden, train = split.hidden & ~split.spared, ~split.hidden
        if not hidden.any():  # too few to spare some
            hidden = split.hidden
        self._parts = (row_parts, col_parts)
        self._shape = split.shape
        self._train = (split.rows[train], split.cols[train])
        self._held = (split.rows[hidden], split.cols[hidden])
        mean = float(np.average(split.values[train], weights=split.weights[train]))
        self._y, self._y_held = split.values[train] - mean, split.values[hidden] - mean
        self._weights = split.weights[train]
        share = split.weights[hidden] / split.weights[hidden].sum()
        spread = float(share @ self._y_held**2)
        self._share = share / (spread if spread > 0 else 1.0)
        self._last: list[Floats | None] = [None, None]
        self._kept: Kept = []
        spared = split.spared
        self._spared = (split.rows[spared], split.cols[spared])
        self._y_spared, self._w_spared = split.values[spared] - mean, split.weights[spared]

    def __call__(
        self, row: Floats, col: Floats, row_scales: Floats, col_scales: Floats, mu: float
    ) -> tuple[float, Floats]:
        """The error and its derivatives by weights of rows and columns, by scales, and by mu."""
        (rows, cols), (held_r, held_c) = self._train, self._held
        row_kernel = self._parts[0].at(row, row_scales)
        col_kernel = self._parts[1].at(col, col_scales)
        smooth, own = (row_kernel.smooth, col_kernel.smooth), (row_kernel.own, col_kernel.own)
        system = _System(smooth, own, self._train, self._shape, mu / self._weights, self._kept)
        k_row, k_col = system.kernels
        a = self._last[0] = system.solve(self._y, self._last[0])
        table = self._table(a, rows, cols)
        r = _at(k_row, table, k_col, held_r, held_c) - self._y_held
        error = float(self._share @ r**2)
        g = 2 * self._share * r
        residuals = self._table(g, held_r, held_c)
        v = self._last[1] = system.solve(_at(k_row, residuals, k_col, rows, cols), self._last[1])
        u = residuals - self._table(v, rows, cols)
        by_row, row_shape = row_kernel.slopes(table @ np.asarray(u @ k_col).T)
        by_col, col_shape = col_kernel.slopes(table.T @ np.asarray(u.T @ k_row).T)
        by_mu = -float(v @ (a / self._weights))
        slope = np.concatenate([by_row, by_col, row_shape, col_shape, [by_mu]])
        return max(error, np.finfo(float).tiny), slope

    def spared(
        self, row: Floats, col: Floats, row_scales: Floats, col_scales: Floats, mu: float
    ) -> float:
        """Sum of the squared errors of the entries spared, by weight."""
        row_kernel = self._parts[0].at(row, row_scales)
        col_kernel = self._parts[1].at(col, col_scales)
        smooth, own = (row_kernel.smooth, col_kernel.smooth), (row_kernel.own, col_kernel.own)
        system = _System(smooth, own, self._train, self._shape, mu / self._weights, self._kept)
        table = self._table(system.solve(self._y, None), *self._train)
        gap = _at(system.kernels[0], table, system.kernels[1], *self._spared) - self._y_spared
        return float(self._w_spared @ gap**2)

    def _table(self, values: Floats, rows: Index, cols: Index) -> sp.csr_array:
        return sp.csr_array((values, (rows, cols)), shape=self._shape)


class _System:
    """A = Kbar + diag(noise), to be solved a few times."""

    def __init__(
        self,
        smooth: tuple[Floats, Floats],
        own: tuple[float, float],
        at: tuple[Index, Index],
        shape: tuple[int, int],
        noise: Floats,
        kept: Kept,
    ) -> None:
        self.kernels = tuple(k + o * np.eye(len(k)) for k, o in zip(smooth, own, strict=True))
        row, col = self.kernels
        m = len(noise)
        if m <= DIRECT:
            matrix = row[np.ix_(at[0], at[0])] * col[np.ix_(at[1], at[1])]
            matrix[np.diag_indices(m)] += noise
            factor = cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)
            self.solve: Solve = lambda y, _: np.asarray(cho_solve(factor, y, check_finite=False))
            return
        both = [
            Sum(Precomputed(k, None), float(o) * Identity(len(k), None))
            for k, o in zip(smooth, own, strict=True)
        ]
        self._operator = DualOperator(both[0], both[1], Mask(at[0], at[1], shape))
        self._noise, self._kept = noise, kept
        self._is_new = False
        self.solve = self._iterated

    def _iterated(self, y: Floats, guess: Floats | None) -> Floats:
        """By conjugate gradients; a preconditioner of other weights serves while it is good."""
        with one_blas_thread():  # compiled loops have threads of their own
            found, met = np.zeros_like(y) if guess is None else guess, False
            if self._kept:
                most = MAX_ITERATIONS if self._is_new else STALE
                found, met = self._descended(y, found, most)
            if not met and not self._is_new:
                self._kept[:] = [self._preconditioner()]
                self._is_new = True
                found, _ = self._descended(y, found, MAX_ITERATIONS)
        return found

    def _preconditioner(self) -> FullScale:
        row, col = (np.asarray(side.matrix) for side in self._operator.sides)
        modes = affordable_modes(len(self._noise), (len(row), len(col)))
        return FullScale(Modes((row, col), self._operator.at), self._noise, modes)

    def _times(self, x: Floats) -> Floats:
        return np.asarray(self._operator @ x + self._noise * x)

    def _descended(self, y: Floats, begun: Floats, most: int) -> tuple[Floats, bool]:
        """The solution after so many iterations at most, and whether it is good enough."""
        goal, count = TOL * float(np.linalg.norm(y)), 0
        rest = y - self._times(begun) if begun.any() else y.copy()
        if np.linalg.norm(rest) >= np.linalg.norm(y):
            begun, rest = np.zeros_like(y), y.copy()
        if np.linalg.norm(rest) <= goal:
            return begun, True
        met = False

        def leave(which: Index, descent: Descent, sound: Flags) -> Flags:
            nonlocal count, met
            count += 1
            there = np.linalg.norm(descent.r, axis=1) <= goal
            met = bool(there.all())
            return np.asarray(there | ~sound | (count >= most))

        inverse = self._kept[0]
        found = conjugate_gradients(
            lambda p: self._times(p[0])[None],
            lambda p: np.array(inverse(p[0]))[None],
            rest[None],
            leave,
        )
        return np.asarray(begun + found[0]), met


def _at(row: Floats, table: sp.csr_array, col: Floats, rows: Index, cols: Index) -> Floats:
    """(K_w table K_h) at index pairs."""
    left = np.asarray(table.T @ row).T  # K_w is symmetric
    out = np.empty(len(rows))
    step = max(1, CHUNK // max(1, left.shape[1]))
    for first in range(0, len(rows), step):
        part = slice(first, first + step)
        out[part] = np.einsum("kl,kl->k", left[rows[part]], col[cols[part]])
    return out
