"""The ways to bound the loss of a fitted model on the entries that were not observed.

Each route gives a :class:`~kronfill.bounds.Bound` on that loss which holds with probability at
least 1 - delta for its own delta; the certificate shares its delta among those it tries.

A theorem holds for one class fixed in advance, while the norms of a fitted model depend on the
split: the price of looking. So every radius gets a grid base * ratio^j, fixed in advance, and the
theorem is used for all its members at once: with J = abs(j), member j may fail with a share
(2/3) / ((J + 1) (J + 2)) of delta, and these shares sum to 1. The model then lies in a class whose
radii are those of the fit, rounded up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from kronfill._types import Floats
from kronfill.bounds import fitted
from kronfill.bounds.betting import betting_bound
from kronfill.bounds.bound import Bound
from kronfill.bounds.ceilings import Ceilings
from kronfill.bounds.classes.effects import EffectsClass, SumClass, effect_norms
from kronfill.bounds.classes.hypothesis import HypothesisClass
from kronfill.bounds.classes.nuclear import KMCBall, NuclearBall
from kronfill.bounds.classes.rkhs import LocalBall, RKHSBall
from kronfill.bounds.classes.sides import ClassAxis
from kronfill.bounds.losses import Loss, Square
from kronfill.bounds.splits import Split
from kronfill.bounds.transductive import generalization_bound, theorem_b
from kronfill.data import Observations
from kronfill.errors import ParameterError
from kronfill.estimators import IMC, KKMCEX, KMC, MC, RRMCEX

__all__ = ["HOLDOUT", "Case", "Route", "Strata", "class_routes", "holdout_route", "stratify"]

LOSS = "loss on the unobserved entries"
HOLDOUT = "hold-out (betting)"
BLOCK_FLOATS = 4_000_000
"""Entries that are predicted at a time."""
Route = Callable[[float], Bound]
KINDS: dict[str | None, tuple[str, ...]] = {
    None: (), "mean": ("mean",), "rows": ("mean", "rows"), "cols": ("mean", "cols")
}  # fmt: skip
"""What each kind of centring fits; "both" fits all."""
RATIO = 1.2
LOWEST = -40


@dataclass(frozen=True, eq=False)
class Case:
    """A fitted model, the entries, and the loss."""

    estimator: Any
    split: Split
    value_range: tuple[float, float]
    loss: Loss

    @property
    def train(self) -> Observations:
        """The observations the model was fitted to."""
        observations: Observations = self.estimator.observations_
        return observations

    @property
    def amplitude(self) -> float:
        """Half the width of the range: the natural size of a centred value."""
        return 0.5 * (self.value_range[1] - self.value_range[0])

    @property
    def middle(self) -> float:
        """Middle of the range."""
        return 0.5 * (self.value_range[0] + self.value_range[1])

    @cached_property
    def train_loss(self) -> float:
        """Mean loss on the training entries."""
        return self.loss.mean(self.train.values, self.estimator.predict(self.train))

    @cached_property
    def axes(self) -> tuple[ClassAxis, ClassAxis]:
        """Factors of the class that the model is in."""
        form = fitted.fitted_form(self.estimator)
        if isinstance(self.estimator, RRMCEX):  # the leading eigenvectors are the class
            return tuple(  # type: ignore[return-value]
                ClassAxis.of_factor(basis.known(None)) for basis in (form.row_basis, form.col_basis)
            )
        return fitted.side_of(form.row_basis), fitted.side_of(form.col_basis)

    @cached_property
    def ball_norm(self) -> float:
        """Norm of the model in the RKHS."""
        return fitted.rkhs_norm(self.estimator)

    @property
    def unit(self) -> float:
        """Norm of a function of the natural size: amplitude / sqrt(kbar)."""
        row, col = self.axes
        kbar = self.split.entries.total(row.diagonal, col.diagonal) / self.split.sizes.n
        return self.amplitude / float(np.sqrt(kbar)) if kbar > 0 else 1.0

    @cached_property
    def effect_names(self) -> tuple[str, ...]:
        """The effects that the fit has."""
        center, effects = self.estimator.center, fitted.fitted_form(self.estimator).effects
        names = KINDS.get(center, ("mean", "rows", "cols"))
        if effects is None:
            unchanged = not names
        else:
            parts = {"mean": True, "rows": effects.row.any(), "cols": effects.col.any()}
            unchanged = all(name in names for name, there in parts.items() if there)
        if not unchanged:
            msg = (
                f"The model was fitted with another value of center than {center!r}. Set it back, "
                "or fit anew."
            )
            raise ParameterError(msg)
        return names

    def effects(self) -> tuple[dict[str, float], dict[str, float]]:
        """Norms of the effects of the model that are there, and the bases of their grids."""
        norms, names = effect_norms(self.estimator, self.middle), self.effect_names
        n, l = self.split.shape
        sizes = {"mean": 1.0, "rows": float(np.sqrt(n)), "cols": float(np.sqrt(l))}
        bases = {name: self.amplitude * sizes[name] for name in names}
        return {name: norms[name] for name in names}, bases


def class_routes(case: Case) -> dict[str, Route]:
    """The routes through a hypothesis class that are open for this model and loss."""
    nuclear = isinstance(case.estimator, MC | KMC | IMC)
    ball = isinstance(case.estimator, KKMCEX | RRMCEX | KMC | IMC)
    routes: dict[str, Route] = {}
    if np.isfinite(case.loss.bound) and np.isfinite(case.loss.lipschitz):
        if ball:
            routes["norm"] = lambda delta: _norm_route(case, delta)
            routes["norm and fitted size"] = lambda delta: _local_route(case, delta)
        if nuclear:
            routes["nuclear norm"] = lambda delta: _nuclear_route(case, delta)
    if ball and isinstance(case.loss, Square) and not case.effect_names:
        routes["square loss"] = lambda delta: _square_route(case, delta)
    return routes


def _norm_route(case: Case, delta: float) -> Bound:
    def build(radii: Mapping[str, float]) -> HypothesisClass:
        return RKHSBall.of_axes(*case.axes, b=radii["b"])

    return _stratified(case, delta, {"b": case.ball_norm}, {"b": case.unit}, build, "norm")


def _local_route(case: Case, delta: float) -> Bound:
    def build(radii: Mapping[str, float]) -> HypothesisClass:
        return LocalBall(RKHSBall.of_axes(*case.axes, b=radii["b"]), radii["size"] ** 2)

    norms = {"b": case.ball_norm, "size": float(np.sqrt(fitted.mean_square(case.estimator)))}
    bases = {"b": case.unit, "size": case.amplitude}
    return _stratified(case, delta, norms, bases, build, "norm and fitted size")


def _nuclear_route(case: Case, delta: float) -> Bound:
    (n, l), of_values = case.split.shape, isinstance(case.estimator, MC)

    def build(radii: Mapping[str, float]) -> HypothesisClass:
        if of_values:
            return NuclearBall(case.split.shape, radii["t"])
        return KMCBall.of_axes(*case.axes, t_b=2.0 * radii["t"])

    norm = fitted.value_nuclear_norm if of_values else fitted.nuclear_norm
    base = case.amplitude * float(np.sqrt(n * l)) if of_values else case.unit
    norms, bases = {"t": norm(case.estimator)}, {"t": base}
    return _stratified(case, delta, norms, bases, build, "nuclear norm")


@dataclass(frozen=True)
class Strata:
    """Radii rounded up to the grid, and the share of delta that is left."""

    radii: Mapping[str, float]
    share: float


def stratify(
    norms: Mapping[str, float], bases: Mapping[str, float], ratio: float = RATIO
) -> Strata:
    """Round every norm up to its grid.

    Examples
    --------
    >>> from kronfill.bounds.routes import stratify
    >>> found = stratify({"b": 2.5}, {"b": 1.0}, ratio=2.0)
    >>> found.radii, round(found.share, 4)
    ({'b': 4.0}, 0.0556)
    """
    radii, share = {}, 1.0
    for name, norm in norms.items():
        steps = np.log(max(norm, 1e-300) / bases[name]) / np.log(ratio)
        j = max(int(np.ceil(steps - 1e-12)), LOWEST)
        radii[name] = max(bases[name] * ratio**j, norm)
        share *= (2.0 / 3.0) / ((abs(j) + 1) * (abs(j) + 2))
    return Strata(radii, share)


def _stratified(
    case: Case,
    delta: float,
    norms: dict[str, float],
    bases: dict[str, float],
    build: Callable[[Mapping[str, float]], HypothesisClass],
    name: str,
) -> Bound:
    """Theorem A or A2 for the class whose radii are those of the fit, rounded up to a grid."""
    effects, effect_bases = case.effects()
    strata = stratify({**norms, **effects}, {**bases, **effect_bases})
    main = build(strata.radii)
    parts: tuple[HypothesisClass, ...] = (main,)
    if effects:
        radii = {key: strata.radii[key] for key in effects}
        parts += (EffectsClass(case.split.shape, **radii),)
    whole = SumClass(parts) if effects else main
    bound = generalization_bound(whole, case.split, case.loss, delta * strata.share)
    law = "sub" if bound.name == "Theorem A" else "eyp"
    terms = {"training loss": case.train_loss}
    labels = ("complexity of the class", "complexity of effects")
    for part, label in zip(parts, labels, strict=False):
        terms[label] = case.loss.lipschitz * part.complexity(case.split, law).value
    if "random sample size" in bound.terms:
        terms["random sample size"] = bound.terms["random sample size"]
    plain = case.loss.bound * case.split.sizes.deviation(delta)
    terms["confidence"] = plain
    terms["radii read off the fit"] = bound.terms["confidence"] - plain
    return Bound.of(f"{bound.name} ({name})", LOSS, terms)


def _square_route(case: Case, delta: float) -> Bound:
    """Theorem B: the clipped loss is at most the square loss, for which b needs no grid."""
    limit = max(abs(value) for value in case.value_range)
    ball = RKHSBall.of_axes(*case.axes, b=case.ball_norm)
    bound = theorem_b(ball, case.split, limit, delta)
    raw = Square() * case.loss.scale
    names = {"complexity": "complexity of the class"}
    terms = {"training loss": raw.mean(case.train.values, case.estimator.predict(case.train))}
    for key, value in bound.terms.items():
        terms[names.get(key, key)] = case.loss.scale * value
    return Bound.of("Theorem B", LOSS, terms)


def holdout_route(case: Case, entries: Observations, seed: int) -> Route:
    """The mean loss on held-out entries and a margin: bets on them in an order drawn from a seed.

    Hold-out and unobserved entries are the population, the ceilings of all their losses known.
    """
    order = np.random.default_rng(seed).permutation(entries.m)
    predicted = case.estimator.predict(entries)[order]
    losses = case.loss(entries.values[order], predicted)
    ceilings = case.loss.ceilings(predicted, case.value_range)
    rest = Ceilings.of(_unobserved_ceilings(case, entries), case.loss.bound)

    def route(delta: float) -> Bound:
        mean = float(np.mean(losses))
        margin = betting_bound(losses, ceilings, rest, delta) - mean
        return Bound.of(HOLDOUT, LOSS, {"hold-out loss": mean, "confidence": margin})

    return route


def _unobserved_ceilings(case: Case, holdout: Observations) -> Iterator[Floats]:
    """The largest loss of each entry that was not observed, some rows at a time."""
    n, l = case.split.shape
    seen = [np.asarray(part.rows, np.int64) * l + part.cols for part in (case.train, holdout)]
    codes = np.sort(np.concatenate(seen))
    step = max(1, BLOCK_FLOATS // l)
    for first in range(0, n, step):
        rows = np.arange(first, min(first + step, n))
        here = codes[slice(*np.searchsorted(codes, (first * l, (first + len(rows)) * l)))]
        left = np.delete(case.estimator.predict_matrix(rows=rows).ravel(), here - first * l)
        yield case.loss.ceilings(left, case.value_range)
