"""Commands on a saved model: ``predict``, ``suggest`` and ``bound``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from kronfill.cli import options as o
from kronfill.cli.helps import grouped
from kronfill.cli.inputs import ask_pairs, check_range
from kronfill.cli.outputs import check_outputs, write_table
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
    Path | None,
    typer.Option(
        "--rows", metavar="FILE",
        help="What is known about new rows, as it was about the others: features, or similarities "
        "with these. Without PAIRS they are predicted for every column.",
    ),
]  # fmt: skip
NewCols = Annotated[
    Path | None,
    typer.Option("--cols", metavar="FILE", help="What is known about new columns, likewise."),
]


@grouped
def predict(
    model: o.ModelFile,
    table: PairsFile = None,
    *,
    rows: NewRows = None,
    cols: NewCols = None,
    output: Out = None,
    row_column: o.RowColumn = None,
    col_column: o.ColColumn = None,
    rows_index: o.RowsIndex = None,
    cols_index: o.ColsIndex = None,
    impute: o.ImputeOption = "error",
    sureness: o.IntervalOptions,
    messages: o.MessageOptions,
) -> None:
    """Predict entries with a saved model, new rows and columns included.

    kronfill predict model.kf pairs.csv -o predicted.csv
    """
    with messages.session() as session:
        check_outputs({"--output (table)": output}, (model, table, rows, cols))
        if table is None and rows is None and cols is None:
            msg = (
                "Nothing to predict: give a file with a row and a column label in each line, or "
                "new rows or columns (--rows, --cols)."
            )
            raise ParameterError(msg)
        done = _load(session, model, needs="")
        labels = (done.observations.row_labels, done.observations.col_labels)
        new = tuple(
            _newcomers(session, done, path, axis, index, impute)
            for axis, (path, index) in enumerate(((rows, rows_index), (cols, cols_index)))
        )
        pairs = None
        if table is not None:
            more = tuple([] if frame is None else list(frame.index) for frame in new)
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
            )
            made = _made(session, blocks, output)
        _deliver(session, made, output, "predictions")


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


def _newcomers(
    session: Session, done: Any, path: Path | None, axis: int, index: str | None, impute: str
) -> Any:
    """What is known about new rows or columns, read as it was for the known ones."""
    from kronfill.completion.newcomers import given_kernel, newcomers
    from kronfill.completion.sides import feature_categories, feature_kinds, some_of
    from kronfill.data.reading.side_files import read_new_similarities, read_side

    if path is None:
        return None
    name = ("row", "column")[axis]
    kinds, given = feature_kinds(done.model, axis), given_kernel(done.model, axis)
    items = (done.observations.row_labels, done.observations.col_labels)[axis]
    if given is not None:
        side = read_new_similarities(open_file(path), given.labels or items, index=index)
    elif kinds is not None:
        side = read_side(open_file(path), "features", index=index, impute=impute, kinds=kinds)
    else:
        msg = (
            f"The model does not know its {name}s by features or by similarities, so that new "
            f"{name}s cannot be described. Put them into the side information of 'kronfill "
            "complete' instead."
        )
        raise ParameterError(msg)
    known = {label_text(label) for label in items}
    both = [label for label in side.labels if label in known]
    if both:
        msg = (
            f"{path}: {count_of(len(both), name)}, {some_of(both)}, "
            f"{'is' if len(both) == 1 else 'are'} in the model already: leave such lines out, or "
            "give them another label."
        )
        raise LabelError(msg)
    session.note(f"{path}: {side.words}.")
    frame = side.build()
    try:
        newcomers(done.model, axis, items, frame)
    except (DataError, KernelError) as error:
        msg = f"{path}: {error}"
        raise type(error)(msg) from None
    for feature, values in feature_categories(done.model, axis).items():
        strange = [text for text in dict.fromkeys(frame[feature]) if text not in set(values)]
        if strange:
            session.warn(
                f"{path}: no {name} of the model has the {feature} {some_of(strange)}; known are "
                f"{listing([repr(text) for text in values[:3]], len(values))}. Is it spelt so?"
            )
    return frame


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
        tuple[float, float],
        typer.Option(
            "--range", metavar="LOW HIGH", help="Range that all values obey, whatever is observed."
        ),
    ],
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
        with session.stage("Computing the bound"):
            found = done.certificate(value_range, delta=delta)
        session.fact(
            value=found.value, valid=found.valid, vacuous=found.vacuous, delta=found.delta,
            train_loss=found.train_loss, gap=found.gap, theorem=found.name, sentence=found.sentence,
            terms=dict(found.terms),
            assumptions=[{"text": str(part), "holds": part.holds} for part in found.assumptions],
        )  # fmt: skip
        session.result(str(found))
