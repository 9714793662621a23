"""Running sums for effects of groups that do not overlap: recursive least squares."""

from __future__ import annotations

from typing import Any

import numpy as np

from kronfill._types import Floats, Index
from kronfill.core.limits import SUMMED_FLOATS
from kronfill.errors import DataError
from kronfill.online.group_means import GroupMeans, feature_sums
from kronfill.online.recursive import CAPACITY, RecursiveRidge
from kronfill.online.running import Change, RunningSums, pair_vectors
from kronfill.ridge.effects import AdditiveEffects
from kronfill.solvers.primal import factorised_normal, normal_equations

__all__ = ["GroupedSums", "SummedRidge"]


class SummedRidge:
    """A ridge regression solved anew from its sums: for systems that rounding makes singular."""

    drift = 0.0

    def __init__(self, gram: Floats, moment: Floats, mu: float) -> None:
        self._gram, self.moment, self.mu = gram, moment, mu
        self._solve()

    def _solve(self) -> None:
        self._factor = factorised_normal(self._gram, self.mu)
        self.coef, self.rank = self._factor.solve(self.moment), self._factor.rank

    def update(self, vectors: Floats, values: Floats, weights: Floats) -> None:
        """See :class:`RecursiveRidge`."""
        scaled = weights[:, None] * vectors
        self.absorb(vectors.T @ scaled, scaled.T @ values)

    def absorb(self, gram: Floats, moment: Floats) -> None:
        """See :class:`RecursiveRidge`."""
        self._gram, self.moment = self._gram + gram, self.moment + moment
        self._solve()

    def shift(self, moment: Floats) -> None:
        """See :class:`RecursiveRidge`."""
        self.moment = self.moment + moment
        self.coef = self._factor.solve(self.moment)

    def after(self, vectors: Floats, values: Floats, weights: Floats) -> Floats:
        """See :class:`RecursiveRidge`."""
        scaled = weights[:, None] * vectors
        gram, moment = self._gram + vectors.T @ scaled, self.moment + scaled.T @ values
        return factorised_normal(gram, self.mu).solve(moment)

    def products(self, vectors: Floats) -> Floats:
        """See :class:`RecursiveRidge`."""
        return self._factor.whiten_adjoint(self._factor.whiten(vectors.T)).T


def _lost(mu: float, size: int, trace: float) -> bool:
    """Whether mu cannot be told from the rounding errors of sums with this trace."""
    return bool(mu <= size * np.finfo(float).eps * trace)


class GroupedSums(RunningSums):
    """Sums for no effects, a mean, row effects or column effects: recursive least squares."""

    def __init__(self, row_phi: Floats, col_phi: Floats, mu: float, kind: Any) -> None:
        super().__init__(row_phi, col_phi, mu)
        self.kind = kind
        self._ridge: RecursiveRidge | SummedRidge | None = None
        self._energy = self._trace = 0.0
        a, b = self.core_shape
        groups = {None: 0, "mean": 1, "rows": len(row_phi), "cols": len(col_phi)}
        width = {None: 0, "mean": a * b, "rows": b, "cols": a}
        self.means = GroupMeans.empty(groups[kind], width[kind])

    def _change(self, batch: Change, sign: int) -> None:
        kept = None if sign > 0 else (self.means.copy(), self._energy, self._trace)
        try:
            if batch.m > max(CAPACITY, int(np.prod(self.core_shape)) // 8):
                self._absorb(batch, sign)
            else:
                vectors, values, weights = self._centred(self.means, batch, sign)
                self._energy += float(weights @ values**2)
                self._trace += float(weights @ np.einsum("ij,ij->i", vectors, vectors))
                self._push(vectors, values, weights)
        except DataError:
            if kept is not None:
                self.means, self._energy, self._trace = kept
            raise

    def _group(self, row: int, col: int) -> int:
        return {"mean": 0, "rows": row, "cols": col}[self.kind]

    def _centred(
        self, means: GroupMeans, batch: Change, sign: int, row_phi: Any = None, col_phi: Any = None
    ) -> tuple[Floats, Floats, Floats]:
        """Each observation as it looks to the coefficients, the means being moved along."""
        p = (self.row_phi if row_phi is None else row_phi)[batch.rows]
        q = (self.col_phi if col_phi is None else col_phi)[batch.cols]
        if self.kind is None:
            return pair_vectors(p, q), batch.values, sign * batch.weights
        features = {"mean": pair_vectors(p, q), "rows": q, "cols": p}[self.kind].copy()
        values, weights = np.empty(batch.m), np.empty(batch.m)
        move = means.join if sign > 0 else means.leave
        for k in range(batch.m):
            group = self._group(batch.rows[k], batch.cols[k])
            if sign < 0 and means.counts[group] > 1:
                self._check_weight(means, group, batch.weights[k])
            features[k], values[k], weights[k] = move(
                group, features[k].copy(), batch.values[k], batch.weights[k]
            )
        lifted = {"mean": (features, None), "rows": (p, features), "cols": (features, q)}
        return pair_vectors(*lifted[self.kind]), values, weights

    def _check_weight(self, means: GroupMeans, group: int, weight: float) -> None:
        if weight >= means.weights[group]:
            msg = (
                f"An observation of weight {weight:g} is to be forgotten where all together have "
                f"{means.weights[group]:g}. Give the weights that were given to partial_fit."
            )
            raise DataError(msg)

    def _push(self, vectors: Floats, values: Floats, weights: Floats) -> None:
        if self._ridge is None:
            scaled = weights[:, None] * vectors
            self._begin(vectors.T @ scaled, scaled.T @ values)
        else:
            self._prepare()
            self._ridge.update(vectors, values, weights)

    def _begin(self, gram: Floats, moment: Floats) -> None:
        size = len(moment)
        anew = size == 0 or _lost(self.mu, size, self._trace)
        self._ridge = (SummedRidge if anew else RecursiveRidge)(gram, moment, self.mu)

    def _prepare(self) -> None:
        """Leave recursion where mu has sunk below the rounding errors of the sums."""
        ridge = self._ridge
        if isinstance(ridge, RecursiveRidge) and _lost(self.mu, len(ridge.coef), self._trace):
            lower = np.tril(ridge.system())
            lower[np.diag_indices_from(lower)] -= self.mu
            self._ridge = SummedRidge(lower + np.tril(lower, -1).T, ridge.moment, self.mu)

    def _absorb(self, batch: Change, sign: int) -> None:
        """Many observations at once, through the normal equations of the batch."""
        s = batch.sampled(self.shape, self.kind)
        gram, moment = normal_equations(self.row_phi, self.col_phi, s)
        rest = s.values if s.effects is None else s.effects.remove(s.values)
        energy = float(batch.weights @ rest**2)
        gram, moment, energy = sign * gram, sign * moment, sign * energy
        if self.kind is not None:
            group = {"mean": np.zeros_like(s.rows), "rows": s.rows, "cols": s.cols}[self.kind]
            sums = feature_sums(self.kind, s.sparse(batch.weights), self.row_phi, self.col_phi)
            other = GroupMeans.of(group, batch.values, batch.weights, sums)
            between, gap, values, weights = self.means.merge(other, sign)
            energy += float(weights @ values**2)
            step = max(1, SUMMED_FLOATS // gram.shape[0])
            for first in range(0, len(between), step):
                part = slice(first, first + step)
                vectors = self.lifted(between[part], gap[part])
                scaled = weights[part, None] * vectors
                gram += vectors.T @ scaled
                moment += scaled.T @ values[part]
        self._energy += energy
        self._trace += float(np.trace(gram))
        if self._ridge is None:
            self._begin(gram, moment)
        else:
            self._prepare()
            self._ridge.absorb(gram, moment)

    def lifted(self, groups: Index, gap: Floats) -> Floats:
        """Distances between group means as vectors of the length of the coefficients."""
        if self.kind == "mean":
            return gap
        rows = self.kind == "rows"
        return (
            pair_vectors(self.row_phi[groups], gap)
            if rows
            else pair_vectors(gap, self.col_phi[groups])
        )

    def revise(self, batch: Change, values: Floats) -> None:
        """See :class:`RunningSums`: entries and weights stay, so that the system does."""
        ridge = self._fitted
        before = self.means.copy()
        p, q = self.row_phi[batch.rows], self.col_phi[batch.cols]
        change = batch.weights * (values - batch.values)
        moment = change @ pair_vectors(p, q)
        self._energy += float(batch.weights @ (values**2 - batch.values**2))
        if self.kind is not None:
            group = np.array(
                [self._group(i, j) for i, j in zip(batch.rows, batch.cols, strict=True)]
            )
            total = np.bincount(group, change, minlength=len(before.weights))
            seen = np.flatnonzero(total)
            moment = moment - total[seen] @ self.lifted(seen, before.features[seen])
            self.means.values[seen] += total[seen] / before.weights[seen]
            squares = self.means.values[seen] ** 2 - before.values[seen] ** 2
            self._energy -= float(before.weights[seen] @ squares)
        ridge.shift(moment)

    def with_item(
        self, phi: Floats, index: Index, values: Floats, weights: Floats, axis: int
    ) -> tuple[Floats, AdditiveEffects | None]:
        """See :class:`RunningSums`."""
        row_phi, col_phi, new = self._with_new(phi, index, values, weights, axis)
        means = self.means.copy(int((axis, self.kind) in ((0, "rows"), (1, "cols"))))
        vectors, rest, left = self._centred(means, new, 1, row_phi, col_phi)
        used = left > 0
        coef = self._fitted.after(vectors[used], rest[used], left[used])
        core = coef.reshape(self.core_shape)
        return core, self._effects(means, core, row_phi, col_phi)

    def _effects(
        self, means: GroupMeans, core: Floats, row_phi: Floats, col_phi: Floats
    ) -> AdditiveEffects | None:
        if self.kind is None:
            return None
        row, col = np.zeros(len(row_phi)), np.zeros(len(col_phi))
        if self.kind == "mean":
            return AdditiveEffects(
                float(means.values[0] - means.features[0] @ core.ravel()), row, col
            )
        rows = self.kind == "rows"
        fitted = row_phi @ core if rows else col_phi @ core.T
        effect = means.values - np.einsum("ij,ij->i", fitted, means.features)
        seen = means.counts > 0
        mean = float(effect[seen].mean())
        effect = np.where(seen, effect - mean, 0.0)
        return AdditiveEffects(mean, effect if rows else row, col if rows else effect)

    @property
    def _fitted(self) -> RecursiveRidge | SummedRidge:
        assert self._ridge is not None  # sums are made of at least one observation
        return self._ridge

    @property
    def core(self) -> Floats:
        """See :class:`RunningSums`."""
        return self._fitted.coef.reshape(self.core_shape)

    @property
    def effects(self) -> AdditiveEffects | None:
        """See :class:`RunningSums`."""
        return self._effects(self.means, self.core, self.row_phi, self.col_phi)

    @property
    def least(self) -> float:
        """See :class:`RunningSums`: (y^T M y - t^T x) / mu."""
        ridge = self._fitted
        return max(0.0, self._energy - float(ridge.moment @ ridge.coef)) / self.mu

    @property
    def rank(self) -> int:
        """See :class:`RunningSums`."""
        ridge = self._fitted
        return ridge.rank if isinstance(ridge, SummedRidge) else len(ridge.coef)

    @property
    def drift(self) -> float:
        """See :class:`RunningSums`."""
        return self._fitted.drift

    def products(self, vectors: Floats) -> Floats:
        """See :class:`RunningSums`."""
        return self._fitted.products(vectors)
