"""Recursive least squares with a ridge: one observation after the other, old ones not needed.

The coefficients x solve A x = t with A = mu I + sum_k d_k v_k v_k^T and t = sum_k d_k y_k v_k. Of
the observations nothing is kept but these sums and P = A^-1, and one more changes them by

    k = P v,   s = 1/d + v^T k,   x += k (y - v^T x) / s,   P -= k k^T / s,   A += d v v^T,

a removal being an observation of negative weight. The two corrections of rank one would read and
write both matrices for every observation. They are collected instead, and worked in slab by slab,
one slab with each observation, so that no observation waits for a whole one: per observation the
inverse is read once.

Rounding is kept from adding up by the same slabs. The update leaves the residual t - A x as it is,
whatever x was: the residual at the time when a batch of corrections was closed, summed up slab by
slab from A as it is merged, is that of x now, and P times it is what is missing from x.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from kronfill._types import Floats
from kronfill.core.memory import require_memory
from kronfill.core.threads import each
from kronfill.errors import DataError
from kronfill.online.halves import IN_CACHE, Symmetric, symmetric
from kronfill.ridge.factorised import CholeskyFactor

__all__ = ["RecursiveRidge"]


CAPACITY = 64
"""Observations whose corrections are collected before they are worked into the matrices."""
ALMOST_ALONE = 1e-6
"""An observation whose removal leaves less than this share of its own freedom is taken off the sums
and the inverse is made anew: dividing by such a number would spoil it."""
SHAKEN = 0.5
"""Below this share a removal is not done by rough products."""
ROUGH = 5e-9
"""Relative error of the coefficients up to which products with the inverse may be rough ones."""
CAUTION = 2.0
"""The inverse may be so many times worse than the last correction of the coefficients shows."""
DRIFT = 1e-6
"""A correction of the coefficients above this size means that the inverse has lost its digits."""


@dataclass(eq=False)
class _Corrections:
    """Observations that are not yet worked into A and P: at most CAPACITY of them."""

    vectors: Floats
    gains: Floats
    weights: Floats
    scales: Floats
    count: int = 0

    @classmethod
    def none(cls, size: int) -> _Corrections:
        wide, narrow = (CAPACITY, size), (CAPACITY,)
        return cls(np.empty(wide), np.empty(wide), np.empty(narrow), np.empty(narrow))

    def push(self, vector: Floats, gain: Floats, weight: float, scale: float) -> None:
        at = self.count
        self.vectors[at], self.gains[at] = vector, gain
        self.weights[at], self.scales[at] = weight, scale
        self.count += 1

    def times(self, vector: Floats, first: int) -> Floats:
        """Sum of k k^T v / s over the entries of which an index is at least ``first``."""
        gains, scales = self.gains[: self.count], self.scales[: self.count]
        out = np.asarray(gains.T @ ((gains @ vector) / scales))
        if first:
            part = gains[:, :first]
            out[:first] -= part.T @ ((part @ vector[:first]) / scales)
        return out


class RecursiveRidge:
    """The coefficients of a ridge regression while observations come and go.

    Parameters
    ----------
    gram : ndarray of shape (p, p)
        Sum of d v v^T over the observations so far, symmetric. It is taken over and changed.
    moment : ndarray of shape (p,)
        Sum of d y v.
    mu : float
        Ridge weight.

    Attributes
    ----------
    coef : ndarray of shape (p,)
        The solution for all observations so far.
    drift : float
        Relative size of the last correction for rounding errors.

    Examples
    --------
    >>> import numpy as np
    >>> from kronfill.online.recursive import RecursiveRidge
    >>> ridge = RecursiveRidge(np.zeros((2, 2)), np.zeros(2), mu=1.0)
    >>> ridge.update(np.array([[1.0, 0.0], [0.0, 2.0]]), np.array([3.0, 5.0]), np.ones(2))
    >>> ridge.coef
    array([1.5, 2. ])
    >>> ridge.update(np.array([[0.0, 2.0]]), np.array([5.0]), -np.ones(1))  # take it back
    >>> ridge.coef.round(12)
    array([1.5, 0. ])
    """

    def __init__(self, gram: Floats, moment: Floats, mu: float) -> None:
        self._a = np.ascontiguousarray(gram)
        self._a[np.diag_indices_from(self._a)] += mu
        self.mu = mu
        self.moment = moment
        self.drift = 0.0
        self._cuts = _even_slabs(len(moment))
        self._forget_inverse()
        self.coef = self._factored(self._a).solve(moment)

    def _forget_inverse(self) -> None:
        self._inverse: Symmetric | None = None
        self._inverse_error = 0.0
        """Relative, from rough products; measured with each correction of the coefficients."""
        self._old, self._fresh = (_Corrections.none(len(self.moment)) for _ in range(2))
        self._slab = len(self._cuts) - 1
        """Slabs of ``_old`` that are worked in: all of them."""
        self._owed: Floats | None = None
        """Residual of the coefficients, found but not yet corrected for."""
        self._error = self._closed_error = 0.0
        """Error of the coefficients that rough products have made, and that ``_owed`` knows of."""
        self._path = self._closed_path = 0.0
        """Length of the way that the coefficients went, and its part that ``_owed`` knows of."""

    # What changes.

    def update(self, vectors: Floats, values: Floats, weights: Floats) -> None:
        """Add observations, one per row of ``vectors``; a negative weight removes one.

        Raises
        ------
        DataError
            If something is to be removed that cannot have been there; nothing has changed then.
        """
        used = np.flatnonzero(weights)
        vectors, values, weights = vectors[used], values[used], weights[used]
        if len(weights) > max(CAPACITY, len(self.coef) // 8):
            scaled = weights[:, None] * vectors
            self.absorb(vectors.T @ scaled, scaled.T @ values)
            return
        for first in range(0, len(weights), CAPACITY):
            part = slice(first, first + CAPACITY)
            self._update(vectors[part], values[part], weights[part])

    def absorb(self, gram: Floats, moment: Floats) -> None:
        """Add (or, negative, remove) the sums over many observations, and solve anew."""
        self._merge_all()
        total, right = self._a + gram, self.moment + moment
        coef = self._factored(total).solve(right)
        self._a, self.moment, self.coef = total, right, coef
        self._forget_inverse()

    def shift(self, moment: Floats) -> None:
        """Change the right-hand side t: values were corrected, their entries stayed."""
        self.coef = self.coef + self.products(moment[None])[0]
        self.moment = self.moment + moment

    def _update(self, vectors: Floats, values: Floats, weights: Floats) -> None:
        if self._fresh.count + len(weights) > CAPACITY:
            self._merge_all()
        self._settle()
        before = (self._fresh.count, self.coef, self.moment)
        alone = len(weights) == 1
        gains = self._stored.rough(vectors) if alone else self._stored.exact(vectors)
        for vector, gain, value, weight in zip(vectors, gains, values, weights, strict=True):
            gain -= self._corrected(vector)
            if alone and not self._rough_will_do(vector, gain, value, weight):
                gain += self._stored.rest(vectors)[0]
            scale = 1.0 / weight + float(vector @ gain)
            if weight < 0 and weight * scale < ALMOST_ALONE:
                self._fresh.count, self.coef, self.moment = before
                scaled = weights[:, None] * vectors
                self.absorb(vectors.T @ scaled, scaled.T @ values)
                return
            step = gain * ((value - float(vector @ self.coef)) / scale)
            self.coef = self.coef + step
            self._path += float(np.linalg.norm(step))
            self._fresh.push(vector, gain, weight, scale)
        self.moment = self.moment + (weights * values) @ vectors
        for _ in range(len(weights)):
            self._merge_slab()
        if self._slab == len(self._cuts) - 1 and self._fresh.count == CAPACITY:
            self._close()

    def _rough_will_do(self, vector: Floats, gain: Floats, value: float, weight: float) -> bool:
        """Whether the gain of a rough product does no harm; if so its error is counted."""
        scale = 1.0 / weight + float(vector @ gain)
        if weight < 0 and weight * scale < SHAKEN:
            return False
        size = float(np.linalg.norm(gain))
        wrong = self._stored.error(vector)
        step = abs((value - float(vector @ self.coef)) / scale)
        error = self._error + (wrong + self._inverse_error * size) * step
        if error > ROUGH * float(np.linalg.norm(self.coef)):
            return False
        self._error = error
        if size > 0:  # of P the share v^T k / s has changed
            self._inverse_error += 2 * (wrong / size) * abs(float(vector @ gain) / scale)
        return True

    def _settle(self) -> None:
        """Remove what rounding has left behind, where it is known."""
        if self._owed is None:
            return
        correction = self._stored.rough(self._owed[None])[0] - self._corrected(self._owed)
        self._owed = None
        missed = float(np.linalg.norm(correction))
        if self._closed_path > 0:
            self._inverse_error = CAUTION * missed / self._closed_path
        self._error -= self._closed_error
        self._path -= self._closed_path
        size = float(np.linalg.norm(self.coef))
        self.drift = missed / size if size > 0 else 0.0
        self.coef = self.coef + correction
        if self.drift > DRIFT:
            self._merge_all()
            self.coef = self._factored(self._a).solve(self.moment)
            self._forget_inverse()

    # Products with P.

    def products(self, vectors: Floats) -> Floats:
        """P v for each row v of ``vectors``."""
        out = self._stored.exact(vectors)
        for vector, product in zip(vectors, out, strict=True):
            product -= self._corrected(vector)
        return out

    def after(self, vectors: Floats, values: Floats, weights: Floats) -> Floats:
        """The coefficients if these observations were added; nothing is changed."""
        gains = self.products(vectors)
        inner = vectors @ gains.T
        inner[np.diag_indices_from(inner)] += 1.0 / weights
        rest = values - vectors @ self.coef
        return np.asarray(self.coef + scipy.linalg.solve(inner, rest, assume_a="pos") @ gains)

    @property
    def _stored(self) -> Symmetric:
        """P as it was before the corrections that are not worked in; made on first use."""
        if self._inverse is None:
            self._inverse = symmetric(self._made_inverse())
        return self._inverse

    def _corrected(self, vector: Floats) -> Floats:
        """What the corrections that are not worked in take off a product."""
        out = self._fresh.times(vector, 0)
        if self._slab < len(self._cuts) - 1:
            out += self._old.times(vector, self._cuts[self._slab])
        return out

    # Working the corrections in.

    def _close(self) -> None:
        """Start to work in the corrections collected so far."""
        self._old, self._fresh = self._fresh, self._old
        self._fresh.count = 0
        self._slab = 0
        self._closed_coef, self._closed_error = self.coef, self._error
        self._closed_path = self._path
        self._residual = self.moment.copy()

    def _merge_slab(self) -> None:
        """Work the closed corrections into the next slab of A and P; sum up the residual."""
        if self._slab == len(self._cuts) - 1:
            return
        first, last = self._cuts[self._slab : self._slab + 2]
        jobs = (self._merge_into_inverse, self._merge_into_system)
        if len(self.moment) < IN_CACHE:
            for job in jobs:
                job(first, last)
        else:
            each(len(jobs), lambda k: jobs[k](first, last))
        self._slab += 1
        if self._slab == len(self._cuts) - 1:
            self._owed = self._residual

    def _merge_into_inverse(self, first: int, last: int) -> None:
        c = self._old
        left = c.gains[: c.count, first:last] / -c.scales[: c.count, None]
        self._stored.add(first, left.T @ c.gains[: c.count, :last])

    def _merge_into_system(self, first: int, last: int) -> None:
        c, x = self._old, self._closed_coef
        slab = self._a[first:last, :last]
        left = c.weights[: c.count, None] * c.vectors[: c.count, first:last]
        slab += left.T @ c.vectors[: c.count, :last]
        self._residual[first:last] -= slab @ x[:last]
        self._residual[:first] -= x[first:last] @ slab[:, :first]

    def _merge_all(self) -> None:
        for again in range(2):
            while self._slab < len(self._cuts) - 1:
                self._merge_slab()
            if again == 0 and self._fresh.count:
                self._close()

    def system(self) -> Floats:
        """A = gram + mu I, its lower triangle; the rest is not kept up to date."""
        self._merge_all()
        return self._a

    # Factorisations.

    def _factored(self, a: Floats) -> CholeskyFactor:
        factor = CholeskyFactor.of(a)
        if factor is None:
            msg = (
                "The sums are no longer those of any observations: something was removed that had "
                "not been added, or mu is too small for the removal to be told from rounding. "
                "Nothing has changed. Check what is forgotten, or fit anew."
            )
            raise DataError(msg)
        return factor

    def _made_inverse(self) -> Floats:
        """P, with whole diagonal blocks: slabs are rectangles that end in one."""
        size = len(self.moment)
        advice = "Use lower ranks, or larger batches, which need no inverse."
        require_memory(16.0 * size**2, f"The inverse for {size:,} coefficients", advice)
        lower = self._factored(self._a).into_inverse()
        for first, last in zip(self._cuts[:-1], self._cuts[1:], strict=True):
            for matrix in (lower, self._a):
                block = np.tril(matrix[first:last, first:last])
                matrix[first:last, first:last] = block + np.tril(block, -1).T
        return lower


def _even_slabs(size: int) -> list[int]:
    """Cut a triangle into slabs of rows, rectangles of about the same area: where they begin."""
    count = min(CAPACITY, max(1, size // 64))
    area = size**2 / (2 * count)
    while True:
        cuts = [size]
        while cuts[-1] > 0:
            cuts.append(max(0, cuts[-1] - max(1, round(area / cuts[-1]))))
        if len(cuts) <= count + 1:
            return cuts[::-1]
        area *= 1.01
