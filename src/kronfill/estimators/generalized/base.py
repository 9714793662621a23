"""What the methods for values that are not Gaussian share: the fit, and how sure it is.

The latent number of an entry is eta = f + effects, with the f of KKMCEX; a likelihood links it to
the value. Each step of the fit is a weighted KKMCEX solve (:mod:`kronfill.likelihoods.newton`).
The posterior is that of Laplace: f is Gaussian around its most likely value with the curvature that
the objective has there, so that it is KKMCEX' posterior with these curvatures as weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from kronfill._types import Floats
from kronfill.data import Observations
from kronfill.errors import ParameterError
from kronfill.estimators.base import (
    Kernels,
    MatrixEstimator,
    check_mu,
    checked_kernels,
    fitted_form,
    index_pairs,
    resolved,
)
from kronfill.estimators.fitted.axes import Axis
from kronfill.estimators.fitted.bilinear import Bilinear
from kronfill.estimators.fitted.identity_part import Stacked
from kronfill.estimators.gaussian_process.posterior import GaussianProcess
from kronfill.estimators.inputs import as_sampled, positions, sampled_entries
from kronfill.estimators.kkmcex import fitted_attributes
from kronfill.kernels.base import Kernel
from kronfill.likelihoods.choice import best_mu
from kronfill.likelihoods.families import Likelihood
from kronfill.likelihoods.newton import Iterate, Newton, curvature
from kronfill.likelihoods.posed import PosedLikelihood
from kronfill.ridge.effects import CENTERS, AdditiveEffects
from kronfill.ridge.problem import RidgeProblem
from kronfill.solvers.auto import as_solver
from kronfill.uncertainty.queries import Queries

__all__ = ["FitTarget", "LikelihoodEstimator", "joined", "no_product"]


@dataclass(frozen=True, eq=False)
class FitTarget:
    """What one fit is made to: values with weights, their likelihood, the known part of eta."""

    observations: Observations
    likelihood: Likelihood
    offset: Floats | None = None


class LikelihoodEstimator(MatrixEstimator):
    """A method whose values are linked to a latent function by a likelihood."""

    row_kernel: Any
    col_kernel: Any
    mu: Any
    center: Any
    solver: Any
    _kernels: Kernels
    observations_: Observations
    dual_coef_: Floats
    mean_: Any
    row_effects_: Floats
    col_effects_: Floats
    _curvature: Floats
    """Of the negative log likelihood at each observation, (m,) or (m, targets)."""

    def _validated_sides(self) -> Kernels:
        check_mu(self.mu)
        as_solver(self.solver)
        if self.center not in (None, *CENTERS):
            msg = f"center must be None or one of {CENTERS}, got {self.center!r}."
            raise ParameterError(msg)
        return checked_kernels(self.row_kernel, self.col_kernel)

    def _fit_targets(
        self,
        X: Any,
        kernels: Kernels,
        observations: Observations,
        targets: Sequence[FitTarget],
        *,
        resume: bool = False,
        **more: Any,
    ) -> Self:
        """Fit each target, from the last fit if ``resume``, and publish what was found."""
        solver = as_solver(self.solver)
        known = resolved(kernels, observations.shape)
        posed = [self._posed(known, target) for target in targets]
        starts = self._starts(posed, observations) if resume else [None] * len(posed)
        mu = self.mu_ if resume else 0.0
        with self._fitting(observations.m):
            if not resume:
                mu = best_mu(posed, solver) if self.mu == "auto" else float(self.mu)
            results, curves = [], []
            for one, start in zip(posed, starts, strict=True):
                newton = Newton(one, solver)
                at, solution = newton.solve(mu, start)
                results.append(newton.result(at, solution))
                curves.append(curvature(one.sampled, one.likelihood, newton.eta(at)))
            weighted = targets[0].observations
            fitted = fitted_attributes(replace(posed[0].problem, mu=mu), results, weighted)
        for result in results:
            result.solution.warn(stacklevel=4)
        curve = np.stack([_everywhere(one, weighted) for one in curves], axis=-1)
        curve = curve[:, 0] if len(curves) == 1 else curve
        sides = {"_kernels": kernels}
        more["_curvature"] = curve
        return self._publish(X, observations, sides, mu_=mu, **fitted, **more)

    def _posed(self, kernels: tuple[Kernel, Kernel], target: FitTarget) -> PosedLikelihood:
        sampled = sampled_entries(target.observations, self.center)
        offset, weights = target.offset, target.observations.weights
        if offset is not None and weights is not None:
            offset = offset[weights > 0]
        return PosedLikelihood(RidgeProblem(*kernels, sampled, 1.0), target.likelihood, offset)

    def _starts(
        self, problems: Sequence[PosedLikelihood], observations: Observations
    ) -> list[Iterate | None]:
        """The last fit at the present observations, the first of which it was made to."""
        weights = observations.weights
        used = np.ones(observations.m, bool) if weights is None else weights > 0
        starts: list[Iterate | None] = []
        for k, one in enumerate(problems):
            s = one.sampled
            old = self.dual_coef_ if self.dual_coef_.ndim == 1 else self.dual_coef_[:, k]
            dual = np.concatenate([old, np.zeros(observations.m - len(old))])[used]
            effects = self._effects_of(k)
            function = self._form_of(k).pairs(s.rows, s.cols) - effects.at(s.rows, s.cols)
            starts.append(Iterate(dual, function, None if s.kind is None else effects))
        return starts

    def _form_of(self, target: int) -> Any:
        form = self._model
        return form.forms[target] if isinstance(form, Stacked) else form

    def _effects_of(self, target: int) -> AdditiveEffects:
        if not isinstance(self._model, Stacked):
            return AdditiveEffects(self.mean_, self.row_effects_, self.col_effects_)
        row, col = self.row_effects_[:, target], self.col_effects_[:, target]
        return AdditiveEffects(float(self.mean_[target]), row, col)

    def _check_unchanged(self) -> None:
        if self.mu != "auto" and float(self.mu) != self.mu_:
            msg = (
                f"mu was changed from {self.mu_:g} to {self.mu:g} since the fit. Set it back, or "
                "fit anew."
            )
            raise ParameterError(msg)

    # The latent numbers, and how sure they are.

    def _latent(self, X: Any) -> Floats:
        check_is_fitted(self)
        return self._model.pairs(*index_pairs(self, X))

    def _latent_block(self, rows: Any, cols: Any) -> Floats:
        check_is_fitted(self)
        n, l = self.shape_
        return self._model.block(positions(rows, n, "row"), positions(cols, l, "column"))

    def _latent_new(self, rows: Any, cols: Any) -> Floats:
        check_is_fitted(self)
        return self._model.extended(rows, cols)

    def predict_std(self, X: Any) -> Floats:
        """Standard deviation of the latent numbers at index pairs.

        Parameters
        ----------
        X : array-like of shape (t, 2) or Observations
            Row and column index of each entry asked for.

        Returns
        -------
        ndarray of shape (t,), or (t, n_classes) for more than two classes
            Infinite where the entry has an unpenalised effect that no observation determines.

        Notes
        -----
        Laplace's approximation: (k - k^T (Kbar + mu H^-1)^-1 k) / mu, H being the curvature of the
        negative log likelihood at each observation. Exact up to 6,000 unknowns; beyond, each entry
        is an iterative solve.

        Examples
        --------
        >>> import kronfill as kf
        >>> days = kf.kernels.rbf([[0.0], [1.0], [9.0]], length_scale=1.0)
        >>> est = kf.KKMCEXPoisson(days, None, mu=1.0).fit([[0, 0], [1, 0]], [1, 5])
        >>> est.predict_std([[0, 0], [1, 0], [2, 0]]).round(2)  # the last day is far away
        array([0.59, 0.46, 1.  ])
        """
        check_is_fitted(self)
        rows, cols = index_pairs(self, X)
        return joined([self._std(one, one.targets(rows, cols)) for one in self._processes()])

    def extrapolate_std(self, rows: Any = None, cols: Any = None) -> Floats:
        """Standard deviation of the latent numbers of rows and columns that are not in the table.

        Parameters
        ----------
        rows, cols : object, optional
            What is known about the new rows (columns), as for :meth:`extrapolate`. A kernel that
            was given as a matrix wants the pair (similarities, similarity of each new item with
            itself). None stands for all the rows (columns) that are in the table.

        Returns
        -------
        ndarray of shape (k, l), or (k, l, n_classes) for more than two classes
            As for :meth:`predict_std`.
        """
        check_is_fitted(self)
        found = []
        for process in self._processes():
            targets, shape = process.block(rows, cols)
            found.append(self._std(process, targets).reshape(shape))
        return joined(found)

    def _std(self, process: GaussianProcess, targets: Queries) -> Floats:
        return np.sqrt(process.posterior.variance(targets) / self.mu_)

    def _processes(self) -> list[GaussianProcess]:
        """The posterior of each target, made on first use."""
        form = fitted_form(self)
        kept = vars(self).get("_kept_processes")
        if kept is None or kept[0] is not form:
            curves = self._curvature.reshape(len(self._curvature), -1).T
            kept = self._kept_processes = (form, [self._process(curve) for curve in curves])
        processes: list[GaussianProcess] = kept[1]
        return processes

    def _process(self, curve: Floats) -> GaussianProcess:
        obs, used = self.observations_, curve > 0
        row, col = resolved(self._kernels, self.shape_)
        entries = (obs.rows[used], obs.cols[used], np.zeros(int(used.sum())))
        sampled = as_sampled(*entries, obs.shape, curve[used], self.center)
        return GaussianProcess((Axis(row), Axis(col)), sampled, self.mu_, self.center, float("nan"))

    def __getstate__(self) -> Any:
        state = dict(super().__getstate__())  # scikit-learn hands out the attributes themselves
        state.pop("_kept_processes", None)  # large, and soon made again
        return state

    def _bilinear(self) -> Bilinear:
        raise no_product(self)


def no_product(estimator: Any) -> ParameterError:
    """What to raise where predictions are asked for as a product."""
    msg = (
        f"The predictions of {type(estimator).__name__} are no product of factors but a function "
        "of one, so that this does not apply; it does to KKMCEX."
    )
    return ParameterError(msg)


def joined(parts: Sequence[Floats]) -> Floats:
    """The one array, or all of them along a last axis."""
    return parts[0] if len(parts) == 1 else np.stack(parts, axis=-1)


def _everywhere(curve: Floats, observations: Observations) -> Floats:
    """The curvature of each observation, 0 for one without weight."""
    if len(curve) == observations.m:
        return curve
    out = np.zeros(observations.m)
    out[np.asarray(observations.weights) > 0] = curve
    return out
