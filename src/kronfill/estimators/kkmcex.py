"""KKMCEX: Kronecker kernel ridge regression in closed form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self, cast

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from kronfill._types import Floats
from kronfill.data import Observations
from kronfill.errors import ParameterError
from kronfill.estimators.base import (
    Kernels,
    check_mu,
    effects_of,
    resolved,
)
from kronfill.estimators.fitted.axes import Axis
from kronfill.estimators.fitted.bilinear import Basis, Bilinear, Factored, Sections
from kronfill.estimators.fitted.identity_part import IdentityForm, Stacked
from kronfill.estimators.gaussian_process.online import (
    check_unchanged,
    kept_stream,
    more_observations,
    some_entries,
)
from kronfill.estimators.gaussian_process.regressor import (
    GaussianProcessRegressor,
    chosen_mu,
    kept_system,
)
from kronfill.estimators.inputs import check_magnitude, sampled_entries, several_targets
from kronfill.estimators.updates.dual import DualMemory, DualUpdates
from kronfill.kernels.base import Kernel
from kronfill.ridge.effects import AdditiveEffects
from kronfill.ridge.identity_system import FactorPlusIdentity
from kronfill.ridge.problem import RidgeProblem, RidgeResult, Sampled, targets
from kronfill.ridge.trust import vouched
from kronfill.solvers.auto import as_solver
from kronfill.streaming.long_table import is_long_table

__all__ = ["KKMCEX", "fitted_attributes"]


class KKMCEX(GaussianProcessRegressor):
    r"""Kronecker kernel matrix completion and extrapolation, equations (4) to (6).

    Kernel ridge regression of the observed entries with the kernel K_h (x) K_w over entries:

    .. math::
        \min_d \|y - \bar K d\|^2 + \mu\, d^T \bar K d,
        \qquad \bar K = S (K_h \otimes K_w) S^T

    whose solution is d = (Kbar + mu I)^-1 y and F = K_w D K_h, D being the sparse matrix of d.

    Parameters
    ----------
    row_kernel, col_kernel : Kernel or array-like of shape (N, N) and (L, L), optional
        Similarity of rows and of columns: an object of :mod:`kronfill.kernels`, or a symmetric
        positive semidefinite matrix, which is checked. None if nothing is known about an axis: the
        identity, its size taken from the observations.
    mu : float or "auto", default=1.0
        Ridge weight, exactly as in the paper: a sum of squares, no 1/m. "auto" takes the value
        with the smallest leave-one-out error (hold-out error for many observations).
    center : {None, "mean", "rows", "cols", "both"}, default=None
        Unpenalised additive effects that are fitted along: a mean, with row effects, with column
        effects, or with both.
    solver : "auto" or solver object, default="auto"
        Such as ``kf.Cholesky()``, ``kf.GridEigen()``, ``kf.PrimalDirect()``, ``kf.PCG(tol=1e-8)``.

    Attributes
    ----------
    dual_coef_ : ndarray of shape (m,)
        d of equation (5), in the order of the observations given.
    mu_ : float
        The ridge weight used.
    mu_search_ : Search
        With ``mu="auto"``, the trials by which it was chosen; not kept in files.
    mean_, row_effects_, col_effects_ : float, ndarray of shape (N,), ndarray of shape (L,)
        The additive effects; zero without ``center``. Cold rows and columns have effect 0.
    solution_ : Solution
        How the solve went: status, solver, why it was chosen, iterations, residual.
    n_iter_ : int
        Iterations of the solver, 1 for a direct one.
    shape_ : tuple of int
        Size of the matrix.

    See Also
    --------
    RRMCEX : The same on the leading eigenvectors of each kernel.
    KMC : Low-rank factors with kernel penalties.

    Notes
    -----
    Several targets that are observed at the same entries are fitted together by ``fit(X, Y)`` with
    Y of shape (m, t): one factorisation, or one pass over the observations per iteration, serves
    all of them. ``dual_coef_`` and the effects then have a last axis of length t, predictions too,
    and ``solution_`` is a tuple.

    Rows and columns without any observation get what the kernel says for them. With ``center`` the
    effects beta are unknowns of the same least-squares problem: d = A^-1 (y - Z beta) with
    (Z^T A^-1 Z) beta = Z^T A^-1 y, A = Kbar + mu I. Weights w replace mu I by mu W^-1.

    References
    ----------
    P. Gimenez-Febrer, A. Pages-Zamora, G. B. Giannakis, "Generalization error bounds for kernel
    matrix completion and extrapolation", arXiv:1906.08770.

    Examples
    --------
    >>> import numpy as np, kronfill as kf
    >>> towns = kf.kernels.rbf([[0.0], [1.0], [2.0]], length_scale=1.0)
    >>> hours = kf.kernels.rbf([[0.0], [1.0]], length_scale=1.0)
    >>> est = kf.KKMCEX(towns, hours, mu=0.1).fit([[0, 0], [0, 1], [1, 0]], [1.0, 2.0, 3.0])
    >>> est.predict_matrix().round(2)  # the last row was never observed
    array([[1.18, 1.82],
           [2.69, 2.3 ],
           [1.8 , 1.24]])
    >>> est.extrapolate(rows=[[1.5]]).round(2)  # a row that is not in the table
    array([[2.52, 1.89]])
    """

    dual_coef_: Floats

    def __init__(
        self,
        row_kernel: Any = None,
        col_kernel: Any = None,
        mu: Any = 1.0,
        center: Any = None,
        solver: Any = "auto",
    ) -> None:
        self.row_kernel = row_kernel
        self.col_kernel = col_kernel
        self.mu = mu
        self.center = center
        self.solver = solver

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        kernels = self._validated_sides()
        if is_long_table(X):
            return self._fit_long_table(kernels, X, y, sample_weight)
        several = several_targets(y)
        first = y if several is None else several[:, 0]
        observations = self._observations(X, first, sample_weight, kernels)
        values = observations.values if several is None else several
        check_magnitude(values, observations.weights)
        if several is not None and self.mu == "auto":
            msg = 'mu="auto" chooses for one target at a time; give a number, or fit one by one.'
            raise ParameterError(msg)

        with self._fitting(observations.m):
            sampled = sampled_entries(observations, self.center)
            if several is not None:
                weights = observations.weights
                sampled = replace(
                    sampled, values=several if weights is None else several[weights > 0]
                )
            problem = self._problem(resolved(kernels, observations.shape), sampled, 1.0)
            choice = chosen_mu(self.mu, problem)
            problem = problem.with_mu(choice["mu_"])
            solver = as_solver(self.solver)
            found = [solver.solve(problem)] if several is None else solver.solve_targets(problem)
            results = [
                vouched(one, result, solver.quiet().solve)
                for one, result in zip(targets(problem), found, strict=True)
            ]
            fitted = fitted_attributes(problem, results, observations)

        for result in results:
            result.solution.warn()
        system = kept_system(fitted["_model"], results)
        sides = {"_kernels": kernels}
        return self._publish(X, observations, sides, **choice, **fitted, _kept_system=system)

    def _validated_sides(self) -> Kernels:
        check_mu(self.mu)
        as_solver(self.solver)
        return self._validated_kernels()

    def _problem(self, kernels: tuple[Kernel, Kernel], sampled: Sampled, mu: float) -> RidgeProblem:
        return RidgeProblem(*kernels, sampled, mu)

    def _factor_bases(self, kernels: tuple[Kernel, Kernel]) -> tuple[Basis, Basis]:
        made = []
        for kernel, name in zip(kernels, ("row_kernel", "col_kernel"), strict=True):
            split = FactorPlusIdentity.of(kernel)
            if split.identity:
                msg = (
                    f"{name} has an identity part, which takes one unknown per item and inner "
                    "mode; a long table is fitted in the space of low-rank factors. Leave it out, "
                    "or fit an Observations."
                )
                raise ParameterError(msg)
            made.append(Factored(kernel, split.factor))
        return made[0], made[1]

    # The fit, taken apart.

    def _bilinear(self) -> Bilinear:
        if isinstance(self._model, Bilinear):
            return self._model
        dual = self._dual()  # several targets are refused there
        assert isinstance(self._model, IdentityForm)
        sampled = sampled_entries(self.observations_, None)
        return _in_sections(*self._model.kernels, sampled, dual, self._model.row_part.effects)

    def _priors(self) -> tuple[Axis, Axis]:
        row, col = resolved(self._kernels, self.shape_)
        return Axis(row), Axis(col)

    def _dual(self) -> Floats:
        if self.dual_coef_.ndim > 1:
            msg = (
                f"This needs one target; the estimator was fitted to {self.dual_coef_.shape[1]} at "
                "once. Fit the target in question alone."
            )
            raise ParameterError(msg)
        weights = self.observations_.weights
        return self.dual_coef_ if weights is None else self.dual_coef_[weights > 0]

    # Observations that come and go.

    def _updates(self) -> DualUpdates:
        dual = self._dual()  # several targets are refused there
        self._stream = kept_stream(self) or DualMemory(self._model, self.center)
        return DualUpdates(
            resolved(self._kernels, self.shape_),
            self.observations_,
            self.mu_,
            self.center,
            as_solver(self.solver),
            self.solution_.solver,
            (dual, self._effects()),
            self._stream,
            self._dual_factor(),
        )

    def _renew(self, updates: DualUpdates, found: Any = None) -> None:
        fitted = fitted_attributes(found.problem, [found.result], found.observations)
        self.__dict__.update(fitted, observations_=found.observations)
        updates.memory.form = self._model

    def forget(self, X: Any) -> Self:
        """Remove observations; the result is that of a fit to the others.

        Parameters
        ----------
        X : array-like of shape (k, 2) or Observations
            Row and column index of each entry to remove.

        Returns
        -------
        self

        Examples
        --------
        >>> import kronfill as kf
        >>> est = kf.KKMCEX([[1.0, 0.5], [0.5, 1.0]]).fit([[0, 0], [1, 0]], [2.0, 4.0])
        >>> est.forget([[1, 0]]).predict_matrix()
        array([[1. ],
               [0.5]])
        """
        check_is_fitted(self)
        check_unchanged(self)
        rows, cols = (X.rows, X.cols) if isinstance(X, Observations) else some_entries(self, X)
        return self._update(lambda updates: updates.forget(rows, cols))

    def revise(self, X: Any, y: Any = None) -> Self:
        """Correct values; the result is that of a fit to the corrected ones.

        Parameters
        ----------
        X : array-like of shape (k, 2) or Observations
            Row and column index of each entry to correct.
        y : array-like of shape (k,), optional
            The values that they should have had; their weights stay.

        Returns
        -------
        self

        Examples
        --------
        >>> import kronfill as kf
        >>> est = kf.KKMCEX([[1.0, 0.5], [0.5, 1.0]]).fit([[0, 0]], [9.0])
        >>> est.revise([[0, 0]], [2.0]).predict_matrix()
        array([[1. ],
               [0.5]])
        """
        check_is_fitted(self)
        check_unchanged(self)
        new = more_observations(self, X, y, None)
        return self._update(lambda updates: updates.revise(new))


def fitted_attributes(
    problem: RidgeProblem, results: Sequence[RidgeResult], observations: Observations
) -> dict[str, Any]:
    """What is published of the solutions: one for each target, several along a last axis."""
    fits = [_target_attributes(problem, result, observations) for result in results]
    if len(fits) == 1:
        return fits[0]
    joined: dict[str, Any] = {
        name: np.stack([fit[name] for fit in fits], axis=-1)
        for name in ("dual_coef_", "mean_", "row_effects_", "col_effects_")
    }
    joined["solution_"] = tuple(fit["solution_"] for fit in fits)
    joined["n_iter_"] = max(fit["n_iter_"] for fit in fits)
    joined["_model"] = Stacked(tuple(fit["_model"] for fit in fits))
    return joined


def _target_attributes(
    problem: RidgeProblem, result: RidgeResult, observations: Observations
) -> dict[str, Any]:
    dual = result.dual
    if len(dual) < observations.m:  # entries of weight 0 have no part in the sum
        dual = np.zeros(observations.m)
        dual[np.asarray(observations.weights) > 0] = result.dual
    return {
        "dual_coef_": dual,
        **effects_of(result.effects, observations.shape),
        "solution_": result.solution,
        "n_iter_": max(1, result.solution.iterations),
        "_model": _form(problem, result),
    }


def _form(problem: RidgeProblem, result: RidgeResult) -> Bilinear | IdentityForm:
    """F as a function of row and column."""
    row, col = cast("tuple[Kernel, Kernel]", (problem.row_kernel, problem.col_kernel))
    sampled, effects = problem.sampled, result.effects
    if result.with_identity is not None:
        return IdentityForm.of((row, col), result.with_identity, sampled, result.dual, effects)
    if result.primal is not None:
        p = result.primal
        bases = Factored(row, p.row), Factored(col, p.col)
        return Bilinear(*bases, p.core, effects, sampled.shape)
    return _in_sections(row, col, sampled, result.dual, effects)


def _in_sections(
    row_kernel: Kernel,
    col_kernel: Kernel,
    sampled: Sampled,
    dual: Floats,
    effects: AdditiveEffects | None,
) -> Bilinear:
    """F = K_w D K_h: only rows and columns with observations enter."""
    items_r, at_r = np.unique(sampled.rows, return_inverse=True)
    items_c, at_c = np.unique(sampled.cols, return_inverse=True)
    core = sp.csr_array((dual, (at_r, at_c)), shape=(len(items_r), len(items_c)))
    left, right = Sections(row_kernel, items_r), Sections(col_kernel, items_c)
    return Bilinear(left, right, core, effects, sampled.shape)
