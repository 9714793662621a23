"""What is known about one axis of a table, matched with its labels and made into a kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kronfill import kernels
from kronfill.data import Labels
from kronfill.errors import LabelError, ParameterError
from kronfill.kernels import Kernel

__all__ = ["IDENTITY", "NOTHING", "Axis", "read_axis"]

IDENTITY = 0.1
"""Weight of the identity part that is added to a kernel made from features or a graph."""
NOTHING = "nothing known"


@dataclass(frozen=True)
class Axis:
    """Labels of one axis and what is known about its items."""

    labels: Any
    kernel: Kernel | None
    features: Any
    told: str


def read_axis(side: Any, labels: Any, size: int, name: str, identity: float = IDENTITY) -> Axis:
    """Match the side information of one axis with the labels of the table."""
    if side is None:
        # Nothing is shared but a general level: a constant and an identity part.
        both = kernels.constant(size) + kernels.identity(size)
        return Axis(labels, both, None, NOTHING)
    if isinstance(side, Kernel):
        return _matched(side, labels, size, name, f"kernel {side!r}", features=None)
    if hasattr(side, "adjacency") and hasattr(side, "nodes"):
        kernel = kernels.diffusion(side)
        told = f"graph of {kernel.n} nodes"
        return _with_parts(_matched(kernel, labels, size, name, told, features=None), identity)
    if hasattr(side, "columns") and hasattr(side, "index"):
        if len(side.index) == len(side.columns) and set(side.index) == set(side.columns):
            kernel = kernels.precomputed(side)
            matched = _matched(kernel, labels, size, name, "similarity matrix", features=None)
            return _with_parts(matched, identity)
        return _with_parts(_featured(side, labels, size, name), identity)
    if hasattr(side, "to_frame") or hasattr(side, "to_pandas"):
        msg = (
            f"What is known about the {name}s is a {type(side).__name__}, which has no labels to "
            "match or no columns: give a pandas DataFrame whose index holds the labels "
            "(Series.to_frame(), to_pandas().set_index(...))."
        )
        raise ParameterError(msg)
    kernel = kernels.as_kernel(side, f"{name}s")
    matched = _matched(kernel, labels, size, name, "similarity matrix", features=None)
    return _with_parts(matched, identity)


def _featured(side: Any, labels: Any, size: int, name: str) -> Axis:
    told = f"{side.shape[1]} features of {len(side)} items"
    order, merged = _order(Labels(side.index, axis=name), labels, name)
    ordered = side.iloc[order]
    # A constant feature gives IMC the effects of the other axis, as the constant part does kernels.
    return Axis(merged, kernels.rbf(ordered), ordered.assign(**{"(constant)": True}), told)


def _matched(kernel: Kernel, labels: Any, size: int, name: str, told: str, features: Any) -> Axis:
    if kernel.labels is None:
        if kernel.n != size:
            msg = (
                f"The {name} kernel has {kernel.n} items without labels, the table has {size} "
                f"{name}s: give one item per {name} in the order of the table, or labels."
            )
            raise LabelError(msg)
        return Axis(labels, kernel, features, told)
    order, merged = _order(Labels(kernel.labels, axis=name), labels, name)
    return Axis(merged, kernel.take(order), features, told)


def _order(known: Labels, labels: Any, name: str) -> tuple[NDArray[np.intp], tuple[Any, ...]]:
    """Positions in the side information of the table's labels, then of those only it has."""
    missing = [label for label in labels if label not in known]
    if missing:
        msg = (
            f"{len(missing)} of {len(labels)} {name} labels of the table are not in what is known "
            f"about the {name}s, such as {', '.join(map(repr, missing[:3]))}. The {name} labels "
            f"there are like {', '.join(map(repr, list(known)[:3]))}. Add the missing ones or drop "
            f"these {name}s from the table."
        )
        raise LabelError(msg)
    own = set(labels)
    merged = (*labels, *(label for label in known if label not in own))
    return known.index(merged), merged


def _with_parts(axis: Axis, identity: float) -> Axis:
    kernel = axis.kernel
    if kernel is None:
        return axis
    size = float(kernel.diagonal().mean()) or 1.0
    parts = kernel + size * kernels.constant(kernel.n)
    if identity > 0:
        parts = parts + identity * size * kernels.identity(kernel.n)
    return Axis(axis.labels, parts, axis.features, axis.told)
