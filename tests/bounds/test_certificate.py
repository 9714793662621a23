"""Certificates: never below the truth, and small enough to mean something."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.model_selection import GridSearchCV

import kronfill as kf
from kronfill.bounds.routes import stratify
from kronfill.errors import (
    DataError,
    DuplicateEntryError,
    LabelError,
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
                assert found.value < QUARTER.bound, name
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
    few = kf.KKMCEX(problem.kernel, problem.kernel, mu=1e-6).fit(train.take(slice(0, 12)))
    vacuous = B.certificate(few, (-1, 1))
    assert vacuous.vacuous
    assert vacuous.valid
    assert "This is vacuous: 0 for every entry guarantees 1." in vacuous.sentence
    assert "root mean square" not in vacuous.sentence


@pytest.mark.parametrize(
    ("loss", "constant"),
    [
        (None, 2.25),
        (B.Square(clip=(0, 5)) / 2, 1.125),  # it may clip to more than the range
        (B.Square(), 2.25),
        (B.Absolute(clip=(1, 4)), 1.5),
        (B.Truncated(B.Square(), 0.5), 0.5),
        (B.Truncated(B.Square(clip=(1, 4)), 3.0) * 2, 4.5),
        (B.Truncated(2 * B.Absolute(), 9.0), 3.0),
    ],
    ids=str,
)
def test_vacuous_is_what_the_best_constant_guarantees(smooth, loss, constant):
    problem = smooth(size=60, noise=0.02)
    train, _ = problem.split(1800, seed=0)
    est = kf.KKMCEX(problem.kernel, problem.kernel, mu=1.0, center="mean" if loss is None else None)
    est.fit(train.with_values(2.5 + 1.4 * train.values))
    found = B.certificate(est, (1, 4), loss=loss)
    values, constants = np.meshgrid(np.linspace(1, 4, 61), np.linspace(1, 4, 61))
    assert_allclose(found.loss(values, constants).max(axis=1).min(), constant)
    assert found.vacuous == (found.value >= constant)
    for value, vacuous in ((0.99 * constant, False), (constant, True), (1.01 * constant, True)):
        bound = B.Bound.of("any", "loss", {"all": value})
        assert replace(found, candidates=(bound,)).vacuous == vacuous


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


def sample_of(values, rows, cols):
    return kf.Observations(rows, cols, values[rows, cols], values.shape)


def test_a_loss_that_clips_narrower_than_the_range_is_refused():
    """Two values of 100 among 900 below 1: what is certified below 1 costs 27 in truth."""
    kernel = kf.kernels.rbf(np.linspace(0, 1, 30), length_scale=0.3)
    for seed in range(5):
        rng = np.random.default_rng(seed)
        values = rng.random((30, 30))
        order = rng.permutation(900)
        values.ravel()[order[-2:]] = 100.0
        train = sample_of(values, *np.divmod(order[:200], 30))
        est = kf.KKMCEX(kernel, kernel, mu=1.0).fit(train)
        for loss in (
            B.Square(clip=(0, 1)),
            B.Absolute(clip=(0, 99)),
            B.Absolute(clip=(0.5, 200)),
            B.Truncated(B.Square(clip=(0, 1)), 0.5),
        ):
            with pytest.raises(
                ParameterError, match=r"value_range says that they lie in \[0, 100\]"
            ):
                B.certificate(est, (0, 100), loss=loss)
        test = sample_of(values, *np.divmod(order[200:], 30))
        for loss in (None, B.Square(clip=(-1, 101)), B.Truncated(B.Square(), 0.5)):
            found = B.certificate(est, (0, 100), loss=loss)
            assert found.valid
            assert found.loss.mean(test.values, est.predict(test)) <= found.value


def quiet_rows(seed, size=60):
    """Rows of coin tosses, but ten of them constant; a third observed."""
    rng = np.random.default_rng(seed)
    values = rng.choice([0.0, 1.0], size=(size, size))
    quiet = rng.choice(size, 10, replace=False)
    values[quiet] = 0.5
    observed = rng.permutation(np.argwhere(rng.random(values.shape) < 0.33))
    return values, observed, np.isin(observed[:, 0], quiet)


def certified(values, observed, held, **settings):
    kernel = kf.kernels.rbf(np.linspace(0, 1, len(values)), length_scale=0.3)
    est = kf.KKMCEX(kernel, kernel, mu=10.0, center="mean")
    est.fit(sample_of(values, *observed[~held].T))
    found = B.certificate(est, (0, 1), holdout=sample_of(values, *observed[held].T), **settings)
    seen = np.zeros(values.shape, dtype=bool)
    seen[tuple(observed.T)] = True
    rest = sample_of(values, *np.nonzero(~seen))
    return found, found.loss.mean(rest.values, est.predict(rest))


def test_a_holdout_that_was_not_drawn_at_random_is_refused():
    for seed in range(10):
        values, observed, quiet = quiet_rows(seed)
        for sign in ("fixed", "tuned"):
            found, truth = certified(values, observed, quiet, kernels=sign)
            assert not found.valid
            assert found.value == np.inf
            assert found.sentence.startswith("No certificate: the hold-out was not drawn at random")
            assert "[DOES NOT HOLD] the hold-out was drawn at random" in str(found)
        columns, _ = certified(values.T, observed[:, ::-1], quiet)
        assert not columns.valid
        drawn = np.arange(len(observed)) < quiet.sum()  # they are in random order
        found, truth = certified(values, observed, drawn)
        assert found.valid
        assert found.name.startswith("hold-out")
        assert truth <= found.value < 1
        assert "[assumed] the hold-out was drawn at random" in str(found)


def test_a_holdout_in_another_order_is_refused(smooth):
    problem = smooth()
    observed, _ = problem.split(450, seed=0)
    names = [f"row{i}" for i in range(30)]
    whole = observed.to_dense()
    train, held = whole.copy(), whole.copy()
    keep = np.random.default_rng(1).random(whole.shape) < 0.8
    train[~keep], held[keep] = np.nan, np.nan
    est = kf.KKMCEX(problem.kernel, problem.kernel, mu=0.1)
    est.fit(kf.Observations.from_matrix(train, row_labels=names))
    turned = kf.Observations.from_matrix(held[::-1], row_labels=names[::-1])
    with pytest.raises(LabelError, match="row 0 is 'row29' in the one and 'row0' in the other"):
        B.certificate(est, (-1, 1), holdout=turned)
    for labels in (names, None):
        fine = kf.Observations.from_matrix(held, row_labels=labels)
        assert B.certificate(est, (-1, 1), holdout=fine).valid


@pytest.mark.parametrize("identity", [0.0, 0.5], ids=["plain", "with an identity part"])
@pytest.mark.parametrize(
    ("fitted", "now"), [("both", None), ("mean", None), (None, "mean"), ("both", "rows")]
)
def test_a_center_that_was_changed_after_the_fit_is_refused(smooth, identity, fitted, now):
    problem = smooth()
    train, _ = problem.split(450, seed=0)
    kernel = problem.kernel
    if identity:
        kernel = kernel + identity * kf.kernels.identity(30)
    est = kf.KKMCEX(kernel, kernel, mu=0.1, center=fitted, solver=kf.PCG()).fit(train)
    before = B.certificate(est, (-1, 1)).value
    with pytest.raises(ParameterError, match="fitted with another value of center"):
        B.certificate(est.set_params(center=now), (-1, 1))
    assert B.certificate(est.set_params(center=fitted), (-1, 1)).value == before


def test_the_range_of_a_loss_is_known_only_if_it_holds_for_any_values(smooth):
    problem = smooth()
    split = B.Split.of(problem.split(450, seed=0)[0])
    ball = B.RKHSBall(problem.kernel, problem.kernel, 1.0)
    for loss, known in ((B.Square(clip=(0, 1)), None), (B.Truncated(B.Square(), 1.0), True)):
        for theorem in (B.theorem_a, B.theorem_a2):
            assert theorem(ball, split, loss).assumptions[-1].holds is known


@pytest.mark.parametrize("zeros", [(True, False), (False, True), (True, True)])
def test_a_kernel_of_zeros_predicts_nothing_and_is_certified(zeros):
    rows, cols = np.divmod(np.random.default_rng(0).permutation(900)[:450], 30)
    train = kf.Observations(rows, cols, np.full(450, 0.1), (30, 30))
    kernels = [np.zeros((30, 30)) if zero else np.eye(30) for zero in zeros]
    for method in (kf.KKMCEX(*kernels), kf.KMC(*kernels, rank=2)):
        found = B.certificate(method.fit(train), (0, 1))
        assert found.valid
        assert_allclose(found.train_loss, 0.01)
        assert 0.01 <= found.value < 1
