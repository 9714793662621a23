"""Pictures of a completed table; matplotlib is imported when one is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from kronfill._optional import needed
from kronfill._types import Floats, Index
from kronfill.completion.answers.forecasts import Forecasts, dated_axis
from kronfill.completion.entries.details import STATUS
from kronfill.completion.judging.evaluation import evaluate
from kronfill.data.amounts import count_of
from kronfill.errors import ParameterError, argument

__all__ = ["PLOTS", "Plots"]

PLOTS = ("table", "errors", "sources", "row")
MOST = (300, 500)
"""Rows and columns of a picture of the table; of more every second, third, ... is shown."""
NAMED = 40
"""Up to so many rows (columns) of a picture are named."""
LIGHTER = 0.55
"""How far the colour of what was not observed is moved towards white."""
COLORS = {"known": "#2a6f97", "row": "#d1495b", "column": "#e0a12e", "both": "#6a4c93"}
WHAT = {"known": "missing entries", "row": "new rows", "column": "new columns", "both": "both new"}


class Plots(Forecasts):
    """Adds pictures to a completed table."""

    def plot(
        self,
        kind: str = "table",
        *,
        row: Any = None,
        periods: int | None = None,
        level: float = 0.9,
        ax: Any = None,
    ) -> Any:
        """Draw the completed table, how good it is, or one row of it.

        Parameters
        ----------
        kind : {"table", "errors", "sources", "row"}, default="table"
            * "table": all values; those observed in full colour, those filled in paler, those
              extrapolated paler and hatched;
            * "errors": predicted against observed, for entries that were hidden from further fits;
            * "sources": what each source is worth;
            * "row": one row over the columns, with intervals where it was not observed.
        row : label, optional
            The row of "row"; by default the first that has both observed and missing entries.
        periods : int, optional
            How many columns of a forecast are drawn behind those of "row".
        level : float, default=0.9
            Level of the intervals.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        matplotlib Axes

        Examples
        --------
        >>> import numpy as np, pandas as pd, kronfill as kf
        >>> table = pd.DataFrame({"x": [1.0, 1.2, 9.0], "y": [2.0, np.nan, 8.0]}, list("abc"))
        >>> sizes = pd.DataFrame({"size": [1.0, 2.0, 9.0]}, list("abc"))
        >>> done = kf.complete(table, rows=sizes, method="kkmcex", mu=0.1)
        >>> done.plot("row", row="b").get_title("left")
        'b'
        """
        if kind not in PLOTS:
            msg = f"{argument('kind')} must be one of {PLOTS}, got {kind!r}."
            raise ParameterError(msg)
        if kind != "row" and (row is not None or periods is not None):
            msg = f"row= and periods= are for kind='row', got kind={kind!r}."
            raise ParameterError(msg)
        if kind == "row":
            return self._draw_row(row, periods, level, ax)
        draw = {"table": self._draw_table, "errors": self._draw_errors}
        return draw.get(kind, self._draw_sources)(ax)

    def _draw_table(self, ax: Any) -> Any:
        obs = self.observations
        rows, cols = (_some(size, most) for size, most in zip(obs.shape, MOST, strict=True))
        values = self.model.predict_matrix(rows, cols)
        at_r, at_c = (index.ravel() for index in np.meshgrid(rows, cols, indexing="ij"))
        status, seen = self._status_at(at_r, at_c)
        flat = values.reshape(-1)
        flat[status == 0] = obs.values[seen]
        ax = _axes(ax, (9.0, 5.2))
        mpl = needed("matplotlib", "Drawing")
        scale = mpl.colors.Normalize(*_limits(flat))
        shades = mpl.colormaps["viridis"](scale(values))[..., :3]
        paler = (status > 0).reshape(values.shape)
        shades[paler] += LIGHTER * (1.0 - shades[paler])
        ax.imshow(shades, aspect="auto", interpolation="nearest")
        for items, cold, span in (
            (rows, obs.cold_rows, ax.axhspan),
            (cols, obs.cold_cols, ax.axvspan),
        ):
            for first, last in _stretches(np.flatnonzero(np.isin(items, cold))):
                span(
                    first - 0.5,
                    last + 0.5,
                    fill=False,
                    hatch="////",
                    linewidth=0,
                    edgecolor="#444444",
                )
        bar = mpl.cm.ScalarMappable(scale, "viridis")
        ax.figure.colorbar(bar, ax=ax, label="value", pad=0.02)
        middle = mpl.colormaps["viridis"](0.45)[:3]
        pale = tuple(part + LIGHTER * (1.0 - part) for part in middle)
        looks = ({"facecolor": middle}, {"facecolor": pale}, {"facecolor": pale, "hatch": "////"})
        there = [k for k in range(3) if (status == k).any()]
        patch = mpl.patches.Patch
        ax.legend(
            handles=[patch(label=STATUS[k], edgecolor="#444444", **looks[k]) for k in there],
            loc="lower left", bbox_to_anchor=(0.0, 1.01), ncols=3, frameon=False,
        )  # fmt: skip
        _name(ax, 0, rows, self._index[0])
        _name(ax, 1, cols, self._index[1])
        return ax

    def _draw_errors(self, ax: Any) -> Any:
        found = evaluate(self)
        if not found.parts:
            msg = "There is nothing to draw: too few entries to hide some of them."
            raise ParameterError(msg)
        ax = _axes(ax, (5.6, 5.4))
        for kind, part in found.parts.items():
            rmse = part.scores()[0].rmse
            label = f"{WHAT[kind]}: error {rmse:.3g}"
            ax.plot(
                part.observed, part.predicted, ".", ms=4, alpha=0.5, color=COLORS[kind], label=label
            )
        everything = np.concatenate(
            [p for one in found.parts.values() for p in (one.observed, one.predicted)]
        )
        ends = [float(everything.min()), float(everything.max())]
        ax.plot(ends, ends, color="#888888", linewidth=1, zorder=0)
        ax.set(xlabel="observed, but hidden from the fit", ylabel="predicted", aspect="equal")
        ax.legend(frameon=False, fontsize=9)
        return _tidy(ax)

    def _draw_sources(self, ax: Any) -> Any:
        """By how much the error on hidden entries grows without each source."""
        parts: Any = cast("Any", self).parts
        parts = parts[parts["loss"].notna()].iloc[::-1]
        names = [f"{source} ({axis})" for axis, source in parts.index]
        ax = _axes(ax, (7.0, 1.0 + 0.34 * len(names)))
        colors = [COLORS["row" if axis == "rows" else "known"] for axis, _ in parts.index]
        error = parts["loss error"].fillna(0.0)
        ax.barh(range(len(names)), parts["loss"], xerr=error, color=colors, height=0.65,
                error_kw={"ecolor": "#555555", "lw": 1})  # fmt: skip
        ax.axvline(0.0, color="#888888", linewidth=1)
        ax.set_yticks(range(len(names)), names)
        ax.set_xlabel("growth of the error on hidden entries without it")
        return _tidy(ax)

    def _draw_row(self, row: Any, periods: int | None, level: float, ax: Any) -> Any:
        obs = self.observations
        row = self._telling_row() if row is None else row
        at = int(obs.row_index([row])[0])
        n_cols = obs.shape[1]
        found = self.details((np.full(n_cols, at), np.arange(n_cols)), level=level)
        if periods is not None:
            coming = self.forecast_details(periods, level=level)
            pd = needed("pandas", "Drawing")
            mine = coming[(coming["row"] == row).to_numpy()]
            if dated_axis(self.model) != 1:
                msg = "periods= draws columns that come next, and the columns are no dates."
                raise ParameterError(msg)
            found = pd.concat([found, mine.astype({"interval": object})], ignore_index=True)
        ax = _axes(ax, (9.0, 3.6))
        x, ticks = _positions(found["column"])
        order = np.argsort(x, kind="stable") if ticks is None else np.arange(len(found))
        found, x = found.iloc[order], np.asarray(x)[order]
        seen = (found["status"] == "observed").to_numpy()
        value, lower, upper = (found[name].to_numpy(float) for name in ("value", "lower", "upper"))
        ends = lower if np.isfinite(lower).any() else value
        ax.plot(x, np.where(seen, np.nan, value), color=COLORS["row"], lw=1.4, label="predicted",
                marker="." if _few_beside(seen) else "")  # fmt: skip
        if np.isfinite(ends).any():
            low, high = (np.where(seen | ~np.isfinite(end), np.nan, end) for end in (lower, upper))
            _band(ax, x, low, high, level)
        ax.plot(x[seen], value[seen], ".", ms=4, color="#333333", label="observed")
        if periods is not None:
            ax.axvline(x[-periods - 1], color="#999999", lw=0.8, ls="--")
        if ticks is not None:
            shown = _some(len(ticks), NAMED)
            ax.set_xticks(shown, [ticks[k] for k in shown], rotation=90 if len(shown) > 8 else 0)
        ax.set_title(_short(row, 48), loc="left", fontsize=11)
        ax.set_ylabel("value")
        ax.legend(frameon=False, fontsize=9, ncols=3, loc="lower right", bbox_to_anchor=(1.0, 1.0))
        return _tidy(ax)

    def _telling_row(self) -> Any:
        """A row that has observed and missing entries, if there is one."""
        obs = self.observations
        partly = np.flatnonzero((obs.row_counts > 0) & (obs.row_counts < obs.shape[1]))
        return (obs.row_labels or range(obs.shape[0]))[int(partly[0]) if partly.size else 0]


def _some(size: int, most: int) -> Index:
    """All positions, or as many as are allowed, evenly."""
    return np.unique(np.linspace(0, size - 1, min(size, most)).round().astype(np.intp))


def _limits(values: Floats) -> tuple[float, float]:
    """Where colours begin and end: few extreme values do not take all of them."""
    low, high = (float(end) for end in np.quantile(values, [0.01, 0.99]))
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def _stretches(at: Index) -> list[tuple[int, int]]:
    """First and last of each run of neighbouring positions."""
    if not at.size:
        return []
    parts = np.split(at, np.flatnonzero(np.diff(at) > 1) + 1)
    return [(int(part[0]), int(part[-1])) for part in parts]


def _axes(ax: Any, size: tuple[float, float]) -> Any:
    if ax is None:
        plt = needed("matplotlib.pyplot", "Drawing")
        _, ax = plt.subplots(figsize=size, layout="constrained")
    return ax


def _tidy(ax: Any) -> Any:
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _short(label: Any, most: int = 24) -> str:
    text = str(label).removesuffix(" 00:00:00")
    return text if len(text) <= most else text[: most - 1] + "…"


def _name(ax: Any, axis: int, items: Index, labels: Any) -> None:
    """Labels beside a picture of the table: all of a few, a handful of many."""
    name = ("row", "column")[axis]
    shown = np.arange(len(items)) if len(items) <= NAMED else _some(len(items), 8)
    told = [_short(labels[items[k]]) for k in shown]
    if axis == 0:
        ax.set_yticks(shown, told)
    else:
        ax.set_xticks(shown, told, rotation=90 if sum(map(len, told)) > 60 else 0)
    title = count_of(len(labels), name)
    some = "" if len(items) == len(labels) else f", {len(items)} shown"
    (ax.set_ylabel if axis == 0 else ax.set_xlabel)(title + some)


def _positions(labels: Any) -> tuple[Any, Sequence[str] | None]:
    """Where columns stand: by their dates or numbers, or one after the other with their names."""
    pd = needed("pandas", "Drawing")
    if pd.api.types.is_datetime64_any_dtype(labels) or pd.api.types.is_numeric_dtype(labels):
        return labels.to_numpy(), None
    return np.arange(len(labels)), [_short(label) for label in labels]


def _few_beside(seen: Any) -> bool:
    """Whether single predictions stand between observations, where a line shows nothing."""
    runs = np.diff(np.flatnonzero(np.diff(np.concatenate([[True], seen, [True]]).astype(int))))
    return bool((runs[::2] == 1).any())


def _band(ax: Any, x: Any, low: Floats, high: Floats, level: float) -> None:
    label = f"{100 * level:g}% interval"
    ax.fill_between(x, low, high, color=COLORS["row"], alpha=0.22, lw=0, label=label)
    alone = np.isfinite(low) & ~np.isfinite(np.roll(low, 1)) & ~np.isfinite(np.roll(low, -1))
    ax.vlines(x[alone], low[alone], high[alone], color=COLORS["row"], alpha=0.35, lw=2.5)
