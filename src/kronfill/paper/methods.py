"""The methods of the figure: what is fitted, with which settings.

Beside the three curves of each panel there are variants that show what the paper's picture hangs
on: the ridge weight and the starting point of MC, and the solver of KMC.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from kronfill.data import Observations
from kronfill.errors import ConvergenceWarning
from kronfill.estimators import KKMCEX, KMC, MC
from kronfill.paper.circulant import Circulant
from kronfill.paper.losses import Factors, KernelSum, Prediction
from kronfill.paper.synthetic import RANK
from kronfill.solvers import ALS, Cholesky, RowWise

__all__ = ["METHODS", "FigureMethod", "Outcome", "fit"]

PAPER_MU = 0.1
"""Ridge weight of MC with which the paper's training losses come out."""
MC_SWEEPS = 500
MC_TOL = 1e-5


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a fit gives."""

    prediction: Prediction
    norm: float
    """The radius that the bounds need: t of MC, t_B of KMC, b of KKMCEX."""
    objective: float
    """The objective reached; NaN for a closed form."""
    sweeps: int
    """Sweeps taken, 1 for a closed form."""
    converged: bool
    """Whether the solver reached its tolerance."""


Fit = Callable[[Circulant, Observations, float, np.random.Generator], Outcome]


@dataclass(frozen=True, eq=False)
class FigureMethod:
    """One way to fit the data."""

    label: str
    """Its name in tables and figures."""
    algorithm: str
    """Which of the paper's curves it stands beside: MC, KMC or KKMCEX."""
    tuned: str
    """Under which name its ridge weight is kept among the constants; empty if it is fixed."""
    realizations: int
    """How many a full run has."""
    seconds: tuple[float, float]
    """Rough cost of a cell: constant, and per entry of the matrix (for the progress bar only)."""
    _fit: Fit

    def cost(self, size: int) -> float:
        """Expected seconds of a cell."""
        return self.seconds[0] + self.seconds[1] * size**2


def fit(
    name: str, kernel: Circulant, seen: Observations, mu: float, rng: np.random.Generator
) -> Outcome:
    """Fit the method of this name to one realisation; MC does without the kernel.

    Examples
    --------
    >>> import numpy as np
    >>> from kronfill.paper.methods import fit
    >>> from kronfill.paper.synthetic import draw
    >>> made = draw(40, np.inf, 0, exponent=1.35, power=0.45, samples=200)
    >>> rng = np.random.default_rng(0)
    >>> fit("kkmcex", made.kernel, made.observations, 1e-6, rng).sweeps
    1
    """
    with warnings.catch_warnings():
        # How far a solver got is recorded, and is the point of some of the variants.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return METHODS[name]._fit(kernel, seen, mu, rng)


def _kkmcex(kernel: Circulant, seen: Observations, mu: float, rng: np.random.Generator) -> Outcome:
    fitted = KKMCEX(kernel, kernel, mu=mu, solver=Cholesky()).fit(seen)
    prediction = KernelSum(kernel, seen.rows, seen.cols, fitted.dual_coef_)
    # b^2 = d^T Kbar d = d^T (y - mu d), from equation (5).
    dual = fitted.dual_coef_
    norm = math.sqrt(max(float(dual @ (seen.values - mu * dual)), 0.0))
    return Outcome(prediction, norm, float("nan"), 1, True)


def _mc(start: str) -> Fit:
    solver = ALS(sweeps=MC_SWEEPS, tol=MC_TOL, start=start)

    def run(kernel: Circulant, seen: Observations, mu: float, rng: np.random.Generator) -> Outcome:
        fitted = MC(seen.shape, RANK, mu, solver=solver, random_state=rng).fit(seen)
        half = 0.5 * float(np.vdot(fitted.W_, fitted.W_) + np.vdot(fitted.H_, fitted.H_))
        return _factorised(fitted, half)

    return run


def _kmc(solver: Any) -> Fit:
    def run(kernel: Circulant, seen: Observations, mu: float, rng: np.random.Generator) -> Outcome:
        fitted = KMC(kernel, kernel, RANK, mu, solver=solver, random_state=rng).fit(seen)
        rest = seen.values - Factors(fitted.W_, fitted.H_).at(seen.rows, seen.cols)
        # The objective is ||rest||^2 + mu t_B, equation (2).
        return _factorised(fitted, max(fitted.objective_ - float(rest @ rest), 0.0) / mu)

    return run


def _factorised(fitted: Any, norm: float) -> Outcome:
    return Outcome(
        Factors(fitted.W_, fitted.H_),
        norm,
        float(fitted.objective_),
        int(fitted.n_iter_),
        bool(fitted.solution_.converged),
    )


METHODS: dict[str, FigureMethod] = {
    "kkmcex": FigureMethod("KKMCEX", "KKMCEX", "kkmcex", 1000, (0.03, 2e-8), _kkmcex),
    "mc": FigureMethod("MC", "MC", "mc", 1000, (0.04, 5e-9), _mc("uniform")),
    "mc-0.1": FigureMethod("MC (mu = 0.1)", "MC", "", 1000, (0.04, 5e-9), _mc("uniform")),
    "mc-0.1-gaussian": FigureMethod(
        "MC (mu = 0.1, Gaussian start)", "MC", "", 300, (0.04, 5e-9), _mc("gaussian")
    ),
    "kmc": FigureMethod(
        "KMC (exact)", "KMC", "kmc", 100, (0.7, 7e-8), _kmc(ALS(start="kkmcex"))
    ),
    "kmc-rowwise": FigureMethod(
        "KMC (row-wise)", "KMC", "kmc", 100, (0.3, 5.6e-7), _kmc(RowWise(sweeps=100, tol=0.0))
    ),
    "kmc-rowwise-400": FigureMethod(
        "KMC (row-wise, 400 sweeps)", "KMC", "kmc", 10, (1.2, 2.2e-6),
        _kmc(RowWise(sweeps=400, tol=0.0)),
    ),
}  # fmt: skip
