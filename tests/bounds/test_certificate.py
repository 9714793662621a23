"""Certificates: never below the truth, and small enough to mean something."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.model_selection import GridSearchCV

import kronfill as kf
from kronfill.bounds.strata import stratify
from kronfill.errors import (
    DataError,
    DuplicateEntryError,
    MissingDependencyError,
    ParameterError,
)

B = kf.bounds
QUARTER = B.Square(clip=(-1, 1)) / 4


def gap_and_loss(est, train, test, loss):
    gap = B.generalization_error(est, train, test, loss)
    return gap, loss.mean(test.values, est.predict(test))


def test_the_30_x_30_problem_over_200_splits(smooth):
    problem = smooth()
    values, names = [], set()
    for seed in range(200):
        train, test = problem.split(450, seed)
        est = kf.KKMCEX(problem.kernel, problem.kernel, mu=0.01).fit(train)
        found = B.certificate(est, (-1, 1), loss=QUARTER)
        gap, loss = gap_and_loss(est, train, test, QUARTER)
        assert found.value <= 0.35
        assert gap <= found.gap
        assert loss <= found.value
        values.append(found.value)
        names.add(found.name)
    assert np.mean(values) < 0.27
    assert min(values) > 0.2  # less would be too good for this theorem
    assert names <= {"Theorem A (norm and fitted size)", "Theorem B"}


@pytest.mark.parametrize(
    ("m", "length_scale", "noise", "mu", "most"),
    [(150, 0.5, 0.1, 0.01, 0.48), (450, 0.1, 0.3, 0.01, 0.65), (450, 0.5, 0.1, 1.0, 0.3)],
)
def test_other_settings_are_covered(smooth, m, length_scale, noise, mu, most):
    problem = smooth(length_scale=length_scale, noise=noise)
    for seed in range(12):
        train, test = problem.split(m, seed)
        est = kf.KKMCEX(problem.kernel, problem.kernel, mu=mu).fit(train)
        found = B.certificate(est, (-1, 1), loss=QUARTER)
        gap, loss = gap_and_loss(est, train, test, QUARTER)
        assert gap <= found.gap
        assert loss <= found.value < most
        raw = B.Square()
        size = B.RKHSBall(problem.kernel, problem.kernel, 1.0).norm_of(est)
        ball = B.RKHSBall(problem.kernel, problem.kernel, size)
        proved = B.theorem_b(ball, B.Split.of(train), value_max=1.0)
        assert B.generalization_error(est, train, test, raw) <= proved.value


def models(problem, features):
    common = {"mu": 0.1}
    return {
        "MC": kf.MC(rank=3, **common),
        "MC centred": kf.MC(rank=2, center="both", **common),
        "KMC": kf.KMC(problem.kernel, problem.kernel, rank=3, **common),
        "IMC": kf.IMC(features, features, rank=3, **common),
        "IMC one side": kf.IMC(features, None, rank=3, **common),
        "RRMCEX": kf.RRMCEX(problem.kernel, problem.kernel, row_rank=5, col_rank=5, **common),
        "KKMCEX centred": kf.KKMCEX(problem.kernel, problem.kernel, center="rows", **common),
    }


@pytest.mark.parametrize("m", [288, 96])
def test_every_method_gets_a_certificate(smooth, m):
    problem = smooth(size=24)
    features = np.cos(np.outer(np.linspace(0, 1, 24), np.pi * np.arange(4)))
    for name, model in models(problem, features).items():
        for seed in range(4):
            train, test = problem.split(m, seed)
            est = model.fit(train)
            found = B.certificate(est, (-1, 1), loss=QUARTER)
            gap, loss = gap_and_loss(est, train, test, QUARTER)
            assert found.valid, name
            assert gap <= found.gap, name
            assert loss <= found.value, name
            assert_allclose(sum(found.terms.values()), found.value)
            if m == 288 and name not in ("IMC one side", "MC centred"):
                assert not found.vacuous, name
        effects = {"complexity of effects" in bound.terms for bound in found.candidates}
        assert effects == {"centred" in name}


def test_effects_cost_what_their_norms_say(smooth):
    problem = smooth()
    train, _ = problem.split(450, seed=0)
    shifted = train.with_values(0.4 * train.values + 0.5)
    costs = {}
    for center in ("mean", "both"):
        est = kf.KKMCEX(problem.kernel, problem.kernel, mu=0.1, center=center).fit(shifted)
        found = B.certificate(est, (-1, 1))
        costs[center] = found.terms["complexity of effects"]
        norm = abs(est.mean_) + np.linalg.norm(est.row_effects_) + np.linalg.norm(est.col_effects_)
        # gamma = 4, and 2 / sqrt(k) per unit of norm; radii are rounded up by less than 1.2
        assert 1 <= costs[center] / (4 * 2 / np.sqrt(450) * norm) <= 1.21
    assert costs["both"] > costs["mean"]


def test_a_holdout_beats_the_theorems_and_is_covered(smooth):
    problem = smooth()
    for seed in range(20):
        observed, test = problem.split(450, seed)
        train, held = observed.take(slice(0, 350)), observed.take(slice(350, 450))
        est = kf.KKMCEX(problem.kernel, problem.kernel, mu=0.01).fit(train)
        found = B.certificate(est, (-1, 1), loss=QUARTER, holdout=held)
        assert found.name.startswith("hold-out")
        assert found.value < 0.1
        assert found.sizes == B.Sizes(350, 450)
        assert QUARTER.mean(test.values, est.predict(test)) <= found.value
        alone = B.certificate(est, (-1, 1), loss=QUARTER, holdout=held, kernels="tuned")
        assert alone.value < found.value  # delta is not shared
        assert len(alone.candidates) == 1


def test_tuned_kernels_need_a_list_or_a_holdout(smooth):
    problem = smooth()
    observed, _ = problem.split(450, seed=0)
    train, held = observed.take(slice(0, 350)), observed.take(slice(350, 450))
    est = kf.KKMCEX(problem.kernel, problem.kernel, mu=0.01).fit(train)
    refused = B.certificate(est, (-1, 1), kernels="tuned")
    assert not refused.valid
    assert refused.value == np.inf
    assert refused.vacuous
    assert "from no declared finite list" in str(refused)
    with pytest.raises(ParameterError, match="nothing to draw"):
        refused.plot()
    assert B.certificate(est, (-1, 1), kernels="tuned", holdout=held).valid
    one, many = (B.certificate(est, (-1, 1), kernels=k).value for k in (1, 1000))
    assert one < many < 1.3 * one
    with pytest.raises(ParameterError, match='kernels must be "fixed"'):
        B.certificate(est, (-1, 1), kernels="guessed")


def test_a_search_over_kernels_is_counted(smooth):
    problem = smooth()
    train, _ = problem.split(300, seed=0)
    other = kf.kernels.rbf(np.linspace(0, 1, 30), length_scale=0.2)
    grids = {
        1: {"mu": [0.01, 0.1, 1.0]},
        2: {"mu": [0.01, 0.1], "row_kernel": [problem.kernel, other]},
    }
    for count, grid in grids.items():
        base = kf.KKMCEX(problem.kernel, problem.kernel, mu=0.1)
        search = GridSearchCV(base, grid, cv=3).fit(train.X, train.values)
        found = B.certificate(search, (-1, 1))
        best = B.certificate(search.best_estimator_, (-1, 1), kernels=count)
        assert found.value == best.value
        told = any("among 2 candidates" in part.text for part in found.assumptions)
        assert told == (count == 2)


def test_delta_is_shared_and_smaller_deltas_cost_more(smooth):
    problem = smooth()
    train, _ = problem.split(450, seed=0)
    est = kf.KKMCEX(problem.kernel, problem.kernel, mu=0.01).fit(train)
    found = [B.certificate(est, (-1, 1), delta=delta) for delta in (0.2, 0.05, 0.001)]
    assert found[0].value < found[1].value < found[2].value
    # Three routes, so each has a third of delta.
    plain = 4 * B.Sizes(450, 450).deviation(0.05 / 3)
    assert_allclose(found[1].terms["confidence"], plain)
    assert len(found[1].candidates) == 3


def test_strata_cover_every_norm_and_their_shares_sum_to_one():
    shares = [stratify({"b": 2.0**j}, {"b": 1.0}, ratio=2.0).share for j in range(-40, 2000 // 2)]
    assert 0.97 < sum(shares) <= 1.0
    for norm in (0.0, 1e-9, 0.3, 1.0, 1.0000001, 77.0):
        found = stratify({"b": norm}, {"b": 1.0})
        assert norm <= found.radii["b"] <= max(norm * 1.2000001, 1e-3)
    both = stratify({"b": 2.0, "r": 4.0}, {"b": 1.0, "r": 1.0}, ratio=2.0)
    assert_allclose(both.share, (2 / 3) ** 2 / (2 * 3) / (3 * 4))


def test_the_sampling_assumption_is_reported(smooth):
    problem = smooth()
    mask = np.random.default_rng(0).random((30, 30)) < np.linspace(0.1, 0.9, 30)[:, None]
    values = np.where(mask, problem.values, np.nan)
    est = kf.KKMCEX(problem.kernel, problem.kernel, mu=0.1)
    est.fit(kf.Observations.from_matrix(values))
    found = B.certificate(est, (-1, 1))
    assert not found.valid
    assert np.isfinite(found.value)
    assert "DOES NOT APPLY" in found.sentence
    assert "NOT compatible with uniform sampling" in str(found)
    train, _ = problem.split(450, seed=0)
    fine = B.certificate(est.fit(train), (-1, 1))
    assert fine.valid
    assert fine.sampling.compatible


def test_the_sentence_can_be_quoted(smooth):
    problem = smooth()
    train, _ = problem.split(450, seed=0)
    est = kf.KKMCEX(problem.kernel, problem.kernel, mu=0.01).fit(train)
    found = B.certificate(est, (-1, 1))
    for part in (
        "With probability at least 0.95",
        "450 unobserved entries is at most",
        "Theorem A",
    ):
        assert part in found.sentence
    assert f"{found.value:.4g}" in found.sentence
    assert "every set of that many entries was equally likely" in str(found)
    assert "Certificate(value=" in repr(found)
    assert not found.vacuous
    few = kf.KKMCEX(problem.kernel, problem.kernel, mu=1e-6).fit(train.take(slice(0, 12)))
    vacuous = B.certificate(few, (-1, 1))
    assert vacuous.vacuous
    assert vacuous.valid
    assert "This is vacuous: no model can have a loss above 4" in vacuous.sentence


@pytest.mark.parametrize(
    "loss", [B.Absolute(clip=(-1, 1)), B.Truncated(B.Square(), 0.5), B.Square()], ids=str
)
def test_other_losses(smooth, loss):
    problem = smooth()
    train, test = problem.split(450, seed=0)
    est = kf.KKMCEX(problem.kernel, problem.kernel, mu=0.1).fit(train)
    found = B.certificate(est, (-1, 1), loss=loss)
    assert loss.mean(test.values, est.predict(test)) <= found.value < np.inf
    if loss == B.Square():
        assert found.name == "Theorem B"
        assert not found.vacuous


def test_what_no_theorem_covers_is_refused_with_the_reason(smooth):
    problem = smooth()
    train, _ = problem.split(450, seed=0)
    found = B.certificate(kf.MC(rank=2, mu=0.1).fit(train), (-1, 1), loss="square")
    assert not found.valid
    assert "no theorem covers this model with the square loss" in found.sentence


def test_bad_input_is_refused(smooth):
    problem = smooth()
    train, _ = problem.split(450, seed=0)
    est = kf.KKMCEX(problem.kernel, problem.kernel, mu=0.1).fit(train)
    with pytest.raises(ParameterError, match="value_range must be two finite numbers"):
        B.certificate(est, (1, -1))
    with pytest.raises(DataError, match="outside the stated range"):
        B.certificate(est, (-0.1, 0.1))
    with pytest.raises(ParameterError, match="delta must be"):
        B.certificate(est, (-1, 1), delta=1.5)
    with pytest.raises(DuplicateEntryError):
        B.certificate(est, (-1, 1), holdout=train.take(slice(0, 3)))
    with pytest.raises(ParameterError, match="must be a fitted MC"):
        B.certificate(object(), (-1, 1))
    held = problem.split(450, seed=0)[1].take(slice(0, 9))
    with pytest.raises(ParameterError, match="hold-out needs a loss of finite range"):
        B.certificate(est, (-1, 1), loss="square", holdout=held)
    forgetful = kf.KKMCEX(problem.kernel, problem.kernel, mu=0.1).fit(train)
    del forgetful.observations_
    with pytest.raises(ParameterError, match="does not hold the observations"):
        B.certificate(forgetful, (-1, 1))
    full = kf.Observations.from_matrix(problem.values)
    with pytest.raises(ParameterError, match="u must be a positive integer"):
        B.certificate(kf.KKMCEX(problem.kernel, problem.kernel).fit(full), (-1, 1))


def test_the_plot_shows_every_term(smooth, monkeypatch):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    problem = smooth()
    train, _ = problem.split(450, seed=0)
    est = kf.KKMCEX(problem.kernel, problem.kernel, mu=0.1, center="both").fit(train)
    found = B.certificate(est, (-1, 1))
    ax = found.plot()
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert set(found.terms) <= set(labels)
    widths = sum(patch.get_width() for patch in ax.patches)
    assert_allclose(widths, sum(bound.value for bound in found.candidates))
    matplotlib.pyplot.close("all")
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'kronfill\[plots\]'"):
        found.plot()
