"""What comes next: a completed table whose columns (or rows) are dates, carried on."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from scipy.optimize import nnls

from kronfill._optional import needed
from kronfill._types import Floats, Index
from kronfill.completion.entries.details import STATUS, check_level
from kronfill.completion.entries.new_entries import NewEntries
from kronfill.completion.judging.evaluation import counted
from kronfill.completion.sides import encoders_by_axis
from kronfill.completion.values import in_units, unscaled
from kronfill.data import Observations
from kronfill.data.reading.column_kinds import as_days
from kronfill.errors import ParameterError, argument
from kronfill.estimators.base import MatrixRegressor, check_rank
from kronfill.estimators.choices import kept
from kronfill.estimators.folds import left_out
from kronfill.kernels.columns.single_columns import DateEncoder

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["ForecastErrors", "Forecasts", "dated_axis", "next_dates", "rolled_errors"]

ORIGINS = 4
"""Dates from which the past is forecast to see how far off that is."""
SHORTEST = 0.5
"""Share of the dates that must lie before the first of them."""
WORTH = 10.0
"""What all rows together say about the errors of one counts as so many forecasts of its own."""
WRITTEN = ("%Y-%m-%d", "%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S")


class Forecasts(NewEntries):
    """Adds what comes next to a completed table."""

    def forecast(self, periods: int) -> DataFrame:
        """Predict the columns that come next, where the columns are dates.

        Where the rows are dates and the columns are not, it is the rows that come next.

        Parameters
        ----------
        periods : int
            How many, at the usual distance of the dates at hand.

        Returns
        -------
        DataFrame
            Rows x periods.

        See Also
        --------
        forecast_details : With intervals.

        Examples
        --------
        >>> import numpy as np, pandas as pd, kronfill as kf
        >>> days = pd.date_range("2026-03-02", periods=28)
        >>> level = np.array([[5.0], [8.0]])
        >>> table = pd.DataFrame(level + (days.day_of_week >= 5), ["a", "b"], days)
        >>> coming = kf.complete(table, method="kkmcex", mu=0.01).forecast(7)
        >>> coming.shape, coming.columns[0].strftime("%d %B")
        ((2, 7), '30 March')
        >>> bool(coming.loc["b", "2026-04-04"] > coming.loc["b", "2026-04-03"] + 0.5)
        True
        """
        axis, dates = self._ahead(periods)
        return self._extended(self.model.extrapolate, *_beside(axis, dates))

    def forecast_details(self, periods: int, *, level: float = 0.9) -> DataFrame:
        """Return :meth:`forecast` entry by entry, with intervals.

        The past is forecast as well, from up to four dates on, by fits that have not seen what
        followed. The errors tell how wide the intervals must be: their variance is taken to grow
        with the distance to the last date seen, and to differ from row to row. That the future errs
        as the past did is an assumption, and errors of neighbouring dates go together: there is no
        guarantee.

        Parameters
        ----------
        periods : int
            How many columns.
        level : float, default=0.9
            Share of the values that the intervals are to contain.

        Returns
        -------
        DataFrame
            Columns as of :meth:`details`.

        Examples
        --------
        >>> import numpy as np, pandas as pd, kronfill as kf
        >>> rng = np.random.default_rng(0)
        >>> days = pd.date_range("2026-03-02", periods=40)
        >>> table = pd.DataFrame(5 + rng.standard_normal((3, 40)), list("abc"), days)
        >>> found = kf.complete(table, method="kkmcex", mu=1.0).forecast_details(2)
        >>> list(found["row"]), bool((found["lower"] < found["value"]).all())
        (['a', 'a', 'b', 'b', 'c', 'c'], True)
        """
        pd = needed("pandas", "Forecasts")
        check_level(level)
        axis, dates = self._ahead(periods)
        frame = self.forecast(periods)
        frame = frame if axis == 1 else frame.T
        errors = self._rolled_errors(axis, periods)
        std, half = errors.std(len(frame), periods), errors.half(len(frame), periods, level)
        inner = self._extended(unscaled(self.model).extrapolate, *_beside(axis, dates))
        scaled = (inner if axis == 1 else inner.T).to_numpy()
        around = (scaled - half, scaled + half, std)
        low, high, std = in_units(self.model, scaled, around, frame.to_numpy())
        rows, cols = np.repeat(frame.index, periods), np.tile(dates, len(frame))
        names = ("row", "column") if axis == 1 else ("column", "row")
        middle = frame.to_numpy().ravel()
        status = pd.Categorical.from_codes(np.full(len(middle), 2), categories=list(STATUS))
        found = {
            names[0]: rows, names[1]: cols, "value": middle, "status": status,
            "lower": low.ravel(), "upper": high.ravel(), "std": std.ravel(),
            "interval": errors.words,
        }  # fmt: skip
        order = ["row", "column", *list(found)[2:]]
        return cast("DataFrame", pd.DataFrame(found)[order])

    def _rolled_errors(self, axis: int, periods: int) -> ForecastErrors:
        """Errors of forecasts of the past; those for as many periods are kept."""
        known: dict[int, ForecastErrors] = self.__dict__.setdefault("_forecast_errors", {})
        if periods not in known:
            days = as_days(list(self._index[axis]))
            method = unscaled(self.model)
            seen = method.observations_
            known[periods] = rolled_errors(kept(method), seen, axis, days, periods)
        return known[periods]

    def _ahead(self, periods: int) -> tuple[int, Any]:
        """The axis that has dates, and those that come next."""
        check_rank(periods, "periods")
        axis = dated_axis(self.model)
        if axis is None:
            msg = (
                "There are no dates to carry on: neither the columns nor the rows of the table are "
                "labelled with dates, such as 2024-01-31 or 2024-01-31 18:00, or the method takes "
                "no notice of them (use method='auto' or 'kkmcex'). Where dates are among the "
                "features, describe what comes next: extrapolate(cols=features of the new columns)."
            )
            raise ParameterError(msg)
        return axis, next_dates(self._index[axis], periods)


def _beside(axis: int, dates: Any) -> tuple[Any, Any]:
    return (None, dates) if axis == 1 else (dates, None)


def dated_axis(model: MatrixRegressor) -> int | None:
    """The axis whose labels are dates to a fitted method: columns (1), else rows (0), else None."""
    for axis in (1, 0):
        encoders = encoders_by_axis(model, axis)
        if any(isinstance(one, DateEncoder) and one.by_label for one in encoders):
            return axis
    return None


def next_dates(labels: Any, periods: int) -> Any:
    """Return the dates that follow others at their usual distance, written as these are.

    Examples
    --------
    >>> from kronfill.completion.answers.forecasts import next_dates
    >>> list(next_dates(["2024-01-31", "2024-02-29", "2024-03-31"], 2))
    ['2024-04-30', '2024-05-31']
    >>> list(next_dates(["2024-01-01 00:00", "2024-01-01 06:00", "2024-01-01 18:00"], 1))
    ['2024-01-02 00:00']
    """
    pd = needed("pandas", "Forecasts")
    own = list(labels)
    are_text = isinstance(own[0], str)
    stamps = pd.DatetimeIndex(pd.to_datetime(own, format="ISO8601" if are_text else None))
    stamps = stamps.sort_values().unique()
    zone = stamps.tz
    stamps = stamps.tz_localize(None)  # a day is a day, also where clocks are changed
    coming = pd.date_range(stamps[-1], periods=periods + 1, freq=_frequency(stamps))[1:]
    if zone is not None:
        coming = coming.tz_localize(zone, ambiguous=False, nonexistent="shift_forward")
    name = getattr(labels, "name", None)
    if are_text:
        return pd.Index([_as_written(stamp, stamps[-1], own) for stamp in coming], name=name)
    if not isinstance(own[0], datetime.datetime | np.datetime64):
        return pd.Index([stamp.date() for stamp in coming], dtype=object, name=name)
    return coming.rename(name)


def _frequency(stamps: Any) -> Any:
    """The usual distance of dates: of the calendar (a month, a weekday), or else the commonest."""
    pd = needed("pandas", "Forecasts")
    if len(stamps) < 2:
        msg = "A forecast needs two dates at least, to know how far the next one is."
        raise ParameterError(msg)
    months = np.diff(np.asarray(stamps.year * 12 + stamps.month))
    if months.min() > 0 and stamps.is_month_end.all():
        return pd.offsets.MonthEnd(int(np.bincount(months).argmax()))
    if months.min() > 0 and len(set(stamps.day)) == 1:
        return pd.DateOffset(months=int(np.bincount(months).argmax()))
    gaps, counts = np.unique(stamps[1:] - stamps[:-1], return_counts=True)
    usual = pd.Timedelta(gaps[counts.argmax()])
    if usual == pd.Timedelta(days=1) and len(stamps) > 5 and (stamps.day_of_week < 5).all():
        return pd.offsets.BDay()
    return usual


def _as_written(stamp: Any, last: Any, own: Sequence[str]) -> str:
    """A date as text, in the form that the others have."""
    there = set(own)
    form = next((form for form in WRITTEN if last.strftime(form) in there), None)
    return str(stamp.isoformat() if form is None else stamp.strftime(form))


@dataclass(frozen=True, eq=False)
class ForecastErrors:
    """How far forecasts of the past were off.

    Attributes
    ----------
    variance : tuple of float
        Variance of an error at no distance, and what each period adds to it.
    rows : ndarray of shape (N,)
        How many times the usual error that of each row is.
    scores : ndarray
        Absolute errors by the standard deviation of these, sorted.
    origins : int
        Number of dates from which the past was forecast.
    """

    variance: tuple[float, float]
    rows: Floats
    scores: Floats
    origins: int

    @property
    def words(self) -> str:
        """What intervals rest on."""
        times = "once" if self.origins == 1 else f"{self.origins} times"
        return f"errors of the past, forecast {times}"

    def std(self, n: int, periods: int) -> Floats:
        """Standard deviation of the errors of n rows, one to so many periods ahead."""
        ahead = np.arange(1, periods + 1)
        return np.asarray(np.outer(self.rows[:n], self._at(ahead)))

    def half(self, n: int, periods: int, level: float) -> Floats:
        """Half the width of the intervals."""
        count = len(self.scores)
        rank = int(np.ceil(level * (count + 1)))
        if rank > count:
            return np.full((n, periods), np.inf)
        return self.std(n, periods) * float(self.scores[rank - 1])

    def _at(self, ahead: Any) -> Floats:
        return np.asarray(np.sqrt(self.variance[0] + self.variance[1] * ahead))


def rolled_errors(
    method: MatrixRegressor, observations: Observations, axis: int, days: Floats, periods: int
) -> ForecastErrors:
    """Forecast the past from some dates on, and see how far off that is.

    Parameters
    ----------
    method : estimator
        The method, with everything chosen.
    observations : Observations
        What was observed.
    axis : int
        Which axis has the dates.
    days : ndarray
        The date of each item of that axis.
    periods : int
        How far ahead is forecast.
    """
    obs = counted(observations)
    order = np.unique(days)
    at = np.searchsorted(order, days)[(obs.rows, obs.cols)[axis]]
    item = (obs.rows, obs.cols)[1 - axis]
    found: list[tuple[Index, Index, Floats, Floats]] = []
    for cut in _cuts(len(order), periods):
        held = (at >= cut) & (at < cut + periods)
        if not held.any() or not (at < cut).any():
            continue
        (fold,) = left_out(method.fit, obs, [(at < cut, held)])
        warm = np.isin(item[held], item[at < cut])
        mine = item[held][warm]
        # Errors of neighbouring dates go together: a row counts once, however many it has.
        share = 1.0 / np.bincount(mine)[mine]
        found.append(((at[held] - cut + 1)[warm], mine, fold.gap[warm], share))
    if not found:
        msg = (
            f"{len(order)} dates are too few to see how far forecasts of {periods} were off: "
            f"intervals need two dates before {argument('periods')} of them."
        )
        raise ParameterError(msg)
    ahead, items, gaps, share = (np.concatenate(parts) for parts in zip(*found, strict=True))
    variance = nnls(np.column_stack([np.ones(len(ahead)), ahead]), gaps**2)[0]
    variance = variance if variance.sum() > 0 else np.array([np.finfo(float).tiny, 0.0])
    scaled = gaps**2 / (variance[0] + variance[1] * ahead)
    n = obs.shape[1 - axis]
    own = np.bincount(items, share * scaled, minlength=n) + WORTH
    rows = np.sqrt(own / (np.bincount(items, share, minlength=n) + WORTH))
    rows[np.bincount(item, minlength=n) == 0] = np.nan
    scores = np.sort(np.sqrt(scaled) / rows[items])
    return ForecastErrors((float(variance[0]), float(variance[1])), rows, scores, len(found))


def _cuts(count: int, periods: int) -> list[int]:
    """The positions of the first dates that are forecast, the last one first."""
    least = max(2, int(SHORTEST * count))
    cuts = [count - k * periods for k in range(1, ORIGINS + 1)]
    return [cut for cut in cuts if cut >= least] or [max(2, count - periods)]
