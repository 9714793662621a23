"""Fits of every method with right and wrong side information, and what the bounds say of them.

The truth is a Gaussian process on a grid, K_w^{1/2} Z K_h^{1/2} with RBF kernels, of mean square 1,
plus noise. The ridge weight of each method is chosen once, on realisations of its own.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kronfill import kernels
from kronfill._types import Floats
from kronfill.bounds import (
    HypothesisClass,
    IMCBall,
    KMCBall,
    NuclearBall,
    RKHSBall,
    Split,
    Square,
    TrainingSpan,
    generalization_bound,
    theorem_1,
    theorem_3,
    theorem_4,
)
from kronfill.data import Observations
from kronfill.errors import ConvergenceWarning
from kronfill.estimators import IMC, KKMCEX, KMC, MC
from kronfill.solvers import ALS

__all__ = ["SIDES", "FitSettings", "RefereeFit", "fits_over_m", "fits_over_sides"]

LENGTH = 0.2
"""Length scale of the truth; the grid is [0, 1]."""
NOISE = 0.3
"""Standard deviation of the noise."""
RANK = 10
CLIP = 4.0
"""Range of the loss in the bounds, in standard deviations of the data to either side."""
DELTA = 0.05
METHODS = ("MC", "KMC", "IMC", "KKMCEX")
SIDES = (
    "right", "length scale / 3", "length scale x 3", "noise added", "rows shuffled", "identity",
)  # fmt: skip
"""Side information: kernels of the truth, and five ways to be wrong."""


@dataclass(frozen=True)
class FitSettings:
    """How large the experiment is."""

    size: int
    """N = L."""
    realizations: int
    weights: tuple[float, ...]
    """Ridge weights to choose from."""
    seed: int


@dataclass(frozen=True)
class RefereeFit:
    """One method with one kind of side information: means over realisations."""

    method: str
    side: str
    m: int
    mu: float
    test: float
    stderr: float
    """Test loss and its standard error."""
    ge: float
    norm: float
    """Radius of the class that just holds the fit: t, t_B, sqrt(t_w t_h) or b."""
    printed: float
    """Theorem 1 with the complexity as printed."""
    corrected: float
    """The smaller of Theorems A and A2."""


@dataclass(frozen=True, eq=False)
class _Case:
    """One realisation."""

    values: Floats
    seen: Observations
    unseen: NDArray[np.bool_]

    @property
    def split(self) -> Split:
        return Split.of((self.seen.rows, self.seen.cols), shape=self.values.shape)


def fits_over_sides(settings: FitSettings, m: int) -> list[RefereeFit]:
    """KMC, IMC and KKMCEX with each kind of side information; MC, which has none, once."""
    chosen = [(method, side) for side in SIDES for method in METHODS[1:]]
    return [_mean(settings, method, side, m) for method, side in [("MC", "none"), *chosen]]


def fits_over_m(settings: FitSettings, samples: Sequence[int]) -> list[RefereeFit]:
    """Every method with the right kernels, for several numbers of observations."""
    return [
        _mean(settings, method, "none" if method == "MC" else "right", m)
        for m in samples
        for method in METHODS
    ]


def _mean(settings: FitSettings, method: str, side: str, m: int) -> RefereeFit:
    size = settings.size
    row, col = _kernels(size, side, settings.seed)
    mu = _choose(settings, method, row, col, m)
    found = [
        _measure(_fit(method, row, col, case.seen, mu), method, row, col, case)
        for case in _cases(settings, m, settings.realizations, 0)
    ]
    mean = {name: float(np.mean([x[name] for x in found])) for name in found[0]}
    tests = np.array([x["test"] for x in found])
    error = float(tests.std(ddof=1) / np.sqrt(len(tests))) if len(tests) > 1 else float("nan")
    return RefereeFit(method, side, m, mu, stderr=error, **mean)


def _cases(settings: FitSettings, m: int, count: int, purpose: int) -> Iterator[_Case]:
    """The same truths for every method and side; those for tuning are others."""
    size = settings.size
    root = _root(size)
    for k in range(count):
        key = (purpose, k, m)
        rng = np.random.default_rng(np.random.SeedSequence(settings.seed, spawn_key=key))
        truth = root @ rng.standard_normal((size, size)) @ root
        truth /= np.sqrt(np.mean(truth**2))
        values = truth + NOISE * rng.standard_normal((size, size))
        rows, cols = np.divmod(rng.choice(size**2, m, replace=False), size)
        unseen = np.ones((size, size), bool)
        unseen[rows, cols] = False
        seen = Observations(rows, cols, values[rows, cols], (size, size))
        yield _Case(values, seen, unseen)


@cache
def _root(size: int) -> Floats:
    values, vectors = np.linalg.eigh(_rbf(size, LENGTH))
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)


def _rbf(size: int, length: float) -> Floats:
    return np.asarray(kernels.rbf(np.linspace(0.0, 1.0, size), length_scale=length).block())


@cache
def _kernels(size: int, side: str, seed: int) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(2,)))
    right = _rbf(size, LENGTH)
    if side == "length scale / 3":
        right = _rbf(size, LENGTH / 3)
    elif side == "length scale x 3":
        right = _rbf(size, LENGTH * 3)
    elif side == "noise added":  # a random kernel as strong as the right one
        noise = rng.standard_normal((size, size))
        mixed = right + noise @ noise.T / size
        scale = np.sqrt(np.diag(mixed))
        right = mixed / np.outer(scale, scale)
    elif side == "rows shuffled":
        order = rng.permutation(size)
        return right[np.ix_(order, order)], right
    elif side == "identity":
        right = np.eye(size)
    return right, right


def _fit(method: str, row: Floats, col: Floats, seen: Observations, mu: float) -> Any:
    solver: Any = ALS()
    if method == "KKMCEX":
        estimator: Any = KKMCEX(row, col, mu=mu)
    elif method == "KMC":
        estimator = KMC(row, col, RANK, mu, solver=solver, random_state=0)
    elif method == "IMC":
        estimator = IMC(_features(row), _features(col), RANK, mu, solver=solver, random_state=0)
    else:
        estimator = MC(seen.shape, RANK, mu, solver=solver, random_state=0)
    with warnings.catch_warnings():  # without side information the factors of rows unseen are free
        warnings.simplefilter("ignore", ConvergenceWarning)
        return estimator.fit(seen)


def _features(kernel: Floats) -> Floats:
    """The leading eigenvectors, with which IMC has fewer unknowns than KMC."""
    values, vectors = np.linalg.eigh(kernel)
    return np.asarray(vectors[:, -RANK:] * np.sqrt(np.maximum(values[-RANK:], 0.0)))


def _choose(settings: FitSettings, method: str, row: Floats, col: Floats, m: int) -> float:
    """The weight with the smallest error on a fifth of the observations held out, two truths."""
    errors = dict.fromkeys(settings.weights, 0.0)
    for case in _cases(settings, m, 2, 1):
        part = max(1, m // 5)
        fitted_to = Observations(
            case.seen.rows[part:], case.seen.cols[part:], case.seen.values[part:], case.seen.shape
        )
        rows, cols, values = case.seen.rows[:part], case.seen.cols[:part], case.seen.values[:part]
        for mu in errors:
            made = _fit(method, row, col, fitted_to, mu).predict_matrix()
            errors[mu] += float(np.mean((made[rows, cols] - values) ** 2))
    return min(errors, key=lambda mu: errors[mu])


def _measure(
    fitted: Any, method: str, row: Floats, col: Floats, case: _Case
) -> Mapping[str, float]:
    square = (case.values - fitted.predict_matrix()) ** 2
    test, train = float(square[case.unseen].mean()), float(square[~case.unseen].mean())
    norm = _class(method, row, col, case.values.shape, 1.0).norm_of(fitted)
    ball = _class(method, row, col, case.values.shape, norm)
    top = CLIP * float(np.hypot(1.0, NOISE))
    loss = Square(clip=(-top, top))
    size = _printed(ball, row, col, case)
    printed = theorem_1(size, case.split.sizes, loss, DELTA).value
    corrected = generalization_bound(ball, case.split, loss, DELTA).value
    return {
        "test": test, "ge": test - train, "norm": norm, "printed": printed, "corrected": corrected,
    }  # fmt: skip


def _printed(ball: HypothesisClass, row: Floats, col: Floats, case: _Case) -> float:
    """The complexity as the paper prints it."""
    if isinstance(ball, IMCBall):
        return theorem_3(ball, case.split).value
    if isinstance(ball, RKHSBall):
        span = TrainingSpan(row, col, ball.b, (case.seen.rows, case.seen.cols))
        return theorem_4(span, case.split).value
    return ball.paper_form(case.split)


def _class(
    method: str, row: Floats, col: Floats, shape: tuple[int, int], radius: float
) -> HypothesisClass:
    if method == "KKMCEX":
        return RKHSBall(row, col, b=radius)
    if method == "KMC":
        return KMCBall(row, col, t_b=radius)
    if method == "IMC":
        return IMCBall(_features(row), _features(col), t_w=radius, t_h=radius)
    return NuclearBall(shape, radius)
