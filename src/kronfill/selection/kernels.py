"""Weights of sums of kernels and kernel parameters, learned on incomplete data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.optimize import minimize
from sklearn.base import clone

from kronfill._progress import as_progress, tell, told_to
from kronfill._types import Floats
from kronfill.criteria.exact import criteria, mean_diagonal, mu_grid
from kronfill.criteria.gradients import Sensitivity
from kronfill.criteria.reduction import DualForm
from kronfill.data import Observations
from kronfill.errors import ParameterError
from kronfill.estimators import KMC
from kronfill.estimators.base import (
    KernelRegressor,
    check_rank,
    few_threads,
    resolved,
    validated,
)
from kronfill.estimators.inputs import sampled_entries
from kronfill.estimators.wrapping import Wrapping
from kronfill.kernels import Kernel
from kronfill.ridge.problem import RidgeProblem, Sampled
from kronfill.selection.families import Family, Fixed, as_family

__all__ = ["KernelTuner", "prepared"]


LIMITS = ((1e-2, 1.0), (1e-3, 1e3))
"""Limits of mu until the kernels have been learned, and then, in units of the first mean diagonal.

Where signals are weak the first step may end at a mu so large that nothing matters any more. Where
identity parts of the kernels can take the place of mu it may end at next to nothing, where neither
criterion changes with mu either. A search does not come back from there.
"""


class KernelTuner(Wrapping):
    """An estimator whose kernels are learned first.

    Weights of sums of kernels and kernel parameters are those with the largest marginal likelihood
    or the smallest leave-one-out error of the observed entries, together with mu; both have exact
    derivatives, followed by L-BFGS.

    Parameters
    ----------
    estimator : KKMCEX, RRMCEX or KMC
        What is fitted with the learned kernels. Its mu is chosen along; that of KMC is its own.
    rows, cols : None, list of kernels, Mixture or Parameters, optional
        What is learned on each axis: the weights of a list of kernels, or the parameters of
        :class:`Parameters`. None keeps the kernel of the estimator.
    criterion : {"lml", "loo"}, default="lml"
        Marginal likelihood or leave-one-out error.
    max_entries : int, default=2000
        Most observations to learn from; of more, a random part is taken. One step costs about
        max_entries^3 multiplications.
    max_iter : int, default=100
        Most steps.
    random_state : int, default=0
        Seed of the random part.
    progress : bool or callable, default=False
        Show how far the work is, or call this with (what, done, total); total is None where
        nobody knows.

    Attributes
    ----------
    estimator_ : estimator
        Fitted to all observations with the learned kernels.
    row_kernel_, col_kernel_ : Kernel or None
        The learned kernels, marked as such (``learned``): a
        :func:`~kronfill.bounds.certificate` for a model that uses them needs a hold-out.
    row_parameters_, col_parameters_ : ndarray, dict or None
        Weights, or parameters by name; None where nothing was learned.
    mu_ : float
        The ridge weight of ``estimator_``: the learned one, or "auto" where a part was taken.
    criterion_ : float
        The log marginal likelihood, or the root mean square leave-one-out error, that was reached
        on the observations learned from.
    n_iter_ : int
        Number of steps.

    See Also
    --------
    choose : A choice among candidates, this one included, with an honest look at its error.

    Notes
    -----
    The kernels are learned on the entries given to ``fit`` alone, so that cross-validation of a
    KernelTuner is nested.

    Examples
    --------
    >>> import numpy as np, kronfill as kf
    >>> from kronfill.selection import KernelTuner
    >>> rng = np.random.default_rng(0)
    >>> places, noise = rng.random((20, 1)), rng.random((20, 1))
    >>> kernels = [kf.kernels.rbf(places), kf.kernels.rbf(noise)]
    >>> X = np.argwhere(np.ones((20, 8)))
    >>> y = np.sin(6 * places[X[:, 0], 0]) * X[:, 1] + 0.1 * rng.standard_normal(160)
    >>> est = KernelTuner(kf.KKMCEX(center="mean"), rows=kernels).fit(X, y)
    >>> est.row_parameters_.round(2)
    array([1., 0.])
    """

    def __init__(
        self,
        estimator: Any,
        rows: Any = None,
        cols: Any = None,
        criterion: str = "lml",
        max_entries: int = 2000,
        max_iter: int = 100,
        random_state: Any = 0,
        progress: Any = False,
    ) -> None:
        self.estimator = estimator
        self.rows = rows
        self.cols = cols
        self.criterion = criterion
        self.max_entries = max_entries
        self.max_iter = max_iter
        self.random_state = random_state
        self.progress = progress

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn the kernels, then fit.

        Parameters
        ----------
        X : array-like of shape (m, 2) or Observations
            Observed entries.
        y : array-like of shape (m,), optional
            Their values; left out when ``X`` is an :class:`~kronfill.Observations`.
        sample_weight : array-like of shape (m,), optional
            Weights.

        Returns
        -------
        self
        """
        with told_to(as_progress(self.progress, "Learning kernels")):
            return self._fit(X, y, sample_weight)

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> Self:
        families, center, observations = prepared(self, X, y, sample_weight)
        part = self._part(observations)
        search = _Search(families, sampled_entries(part, center), self.criterion)
        with few_threads(part.m):
            found = search.run(check_rank(self.max_iter, "max_iter"))
        self.row_kernel_, self.col_kernel_ = found.kernels
        self.row_parameters_, self.col_parameters_ = found.parameters
        self.criterion_, self.n_iter_ = found.value, found.steps
        self.n_features_in_ = 2
        changes = {"row_kernel": self.row_kernel_, "col_kernel": self.col_kernel_}
        final = clone(self.estimator).set_params(**changes)
        if not isinstance(final, KMC):
            final.set_params(mu="auto" if part is not observations else found.mu)
        self.estimator_ = final.fit(observations)
        self.mu_ = final.mu_
        return self

    def _part(self, observations: Observations) -> Observations:
        limit = check_rank(self.max_entries, "max_entries")
        if observations.m <= limit:
            return observations
        rng = np.random.default_rng(self.random_state)
        return observations.take(np.sort(rng.choice(observations.m, size=limit, replace=False)))

    def __sklearn_is_fitted__(self) -> bool:
        return "estimator_" in vars(self)


def prepared(
    tuner: KernelTuner, X: Any, y: Any = None, sample_weight: Any = None
) -> tuple[tuple[Family, Family], Any, Observations]:
    """Families of both axes, the effects, and the observations, all checked."""
    if not isinstance(tuner.estimator, KernelRegressor):
        msg = f"estimator must be KKMCEX, RRMCEX or KMC, got {type(tuner.estimator).__name__}."
        raise ParameterError(msg)
    changes = {}
    for name, given in (("row", tuner.rows), ("col", tuner.cols)):
        if given is not None:
            family = as_family(given, None, f"{name}s")
            changes[f"{name}_kernel"] = family.kernel(family.start)
    start = clone(tuner.estimator).set_params(**changes)
    kernels, observations = validated(start, X, y, sample_weight)
    row, col = (
        as_family(given, kernel, "rows or cols")
        for given, kernel in zip((tuner.rows, tuner.cols), kernels, strict=True)
    )
    return (row, col), start.center, observations


@dataclass(frozen=True)
class _Found:
    kernels: tuple[Any, Any]
    parameters: tuple[Any, Any]
    mu: float
    value: float
    steps: int


def _learned(family: Family, theta: Floats) -> Kernel | None:
    """The kernel that was found, marked: it was chosen by looking at values."""
    kernel = family.kernel(theta)
    return kernel if kernel is None or isinstance(family, Fixed) else kernel.as_learned()


class _Search:
    """Minimise a criterion over the numbers of two families and log mu."""

    def __init__(self, families: tuple[Family, Family], sampled: Sampled, criterion: str) -> None:
        self._families = families
        self._sampled = sampled
        self._criterion = criterion
        self._slope = Sensitivity(sampled, criterion)
        self._located = (families[0].at(self._slope.rows), families[1].at(self._slope.cols))
        self._cut = len(families[0].start)

    def run(self, max_iter: int) -> _Found:
        first = np.concatenate([family.start for family in self._families])
        reach = np.vstack([np.tile(f.reach, (len(f.start), 1)) for f in self._families])
        unit, mu = self._first_mu()
        x, steps = np.append(first, np.log(np.clip(mu / unit, *LIMITS[0]) * unit)), 0

        def told(_: Floats) -> None:
            nonlocal steps
            steps += 1
            tell("steps to learn kernels", steps, None)

        for limits in LIMITS:
            bounds = np.vstack([first[:, None] + reach, np.log(np.multiply(limits, unit))])
            options = {"maxiter": max_iter, "ftol": 1e-7, "gtol": 1e-5}
            done = minimize(
                self._objective, x, jac=True, method="L-BFGS-B", bounds=bounds, options=options,
                callback=told,
            )  # fmt: skip
            x = done.x
        thetas = (done.x[: self._cut], done.x[self._cut : -1])
        pairs = list(zip(self._families, thetas, strict=True))
        scale = float(np.prod([family.scale(theta) for family, theta in pairs]))
        value = -done.fun * self._sampled.m if self._criterion == "lml" else np.exp(done.fun / 2)
        return _Found(
            (_learned(*pairs[0]), _learned(*pairs[1])),
            (pairs[0][0].told(thetas[0]), pairs[1][0].told(thetas[1])),
            float(np.exp(done.x[-1])) / scale,
            float(value),
            steps,
        )

    def _first_mu(self) -> tuple[float, float]:
        """The mean diagonal at the start, and the best mu of a grid."""
        first, second = (family.kernel(family.start) for family in self._families)
        kernels = resolved((first, second), self._sampled.shape)
        problem = RidgeProblem(*kernels, self._sampled, 1.0)
        unit = mean_diagonal(problem)
        mus = mu_grid(unit)
        got = criteria(DualForm.of(problem), mus)
        values = -got.lml if self._criterion == "lml" else got.loo
        if np.isnan(values).all():
            msg = "There is no leave-one-out error: every entry alone determines an effect."
            raise ParameterError(msg)
        return unit, float(mus[int(np.nanargmin(values))])

    def _objective(self, x: Floats) -> tuple[float, Floats]:
        row, col = self._located
        theta_r, theta_c, mu = x[: self._cut], x[self._cut : -1], float(np.exp(x[-1]))
        slope = self._slope(row.block(theta_r), col.block(theta_c), mu)
        gradient = np.concatenate(
            [row.slope(theta_r, slope.row), col.slope(theta_c, slope.col), [mu * slope.mu]]
        )
        return slope.value, gradient
