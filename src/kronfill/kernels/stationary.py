"""Kernels of the distance between feature vectors: RBF, Matérn, periodic."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy import sparse

from kronfill._stored import Tests, either, floats, one_of, optional, positive, positive_floats
from kronfill._types import Floats
from kronfill.errors import FeatureError, ParameterError
from kronfill.kernels.arguments import positive_values
from kronfill.kernels.base import Kernel
from kronfill.kernels.features import FeatureKernel, FeatureTable

__all__ = ["matern", "periodic", "rbf"]

LengthScale = str | float | npt.ArrayLike

# Up to this many features differences are cheaper than a matrix product, and they are exact.
_FEW_FEATURES = 32
# Among many points that are not too far out, products are as good as differences, and faster.
_MANY, _NEAR = 256, 16.0
_MEDIAN_ITEMS = 1000
_NUMERIC = frozenset({"number", "bool", "date"})

per_feature = either(positive, positive_floats)
"""One number, or one for each feature."""


def rbf(features: Any, length_scale: LengthScale = "median") -> Kernel:
    r"""Return the Gaussian (radial basis function) kernel of features.

    .. math:: k(x, y) = \exp\left(-\frac{\lVert x - y \rVert^2}{2 \ell^2}\right)

    Parameters
    ----------
    features : array_like, scipy.sparse matrix or data frame
        One row per item. A one-dimensional array is one feature. Columns of a data frame are
        encoded: numbers and dates are standardised, categories become one 0/1 column per value.
    length_scale : "median", float or array_like, default="median"
        The distance over which similarity falls off, or one for each encoded feature. The median
        distance between (at most 1000) items by default; 1.0 if all items coincide.

    Returns
    -------
    Kernel
        Its attribute `length_scale` is the number that was used. New items are described by
        features of the same form.

    Examples
    --------
    >>> import kronfill as kf
    >>> kernel = kf.kernels.rbf([[0.0, 0.0], [3.0, 4.0], [0.0, 5.0]])
    >>> kernel.length_scale
    5.0
    >>> kernel.block([0]).round(3)
    array([[1.   , 0.607, 0.607]])
    """
    return RBF(FeatureTable.from_data(features), length_scale)


def matern(features: Any, length_scale: LengthScale = "median", nu: float = 1.5) -> Kernel:
    r"""Return the Matérn kernel of features, rougher than the Gaussian one.

    With :math:`r = \lVert x - y \rVert / \ell` it is :math:`e^{-r}` for ``nu=0.5``,
    :math:`(1 + \sqrt3 r) e^{-\sqrt3 r}` for ``nu=1.5`` and
    :math:`(1 + \sqrt5 r + 5 r^2 / 3) e^{-\sqrt5 r}` for ``nu=2.5``.

    Parameters
    ----------
    features : array_like, scipy.sparse matrix or data frame
        One row per item, as in :func:`rbf`.
    length_scale : "median", float or array_like, default="median"
        As in :func:`rbf`.
    nu : {0.5, 1.5, 2.5}, default=1.5
        Smoothness.

    Returns
    -------
    Kernel
        New items are described by features of the same form.

    Examples
    --------
    >>> import kronfill as kf
    >>> kf.kernels.matern([0.0, 1.0], length_scale=1.0, nu=0.5).to_array().round(3)
    array([[1.   , 0.368],
           [0.368, 1.   ]])
    """
    if nu not in (0.5, 1.5, 2.5):
        msg = f"nu must be 0.5, 1.5 or 2.5, got {nu!r}; for a smooth kernel use rbf."
        raise ParameterError(msg)
    return Matern(FeatureTable.from_data(features), length_scale, nu=float(nu))


def periodic(
    features: Any, period: float | npt.ArrayLike, length_scale: float | npt.ArrayLike = 1.0
) -> Kernel:
    r"""Return the periodic kernel of features.

    .. math:: k(x, y) = \exp\left(-2 \sum_j \sin^2(\pi (x_j - y_j) / p_j) / \ell_j^2\right)

    Parameters
    ----------
    features : array_like or data frame
        One row per item. Columns of a data frame must be numbers, booleans or dates (days); they
        are not standardised, so that the period means what it says.
    period : float or array_like
        After this distance everything repeats; one number, or one for each feature.
    length_scale : float or array_like, default=1.0
        How fast similarity falls off within a period; one number, or one for each feature.

    Returns
    -------
    Kernel
        New items are described by features of the same form.

    Notes
    -----
    This is the Gaussian kernel of the points ``(cos 2 pi x / p, sin 2 pi x / p)``, therefore
    positive semidefinite for any number of features.

    Examples
    --------
    >>> import kronfill as kf
    >>> hours = kf.kernels.periodic([0.0, 6.0, 23.0], period=24.0)
    >>> hours.block([0]).round(3)
    array([[1.   , 0.368, 0.966]])
    """
    table = FeatureTable.from_data(features, scale=False, kinds=_NUMERIC)
    if sparse.issparse(table.values):
        msg = (
            "A periodic kernel takes dense features, for zero is no special point of a circle; "
            "pass features.toarray()."
        )
        raise FeatureError(msg)
    return Periodic(
        table,
        period=positive_values(period, table.width, "period"),
        length_scale=positive_values(length_scale, table.width, "length_scale"),
    )


class _Scaled(FeatureKernel):
    """Coordinates are centred on the known items and divided by the length scale."""

    length_scale: float | Floats
    _centre: Floats | None
    stored: ClassVar[Tests] = {
        **FeatureKernel.stored,
        "length_scale": per_feature,
        "_centre": optional(floats(1)),
    }

    def __init__(self, table: FeatureTable, length_scale: LengthScale, **kept: Any) -> None:
        values = table.values
        resolved: float | Floats
        if isinstance(length_scale, str):
            if length_scale != "median":
                msg = f"length_scale must be 'median' or positive, got {length_scale!r}."
                raise ParameterError(msg)
            resolved = median_distance(values)
        else:
            resolved = positive_values(length_scale, table.width, "length_scale")
        # Distances do not change, and rounding errors grow with the size of the numbers.
        centre = None if sparse.issparse(values) else values.mean(axis=0)
        super().__init__(table, length_scale=resolved, _centre=centre, **kept)

    def _place(self, encoded: Any) -> Any:
        if self._centre is None:
            return _divided(encoded, self.length_scale)
        if sparse.issparse(encoded):
            encoded = encoded.toarray()
        return (encoded - self._centre) / self.length_scale

    def _fits_together(self) -> bool:
        each = (self._table.new_width,)
        centred = self._centre is not None
        return (
            super()._fits_together()
            and np.shape(self.length_scale) in ((), each)
            and (self._centre is None or self._centre.shape == each)
            and not (centred and sparse.issparse(self._table.values))
        )


class RBF(_Scaled):
    """See :func:`rbf`."""

    def _pairs(self, left: Any, right: Any) -> Floats:
        if left is right and left.shape[0] >= _MANY and not sparse.issparse(left):
            half = 0.5 * np.einsum("ij,ij->i", left, left)
            # Rounding errors are of the size of these numbers, and so are those of the kernel.
            if half.max() <= _NEAR:
                return _gaussian_products(left, half)
        return _gaussian(squared_distances(left, right))


class Matern(_Scaled):
    """See :func:`matern`."""

    nu: float
    stored: ClassVar[Tests] = {**_Scaled.stored, "nu": one_of(0.5, 1.5, 2.5)}

    def _pairs(self, left: Any, right: Any) -> Floats:
        distance = _distances(left, right)
        if self.nu == 0.5:
            decay: Floats = np.exp(-distance)
            return decay
        distance *= np.sqrt(2.0 * self.nu)
        polynomial = 1.0 + distance
        if self.nu == 2.5:
            polynomial += distance**2 / 3.0
        polynomial *= np.exp(-distance)
        return polynomial


class Periodic(FeatureKernel):
    """See :func:`periodic`."""

    period: float | Floats
    length_scale: float | Floats
    stored: ClassVar[Tests] = {
        **FeatureKernel.stored,
        "period": per_feature,
        "length_scale": per_feature,
    }

    def _place(self, encoded: Any) -> Any:
        if sparse.issparse(encoded):
            encoded = encoded.toarray()
        angle = 2.0 * np.pi * np.remainder(encoded / self.period, 1.0)
        circle = (np.cos(angle) / self.length_scale, np.sin(angle) / self.length_scale)
        return np.hstack(circle)

    def _pairs(self, left: Any, right: Any) -> Floats:
        # |z_x - z_y|^2 = 4 sin^2(pi (x - y) / p) on the unit circle.
        return _gaussian(squared_distances(left, right))

    def _fits_together(self) -> bool:
        each = (self._table.new_width,)
        return (
            super()._fits_together()
            and all(np.shape(size) in ((), each) for size in (self.period, self.length_scale))
            and not sparse.issparse(self._table.values)
        )

    def _placed_width(self, width: int) -> int:
        return 2 * width


def squared_distances(left: Any, right: Any) -> Floats:
    """Return squared Euclidean distances, exact for few features, by a matrix product for many."""
    distances: Floats
    if not sparse.issparse(left) and left.shape[1] <= _FEW_FEATURES:
        from scipy.spatial.distance import cdist

        distances = cdist(left, right, "sqeuclidean")
    else:
        from sklearn.metrics.pairwise import euclidean_distances

        distances = euclidean_distances(left, right, squared=True)
    return distances


def _distances(left: Any, right: Any) -> Floats:
    distances: Floats
    if sparse.issparse(left):
        from sklearn.metrics.pairwise import euclidean_distances

        distances = euclidean_distances(left, right)
    else:
        # The root turns an error of 1e-16 into 1e-8: these must be exact near zero.
        from scipy.spatial.distance import cdist

        distances = cdist(left, right)
    return distances


def _gaussian_products(points: Floats, half: Floats) -> Floats:
    """exp(-|x - y|^2 / 2) among points, from their products: faster than from differences."""
    # x.y - |x|^2/2 - |y|^2/2 as one product of points with two more coordinates.
    ones, column = np.ones((len(half), 1)), -half[:, None]
    kernel: Floats = np.hstack([points, column, ones]) @ np.hstack([points, ones, column]).T
    np.exp(kernel, out=kernel)
    np.fill_diagonal(kernel, 1.0)
    return kernel


def _gaussian(squared: Floats) -> Floats:
    squared *= -0.5
    return np.exp(squared, out=squared)


def _divided(values: Any, scale: float | Floats) -> Any:
    if not sparse.issparse(values):
        return values / scale
    if np.ndim(scale) == 0:
        return values / scale
    return sparse.csr_array(values @ sparse.diags_array(1.0 / np.asarray(scale)))


def median_distance(values: Any) -> float:
    """Return the median distance between different items, of a sample if there are many."""
    n = values.shape[0]
    if n > _MEDIAN_ITEMS:
        sample = np.random.default_rng(0).choice(n, _MEDIAN_ITEMS, replace=False)
        values = values[np.sort(sample)]
    if not sparse.issparse(values):
        values = values - values.mean(axis=0)
    distance = _distances(values, values)[np.triu_indices(values.shape[0], 1)]
    largest = float(distance.max(initial=0.0))
    # Without exact differences copies of an item are apart by rounding error.
    apart = distance[distance > 1e-7 * largest]
    return float(np.median(apart)) if apart.size else 1.0
