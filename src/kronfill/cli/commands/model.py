"""Commands on a saved model: ``predict``, ``suggest`` and ``bound``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from kronfill.cli import options as o
from kronfill.cli.helps import grouped
from kronfill.cli.inputs import ask_pairs, check_range
from kronfill.cli.outputs import certificate_facts, check_outputs, new_items_facts, write_table
from kronfill.cli.session import Session
from kronfill.data.amounts import count_of
from kronfill.data.arrays import listing
from kronfill.data.reading.entry_files import Roles
from kronfill.data.reading.file_table import label_text
from kronfill.data.reading.table_files import open_file
from kronfill.errors import DataError, KernelError, LabelError, ParameterError

__all__ = ["bound", "predict", "suggest"]

SHOWN = 20
"""Lines that are printed where no output was named."""

Out = Annotated[
    Path | None,
    typer.Option("-o", "--output", metavar="FILE", help="Where to write; printed if not given."),
]
PairsFile = Annotated[
    Path | None,
    typer.Argument(
        help="The entries to predict: a file with a row and a column label in each line.",
        metavar="PAIRS",
    ),
]
NewRows = Annotated[
    list[str] | None,
    typer.Option(
        "--rows", metavar="[NAME=]FILE",
        help="What is known about new rows, as it was about the others: features, or similarities "
        "with these; a file for each source. Without PAIRS they are predicted for every column.",
    ),
]  # fmt: skip
NewCols = Annotated[
    list[str] | None,
    typer.Option(
        "--cols", metavar="[NAME=]FILE", help="What is known about new columns, likewise."
    ),
]


Ahead = Annotated[
    int | None,
    typer.Option(
        "--ahead", metavar="PERIODS", min=1,
        help="Forecast so many columns that come next, where the columns (or the rows) are dates.",
    ),
]  # fmt: skip


@grouped
def predict(
    model: o.ModelFile,
    table: PairsFile = None,
    *,
    rows: NewRows = None,
    cols: NewCols = None,
    ahead: Ahead = None,
    output: Out = None,
    row_column: o.RowColumn = None,
    col_column: o.ColColumn = None,
    rows_index: o.RowsIndex = None,
    cols_index: o.ColsIndex = None,
    impute: o.ImputeOption = "none",
    sureness: o.IntervalOptions,
    messages: o.MessageOptions,
) -> None:
    """Predict entries with a saved model, new rows and columns included.

    kronfill predict model.kf pairs.csv -o predicted.csv
    """
    with messages.session() as session:
        files = (o.named_files("--rows", rows), o.named_files("--cols", cols))
        paths = [path for some in files for _, path in some]
        check_outputs({"--output (table)": output}, (model, table, *paths))
        if ahead is not None:
            if table is not None or paths:
                msg = "--ahead forecasts the whole table: leave PAIRS, --rows and --cols out."
                raise ParameterError(msg)
            _forecast(session, model, ahead, sureness, output)
            return
        if table is None and not paths:
            msg = (
                "Nothing to predict: give a file with a row and a column label in each line, "
                "new rows or columns (--rows, --cols), or how many dates to forecast (--ahead)."
            )
            raise ParameterError(msg)
        done = _load(session, model, needs="")
        labels = (done.observations.row_labels, done.observations.col_labels)
        new = tuple(
            _newcomers(session, done, files[axis], axis, index, impute)
            for axis, index in enumerate((rows_index, cols_index))
        )
        pairs = None
        if table is not None:
            more = tuple(_labels_of(described) for described in new)
            pairs = ask_pairs(
                table, Roles(row=row_column, col=col_column), labels, (more[0], more[1])
            )
        with session.stage("Predicting"):
            blocks = done.iter_predictions(
                pairs,
                rows=new[0],
                cols=new[1],
                level=sureness.level,
                intervals=sureness.intervals,
                by=sureness.by,
            )
            made = _made(session, blocks, output)
        kept = vars(done).get("_calibrated")
        if kept is not None and sureness.intervals != "none" and sureness.by is None:
            session.note(f"Intervals ({100 * sureness.level:g}%): {kept.words}.")
        _deliver(session, made, output, "predictions")


def _forecast(
    session: Session, model: Path, ahead: int, sureness: o.IntervalOptions, output: Path | None
) -> None:
    """Forecast the dates that come next, with intervals unless they are not wanted."""
    done = _load(session, model, needs="a forecast")
    if sureness.intervals not in ("auto", "none") or sureness.by is not None:
        msg = "--ahead has intervals of its own, from forecasts of the past: --intervals auto|none."
        raise ParameterError(msg)
    with session.stage(f"Forecasting {count_of(ahead, 'period')}"):
        if sureness.intervals == "none":
            frame = _entry_by_entry(done.forecast(ahead))
        else:
            frame = done.forecast_details(ahead, level=sureness.level)
    if "interval" in frame:
        session.note(f"Intervals ({100 * sureness.level:g}%): {frame['interval'].iloc[0]}.")
    _deliver(session, _made(session, [frame], output), output, "predictions")


def _entry_by_entry(frame: Any) -> Any:
    """A wide table as lines of row, column and value."""
    named = frame.rename_axis(index="row", columns="column")
    return named.reset_index().melt(id_vars="row", value_name="value")


def _load(session: Session, path: Path, needs: str) -> Any:
    """The completed table of a model file; ``needs`` says what observations are needed for."""
    from kronfill.completion import Completion, StreamedCompletion
    from kronfill.estimators import ConformalRegressor
    from kronfill.estimators.longtables import without_observations
    from kronfill.io import load

    if not path.exists():
        msg = f"There is no file {path}."
        raise ParameterError(msg)
    with session.stage(f"Loading {path}"):
        found = load(path)
    if isinstance(found, ConformalRegressor):
        session.warn(
            f"{path} holds a ConformalRegressor: the method in it is used, and intervals are made "
            "anew. Its own are had in Python: kronfill.load(path).predict_interval(pairs)."
        )
        found = found.estimator_
    why = without_observations(found)
    if why and needs:
        msg = (
            f"{path} keeps no observations, which {needs} needs: {why}. Fit a part of them in "
            "memory for it."
        )
        raise ParameterError(msg)
    done: Any
    if why:
        done = StreamedCompletion.from_model(found)
    else:
        done = found if isinstance(found, Completion) else Completion.from_model(found)
    session.note(f"{path}: {repr(done).splitlines()[0]}.")
    return done


def _labels_of(described: Any) -> list[Any]:
    """Labels of new items, those of several sources one after the other."""
    frames = described.values() if isinstance(described, dict) else [described]
    return list(dict.fromkeys(label for one in frames if one is not None for label in one.index))


def _newcomers(
    session: Session,
    done: Any,
    files: list[tuple[str, Path]],
    axis: int,
    index: str | None,
    impute: str,
) -> Any:
    """What is known about new rows or columns, read as it was for the known ones."""
    from kronfill.completion.answers.newcomers import newcomers, ways_to_describe
    from kronfill.completion.sides import feature_categories, some_of

    if not files:
        return None
    name = ("row", "column")[axis]
    items = (done.observations.row_labels, done.observations.col_labels)[axis]
    ways = ways_to_describe(done.model, axis)
    read = {}
    for key, path in _by_source(files, ways, name).items():
        side = _new_file(path, ways[key], items, index, impute, name)
        known = {label_text(label) for label in items}
        both = [label for label in side.labels if label in known]
        if both:
            msg = (
                f"{path}: {count_of(len(both), name)}, {some_of(both)}, "
                f"{'is' if len(both) == 1 else 'are'} in the model already: leave such lines out, "
                "or give them another label."
            )
            raise LabelError(msg)
        session.note(f"{path}: {side.words}.")
        read[key] = side.build()
    described = read[""] if "" in ways else read
    told = ", ".join(str(path) for _, path in files)
    try:
        newcomers(done.model, axis, items, described)
    except (DataError, KernelError) as error:
        msg = f"{told}: {error}"
        raise type(error)(msg) from None
    for feature, values in feature_categories(done.model, axis).items():
        texts = [text for one in read.values() if feature in one for text in one[feature].dropna()]
        strange = [text for text in dict.fromkeys(texts) if text not in set(values)]
        if strange:
            session.warn(
                f"{told}: no {name} of the model has the {feature} {some_of(strange)}; known are "
                f"{listing([repr(text) for text in values[:3]], len(values))}. Is it spelt so?"
            )
    return described


def _by_source(files: list[tuple[str, Path]], ways: dict[str, Any], name: str) -> dict[str, Path]:
    """The file of each source, by name or in their order."""
    named = {key: path for key, path in files if key}
    strange = [key for key in named if key not in ways]
    bare = [path for key, path in files if not key]
    free = [key for key in ways if key not in named]
    if strange or len(bare) > len(free) or (bare and len(free) > len(bare)):
        known = listing([repr(key) for key in ways if key], len(ways))
        option = ("--rows", "--cols")[name == "column"]
        many = f"by {len(ways)} sources, {known}" if "" not in ways else "by one file"
        msg = (
            f"The {name}s of the model are known {many}: give new ones likewise, {option} FILE for "
            f"each in this order, or {option} NAME=FILE for some of them."
        )
        raise ParameterError(msg)
    return {**named, **dict(zip(free, bare, strict=False))}


def _new_file(path: Path, way: Any, items: Any, index: str | None, impute: str, name: str) -> Any:
    from kronfill.data.reading.side_files import read_new_similarities, read_side

    kinds, given = way
    if given is not None:
        return read_new_similarities(open_file(path), given.labels or items, index=index)
    if kinds is not None:
        return read_side(open_file(path), "features", index=index, impute=impute, kinds=kinds)
    msg = (
        f"The model does not know its {name}s by features or by similarities, so that new "
        f"{name}s cannot be described. Put them into the side information of 'kronfill "
        "complete' instead."
    )
    raise ParameterError(msg)


def _made(session: Session, blocks: Any, output: Path | None) -> tuple[int, list[dict[str, Any]]]:
    """The number of lines, written to a file or else the first of them."""
    if output is not None:
        return write_table(output, blocks), []
    shown: list[dict[str, Any]] = []
    total = 0
    for block in blocks:
        total += len(block)
        room = total if session.as_json else SHOWN
        shown += block.head(max(0, room - len(shown))).to_dict("records")
    return total, shown


def _deliver(
    session: Session, made: tuple[int, list[dict[str, Any]]], output: Path | None, what: str
) -> None:
    """Say what was written, or print it."""
    total, shown = made
    if output is not None:
        session.fact(lines=total, output=output)
        session.result(f"Wrote {output} ({count_of(total, what.removesuffix('s'))}).")
        return
    session.fact(**{what: shown})
    names = list(shown[0]) if shown else []
    session.table("", names, [[line[name] for name in names] for line in shown])
    if total > len(shown):
        session.note(
            f"... {count_of(total - len(shown), 'more line')}; -o FILE writes all of them."
        )


@grouped
def suggest(
    model: o.ModelFile,
    *,
    count: Annotated[int, typer.Option("-n", help="How many entries.", min=1)] = 10,
    candidates: Annotated[
        Path | None,
        typer.Option(
            "--candidates", metavar="FILE", help="Choose from these: row and column labels."
        ),
    ] = None,
    cost: Annotated[
        str | None,
        typer.Option("--cost", metavar="COLUMN", help="Column of the candidates with their costs."),
    ] = None,
    output: Out = None,
    row_column: o.RowColumn = None,
    col_column: o.ColColumn = None,
    seed: o.Seed = 0,
    messages: o.MessageOptions,
) -> None:
    """Say which entries to measure next: those that tell most about all the others.

    kronfill suggest model.kf -n 10
    """
    with messages.session() as session:
        check_outputs({"--output (table)": output}, (model, candidates))
        if cost is not None and candidates is None:
            msg = f"--cost {cost} names a column of the candidates: give them with --candidates."
            raise ParameterError(msg)
        done = _load(session, model, needs="a suggestion")
        if not hasattr(done.model, "suggest"):
            msg = (
                f"{type(done.model).__name__} does not know how sure it is, so that it cannot tell "
                "what to measure; fit the table with --method kkmcex or rrmcex."
            )
            raise ParameterError(msg)
        pairs = prices = None
        if candidates is not None:
            import numpy as np

            labels = (done.observations.row_labels, done.observations.col_labels)
            roles = Roles(row=row_column, col=col_column)
            at = ask_pairs(candidates, roles, labels, takes_new=False)
            pairs = np.column_stack(at)
            if cost is not None:
                file = open_file(candidates)
                prices = file.numbers(file.position(cost))
        with session.stage("Comparing candidates"):
            found = done.model.suggest(count, pairs, prices, random_state=seed)
        frame = found.to_frame().rename(columns={"col": "column"})
        _deliver(session, _made(session, [frame], output), output, "suggestions")


@grouped
def bound(
    model: o.ModelFile,
    *,
    value_range: Annotated[
        tuple[float, float] | None,
        typer.Option(
            "--range",
            metavar="LOW HIGH",
            help="Range that all values obey, whatever is observed; not needed to show the "
            "certificate of a model that was made with --certify.",
        ),
    ] = None,
    delta: Annotated[
        float, typer.Option("--delta", help="Probability with which the statement may fail.")
    ] = 0.05,
    messages: o.MessageOptions,
) -> None:
    """Bound the mean loss on the entries that were not observed: a certificate.

    kronfill bound model.kf --range 1 5
    """
    with messages.session() as session:
        check_range(value_range)
        done = _load(session, model, needs="a certificate")
        found = done.certified
        if value_range is not None:
            with session.stage("Computing the bound"):
                found = done.certificate(value_range, delta=delta)
        if found is None:
            msg = (
                f"{model} has no certificate: fit it with 'kronfill complete ... --range LOW HIGH "
                "--certify 0.1', or give --range for what can be said without one."
            )
            raise ParameterError(msg)
        session.fact(**certificate_facts(found))
        session.result(str(found))
        if done.certified_new is not None:
            session.fact(new=new_items_facts(done.certified_new))
            session.result(f"\n{done.certified_new}")
