"""What each source of a mix is worth: its share of what is predicted, and the loss without it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kronfill._progress import tell
from kronfill._types import Flags, Floats, Index
from kronfill.auto.choosing import fitted_members
from kronfill.auto.hiding import hidden_entries, hidden_items
from kronfill.auto.members import LOOSE, Axes, Members, MixChoice
from kronfill.auto.mixing import KNOWN, NEW_COL, NEW_ROW, MixedForm
from kronfill.auto.model import AutoMC
from kronfill.auto.sources import LATENT, WeightedSources
from kronfill.data import Observations
from kronfill.estimators import KKMCEX
from kronfill.estimators.inputs import random_generator

__all__ = ["SourceWorth", "worth_of_sources"]

SAMPLE = 1000
"""Entries at which the share of the predicted variance is measured."""
AXES = ("rows", "cols")


@dataclass(frozen=True)
class SourceWorth:
    """What one source is worth.

    Attributes
    ----------
    axis : {"rows", "cols", "both"}
        What it is about.
    label : str
        What it is called.
    weight : float
        Its weight in the kernel that tells new items (that of latent factors beside what is known),
        all parts made of it together.
    share : float
        Its share of the variance of the predictions.
    loss, loss_error : float
        Growth of the root mean square error on hidden entries of known rows and columns without it,
        and its standard error.
    new_loss, new_error : float
        The same for hidden rows, or columns, of its axis; NaN where none could be hidden.
    """

    axis: str
    label: str
    weight: float
    share: float
    loss: float
    loss_error: float
    new_loss: float
    new_error: float


def worth_of_sources(model: AutoMC) -> list[SourceWorth]:
    """What each source of a fitted mix is worth.

    Without a source the members are fitted again, with the weights that the other sources have and
    the same shares: a loss is what one would lose without choosing again.

    Parameters
    ----------
    model : AutoMC
        A fitted mix.

    Examples
    --------
    >>> import numpy as np, kronfill as kf
    >>> from kronfill.auto.worth import worth_of_sources
    >>> x, rng = np.linspace(0, 1, 30), np.random.default_rng(0)
    >>> values = np.sin(6 * x)[:, None] * rng.standard_normal(20)
    >>> obs = kf.Observations.from_matrix(np.where(rng.random(values.shape) < 0.5, values, np.nan))
    >>> est = kf.AutoMC({"place": kf.kernels.rbf(x, 0.2)}).fit(obs)
    >>> [one.label for one in worth_of_sources(est)]
    ['place', 'latent factors']
    """
    obs, axes = model.fitted_to()
    plan, choice = model.plan_, model.choice_
    seed = int(random_generator(model.random_state).integers(2**31))
    rng = np.random.default_rng(seed)
    folds = [hidden_items(obs, axes, rng)[0], hidden_entries(obs, plan, rng)[0]]
    sources = [(k, label) for k, axis in enumerate(axes) for label in axis.source_labels]
    shares = _predicted_shares(model, axes)
    total = len(sources) + 1
    tell("what each source is worth", 0, total)
    whole = [_Left.of(obs, away, axes, choice, model) for away in folds]
    found = []
    for at, (k, label) in enumerate(sources):
        rest, fewer = _without(axes, choice, k, label)
        left = [_Left.of(obs, away, rest, fewer, model) for away in folds]
        tell("what each source is worth", at + 1, total)
        found.append(SourceWorth(
            AXES[k], label, _weight(axes, choice, k, label), shares.get((k, label), 0.0),
            *_loss(whole[1], left[1], KNOWN), *_loss(whole[0], left[0], (NEW_ROW, NEW_COL)[k]),
        ))  # fmt: skip
    if choice.joint is not None or not sources:
        alone = replace(choice, share=np.tile([0.0, 1.0, 0.0], (4, 1)))
        left = [one.mixed(alone) for one in whole]
        weight = _weight(axes, choice, 0, LATENT) + _weight(axes, choice, 1, LATENT)
        found.append(SourceWorth(
            "both", LATENT, weight, shares.get((0, LATENT), 0.0), *_loss(whole[1], left[1], KNOWN),
            *_loss(whole[0], left[0], NEW_ROW),
        ))  # fmt: skip
    tell("what each source is worth", total, total)
    return found


@dataclass(frozen=True, eq=False)
class _Left:
    """What members say about entries that were hidden from them."""

    values: Floats
    share: Floats
    kinds: Index
    held: Observations

    @classmethod
    def of(
        cls, obs: Observations, hidden: Flags, axes: Axes, choice: MixChoice, model: AutoMC
    ) -> _Left:
        train, held = obs.take(~hidden), obs.take(hidden)
        everyone = replace(choice, share=np.maximum(choice.share, 1e-9))
        seed = int(random_generator(model.random_state).integers(2**31))
        members: Members = fitted_members(train, axes, everyone, model.plan_, seed, LOOSE)
        values = np.full((3, held.m), np.nan)
        for k, member in members.present():
            values[k] = member.predict(held)
        form = MixedForm((), np.zeros((4, 0)), train.row_counts > 0, train.col_counts > 0)
        return cls(values, choice.share, form.kinds(held.rows, held.cols), held)

    def mixed(self, choice: MixChoice) -> _Left:
        """With other shares."""
        return replace(self, share=choice.share)

    @property
    def squares(self) -> Floats:
        """Squared errors of the mix of those members that there are."""
        there = np.array([not np.isnan(said).any() for said in self.values])
        share = np.where(there, self.share[self.kinds], 0.0)
        total = share.sum(axis=1, keepdims=True)
        share = np.where(total > 0, share / np.where(total > 0, total, 1.0), there / there.sum())
        mix = np.einsum("tk,kt->t", share, np.where(there[:, None], self.values, 0.0))
        return np.asarray((self.held.values - mix) ** 2)


def _loss(whole: _Left, without: _Left, kind: int) -> tuple[float, float]:
    """Growth of the root mean square error of a kind of entries, and its standard error."""
    at = whole.kinds == kind
    if at.sum() < 2:
        return np.nan, np.nan
    before, after = whole.squares[at], without.squares[at]
    roots = np.sqrt(before.mean()), np.sqrt(after.mean())
    # The difference of two roots, to first order, entry by entry; hidden rows count as one.
    each = (after - after.mean()) / (2 * max(roots[1], 1e-300))
    each -= (before - before.mean()) / (2 * max(roots[0], 1e-300))
    index = {NEW_ROW: whole.held.rows, NEW_COL: whole.held.cols}.get(kind)
    groups = np.arange(at.sum()) if index is None else np.unique(index[at], return_inverse=True)[1]
    sums = np.bincount(groups, weights=each)
    error = np.sqrt(len(sums) / max(len(sums) - 1, 1) * np.sum(sums**2)) / at.sum()
    return float(roots[1] - roots[0]), float(error)


def _without(axes: Axes, choice: MixChoice, k: int, label: str) -> tuple[Axes, MixChoice]:
    """Axes and choice without a source of one axis."""
    kept, scaled = axes[k].kept_without(label)
    changed = list(axes)
    changed[k] = axes[k].without(label)

    def fewer(found: Any) -> Any:
        if found is None:
            return None
        name = ("row", "col")[k]
        weights, scales = getattr(found, name), getattr(found, f"{name}_scales")
        latent = len(weights) - 2 - len(kept)  # a part for latent factors, with a scale, or none
        parts = np.append(kept, np.ones(latent + 2, bool))
        sizes = np.append(scaled, np.ones(len(scales) - len(scaled), bool))
        return replace(found, **{name: weights[parts], f"{name}_scales": scales[sizes]})

    return (changed[0], changed[1]), replace(
        choice, side=fewer(choice.side), joint=fewer(choice.joint)
    )


def _weight(axes: Axes, choice: MixChoice, k: int, label: str) -> float:
    """Weight of all parts of a source where new items are told; of latent factors beside them."""
    found = choice.joint if label == LATENT else choice.side
    if found is None:
        return 0.0
    weights = (found.row, found.col)[k]
    if label == LATENT:
        return float(weights[-3])
    kept, _ = axes[k].kept_without(label)
    return float(weights[: len(kept)][~kept].sum())


def _predicted_shares(model: AutoMC, axes: Axes) -> dict[tuple[int, str], float]:
    """Share of each source in the variance of the predictions, by covariance with the whole.

    A kernel that is a sum makes a prediction that is one: cov(part, whole) / var(whole) of the
    parts of an axis add up to 1. What the low-rank member says counts as latent factors.
    """
    obs = model.observations_
    rng = np.random.default_rng(0)
    rows, cols = rng.integers(obs.shape[0], size=SAMPLE), rng.integers(obs.shape[1], size=SAMPLE)
    known = (obs.row_counts[rows] > 0) & (obs.col_counts[cols] > 0)
    rows, cols = rows[known], cols[known]
    whole = model.predict(np.column_stack([rows, cols])) if len(rows) else np.zeros(0)
    spread = float(np.var(whole)) if len(whole) else 0.0
    if spread == 0:
        return {}
    found: dict[tuple[int, str], float] = {}

    def add(key: tuple[int, str], said: Floats) -> None:
        found[key] = found.get(key, 0.0) + float(np.mean(said * (whole - whole.mean()))) / spread

    for name, member in model.members_.items():
        share = float(model.shares_[name][KNOWN])
        for k, axis in enumerate(axes):
            if not isinstance(member, KKMCEX):
                add((k, LATENT), share * member.predict(np.column_stack([rows, cols])))
                continue
            for label, part in _said_by_part(member, k, axis.source_labels, rows, cols):
                add((k, label), share * part)
    return found


def _said_by_part(
    member: KKMCEX, k: int, labels: tuple[str, ...], rows: Index, cols: Index
) -> list[tuple[str, Floats]]:
    """What each part of one kernel adds to predictions."""
    obs = member.observations_
    table = obs.with_values(member.dual_coef_).to_sparse()
    kernels: Any = vars(member)["_kernels"]
    own, other, at, across = kernels[0], kernels[1], rows, cols
    if k == 1:
        own, other, at, across, table = other, own, cols, rows, table.T
    assert isinstance(own, WeightedSources)
    beyond = np.asarray(table.tocsr() @ other.block(None, across))  # (N, t)
    out = []
    for weight, part, source in zip(own.weights, own.parts, own.source, strict=True):
        said = weight * np.einsum("ti,it->t", part.block(at, None), beyond)
        out.append((LATENT if source < 0 else labels[source], said))
    return out
