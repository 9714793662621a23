"""The synthetic data of section IV, kept as factors.

The same numbers as :func:`kronfill.datasets.make_paper_matrix` draws, but F stays a product of two
thin matrices and the kernel one column; only noise needs an array of the size of the matrix, made
when it is first asked for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from kronfill._types import Floats
from kronfill.data import Observations
from kronfill.paper.circulant import Circulant, paper_kernel

__all__ = ["RANK", "SAMPLES", "Draw", "draw"]

SAMPLES = 1000
"""m, the number of observed entries in the paper's tests."""
RANK = 30
"""p, the number of columns of B and C."""


@dataclass(frozen=True, eq=False)
class Draw:
    """One realisation: kernel K_w = K_h, truth F = left right^T, noise and observed entries."""

    kernel: Circulant
    left: Floats
    right: Floats
    """Factors of the truth, of shape (N, 30), scaled to the mean power wanted."""
    codes: NDArray[np.int64]
    """Positions of the observed entries in the flattened matrix, ascending."""
    noise_scale: float
    """Standard deviation of the noise, 0 without noise."""
    _rng: np.random.Generator

    @property
    def size(self) -> int:
        """N."""
        return self.kernel.n

    @cached_property
    def noise(self) -> Floats | None:
        """E, or None without noise."""
        if self.noise_scale == 0.0:
            return None
        noise = self._rng.standard_normal((self.size, self.size))
        noise *= self.noise_scale
        return noise

    @cached_property
    def square(self) -> float:
        """||M||_F^2 = ||F||^2 + 2 <E, F> + ||E||^2."""
        left, right = self.left, self.right
        found = float(np.sum((left.T @ left) * (right.T @ right)))
        if self.noise is not None:
            found += 2.0 * float(np.sum(left * (self.noise @ right)))
            found += float(np.vdot(self.noise, self.noise))
        return found

    @cached_property
    def observations(self) -> Observations:
        """The observed entries of M = F + E."""
        rows, cols = np.divmod(self.codes, self.size)
        values = np.einsum("ij,ij->i", self.left[rows], self.right[cols])
        if self.noise is not None:
            values = values + self.noise[rows, cols]
        return Observations(rows, cols, values, (self.size, self.size))


def draw(
    size: int,
    snr: float,
    seed: np.random.SeedSequence | int,
    *,
    exponent: float,
    power: float,
    samples: int = SAMPLES,
) -> Draw:
    """Draw one realisation; the same seed gives the same.

    ``exponent`` is the decay of the weights on the diagonal of D, ``power`` the mean square of the
    entries of F, ``samples`` m; an infinite ``snr`` means no noise.

    Examples
    --------
    >>> from kronfill.paper.synthetic import draw
    >>> made = draw(50, 4.0, 0, exponent=1.35, power=0.45, samples=200)
    >>> made.observations.m, float(((made.left @ made.right.T) ** 2).mean().round(12))
    (200, 0.45)
    """
    rng = np.random.default_rng(seed)
    kernel = paper_kernel(size, exponent)
    # F = K_w B C^T K_h, section IV.
    left = kernel.times(rng.standard_normal((size, RANK)))
    right = kernel.times(rng.standard_normal((size, RANK)))
    mean_square = float(np.sum((left.T @ left) * (right.T @ right))) / size**2
    left *= math.sqrt(power / mean_square)
    codes = np.sort(rng.choice(size**2, size=samples, replace=False, shuffle=False))
    scale = math.sqrt(power / snr) if math.isfinite(snr) else 0.0
    return Draw(kernel, left, right, codes, scale, rng)
