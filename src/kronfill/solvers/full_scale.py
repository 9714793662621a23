"""A preconditioner for kernels of full rank: leading modes everywhere, the rest within groups.

Kbar = Psi Psi^T + rest, where the columns of Psi are the leading products p (x) q of a mode p of
one kernel and a mode q of the other. Of what they leave out, all is kept between observations of
the same item of the outer axis, and nothing between others:

    Kbar + mu W^-1  ~  Psi Psi^T + B,    B block diagonal, one block for each outer item.

Its inverse is B^-1 - B^-1 Psi C^-1 Psi^T B^-1 with C = I + Psi^T B^-1 Psi (Woodbury). Modes belong
to the kernel weighted with the observations of each item, and are cut from it so that the rest
stays positive semidefinite (Nystrom): B is positive definite.

The outer axis is the longer one: its groups are small, and many. Its first mode, a constant or
nearly so, goes with many inner modes and is treated apart ("wide"); further ones with a few each,
in bands: the modes p_a, ..., p_b each with the first w inner modes, w falling. With R_i the rows
of B_i^-1 Q_i, the parts of C are

    bands x bands    sum_i (p_i p_i^T) (x) (Q_i^T R_i),
    wide x bands     Q^T T,   T[c] = sum of p_i0 p_i (x) R_i[c] over the groups i that observe c,
    wide x wide      Q^T H Q, H    = sum_i p_i0^2 B_i^-1 at the inner items of group i.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numba
import numpy as np
import scipy.linalg

from kronfill._types import Floats, Index
from kronfill.core.grouping import Grouped
from kronfill.core.inverse import inverse
from kronfill.core.loops.passes import FAST
from kronfill.core.loops.tables import SparseTables
from kronfill.core.products import matmul, transposed_matmul
from kronfill.core.threads import each

__all__ = ["FullScale", "Modes", "affordable_modes", "bytes_needed", "leading_modes", "most_bytes"]

MODES = 1000
"""Products beside those of the first outer mode, where nothing else is asked for: iterations fall
slowly beyond, the work rises fast."""
FEWEST_MODES = 50
OUTER_MODES = 300
"""Most modes of the outer axis: further ones are of rounding size, or too many to matter."""
INNER_MODES = 1000
"""Most modes of the inner axis. A constant part of the outer kernel goes with all of them."""
BAND_WIDTH = 128
"""Most inner modes that go with an outer mode other than the first."""
GRAM_FLOATS = 1 << 23
"""Floats of Q_i^T B_i^-1 Q_i that are made at a time, 64 MB."""
WHOLE = 700
"""Up to this size all eigenvectors of a kernel are computed; beyond, the leading ones."""
OVERSAMPLING, POWERS = 20, 1
"""Columns beyond the modes asked for, and products before the last one."""
BAND = 32
"""Most outer modes in a band."""
NEGLIGIBLE = 0.05
"""A mode below this share of the noise is left to the blocks."""
LARGEST_BLOCK = 512
"""Observations of an item beyond are treated as those of another: blocks stay small."""
SEGMENTS = 64
LIFTS = (1e-14, 1e-11, 1e-8, 1e-4, 1.0)
"""What is added to the diagonal of C, scaled to ones, until it can be factorised."""


def affordable_modes(
    m: int, items: tuple[int, int], asked: int | None = None, seconds: float = float("inf")
) -> int:
    """How many modes to use: as asked, or those that pay, as far as the time allows."""
    modes = min(m, MODES) if asked is None else min(m, asked)
    rate = 2e10  # multiplications in a second, about
    groups = max(items)
    while modes > FEWEST_MODES and groups * modes**2 / 2 + modes**3 / 3 > rate * max(seconds, 0.0):
        modes //= 2
    return modes


def bytes_needed(at: tuple[Index, Index], modes: int) -> float:
    """Memory that a preconditioner for these observations takes while it is made."""
    longer = max(at, key=lambda index: int(index.max(initial=0)))
    counts = np.bincount(longer).astype(float)
    return most_bytes(len(longer), float(counts @ np.minimum(counts, LARGEST_BLOCK)), modes)


def most_bytes(m: int, squares: float, modes: int) -> float:
    """The same, from the sum of the squares of the sizes of the blocks."""
    return 8.0 * (4 * GRAM_FLOATS + 4 * modes**2 + squares + (BAND_WIDTH + 10) * m)


def leading_modes(kernel: Floats, counts: Floats, most: int) -> Floats:
    """Modes of a kernel weighted with counts: phi phi^T <= K, phi^T diag(counts) phi diagonal.

    Parameters
    ----------
    kernel : ndarray of shape (n, n)
        The kernel at observed items.
    counts : ndarray of shape (n,)
        Positive.
    most : int
        How many modes at most, the largest first.

    Returns
    -------
    ndarray of shape (n, modes)
    """
    root = np.sqrt(counts)
    weighted = root[:, None] * kernel * root
    n = len(kernel)
    if n > max(WHOLE, 2 * most):
        rng = np.random.default_rng(0)
        sketch = rng.standard_normal((n, most + OVERSAMPLING))
        for _ in range(POWERS):  # towards the leading eigenvectors
            sketch = np.linalg.qr(matmul(weighted, sketch))[0]
        image = matmul(weighted, sketch)
        lam, turn = scipy.linalg.eigh(transposed_matmul(sketch, image), check_finite=False)
        keep = lam > 1e-10 * lam[-1]
        part = matmul(image, turn[:, keep] / np.sqrt(lam[keep]))  # part part^T <= weighted
        _, turn = scipy.linalg.eigh(transposed_matmul(part, part), check_finite=False)
        found = matmul(part, turn[:, ::-1])
    else:
        lam, vec = scipy.linalg.eigh(weighted, check_finite=False)
        keep = lam > 1e-10 * max(float(lam[-1]), np.finfo(float).tiny)
        found = (vec[:, keep] * np.sqrt(lam[keep]))[:, ::-1]
    return np.ascontiguousarray(found[:, :most] / root[:, None])


@dataclass(frozen=True)
class _Band:
    """The outer modes first, ..., last - 1, each with the first ``width`` inner ones."""

    first: int
    last: int
    width: int
    start: int
    """Where its coefficients begin, after those of the wide part."""

    @property
    def count(self) -> int:
        return self.last - self.first

    @property
    def size(self) -> int:
        return self.count * self.width

    @property
    def part(self) -> slice:
        return slice(self.start, self.start + self.size)


@dataclass(frozen=True)
class _Layout:
    """Which products of modes are used."""

    wide: int
    """How many inner modes go with the first outer one, which is treated apart."""
    bands: list[_Band]

    @property
    def narrow(self) -> int:
        """How many products the bands have."""
        return self.bands[-1].part.stop if self.bands else 0

    @property
    def inner(self) -> int:
        """Most inner modes in a band."""
        return max((band.width for band in self.bands), default=0)

    @property
    def outer(self) -> int:
        """Outer modes in use."""
        return self.bands[-1].last if self.bands else min(1, self.wide)


def layout(outer: Floats, inner: Floats, most: int, least: float) -> _Layout:
    """The largest products of two falling sequences, none below ``least``.

    Up to ``most`` products with the first of ``outer``, and about as many with the others.
    """
    products = np.outer(outer, inner)
    wide = int((products[:1, :most] >= least).sum())
    rest = products[1:, :BAND_WIDTH]
    bound = least
    if rest.size > most:
        bound = max(bound, float(np.partition(rest.ravel(), -most)[-most]))
    widths = (rest >= bound).sum(axis=1)
    bands: list[_Band] = []
    at, start = 0, 0
    while at < len(widths) and widths[at] > 0:
        width = int(widths[at])
        end = at + 1
        while end < len(widths) and end - at < BAND and 3 * widths[end] >= 2 * width:
            end += 1
        bands.append(_Band(at + 1, end + 1, width, start))
        start += bands[-1].size
        at = end
    return _Layout(wide, bands)


class Modes:
    """The leading modes of both kernels, and the observations in groups: the same for every mu.

    Parameters
    ----------
    kernels : pair of ndarray
        Both kernels at their observed items.
    at : pair of ndarray of shape (m,)
        Observed item of each observation, on either axis.
    """

    def __init__(self, kernels: tuple[Floats, Floats], at: tuple[Index, Index]) -> None:
        long = 0 if len(kernels[0]) >= len(kernels[1]) else 1
        self.outer, self.inner = kernels[long], kernels[1 - long]
        self.grouped = Grouped.by(at[long], at[1 - long], len(self.outer))
        self.by_inner = Grouped.by(at[1 - long], at[long], len(self.inner))
        self.tables = SparseTables(self.grouped, self.by_inner)
        counts = [np.diff(group.indptr).astype(float) for group in (self.grouped, self.by_inner)]
        self.p = leading_modes(self.outer, counts[0], min(len(self.outer), OUTER_MODES))
        self.q = leading_modes(self.inner, counts[1], min(len(self.inner), INNER_MODES))
        self.sizes = counts[0] @ self.p**2, counts[1] @ self.q**2 / len(at[0])


class FullScale:
    """(Kbar + mu W^-1)^-1, about.

    Parameters
    ----------
    modes : Modes
        Of the kernels and the observations.
    noise : ndarray of shape (m,)
        mu / w, or mu.
    most : int
        How many products of modes, about: up to so many with the first outer mode, and as many
        with the others.
    """

    def __init__(self, modes: Modes, noise: Floats, most: int) -> None:
        p, q, grouped = modes.p, modes.q, modes.grouped
        self._tables, self._grouped = modes.tables, grouped
        self._layout = layout(*modes.sizes, most, NEGLIGIBLE * float(noise.min()))
        self._p = np.ascontiguousarray(p[:, : self._layout.outer])
        self._q = np.ascontiguousarray(q[:, : self._layout.inner])
        self._wide = np.ascontiguousarray(q[:, : self._layout.wide])
        self._first = self._p[grouped.outer, 0] if self._layout.wide else np.empty(0)
        self._blocks = _Blocks(grouped, noise[grouped.order])
        self._core = _scaled_inverse(self._make_core(modes.outer, modes.inner, modes.by_inner))

    @property
    def modes(self) -> int:
        """How many products of modes are used."""
        return self._layout.wide + self._layout.narrow

    def _make_core(self, outer: Floats, inner: Floats, by_inner: Grouped) -> Floats:
        """C, its lower triangle."""
        plan, q, wide = self._layout, self._q, self._wide
        first = self._p[:, 0] if plan.wide else np.zeros(len(self._p))
        kernels = np.ascontiguousarray(np.diagonal(outer)), inner, matmul(wide, wide.T)
        done = self._blocks.factorise(*kernels, first, q, self._shared())
        core = np.zeros((self.modes, self.modes))
        here = slice(plan.wide, None)
        self._sum_bands(done, core[here, here])
        if plan.wide:
            h, t = self._blocks.by_inner(by_inner, self._p, plan.bands, plan.narrow)
            core[: plan.wide, : plan.wide] = transposed_matmul(wide, matmul(h, wide))
            core[here, : plan.wide] = transposed_matmul(t, wide)
        core[np.diag_indices_from(core)] += 1.0
        return core

    def _shared(self) -> Floats:
        """sum_a p_ia^2 over the modes a that go with each inner mode in bands, for each group."""
        out = np.zeros((len(self._p), self._layout.inner))
        for band in self._layout.bands:
            out[:, : band.width] += (self._p[:, band.first : band.last] ** 2).sum(axis=1)[:, None]
        return out

    def _sum_bands(self, grams: Iterator[tuple[slice, Floats]], core: Floats) -> None:
        """The products of the bands among themselves, from Q_i^T R_i, some groups at a time."""
        bands = self._layout.bands
        pairs = [(one, other) for at, one in enumerate(bands) for other in bands[: at + 1]]
        pairs.sort(key=lambda pair: -pair[0].size * pair[1].size)  # the threads finish together
        sums = [np.zeros((a.count * b.count, a.width * b.width)) for a, b in pairs]
        for groups, gram in grams:
            add = partial(_add_products, self._p[groups], gram)
            each(len(pairs), lambda k, add=add: add(*pairs[k], sums[k]))  # type: ignore[misc]
        for (one, other), found in zip(pairs, sums, strict=True):
            shape = (one.count, other.count, one.width, other.width)
            block = found.reshape(shape).transpose(0, 2, 1, 3)
            core[one.part, other.part] = block.reshape(one.size, other.size)

    def __call__(self, v: Floats) -> Floats:
        """Apply to a vector in the caller's order."""
        b = self._blocks.solve(v[self._grouped.order])
        if self.modes:
            x = matmul(self._core, self._down(b)[:, None])[:, 0]
            b -= self._blocks.solve(self._up(x))
        out = np.empty_like(b)
        out[self._grouped.order] = b
        return out

    def _down(self, b: Floats) -> Floats:
        """Psi^T b."""
        parts = []
        if self._layout.wide:
            by_item = np.bincount(self._grouped.inner, self._first * b, len(self._wide))
            parts.append(by_item @ self._wide)
        if self._layout.bands:
            table = self._tables.sums(self._q, b, 0)
            parts += [
                (self._p[:, band.first : band.last].T @ table[:, : band.width]).ravel()
                for band in self._layout.bands
            ]
        return np.concatenate(parts)

    def _up(self, x: Floats) -> Floats:
        """Psi x."""
        wide, x = x[: self._layout.wide], x[self._layout.wide :]
        table = np.zeros((len(self._p), self._q.shape[1]))
        for band in self._layout.bands:
            part = x[band.part].reshape(-1, band.width)
            table[:, : band.width] += self._p[:, band.first : band.last] @ part
        out = self._tables.products(table, self._q)
        if len(wide):
            out += self._first * (self._wide @ wide)[self._grouped.inner]
        return out


def _scaled_inverse(core: Floats) -> Floats:
    """C^-1; where rounding has spoilt C, for a mu of rounding size, that of a matrix above it."""
    root = 1 / np.sqrt(np.diagonal(core))
    core *= root[:, None]
    core *= root
    for lift in LIFTS:
        lifted = core.copy()
        lifted[np.diag_indices_from(lifted)] += lift
        try:
            found = inverse(lifted)
        except np.linalg.LinAlgError:
            continue
        found *= root[:, None]
        found *= root
        return found
    return np.diag(root**2)


def _add_products(p: Floats, gram: Floats, one: _Band, other: _Band, out: Floats) -> None:
    """Add sum_i (p_i p_i^T) (x) gram_i, for the modes of two bands and some of the groups."""
    n = len(p)
    left, right = p[:, one.first : one.last], p[:, other.first : other.last]
    pairs = (left[:, :, None] * right[:, None, :]).reshape(n, -1)
    out += pairs.T @ gram[:, : one.width, : other.width].reshape(n, -1)


class _Blocks:
    """B^-1: what the modes leave out, within groups of observations of the same outer item."""

    def __init__(self, grouped: Grouped, noise: Floats) -> None:
        counts = np.diff(grouped.indptr)
        pieces = -(-counts // LARGEST_BLOCK)
        self._item = np.repeat(np.arange(len(counts)), pieces)
        nth = np.arange(len(self._item)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
        begin = grouped.indptr[self._item] + nth * LARGEST_BLOCK
        self._bounds = np.append(begin, grouped.indptr[-1])
        sizes = np.diff(self._bounds)
        self._starts = np.concatenate([[0], np.cumsum(sizes**2)])
        self._grouped = grouped
        self._noise = noise
        self._inverse = np.empty(int(self._starts[-1]))
        self._solved = np.empty((0, 0))
        self._segments = _even_segments(sizes.astype(float) ** 2)

    def factorise(
        self, own: Floats, inner: Floats, broad: Floats, first: Floats, q: Floats, shared: Floats
    ) -> Iterator[tuple[slice, Floats]]:
        """Make and invert the blocks; Q_i^T B_i^-1 Q_i of some items after the other."""
        items, width = shared.shape
        # Pieces of one item add to the same sum: they go to the same thread.
        order = np.searchsorted(self._item, np.arange(items + 1))
        sizes = np.diff(self._bounds).astype(float)
        work = np.add.reduceat(sizes**3 + sizes**2 * width + sizes * width**2, order[:-1])
        self._solved = np.empty((len(self._noise), width))
        given = (own, np.ascontiguousarray(inner), broad, first, q, shared)
        step = max(1, GRAM_FLOATS // max(1, width**2))
        for start in range(0, items, step):
            some = slice(start, min(start + step, items))
            gram = np.zeros((some.stop - start, width, width))
            bounds = _even_segments(work[some])

            def job(s: int, start: int = start, gram: Floats = gram, at: Index = bounds) -> None:
                _invert(
                    *given, self._grouped.inner, self._noise, self._bounds, self._item,
                    self._starts, order[start + at[s]], order[start + at[s + 1]],
                    self._inverse, self._solved, start, gram,
                )  # fmt: skip

            each(len(bounds) - 1, job)
            yield some, gram

    def by_inner(
        self, by_inner: Grouped, p: Floats, bands: list[_Band], narrow: int
    ) -> tuple[Floats, Floats]:
        """H and T of the wide part; each inner item belongs to one thread."""
        items = len(by_inner.indptr) - 1
        h, t = np.zeros((items, items)), np.zeros((items, narrow))
        place = np.empty(len(self._noise), np.int64)
        place[self._grouped.order] = np.arange(len(place))
        starts, widths = np.zeros(p.shape[1], np.int64), np.zeros(p.shape[1], np.int64)
        for band in bands:
            starts[band.first : band.last] = band.start + band.width * np.arange(band.count)
            widths[band.first : band.last] = band.width
        block = np.repeat(np.arange(len(self._item)), np.diff(self._bounds))
        bounds = _even_segments(np.diff(by_inner.indptr).astype(float))

        def job(s: int) -> None:
            _sum_by_inner(
                bounds[s], bounds[s + 1], by_inner.indptr, by_inner.inner, place[by_inner.order],
                block, self._bounds, self._starts, self._grouped.inner, self._inverse,
                self._solved, p, starts, widths, h, t,
            )  # fmt: skip

        each(len(bounds) - 1, job)
        self._solved = np.empty((0, 0))
        return h, t

    def solve(self, v: Floats) -> Floats:
        """B^-1 v."""
        out, bounds = np.empty_like(v), self._segments

        def job(s: int) -> None:
            _times(self._inverse, self._starts, self._bounds, bounds[s], bounds[s + 1], v, out)

        each(len(bounds) - 1, job)
        return out


def _even_segments(work: Floats) -> Index:
    """Bounds of segments that make about as much work each."""
    total = np.cumsum(work)
    cuts = np.searchsorted(total, total[-1] * np.arange(1, SEGMENTS) / SEGMENTS)
    return np.unique(np.concatenate([[0], cuts, [len(work)]]))


@numba.njit(nogil=True, cache=True, fastmath=FAST)
def _invert(  # type: ignore[no-untyped-def]
    own, kernel, broad, alone, q, shared, inner, noise, bounds, item, starts, first, last, inverse,
    solved, offset, gram,
):  # fmt: skip
    width = q.shape[1]
    for g in range(first, last):
        i, begin = item[g], bounds[g]
        n = bounds[g + 1] - begin
        rows = np.empty((n, width))
        scaled = np.empty((n, width))
        for k in range(n):
            source = q[inner[begin + k]]
            for b in range(width):
                rows[k, b] = source[b]
                scaled[k, b] = source[b] * shared[i, b]
        block = np.dot(scaled, rows.T)
        square = alone[i] * alone[i]
        for k in range(n):
            source, wide = kernel[inner[begin + k]], broad[inner[begin + k]]
            for l in range(k + 1):
                at = inner[begin + l]
                block[k, l] = own[i] * source[at] - square * wide[at] - block[k, l]
            block[k, k] += noise[begin + k]
        turned = np.zeros((n, n))  # the inverse of the Cholesky factor, row by row along with it
        for k in range(n):
            for l in range(k):
                v = block[k, l]
                for c in range(l):
                    v -= block[k, c] * block[l, c]
                v /= block[l, l]
                block[k, l] = v
                for c in range(l + 1):
                    turned[k, c] -= v * turned[l, c]
            v = block[k, k]
            for c in range(k):
                v -= block[k, c] * block[k, c]
            v = np.sqrt(max(v, noise[begin + k]))
            block[k, k] = v
            turned[k, k] = 1.0
            for c in range(k + 1):
                turned[k, c] /= v
        whole = np.dot(turned.T, turned)
        at = starts[g]
        for k in range(n):
            for l in range(n):
                inverse[at + k * n + l] = whole[k, l]
        if width > 0:
            found = np.dot(whole, rows)
            solved[begin : begin + n] = found
            gram[i - offset] += np.dot(rows.T, found)


@numba.njit(nogil=True, cache=True, fastmath=FAST)
def _sum_by_inner(  # type: ignore[no-untyped-def]
    first, last, indptr, outer, place, block, bounds, begins, inner, inverse, solved, p, starts,
    widths, h, t,
):  # fmt: skip
    for c in range(first, last):
        for k in range(indptr[c], indptr[c + 1]):
            i, at = outer[k], place[k]
            g = block[at]
            begin = bounds[g]
            n = bounds[g + 1] - begin
            row = begins[g] + (at - begin) * n
            square = p[i, 0] * p[i, 0]
            for l in range(n):
                h[c, inner[begin + l]] += square * inverse[row + l]
            for a in range(1, p.shape[1]):
                v = p[i, 0] * p[i, a]
                for j in range(widths[a]):
                    t[c, starts[a] + j] += v * solved[at, j]


@numba.njit(nogil=True, cache=True, fastmath=FAST)
def _times(inverse, starts, bounds, first, last, x, out):  # type: ignore[no-untyped-def]
    for g in range(first, last):
        begin, at = bounds[g], starts[g]
        n = bounds[g + 1] - begin
        for k in range(n):
            v = 0.0
            row = inverse[at + k * n : at + (k + 1) * n]
            for l in range(n):
                v += row[l] * x[begin + l]
            out[begin + k] = v
