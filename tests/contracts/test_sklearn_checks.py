"""scikit-learn's own checks of an estimator.

Most of them feed a table of features, which a regressor on (row, column) pairs does not take. They
run through an adapter that maps the table to pairs and leaves everything else (y, weights, their
errors, the fit itself) to the estimator. Checks that ask for no such table run on the estimators
themselves.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks
from sklearn.utils.validation import check_is_fitted, validate_data

import kronfill as kf
from kronfill.auto.plan import Plan
from kronfill.estimators.base import fitted_form

ESTIMATORS = (
    kf.KKMCEX, kf.RRMCEX, kf.KMC, kf.IMC, kf.MC, kf.BayesianKMC,
    kf.KKMCEXClassifier, kf.KKMCEXPoisson, kf.AutoMC,
)  # fmt: skip


class OnTable(RegressorMixin, BaseEstimator):
    """A regressor on feature tables: the lines are the rows of a matrix of one column.

    Only X is looked at here; y and sample_weight go to the estimator as they came.
    """

    def __init__(self, mu: float = 1.0, max_iter: int = 500) -> None:
        self.mu = mu
        self.max_iter = max_iter

    @abstractmethod
    def _estimator(self, X: np.ndarray) -> Any:
        """The estimator that knows the lines of X as its rows."""

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> OnTable:
        X = validate_data(self, X, dtype=float)
        pairs = np.column_stack([np.arange(len(X)), np.zeros(len(X), int)])
        self.estimator_ = self._estimator(X).fit(pairs, y, sample_weight)
        return self

    def predict(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        X = validate_data(self, X, dtype=float, reset=False)
        return self.estimator_.extrapolate(rows=X)[:, 0]

    def _als(self) -> kf.ALS:
        return kf.ALS(sweeps=self.max_iter, tol=1e-15)

    @property
    def n_iter_(self) -> int:
        return self.estimator_.n_iter_


class OnTableKKMCEX(OnTable):
    """Kernel ridge regression."""

    def _estimator(self, X: np.ndarray) -> kf.KKMCEX:
        return kf.KKMCEX(kf.kernels.rbf(X, length_scale=3.0), mu=self.mu, center="mean")


class OnTableRRMCEX(OnTable):
    """Ridge regression on kernel principal components."""

    def __init__(self, mu: float = 1.0, max_iter: int = 500, row_rank: float = 0.99) -> None:
        super().__init__(mu, max_iter)
        self.row_rank = row_rank

    def _estimator(self, X: np.ndarray) -> kf.RRMCEX:
        kernel = kf.kernels.rbf(X, length_scale=3.0)
        return kf.RRMCEX(kernel, row_rank=self.row_rank, mu=self.mu, center="mean")


class OnTableKMC(OnTable):
    """One factor with a kernel penalty."""

    def _estimator(self, X: np.ndarray) -> kf.KMC:
        return kf.KMC(kf.kernels.polynomial(X, degree=2), rank=1, mu=self.mu, solver=self._als())


class OnTableIMC(OnTable):
    """One factor that is linear in the features."""

    def _estimator(self, X: np.ndarray) -> kf.IMC:
        return kf.IMC(X, rank=1, mu=self.mu, solver=self._als())


class OnTableBayesianKMC(OnTable):
    """Effects of the lines that are smooth in a kernel, and one factor."""

    def _estimator(self, X: np.ndarray) -> kf.BayesianKMC:
        solver = kf.Variational(sweeps=self.max_iter)
        return kf.BayesianKMC(kf.kernels.rbf(X, length_scale=3.0), rank=1, solver=solver)


class OnTableAutoMC(OnTable):
    """A mix of both, nothing but a few factors looked at."""

    def _estimator(self, X: np.ndarray) -> kf.AutoMC:
        plan = Plan(rank=1, steps=2)
        return kf.AutoMC(kf.kernels.rbf(X, length_scale=3.0), plan=plan)


class OnTableMC(OnTable):
    """Nothing is known about a line but whether it was seen: equal lines are one row.

    An entry is observed once, so lines that repeat are averaged and their number is a weight,
    which leaves the minimiser as it is.
    """

    def _estimator(self, X: np.ndarray) -> kf.MC:
        return kf.MC(rank=1, mu=self.mu, center="mean", solver=self._als())

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> OnTableMC:
        X = validate_data(self, X, dtype=float)
        self.lines_, at = np.unique(X, axis=0, return_inverse=True)
        if len(self.lines_) < len(X) and np.ndim(y) == 1 and len(y) == len(X):
            at, y, sample_weight = _merged(at, np.asarray(y), sample_weight)
        pairs = np.column_stack([at, np.zeros(len(at), int)])
        self.estimator_ = self._estimator(X).fit(pairs, y, sample_weight)
        return self

    def predict(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        X = validate_data(self, X, dtype=float, reset=False)
        same = (X[:, None] == self.lines_).all(axis=2)
        seen = same.any(axis=1)
        out = self.estimator_.extrapolate(rows=len(X))[:, 0]
        out[seen] = self.estimator_.predict_matrix(rows=same[seen].argmax(axis=1))[:, 0]
        return out


class OnTablePoisson(OnTable):
    """Counts."""

    def _estimator(self, X: np.ndarray) -> kf.KKMCEXPoisson:
        return kf.KKMCEXPoisson(kf.kernels.rbf(X, length_scale=3.0), mu=self.mu, center="mean")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags


class OnTableClassifier(ClassifierMixin, BaseEstimator):
    """Logistic regression: what is said of :class:`OnTable` holds for it too."""

    def __init__(self, mu: float = 0.1, class_weight: Any = None) -> None:
        self.mu = mu
        self.class_weight = class_weight

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> OnTableClassifier:
        X = validate_data(self, X, dtype=float)
        pairs = np.column_stack([np.arange(len(X)), np.zeros(len(X), int)])
        kernel = kf.kernels.rbf(X, length_scale=3.0)
        settings = {"mu": self.mu, "center": "mean", "class_weight": self.class_weight}
        est = kf.KKMCEXClassifier(kernel, **settings)
        self.estimator_ = est.fit(pairs, y, sample_weight)
        self.classes_ = self.estimator_.classes_
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        X = validate_data(self, X, dtype=float, reset=False)
        return fitted_form(self.estimator_).extended(X, None)[:, 0]

    def predict_proba(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        X = validate_data(self, X, dtype=float, reset=False)
        share = self.estimator_.extrapolate(rows=X)[:, 0]
        return share if len(self.classes_) > 2 else np.column_stack([1 - share, share])

    def predict(self, X: Any) -> np.ndarray:
        latent = self.decision_function(X)
        return self.classes_[(latent > 0).astype(int) if latent.ndim == 1 else latent.argmax(1)]


def _merged(at: np.ndarray, y: np.ndarray, weight: Any) -> tuple[np.ndarray, np.ndarray, Any]:
    weight = np.ones(len(y)) if weight is None else np.asarray(weight)
    if weight.shape != y.shape:
        return at, y, weight
    total = np.bincount(at, weight)
    return np.unique(at), np.bincount(at, weight * y) / total, total


# With row_rank=1.0 nothing is cut, and RRMCEX has no expected failure left.
ADAPTERS = (
    OnTableKKMCEX(),
    OnTableRRMCEX(),
    OnTableRRMCEX(row_rank=1.0),
    OnTableKMC(),
    OnTableIMC(),
    OnTableMC(),
    OnTableBayesianKMC(max_iter=2000),
    OnTableAutoMC(),
    OnTablePoisson(),
    OnTableClassifier(),
)


def impossible(estimator: Any) -> dict[str, str]:
    if isinstance(estimator, OnTableRRMCEX) and estimator.row_rank < 1.0:
        return {
            "check_sample_weight_equivalence_on_dense_data": "the eigenvectors are those of the "
            "kernel over all rows of the matrix, observed or not; repeating or removing lines "
            "changes these rows, weights do not"
        }
    if isinstance(estimator, OnTableBayesianKMC | OnTableAutoMC):
        return {
            "check_sample_weight_equivalence_on_dense_data": "every row of the matrix has a part "
            "of its own and noise is learned: lines that repeat are rows that agree, which tells "
            "more about both than one row of twice the weight"
        }
    return {}


@parametrize_with_checks(list(ADAPTERS), expected_failed_checks=impossible)
def test_through_a_table(estimator: Any, check: Any) -> None:
    check(estimator)


# Checks that feed no table of features, or one whose refusal is what they look for.
DIRECT = {
    "check_do_not_raise_errors_in_init_or_set_params",
    "check_estimator_cloneable",
    "check_estimator_repr",
    "check_estimator_sparse_array",
    "check_estimator_sparse_matrix",
    "check_estimator_sparse_tag",
    "check_estimator_tags_renamed",
    "check_estimators_unfitted",
    "check_fit1d",
    "check_fit_non_negative",
    "check_get_params_invariance",
    "check_mixin_order",
    "check_no_attributes_set_in_init",
    "check_parameters_default_constructible",
    "check_requires_y_none",
    "check_set_params",
    "check_valid_tag_types",
}


def _configured() -> list[Any]:
    kernel = kf.kernels.rbf([[0.0], [1.0], [3.0]], length_scale=1.0)
    return [
        kf.KKMCEX(kernel, np.eye(4), mu=0.5, solver=kf.Cholesky()),
        kf.RRMCEX(kernel, kernel, row_rank=2, center="mean"),
        kf.KMC(kernel, kernel, rank=2, solver=kf.ALS(sweeps=3)),
        kf.IMC([[0.0], [1.0], [3.0]], None, rank=1),
        kf.MC(shape=(3, 4), rank=2, solver=kf.ALS(start="uniform"), random_state=1),
        kf.BayesianKMC(kernel, None, rank=2, center="rows", solver=kf.Variational(sweeps=9)),
        kf.KKMCEXClassifier(kernel, np.eye(4), mu=0.5, class_weight="balanced"),
        kf.KKMCEXPoisson(kernel, np.eye(4), mu="auto", center="mean"),
        kf.AutoMC(kernel, np.eye(4), rank=2),
    ]


def _name(check: Any) -> str:
    return (check.func if isinstance(check, partial) else check).__name__


def _direct() -> Iterator[Any]:
    for estimator in (*(cls() for cls in ESTIMATORS), *_configured()):
        kind = type(estimator).__name__
        for each, check in estimator_checks_generator(estimator):
            if _name(check) in DIRECT:
                yield pytest.param(each, check, id=f"{kind}-{_name(check)}")


@pytest.mark.parametrize(("estimator", "check"), list(_direct()))
def test_directly(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_direct_checks_exist(cls: Any) -> None:
    assert {_name(check) for _, check in estimator_checks_generator(cls())} >= DIRECT
