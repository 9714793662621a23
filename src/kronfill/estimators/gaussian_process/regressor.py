"""KKMCEX and RRMCEX as Gaussian processes: what both can do beyond predicting.

Both are the posterior mean of a Gaussian process over entries. How sure a prediction is
(``posterior``), where it comes from (``explain``), what to measure next (``suggest``), observations
that keep arriving (``online``) and tables that are not in memory (``estimators.longtables``) have a
module each; here are the methods that call them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from kronfill._types import Floats, Index
from kronfill.core.memory import Kept
from kronfill.criteria.exact import search_mu
from kronfill.data import Observations
from kronfill.errors import ParameterError
from kronfill.estimators.base import (
    KernelRegressor,
    Kernels,
    check_rank,
    effects_of,
    fitted_form,
    index_pairs,
    resolved,
    validated,
    validated_sides,
)
from kronfill.estimators.fitted.axes import Axis
from kronfill.estimators.fitted.bilinear import Basis, Bilinear
from kronfill.estimators.gaussian_process.explain import Explanation, explanation
from kronfill.estimators.gaussian_process.online import (
    check_start,
    check_unchanged,
    item_entries,
    more_observations,
)
from kronfill.estimators.gaussian_process.posterior import GaussianProcess
from kronfill.estimators.gaussian_process.suggest import Suggestion, suggestion
from kronfill.estimators.inputs import (
    check_largest,
    positions,
    sampled_entries,
    several_targets,
)
from kronfill.estimators.longtables import (
    fit_long_table,
    open_table,
    predict_frame,
    table_axes,
    without_observations,
)
from kronfill.kernels.base import Kernel
from kronfill.ridge.effects import AdditiveEffects
from kronfill.ridge.factorised import Factorised, SolvedSystem
from kronfill.ridge.problem import RidgeProblem, RidgeResult, Sampled
from kronfill.streaming.long_table import is_frame

__all__ = [
    "GaussianProcessRegressor", "gaussian_process", "kept_system", "posed_problem", "table_factors",
]  # fmt: skip

AXES = ("row", "col")
OF_OBSERVATIONS = ("observations_", "dual_coef_")
"""What a fit sets only to observations in memory."""


class GaussianProcessRegressor(KernelRegressor):
    """A method that is the posterior mean of a Gaussian process over entries."""

    mu: Any
    center: Any
    solver: Any
    _stream: Any
    """What the last update left to go on from; ``form`` is the fitted form that it belongs to."""
    mean_: float
    row_effects_: Floats
    col_effects_: Floats

    # What a method has to say.

    @abstractmethod
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit to observed entries.

        Parameters
        ----------
        X : array-like of shape (m, 2), Observations, path, pyarrow data set or Dask DataFrame
            Row and column index of each observed entry, the observations themselves, or a long
            table of them: Parquet files (a path, a folder, a pattern such as ``"big/*.parquet"``, a
            ``pyarrow.dataset``) or a Dask DataFrame. A long table has a row, a column and a value
            on each line, in its first three columns; rows and columns are integer codes, or the
            labels of a kernel that was made from a table with an index. It is never held in memory
            as a whole: see :class:`~kronfill.solvers.Streamed` and
            :class:`~kronfill.solvers.Distributed`. ``mu="auto"`` chooses on a sample of 100,000
            lines.
        y : array-like of shape (m,), optional
            Observed values; left out when ``X`` is an :class:`~kronfill.Observations`. KKMCEX also
            takes several targets, shape (m, t), and solves for them together. For a long table the
            name of the column with the values.
        sample_weight : array-like of shape (m,), optional
            How much each entry counts. The objective is sum of w (y - f)^2 plus the penalty. For a
            long table the name of the column with the weights.

        Returns
        -------
        self
        """

    @abstractmethod
    def _problem(self, kernels: tuple[Kernel, Kernel], sampled: Sampled, mu: float) -> RidgeProblem:
        """The ridge problem that is solved."""

    @abstractmethod
    def _priors(self) -> tuple[Axis, Axis]:
        """What each axis says before anything is observed."""

    @abstractmethod
    def _dual(self) -> Floats:
        """d, one number for each observation: mu d = w (y - prediction)."""

    @abstractmethod
    def _factor_bases(self, kernels: tuple[Kernel, Kernel]) -> tuple[Basis, Basis]:
        """What Phi is on each axis where the method is fitted in factor space."""

    def _table_attributes(self, form: Bilinear) -> dict[str, Any]:
        """What a fit to a long table sets besides."""
        return {}

    def _begin(self) -> None:
        """Called after the first observations of a stream were fitted to."""

    @abstractmethod
    def _updates(self) -> Any:
        """The way to let observations come and go: ``add``, ``fold_in`` and what a method adds."""

    @abstractmethod
    def _renew(self, updates: Any, found: Any = None) -> None:
        """Take the solution that an update has found in place of the last one."""

    # Tables that are not in memory.

    def _fit_long_table(self, kernels: Kernels, X: Any, y: Any, sample_weight: Any) -> Self:
        """Fit to a long table with kernels that were checked."""
        table = open_table((X, y, sample_weight), kernels, self.center, self.solver)
        self.__dict__.pop("_model", None)  # a fit that fails from here on leaves nothing half new
        known = resolved(kernels, (table.axes[0].size, table.axes[1].size))
        found = fit_long_table(table, self._factor_bases(known), self.mu)
        form = found.form
        found.solution.warn(stacklevel=4)
        return self._set(
            _kernels=kernels,
            shape_=form.shape,
            n_features_in_=2,
            mu_=found.mu,
            **effects_of(form.effects, form.shape),
            solution_=found.solution,
            n_iter_=max(1, found.solution.iterations),
            _model=form,
            **self._table_attributes(form),
            _from_table=True,
        )

    def predict(self, X: Any) -> Any:
        """Predict values at index pairs.

        Parameters
        ----------
        X : array-like of shape (t, 2), Observations or Dask DataFrame
            Row and column index of each entry asked for. A Dask DataFrame has them, or their
            labels, in its first two columns.

        Returns
        -------
        ndarray of shape (t,), or Dask Series
            A Dask DataFrame is predicted where its partitions are.
        """
        if not is_frame(X):
            return super().predict(X)
        check_is_fitted(self)
        return predict_frame(X, self._model, table_axes(self.shape_, self._kernels))

    def __getattr__(self, name: str) -> Any:
        msg = f"{type(self).__name__!r} object has no attribute {name!r}"
        # A property that asks for observations ends here too.
        if name in OF_OBSERVATIONS or hasattr(type(self), name):
            why = without_observations(self)
            msg += why and (
                f": {why}. Predictions need nothing else; for what asks for single observations "
                "fit a part of them as an Observations."
            )
        raise AttributeError(msg)

    # How sure a prediction is.

    def _gaussian_process(self) -> GaussianProcess:
        sampled = sampled_entries(self.observations_, self.center)
        fitted = self._model.pairs(sampled.rows, sampled.cols)
        core = self._model.core if isinstance(self._model, Bilinear) else None
        if isinstance(core, np.ndarray):
            norm = float(np.vdot(core, core))
        else:
            norm = float(self._dual() @ (fitted - self._effects().at(sampled.rows, sampled.cols)))
        rest = sampled.root_weights * (sampled.values - fitted)
        # Taken from the objective and not as y^T d, the error of an iterative solve enters squared.
        least = float(rest @ rest) / self.mu_ + norm
        system = self._solved_system()
        return GaussianProcess(self._priors(), sampled, self.mu_, self.center, least, system=system)

    def _solved_system(self) -> Kept[SolvedSystem] | None:
        """The system of the last fit, if that has factorised it."""
        kept = vars(self).get("_kept_system")
        return kept[1] if kept is not None and kept[0] is self._model else None

    def _dual_factor(self) -> Factorised | None:
        kept = self._solved_system()
        return None if kept is None or kept.value is None else kept.value.dual

    def _effects(self) -> AdditiveEffects:
        return AdditiveEffects(self.mean_, self.row_effects_, self.col_effects_)

    def __getstate__(self) -> Any:
        state = dict(super().__getstate__())  # scikit-learn hands out the attributes themselves
        for name in ("_kept_process", "_kept_system", "_stream"):  # large, and soon made again
            state.pop(name, None)
        return state

    @property
    def signal_variance_(self) -> float:
        """s^2 = y^T (Kbar + mu I)^-1 y / m: the scale at which the kernel explains the data.

        With effects and weights it is y^T M y / (m - r) with A = Kbar + mu W^-1,
        M = A^-1 - A^-1 Z (Z^T A^-1 Z)^-1 Z^T A^-1 and r the number of independent effects
        (restricted maximum likelihood). NaN where the effects take up every observation.
        """
        return gaussian_process(self).signal_variance

    @property
    def noise_variance_(self) -> float:
        """s^2 mu: variance of the noise of an observation of weight 1."""
        return self.signal_variance_ * self.mu_

    def predict_std(self, X: Any) -> Floats:
        """Standard deviation of the latent values at index pairs.

        Parameters
        ----------
        X : array-like of shape (t, 2) or Observations
            Row and column index of each entry asked for.

        Returns
        -------
        ndarray of shape (t,)
            Without the noise, of which the variance is ``noise_variance_``. Infinite where the
            entry has an unpenalised effect that no observation determines.

        Notes
        -----
        s^2 (k - k^T (Kbar + mu I)^-1 k), s^2 being ``signal_variance_``; unpenalised effects add
        what is not known about them. Exact, by a factorisation of the smaller of the dual and the
        primal system, up to 6,000 unknowns; beyond, each entry is an iterative solve.

        Examples
        --------
        >>> import kronfill as kf
        >>> days = kf.kernels.rbf([[0.0], [1.0], [9.0]], length_scale=1.0)
        >>> est = kf.KKMCEX(days, None, mu=0.1).fit([[0, 0], [1, 0]], [1.0, 2.0])
        >>> est.predict_std([[0, 0], [1, 0], [2, 0]]).round(2)  # the last day is far away
        array([0.4 , 0.4 , 1.35])
        """
        check_is_fitted(self)
        rows, cols = index_pairs(self, X)
        process = gaussian_process(self)
        return process.std(process.targets(rows, cols))

    def extrapolate_std(self, rows: Any = None, cols: Any = None) -> Floats:
        """Standard deviation of the latent values of rows and columns that are not in the table.

        Parameters
        ----------
        rows, cols : object, optional
            What is known about the new rows (columns), as for :meth:`extrapolate`. A kernel that
            was given as a matrix wants the pair (similarities, similarity of each new item with
            itself), or a data frame with a column for each new item beside those of the known ones.
            None stands for all the rows (columns) that are in the table.

        Returns
        -------
        ndarray of shape (k, l)
            As for :meth:`predict_std`.

        Examples
        --------
        >>> import kronfill as kf
        >>> days = kf.kernels.rbf([[0.0], [1.0]], length_scale=1.0)
        >>> est = kf.KKMCEX(days, None, mu=0.1).fit([[0, 0], [1, 0]], [1.0, 2.0])
        >>> est.extrapolate_std(rows=[[0.5], [9.0]]).round(2)
        array([[0.4 ],
               [1.35]])
        """
        process = gaussian_process(self)
        targets, shape = process.block(rows, cols)
        return process.std(targets).reshape(shape)

    def sample_posterior(
        self, rows: Any = None, cols: Any = None, n_samples: int = 1, random_state: Any = 0
    ) -> Floats:
        """Joint samples of the latent values of a block.

        Parameters
        ----------
        rows, cols : array-like of int, optional
            Indices of the rows and columns of the block; all by default.
        n_samples : int, default=1
            Number of samples.
        random_state : int, Generator or None, default=0
            Seed.

        Returns
        -------
        ndarray of shape (n_samples, len(rows), len(cols))

        Notes
        -----
        Blocks of up to 2,000 entries are drawn from their covariance; larger ones, and all where
        the system is too large for a factorisation, by Matheron's rule, one solve per sample. To
        sample rows that are not in the table, put them into the kernel as rows without
        observations.

        Examples
        --------
        >>> import kronfill as kf
        >>> days = kf.kernels.rbf([[0.0], [1.0], [9.0]], length_scale=1.0)
        >>> est = kf.KKMCEX(days, None, mu=0.1).fit([[0, 0], [1, 0]], [1.0, 2.0])
        >>> est.sample_posterior(n_samples=500).std(axis=0).shape
        (3, 1)
        """
        process = gaussian_process(self)
        check_rank(n_samples, "n_samples")
        at_r, at_c = _all_or(rows, self.shape_[0], "row"), _all_or(cols, self.shape_[1], "column")
        mean = self.predict_matrix(at_r, at_c)
        return process.sample(mean, at_r, at_c, n_samples, random_state)

    # Where a prediction comes from, and what to measure next.

    def explain(self, row: Any, col: Any, top: int = 10) -> Explanation:
        """Say which observations a prediction comes from, and how much of it.

        Parameters
        ----------
        row, col : int or label
            The entry: its labels, if the method was fitted to observations with labels, else its
            indices.
        top : int, default=10
            How many observations to list.

        Returns
        -------
        Explanation

        Notes
        -----
        f(i, j) = sum_k d_k K_w[i, r_k] K_h[j, c_k], plus effects. For RRMCEX the kernel is that of
        the leading eigenvectors, Phi Phi^T. A contribution may be negative: an observation lowers
        its neighbours where it lies below what the others make one expect.

        d_k is the residual of observation k divided by mu (times its weight). Where mu is small
        beside the kernel, as it is when there is little noise, the terms are large numbers of both
        signs that cancel: they add up, and explain nothing one by one. The explanation says so
        (``cancels``, ``cancellation``). A larger mu makes the terms smaller; what an observation
        does to the prediction shows when it is left out (``forget``, or a fit to the others).

        Examples
        --------
        >>> import kronfill as kf
        >>> days = kf.kernels.rbf([[0.0], [1.0], [9.0]], length_scale=1.0)
        >>> est = kf.KKMCEX(days, None, mu=0.1).fit([[0, 0], [1, 0]], [1.0, 2.0])
        >>> est.explain(1, 0)
        Prediction 1.811 at (1, 0)
              +1.892  from (1, 0), observed 2
            -0.08143  from (0, 0), observed 1
        """
        process = gaussian_process(self)
        check_rank(top, "top")
        return explanation(
            process, self._dual(), self._effects(), self.observations_, (row, col), top
        )

    def suggest(
        self,
        n: int,
        candidates: Any = None,
        cost: Any = None,
        method: str = "variance",
        random_state: Any = 0,
    ) -> Suggestion:
        """Choose the entries whose observation would most reduce uncertainty.

        Parameters
        ----------
        n : int
            How many entries.
        candidates : array-like of shape (c, 2), optional
            The entries to choose from, not observed yet; all that are not by default.
        cost : array-like of shape (c,) or (N, L), optional
            What it costs to measure each candidate (each entry of the table); 1 by default. Entries
            are chosen by what they bring per unit of cost.
        method : {"variance", "leverage"}, default="variance"
            "variance" takes one entry after the other, each time the one that takes most off the
            total variance of all entries not observed, given those taken before. "leverage" draws
            entries at random in proportion to their ridge leverage scores, from the numbers of
            observations in rows and columns alone: cheap at any size.
        random_state : int, Generator or None, default=0
            Seed of "leverage", and of the entries looked at in a large table.

        Returns
        -------
        Suggestion

        Notes
        -----
        Reducing the *total* variance is preferred to taking the most uncertain entry: the most
        uncertain ones are often those that have nothing to do with any other. The values observed
        so far do not matter, only where they are. Where more than 10,000 entries are not observed,
        10,000 candidates are drawn, and 1,000 entries stand for all in the total variance; 300 and
        100 where the system is too large for a factorisation and each of them is a solve.

        With row or column effects, entries of infinite variance come first: those that make the
        effects of most entries known.

        Examples
        --------
        >>> import numpy as np, kronfill as kf
        >>> days = kf.kernels.rbf(np.arange(5.0), length_scale=1.0)
        >>> est = kf.KKMCEX(days, None, mu=0.1).fit([[0, 0]], [1.0])
        >>> np.asarray(est.suggest(2))
        array([[3, 0],
               [2, 0]])
        """
        process = gaussian_process(self)
        check_rank(n, "n")
        pairs = None if candidates is None else index_pairs(self, candidates)
        return suggestion(process, self.observations_, n, pairs, cost, method, random_state)

    # Observations that keep arriving.

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Add observations; the result is that of a fit to all of them so far.

        Parameters
        ----------
        X : array-like of shape (k, 2) or Observations
            Row and column index of each new entry. The first call fixes the size of the matrix,
            as :meth:`fit` does.
        y : array-like of shape (k,), optional
            Their values; left out when ``X`` is an :class:`~kronfill.Observations`. One target.
        sample_weight : array-like of shape (k,), optional
            How much each entry counts.

        Returns
        -------
        self

        Notes
        -----
        On an estimator that is not fitted it starts a fit; after :meth:`fit` it goes on from there.
        ``mu="auto"`` is chosen from the observations of the first call (or of the fit), and kept:
        a first call needs at least 20 of them then. An entry that is observed already is an error
        for KKMCEX; RRMCEX keeps no entries, and counts it as one more measurement. See
        ``docs/online.md`` for costs and accuracy.

        Examples
        --------
        >>> import kronfill as kf
        >>> days = kf.kernels.rbf([[0.0], [1.0], [2.0]], length_scale=1.0)
        >>> est = kf.KKMCEX(days, None, mu=0.1).partial_fit([[0, 0]], [1.0])
        >>> est.partial_fit([[1, 0]], [2.0]).predict([[2, 0]]).round(3)
        array([1.13])
        >>> est.fit([[0, 0], [1, 0]], [1.0, 2.0]).predict([[2, 0]]).round(3)
        array([1.13])
        """
        if several_targets(y) is not None:
            msg = (
                f"partial_fit takes one target at a time, got y of shape {np.shape(y)}; fit takes "
                "several, or make one estimator for each."
            )
            raise ParameterError(msg)
        if not self.__sklearn_is_fitted__():
            check_start(self, X)
            self.fit(X, y, sample_weight)
            self._begin()
            return self
        check_unchanged(self)
        new = more_observations(self, X, y, sample_weight)
        check_largest(new.values, new.weights)
        return self._update(lambda updates: updates.add(new))

    def _update(self, change: Callable[[Any], Any]) -> Self:
        """Let observations come or go."""
        updates = self._updates()
        self._renew(updates, change(updates))
        self.solution_.warn(stacklevel=4)
        return self

    def fold_in(
        self, item: Any, index: Any, values: Any, axis: str = "row", sample_weight: Any = None
    ) -> Floats:
        """Predict a new row (or column) of which a few entries were observed; nothing is refitted.

        Parameters
        ----------
        item : object
            What is known about the new row, one item, as for :meth:`extrapolate`: its features, or
            its similarities with the rows of the table. KKMCEX with a kernel that was given as a
            matrix wants the pair (similarities, similarity with itself), as for
            :meth:`extrapolate_std`.
        index : array-like of int, shape (k,)
            The columns at which it was observed, each once; k may be 0.
        values : array-like of shape (k,)
            What was observed there.
        axis : {"row", "col"}, default="row"
            "col" for a new column; ``index`` are rows then.
        sample_weight : array-like of shape (k,), optional
            How much each observation counts.

        Returns
        -------
        ndarray of shape (L,), or (N,) for a column
            The whole new row, effects included: what a fit to all observations would predict if the
            row had been in the table.

        Notes
        -----
        The model is not changed. KKMCEX solves the bordered system exactly, up to 3,000
        observations and with ``solver=kf.Cholesky()``; beyond, by conjugate gradients from the
        present solution, as accurate as ``solver`` asks. RRMCEX adds the observations to its sums
        in the present eigenvectors, exactly; with the row in the table the eigenvectors themselves
        would be slightly different ones.

        Examples
        --------
        >>> import kronfill as kf
        >>> towns = kf.kernels.rbf([[0.0], [1.0]], length_scale=1.0)
        >>> hours = kf.kernels.rbf([[0.0], [1.0], [2.0]], length_scale=1.0)
        >>> est = kf.KKMCEX(towns, hours, mu=0.1).fit([[0, 0], [1, 2]], [1.0, 2.0])
        >>> est.extrapolate(rows=[[0.5]])[0].round(2)  # from the other towns alone
        array([0.9 , 1.36, 1.65])
        >>> est.fold_in([[0.5]], [0, 1], [1.0, 3.0]).round(2)  # two hours were observed there
        array([1.09, 2.71, 2.09])
        """
        check_is_fitted(self)
        if axis not in AXES:
            msg = f"axis must be 'row' or 'col', got {axis!r}."
            raise ParameterError(msg)
        at = AXES.index(axis)
        check_unchanged(self)
        other = (self.shape_[1 - at], "column" if at == 0 else "row")
        where, y, weights = item_entries(index, values, sample_weight, *other)
        return np.asarray(self._updates().fold_in(item, where, y, weights, at))


def _all_or(items: Any, size: int, axis: str) -> Index:
    """The positions given, all by default."""
    index = positions(items, size, axis)
    return np.arange(size) if index is None else index


def chosen_mu(mu: Any, problem: RidgeProblem) -> dict[str, Any]:
    """The ridge weight as attributes: as given, or with the search by which "auto" found it."""
    if mu != "auto":
        return {"mu_": float(mu)}
    search = search_mu(problem)
    return {"mu_": search.mu, "mu_search_": search}


def kept_system(form: Any, results: Sequence[RidgeResult]) -> tuple[Any, Kept[SolvedSystem]] | None:
    """What the solver has factorised, for as long as this fitted form is the last one."""
    system = results[0].system if len(results) == 1 else None
    return None if system is None else (form, Kept(system, system.factor.nbytes))


# What other modules may ask of such a method.


def gaussian_process(estimator: GaussianProcessRegressor) -> GaussianProcess:
    """The fit as a Gaussian process, made on first use."""
    check_is_fitted(estimator)
    kept = vars(estimator).get("_kept_process")
    form = fitted_form(estimator)
    if kept is None or kept[0] is not form:
        kept = estimator._kept_process = (form, estimator._gaussian_process())
    process: GaussianProcess = kept[1]
    return process


def posed_problem(
    estimator: GaussianProcessRegressor, X: Any, y: Any = None, sample_weight: Any = None
) -> tuple[Observations, RidgeProblem]:
    """The observations and the problem that ``fit`` would make of its arguments, with mu = 1."""
    kernels, observations = validated(estimator, X, y, sample_weight)
    sampled = sampled_entries(observations, estimator.center)
    known = resolved(kernels, observations.shape)
    return observations, estimator._problem(known, sampled, 1.0)


def table_factors(
    estimator: GaussianProcessRegressor, shape: tuple[int, int]
) -> tuple[Floats, Floats]:
    """The two factors in which a method would be fitted to a long table of this shape."""
    bases = estimator._factor_bases(resolved(validated_sides(estimator), shape))
    row, col = (basis.known(None) for basis in bases)
    return row, col
