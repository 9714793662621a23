"""An interval for every entry of a completed table, new rows and columns included."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from sklearn.base import clone

from kronfill._types import Floats, Index
from kronfill.completion.judging.evaluation import (
    KINDS,
    LEAST,
    counted,
    doubt_of,
    kinds_of,
    warn_of,
)
from kronfill.completion.likelihood import likelihood_of, possible_ends, recorded
from kronfill.data import Observations
from kronfill.data.amounts import count_of
from kronfill.errors import (
    ConvergenceWarning,
    DataError,
    KronfillWarning,
    ParameterError,
    argument,
)
from kronfill.estimators.base import Kernels, MatrixRegressor, fitted_kernels
from kronfill.estimators.choices import kept
from kronfill.estimators.conformal.calibration import (
    held_entries,
    held_items,
    held_pairs,
    items_in_turn,
)
from kronfill.estimators.conformal.left_out_errors import Around, LeavingItemsOut, LeftOutErrors
from kronfill.estimators.conformal.scales import StdScale, std_work
from kronfill.estimators.gaussian_process.regressor import (
    GaussianProcessRegressor,
    gaussian_process,
)
from kronfill.masks import SamplingTest, uniformity_where_known
from kronfill.uncertainty.ranks import effective_number, worst_coverage

__all__ = [
    "ENOUGH",
    "METHODS",
    "NAMES",
    "Calibrated",
    "Gaussian",
    "Intervals",
    "NoIntervals",
    "intervals_for",
    "std_work",
]


METHODS = ("auto", "gaussian", "calibrated", "none")
ENOUGH = 200
"""Observations from which on "auto" calibrates: fewer are better used for the fit."""
FEW_TO_CHOOSE_FROM = 2000
"""Up to so many observations what the default chose from all is chosen anew without the hidden.

By a rule of thumb a dozen numbers chosen to make the errors on m entries small take up to 24/m off
their squares, which at 90% is 4/m of coverage: 1% for 400, too little to be seen for thousands.
"""
WORK = 5e11
"""Multiplications that may be spent on standard deviations."""
SHARE = 0.15
"""Share of the entries that is hidden to measure errors on known rows and columns."""
FEW_ITEMS = 18
"""With fewer rows (columns) a half of them gives no 90% interval, and each is left out in turn."""
FEW_EFFECTIVE = 10.0
FEW_LEVEL = 0.98
"""Where fewer rows would do for no higher level than this it is said."""
MISJUDGED = 1.5
"""By which the odds of the mask may be wrong in what is said of them."""
NAMES = ("known row and column", "new row", "new column", "new row and column")


class Intervals(ABC):
    """Intervals for index pairs."""

    words: str
    """What kind of interval it is, in words."""
    kind: str
    """The same in one word."""

    @abstractmethod
    def at(self, rows: Index, cols: Index, middle: Floats, level: float) -> tuple[Floats, ...]:
        """Lower end, upper end and standard deviation of each entry, NaN where there is none."""

    @abstractmethod
    def outside(
        self, rows: Any, cols: Any, middle: Floats, level: float
    ) -> tuple[Floats, Floats, Floats]:
        """Return the same for the block of new rows and columns; None stands for all known."""

    def kinds(self, rows: Index, cols: Index) -> NDArray[np.intp]:
        """Which of :data:`NAMES` each entry is for the intervals."""
        return np.zeros(len(rows), np.intp)

    def kinds_outside(self, rows: Index, cols: Index, new: tuple[bool, bool]) -> NDArray[np.intp]:
        """Return the same where the row, the column or both are ``new``, not in the table."""
        return np.zeros(len(rows), np.intp)


class Gaussian(Intervals):
    """By the model's own standard deviation, noise included; infinite where nothing tells it."""

    words = "Gaussian: the model's standard deviation, noise included"
    kind = "gaussian"

    def __init__(self, model: Any) -> None:
        self._model = model

    def at(self, rows: Index, cols: Index, middle: Floats, level: float) -> tuple[Floats, ...]:
        """See :class:`Intervals`."""
        return self._around(middle, self._model.predict_std(np.column_stack([rows, cols])), level)

    def outside(
        self, rows: Any, cols: Any, middle: Floats, level: float
    ) -> tuple[Floats, Floats, Floats]:
        """See :class:`Intervals`."""
        return self._around(middle, self._model.extrapolate_std(rows, cols), level)

    def _around(
        self, middle: Floats, latent: Floats, level: float
    ) -> tuple[Floats, Floats, Floats]:
        std = np.sqrt(latent**2 + self._model.noise_variance_)
        half = float(ndtri(0.5 + level / 2)) * std
        return middle - half, middle + half, std


class Calibrated(Intervals):
    """Conformal, by errors on what was hidden from one more fit for each kind of entry.

    * Known row and column: a part of the entries, which count by their odds of being missing
      (weighted split conformal); the odds follow from row and column effects of the mask, and from
      what is known about rows and columns, whether or not the method makes use of it.
    * New row: whole rows, each of which counts once (hierarchical conformal); new columns likewise.
    * New row and column: entries of hidden rows in hidden columns no two of which share either.

    Intervals are those of the fits that have not seen what was hidden, and are stretched where
    they would not contain the prediction of the fit to everything. What was chosen from everything
    is kept, but by the default, which chooses a dozen numbers, only where there are many
    observations, or for new rows and columns. A kind is calibrated when it is asked for first.
    ``groups`` are as for :class:`~kronfill.ConformalRegressor`.
    """

    kind = "conformal"
    kernels: Kernels = (None, None)

    def __init__(
        self,
        model: MatrixRegressor,
        count: int = 0,
        groups: tuple[Index | None, Index | None] | None = None,
        parts: tuple[Any, ...] = (None, None, None, None),
        kernels: Kernels = (None, None),
    ) -> None:
        self.model = model
        self.kernels = kernels
        self.count = count
        self.groups = groups
        self._parts = list(parts)

    @property
    def parts(self) -> tuple[Any, ...]:
        """What was calibrated, or why it could not be; None for what was not asked for yet."""
        return tuple(self._parts)

    def serves(self, count: int) -> bool:
        """Whether so many entries can be asked about: widths may follow what takes too long."""
        return not self._has_std(self.count) or self._has_std(count)

    def _has_std(self, count: int) -> bool:
        model = self.model
        known = isinstance(model, GaussianProcessRegressor) and std_work(model, count) <= WORK
        return known and bool(gaussian_process(model).dof)

    def at(self, rows: Index, cols: Index, middle: Floats, level: float) -> tuple[Floats, ...]:
        """See :class:`Intervals`."""
        low, high = np.full(len(rows), np.nan), np.full(len(rows), np.nan)
        kinds = self.kinds(rows, cols)
        for kind in np.unique(kinds):
            part, mine = self.part(int(kind)), kinds == kind
            if not isinstance(part, str):
                pairs = np.column_stack([rows[mine], cols[mine]])
                low[mine], high[mine] = part.at(pairs, level)
        ends = possible_ends(self.model, np.fmin(low, middle), np.fmax(high, middle), middle)
        return *ends, self._std(rows, cols)

    def outside(
        self, rows: Any, cols: Any, middle: Floats, level: float
    ) -> tuple[Floats, Floats, Floats]:
        """See :class:`Intervals`."""
        obs = counted(self.model.observations_)
        cold_r = obs.row_counts == 0 if rows is None else np.ones(len(middle), bool)
        cold_c = obs.col_counts == 0 if cols is None else np.ones(middle.shape[1], bool)
        kinds = cold_r[:, None] + 2 * cold_c[None, :]
        low, high = np.full(middle.shape, np.nan), np.full(middle.shape, np.nan)
        for kind in np.unique(kinds):
            part, mine = self.part(int(kind)), kinds == kind
            if not isinstance(part, str):
                ends = part.outside(rows, cols, level)
                low[mine], high[mine] = ends[0][mine], ends[1][mine]
        none = np.full(middle.shape, np.nan)
        ends = possible_ends(self.model, np.fmin(low, middle), np.fmax(high, middle), middle)
        return *ends, none

    def kinds(self, rows: Index, cols: Index) -> NDArray[np.intp]:
        """See :class:`Intervals`; a row that only hidden entries knew is taken for a new one."""
        kinds = kinds_of(counted(self.model.observations_), rows, cols)
        known = self.part(0)
        if isinstance(known, str):
            return kinds
        return np.maximum(kinds, kinds_of(known.model.observations_, rows, cols))

    def kinds_outside(self, rows: Index, cols: Index, new: tuple[bool, bool]) -> NDArray[np.intp]:
        """See :class:`Intervals`: a known row or column may be without observations too."""
        obs = counted(self.model.observations_)
        cold_r = np.ones(len(rows), bool) if new[0] else obs.row_counts[rows] == 0
        cold_c = np.ones(len(cols), bool) if new[1] else obs.col_counts[cols] == 0
        return np.asarray(cold_r + 2 * cold_c, np.intp)

    def part(self, kind: int) -> Any:
        """Errors on hidden entries of a kind, made when asked for first; or why there are none."""
        if self._parts[kind] is None:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", ConvergenceWarning)
                    self._parts[kind] = self._calibrated(kind)
            except DataError as error:
                self._parts[kind] = str(error)
            else:
                doubt = _doubt(self._parts[kind])
                warn_of({KINDS[kind]: doubt} if doubt else {})
                if kind == 0:
                    _warn_of_few(self._parts[0])
        return self._parts[kind]

    def _calibrated(self, kind: int) -> LeftOutErrors:
        model, obs = kept(self.model), counted(self.model.observations_)
        if kind == 0:
            if "choice" in model.get_params(deep=False) and obs.m <= FEW_TO_CHOOSE_FROM:
                model = clone(self.model)
            return _known(model, obs, self._known_about(), self.groups, self.count)
        if kind == 3:
            return held_pairs(model, obs, count=self.count)
        axis = kind - 1
        items = np.count_nonzero((obs.row_counts, obs.col_counts)[axis])
        if items < FEW_ITEMS:
            return items_in_turn(model, obs, axis, count=self.count)
        return held_items(model, obs, axis, count=self.count, groups=self._groups_of(axis))

    def _known_about(self) -> Kernels:
        """Kernels of the method, or if it has none what else is known about rows and columns."""
        own = fitted_kernels(self.model)
        return own if any(kernel is not None for kernel in own) else self.kernels

    def _groups_of(self, axis: int) -> Index | None:
        """Groups of rows (columns), where those without observations share theirs with others."""
        groups = None if self.groups is None else self.groups[axis]
        if groups is None:
            return None
        obs = counted(self.model.observations_)
        there = (obs.row_counts, obs.col_counts)[axis] > 0
        shared = np.isin(groups[~there], groups[there]).all()
        return groups if shared and len(np.unique(groups)) < len(groups) else None

    def _std(self, rows: Index, cols: Index) -> Floats:
        model: Any = self.model
        if likelihood_of(model) != "gaussian":
            return np.asarray(model.predict_std(np.column_stack([rows, cols])))
        if not self._has_std(self.count):
            return np.full(len(rows), np.nan)
        std = model.predict_std(np.column_stack([rows, cols]))
        return np.asarray(np.sqrt(std**2 + model.noise_variance_))

    @property
    def words(self) -> str:  # type: ignore[override]
        """What each kind of interval is that was asked for, and what it rests on."""
        told = [self._told(kind) for kind in range(4) if self._parts[kind] is not None]
        return "; ".join(told) or "conformal: from errors on what is hidden from one more fit"

    def _told(self, kind: int) -> str:
        part = self._parts[kind]
        if isinstance(part, str):
            return f"{NAMES[kind]}: none. {part}".removesuffix(".")
        doubt = _doubt(part)
        return self._way(kind) + (f", not to be relied on, as {doubt}" if doubt else "")

    def _way(self, kind: int) -> str:
        part, name = self._parts[kind], NAMES[kind]
        if kind == 0:
            test = uniformity_where_known(counted(self.model.observations_))
            return f"{name}: {_weighted_words(part, test)}"
        axis = ("row", "column")[kind - 1] if kind < 3 else "pair"
        if isinstance(part, LeavingItemsOut):
            count = len(part.models)
            items = count_of(count, axis) + _finite(count)
            return f"{name}: jackknife+ over {items}, guaranteed 1 - 2 (1 - level)"
        count = _total(part)
        items = count_of(count, f"hidden {axis}")
        within = _finite(count) if part.label is None else ", each within its group"
        return f"{name}: hierarchical conformal from {items}{within}{_scaled(part)}"


def _doubt(part: LeftOutErrors) -> str:
    """What is to be said if the fit behind some errors did not converge."""
    models = part.models if isinstance(part, LeavingItemsOut) else (part.model,)
    records = [one.solution_ for one in models]
    return "" if all(one.converged for one in records) else doubt_of(records)


def _finite(count: int) -> str:
    """Up to which level so many rows tell where an interval ends, if they are few."""
    most = count / (count + 1)
    return f" (infinite above {100 * most:.4g}%)" if most < FEW_LEVEL else ""


def _total(part: Around) -> int:
    return round(float(np.ones(len(part.scores)).sum() if part.weights is None
                       else part.weights.sum()))  # fmt: skip


def _scaled(part: Around) -> str:
    return ", scaled by the model's standard deviation" if isinstance(part.scale, StdScale) else ""


def _warn_of_few(part: Around) -> None:
    """Warn where the mask is so uneven that next to nothing stands for what is missing."""
    effective = effective_number(part.counts())
    if part.mask is not None and effective < min(FEW_EFFECTIVE, 0.5 * len(part.scores)):
        message = (
            f"Intervals of known rows and columns are not to be relied on: the mask is so uneven "
            f"that {len(part.scores):,} hidden entries tell as much about those that are missing "
            f"as {effective:.1f} of equal weight would."
        )
        warnings.warn(message, KronfillWarning, stacklevel=2)


def _weighted_words(part: Around, test: SamplingTest) -> str:
    count = count_of(len(part.scores), "hidden entry", "hidden entries")
    following = "" if part.scale is None else f", {part.scale.words}"
    if part.mask is None or part.weights is None:
        return f"split conformal from {count}{following}"
    effective = effective_number(part.weights)
    uneven = (
        "no sign against an even mask" if test.compatible
        else f"the mask is uneven, p = {max(test.p_value, 1e-99):.1g}"
    )  # fmt: skip
    worst = worst_coverage(0.9, MISJUDGED)
    words = (
        f"weighted conformal from {count} ({uneven}; they are worth {effective:.0f}; the mask "
        f"model explains {100 * part.mask.deviance_explained:.1f}% of the deviance; were its odds "
        f"wrong by up to a factor of {MISJUDGED:g}, 90% might be {100 * worst:.0f}%){following}"
    )
    if effective < FEW_EFFECTIVE:
        words += ", NOT to be relied on: the mask is too uneven"
    return words


def _known(
    model: MatrixRegressor,
    obs: Observations,
    kernels: Kernels,
    groups: tuple[Index | None, Index | None] | None,
    count: int,
) -> Around:
    if obs.m < LEAST:
        msg = f"Too few to measure errors: {count_of(obs.m, 'observation')}."
        raise DataError(msg)
    held = np.zeros(obs.m, bool)
    wanted = min(max(round(SHARE * obs.m), min(100, obs.m // 3)), obs.m - 1)
    held[np.random.default_rng(0).choice(obs.m, wanted, replace=False)] = True
    mask = "kernel" if any(kernel is not None for kernel in kernels) else "effects"
    if min(obs.shape) == 1:
        mask = "uniform"
    return held_entries(
        model, obs, held, mask=mask, kernels=kernels, scores="auto", groups=groups, count=count
    )


class NoIntervals(Intervals):
    """No interval for any entry."""

    kind = "none"

    def __init__(self, words: str = "none") -> None:
        self.words = words

    def at(self, rows: Index, cols: Index, middle: Floats, level: float) -> tuple[Floats, ...]:
        """See :class:`Intervals`."""
        return self.outside(rows, cols, middle, level)

    def outside(
        self, rows: Any, cols: Any, middle: Floats, level: float
    ) -> tuple[Floats, Floats, Floats]:
        """See :class:`Intervals`."""
        nothing = np.full(middle.shape, np.nan)
        return nothing, nothing, nothing


def intervals_for(
    model: MatrixRegressor,
    count: int,
    method: str = "auto",
    groups: tuple[Index | None, Index | None] | None = None,
    kernels: Kernels = (None, None),
) -> Intervals:
    """Return intervals of the kind asked for, for ``count`` entries.

    "auto" calibrates, which holds for uneven masks and new rows, where there are 200 observations;
    with fewer it takes the model's own standard deviation if there is one. ``kernels`` is what is
    known about rows and columns, for the mask of a method that has none.
    """
    if method not in METHODS:
        msg = f"intervals must be one of {METHODS}, got {method!r}."
        raise ParameterError(msg)
    if method == "none":
        return NoIntervals()
    if not recorded(model):
        return NoIntervals("none: ones alone are recorded, nothing tells how often there is a zero")
    has_std = likelihood_of(model) == "gaussian" and hasattr(model, "predict_std")
    if method == "gaussian" and not has_std:
        msg = (
            f"{type(model).__name__} has no standard deviation of its own; use "
            f"{argument('intervals', 'calibrated')}, or the method 'kkmcex', 'rrmcex' or "
            "'bayesiankmc'."
        )
        raise ParameterError(msg)
    obs = counted(model.observations_)
    few = method == "auto" and obs.m < ENOUGH and groups is None
    if has_std and (method == "gaussian" or few):
        if not isinstance(model, GaussianProcessRegressor) or gaussian_process(model).dof:
            return Gaussian(model)
        return NoIntervals("none: the effects take up every observation, nothing tells the noise")
    if obs.m < LEAST:
        return NoIntervals(f"none: too few to measure errors, {count_of(obs.m, 'observation')}")
    return Calibrated(model, count, groups, kernels=kernels)
