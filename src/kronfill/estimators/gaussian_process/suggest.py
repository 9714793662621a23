"""What to measure next: the entries whose observation would most reduce uncertainty."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kronfill._optional import needed
from kronfill._types import Floats, Index
from kronfill.data import Observations
from kronfill.data.arrays import real_array
from kronfill.errors import DataError, DuplicateEntryError, ParameterError, ShapeError, argument
from kronfill.estimators.gaussian_process.explain import names_of
from kronfill.estimators.gaussian_process.posterior import GaussianProcess
from kronfill.estimators.inputs import as_sampled
from kronfill.ridge.free_effects import FreeEffects
from kronfill.ridge.problem import Sampled
from kronfill.uncertainty.design import greedy_variance, unlocked
from kronfill.uncertainty.expected import expected_variance

__all__ = ["Suggestion", "suggestion"]


METHODS = ("variance", "leverage")
CANDIDATES = 10_000
"""So many entries are looked at, drawn at random, where none are named and more are left."""
TARGETS = 1000
"""So many entries, drawn at random, stand for all those that are not observed."""
SOLVED_CANDIDATES, SOLVED_TARGETS = 300, 100
"""The same where every variance is an iterative solve."""


@dataclass(frozen=True, eq=False)
class Suggestion:
    """Entries to measure, best first; as an array it is their (row, column) pairs.

    Attributes
    ----------
    rows, cols : ndarray of shape (n,)
        The entries.
    std : ndarray of shape (n,)
        Standard deviation of each now, for method "variance" with those before it already
        measured. Infinite for one that first tells an effect.
    reduction : ndarray of shape (n,) or None
        Share of today's total variance of the entries not observed that each takes off (of those
        of which it is finite); None for method "leverage".
    cost : ndarray of shape (n,)
        Cost of each.
    row_labels, col_labels : list
        Labels of the entries, indices where there are none.
    """

    rows: Index
    cols: Index
    std: Floats
    reduction: Floats | None
    cost: Floats
    row_labels: list[Any]
    col_labels: list[Any]

    def __len__(self) -> int:
        return len(self.rows)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.column_stack([self.rows, self.cols]).astype(dtype or np.intp)

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with one line per entry."""
        pd = needed("pandas", "to_frame")
        columns = {"row": self.row_labels, "col": self.col_labels, "std": self.std}
        if self.reduction is not None:
            columns["reduction"] = self.reduction
        columns["cost"] = self.cost
        return pd.DataFrame(columns)

    def __repr__(self) -> str:
        lines = [f"{len(self)} {'entry' if len(self) == 1 else 'entries'} to measure next"]
        for k in range(min(len(self), 20)):
            line = f"  ({self.row_labels[k]}, {self.col_labels[k]})  std {self.std[k]:.4g}"
            if self.reduction is not None:
                line += f", takes {100 * self.reduction[k]:.3g}% off the variance"
            lines.append(line)
        return "\n".join([*lines, "  ..."] if len(self) > 20 else lines)


def suggestion(
    process: GaussianProcess,
    obs: Observations,
    n: int,
    candidates: tuple[Index, Index] | None,
    cost: Any,
    method: str,
    random_state: Any,
) -> Suggestion:
    """Choose ``n`` of the candidates, by default of all entries that are not observed."""
    if method not in METHODS:
        msg = f"method must be one of {METHODS}, got {method!r}."
        raise ParameterError(msg)
    rng = np.random.default_rng(random_state)
    rows, cols = _unobserved(obs) if candidates is None else _checked(obs, *candidates)
    prices = _prices(cost, rows, cols, obs.shape)
    if n > len(rows):
        msg = f"n = {n} entries were asked for, but there are only {len(rows)} candidates."
        raise ParameterError(msg)
    if method == "leverage":
        at, variance = _by_leverage(process, rows, cols, prices, n, rng)
        share = None
    else:
        most, stand = CANDIDATES, TARGETS
        if process.by_solves:
            most, stand = SOLVED_CANDIDATES, SOLVED_TARGETS
        if candidates is None and len(rows) > max(most, n):
            drawn = np.sort(rng.choice(len(rows), size=max(most, n), replace=False))
            rows, cols, prices = rows[drawn], cols[drawn], prices[drawn]
        targets = _drawn(obs, stand, rng)
        at, variance, share = _by_variance(process, (rows, cols), targets, prices, n)
    return Suggestion(
        rows[at],
        cols[at],
        np.sqrt(process.signal_variance * variance),
        share,
        prices[at],
        names_of(obs.row_labels, rows[at]),
        names_of(obs.col_labels, cols[at]),
    )


def _checked(obs: Observations, rows: Index, cols: Index) -> tuple[Index, Index]:
    """Candidates none of which is observed, each named once."""
    key = rows * obs.shape[1] + cols
    known = np.flatnonzero(np.isin(key, obs.rows * obs.shape[1] + obs.cols))
    if len(known):
        entry = (int(rows[known[0]]), int(cols[known[0]]))
        msg = f"{len(known)} candidates, the first {entry}, are observed already; leave them out."
        raise DataError(msg)
    if len(np.unique(key)) < len(key):
        msg = "The candidates name an entry more than once; give each of them once."
        raise DuplicateEntryError(msg)
    return rows, cols


def _by_variance(
    process: GaussianProcess,
    candidates: tuple[Index, Index],
    targets: tuple[Index, Index],
    cost: Floats,
    n: int,
) -> tuple[Index, Floats, Floats]:
    """Entries that make effects known, then those that take most off the total variance."""
    first, sampled = _connecting(process, *candidates, cost, n)
    posterior = process.posterior_given(sampled) if first else process.posterior
    goal = process.targets(*targets)
    goal = goal.take(posterior.finite(goal))
    left = np.setdiff1d(np.arange(len(cost)), first)
    some = process.targets(candidates[0][left], candidates[1][left])
    left = left[posterior.finite(some)]
    count = min(n - len(first), len(left))
    if count < n - len(first):  # what is left has nothing in common with anything observed
        msg = (
            f"Only {len(first) + count} candidates can be compared: the effects of the others stay "
            "unknown whatever is measured among them. Ask for fewer, or use "
            f"{argument('center', 'mean')}."
        )
        raise ParameterError(msg)
    at = np.array(first, dtype=np.intp)
    variance, share = np.full(len(first), np.inf), np.zeros(len(first))
    if count:
        some = process.targets(candidates[0][left], candidates[1][left])
        choice = greedy_variance(posterior, some, goal, cost[left], count)
        at = np.concatenate([at, left[choice.at]])
        variance = np.concatenate([variance, choice.variance])
        share = np.concatenate([share, choice.share])
    return at, variance, share


def _connecting(
    process: GaussianProcess, rows: Index, cols: Index, cost: Floats, n: int
) -> tuple[list[int], Sampled]:
    """Candidates that make effects known, those of most entries first, and the data with them."""
    taken: list[int] = []
    sampled = process.sampled
    if sampled.effects is None:
        return taken, sampled
    while len(taken) < n:
        free = FreeEffects.of(sampled.effects)
        score = unlocked(free, rows, cols) / cost
        if not score.any():
            break
        counts = np.bincount(sampled.rows, minlength=sampled.shape[0])[rows]
        counts += np.bincount(sampled.cols, minlength=sampled.shape[1])[cols]
        best = np.flatnonzero(score >= score.max() * (1 - 1e-12))
        c = int(best[np.argmin(counts[best])])  # of equals, where least is known
        taken.append(c)
        sampled = _with_entry(sampled, rows[c], cols[c])
    return taken, sampled


def _with_entry(s: Sampled, row: int, col: int) -> Sampled:
    """One more observation of weight 1; its value plays no part in a variance."""
    rows, cols = np.append(s.rows, row), np.append(s.cols, col)
    weights = None if s.weights is None else np.append(s.weights, 1.0)
    kind = None if s.effects is None else s.effects.kind
    return as_sampled(rows, cols, np.append(s.values, 0.0), s.shape, weights, kind)


def _by_leverage(
    process: GaussianProcess,
    rows: Index,
    cols: Index,
    cost: Floats,
    n: int,
    rng: np.random.Generator,
) -> tuple[Index, Floats]:
    """Draw entries in proportion to leverage over cost, without replacement."""
    row, col = (prior.split for prior in process.priors)
    variance = expected_variance(row, col, process.sampled, process.mu, rows, cols)
    leverage = variance / (variance + process.mu)
    # The n largest of log(u) / weight are a draw without replacement (Efraimidis, Spirakis 2006).
    with np.errstate(divide="ignore"):
        keys = np.log(rng.random(len(rows))) * (cost / leverage)
    at = np.argsort(-keys, kind="stable")[:n]
    return at, variance[at]


def _unobserved(obs: Observations) -> tuple[Index, Index]:
    free = np.ones(obs.shape, dtype=bool)
    free[obs.rows, obs.cols] = False
    rows, cols = np.nonzero(free)
    return rows, cols


def _drawn(obs: Observations, count: int, rng: np.random.Generator) -> tuple[Index, Index]:
    """Entries not observed, at most ``count`` of them."""
    rows, cols = _unobserved(obs)
    if len(rows) <= count:
        return rows, cols
    drawn = np.sort(rng.choice(len(rows), size=count, replace=False))
    return rows[drawn], cols[drawn]


def _prices(cost: Any, rows: Index, cols: Index, shape: tuple[int, int]) -> Floats:
    """Cost of each candidate, checked."""
    if cost is None:
        return np.ones(len(rows))
    prices = real_array(cost, "cost")
    if prices.shape == shape:
        prices = prices[rows, cols]
    if prices.shape != rows.shape:
        msg = (
            f"cost must have one number per candidate, shape ({len(rows)},), or per entry of the "
            f"table, shape {shape}; got shape {prices.shape}."
        )
        raise ShapeError(msg)
    if not np.all((prices > 0) & np.isfinite(prices)):
        msg = (
            "Every cost must be positive and finite; leave out candidates that cannot be measured."
        )
        raise ParameterError(msg)
    return prices
