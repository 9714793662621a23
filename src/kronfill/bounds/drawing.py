"""The drawing of a certificate; matplotlib is imported when one is made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kronfill._optional import needed
from kronfill.bounds.bound import Bound
from kronfill.errors import ParameterError

__all__ = ["draw_terms"]

COLORS = {
    "training loss": "#4d4d4d",
    "hold-out loss": "#7f7f7f",
    "complexity of the class": "#3b6fb6",
    "complexity of effects": "#85b4e3",
    "curvature": "#5aa89a",
    "random sample size": "#c9a227",
    "confidence": "#d1495b",
    "radii read off the fit": "#eda4a4",
}


def draw_terms(bounds: Sequence[Bound], ceiling: float, ax: Any = None) -> Any:
    """Draw one stacked bar per bound, smallest at the top, and what a constant guarantees."""
    if not bounds:
        msg = "There is nothing to draw: no bound was proved."
        raise ParameterError(msg)
    if ax is None:
        plt = needed("matplotlib.pyplot", "Drawing")
        _, ax = plt.subplots(figsize=(8.0, 1.3 + 0.55 * len(bounds)), layout="constrained")
    ordered = sorted(bounds, key=lambda bound: -bound.value)
    labels = [name for name in COLORS if any(name in bound.terms for bound in ordered)]
    starts = np.zeros(len(ordered))
    for name in labels:
        widths = np.array([bound.terms.get(name, 0.0) for bound in ordered])
        ax.barh(
            range(len(ordered)), widths, left=starts, color=COLORS[name], label=name, height=0.6
        )
        starts += widths
    for place, bound in enumerate(ordered):
        ax.text(bound.value, place, f" {bound.value:.3g}", va="center", fontsize=9)
    if np.isfinite(ceiling):
        ax.axvline(ceiling, color="black", linestyle="--", linewidth=1)
        ax.text(
            ceiling, 1.01, "guaranteed by a constant", transform=ax.get_xaxis_transform(),
            ha="center", va="bottom", fontsize=9,
        )  # fmt: skip
    ax.set_yticks(range(len(ordered)), [bound.name for bound in ordered])
    ax.set_xlabel("mean loss on the unobserved entries: upper bound")
    ax.set_xlim(0, 1.1 * max(float(starts.max()), ceiling if np.isfinite(ceiling) else 0.0))
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.4, -0.28), ncols=3, frameon=False)
    return ax
