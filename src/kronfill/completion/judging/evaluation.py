"""How good predictions are: entries, rows and columns are hidden from a fit, and predicted by it.

What is left of a hidden entry's row and column decides how hard it is, so that entries are kept
apart by kind; two simple rules are asked the same.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from kronfill._progress import ProgressPrinter, ShareProgress, TimeLeft
from kronfill._types import Index
from kronfill.completion.judging.drawn_zeros import with_drawn_zeros
from kronfill.completion.judging.evaluated import KINDS, QUESTIONS, Evaluation
from kronfill.completion.judging.scores import HiddenEntries, Score, joined_entries, score
from kronfill.completion.likelihood import likelihood_of, method_words, recorded
from kronfill.data import Observations
from kronfill.errors import ConvergenceWarning, DataError, ParameterError
from kronfill.estimators.base import MatrixRegressor
from kronfill.estimators.choices import kept
from kronfill.estimators.folds import LEAST, Fold, hide, left_out
from kronfill.ridge.effects import EffectsDesign
from kronfill.ridge.solution import Solution
from kronfill.selection.ranking import RankingFigures, ranking_figures
from kronfill.selection.splitters import ColumnKFold, EntryKFold, RowColumnKFold, RowKFold

__all__ = [
    "FOLDS", "KINDS", "LEAST", "QUESTIONS", "Evaluation", "HiddenEntries", "Score", "counted",
    "cross_validate", "doubt_of", "evaluate", "hidden_once", "hold_out", "kinds_of", "score",
    "share_progress", "warn_of",
]  # fmt: skip

Splits = list[tuple[Index, Index]]

FOLDS = 5
FOLDS_LIMIT = 3000
"""Up to this many observations folds are left out in turn; beyond, a part is hidden once."""


def evaluate(
    completion: Any,
    *,
    seed: int = 0,
    progress: ShareProgress | bool | None = None,
    by: Any = None,
    level: float = 0.9,
) -> Evaluation:
    """Hide entries, rows and columns, fit again without them, predict them.

    Parameters
    ----------
    completion : Completion
        A completed table. Its ridge weight is kept: it is not chosen again in each fit.
    seed : int, default=0
        Seed of the split.
    by : {"row", "column", "observations"}, str, mapping or Series, optional
        Groups of which the coverage is measured too, as for ``Completion.coverage``.
    level : float, default=0.9
        Level of the intervals whose coverage is measured.
    progress : bool or callable, optional
        True says on the standard error stream how far it is, with the time left. A function is
        called with what is being done and the share that is done.

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
        told = share_progress(progress)
        if told is not None:
            told("a fit without the hidden entries", 0.0)
        found = hold_out(model, obs, seed)
    else:
        found = cross_validate(kept(model), obs, KINDS[:3], seed=seed, progress=progress)
    if by is None:
        return found
    return replace(found, coverage=completion.measured_coverage(by, level))


def cross_validate(
    estimator: MatrixRegressor,
    observations: Observations,
    kinds: tuple[str, ...] = KINDS,
    *,
    folds: int = FOLDS,
    seed: int = 0,
    progress: ShareProgress | bool | None = None,
) -> Evaluation:
    """Leave folds of entries, of rows, of columns and of both out in turn, and predict them.

    Parameters
    ----------
    estimator : estimator
        The method, fitted or not; ``mu="auto"`` (and ``rank="auto"``) is chosen anew in each fold,
        beyond 3,000 observations in the first fold of each kind, whose choice the others share.
    observations : Observations
        The data; those of weight zero take no part.
    kinds : tuple of str, default=("known", "row", "column", "both")
        What the fit is not to know of the entries that it predicts.
    folds : int, default=5
        Number of folds of entries, of rows and of columns (at most as many as there are). "both"
        takes 3 x 3 blocks of rows and columns, 2 x 2 with fewer than five folds.
    seed : int, default=0
        Seed of the folds.
    progress : bool or callable, optional
        As for :func:`evaluate`.

    Returns
    -------
    Evaluation

    Examples
    --------
    >>> import numpy as np, kronfill as kf
    >>> from kronfill.completion.judging.evaluation import cross_validate
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
    obs, told = counted(observations), share_progress(progress)
    parts: dict[str, HiddenEntries] = {}
    notes: dict[str, str] = {}
    doubts: dict[str, str] = {}
    ranking = None
    for k, kind in enumerate(kinds):

        def say(what: str, share: float, k: int = k) -> None:
            if told is not None:
                told(what, (k + share) / len(kinds))

        try:
            splits = _splits(kind, obs, folds, seed)
            parts[kind], fits = _left_out(estimator, obs, kind, splits, say)
        except DataError as error:
            notes[kind] = str(error)
        else:
            ranking = _ranking(fits) if kind == "known" else ranking
            records = [fold.model.solution_ for fold in fits]
            doubts |= {} if all(one.converged for one in records) else {kind: doubt_of(records)}
    warn_of(doubts)
    scheme, count = ("folds", folds) if parts else ("none", 0)
    name = method_words(estimator)
    return Evaluation(scheme, count, seed, parts, notes, doubts, ranking=ranking, method=name)


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
    >>> from kronfill.completion.judging.evaluation import hold_out
    >>> model = kf.complete(np.add.outer(np.arange(20.0), np.arange(15.0)), method="mc").model
    >>> hold_out(model, model.observations_).scheme
    'hold-out'
    """
    return hidden_once(kept(model), observations, seed)


def hidden_once(
    estimator: MatrixRegressor, observations: Observations, seed: int = 0
) -> Evaluation:
    """The same for a method that is fitted, and chooses what it can, without what is hidden.

    Parameters
    ----------
    estimator : estimator
        The method.
    observations : Observations
        The data.
    seed : int, default=0
        Seed of what is hidden.
    """
    obs = counted(observations)
    hidden = hide(obs, np.random.default_rng(seed))
    (fold,) = left_out(lambda part: _fitted(estimator, part), obs, [(~hidden, hidden)])
    parts, record = _by_kind([fold]), fold.model.solution_
    doubts = {} if record.converged else dict.fromkeys(parts, doubt_of([record]))
    warn_of(doubts)
    more: dict[str, Any] = {"ranking": _ranking([fold]), "method": method_words(estimator)}
    return Evaluation("hold-out", 1, seed, parts, doubts=doubts, **more)


def counted(obs: Observations) -> Observations:
    """The observations that have a weight: others take no part in a fit."""
    if obs.weights is None or obs.weights.all():
        return obs
    return obs.take(obs.weights > 0)


def kinds_of(obs: Observations, rows: Any, cols: Any) -> NDArray[np.intp]:
    """0 for known rows and columns, 1 for a row without entries, 2 for a column, 3 for both."""
    return np.asarray((obs.row_counts[rows] == 0) + 2 * (obs.col_counts[cols] == 0), np.intp)


def _splits(kind: str, obs: Observations, folds: int, seed: int) -> Splits:
    """Training and test part of each fold."""
    for name, counts in (("row", obs.row_counts), ("column", obs.col_counts)):
        if kind in (name, "both") and np.count_nonzero(counts) < 2:
            msg = f"Only one {name} has entries: without it nothing is known."
            raise DataError(msg)
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
) -> tuple[HiddenEntries, list[Fold]]:
    """The hidden entries of all folds that turn out to be of this kind, and the folds."""

    def announced() -> Iterator[tuple[Index, Index]]:
        for k, split in enumerate(folds):
            say(f"{QUESTIONS[kind]}, fold {k + 1} of {len(folds)}", k / len(folds))
            yield split

    fits = list(left_out(_Sharing(estimator, obs.m > FOLDS_LIMIT), obs, announced()))
    found = _by_kind(fits)
    if kind not in found:
        msg = f"There is no entry for which, once it is hidden, {_LEFT[kind]}."
        raise DataError(msg)
    return found[kind], fits


class _Sharing:
    """Fits one fold after the other; of many observations the first one chooses for all.

    A number or two that are chosen from thousands of held-out entries hardly depend on the fold.
    """

    def __init__(self, estimator: MatrixRegressor, share: bool) -> None:
        self._estimator, self._share = estimator, share

    def __call__(self, train: Observations) -> MatrixRegressor:
        model = _fitted(self._estimator, train)
        if self._share:
            self._estimator, self._share = kept(model), False
        return model


def share_progress(progress: ShareProgress | bool | None) -> ShareProgress | None:
    """What is told of the progress; True prints it."""
    if not isinstance(progress, bool):
        return progress
    if not progress:
        return None
    printer, left = ProgressPrinter("Evaluating"), TimeLeft()

    def say(what: str, share: float) -> None:
        rest = left("", share, 1.0)
        words = "" if rest is None else f", about {rest:.0f} s left"
        printer.line(f"{what} ({100 * share:.0f}%{words})")

    return say


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
    likelihood = likelihood_of(fold.model)
    effects = EffectsDesign(train.rows, train.cols, train.shape, "both", train.weights)
    mean = float(np.average(train.values, weights=train.weights))
    return HiddenEntries(
        held.rows,
        held.cols,
        held.values,
        fold.predicted,
        np.full(held.m, mean),
        effects.fit(train.values).at(held.rows, held.cols),
        np.empty(0) if likelihood == "gaussian" else fold.model.deviances(held),
        likelihood,
    )


def doubt_of(records: list[Solution]) -> str:
    """What is to be said beside numbers that rest on these fits."""
    bad = [record for record in records if not record.converged]
    worst = max(bad, key=lambda record: record.residual)
    count = "the fit" if len(records) == 1 else f"{len(bad)} of {len(records)} fits"
    return (
        f"{count} without the hidden entries did not converge (relative residual up to "
        f"{worst.residual:.1e}): these are errors of unfinished fits"
    )


def warn_of(doubts: dict[str, str], advice: str = "Use a larger mu, or another solver.") -> None:
    """One warning about all fits that did not converge."""
    if doubts:
        words = "; ".join(f"{QUESTIONS[kind]}: {text}" for kind, text in doubts.items())
        message = f"Errors on hidden entries, {words}. {advice}"
        warnings.warn(message, ConvergenceWarning, stacklevel=3)


def _by_kind(folds: list[Fold]) -> dict[str, HiddenEntries]:
    """The hidden entries of all fits together, sorted by kind."""
    if folds and not recorded(folds[0].model):
        folds = [with_drawn_zeros(fold) for fold in folds]
    parts = [_beside_simple_rules(fold) for fold in folds]
    kinds = [kinds_of(fold.train, fold.held.rows, fold.held.cols) for fold in folds]
    found = {}
    for code, name in enumerate(KINDS):
        some = [part.take(kind == code) for part, kind in zip(parts, kinds, strict=True)]
        whole = joined_entries(some)
        if len(whole):
            found[name] = whole
    return found


def _ranking(folds: list[Fold]) -> RankingFigures | None:
    """How high the ones of the first fold that has any are ranked, where values are yes or no."""
    for fold in folds:
        if likelihood_of(fold.model) != "bernoulli":
            return None
        known = kinds_of(fold.train, fold.held.rows, fold.held.cols) == 0
        ones = known & (fold.held.values > 0)
        if ones.any():
            return ranking_figures(fold.model, fold.held.take(ones))
    return None
