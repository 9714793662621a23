"""What a solver says about its own work."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from enum import Enum

from kronfill.errors import ConvergenceWarning, IllConditionedWarning

__all__ = ["Solution", "Status"]


class Status(Enum):
    """How a solve ended; the value is the advice that goes with it."""

    EXACT = "A direct solve: accurate to rounding."
    CONVERGED = "The tolerance was reached."
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
    """

    status: Status
    solver: str
    reason: str = ""
    iterations: int = 0
    residual: float = 0.0
    history: tuple[float, ...] = field(default=(), repr=False)
    rank: int | None = None

    @property
    def converged(self) -> bool:
        """Whether the answer is what was asked for."""
        return self.status.ok

    def warn(self, stacklevel: int = 3) -> None:
        """Issue a warning with advice unless the solve went well."""
        if self.status.ok:
            return
        kind = IllConditionedWarning if self.status is Status.RANK_DEFICIENT else ConvergenceWarning
        message = (
            f"{self.solver} ended after {self.iterations} iterations with relative residual "
            f"{self.residual:.1e}. {self.status.value}"
        )
        warnings.warn(message, kind, stacklevel=stacklevel)
