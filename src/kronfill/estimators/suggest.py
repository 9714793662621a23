"""What to measure next: the entries whose observation would most reduce uncertainty."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kronfill._optional import needed
from kronfill._types import Floats, Index
from kronfill.data import Observations
from kronfill.data._arrays import real_array
from kronfill.errors import DataError, DuplicateEntryError, ParameterError, ShapeError
from kronfill.estimators.base import check_rank
from kronfill.estimators.explain import Explained
from kronfill.estimators.inputs import check_range
from kronfill.estimators.posterior import GaussianProcess
from kronfill.ridge.effects import EffectsDesign
from kronfill.ridge.free_effects import FreeEffects
from kronfill.ridge.problem import Mask, Sampled
from kronfill.uncertainty.design import greedy_variance, unlocked
from kronfill.uncertainty.expected import expected_variance

__all__ = ["Suggesting", "Suggestion"]


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


class Suggesting(Explained):
    """Adds suggestions to a method whose uncertainty is known."""

    def suggest(
        self,
        n: int,
        candidates: Any = None,
        cost: Any = None,
        method: str = "variance",
        random_state: Any = 0,
    ) -> Suggestion:
        """Choose the entries whose observation would most reduce uncertainty.

        Parameters
        ----------
        n : int
            How many entries.
        candidates : array-like of shape (c, 2), optional
            The entries to choose from, not observed yet; all that are not by default.
        cost : array-like of shape (c,) or (N, L), optional
            What it costs to measure each candidate (each entry of the table); 1 by default. Entries
            are chosen by what they bring per unit of cost.
        method : {"variance", "leverage"}, default="variance"
            "variance" takes one entry after the other, each time the one that takes most off the
            total variance of all entries not observed, given those taken before. "leverage" draws
            entries at random in proportion to their ridge leverage scores, from the numbers of
            observations in rows and columns alone: cheap at any size.
        random_state : int, Generator or None, default=0
            Seed of "leverage", and of the entries looked at in a large table.

        Returns
        -------
        Suggestion

        Notes
        -----
        Reducing the *total* variance is preferred to taking the most uncertain entry: the most
        uncertain ones are often those that have nothing to do with any other. The values observed
        so far do not matter, only where they are. Where more than 10,000 entries are not observed,
        10,000 candidates are drawn, and 1,000 entries stand for all in the total variance; 300 and
        100 where the system is too large for a factorisation and each of them is a solve.

        With row or column effects, entries of infinite variance come first: those that make the
        effects of most entries known.

        Examples
        --------
        >>> import numpy as np, kronfill as kf
        >>> days = kf.kernels.rbf(np.arange(5.0), length_scale=1.0)
        >>> est = kf.KKMCEX(days, None, mu=0.1).fit([[0, 0]], [1.0])
        >>> np.asarray(est.suggest(2))
        array([[3, 0],
               [2, 0]])
        """
        reading = self._reading
        check_rank(n, "n")
        if method not in METHODS:
            msg = f"method must be one of {METHODS}, got {method!r}."
            raise ParameterError(msg)
        rng = np.random.default_rng(random_state)
        rows, cols = self._candidates(candidates)
        prices = _prices(cost, rows, cols, self.shape_)
        if n > len(rows):
            msg = f"n = {n} entries were asked for, but there are only {len(rows)} candidates."
            raise ParameterError(msg)
        if method == "leverage":
            at, variance = _by_leverage(reading, rows, cols, prices, n, rng)
            share = None
        else:
            most, stand = CANDIDATES, TARGETS
            if reading.by_solves:
                most, stand = SOLVED_CANDIDATES, SOLVED_TARGETS
            if candidates is None and len(rows) > max(most, n):
                drawn = np.sort(rng.choice(len(rows), size=max(most, n), replace=False))
                rows, cols, prices = rows[drawn], cols[drawn], prices[drawn]
            targets = _drawn(self.observations_, stand, rng)
            at, variance, share = _by_variance(reading, (rows, cols), targets, prices, n)
        obs = self.observations_
        return Suggestion(
            rows[at],
            cols[at],
            np.sqrt(reading.signal_variance * variance),
            share,
            prices[at],
            _names(obs.row_labels, rows[at]),
            _names(obs.col_labels, cols[at]),
        )

    def _candidates(self, candidates: Any) -> tuple[Index, Index]:
        """The entries to choose from, checked."""
        obs, l = self.observations_, self.shape_[1]
        if candidates is None:
            return _unobserved(obs)
        rows, cols = self._pairs(candidates, reset=False)
        check_range(rows, self.shape_[0], "row")
        check_range(cols, self.shape_[1], "column")
        key = rows * l + cols
        known = np.flatnonzero(np.isin(key, obs.rows * l + obs.cols))
        if len(known):
            entry = (int(rows[known[0]]), int(cols[known[0]]))
            msg = (
                f"{len(known)} candidates, the first {entry}, are observed already; leave them out."
            )
            raise DataError(msg)
        if len(np.unique(key)) < len(key):
            msg = "The candidates name an entry more than once; give each of them once."
            raise DuplicateEntryError(msg)
        return rows, cols


def _by_variance(
    reading: GaussianProcess,
    candidates: tuple[Index, Index],
    targets: tuple[Index, Index],
    cost: Floats,
    n: int,
) -> tuple[Index, Floats, Floats]:
    """Entries that make effects known, then those that take most off the total variance."""
    first, sampled = _connecting(reading, *candidates, cost, n)
    posterior = reading.posterior_given(sampled) if first else reading.posterior
    goal = reading.targets(*targets)
    goal = goal.take(posterior.finite(goal))
    left = np.setdiff1d(np.arange(len(cost)), first)
    some = reading.targets(candidates[0][left], candidates[1][left])
    left = left[posterior.finite(some)]
    count = min(n - len(first), len(left))
    if count < n - len(first):  # what is left has nothing in common with anything observed
        msg = (
            f"Only {len(first) + count} candidates can be compared: the effects of the others stay "
            "unknown whatever is measured among them. Ask for fewer, or use center='mean'."
        )
        raise ParameterError(msg)
    at = np.array(first, dtype=np.intp)
    variance, share = np.full(len(first), np.inf), np.zeros(len(first))
    if count:
        some = reading.targets(candidates[0][left], candidates[1][left])
        choice = greedy_variance(posterior, some, goal, cost[left], count)
        at = np.concatenate([at, left[choice.at]])
        variance = np.concatenate([variance, choice.variance])
        share = np.concatenate([share, choice.share])
    return at, variance, share


def _connecting(
    reading: GaussianProcess, rows: Index, cols: Index, cost: Floats, n: int
) -> tuple[list[int], Sampled]:
    """Candidates that make effects known, those of most entries first, and the data with them."""
    taken: list[int] = []
    sampled = reading.sampled
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
    design = None
    if s.effects is not None:
        design = EffectsDesign(rows, cols, s.shape, s.effects.kind, weights)
    return Sampled(Mask(rows, cols, s.shape, weights), np.append(s.values, 0.0), design)


def _by_leverage(
    reading: GaussianProcess,
    rows: Index,
    cols: Index,
    cost: Floats,
    n: int,
    rng: np.random.Generator,
) -> tuple[Index, Floats]:
    """Draw entries in proportion to leverage over cost, without replacement."""
    row, col = (prior.split for prior in reading.priors)
    variance = expected_variance(row, col, reading.sampled, reading.mu, rows, cols)
    leverage = variance / (variance + reading.mu)
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


def _names(labels: tuple[Any, ...] | None, index: Index) -> list[Any]:
    return [int(k) if labels is None else labels[k] for k in index]
