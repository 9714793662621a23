"""AutoMC: kernels and low rank in one mix, everything chosen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self
from weakref import WeakKeyDictionary

import numpy as np
from sklearn.utils.validation import check_is_fitted

from kronfill._progress import ProgressPrinter, tell
from kronfill._types import Floats
from kronfill.auto.choosing import chosen, fitted_members
from kronfill.auto.members import Members, MixChoice
from kronfill.auto.mixing import KNOWN, MixedForm
from kronfill.auto.plan import Plan, costed, planned
from kronfill.auto.sources import AxisParts
from kronfill.auto.widths import latent_variances
from kronfill.core.memory import require_memory
from kronfill.data import Observations
from kronfill.errors import ParameterError, argument
from kronfill.estimators import KKMCEX
from kronfill.estimators.base import (
    MatrixRegressor,
    check_rank,
    fitted_form,
    index_pairs,
)
from kronfill.estimators.gaussian_process.explain import Explanation
from kronfill.estimators.gaussian_process.suggest import Suggestion
from kronfill.estimators.inputs import check_fourth_powers, random_generator

__all__ = ["AutoMC"]

NAMES = ("low rank", "side information", "both")
FEW, MANY_ENTRIES = 5000, 200_000
"""Up to so many observations more threads cost more than they save; beyond the second a fit takes
too long for an explanation."""


class AutoMC(MatrixRegressor):
    """Matrix completion from kernels and low rank together, nothing to choose.

    A mix of up to three members: low rank with kernel priors (:class:`BayesianKMC`), a Kronecker
    ridge regression (:class:`KKMCEX`) with the kernels of what is known, and one whose kernels
    compare items by their latent factors too. Weights of all kernels, mu and the shares of the
    members are those with the least error on hidden entries, rows and columns.

    Parameters
    ----------
    row_sources, col_sources : Kernel, array-like, list or dict of Kernel, optional
        What is known about rows and columns, one kernel for each source. Nothing by default.
    rank : int, default=30
        Most latent factors.
    budget : float, optional
        Seconds that a fit may take, about: it is turned into a plan before anything is done.
    plan : Plan, optional
        A plan to follow, such as ``plan_`` of another fit, instead.
    choice : MixChoice, optional
        What another fit has chosen (its ``choice_``), to be kept: nothing is chosen again.
    random_state : int, Generator or None, default=0
        Seed of what is hidden.
    progress : bool, default=False
        Whether to show what is being done.
    on_interrupt : {"raise", "keep"}, default="raise"
        What Ctrl-C does: "keep" leaves the best model so far, if there is one.

    Attributes
    ----------
    members_ : dict of str to estimator
        The fitted members by name.
    shares_ : dict of str to ndarray of shape (4,)
        Share of each member for entries of known rows and columns, of new rows, of new columns, and
        of both.
    weights_ : dict of str to dict
        Weights of the parts of the row and column kernels, by member and label.
    hidden_error_ : dict of str to float
        Root mean square error of each member and of the mix on the entries that were hidden.
    choice_ : MixChoice
        Everything that was chosen.
    plan_ : Plan
        What was done.
    noise_variance_ : float
        Variance of the noise.
    mean_, row_effects_, col_effects_ :
        Additive effects of the low-rank part.
    mu_, solution_, n_iter_, shape_, observations_ :
        As for :class:`KKMCEX`, of the member with the largest share.

    Examples
    --------
    >>> import numpy as np, kronfill as kf
    >>> rng = np.random.default_rng(0)
    >>> F = rng.standard_normal((30, 2)) @ rng.standard_normal((2, 20))
    >>> X = np.argwhere(rng.random(F.shape) < 0.6)
    >>> y = F[X[:, 0], X[:, 1]] + 0.1 * rng.standard_normal(len(X))
    >>> est = kf.AutoMC().fit(X, y)
    >>> bool(np.abs(est.predict_matrix() - F).mean() < 0.1)
    True
    """

    def __init__(
        self,
        row_sources: Any = None,
        col_sources: Any = None,
        rank: Any = 30,
        budget: Any = None,
        plan: Any = None,
        choice: Any = None,
        random_state: Any = 0,
        progress: bool = False,
        on_interrupt: str = "raise",
    ) -> None:
        self.row_sources = row_sources
        self.col_sources = col_sources
        self.rank = rank
        self.budget = budget
        self.plan = plan
        self.choice = choice
        self.random_state = random_state
        self.progress = progress
        self.on_interrupt = on_interrupt

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Choose everything and fit to observed entries.

        Parameters
        ----------
        X : array-like of shape (m, 2) or Observations
            Row and column index of each observed entry, or the observations themselves.
        y : array-like of shape (m,), optional
            Observed values; left out when ``X`` is an :class:`~kronfill.Observations`.
        sample_weight : array-like of shape (m,), optional
            How much each entry counts.

        Returns
        -------
        self
        """
        axes = self._validated_sides()
        observations = self._observations(X, y, sample_weight, axes)
        check_fourth_powers(observations.values, observations.weights)
        obs = _counted(observations)
        row, col = (axis.resized(n) for axis, n in zip(axes, obs.shape, strict=True))
        plan = self._planned((row, col), obs)
        require_memory(plan.bytes, "The choice of everything", _SMALLER)
        seed = int(random_generator(self.random_state).integers(2**31))
        with self._fitting(obs.m, FEW):
            choice, members = self._chosen(obs, (row, col), plan, seed)
        return self._published(X, observations, (row, col), plan, choice, members)

    def _chosen(
        self, obs: Observations, axes: tuple[AxisParts, AxisParts], plan: Plan, seed: int
    ) -> tuple[MixChoice, Members]:
        show = ProgressPrinter("AutoMC") if self.progress else tell
        best: Any = None
        try:
            if self.choice is not None:
                best = (self.choice, None)
            elif obs.m > 1:
                for best in chosen(obs, axes, plan, seed, show):  # noqa: B007 - the last one counts
                    pass
            choice = MixChoice() if best is None else best[0]
            return choice, fitted_members(obs, axes, choice, plan, seed)
        except KeyboardInterrupt:
            if self.on_interrupt == "raise" or best is None or best[1] is None:
                raise
            kept: tuple[MixChoice, Members] = best
            return kept

    def _published(
        self, X: Any, observations: Observations, axes: tuple[AxisParts, AxisParts], plan: Plan,
        choice: MixChoice, members: Members,
    ) -> Self:  # fmt: skip
        present = members.present()
        which = [k for k, _ in present]
        share = choice.share[:, which]
        total = share.sum(axis=1, keepdims=True)
        share = np.where(total > 0, share / np.where(total > 0, total, 1.0), 1.0 / len(which))
        form = MixedForm(
            tuple(fitted_form(member) for _, member in present), share,
            observations.row_counts > 0, observations.col_counts > 0,
        )  # fmt: skip
        main = present[int(np.argmax(share[KNOWN]))][1]
        factor, power = choice.noise_factor
        noise = factor * members.low_rank.noise_variance_**power
        return self._publish(
            X,
            observations,
            {"_kernels": (axes[0].together, axes[1].together)},
            members_={NAMES[k]: member for k, member in present},
            shares_={NAMES[k]: share[:, at] for at, k in enumerate(which)},
            weights_=_weights(axes, choice),
            hidden_error_=dict(choice.error),
            choice_=choice,
            plan_=plan,
            noise_variance_=noise,
            mean_=members.low_rank.mean_,
            row_effects_=members.low_rank.row_effects_,
            col_effects_=members.low_rank.col_effects_,
            mu_=float(main.mu_),
            solution_=main.solution_,
            n_iter_=int(main.n_iter_),
            _model=form,
        )

    def predict_std(self, X: Any) -> Floats:
        """Standard deviation of the latent values at index pairs.

        That of the low-rank part, brought to the size of the errors on hidden entries of the same
        kind.

        Parameters
        ----------
        X : array-like of shape (t, 2) or Observations
            Row and column index of each entry asked for.

        Returns
        -------
        ndarray of shape (t,)
            Without the noise, of which the variance is ``noise_variance_``.
        """
        check_is_fitted(self)
        rows, cols = index_pairs(self, X)
        std = self._low_rank.predict_std(np.column_stack([rows, cols]))
        form = self._model
        assert isinstance(form, MixedForm)
        return self._widened(std, form.kinds(rows, cols))

    def extrapolate_std(self, rows: Any = None, cols: Any = None) -> Floats:
        """Standard deviation of what :meth:`extrapolate` says.

        Parameters
        ----------
        rows, cols : object, optional
            As for :meth:`extrapolate`.

        Returns
        -------
        ndarray of shape (k, l)
        """
        check_is_fitted(self)
        std = self._low_rank.extrapolate_std(rows, cols)
        form = self._model
        assert isinstance(form, MixedForm)
        seen_r = form.seen_rows if rows is None else np.zeros(len(std), bool)
        seen_c = form.seen_cols if cols is None else np.zeros(std.shape[1], bool)
        kinds = (~seen_r)[:, None] + 2 * (~seen_c)[None, :]
        return self._widened(std, kinds)

    def _widened(self, std: Floats, kinds: Any) -> Floats:
        noise, choice = float(self._low_rank.noise_variance_), self.choice_
        found = latent_variances(std**2, noise, kinds, choice.spread, choice.power)
        return np.asarray(np.sqrt(found))

    def explain(self, row: Any, col: Any, top: int = 10) -> Explanation:
        """Say which observations a prediction comes from, as far as kernels make it.

        Parameters
        ----------
        row, col : int or label
            The entry, as for :meth:`KKMCEX.explain`.
        top : int, default=10
            How many observations to list.

        Returns
        -------
        Explanation
            Of the kernel part with the largest share, or of Kronecker ridge regression where the
            mix has none; what the mix differs by is in ``rest``.
        """
        member = self._kernel_member("explain")
        found: Explanation = member.explain(row, col, top)
        obs = self.observations_
        i = obs.row_index([row]) if obs.row_labels else np.array([row])
        j = obs.col_index([col]) if obs.col_labels else np.array([col])
        mixed = float(self._model.pairs(i, j)[0])
        rest = found.rest + mixed - found.prediction
        return replace(found, prediction=mixed, rest=rest, mu=float("nan"))

    def suggest(self, n: int, *args: Any, **settings: Any) -> Suggestion:
        """Choose the entries whose observation would most reduce the uncertainty of the kernels.

        Parameters
        ----------
        n : int
            How many.
        *args, **settings : object
            As for :meth:`KKMCEX.suggest`.

        Returns
        -------
        Suggestion
            By the kernel part with the largest share, or by Kronecker ridge regression where the
            mix has none.
        """
        found: Suggestion = self._kernel_member("suggest").suggest(n, *args, **settings)
        return found

    @property
    def partial_fit(self) -> Any:
        """Refused: what was chosen would have to be chosen again."""
        msg = (
            "AutoMC cannot be updated with partial_fit: everything that it has chosen would have "
            "to be chosen again. Fit it again to all observations, or use KKMCEX, which can."
        )
        raise AttributeError(msg)

    @property
    def _low_rank(self) -> Any:
        return self.members_["low rank"]

    def _kernel_member(self, what: str) -> Any:
        check_is_fitted(self)
        there = [name for name in NAMES[1:] if name in self.members_]
        if not there:
            return self._substitute(what)
        return self.members_[max(there, key=lambda name: float(self.shares_[name][KNOWN]))]

    def _substitute(self, what: str) -> KKMCEX:
        """What explains and suggests where low rank alone predicts best: a fit of first weights."""
        obs, axes = self.fitted_to()
        if obs.m > MANY_ENTRIES:
            msg = (
                f"{what} needs kernels, and this mix has none, as low rank alone predicts best. Of "
                f"{obs.m:,} observations a fit that has some takes too long for a question: use "
                "KKMCEX."
            )
            raise ParameterError(msg)
        fit = self._low_rank  # another one after each fit
        if fit not in _SUBSTITUTES:
            row, col = (axis.kernel(axis.first(), np.ones(sum(axis.scales))) for axis in axes)
            _SUBSTITUTES[fit] = KKMCEX(row, col, mu="auto", center="mean").fit(obs)
        return _SUBSTITUTES[fit]

    def _validated_sides(self) -> Any:
        check_rank(self.rank)
        if self.plan is not None and not isinstance(self.plan, Plan):
            msg = f"plan must be a Plan, such as plan_ of a fit, or None, got {self.plan!r}."
            raise ParameterError(msg)
        if self.plan is not None and self.budget is not None:
            msg = "Give either budget or plan: a plan says already what is to be done."
            raise ParameterError(msg)
        if self.choice is not None and not isinstance(self.choice, MixChoice):
            msg = f"choice must be choice_ of a fit, or None, got {self.choice!r}."
            raise ParameterError(msg)
        if self.on_interrupt not in ("raise", "keep"):
            msg = (
                f"{argument('on_interrupt')} must be 'raise' or 'keep', got {self.on_interrupt!r}."
            )
            raise ParameterError(msg)
        return (
            AxisParts.of(self.row_sources, "row_sources"),
            AxisParts.of(self.col_sources, "col_sources"),
        )

    def planned_for(self, observations: Observations) -> Plan:
        """The plan of a fit to these observations, with the time and memory it would take.

        Parameters
        ----------
        observations : Observations
            What is to be fitted.

        Returns
        -------
        Plan

        Examples
        --------
        >>> import numpy as np, kronfill as kf
        >>> kf.AutoMC().planned_for(kf.Observations.from_matrix(np.eye(20))).folds
        5
        """
        return self._planned(self._validated_sides(), observations)

    def fitted_to(self) -> tuple[Observations, tuple[AxisParts, AxisParts]]:
        """The observations that counted, and the parts of what is known about either axis."""
        check_is_fitted(self)
        obs = _counted(self.observations_)
        row, col = (
            axis.resized(n) for axis, n in zip(self._validated_sides(), obs.shape, strict=True)
        )
        return obs, (row, col)

    def _planned(self, axes: tuple[AxisParts, AxisParts], obs: Observations) -> Plan:
        parts = max(len(axis.kernels) for axis in axes) + 1
        if self.plan is not None:
            return costed(self.plan, obs.shape, obs.m, parts)
        rank = min(int(self.rank), *obs.shape)
        return planned(obs.shape, obs.m, parts, rank=rank, budget=self.budget)


_SUBSTITUTES: WeakKeyDictionary[MatrixRegressor, KKMCEX] = WeakKeyDictionary()
_SMALLER = "Give budget= or plan= with fewer entries, or use KKMCEX."


def _counted(obs: Observations) -> Observations:
    """The observations that have a weight."""
    if obs.weights is None or obs.weights.all():
        return obs
    return obs.take(obs.weights > 0)


def _weights(axes: tuple[AxisParts, AxisParts], choice: MixChoice) -> dict[str, Any]:
    """Weights by member, axis and label."""
    out: dict[str, Any] = {}
    for name, found, latent in zip(
        NAMES[1:], (choice.side, choice.joint), ((), ("latent factors",)), strict=True
    ):
        if found is None:
            continue
        out[name] = {
            side: dict(
                zip((*axis.labels, *latent, "constant", "identity"), map(float, w), strict=True)
            )
            for side, axis, w in zip(("rows", "cols"), axes, (found.row, found.col), strict=True)
        }
    return out
