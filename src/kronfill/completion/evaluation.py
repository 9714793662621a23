"""How good predictions are: entries, rows and columns are hidden from a fit, and predicted by it.

What is left of a hidden entry's row and column decides how hard it is, so that entries are kept
apart by kind; two simple rules are asked the same.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from kronfill._progress import ShareProgress
from kronfill._types import Floats, Index
from kronfill.data import Observations
from kronfill.errors import ConvergenceWarning, DataError, ParameterError
from kronfill.estimators.base import MatrixRegressor
from kronfill.estimators.folds import Fold, left_out
from kronfill.ridge.effects import EffectsDesign
from kronfill.ridge.solution import Solution
from kronfill.selection.splitters import ColumnKFold, EntryKFold, RowColumnKFold, RowKFold

__all__ = [
    "FOLDS", "KINDS", "LEAST", "QUESTIONS", "Evaluation", "HiddenEntries", "Score", "counted",
    "cross_validate", "evaluate", "hold_out", "kinds_of", "score",
]  # fmt: skip

Splits = list[tuple[Index, Index]]

KINDS = ("known", "row", "column", "both")
"""What is new to the fit: nothing, the row, the column, both; in the order of ``kinds_of``."""
QUESTIONS = dict(zip(KINDS, ("entries", "new rows", "new columns", "both new"), strict=True))
FOLDS = 5
FOLDS_LIMIT = 3000
"""Up to this many observations folds are left out in turn; beyond, a part is hidden once."""
HIDDEN = 0.1
"""Share of the rows, of the columns and of the other entries that is hidden to measure errors."""
LEAST = 10
"""So many rows (columns) with entries are needed for a part of them to be hidden."""


@dataclass(frozen=True)
class Score:
    """How far predictions are from what was observed.

    Attributes
    ----------
    rmse, mae : float
        Root mean square error and mean absolute error.
    r2 : float or None
        Share of the variance explained; None for values that do not vary.
    """

    rmse: float
    mae: float
    r2: float | None


@dataclass(frozen=True, eq=False)
class HiddenEntries:
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

    def take(self, where: Any) -> HiddenEntries:
        """Some of the entries."""
        return HiddenEntries(
            *(getattr(self, name)[where] for name in HiddenEntries.__dataclass_fields__)
        )

    def scores(self) -> tuple[Score, Score, Score]:
        """Scores of the method, of the mean, and of mean, row and column effects."""
        own, mean, effects = (
            score(self.observed, guess) for guess in (self.predicted, self.mean, self.effects)
        )
        return own, mean, effects


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
    parts : dict of str to HiddenEntries
        Hidden entries by kind: "known" where row and column have other observations, "row" in rows
        without any, "column" in columns without any, "both". Kinds without entries are left out.
    notes : dict of str to str
        Why a kind that was asked for is left out.
    doubts : dict of str to str
        For each kind whose predictions come from fits that did not converge, what happened: the
        errors of such a kind are those of unfinished fits.

    Examples
    --------
    >>> import numpy as np, kronfill as kf
    >>> from kronfill.report import evaluate
    >>> table = np.add.outer(np.arange(6.0), np.arange(5.0))
    >>> done = evaluate(kf.complete(table, method="mc", rank=2, mu=0.1))
    >>> done.scheme, sorted(done.parts)
    ('folds', ['column', 'known', 'row'])
    """

    scheme: str
    folds: int
    seed: int
    parts: dict[str, HiddenEntries]
    notes: dict[str, str] = field(default_factory=dict)
    doubts: dict[str, str] = field(default_factory=dict)


def evaluate(
    completion: Any, *, seed: int = 0, progress: ShareProgress | None = None
) -> Evaluation:
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
    >>> known = evaluate(kf.complete(table, method="mc", rank=2, mu=0.1)).parts["known"]
    >>> bool(np.abs(known.observed - known.predicted).mean() < 0.5)
    True
    """
    model, obs = completion.model, completion.observations
    if counted(obs).m > FOLDS_LIMIT:
        return hold_out(model, obs, seed)
    return cross_validate(_kept(model), obs, KINDS[:3], seed=seed, progress=progress)


def cross_validate(
    estimator: MatrixRegressor,
    observations: Observations,
    kinds: tuple[str, ...] = KINDS,
    *,
    folds: int = FOLDS,
    seed: int = 0,
    progress: ShareProgress | None = None,
) -> Evaluation:
    """Leave folds of entries, of rows, of columns and of both out in turn, and predict them.

    Parameters
    ----------
    estimator : estimator
        The method, fitted or not; ``mu="auto"`` is chosen anew in each fold.
    observations : Observations
        The data; those of weight zero take no part.
    kinds : tuple of str, default=("known", "row", "column", "both")
        What the fit is not to know of the entries that it predicts.
    folds : int, default=5
        Number of folds of entries, of rows and of columns (at most as many as there are). "both"
        takes 3 x 3 blocks of rows and columns, 2 x 2 with fewer than five folds.
    seed : int, default=0
        Seed of the folds.
    progress : callable, optional
        Called with what is being done and the share that is done.

    Returns
    -------
    Evaluation

    Examples
    --------
    >>> import numpy as np, kronfill as kf
    >>> from kronfill.completion.evaluation import cross_validate
    >>> x = np.linspace(0, 1, 12)
    >>> kernel = kf.kernels.rbf(x, length_scale=0.5) + kf.kernels.constant(12)
    >>> obs = kf.Observations.from_matrix(np.sin(3 * x)[:, None] + np.cos(3 * x)[None, :])
    >>> found = cross_validate(kf.KKMCEX(kernel, kernel, mu=0.01), obs, ("row",))
    >>> own, mean, effects = found.parts["row"].scores()
    >>> own.rmse < 0.1 < min(mean.rmse, effects.rmse)
    True
    """
    if isinstance(folds, bool) or not isinstance(folds, int) or folds < 2:
        msg = f"folds must be an integer of at least 2, got {folds!r}."
        raise ParameterError(msg)
    if not set(kinds) <= set(KINDS):
        msg = f"kinds must be among {KINDS}, got {kinds!r}."
        raise ParameterError(msg)
    obs = counted(observations)
    parts: dict[str, HiddenEntries] = {}
    notes: dict[str, str] = {}
    doubts: dict[str, str] = {}
    for k, kind in enumerate(kinds):

        def say(what: str, share: float, k: int = k) -> None:
            if progress is not None:
                progress(what, (k + share) / len(kinds))

        try:
            splits = _splits(kind, obs, folds, seed)
            parts[kind], records = _left_out(estimator, obs, kind, splits, say)
        except DataError as error:
            notes[kind] = str(error)
        else:
            doubts |= {} if all(one.converged for one in records) else {kind: _doubt(records)}
    _warn_of(doubts)
    scheme, count = ("folds", folds) if parts else ("none", 0)
    return Evaluation(scheme, count, seed, parts, notes, doubts)


def hold_out(model: MatrixRegressor, observations: Observations, seed: int = 0) -> Evaluation:
    """Hide a tenth of the rows, of the columns and of the other entries from one more fit.

    Parameters
    ----------
    model : estimator
        A fitted method. Its ridge weight is kept.
    observations : Observations
        What it was fitted to.
    seed : int, default=0
        Seed of what is hidden.

    Returns
    -------
    Evaluation

    Examples
    --------
    >>> import numpy as np, kronfill as kf
    >>> from kronfill.completion.evaluation import hold_out
    >>> model = kf.complete(np.add.outer(np.arange(20.0), np.arange(15.0)), method="mc").model
    >>> hold_out(model, model.observations_).scheme
    'hold-out'
    """
    obs = counted(observations)
    estimator, hidden = _kept(model), hide(obs, np.random.default_rng(seed))
    (fold,) = left_out(lambda part: _fitted(estimator, part), obs, [(~hidden, hidden)])
    parts, record = _by_kind([fold]), fold.model.solution_
    doubts = {} if record.converged else dict.fromkeys(parts, _doubt([record]))
    _warn_of(doubts)
    return Evaluation("hold-out", 1, seed, parts, doubts=doubts)


def score(observed: Floats, predicted: Floats) -> Score:
    """Root mean square and mean absolute error, and the share of the variance explained.

    Examples
    --------
    >>> import numpy as np
    >>> from kronfill.completion.evaluation import score
    >>> score(np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 3.0]))
    Score(rmse=0.0, mae=0.0, r2=1.0)
    """
    gap = observed - predicted
    spread = float(np.mean((observed - observed.mean()) ** 2))
    square = float(np.mean(gap**2))
    r2 = 1.0 - square / spread if spread > 0 else None
    return Score(float(np.sqrt(square)), float(np.mean(np.abs(gap))), r2)


def counted(obs: Observations) -> Observations:
    """The observations that have a weight: others take no part in a fit."""
    if obs.weights is None or obs.weights.all():
        return obs
    return obs.take(obs.weights > 0)


def hide(obs: Observations, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Which observations to hide: those of some rows, of some columns, and others."""
    hidden = rng.random(obs.m) < HIDDEN
    for index, counts in ((obs.rows, obs.row_counts), (obs.cols, obs.col_counts)):
        items = np.flatnonzero(counts)
        if len(items) >= LEAST:
            drawn = rng.choice(items, size=max(1, round(HIDDEN * len(items))), replace=False)
            hidden |= np.isin(index, drawn)
    if hidden.all() or not hidden.any():
        hidden = np.arange(obs.m) % 2 == 0
    return hidden


def kinds_of(obs: Observations, rows: Any, cols: Any) -> NDArray[np.intp]:
    """0 for known rows and columns, 1 for a row without entries, 2 for a column, 3 for both."""
    return np.asarray((obs.row_counts[rows] == 0) + 2 * (obs.col_counts[cols] == 0), np.intp)


def _kept(model: MatrixRegressor) -> MatrixRegressor:
    """The method with the ridge weight that was chosen."""
    return cast("MatrixRegressor", clone(model).set_params(mu=float(model.mu_)))


def _splits(kind: str, obs: Observations, folds: int, seed: int) -> Splits:
    """Training and test part of each fold."""
    try:
        return list(_splitter(kind, obs, folds, seed).split(obs))
    except ParameterError as error:  # too few of something, which is no fault of the parameters
        raise DataError(str(error)) from error


def _splitter(kind: str, obs: Observations, folds: int, seed: int) -> Any:
    rows, cols = (int(np.count_nonzero(c)) for c in (obs.row_counts, obs.col_counts))
    if kind == "known":
        return EntryKFold(min(folds, max(2, obs.m)), random_state=seed)
    if kind == "row":
        return RowKFold(min(folds, max(2, rows)), random_state=seed)
    if kind == "column":
        return ColumnKFold(min(folds, max(2, cols)), random_state=seed)
    side = 3 if folds >= 5 and min(rows, cols) >= 6 else 2
    return RowColumnKFold(side, side, random_state=seed)


def _left_out(
    estimator: MatrixRegressor, obs: Observations, kind: str, folds: Splits, say: ShareProgress
) -> tuple[HiddenEntries, list[Solution]]:
    """The hidden entries of all folds that turn out to be of this kind; how each fit ended."""

    def announced() -> Iterator[tuple[Index, Index]]:
        for k, split in enumerate(folds):
            say(f"{QUESTIONS[kind]}, fold {k + 1} of {len(folds)}", k / len(folds))
            yield split

    fits = list(left_out(lambda part: _fitted(estimator, part), obs, announced()))
    found = _by_kind(fits)
    if kind not in found:
        msg = f"There is no entry for which, once it is hidden, {_LEFT[kind]}."
        raise DataError(msg)
    return found[kind], [fold.model.solution_ for fold in fits]


_LEFT = {
    "known": "something else is known in its row and in its column",
    "row": "something else is known in its column but not in its row",
    "column": "something else is known in its row but not in its column",
    "both": "nothing else is known in its row or in its column",
}


def _fitted(estimator: MatrixRegressor, train: Observations) -> MatrixRegressor:
    with warnings.catch_warnings():  # one warning about all fits comes at the end
        warnings.simplefilter("ignore", ConvergenceWarning)
        return cast("MatrixRegressor", clone(estimator)).fit(train)


def _beside_simple_rules(fold: Fold) -> HiddenEntries:
    """The hidden entries, predicted by the method and by two simple rules."""
    train, held = fold.train, fold.held
    effects = EffectsDesign(train.rows, train.cols, train.shape, "both", train.weights)
    mean = float(np.average(train.values, weights=train.weights))
    return HiddenEntries(
        held.rows,
        held.cols,
        held.values,
        fold.predicted,
        np.full(held.m, mean),
        effects.fit(train.values).at(held.rows, held.cols),
    )


def _doubt(records: list[Solution]) -> str:
    """What is to be said beside numbers that rest on these fits."""
    bad = [record for record in records if not record.converged]
    worst = max(bad, key=lambda record: record.residual)
    count = "the fit" if len(records) == 1 else f"{len(bad)} of {len(records)} fits"
    return (
        f"{count} without the hidden entries did not converge (relative residual up to "
        f"{worst.residual:.1e}): these are errors of unfinished fits"
    )


def _warn_of(doubts: dict[str, str]) -> None:
    """One warning about all fits that did not converge."""
    if doubts:
        words = "; ".join(f"{QUESTIONS[kind]}: {text}" for kind, text in doubts.items())
        message = f"Errors on hidden entries, {words}. Use a larger mu, or another solver."
        warnings.warn(message, ConvergenceWarning, stacklevel=3)


def _by_kind(folds: list[Fold]) -> dict[str, HiddenEntries]:
    """The hidden entries of all fits together, sorted by kind."""
    parts = [_beside_simple_rules(fold) for fold in folds]
    kinds = [kinds_of(fold.train, fold.held.rows, fold.held.cols) for fold in folds]
    found = {}
    for code, name in enumerate(KINDS):
        some = [part.take(kind == code) for part, kind in zip(parts, kinds, strict=True)]
        whole = HiddenEntries(
            *(
                np.concatenate([getattr(part, attribute) for part in some])
                for attribute in HiddenEntries.__dataclass_fields__
            )
        )
        if len(whole):
            found[name] = whole
    return found
