"""A table and what is known about its axes, put together: all that is settled before a fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kronfill.auto.model import AutoMC
from kronfill.auto.sources import MANY, THIN_RANK
from kronfill.completion.effort import Effort, expected_seconds, within_budget
from kronfill.completion.likelihood import linked, settled
from kronfill.completion.sides import (
    IDENTITY,
    NOTHING,
    LabelledAxis,
    Match,
    is_thin,
    match,
    read_axis,
    some_of,
)
from kronfill.completion.values import refuse_beside_likelihood, valued
from kronfill.criteria.exact import best_mu
from kronfill.data import Observations
from kronfill.data.amounts import count_of
from kronfill.data.arrays import listing
from kronfill.data.reading.frames import axis_indexes
from kronfill.data.reading.layouts import refuse_long
from kronfill.errors import EmptyDataError, LabelError, ParameterError, argument
from kronfill.estimators import IMC, KKMCEX, KMC, MC, RRMCEX, BayesianKMC
from kronfill.estimators.base import MatrixRegressor, resolved
from kronfill.estimators.inputs import sampled_entries
from kronfill.estimators.transformed.regressor import TransformedRegressor
from kronfill.ridge.problem import RidgeProblem
from kronfill.solvers import costs
from kronfill.solvers.auto import Auto
from kronfill.solvers.costs import Size
from kronfill.solvers.pcg import PCG

__all__ = ["METHODS", "UNMATCHED", "CompletionProblem", "fitted_center", "labelled"]

METHODS = ("auto", "kkmcex", "rrmcex", "kmc", "imc", "mc", "bayesiankmc")
UNMATCHED = ("error", "keep", "drop")
EXACT = 3000
"""Up to so many observations mu is chosen by leaving each of them out."""
LARGE = 200_000
"""From so many observations on, mu is chosen from a part of them and a solve is less exact."""
PART = 100_000
"""Observations of that part."""
LOOSE = 1e-3
"""Relative residual at which the large solve stops."""
FEW = 500
"""Up to so many observations the kernel over entries is factorised."""


@dataclass(frozen=True, eq=False)
class CompletionProblem:
    """Observations over all rows and columns of the result, and the method that fits them.

    Attributes
    ----------
    observations : Observations
        What was observed; rows and columns that only the side information has are included.
    row, col : LabelledAxis
        Labels and kernel of each axis.
    matches : tuple of Match or None
        Which labels table and side information have in common, for each axis.
    method : str
        Name of the method.
    estimator : estimator
        The method, not fitted yet.
    known : tuple
        Index and columns of the table, where it has them.
    likelihood, why : str
        What values are, and why if that was found out.
    """

    observations: Observations
    row: LabelledAxis
    col: LabelledAxis
    matches: tuple[Match | None, Match | None]
    method: str
    estimator: MatrixRegressor
    known: tuple[Any, Any]
    likelihood: str = "gaussian"
    why: str = ""

    @classmethod
    def of(
        cls,
        table: Any,
        rows: Any = None,
        cols: Any = None,
        method: str = "auto",
        *,
        mu: Any = "auto",
        rank: Any = "auto",
        center: Any = "auto",
        random_state: Any = 0,
        unmatched: str = "error",
        kinds: Any = None,
        impute: str | None = None,
        likelihood: str = "gaussian",
        negatives: str | None = None,
        transform: str | None = "auto",
        value_range: tuple[float, float] | None = None,
        rounded: bool = False,
        effort: Effort | None = None,
    ) -> CompletionProblem:
        """Match labels, build kernels, choose the estimator; as :func:`kronfill.complete`."""
        method = method.lower() if isinstance(method, str) else method
        if method not in METHODS:
            msg = f"method must be one of {METHODS}, got {method!r}."
            raise ParameterError(msg)
        if unmatched not in UNMATCHED:
            msg = f"unmatched must be one of {UNMATCHED}, got {unmatched!r}."
            raise ParameterError(msg)
        if method == "auto":
            _refuse_beside_auto(mu=mu, rank=rank, center=center)
        effort = effort or Effort()
        effort.check(method)
        center = "mean" if center == "auto" else center
        obs = labelled(table)
        likelihood, why = settled(likelihood, negatives, obs.values)
        known = list(axis_indexes(table))
        first = match(rows, obs.row_labels, "row")
        second = match(cols, obs.col_labels, "column")
        for found, others in ((first, obs.col_labels), (second, obs.row_labels)):
            _settle(found, unmatched, method, others or ())
        if unmatched == "drop":
            obs, kept = _restricted(obs, first, second)
            known = [
                k if at is None or k is None else k[at] for k, at in zip(known, kept, strict=True)
            ]
        # RRMCEX cuts kernels to their leading eigenvectors, where an identity part has no place.
        identity = 0.0 if method == "rrmcex" else IDENTITY
        many = 2 * THIN_RANK if obs.m > LARGE else None
        # Methods without kernels take no notice of dates.
        how = {"kinds": kinds, "impute": impute, "dates": method not in ("imc", "mc")}
        how["repair"] = method == "auto"
        row = read_axis(rows, obs.row_labels, obs.shape[0], "row", identity, many, **how)
        col = read_axis(cols, obs.col_labels, obs.shape[1], "column", identity, many, **how)
        estimator = _estimator(method, row, col, {"mu": mu, "center": center}, rank, random_state)
        if isinstance(estimator, AutoMC):
            estimator = estimator.set_params(**effort.settings)
        if likelihood == "gaussian":
            estimator = valued(
                estimator, (row.kernel, col.kernel), obs.values, chooses=method == "auto",
                transform=transform, value_range=value_range, rounded=rounded,
            )  # fmt: skip
        else:
            refuse_beside_likelihood(likelihood, transform, rounded)
        estimator = linked(estimator, likelihood, negatives, random_state)
        whole = _over(obs, row.labels, col.labels)
        estimator = within_budget(estimator, whole)
        both = (known[0], known[1])
        return cls(whole, row, col, (first, second), method, estimator, both, likelihood, why)

    def fit(self) -> MatrixRegressor:
        """Fit the method."""
        return self.prepared().fit(self.observations)

    def as_fitted(self) -> CompletionProblem:
        """The problem with the method alone, whatever is done with its predictions."""
        est = self.estimator
        plain = isinstance(est, TransformedRegressor) and est.scale is None and not est.rounded
        return replace(self, estimator=est.estimator) if plain else self

    def prepared(self) -> MatrixRegressor:
        """Return the estimator to fit, in large problems with settings that save time.

        ``estimator`` stays as it was asked for. mu is the variance of the noise over that of the
        signal, whatever the number of observations, so that a part of the rows tells it as well as
        all of them.
        """
        est, obs = self.estimator, self.observations
        if isinstance(est, TransformedRegressor):
            inner = replace(self, estimator=est.estimator).prepared()
            return TransformedRegressor(**{**est.get_params(deep=False), "estimator": inner})
        if not isinstance(est, KKMCEX):
            return est
        many = obs.m > LARGE
        center = fitted_center(est.center, obs.m, (self.row.kernel, self.col.kernel))
        settings = {**est.get_params(deep=False), "center": center}
        # Up to EXACT observations leave-one-out needs no factors; beyond, those of many items with
        # an identity part are too large.
        if est.mu == "auto" and (many or (obs.m > EXACT and max(obs.shape) >= MANY)):
            settings["mu"] = self._mu_of_a_part(center)
        if many:
            settings["solver"] = self._solver(LOOSE)
        return KKMCEX(**settings)

    def compared(self) -> dict[str, MatrixRegressor]:
        """The method and those that it is to be compared with, as they would be used here."""
        common = {"mu": "auto", "center": "mean"}
        others = {
            name.upper(): replace(
                self, method=name,
                estimator=_estimator(name, self.row, self.col, common, "auto", 0),
            ).prepared()
            for name in ("kkmcex", "kmc", "mc")
        }  # fmt: skip
        return {self.method: self.prepared(), **others}

    def _solver(self, tol: float) -> PCG | Auto:
        """The solver for thin factors, without a look at what others would cost, if they are.

        A residual is compared with the size of the values; here it is to be small beside their
        spread, which may be far less.
        """
        values = self.observations.values
        size = float(np.sqrt(np.mean(values**2)))
        tol *= max(float(values.std()) / size, 1e-9) if size > 0 else 1.0
        return PCG(tol=tol) if self._is_thin else Auto(tol=tol)

    @property
    def _is_thin(self) -> bool:
        return is_thin(self.row.kernel) and is_thin(self.col.kernel)

    def _mu_of_a_part(self, center: Any) -> float:
        """The mu that the entries of some rows choose."""
        obs = self.observations
        order = np.random.default_rng(0).permutation(np.flatnonzero(obs.row_counts))
        enough = int(np.searchsorted(np.cumsum(obs.row_counts[order]), PART)) + 1
        rows = np.sort(order[:enough])
        place = np.full(obs.shape[0], -1)
        place[rows] = np.arange(len(rows))
        mine = np.flatnonzero(place[obs.rows] >= 0)
        shape = (len(rows), obs.shape[1])
        weights = None if obs.weights is None else obs.weights[mine]
        index = (place[obs.rows[mine]], obs.cols[mine])
        part = Observations(*index, obs.values[mine], shape, weights=weights)
        row, col = resolved((self.row.kernel, self.col.kernel), obs.shape)
        sampled = sampled_entries(part, center)
        return best_mu(RidgeProblem(row.take(rows), col, sampled, 1.0))

    @property
    def is_blind(self) -> bool:
        """Whether the method needs to know something about an axis and knows nothing."""
        words = {self.row.words, self.col.words}
        return self.method in ("kkmcex", "rrmcex") and words == {NOTHING}

    def memory(self) -> dict[str, float]:
        """Bytes that the fit is expected to need, by what for; orders of magnitude only."""
        m = self.observations.m
        held = sum(axis.kernel.nbytes for axis in (self.row, self.col) if axis.kernel is not None)
        return {"observations": 40.0 * m, "side information": float(held), "fit": self._bytes()}

    def seconds(self) -> float | None:
        """What the fit is expected to take, where that is settled beforehand: by the default."""
        return expected_seconds(self.estimator, self.observations)

    def _bytes(self) -> float:
        obs = self.observations
        (n, l), m = obs.shape, obs.m
        method = getattr(self.estimator, "estimator", self.estimator)
        if isinstance(method, AutoMC):
            return method.planned_for(obs).bytes
        if self.method not in ("kkmcex", "rrmcex"):
            rank = getattr(method, "rank", 10)
            rank = THIN_RANK if rank == "auto" else int(rank)
            return 8.0 * (n + l) * (10 * rank + THIN_RANK) + 60.0 * m
        items = (n - len(obs.cold_rows), l - len(obs.cold_cols))
        size = Size(m, (n, l), items)
        ways = [
            costs.cholesky(size),
            costs.identity_pcg(size, (min(n, THIN_RANK), min(l, THIN_RANK))),
        ]
        best = ways[0] if m <= FEW else min(ways, key=lambda way: way.seconds)
        return best.bytes


def _refuse_beside_auto(**settings: Any) -> None:
    """Raise for what the method "auto" chooses itself."""
    for name, value in settings.items():
        if not (isinstance(value, str) and value == "auto"):
            takes = "'kmc', 'imc' or 'mc'" if name == "rank" else "'kkmcex'"
            msg = (
                f"{argument('method', 'auto')} chooses {name} itself: leave {argument(name)} out, "
                f"or use a method that takes it, {takes}; got {value!r}."
            )
            raise ParameterError(msg)


def fitted_center(center: Any, count: int, kernels: tuple[Any, Any]) -> Any:
    """The effects that KKMCEX fits to ``count`` observations where ``center`` was asked for.

    Where both kernels have a constant part, as thin ones do, the product of the two carries the
    mean: its penalty is lost among very many observations, and without an effect beside it the
    solver needs half as many iterations.
    """
    carried = center == "mean" and count > LARGE and all(is_thin(kernel) for kernel in kernels)
    return None if carried else center


def labelled(table: Any) -> Observations:
    """Return a table of any form as observations with labels, indices where it has none."""
    if not isinstance(table, Observations):
        refuse_long(table)
    obs = table if isinstance(table, Observations) else Observations.from_matrix(table)
    if obs.row_labels is not None and obs.col_labels is not None:
        return obs
    rows = range(obs.shape[0]) if obs.row_labels is None else obs.row_labels
    cols = range(obs.shape[1]) if obs.col_labels is None else obs.col_labels
    return _over(obs, rows, cols)


def _over(obs: Observations, rows: Any, cols: Any) -> Observations:
    """The observations in the matrix with these labels, which begin with their own."""
    if (
        len(rows) == obs.shape[0]
        and len(cols) == obs.shape[1]
        and obs.row_labels
        and obs.col_labels
    ):
        return obs
    return obs.within((len(rows), len(cols)), rows, cols)


def _settle(found: Match | None, unmatched: str, method: str, others: Sequence[Any]) -> None:
    """Raise if labels lack side information and nothing was said about them."""
    if found is None or not found.only_table:
        return
    name, total = found.axis, found.both + len(found.only_table)
    some = some_of(found.only_table)
    _refuse_exchanged(found, others)
    if unmatched == "keep" and method == "imc":
        msg = (
            f"{argument('method', 'imc')} predicts from features alone; it cannot do without those "
            f"of {count_of(len(found.only_table), name)}, {some}. Drop them "
            f"({argument('unmatched', 'drop')}), or use another method."
        )
        raise LabelError(msg)
    if unmatched == "keep" and not found.both:
        msg = (
            f"No {name} label of the table is in what is known about the {name}s: they are like "
            f"{', '.join(map(repr, found.only_table[:3]))} there and like "
            f"{', '.join(map(repr, found.only_side[:3]))} here. Is it the right file, and are the "
            "labels written in the same way?"
        )
        raise LabelError(msg)
    if unmatched == "error":
        there = listing([repr(label) for label in found.only_side[:3]], len(found.only_side))
        there = there or "none"
        msg = (
            f"{len(found.only_table):,} of {count_of(total, name + ' label')} of the table "
            f"{'is' if len(found.only_table) == 1 else 'are'} not in what is "
            f"known about the {name}s ({some}). The labels that are only there: {there}. If they "
            f"are written differently, make them agree. Otherwise say what to do with such "
            f"{name}s: {argument('unmatched', 'keep')} takes them as known by their entries only, "
            f"{argument('unmatched', 'drop')} leaves them out."
        )
        raise LabelError(msg)


def _refuse_exchanged(found: Match, others: Sequence[Any]) -> None:
    """Raise if what is known about one axis has the labels of the other."""
    there = set(found.only_side)
    if found.both or not there or 2 * len(there & set(others)) < len(there):
        return
    name, other = (found.axis, "column" if found.axis == "row" else "row")
    msg = (
        f"What is given about the {name}s has the labels of the table's {other}s, such as "
        f"{', '.join(map(repr, found.only_side[:3]))}: exchange {argument('rows=')} and "
        f"{argument('cols=')}."
    )
    raise LabelError(msg)


def _restricted(
    obs: Observations, row: Match | None, col: Match | None
) -> tuple[Observations, list[NDArray[np.bool_] | None]]:
    """Leave rows and columns out that only the table has."""
    keep: list[NDArray[np.bool_] | None] = []
    for found, labels in ((row, obs.row_labels), (col, obs.col_labels)):
        gone = set() if found is None else set(found.only_table)
        keep.append(np.array([label not in gone for label in labels or ()]) if gone else None)
    rows = np.ones(obs.shape[0], dtype=bool) if keep[0] is None else keep[0]
    cols = np.ones(obs.shape[1], dtype=bool) if keep[1] is None else keep[1]
    stays = rows[obs.rows] & cols[obs.cols]
    if not stays.any():
        msg = (
            "No row and column of the table with an entry is in the side information: nothing "
            "would be left. Are the labels written in the same way?"
        )
        raise EmptyDataError(msg)
    left = Observations(
        (np.cumsum(rows) - 1)[obs.rows[stays]],
        (np.cumsum(cols) - 1)[obs.cols[stays]],
        obs.values[stays],
        (int(rows.sum()), int(cols.sum())),
        weights=None if obs.weights is None else obs.weights[stays],
        row_labels=[label for label, stay in zip(obs.row_labels or (), rows, strict=True) if stay],
        col_labels=[label for label, stay in zip(obs.col_labels or (), cols, strict=True) if stay],
    )
    return left, keep


def _estimator(
    method: str,
    row: LabelledAxis,
    col: LabelledAxis,
    common: dict[str, Any],
    rank: Any,
    random_state: Any,
) -> MatrixRegressor:
    sides = (row.kernel, col.kernel)
    if method == "auto":
        first, second = (
            {one.label: one.kernel for one in axis.sources} or None for axis in (row, col)
        )
        return AutoMC(first, second, random_state=random_state)
    if method == "kkmcex":
        return KKMCEX(*sides, **common)
    if method == "rrmcex":  # where nothing is known there is no leading direction to cut to
        ranks = [1.0 if axis.words == NOTHING else 0.99 for axis in (row, col)]
        return RRMCEX(*sides, *ranks, **common)
    if method == "bayesiankmc":  # noise, effects and the number of factors are learned
        if common["mu"] != "auto":
            msg = (
                f"{argument('mu', common['mu'])} does not go with "
                f"{argument('method', 'bayesiankmc')}, which learns the noise; 'kmc' takes it."
            )
            raise ParameterError(msg)
        return BayesianKMC(*sides, random_state=random_state)
    more = {**common, "rank": 10 if rank == "auto" else rank, "random_state": random_state}
    if method == "kmc":
        return KMC(*sides, **more)
    if method == "mc":
        return MC(**more)
    for axis, name in ((row, "rows"), (col, "cols")):
        if axis.words != NOTHING and axis.features is None:
            msg = (
                f"{argument('method', 'imc')} needs a table of features for "
                f"{argument(f'{name}=')}, got {axis.words}."
            )
            raise ParameterError(msg)
    return IMC(row.features, col.features, **more)
