"""A method that is fitted to values on another scale and predicts them in their own units."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from kronfill._types import Floats
from kronfill.data import Observations
from kronfill.errors import DataError, ParameterError, argument
from kronfill.estimators.around import AroundMethod
from kronfill.estimators.base import (
    MatrixRegressor,
    fitted_form,
    fitted_kernels,
    index_pairs,
    inner_method,
    validated_sides,
)
from kronfill.estimators.choices import kept
from kronfill.estimators.folds import hide, left_out
from kronfill.estimators.inputs import positions
from kronfill.estimators.transformed.form import Limits, UndoneForm, binned
from kronfill.estimators.transformed.scales import SCALES, ValueScale, are_skewed

__all__ = ["TransformedRegressor"]

FEWEST, LEAST, ROUNDS = 30, 10, 5
"""Hidden entries of a kind that are enough to tell its errors; fewer than the second do not, after
so many rounds of hiding."""
BETTER = 0.99
"""A scale is taken if its error is so much smaller than that of the values as they are."""


def _has(name: str) -> Any:
    return lambda self: hasattr(vars(self).get("estimator_", self.estimator), name)


class TransformedRegressor(AroundMethod, MatrixRegressor):
    """Fit a method to values on another scale, and predict them in their own units.

    Positive values with a long tail (counts, prices, concentrations) are nearer to what methods
    with square errors take them for once a logarithm, a root, or the normal score of their rank is
    taken. Which of these, if any, is found by the error on hidden entries, in the units of the
    values. A prediction is the mean of what values may be, not the value of the mean.

    Parameters
    ----------
    estimator : estimator
        The method.
    scale : {"auto", "log", "sqrt", "ranks", None} or ValueScale, default="auto"
        "auto" tries all three where values are positive and skewed; None leaves values as they are.
    value_range : tuple of float, optional
        Range (low, high) that all values obey. Predictions are kept inside: by clipping, or, with
        "auto", by a fit to log odds within the range where that has a smaller error.
    rounded : bool, default=False
        Whether predictions are whole numbers.
    trial : estimator, optional
        What scales are compared with, instead of ``estimator``: something faster.
    errors : tuple of ndarray, optional
        Errors on the scale for each kind of entry, as ``errors_`` of another fit; measured on
        hidden entries by default.

    Attributes
    ----------
    estimator_ : estimator
        The fitted method, on the scale.
    scale_ : ValueScale
        The scale.
    trials_ : dict of str to float
        Root mean square error on hidden entries with each scale that was tried.
    errors_ : tuple of ndarray
        See ``errors``.
    mu_, solution_, n_iter_, shape_, observations_, mean_, row_effects_, col_effects_ :
        As for the method; effects are on the scale, observations are not.
    members_, shares_, weights_, hidden_error_, choice_, plan_ :
        Those of :class:`~kronfill.AutoMC`, if that is the method; errors are on the scale.

    Examples
    --------
    >>> import numpy as np, kronfill as kf
    >>> from kronfill.estimators.transformed import TransformedRegressor
    >>> rng = np.random.default_rng(0)
    >>> truth = np.exp(np.add.outer(rng.standard_normal(20), rng.standard_normal(20)))
    >>> obs = kf.Observations.from_matrix(np.where(rng.random((20, 20)) < 0.7, truth, np.nan))
    >>> model = TransformedRegressor(kf.MC(rank=2, mu=0.1, center="both")).fit(obs)
    >>> model.scale_.words, model.trials_["log"] < 0.5 * model.trials_["none"]
    ('logarithms', True)
    """

    def __init__(
        self,
        estimator: Any,
        scale: Any = "auto",
        value_range: Any = None,
        rounded: bool = False,
        trial: Any = None,
        errors: Any = None,
    ) -> None:
        self.estimator = estimator
        self.scale = scale
        self.value_range = value_range
        self.rounded = rounded
        self.trial = trial
        self.errors = errors

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Choose the scale, fit the method there, and measure what the way back needs.

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
        sides = self._validated_sides()
        obs = self._observations(X, y, sample_weight, sides)
        limits = Limits(self._ends(obs.values), bool(self.rounded))
        trials: dict[str, float] = {}
        scale = self.scale
        if not isinstance(scale, ValueScale):
            scale, trials = self._chosen(obs, limits)
        scaled = _on_scale(obs, scale)
        method = clone(self.estimator).fit(scaled)
        errors = self.errors
        if errors is None:
            errors = (np.zeros(1),) * 4 if scale.kind == "none" else _errors(kept(method), scaled)
        form = _form(method, scale, errors, limits)
        return self._publish(
            X,
            obs,
            {"_kernels": fitted_kernels(method)},
            estimator_=method,
            scale_=scale,
            trials_=trials,
            errors_=tuple(errors),
            mu_=float(method.mu_),
            solution_=method.solution_,
            n_iter_=int(method.n_iter_),
            mean_=method.mean_,
            row_effects_=method.row_effects_,
            col_effects_=method.col_effects_,
            _model=form,
        )

    def tried(self, values: Floats) -> list[str]:
        """The scales that a fit to these values would compare; none where there is no choice.

        Parameters
        ----------
        values : ndarray
            What was observed.
        """
        if self.scale != "auto" or len(values) < FEWEST:
            return []
        others = [*(SCALES if are_skewed(values) else ())]
        others += ["range"] if self.value_range is not None else []
        return ["none", *others] if others else []

    def _chosen(self, obs: Observations, limits: Limits) -> tuple[ValueScale, dict[str, float]]:
        """The scale with the least error on hidden entries, and the errors of all."""
        kinds = self.tried(obs.values)
        if not kinds:
            only = self.scale if isinstance(self.scale, str) and self.scale != "auto" else "none"
            return ValueScale.of(only, obs.values, self.value_range), {}
        held = np.random.default_rng(0).random(obs.m) < 0.2
        if held.all() or not held.any():
            return ValueScale.of("none", obs.values), {}
        part, rest = obs.take(~held), obs.take(held)
        found = {}
        for kind in kinds:
            scale = ValueScale.of(kind, part.values, self.value_range)
            found[kind] = self._trial_error(part, rest, scale, limits)
        best = min(found, key=lambda kind: found[kind])
        if found[best] > BETTER * found["none"]:
            best = "none"
        return ValueScale.of(best, obs.values, self.value_range), found

    def _trial_error(
        self, part: Observations, rest: Observations, scale: ValueScale, limits: Limits
    ) -> float:
        """Error on hidden entries; what the way back needs is taken from them as well."""
        method = clone(self.estimator if self.trial is None else self.trial)
        method = method.fit(_on_scale(part, scale))
        scaled = method.predict(rest)
        half = np.arange(rest.m) % 2 == 0  # the errors of one half serve the other
        gaps = scale.forward(rest.values) - scaled
        total = 0.0
        for mine in (half, ~half):
            if mine.any() and not mine.all():
                form = _form(method, scale, (binned(gaps[~mine]),) * 4, limits)
                kinds = np.zeros(int(mine.sum()), dtype=np.intp)
                total += float(((rest.values[mine] - form.undone(scaled[mine], kinds)) ** 2).sum())
        return float(np.sqrt(total / rest.m))

    def _validated_sides(self) -> Any:
        if self.scale not in (None, "auto", *SCALES) and not isinstance(self.scale, ValueScale):
            msg = (
                f"{argument('transform')} must be 'auto', None or one of {SCALES}, got "
                f"{self.scale!r}."
            )
            raise ParameterError(msg)
        return validated_sides(self.estimator)

    def _ends(self, values: Floats) -> Floats | None:
        """The range, which all values must obey, if there is one."""
        if self.value_range is None:
            return None
        low, high = (float(end) for end in self.value_range)
        if values.min() < low or values.max() > high:
            msg = (
                f"Values lie outside of {argument('value_range')}, {low:g} to {high:g}: from "
                f"{values.min():g} to {values.max():g}. Give a range that all of them obey."
            )
            raise DataError(msg)
        return np.array([low, high])

    def ranking_matrix(self, rows: Any = None) -> Floats:
        """Return a dense block by which columns are ranked: neither clipped nor rounded.

        Parameters
        ----------
        rows : array-like of int, optional
            Indices of the rows; all by default.

        Returns
        -------
        ndarray of shape (len(rows), L)
        """
        check_is_fitted(self)
        return fitted_form(self.estimator_).block(positions(rows, self.shape_[0], "row"), None)

    @available_if(_has("predict_std"))
    def predict_std(self, X: Any) -> Floats:
        """Standard deviation of the latent values at index pairs, in the units of the values.

        Parameters
        ----------
        X : array-like of shape (t, 2) or Observations
            Row and column index of each entry asked for.

        Returns
        -------
        ndarray of shape (t,)
        """
        check_is_fitted(self)
        rows, cols = index_pairs(self, X)
        pairs = np.column_stack([rows, cols])
        return self.spread(self.estimator_.predict(pairs), self.estimator_.predict_std(pairs))

    @available_if(_has("extrapolate_std"))
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
        middle, std = (
            self.estimator_.extrapolate(rows, cols), self.estimator_.extrapolate_std(rows, cols)
        )  # fmt: skip
        return self.spread(middle, std)

    def spread(self, middle: Floats, std: Floats) -> Floats:
        """Return what a standard deviation on the scale is in the units of the values there."""
        inverse = self.scale_.inverse
        return np.asarray((inverse(middle + std) - inverse(middle - std)) / 2)

    @available_if(_has("explain"))
    def explain(self, row: Any, col: Any, top: int = 10) -> Any:
        """Say which observations a prediction comes from, on the scale.

        Parameters
        ----------
        row, col : int or label
            The entry.
        top : int, default=10
            How many observations to list.

        Returns
        -------
        Explanation
            Its numbers are on the scale, and it says so.
        """
        check_is_fitted(self)
        found = self.estimator_.explain(row, col, top)
        return replace(found, scale="" if self.scale_.kind == "none" else self.scale_.words)

    @available_if(_has("suggest"))
    def suggest(self, n: int, *args: Any, **settings: Any) -> Any:
        """Choose the entries whose observation would most reduce the uncertainty on the scale.

        Parameters
        ----------
        n : int
            How many.
        *args, **settings : object
            As for :meth:`KKMCEX.suggest`.

        Returns
        -------
        Suggestion
        """
        check_is_fitted(self)
        return self.estimator_.suggest(n, *args, **settings)


def _on_scale(obs: Observations, scale: ValueScale) -> Observations:
    if scale.kind == "none":
        return obs
    return Observations(
        obs.rows, obs.cols, scale.forward(obs.values), obs.shape, weights=obs.weights,
        row_labels=obs.row_labels, col_labels=obs.col_labels,
    )  # fmt: skip


def _form(method: Any, scale: ValueScale, errors: Any, limits: Limits) -> UndoneForm:
    obs = inner_method(method).observations_
    seen = obs.row_counts > 0, obs.col_counts > 0
    return UndoneForm(fitted_form(method), scale, tuple(errors), limits, *seen)


def _errors(method: Any, scaled: Observations) -> tuple[Floats, ...]:
    """Errors on the scale of fits without some entries, rows and columns, for each kind.

    Until they tell of known rows and columns, new rows and new columns, each by its own errors: an
    error of a new row would make too much of entries whose rows are known.
    """
    rng, parts = np.random.default_rng(0), [np.empty(0)] * 4
    if scaled.m < FEWEST:
        return (np.zeros(1),) * 4
    for _ in range(ROUNDS):
        hidden = hide(scaled, rng)
        (fold,) = left_out(method.fit, scaled, [(~hidden, hidden)])
        seen = fold.train.row_counts > 0, fold.train.col_counts > 0
        kinds = ~seen[0][fold.held.rows] + 2 * ~seen[1][fold.held.cols]
        parts = [np.append(part, fold.gap[kinds == kind]) for kind, part in enumerate(parts)]
        if min(part.size for part in parts[:3]) >= FEWEST:
            break
    known, row, col, both = parts
    usual = known if known.size >= LEAST else np.concatenate(parts)
    row, col = (part if part.size >= LEAST else usual for part in (row, col))
    both = both if both.size >= LEAST else np.concatenate([row, col])
    return tuple(binned(part) for part in (usual, row, col, both))
