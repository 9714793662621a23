"""Observations that keep arriving: partial_fit, forget, revise and fold_in."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from kronfill._types import Floats, Index
from kronfill.data import Observations
from kronfill.data._arrays import plain_array, real_array
from kronfill.errors import DataError, EmptyDataError, ParameterError, ShapeError
from kronfill.estimators.inputs import (
    check_largest,
    check_range,
    check_shape,
    column,
    positions,
    several_targets,
    weights_of,
)
from kronfill.estimators.posterior import GaussianProcessReading
from kronfill.online.running import SOLVER

__all__ = ["Online", "check_one"]


AXES = ("row", "col")
FEWEST_FOR_AUTO = 20
"""A stream does not begin with mu="auto" on fewer observations."""


class Online(GaussianProcessReading):
    """What the methods that learn online share: their input, and the first call."""

    mu: Any
    center: Any
    solver: Any

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
            self._check_start(X)
            self.fit(X, y, sample_weight)
            self._begin()
            return self
        self._check_unchanged()
        new = self._given(X, y, sample_weight)
        check_largest(new.values, new.weights)
        with self._few_threads(new.m):
            self._arrive(new)
        return self

    def _check_start(self, X: Any) -> None:
        count = X.m if isinstance(X, Observations) else np.shape(X)[0] if np.ndim(X) else 0
        if isinstance(self.mu, str) and self.mu == "auto" and 0 < count < FEWEST_FOR_AUTO:
            msg = (
                f'mu="auto" is chosen by the first call and kept for all observations to come; '
                f"{count} cannot tell it. Give a number, or at least {FEWEST_FOR_AUTO} "
                "observations to begin with."
            )
            raise ParameterError(msg)

    @abstractmethod
    def _begin(self) -> None:
        """Called after the first observations were fitted to."""

    @abstractmethod
    def _arrive(self, new: Observations) -> None:
        """Take in more observations."""

    def _few_threads(self, m: int) -> AbstractContextManager[None]:
        return nullcontext()

    def _kept(self) -> Any:
        """What the last call left to go on from; None if there was another fit since then."""
        stream = vars(self).get("_stream")
        return stream if stream is not None and stream.model is self._model else None

    def _check_unchanged(self) -> None:
        stream = self._kept()
        if "_from_table" in vars(self) and stream is None:
            summed = self.solution_.solver == SOLVER
            where = "was read from a file" if summed else "is of a table that is not in memory"
            msg = (
                f"The fit {where}, and the sums over its observations were not kept: there is "
                "nothing to add to or to take from. Give the observations to partial_fit in "
                "batches, from the start."
            )
            raise DataError(msg)
        if self.mu != "auto" and float(self.mu) != self.mu_:
            msg = (
                f"mu was changed from {self.mu_:g} to {self.mu:g} since the fit; what was learnt "
                "so far belongs to the former. Set it back, or fit anew."
            )
            raise ParameterError(msg)
        if stream is not None and stream.center != self.center:
            msg = (
                f"center was changed from {stream.center!r} to {self.center!r} since the fit. Set "
                "it back, or fit anew."
            )
            raise ParameterError(msg)

    def _given(self, X: Any, y: Any, sample_weight: Any) -> Observations:
        """Observations of this matrix from what was given, checked."""
        if isinstance(X, Observations):
            weights = weights_of(X, y, sample_weight)
            check_shape(X.shape, self.shape_)
            return X if weights is X.weights else X.with_weights(weights)
        if y is None:
            raise ParameterError(self._needs_y("partial_fit"))
        rows, cols = self._entries(X)
        return Observations(rows, cols, column(y), self.shape_, weights=sample_weight)

    def _entries(self, X: Any) -> tuple[Index, Index]:
        rows, cols = self._pairs(X, reset=False)
        if len(rows) == 0:
            msg = "Found array with 0 sample(s) (shape=(0, 2)) while a minimum of 1 is required."
            raise EmptyDataError(msg)
        check_range(rows, self.shape_[0], "row")
        check_range(cols, self.shape_[1], "column")
        return rows, cols

    # A new row or column.

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
        self._check_unchanged()
        n = self.shape_[1 - at]
        where = positions(plain_array(index, "index"), n, "column" if at == 0 else "row")
        assert where is not None
        y = real_array(values, "values").reshape(-1)
        weights = np.ones(len(where))
        if sample_weight is not None:
            weights = real_array(sample_weight, "sample_weight")
        if len(where):
            none = np.zeros(len(where), np.intp)
            Observations(none, where, y, (1, n), weights=weights)  # raises what is wrong with them
            check_largest(y, weights)
        elif len(y):
            msg = f"index has no entry, but values have {len(y)}; give one value per entry."
            raise ShapeError(msg)
        used = weights > 0
        return self._folded(item, where[used], y[used], weights[used], at)

    @abstractmethod
    def _folded(
        self, item: Any, index: Index, values: Floats, weights: Floats, axis: int
    ) -> Floats:
        """:meth:`fold_in` with checked arguments."""


def check_one(count: int) -> None:
    """Raise unless one new item is described."""
    if count != 1:
        msg = f"fold_in takes one new row or column at a time, got {count}; call it for each."
        raise ShapeError(msg)
