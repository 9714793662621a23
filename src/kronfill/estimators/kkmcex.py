"""KKMCEX: Kronecker kernel ridge regression in closed form."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from kronfill._types import Floats
from kronfill.criteria.exact import best_mu
from kronfill.data import Observations
from kronfill.errors import ParameterError
from kronfill.estimators.base import MatrixRegressor, check_mu, resolve_kernel
from kronfill.estimators.fitted.bilinear import Basis, Bilinear, Factored, Sections
from kronfill.estimators.fitted.identity_part import IdentityForm, Stacked
from kronfill.estimators.fitted.priors import AxisPrior, KernelPrior
from kronfill.estimators.longtables import LongTables
from kronfill.estimators.suggest import Suggesting
from kronfill.estimators.updates.dual import OnlineDual
from kronfill.kernels import as_kernel
from kronfill.kernels.base import Kernel
from kronfill.ridge.effects import AdditiveEffects
from kronfill.ridge.identity_system import FactorPlusIdentity
from kronfill.ridge.problem import RidgeProblem, RidgeResult, Sampled
from kronfill.ridge.problem import targets as each
from kronfill.ridge.trust import vouched
from kronfill.solvers.auto import as_solver

__all__ = ["KKMCEX"]

_PER_TARGET = (
    "dual_coef_", "mean_", "row_effects_", "col_effects_", "solution_", "n_iter_", "_model"
)  # fmt: skip


class KernelRegressor(MatrixRegressor):
    """A method with one kernel per axis."""

    row_kernel: Any
    col_kernel: Any

    def _axis_sizes(self) -> tuple[int | None, int | None]:
        # Kernels are checked here, once per fit, before anything else is done.
        row = None if self.row_kernel is None else as_kernel(self.row_kernel, "row_kernel")
        if self.col_kernel is self.row_kernel:
            col = row
        else:
            col = None if self.col_kernel is None else as_kernel(self.col_kernel, "col_kernel")
        self._kernels = (row, col)
        return None if row is None else row.n, None if col is None else col.n

    def _resolved(self) -> tuple[Kernel, Kernel]:
        row, col = self._kernels
        return (
            resolve_kernel(row, self.shape_[0], "row_kernel"),
            resolve_kernel(col, self.shape_[1], "col_kernel"),
        )


class KKMCEX(OnlineDual, LongTables, KernelRegressor, Suggesting):
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

    solution_: Any

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

    def _axis_sizes(self) -> tuple[int | None, int | None]:
        check_mu(self.mu)
        as_solver(self.solver)
        return super()._axis_sizes()

    def _fit(self, observations: Observations) -> None:
        row_kernel, col_kernel = self._resolved()
        sampled = self._sampled(observations, self.center)
        problem = RidgeProblem(row_kernel, col_kernel, sampled, 1.0)
        self.mu_ = best_mu(problem) if self.mu == "auto" else float(self.mu)
        problem = RidgeProblem(row_kernel, col_kernel, sampled, self.mu_)
        solver = as_solver(self.solver)
        result = vouched(problem, solver.solve(problem), solver.quiet().solve)
        self._publish(sampled, result, observations)
        self.solution_.warn()

    def _publish(self, sampled: Sampled, result: RidgeResult, observations: Observations) -> None:
        self._set_result(result, observations)
        self._model = _model(*self._resolved(), sampled, result)
        self._keep_system(result)

    def _table_bases(self) -> tuple[Basis, Basis]:
        made = []
        for kernel, name in zip(self._resolved(), ("row_kernel", "col_kernel"), strict=True):
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

    def _fit_several(self, observations: Observations, targets: Floats) -> None:
        if self.mu == "auto":
            msg = 'mu="auto" chooses for one target at a time; give a number, or fit one by one.'
            raise ParameterError(msg)
        row_kernel, col_kernel = self._resolved()
        sampled = self._sampled(observations, self.center)
        if observations.weights is not None:
            targets = targets[observations.weights > 0]
        self.mu_ = float(self.mu)
        problem = RidgeProblem(row_kernel, col_kernel, replace(sampled, values=targets), self.mu_)
        fits = []
        solver = as_solver(self.solver)
        for one, found in zip(each(problem), solver.solve_targets(problem), strict=True):
            result = vouched(one, found, solver.quiet().solve)
            self._set_result(result, observations)
            self._model = _model(row_kernel, col_kernel, sampled, result)
            self.solution_.warn()
            fits.append({name: vars(self)[name] for name in _PER_TARGET})
        for name in ("dual_coef_", "mean_", "row_effects_", "col_effects_"):
            setattr(self, name, np.stack([fit[name] for fit in fits], axis=-1))
        self.solution_ = tuple(fit["solution_"] for fit in fits)
        self.n_iter_ = max(fit["n_iter_"] for fit in fits)
        self._model = Stacked(tuple(fit["_model"] for fit in fits))

    def _bilinear(self) -> Bilinear:
        if isinstance(self._model, Bilinear):
            return self._model
        dual = self._dual()  # several targets are refused there
        assert isinstance(self._model, IdentityForm)
        sampled = self._sampled(self.observations_, None)
        return _in_sections(*self._model.kernels, sampled, dual, self._model.row_part.effects)

    def _priors(self) -> tuple[AxisPrior, AxisPrior]:
        row, col = self._resolved()
        return KernelPrior(row), KernelPrior(col)

    def _dual(self) -> Floats:
        if self.dual_coef_.ndim > 1:
            msg = (
                f"This needs one target; the estimator was fitted to {self.dual_coef_.shape[1]} at "
                "once. Fit the target in question alone."
            )
            raise ParameterError(msg)
        weights = self.observations_.weights
        return self.dual_coef_ if weights is None else self.dual_coef_[weights > 0]

    def _set_result(self, result: RidgeResult, observations: Observations) -> None:
        self.dual_coef_ = result.dual
        if len(result.dual) < observations.m:  # entries of weight 0 have no part in the sum
            self.dual_coef_ = np.zeros(observations.m)
            self.dual_coef_[np.asarray(observations.weights) > 0] = result.dual
        set_effects(self, result.effects)
        self.solution_ = result.solution
        self.n_iter_ = max(1, result.solution.iterations)


def set_effects(estimator: Any, effects: Any) -> None:
    """Set mean_, row_effects_ and col_effects_."""
    n, l = estimator.shape_
    estimator.mean_ = 0.0 if effects is None else effects.mean
    estimator.row_effects_ = np.zeros(n) if effects is None else effects.row
    estimator.col_effects_ = np.zeros(l) if effects is None else effects.col


def _model(
    row_kernel: Kernel, col_kernel: Kernel, sampled: Sampled, result: RidgeResult
) -> Bilinear | IdentityForm:
    if result.with_identity is not None:
        kernels = (row_kernel, col_kernel)
        return IdentityForm.of(kernels, result.with_identity, sampled, result.dual, result.effects)
    if result.primal is not None:
        p = result.primal
        row, col = Factored(row_kernel, p.row), Factored(col_kernel, p.col)
        return Bilinear(row, col, p.core, result.effects, sampled.shape)
    return _in_sections(row_kernel, col_kernel, sampled, result.dual, result.effects)


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
