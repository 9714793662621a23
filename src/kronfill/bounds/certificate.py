"""A statement about the unobserved entries that a user of a fitted model can rely on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from textwrap import fill
from types import MappingProxyType
from typing import Any

import numpy as np

from kronfill.bounds.bound import FAILS, Assumption, Bound
from kronfill.bounds.checking import check_labels, check_loss, check_values
from kronfill.bounds.choices import Origin, origin
from kronfill.bounds.complexity.monte_carlo import check_delta
from kronfill.bounds.losses import Loss, Square, as_loss, as_value_range
from kronfill.bounds.routes import HOLDOUT, Case, Route, class_routes, holdout_route
from kronfill.bounds.sampling import SamplingTest, holdout_p_value, sampling_test
from kronfill.bounds.splits import Sizes, Split
from kronfill.data import Observations
from kronfill.errors import ParameterError

__all__ = ["Certificate", "certificate"]

MOST = 0.9
"""Share of delta that the hold-out gets if there are other routes."""
LEVEL = 1e-6
"""A hold-out whose row and column counts are less likely than this was not drawn at random."""


@dataclass(frozen=True, eq=False)
class Certificate:
    """What can be proved about the loss of a fitted model on the entries that were not observed.

    ``str()`` gives a sentence to quote, with its assumptions; :meth:`plot` shows where each term
    comes from.

    Attributes
    ----------
    assumptions : tuple of Assumption
        What the statement needs, and whether that holds here.
    delta : float
        Probability that the statement fails, over the choice of the observed entries.
    train_loss : float
        Mean loss on the entries the model was fitted to.
    candidates : tuple of Bound
        All that were tried, their share of delta paid for.
    sampling : SamplingTest
        Whether the observed mask is compatible with uniform sampling.
    sizes : Sizes
        Number of training entries and of entries the statement is about.
    loss : Loss
        The loss.
    value_range : tuple of float
        Range that all values obey.
    reason : str
        Why nothing is proved, or empty.
    variance : float
        Variance of the observed values: what predicting their mean would cost.
    holdout_loss : float or None
        Mean loss on the hold-out, if there is one: the best guess of what ``value`` bounds.
    holdout_size : int
        Number of its entries.
    about : str
        Of which model it speaks, where there are several.
    """

    delta: float
    loss: Loss
    value_range: tuple[float, float]
    sizes: Sizes
    train_loss: float
    sampling: SamplingTest
    assumptions: tuple[Assumption, ...]
    candidates: tuple[Bound, ...]
    reason: str = field(default="")
    variance: float = field(default=np.nan)
    holdout_loss: float | None = field(default=None)
    holdout_size: int = field(default=0)
    about: str = field(default="")

    @property
    def _best(self) -> Bound | None:
        return min(self.candidates, key=lambda bound: bound.value, default=None)

    @property
    def value(self) -> float:
        """Upper bound on the mean loss over the unobserved entries; infinite if none is proved."""
        return np.inf if self._best is None else self._best.value

    @property
    def name(self) -> str:
        """The theorem used."""
        return "none" if self._best is None else self._best.name

    @property
    def class_value(self) -> float:
        """What the theorems about the class of the model prove; infinite if they do not apply."""
        values = (bound.value for bound in self.candidates if bound.name != HOLDOUT)
        return min(values, default=np.inf)

    @property
    def beside(self) -> str:
        """What to compare the value with: spread of the data, hold-out, class-based theorems."""
        parts = [f"The variance of the observed values is {self.variance:.4g}"]
        if self.holdout_loss is not None:
            parts.append(
                f"the mean loss on the {self.holdout_size:,} held-out entries is "
                f"{self.holdout_loss:.4g}"
            )
        if np.isfinite(self.class_value):
            parts.append(f"the theorems about its class give {self.class_value:.4g}")
        else:
            parts.append("the theorems about its class give nothing here")
        return "; ".join(parts) + "."

    @property
    def terms(self) -> Mapping[str, float]:
        """What the value is the sum of."""
        return MappingProxyType({}) if self._best is None else self._best.terms

    @property
    def gap(self) -> float:
        """Bound on the generalization error: ``value`` less ``train_loss``."""
        return self.value - self.train_loss

    @property
    def valid(self) -> bool:
        """Whether no assumption is known to fail."""
        return not self.reason and all(part.holds is not False for part in self.assumptions)

    @property
    def vacuous(self) -> bool:
        """Whether a constant, the middle of the range, guarantees as much without any model."""
        return self.value >= self.loss.of_constant(self.value_range)

    @property
    def sentence(self) -> str:
        """The statement as one can quote it."""
        if self.reason:
            return f"No certificate: {self.reason}."
        text = (
            f"With probability at least {1 - self.delta:.4g} over the choice of the observed "
            f"entries, the mean {self.loss} over the {self.sizes.u:,} unobserved entries is at "
            f"most {self.value:.4g}; it is {self.train_loss:.4g} on the {self.sizes.m:,} entries "
            f"the model was fitted to ({self.name})."
        )
        if self.vacuous:
            middle = 0.5 * sum(self.value_range)
            text += (
                f" This is vacuous: {middle:.4g} for every entry guarantees "
                f"{self.loss.of_constant(self.value_range):.4g}."
            )
        elif isinstance(self.loss, Square):
            error = np.sqrt(self.value / self.loss.scale)
            text += f" The root mean square error is then at most {error:.3g}."
        if self.about:
            text += f" {self.about}"
        if not self.valid:
            text += f" {FAILS}"
        return text

    def __str__(self) -> str:
        lines = [fill(self.sentence, 100)]
        parts = [f"{value:.4g} {name}" for name, value in self.terms.items()]
        if parts:
            lines.append(fill(f"It is the sum of {', '.join(parts)}.", 100))
        if not np.isnan(self.variance):
            lines.append(fill(self.beside, 100))
        lines.append("Assumptions:")
        lines += [
            fill(str(one), 100, initial_indent="  ", subsequent_indent="      ")
            for one in self.assumptions
        ]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return (
            f"Certificate(value={self.value:.4g}, valid={self.valid}, vacuous={self.vacuous}, "
            f"name={self.name!r}, delta={self.delta:g})"
        )

    def plot(self, ax: Any = None) -> Any:
        """Draw what each bound that was tried is made of.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        matplotlib Axes
        """
        from kronfill.bounds.drawing import draw_terms

        return draw_terms(self.candidates, self.loss.of_constant(self.value_range), ax)


def certificate(
    estimator: Any,
    value_range: tuple[float, float],
    delta: float = 0.05,
    loss: Any = None,
    holdout: Observations | None = None,
    *,
    kernels: int | str = "fixed",
    random_state: int = 0,
) -> Certificate:
    """Bound the loss of a fitted model on the entries that were not observed.

    Parameters
    ----------
    estimator : MC, KMC, IMC, KKMCEX or RRMCEX
        A fitted model, any other with a ``holdout`` (of which the theorems about classes know
        nothing); a fitted scikit-learn search over one, whose candidates are then counted (a
        ``best_estimator_`` that was taken out of it does not know of them); or what wraps one, a
        :class:`~kronfill.selection.KernelTuner` or a :class:`~kronfill.ConformalRegressor`.
    value_range : tuple of float
        Range (low, high) that all values, observed or not, are known to obey. It has to come from
        what the numbers mean: read off the data it would void the guarantee.
    delta : float, default=0.05
        Probability that the statement fails.
    loss : Loss, optional
        By default the square loss with predictions clipped to the range. One that clips to less
        than the range is refused.
    holdout : Observations, optional
        Observed entries that the model was not fitted to, chosen at random among the observed ones.
        It is refused if its row and column counts have a chance of less than 1e-6 beside those of
        the training entries.
    kernels : "fixed", int or "tuned", default="fixed"
        How the kernels (features, ranks, kind of centring) came about: "fixed" without looking at
        the values; an integer if they were chosen among that many candidates by looking (delta is
        then shared among these); "tuned" if by looking and from no finite list, which leaves only a
        hold-out. The ridge weight and the number of factors may be tuned at no cost. Kernels that a
        KernelTuner has learned, and what :func:`~kronfill.selection.choose` has chosen, are known
        for what they are whatever is declared, also after they were cloned, saved or used anew.
    random_state : int, default=0
        Seed of the order in which the entries of the hold-out are looked at. Set it beforehand: one
        that was chosen by its result voids the guarantee.

    Returns
    -------
    Certificate

    Notes
    -----
    Norms read off the fit are paid for by stratification, additive effects count as part of the
    class, and delta is shared among the bounds tried: Theorems A and A2 for the norm of the model,
    for its norm and fitted size, for its nuclear norm, Theorem B for the square loss; if there is a
    hold-out, bets on its losses without replacement, which get nine tenths of delta.

    A smaller value does not mean a better model: see docs/certificates.md for why certificates must
    not be used to choose kernels.

    Examples
    --------
    >>> import numpy as np, kronfill as kf
    >>> rng = np.random.default_rng(0)
    >>> kernel = kf.kernels.rbf(np.linspace(0, 1, 60), length_scale=1.0)
    >>> truth = np.outer(np.linspace(-1, 1, 60), np.linspace(0.5, 1, 60))
    >>> X = np.argwhere(rng.random((60, 60)) < 0.5)
    >>> est = kf.KKMCEX(kernel, kernel, mu=0.1).fit(X, truth[X[:, 0], X[:, 1]])
    >>> found = kf.bounds.certificate(est, value_range=(-1, 1))
    >>> found.valid, found.vacuous, found.value < 0.7
    (True, False, True)
    >>> print(found.sentence[:62])
    With probability at least 0.95 over the choice of the observed
    """
    limits = as_value_range(value_range)
    check_delta(delta)
    chosen = Square(clip=limits) if loss is None else as_loss(loss)
    check_loss(chosen, limits)
    if holdout is not None:
        check_values(holdout, limits, "hold-out")
    found = origin(estimator, kernels)
    train = _observations(found.model)
    check_values(train, limits, "training")
    if holdout is not None:
        check_labels(train, holdout)
    split = Split.of(train, without=holdout)
    case = Case(found.model, split, limits, chosen)
    drawn = None if holdout is None else holdout_p_value(train, holdout)
    routes = {} if _is_refused(drawn) else _routes(case, holdout, found.candidates, random_state)
    shares = _shares(routes, delta)
    values = train.values if holdout is None else np.append(train.values, holdout.values)
    return Certificate(
        delta, chosen, limits, split.sizes, case.train_loss,
        sampling := sampling_test(_all_pairs(train, holdout), shape=train.shape),
        _assumptions(sampling, case, drawn, found.candidates),
        tuple(route(shares[name]) for name, route in routes.items()),
        "" if routes else _why_not(chosen, found, drawn),
        float(np.var(values)),
        None if holdout is None else chosen.mean(holdout.values, found.model.predict(holdout)),
        0 if holdout is None else holdout.m,
    )  # fmt: skip


def _is_refused(drawn: float | None) -> bool:
    """Whether a hold-out with such counts was not drawn at random."""
    return drawn is not None and drawn < LEVEL


def _shares(routes: dict[str, Route], delta: float) -> dict[str, float]:
    """Delta of each route: equal shares, but most of it for a hold-out."""
    others = [name for name in routes if name != HOLDOUT]
    if HOLDOUT not in routes:
        return {name: delta / len(others) for name in others}
    if not others:
        return {HOLDOUT: delta}
    return {
        HOLDOUT: MOST * delta, **{name: (1 - MOST) * delta / len(others) for name in others}
    }  # fmt: skip


def _routes(
    case: Case, holdout: Observations | None, candidates: int | None, seed: int
) -> dict[str, Route]:
    """All routes that are open; those through a class share their delta among the candidates."""
    routes: dict[str, Route] = {}
    if candidates is not None:
        for name, route in class_routes(case).items():
            routes[name] = _shared(route, candidates)
    if holdout is not None:
        if not np.isfinite(case.loss.bound):
            msg = f"A hold-out needs a loss of finite range, got the {case.loss}; clip it."
            raise ParameterError(msg)
        routes[HOLDOUT] = holdout_route(case, holdout, seed)
    return routes


def _observations(model: Any) -> Observations:
    found = vars(model).get("observations_")
    if not isinstance(found, Observations):
        msg = (
            f"This {type(model).__name__} does not hold the observations it was fitted to "
            "(observations_), which a certificate needs; fit it again."
        )
        raise ParameterError(msg)
    return found


def _shared(route: Route, count: int) -> Route:
    return lambda delta: route(delta / count)


def _why_not(loss: Loss, found: Origin, drawn: float | None) -> str:
    if _is_refused(drawn):
        return (
            "the hold-out was not drawn at random among the observed entries: row and column "
            f"counts so unlike those of the training entries have a chance of {drawn:.1g} at most. "
            "Draw it anew, from all observed entries, and fit to the others"
        )
    return found.reason or (
        f"no theorem covers this model with the {loss}; use a loss of finite range such as "
        "Square(clip=(low, high))"
    )


def _all_pairs(train: Observations, holdout: Observations | None) -> tuple[Any, Any]:
    if holdout is None:
        return train.rows, train.cols
    return np.append(train.rows, holdout.rows), np.append(train.cols, holdout.cols)


def _assumptions(
    sampling: SamplingTest, case: Case, drawn: float | None, candidates: int | None
) -> tuple[Assumption, ...]:
    (n, l), (low, high) = case.split.shape, case.value_range
    found = [
        Assumption(
            f"every set of that many entries was equally likely to be observed; {sampling}",
            holds=None if sampling.compatible else False,
        ),
        Assumption(f"that the table is {n} x {l} was known before anything was observed"),
        Assumption(f"all values, observed or not, lie in [{low:g}, {high:g}]"),
        Assumption("this range, the loss and delta were stated without looking at the values"),
    ]
    fixed = "kernels, features and kind of centring were chosen without looking"
    if candidates is not None:
        how = "" if candidates == 1 else f" but among {candidates} candidates, which is paid for"
        found.append(Assumption(f"{fixed}{how}"))
    elif drawn is None:
        found.append(Assumption(fixed, holds=False))
    if drawn is not None:
        found.append(
            Assumption(
                "the hold-out was drawn at random and had no part in any choice; its row and "
                f"column counts beside those of training: p = {drawn:.2g}",
                holds=False if _is_refused(drawn) else None,
            )
        )
    return tuple(found)
