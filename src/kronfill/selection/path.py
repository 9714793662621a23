"""Criteria along a whole grid of mu, for about the price of one fit."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kronfill._optional import needed
from kronfill._progress import as_progress, tell, told_to
from kronfill._types import Floats, Index
from kronfill.criteria.exact import (
    criteria,
    exact_form,
    group_residuals,
    mean_diagonal,
    mean_square,
    mu_grid,
)
from kronfill.criteria.reduction import DualForm
from kronfill.criteria.stochastic import estimate_criteria
from kronfill.data import Observations
from kronfill.data.arrays import real_array
from kronfill.errors import (
    ConvergenceWarning,
    EmptyDataError,
    ParameterError,
    argument,
)
from kronfill.estimators.base import MatrixRegressor, few_threads, validated
from kronfill.estimators.factor_search import HeldOutFactors, mu_scale
from kronfill.estimators.factorised import FactorisedRegressor, factor_problem
from kronfill.estimators.gaussian_process.regressor import GaussianProcessRegressor, posed_problem
from kronfill.ridge.problem import RidgeProblem
from kronfill.selection.splitters import EntryKFold
from kronfill.solvers.alternating import ALS

__all__ = ["EXACT_WORK", "MuPath", "check_method", "mu_path", "ridge_problem"]


CRITERIA = ("loo", "gcv", "lml", "row", "column", "cv")
PATH_SWEEPS = 2000
"""Most sweeps of a fit along a path, where every point of the curve is wanted."""
EXACT_WORK = 6e11
"""Multiplications that a path may spend on exact criteria: m = 5300 dual, about 15 s."""


@dataclass(frozen=True, eq=False)
class MuPath:
    """Criteria along a grid of mu.

    Attributes
    ----------
    mus : ndarray of shape (k,)
        Values of mu, largest first.
    criteria : dict of str to ndarray of shape (k,)
        "loo": mean square leave-one-out error; "gcv": generalised cross-validation; "lml": log
        marginal likelihood, to be maximised; "row", "column": mean square error of rows (columns)
        left out as a whole; "cv": mean square error of held-out entries. NaN for a mu at which a
        solve did not converge.
    errors : dict of str to ndarray of shape (k,)
        Standard error of each criterion; zero where it is exact.
    best : dict of str to float
        The mu that each criterion chooses; one that is not defined for these data is left out.
    method : str
        "exact", "stochastic" or "cross-validation".
    residuals : ndarray of shape (k, q) or None
        Leave-one-out residuals, NaN for an entry that alone determines an effect.
    entries : ndarray of shape (q,) or None
        Positions of the observations they belong to: all if exact, a sample if stochastic.

    See Also
    --------
    mu_path : Makes one.

    Examples
    --------
    >>> import numpy as np, kronfill as kf
    >>> from kronfill.selection import mu_path
    >>> X = np.argwhere(np.ones((4, 3)))
    >>> path = mu_path(kf.KKMCEX(np.eye(4), np.eye(3), center="mean"), X, np.arange(12.0))
    >>> sorted(path.best)
    ['gcv', 'lml', 'loo']
    """

    mus: Floats
    criteria: dict[str, Floats]
    errors: dict[str, Floats]
    method: str
    residuals: Floats | None = field(default=None, repr=False)
    entries: Index | None = field(default=None, repr=False)

    @property
    def best(self) -> dict[str, float]:
        """The mu that each criterion chooses, of those that are defined."""
        defined = (name for name, values in self.criteria.items() if not np.isnan(values).all())
        return {name: self._best(name) for name in defined}

    @property
    def mu(self) -> float:
        """The choice of the first criterion."""
        return self._best(next(iter(self.criteria)))

    def _best(self, name: str) -> float:
        values = self.criteria[name] * (-1.0 if name == "lml" else 1.0)
        if np.isnan(values).all():
            why = (
                "every entry alone determines an effect. Use center=None or "
                f"{argument('center', 'mean')}, or "
            )
            if self.method != "exact":
                why = "no solve converged, or " + why
            if name in ("row", "column"):
                why = f"all observations are in one {name}. Use another criterion, or "
            msg = f"{name!r} is not defined here: {why}more observations."
            raise EmptyDataError(msg)
        return float(self.mus[int(np.nanargmin(values))])

    def plot(self, ax: Any = None) -> Any:
        """Draw the criteria that are mean square errors, with two standard errors.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        matplotlib Axes
        """
        if ax is None:
            _, ax = needed("matplotlib.pyplot", "Drawing a path").subplots()
        for name, values in self.criteria.items():
            if name == "lml":
                continue
            (line,) = ax.plot(self.mus, values, label=name)
            margin = 2 * self.errors[name]
            ax.fill_between(
                self.mus, values - margin, values + margin, alpha=0.2, color=line.get_color()
            )
            ax.axvline(self.best[name], color=line.get_color(), linestyle=":")
        ax.set(xscale="log", yscale="log", xlabel="mu", ylabel="mean square error")
        ax.legend()
        return ax


def mu_path(
    estimator: Any,
    X: Any,
    y: Any = None,
    *,
    mus: Any = None,
    criterion: str | Sequence[str] = ("loo", "gcv", "lml"),
    cv: Any = None,
    sample_weight: Any = None,
    random_state: int = 0,
    progress: Any = False,
) -> MuPath:
    """Criteria for a whole grid of mu.

    For KKMCEX and RRMCEX all come from one reduction of the system, centring and weights included;
    where that would be too large, from the iterative solver with estimates whose standard error is
    told. MC, KMC and IMC are cross-validated along warm-started paths.

    Parameters
    ----------
    estimator : KKMCEX, RRMCEX, KMC, IMC or MC
        Its kernels, ranks and centring count; its mu does not. It is not changed.
    X : array-like of shape (m, 2) or Observations
        Observed entries.
    y : array-like of shape (m,), optional
        Their values; left out when ``X`` is an :class:`~kronfill.Observations`.
    mus : array-like of shape (k,), optional
        Positive values; by default 40 (9 for MC, KMC and IMC) around the size of the kernel.
    criterion : str or sequence of str, default=("loo", "gcv", "lml")
        What to compute, see :class:`MuPath`. MC, KMC and IMC have "cv" only, which need not be
        asked for.
    cv : splitter, optional
        Folds of "cv": ``EntryKFold(5)`` by default.
    sample_weight : array-like of shape (m,), optional
        Weights.
    random_state : int, default=0
        Seed of the estimates.
    progress : bool or callable, default=False
        Show how far the work is, or call this with (what, done, total); total is None where
        nobody knows.

    Returns
    -------
    MuPath

    See Also
    --------
    leave_out : The residuals themselves at one mu.

    Examples
    --------
    >>> import numpy as np, kronfill as kf
    >>> from kronfill.selection import mu_path
    >>> rng = np.random.default_rng(0)
    >>> k = kf.kernels.rbf(np.linspace(0, 1, 30), length_scale=0.3)
    >>> X = np.argwhere(rng.random((30, 30)) < 0.3)
    >>> y = np.sin(X[:, 0] / 5) * np.cos(X[:, 1] / 5) + 0.1 * rng.standard_normal(len(X))
    >>> path = mu_path(kf.KKMCEX(k, k), X, y, mus=[100.0, 1.0, 0.01, 1e-4])
    >>> path.best["loo"], round(float(np.sqrt(path.criteria["loo"].min())), 2)
    (0.01, 0.11)
    """
    names = _names(criterion)
    if isinstance(estimator, FactorisedRegressor):
        data = validated(estimator, X, y, sample_weight)
        with told_to(as_progress(progress, "Path of mu")):
            return _factorised_path(estimator, *data, None if mus is None else _grid(mus), cv)
    observations, problem = ridge_problem(estimator, X, y, sample_weight)
    grid = None if mus is None else _grid(mus)
    values = mu_grid(mean_diagonal(problem)) if grid is None else grid
    if "cv" in names:
        msg = "criterion 'cv' is for MC, KMC and IMC; KKMCEX and RRMCEX have the exact 'loo'."
        raise ParameterError(msg)
    with few_threads(observations.m), told_to(as_progress(progress, "Path of mu")):
        return _exact_path(problem, names, values) or _stochastic_path(
            problem, names, values, random_state
        )


def check_method(estimator: Any) -> MatrixRegressor:
    """Raise unless it is one of kronfill's methods."""
    if not isinstance(estimator, MatrixRegressor):
        msg = (
            "The estimator must be one of kronfill's (KKMCEX, RRMCEX, KMC, IMC, MC), got "
            f"{type(estimator).__name__}. For others use the splitters in scikit-learn's tools."
        )
        raise ParameterError(msg)
    return estimator


def ridge_problem(
    estimator: Any, X: Any, y: Any = None, sample_weight: Any = None
) -> tuple[Observations, RidgeProblem]:
    """The observations and the problem of a KKMCEX or RRMCEX, checked; its mu is 1."""
    if not isinstance(check_method(estimator), GaussianProcessRegressor):
        msg = (
            "This needs a method that is linear in the observations, KKMCEX or RRMCEX; got "
            f"{type(estimator).__name__}. Use cross-validation with a splitter instead."
        )
        raise ParameterError(msg)
    return posed_problem(estimator, X, y, sample_weight)


def _names(criterion: str | Sequence[str]) -> tuple[str, ...]:
    names = (criterion,) if isinstance(criterion, str) else tuple(criterion)
    bad = [name for name in names if name not in CRITERIA]
    if bad or not names:
        msg = f"criterion must be one or more of {CRITERIA}, got {criterion!r}."
        raise ParameterError(msg)
    return names


def _grid(mus: Any) -> Floats:
    grid = np.sort(np.atleast_1d(real_array(mus, "mus")))[::-1]
    if grid.ndim != 1 or not len(grid) or not (np.isfinite(grid).all() and (grid > 0).all()):
        msg = f"mus must be positive finite numbers, got {mus!r}."
        raise ParameterError(msg)
    return np.ascontiguousarray(grid)


def _exact_path(problem: RidgeProblem, names: tuple[str, ...], mus: Floats) -> MuPath | None:
    s = problem.sampled
    groups = {"row": s.rows, "column": s.cols}
    reduced = exact_form(problem, EXACT_WORK)
    if reduced is None:
        return None
    got = criteria(reduced, mus)
    found = {}
    for name in names:
        if name in groups:
            dual = reduced if isinstance(reduced, DualForm) else DualForm.of(problem)
            left = group_residuals(dual, s, groups[name], mus)
            found[name] = mean_square(left, s.root_weights**2)
        else:
            found[name] = getattr(got, name)
    errors = {name: np.zeros(len(mus)) for name in names}
    return MuPath(mus, found, errors, "exact", got.residuals, np.arange(s.m))


def _stochastic_path(
    problem: RidgeProblem, names: tuple[str, ...], mus: Floats, random_state: int
) -> MuPath:
    got = estimate_criteria(problem, mus, names, random_state=random_state)
    found = {name: got.values[name] for name in names}
    errors = {name: got.errors[name] for name in names}
    return MuPath(mus, found, errors, "stochastic", got.residuals, got.entries)


def _factorised_path(
    estimator: FactorisedRegressor,
    sides: Any,
    observations: Observations,
    mus: Floats | None,
    cv: Any,
) -> MuPath:
    """Mean square error of held-out entries; each fold goes down the path from warm starts."""
    splitter = EntryKFold(5) if cv is None else cv
    problem, size = factor_problem(estimator, observations, sides)
    hidden = [_flags(test, observations.m) for _, test in splitter.split(observations.X)]
    held = HeldOutFactors(problem, hidden, ALS(), PATH_SWEEPS)
    if mus is None:
        mus = mu_scale(observations.values, size) * np.logspace(1, -3, 9)
    rank = 10 if estimator.rank == "auto" else int(estimator.rank)
    rank = min(rank, *observations.shape)
    lines = []
    for at, mu in enumerate(mus):
        tell("values of mu", at, len(mus))
        found = held.folds(float(mu), rank)
        weights = np.array([weight for _, weight, _ in found])
        sound = [one.converged or one.settled for _, _, one in found]
        lines.append(np.where(sound, [error for error, _, _ in found], np.nan))
    folds = np.array(lines).T
    _warn_of_gaps(mus, np.isnan(folds).any(axis=0))
    mean = weights @ folds / weights.sum()
    spread = folds.std(axis=0, ddof=1) / np.sqrt(len(folds)) if len(folds) > 1 else mean * np.inf
    return MuPath(mus, {"cv": mean}, {"cv": spread}, "cross-validation")


def _flags(index: Any, m: int) -> NDArray[np.bool_]:
    """Positions or flags, as flags."""
    out = np.zeros(m, dtype=bool)
    out[index] = True
    return out


def _warn_of_gaps(mus: Floats, missing: NDArray[np.bool_]) -> None:
    if missing.any():
        message = (
            f"The error is left out for mu = {', '.join(f'{mu:.3g}' for mu in mus[missing])}: "
            "trial fits did not converge. Use larger values of mu."
        )
        warnings.warn(message, ConvergenceWarning, stacklevel=4)
