r"""Numbers and categories of which some are missing.

A missing value is taken as one drawn at random from those of the other items, independently for
each item. The expected squared distance of two items is then that of their means, where a missing
value is replaced by the mean, plus the variance of each missing value, and the kernel is

.. math:: k(x, y) = \exp\left(-\frac{\lVert \bar x - \bar y \rVert^2 + v_x + v_y}{2 \ell^2}\right)
   = g_x \, g_y \exp\left(-\frac{\lVert \bar x - \bar y \rVert^2}{2 \ell^2}\right),

a product of two positive semidefinite kernels: what an item lacks makes it less similar to all
others, itself included. Without missing values it is :func:`~kronfill.kernels.rbf`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from kronfill._stored import Tests, anything, floats, of, positive, tuple_of
from kronfill._types import Floats
from kronfill.data.reading.column_kinds import code_text
from kronfill.data.reading.frames import frame_labels
from kronfill.kernels.base import Kernel
from kronfill.kernels.columns.encoding import KINDS, ColumnEncoder, FrameEncoder, columns_of
from kronfill.kernels.dotproduct import Linear
from kronfill.kernels.features import FeatureTable
from kronfill.kernels.stationary import RBF

__all__ = ["CompletenessEncoder", "GappyEncoder", "gappy_rbf"]


def gappy_rbf(frame: Any, codes: tuple[Any, ...] = (), *, impute: bool = False) -> Kernel:
    """Return the Gaussian kernel of a data frame in which values may be missing.

    Parameters
    ----------
    frame : DataFrame
        Numbers, booleans and categories, a line for each item; every column has a value.
    codes : tuple
        Columns of numbers that are categories.
    impute : bool, default=False
        Whether a missing value is taken for the mean, as if it were known.

    Returns
    -------
    Kernel
        New items are described by a data frame with the same columns.

    Examples
    --------
    >>> import pandas as pd
    >>> people = pd.DataFrame({"age": [20.0, 30.0, None], "city": ["Rome", "Oslo", "Rome"]})
    >>> gappy_rbf(people).to_array().round(2)
    array([[1.  , 0.37, 0.72],
           [0.37, 1.  , 0.51],
           [0.72, 0.51, 0.72]])
    """
    encoder, values = GappyEncoder.fit(frame, codes)
    labels = frame_labels(frame)
    kernel: Kernel = RBF(FeatureTable(values, labels, encoder), "median")
    if impute or not frame.isna().to_numpy().any():
        return kernel
    scale = float(kernel.length_scale)  # type: ignore[attr-defined]
    weights = CompletenessEncoder(encoder.columns, encoder.kinds, encoder.spreads(values), scale)
    return kernel * Linear(FeatureTable(weights.encode(frame), labels, weights))


@dataclass(frozen=True)
class GappyEncoder(ColumnEncoder):
    """Encodes columns as :class:`FrameEncoder` does, and puts means where values are missing."""

    inner: FrameEncoder
    fills: Floats
    """The mean of each encoded feature over the items that have it."""
    stored: ClassVar[Tests] = {"inner": of(FrameEncoder), "fills": floats(1)}

    def _fits_together(self) -> bool:
        return self.fills.shape == (self.inner.width,)

    @property
    def kinds(self) -> dict[str, list[Any]]:  # type: ignore[override]
        """The columns by what they hold."""
        return self.inner.kinds

    @property
    def columns(self) -> tuple[Any, ...]:
        """The columns."""
        return self.inner.columns

    @property
    def categories(self) -> tuple[tuple[str, ...], ...]:
        """The values of each column of categories."""
        return self.inner.categories

    @property
    def width(self) -> int:  # type: ignore[override]
        """Number of encoded features."""
        return self.inner.width

    @classmethod
    def fit(cls, frame: Any, codes: tuple[Any, ...]) -> tuple[GappyEncoder, Any]:
        """Learn how to encode a table, and return its encoded features too."""
        missing = frame.isna()
        known = frame.copy()
        for name in frame.columns:
            column = frame[name]
            if name in codes:
                known[name] = column.map(code_text, na_action="ignore")
            if missing[name].any():
                # Any value of the column will do: it is replaced once it is encoded.
                known[name] = known[name].where(~missing[name], known[name].dropna().iloc[0])
                known[name] = known[name].infer_objects()
        inner, values = FrameEncoder.fit(known, True, KINDS)
        if not missing.to_numpy().any():
            return cls(inner, np.zeros(inner.width)), values
        scaled = [*inner.kinds["number"], *inner.kinds["date"]]
        present = known[scaled].astype(np.float64).mask(missing[scaled])
        spread = present.std(ddof=0).to_numpy(dtype=np.float64)
        inner = replace(
            inner,
            centres=present.mean().to_numpy(dtype=np.float64),
            scales=np.where(spread > 0, spread, 1.0),
        )
        values = inner.encode(known)
        blank = cls(inner, np.zeros(inner.width))
        if not inner.dense:  # so many categories have means of about zero
            return blank, blank._filled(values, missing)
        fills = np.zeros(inner.width)
        for name, at in blank.slices().items():
            fills[at] = values[~missing[name].to_numpy(), at].mean(axis=0)
        found = cls(inner, fills)
        return found, found._filled(values, missing)

    def encode(self, new: Any) -> Any:
        """Return the features of new items as an array or a sparse matrix."""
        table = columns_of(new, self.columns)
        missing = table.isna()
        known = table.copy()
        kinds = self.inner.kinds
        for place, name in enumerate([*kinds["number"], *kinds["date"]]):
            if missing[name].any():
                usual = self.inner.centres[place]
                known[name] = known[name].astype(object).where(~missing[name], usual)
        for name in kinds["bool"]:
            known[name] = known[name].astype(object).where(~missing[name], False)
        for name in kinds["category"]:
            known[name] = known[name].astype(object).where(~missing[name], "").map(code_text)
        values = self.inner.encode(known.infer_objects())
        return self._filled(values, missing) if missing.to_numpy().any() else values

    def slices(self) -> dict[Any, slice]:
        """The encoded features of each column."""
        kinds = self.inner.kinds
        single = [*kinds["number"], *kinds["date"], *kinds["bool"]]
        found = {name: slice(k, k + 1) for k, name in enumerate(single)}
        first = len(single)
        for name, values in zip(kinds["category"], self.categories, strict=True):
            found[name] = slice(first, first + len(values))
            first += len(values)
        return found

    def _filled(self, values: Any, missing: Any) -> Any:
        if self.inner.dense:
            for name, at in self.slices().items():
                values[missing[name].to_numpy(), at] = self.fills[at]
            return values
        owner = np.empty(self.width, dtype=np.intp)
        for name, at in self.slices().items():
            owner[at] = missing.columns.get_loc(name)
        spots = values.tocoo()
        spots.data[missing.to_numpy()[spots.row, owner[spots.col]]] = 0.0
        values = spots.tocsr()
        values.eliminate_zeros()
        return values

    def spreads(self, values: Any) -> Floats:
        """The variance of each column in encoded features, as a missing value has it."""
        found = []
        for name, at in self.slices().items():
            if name in self.kinds["category"]:
                shares = self.fills[at]
                found.append(1.0 - float(shares @ shares))
            elif name in self.kinds["bool"]:
                share = float(self.fills[at][0])
                found.append(share * (1.0 - share))
            else:
                varies = np.ptp(
                    values[:, [at.start]].toarray() if sparse.issparse(values) else values[:, at]
                )
                found.append(float(varies > 0))
        order = list(self.slices())
        return np.array([found[order.index(name)] for name in self.columns])


@dataclass(frozen=True)
class CompletenessEncoder(ColumnEncoder):
    """What missing values leave of the similarity of an item: g of this module, 0 for nothing."""

    columns: tuple[Any, ...]
    kinds: dict[str, list[Any]]
    spreads: Floats
    """The variance of each column."""
    scale: float
    """The length scale of the kernel."""
    stored: ClassVar[Tests] = {
        "columns": tuple_of(anything),
        "kinds": of(dict),
        "spreads": floats(1),
        "scale": positive,
    }

    def _fits_together(self) -> bool:
        return self.spreads.shape == (len(self.columns),)

    @property
    def width(self) -> int:  # type: ignore[override]
        """One: g."""
        return 1

    def encode(self, new: Any) -> Any:
        """Return g of each item, as a column."""
        missing = columns_of(new, self.columns).isna().to_numpy()
        left = np.exp(-(missing @ self.spreads) / (2.0 * self.scale**2))
        return np.where(missing.all(axis=1), 0.0, left)[:, None]
