"""Rows or columns of a bilinear form whose factors were learned: known items, and new ones.

With x_i of mean m_i and covariance S_i, and z_j of mean n_j and covariance C_j, independent,

    Var(x_i . z_j) = <S_i, n_j n_j^T + C_j> + <m_i m_i^T, C_j>.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from kronfill._stored import Tests, floats, of, optional, tuple_of, whole
from kronfill._types import Floats, Index
from kronfill.core.limits import SUMMED_FLOATS
from kronfill.estimators.fitted.bilinear import Basis
from kronfill.estimators.fitted.identity_part import SmoothBasis
from kronfill.kernels.new_items import new_diagonal
from kronfill.variational.factors import AxisPosterior
from kronfill.variational.prior import MODES, FactorPrior, Smoothness
from kronfill.variational.rows import packed_size

__all__ = ["PosteriorBasis", "block_variances", "pair_variances"]


@dataclass(frozen=True, eq=False)
class PosteriorBasis(Basis):
    """Factors of every item, its effect, and a one for the effect of the partner.

    A known item has the factors that were fitted, a new one what the kernel makes one expect.
    """

    smooth: SmoothBasis
    turn: Floats
    """The leading modes of the kernel, see :class:`~kronfill.variational.prior.Smoothness`."""
    reduction: Floats
    """What the observations have left of their variance, (unknowns, modes, modes), see
    :meth:`~kronfill.variational.prior.FactorPrior.reduction`."""
    coef: Floats
    """The smooth part of the unknowns has the mean smooth @ coef, for new items too."""
    scales: Floats
    """(2, unknowns): the variances v of the smooth part and s of the own part."""
    values: Floats
    """Unknowns of the known items: factors, then the effect if there is one."""
    covariance: Floats
    """Their covariances given the smooth part, packed lower triangles."""
    spread: Floats
    """Variances of the smooth part of the known items."""
    places: tuple[int | None, int | None]
    """Columns of the effect and of the one."""
    stored: ClassVar[Tests] = {
        "smooth": of(SmoothBasis),
        "turn": floats(2),
        "reduction": floats(3),
        "coef": floats(2),
        "scales": floats(2),
        "values": floats(2),
        "covariance": floats(2),
        "spread": floats(2),
        "places": tuple_of(optional(whole), 2),
    }

    @classmethod
    def of(
        cls,
        axis: AxisPosterior,
        items: Index,
        smooth: SmoothBasis,
        places: tuple[int | None, int | None],
    ) -> PosteriorBasis:
        """Keep what was learned about the items with observations, and what follows for others."""
        prior, (n, d) = axis.prior, (smooth.size[0], axis.mean.shape[1])
        assert prior.coef is not None
        turn = np.ascontiguousarray(prior.smoothness.turn[:, -MODES:])
        reduction, scales = prior.reduction(axis.variances), np.stack([prior.smooth, prior.own])
        values, covariance = axis.mean, axis.covariance
        if len(items) < n:
            values, covariance = smooth.known(None) @ prior.coef, np.zeros((n, packed_size(d)))
            covariance[:, np.cumsum(np.arange(1, d + 1)) - 1] = prior.own
            values[items], covariance[items] = axis.mean, axis.covariance
        bare = cls(
            smooth, turn, reduction, prior.coef, scales, values, covariance, np.zeros((n, d)),
            places,
        )  # fmt: skip
        phi = smooth.known(None)
        return replace(bare, spread=bare._smooth_variance(phi, np.einsum("ij,ij->i", phi, phi)))

    @property
    def size(self) -> tuple[int, int]:
        """See :class:`Basis`."""
        n, d = self.values.shape
        return n, d + (self.places[1] is not None)

    @property
    def rank(self) -> int:
        """Number of factors."""
        return int(self.values.shape[1]) - (self.places[0] is not None)

    def _fits_together(self) -> bool:
        (n, d), r = self.values.shape, self.smooth.size[1]
        rest = sorted(place for place in self.places if place is not None)
        modes = self.turn.shape[1]
        return (
            self.smooth.size[0] == n
            and self.coef.shape == (r, d)
            and self.scales.shape == (2, d)
            and bool((self.scales > 0).all())
            and len(self.turn) == r
            and self.reduction.shape == (d, modes, modes)
            and self.covariance.shape == (n, packed_size(d))
            and self.spread.shape == (n, d)
            and rest == list(range(self.rank, self.rank + len(rest)))
        )

    def known(self, items: Index | None) -> Floats:
        """See :class:`Basis`."""
        return self._arranged(self.values if items is None else self.values[items])

    def new(self, items: Any) -> Floats:
        """See :class:`Basis`."""
        return self._arranged(self.new_unknowns(items))

    def new_unknowns(self, items: Any) -> Floats:
        """Means of the unknowns of new items."""
        return np.asarray(self.smooth.new(items) @ self.coef)

    def known_covariance(self, items: Index) -> Floats:
        """Covariances of the columns of the basis at known items.

        What is not known of the smooth part is included: the mean S_i (... + u_i / s) of an item
        carries the variance of u_i on. Without observations that is s + Var u.
        """
        d = self.values.shape[1]
        low, high = np.tril_indices(d)
        own = np.empty((len(items), d, d))
        own[:, low, high] = own[:, high, low] = self.covariance[items]
        if self.turn.size:
            gain = own / self.scales[1]
            own += (gain * self.spread[items][:, None, :]) @ gain.transpose(0, 2, 1)
        return self._placed(own)

    def new_covariance(self, items: Any) -> Floats:
        """Covariances of the columns of the basis at new items, of which nothing was observed."""
        kernel = self.smooth.kernel
        itself = new_diagonal(kernel, items) - kernel.split()[1]
        variances = self._smooth_variance(self.smooth.new(items), itself) + self.scales[1]
        return self._placed(variances[:, :, None] * np.eye(len(variances.T)))

    def _smooth_variance(self, phi: Floats, itself: Floats) -> Floats:
        """Var u of items with these rows of the factor and similarities with themselves."""
        z = phi @ self.turn
        left = np.maximum(itself - np.einsum("ij,ij->i", z, z), 0.0)
        told = [((z @ part.T) ** 2).sum(axis=1) for part in self.reduction]
        out = np.column_stack([left + part for part in told]) if told else np.zeros((len(z), 0))
        return np.asarray(self.scales[0] * out)

    def axis(self, items: Index, smoothness: Smoothness) -> AxisPosterior:
        """What sweeps over these known items can go on from."""
        mean = self.smooth.known(items) @ self.coef
        prior = FactorPrior(smoothness, self.scales[0], self.scales[1], mean)
        has_effect = self.places[0] is not None
        return AxisPosterior(prior, self.values[items], self.covariance[items], 0.0, has_effect)

    @property
    def _at(self) -> Index:
        """Columns of the unknowns."""
        effect = self.places[0]
        own = [*range(self.rank)] + ([] if effect is None else [effect])
        return np.array(own, dtype=np.intp)

    def _arranged(self, unknowns: Floats) -> Floats:
        out = np.ones((len(unknowns), self.size[1]))
        out[:, self._at] = unknowns
        return out

    def _placed(self, covariances: Floats) -> Floats:
        width = self.size[1]
        out = np.zeros((len(covariances), width, width))
        out[:, self._at[:, None], self._at] = covariances
        return out


def pair_variances(row: PosteriorBasis, col: PosteriorBasis, rows: Index, cols: Index) -> Floats:
    """Variance of the latent value of each entry."""
    out = np.empty(len(rows))
    for part in _parts(len(rows), row.size[1]):
        items_r, at_r = np.unique(rows[part], return_inverse=True)
        items_c, at_c = np.unique(cols[part], return_inverse=True)
        s, c = row.known_covariance(items_r)[at_r], col.known_covariance(items_c)[at_c]
        m, n = row.known(rows[part]), col.known(cols[part])
        ours = ((s @ n[:, :, None])[:, :, 0] * n).sum(axis=1)
        theirs = ((c @ m[:, :, None])[:, :, 0] * m).sum(axis=1)
        out[part] = ours + theirs + (s * c).sum(axis=(1, 2))
    return out


def block_variances(
    row: PosteriorBasis, col: PosteriorBasis, new_rows: Any, new_cols: Any
) -> Floats:
    """Variances of a block of new rows and columns; None stands for all the known ones."""
    (k, of_rows), (l, of_cols) = _moments(row, new_rows), _moments(col, new_cols)
    out = np.empty((k, l))
    for right in _parts(l, col.size[1]):
        outer, c = of_cols(right)
        for left in _parts(k, row.size[1]):
            mm, s = of_rows(left)
            out[left, right] = s @ (outer + c).T + mm @ c.T
    return out


def _moments(
    basis: PosteriorBasis, new: Any
) -> tuple[int, Callable[[slice], tuple[Floats, Floats]]]:
    """Number of items, and of some of them m m^T and the covariances, flat."""
    mean = basis.known(None) if new is None else basis.new(new)
    covariance = None if new is None else basis.new_covariance(new)

    def part(which: slice) -> tuple[Floats, Floats]:
        m = mean[which]
        if covariance is None:
            own = basis.known_covariance(np.arange(len(mean))[which])
        else:
            own = covariance[which]
        return _flat(m[:, :, None] * m[:, None, :]), _flat(own)

    return len(mean), part


def _flat(squares: Floats) -> Floats:
    return squares.reshape(len(squares), squares.shape[1] * squares.shape[2])


def _parts(count: int, width: int) -> list[slice]:
    step = max(1, SUMMED_FLOATS // max(1, width**2))
    return [slice(first, first + step) for first in range(0, count, step)]
