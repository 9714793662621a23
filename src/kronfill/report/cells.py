"""The completed table as a grid of cells that fits into a page, with its uncertainty."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kronfill._types import Floats, Index
from kronfill.completion.entries.intervals import Intervals
from kronfill.data import Observations
from kronfill.report.blocks import edges, filled_means, item_means, observed_share
from kronfill.report.content import Cells
from kronfill.report.labels import shown
from kronfill.report.uncertainty import LEVEL

__all__ = ["MOST", "NOTHING", "Widths", "decoded", "grid_shape", "table_cells", "widths"]


MOST = 160_000
"""Cells of the picture."""
SIDE = 400
"""Cells along a side, unless the other is short."""
LONGEST_SIDE = 2000
NOTHING = 65535
TOP = 65534


@dataclass(frozen=True, eq=False)
class Widths:
    """Half the width of the interval at one entry of each cell of a grid, row by row."""

    shape: tuple[int, int]
    rows: Index
    cols: Index
    lower: Floats
    upper: Floats
    predicted: Floats
    missing: NDArray[np.bool_]
    """Whether the entry was not observed."""
    single: bool
    """Whether each cell is one entry of the table."""

    @property
    def half(self) -> Floats:
        """Half the width; infinite where nothing bounds the value, NaN where there is none."""
        return np.where(np.isinf(self.upper), np.inf, (self.upper - self.lower) / 2)


def grid_shape(shape: tuple[int, int], most: int = MOST) -> tuple[int, int]:
    """Cells of a picture of a table: as many as it has entries, or fewer on each side."""
    n, l = shape
    side = min(SIDE, max(1, int(np.sqrt(most))))
    rows = min(n, side)
    cols = min(l, most // rows, LONGEST_SIDE)
    return min(n, most // cols, LONGEST_SIDE), cols


def widths(completion: Any, intervals: Intervals, most: int) -> Widths:
    """Intervals at the middle entry of each cell of a grid of at most ``most`` cells."""
    obs = completion.observations
    shape = grid_shape(obs.shape, most)
    middles = [
        (at[:-1] + at[1:] - 1) // 2
        for at in (edges(size, blocks) for size, blocks in zip(obs.shape, shape, strict=True))
    ]
    rows, cols = (part.ravel() for part in np.meshgrid(*middles, indexing="ij"))
    predicted = completion.model.predict(np.column_stack([rows, cols]))
    lower, upper, _ = intervals.at(rows, cols, predicted, LEVEL)
    return Widths(
        shape, rows, cols, lower, upper, predicted, ~_seen(obs, rows, cols), shape == obs.shape
    )


def _seen(obs: Observations, rows: Index, cols: Index) -> NDArray[np.bool_]:
    l = obs.shape[1]
    return np.isin(rows * l + cols, obs.rows.astype(np.intp) * l + obs.cols)


def table_cells(completion: Any, found: Widths) -> Cells:
    """The grid of values, of what was observed, and of uncertainty."""
    model, obs = completion.model, completion.observations
    n, l = obs.shape
    shape = grid_shape(obs.shape)
    rows, cols = edges(n, shape[0]), edges(l, shape[1])
    averaged = shape != obs.shape
    if averaged:
        values = filled_means(model, obs, rows, cols)
    else:
        values = model.predict_matrix()
        values[obs.rows, obs.cols] = obs.values
    low, high = float(values.min()), float(values.max())
    share = observed_share(obs, rows, cols)
    half = np.where(found.missing | (not found.single), found.half, np.nan)
    finite = half[np.isfinite(half)]
    most = float(finite.max()) if len(finite) else 0.0
    cold = [item_means((counts == 0).astype(float), at) for counts, at in
            ((obs.row_counts, rows), (obs.col_counts, cols))]  # fmt: skip
    return Cells(
        rows=shape[0],
        columns=shape[1],
        row_edges=rows.tolist(),
        column_edges=cols.tolist(),
        averaged=averaged,
        row_labels=_labels(obs.row_labels, rows),
        column_labels=_labels(obs.col_labels, cols),
        values=_encoded(values, low, high),
        low=low,
        high=high,
        scale=[float(q) for q in np.quantile(values, [0.01, 0.99])],
        observed=_encoded(share, 0.0, 1.0),
        observed_most=float(share.max()),
        cold_rows=_encoded(cold[0], 0.0, 1.0),
        cold_columns=_encoded(cold[1], 0.0, 1.0),
        width=_encoded(half, 0.0, most),
        width_rows=found.shape[0],
        width_columns=found.shape[1],
        width_low=0.0,
        width_high=most,
        width_widest=bool(np.isinf(half).any()),
    )


def _labels(labels: tuple[Any, ...] | None, bounds: Index) -> list[str]:
    """The label of each cell: its item, or the first and the last of its items."""
    ends = [(first, last - 1) for first, last in pairwise(bounds.tolist())]
    text = [tuple(shown(k if labels is None else labels[k]) for k in pair) for pair in ends]
    return [a if a == b else f"{a} … {b}" for a, b in text]


def _encoded(values: Floats, low: float, high: float) -> str:
    step = (high - low) or 1.0
    with np.errstate(invalid="ignore"):
        codes = np.clip(np.rint((values - low) / step * TOP), 0, TOP)
    codes = np.where(np.isnan(values), NOTHING, codes)
    return base64.b64encode(codes.astype("<u2").tobytes()).decode("ascii")


def decoded(text: str, low: float, high: float) -> Floats:
    """The numbers behind an encoded grid, NaN where there is nothing."""
    codes = np.frombuffer(base64.b64decode(text), "<u2")
    return np.where(codes == NOTHING, np.nan, low + codes * ((high - low) / TOP))
