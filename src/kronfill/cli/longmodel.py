"""A saved model that has kept no observations: of a streamed table, or fed by partial_fit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from kronfill._types import Index
from kronfill.completion.details import CHUNK, STATUS, EntryDetails
from kronfill.completion.intervals import Intervals
from kronfill.errors import ParameterError
from kronfill.estimators.longtables import without_observations

__all__ = ["LongCompletion"]


@dataclass(frozen=True)
class _Items:
    """Labels and numbers of rows and columns, in place of observations."""

    shape: tuple[int, int]
    row_labels: Any
    col_labels: Any


class LongCompletion(EntryDetails):
    """Predictions of such a model by label, without status and intervals.

    Parameters
    ----------
    model : KKMCEX or RRMCEX
        Fitted to a long table, or by partial_fit.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        labels = [
            range(size) if kernel is None or kernel.labels is None else kernel.labels
            for size, kernel in zip(model.shape_, model._kernels, strict=True)
        ]
        self.observations: Any = _Items(model.shape_, *labels)

    def __repr__(self) -> str:
        n, l = self.observations.shape
        name = type(self.model).__name__
        return (
            f"{n:,} rows x {l:,} columns by {name} (mu = {self.model.mu_:.3g}); "
            f"{without_observations(self.model)}"
        )

    @property
    def _index(self) -> tuple[Any, Any]:
        import pandas as pd

        items = self.observations
        row, col = (
            pd.Index(list(some), tupleize_cols=False)
            for some in (items.row_labels, items.col_labels)
        )
        return row, col

    def iter_predictions(
        self,
        pairs: tuple[Index, Index] | None = None,
        *,
        rows: Any = None,
        cols: Any = None,
        level: float = 0.9,
        intervals: str = "auto",
        chunk: int = CHUNK,
    ) -> Iterator[Any]:
        """See :class:`EntryDetails`: row, column and value only."""
        if intervals not in ("auto", "none"):
            msg = (
                f"The model has no intervals, for {without_observations(self.model)}: leave "
                f"--intervals {intervals} out."
            )
            raise ParameterError(msg)
        blocks = super().iter_predictions(
            pairs, rows=rows, cols=cols, level=level, intervals="none", chunk=chunk
        )
        return (block[["row", "column", "value"]] for block in blocks)

    def _described(self, at_r: Index, at_c: Index, level: float, intervals: Intervals) -> Any:
        import pandas as pd

        value = self.model.predict(np.column_stack([at_r, at_c])) if len(at_r) else np.empty(0)
        index, columns = self._index
        unknown = np.full(len(value), np.nan)
        return pd.DataFrame(
            {
                "row": index.take(at_r),
                "column": columns.take(at_c),
                "value": value,
                "status": pd.Categorical.from_codes(
                    np.ones(len(value), np.int8), categories=pd.Index(STATUS)
                ),
                "lower": unknown,
                "upper": unknown,
                "std": unknown,
            }
        )
