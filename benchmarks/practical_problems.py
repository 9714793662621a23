"""Tables like those that people have, made from a seed with NumPy alone.

Kernels of full rank on both axes, each with a constant and an identity part; values of low rank
plus what the kernels themselves produce, plus noise; masks that are even, uneven, or without some
rows. Ridge weights from 0.01 to 1 are in question.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import cached_property

import numpy as np

CONSTANT, IDENTITY = 1.0, 0.1
"""Parts of every kernel beside the similarity, which has ones on its diagonal."""
RANK, NOISE = 5, 0.4
ABSENT = 0.05
"""Share of the rows that have no observation, where the mask is "absent"."""


@dataclass(frozen=True)
class Practical:
    """One table; ``kinds`` are what is known about rows and columns, see :class:`Axis`."""

    name: str
    shape: tuple[int, int]
    m: int
    kinds: tuple[str, str]
    mask: str = "even"
    """"even", "uneven" (popular rows and columns), or "absent" (uneven, some rows not at all)."""
    real = False

    @classmethod
    def parse(cls, text: str) -> tuple[Practical, dict]:
        """A table from JSON, and what else is in it."""
        spec = json.loads(text)
        own = {name: spec.pop(name) for name in list(spec) if name in cls.__dataclass_fields__}
        return cls(**(own | {key: tuple(own[key]) for key in ("shape", "kinds")})), spec

    def as_json(self, **more) -> str:
        """What :meth:`parse` reads, with settings beside the table."""
        return json.dumps(asdict(self) | more)

    @cached_property
    def axes(self) -> tuple[Axis, Axis]:
        """What is known about rows and about columns."""
        return tuple(
            Axis(kind, n, seed)
            for seed, (kind, n) in enumerate(zip(self.kinds, self.shape, strict=True))
        )

    def _shares(self, rng: np.random.Generator) -> np.ndarray:
        """How likely each entry is to be observed."""
        n, l = self.shape
        if self.mask == "even":
            return np.ones(self.shape)
        rows, cols = rng.gamma(0.8, size=(n, 1)) + 0.02, rng.gamma(0.8, size=l) + 0.02
        if self.mask == "absent":
            rows[rng.random(n) < ABSENT] = 0.0
        return rows * cols

    def data(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Pairs and values to fit, pairs and values to test with."""
        rng = np.random.default_rng(7)
        l = self.shape[1]
        # The largest of u^(1/share): drawn without replacement, with these shares.
        with np.errstate(divide="ignore"):
            order = np.argsort(np.log(rng.random(self.shape)).ravel() / self._shares(rng).ravel())
        train = order[::-1][: self.m]
        rest = order[::-1][self.m :]
        test = rng.choice(rest, min(len(rest), self.m // 4), replace=False)
        truth = self._truth(rng)
        values = truth + NOISE * rng.standard_normal(self.shape)
        pairs = [np.column_stack(np.divmod(part, l)) for part in (train, test)]
        return pairs[0], values.ravel()[train], pairs[1], values.ravel()[test]

    def _truth(self, rng: np.random.Generator) -> np.ndarray:
        """Effects, factors that follow the kernels by half, and a function of the kernels."""
        draws = [_drawn(axis.kernel, rng, RANK + 1) for axis in self.axes]
        own = [rng.standard_normal((n, RANK + 1)) for n in self.shape]
        w, h = ((a + 0.5 * b) for a, b in zip(draws, own, strict=True))
        low = w[:, :RANK] @ h[:, :RANK].T / RANK**0.5
        modes = [_drawn(axis.similarity, rng, 60) for axis in self.axes]
        smooth = modes[0] @ modes[1].T / 60**0.5
        effects = w[:, RANK:] + h[:, RANK]
        return 3.0 + 0.5 * effects + 0.7 * low + 0.7 * smooth


class Axis:
    """Items of one axis: ``kind`` says what is known about them.

    Attributes
    ----------
    features : ndarray of shape (n, count)
        What a library without kernels is given.
    similarity : ndarray of shape (n, n)
        Positive semidefinite, ones on the diagonal but for "graph", where they are so on average.
    """

    def __init__(self, kind: str, n: int, seed: int) -> None:
        rng = np.random.default_rng([n, seed])
        self.kind = kind
        self.features, self.similarity = getattr(self, f"_{kind}")(n, rng)

    @cached_property
    def kernel(self) -> np.ndarray:
        """The similarity with a constant and an identity part."""
        return self.similarity + CONSTANT + IDENTITY * np.eye(len(self.similarity))

    @staticmethod
    def _tanimoto(n: int, rng: np.random.Generator):
        """Fingerprints of families: 256 bits, some of them changed."""
        families = rng.random((max(2, n // 20), 256)) < 0.2
        bits = families[rng.integers(len(families), size=n)] ^ (rng.random((n, 256)) < 0.06)
        bits = bits.astype(float)
        both = bits @ bits.T
        size = np.diagonal(both)
        return bits, both / np.maximum(size[:, None] + size - both, 1)

    @staticmethod
    def _exponential(n: int, rng: np.random.Generator):
        """Points in the unit cube, exp(-distance / 0.4)."""
        x = rng.random((n, 3))
        return x, np.exp(-_distances(x) / 0.4)

    @staticmethod
    def _time(n: int, rng: np.random.Generator):
        """Hours: exp(-|t - s| / 12), and the time of day."""
        t = np.arange(n, dtype=float)
        near = np.exp(-np.abs(t[:, None] - t) / 12)
        day = np.exp(-2 * np.sin(np.pi * (t[:, None] - t) / 24) ** 2)
        angle = 2 * np.pi * t / 24
        return np.column_stack([t / n, np.sin(angle), np.cos(angle)]), 0.6 * near + 0.4 * day

    @staticmethod
    def _graph(n: int, rng: np.random.Generator):
        """Ten nearest neighbours of points: (I + 2 L)^-1 with the normalised Laplacian L."""
        x = rng.random((n, 3))
        nearest = np.argsort(_distances(x), axis=1)[:, 1 : 1 + min(10, n - 1)]
        edges = np.zeros((n, n))
        edges[np.arange(n)[:, None], nearest] = 1.0
        edges = np.maximum(edges, edges.T)
        root = 1 / np.sqrt(edges.sum(axis=1))
        kernel = np.linalg.inv(3.0 * np.eye(n) - 2.0 * root[:, None] * edges * root)
        return edges, kernel / np.diagonal(kernel).mean()

    @staticmethod
    def _features(n: int, rng: np.random.Generator):
        """Six standardised features, an RBF kernel of their median distance."""
        x = rng.standard_normal((n, 6))
        distance = _distances(x)
        return x, np.exp(-0.5 * (distance / np.median(distance[distance > 0])) ** 2)


def _distances(x: np.ndarray) -> np.ndarray:
    size = (x**2).sum(axis=1)
    return np.sqrt(np.maximum(size[:, None] + size - 2 * x @ x.T, 0.0))


def _drawn(kernel: np.ndarray, rng: np.random.Generator, count: int) -> np.ndarray:
    """Functions of a Gaussian process with this kernel, one in each column."""
    root = np.linalg.cholesky(kernel + 1e-8 * np.eye(len(kernel)))
    return root @ rng.standard_normal((len(kernel), count))


TABLES = (
    Practical("drugs x kinases", (68, 442), 25_000, ("tanimoto", "exponential")),
    Practical("features", (2000, 800), 60_000, ("features", "features")),
    Practical("ratings", (1000, 1600), 80_000, ("graph", "graph"), "uneven"),
    Practical("compounds x assays", (1400, 160), 78_000, ("tanimoto", "exponential")),
    Practical("compounds x cells", (2100, 230), 98_000, ("tanimoto", "exponential"), "uneven"),
    Practical("stations x hours", (80, 2700), 126_000, ("graph", "time")),
    Practical("absent rows", (1000, 300), 40_000, ("tanimoto", "graph"), "absent"),
)
TINY = (Practical("tiny", (30, 20), 300, ("tanimoto", "time"), "uneven"),)
