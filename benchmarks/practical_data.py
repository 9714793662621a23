"""Real tables in the form of the synthetic ones: arrays in a file that any library can read.

Names: ``train`` and ``test`` (index pairs), ``y`` and ``y_test``, ``shape``; of both axes
``row_side`` and ``col_side`` (a similarity matrix, or features where ``row_kind`` is "features"),
and ``row_features`` and ``col_features`` for libraries without kernels. ``number`` is the axis
whose items are numbers, such as hours, or -1.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.practical_problems import Practical

COLUMNS = 32
"""Columns of features that are made of a similarity matrix."""


def leading_columns(similarity: np.ndarray, count: int = COLUMNS) -> np.ndarray:
    """The leading eigenvectors of a similarity matrix, each by the root of its eigenvalue."""
    lam, vec = np.linalg.eigh(similarity)
    return (vec * np.sqrt(np.maximum(lam, 0)))[:, ::-1][:, :count]


def synthetic(table: Practical) -> dict:
    """A made table."""
    train, y, test, y_test = table.data()
    found = {"train": train, "y": y, "test": test, "y_test": y_test, "shape": table.shape}
    found["number"] = table.kinds.index("time") if "time" in table.kinds else -1
    for name, axis in zip(("row", "col"), table.axes, strict=True):
        natural = axis.kind in ("features", "tanimoto")
        kind = "features" if axis.kind == "features" else "similarity"
        features = axis.features if natural else leading_columns(axis.similarity)
        side = axis.features if kind == "features" else axis.similarity
        found |= {f"{name}_kind": kind, f"{name}_side": side, f"{name}_features": features}
    return found


def _split(values: np.ndarray, hidden: np.ndarray) -> dict:
    parts = [np.argwhere(~np.isnan(values) & part) for part in (~hidden, hidden)]
    names = (("train", "y"), ("test", "y_test"))
    found = {"shape": values.shape, "number": -1}
    for (pairs, held), part in zip(names, parts, strict=True):
        found |= {pairs: part, held: values[tuple(part.T)]}
    return found


def _with_kernels(found: dict, row: np.ndarray, col: np.ndarray) -> dict:
    for name, side in (("row", row), ("col", col)):
        found[f"{name}_kind"], found[f"{name}_side"] = "similarity", side
        found[f"{name}_features"] = leading_columns(side)
    return found


def _of_bench(name: str) -> dict:
    """A data set of ``kronfill bench``: its first published split, or a random tenth."""
    from kronfill.bench.problems import LOADERS

    problem = LOADERS[name](False, None)
    hidden = np.random.default_rng(0).random(problem.values.shape) < 0.1
    hidden = problem.test_masks[0] if problem.test_masks else hidden
    found = _split(problem.values, hidden)
    found = _with_kernels(
        found, problem.row_kernel.block(None, None), problem.col_kernel.block(None, None)
    )
    found["row_features"], found["col_features"] = problem.features()
    return found | {"number": {"bixi": 1, "seattle": 1}.get(name, -1)}


def _folder(name: str) -> Path:
    home = Path(os.environ.get("KRONFILL_DATA", "data")) / name
    if not home.is_dir():
        raise FileNotFoundError(f"{name} is not in the folder that KRONFILL_DATA names")
    return home


def davis() -> dict:
    """68 drugs x 442 kinases, pKd; similarities made positive semidefinite."""
    home = _folder("davis")
    values = 9 - np.log10(
        np.loadtxt(home / "drug-target_interaction_affinities_Kd__Davis_et_al.2011v1.txt")
    )
    hidden = np.zeros(values.size, bool)
    hidden[json.loads((home / "test_fold_setting1.txt").read_text())] = True
    sides = []
    for file in ("drug-drug_similarities_2D.txt", "target-target_similarities_WS.txt"):
        raw = np.loadtxt(home / file)
        root = np.sqrt(np.diagonal(raw))
        raw = raw / root[:, None] / root
        lam, vec = np.linalg.eigh((raw + raw.T) / 2)
        sides.append((vec * np.maximum(lam, 0)) @ vec.T)
    return _with_kernels(_split(values, hidden.reshape(values.shape)), *sides)


def flixster() -> dict:
    """3000 x 3000 ratings, graphs of users and items: regularised Laplacians."""
    home = _folder("flixster")
    lines = [line.split(",") for line in (home / "ratings.csv").read_text().split()[1:]]
    values = np.full((3000, 3000), np.nan)
    hidden = np.zeros(values.shape, bool)
    for user, item, rating, part in lines:
        values[int(user), int(item)] = float(rating)
        hidden[int(user), int(item)] = part == "test"
    sides = []
    for file in ("user_graph.csv", "item_graph.csv"):
        one, other, weight = np.loadtxt(home / file, delimiter=",", skiprows=1).T
        edges = np.zeros((3000, 3000))
        edges[one.astype(int), other.astype(int)] = weight
        edges = np.maximum(edges, edges.T)
        root = 1 / np.sqrt(np.maximum(edges.sum(axis=1), 1e-9))
        kernel = np.linalg.inv(3.0 * np.eye(3000) - 2.0 * root[:, None] * edges * root)
        sides.append(kernel / np.diagonal(kernel).mean())
    return _with_kernels(_split(values, hidden), *sides)


REAL: dict[str, Callable[[], dict]] = {
    "BIXI": lambda: _of_bench("bixi"),
    "Seattle": lambda: _of_bench("seattle"),
    "Davis": davis,
    "drug response": lambda: _of_bench("drug response"),
    "Flixster": flixster,
}


def write(table: Practical | str, path: Path) -> dict:
    """Write the arrays of a table; what the page says about it."""
    found = REAL[table]() if isinstance(table, str) else synthetic(table)
    np.savez(path, **found)
    name = table if isinstance(table, str) else table.name
    return {"name": name, "shape": [int(n) for n in found["shape"]], "m": len(found["y"])}


def read(path: str) -> dict:
    """The arrays of a table."""
    with np.load(path) as found:
        arrays = {name: found[name] for name in found.files}
    single = {name: arrays[name].item() for name in ("row_kind", "col_kind", "number")}
    return arrays | single | {"shape": tuple(int(n) for n in arrays["shape"])}
