"""A part set aside, judged by, and then used as well: certificates in one step."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import kronfill as kf
from kronfill.completion.certified import certify, certify_new_items
from kronfill.completion.problem import CompletionProblem
from kronfill.errors import DataError, EmptyDataError, ParameterError


def table(seed=0, shape=(40, 25), share=0.6):
    """Smooth values between 0 and 1 with gaps, and where the rows are."""
    rng = np.random.default_rng(seed)
    places = np.sort(rng.random(shape[0]))
    truth = 0.5 + 0.4 * np.outer(np.sin(6 * places), np.cos(np.arange(shape[1]) / 4))
    truth = np.clip(truth + 0.02 * rng.standard_normal(shape), 0, 1)
    names = [f"r{k}" for k in range(shape[0])]
    sides = pd.DataFrame({"x": places}, index=names)
    seen = np.where(rng.random(shape) < share, truth, np.nan)
    return pd.DataFrame(seen, index=names), sides, truth


def test_the_certificate_is_of_a_fit_without_the_part_and_the_table_of_one_with_it(monkeypatch):
    seen, sides, truth = table()
    fits = []
    fit = CompletionProblem.fit
    monkeypatch.setattr(
        CompletionProblem, "fit", lambda self: fits.append(self.observations) or fit(self)
    )
    done = kf.complete(seen, method="kkmcex", rows=sides, value_range=(0, 1), certify=0.1)
    plain = kf.complete(seen, method="kkmcex", rows=sides)
    pd.testing.assert_frame_equal(done.filled, plain.filled)
    part, whole = fits[0], fits[1]
    assert part.m == whole.m - round(0.1 * whole.m)
    found = done.certified
    assert plain.certified is None
    assert found.valid
    assert found.holdout_size == whole.m - part.m
    assert found.sizes.m == part.m
    assert f"fitted to {part.m:,} of the {whole.m:,} observed entries" in found.sentence
    assert "of that nothing is proved" in found.sentence
    estimate = CompletionProblem.of(seen, method="kkmcex", rows=sides).estimator.fit(part)
    unseen = seen.isna().to_numpy()
    gap = np.clip(estimate.predict_matrix(), 0, 1) - truth
    assert np.mean(gap[unseen] ** 2) <= found.value
    assert found.value < found.variance < found.class_value


def test_the_draw_follows_the_seed():
    seen, sides, _ = table()
    problem = CompletionProblem.of(seen, method="kkmcex", rows=sides)
    values = [certify(problem, (0, 1), 0.2, seed).value for seed in (0, 0, 1)]
    assert values[0] == values[1] != values[2]
    generator = np.random.default_rng(0)
    assert certify(problem, (0, 1), 0.2, generator).value == values[0]


def test_the_bound_holds_over_many_draws():
    """The same truth, 60 masks: at most as many failures as 5% make likely."""
    failed = 0
    for seed in range(60):
        seen, _, truth = table(seed, shape=(15, 12))
        problem = CompletionProblem.of(seen, method="mc", rank=1, mu=0.1)
        found = certify(problem, (0, 1), 0.2, seed)
        rng = np.random.default_rng(seed)
        held = rng.permutation(problem.observations.m) < found.holdout_size
        est = problem.estimator.fit(problem.observations.take(~held))
        gap = np.clip(est.predict_matrix(), 0, 1) - truth
        failed += np.mean(gap[seen.isna().to_numpy()] ** 2) > found.value
    assert failed <= 7


def test_it_is_saved_with_the_model(tmp_path):
    seen, sides, _ = table()
    done = kf.complete(seen, method="kkmcex", rows=sides, value_range=(0, 1), certify=0.1)
    done.save(tmp_path / "m.kf")
    back = kf.load(tmp_path / "m.kf")
    assert str(back.certified) == str(done.certified)
    assert back.certified.value == done.certified.value
    assert [bound.terms for bound in back.certified.candidates] == [
        dict(bound.terms) for bound in done.certified.candidates
    ]
    back.save(tmp_path / "again.kf")
    assert (tmp_path / "again.kf").read_bytes() == (tmp_path / "m.kf").read_bytes()
    kf.complete(seen, method="kkmcex", rows=sides).save(tmp_path / "plain.kf")
    assert kf.load(tmp_path / "plain.kf").certified is None


@pytest.mark.parametrize("axis", ["rows", "cols"])
def test_whole_rows_set_aside_bound_the_loss_on_new_ones(axis, tmp_path):
    """By the definition: rows drawn from the seed, a fit without them, their certificate."""
    seen, sides, truth = table(shape=(160, 12))
    seen.iloc[:10] = np.nan
    if axis == "cols":
        seen, truth = seen.T, truth.T
    known = {"rows" if axis == "rows" else "cols": sides}
    done = kf.complete(
        seen, method="kkmcex", mu=0.1, value_range=(0, 1), certify=0.3, certify_new=axis, **known
    )
    found, obs, at = done.certified_new, done.observations, axis == "cols"
    items = np.flatnonzero((obs.row_counts, obs.col_counts)[at])
    drawn = np.random.default_rng(0).permutation(items)[: round(0.3 * len(items))]
    held = np.isin((obs.rows, obs.cols)[at], drawn)
    problem = CompletionProblem.of(seen, method="kkmcex", mu=0.1, **known)
    model = problem.estimator.fit(obs.take(~held))
    want = kf.bounds.new_items_certificate(model, (0, 1), obs.take(held), axis=axis)
    assert found.value == want.value
    assert (found.held_out, found.population) == (45, 55)
    cold = np.append(np.arange(10), drawn)
    gap = np.clip(model.predict_matrix(), 0, 1) - truth
    assert np.mean(gap[cold] ** 2 if axis == "rows" else gap[:, cold] ** 2) < found.value < 0.1
    assert "model fitted to" in found.sentence
    done.save(tmp_path / "m.kf")
    back = kf.load(tmp_path / "m.kf").certified_new
    assert str(back) == str(found)
    assert back.value == found.value


def test_rows_without_entries_and_dropped_labels():
    seen, sides, _ = table()
    seen.iloc[3] = np.nan
    fewer = sides.drop(index="r7")
    fewer.loc["new"] = 0.5
    done = kf.complete(
        seen, method="kkmcex", rows=fewer, unmatched="drop", value_range=(0, 1), certify=0.2, mu=0.1
    )
    n, l = done.observations.shape
    assert (n, l) == (40, 25)
    assert done.certified.sizes.u == n * l - done.observations.m


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"certify": 0.1}, "certify needs value_range"),
        ({"value_range": (1, 0)}, "value_range must be two numbers"),
        ({"value_range": (0, 1), "certify": 1.0}, "above 0 and below 1"),
        ({"value_range": (0, 1), "certify": True}, "above 0 and below 1"),
        ({"value_range": (1, 0), "certify": 0.1}, "value_range must be two finite numbers"),
        ({"value_range": (0, 1), "certify": 0.1, "certify_new": "row"}, "certify_new must be one"),
        ({"certify_new": "rows"}, "certify_new needs certify"),
        ({"value_range": (0, 1), "certify": 0.2, "transform": "log"}, "fitted as they are"),
        ({"value_range": (0, 1), "certify": 0.2, "round": True}, r"rounded \(round=True\)"),
    ],
)
def test_what_cannot_be_certified_is_refused(settings, said, monkeypatch):
    seen, sides, _ = table()
    monkeypatch.setattr(CompletionProblem, "of", None)  # before any work
    with pytest.raises(ParameterError, match=said):
        kf.complete(seen, rows=sides, **settings)


def test_a_problem_on_another_scale_is_refused_before_its_fit(monkeypatch):
    seen, sides, _ = table()
    settings = {"method": "mc", "rank": 1, "value_range": (0, 1)}
    monkeypatch.setattr(CompletionProblem, "fit", None)
    for more in ({"transform": "log"}, {"rounded": True}):
        problem = CompletionProblem.of(seen + 1e-3, sides, **settings, **more)
        for make in (certify, certify_new_items):
            with pytest.raises(ParameterError, match="fitted as they are"):
                make(problem, (0, 1), 0.2)


def test_the_default_method_is_certified():
    seen, sides, truth = table()
    done = kf.complete(seen, rows=sides, value_range=(0, 1), certify=0.2)
    found = done.certified
    assert found.valid
    assert "speaks of the model fitted to" in found.sentence
    assert found.name == "hold-out (betting)"
    missing = seen.isna().to_numpy()
    assert np.mean((done.filled.to_numpy() - truth)[missing] ** 2) < found.value < 0.25


def test_values_outside_the_range_and_too_few_entries():
    seen, sides, _ = table()
    with pytest.raises(DataError, match="outside the stated range"):
        kf.complete(seen, method="kkmcex", rows=sides, value_range=(0.4, 0.6), certify=0.1)
    one = np.array([[0.5, np.nan], [np.nan, np.nan]])
    with pytest.raises(EmptyDataError, match="got 1 in all"):
        kf.complete(one, method="mc", rank=1, value_range=(0, 1), certify=0.1)


def test_a_report_shows_it():
    from kronfill.report.facts import guarantee

    seen, sides, _ = table()
    done = kf.complete(seen, method="kkmcex", rows=sides, value_range=(0, 1), certify=0.1)
    for limits in (None, (0, 1), (0.0, 1.0)):
        found = guarantee(done, limits)
        assert found.value == done.certified.value
        assert found.sentence == done.certified.sentence
    assert guarantee(done, (-1, 1)).value != done.certified.value
    assert_allclose(guarantee(done, None).high, 1.0)
    assert guarantee(kf.complete(seen, method="kkmcex", rows=sides), None) is None
