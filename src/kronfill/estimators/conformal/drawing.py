"""Which observations are left out, which belong together, and whether they are a fair sample."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from kronfill._types import Flags, Index
from kronfill.data import Observations
from kronfill.data.arrays import plain_array
from kronfill.errors import KronfillWarning, ParameterError
from kronfill.estimators.base import checked_kernels
from kronfill.estimators.inputs import random_generator
from kronfill.kernels.base import Kernel
from kronfill.masks import uniformity_where_known

__all__ = ["drawn_entries", "drawn_folds", "group_codes", "mask_kernels", "warn_if_uneven"]


def drawn_entries(m: int, share: float, random_state: Any) -> Flags:
    """Which of m observations are left out: a share of them, one at least, not all."""
    held = np.zeros(m, dtype=bool)
    count = min(max(1, round(float(share) * m)), m - 1)
    held[random_generator(random_state).choice(m, size=count, replace=False)] = True
    return held


def drawn_folds(m: int, folds: int, random_state: Any) -> Index:
    """The fold of each of m observations."""
    return np.asarray(random_generator(random_state).permutation(m) % min(folds, m))


def warn_if_uneven(observations: Observations, advice: str) -> None:
    """Warn if intervals that rest on uniform sampling are made from a mask that looks otherwise."""
    test = uniformity_where_known(observations)
    if not test.compatible:
        message = (
            f"The observed entries are no uniform sample of the table (p = {test.p_value:.1g} from "
            "row and column counts), on which intervals and sets that count all errors alike rest: "
            f"rows that are rarely observed may be covered less often. {advice}"
        )
        warnings.warn(message, KronfillWarning, stacklevel=4)


def group_codes(groups: Any, shape: tuple[int, int]) -> tuple[Index | None, Index | None] | None:
    """The group of each row and of each column as numbers."""
    if groups is None:
        return None
    if isinstance(groups, str) and groups in ("row", "column"):
        return (np.arange(shape[0]), None) if groups == "row" else (None, np.arange(shape[1]))
    if not isinstance(groups, tuple | list) or len(groups) != 2:
        msg = (
            "groups must be 'row', 'column', or a pair with a label for each row and for each "
            f"column, None for either; got {groups!r}."
        )
        raise ParameterError(msg)
    codes: list[Index | None] = []
    for labels, size, name in zip(groups, shape, ("row", "column"), strict=True):
        if labels is None:
            codes.append(None)
            continue
        array = plain_array(labels, "groups")
        if array.shape != (size,):
            msg = f"groups must have a label for each of {size} {name}s, got {array.shape}."
            raise ParameterError(msg)
        codes.append(np.unique(array.astype(str), return_inverse=True)[1].astype(np.intp))
    return codes[0], codes[1]


def mask_kernels(given: Any, shape: tuple[int, int]) -> tuple[Kernel | None, Kernel | None] | None:
    """The kernels that a mask follows, checked; None for those of the method."""
    if given is None:
        return None
    if not isinstance(given, tuple | list) or len(given) != 2:
        msg = (
            "mask_kernels must be a pair, a kernel for the rows and one for the columns, None for "
            f"either; got {given!r}."
        )
        raise ParameterError(msg)
    found = checked_kernels(*given)
    for kernel, size, name in zip(found, shape, ("row", "column"), strict=True):
        if kernel is not None and kernel.n != size:
            msg = f"mask_kernels must know each of {size} {name}s, got a kernel of {kernel.n}."
            raise ParameterError(msg)
    return found
