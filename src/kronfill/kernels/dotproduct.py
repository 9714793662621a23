"""Kernels of what two feature vectors share: linear, polynomial, Tanimoto."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from kronfill._stored import Tests, count, positive, real
from kronfill._types import Floats
from kronfill.core.low_rank import LowRankFactor
from kronfill.errors import FeatureError
from kronfill.kernels.arguments import positive_integer, real_at_least
from kronfill.kernels.base import Kernel
from kronfill.kernels.features import FeatureKernel, FeatureTable

__all__ = ["linear", "polynomial", "tanimoto"]


def linear(features: Any) -> Kernel:
    """Return the linear kernel, the inner product of features.

    Parameters
    ----------
    features : array_like, scipy.sparse matrix or data frame
        One row per item. Arrays are taken as they are: centre them first if that is meant. Columns
        of a data frame are encoded as in :func:`rbf`.

    Returns
    -------
    Kernel
        New items are described by features of the same form. With no more features than items,
        its factor is the feature matrix itself.

    Examples
    --------
    >>> import kronfill as kf
    >>> kf.kernels.linear([[1.0, 0.0], [1.0, 2.0]]).to_array()
    array([[1., 1.],
           [1., 5.]])
    """
    return Linear(FeatureTable.from_data(features))


def polynomial(
    features: Any, degree: int = 3, gamma: float | None = None, coef0: float = 1.0
) -> Kernel:
    """Return the polynomial kernel ``(gamma <x, y> + coef0) ** degree``.

    Parameters
    ----------
    features : array_like, scipy.sparse matrix or data frame
        One row per item, as in :func:`linear`.
    degree : int, default=3
        A positive integer.
    gamma : float, optional
        A positive number. One over the number of encoded features by default.
    coef0 : float, default=1.0
        A number that is not negative.

    Returns
    -------
    Kernel
        New items are described by features of the same form.

    Examples
    --------
    >>> import kronfill as kf
    >>> kf.kernels.polynomial([[1.0], [2.0]], degree=2).to_array()
    array([[ 4.,  9.],
           [ 9., 25.]])
    """
    # Outside of these ranges the result is not positive semidefinite for all features.
    power = positive_integer(degree, "degree")
    offset = real_at_least(coef0, 0.0, "coef0")
    slope = None if gamma is None else real_at_least(gamma, 0.0, "gamma", strict=True)
    table = FeatureTable.from_data(features)
    gamma = 1.0 / table.width if slope is None else slope
    return Polynomial(table, degree=power, gamma=gamma, coef0=offset)


def tanimoto(features: Any) -> Kernel:
    """Return the Tanimoto (Jaccard) kernel of fingerprints or counts.

    The sum of the smaller values over the sum of the larger ones, feature by feature; for 0/1
    features the number they share over the number that either has. Two items without any feature
    have similarity 1.

    Parameters
    ----------
    features : array_like, scipy.sparse matrix or data frame
        One row per item, no negative values. Columns of a data frame must be numbers or booleans
        and are not standardised.

    Returns
    -------
    Kernel
        New items are described by features of the same form.

    Examples
    --------
    >>> import kronfill as kf
    >>> kf.kernels.tanimoto([[1, 1, 0], [0, 1, 1], [0, 0, 0]]).to_array().round(3)
    array([[1.   , 0.333, 0.   ],
           [0.333, 1.   , 0.   ],
           [0.   , 0.   , 1.   ]])
    """
    kinds = frozenset({"number", "bool"})
    return Tanimoto(FeatureTable.from_data(features, scale=False, kinds=kinds))


class Linear(FeatureKernel):
    """See :func:`linear`."""

    def _pairs(self, left: Any, right: Any) -> Floats:
        from sklearn.metrics.pairwise import linear_kernel

        product: Floats = linear_kernel(left, right)
        return product

    def _selves(self, points: Any) -> Floats:
        return _squared_norms(points)

    def _apply(self, V: Floats) -> Floats:
        values = self._table.values
        product: Floats = values @ (values.T @ V)
        return product

    @property
    def known_rank(self) -> int | None:
        """See :attr:`Kernel.known_rank`."""
        return self._table.width if self._table.width <= self.n else None

    @property
    def explicit_rank(self) -> int:
        """See :attr:`Kernel.explicit_rank`."""
        return self._table.width

    def _factor(self, rtol: float, max_rank: int | None) -> LowRankFactor:
        width = self._table.width
        if width > self.n or (max_rank is not None and width > max_rank):
            return super()._factor(rtol, max_rank)
        return LowRankFactor(_dense(self._table.values), None, 0.0)

    def _factor_new(self, factor: LowRankFactor, new: Any) -> Floats:
        if factor.pivots is not None:
            return super()._factor_new(factor, new)
        return _dense(self._new_points(new))

    def _parameters(self) -> dict[str, Any]:
        return {"features": self._table.width}


class Polynomial(FeatureKernel):
    """See :func:`polynomial`."""

    degree: int
    gamma: float
    coef0: float
    stored: ClassVar[Tests] = {
        **FeatureKernel.stored,
        "degree": count,
        "gamma": positive,
        "coef0": real,
    }

    def _pairs(self, left: Any, right: Any) -> Floats:
        from sklearn.metrics.pairwise import polynomial_kernel

        values: Floats = polynomial_kernel(
            left, right, degree=self.degree, gamma=self.gamma, coef0=self.coef0
        )
        return values

    def _selves(self, points: Any) -> Floats:
        values: Floats = (self.gamma * _squared_norms(points) + self.coef0) ** self.degree
        return values


class Tanimoto(FeatureKernel):
    """See :func:`tanimoto`."""

    def _place(self, encoded: Any) -> Any:
        stored = encoded.data if sparse.issparse(encoded) else encoded
        if stored.size and stored.min() < 0:
            msg = (
                f"Tanimoto similarity is for counts and 0/1 features, got {stored.min():g}; "
                "use rbf or linear for features of either sign."
            )
            raise FeatureError(msg)
        return encoded

    def _pairs(self, left: Any, right: Any) -> Floats:
        total = _row_sums(left)[:, None] + _row_sums(right)
        if _is_binary(left) and _is_binary(right):
            from sklearn.metrics.pairwise import linear_kernel

            shared = linear_kernel(left, right)
        else:
            # min(x, y) = (x + y - |x - y|) / 2
            shared = 0.5 * (total - _manhattan(left, right))
        either = total - shared
        ratio: Floats = np.divide(shared, either, out=np.ones_like(shared), where=either > 0)
        return ratio

    def _parameters(self) -> dict[str, Any]:
        return {"features": self._table.width}


def _dense(points: Any) -> Floats:
    dense = points.toarray() if sparse.issparse(points) else points
    return np.ascontiguousarray(dense)


def _squared_norms(points: Any) -> Floats:
    if sparse.issparse(points):
        return _row_sums(points.multiply(points))
    return np.asarray(np.einsum("ij,ij->i", points, points))


def _row_sums(points: Any) -> Floats:
    return np.asarray(points.sum(axis=1), dtype=np.float64).ravel()


def _is_binary(points: Any) -> bool:
    stored = points.data if sparse.issparse(points) else points
    return bool(((stored == 0) | (stored == 1)).all())


def _manhattan(left: Any, right: Any) -> Floats:
    distances: Floats
    if sparse.issparse(left):
        from sklearn.metrics.pairwise import manhattan_distances

        distances = manhattan_distances(left, right)
    else:
        from scipy.spatial.distance import cdist

        distances = cdist(left, right, "cityblock")
    return distances
