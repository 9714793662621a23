"""The referee's questions, each with a sentence that is computed from the numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import combinations

import numpy as np

from kronfill.paper.referee.complexities import ClosedForm, growth, tightest
from kronfill.paper.referee.fits import SIDES, RefereeFit

__all__ = ["TARGETS", "agreement", "answer_bounds", "answer_needed", "answer_ranks", "answer_sides",
           "needed", "rank_table"]  # fmt: skip

TARGETS = (0.5, 0.2, 0.15, 0.1)
"""Test losses for which the number of observations is asked; the noise alone has 0.09."""
PRINTED = "as printed"
GROWN = (
    ("paper", PRINTED, "bound"),
    ("paper", PRINTED, "exact"),
    ("eyp", "corrected", "exact"),
    ("eyp", "corrected", "bound"),
)
"""What is said of KKMCEX over N."""
Rank = tuple[str, str, str, float, int]


def answer_bounds(rows: Sequence[ClosedForm]) -> str:
    """How close the closed forms are, and which of them grow although the complexity does not."""
    short = [row for row in rows if row.below]
    best = tightest(rows)
    ratios = {
        method: [row.bound / row.exact for row in best if row.method == method]
        for method in ("MC", "KMC", "IMC", "KKMCEX")
    }
    spans = ", ".join(f"{name} {min(x):.2f} to {max(x):.2f}" for name, x in ratios.items())
    first, last = (f([r.N for r in rows if r.sweep == "N"]) for f in (min, max))
    printed = {
        name: [row.bound / row.exact for row in rows if (row.method, row.form) == (name, PRINTED)]
        for name in ratios
    }
    loose = ", ".join(f"{name} {min(x):.3g} to {max(x):.3g}" for name, x in printed.items())
    sizes = [growth(rows, "N", "KKMCEX", *key) for key in GROWN]
    return (
        f"Of {len(rows)} closed forms {len(short)} lie below the exact complexity by more than "
        "three standard errors. The tightest "
        f"corrected form is this many times the exact complexity: {spans}. As printed: {loose}. "
        f"From N = {first} to {last} at fixed m the printed form of KKMCEX grows "
        f"{sizes[0]:.2f}-fold, the complexity with the paper's signs {sizes[1]:.2f}-fold: it is "
        "the signs, not the proof, that make it grow. With the signs of the cited theorem the "
        f"complexity changes {sizes[2]:.2f}-fold, its corrected form {sizes[3]:.2f}-fold."
    )


def answer_sides(fits: Sequence[RefereeFit]) -> str:
    """What wrong kernels cost, and whether the norm of the fit shows it."""
    parts = []
    for method in ("KKMCEX", "KMC", "IMC"):
        found = {fit.side: fit for fit in fits if fit.method == method}
        right = found["right"]
        parts.append(
            f"{method} ({right.test:.3g} with the right kernels): "
            + ", ".join(f"{side} {found[side].test / right.test:.2f}" for side in SIDES[1:])
        )
    mc = next(fit for fit in fits if fit.method == "MC")
    worse = [fit for fit in fits if fit.method != "MC" and fit.test > mc.test]
    names = ", ".join(f"{fit.method} with {fit.side}" for fit in worse) or "none"
    vacuous = sum(fit.corrected > fit.test for fit in fits)
    return (
        f"Test loss as a multiple of that with the right kernels. {'; '.join(parts)}. Worse than "
        f"MC without side information ({mc.test:.3g}): {names}. The corrected bound is above the "
        f"whole test loss for {vacuous} of {len(fits)} fits."
    )


def needed(fits: Sequence[RefereeFit], method: str, target: float) -> float:
    """How many observations bring the test loss down to a target; NaN if none of those tried does.

    Between two numbers that were tried it is interpolated, both on logarithmic scales.
    """
    row = sorted((fit for fit in fits if fit.method == method), key=lambda fit: fit.m)
    for k, fit in enumerate(row):
        if fit.test <= target:
            if k == 0:
                return float(fit.m)
            before = row[k - 1]
            share = math.log(before.test / target) / math.log(before.test / fit.test)
            return math.exp(math.log(before.m) + share * math.log(fit.m / before.m))
    return math.nan


def answer_needed(fits: Sequence[RefereeFit]) -> str:
    """The observations that each method needs for the same loss."""
    samples = sorted({fit.m for fit in fits})
    parts = []
    for target in TARGETS:
        numbers = []
        for method in ("KKMCEX", "KMC", "IMC", "MC"):
            found = needed(fits, method, target)
            text = f"more than {samples[-1]}" if math.isnan(found) else f"{found:.0f}"
            text = f"at most {samples[0]}" if found == samples[0] else text
            numbers.append(f"{method} {text}")
        parts.append(f"for {target:g}: {', '.join(numbers)}")
    falls = []
    for method in ("KKMCEX", "KMC", "IMC", "MC"):
        row = sorted((fit for fit in fits if fit.method == method), key=lambda fit: fit.m)
        falls.append(f"{method} {row[0].ge:.3g} to {row[-1].ge:.3g}")
    return (
        "Observations needed for a test loss (mean square of the truth 1, noise 0.09), "
        f"{'; '.join(parts)}. "
        f"From m = {samples[0]} to {samples[-1]} the generalization error goes from "
        f"{'; '.join(falls)}."
    )  # fmt: skip


def agreement(first: Sequence[float], second: Sequence[float]) -> float:
    """Kendall's tau: pairs that both order alike less those ordered differently, as a share.

    Examples
    --------
    >>> from kronfill.paper.referee.answers import agreement
    >>> agreement([1, 2, 3], [1, 2, 3]), agreement([1, 2, 3], [3, 2, 1])
    (1.0, -1.0)
    """
    signs = [
        np.sign(a[0] - b[0]) * np.sign(a[1] - b[1])
        for a, b in combinations(zip(first, second, strict=True), 2)
    ]
    return float(np.mean(signs))


def rank_table(sides: Sequence[RefereeFit], samples: Sequence[RefereeFit]) -> list[Rank]:
    """What is ranked, by which bound, against which loss: mean tau, and of how many rankings."""
    methods = [[f for f in samples if f.m == m] for m in sorted({f.m for f in samples})]
    kernels = [[f for f in sides if f.method == name] for name in ("KKMCEX", "KMC", "IMC")]
    out = []
    for what, groups in (("methods", methods), ("kernels", kernels)):
        for bound in ("printed", "corrected", "norm"):
            if (what, bound) == ("methods", "norm"):
                continue  # norms of different spaces
            for loss in ("test", "ge"):
                found = [agreement(_column(g, bound), _column(g, loss)) for g in groups]
                out.append((what, bound, loss, float(np.mean(found)), len(groups)))
    return out


def _column(fits: Iterable[RefereeFit], name: str) -> list[float]:
    return [float(getattr(fit, name)) for fit in fits]


def answer_ranks(ranks: Sequence[Rank]) -> str:
    """Whether any bound orders methods or kernels as their losses do."""
    return " ".join(_ranked(what, ranks) for what in ("methods", "kernels"))


def _ranked(what: str, ranks: Sequence[Rank]) -> str:
    chosen = [row for row in ranks if row[0] == what]
    key: Callable[[Rank], float] = lambda row: row[3]  # noqa: E731
    best = max(chosen, key=key)
    texts = ", ".join(f"{bound} against {loss} {tau:+.2f}" for _, bound, loss, tau, _ in chosen)
    verdict = "Yes, one ranks" if best[3] > 0.99 else "No bound ranks"
    verdict = "Nearly: none ranks" if 0.8 <= best[3] <= 0.99 else verdict
    return (
        f"{verdict} the {what} as their losses do everywhere; Kendall's tau, mean of {best[4]} "
        f"rankings: {texts}."
    )
