"""Real data as (values, a kernel and features per axis), for the studies of intervals and choices.

Parts of the tables, with kernels fixed beforehand: what is studied there is not the kernels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import kronfill as kf
from kronfill.bench.problems import leading_columns, standardised, with_constant, with_identity


@dataclass(frozen=True)
class Real:
    """A table (NaN is missing), a kernel and features per axis."""

    name: str
    values: np.ndarray
    row_kernel: object
    col_kernel: object
    row_features: np.ndarray
    col_features: np.ndarray


def bixi(stations=150, days=100):
    """log(1 + trips) of some stations and days, drawn with a fixed seed."""
    data = kf.datasets.load_bixi()
    rng = np.random.default_rng(0)
    i = np.sort(rng.choice(len(data.stations), size=stations, replace=False))
    j = np.arange(days)
    place = standardised(data.stations.to_numpy(float)[i])
    weather = standardised(data.days.to_numpy(float)[j])
    row = with_own_part(kf.kernels.rbf(place[:, :2]) + kf.kernels.rbf(place))
    time = kf.kernels.rbf(j.astype(float), length_scale=3.0)
    week = kf.kernels.periodic(j.astype(float), period=7.0, length_scale=1.0)
    col = with_own_part(time + week + kf.kernels.rbf(weather))
    values = np.log1p(data.trips.to_numpy(float)[np.ix_(i, j)])
    return Real("BIXI", values, row, col, place, weather)


def drug_response():
    """log IC50 of 124 drugs and 124 cell lines; the kernels are the means of all given ones."""
    data = kf.datasets.load_drug_response()
    kernels = []
    for side in (data.rows, data.cols):
        mean = np.mean([frame.to_numpy() for frame in side.values()], axis=0)
        kernels.append(kf.kernels.precomputed(kf.kernels.nearest_psd(mean)))
    features = [leading_columns(kernel) for kernel in kernels]
    values = data.table.to_numpy(float)
    return Real("drug response", values, *map(with_own_part, kernels), *features)


def seattle(sensors=120, hours=120):
    """Speeds of the first sensors in the first five days."""
    data = kf.datasets.load_seattle()
    links = data.rows.to_numpy(float)[:sensors, :sensors]
    roads = kf.kernels.diffusion(links, 2.0).normalized()
    hour = np.arange(hours, dtype=float)
    near = kf.kernels.rbf(hour, length_scale=2.0)
    col = with_own_part(near + kf.kernels.periodic(hour, period=24.0, length_scale=0.5))
    clock = 2 * np.pi * hour / 24
    features = np.column_stack([np.sin(clock), np.cos(clock), hour / hours])
    values = data.table.to_numpy(float)[:sensors, :hours]
    return Real("Seattle", values, with_own_part(roads), col, leading_columns(roads), features)


ALL = {"drug": drug_response, "bixi": bixi, "seattle": seattle}


def with_own_part(kernel):
    """A constant part, so that features can tell a level, and an identity part."""
    return with_identity(with_constant(kernel))
