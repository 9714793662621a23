"""How much the default may do: seconds, a plan, and what Ctrl-C leaves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sklearn.base import clone

from kronfill.auto.model import AutoMC
from kronfill.auto.plan import Plan
from kronfill.data import Observations
from kronfill.data.amounts import duration_of
from kronfill.errors import ParameterError, argument
from kronfill.estimators.base import MatrixRegressor
from kronfill.estimators.generalized.linked import LinkedRegressor
from kronfill.estimators.transformed.regressor import TransformedRegressor

__all__ = ["Effort", "expected_seconds", "within_budget"]


@dataclass(frozen=True)
class Effort:
    """What is said about the effort of the default, as for :func:`kronfill.complete`.

    Parameters
    ----------
    budget : float, optional
        Seconds that a fit may take.
    plan : Plan, optional
        The plan of another fit.
    on_interrupt : {"raise", "keep"}, default="raise"
        What Ctrl-C does.

    Examples
    --------
    >>> from kronfill.completion.effort import Effort
    >>> Effort(budget=5.0).settings
    {'budget': 5.0, 'plan': None, 'on_interrupt': 'raise'}
    """

    budget: Any = None
    plan: Any = None
    on_interrupt: Any = "raise"

    @property
    def settings(self) -> dict[str, Any]:
        """Parameters of :class:`~kronfill.AutoMC`."""
        return {"budget": self.budget, "plan": self.plan, "on_interrupt": self.on_interrupt}

    def check(self, method: str) -> None:
        """Raise if something is said to a method that makes no plan."""
        name = self._first
        if method != "auto" and name is not None:
            msg = (
                f"{argument(name)} is for {argument('method', 'auto')}, which settles beforehand "
                f"how much it does; {argument('method', method)} does not. Leave one of them out."
            )
            raise ParameterError(msg)

    def refuse_streamed(self) -> None:
        """Raise if something is said about a table that is not in memory."""
        if self._first is not None:
            msg = (
                f"{argument(self._first)} is for {argument('method', 'auto')} and a table that is "
                "in memory; one that is streamed is completed by 'kkmcex', whose solver takes a "
                "time limit: kf.Streamed(time_limit=...)."
            )
            raise ParameterError(msg)

    @property
    def _first(self) -> str | None:
        """The first setting that was given."""
        given = (name for name, value in self.settings.items() if value != getattr(Effort, name))
        return next(given, None)


def within_budget(estimator: MatrixRegressor, observations: Observations) -> MatrixRegressor:
    """Take what is done around the default, on other scales or for links, off its budget."""
    inner = _default_of(estimator)
    if inner is None or inner.budget is None or inner is estimator:
        return estimator
    inner.planned_for(observations)  # checks the budget
    around = _around(estimator, inner, observations)
    left = float(f"{inner.budget - around:.3g}")
    made: MatrixRegressor = clone(estimator)
    made.set_params(estimator__budget=left)
    try:
        clone(inner).set_params(budget=left).planned_for(observations)
    except ParameterError:
        msg = (
            f"{argument('budget', inner.budget)} is too little: other scales and what values can "
            f"be take about {duration_of(around)} beside the choice of everything. Give more, or "
            f"take values as they are, {argument('transform', None)} and without a range."
        )
        raise ParameterError(msg) from None
    return made


def expected_seconds(estimator: MatrixRegressor, observations: Observations) -> float | None:
    """What the default is expected to take, with what is done around it; None of other methods."""
    inner = _default_of(estimator)
    if inner is None:
        return None
    plan = inner.planned_for(observations)
    return plan.seconds + _around(estimator, inner, observations)


def _default_of(estimator: MatrixRegressor) -> AutoMC | None:
    while isinstance(estimator, TransformedRegressor | LinkedRegressor):
        estimator = estimator.estimator
    return estimator if isinstance(estimator, AutoMC) else None


def _around(estimator: MatrixRegressor, inner: AutoMC, observations: Observations) -> float:
    """Seconds of the fits around the default: one for errors or links, one for each scale."""
    if inner is estimator:
        return 0.0
    fits = 1
    if isinstance(estimator, TransformedRegressor):
        fits += len(estimator.tried(observations.values))
    return fits * _of_one_fit(inner, observations)


def _of_one_fit(inner: AutoMC, observations: Observations) -> float:
    """Seconds of a fit in which nothing is searched."""
    least = Plan(rank=int(inner.rank), steps=0, folds=1)  # which has three
    free: AutoMC = clone(inner).set_params(budget=None, plan=least)
    return free.planned_for(observations).seconds / 3
