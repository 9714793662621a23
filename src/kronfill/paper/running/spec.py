"""What is to be computed: cells, and the plan that lists them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from types import MappingProxyType

from kronfill.errors import ParameterError
from kronfill.paper.methods import METHODS
from kronfill.paper.published import PANELS, SIZES
from kronfill.paper.synthetic import SAMPLES

__all__ = ["Cell", "RunPlan", "panel_of", "snr_of"]

CHEAP = 1.0
"""Seconds up to which drawing the data is a large part of a cell."""
DEFAULT_COUNTS = {name: method.realizations for name, method in METHODS.items()}


@dataclass(frozen=True, order=True)
class Cell:
    """One unit of work: one method on one realisation."""

    method: str
    """Name of the method in :data:`kronfill.paper.methods.METHODS`."""
    size: int
    panel: str
    """One of "a" (no noise) and "b" (snr = 4), or "snr=..." for another ratio."""
    realization: int

    @property
    def key(self) -> str:
        """Name of the cell, which its file carries."""
        return f"{self.panel}-{self.size}-{self.realization}-{self.method}"


def panel_of(snr: float) -> str:
    """Name of the panel with a signal to noise ratio.

    Examples
    --------
    >>> from kronfill.paper.running.spec import panel_of
    >>> panel_of(float("inf")), panel_of(4), panel_of(2.5)
    ('a', 'b', 'snr=2.5')
    """
    if not snr > 0:
        msg = f"snr must be a positive number or inf, got {snr!r}."
        raise ParameterError(msg)
    for panel, known in PANELS.items():
        if snr == known:
            return panel
    return f"snr={snr:g}"


def snr_of(panel: str) -> float:
    """Signal to noise ratio of a panel.

    Examples
    --------
    >>> from kronfill.paper.running.spec import snr_of
    >>> snr_of("a"), snr_of("snr=2.5")
    (inf, 2.5)
    """
    return PANELS[panel] if panel in PANELS else float(panel.removeprefix("snr="))


@dataclass(frozen=True)
class RunPlan:
    """Which cells make up a run.

    Parameters
    ----------
    sizes : tuple of int
        N; all with N^2 > 1000.
    panels : tuple of str
        See :func:`panel_of`.
    counts : mapping of str to int
        Realisations of each method.
    seed : int
        Root of all random numbers.

    Examples
    --------
    >>> from kronfill.paper.running.spec import RunPlan
    >>> plan = RunPlan(sizes=(100,), panels=("a",), counts={"kkmcex": 2})
    >>> [cell.key for cell in plan.cells()]
    ['a-100-0-kkmcex', 'a-100-1-kkmcex']
    """

    sizes: tuple[int, ...] = SIZES
    panels: tuple[str, ...] = tuple(PANELS)
    counts: Mapping[str, int] = field(default_factory=lambda: MappingProxyType(DEFAULT_COUNTS))
    seed: int = 0

    def __post_init__(self) -> None:
        smallest = math.isqrt(SAMPLES) + 1
        if not self.sizes or min(self.sizes) < smallest:
            msg = (
                f"sizes must be whole numbers of at least {smallest}, so that entries are left to "
                f"test on; got {list(self.sizes)}."
            )
            raise ParameterError(msg)
        unknown = sorted(set(self.counts) - set(METHODS))
        if unknown or not self.counts:
            msg = f"methods must be among {', '.join(METHODS)}; got {unknown or 'none'}."
            raise ParameterError(msg)
        if min(self.counts.values()) < 1:
            msg = f"realizations must be at least 1, got {dict(self.counts)}."
            raise ParameterError(msg)
        if self.seed < 0:
            msg = f"seed must not be negative, got {self.seed}."
            raise ParameterError(msg)

    def cells(self) -> Iterator[Cell]:
        """All cells, cheap ones first; cheap methods on the same data come one after the other."""
        cheap = [name for name in self.counts if METHODS[name].cost(max(self.sizes)) < CHEAP]
        rest = [name for name in self.counts if name not in cheap]
        for names in ([cheap] if cheap else []) + [[name] for name in rest]:
            most = max(self.counts[name] for name in names)
            for size, k, panel in product(sorted(self.sizes), range(most), self.panels):
                for name in names:
                    if k < self.counts[name]:
                        yield Cell(name, size, panel, k)
