"""What the factors of an axis are before anything is observed: smooth in a kernel, and their own.

Factor f of item i is u_if + e_if with u_f ~ N(0, v_f K) over the items and e_if ~ N(0, s_f). Given
means m and variances of the factors, the posterior of u and the best v and s follow from

    log N(m_f; 0, v_f K + s_f I) - sum_i var_if / (2 s_f),

which is what the lower bound on the evidence has of factor f once u is integrated out. In the
eigenbasis of K every step costs a number of operations proportional to the number of items.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kronfill._types import Flags, Floats
from kronfill.core.threads import WIDE, one_blas_thread

__all__ = ["FactorPrior", "Smoothness"]

STEPS = 10
LEAST = 1e-12
"""Variances below this share of that of the factor are none, and eigenvalues of the largest."""
MODES = 256
"""So many leading modes of a kernel take part in variances."""
TINY = float(np.finfo(float).tiny)


@dataclass(frozen=True, eq=False)
class Smoothness:
    """K = Phi Phi^T of one axis in its eigenbasis: K = basis diag(lam) basis^T."""

    phi: Floats
    lam: Floats
    """Eigenvalues."""
    turn: Floats
    """Eigenvectors of Phi^T Phi, in rising order of eigenvalues: basis = Phi turn / sqrt(lam)."""

    @classmethod
    def of(cls, phi: Floats) -> Smoothness:
        """Find the eigenbasis."""
        with one_blas_thread(phi.shape[1] < WIDE):
            lam, turn = np.linalg.eigh(phi.T @ phi)
        keep = lam > LEAST * max(float(lam.max(initial=0.0)), TINY)
        return cls(phi, lam[keep], np.ascontiguousarray(turn[:, keep]))

    @cached_property
    def basis(self) -> Floats:
        """Eigenvectors."""
        return self.coordinates(self.phi) / self.lam

    def coordinates(self, phi: Floats) -> Floats:
        """B with B basis^T the similarities of items with factor rows ``phi`` to the known ones."""
        return np.asarray((phi @ self.turn) * np.sqrt(self.lam))

    def leading(self, phi: Floats) -> Floats:
        """Coordinates z of items in the leading modes: K is close to z z^T."""
        return np.asarray(phi @ self.turn[:, -MODES:])

    def turned(self, coef: Floats) -> Floats:
        """A with phi A = coordinates(phi) @ coef."""
        return np.asarray(self.turn @ (np.sqrt(self.lam)[:, None] * coef))


@dataclass(frozen=True, eq=False)
class FactorPrior:
    """Scales of the factors of one axis, and the posterior of their smooth part."""

    smoothness: Smoothness
    smooth: Floats
    """v, one for each factor."""
    own: Floats
    """s, one for each factor."""
    mean: Floats
    """E[u], (items, factors)."""
    evidence: float = -np.inf
    """What the bound has of these factors, their entropy apart."""
    coef: Floats | None = None
    """E[u] = phi coef, for new items too; None before anything was learned."""

    @classmethod
    def wide(cls, smoothness: Smoothness, variances: Floats) -> FactorPrior:
        """Before anything was learned: both parts of a factor have the same variance."""
        n = len(smoothness.phi)
        size = float(smoothness.lam.sum()) / n or 1.0
        return cls(smoothness, variances / size, variances, np.zeros((n, len(variances))))

    def learned(self, mean: Floats, variance: Floats) -> FactorPrior:
        """Scales and smooth part for these means and variances of the factors, all at once."""
        s = self.smoothness
        lam, c = s.lam[:, None], s.basis.T @ mean
        n, r = s.basis.shape
        inside, spread = c**2, variance.sum(axis=0)
        rest = np.maximum((mean**2).sum(axis=0) - inside.sum(axis=0), 0.0) + spread
        least = LEAST * (rest + inside.sum(axis=0)) / n + TINY
        v, own = self.smooth, self.own
        for _ in range(STEPS):  # a minorisation: the evidence never falls
            total = v * lam + own
            if r:
                gain = (lam * inside / total**2).sum(axis=0) / (lam / total).sum(axis=0)
                v = np.maximum(v * np.sqrt(gain), np.minimum(v, least))
                total = v * lam + own
            up = (inside / total**2).sum(axis=0) + rest / own**2
            down = (1.0 / total).sum(axis=0) + (n - r) / own
            own = np.maximum(own * np.sqrt(up / down), np.minimum(own, least))
        total = v * lam + own
        evidence = -0.5 * (
            np.log(total).sum() + (inside / total).sum() + ((n - r) * np.log(own)).sum()
            + (rest / own).sum() + n * mean.shape[1] * np.log(2 * np.pi)
        )  # fmt: skip
        share = v * c / total
        return FactorPrior(
            s, v, own, s.basis @ (lam * share), float(evidence), s.turned(share)
        )  # fmt: skip

    @property
    def precision(self) -> Floats:
        """Of a factor given its smooth part."""
        return 1.0 / self.own

    def reduction(self, variance: Floats) -> Floats:
        """R_f with Var u_f = v_f (k - |z|^2 + |R_f z|^2) for an item with leading coordinates z.

        ``variance`` holds the variances of the factors given their smooth part. An item tells about
        u what its observations tell about w = u + e: one number with noise s + 1 / t, where
        t = 1 / variance - 1 / s is what they add to the precision. Modes beyond the leading ones
        keep the variance that they had before anything was observed.
        """
        z = self.smoothness.leading(self.smoothness.phi)
        told = np.clip(1.0 - variance / self.own, 0.0, 1.0) / self.own  # 1 / (s + 1 / t)
        out = np.empty((len(self.own), z.shape[1], z.shape[1]))
        for f, v in enumerate(self.smooth):
            system = np.eye(z.shape[1]) + v * (z.T @ (told[:, f, None] * z))
            out[f] = np.linalg.inv(np.linalg.cholesky(system))
        return out

    def kept(self, which: Flags) -> FactorPrior:
        """Some of the factors only; what was learned from all of them is not kept."""
        return FactorPrior(
            self.smoothness, self.smooth[which], self.own[which], self.mean[:, which]
        )
