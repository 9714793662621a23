"""Running sums for row and column effects together, whose groups overlap."""

from __future__ import annotations

import numpy as np

from kronfill._types import Floats, Index
from kronfill.errors import DataError
from kronfill.online.running import Change, RunningSums, pair_vectors
from kronfill.ridge.effects import AdditiveEffects, half_inverse
from kronfill.solvers.primal import effects_blocks, factorised_normal, normal_equations

__all__ = ["TwoWaySums"]


class TwoWaySums(RunningSums):
    """Sums for row and column effects together: eliminated from the sums at each solve."""

    kind = "both"

    def __init__(self, row_phi: Floats, col_phi: Floats, mu: float) -> None:
        super().__init__(row_phi, col_phi, mu)
        size = int(np.prod(self.core_shape))
        self._gram, self._moment = np.zeros((size, size)), np.zeros(size)
        self.table = np.zeros(self.shape)
        """Weight of each entry."""
        self._sums = [np.zeros(n) for n in self.shape]
        self._squares = 0.0

    def _change(self, batch: Change, sign: int) -> None:
        table = self.table.copy()
        np.add.at(table, (batch.rows, batch.cols), sign * batch.weights)
        if sign < 0:
            self._check(table, batch)
        s = batch.sampled(self.shape, None)
        gram, moment = normal_equations(self.row_phi, self.col_phi, s)
        self._gram += sign * gram
        self._moment = self._moment + sign * moment
        self.table = table
        self._add_values(batch, sign * batch.weights * batch.values)
        self._squares += sign * float(batch.weights @ batch.values**2)
        self._solve()

    def _check(self, table: Floats, batch: Change) -> None:
        at = (batch.rows, batch.cols)
        short = np.flatnonzero(table[at] < -1e-12 * self.table[at])
        if len(short) or not self.table[at].all():
            k = int(short[0]) if len(short) else int(np.argmin(self.table[at]))
            entry = (int(batch.rows[k]), int(batch.cols[k]))
            msg = (
                f"Entry {entry} has weight {self.table[entry]:g}, less than is to be forgotten. "
                "Forget only what was given to fit or partial_fit, with the same weights."
            )
            raise DataError(msg)
        # What is left of equal weights that were added and taken off again is rounding.
        table[at] = np.where(table[at] <= 1e-12 * self.table[at], 0.0, table[at])

    def _add_values(self, batch: Change, weighted: Floats) -> None:
        np.add.at(self._sums[0], batch.rows, weighted)
        np.add.at(self._sums[1], batch.cols, weighted)

    def revise(self, batch: Change, values: Floats) -> None:
        """See :class:`RunningSums`."""
        change = batch.weights * (values - batch.values)
        self._moment = self._moment + change @ pair_vectors(
            self.row_phi[batch.rows], self.col_phi[batch.cols]
        )
        self._add_values(batch, change)
        self._squares += float(batch.weights @ (values**2 - batch.values**2))
        self._solve()

    def _solve(self) -> None:
        """Eliminate the effects, solve for X, then for the effects."""
        rows, cols = np.nonzero(self.table)
        weights = self.table[rows, cols]
        s = Change(rows, cols, np.zeros(len(rows)), weights).sampled(self.shape, "both")
        assert s.effects is not None
        cross, inner, _ = effects_blocks(self.row_phi, self.col_phi, s, s.effects)
        sums = np.concatenate([[self._sums[0].sum()], *self._sums])
        root = half_inverse(inner)
        half, along = cross @ root, root.T @ sums
        moment = self._moment - half @ along
        self._factor = factorised_normal(self._gram - half @ half.T, self.mu)
        self._coef = self._factor.solve(moment)
        energy = self._squares - float(along @ along) - float(moment @ self._coef)
        self._least = max(0.0, energy) / self.mu
        self._found = s.effects.solve_normal(inner, sums - self._coef @ cross)

    def with_item(
        self, phi: Floats, index: Index, values: Floats, weights: Floats, axis: int
    ) -> tuple[Floats, AdditiveEffects | None]:
        """See :class:`RunningSums`."""
        row_phi, col_phi, new = self._with_new(phi, index, values, weights, axis)
        grown = TwoWaySums(row_phi, col_phi, self.mu)
        grown._gram, grown._moment = self._gram.copy(), self._moment
        n, l = self.shape
        grown.table[:n, :l] = self.table
        for axis_sums, sums in zip(grown._sums, self._sums, strict=True):
            axis_sums[: len(sums)] = sums
        grown._squares = self._squares
        grown.add(new)
        return grown.core, grown.effects

    @property
    def core(self) -> Floats:
        """See :class:`RunningSums`."""
        return self._coef.reshape(self.core_shape)

    @property
    def effects(self) -> AdditiveEffects:
        """See :class:`RunningSums`."""
        return self._found

    @property
    def least(self) -> float:
        """See :class:`RunningSums`."""
        return self._least

    @property
    def rank(self) -> int:
        """See :class:`RunningSums`."""
        return self._factor.rank

    @property
    def drift(self) -> float:
        """See :class:`RunningSums`: each solve is a new one."""
        return 0.0

    def products(self, vectors: Floats) -> Floats:
        """See :class:`RunningSums`."""
        return self._factor.whiten_adjoint(self._factor.whiten(vectors.T)).T
