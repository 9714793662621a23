"""Everything that is chosen: weights of kernels, mu, and the share of each member.

Members are fitted without some entries, and judged by these:

* the kernels of what is known are to tell what new rows and columns are like: their weights are
  those with the least error on whole rows and columns that were hidden;
* together with latent factors they are to tell the missing entries of known rows and columns: those
  weights have the least error on hidden entries, which the factors have not seen either;
* the shares of the members are those of the best mix, for each kind of entry.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from kronfill._progress import Progress
from kronfill._types import Flags, Floats, Index
from kronfill.auto.hiding import hidden_entries, hidden_items, part_to_learn_from, spared
from kronfill.auto.members import (
    LOOSE,
    Axes,
    Members,
    MixChoice,
    low_rank_member,
    members_beside,
    with_factors,
)
from kronfill.auto.mixing import KNOWN, MixedForm, shares
from kronfill.auto.plan import Plan
from kronfill.auto.weights import HiddenSplit, LearnedWeights, learned_weights
from kronfill.auto.widths import fitted_width
from kronfill.data import Observations

__all__ = ["chosen", "fitted_members"]

MU = 0.1
"""Where a search for mu begins: kernels have a diagonal of about 2 on either axis."""


def fitted_members(
    obs: Observations,
    axes: Axes,
    choice: MixChoice,
    plan: Plan,
    seed: int,
    tol: float | None = None,
) -> Members:
    """All members that a choice has shares for, fitted."""
    begun = choice if tol is not None else replace(choice, rank=0)  # the last fit tries all again
    low_rank, _ = low_rank_member(obs, axes, begun, plan, seed)
    return members_beside(low_rank, obs, axes, choice, tol)


def chosen(
    obs: Observations, axes: Axes, plan: Plan, seed: int, progress: Progress
) -> Iterator[tuple[MixChoice, Members]]:
    """Choose everything; whenever there is a model to go on with, it comes with its choice."""
    stages = 10
    rng = np.random.default_rng(seed)
    choice = MixChoice()
    apart = hidden_items(obs, axes, rng)
    progress("weights of what is known", 0, stages)
    if any(axis.are_known for axis in axes):
        choice = replace(choice, side=_learned(obs, apart, [axes] * len(apart), plan, rng))
    folds = hidden_entries(obs, plan, rng)
    progress("latent factors", 3, stages)
    begun, follows = low_rank_member(obs.take(~folds[0]), axes, choice, plan, seed)
    choice = replace(choice, rank=int(begun.rank), follows=follows)
    more = [low_rank_member(obs.take(~away), axes, choice, plan, seed) for away in folds[1:]]
    fits = [begun, *(fit for fit, _ in more)]
    first = Members(fits[0], None, None)
    yield choice, first
    progress("weights of what is known and of latent factors", 4, stages)
    if all(fit.rank_ for fit in fits):
        whole = [with_factors(axes, fit) for fit in fits]
        choice = replace(choice, joint=_learned(obs, folds, whole, plan, rng, choice.side))
    choice = replace(choice, share=np.ones((4, 3)))  # all members are to be looked at
    progress("shares of the members", 7, stages)
    compared = [
        members_beside(fit, obs.take(~hidden), axes, choice, LOOSE)
        for hidden, fit in zip(folds, fits, strict=True)
    ]
    known = [_predictions(obs, *pair) for pair in zip(folds, compared, strict=True)]
    news = [
        _predictions(
            obs, hidden, fitted_members(obs.take(~hidden), axes, choice, plan, seed, LOOSE)
        )
        for hidden in apart
    ]
    choice = _mixed(choice, known, news)
    progress("all members, fitted to all entries", 9, stages)
    yield choice, compared[0].wanted(choice)


def _learned(
    obs: Observations,
    folds: list[Flags],
    axes: list[Axes],
    plan: Plan,
    rng: np.random.Generator,
    side: LearnedWeights | None = None,
) -> LearnedWeights:
    """Weights of the parts, learned from as many observations as the plan allows.

    Features have the scales at first that were learned without latent factors, if they were.
    """
    row, col = axes[0]
    scales = [np.ones(sum(axis.scales)) for axis in (row, col)]
    if side is not None:
        for own, known in zip(scales, (side.row_scales, side.col_scales), strict=True):
            own[: len(known)] = known
    first = LearnedWeights(row.first(), col.first(), scales[0], scales[1], MU)
    splits, parts = [], []
    for hidden, (row, col) in zip(folds, axes, strict=True):
        kept, items = part_to_learn_from(obs, hidden, (row, col), plan, rng)
        if plan.steps == 0 or not hidden[kept].any() or hidden[kept].all():
            return first
        place = [np.zeros(size, dtype=np.intp) for size in obs.shape]
        for at, some in zip(place, items, strict=True):
            at[some] = np.arange(len(some))
        weights = np.ones(len(kept)) if obs.weights is None else obs.weights[kept]
        splits.append(HiddenSplit(
            place[0][obs.rows[kept]], place[1][obs.cols[kept]], obs.values[kept], weights,
            hidden[kept], spared(obs.take(kept), hidden[kept], rng),
            (len(items[0]), len(items[1])),
        ))  # fmt: skip
        parts.append((row.arrays(items[0]), col.arrays(items[1])))
    return learned_weights(splits, parts, first, plan.steps)


@dataclass(frozen=True, eq=False)
class _Predictions:
    """What each member says about hidden entries."""

    values: Floats
    """(3, t); NaN where there is no such member."""
    observed: Floats
    weights: Floats
    kinds: Index
    total: Floats
    """Variances by the low-rank part, noise included."""
    rows: Index
    cols: Index

    def items(self, which: Flags) -> int:
        """Number of rows, or of columns if these are more, of some entries."""
        return max(len(np.unique(index[which])) for index in (self.rows, self.cols))


def _predictions(obs: Observations, hidden: Flags, members: Members) -> _Predictions:
    held, train = obs.take(hidden), obs.take(~hidden)
    values = np.full((3, held.m), np.nan)
    for k, member in members.present():
        values[k] = member.predict(held)
    form = MixedForm((), np.zeros((4, 0)), train.row_counts > 0, train.col_counts > 0)
    weights = np.ones(held.m) if held.weights is None else held.weights
    return _Predictions(
        values, held.values, weights, form.kinds(held.rows, held.cols),
        members.low_rank.predict_std(held) ** 2 + members.low_rank.noise_variance_,
        held.rows, held.cols,
    )  # fmt: skip


def _mixed(choice: MixChoice, known: list[_Predictions], news: list[_Predictions]) -> MixChoice:
    """Shares and widths for each kind of entry; a kind that was not seen is like another."""
    names = ("low rank", "side information", "both")
    share, spread, power, error = np.zeros((4, 3)), np.ones(4), np.ones(4), {}
    for kind in range(4):
        some = known if kind == KNOWN else news
        pick = [(one, one.kinds == kind) for one in some]
        values = np.concatenate([one.values[:, at] for one, at in pick], axis=1)
        observed, weights, total = (
            np.concatenate([getattr(one, name)[at] for one, at in pick])
            for name in ("observed", "weights", "total")
        )
        count = len(observed)
        there = ~np.isnan(values).any(axis=1)
        if count < 2 or not weights.any():
            share[kind], spread[kind], power[kind] = share[KNOWN], spread[KNOWN], power[KNOWN]
            if kind != KNOWN and choice.side is not None:
                share[kind] = (0.0, 1.0, 0.0)
            continue
        share[kind, there] = shares(values[there], observed, weights)
        mix = share[kind, there] @ values[there]
        gap = observed - mix
        units = sum(one.items(at) for one, at in pick)
        spread[kind], power[kind] = fitted_width(gap, total, weights, units)
        if kind == KNOWN:
            for k in np.flatnonzero(there):
                error[names[k]] = _rms(values[k] - observed, weights)
            error["mix"] = _rms(gap, weights)
    return replace(choice, share=share, spread=spread, power=power, error=error)


def _rms(gap: Floats, weights: Floats) -> float:
    return float(np.sqrt(np.average(gap**2, weights=weights)))
