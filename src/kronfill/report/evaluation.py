"""How good the predictions are: errors on entries, rows and columns that a fit did not see."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from kronfill.data import Observations
from kronfill.errors import ConvergenceWarning
from kronfill.estimators.base import MatrixRegressor
from kronfill.linalg.effects import EffectsDesign
from kronfill.selection import ColumnKFold, EntryKFold, RowKFold
from kronfill.selection.hidden import hide, kinds_of

__all__ = ["KINDS", "Evaluation", "Held", "counted", "evaluate"]

Floats = NDArray[np.float64]
Index = NDArray[np.intp]
Progress = Callable[[str, float], None]

KINDS = ("known", "row", "column", "both")
"""What the fit had seen: row and column, the column only, the row only, neither."""
FOLDS = 5
FOLDS_LIMIT = 3000
"""Up to this many observations folds are left out in turn; beyond, a part is hidden once."""


@dataclass(frozen=True, eq=False)
class Held:
    """Entries of one kind that were hidden from the fit that predicts them.

    Attributes
    ----------
    rows, cols : ndarray of int
        Where they are.
    observed : ndarray
        Their values.
    predicted : ndarray
        What the method says from the other observations.
    mean, effects : ndarray
        What two simple rules say from the same: the mean of all values; mean, row effect and
        column effect.
    """

    rows: Index
    cols: Index
    observed: Floats
    predicted: Floats
    mean: Floats
    effects: Floats

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, where: Any) -> Held:
        """Some of the entries."""
        return Held(*(getattr(self, name)[where] for name in Held.__dataclass_fields__))


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Predictions for hidden entries; what :func:`evaluate` returns.

    Attributes
    ----------
    scheme : {"folds", "hold-out", "none"}
        Whether folds were left out in turn, or a part hidden once, or nothing could be.
    folds : int
        Number of folds; 1 for a hold-out.
    seed : int
        Seed of the split.
    parts : dict of str to Held
        Hidden entries by kind: "known" where row and column have other observations, "row" in rows
        without any, "column" in columns without any, "both". Kinds without entries are left out.

    Examples
    --------
    >>> import numpy as np, kronfill as kf
    >>> from kronfill.report import evaluate
    >>> table = np.add.outer(np.arange(6.0), np.arange(5.0))
    >>> done = evaluate(kf.complete(table, method="mc", rank=2, mu=0.01))
    >>> done.scheme, sorted(done.parts)
    ('folds', ['column', 'known', 'row'])
    """

    scheme: str
    folds: int
    seed: int
    parts: dict[str, Held]


def evaluate(completion: Any, *, seed: int = 0, progress: Progress | None = None) -> Evaluation:
    """Hide entries, rows and columns, fit again without them, predict them.

    Parameters
    ----------
    completion : Completion
        A completed table. Its ridge weight is kept: it is not chosen again in each fit.
    seed : int, default=0
        Seed of the split.
    progress : callable, optional
        Called with what is being done and the share that is done.

    Returns
    -------
    Evaluation

    Notes
    -----
    Up to 3,000 observations: five folds each of entries, of rows and of columns. Beyond: one more
    fit, from which a tenth of the rows, of the columns and of the other entries is hidden.

    Examples
    --------
    >>> import numpy as np, kronfill as kf
    >>> from kronfill.report import evaluate
    >>> table = np.add.outer(np.arange(6.0), np.arange(5.0))
    >>> known = evaluate(kf.complete(table, method="mc", rank=2, mu=0.01)).parts["known"]
    >>> bool(np.abs(known.observed - known.predicted).max() < 0.5)
    True
    """
    model, obs = completion.model, counted(completion.observations)
    if obs.m < 2:
        return Evaluation("none", 0, seed, {})
    if obs.m > FOLDS_LIMIT:
        held_out = _predicted(model, *hide(obs, np.random.default_rng(seed)))
        return Evaluation("hold-out", 1, seed, _by_kind([held_out]))
    found: dict[str, Held] = {}
    for k, (kind, parts) in enumerate(_splits(obs, seed).items()):
        held = []
        for j, (train, test) in enumerate(parts):
            if progress is not None:
                progress("cross-validation", (k + j / FOLDS) / 3)
            held.append(_predicted(model, obs.take(train), obs.take(test)))
        found |= {name: part for name, part in _by_kind(held).items() if name == kind}
    return Evaluation("folds" if found else "none", FOLDS, seed, found)


def counted(obs: Observations) -> Observations:
    """The observations that have a weight: others take no part in a fit."""
    if obs.weights is None or obs.weights.all():
        return obs
    return obs.take(obs.weights > 0)


def _splits(obs: Observations, seed: int) -> dict[str, list[tuple[Index, Index]]]:
    """Folds of entries, rows and columns, as far as there are two of each."""
    counts = {
        "known": obs.m,
        "row": int(np.count_nonzero(obs.row_counts)),
        "column": int(np.count_nonzero(obs.col_counts)),
    }
    kinds = {"known": EntryKFold, "row": RowKFold, "column": ColumnKFold}
    return {
        kind: list(splitter(min(FOLDS, counts[kind]), random_state=seed).split(obs))
        for kind, splitter in kinds.items()
        if counts[kind] >= 2
    }


def _predicted(
    model: MatrixRegressor, train: Observations, test: Observations
) -> tuple[Held, NDArray[np.intp]]:
    """Predictions of the test entries from the others, and what kind each entry is."""
    other = cast("MatrixRegressor", clone(model).set_params(mu=float(model.mu_)))
    with warnings.catch_warnings():  # the user was told at the first fit
        warnings.simplefilter("ignore", ConvergenceWarning)
        other.fit(train)
    effects = EffectsDesign(train.rows, train.cols, train.shape, "both", train.weights)
    mean = float(np.average(train.values, weights=train.weights))
    held = Held(
        test.rows,
        test.cols,
        test.values,
        other.predict(test),
        np.full(test.m, mean),
        effects.fit(train.values).at(test.rows, test.cols),
    )
    return held, kinds_of(train, test.rows, test.cols)


def _by_kind(held: list[tuple[Held, NDArray[np.intp]]]) -> dict[str, Held]:
    """The entries of all fits together, sorted by kind."""
    found = {}
    for code, name in enumerate(KINDS):
        parts = [part.take(kinds == code) for part, kinds in held]
        whole = _joined(parts)
        if len(whole):
            found[name] = whole
    return found


def _joined(parts: list[Held]) -> Held:
    names = Held.__dataclass_fields__
    return Held(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))
