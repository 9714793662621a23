"""The members of a mix, fitted to observations with the weights that were chosen."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from kronfill._stored import Stored, Tests, floats, of, one_of, optional, whole
from kronfill._types import Floats
from kronfill.auto.plan import Plan
from kronfill.auto.sources import AxisParts, latent_kernel
from kronfill.auto.weights import LearnedWeights
from kronfill.data import Observations
from kronfill.errors import IllConditionedWarning
from kronfill.estimators import KKMCEX, BayesianKMC
from kronfill.estimators.base import MatrixRegressor, fitted_form
from kronfill.estimators.fitted.bilinear import Bilinear
from kronfill.kernels import Kernel
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
FOLLOWED = ("parts", "sources")
"""What latent factors may be smooth in."""
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
    power : ndarray of shape (4,) or None
        To which power they are taken before; None: none, and noise is not among them.
    error : dict of str to float
        Root mean square error of each member and of the mix on hidden entries.
    follows : {"", "parts", "sources"}
        What latent factors are smooth in: the weighted sum of all parts, or that of the sources as
        they were given; empty if that is still to be found.
    """

    rank: int = 0
    side: LearnedWeights | None = None
    joint: LearnedWeights | None = None
    share: Floats = field(default_factory=lambda: np.tile([1.0, 0.0, 0.0], (4, 1)))
    spread: Floats = field(default_factory=lambda: np.ones(4))
    error: dict[str, float] = field(default_factory=dict)
    follows: str = ""
    power: Floats | None = None
    stored: ClassVar[Tests] = {
        "rank": whole, "side": optional(of(LearnedWeights)), "joint": optional(of(LearnedWeights)),
        "share": floats(2), "spread": floats(1), "error": of(dict),
    }  # fmt: skip
    stored_at_times: ClassVar[Tests] = {
        "follows": one_of("", *FOLLOWED), "power": optional(floats(1)),
    }  # fmt: skip

    def _fits_together(self) -> bool:
        powers = (4,) if self.power is None else self.power.shape
        return self.share.shape == (4, 3) and self.spread.shape == powers == (4,)

    @property
    def noise_factor(self) -> tuple[float, float]:
        """The noise is the first, times that of the low-rank part to the power of the second."""
        return float(self.spread[0]) ** 2, 1.0 if self.power is None else float(self.power[0])

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
) -> tuple[BayesianKMC, str]:
    """Low rank whose factors follow the kernels of what is known, and which of these they follow.

    With few observations for each unknown a search that begins with many factors loses all of
    them, and what is best for a sum of kernels is not always what factors are smooth in: the bound
    on the evidence tells which beginning and which kernels were right.
    """
    most = min(plan.rank, *obs.shape)
    sparse = obs.m < plan.rank * sum(obs.shape)
    ranks = sorted({most, *(min(rank, most) for rank in FEW_FACTORS)}) if sparse else [most]
    ranks = [min(choice.rank, most)] if choice.rank else ranks
    solver = Variational(sweeps=MANY_SWEEPS) if obs.m <= SMALL else "auto"
    fits = [
        (BayesianKMC(*kernels, rank=rank, solver=solver, random_state=seed).fit(obs), name)
        for name, kernels in _followed(axes, choice).items()
        for rank in ranks
    ]
    return max(fits, key=lambda fit: fit[0].bound_)


def _followed(axes: Axes, choice: MixChoice) -> dict[str, tuple[Kernel | None, Kernel | None]]:
    """The kernels that latent factors may follow."""
    side = choice.side
    if side is None:
        return {"": (None, None)}
    weights = (side.row, side.row_scales), (side.col, side.col_scales)
    each = {
        "parts": tuple(axis.smooth(*own) for axis, own in zip(axes, weights, strict=True)),
        "sources": tuple(axis.smoothest(*own) for axis, own in zip(axes, weights, strict=True)),
    }
    return {name: (row, col) for name, (row, col) in each.items() if choice.follows in ("", name)}


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
