"""What a solver says about its own work."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from kronfill.data.amounts import count_of
from kronfill.errors import ConvergenceWarning, IllConditionedWarning

__all__ = ["Solution", "Status"]


class Status(Enum):
    """How a solve ended; the value is the advice that goes with it."""

    EXACT = "A direct solve: accurate to rounding."
    CONVERGED = "The tolerance was reached."
    SETTLED = (
        "What the solve was for has settled; its residual has not reached the tolerance. Enough to "
        "compare values of mu, not for a result."
    )
    MAX_ITERATIONS = (
        "The tolerance was not reached. Allow more iterations (`max_iter` of PCG, `sweeps` of ALS "
        "and RowWise), loosen `tol`, or use a larger mu."
    )
    TIME_LIMIT = (
        "The time limit came before the tolerance. Raise `time_limit`, loosen `tol`, or use a "
        "larger mu."
    )
    STALLED = (
        "Rounding errors stopped the progress before the tolerance was reached. Loosen `tol`, use "
        "a larger mu, or a direct solver such as `solver=Cholesky()`."
    )
    RANK_DEFICIENT = (
        "The kernel over the observed entries is singular to working precision and mu is too small "
        "to make up for it. The directions that cannot be told from rounding were left out: the "
        "predictions are the limit mu -> 0, but the residual is what no function of this kernel "
        "can fit. Use a larger mu, or a kernel with an identity part."
    )
    FEW_DIGITS = (
        "mu is so small beside the kernel, or the weights are so far apart, that predictions "
        "follow rounding errors and what `tol` left over. Use a larger mu, a kernel with an "
        "identity part, weights that are closer together, or a smaller `tol`."
    )

    def __repr__(self) -> str:
        return self.name

    @property
    def ok(self) -> bool:
        """Whether the answer is what was asked for."""
        return self in (Status.EXACT, Status.CONVERGED)


@dataclass(frozen=True)
class Solution:
    """Record of one solve, found on a fitted estimator as ``solution_``.

    Attributes
    ----------
    status : Status
        How it ended. ``status.value`` is a sentence with advice.
    solver : str
        The solver that ran.
    reason : str
        Why this solver was taken; empty where there was no choice.
    iterations : int
        Iterations or sweeps; 0 for a direct solve.
    residual : float
        Relative residual of the dual system, ``||(Kbar + mu I) d - y|| / ||y||``, measured and
        not estimated (for a Cholesky solve at up to 256 of the entries); for alternating methods
        the last relative decrease of the objective.
    history : tuple of float
        Residual (or objective) after each iteration; empty for a direct solve.
    rank : int or None
        Numerical rank of the system, where the solver found one.
    error : float or None
        About the error of the predictions, relative to the largest observed value. It is measured
        where mu is so small that rounding may count; None elsewhere.
    criterion : str
        What has settled, for a solve of status SETTLED.
    change : float or None
        Its last relative change.
    """

    status: Status
    solver: str
    reason: str = ""
    iterations: int = 0
    residual: float = 0.0
    history: tuple[float, ...] = field(default=(), repr=False)
    rank: int | None = None
    error: float | None = None
    criterion: str = ""
    change: float | None = None

    @property
    def settled(self) -> bool:
        """Whether it was stopped because what it was for has settled."""
        return self.status is Status.SETTLED

    @property
    def converged(self) -> bool:
        """Whether the answer is what was asked for."""
        return self.status.ok

    def warn(self, stacklevel: int = 3) -> None:
        """Issue a warning with advice unless the solve went well."""
        if self.status.ok:
            return
        singular = self.status in (Status.RANK_DEFICIENT, Status.FEW_DIGITS)
        kind = IllConditionedWarning if singular else ConvergenceWarning
        message = (
            f"{self.solver} ended after {self.iterations} iterations with relative residual "
            f"{self.residual:.1e}{self._digits()}. {self.status.value}"
        )
        warnings.warn(message, kind, stacklevel=stacklevel)

    def _digits(self) -> str:
        """The digits that are left, if they were counted."""
        if self.error is None:
            return ""
        count = int(max(0.0, -np.log10(self.error))) if self.error > 0 else 16
        left = "no digit" if count == 0 else f"about {count_of(count, 'digit')}"
        return f", and {left} of the predictions can be trusted (error {self.error:.0e})"
