"""The picture of ``docs/speed.md``: time against m and against N."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.goals import beyond_factors, exponent, growth_m, growth_n, on_factors, pick, series

LOOKS = {
    "scipy": ("SciPy Cholesky", "#0072B2", "s"),
    "scikit-learn": ("scikit-learn KernelRidge", "#009E73", "^"),
    "LatentKroneckerGP 15": ("BoTorch LatentKroneckerGP, defaults", "#CC79A7", "D"),
    "LatentKroneckerGP 100": ("BoTorch LatentKroneckerGP, tuned", "#E69F00", "v"),
}
OURS = "#D55E00"
GREY = "#666666"


def draw(results: dict, path: Path) -> None:
    """Draw both panels and save them."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    path.parent.mkdir(parents=True, exist_ok=True)
    style = {"font.size": 10, "axes.spines.top": False, "axes.spines.right": False}
    with plt.rc_context(style):
        figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.6), width_ratios=(3, 2))
        _against_m(results, left)
        _against_n(results, right)
        figure.tight_layout()
        figure.savefig(path, dpi=150)
        plt.close(figure)


def _label(axis, x, y, text, colour, **how) -> None:
    axis.annotate(text, (x, y), textcoords="offset points", color=colour, fontsize=9, **how)


def _against_m(results: dict, axis) -> None:
    rows = [row for row in series(results, "kronfill") if row["size"] in (100, 3000)]
    at = [row["m"] for row in rows], [row["seconds"] for row in rows]
    axis.loglog(*at, "o-", color=OURS, lw=2.2, label="kronfill, ranks 60 x 256", zorder=5)
    thin = growth_m(results)
    at = [row["m"] for row in thin], [row["seconds"] for row in thin]
    axis.loglog(*at, "o--", color=OURS, mfc="white", label="kronfill, ranks 60 x 60", zorder=5)
    for name, (label, colour, marker) in LOOKS.items():
        peer = series(results, name)
        if peer:
            at = [row["m"] for row in peer], [row["seconds"] for row in peer]
            axis.loglog(*at, marker + "-", color=colour, label=label)
        _stopped(results, name, axis)
    grown = growth_m(results)
    if len(grown) > 1 and grown[-1]["m"] > 10 * grown[0]["m"]:
        m = np.array([row["m"] for row in grown], float)
        slope = exponent(m, [row["seconds"] for row in grown])
        _label(axis, m[-1], grown[-1]["seconds"], f"m$^{{{slope:.2f}}}$", OURS,
               xytext=(-10, 8), ha="right")  # fmt: skip
    axis.set_xlabel("observations m")
    axis.set_ylabel("seconds from arrays to the solution")
    axis.set_title("Time against m, residual 1e-6", loc="left", fontsize=10.5)
    low, high = axis.get_ylim()
    axis.set_ylim(low / 60, high * 2)  # room for the legend below the curves
    axis.grid(alpha=0.25, which="major")
    axis.legend(frameon=False, fontsize=9, loc="lower right", ncols=2)


def _stopped(results: dict, name: str, axis) -> None:
    """A hollow mark where a peer was stopped: the time is above."""
    _, colour, marker = LOOKS[name]
    for row in results["measured"]:
        failed = row.get("failed", "")
        limit = failed.removeprefix("over ").removesuffix(" s")
        if row["library"] == name and limit.isdigit():
            axis.plot(row["m"], float(limit), marker, color=colour, mfc="white")
            _label(axis, row["m"], float(limit), "stopped", colour, xytext=(0, 8), ha="center")


def _against_n(results: dict, axis) -> None:
    rows = growth_n(results) or series(results, "kronfill")[:1]
    n = np.array([row["size"] for row in rows], float)
    factors = np.array([on_factors(row) for row in rows])
    total = np.array([row.get("clocked_s", row["seconds"]) for row in rows])
    rest = np.maximum([beyond_factors(row) for row in rows], 1e-3)
    axis.loglog(n, total, "o-", color=OURS, lw=2.2, label="whole fit")
    axis.loglog(n, factors, "s--", color=GREY, label="work on the factors")
    axis.loglog(n, rest, "^-", color="#0072B2", label="the rest")
    axis.set_xlabel("rows and columns, N = L")
    axis.set_ylabel("seconds")
    where = pick(results, "kronfill", m=1_000_000, size=3000)
    ranks = " x ".join(str(r) for r in where["ranks"]) if where and "ranks" in where else ""
    title = f"Time against N, m = {rows[0]['m']:,}" + (f", ranks {ranks}" if ranks else "")
    axis.set_title(title, loc="left", fontsize=10.5)
    low, high = axis.get_ylim()
    axis.set_ylim(min(low, 0.01), high * 3)
    axis.grid(alpha=0.25, which="major")
    axis.legend(frameon=False, fontsize=9, loc="upper left")
