"""Explanations: they add up, they are the representer sum, and they speak in labels."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import kronfill as kf
from kronfill.errors import IndexRangeError, LabelError, ParameterError

N, L = 8, 6
RNG = np.random.default_rng(0)
KW = kf.kernels.rbf(RNG.random((N, 2)), length_scale=0.5)
KH = kf.kernels.rbf(RNG.random((L, 1)), length_scale=0.3)


def data(m=25, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.permutation(np.argwhere(np.ones((N - 1, L))))[:m]  # the last row is cold
    return X, rng.standard_normal(m) + 2.0, rng.uniform(0.3, 2.0, m)


def total(shown):
    effects = shown.mean + shown.row_effect + shown.col_effect
    return effects + shown.contributions.sum() + shown.rest


@pytest.mark.parametrize("center", [None, "mean", "both"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "est",
    [
        kf.KKMCEX(KW, KH, mu=0.2),
        kf.KKMCEX(KW, None, mu=0.2),
        kf.KKMCEX(KW, KH, mu=0.2, solver=kf.PCG(tol=1e-11)),
        kf.RRMCEX(KW, KH, 3, 2, mu=0.2),
    ],
    ids=["KKMCEX", "one kernel", "PCG", "RRMCEX"],
)
def test_the_parts_add_up_to_the_prediction(est, center, weighted):
    X, y, w = data()
    w[3] = 0.0
    obs = kf.Observations(*X.T, y, (N, L), weights=w if weighted else None)
    est.set_params(center=center).fit(obs)
    for i, j in [(0, 0), (N - 1, 2), (3, 5)]:
        wanted = est.predict([[i, j]])[0]
        for top in (1, 7, 100):
            shown = est.explain(i, j, top=top)
            assert shown.prediction == pytest.approx(wanted, abs=1e-9)
            assert total(shown) == pytest.approx(wanted, abs=1e-9)
            assert len(shown) == min(top, 24 if weighted else 25)
        assert np.all(np.diff(np.abs(shown.contributions)) <= 0)


def test_contributions_are_the_representer_sum():
    X, y, _ = data()
    est = kf.KKMCEX(KW, KH, mu=0.2).fit(X, y)
    shown = est.explain(N - 1, 4, top=25)
    similarity = KW.block([N - 1], X[:, 0])[0] * KH.block([4], X[:, 1])[0]
    parts = est.dual_coef_ * similarity
    order = np.argsort(-np.abs(parts))
    assert_allclose(shown.contributions, parts[order])
    assert_allclose(shown.similarities, similarity[order])
    assert_array_equal(np.column_stack([shown.rows, shown.cols]), X[order])
    assert_array_equal(shown.values, y[order])


def test_rrmcex_uses_its_own_kernel():
    X, y, _ = data()
    est = kf.RRMCEX(KW, KH, 3, 2, mu=0.2).fit(X, y)
    left, right = (basis.known(None) for basis in est._bases)
    same = kf.KKMCEX(left @ left.T, right @ right.T, mu=0.2).fit(X, y)
    ours, theirs = est.explain(7, 1, top=25), same.explain(7, 1, top=25)
    assert_allclose(ours.contributions, theirs.contributions, atol=1e-8)


def test_labels_frame_and_text():
    table = pd.DataFrame(
        [[1.0, 2.0], [np.nan, 4.0], [np.nan, np.nan]], index=["a", "b", "c"], columns=["x", "y"]
    )
    obs = kf.Observations.from_matrix(table)
    kernel = kf.kernels.rbf([[0.0], [1.0], [1.5]], length_scale=1.0)
    est = kf.KKMCEX(kernel, np.ones((2, 2)), mu=0.5, center="mean").fit(obs)
    shown = est.explain("c", "x", top=2)
    assert shown.entry == ("c", "x")
    assert shown.row_labels[0] == "b"
    assert shown.col_labels[0] == "y"
    frame = shown.to_frame()
    assert list(frame.columns) == ["row", "col", "value", "similarity", "contribution"]
    assert frame.row[0] == "b"
    assert_allclose(frame.contribution, shown.contributions)
    text = repr(shown)
    assert text.startswith(f"Prediction {est.predict([[2, 0]])[0]:.4g} at (c, x)")
    assert "mean" in text
    assert "from (b, y), observed 4" in text
    assert "from all other observations" in text
    with pytest.raises(LabelError, match="Unknown row label 'd'"):
        est.explain("d", "x")


def test_single_observation_and_single_items():
    est = kf.KKMCEX(None, None, mu=1.0).fit([[0, 0]], [4.0])
    shown = est.explain(0, 0)
    assert_allclose(shown.contributions, [2.0])
    assert shown.rest == 0.0
    assert "other" not in repr(shown)


def test_bad_input():
    X, y, _ = data()
    est = kf.KKMCEX(KW, KH).fit(X, y)
    with pytest.raises(IndexRangeError, match="row index 8"):
        est.explain(8, 0)
    with pytest.raises(IndexRangeError, match="column index -1"):
        est.explain(0, -1)
    with pytest.raises(LabelError, match="no column labels"):
        est.explain(0, "monday")
    with pytest.raises(ParameterError, match="top must be"):
        est.explain(0, 0, top=0)


def noisy(mu, method=kf.KKMCEX, **settings):
    """Values about 7 on a grid of 12 x 10, seen with a little noise."""
    rng = np.random.default_rng(0)
    X = rng.permutation(np.argwhere(np.ones((12, 10))))[:80]
    y = 7 + np.sin(X[:, 0] / 3) * np.cos(X[:, 1] / 3) + 0.1 * rng.standard_normal(80)
    kernels = (kf.kernels.rbf(np.arange(n), length_scale=3.0) for n in (12.0, 10.0))
    return method(*kernels, mu=mu, **settings).fit(X, y)


@pytest.mark.parametrize("center", [None, "mean", "both"])
@pytest.mark.parametrize("method", [kf.KKMCEX, kf.RRMCEX])
def test_terms_that_cancel_are_said_to_explain_nothing(method, center):
    est = noisy(1e-6, method, center=center)
    shown = est.explain(5, 5, top=80)
    assert np.abs(shown.contributions).max() > 40
    effects = shown.mean + shown.row_effect + shown.col_effect
    obs = est.observations_
    left = obs.values - est.mean_ - est.row_effects_[obs.rows] - est.col_effects_[obs.cols]
    size = max(abs(shown.prediction - effects), np.abs(left).max())
    assert shown.cancellation == pytest.approx(np.abs(shown.contributions).sum() / size)
    assert shown.cancels
    # Whatever is listed, all terms count.
    assert est.explain(5, 5, top=1).cancellation == pytest.approx(shown.cancellation)
    text = repr(shown).replace("\n", " ")
    assert f"add up to {shown.cancellation:.3g} times what there is to explain" in text
    assert "none of them tells where the prediction comes from" in text
    assert "a larger mu than 1e-06" in text


def test_terms_that_explain_are_left_alone():
    shown = noisy(30.0).explain(5, 5)
    assert shown.cancellation < 2
    assert not shown.cancels
    assert "cancel" not in repr(shown)
    # Nothing but zeros: nothing to explain, and nothing that cancels.
    X, _, _ = data()
    nothing = kf.KKMCEX(KW, KH, mu=0.2).fit(X, np.zeros(len(X))).explain(0, 0)
    assert (nothing.cancellation, nothing.cancels) == (1.0, False)
