"""The three laws of the random signs in a transductive Rademacher complexity.

For a class of matrices and a law, R = c E sup_F sum_a sigma_a F_a, where

========  ====================================================  =============  =======
law       sigma                                                 kept share s   scale c
========  ====================================================  =============  =======
"paper"   +1 or -1 with probability 1/2                         1              q
"eyp"     +1, -1, 0 with probability p0, p0, 1 - 2 p0           2 p0           q
"sub"     random signs on a random k-subset, 0 elsewhere        k / n          2 / k
========  ====================================================  =============  =======

with q = 1/m + 1/u, k = min(m, u), p0 = m u / (m + u)^2. In all three E sigma sigma^T = s I.
"paper" is Definition 1 of the paper; "eyp" is what El-Yaniv and Pechyony's theorem needs (smaller,
since the complexity grows with p); "sub" is that of Theorem A.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from kronfill._types import Floats, Index
from kronfill.bounds.splits import EntrySet, Sizes
from kronfill.errors import ParameterError

__all__ = ["LAWS", "PAPER", "SignLaw", "as_law"]


@dataclass(frozen=True, repr=False)
class SignLaw:
    """A law of random signs on n entries: one line of the table above."""

    name: str
    keep: Callable[[Sizes], float]
    """s: probability that a sign is not zero."""
    scale: Callable[[Sizes], float]
    """c: what the expected supremum is multiplied by."""
    count: Callable[[np.random.Generator, Sizes], int]
    """Draw the number of nonzero signs."""
    variance: Callable[[Sizes], float]
    """Var f <= this for every convex f with Lipschitz constant 1."""

    def draw(
        self, rng: np.random.Generator, entries: EntrySet, sizes: Sizes
    ) -> tuple[Index, Index, Floats]:
        """Rows, columns and signs of the nonzero signs."""
        count = self.count(rng, sizes)
        rows, cols = entries.draw(rng, count)
        signs: Floats = np.where(rng.random(count) < 0.5, -1.0, 1.0)
        return rows, cols, signs

    def __repr__(self) -> str:
        return f"SignLaw({self.name!r})"


PAPER = SignLaw(
    "paper",
    keep=lambda sizes: 1.0,
    scale=lambda sizes: sizes.q,
    count=lambda rng, sizes: sizes.n,
    # Efron-Stein: Var f <= sum E (f - f_i')_+^2 and, f being convex, the positive part is at most
    # |d_i f| |sigma_i - sigma_i'|, whose square has conditional mean 2 (d_i f)^2.
    variance=lambda sizes: 2.0,
)
EYP = SignLaw(
    "eyp",
    keep=lambda sizes: 2.0 * sizes.p0,
    scale=lambda sizes: sizes.q,
    count=lambda rng, sizes: int(rng.binomial(sizes.n, 2.0 * sizes.p0)),
    # As above: the conditional mean of (sigma_i - sigma_i')^2 is sigma_i^2 + 2 p0.
    variance=lambda sizes: 1.0 + 2.0 * sizes.p0,
)
SUB = SignLaw(
    "sub",
    keep=lambda sizes: sizes.k / sizes.n,
    scale=lambda sizes: 2.0 / sizes.k,
    count=lambda rng, sizes: sizes.k,
    # With the subset T fixed: 2, as above. Of the conditional mean h(T): the exchange walk on
    # k-subsets has spectral gap n [Diaconis and Shahshahani 1987], so that
    # Var h <= (1/n) E sum over i in T, j not in T of (h(T) - h(T - i + j))_+^2. Adding j only
    # raises h, and taking i away lowers it by at most E |d_i f|: Var h <= (n - k) / n.
    variance=lambda sizes: 2.0 + (sizes.n - sizes.k) / sizes.n,
)
LAWS: dict[str, SignLaw] = {law.name: law for law in (PAPER, EYP, SUB)}


def as_law(law: Any) -> SignLaw:
    """Return the law of this name.

    Examples
    --------
    >>> from kronfill.bounds.complexity.signs import as_law
    >>> as_law("eyp")
    SignLaw('eyp')
    """
    if isinstance(law, SignLaw):
        return law
    if law not in LAWS:
        msg = f"law must be one of {tuple(LAWS)}, got {law!r}."
        raise ParameterError(msg)
    return LAWS[law]
