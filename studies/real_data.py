"""Real data as (values, row kernel, column kernel), for the studies of this folder.

BIXI comes with the package. The others are looked for in the directory that the variable
KRONFILL_DATA names, in the folders ``drug_response`` and ``seattle``.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.io
import scipy.sparse

import kronfill as kf


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
    place = standardised(data.stations.to_numpy(dtype=float)[i])
    weather = standardised(data.days.to_numpy(dtype=float)[j])
    row = with_own_part(kf.kernels.rbf(place[:, :2]) + kf.kernels.rbf(place))
    time = kf.kernels.rbf(j.astype(float), length_scale=3.0)
    week = kf.kernels.periodic(j.astype(float), period=7.0, length_scale=1.0)
    col = with_own_part(time + week + kf.kernels.rbf(weather))
    values = np.log1p(data.trips.to_numpy(dtype=float)[np.ix_(i, j)])
    return Real("BIXI", values, row, col, place, weather)


def drug_response():
    """log IC50 of 124 drugs and 124 cell lines; the kernels are the means of all given ones."""
    folder = data_folder("drug_response")
    values = np.loadtxt(folder / "Labels.txt")
    kernels = []
    for part in ("Drug_kernels/Kd_*.txt", "Cell_line_kernels/Kc_*.txt"):
        mean = np.mean([np.loadtxt(path) for path in sorted(folder.glob(part))], axis=0)
        kernels.append(kf.kernels.precomputed(kf.kernels.nearest_psd(mean)))
    features = [np.ascontiguousarray(k.factor().phi[:, :20]) for k in kernels]
    values = values.reshape(124, 124) if values.ndim == 1 else values
    return Real("drug response", values, *map(with_own_part, kernels), *features)


def seattle(hours=240):
    """Speeds of 323 road sensors in the first ten days."""
    folder = data_folder("seattle")
    values = array_in(folder / "sedata_amonth_matrix.mat")[:, :hours].astype(float)
    links = array_in(folder / "seattle_adj.mat").astype(float)
    np.fill_diagonal(links, 0.0)
    row = with_own_part(kf.kernels.diffusion(np.maximum(links, links.T), 2.0).normalized())
    hour = np.arange(hours, dtype=float)
    near = kf.kernels.rbf(hour, length_scale=2.0)
    col = with_own_part(near + kf.kernels.periodic(hour, period=24.0, length_scale=0.5))
    clock = 2 * np.pi * hour / 24
    features = np.column_stack([np.sin(clock), np.cos(clock), hour / hours])
    return Real(
        "Seattle", values, row, col, np.ascontiguousarray(row.factor().phi[:, :20]), features
    )


ALL = {"bixi": bixi, "drug": drug_response, "seattle": seattle}


def with_own_part(kernel):
    """A constant part, so that features can tell a level, and an identity part."""
    return kernel + kf.kernels.constant(kernel.n) + 0.3 * kf.kernels.identity(kernel.n)


def standardised(features):
    spread = features.std(axis=0)
    return (features - features.mean(axis=0)) / np.where(spread > 0, spread, 1.0)


def array_in(path):
    """The only array of a MATLAB file."""
    (array,) = [part for key, part in scipy.io.loadmat(path).items() if not key.startswith("__")]
    return np.asarray(array.todense() if scipy.sparse.issparse(array) else array)


def data_folder(name):
    place = os.environ.get("KRONFILL_DATA")
    if not place or not (Path(place) / name).is_dir():
        message = f"no folder {name}: set KRONFILL_DATA to the directory that has it"
        raise SystemExit(message)
    return Path(place) / name
