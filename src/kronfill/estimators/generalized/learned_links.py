"""The links of known rows and columns, of new rows, new columns and both, and how good they are."""

from __future__ import annotations

from typing import Any

import numpy as np

from kronfill._types import Floats
from kronfill.data import Observations
from kronfill.estimators.generalized.hidden_latents import HiddenLatents
from kronfill.likelihoods.links import Link, learned_link, moved_link

__all__ = ["MOST_LEVELS", "deviances", "learned_links"]

MOST_LEVELS = 100
NAMES = ("known", "new row", "new column", "both new")


def learned_links(
    form: Any,
    obs: Observations,
    levels: Floats,
    hidden: HiddenLatents | None,
    shares: bool,
) -> tuple[Link, Link, Link, Link]:
    """The link of each kind; without hidden entries, that of the fit itself.

    Parameters
    ----------
    form : fitted form
        The number that is linked.
    obs : Observations
        All of them.
    levels : ndarray
        The levels, empty for counts.
    hidden : HiddenLatents or None
        What was predicted for entries that were hidden.
    shares : bool
        Whether the number is a regression on 0 and 1.
    """
    weights = np.ones(obs.m) if obs.weights is None else obs.weights
    fitted = form.pairs(obs.rows, obs.cols)
    used = weights > 0
    start = (obs.values[used], fitted[used])
    if hidden is None:
        one = learned_link(start[0], weights[used], start[1], levels, start, shares)
        return one, one, one, one
    known = hidden.kinds == 0
    at = hidden.at[known] if known.any() else hidden.at
    f = hidden.f[known] if known.any() else hidden.f
    first = learned_link(obs.values[at], weights[at], f, levels, start, shares)
    links = [first]
    for kind in (1, 2, 3):
        mine = hidden.kinds == kind
        some = hidden.at[mine]
        links.append(moved_link(first, obs.values[some], weights[some], hidden.f[mine]))
    return links[0], links[1], links[2], links[3]


def deviances(
    links: tuple[Link, ...], obs: Observations, hidden: HiddenLatents | None
) -> dict[str, float]:
    """Mean deviance of what was hidden."""
    found: dict[str, float] = {}
    if hidden is None:
        return found
    weights = np.ones(obs.m) if obs.weights is None else obs.weights
    for kind, name in enumerate(NAMES):
        mine = hidden.kinds == kind
        if mine.any():
            at, link = hidden.at[mine], links[kind]
            each = link.family.deviance(link.coded(obs.values[at]), link.eta(hidden.f[mine]))
            found[name] = float(np.average(each, weights=weights[at]))
    return found
