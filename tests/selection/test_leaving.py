"""What is left out, by formulas and by solves, against refits."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import kronfill as kf
from kronfill.errors import ParameterError
from kronfill.selection import leave_out

N, L = 14, 11


def data(share=0.5, seed=0):
    rng = np.random.default_rng(seed)
    row, col = np.linspace(0, 1, N), np.linspace(0, 1, L)
    X = np.argwhere(rng.random((N, L)) < share)
    y = np.sin(5 * row[X[:, 0]]) * np.cos(4 * col[X[:, 1]]) + 0.2 * rng.standard_normal(len(X))
    return kf.kernels.rbf(row, 0.3), kf.kernels.rbf(col, 0.3), X, y


def observed(X, y, weights):
    return kf.Observations(*X.T, y, (N, L), weights=weights)


def refitted(est, X, y, groups, weights):
    out = np.empty(len(y))
    for g in np.unique(groups):
        held = groups == g
        fit = type(est)(**est.get_params(deep=False)).fit(
            observed(X[~held], y[~held], weights[~held])
        )
        out[held] = y[held] - fit.predict(X[held])
    return out


def groups_of(by, X):
    return {"entry": np.arange(len(X)), "row": X[:, 0], "column": X[:, 1]}[by]


@pytest.mark.parametrize("by", ["entry", "row", "column"])
def test_leave_out_equals_refits(by):
    row, col, X, y = data()
    est = kf.KKMCEX(row, col, mu=0.1, center="both")
    weights = np.random.default_rng(1).uniform(0.5, 2, len(y))
    weights[3] = 0.0
    got = leave_out(est, observed(X, y, weights), by=by)
    keep = weights > 0
    wanted = refitted(est, X[keep], y[keep], groups_of(by, X)[keep], weights[keep])
    assert np.isnan(got[3])
    assert_allclose(got[keep], wanted, atol=1e-8)


@pytest.mark.parametrize("by", ["entry", "row", "column"])
@pytest.mark.parametrize("identity", [0.0, 0.2])
@pytest.mark.parametrize("small", [True, False])
def test_named_items_by_formulas_and_by_solves(by, identity, small, monkeypatch):
    row, col, X, y = data()
    if identity:
        row, col = (k + identity * kf.kernels.identity(k.n) for k in (row, col))
    if not small:
        monkeypatch.setattr("kronfill.selection.leaving.EXACT_WORK", 0.0)
    est = kf.KKMCEX(row, col, mu=0.1, center="mean")
    weights = np.random.default_rng(1).uniform(0.5, 2, len(y))
    weights[0] = 0.0
    got = leave_out(est, observed(X, y, weights), by=by, items=[1, 4])
    groups, keep = groups_of(by, X), weights > 0
    wanted = np.full(len(y), np.nan)
    wanted[keep] = refitted(est, X[keep], y[keep], groups[keep], weights[keep])
    wanted[~np.isin(groups, [1, 4])] = np.nan
    assert_array_equal(np.isnan(got), np.isnan(wanted))
    assert_allclose(got, wanted, atol=1e-8 if small else 1e-5)


def test_bad_input_is_refused(monkeypatch):
    row, col, X, y = data()
    with pytest.raises(ParameterError, match="linear in the observations"):
        leave_out(kf.MC(), X, y)
    with pytest.raises(ParameterError, match="number as mu"):
        leave_out(kf.KKMCEX(row, col, mu="auto"), X, y)
    with pytest.raises(ParameterError, match="'entry', 'row'"):
        leave_out(kf.KKMCEX(row, col), X, y, by="block")
    for bad in ([99], [0.5]):
        with pytest.raises(ParameterError, match="items must be rows with observations"):
            leave_out(kf.KKMCEX(row, col), X, y, by="row", items=bad)
    monkeypatch.setattr("kronfill.selection.leaving.ALL_WORK", 0.0)
    with pytest.raises(ParameterError, match="too many to leave out every row"):
        leave_out(kf.KKMCEX(row, col), X, y, by="row")
