"""The problem of every measurement, made from a seed with NumPy alone: all libraries get the same.

N and L random points of the unit square, one RBF kernel on each axis, m distinct entries with
values of a smooth function plus noise, ridge weight mu = 0.1.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

import numpy as np

MU = 0.1
CHUNK = 1_000_000
THIN, SMOOTH, MEDIUM, ROUGH = (0.7, 0.7), (0.7, 0.2), (0.2, 0.2), (0.2, 0.05)
"""Length scales whose kernels have ranks of about 60 x 60, 60 x 256, 256 x 256, 256 x 2,000."""


@dataclass(frozen=True)
class Problem:
    """``kind`` is the kernel of both axes: "rbf", or one of full rank (see ``kernels.py``)."""

    m: int
    size: int
    scales: tuple[float, float] = SMOOTH
    identity: float = 0.0
    zipf: bool = False
    kind: str = "rbf"

    def __post_init__(self) -> None:
        if self.m > self.size**2:
            raise ValueError(f"A {self.size} x {self.size} grid has no {self.m} distinct entries.")

    @classmethod
    def parse(cls, text: str) -> tuple[Problem, dict]:
        """A problem from JSON, and what else is in it."""
        spec = json.loads(text)
        own = {name: spec.pop(name) for name in list(spec) if name in cls.__dataclass_fields__}
        own["scales"] = tuple(own.get("scales", cls.scales))
        return cls(**own), spec

    def as_json(self, **more) -> str:
        """What :meth:`parse` reads, with settings beside the problem."""
        return json.dumps(asdict(self) | more)

    def points(self) -> list[np.ndarray]:
        """Where the rows and the columns lie."""
        rng = np.random.default_rng(0)
        return [rng.random((self.size, 2)) for _ in range(2)]

    def data(self) -> tuple[np.ndarray, np.ndarray]:
        """Index pairs (m, 2) and values; nothing larger than these two is ever held."""
        if self.zipf:
            cells = zipf_cells((self.size, self.size), self.m, np.random.default_rng(1))
            pairs = np.column_stack(cells)
        else:
            pairs = np.empty((self.m, 2), np.int64)
            for part in _chunks(self.m):
                pairs[part, 0], pairs[part, 1] = self.cells(part)
        rng = np.random.default_rng(2)
        values = np.empty(self.m)
        for part in _chunks(self.m):
            values[part] = self.smooth(*pairs[part].T)
            values[part] += 0.1 * rng.standard_normal(part.stop - part.start)
        return pairs, values

    def cells(self, part: slice) -> tuple[np.ndarray, np.ndarray]:
        """Some of a pseudo-random permutation of the grid: distinct, in random order.

        A Feistel network: each round adds to one coordinate a random function of the other, which
        can be undone, so that different cells stay different.
        """
        n = self.size
        tables = np.random.default_rng(1).integers(0, n, size=(6, n))
        row, col = np.divmod(np.arange(part.start, part.stop), n)
        for k in range(0, len(tables), 2):
            row += tables[k][col]
            row -= n * (row >= n)
            col += tables[k + 1][row]
            col -= n * (col >= n)
        return row, col

    def smooth(self, rows: np.ndarray, cols: np.ndarray) -> np.ndarray:
        """The values at these cells but for their noise."""
        left, right = self.points()
        x, y = left[rows], right[cols]
        return np.sin(3 * x[:, 0]) * np.cos(2 * y[:, 1]) + x[:, 1] * y[:, 0]

    def kernel_rows(self, axis: int, items: np.ndarray) -> np.ndarray:
        """Rows of the exact kernel of an axis."""
        points = self.points()[axis]
        away = ((points[items][:, None, :] - points[None, :, :]) ** 2).sum(axis=-1)
        rows = np.exp(-away / (2 * self.scales[axis] ** 2))
        rows[np.arange(len(items)), items] += self.identity
        return rows

    def entry_kernel(self, pairs: np.ndarray) -> np.ndarray:
        """K_w[r, r'] K_h[c, c'] over all pairs of observed entries, m x m.

        A product of RBF kernels is an RBF kernel of the scaled coordinates side by side: one matrix
        product and one exponential, the fastest way NumPy has.
        """
        sides = zip(self.points(), pairs.T, self.scales, strict=True)
        z = np.hstack([points[index] / scale for points, index, scale in sides])
        half = 0.5 * np.einsum("ij,ij->i", z, z)
        kernel = z @ z.T
        kernel -= half[:, None]
        kernel -= half[None, :]
        return np.exp(kernel, out=kernel)


def zipf_cells(
    shape: tuple[int, int], m: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Distinct cells; item i is drawn with probability proportional to 1 / (i + 10)."""
    codes = np.empty(0, np.int64)
    chances = [1 / (np.arange(size) + 10.0) for size in shape]
    while len(codes) < m:
        rows, cols = (rng.choice(len(p), size=m, p=p / p.sum()) for p in chances)
        codes = np.unique(np.concatenate([codes, rows * shape[1] + cols]))
    return np.divmod(rng.permutation(codes)[:m], shape[1])


def _chunks(m: int):
    return (slice(first, min(first + CHUNK, m)) for first in range(0, m, CHUNK))


def true_residual(pairs, values, dual, kernel_rows) -> float:
    """Relative residual of (Kbar + mu I) d = y at sampled observations, with the exact kernels.

    ``kernel_rows(axis, items)`` gives rows of a kernel. 200 observations, fewer where m is so large
    that the check would take minutes.
    """
    m = len(values)
    count = min(m, int(np.clip(2e9 / m, 20, 200)))
    take = np.random.default_rng(3).choice(m, size=count, replace=False)
    left, right = (kernel_rows(axis, pairs[take, axis]) for axis in range(2))
    gap = MU * dual[take] - values[take]
    for part in _chunks(m):
        rows, cols, d = pairs[part, 0], pairs[part, 1], dual[part]
        for a in range(count):
            gap[a] += (left[a][rows] * right[a][cols]) @ d
    return float(np.linalg.norm(gap) / np.linalg.norm(values[take]))
