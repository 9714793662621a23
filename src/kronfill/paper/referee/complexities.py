"""First question: how far each closed form is from the complexity that it bounds.

Every class has radius one (t, t_B / 2, sqrt(t_w t_h) and b). The exact complexity is the mean of
the exact supremum over random signs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from kronfill.bounds import (
    HypothesisClass,
    IMCBall,
    KMCBall,
    NuclearBall,
    RKHSBall,
    Split,
    TrainingSpan,
    theorem_2,
    theorem_3,
    theorem_4,
)
from kronfill.paper.circulant import paper_kernel

__all__ = ["ClosedForm", "complexities", "growth", "tightest"]

FEATURES = 10
"""Leading eigenvectors of the kernel that IMC gets as features."""
LAWS = ("paper", "eyp", "sub")


@dataclass(frozen=True)
class ClosedForm:
    """One closed form beside the complexity that it bounds."""

    sweep: str
    """What changes: "N" (all other entries are for testing) or "m = u" (at fixed N)."""
    N: int
    m: int
    u: int
    method: str
    law: str
    """Law of the signs."""
    form: str
    """"as printed", "corrected", or the name of another closed form."""
    bound: float
    exact: float
    """Monte Carlo mean."""
    stderr: float

    @property
    def below(self) -> bool:
        """Whether the form is smaller than what it should bound, beyond three standard errors."""
        return self.bound < self.exact - 3.0 * self.stderr


def complexities(
    sizes: Sequence[int], samples: int, equal: Sequence[int], exponent: float, draws: int, seed: int
) -> list[ClosedForm]:
    """Sweep N with ``samples`` training entries, then m = u at the largest N.

    ``exponent`` is the decay of the weights of the paper's kernel.
    """
    rng = np.random.default_rng(seed)
    found: list[ClosedForm] = []
    for size in sizes:
        rows, cols = np.divmod(rng.choice(size**2, samples, replace=False), size)
        split = Split.of((rows, cols), shape=(size, size))
        found += _of_split("N", split, exponent, draws, seed)
    size = max(sizes)
    for m in equal:
        rows, cols = np.divmod(rng.choice(size**2, 2 * m, replace=False), size)
        split = Split.of((rows[:m], cols[:m]), (rows[m:], cols[m:]), shape=(size, size))
        found += _of_split("m = u", split, exponent, draws, seed)
    return found


def _of_split(
    sweep: str, split: Split, exponent: float, draws: int, seed: int
) -> Iterator[ClosedForm]:
    size, sizes = split.shape[0], split.sizes
    for method, law, ball, forms in _classes(split, exponent):
        found = ball.monte_carlo(split, law, draws=draws, random_state=seed)
        for name, bound in forms.items():
            yield ClosedForm(
                sweep, size, sizes.m, sizes.u, method, law, name, bound, found.value,
                found.standard_error,
            )  # fmt: skip


def _classes(
    split: Split, exponent: float
) -> Iterator[tuple[str, str, HypothesisClass, dict[str, float]]]:
    """Method, law, class and its closed forms under this law."""
    kernel = paper_kernel(split.shape[0], exponent)
    values, vectors = np.linalg.eigh(np.asarray(kernel.block(None, None)))
    phi = vectors[:, -FEATURES:] * np.sqrt(np.maximum(values[-FEATURES:], 0.0))
    mc, kmc = NuclearBall(split.shape, 1.0), KMCBall(kernel, kernel, t_b=2.0)
    imc, ball = IMCBall(phi, phi, t_w=1.0, t_h=1.0), RKHSBall(kernel, kernel, b=1.0)
    span = TrainingSpan(kernel, kernel, 1.0, (split.rows, split.cols))
    two, three, four = theorem_2(kmc, split), theorem_3(imc, split), theorem_4(span, split)
    # (11) has no constant; with G = sqrt(pi / 2) it holds, and needs no correction.
    special = {
        ("MC", "paper"): {"as printed": mc.paper_form(split)},
        ("KMC", "paper"): {"as printed": two.value, "corrected": _value(two.corrected)},
        ("IMC", "paper"): {"as printed": three.value, "corrected": _value(three.corrected)},
        ("KKMCEX", "eyp"): {"corrected": _value(four.corrected)},
    }
    for law in LAWS:
        for method, one in (("MC", mc), ("KMC", kmc), ("IMC", imc), ("KKMCEX", ball)):
            forms = one.closed_forms(split, law)
            yield method, law, one, {**special.get((method, law), {}), **forms}
    # The printed class of KKMCEX, which depends on the split: to compare only.
    yield "KKMCEX", "paper", span, {"as printed": four.value}


def _value(bound: object) -> float:
    return float(bound.value)  # type: ignore[attr-defined]


def tightest(rows: Sequence[ClosedForm]) -> list[ClosedForm]:
    """The smallest closed form for each method, law and split, "as printed" left out."""
    best: dict[tuple[object, ...], ClosedForm] = {}
    for row in rows:
        key = row.sweep, row.N, row.m, row.method, row.law
        if row.form != "as printed" and (key not in best or row.bound < best[key].bound):
            best[key] = row
    return list(best.values())


def growth(
    rows: Sequence[ClosedForm], sweep: str, method: str, law: str, form: str, column: str
) -> float:
    """By which factor the bound or the exact complexity is larger at the end of a sweep."""
    chosen = [
        row
        for row in rows
        if (row.sweep, row.method, row.law, row.form) == (sweep, method, law, form)
    ]
    chosen.sort(key=lambda row: (row.N, row.m))
    return float(getattr(chosen[-1], column) / getattr(chosen[0], column))
