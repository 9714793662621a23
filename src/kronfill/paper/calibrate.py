"""Find what the paper does not state, from one of its curves only.

Section IV names neither the weights on the diagonal of D nor the scale of F. They are taken as
``d_k = k^-exponent`` and mean power ``power``, and fitted to the test loss of KKMCEX without noise:
11 numbers. The other 17 curves of the figure have no part in it and are predictions.

    python -m kronfill.paper.calibrate

The loss is proportional to the power when mu tends to 0, and the system of equation (5) depends on
the observed entries but not on F: each set of entries is factorised once per exponent and used for
several F. Each size is weighed by the Monte Carlo error of both sides.

One curve does not settle two constants. Its level fixes the power for a given exponent; its shape
hardly depends on the exponent, and every exponent whose chi-square is acceptable would do. Among
those the pair nearest to :data:`TRIAL` is taken, values of earlier trials that were made with the
whole figure in view. So the level of the other curves is a weaker prediction than their shape.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import scipy.linalg
import scipy.stats
from numpy.typing import NDArray

from kronfill._types import Floats
from kronfill.paper.circulant import paper_kernel
from kronfill.paper.constants import ROOT_SEED, update_constants
from kronfill.paper.published import REALIZATIONS, SIZES, paper_values
from kronfill.paper.running.seeds import Purpose, data_seed
from kronfill.paper.synthetic import RANK, SAMPLES

__all__ = ["acceptable", "choose", "main", "profile", "spread_out", "unit_losses"]


EXPONENTS = (1.15, 1.25, 1.35, 1.45, 1.55)
TRIAL = {"exponent": 1.35, "power": 0.45}
"""What earlier trials came close with."""
SETS = 40
"""Sets of observed entries per size."""
TRUTHS = 10
"""Matrices F per set of entries."""
PAIRS = 6
"""Acceptable pairs that are kept, to show what hangs on the choice."""
INTERPOLATION = 1e-12
"""mu so small that the fit goes through the observations, as the paper's does (1e-24)."""


def unit_losses(size: int, index: int) -> Floats:
    """Test losses of KKMCEX for unit power, of shape (exponents, truths).

    All exponents get the same random numbers; ``index`` is the number of the set of entries.

    Examples
    --------
    >>> from kronfill.paper.calibrate import unit_losses
    >>> unit_losses(100, 0).shape
    (5, 10)
    """
    rng = np.random.default_rng(data_seed(ROOT_SEED, "a", size, index, Purpose.CALIBRATION))
    rows, cols = np.divmod(rng.choice(size**2, SAMPLES, replace=False, shuffle=False), size)
    coefficients = rng.standard_normal((TRUTHS, 2, size, RANK))
    return np.array([_losses(rows, cols, coefficients, exponent) for exponent in EXPONENTS])


def _losses(
    rows: NDArray[np.int64], cols: NDArray[np.int64], coefficients: Floats, exponent: float
) -> Floats:
    """Mean square of F - K D K over the entries that were not observed, d from equation (5)."""
    size = coefficients.shape[2]
    kernel = paper_kernel(size, exponent)
    squared = kernel.squared()
    gram = squared.block(rows, rows) * squared.block(cols, cols)
    system = kernel.block(rows, rows) * kernel.block(cols, cols)
    system[np.diag_indices_from(system)] += INTERPOLATION
    factor = scipy.linalg.cho_factor(system, lower=True, overwrite_a=True)
    found = []
    for parts in coefficients:
        left, right = kernel.times(parts[0]), kernel.times(parts[1])
        energy = float(np.sum((left.T @ left) * (right.T @ right)))
        dual = scipy.linalg.cho_solve(factor, np.einsum("ij,ij->i", left[rows], right[cols]))
        smooth = kernel.times(left)[rows], kernel.times(right)[cols]
        gap = energy - 2.0 * dual @ np.einsum("ij,ij->i", *smooth) + dual @ (gram @ dual)
        found.append(gap / energy * size**2 / (size**2 - len(rows)))
    return np.array(found)


def profile(losses: Floats, target: Floats) -> list[dict[str, float]]:
    """For each exponent, in steps of 0.005, the power that fits the paper best, and its chi-square.

    ``losses`` are those for unit power, of shape (sizes, sets, exponents, truths), ``target`` the
    paper's values at these sizes.
    """
    mean = losses.mean(axis=(1, 3))
    ours = losses.mean(axis=3).var(axis=1, ddof=1) / losses.shape[1]
    theirs = losses.var(axis=(1, 3), ddof=1) / REALIZATIONS
    variance = ((ours + theirs) / mean**2).mean(axis=1)  # of the logarithm
    found = []
    for exponent in np.round(np.arange(EXPONENTS[0], EXPONENTS[-1] + 0.001, 0.005), 3):
        gap = np.log(target) - _log_mean(mean, exponent)
        log_power = float(np.average(gap, weights=1.0 / variance))
        chi2 = float(((gap - log_power) ** 2 / variance).sum())
        found.append({"exponent": float(exponent), "power": math.exp(log_power), "chi2": chi2})
    return found


def choose(tried: Sequence[Mapping[str, float]], points: int) -> Mapping[str, float]:
    """The acceptable pair nearest to the trial values, in relative distance.

    ``tried`` is what :func:`profile` gives; two of the ``points`` sizes are used up by the fit.

    Examples
    --------
    >>> from kronfill.paper.calibrate import choose
    >>> near, far = {"exponent": 1.3, "power": 0.4}, {"exponent": 1.2, "power": 0.2}
    >>> choose([{**near, "chi2": 8.0}, {**far, "chi2": 3.0}], 11)["exponent"]
    1.3
    >>> choose([{**near, "chi2": 80.0}, {**far, "chi2": 3.0}], 11)["exponent"]
    1.2
    """
    candidates = acceptable(tried, points) or [min(tried, key=lambda row: row["chi2"])]
    return min(candidates, key=lambda row: sum((row[k] / TRIAL[k] - 1) ** 2 for k in TRIAL))


def acceptable(tried: Sequence[Mapping[str, float]], points: int) -> list[Mapping[str, float]]:
    """The pairs that a chi-square test at 5% does not reject.

    Examples
    --------
    >>> from kronfill.paper.calibrate import acceptable
    >>> acceptable([{"chi2": 16.0}, {"chi2": 17.0}], 11)
    [{'chi2': 16.0}]
    """
    largest = scipy.stats.chi2.ppf(0.95, points - 2)
    return [row for row in tried if row["chi2"] <= largest]


def spread_out(pairs: Sequence[Mapping[str, float]], count: int) -> list[dict[str, float]]:
    """Some of the pairs, from the first to the last, at about equal distances; rounded.

    Examples
    --------
    >>> from kronfill.paper.calibrate import spread_out
    >>> pairs = [{"exponent": 1.1 + 0.1 * k, "power": 0.1 * k, "chi2": 1.0} for k in range(5)]
    >>> [pair["exponent"] for pair in spread_out(pairs, 3)]
    [1.1, 1.3, 1.5]
    """
    chosen = np.unique(np.linspace(0, len(pairs) - 1, min(count, len(pairs))).round().astype(int))
    return [{key: round(value, 3) for key, value in pairs[k].items()} for k in chosen]


def _log_mean(mean: Floats, exponent: float) -> Floats:
    """log of the mean loss at each size, by the polynomial through the exponents computed."""
    degree = len(EXPONENTS) - 1
    middle = np.mean(EXPONENTS)
    fits = np.polynomial.polynomial.polyfit(np.subtract(EXPONENTS, middle), np.log(mean).T, degree)
    return np.asarray(np.polynomial.polynomial.polyval(exponent - middle, fits))


def main(sets: int = SETS, workers: int | None = None) -> None:
    """Run the calibration and write the constants."""
    target = np.array([paper_values("a", "KKMCEX", "test")[size] for size in SIZES])
    jobs = [(size, k) for size in SIZES for k in range(sets)]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers or os.cpu_count(), mp_context=context) as pool:
        found = list(pool.map(unit_losses, *zip(*jobs, strict=True), chunksize=5))
    losses = np.array(found).reshape(len(SIZES), sets, len(EXPONENTS), TRUTHS)
    tried = profile(losses, target)
    for row in tried:
        sys.stdout.write("a {exponent:.3f}  power {power:.4f}  chi2 {chi2:.2f}\n".format(**row))
    chosen, best = choose(tried, len(SIZES)), min(tried, key=lambda row: row["chi2"])
    near = [row["exponent"] for row in tried if row["chi2"] < best["chi2"] + 1.0]
    update_constants(
        "data",
        {
            "exponent": chosen["exponent"],
            "power": round(chosen["power"], 3),
            "chi2": round(chosen["chi2"], 1),
            "best": {key: round(value, 3) for key, value in best.items()},
            "exponents_within_one_of_best": [min(near), max(near)],
            "acceptable": spread_out(acceptable(tried, len(SIZES)), PAIRS),
            "trial": TRIAL,
            "sets": sets,
            "truths": TRUTHS,
            "root_seed": ROOT_SEED,
            "fitted_to": "test loss of KKMCEX in panel (a), 11 values, and nothing else",
        },
    )


if __name__ == "__main__":
    main(*(int(text) for text in sys.argv[1:]))
