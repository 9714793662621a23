"""How good a method is on what it has not seen: four questions, beside two baselines."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from kronfill.data import Observations
from kronfill.errors import DataError, ParameterError
from kronfill.estimators.base import MatrixRegressor
from kronfill.linalg.effects import EffectsDesign
from kronfill.selection.splitters import ColumnKFold, EntryKFold, RowColumnKFold, RowKFold

__all__ = ["QUESTIONS", "Score", "evaluate"]

Floats = NDArray[np.float64]
Predictor = Callable[[Observations, Observations], Floats]

QUESTIONS = ("entries", "new rows", "new columns", "both new")
BASELINES = ("mean", "row + column effects")


@dataclass(frozen=True)
class Score:
    """How one method answered one question.

    Attributes
    ----------
    question : str
        One of :data:`QUESTIONS`: what the training part had not seen of the entries tested.
    method : str
        The method, or a baseline.
    rmse, mae, r2 : float
        Root mean square error, mean absolute error, and share of the variance explained; over all
        entries tested. NaN where the question cannot be asked.
    tested : int
        Number of entries tested.
    seconds : float
        Time of all fits and predictions.
    note : str
        Why the question could not be asked, or empty.
    """

    question: str
    method: str
    rmse: float
    mae: float
    r2: float
    tested: int
    seconds: float
    note: str = ""


def evaluate(
    estimator: MatrixRegressor,
    observations: Observations,
    folds: int = 5,
    random_state: int = 0,
    questions: tuple[str, ...] = QUESTIONS,
    progress: Callable[[str], None] | None = None,
) -> list[Score]:
    """Cross-validate a method and two baselines for each of the four questions.

    Parameters
    ----------
    estimator : estimator
        The method, fitted or not; ``mu="auto"`` is chosen anew in each fold.
    observations : Observations
        The data.
    folds : int, default=5
        Number of folds of entries, of rows and of columns (at most as many as there are). "both
        new" takes 3 x 3 blocks of rows and columns, 2 x 2 with fewer than five folds.
    random_state : int, default=0
        Seed of the folds, which all methods share.
    questions : tuple of str, default=("entries", "new rows", "new columns", "both new")
        Which questions.
    progress : callable, optional
        Called with a few words before each fit.

    Returns
    -------
    list of Score
        One for each question and method, the method first.

    Examples
    --------
    >>> import numpy as np, kronfill as kf
    >>> from kronfill.evaluation import evaluate
    >>> x = np.linspace(0, 1, 12)
    >>> kernel = kf.kernels.rbf(x, length_scale=0.5) + kf.kernels.constant(12)
    >>> obs = kf.Observations.from_matrix(np.sin(3 * x)[:, None] + np.cos(3 * x)[None, :])
    >>> scores = evaluate(kf.KKMCEX(kernel, kernel, mu=0.01), obs, questions=("new rows",))
    >>> [(score.method, score.rmse < 0.1) for score in scores]
    [('KKMCEX', True), ('mean', False), ('row + column effects', False)]
    """
    if isinstance(folds, bool) or not isinstance(folds, int) or folds < 2:
        msg = f"folds must be an integer of at least 2, got {folds!r}."
        raise ParameterError(msg)
    name = type(estimator).__name__
    methods: dict[str, Predictor] = {
        name: lambda train, test: _fitted(estimator, train, test),
        BASELINES[0]: lambda train, test: _effects(train, test, "mean"),
        BASELINES[1]: lambda train, test: _effects(train, test, "both"),
    }
    out = []
    for question in questions:
        try:
            parts = list(_splitter(question, observations, folds, random_state).split(observations))
        except ParameterError as error:
            out.append(_unasked(question, name, error))
            continue
        for method, predict in methods.items():
            out.append(_score(question, method, predict, observations, parts, progress))
    return out


def _unasked(question: str, method: str, error: Exception) -> Score:
    return Score(question, method, np.nan, np.nan, np.nan, 0, 0.0, str(error))


def _splitter(question: str, obs: Observations, folds: int, seed: int) -> Any:
    rows, cols = (int(np.count_nonzero(c)) for c in (obs.row_counts, obs.col_counts))
    if question == "entries":
        return EntryKFold(min(folds, max(2, obs.m)), random_state=seed)
    if question == "new rows":
        return RowKFold(min(folds, max(2, rows)), random_state=seed)
    if question == "new columns":
        return ColumnKFold(min(folds, max(2, cols)), random_state=seed)
    if question == "both new":
        side = 3 if folds >= 5 and min(rows, cols) >= 6 else 2
        return RowColumnKFold(side, side, random_state=seed)
    msg = f"questions must be among {QUESTIONS}, got {question!r}."
    raise ParameterError(msg)


def _fitted(estimator: MatrixRegressor, train: Observations, test: Observations) -> Floats:
    return cast("MatrixRegressor", clone(estimator)).fit(train).predict(test)


def _effects(train: Observations, test: Observations, kind: Any) -> Floats:
    design = EffectsDesign(train.rows, train.cols, train.shape, kind, train.weights)
    return np.asarray(design.fit(train.values).at(test.rows, test.cols))


def _score(
    question: str,
    method: str,
    predict: Predictor,
    obs: Observations,
    parts: list[tuple[NDArray[np.intp], NDArray[np.intp]]],
    progress: Callable[[str], None] | None,
) -> Score:
    begun = time.perf_counter()
    errors, values = [], []
    for k, (train, test) in enumerate(parts, 1):
        if progress is not None:
            progress(f"{question}: {method}, fold {k} of {len(parts)}")
        held = obs.take(test)
        try:
            errors.append(held.values - predict(obs.take(train), held))
        except DataError as error:
            return _unasked(question, method, error)
        values.append(held.values)
    gap, truth = np.concatenate(errors), np.concatenate(values)
    spread = float(np.sum((truth - truth.mean()) ** 2))
    return Score(
        question,
        method,
        float(np.sqrt(np.mean(gap**2))),
        float(np.mean(np.abs(gap))),
        1 - float(np.sum(gap**2)) / spread if spread > 0 else np.nan,
        len(gap),
        time.perf_counter() - begun,
    )
