"""BayesianKMC: low-rank factors with their uncertainty; nothing to choose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakKeyDictionary

import numpy as np
from sklearn.utils.validation import check_is_fitted

from kronfill._types import Floats, Index
from kronfill.core.limits import FACTOR_RTOL
from kronfill.core.low_rank import LowRankFactor
from kronfill.core.memory import Kept, require_memory
from kronfill.data import Observations
from kronfill.errors import ParameterError
from kronfill.estimators.base import KernelRegressor, Kernels, check_rank, index_pairs, resolved
from kronfill.estimators.factorised import SMALL
from kronfill.estimators.fitted.bilinear import Bilinear
from kronfill.estimators.fitted.identity_part import SmoothBasis
from kronfill.estimators.fitted.posterior_basis import (
    PosteriorBasis,
    block_variances,
    pair_variances,
)
from kronfill.estimators.inputs import (
    as_sampled,
    check_fourth_powers,
    random_generator,
    sampled_entries,
)
from kronfill.kernels.base import Kernel
from kronfill.ridge.effects import AdditiveEffects
from kronfill.ridge.problem import Sampled
from kronfill.ridge.solution import Solution
from kronfill.solvers.alternating import leading_pair
from kronfill.variational.factors import (
    GroupedEntries,
    PosteriorFactors,
    Variational,
    fitted_factors,
    starting_factors,
)
from kronfill.variational.prior import Smoothness
from kronfill.variational.rows import packed_size

__all__ = ["BayesianKMC"]

CENTERS = (None, "mean", "rows", "cols", "both")
WHOLE, COLUMNS = 4000, 1000
"""With more items a kernel is cut to a factor of so many columns; what it leaves out of an item
belongs to the item's own part, whose size is learned."""


_REFUSED = {
    "partial_fit": "all factors follow from all observations. Use warm_start=True and fit again, "
    "which goes on from the factors that were found, or kf.KKMCEX.",
    "explain": "a prediction is no sum over observations, as factors are learned from all of them. "
    "kf.KKMCEX explains its predictions.",
    "suggest": "what an observation would tell is not followed through the factors. Measure where "
    "predict_std is large, or use kf.KKMCEX.",
}
_EIGENBASES: WeakKeyDictionary[Kernel, Kept[tuple[LowRankFactor, Index, Smoothness]]] = (
    WeakKeyDictionary()
)


class BayesianKMC(KernelRegressor):
    r"""Kernel matrix completion with posterior factors: neither mu nor the rank is to be chosen.

    .. math::
        y_{ij} = c + a_i + b_j + w_i^T h_j + \varepsilon, \qquad
        w_{\cdot f} \sim N(0, v_f K_w + s_f I), \quad h_{\cdot f} \sim N(0, v'_f K_h + s'_f I)

    and the effects a and b alike. The scales v and s of every factor, that is, how far it follows
    the kernel, and the variance of the noise are learned by variational Bayes; a factor that is
    not needed is switched off. Without kernels it is Bayesian matrix completion.

    Parameters
    ----------
    row_kernel, col_kernel : Kernel or array-like of shape (N, N) and (L, L), optional
        As for :class:`KKMCEX`.
    rank : int, default=30
        Most latent factors; those that are not needed are dropped.
    center : {None, "mean", "rows", "cols", "both"}, default="both"
        Additive effects, shrunk as far as the data say.
    solver : "auto" or Variational, default="auto"
        Settings of the sweeps.
    warm_start : bool, default=False
        Go on from the posterior of the previous fit, if it was one of the same kernel objects,
        shape and effects; factors that were dropped stay so.
    random_state : int, Generator or None, default=0
        Seed of what fills up the starting point.

    Attributes
    ----------
    W_, H_ : ndarray of shape (N, p) and (L, p)
        Posterior means of the p factors.
    rank_ : int
        Number p of factors that were kept.
    noise_variance_ : float
        Variance of the noise of an observation of weight 1.
    bound_ : float
        The lower bound on the logarithm of the evidence; ``solution_.history`` has it after each
        sweep.
    mean_, row_effects_, col_effects_, solution_, n_iter_, shape_ :
        As for :class:`KKMCEX`.

    Examples
    --------
    >>> import numpy as np, kronfill as kf
    >>> k = kf.kernels.rbf(np.linspace(0, 1, 30), length_scale=0.3)
    >>> X = np.argwhere(np.random.default_rng(0).random((30, 30)) < 0.3)
    >>> y = np.sin(X[:, 0] / 5) * np.cos(X[:, 1] / 5)
    >>> est = kf.BayesianKMC(k, k).fit(X, y)
    >>> est.rank_ < 5, round(est.score(X, y), 2)
    (True, 1.0)
    """

    W_: Floats
    H_: Floats
    rank_: int
    noise_variance_: float
    mean_: float

    def __init__(
        self,
        row_kernel: Any = None,
        col_kernel: Any = None,
        rank: Any = 30,
        center: Any = "both",
        solver: Any = "auto",
        warm_start: bool = False,
        random_state: Any = 0,
    ) -> None:
        self.row_kernel = row_kernel
        self.col_kernel = col_kernel
        self.rank = rank
        self.center = center
        self.solver = solver
        self.warm_start = warm_start
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        kernels = self._validated_sides()
        observations = self._observations(X, y, sample_weight, kernels)
        check_fourth_powers(observations.values, observations.weights)
        settings, before = self._settings(), self._before(kernels, observations.shape)
        _check_memory(observations, int(self.rank))
        with self._fitting(observations.m, SMALL):
            sampled = sampled_entries(observations, None)
            both = resolved(kernels, observations.shape)
            row, col = _Side.of(both[0], sampled.rows), _Side.of(both[1], sampled.cols)
            inner = as_sampled(
                row.at, col.at, sampled.values, (len(row.items), len(col.items)), None, None
            )
            entries = GroupedEntries.of(
                row.at, col.at, sampled.values, inner.shape, sampled.weights,
                with_mean=self.center is not None,
            )  # fmt: skip
            if before is None:
                h = self._start(inner, entries.mean)
                smoothness = row.smoothness, col.smoothness
                start = starting_factors(entries, smoothness, h, self._effects())
            else:
                first = before[0].axis(row.items, row.smoothness)
                second = before[1].axis(col.items, col.smoothness)
                mean = 0.0 if self.center is None else self.mean_
                start = PosteriorFactors(first, second, mean, 1.0 / self.noise_variance_)
            found, history, status = fitted_factors(
                entries, start, with_mean=self.center is not None, settings=settings
            )
            p, shape = found.rank, sampled.shape
            places = _places(p, *self._effects())
            bases = (
                PosteriorBasis.of(found.row, row.items, row.smooth, places),
                PosteriorBasis.of(found.col, col.items, col.smooth, places[::-1]),
            )
        gain = (history[-1] - history[-2]) / sampled.m if len(history) > 1 else 0.0
        solution = Solution(status, "Variational", "", len(history), gain, tuple(history))
        solution.warn()
        effects = [
            basis.values[:, p] if own else np.zeros(size)
            for basis, own, size in zip(bases, self._effects(), shape, strict=True)
        ]
        nothing = AdditiveEffects(found.mean, np.zeros(shape[0]), np.zeros(shape[1]))
        return self._publish(
            X,
            observations,
            {"_kernels": kernels},
            mu_=1.0 / found.tau,
            W_=bases[0].values[:, :p],
            H_=bases[1].values[:, :p],
            rank_=p,
            noise_variance_=1.0 / found.tau,
            bound_=found.bound,
            mean_=found.mean,
            row_effects_=effects[0],
            col_effects_=effects[1],
            solution_=solution,
            n_iter_=len(history),
            _model=Bilinear(*bases, None, nothing, shape),
        )

    def predict_std(self, X: Any) -> Floats:
        """Standard deviation of the latent values at index pairs.

        Parameters
        ----------
        X : array-like of shape (t, 2) or Observations
            Row and column index of each entry asked for.

        Returns
        -------
        ndarray of shape (t,)
            Without the noise, of which the variance is ``noise_variance_``.

        Examples
        --------
        >>> import numpy as np, kronfill as kf
        >>> X = np.argwhere(np.ones((8, 6)))[:-1]
        >>> est = kf.BayesianKMC(rank=2).fit(X, X[:, 0] + 0.5 * X[:, 1])
        >>> std = est.predict_std([[0, 0], [7, 5]])
        >>> bool(std[1] > std[0])  # the last entry was not observed
        True
        """
        check_is_fitted(self)
        return np.sqrt(pair_variances(*self._bases(), *index_pairs(self, X)))

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
        >>> import numpy as np, kronfill as kf
        >>> days = kf.kernels.rbf(np.arange(8.0), length_scale=2.0)
        >>> X = np.argwhere(np.ones((8, 6)))
        >>> est = kf.BayesianKMC(days, rank=2).fit(X, np.sin(X[:, 0]) + 0.5 * X[:, 1])
        >>> near, far = est.extrapolate_std(rows=[[3.5], [90.0]])[:, 0]
        >>> bool(near < far)
        True
        """
        check_is_fitted(self)
        return np.sqrt(block_variances(*self._bases(), rows, cols))

    def row_factors(self, items: Any = None) -> Floats:
        """Posterior means of the factors of rows.

        Parameters
        ----------
        items : object, optional
            New rows, as for :meth:`extrapolate`; None stands for all the rows of the table, those
            without observations included.

        Returns
        -------
        ndarray of shape (k, p)

        Examples
        --------
        >>> import numpy as np, kronfill as kf
        >>> days = kf.kernels.rbf(np.arange(8.0), length_scale=2.0)
        >>> X = np.argwhere(np.ones((8, 6)))
        >>> est = kf.BayesianKMC(days, rank=2).fit(X, np.sin(X[:, 0]) * X[:, 1])
        >>> est.row_factors().shape == est.W_.shape, est.row_factors([[3.5]]).shape[0]
        (True, 1)
        """
        return self._axis_factors(0, items)

    def col_factors(self, items: Any = None) -> Floats:
        """Posterior means of the factors of columns.

        Parameters
        ----------
        items : object, optional
            New columns, as for :meth:`extrapolate`; None stands for all the columns of the table.

        Returns
        -------
        ndarray of shape (k, p)

        Examples
        --------
        >>> import numpy as np, kronfill as kf
        >>> X = np.argwhere(np.ones((8, 6)))
        >>> est = kf.BayesianKMC(rank=2).fit(X, np.sin(X[:, 0]) * X[:, 1])
        >>> est.col_factors().shape == est.H_.shape
        True
        """
        return self._axis_factors(1, items)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            why = f": {_REFUSED[name]}" if name in _REFUSED else "."
            msg = f"{type(self).__name__} has no {name}{why}"
            raise AttributeError(msg)

    def _axis_factors(self, axis: int, items: Any) -> Floats:
        check_is_fitted(self)
        basis = self._bases()[axis]
        return (basis.values if items is None else basis.new_unknowns(items))[:, : self.rank_]

    def _bases(self) -> tuple[PosteriorBasis, PosteriorBasis]:
        row, col = self._bilinear().row_basis, self._bilinear().col_basis
        assert isinstance(row, PosteriorBasis)
        assert isinstance(col, PosteriorBasis)
        return row, col

    def _validated_sides(self) -> Kernels:
        check_rank(self.rank)
        self._settings()
        if self.center not in CENTERS:
            msg = f"center must be one of {CENTERS}, got {self.center!r}."
            raise ParameterError(msg)
        return self._validated_kernels()

    def _settings(self) -> Variational:
        if isinstance(self.solver, str) and self.solver == "auto":
            return Variational()
        if not isinstance(self.solver, Variational):
            msg = f"solver must be 'auto' or kf.Variational(...), got {self.solver!r}."
            raise ParameterError(msg)
        return self.solver

    def _effects(self) -> tuple[bool, bool]:
        return self.center in ("rows", "both"), self.center in ("cols", "both")

    def _start(self, sampled: Sampled, mean: float) -> Floats:
        """Columns in the leading singular vectors of the centred table, gaps filled with zeros."""
        centred, rank = sampled.sparse(sampled.values - mean), min(int(self.rank), *sampled.shape)
        _, h = leading_pair(centred, rank, random_generator(self.random_state))
        size = np.sqrt((h**2).mean(axis=0))
        return np.asarray(h / np.where(size > 0, size, 1.0))

    def _before(
        self, kernels: Kernels, shape: tuple[int, int]
    ) -> tuple[PosteriorBasis, PosteriorBasis] | None:
        """The posterior of the fit before, if it can be gone on from."""
        if not self.warm_start or "_model" not in vars(self):
            return None
        row, col = self._bases()
        effects = row.places[0] is not None, col.places[0] is not None
        same = all(a is b for a, b in zip(self._kernels, kernels, strict=True))
        fits = self.shape_ == shape and self.rank_ <= int(self.rank) and effects == self._effects()
        return (row, col) if same and fits else None


@dataclass(frozen=True, eq=False)
class _Side:
    """One axis in a fit: only items with observations enter, what others get follows."""

    smooth: SmoothBasis
    items: Index
    at: Index
    """Position among them of each observation."""
    smoothness: Smoothness

    @classmethod
    def of(cls, kernel: Kernel, index: Index) -> _Side:
        """Take the identity part off the kernel: it is learned anew for every factor.

        Fits with the same kernel follow each other: what was found is kept for as long as it lives.
        """
        items, at = np.unique(index, return_inverse=True)
        kept = _EIGENBASES.get(kernel)
        found = None if kept is None else kept.value
        if found is None or not np.array_equal(found[1], items):
            factor = _factor(kernel) if found is None else found[0]
            phi = factor.phi if len(items) == kernel.n else factor.phi[items]
            found = factor, items, Smoothness.of(phi)
            _EIGENBASES[kernel] = Kept(found, 3 * factor.phi.nbytes)
        return cls(SmoothBasis(kernel, found[0]), items, at, found[2])


def _factor(kernel: Kernel) -> LowRankFactor:
    smooth, _ = kernel.split()
    if smooth is None:
        return LowRankFactor(np.zeros((kernel.n, 0)), np.zeros(0, np.intp), 0.0)
    return smooth.factor(rtol=FACTOR_RTOL, max_rank=None if kernel.n <= WHOLE else COLUMNS)


def _places(rank: int, row_effect: bool, col_effect: bool) -> tuple[int | None, int | None]:
    """Columns of the effect of the row and of that of the column."""
    return rank if row_effect else None, rank + row_effect if col_effect else None


def _check_memory(observations: Observations, rank: int) -> None:
    """Covariances before and after a sweep, and second moments of one axis at a time."""
    (n, l), rank = observations.shape, min(rank, *observations.shape)
    each = 8.0 * packed_size(rank + 2)
    require_memory(
        each * (3 * (n + l) + max(n, l)) + 60.0 * observations.m,
        f"The posterior of {rank} factors of {n:,} rows and {l:,} columns",
        "Use a smaller rank.",
    )
