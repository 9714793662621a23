"""Upper bounds on the expected spectral norm of a random sign matrix on given entries.

With r_i, c_j the number of entries of S_n in row i and column j, N_a and L_a the number of rows and
columns that have any, and s the share of signs kept, each function bounds E ||Sigma||_2. Each is
proved in docs/theory.md; :func:`closed_forms` gives all that hold under a law.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import gammaln

from kronfill._types import Floats
from kronfill.bounds.splits import EntrySet

__all__ = ["GAUSSIAN", "Counts", "closed_forms", "kept_maximum"]

GAUSSIAN = float(np.sqrt(np.pi / 2))
"""An explicit value of the paper's universal constant G."""
LONGEST_WALK = 60


@dataclass(frozen=True, eq=False)
class Counts:
    """Entries per row and per column, empty ones left out."""

    rows: Floats
    cols: Floats

    @classmethod
    def of(cls, entries: EntrySet) -> Counts:
        """Count the entries of each row and column."""
        rows, cols = entries.row_counts, entries.col_counts
        return cls(rows[rows > 0], cols[cols > 0])

    @property
    def n(self) -> float:
        """Number of entries."""
        return float(self.rows.sum())

    @property
    def largest(self) -> float:
        """Largest number of entries in any row or column."""
        return float(max(self.rows.max(), self.cols.max()))

    @property
    def log_dim(self) -> float:
        """ln(N_a + L_a)."""
        return float(np.log(len(self.rows) + len(self.cols)))


def frobenius(counts: Counts, keep: float) -> float:
    """(a) E ||Sigma||_2 <= (E ||Sigma||_F^2)^(1/2) = sqrt(s n)."""
    return float(np.sqrt(keep * counts.n))


def schur(counts: Counts) -> float:
    """(a') Schur's test: ||Sigma||_2 <= sqrt(r_max c_max) for every sign pattern."""
    return float(np.sqrt(counts.rows.max() * counts.cols.max()))


def gaussian(counts: Counts) -> float:
    """(b) sqrt(pi/2) (sqrt(N_a) + sqrt(L_a)): the paper's form with an explicit constant.

    A sign is sqrt(pi/2) times the conditional mean of a Gaussian that has this sign; then Jensen,
    and Gordon's E ||G|| <= sqrt(N) + sqrt(L). Signs outside the support are conditional means too.
    """
    return GAUSSIAN * float(np.sqrt(len(counts.rows)) + np.sqrt(len(counts.cols)))


def fourth_moment(counts: Counts, keep: float) -> float:
    """(c) E ||Sigma||_2 <= (E Tr (Sigma Sigma^T)^2)^(1/4), which is known exactly."""
    pairs = np.sum(counts.rows * (counts.rows - 1)) + np.sum(counts.cols * (counts.cols - 1))
    return float((keep * counts.n + keep**2 * pairs) ** 0.25)


def khintchine(counts: Counts, keep: float) -> float:
    """(d) sqrt(2 v ln d), v the largest number of kept signs in a row or column [Tropp 2015]."""
    kept = kept_maximum(counts.largest, keep, counts.log_dim)
    return float(np.sqrt(2.0 * kept * counts.log_dim))


def bernstein(counts: Counts, keep: float) -> float:
    """(d') sqrt(2 s v ln d) + ln(d) / 3: matrix Bernstein, for independent signs only."""
    d = counts.log_dim
    return float(np.sqrt(2.0 * keep * counts.largest * d) + d / 3.0)


def walks(counts: Counts, keep: float) -> float:
    """(e) Closed walks of length 2 P compared with those of a full R x C Gaussian matrix.

    For every P >= 1, with R = ceil(s c_max) + P - 1 and C = ceil(s r_max) + P - 1,
    (min(N_a / R, L_a / C) min(R, C))^(1/2P) (sqrt(R) + sqrt(C) + (2^P P!)^(1/2P)).
    """
    p = np.arange(1, LONGEST_WALK + 1, dtype=float)
    r = np.ceil(keep * counts.cols.max()) + p - 1
    c = np.ceil(keep * counts.rows.max()) + p - 1
    share = np.minimum(len(counts.rows) / r, len(counts.cols) / c) * np.minimum(r, c)
    tail = np.exp((p * np.log(2.0) + gammaln(p + 1)) / (2 * p))
    return float(np.min(share ** (0.5 / p) * (np.sqrt(r) + np.sqrt(c) + tail)))


def kept_maximum(largest: float, keep: float, log_dim: float, unit: float = 1.0) -> float:
    """E of the largest kept total: min(v, min_theta ((e^theta - 1) s v + unit ln d) / theta).

    (Matrix) Chernoff bound for the maximum of d sums of kept terms, each term at most ``unit``;
    sampling without replacement obeys the same bound [Gross and Nesme 2010].
    """
    if keep >= 1.0 or largest <= 0.0:
        return largest

    def bound(log_theta: float) -> float:
        theta = np.exp(log_theta)
        return float((np.expm1(theta) * keep * largest + unit * log_dim) / theta)

    found = minimize_scalar(bound, bounds=(-8.0, 5.0), method="bounded")
    return float(min(largest, found.fun))


def closed_forms(counts: Counts, keep: float, independent: bool) -> dict[str, float]:
    """All bounds on E ||Sigma||_2 by name; ``independent`` says whether the signs are."""
    forms = {
        "Frobenius norm": frobenius(counts, keep),
        "Schur test": schur(counts),
        "Gaussian comparison": gaussian(counts),
        "fourth moment": fourth_moment(counts, keep),
        "matrix Khintchine": khintchine(counts, keep),
        "walk counting": walks(counts, keep),
    }
    if independent and keep < 1.0:
        forms["matrix Bernstein"] = bernstein(counts, keep)
    return forms
