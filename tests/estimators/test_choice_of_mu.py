"""mu="auto" and rank="auto" beside a fine grid, on problems of different nature."""

import numpy as np
import pytest

import kronfill as kf
from kronfill.criteria.held_out import CRITERION, held_out_part
from kronfill.ridge.solution import Status


def problem(kind, seed=0):
    """Kernels, training entries and test entries of one problem."""
    rng = np.random.default_rng(seed)
    n, l, share, noise = 40, 30, 0.45, 0.3
    if kind == "tall":
        n, l = 120, 8
    if kind == "one row":
        n, l, share = 1, 200, 0.6
    if kind == "sparse":
        share = 0.15
    places = [rng.random((size, 2)) for size in (n, l)]
    kernels = [kf.kernels.rbf(place, 0.4) + kf.kernels.constant(len(place)) for place in places]
    if kind != "smooth":
        kernels = [k + 0.1 * kf.kernels.identity(k.n) for k in kernels]
    if kind == "tanimoto":
        kernels = [kf.kernels.tanimoto(rng.random((size, 60)) < 0.2) for size in (n, l)]
    smooth = np.sin(4 * places[0] @ [1, 2])[:, None] * np.cos(5 * places[1] @ [2, 1])
    low = rng.standard_normal((n, 2)) @ rng.standard_normal((2, l)) / 2
    signals = {
        "low rank": low, "both": smooth + low, "noise": 0 * smooth,
        "effects": rng.standard_normal((n, 1)) + rng.standard_normal(l),
    }  # fmt: skip
    truth = signals.get(kind, smooth)
    if kind == "little noise":
        noise = 0.01
    weight = np.outer(rng.pareto(1.5, n) + 0.2, rng.pareto(1.5, l) + 0.2)
    odds = weight / weight.mean() if kind == "uneven" else np.ones((n, l))
    seen = rng.random((n, l)) < share * np.minimum(odds, 2)
    values = truth + noise * rng.standard_normal((n, l))
    X, rest = np.argwhere(seen), np.argwhere(~seen)
    return kernels, X, values[seen], rest, values[~seen]


KINDS = (
    "smooth", "tanimoto", "low rank", "both", "noise", "effects", "little noise", "uneven",
    "sparse", "tall", "one row",
)  # fmt: skip


def error(est, data):
    _, X, y, rest, values = data
    return float(np.sqrt(np.mean((est.fit(X, y).predict(rest) - values) ** 2)))


def inner_error(est, data, hidden):
    """Root mean square error of entries that are hidden from a fit to the others."""
    _, X, y, _, _ = data
    gap = est.fit(X[~hidden], y[~hidden]).predict(X[hidden]) - y[hidden]
    return float(np.sqrt(np.mean(gap**2)))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("large", [False, True])
def test_kkmcex_is_within_a_percent_of_the_best_of_a_fine_grid(kind, large, monkeypatch):
    """By leave-one-out, or by held-out entries where there are too many for that."""
    data = problem(kind)
    (row, col), X, y, _, _ = data
    if large:
        monkeypatch.setattr("kronfill.criteria.exact.CRITERIA_WORK", 0.0)
    est = kf.KKMCEX(row, col, mu="auto", center="mean").fit(X, y)
    grid = np.logspace(3, -6, 60)
    if large:
        hidden = held_out_part(len(y))
        fit = lambda mu: inner_error(kf.KKMCEX(row, col, mu, "mean"), data, hidden)  # noqa: E731
    else:
        path = kf.selection.mu_path(est, X, y, mus=np.append(grid, est.mu_), criterion="loo")
        found = dict(zip(path.mus, np.sqrt(path.criteria["loo"]), strict=True))
        fit = found.__getitem__
    assert fit(est.mu_) <= 1.01 * min(fit(mu) for mu in grid)
    assert est.solution_.status in (Status.EXACT, Status.CONVERGED)


@pytest.mark.parametrize("kind", ["low rank", "both", "effects", "uneven", "tall"])
@pytest.mark.parametrize("method", ["MC", pytest.param("KMC", marks=pytest.mark.slow)])
def test_factorised_methods_are_within_a_percent_of_a_fine_grid(kind, method, monkeypatch):
    monkeypatch.setattr("kronfill.estimators.factor_search.FOLDS_LIMIT", 0)
    data = problem(kind)
    (row, col), X, y, _, _ = data
    hidden = held_out_part(len(y))

    def make(mu):
        if method == "MC":
            return kf.MC(shape=(row.n, col.n), rank=5, mu=mu, center="mean")
        return kf.KMC(row, col, rank=5, mu=mu, center="mean")

    est = make("auto").fit(X, y)
    grid = np.logspace(2, -2, 17)
    least = min(inner_error(make(mu), data, hidden) for mu in grid)
    # Not by a refit from elsewhere: these problems have several valleys.
    assert np.sqrt(min(one.error for one in est.mu_search_.trials)) <= 1.01 * least
    assert est.solution_.status is Status.CONVERGED
    assert all(one.sound for one in est.mu_search_.trials)
    if kind == "both":
        settled = [one.solution for one in est.mu_search_.trials if one.solution.settled]
        assert settled
        assert all(one.criterion == CRITERION and one.change <= 5e-4 for one in settled)


def test_the_rank_grows_as_long_as_that_pays():
    rng = np.random.default_rng(0)
    truth = rng.standard_normal((80, 16)) @ rng.standard_normal((16, 70)) / 4
    seen = rng.random(truth.shape) < 0.7
    X, y = np.argwhere(seen), (truth + 0.05 * rng.standard_normal(truth.shape))[seen]
    few, many = (kf.MC(rank=rank, mu="auto").fit(X, y) for rank in (10, "auto"))
    assert many.rank_ >= 16 > few.rank_ == 10
    wrong = [np.mean((est.predict_matrix() - truth)[~seen] ** 2) for est in (few, many)]
    assert wrong[1] < 0.8 * wrong[0]


def test_a_rank_that_is_chosen_does_no_harm():
    rng = np.random.default_rng(1)
    truth = np.outer(rng.standard_normal(30), rng.standard_normal(25))
    seen = rng.random(truth.shape) < 0.5
    X, y = np.argwhere(seen), (truth + 0.3 * rng.standard_normal(truth.shape))[seen]
    est = kf.MC(rank="auto", mu="auto").fit(X, y)
    fixed = kf.MC(rank=10, mu="auto").fit(X, y)
    wrong = [np.mean((one.predict_matrix() - truth)[~seen] ** 2) for one in (est, fixed)]
    assert wrong[0] <= 1.05 * wrong[1]


@pytest.mark.parametrize("m", [1, 2, 3])
@pytest.mark.parametrize("level", [0.0, 4.0])
def test_next_to_nothing_observed(m, level):
    X, y = np.argwhere(np.ones((1, 5)))[:m], np.full(m, level)
    for est in (
        kf.KKMCEX(None, np.eye(5), mu="auto"),
        kf.RRMCEX(None, np.eye(5), mu="auto"),
        kf.MC(shape=(1, 5), mu="auto", rank="auto"),
        kf.KMC(np.eye(1), np.eye(5), mu="auto", rank="auto"),
        kf.IMC(np.eye(1), np.eye(5), mu="auto", rank="auto"),
    ):
        est.fit(X, y)
        assert np.isfinite(est.predict_matrix()).all()
        assert np.isfinite(est.mu_)
        assert est.mu_ > 0


def test_the_same_seed_gives_the_same_choice():
    _, X, y, _, _ = problem("both")
    first, second = (kf.MC(mu="auto", rank="auto", center="mean").fit(X, y) for _ in range(2))
    assert (first.mu_, first.rank_) == (second.mu_, second.rank_)
    assert np.array_equal(first.predict_matrix(), second.predict_matrix())


@pytest.mark.parametrize("rank", ["many", 0, 1.5, True])
def test_a_rank_that_makes_no_sense_is_refused(rank):
    with pytest.raises(kf.errors.ParameterError, match="positive integer or"):
        kf.MC(rank=rank).fit([[0, 0]], [1.0])
