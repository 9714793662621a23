"""Which method, and how good: the default beside simpler ones, on the same hidden entries."""

from __future__ import annotations

import math
import time
import warnings
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from sklearn.base import clone

from kronfill import kernels
from kronfill._optional import needed
from kronfill._progress import ShareProgress, silent, told_to
from kronfill._types import Floats, Index
from kronfill.auto.model import AutoMC
from kronfill.auto.sources import MANY, THIN_RANK
from kronfill.completion.judging.evaluation import (
    FOLDS,
    FOLDS_LIMIT,
    KINDS,
    QUESTIONS,
    Evaluation,
    HiddenEntries,
    counted,
    cross_validate,
    hidden_once,
    score,
    share_progress,
    warn_of,
)
from kronfill.completion.sides import IDENTITY
from kronfill.completion.values import unscaled
from kronfill.data.amounts import count_of
from kronfill.errors import ConvergenceWarning, ParameterError
from kronfill.estimators import KKMCEX, KMC, MC
from kronfill.estimators.base import MatrixRegressor, fitted_kernels
from kronfill.kernels import Kernel
from kronfill.kernels.thin import thin

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["EFFECTS", "Comparison", "compare", "compared_methods"]

AUTO, EFFECTS = "auto", "effects"
CLEAR, FEW = 2.0, 20
"""A difference of so many standard errors is more than chance; fewer entries can hardly tell."""
EFFORT = {AUTO: 12.0, "KMC": 3.0, "MC": 2.0}
"""What a method takes beside the others, about: for the time that is left."""


@dataclass(frozen=True, eq=False)
class Comparison:
    """Errors of several methods on the same hidden entries; what :func:`compare` returns.

    Attributes
    ----------
    evaluations : dict of str to Evaluation
        What was hidden and what each method says about it.
    recommendation : str
        Which method to use, in a sentence.
    seconds : float
        What it took.
    """

    evaluations: dict[str, Evaluation]
    recommendation: str
    seconds: float

    @property
    def first(self) -> Evaluation:
        """The evaluation of the method that is compared with the others."""
        return next(iter(self.evaluations.values()))

    def lines(self) -> list[dict[str, Any]]:
        """Scores, a line for each question and method."""
        found = []
        for kind, hidden in self.first.parts.items():
            for name, predicted in self._said(kind).items():
                own = score(hidden.observed, predicted)
                found.append({
                    "question": QUESTIONS[kind], "method": name, "rmse": own.rmse,
                    "standard error": _error_of(hidden, kind, predicted), "mae": own.mae,
                    "r2": math.nan if own.r2 is None else own.r2, "tested": len(hidden),
                })  # fmt: skip
        return found

    @property
    def scores(self) -> DataFrame:
        """Error of each method for each question, with standard errors.

        Columns are "question", "method", "rmse", "standard error" (of the rmse; rows or columns
        that are hidden together count as one), "mae", "r2" and "tested".
        """
        pd = needed("pandas", "Scores")
        return cast("DataFrame", pd.DataFrame(self.lines()))

    def _said(self, kind: str) -> dict[str, Floats]:
        said = {name: one.parts[kind].predicted for name, one in self.evaluations.items()}
        return {**said, EFFECTS: self.first.parts[kind].effects}

    @property
    def notes(self) -> list[str]:
        """What is to be said beside the scores: fits of other methods that did not converge."""
        others = [(name, one) for name, one in self.evaluations.items() if one is not self.first]
        return [
            f"{name}, {', '.join(QUESTIONS[kind] for kind in one.doubts)}: some fits without the "
            "hidden entries did not converge, so that its errors may be too large."
            for name, one in others if one.doubts
        ]  # fmt: skip

    def __repr__(self) -> str:
        lines = [f"{'':<12} {'method':<8} {'RMSE':>10} {'±':>9} {'tested':>8}"]
        last = ""
        for line in self.lines():
            shown = "" if line["question"] == last else line["question"]
            last = line["question"]
            lines.append(
                f"{shown:<12} {line['method']:<8} {line['rmse']:>10.4g} "
                f"{line['standard error']:>9.2g} {line['tested']:>8,}"
            )
        return "\n".join([*lines, *self.notes, self.recommendation])


def compared_methods(model: MatrixRegressor) -> dict[str, MatrixRegressor]:
    """A fitted method and those to compare it with, unfitted; all choose what they can.

    Parameters
    ----------
    model : estimator
        A fitted method: what it knows about rows and columns is what the others know.
    """
    row, col = (
        _whole(kernel, size)
        for kernel, size in zip(fitted_kernels(model), model.observations_.shape, strict=True)
    )
    others: dict[str, MatrixRegressor] = {
        "KKMCEX": KKMCEX(row, col, mu="auto", center="mean"),
        "KMC": KMC(row, col, rank=10, mu="auto", center="mean"),
        "MC": MC(rank=10, mu="auto", center="mean"),
    }
    own = cast("MatrixRegressor", clone(model))
    inner = unscaled(model)
    if isinstance(inner, AutoMC):
        path = "" if inner is model else "estimator__"
        own.set_params(**{f"{path}choice": None, f"{path}on_interrupt": "raise"})
        return {AUTO: own, **others}
    name = type(inner).__name__
    known = [None if kernel is None else kernel.split()[0] for kernel in fitted_kernels(model)]
    default = {AUTO: AutoMC(known[0], known[1])}
    return {name: own, **default, **{k: v for k, v in others.items() if k != name}}


def _whole(kernel: Kernel | None, size: int) -> Kernel:
    """What is known, with a constant and an identity part, as methods with one kernel take it."""
    if kernel is None:
        return kernels.constant(size) + kernels.identity(size)
    smooth, own = kernel.split()
    if smooth is None or own > 0:
        return kernel
    parts = smooth.parts if isinstance(smooth, kernels.algebra.Sum) else (smooth,)
    mean: Kernel = reduce(lambda a, b: a + b, parts) * (1.0 / len(parts))
    if size >= MANY and not mean.by_products:
        mean = thin(mean, THIN_RANK)
    return mean + kernels.constant(size) + IDENTITY * kernels.identity(size)


def compare(
    completion: Any,
    *,
    folds: int = FOLDS,
    seed: int = 0,
    progress: ShareProgress | bool | None = None,
) -> Comparison:
    """Compare the method of a completed table with others on entries that are hidden from all.

    Parameters
    ----------
    completion : Completion
        A completed table.
    folds : int, default=5
        Number of folds of entries, rows and columns, up to 3,000 observations; beyond, a tenth of
        the rows, of the columns and of the other entries is hidden once.
    seed : int, default=0
        Seed of what is hidden.
    progress : bool or callable, optional
        As for :func:`~kronfill.report.evaluate`.

    Returns
    -------
    Comparison
    """
    if completion.likelihood != "gaussian":
        msg = (
            f"With likelihood={completion.likelihood!r} nothing can be compared: the other "
            "methods are for numbers. kronfill.report.evaluate measures the errors of this one."
        )
        raise ParameterError(msg)
    return compare_methods(
        compared_methods(completion.model), completion.observations,
        folds=folds, seed=seed, progress=progress,
    )  # fmt: skip


def compare_methods(
    methods: dict[str, MatrixRegressor],
    observations: Any,
    *,
    folds: int = FOLDS,
    seed: int = 0,
    progress: ShareProgress | bool | None = None,
) -> Comparison:
    """Compare methods by name, the first with the others; see :func:`compare`."""
    begun, told = time.perf_counter(), share_progress(progress)
    obs, effort = counted(observations), [EFFORT.get(name, 1.0) for name in methods]
    found: dict[str, Evaluation] = {}
    for k, (name, estimator) in enumerate(methods.items()):

        def say(what: str, share: float, k: int = k, name: str = name) -> None:
            if told is not None:
                done = sum(effort[:k]) + share * effort[k]
                told(f"{name}: {what}", done / sum(effort))

        # How far a single fit is says nothing about all of them, and doubts have a place below.
        with told_to(silent), warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            if obs.m > FOLDS_LIMIT:
                say("a fit without the hidden entries", 0.0)
                found[name] = hidden_once(estimator, obs, seed)
            else:
                found[name] = cross_validate(
                    estimator, obs, KINDS, folds=folds, seed=seed, progress=say
                )
    warn_of(next(iter(found.values())).doubts, "They may be too large.")
    return Comparison(found, _recommended(found), time.perf_counter() - begun)


def _recommended(found: dict[str, Evaluation]) -> str:
    own, *others = found
    better: dict[str, list[str]] = {}
    useless = []
    for kind, hidden in found[own].parts.items():
        said = {name: found[name].parts[kind].predicted for name in (own, *others)}
        said[EFFECTS] = hidden.effects
        rmse = {name: score(hidden.observed, guess).rmse for name, guess in said.items()}
        best = min(rmse, key=lambda name: rmse[name])
        if best != own and _clearly_better(hidden, kind, said[best], said[own]):
            gain = 1 - rmse[best] / rmse[own]
            better.setdefault(best, []).append(f"{QUESTIONS[kind]} ({gain:.0%} less error)")
        elif not _clearly_better(hidden, kind, said[own], hidden.effects):
            useless.append(QUESTIONS[kind])
    if not found[own].parts:
        return "Too few entries to hide some of them: nothing can be compared."
    if better:
        text = "; ".join(f"{_called(name)} for {_and(where)}" for name, where in better.items())
        text = f"Use {text}, and {_called(own)} for the rest."
    else:
        text = f"Use {_called(own)}: for no question is another method better by more than chance."
    most = max(len(hidden) for hidden in found[own].parts.values())
    if most < FEW:
        text = f"{count_of(most, 'hidden entry', 'hidden entries')} can hardly tell. {text}"
    if useless:
        text += f" For {_and(useless)} it is not clearly better than row and column effects."
    return text


def _called(name: str) -> str:
    return {AUTO: "method='auto'", EFFECTS: "row and column effects"}.get(
        name, f"method={name.lower()!r}"
    )


def _and(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _clusters(hidden: HiddenEntries, kind: str) -> list[Index]:
    """What is hidden together has errors in common: rows, columns, or either."""
    each = {"row": [hidden.rows], "column": [hidden.cols], "both": [hidden.rows, hidden.cols]}
    return each.get(kind, [np.arange(len(hidden))])


def _mean_error(values: Floats, clusters: list[Index]) -> float:
    """Standard error of a mean over clusters, the largest where there are several kinds."""
    gaps = values - values.mean()
    found = []
    for index in clusters:
        sums = np.bincount(np.unique(index, return_inverse=True)[1], weights=gaps)
        count = len(sums)
        spread = count / (count - 1) if count > 1 else np.inf
        found.append(
            float(np.sqrt(spread * np.sum(sums**2)) / len(values)) if count > 1 else np.inf
        )
    return max(found)


def _error_of(hidden: HiddenEntries, kind: str, predicted: Floats) -> float:
    """Standard error of the root mean square error."""
    squares = (hidden.observed - predicted) ** 2
    root = float(np.sqrt(squares.mean()))
    return _mean_error(squares, _clusters(hidden, kind)) / (2 * root) if root > 0 else 0.0


def _clearly_better(hidden: HiddenEntries, kind: str, one: Floats, other: Floats) -> bool:
    gain = (hidden.observed - other) ** 2 - (hidden.observed - one) ** 2
    return bool(gain.mean() > CLEAR * _mean_error(gain, _clusters(hidden, kind)))
