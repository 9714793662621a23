"""A kernel cut to a thin factor, for so many items that the whole is too large to work with."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from kronfill._stored import Tests, floats, of, real
from kronfill._types import Floats, Index
from kronfill.core.low_rank import LowRankFactor
from kronfill.kernels.base import Kernel, inherited

__all__ = ["Thin", "thin"]


def thin(kernel: Kernel, max_rank: int) -> Kernel:
    """Return the kernel of low rank ``phi phi^T`` that is close to the one given.

    Parameters
    ----------
    kernel : Kernel
        The kernel; without an identity part, which no thin factor has room for.
    max_rank : int
        Largest number of columns of phi, chosen by pivoted Cholesky.

    Returns
    -------
    Kernel
        Its ``residual`` is the share of the trace that was left out. New items are described as
        for the kernel given.

    Examples
    --------
    >>> import numpy as np, kronfill as kf
    >>> from kronfill.kernels.thin import thin
    >>> smooth = kf.kernels.rbf(np.linspace(0, 1, 1000), length_scale=0.3)
    >>> cut = thin(smooth, 8)
    >>> cut.known_rank, cut.residual < 1e-4
    (8, True)
    >>> bool(np.abs(cut.cross([[0.5]]) - smooth.cross([[0.5]])).max() < 0.01)
    True
    """
    factor = kernel.factor(max_rank=max_rank)
    return Thin(kernel, factor, np.ascontiguousarray(factor.phi))


class Thin(Kernel):
    """``phi phi^T`` for a pivoted factor of another kernel."""

    base: Kernel
    factor_of_base: LowRankFactor
    phi: Floats
    residual: float
    stored: ClassVar[Tests] = {
        **Kernel.stored,
        "base": of(Kernel),
        "factor_of_base": of(LowRankFactor),
        "phi": floats(2),
        "residual": real,
    }

    def __init__(
        self,
        base: Kernel,
        factor: LowRankFactor,
        phi: Floats,
        labels: tuple[Any, ...] | None = None,
    ) -> None:
        phi.flags.writeable = False
        self._set(
            n=int(phi.shape[0]),
            labels=base.labels if len(phi) == base.n and labels is None else labels,
            base=base,
            factor_of_base=factor,
            phi=phi,
            residual=float(factor.residual),
            **inherited(base),
        )

    @property
    def known_rank(self) -> int:
        """See :attr:`Kernel.known_rank`."""
        return int(self.phi.shape[1])

    @property
    def explicit_rank(self) -> int:
        """See :attr:`Kernel.explicit_rank`."""
        return self.known_rank

    def _fits_together(self) -> bool:
        factor = self.factor_of_base
        shape = (self.n, factor.rank)
        return (
            super()._fits_together()
            and self.phi.shape == shape
            and self.base.is_factored_by(factor)
        )

    def _new_phi(self, new: Any) -> Floats:
        return self.base.factor_new(self.factor_of_base, new)

    def _block(self, rows: Index | None, cols: Index | None) -> Floats:
        left, right = (self.phi if items is None else self.phi[items] for items in (rows, cols))
        return np.asarray(left @ right.T)

    def _diagonal(self, rows: Index | None) -> Floats:
        return _squares(self.phi if rows is None else self.phi[rows])

    def _cross(self, new: Any, cols: Index | None) -> Floats:
        return np.asarray(self._new_phi(new) @ (self.phi if cols is None else self.phi[cols]).T)

    def _new_diagonal(self, new: Any) -> Floats:
        return _squares(self._new_phi(new))

    def _apply(self, V: Floats) -> Floats:
        return np.asarray(self.phi @ (self.phi.T @ V))

    def _factor(self, rtol: float, max_rank: int | None) -> LowRankFactor:
        if max_rank is not None and max_rank < self.known_rank:
            return super()._factor(rtol, max_rank)
        return LowRankFactor(self.phi, None, 0.0)

    def _factor_new(self, factor: LowRankFactor, new: Any) -> Floats:
        return self._new_phi(new) if factor.pivots is None else super()._factor_new(factor, new)

    def _take(self, items: Index, labels: tuple[Any, ...] | None) -> Kernel:
        return Thin(self.base, self.factor_of_base, self.phi[items], labels)

    def _parameters(self) -> dict[str, Any]:
        return {"rank": self.known_rank, "base": self.base}


def _squares(phi: Floats) -> Floats:
    return np.asarray(np.einsum("ij,ij->i", phi, phi))
