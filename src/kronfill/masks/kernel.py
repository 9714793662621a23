"""A mask that follows the side information: logit p_ij = effects + phi_i^T X psi_j.

phi and psi are a constant and the leading columns of thin factors of the two kernels; X is normal
with a spread that is learned. Fitted by Fisher scoring to the entries of the mask, or a sample of
them, and as many others drawn at random, which count by how many they stand for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.linalg
from scipy.special import expit

from kronfill._stored import Tests, floats, of, real
from kronfill._types import Floats, Index
from kronfill.kernels.base import Kernel
from kronfill.masks.base import MOST, MaskModel, deviance
from kronfill.masks.effects import EffectsMask, fit_effects, thinned_score

__all__ = ["KernelMask", "fit_kernel"]

COLUMNS = 12
"""Columns of the factor of each kernel."""
SAMPLE = 20_000
"""Entries of the mask, and others, that a fit looks at."""
STEPS = 60
TOL = 1e-6
LARGEST = 30.0
"""Largest logarithm of odds."""


@dataclass(frozen=True, eq=False)
class KernelMask(MaskModel):
    """logit p_ij = effects + row_i^T core col_j."""

    effects: EffectsMask
    row: Floats
    col: Floats
    core: Floats
    deviance_explained: float
    kind: ClassVar[str] = "kernel"
    stored: ClassVar[Tests] = {
        "effects": of(EffectsMask), "row": floats(2), "col": floats(2), "core": floats(2),
        "deviance_explained": real,
    }  # fmt: skip

    def probability(self, rows: Index, cols: Index) -> Floats:
        """See :class:`MaskModel`."""
        smooth = np.einsum("ta,ab,tb->t", self.row[rows], self.core, self.col[cols])
        logits = np.clip(self.effects.logits(rows, cols) + smooth, -LARGEST, LARGEST)
        return np.asarray(np.minimum(expit(logits), MOST))

    def _fits_together(self) -> bool:
        widths = (self.row.shape[1], self.col.shape[1])
        return bool(self.core.shape == widths and len(self.row) == len(self.effects.row))


def fit_kernel(
    rows: Index,
    cols: Index,
    shape: tuple[int, int],
    kernels: tuple[Kernel | None, Kernel | None],
    share: float = 1.0,
    seed: int = 0,
) -> KernelMask:
    """Fit effects and what the kernels tell to the entries of a mask, ``share`` of those observed.

    Examples
    --------
    >>> import numpy as np, kronfill as kf
    >>> from kronfill.masks.kernel import fit_kernel
    >>> x = np.linspace(0, 1, 60)
    >>> p = np.where(np.not_equal.outer(x > 0.5, x > 0.5), 0.6, 0.1)  # neither rows nor columns
    >>> mask = np.random.default_rng(0).random((60, 60)) < p
    >>> kernel = kf.kernels.rbf(x, length_scale=0.3)
    >>> found = fit_kernel(*np.nonzero(mask), (60, 60), (kernel, kernel))
    >>> found.probability(np.array([5, 5]), np.array([5, 50])).round(1)
    array([0.1, 0.6])
    """
    effects = fit_effects(rows, cols, shape, share)
    phi, psi = (_columns(kernel, n) for kernel, n in zip(kernels, shape, strict=True))
    at_r, at_c, seen, weight = _sample(rows, cols, shape, np.random.default_rng(seed))
    design = (phi[at_r][:, :, None] * psi[at_c][:, None, :]).reshape(len(at_r), -1)
    offset = effects.logits(at_r, at_c)
    x, spread = np.zeros(design.shape[1]), 1.0
    for _ in range(STEPS):
        logits = np.clip(offset + design @ x, -LARGEST, LARGEST)
        score, information = thinned_score(logits, seen * weight, weight, share)
        matrix = design.T @ (information[:, None] * design)
        penalised = matrix + np.eye(len(x)) / spread
        step = scipy.linalg.solve(penalised, design.T @ score - x / spread, assume_a="pos")
        step *= min(1.0, 3.0 / max(float(np.abs(design @ step).max()), 1e-300))
        x = x + step
        effective = len(x) - float(np.trace(np.linalg.inv(penalised))) / spread
        spread = float(np.clip(x @ x / max(effective, 1e-9), 1e-8, 1e4))
        if np.abs(step).max() < TOL:
            break
    fitted = share * expit(np.clip(offset + design @ x, -LARGEST, LARGEST))
    rate = np.full(len(seen), (seen * weight).sum() / weight.sum())
    constant = deviance(seen * weight, weight, rate)
    gain = 1.0 - deviance(seen * weight, weight, fitted) / constant if constant > 0 else 0.0
    core = x.reshape(phi.shape[1], psi.shape[1])
    return KernelMask(effects, phi, psi, core, float(max(gain, 0.0)))


def _columns(kernel: Kernel | None, size: int) -> Floats:
    """A constant, and the leading directions of a kernel without its identity part."""
    smooth = None if kernel is None else kernel.split()[0]
    ones = np.ones((size, 1))
    if smooth is None:
        return ones
    left, values, _ = scipy.linalg.svd(smooth.factor(1e-6, 10 * COLUMNS).phi, full_matrices=False)
    kept = min(COLUMNS, int(np.count_nonzero(values > 1e-6 * max(values[0], 1e-300))))
    columns = left[:, :kept] * values[:kept]
    size_of_all = float(np.sqrt(np.mean(np.sum(columns**2, axis=1)))) or 1.0
    return np.hstack([ones, columns / size_of_all])


def _sample(
    rows: Index, cols: Index, shape: tuple[int, int], rng: np.random.Generator
) -> tuple[Index, Index, Floats, Floats]:
    """Entries of the mask and others, in rows and columns that have some: 1 or 0, and weights."""
    m = len(rows)
    mine = np.arange(m) if m <= SAMPLE else rng.choice(m, SAMPLE, replace=False)
    warm_r, warm_c = np.unique(rows), np.unique(cols)
    total = len(warm_r) * len(warm_c)
    drawn = min(max(2 * len(mine), 2000), 2 * SAMPLE, total)
    cells = (
        rng.choice(total, drawn, replace=False) if total < 10**7 else rng.integers(0, total, drawn)
    )
    i, j = warm_r[cells // len(warm_c)], warm_c[cells % len(warm_c)]
    codes = np.sort(rows.astype(np.int64) * shape[1] + cols)
    wanted = i.astype(np.int64) * shape[1] + j
    at = np.minimum(np.searchsorted(codes, wanted), m - 1)
    other = codes[at] != wanted
    i, j = i[other], j[other]
    stand_for = (total - m) / max(len(i), 1)
    return (
        np.concatenate([rows[mine], i]),
        np.concatenate([cols[mine], j]),
        np.concatenate([np.ones(len(mine)), np.zeros(len(i))]),
        np.concatenate([np.full(len(mine), m / len(mine)), np.full(len(i), stand_for)]),
    )
