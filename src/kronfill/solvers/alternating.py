"""Alternating ridge regression: the loop, its starting points and its acceleration.

MC, KMC and IMC minimise, over factors W = P A_w and H = Q A_h,

    sum_k w_k (y_k - (Z beta)_k - W[r_k] H[c_k]^T)^2 + mu (||A_w||_F^2 + ||A_h||_F^2)

(eqs. 1 and 2; for MC both P and Q are the identity). A sweep solves for A_w, then for A_h, then
for the effects, each exactly: the objective never rises. As long as it falls much, half-steps of
many unknowns are but a few steps of conjugate gradients, which lower it as well.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from kronfill._types import Floats
from kronfill.data.arrays import finite_array
from kronfill.errors import ParameterError, ShapeError
from kronfill.ridge.effects import AdditiveEffects
from kronfill.ridge.solution import Solution, Status

__all__ = ["ALS", "STARTS", "Alternation", "State", "Watch", "alternate", "leading_pair"]

STARTS = ("spectral", "kkmcex", "uniform", "gaussian")


@dataclass(frozen=True, eq=False)
class ALS:
    """Settings of alternating ridge regression with exact half-steps.

    Parameters
    ----------
    sweeps : int, default=500
        Most sweeps.
    tol : float, default=1e-6
        Stop when a sweep lowers the objective by less than this, relatively.
    start : {"spectral", "kkmcex", "uniform", "gaussian"} or pair of arrays, default="spectral"
        Where to start: the leading singular vectors of the observed matrix filled with zeros; those
        of the KKMCEX solution for the same kernels and mu; random factors, uniform on [0, 1] or
        standard Gaussian; or given factors (W, H) of shapes (N, rank) and (L, rank), for IMC
        coefficients (A_w, A_h). A sweep begins by solving for W, so H alone matters.
    accelerate : bool, default=True
        Extrapolate along the last step (Nesterov's sequence) and fall back to the plain sweep
        whenever that does not lower the objective.
    time_limit : float, default=inf
        Seconds after which to stop.
    callback : callable, optional
        Called with (sweep, objective) after each sweep.

    Examples
    --------
    >>> import numpy as np, kronfill as kf
    >>> X, y = np.array([[0, 0], [0, 1], [1, 0]]), np.array([1.0, 2.0, 2.0])
    >>> mc = kf.MC(shape=(2, 2), rank=1, mu=1e-3, solver=kf.ALS(start="uniform"))
    >>> float(mc.fit(X, y).predict([[1, 1]])[0].round(1))
    4.0
    """

    sweeps: int = 500
    tol: float = 1e-6
    start: str | tuple[Any, Any] = "spectral"
    accelerate: bool = True
    time_limit: float = float("inf")
    callback: Callable[[int, float], None] | None = None

    def __post_init__(self) -> None:
        check_sweeps(self)


@dataclass(frozen=True, eq=False)
class State:
    """Coefficients after a sweep, with the effects and the objective."""

    w: Floats
    h: Floats
    effects: AdditiveEffects | None
    objective: float


Watch = Callable[[State], float | None]
"""Looks at a sweep: the last change of what the run is for, once that has settled."""


class Alternation(ABC):
    """A problem that can be swept.

    A sweep may be rough as long as the objective falls much, if that saves time: it lowers it too.
    """

    @abstractmethod
    def begin(self, values: Floats, effects: AdditiveEffects | None) -> State:
        """First sweep, from values of H at the observed columns."""

    @abstractmethod
    def sweep(self, state: State, h: Floats, rough: bool = False) -> State:
        """Solve for W given H (its coefficients), for H given W, then for the effects."""

    def may_be_rough(self, rank: int) -> bool:
        """Whether a rough sweep is any different, with so many factors."""
        return False


def alternate(
    problem: Alternation,
    values: Floats,
    effects: AdditiveEffects | None,
    settings: Any,
    watch: Watch | None = None,
) -> tuple[State, Solution]:
    """Sweep until the objective settles, from values of H at the observed columns.

    With ``watch`` until what it looks at has settled, if that comes first.
    """
    deadline = time.monotonic() + settings.time_limit
    state = problem.begin(values, effects)
    history = [state.objective]
    previous, momentum, gain = state.h, 1.0, np.inf
    status, change = Status.MAX_ITERATIONS, None
    rough = problem.may_be_rough(values.shape[1])
    while len(history) < settings.sweeps:
        if settings.callback is not None:
            settings.callback(len(history), state.objective)
        if time.monotonic() > deadline:
            status = Status.TIME_LIMIT
            break
        change = None if watch is None else watch(state)
        if change is not None:
            status = Status.SETTLED
            break
        following = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum**2))
        lead = (momentum - 1.0) / following if settings.accelerate else 0.0
        trial = problem.sweep(state, state.h + lead * (state.h - previous), rough)
        if lead > 0 and trial.objective > state.objective:  # too far: restart from a plain sweep
            following = 1.0
            trial = problem.sweep(state, state.h, rough)
        previous, momentum = state.h, following
        gain = (state.objective - trial.objective) / max(state.objective, np.finfo(float).tiny)
        if gain < 0 and not rough:  # Rounding: keep the better one, there is no more to gain.
            status = Status.CONVERGED
            break
        if not gain < 0:  # one that is not a number ends up there too, and is told at the end
            state = trial
            history.append(state.objective)
        if gain <= settings.tol:
            if not rough:
                status = Status.CONVERGED
                break
            # To the end with exact half-steps; a run that is watched may well settle without them.
            rough = watch is not None and gain > 0
    if state.objective == 0.0:
        status = Status.CONVERGED
    solution = Solution(
        status, type(settings).__name__, iterations=len(history), residual=max(float(gain), 0.0),
        history=tuple(history), change=change,
    )  # fmt: skip
    return state, solution


def leading_pair(matrix: Any, rank: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Balanced factors U sqrt(s), V sqrt(s) of the best approximation of this rank.

    Directions that the matrix does not have are filled with small random ones: a column of zeros
    would stay zero under alternation.
    """
    n, l = matrix.shape
    if rank < min(n, l) and max(n, l) > 200:
        from scipy.sparse.linalg import svds

        u, s, vt = svds(matrix, k=rank, v0=np.ones(min(n, l)))
        u, s, vt = u[:, ::-1], s[::-1], vt[::-1]
    else:
        dense = matrix.toarray() if sp.issparse(matrix) else np.asarray(matrix)
        u, s, vt = np.linalg.svd(dense, full_matrices=False)
    top = float(s[0]) if len(s) and s[0] > 0 else 1.0
    keep = int(np.sum(s[:rank] > 1e-12 * top))
    left, right = (1e-3 * np.sqrt(top) * rng.standard_normal((k, rank)) for k in (n, l))
    left[:, :keep] = u[:, :keep] * np.sqrt(s[:keep])
    right[:, :keep] = vt[:keep].T * np.sqrt(s[:keep])
    return left, right


def given_pair(start: Any, shapes: tuple[tuple[int, int], tuple[int, int]]) -> list[Floats]:
    """Check a starting point that was handed in."""
    if not hasattr(start, "__len__") or len(start) != 2:
        msg = f"start must be one of {STARTS} or a pair of arrays, got {type(start).__name__}."
        raise ParameterError(msg)
    pair = [finite_array(part, "start") for part in start]
    if tuple(part.shape for part in pair) != shapes:
        got = " and ".join(str(part.shape) for part in pair)
        msg = f"The starting factors must have shapes {shapes[0]} and {shapes[1]}, got {got}."
        raise ShapeError(msg)
    return pair


def check_sweeps(settings: Any) -> None:
    """Check what the settings of all alternating solvers have in common."""
    name = type(settings).__name__
    if settings.sweeps < 1 or not settings.tol >= 0 or not settings.time_limit > 0:
        msg = (
            f"{name}: sweeps must be at least 1, tol not negative and time_limit positive, got "
            f"{settings.sweeps!r}, {settings.tol!r} and {settings.time_limit!r}."
        )
        raise ParameterError(msg)
    if isinstance(settings.start, str) and settings.start not in STARTS:
        msg = f"{name}: start must be one of {STARTS} or a pair of arrays, got {settings.start!r}."
        raise ParameterError(msg)
