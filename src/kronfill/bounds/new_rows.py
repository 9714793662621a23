"""What whole rows that were held out prove about rows without observations.

The rows that the model was not fitted to, held out or without any observation, are a population of
n; the v held out were drawn from it at random. Row i has the mean loss X_i over its columns, and
with known w >= ceilings of the losses the mean headroom Y_i of its columns. Of a held-out row some
columns are observed, drawn at random among its columns, independently for each row: the mean
headroom y over these has the mean Y_i, and the product of y over rows that of Y. (Were they the
same columns in all rows the product would have another mean, and the bound would fail.) By
Maclaurin's inequality the mean of a product of v of n non-negative numbers, drawn
without replacement, is at most the v-th power of their mean, so that

    E = prod over held-out rows of  y_i / (mean of w over all n rows - mu),

mu being the mean of X over the n rows, has a mean of at most 1, and P(E >= 1/delta) <= delta. Each
row counts as one, however many of its entries were observed. Columns likewise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from textwrap import fill
from typing import Any

import numpy as np
from scipy.special import logsumexp

from kronfill._types import Floats, Index
from kronfill.bounds.betting import first_refuted
from kronfill.bounds.bound import FAILS, Assumption
from kronfill.bounds.ceilings import Ceilings
from kronfill.bounds.checking import check_labels, check_loss, check_values
from kronfill.bounds.choices import origin
from kronfill.bounds.complexity.monte_carlo import check_delta
from kronfill.bounds.losses import Loss, Square, as_loss, as_value_range
from kronfill.data import Observations
from kronfill.errors import DataError, ParameterError
from kronfill.masks import apart_p_value

__all__ = ["NewItemsCertificate", "new_items_certificate"]

ALPHA = 0.001
"""Below this probability of its counts the columns of a hold-out were not drawn as they must be."""
BLOCK_FLOATS = 4_000_000
NAMES = {"rows": "row", "cols": "column"}


@dataclass(frozen=True)
class NewItemsCertificate:
    """What can be proved about the loss on rows (columns) that the model was not fitted to.

    Attributes
    ----------
    value : float
        Upper bound on the mean, over these rows, of the mean loss of a row.
    estimate : float
        Mean over the held-out rows of the mean loss on their observed entries.
    delta : float
        Probability that the statement fails.
    axis : {"rows", "cols"}
        Which items.
    held_out, population : int
        Number of items held out, and of all that the model was not fitted to.
    variance : float
        Variance of the observed values, those held out included.
    loss : Loss
        The loss.
    value_range : tuple of float
        Range that all values obey.
    assumptions : tuple of Assumption
        What the statement needs.
    about : str
        Of which model it speaks, where that is not the one at hand.
    """

    value: float
    estimate: float
    delta: float
    axis: str
    held_out: int
    population: int
    variance: float
    loss: Loss
    value_range: tuple[float, float]
    assumptions: tuple[Assumption, ...]
    about: str = ""

    @property
    def valid(self) -> bool:
        """Whether no assumption is known to fail."""
        return all(part.holds is not False for part in self.assumptions)

    @property
    def vacuous(self) -> bool:
        """Whether a constant, the middle of the range, guarantees as much without any model."""
        return self.value >= self.loss.of_constant(self.value_range)

    @property
    def sentence(self) -> str:
        """The statement as one can quote it."""
        name = NAMES[self.axis]
        text = (
            f"With probability at least {1 - self.delta:.4g} over the choice of the {name}s that "
            f"were held out, the mean {self.loss} over the {self.population:,} {name}s that the "
            f"model was not fitted to, each {name} counting as one, is at most {self.value:.4g}; "
            f"it is {self.estimate:.4g} on the {self.held_out:,} of them that were held out."
        )
        if self.vacuous:
            text += (
                f" This is vacuous: a constant guarantees "
                f"{self.loss.of_constant(self.value_range):.4g}."
            )
        text = f"{text} {self.about}".strip()
        return text if self.valid else f"{text} {FAILS}"

    @property
    def beside(self) -> str:
        """What to compare the value with."""
        return f"The variance of the observed values is {self.variance:.4g}."

    def __str__(self) -> str:
        lines = [
            fill(self.sentence, 100),
            self.beside,
            "Assumptions:",
        ]
        lines += [
            fill(str(one), 100, initial_indent="  ", subsequent_indent="      ")
            for one in self.assumptions
        ]
        return "\n".join(lines)


def new_items_certificate(
    estimator: Any,
    value_range: tuple[float, float],
    holdout: Observations,
    delta: float = 0.05,
    loss: Any = None,
    *,
    axis: str = "rows",
) -> NewItemsCertificate:
    """Bound the loss on rows (columns) that the model was not fitted to, from some held out.

    Parameters
    ----------
    estimator : MC, KMC, IMC, KKMCEX or RRMCEX
        A model fitted without the rows held out: they are cold rows of it, as are those without
        observations, which it predicts from what is known about them.
    value_range : tuple of float
        Range (low, high) that all values, observed or not, are known to obey.
    holdout : Observations
        The observed entries of whole rows, drawn at random among the rows with observations.
    delta : float, default=0.05
        Probability that the statement fails.
    loss : Loss, optional
        By default the square loss with predictions clipped to the range.
    axis : {"rows", "cols"}, default="rows"
        Which items were held out.

    Returns
    -------
    NewItemsCertificate

    Examples
    --------
    >>> import numpy as np, kronfill as kf
    >>> rng = np.random.default_rng(0)
    >>> place = rng.random(400)
    >>> values = 0.5 + 0.4 * np.outer(np.sin(6 * place), np.cos(np.arange(10)))
    >>> kernel = kf.kernels.rbf(place, length_scale=0.3)
    >>> rows, cols = np.nonzero(np.ones((300, 10)))  # the last 100 rows were never observed
    >>> seen = kf.Observations(rows, cols, values[rows, cols], (400, 10))
    >>> held = seen.rows < 150
    >>> est = kf.KKMCEX(kernel, None, mu=0.01, center="mean").fit(seen.take(~held))
    >>> found = kf.bounds.new_items_certificate(est, (0, 1), seen.take(held))
    >>> found.held_out, found.population, found.value < found.variance
    (150, 250, True)
    """
    limits = as_value_range(value_range)
    check_delta(delta)
    chosen = Square(clip=limits) if loss is None else as_loss(loss)
    if axis not in NAMES:
        msg = f'axis must be "rows" or "cols", got {axis!r}.'
        raise ParameterError(msg)
    if not np.isfinite(chosen.bound):
        msg = f"A hold-out needs a loss of finite range, got the {chosen}; clip it."
        raise ParameterError(msg)
    check_loss(chosen, limits)
    check_values(holdout, limits, "hold-out")
    model = origin(estimator, "tuned").model
    train, at = model.observations_, 0 if axis == "rows" else 1
    mine = (holdout.rows, holdout.cols)[at]
    fitted = np.zeros(train.shape[at], dtype=bool)
    fitted[(train.rows, train.cols)[at]] = True
    if holdout.shape != train.shape or fitted[mine].any():
        msg = (
            f"The hold-out must consist of whole {NAMES[axis]}s of the same table, none of which "
            "the model was fitted to. Draw some at random and fit to the entries of the others."
        )
        raise DataError(msg)
    check_labels(train, holdout)
    predicted = model.predict(holdout)
    losses = chosen(holdout.values, predicted)
    items, place, counts = np.unique(mine, return_inverse=True, return_counts=True)
    others = np.flatnonzero(~fitted)
    blocks = _ceilings(model, chosen, limits, others, at)
    whole = Ceilings.of(blocks, chosen.bound)
    value = _bound(losses, chosen.ceilings(predicted, limits), place, whole, delta)
    return NewItemsCertificate(
        value=value,
        estimate=float(np.mean(np.bincount(place, losses) / counts)),
        delta=float(delta),
        axis=axis,
        held_out=len(items),
        population=len(others),
        variance=float(np.var(np.append(train.values, holdout.values))),
        loss=chosen,
        value_range=limits,
        assumptions=_assumptions(
            limits,
            NAMES[axis],
            len(items) == len(others),
            apart_p_value(mine, (holdout.cols, holdout.rows)[at], train.shape[1 - at]),
        ),
    )


def _bound(losses: Floats, ceilings: Floats, place: Index, whole: Ceilings, delta: float) -> float:
    """The largest mu with E < 1/delta, for players as in :mod:`kronfill.bounds.betting`.

    ``place`` is the item of each loss, ``whole`` has the ceilings of all entries of the population.
    """
    counts = np.bincount(place)
    v, highest = len(counts), whole.total / whole.count
    steps = np.arange(1 + max(0.0, np.ceil(np.log2(0.5 * np.sqrt(v)))))
    bold = whole.boldest_level(np.log(1 / delta) / v)
    levels = np.append(bold, whole.top * 2.0**steps)
    shares = np.append(1.0, 1.0 / (1.0 + steps) ** 2)
    bets = []
    for level in levels:
        headroom = np.bincount(place, np.maximum(ceilings, level) - losses) / counts
        log = float(np.log(headroom).sum()) if headroom.min() > 0 else -np.inf
        bets.append((log, whole.total_above(level) / whole.count))

    def log_wealth(log: float, mean: float) -> float:
        if log == -np.inf:
            return log
        return float(log - v * np.log(mean)) if mean > 0 else np.inf

    def excess(mu: float) -> float:
        logs = [log_wealth(log, mean - mu) for log, mean in bets]
        wealth = logsumexp(logs, b=shares / shares.sum())
        return float(np.clip(wealth + np.log(delta), -1e9, 1e9))

    return first_refuted(excess, highest)


def _ceilings(
    model: Any, loss: Loss, limits: tuple[float, float], items: Any, axis: int
) -> Iterator[Floats]:
    """The largest losses of all entries of these rows (columns), some of them at a time."""
    step = max(1, BLOCK_FLOATS // model.shape_[1 - axis])
    for first in range(0, len(items), step):
        part = items[first : first + step]
        block = model.predict_matrix(**{("rows", "cols")[axis]: part})
        yield loss.ceilings(block, limits)


def _assumptions(
    limits: tuple[float, float], name: str, alone: bool, p_value: float
) -> tuple[Assumption, ...]:
    refuted = p_value < ALPHA
    seen = f" (their counts would be as they are with probability {max(p_value, 1e-99):.1g})"
    other = "column" if name == "row" else "row"
    found = [
        Assumption(
            f"of the {name}s that the model was not fitted to, every set of that many was equally "
            f"likely to be held out: {name}s with and without observations do not differ"
        ),
        Assumption(
            f"within a held-out {name} the {other}s observed were drawn at random from all "
            f"{other}s, independently for each {name}{seen if refuted else ''}",
            False if refuted else None,
        ),
        Assumption(f"all values, observed or not, lie in [{limits[0]:g}, {limits[1]:g}]"),
        Assumption("the hold-out had no part in any choice"),
    ]
    if alone:
        found.append(
            Assumption(f"there is no {name} without observations: it speaks of those held out")
        )
    return tuple(found)
