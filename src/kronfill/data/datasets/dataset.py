"""What every real data set has: a table, what is known about both sides, and where it is from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Dataset", "Published"]


@dataclass(frozen=True)
class Published:
    """A result that others report on a data set.

    Parameters
    ----------
    method : str
        Their method.
    rmse, mae, seconds : float or None
        Root mean square error, mean absolute error and running time, where they are reported.
    protocol : str
        Which entries were hidden.
    source : str
        Where the figures are from.

    Examples
    --------
    >>> from kronfill.data import datasets
    >>> datasets.Published("their method", 1.5, None, None, "a random half", "their paper").rmse
    1.5
    """

    method: str
    rmse: float
    mae: float | None
    seconds: float | None
    protocol: str
    source: str


@dataclass(frozen=True, eq=False)
class Dataset:
    """A table with what is known about its rows and columns, and where it comes from.

    Parameters
    ----------
    name : str
        What it is called in tables.
    table : DataFrame
        The values; NaN is missing.
    rows, cols : object
        What is known about each axis, by the labels of the table; each loader says in which form.
    attribution : str
        Where the data come from, how they were prepared, and what to mind.
    citation : str
        The publication to cite.
    licence : str
        The licence they are distributed under.
    published : tuple of Published
        Results of others.
    test_masks : tuple of bool arrays, each of the shape of the table
        The entries that published protocols hide, one array per fold; empty if there are none.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from kronfill.data import datasets
    >>> table = pd.DataFrame([[1.0, np.nan]], index=["a"], columns=["x", "y"])
    >>> data = datasets.Dataset(
    ...     "tiny", table, None, None, "made here", "nobody", "none", (), ()
    ... )
    >>> data
    Dataset(tiny: 1 x 2, 1 entry known)
    """

    name: str
    table: pd.DataFrame
    rows: Any
    cols: Any
    attribution: str = field(repr=False)
    citation: str = field(repr=False)
    licence: str = field(repr=False)
    published: tuple[Published, ...]
    test_masks: tuple[NDArray[np.bool_], ...]

    def __repr__(self) -> str:
        n, l = self.table.shape
        known = int(self.table.notna().to_numpy().sum())
        noun = "entry" if known == 1 else "entries"
        return f"{type(self).__name__}({self.name}: {n} x {l}, {known:,} {noun} known)"
