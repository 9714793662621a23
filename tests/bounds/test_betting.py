"""Bets without replacement: a mean wealth of 1 over all orders, and bounds that hold."""

from __future__ import annotations

from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import kronfill as kf
from kronfill.bounds.betting import Game, betting_bound
from kronfill.bounds.ceilings import Ceilings

B = kf.bounds


def game(losses, ceilings, seen, most, delta):
    seen = list(seen)
    others = np.setdiff1d(np.arange(len(losses)), seen)
    rest = Ceilings.of([ceilings[others]], most)
    return Game.of(losses[seen], ceilings[seen], rest, delta), float(losses[others].mean())


def is_wrong(losses, ceilings, seen, most, delta):
    """Whether the bound lies below the truth; it does where the truth makes wealth large."""
    played, truth = game(losses, ceilings, seen, most, delta)
    return truth > 0 and played.log_wealth(truth) > -np.log(delta) + 1e-9


def tiny(size=5, most=2.0):
    """Populations of five losses: on the edge of their ceilings, of one kind, of many."""
    rng = np.random.default_rng(0)
    flat = np.full(size, most)
    for k in range(1, size):
        yield np.r_[np.zeros(size - k), flat[:k]], flat
    for _ in range(3):
        ceilings = most * rng.uniform(0.25, 1.0, size)
        yield ceilings * rng.beta(0.3, 1.0, size), ceilings
        yield ceilings * (rng.random(size) < 0.4), ceilings
    yield np.zeros(size), flat
    yield flat.copy(), flat


@pytest.mark.parametrize("v", [1, 2, 3, 4])
def test_the_mean_wealth_over_all_orders_is_what_it_started_with(v):
    for losses, ceilings in tiny():
        wealth = []
        for seen in permutations(range(5), v):
            played, truth = game(losses, ceilings, seen, 2.0, 0.2)
            wealth.append(np.exp(played.log_wealth(truth)))
        if (losses < ceilings).all():
            assert_allclose(np.mean(wealth), 1.0, rtol=1e-9)
        else:  # nothing is left to bet on once all that is left is at its ceiling
            assert np.mean(wealth) <= 1.0 + 1e-9


@pytest.mark.parametrize("delta", [0.4, 0.2, 0.05])
def test_coverage_over_all_orders(delta):
    worst = 0.0
    for losses, ceilings in tiny():
        for v in (2, 3, 4):
            orders = permutations(range(5), v)
            failed = np.mean([is_wrong(losses, ceilings, o, 2.0, delta) for o in orders])
            assert failed <= delta, (v, failed)
            worst = max(worst, failed / delta)
    assert worst > 0.2 or delta == 0.05  # bounds that never fail would be too large


def test_a_sorted_order_is_no_game():
    """Why the order has to be drawn: sorted by loss, the mean wealth over all samples is not 1."""
    losses = np.array([0.0, 0.0, 0.1, 0.2, 0.9, 1.0])
    ceilings = np.full(6, 1.5)
    means = []
    for turn in (1, -1):
        played = [
            game(losses, ceilings, seen[::turn], 1.5, 0.2) for seen in combinations(range(6), 4)
        ]
        means.append(np.mean([np.exp(one.log_wealth(truth)) for one, truth in played]))
    assert max(means) > 1.02
    assert min(means) < 0.98


def least_refuted(size, v):
    """How many losses of 1 are too many for v entries without any loss to be bounded rightly."""
    bound = betting_bound(np.zeros(v), np.ones(v), Ceilings.of([np.ones(size - v)], 1.0), 0.05)
    return int(bound * (size - v)) + 1


def hard(name, rng, v, size=600):
    """Losses and ceilings that are hard to bound: rare and large, or on the edge."""
    ceilings = rng.uniform(0.25, 1.0, size)
    if name == "heavy tails":
        return np.minimum(ceilings, 0.001 * rng.pareto(0.8, size)), ceilings
    if name == "rare, at the largest ceilings":
        losses = np.zeros(size)
        at = np.argsort(ceilings)[-12:]
        losses[at] = ceilings[at]
        return losses, ceilings
    if name == "coin tosses":
        return rng.choice([0.0, 1.0], size), np.ones(size)
    if name == "just more than no loss allows":
        return np.where(np.arange(size) < least_refuted(size, v), 1.0, 0.0), np.ones(size)
    return np.where(rng.random(size) < 0.95, ceilings, 0.0), ceilings


@pytest.mark.parametrize("v", [4, 100])
@pytest.mark.parametrize(
    "name",
    [
        "heavy tails", "rare, at the largest ceilings", "coin tosses",
        "just more than no loss allows", "nearly all at most",
    ],
)  # fmt: skip
def test_violations_in_hard_populations(name, v):
    """A thousand samples, sorted by loss as they come in, then shuffled as a hold-out is."""
    rng = np.random.default_rng(1)
    losses, ceilings = hard(name, rng, v)
    failed = 0
    for _ in range(1000):
        seen = rng.choice(len(losses), v, replace=False)
        seen = rng.permutation(seen[np.argsort(losses[seen])])
        failed += is_wrong(losses, ceilings, seen, 1.0, 0.05)
    assert failed <= 64
    assert failed >= 15 or name != "just more than no loss allows"  # where it may fail, it does


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 40), st.integers(1, 60), st.integers(0, 10**6), st.sampled_from([0.3, 0.05]))
def test_the_bound_is_the_end_of_the_interval(v, u, seed, delta):
    rng = np.random.default_rng(seed)
    ceilings = rng.uniform(0.1, 3.0, u + v)
    losses = ceilings * rng.beta(0.5, 3.0, u + v)
    rest = Ceilings.of([ceilings[v:]], 3.0)
    bound = betting_bound(losses[:v], ceilings[:v], rest, delta)
    played = Game.of(losses[:v], ceilings[:v], rest, delta)
    highest = ceilings[v:].mean()
    logs = [played.log_wealth(mean) for mean in np.linspace(0, highest, 15)]
    assert (np.diff(logs) >= -1e-9).all()
    assert 0.0 <= bound <= highest + 1e-12
    if bound < highest - 1e-6:
        assert played.log_wealth(bound) >= -np.log(delta) - 1e-6
        assert bound == 0 or played.log_wealth(bound * (1 - 1e-6)) <= -np.log(delta) + 1e-6
    truth = losses[v:].mean()
    assert is_wrong(losses, ceilings, range(v), 3.0, delta) == (bound < truth)


def test_smaller_ceilings_and_more_entries_help():
    rng = np.random.default_rng(2)
    losses = 0.01 * rng.random(1000)
    found = []
    for top, v in ((1.0, 200), (1.0, 1000), (0.25, 1000)):
        rest = Ceilings.of([np.full(5000, top)], 1.0)
        found.append(betting_bound(losses[:v], np.full(v, top), rest, 0.05))
    assert found[0] > found[1] > found[2] > losses.mean()
    margins = np.array(found) - losses.mean()
    assert_allclose(margins[2] / margins[1], 0.25, atol=0.03)
    # -ln(delta) / v of the range is what any bound must leave for what was not seen
    assert 3.0 / 1000 < margins[1] < 5.5 / 1000


def test_what_is_nearly_all_seen_leaves_little():
    """Without replacement: the margin grows slower than the number of entries left falls."""
    rng = np.random.default_rng(3)
    losses = rng.choice([0.0, 1.0], 8000)
    for seen, most in ((2000, 0.06), (7200, 0.1)):
        rest = Ceilings.of([np.ones(8000 - seen)], 1.0)
        bound = betting_bound(losses[:seen], np.ones(seen), rest, 0.05)
        assert losses[seen:].mean() < bound < losses[:seen].mean() + most


def test_counts_of_ceilings_are_exact_at_the_ends_of_bins():
    rng = np.random.default_rng(4)
    values = rng.uniform(0, 7.0, 1000)
    found = Ceilings.of([values[:300].reshape(20, 15), values[300:]], 7.0)
    assert found.count == 1000
    assert_allclose(found.total, values.sum())
    for level in found.ends[[0, 99, 300, 511]]:
        assert_allclose(found.total_above(level), np.maximum(values, level).sum())
    assert values.max() <= found.top <= values.max() + 7.0 / 512 + 1e-12
    part = found - Ceilings.of([values[:300]], 7.0)
    assert_allclose(part.total, values[300:].sum())


def test_the_boldest_level_is_the_best_of_all_without_losses():
    rng = np.random.default_rng(5)
    values = rng.uniform(0.25, 1.0, 4000) ** 3
    found = Ceilings.of([values], 1.0)
    for log in (0.1, 0.01, 0.0005):
        refuted = [
            np.maximum(values, end).mean() - np.exp(np.log(np.maximum(values, end)).mean() - log)
            for end in found.ends
        ]
        at = round(found.boldest_level(log) * 512) - 1
        assert_allclose(refuted[at], min(refuted), rtol=1e-3)


# The route through a hold-out.


def test_the_ceilings_of_losses():
    rng = np.random.default_rng(6)
    predicted = rng.uniform(-3, 3, 50)
    values = np.linspace(-1, 2, 301)
    for loss in (B.Square(clip=(-1, 2)), B.Absolute(clip=(-2, 2)) * 3, B.Truncated(B.Square(), 2)):
        most = loss(np.tile(values[:, None], 50), np.tile(predicted, (301, 1))).max(axis=0)
        assert_allclose(loss.ceilings(predicted, (-1, 2)), most)
        assert most.max() <= loss.bound


@pytest.mark.parametrize("shape", [(30, 20), (1, 60), (25, 40)])
def test_the_route_bets_on_a_shuffled_hold_out(shape, monkeypatch):
    rng = np.random.default_rng(7)
    values = np.clip(rng.standard_normal(shape) * 0.3, -1, 1)
    rows, cols = np.divmod(rng.permutation(values.size)[: values.size // 2], shape[1])
    observed = kf.Observations(rows, cols, values[rows, cols], shape)
    cut = observed.m // 4
    held, train = observed.take(slice(0, cut)), observed.take(slice(cut, None))
    held = held.take(np.argsort(held.values))
    est = kf.MC(shape=shape, rank=1, mu=1.0, center="mean").fit(train)
    monkeypatch.setattr("kronfill.bounds.routes.BLOCK_FLOATS", 70)
    found = B.certificate(est, (-1, 1), holdout=held, kernels="tuned", random_state=3)
    order = np.random.default_rng(3).permutation(held.m)
    unseen = np.ones(shape, dtype=bool)
    unseen[rows, cols] = False
    loss, predicted = found.loss, est.predict_matrix()
    rest = Ceilings.of([loss.ceilings(predicted[unseen], (-1, 1))], 4.0)
    at = (held.rows[order], held.cols[order])
    expected = betting_bound(
        loss(values[at], predicted[at]), loss.ceilings(predicted[at], (-1, 1)), rest, 0.05
    )
    assert_allclose(found.value, expected, rtol=1e-8)
    other = B.certificate(est, (-1, 1), holdout=held, kernels="tuned", random_state=4)
    assert other.value != found.value
    assert loss.mean(values[unseen], predicted[unseen]) <= found.value


def test_what_stands_beside_a_certificate(smooth):
    problem = smooth()
    observed, _ = problem.split(450, seed=0)
    train, held = observed.take(slice(0, 350)), observed.take(slice(350, 450))
    est = kf.KKMCEX(problem.kernel, problem.kernel, mu=0.01).fit(train)
    found = B.certificate(est, (-1, 1), holdout=held)
    assert_allclose(found.variance, np.var(observed.values))
    assert_allclose(found.holdout_loss, np.mean((est.predict(held) - held.values) ** 2), rtol=1e-9)
    others = [bound.value for bound in found.candidates if not bound.name.startswith("hold-out")]
    assert found.class_value == min(others) > 5 * found.value
    text = " ".join(str(found).split())
    for part in (
        f"The variance of the observed values is {found.variance:.4g}",
        f"the mean loss on the 100 held-out entries is {found.holdout_loss:.4g}",
        f"the theorems about its class give {found.class_value:.4g}.",
    ):
        assert part in text
    tuned = B.certificate(est, (-1, 1), holdout=held, kernels="tuned")
    assert "the theorems about its class give nothing here" in tuned.beside
    assert tuned.value < found.value
