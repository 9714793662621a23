"""The classes of KKMCEX: balls of the reproducing kernel Hilbert space of K_h (x) K_w."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from kronfill._types import Floats
from kronfill.bounds.classes.hypothesis import HypothesisClass, check_radius
from kronfill.bounds.classes.nystrom import TrainingKernel, nystrom_trace
from kronfill.bounds.classes.sides import ClassAxis, FactorClass, rotated
from kronfill.bounds.complexity.patterns import Pattern
from kronfill.bounds.complexity.signs import PAPER, SignLaw
from kronfill.bounds.fitted import rkhs_norm
from kronfill.bounds.splits import Split
from kronfill.errors import ParameterError
from kronfill.kernels import as_kernel

__all__ = ["LocalBall", "RKHSBall", "TrainingSpan"]

CHUNK = 1_000_000


@dataclass(frozen=True, eq=False)
class RKHSBall(FactorClass):
    """Matrices of norm at most b in the space of K_h (x) K_w: the class of KKMCEX to use.

    Unlike the class printed in the paper it does not depend on which entries are observed.

    Parameters
    ----------
    row_kernel, col_kernel : Kernel or array-like
        The kernels.
    b : float
        Largest norm, b^2 = d^T Kbar d for KKMCEX.

    Examples
    --------
    >>> import numpy as np
    >>> from kronfill.bounds import RKHSBall, Split
    >>> ball = RKHSBall(np.eye(30), np.eye(40), b=2.0)
    >>> split = Split.of((np.arange(30), np.arange(30)), shape=(30, 40))
    >>> round(ball.complexity(split, "sub").value, 3)  # 2 b sqrt(kbar / k)
    0.73
    >>> round(ball.complexity(split, "eyp").value, 3)  # b sqrt(2 q kbar)
    0.523
    """

    row_kernel: Any
    col_kernel: Any
    b: float
    dual_norm = None  # the Frobenius norm is its own dual

    def __post_init__(self) -> None:
        check_radius(self.b, "b")
        row = ClassAxis.of_kernel(self.row_kernel, "row_kernel")
        self._set_axes(row, ClassAxis.of_kernel(self.col_kernel, "col_kernel"))

    @property
    def tau(self) -> float:
        """See :class:`FactorClass`."""
        return self.b

    def _closed_forms(self, split: Split, law: SignLaw) -> dict[str, float]:
        return {"trace": self.trace_form(split, law)}

    def paper_form(self, split: Split) -> float:
        """Q b sqrt(Tr(S_n K_f S_n^T)): Theorem 4 with the whole space for the training span."""
        return self.trace_form(split, PAPER)

    def norm_of(self, estimator: Any) -> float:
        """Norm of the fitted function, effects left out."""
        return rkhs_norm(estimator)


@dataclass(frozen=True, eq=False)
class LocalBall(HypothesisClass):
    """The ball of radius b, cut down to matrices whose mean square over all entries is at most r.

    The fitted size is known without any test label, so a bound may use it. The supremum over the
    intersection of two ellipsoids is the smallest of those over their theta-means.

    Parameters
    ----------
    ball : RKHSBall
        The ball.
    r : float
        Largest mean of F^2 over the whole matrix.

    Examples
    --------
    >>> import numpy as np, kronfill as kf
    >>> from kronfill.bounds import LocalBall, RKHSBall, Split
    >>> kernel = kf.kernels.rbf(np.linspace(0, 1, 30), length_scale=0.5)
    >>> ball = RKHSBall(kernel, kernel, b=5.0)
    >>> split = Split.of((np.arange(30), np.arange(30)), shape=(30, 30))
    >>> bool(LocalBall(ball, r=0.2).complexity(split).value < 0.5 * ball.complexity(split).value)
    True
    """

    ball: RKHSBall
    r: float

    def __post_init__(self) -> None:
        if check_radius(self.r, "r") == 0.0 or self.ball.b == 0.0:
            msg = f"r and b must be positive, got r={self.r!r}, b={self.ball.b!r}."
            raise ParameterError(msg)

    @property
    def shape(self) -> tuple[int, int]:  # type: ignore[override]
        """Size of the matrices."""
        return self.ball.shape

    @property
    def lipschitz(self) -> float:
        """See :class:`HypothesisClass`."""
        return self.ball.lipschitz

    @property
    def _size(self) -> float:
        return self.shape[0] * self.shape[1] * self.r

    @cached_property
    def _rotated(self) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats]]:
        """Eigenvalues and rotated factors of the two kernels."""
        return rotated(self.ball.row.phi), rotated(self.ball.col.phi)

    def _supremum(self, pattern: Pattern) -> float:
        (lam_w, phi_w), (lam_h, phi_h) = self._rotated
        square = (phi_w.T @ pattern.times(phi_h)) ** 2
        lam = np.outer(lam_w, lam_h)

        def value(theta: float) -> float:
            return float(np.sum(square / (theta / self.ball.b**2 + (1 - theta) * lam / self._size)))

        found = minimize_scalar(value, bounds=(0.0, 1.0), method="bounded")
        return float(np.sqrt(min(found.fun, value(1.0))))

    @cached_property
    def _trace(self) -> float:
        """Min over theta of the sum of 1 / (theta / (b^2 lambda_j) + (1 - theta) / (n r))."""
        lam_w, lam_h = self.ball.row.eigenvalues, self.ball.col.eigenvalues
        step = max(1, CHUNK // len(lam_h))
        parts = [slice(start, start + step) for start in range(0, len(lam_w), step)]

        def value(theta: float) -> float:
            total = 0.0
            for part in parts:
                lam = np.outer(lam_w[part], lam_h)
                total += float(
                    np.sum(lam / (theta / self.ball.b**2 + (1 - theta) * lam / self._size))
                )
            return total

        # It is convex in theta; theta = 1 is the ball.
        found = minimize_scalar(
            value, bounds=(1e-9, 1.0), method="bounded", options={"xatol": 1e-4}
        )
        return float(min(found.fun, value(1.0)))

    def _closed_forms(self, split: Split, law: SignLaw) -> dict[str, float]:
        keep, scale = law.keep(split.sizes), law.scale(split.sizes)
        return {
            "fitted size": float(scale * np.sqrt(keep * self._trace)),
            **self.ball.closed_forms(split, law),
        }

    def paper_form(self, split: Split) -> float:
        """That of the ball: the paper has no such class."""
        return self.ball.paper_form(split)

    def norm_of(self, estimator: Any) -> float:
        """Norm of the fitted function in the ball."""
        return rkhs_norm(estimator)


@dataclass(frozen=True, eq=False)
class TrainingSpan(HypothesisClass):
    """The class F_R of Theorem 4: kernel sections at the *training* entries, with norm at most b.

    It depends on which entries were drawn, so Theorem 1 does not apply to it and the corrected
    theorems refuse it; use :class:`RKHSBall`. It is here to compare with the paper.

    Parameters
    ----------
    row_kernel, col_kernel : Kernel or array-like
        The kernels.
    b : float
        Largest norm.
    train : Observations or pair of index arrays
        The training entries.

    Examples
    --------
    >>> import numpy as np
    >>> from kronfill.bounds import Split, TrainingSpan
    >>> train = (np.arange(3), np.arange(3))
    >>> span = TrainingSpan(np.eye(3), np.eye(4), b=1.0, train=train)
    >>> round(span.paper_form(Split.of(train, shape=(3, 4))), 3)  # q b sqrt(m)
    0.77
    """

    row_kernel: Any
    col_kernel: Any
    b: float
    train: Any
    kernel: TrainingKernel = field(init=False, repr=False)
    fixed_before_split = False

    def __post_init__(self) -> None:
        check_radius(self.b, "b")
        row = as_kernel(self.row_kernel, "row_kernel")
        col = as_kernel(self.col_kernel, "col_kernel")
        split = Split.of(self.train, shape=(row.n, col.n))
        object.__setattr__(self, "kernel", TrainingKernel(row, col, split.rows, split.cols))

    @property
    def shape(self) -> tuple[int, int]:  # type: ignore[override]
        """Size of the matrices."""
        row, col = self.kernel.kernels
        return (row.n, col.n)

    @cached_property
    def _ball(self) -> RKHSBall:
        return RKHSBall(*self.kernel.kernels, b=self.b)

    @property
    def lipschitz(self) -> float:
        """See :class:`HypothesisClass`."""
        return self._ball.lipschitz

    def _supremum(self, pattern: Pattern) -> float:
        row, col = self._ball.row.phi, self._ball.col.phi
        core = row.T @ pattern.times(col)
        at_train = np.einsum("ij,ij->i", row[self.kernel.rows] @ core, col[self.kernel.cols])
        return self.b * float(np.linalg.norm(self.kernel.half.T @ at_train))

    def _closed_forms(self, split: Split, law: SignLaw) -> dict[str, float]:
        trace, keep = nystrom_trace(self.kernel, split.entries), law.keep(split.sizes)
        return {"Nystrom trace": float(law.scale(split.sizes) * self.b * np.sqrt(keep * trace))}

    def paper_form(self, split: Split) -> float:
        """Theorem 4: q b sqrt(Tr(S_n K_f S^T Kbar^+ S K_f S_n^T))."""
        return self._closed_forms(split, PAPER)["Nystrom trace"]

    def norm_of(self, estimator: Any) -> float:
        """Norm of the fitted function, effects left out."""
        return rkhs_norm(estimator)
