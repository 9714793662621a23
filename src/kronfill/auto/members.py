"""The members of a mix, fitted to observations with the weights that were chosen."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from kronfill._stored import Stored, Tests, floats, of, optional, whole
from kronfill._types import Floats
from kronfill.auto.plan import Plan
from kronfill.auto.sources import AxisParts, latent_kernel
from kronfill.auto.weights import LearnedWeights
from kronfill.data import Observations
from kronfill.errors import IllConditionedWarning
from kronfill.estimators import KKMCEX, BayesianKMC
from kronfill.estimators.base import MatrixRegressor, fitted_form
from kronfill.estimators.fitted.bilinear import Bilinear
from kronfill.solvers import Auto
from kronfill.variational.factors import Variational

__all__ = [
    "LOOSE",
    "SMALL",
    "Axes",
    "Members",
    "MixChoice",
    "low_rank_member",
    "members_beside",
    "with_factors",
]

LOOSE = 1e-3
"""Relative residual of fits that are only compared."""
LEAST_MU = 1e-4
SMALL, MANY_SWEEPS = 20_000, 5000
"""Up to so many observations sweeps cost next to nothing, and there may be many of them."""
FEW_FACTORS = (4, 8)
"""Numbers of factors to begin with where observations are few, beside the largest."""
Axes = tuple[AxisParts, AxisParts]


@dataclass(frozen=True, eq=False)
class MixChoice(Stored):
    """What was chosen.

    Attributes
    ----------
    rank : int
        Number of factors with which the low-rank part begins; 0 if that is still to be found.
    side, joint : LearnedWeights or None
        Weights of the kernels of what is known, and of these and latent factors; None without.
    share : ndarray of shape (4, 3)
        Shares of low rank, side and joint for each kind of entry.
    spread : ndarray of shape (4,)
        By how much the standard deviations of the low-rank part are to be multiplied, by kind.
    error : dict of str to float
        Root mean square error of each member and of the mix on hidden entries.
    """

    rank: int = 0
    side: LearnedWeights | None = None
    joint: LearnedWeights | None = None
    share: Floats = field(default_factory=lambda: np.tile([1.0, 0.0, 0.0], (4, 1)))
    spread: Floats = field(default_factory=lambda: np.ones(4))
    error: dict[str, float] = field(default_factory=dict)
    stored: ClassVar[Tests] = {
        "rank": whole, "side": optional(of(LearnedWeights)), "joint": optional(of(LearnedWeights)),
        "share": floats(2), "spread": floats(1), "error": of(dict),
    }  # fmt: skip

    def _fits_together(self) -> bool:
        return self.share.shape == (4, 3) and self.spread.shape == (4,)

    def wants(self, member: int) -> bool:
        """Whether a member has a share in any kind of entry."""
        return bool(self.share[:, member].any())


@dataclass(frozen=True, eq=False)
class Members:
    """Fitted members of a mix: low rank, what is known, and both."""

    low_rank: BayesianKMC
    side: KKMCEX | None
    joint: KKMCEX | None

    def present(self) -> list[tuple[int, MatrixRegressor]]:
        """Position and method of those that there are."""
        all_of = (self.low_rank, self.side, self.joint)
        return [(k, member) for k, member in enumerate(all_of) if member is not None]

    def wanted(self, choice: MixChoice) -> Members:
        """Low rank, and of the others those that a choice has shares for."""
        side, joint = self.side, self.joint
        return Members(
            self.low_rank, side if choice.wants(1) else None, joint if choice.wants(2) else None
        )


def members_beside(
    low_rank: BayesianKMC,
    obs: Observations,
    axes: Axes,
    choice: MixChoice,
    tol: float | None = None,
) -> Members:
    """The members with kernels that a choice has shares for, fitted, and low rank as it is."""
    side = joint = None
    if choice.side is not None and choice.wants(1):
        side = _ridge(obs, axes, choice.side, tol)
    if choice.joint is not None and low_rank.rank_ and choice.wants(2):
        joint = _ridge(obs, with_factors(axes, low_rank), choice.joint, tol)
    return Members(low_rank, side, joint)


def low_rank_member(
    obs: Observations, axes: Axes, choice: MixChoice, plan: Plan, seed: int
) -> BayesianKMC:
    """Low rank whose factors follow the kernels of what is known."""
    side = choice.side
    row = col = None
    if side is not None:
        row = axes[0].smooth(side.row, side.row_scales)
        col = axes[1].smooth(side.col, side.col_scales)
    most = min(plan.rank, *obs.shape)
    # With few observations for each unknown a search that begins with many factors loses all of
    # them; the bound on the evidence tells which beginning was right.
    sparse = obs.m < plan.rank * sum(obs.shape)
    ranks = sorted({most, *(min(rank, most) for rank in FEW_FACTORS)}) if sparse else [most]
    ranks = [min(choice.rank, most)] if choice.rank else ranks
    solver = Variational(sweeps=MANY_SWEEPS) if obs.m <= SMALL else "auto"
    fits = [
        BayesianKMC(row, col, rank=rank, solver=solver, random_state=seed).fit(obs)
        for rank in ranks
    ]
    return max(fits, key=lambda fit: fit.bound_)


def _ridge(obs: Observations, axes: Axes, found: LearnedWeights, tol: float | None) -> KKMCEX:
    row = axes[0].kernel(found.row, found.row_scales).as_learned()
    col = axes[1].kernel(found.col, found.col_scales).as_learned()
    mu = max(found.mu, LEAST_MU)
    if tol is None:
        return KKMCEX(row, col, mu=mu, center="mean").fit(obs)
    with warnings.catch_warnings():  # digits are lost on purpose; the last fit speaks for itself
        warnings.simplefilter("ignore", IllConditionedWarning)
        return KKMCEX(row, col, mu=mu, center="mean", solver=Auto(tol=tol)).fit(obs)


def with_factors(axes: Axes, low_rank: BayesianKMC) -> Axes:
    """The axes with a part for latent factors each."""
    form = fitted_form(low_rank)
    assert isinstance(form, Bilinear)
    w, h = low_rank.W_, low_rank.H_
    return (
        axes[0].with_latent(latent_kernel(w, h, form.row_basis)),
        axes[1].with_latent(latent_kernel(h, w, form.col_basis)),
    )
