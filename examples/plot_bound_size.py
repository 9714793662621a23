"""Does the bound for KKMCEX depend on the size of the matrix?

The paper says that it "only scales with the number of samples", so that one can "expect the same
performance on the testing dataset regardless of the data matrix size". With a fixed number m of
observed entries and all others as test set, Theorem 4 as printed grows as sqrt(N L) / m. The signs
that the cited theorem of El-Yaniv and Pechyony asks for, and Theorem A, give what the paper claims.

Run it with a path to write the figure there: python plot_bound_size.py docs/figures/bound_size.png
"""

from __future__ import annotations

import sys

import numpy as np

import kronfill as kf

LABELS = {
    "printed": "Theorem 4 as printed",
    "corrected": "corrected: signs of the cited theorem",
    "theorem A": "corrected: Theorem A",
}
COLORS = {"printed": "#d1495b", "corrected": "#3b6fb6", "theorem A": "#5aa89a"}


def complexities(m, sizes, length_scale=0.1):
    """Rademacher complexity bounds per unit of b for each size of a square matrix."""
    found = {name: [] for name in LABELS}
    for size in sizes:
        rng = np.random.default_rng(size)
        kernel = kf.kernels.rbf(np.linspace(0, 1, size), length_scale=length_scale)
        chosen = rng.permutation(np.unique(rng.integers(0, size**2, 40 * m)))[:m]
        train = np.divmod(chosen, size)
        split = kf.bounds.Split.of(train, shape=(size, size))
        span = kf.bounds.TrainingSpan(kernel, kernel, 1.0, train)
        bound = kf.bounds.theorem_4(span, split)
        ball = kf.bounds.RKHSBall(kernel, kernel, 1.0)
        found["printed"].append(bound.value)
        found["corrected"].append(bound.corrected.value)
        found["theorem A"].append(ball.complexity(split, "sub").value)
    return found


def draw(cases, axes):
    """Draw one panel per case (m, sizes)."""
    for ax, (m, sizes) in zip(axes, cases, strict=True):
        found = complexities(m, sizes)
        for name, label in LABELS.items():
            ax.plot(sizes, found[name], "o-", color=COLORS[name], label=label, markersize=4)
        flat = found["printed"][0]
        ax.axhline(flat, color="black", linestyle=":", linewidth=1.2)
        claim = "the paper's claim: no growth"
        ax.text(sizes[-1], flat * 1.06, claim, ha="right", va="bottom", fontsize=8)
        ax.set(xscale="log", yscale="log", xlabel="rows = columns of the matrix")
        ax.set_title(f"m = {m} observed entries, all others for testing", fontsize=10)
        ax.set_xticks(sizes, [str(size) for size in sizes])
        ticks = [0.05 * 2**k for k in range(7) if 0.04 * 2**k < max(found["printed"])]
        ax.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
        ax.minorticks_off()
        ax.spines[["top", "right"]].set_visible(False)
        print(m, {name: np.round(values, 4).tolist() for name, values in found.items()})
    axes[0].set_ylabel("complexity bound per unit of b")
    axes[0].legend(fontsize=8, frameon=False, loc="upper left")


def main():
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    draw([(300, [30, 60, 120, 240]), (1000, [100, 200, 400, 800, 1600, 3200])], axes)
    if len(sys.argv) > 1:
        figure.savefig(sys.argv[1], dpi=130)
    else:
        plt.show()


if __name__ == "__main__":
    main()
