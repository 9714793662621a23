"""Intervals that hold whatever the values: split conformal and jackknife+, for every method.

They rest on how entries come to be observed: uniformly at random, or by chance as a mask model
says. Entries of new rows and columns are refused, or have widths from left-out rows and columns.
"""

from __future__ import annotations

import warnings
from numbers import Integral, Real
from typing import Any, Self, cast

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from kronfill._types import Floats, Index
from kronfill.errors import DataError, KronfillWarning, ParameterError
from kronfill.estimators.base import MatrixRegressor, index_pairs, validated
from kronfill.estimators.conformal.calibration import check_scores, cold, held_entries
from kronfill.estimators.conformal.drawing import (
    drawn_entries,
    drawn_folds,
    group_codes,
    mask_kernels,
    warn_if_uneven,
)
from kronfill.estimators.conformal.left_out_errors import Around, LeftOutErrors
from kronfill.estimators.conformal.ways import each_left_out, folds_left_out, new_items
from kronfill.estimators.gaussian_process.regressor import GaussianProcessRegressor
from kronfill.estimators.wrapping import Wrapping
from kronfill.masks import KINDS as MASKS
from kronfill.uncertainty.ranks import effective_number, misjudged, worst_coverage

__all__ = ["METHODS", "NEW", "ConformalRegressor"]


METHODS = ("split", "jackknife+")
EXACT_LIMIT = 3000
"""Up to this many observations every one is left out; beyond, folds are."""
_OF_THE_BOUNDS = ("estimator_", "scores_", "mask_", "effective_calibration_")
_AS_EARLIER = {
    "mask": "uniform", "scores": "absolute", "groups": None, "new": "refuse", "_outside": (),
    "mask_kernels": None,
}  # fmt: skip
"""What a model that was saved by an earlier version lacks."""
NEW = ("refuse", "split", "jackknife+")
FEW_EFFECTIVE = 10.0
"""Fewer calibration entries than this, counted by their weights, say nothing."""
_ADVICE = {
    "split": "Count entries by their odds of being missing: mask='effects', or mask='kernel'.",
    "jackknife+": "Nothing is known about jackknife+ then, take method='split', mask='effects'.",
}


class ConformalRegressor(Wrapping):
    """Prediction intervals with guaranteed coverage, around any of the five methods.

    Parameters
    ----------
    estimator : MC, KMC, IMC, KKMCEX or RRMCEX
        The method; it is cloned, not changed.
    method : {"split", "jackknife+"}, default="split"
        "split" fits to a part of the observations and takes the width from the errors on the rest:
        one fit, coverage at least as asked. "jackknife+" uses every observation for both, by
        leaving each one out: narrower where observations are few, coverage at least
        1 - 2 (1 - coverage), in practice about as asked. For KKMCEX and RRMCEX with up to 3,000
        observations it is exact and costs one factorisation; elsewhere `folds` of the observations
        are left out together (CV+).
    calibration : float, default=0.2
        Share of the observations that "split" keeps for the width.
    folds : int, default=10
        Number of fits of "jackknife+" where single observations cannot be left out.
    random_state : int, default=0
        Seed of the split and of the folds.
    mask : {"uniform", "effects", "rank one", "kernel"}, default="uniform"
        How likely entries are observed, for "split" only. "uniform": all alike. Otherwise the
        probability is learned from which entries of the training part are, by row and column
        effects, popularities, or effects and the kernels of the method; entries count by their
        odds of being missing, the one asked about by its own.
    scores : {"absolute", "normalised", "auto"}, default="absolute"
        What widths follow, for "split" only: nothing; the standard deviation of the method
        (KKMCEX, RRMCEX, BayesianKMC; for the others what few observations leave open in their
        factors); or that and the size of errors by row and column, as far as a fifth of the
        training part, left out of one more fit, shows them to matter.
    groups : {"row", "column"} or pair of array-like, optional
        Groups within which widths are taken, so that intervals hold for each group: rows, columns,
        or a label for each row and each column (None for either). For "split" only.
    new : {"refuse", "split", "jackknife+"}, default="refuse"
        Intervals for rows and columns without observations, see Notes.
    mask_kernels : pair of Kernel or array-like, optional
        What ``mask="kernel"`` follows, None for an axis of which nothing is known: for methods that
        have no kernels, whose mask may follow side information all the same.

    Attributes
    ----------
    estimator_ : estimator
        The fitted method: to the training part for "split", to everything for "jackknife+".
    scores_ : ndarray
        Absolute errors on the observations left out, over the scale if there is one.
    mask_ : MaskModel or None
        How likely entries are observed; ``mask_.deviance_explained`` tells how uneven it is.
    effective_calibration_ : float
        How many errors of equal weight tell as much as those there are.

    Notes
    -----
    The interval is for the observed value of an entry, noise included, and holds on average over
    the entries that are missing: not for each row by itself, unless ``groups`` says so. Missing
    entries must be exchangeable with observed ones ("uniform"), or be missing independently with
    the probability that the mask model finds; that gaps do not depend on the value ("missing at
    random") is not enough, for rows that are rarely observed may have larger errors.
    With estimated odds coverage is lowered by at most the error of their shares (Gui, Barber and
    Ma, theorem 3.1); ``predict_interval(..., misjudged=1.5)`` widens intervals so that they hold
    if every odds is wrong by up to that factor.

    An entry in a row or a column of which nothing was observed is no draw from the same lot. With
    ``new="split"`` a fifth of the rows (at least 20, at most 100 or half of them) is left out of
    another fit, and each of these K rows counts 1 / (K + 1), its entries alike: coverage as asked
    if rows are exchangeable and so are, within a row, the columns asked about and those observed;
    infinite with too few rows. ``new="jackknife+"`` leaves every row out in turn: coverage at least
    1 - 2 (1 - coverage). Columns likewise. A new row in a new column has its width from entries of
    left-out rows in left-out columns no two of which share either, for rows and columns that are
    both exchangeable. In a matrix of a single row or column every entry left out is of this kind,
    and none is refused. Weights enter the fit, not the errors. With ``mu="auto"`` the exact
    jackknife+ keeps the mu chosen from all observations.

    References
    ----------
    R. Foygel Barber, E. J. Candes, A. Ramdas, R. J. Tibshirani, "Predictive inference with the
    jackknife+", Annals of Statistics 49 (2021).

    Y. Gui, R. Foygel Barber, C. Ma, "Conformalized matrix completion", NeurIPS 2023.

    R. Dunn, L. Wasserman, A. Ramdas, "Distribution-free prediction sets for two-layer hierarchical
    models", JASA 118 (2023). Y. Lee, R. Foygel Barber, R. Willett, "Distribution-free inference
    with hierarchical data", arXiv 2306.06342 (2023).

    Examples
    --------
    >>> import numpy as np, kronfill as kf
    >>> from kronfill.estimators.conformal.regressor import ConformalRegressor
    >>> rng = np.random.default_rng(0)
    >>> k = kf.kernels.rbf(np.linspace(0, 1, 30), length_scale=0.3)
    >>> X = rng.permutation(np.argwhere(np.ones((30, 30))))
    >>> y = np.sin(X[:, 0] / 5) * np.cos(X[:, 1] / 5) + 0.1 * rng.standard_normal(900)
    >>> model = ConformalRegressor(kf.KKMCEX(k, k, mu=0.1)).fit(X[:500], y[:500])
    >>> low, high = model.predict_interval(X[500:], coverage=0.9).T
    >>> bool(np.mean((low <= y[500:]) & (y[500:] <= high)) > 0.85)
    True
    """

    def __init__(
        self,
        estimator: Any,
        method: str = "split",
        calibration: float = 0.2,
        folds: int = 10,
        random_state: int = 0,
        mask: str = "uniform",
        scores: str = "absolute",
        groups: Any = None,
        new: str = "refuse",
        mask_kernels: Any = None,
    ) -> None:
        self.estimator = estimator
        self.method = method
        self.calibration = calibration
        self.folds = folds
        self.random_state = random_state
        self.mask = mask
        self.scores = scores
        self.groups = groups
        self.new = new
        self.mask_kernels = mask_kernels

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the method and measure its errors on observations left out.

        Parameters
        ----------
        X : array-like of shape (m, 2) or Observations
            As for the method.
        y : array-like of shape (m,), optional
            As for the method.
        sample_weight : array-like of shape (m,), optional
            As for the method.

        Returns
        -------
        self
        """
        self._check_parameters()
        model = cast("MatrixRegressor", clone(self.estimator))
        observations = validated(model, X, y, sample_weight)[1]
        if observations.m < 2:
            msg = "Intervals need at least 2 observations: one to fit, one to measure an error."
            raise DataError(msg)
        groups = group_codes(self.groups, observations.shape)
        kernels = mask_kernels(self.mask_kernels, observations.shape)
        if self.mask == "uniform":
            warn_if_uneven(observations, _ADVICE[self.method])
        seed = _seed(self.random_state)
        if self.method == "split":
            held = drawn_entries(observations.m, self.calibration, self.random_state)
            self._bounds: LeftOutErrors = held_entries(
                model, observations, held, mask=self.mask, kernels=kernels, scores=self.scores,
                groups=groups, seed=seed,
            )  # fmt: skip
        elif isinstance(model, GaussianProcessRegressor) and observations.m <= EXACT_LIMIT:
            self._bounds = each_left_out(model, observations)
        else:
            label = drawn_folds(observations.m, self.folds, self.random_state)
            self._bounds = folds_left_out(model, observations, label)
        self._outside = ()
        if self.new != "refuse":
            self._outside = new_items(self.estimator, observations, self.new, self.scores, seed)
        self._hand_out()
        self._warn_of_uneven_weights()
        self.n_features_in_ = 2
        return self

    def predict_interval(self, X: Any, coverage: float = 0.9, misjudged: float = 1.0) -> Floats:
        """Interval for the value of each entry.

        Parameters
        ----------
        X : array-like of shape (t, 2) or Observations
            Row and column index of each entry asked for; rows and columns must have observations,
            for "split" in the part that was fitted to, unless ``new`` says how others are treated.
        coverage : float, default=0.9
            Share of entries whose value the interval is to contain.
        misjudged : float, default=1.0
            Factor by which the odds of being missing may be wrong: intervals are so wide that
            coverage is kept at the worst.

        Returns
        -------
        ndarray of shape (t, 2)
            Lower and upper ends; infinite where there are too few observations for this coverage.
        """
        check_is_fitted(self)
        if isinstance(coverage, bool) or not isinstance(coverage, Real) or not 0 < coverage < 1:
            msg = f"coverage must lie between 0 and 1, got {coverage!r}."
            raise ParameterError(msg)
        level = _level(float(coverage), misjudged)
        rows, cols = index_pairs(self.estimator_, X)
        is_cold = cold(self.estimator_.observations_, rows, cols)
        if not is_cold.any():
            return np.column_stack(self._bounds.at(X, level))
        if self.new == "refuse":
            self._refuse(rows, cols, is_cold)
        return self._mixed(rows, cols, is_cold, level, float(coverage))

    def worst_coverage(self, coverage: float, misjudged: float) -> float:
        """Return what is left of a coverage if the odds of being missing are wrong by a factor.

        Parameters
        ----------
        coverage : float
            What was asked for.
        misjudged : float
            Factor by which each odds may be too small or too large.

        Returns
        -------
        float
            c / (c + (1 - c) misjudged^2).

        Examples
        --------
        >>> import kronfill as kf
        >>> round(kf.ConformalRegressor(kf.MC()).worst_coverage(0.9, 1.5), 2)
        0.8
        """
        _level(coverage, misjudged)
        return worst_coverage(coverage, misjudged)

    def __sklearn_is_fitted__(self) -> bool:
        return "_bounds" in vars(self)

    def _hand_out(self) -> None:
        self.estimator_, self.scores_ = self._bounds.model, self._bounds.errors()
        weights = np.ones(len(self.scores_))
        self.mask_ = None
        if isinstance(self._bounds, Around):
            self.mask_ = self._bounds.mask
            weights = weights if self._bounds.weights is None else self._bounds.weights
        self.effective_calibration_ = effective_number(weights)

    def _warn_of_uneven_weights(self) -> None:
        if self.mask_ is not None and self.effective_calibration_ < FEW_EFFECTIVE:
            message = (
                f"The mask is so uneven that {len(self.scores_):,} calibration entries tell as "
                f"much as {self.effective_calibration_:.1f} of equal weight: intervals say next to "
                "nothing about entries that are rarely observed."
            )
            warnings.warn(message, KronfillWarning, stacklevel=3)

    def __getstate__(self) -> Any:
        state: dict[str, Any] = dict(super().__getstate__())
        for name in _OF_THE_BOUNDS:
            state.pop(name, None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(_AS_EARLIER | state)
        if "_bounds" in state:
            self._hand_out()

    def _mixed(
        self, rows: Index, cols: Index, is_cold: Any, level: float, coverage: float
    ) -> Floats:
        """Each entry with the interval of its own kind."""
        seen = self.estimator_.observations_
        kind = (seen.row_counts[rows] == 0) + 2 * (seen.col_counts[cols] == 0)
        kind[~is_cold] = 0
        out = np.empty((len(rows), 2))
        parts = (self._bounds, *self._outside)
        for k in np.unique(kind):
            mine = kind == k
            part = parts[k]
            if isinstance(part, str):
                msg = f"{np.count_nonzero(mine)} entries have no interval. {part}"
                raise DataError(msg)
            pairs = np.column_stack([rows[mine], cols[mine]])
            out[mine] = np.column_stack(part.at(pairs, level if k == 0 else coverage))
        return out

    # Input.

    def _check_parameters(self) -> None:
        if not isinstance(self.estimator, MatrixRegressor):
            msg = (
                "estimator must be one of MC, KMC, IMC, KKMCEX and RRMCEX, got "
                f"{type(self.estimator).__name__}."
            )
            raise ParameterError(msg)
        if self.method not in METHODS:
            msg = f"method must be one of {METHODS}, got {self.method!r}."
            raise ParameterError(msg)
        if not isinstance(self.calibration, Real) or not 0 < self.calibration < 1:
            msg = f"calibration must lie between 0 and 1, got {self.calibration!r}."
            raise ParameterError(msg)
        whole = isinstance(self.folds, Integral) and not isinstance(self.folds, bool)
        if not whole or self.folds < 2:
            msg = f"folds must be an integer of at least 2, got {self.folds!r}."
            raise ParameterError(msg)
        self._check_options()

    def _check_options(self) -> None:
        if self.mask not in MASKS:
            msg = f"mask must be one of {MASKS}, got {self.mask!r}."
            raise ParameterError(msg)
        if self.new not in NEW:
            msg = f"new must be one of {NEW}, got {self.new!r}."
            raise ParameterError(msg)
        check_scores(self.scores)
        if self.mask_kernels is not None and self.mask != "kernel":
            msg = f"mask_kernels is what mask='kernel' follows: leave it out for {self.mask!r}."
            raise ParameterError(msg)
        plain = self.mask == "uniform" and self.scores == "absolute" and self.groups is None
        if self.method != "split" and not plain:
            msg = (
                f"mask={self.mask!r}, scores={self.scores!r} and groups={self.groups!r} are for "
                "method='split': with other methods nothing is known about their coverage."
            )
            raise ParameterError(msg)

    def _refuse(self, rows: Index, cols: Index, is_cold: Any) -> None:
        bad, seen = np.flatnonzero(is_cold), self.estimator_.observations_
        row, col = int(rows[bad[0]]), int(cols[bad[0]])
        axis = "row" if seen.row_counts[row] == 0 else "column"
        part = " in the part that was fitted to" if self.method == "split" else ""
        msg = (
            f"{len(bad)} of {len(rows)} entries have no interval, the first at ({row}, {col}), "
            f"whose {axis} has no observation{part}. Such an entry is not exchangeable with "
            "the observed ones: their errors say nothing about it. Leave it out, or take its "
            "width from left-out rows and columns: new='split'."
        )
        raise DataError(msg)


def _level(coverage: float, factor: Any) -> float:
    """The level of the quantile for odds that are wrong by up to this factor."""
    if isinstance(factor, bool) or not isinstance(factor, Real) or not 1 <= float(factor) < np.inf:
        msg = f"misjudged must be a factor of at least 1, got {factor!r}."
        raise ParameterError(msg)
    return misjudged(coverage, float(factor))


def _seed(random_state: Any) -> int:
    return int(random_state) if isinstance(random_state, Integral) else 0
