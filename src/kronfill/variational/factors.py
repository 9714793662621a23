"""Low-rank factors with their uncertainty, by coordinate ascent on a lower bound of the evidence.

y_ij = mean + a_i + b_j + w_i . h_j + noise of variance 1 / (tau weight). Row i has the unknowns
(w_i, a_i), column j (h_j, b_j); their posterior is taken to factorise over items. Each sweep
renews, exactly and one after the other: the posterior of the rows, the scales and the smooth part
of their prior, the same for the columns, the mean and tau. None of these steps lowers the bound.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from kronfill._types import Flags, Floats, Index
from kronfill.core.grouping import Grouped
from kronfill.errors import ParameterError
from kronfill.ridge.solution import Status
from kronfill.variational.prior import FactorPrior, Smoothness
from kronfill.variational.rows import ONE, ZERO, HalfStep, half_step, packed_size, second_moments

__all__ = [
    "AxisPosterior", "GroupedEntries", "PosteriorFactors", "Variational", "fitted_factors",
    "starting_factors",
]  # fmt: skip

NEGLIGIBLE = 1e-3
"""A factor whose mean is below this share of the noise is proposed for removal."""
PATIENCE = 20
"""A trial without a factor ends if at this pace it would take so many sweeps to be any better."""
EQUAL = 1e-28
"""Values whose squared deviations are below this share of their own squares are equal."""
AT_FIRST = 0.1
"""Share of the variance of the values that is taken for noise at first: little, so that factors are
fitted before they are judged. With half of it, a factor in six is lost on tables of 20 x 15."""
FLOOR = 1e-8
"""Least variance of the noise, as a share of that of the values.

Sums of squares have rounding errors of 1e-16 of the values' own: a smaller noise is not told from
them, and the bound would follow them.
"""


@dataclass(frozen=True)
class Variational:
    """Settings of the sweeps of variational Bayes.

    Parameters
    ----------
    sweeps : int, default=200
        Most sweeps.
    tol : float, default=1e-4
        Stop when a sweep raises the bound by less than this for each observation.
    time_limit : float, default=inf
        Seconds after which to stop.
    callback : callable, optional
        Called with (sweep, bound) after each sweep.

    Examples
    --------
    >>> import numpy as np, kronfill as kf
    >>> X, y = np.array([[0, 0], [0, 1], [1, 0]]), np.array([1.0, 2.0, 2.0])
    >>> kf.BayesianKMC(rank=1, solver=kf.Variational(sweeps=1000)).fit(X, y).solution_.converged
    True
    """

    sweeps: int = 200
    tol: float = 1e-4
    time_limit: float = float("inf")
    callback: Callable[[int, float], None] | None = None

    def __post_init__(self) -> None:
        if self.sweeps < 1 or not self.tol >= 0 or not self.time_limit > 0:
            msg = (
                "Variational: sweeps must be at least 1, tol not negative and time_limit positive, "
                f"got {self.sweeps!r}, {self.tol!r} and {self.time_limit!r}."
            )
            raise ParameterError(msg)


@dataclass(frozen=True, eq=False)
class GroupedEntries:
    """Observed entries of positive weight, grouped by rows and by columns."""

    values: Floats
    groups: tuple[Grouped, Grouped]
    weight: float
    """Sum of the weights."""
    log_weights: float
    """Sum of their logarithms."""
    mean: float
    """Weighted mean of the values; 0 where the model has none."""
    variance: float
    """Their weighted mean square around it; 1 where there is none."""

    @classmethod
    def of(
        cls, rows: Index, cols: Index, values: Floats, shape: tuple[int, int],
        weights: Floats | None = None, *, with_mean: bool = True,
    ) -> GroupedEntries:  # fmt: skip
        """Group the entries."""
        groups = (
            Grouped.by(rows, cols, shape[0], weights), Grouped.by(cols, rows, shape[1], weights),
        )  # fmt: skip
        mean = float(np.average(values, weights=weights)) if with_mean else 0.0
        variance = float(np.average((values - mean) ** 2, weights=weights))
        if variance <= EQUAL * mean**2:  # rounding
            variance = mean**2 or 1.0
        if weights is None:
            return cls(values, groups, float(len(values)), 0.0, mean, variance)
        total, logs = float(weights.sum()), float(np.log(weights).sum())
        return cls(values, groups, total, logs, mean, variance)

    @property
    def largest_tau(self) -> float:
        """Precision of the noise at its least variance."""
        return len(self.values) / (self.weight * FLOOR * self.variance)


@dataclass(frozen=True, eq=False)
class AxisPosterior:
    """Factors of the items of one axis; the effect, if there is one, is the last of them."""

    prior: FactorPrior
    mean: Floats
    covariance: Floats
    """Packed lower triangles."""
    log_det: float
    has_effect: bool

    @property
    def rank(self) -> int:
        """Number of factors, without the effect."""
        return int(self.mean.shape[1]) - self.has_effect

    @property
    def variances(self) -> Floats:
        """Diagonals of the covariances, (items, factors)."""
        d = self.mean.shape[1]
        return self.covariance[:, np.cumsum(np.arange(1, d + 1)) - 1]

    @property
    def evidence(self) -> float:
        """What the bound has of this axis."""
        n, d = self.mean.shape
        return self.prior.evidence + 0.5 * float(self.log_det + n * d * (1 + np.log(2 * np.pi)))

    def renewed(self, step: HalfStep) -> AxisPosterior:
        """With a new posterior, and the prior learned from it."""
        new = replace(
            self, mean=step.mean, covariance=step.covariance, log_det=float(step.log_det.sum())
        )
        return replace(new, prior=self.prior.learned(new.mean, new.variances))

    def moments(self, partner_has_effect: bool) -> tuple[Floats, Floats]:
        """E[z] and packed E[z z^T], z = (factors, 1 if the partner has an effect, own effect)."""
        source = [*range(self.rank)]
        source += [ONE] * partner_has_effect + [self.rank if self.has_effect else ZERO]
        return second_moments(self.mean, self.covariance, np.array(source, dtype=np.intp))

    def kept(self, which: Flags) -> AxisPosterior:
        """Some of the factors only."""
        which = np.append(which, True) if self.has_effect else which
        low, high = np.tril_indices(len(which))
        packed = which[low] & which[high]
        return replace(
            self, prior=self.prior.kept(which), mean=self.mean[:, which],
            covariance=self.covariance[:, packed],
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class PosteriorFactors:
    """Both axes, the mean, and the precision of the noise."""

    row: AxisPosterior
    col: AxisPosterior
    mean: float
    tau: float
    bound: float = -np.inf
    """The lower bound on the logarithm of the evidence."""

    @property
    def rank(self) -> int:
        """Number of factors."""
        return self.row.rank

    def swept(self, entries: GroupedEntries, with_mean: bool) -> PosteriorFactors:
        """One sweep; the bound does not fall."""
        values = entries.values - self.mean
        row, _ = self._renewed(entries, 0, values, self.row, self.col)
        col, step = self._renewed(entries, 1, values, self.col, row)
        m, squares, shift = len(values), step.squares, 0.0
        if with_mean:
            shift = step.residual / entries.weight
            squares -= shift * step.residual
        tau = entries.largest_tau
        if squares * tau > m:  # the best tau, unless it is too large
            tau = m / squares
        bound = (
            0.5 * (m * np.log(tau / (2 * np.pi)) - tau * squares + entries.log_weights)
            + row.evidence + col.evidence
        )  # fmt: skip
        return PosteriorFactors(row, col, self.mean + shift, tau, float(bound))

    def _renewed(
        self,
        entries: GroupedEntries,
        axis: int,
        values: Floats,
        one: AxisPosterior,
        other: AxisPosterior,
    ) -> tuple[AxisPosterior, HalfStep]:
        grouped = entries.groups[axis]
        step = half_step(
            *other.moments(one.has_effect), grouped, grouped.gather(values), self.tau,
            one.prior.precision, one.prior.mean,
        )  # fmt: skip
        return one.renewed(step), step

    def without_negligible(self, entries: GroupedEntries) -> PosteriorFactors | None:
        """Without the factors that say next to nothing; None if there are none."""
        keep = self._energies(entries) > NEGLIGIBLE**2 * len(entries.values)
        return None if keep.all() else self._kept(keep)

    def without_weakest(self, entries: GroupedEntries) -> PosteriorFactors | None:
        """Without the weakest factor if none says more than noise may; None if one does.

        Noise of variance 1 in a table of n x l has a largest singular value of about the sum of
        the roots of n and l. Beside a factor that says more, weak ones are not noise as a rule.
        """
        energies = self._energies(entries)
        noise = (len(self.row.mean) ** 0.5 + len(self.col.mean) ** 0.5) ** 2
        if not energies.size or energies.max() > noise:
            return None
        return self._kept(np.arange(self.rank) != energies.argmin())

    def _energies(self, entries: GroupedEntries) -> Floats:
        """Sum of the squares of what each factor says, in units of the noise."""
        p = self.rank
        sizes = (self.row.mean[:, :p] ** 2).mean(axis=0) * (self.col.mean[:, :p] ** 2).mean(axis=0)
        return np.asarray(sizes * self.tau * entries.weight)

    def _kept(self, which: Flags) -> PosteriorFactors:
        return replace(self, row=self.row.kept(which), col=self.col.kept(which))


def fitted_factors(
    entries: GroupedEntries, start: PosteriorFactors, *, with_mean: bool, settings: Variational
) -> tuple[PosteriorFactors, list[float], Status]:
    """Sweep until the bound settles: factors, the bound after each sweep, how it ended."""
    deadline = time.monotonic() + settings.time_limit
    now = start.swept(entries, with_mean)
    history = [now.bound]
    while len(history) < settings.sweeps:
        if settings.callback is not None:
            settings.callback(len(history), now.bound)
        if time.monotonic() > deadline:
            return now, history, Status.TIME_LIMIT
        smaller = now.without_negligible(entries)
        trial = None if smaller is None else smaller.swept(entries, with_mean)
        if trial is None or trial.bound < now.bound:  # a factor goes only if the bound allows it
            trial = now.swept(entries, with_mean)
        gain = trial.bound - now.bound
        if gain > 0:  # otherwise rounding: there is no more to gain
            now = trial
            history.append(now.bound)
        if gain <= settings.tol * len(entries.values):
            fewer = _with_fewer(entries, now, with_mean, settings)
            if fewer is None:
                return now, history, Status.CONVERGED
            now = fewer
            history.append(now.bound)
    return now, history, Status.MAX_ITERATIONS


def _with_fewer(
    entries: GroupedEntries, now: PosteriorFactors, with_mean: bool, settings: Variational
) -> PosteriorFactors | None:
    """What becomes of the factors without the weakest, if all may be noise and the bound rises.

    A factor that has settled on noise goes on living from it: it is not negligible, but the bound
    is higher where it never was.
    """
    fewer = now.without_weakest(entries)
    if fewer is None:
        return None
    fewer = fewer.swept(entries, with_mean)
    for _ in range(settings.sweeps):
        if fewer.bound > now.bound:
            return fewer
        before, fewer = fewer.bound, fewer.swept(entries, with_mean)
        if fewer.bound - before <= (now.bound - before) / PATIENCE:
            return None
    return None


def starting_factors(
    entries: GroupedEntries,
    smoothness: tuple[Smoothness, Smoothness],
    h: Floats,
    effects: tuple[bool, bool],
) -> PosteriorFactors:
    """Before the first sweep: columns at ``h``, rows unknown."""
    p, spread = h.shape[1], float(np.sqrt(entries.variance))
    axes = []
    for axis, (smooth, has_effect) in enumerate(zip(smoothness, effects, strict=True)):
        n, d = len(smooth.phi), p + has_effect
        at = np.zeros((n, d))
        if axis == 1:
            at[:, :p] = h * np.sqrt(spread)
        variances = np.array([spread] * p + [entries.variance] * has_effect)
        prior = FactorPrior.wide(smooth, variances)
        axes.append(AxisPosterior(prior, at, np.zeros((n, packed_size(d))), 0.0, has_effect))
    tau = len(entries.values) / (entries.weight * AT_FIRST * entries.variance)
    return PosteriorFactors(axes[0], axes[1], entries.mean, tau)
