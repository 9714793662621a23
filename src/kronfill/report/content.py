"""Everything that a report says, as plain numbers and words: no HTML here."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from kronfill.completion.entries.groups import GroupCoverage
from kronfill.completion.judging.scores import Score
from kronfill.selection.ranking import RankingFigures

__all__ = [
    "Accuracy",
    "Calibration",
    "Cells",
    "Contribution",
    "Data",
    "Entry",
    "Guarantee",
    "MethodFacts",
    "Part",
    "Path",
    "Report",
    "SourceLine",
    "Spread",
    "Uncertainty",
    "plain",
]


@dataclass(frozen=True)
class Spread:
    """Smallest, middle and largest of some numbers."""

    least: float
    median: float
    most: float


@dataclass(frozen=True)
class Data:
    """What went in and what was missing."""

    rows: int
    columns: int
    entries: int
    observed: int
    filled: int
    extrapolated: int
    share: float
    cold_rows: int
    cold_columns: int
    about_rows: str
    about_columns: str
    weighted: bool
    value: Spread
    mean: float
    std: float
    per_row: Spread
    per_column: Spread
    sampling_p: float
    even: bool


@dataclass(frozen=True)
class MethodFacts:
    """The method and the parameters that it ran with."""

    name: str
    likelihood: str
    """What values are."""
    hidden_deviance: float | None
    """Mean deviance of the entries from which the link was learned."""
    mu: float
    mu_asked: str
    center: str
    ranks: dict[str, float]
    row_kernel: str
    col_kernel: str
    solver: str
    iterations: int
    converged: bool
    status: str
    train_rmse: float
    signal_std: float | None
    noise_std: float | None


@dataclass(frozen=True)
class Path:
    """The error along a grid of ridge weights: leave-one-out or cross-validated."""

    criterion: str
    how: str
    observations: int
    sampled: bool
    mus: list[float]
    rmse: list[float | None]
    margin: list[float | None]
    best_mu: float
    best_rmse: float


@dataclass(frozen=True)
class Part:
    """Accuracy on hidden entries of one kind, beside two simple rules."""

    kind: str
    count: int
    method: Score
    mean: Score
    effects: Score
    best: str
    """The better of the two simple rules."""
    gain: float | None
    """Share of its error that the method takes off; negative if it adds."""
    clear: bool
    """Whether the difference is more than chance: two standard errors of the squared errors."""
    doubt: str | None
    """What is to be said beside these numbers where fits behind them did not converge."""
    observed: list[float]
    predicted: list[float]
    calibration: list[Calibration]
    """Entries in the order of their predictions, in groups; none where values are numbers."""


@dataclass(frozen=True)
class Calibration:
    """Entries with similar predictions: what was said of them, and what they were."""

    count: int
    said: float
    seen: float
    margin: float
    """Two standard errors of what was seen."""


@dataclass(frozen=True)
class Accuracy:
    """What was hidden, and how well it was predicted."""

    scheme: str
    folds: int
    seed: int
    parts: list[Part]
    ranking: RankingFigures | None


@dataclass(frozen=True)
class Uncertainty:
    """Where the intervals come from."""

    kind: str
    told: str
    level: float
    coverage: list[GroupCoverage]
    """How often they hold in groups of known rows and columns."""


@dataclass(frozen=True)
class Cells:
    """The table as a grid of cells; a cell is one entry, or the mean of a block of entries.

    ``values``, ``observed`` and ``width`` are base64 of little-endian 16-bit numbers, row by row:
    65535 is nothing, others stand for low + k (high - low) / 65534 of their own range.
    """

    rows: int
    columns: int
    row_edges: list[int]
    column_edges: list[int]
    averaged: bool
    row_labels: list[str]
    column_labels: list[str]
    values: str
    low: float
    high: float
    scale: list[float]
    """Values at which the colours begin and end."""
    observed: str
    """Share of the entries of each cell that were observed; its range is 0 to 1."""
    observed_most: float
    """The largest of these shares."""
    cold_rows: str
    cold_columns: str
    """Share of the rows (columns) of each cell without observations, in the same way."""
    width: str
    """Half the width of the interval, on a grid that may be coarser."""
    width_rows: int
    width_columns: int
    width_low: float
    width_high: float
    width_widest: bool
    """Whether some widths are infinite; they stand at 65534 like the largest."""


@dataclass(frozen=True)
class Contribution:
    """What one observation adds to a prediction."""

    row: str
    column: str
    value: float
    similarity: float
    contribution: float


@dataclass(frozen=True)
class Entry:
    """One entry, and why its prediction is what it is."""

    i: int
    j: int
    row: str
    column: str
    status: str
    predicted: float
    observed: float | None
    left_out: float | None
    """What was predicted while the entry was hidden."""
    lower: float | None
    upper: float | None
    base: float
    row_effect: float
    column_effect: float
    rest: float
    parts: list[Contribution]
    cancellation: float | None
    """How many times what there is to explain the parts add up to without their signs."""
    explained: bool
    """Whether the prediction is a sum of parts: an expected value behind a link is not."""


@dataclass(frozen=True)
class Guarantee:
    """The certificate."""

    low: float
    high: float
    delta: float
    value: float
    rmse: float | None
    train_loss: float
    valid: bool
    vacuous: bool
    sentence: str
    variance: float
    holdout_loss: float | None
    class_value: float | None
    new_sentence: str | None
    terms: dict[str, float]
    assumptions: list[tuple[str, str]]


@dataclass(frozen=True)
class SourceLine:
    """What one source is worth; see ``Completion.parts``."""

    axis: str
    label: str
    share: float
    loss: float
    loss_error: float
    new_loss: float
    new_error: float


@dataclass(frozen=True)
class Report:
    """All of it."""

    data: Data
    method: MethodFacts
    path: Path | None
    accuracy: Accuracy
    uncertainty: Uncertainty
    cells: Cells
    uncertain: list[Entry]
    surprising: list[Entry]
    guarantee: Guarantee | None
    environment: dict[str, str]
    sources: list[SourceLine] | None = None


def plain(thing: Any) -> Any:
    """Dataclasses as dicts, ready for JSON: NaN becomes None, infinities words."""
    if is_dataclass(thing):
        return {f.name: plain(getattr(thing, f.name)) for f in fields(thing)}
    if isinstance(thing, dict):
        return {str(key): plain(value) for key, value in thing.items()}
    if isinstance(thing, list | tuple):
        return [plain(value) for value in thing]
    if isinstance(thing, float):
        if math.isnan(thing):
            return None
        if math.isinf(thing):
            return "infinite" if thing > 0 else "-infinite"
        return float(thing)
    return thing
