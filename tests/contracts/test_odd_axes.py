"""Choosing and uncertainty where an axis has no kernel or a single item, or m = 1.

Every feature either gives what brute force gives, or refuses with an error of kronfill that says
why there is no answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

import kronfill as kf
from kronfill.errors import DataError, EmptyDataError, IndexRangeError, ParameterError
from kronfill.estimators.conformal import ConformalRegressor
from kronfill.selection import (
    ColumnKFold,
    EntryKFold,
    KernelTuner,
    RowColumnKFold,
    RowKFold,
    choose,
    leave_out,
    mu_path,
)

CENTERS = (None, "mean", "rows", "cols", "both")
MUS = np.array([1.0, 0.1])


def rbf(n):
    return kf.kernels.rbf(np.linspace(0, 1, n), length_scale=0.4)


def dense(kernel, n):
    return np.eye(n) if kernel is None else kf.kernels.as_kernel(kernel, "kernel").to_array()


@dataclass(frozen=True)
class Odd:
    """A table with its kernels and observations."""

    row: Any
    col: Any
    shape: tuple[int, int]
    m: int

    @property
    def X(self):
        every = np.argwhere(np.ones(self.shape))
        return np.random.default_rng(3).permutation(every)[: self.m]

    @property
    def y(self):
        X, rng = self.X, np.random.default_rng(1)
        return 2.0 + np.sin(X[:, 0]) * np.cos(X[:, 1]) + 0.2 * rng.standard_normal(self.m)

    @property
    def obs(self):
        return kf.Observations(*self.X.T, self.y, self.shape)

    @property
    def everything(self):
        return np.argwhere(np.ones(self.shape))

    def without(self, held):
        return kf.Observations(*self.X[~held].T, self.y[~held], self.shape)

    def estimator(self, method, **settings):
        return method(self.row, self.col, **settings)

    def entry_kernel(self):
        """K over all entries, row by row."""
        return np.kron(dense(self.row, self.shape[0]), dense(self.col, self.shape[1]))


ODD = {
    "no row kernel": Odd(None, rbf(5), (6, 5), 20),
    "no column kernel": Odd(rbf(6), None, (6, 5), 20),
    "no kernels": Odd(None, None, (6, 5), 20),
    "identities": Odd(kf.kernels.identity(6), rbf(5) + kf.kernels.identity(5), (6, 5), 20),
    "one row": Odd(None, rbf(9), (1, 9), 7),
    "one row with a kernel": Odd(np.full((1, 1), 2.0), rbf(9), (1, 9), 7),
    "one row, no kernels": Odd(None, None, (1, 9), 7),
    "one column": Odd(rbf(9), None, (9, 1), 7),
    "one column with a kernel": Odd(rbf(9), np.full((1, 1), 2.0), (9, 1), 7),
    "one observation": Odd(rbf(4), None, (4, 3), 1),
    "one entry": Odd(None, None, (1, 1), 1),
    "one entry with kernels": Odd(np.ones((1, 1)), np.full((1, 1), 3.0), (1, 1), 1),
}
METHODS = {"KKMCEX": kf.KKMCEX, "RRMCEX": kf.RRMCEX}
case = pytest.mark.parametrize("name", ODD)
both_methods = pytest.mark.parametrize("method", METHODS)


@case
@both_methods
def test_mu_auto(name, method):
    odd = ODD[name]
    for center in CENTERS:
        est = odd.estimator(METHODS[method], mu="auto", center=center).fit(odd.obs)
        assert 0 < est.mu_ < np.inf
        assert np.isfinite(est.predict_matrix()).all()


def refitted(est, odd, groups, mu):
    """Value less prediction of each group by a fit to the others; NaN if there are none."""
    out = np.full(odd.m, np.nan)
    for g in np.unique(groups):
        held = groups == g
        if not held.all():
            fit = clone(est).set_params(mu=mu).fit(odd.without(held))
            out[held] = odd.y[held] - fit.predict(odd.X[held])
    return out


@case
@both_methods
def test_paths_and_what_is_left_out(name, method):
    odd = ODD[name]
    groups = {"entry": np.arange(odd.m), "row": odd.X[:, 0], "column": odd.X[:, 1]}
    for center in CENTERS:
        est = odd.estimator(METHODS[method], mu=0.1, center=center)
        path = mu_path(est, odd.obs, mus=MUS, criterion=("gcv", "lml", "loo", "row", "column"))
        assert path.method == "exact"
        for by, group in groups.items():
            wanted = refitted(est, odd, group, 0.1)
            if by == "entry" and odd.m == 1:  # what is predicted from nothing is 0
                wanted = odd.y
            got = leave_out(est, odd.obs, by=by)
            told = ~np.isnan(got)
            assert_allclose(got[told], wanted[told], atol=1e-8)
            if by != "entry":
                assert_array_equal(told, ~np.isnan(wanted))
                square = path.criteria[by][1]
                if told.all():
                    assert square == pytest.approx(np.mean(wanted**2), abs=1e-8)
                else:
                    assert np.isnan(square)
        defined = [key for key, curve in path.criteria.items() if not np.isnan(curve).all()]
        assert list(path.best) == defined
        assert set(path.best.values()) <= set(MUS)


@case
def test_an_undefined_criterion_says_why(name):
    odd = ODD[name]
    for by, index in (("row", odd.X[:, 0]), ("column", odd.X[:, 1])):
        path = mu_path(odd.estimator(kf.KKMCEX), odd.obs, mus=MUS, criterion=by)
        if len(np.unique(index)) == 1:
            with pytest.raises(EmptyDataError, match=f"all observations are in one {by}"):
                _ = path.mu
        else:
            assert path.mu in MUS


@case
@pytest.mark.parametrize("method", ["MC", "KMC"])
def test_paths_of_factorised_methods(name, method):
    odd = ODD[name]
    est = kf.MC(shape=odd.shape, rank=1) if method == "MC" else kf.KMC(odd.row, odd.col, rank=1)
    if odd.m == 1:
        with pytest.raises(ParameterError, match="need at least as many entries, got 1"):
            mu_path(est, odd.obs)
        return
    path = mu_path(est, odd.obs, cv=EntryKFold(3))
    assert path.mu in path.mus
    assert np.isfinite(path.criteria["cv"]).all()
    auto = clone(est).set_params(mu="auto").fit(odd.obs)
    assert np.isfinite(auto.predict_matrix()).all()


SPLITTERS = {
    "entries": (EntryKFold(2), lambda X: len(X)),
    "rows": (RowKFold(2), lambda X: len(np.unique(X[:, 0]))),
    "columns": (ColumnKFold(2), lambda X: len(np.unique(X[:, 1]))),
    "both": (RowColumnKFold(2, 2), lambda X: min(len(np.unique(X[:, k])) for k in (0, 1))),
}


@case
@pytest.mark.parametrize("kind", SPLITTERS)
def test_splitters(name, kind):
    odd = ODD[name]
    splitter, count = SPLITTERS[kind]
    if count(odd.X) < 2:
        with pytest.raises(ParameterError, match=r"2 folds need at least as many .*, got 1"):
            list(splitter.split(odd.X))
        return
    # Tools of scikit-learn hand over index pairs: a kernel must say how many rows there are.
    row, col = (
        kf.kernels.identity(n) if kernel is None else kernel
        for kernel, n in zip((odd.row, odd.col), odd.shape, strict=True)
    )
    scores = cross_val_score(
        kf.KKMCEX(row, col, mu=0.1), odd.X, odd.y, cv=splitter, error_score="raise",
        scoring="neg_mean_squared_error",
    )  # fmt: skip
    assert np.isfinite(scores).all()
    assert len(scores) == splitter.get_n_splits(odd.X)


def test_rows_that_no_kernel_tells_of_are_refused_in_scikit_learns_tools():
    odd = ODD["no row kernel"]
    with pytest.raises(IndexRangeError, match="Where nothing is known about the rows"):
        cross_val_score(kf.KKMCEX(None, odd.col), odd.X, odd.y, cv=RowKFold(2), error_score="raise")


def learnable(kernel, n):
    """Kernels to weigh on an axis; nothing where there is no kernel."""
    return None if kernel is None else [kernel, kf.kernels.identity(n)]


@case
@pytest.mark.parametrize("criterion", ["lml", "loo"])
def test_learned_kernels(name, criterion):
    odd = ODD[name]
    n, l = odd.shape
    tuner = KernelTuner(
        kf.KKMCEX(), learnable(odd.row, n), learnable(odd.col, l), criterion=criterion
    ).fit(odd.obs)
    assert 0 < tuner.mu_ < np.inf
    assert np.isfinite(tuner.criterion_)
    assert np.isfinite(tuner.predict(odd.everything)).all()
    for kernel, told in ((odd.row, tuner.row_parameters_), (odd.col, tuner.col_parameters_)):
        assert (told is None) == (kernel is None)
        assert told is None or (told >= 0).all()


@case
def test_a_choice(name):
    odd = ODD[name]
    candidates = {
        "given": odd.estimator(kf.KKMCEX, mu="auto"),
        "cut": odd.estimator(kf.RRMCEX, mu=0.1),
        "none": kf.KKMCEX(None, None, mu=0.1),
    }
    assert choose(candidates, odd.obs).name in candidates
    if odd.m == 1:
        with pytest.raises(ParameterError, match="folds need at least"):
            choose(candidates, odd.obs, outer=EntryKFold(2))
        return
    choice = choose(candidates, odd.obs, outer=EntryKFold(2))
    assert np.isfinite(choice.nested.rmse)
    assert set(choice.nested.names) <= set(candidates)


def dense_posterior(odd, est):
    """Covariance of all entries by dense algebra."""
    kernel, at = odd.entry_kernel(), odd.X[:, 0] * odd.shape[1] + odd.X[:, 1]
    inverse = np.linalg.inv(kernel[np.ix_(at, at)] + est.mu_ * np.eye(odd.m))
    scale = odd.y @ inverse @ odd.y / odd.m
    return scale * (kernel - kernel[:, at] @ inverse @ kernel[at])


@case
@pytest.mark.parametrize("small", [True, False])
def test_standard_deviations_and_samples(name, small, monkeypatch):
    odd = ODD[name]
    if not small:  # as in a large table: by solves, samples by Matheron's rule
        for limit in ("SMALL_SYSTEM", "DENSE_POSTERIOR", "DENSE_BLOCK"):
            monkeypatch.setattr(f"kronfill.estimators.gaussian_process.posterior.{limit}", 0)
    est = odd.estimator(kf.KKMCEX, mu=0.3).fit(odd.obs)
    wanted = dense_posterior(odd, est)
    deviation = np.sqrt(np.diag(wanted))
    assert_allclose(est.predict_std(odd.everything), deviation, atol=1e-8)
    assert_allclose(est.extrapolate_std(), deviation.reshape(odd.shape), atol=1e-8)
    count = 4000 if small else 150
    draws = est.sample_posterior(n_samples=count, random_state=0).reshape(count, -1)
    gap = draws.mean(axis=0) - est.predict(odd.everything)
    assert np.all(np.abs(gap) <= 5 * deviation / np.sqrt(count) + 1e-12)
    spread = np.abs(np.cov(draws.T).reshape(wanted.shape) - wanted)
    assert np.all(spread <= 6 * np.sqrt(2 / count) * np.outer(deviation, deviation) + 1e-12)


@case
@both_methods
def test_standard_deviations_with_effects(name, method):
    odd = ODD[name]
    for center in CENTERS[1:]:
        est = odd.estimator(METHODS[method], mu=0.3, center=center).fit(odd.obs)
        if np.isnan(est.signal_variance_):  # as many effects as observations
            with pytest.raises(DataError, match="nothing is left to tell"):
                est.predict_std(odd.X)
            continue
        std = est.predict_std(odd.everything)
        assert np.all(std >= 0)
        seen_r, seen_c = (np.isin(odd.everything[:, k], odd.X[:, k]) for k in (0, 1))
        known = {"mean": seen_r | True, "rows": seen_r, "cols": seen_c, "both": seen_r & seen_c}
        assert_array_equal(np.isfinite(std), known[center])


def unlike(kernel):
    """Two new items that are like none of the known ones, and their similarity with themselves."""
    if kernel is None:
        return 2, 1.0
    if isinstance(kernel, np.ndarray):
        return (np.zeros((2, 1)), [3.0, 3.0]), 3.0
    return (2 if kernel.split()[0] is None else [[99.0], [-99.0]]), float(kernel.diagonal()[0])


@case
def test_new_items_that_are_like_none_have_their_prior(name):
    odd = ODD[name]
    est = odd.estimator(kf.KKMCEX, mu=0.3).fit(odd.obs)
    new, own = unlike(odd.row)
    beside = np.diag(dense(odd.col, odd.shape[1]))
    wanted = np.sqrt(est.signal_variance_ * own * beside)
    assert_allclose(est.extrapolate_std(rows=new), np.tile(wanted, (2, 1)), atol=1e-8)
    new, own = unlike(odd.col)
    beside = np.diag(dense(odd.row, odd.shape[0]))
    wanted = np.sqrt(est.signal_variance_ * own * beside)
    assert_allclose(est.extrapolate_std(cols=new), np.tile(wanted, (2, 1)).T, atol=1e-8)


@case
@pytest.mark.parametrize("way", ["split", "jackknife+"])
def test_intervals(name, way):
    odd = ODD[name]
    model = ConformalRegressor(odd.estimator(kf.KKMCEX, mu=0.3), way)
    if odd.m == 1:
        with pytest.raises(DataError, match="at least 2 observations"):
            model.fit(odd.obs)
        return
    model.fit(odd.obs)
    fitted = model.estimator_.observations_
    warm = (fitted.row_counts[odd.X[:, 0]] > 0) & (fitted.col_counts[odd.X[:, 1]] > 0)
    if 1 in odd.shape:  # there every entry that is left out is of its own
        warm[:] = True
    low, high = model.predict_interval(odd.X[warm], coverage=0.5).T
    assert np.all(low <= high)
    assert np.isfinite(low).all()


@case
@both_methods
def test_explanations_add_up(name, method):
    odd = ODD[name]
    for center in CENTERS:
        est = odd.estimator(METHODS[method], mu=0.3, center=center).fit(odd.obs)
        i, j = map(int, odd.everything[-1])
        told = est.explain(i, j, top=3)
        assert len(told) == min(3, odd.m)
        total = told.mean + told.row_effect + told.col_effect + told.rest
        total += told.contributions.sum()
        assert total == pytest.approx(est.predict([[i, j]])[0], abs=1e-8)


@case
@pytest.mark.parametrize("way", ["variance", "leverage"])
def test_suggestions(name, way):
    odd = ODD[name]
    est = odd.estimator(kf.KKMCEX, mu=0.3).fit(odd.obs)
    left = len(odd.everything) - odd.m
    if left == 0:
        with pytest.raises(ParameterError, match="only 0 candidates"):
            est.suggest(1, method=way)
        return
    chosen = np.asarray(est.suggest(min(2, left), method=way))
    assert not {tuple(pair) for pair in chosen} & {tuple(pair) for pair in odd.X}
    if way == "variance":
        variance = np.diag(dense_posterior(odd, est))
        at = chosen[0, 0] * odd.shape[1] + chosen[0, 1]
        assert est.suggest(1).std[0] == pytest.approx(np.sqrt(variance[at]), abs=1e-8)
