"""Kernels of features with other scales: how much each feature counts.

A kernel that is, but for a factor of each item, a function of a distance of features can be
stretched: its features multiplied by numbers, one for each column of a table.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from kronfill._types import Floats, Index
from kronfill.data.reading.column_kinds import place_columns
from kronfill.kernels.algebra import Product, Scaled
from kronfill.kernels.base import Kernel
from kronfill.kernels.columns.gaps import GappyEncoder
from kronfill.kernels.dotproduct import Linear
from kronfill.kernels.mapped import Mapped
from kronfill.kernels.sources import SourceKernel
from kronfill.kernels.stationary import RBF, Matern, median_distance

__all__ = [
    "feature_groups", "feature_points", "localized", "roughened", "straightened", "stretchable",
    "stretched",
]  # fmt: skip

MOST_GROUPS = 30
"""With more features than this all are stretched alike."""
FAINT = 1e-4
"""How much features beside the place count where the place alone is to tell."""


def stretchable(kernel: Kernel) -> RBF | Matern | None:
    """The kernel of features within a kernel that can be stretched, None if it cannot.

    Examples
    --------
    >>> import kronfill as kf
    >>> from kronfill.kernels.stretching import stretchable
    >>> kernel = kf.kernels.rbf([[0.0, 1.0], [2.0, 3.0]])
    >>> stretchable(2.0 * kernel) is kernel
    True
    >>> stretchable(kf.kernels.identity(3)) is None
    True
    """
    if isinstance(kernel, RBF | Matern):
        return None if sparse.issparse(kernel.table.values) else kernel
    if isinstance(kernel, Scaled | SourceKernel | Mapped):
        return stretchable(kernel.base)
    if isinstance(kernel, Product) and len(kernel.parts) == 2:
        first, second = kernel.parts
        if isinstance(second, Linear) and second.table.width == 1:  # a factor for each item
            return stretchable(first)
    return None


def feature_points(kernel: Kernel) -> Floats:
    """Coordinates of the items of a kernel that can be stretched, zero where none are known."""
    if isinstance(kernel, SourceKernel):
        inner = feature_points(kernel.base)
        known = kernel.known
        points = np.zeros((kernel.n, inner.shape[1]))
        points[known] = inner[kernel.place[known]]
        return points
    if isinstance(kernel, Scaled | Mapped):
        return feature_points(kernel.base)
    if isinstance(kernel, Product):
        return feature_points(kernel.parts[0])
    assert isinstance(kernel, RBF | Matern)
    return np.asarray(kernel.table.values)


def feature_groups(kernel: Kernel) -> Index:
    """For each coordinate which of the scales is its own: one for each column of a table.

    Categories, which have a coordinate for each value, share one; so do all the coordinates that
    are computed from something else.
    """
    if isinstance(kernel, Scaled | SourceKernel):
        return feature_groups(kernel.base)
    if isinstance(kernel, Product):
        return feature_groups(kernel.parts[0])
    core = stretchable(kernel)
    assert core is not None
    width = core.table.width
    groups = np.zeros(width, dtype=np.intp)
    if isinstance(kernel, Mapped):
        return groups
    encoder = core.table.encoder
    if isinstance(encoder, GappyEncoder):
        for k, at in enumerate(encoder.slices().values()):
            groups[at] = k
    else:
        groups = np.arange(width)
    return groups if groups.max() < MOST_GROUPS else np.zeros(width, dtype=np.intp)


def stretched(kernel: Kernel, scales: Floats) -> Kernel:
    """The kernel with each group of features multiplied by its scale.

    Examples
    --------
    >>> import numpy as np, kronfill as kf
    >>> from kronfill.kernels.stretching import stretched
    >>> kernel = kf.kernels.rbf(np.array([[0.0, 0.0], [1.0, 1.0]]), 1.0)
    >>> wide = stretched(kernel, np.array([0.5, 2.0]))
    >>> np.isclose(wide.block()[0, 1], np.exp(-(0.25 + 4.0) / 2))
    np.True_
    """
    factors = scales[feature_groups(kernel)]
    return _rebuilt(kernel, lambda core: _with_factors(core, factors))


def roughened(kernel: Kernel, shorter: float) -> Kernel:
    """The same with exp(-r) of the distance r for exp(-r^2 / 2), over lengths so much shorter."""

    def rough(core: Kernel) -> Kernel:
        assert isinstance(core, RBF | Matern)
        kept = {**core.__dict__, "nu": 0.5}
        made = object.__new__(Matern)
        made._set(**kept)
        return _with_factors(made, np.full(core.table.width, shorter))

    return _rebuilt(kernel, rough)


def localized(kernel: Kernel) -> Kernel | None:
    """The same over places alone; None if no columns, or all of them, are coordinates of a place.

    Items near each other are alike for reasons that no other feature may mention.

    Examples
    --------
    >>> import pandas as pd
    >>> from kronfill.kernels.columns.gaps import gappy_rbf
    >>> from kronfill.kernels.stretching import localized
    >>> docks = pd.DataFrame({"lat": [1.0, 2.0, 2.0], "lon": [5.0, 5.0, 4.0], "size": [9, 1, 5]})
    >>> localized(gappy_rbf(docks)).to_array().round(2)
    array([[1.  , 0.61, 0.37],
           [0.61, 1.  , 0.61],
           [0.37, 0.61, 1.  ]])
    """
    core = stretchable(kernel)
    encoder = None if core is None else core.table.encoder
    if core is None or not isinstance(encoder, GappyEncoder):
        return None
    columns = encoder.slices()
    places = place_columns(encoder.kinds["number"])
    if not places or len(places) == len(columns):
        return None
    here = np.concatenate([np.arange(core.table.width)[columns[name]] for name in places])
    factors = np.full(core.table.width, FAINT)
    factors[here] = 1.0 / median_distance(np.asarray(core.table.values)[:, here])
    return _rebuilt(kernel, lambda inner: _with_factors(inner, factors))


def straightened(kernel: Kernel) -> Kernel:
    """The linear kernel of the same features."""

    def linear(core: Kernel) -> Kernel:
        assert isinstance(core, RBF | Matern)
        centre = 0.0 if core._centre is None else core._centre
        values = core.table.values * core.length_scale + centre
        return Linear(core.table.with_values(values))

    return _rebuilt(kernel, linear)


def _rebuilt(kernel: Kernel, change: Any) -> Kernel:
    if isinstance(kernel, Scaled | SourceKernel | Mapped):
        return kernel._with(base=_rebuilt(kernel.base, change))
    if isinstance(kernel, Product):
        first, second = kernel.parts
        return kernel._with(parts=(_rebuilt(first, change), second))
    made: Kernel = change(kernel)
    return made


def _with_factors(core: Any, factors: Floats) -> Kernel:
    """Coordinates multiplied by numbers, which divides their length scales."""
    table = core.table
    scale = np.broadcast_to(core.length_scale, factors.shape) / factors
    made: Kernel = core._with(
        length_scale=np.array(scale), _table=table.with_values(table.values * factors)
    )
    return made
