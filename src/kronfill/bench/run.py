"""Every method on real data, in four kinds of splits, beside what others report.

Examples
--------
>>> from kronfill.bench import run as bench
>>> found = bench.run(["bixi"], ["effects", "mc"], ["new rows"])
>>> [(line.dataset, line.split, line.method) for line in found.lines]
[('BIXI', 'new rows', 'effects'), ('BIXI', 'new rows', 'MC')]
>>> all(0.3 < line.rmse < 1.0 for line in found.lines)
True
"""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kronfill._types import Floats, Index
from kronfill.bench.problems import LOADERS, BenchProblem
from kronfill.data import Observations
from kronfill.data.datasets import Published
from kronfill.errors import DataError, ParameterError
from kronfill.estimators import IMC, KKMCEX, KMC, MC, RRMCEX
from kronfill.ridge.effects import EffectsDesign
from kronfill.selection import ColumnKFold, EntryKFold, RowColumnKFold, RowKFold
from kronfill.solvers import ALS, Auto

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["DATASETS", "METHODS", "SPLITS", "Benchmark", "Line", "run", "show"]

RANK = 10
"""Latent factors of MC, KMC and IMC."""
CUT = 30
"""Leading eigenvectors of each kernel in RRMCEX."""
TOLERANCE = 1e-3
"""Where solvers stop: relative residual, or gain of a sweep."""


@dataclass(frozen=True)
class Line:
    """One line of the table: a method on a split of a data set."""

    dataset: str
    split: str
    method: str
    unit: str
    """What the values are."""
    rmse: float
    mae: float
    """Root mean square and mean absolute error over the test entries of all folds together."""
    seconds: float
    """Mean time of a fold: choice of mu, fit and prediction."""
    folds: int
    train: int
    test: int
    """Number of folds, and of their training and test entries together."""
    published: tuple[Published, ...]
    """What others report on this kind of split."""
    same_protocol: bool
    """Whether exactly the same entries were hidden there."""
    protocol: str
    """Which entries were hidden here."""


@dataclass(frozen=True)
class Benchmark:
    """The table, and the data sets that were not there."""

    lines: tuple[Line, ...]
    """By data set, split and method."""
    absent: dict[str, str]
    """Why a data set is not in the table, by its name."""

    def to_records(self) -> list[dict[str, Any]]:
        """The lines as dictionaries of numbers, texts and lists, as JSON has them."""
        return [dataclasses.asdict(line) for line in self.lines]


# ----------------------------------------------------------------------------- methods


class _Effects:
    """Mean + row effect + column effect; a cold row or column has effect 0."""

    def fit(self, observations: Observations) -> _Effects:
        o = observations
        self._fitted = EffectsDesign(o.rows, o.cols, o.shape, "both").fit(o.values)
        return self

    def predict(self, X: Index) -> Floats:
        return self._fitted.at(X[:, 0], X[:, 1])


def _factors(seed: int) -> dict[str, Any]:
    solver = ALS(tol=TOLERANCE)
    return {"rank": RANK, "mu": "auto", "center": "mean", "solver": solver, "random_state": seed}


def _ridge(kind: type[Any], *arguments: Any) -> Any:
    return kind(*arguments, mu="auto", center="mean", solver=Auto(tol=TOLERANCE))


_MAKERS: dict[str, tuple[str, Callable[[BenchProblem, int], Any]]] = {
    "effects": ("effects", lambda problem, seed: _Effects()),
    "mc": ("MC", lambda problem, seed: MC(problem.values.shape, **_factors(seed))),
    "imc": ("IMC", lambda problem, seed: IMC(*problem.features(), **_factors(seed))),
    "kmc": ("KMC", lambda problem, seed: KMC(*problem.kernels(), **_factors(seed))),
    # An identity part has no leading directions: the kernels are taken without.
    "rrmcex": ("RRMCEX", lambda problem, seed: _ridge(
        RRMCEX, problem.row_kernel, problem.col_kernel, CUT, CUT)),
    "kkmcex": ("KKMCEX", lambda problem, seed: _ridge(KKMCEX, *problem.kernels())),
}  # fmt: skip
_SPLITTERS: dict[str, Callable[[int], Any]] = {
    "entries": lambda seed: EntryKFold(5, random_state=seed),
    "new rows": lambda seed: RowKFold(5, random_state=seed),
    "new columns": lambda seed: ColumnKFold(5, random_state=seed),
    "both": lambda seed: RowColumnKFold(3, 3, random_state=seed),
}
METHODS = tuple(_MAKERS)
"""Names for ``methods``; "effects" is the mean with row and column effects, to compare with."""
SPLITS = tuple(_SPLITTERS)
"""Names for ``splits``: entries, whole rows, whole columns, or both at once are hidden."""
DATASETS = tuple(LOADERS)
"""Names for ``datasets``."""


# ----------------------------------------------------------------------------- running


def run(
    datasets: Iterable[str] | None = None,
    methods: Iterable[str] | None = None,
    splits: Iterable[str] | None = None,
    progress: Callable[[int, int, str], None] | None = None,
    seed: int = 0,
    *,
    quick: bool = True,
    data_home: str | os.PathLike[str] | None = None,
) -> Benchmark:
    """Fit every method to the training part of every split and measure it on the rest.

    Parameters
    ----------
    datasets : iterable of str, optional
        Of :data:`DATASETS`; a name that is given must be there, by default those that are.
    methods, splits : iterable of str, optional
        Of :data:`METHODS` and :data:`SPLITS`; all by default.
    progress : callable, optional
        Called before every fit with the number done, the number of all, and what comes next.
    seed : int, default=0
        Seed of the splits and of random starting points.
    quick : bool, default=True
        One fold of each split, and a part of the large tables: a minute or two in all. Otherwise
        all tables as a whole, and every fold.
    data_home : path, optional
        Directory of the data, see :func:`kronfill.datasets.data_directories`.

    Returns
    -------
    Benchmark

    Raises
    ------
    ParameterError
        If a name is unknown.
    DataError
        If a data set that was asked for is not there.

    Notes
    -----
    Everything is chosen in the training part: mu by leave-one-out or held-out entries of it. The
    kernels are fixed and the same for all splits, see :mod:`kronfill.bench.problems`.

    Examples
    --------
    >>> from kronfill.bench import run as bench
    >>> bench.run(["bixi"], ["effects"], ["entries"]).lines[0].folds
    1
    """
    chosen = _names("datasets", datasets, DATASETS)
    makers = [_MAKERS[name] for name in _names("methods", methods, METHODS)]
    kinds = _names("splits", splits, SPLITS)
    problems, absent = [], {}
    for name in chosen:
        try:
            problems.append(LOADERS[name](quick, data_home))
        except DataError as error:
            if datasets is not None:
                raise
            absent[name] = str(error)
    lines: list[Line] = []
    total = len(problems) * len(kinds) * len(makers)
    for problem in problems:
        for kind in kinds:
            folds, published_masks = _folds(problem, kind, seed, quick)
            for label, make in makers:
                if progress is not None:
                    progress(len(lines), total, f"{problem.name}, {kind}: {label}")
                scores = [_score(make(problem, seed), problem.values, *fold) for fold in folds]
                lines.append(_line(problem, kind, label, scores, published_masks and not quick))
    if progress is not None:
        progress(total, total, "done")
    return Benchmark(tuple(lines), absent)


def _names(what: str, chosen: Iterable[str] | None, allowed: tuple[str, ...]) -> list[str]:
    """The names chosen, in the order of the allowed ones."""
    if chosen is None:
        return list(allowed)
    names = [chosen] if isinstance(chosen, str) else list(chosen)
    plain = {str(name).lower().replace("-", " ").replace("_", " ").strip() for name in names}
    unknown = sorted(plain.difference(allowed))
    if unknown or not plain:
        got = ", ".join(map(repr, unknown)) or "none"
        msg = f"{what} must be of {', '.join(map(repr, allowed))}; got {got}."
        raise ParameterError(msg)
    return [name for name in allowed if name in plain]


def _folds(
    problem: BenchProblem, kind: str, seed: int, quick: bool
) -> tuple[list[tuple[Index, Index]], bool]:
    """Index pairs of training and test entries of each fold, and whether they are published."""
    known = np.argwhere(~np.isnan(problem.values))
    published = kind == "entries" and bool(problem.test_masks)
    if published:
        parts = [mask[known[:, 0], known[:, 1]] for mask in problem.test_masks]
        folds = [(known[~part], known[part]) for part in parts]
    else:
        splitter = _SPLITTERS[kind](seed)
        folds = [(known[train], known[test]) for train, test in splitter.split(known)]
    return folds[:1] if quick else folds, published


@dataclass(frozen=True)
class _Score:
    errors: Floats
    train: int
    seconds: float


def _score(method: Any, values: Floats, train: Index, test: Index) -> _Score:
    seen = Observations(train[:, 0], train[:, 1], values[tuple(train.T)], values.shape)
    begun = time.perf_counter()
    predicted = method.fit(seen).predict(test)
    seconds = time.perf_counter() - begun
    return _Score(predicted - values[tuple(test.T)], len(train), seconds)


def _line(problem: BenchProblem, kind: str, label: str, scores: list[_Score], same: bool) -> Line:
    errors = np.concatenate([score.errors for score in scores])
    folds = len(scores)
    hidden = "entries" if kind == "entries" else kind if kind != "both" else "new rows and columns"
    parts = [f"{folds} fold{'s' if folds > 1 else ''}, {hidden} hidden", problem.note]
    return Line(
        dataset=problem.name,
        split=kind,
        method=label,
        unit=problem.unit,
        rmse=float(np.sqrt(np.mean(errors**2))),
        mae=float(np.mean(np.abs(errors))),
        seconds=float(np.mean([score.seconds for score in scores])),
        folds=folds,
        train=sum(score.train for score in scores),
        test=len(errors),
        published=problem.published if kind == "entries" else (),
        same_protocol=bool(same and problem.published),
        protocol="; ".join(part for part in parts if part),
    )


# ----------------------------------------------------------------------------- printing


def show(found: Benchmark, console: Console | None = None) -> None:
    """Print the table with Rich: a data set each, splits as columns, others' results below.

    Parameters
    ----------
    found : Benchmark
        What :func:`run` returned.
    console : rich.console.Console, optional
        Where to; standard output by default.

    Examples
    --------
    >>> from rich.console import Console
    >>> from kronfill.bench import run as bench
    >>> found = bench.run(["bixi"], ["effects"], ["entries"])
    >>> bench.show(found, Console(width=80))  # doctest: +ELLIPSIS
    BIXI: RMSE of log(1 + departures)...
    """
    from rich.console import Console as Terminal

    out = Terminal() if console is None else console
    for name in dict.fromkeys(line.dataset for line in found.lines):
        _show_one([line for line in found.lines if line.dataset == name], out)
    for name, reason in found.absent.items():
        out.print(f"{name}: not in the table. {reason}\n", highlight=False, markup=False)


def _show_one(lines: list[Line], out: Console) -> None:
    from rich.table import Table

    splits = list(dict.fromkeys(line.split for line in lines))
    at = {(line.split, line.method): line for line in lines}
    best = {split: min(line.rmse for line in lines if line.split == split) for split in splits}
    out.print(f"{lines[0].dataset}: RMSE of {lines[0].unit} (seconds)", highlight=False)
    table = Table()
    table.add_column("method")
    for split in splits:
        table.add_column(split, justify="right")
    for method in dict.fromkeys(line.method for line in lines):
        row = [at[split, method] for split in splits]
        cells = [_cell(line.rmse, line.seconds, line.rmse == best[line.split]) for line in row]
        table.add_row(method, *cells)
    for text, cells in _others(lines, splits):
        table.add_row(text, *cells, style="italic")
    out.print(table)
    for split in splits:
        line = next(line for line in lines if line.split == split)
        out.print(f"  {split}: {line.protocol}; {line.test:,} entries tested.", highlight=False)
    for text in _comparison(lines):
        out.print(f"  {text}", highlight=False)
    out.print()


def _cell(rmse: float, seconds: float | None, best: bool = False) -> str:
    text = f"{rmse:.3f}" + ("" if seconds is None else f" ({seconds:,.1f})")
    return f"[bold]{text}[/bold]" if best else text


def _others(lines: list[Line], splits: list[str]) -> Iterator[tuple[str, list[str]]]:
    """A row for each published result."""
    published = {line.split: line.published for line in lines}
    same = any(line.same_protocol for line in lines)
    mark = "published" if same else "published, other protocol"
    for result in dict.fromkeys(result for line in lines for result in line.published):
        cells = [
            _cell(result.rmse, result.seconds) if result in published[split] else ""
            for split in splits
        ]
        yield f"{result.method} [{mark}]".replace("[", r"\["), cells


def _comparison(lines: list[Line]) -> Iterator[str]:
    """Whether a published result may be compared with ours."""
    for line in lines:
        if line.split == "entries" and line.published:
            for result in line.published:
                word = "the same protocol" if line.same_protocol else "not the same protocol"
                yield (
                    f"{result.method}, from {result.source}: {word} ({result.protocol}); its time "
                    "was taken elsewhere."
                )
            return
    yield "No published result on these splits is known."
