"""The classes of MC, KMC and IMC: nuclear-norm balls F = Phi_w X Phi_h^T, ||X||_* <= tau.

||A_w A_h^T||_* <= ||A_w||_F ||A_h||_F, with equality for a rank-one X = c u v^T; so the class of
KMC is this ball with tau = t_B / 2 and that of IMC with tau = sqrt(t_w t_h), whatever the number of
latent factors. The dual norm gives sup <Sigma, F> = tau ||Phi_w^T Sigma Phi_h||_2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kronfill.bounds.classes.hypothesis import HypothesisClass, check_radius
from kronfill.bounds.classes.sides import ClassAxis, FactorClass
from kronfill.bounds.complexity import spectral
from kronfill.bounds.complexity.patterns import Pattern
from kronfill.bounds.complexity.signs import PAPER, SignLaw
from kronfill.bounds.complexity.spectral import GAUSSIAN, Counts
from kronfill.bounds.fitted import nuclear_norm, value_nuclear_norm
from kronfill.bounds.splits import EntrySet, Split
from kronfill.errors import ParameterError

__all__ = ["IMCBall", "KMCBall", "NuclearBall", "SpectralClass"]


@dataclass(frozen=True, eq=False)
class NuclearBall(HypothesisClass):
    """The class of MC: matrices F with nuclear norm at most t.

    Parameters
    ----------
    shape : tuple of int
        Size of the matrices.
    t : float
        Largest nuclear norm.

    Examples
    --------
    >>> import numpy as np
    >>> from kronfill.bounds import NuclearBall, Split
    >>> ball = NuclearBall((30, 40), t=2.0)
    >>> round(ball.supremum(np.ones((30, 40))), 3)  # t times the spectral norm
    69.282
    >>> split = Split.of((np.arange(30), np.arange(30)), shape=(30, 40))
    >>> ball.complexity(split, "eyp").name
    'fourth moment'
    """

    shape: tuple[int, int]
    t: float

    def __post_init__(self) -> None:
        n, l = self.shape
        if min(n, l) < 1:
            msg = f"shape must be two positive integers, got {self.shape!r}."
            raise ParameterError(msg)
        check_radius(self.t, "t")

    @property
    def lipschitz(self) -> float:
        """See :class:`HypothesisClass`."""
        return self.t

    def _supremum(self, pattern: Pattern) -> float:
        return self.t * pattern.spectral_norm()

    def _closed_forms(self, split: Split, law: SignLaw) -> dict[str, float]:
        factor = law.scale(split.sizes) * self.t
        return {name: factor * value for name, value in _sign_forms(split, law).items()}

    def paper_form(self, split: Split) -> float:
        """Equation (11): G q t (sqrt(N) + sqrt(L)), with G = sqrt(pi / 2)."""
        n, l = self.shape
        return float(GAUSSIAN * split.sizes.q * self.t * (np.sqrt(n) + np.sqrt(l)))

    def norm_of(self, estimator: Any) -> float:
        """Nuclear norm of the fitted matrix, effects left out."""
        return value_nuclear_norm(estimator)


@dataclass(frozen=True, eq=False)
class SpectralClass(FactorClass):
    """Base of the KMC and IMC classes: nuclear norm of X at most tau."""

    dual_norm = 2

    def _closed_forms(self, split: Split, law: SignLaw) -> dict[str, float]:
        factor = law.scale(split.sizes) * self.tau
        forms = _spectral_forms(self.row, self.col, split, law)
        return {name: factor * value for name, value in forms.items()}


@dataclass(frozen=True, eq=False)
class KMCBall(SpectralClass):
    """The class of KMC: F = K_w B C^T K_h with Tr(B^T K_w B) + Tr(C^T K_h C) at most t_b.

    Parameters
    ----------
    row_kernel, col_kernel : Kernel or array-like
        The kernels.
    t_b : float
        Largest sum of the two penalties; tau = t_b / 2.

    Examples
    --------
    >>> import numpy as np
    >>> from kronfill.bounds import KMCBall, Split
    >>> ball = KMCBall(np.eye(3), np.eye(4), t_b=2.0)
    >>> round(ball.supremum(np.ones((3, 4))), 3)
    3.464
    """

    row_kernel: Any
    col_kernel: Any
    t_b: float

    def __post_init__(self) -> None:
        check_radius(self.t_b, "t_b")
        row = ClassAxis.of_kernel(self.row_kernel, "row_kernel")
        self._set_axes(row, ClassAxis.of_kernel(self.col_kernel, "col_kernel"))

    @property
    def tau(self) -> float:
        """See :class:`SpectralClass`."""
        return self.t_b / 2.0

    def paper_form(self, split: Split) -> float:
        """Theorem 2 as printed: lambda_max G q t_B (sqrt(N) + sqrt(L)), with G = sqrt(pi / 2)."""
        n, l = self.shape
        top = max(self.row.top, self.col.top)
        return float(top * GAUSSIAN * split.sizes.q * self.t_b * (np.sqrt(n) + np.sqrt(l)))

    def corrected_form(self, split: Split) -> float:
        """G q (t_B / 2) sqrt(lambda_max(K_w) lambda_max(K_h)) (sqrt(N) + sqrt(L))."""
        n, l = self.shape
        stretch = np.sqrt(self.row.top * self.col.top)
        return float(GAUSSIAN * split.sizes.q * self.tau * stretch * (np.sqrt(n) + np.sqrt(l)))

    def norm_of(self, estimator: Any) -> float:
        """The smallest t_b with which the fitted model is a member, twice the norm of A_w A_h^T."""
        return 2.0 * nuclear_norm(estimator)


@dataclass(frozen=True, eq=False)
class IMCBall(SpectralClass):
    """The class of IMC: F = Phi_w A_w A_h^T Phi_h^T with squared norms at most t_w and t_h.

    Parameters
    ----------
    row_features, col_features : array-like
        Phi_w and Phi_h.
    t_w, t_h : float
        Largest squared Frobenius norms of A_w and A_h; tau = sqrt(t_w t_h).

    Examples
    --------
    >>> import numpy as np
    >>> from kronfill.bounds import IMCBall
    >>> ball = IMCBall(np.ones((3, 1)), np.ones((4, 1)), t_w=1.0, t_h=4.0)
    >>> round(ball.supremum(np.ones((3, 4))), 3)
    24.0
    """

    row_features: Any
    col_features: Any
    t_w: float
    t_h: float

    def __post_init__(self) -> None:
        check_radius(self.t_w, "t_w")
        check_radius(self.t_h, "t_h")
        row = ClassAxis.of_features(self.row_features)
        self._set_axes(row, ClassAxis.of_features(self.col_features))

    @property
    def tau(self) -> float:
        """See :class:`SpectralClass`."""
        return float(np.sqrt(self.t_w * self.t_h))

    def paper_form(self, split: Split) -> float:
        """Theorem 3 as its proof ends: q sqrt(t_w t_h Tr(S_n K S_n^T)), with the square root."""
        return self.trace_form(split, PAPER)

    def norm_of(self, estimator: Any) -> float:
        """The smallest sqrt(t_w t_h) with which the fitted model is a member."""
        return nuclear_norm(estimator)


def _sign_forms(split: Split, law: SignLaw) -> dict[str, float]:
    counts = Counts.of(split.entries)
    return spectral.closed_forms(counts, law.keep(split.sizes), law.name != "sub")


def _spectral_forms(row: ClassAxis, col: ClassAxis, split: Split, law: SignLaw) -> dict[str, float]:
    """Bounds on the expected spectral norm of Phi_w^T Sigma Phi_h."""
    entries, keep = split.entries, law.keep(split.sizes)
    left, right = row.restricted(entries.row_counts), col.restricted(entries.col_counts)
    trace = entries.total(row.diagonal, col.diagonal)
    # Chevet: E ||A^T G B|| <= ||A||_2 ||B||_F + ||A||_F ||B||_2
    chevet = np.sqrt(right.top * left.diagonal.sum()) + np.sqrt(left.top * right.diagonal.sum())
    forms = {
        "trace": float(np.sqrt(keep * trace)),
        "Chevet": GAUSSIAN * float(chevet),
        **_kernel_chernoff(row, col, entries, keep, law),
    }
    stretch = float(np.sqrt(left.top * right.top))
    for name, value in _sign_forms(split, law).items():
        forms[f"{name}, stretched"] = stretch * value
    return forms


def _kernel_chernoff(
    row: ClassAxis, col: ClassAxis, entries: EntrySet, keep: float, law: SignLaw
) -> dict[str, float]:
    """Matrix Khintchine and Bernstein bounds with v = max of the two sums of A A^T and A^T A."""
    v = max(
        row.weighted_top(entries.row_sums(col.diagonal)),
        col.weighted_top(entries.col_sums(row.diagonal)),
    )
    log_dim = float(np.log(row.phi.shape[1] + col.phi.shape[1]))
    unit = float(row.diagonal.max() * col.diagonal.max())
    kept = spectral.kept_maximum(v, keep, log_dim, unit)
    forms = {"matrix Khintchine": float(np.sqrt(2.0 * kept * log_dim))}
    if law.name == "eyp":
        bernstein = np.sqrt(2.0 * keep * v * log_dim) + np.sqrt(unit) * log_dim / 3.0
        forms["matrix Bernstein"] = float(bernstein)
    return forms
