"""The demonstration: every method on real data, as ``python -m kronfill.demo``.

Daily departures from 587 bike-sharing stations over 196 days. A fifth of the entries and a fifth of
the stations altogether are hidden; each method predicts them from what it sees, what is known about
the stations (place, surroundings) and what is known about the days (weather, date).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kronfill._atomic import written_whole
from kronfill._optional import needed
from kronfill._types import Floats
from kronfill.completion.table import METHODS, complete
from kronfill.data import Observations
from kronfill.data.datasets import load_bixi
from kronfill.ridge.effects import EffectsDesign

__all__ = ["HiddenPart", "main", "run"]

OUTPUT = Path("demo-output") / "bixi.png"
DEFAULT = "default (auto)"


@dataclass(frozen=True)
class HiddenPart:
    """The data with part of it hidden, and what is known about rows and columns."""

    truth: Floats
    seen: Floats
    hidden_entries: NDArray[np.bool_]
    hidden_stations: NDArray[np.bool_]
    stations: Any
    days: Any

    @classmethod
    def make(cls, seed: int = 0) -> HiddenPart:
        """Hide a fifth of the stations, and a fifth of the entries of the others."""
        data = load_bixi()
        truth = np.log1p(data.trips.to_numpy(dtype=float))
        rng = np.random.default_rng(seed)
        known = ~np.isnan(truth)
        cold = np.zeros(len(truth), dtype=bool)
        cold[rng.choice(len(truth), size=len(truth) // 5, replace=False)] = True
        stations = known & cold[:, None]
        entries = known & ~cold[:, None] & (rng.random(truth.shape) < 0.2)
        seen = np.where(entries | stations, np.nan, truth)
        return cls(truth, seen, entries, stations, data.stations, _calendar(data.days))

    def errors(self, predicted: Floats) -> tuple[float, float]:
        """Root mean square error on hidden entries and on hidden stations."""
        gap = (predicted - self.truth) ** 2
        return (
            float(np.sqrt(gap[self.hidden_entries].mean())),
            float(np.sqrt(gap[self.hidden_stations].mean())),
        )


def _calendar(days: Any) -> Any:
    """Weather, with the date and the day of the week as features."""
    out = days.copy()
    out["date"] = days.index
    out["weekday"] = days.index.day_name()
    return out


def column_mean(split: HiddenPart) -> Floats:
    """Predict every entry by the mean of its column, the grand mean where a column is empty."""
    return _effects(split, "cols")


def row_and_column_effects(split: HiddenPart) -> Floats:
    """Predict every entry by mean + row effect + column effect."""
    return _effects(split, "both")


def _effects(split: HiddenPart, kind: Any) -> Floats:
    obs = Observations.from_matrix(split.seen)
    fitted = EffectsDesign(obs.rows, obs.cols, obs.shape, kind).fit(obs.values)
    return fitted.outer(fitted.row, fitted.col)


def _called(name: str) -> str:
    """What a method is called in the table."""
    return {"auto": DEFAULT, "bayesiankmc": "BayesianKMC"}.get(name, name.upper())


def _method(name: str) -> Callable[[HiddenPart], Floats]:
    def predict(split: HiddenPart) -> Floats:
        pd = needed("pandas", "The demonstration")
        table = pd.DataFrame(split.seen, index=split.stations.index, columns=split.days.index)
        done = complete(table, split.stations, split.days, method=name)
        predicted: Floats = done.model.predict_matrix()
        return predicted

    return predict


def run(split: HiddenPart) -> Iterator[tuple[str, float, float, float, Floats]]:
    """Fit everything; yields name, the two errors, seconds and the prediction."""
    contenders: dict[str, Callable[[HiddenPart], Floats]] = {
        "column mean": column_mean,
        "row + column effects": row_and_column_effects,
        **{_called(name): _method(name) for name in reversed(METHODS)},
    }
    for name, predict in contenders.items():
        begun = time.perf_counter()
        predicted = predict(split)
        seconds = time.perf_counter() - begun
        yield (name, *split.errors(predicted), seconds, predicted)


def draw(split: HiddenPart, predicted: Floats, path: Path) -> None:
    """Save a picture of the true, the observed and the predicted table."""
    drawing = needed("matplotlib.figure", "The picture")
    figure = drawing.Figure(figsize=(12, 6.2), layout="constrained")
    axes = figure.subplots(1, 3, sharex=True, sharey=True)
    # Busiest stations on top, hidden ones below, so that both are easy to see.
    level = np.nanmean(np.where(np.isnan(split.truth), predicted, split.truth), axis=1)
    cold = split.hidden_stations.any(axis=1)
    order = np.lexsort((-level, cold))
    low, high = np.nanquantile(split.truth, [0.01, 0.99])
    titles = ("true (white: not in the data)", "observed", "predicted by the default")
    for ax, title, table in zip(axes, titles, (split.truth, split.seen, predicted), strict=True):
        image = ax.imshow(
            table[order],
            aspect="auto",
            interpolation="nearest",
            cmap="viridis",
            vmin=low,
            vmax=high,
        )
        ax.set_title(title)
        ax.set_xlabel("day (15 April to 27 October 2019)")
        ax.axhline(np.sum(~cold) - 0.5, color="crimson", linewidth=1.5)
        ax.set_facecolor("white")
    axes[0].set_ylabel("station, busiest first; below the red line: hidden altogether")
    bar = figure.colorbar(image, ax=axes, shrink=0.8)
    bar.set_label("log(1 + departures a day)")
    path.parent.mkdir(parents=True, exist_ok=True)
    with written_whole(path) as file:
        figure.savefig(file, format="png", dpi=110)


def main() -> None:
    """Print the table and save the picture."""
    out = sys.stdout
    split = HiddenPart.make()
    n, l = split.truth.shape
    cold = int(split.hidden_stations.any(axis=1).sum())
    out.write(
        f"BIXI 2019: log(1 + departures a day), {n} stations x {l} days,\n"
        f"{int(np.isfinite(split.truth).sum()):,} known entries.\n"
        f"Hidden: {cold} stations altogether ({int(split.hidden_stations.sum()):,} entries)\n"
        f"and {int(split.hidden_entries.sum()):,} entries of the others.\n"
        "Error is the root mean square error on what was hidden.\n\n"
        f"{'method':<22}{'hidden entries':>15}{'hidden stations':>17}{'seconds':>9}\n"
    )
    best = np.empty(0)
    for name, entries, stations, seconds, predicted in run(split):
        out.write(f"{name:<22}{entries:>15.3f}{stations:>17.3f}{seconds:>9.1f}\n")
        out.flush()
        best = predicted if name == DEFAULT else best
    draw(split, best, OUTPUT)
    out.write(f"\nPicture of true, observed and predicted values:\n{OUTPUT.resolve()}\n")


if __name__ == "__main__":
    main()
