"""Real data sets as problems: values, kernels and features of both axes, and whose results."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kronfill import kernels
from kronfill._types import Floats
from kronfill.data.datasets import Published, load_bixi, load_drug_response, load_seattle
from kronfill.kernels import Kernel

__all__ = [
    "LOADERS",
    "BenchProblem",
    "leading_columns",
    "standardised",
    "with_constant",
    "with_identity",
]

OWN = 0.3
"""Weight of the identity part."""


@dataclass(frozen=True, eq=False)
class BenchProblem:
    """A table and what each method knows about its rows and columns."""

    name: str
    unit: str
    """What the values are."""
    values: Floats
    """NaN is missing."""
    row_kernel: Kernel
    col_kernel: Kernel
    """What is known, with a constant part and without an identity part."""
    row_features: Floats
    col_features: Floats
    """The same for methods that take features."""
    test_masks: tuple[NDArray[np.bool_], ...] = ()
    """The entries that published protocols hide; empty if there are none."""
    published: tuple[Published, ...] = ()
    """Results of others."""
    note: str = ""
    """What part of the data is used, if not all."""

    def kernels(self) -> tuple[Kernel, Kernel]:
        """Both kernels with an identity part."""
        return with_identity(self.row_kernel), with_identity(self.col_kernel)

    def features(self) -> tuple[Floats, Floats]:
        """The features of both axes."""
        return self.row_features, self.col_features


def bixi(quick: bool, data_home: Any = None) -> BenchProblem:
    """log(1 + departures): stations by place and surroundings, days by date, week and weather."""
    data = load_bixi()
    n, l = (60, 35) if quick else data.table.shape
    at = _spread(len(data.table), n)
    place = standardised(data.stations.to_numpy(dtype=float)[at])
    weather = standardised(data.days.to_numpy(dtype=float)[:l])
    time = np.arange(l, dtype=float)
    week = kernels.periodic(time, period=7.0, length_scale=1.0)
    days = kernels.rbf(time, length_scale=3.0) + week + kernels.rbf(weather)
    clock = np.column_stack([weather, np.eye(7)[np.arange(l) % 7]])
    return BenchProblem(
        name=data.name,
        unit="log(1 + departures)",
        values=np.log1p(data.table.to_numpy(dtype=float)[at, :l]),
        row_kernel=with_constant(kernels.rbf(place[:, :2]) + kernels.rbf(place)),
        col_kernel=with_constant(days),
        row_features=_with_one(place),
        col_features=_with_one(clock),
        published=data.published,
        note=f"{n} stations, {l} days" if quick else "",
    )


def seattle(quick: bool, data_home: Any = None) -> BenchProblem:
    """Speeds: sensors by the graph of roads, hours by nearness and time of day."""
    data = load_seattle(data_home)
    n, l = (60, 48) if quick else data.table.shape
    time = np.arange(l, dtype=float)
    at = _spread(len(data.table), n)
    # Ways through the sensors that are left out count.
    row = with_constant(kernels.diffusion(data.rows, 2.0).normalized().take(at))
    daily = kernels.periodic(time, period=24.0, length_scale=0.5)
    clock = 2 * np.pi * time / 24
    waves = [wave(k * clock) for k in (1, 2, 3) for wave in (np.sin, np.cos)]
    return BenchProblem(
        name=data.name,
        unit="miles per hour",
        values=data.table.to_numpy(dtype=float)[at, :l],
        row_kernel=row,
        col_kernel=with_constant(kernels.matern(time, length_scale=2.0) + daily),
        row_features=_with_one(leading_columns(row)),
        col_features=_with_one(np.column_stack([*waves, time / l])),
        test_masks=tuple(mask[at, :l] for mask in data.test_masks),
        published=data.published,
        note=f"{n} sensors, the first {l // 24} days" if quick else "",
    )


def drug_response(quick: bool, data_home: Any = None) -> BenchProblem:
    """log IC50: drugs and cell lines by the mean of the kernels that are given for them."""
    data = load_drug_response(data_home)
    n, l = (50, 50) if quick else data.table.shape
    rows, cols = _spread(len(data.table), n), _spread(len(data.table.columns), l)
    row, col = _mean(data.rows, rows), _mean(data.cols, cols)
    return BenchProblem(
        name=data.name,
        unit="log IC50",
        values=data.table.to_numpy(dtype=float)[np.ix_(rows, cols)],
        row_kernel=row,
        col_kernel=col,
        row_features=_with_one(leading_columns(row)),
        col_features=_with_one(leading_columns(col)),
        test_masks=tuple(mask[np.ix_(rows, cols)] for mask in data.test_masks),
        published=data.published,
        note=f"{n} drugs, {l} cell lines" if quick else "",
    )


LOADERS: dict[str, Callable[[bool, str | os.PathLike[str] | None], BenchProblem]] = {
    "bixi": bixi,
    "seattle": seattle,
    "drug response": drug_response,
}


def _mean(side: dict[str, Any], at: NDArray[np.intp]) -> Kernel:
    """Return the mean of the kernels that are given for an axis, at some of its items."""
    mean = np.mean([kernel.to_numpy() for kernel in side.values()], axis=0)
    return with_constant(kernels.precomputed(mean[np.ix_(at, at)]))


def with_constant(kernel: Kernel) -> Kernel:
    """Add a constant part, so that what is known about the other axis can tell a level."""
    return kernel + kernels.constant(kernel.n)


def with_identity(kernel: Kernel) -> Kernel:
    """Add an identity part, so that an item may differ from what is known about it."""
    return kernel + OWN * kernels.identity(kernel.n)


def standardised(features: Floats) -> Floats:
    """Columns of mean 0 and variance 1."""
    spread = features.std(axis=0)
    return np.asarray((features - features.mean(axis=0)) / np.where(spread > 0, spread, 1.0))


def _with_one(features: Floats) -> Floats:
    return np.column_stack([features, np.ones(len(features))])


def leading_columns(kernel: Kernel, count: int = 20) -> Floats:
    """Features for a method that takes no kernel: the leading columns of a factor."""
    return np.ascontiguousarray(kernel.factor().phi[:, :count])


def _spread(total: int, count: int) -> NDArray[np.intp]:
    """Return `count` positions spread evenly over `total`."""
    return np.linspace(0, total - 1, count).astype(np.intp)
