"""Up to which size a dense way is taken, and how much is worked on at a time.

Where solvers compete their expected costs decide (:mod:`kronfill.solvers.costs`). These are the
sizes below which there is nothing to weigh up, and those above which a dense array is out of place.
Rates behind the seconds: some 30 thousand million multiplications each.
"""

from __future__ import annotations

__all__ = [
    "CHUNK_FLOATS", "CRITERIA_WORK", "DENSE_BLOCK", "DENSE_EFFECTS", "DENSE_HALF_STEP",
    "DENSE_POSTERIOR", "DENSE_UPDATES", "FACTOR_RTOL", "SMALL_CRITERIA", "SMALL_SYSTEM",
    "SUMMED_FLOATS",
]  # fmt: skip

# Without looking any further.

SMALL_SYSTEM = 1500
"""Up to this many observations the m x m kernel is factorised without looking at the ranks of the
kernels: it takes 40 ms, about what looking takes."""
SMALL_CRITERIA = 300
"""The same for criteria along a grid of mu, whose dual form takes twelve times as many
multiplications."""

# As long as there is room.

DENSE_POSTERIOR = 6000
"""Up to this size a system is factorised for variances, 288 MB; beyond, each is an iterative
solve."""
DENSE_BLOCK = 2000
"""Up to this many entries a block is sampled from its covariance, of which a square root is taken;
beyond, by Matheron's rule, one solve for each sample."""
DENSE_UPDATES = 3000
"""Up to this many observations solver="auto" carries a factorisation of the dual system along: an
update reads it once, 36 MB."""
DENSE_HALF_STEP = 1200
"""Up to this many unknowns (observations or coefficients) a half-step is a dense factorisation:
there are hundreds of them, and conjugate gradients have a start to go on from."""
DENSE_EFFECTS = 4000
"""Up to this many items on the shorter axis the two-way fit of effects is a dense factorisation,
128 MB; beyond, conjugate gradients on sparse tables."""
CRITERIA_WORK = 1.1e11
"""Multiplications that mu="auto" may spend on exact criteria: m = 3000 dual. Beyond, a hold-out."""

# How much at a time.

CHUNK_FLOATS = 8_000_000
"""Floats of the rows of a large table that are made at a time."""
SUMMED_FLOATS = 4_000_000
"""Floats of rows that are summed up at a time: the last bits of the sums depend on it."""

FACTOR_RTOL = 1e-13
"""Share of its trace that the factor of a kernel may leave out: rounding, and no more."""
