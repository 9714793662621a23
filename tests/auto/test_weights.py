"""The error of hidden entries and its derivatives, against explicit refits and differences."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import kronfill as kf
from kronfill.auto import weights
from kronfill.auto.part_arrays import PartArrays, StretchedArray
from kronfill.auto.sources import AxisParts
from kronfill.auto.weights import HiddenEntriesError, HiddenSplit, LearnedWeights, learned_weights


def none_of(rows):
    return np.zeros(len(rows), bool)


def parts(n, count, rng):
    """Some fixed parts, and one of each shape with scales."""
    points = rng.random((count, n, 2))
    squares = ((points[:, :, None] - points[:, None]) ** 2).sum(axis=-1)
    shapes = [
        StretchedArray(rng.random((n, 3)), np.array([0, 1, 0]), rng.uniform(0.5, 1, n), nu)
        for nu in (0.5, 1.5, 2.5, np.inf)
    ]
    return PartArrays(n, (*np.exp(-5 * squares), *shapes))


def split(shape, m, seed=0, hidden=0.2):
    rng = np.random.default_rng(seed)
    rows, cols = np.divmod(rng.choice(shape[0] * shape[1], m, replace=False), shape[1])
    away = np.zeros(m, bool)
    away[: max(1, round(hidden * m))] = True
    return HiddenSplit(
        rows, cols, rng.standard_normal(m) + 3, rng.uniform(0.5, 2, m), rng.permutation(away),
        np.zeros(m, bool), shape,
    )  # fmt: skip


@pytest.mark.parametrize("way", ["direct", "gradients"])
@pytest.mark.parametrize(("shape", "m"), [((12, 9), 60), ((1, 20), 15), ((7, 1), 5), ((3, 2), 2)])
def test_derivatives_are_those_of_an_explicit_refit(way, shape, m, monkeypatch):
    if way == "gradients":
        monkeypatch.setattr(weights, "DIRECT", 0)
        monkeypatch.setattr(weights, "TOL", 1e-12)
    rng = np.random.default_rng(1)
    row, col = parts(shape[0], 2, rng), parts(shape[1], 1, rng)
    data = split(shape, m)
    sizes = [row.counts[0], col.counts[0], row.counts[1], col.counts[1], 1]
    x = np.log(rng.uniform(0.2, 1.5, sum(sizes)))

    def at(x):
        *some, mu = np.split(np.exp(x), np.cumsum(sizes)[:-1])
        return HiddenEntriesError(data, row, col)(*some, float(mu[0]))

    value, slope = at(x)
    assert_allclose(value, explicit(data, row, col, np.exp(x), sizes), rtol=1e-8)
    steps = 1e-5 * np.eye(len(x))
    differences = [(at(x + step)[0] - at(x - step)[0]) / 2e-5 for step in steps]
    assert_allclose(slope * np.exp(x), differences, rtol=1e-5, atol=1e-8)


def whole(parts, weights, scales):
    kernel = parts.at(weights, scales)
    return kernel.smooth + kernel.own * np.eye(parts.n)


def explicit(data, row, col, x, sizes):
    """The same by KKMCEX on the training part."""
    train = ~data.hidden
    mean = np.average(data.values[train], weights=data.weights[train])
    w_row, w_col, s_row, s_col, mu = np.split(x, np.cumsum(sizes)[:-1])
    kernels = whole(row, w_row, s_row), whole(col, w_col, s_col)
    X = np.column_stack([data.rows, data.cols])
    fit = kf.KKMCEX(*kernels, mu=float(mu[0]), solver=kf.Cholesky())
    fit.fit(X[train], data.values[train] - mean, data.weights[train])
    y, share = data.values[data.hidden] - mean, data.weights[data.hidden]
    gap = fit.predict(X[data.hidden]) - y
    return np.average(gap**2, weights=share) / np.average(y**2, weights=share)


def test_a_part_that_tells_nothing_loses_its_weight():
    rng = np.random.default_rng(0)
    n, l = 40, 30
    x, noise = rng.random((n, 1)), rng.random((n, 1))
    true, false = (kf.kernels.rbf(f, 0.2).to_array() for f in (x, noise))
    values = np.sin(8 * x) * rng.standard_normal(l) + 0.1 * rng.standard_normal((n, l))
    rows, cols = np.nonzero(rng.random((n, l)) < 0.5)
    hidden = rng.random(len(rows)) < 0.2
    data = HiddenSplit(
        rows, cols, values[rows, cols], np.ones(len(rows)), hidden, none_of(rows), (n, l)
    )
    row, col = PartArrays(n, (true, false)), PartArrays(l, ())
    none = np.empty(0)
    first = LearnedWeights(np.array([0.5, 0.5, 1, 0.1]), np.array([1.0, 1.0]), none, none, 0.1)
    found = learned_weights([data], [(row, col)], first, 20)
    assert found.row[1] < 0.2 * found.row[0]

    def error(x):
        return HiddenEntriesError(data, row, col)(x.row, x.col, none, none, x.mu)[0]

    assert found.error < error(first)
    assert_allclose(found.error, error(found))


def test_a_feature_that_tells_nothing_loses_its_scale():
    rng = np.random.default_rng(0)
    n, l = 40, 30
    x = rng.random((n, 2))
    axis = AxisParts.of(kf.kernels.rbf(x, 0.3), "row_sources")
    assert axis.scales == (2, 2, 0)
    values = np.sin(8 * x[:, :1]) * rng.standard_normal(l) + 0.1 * rng.standard_normal((n, l))
    rows, cols = np.nonzero(rng.random((n, l)) < 0.5)
    hidden = np.isin(rows, rng.choice(n, 8, replace=False))
    data = HiddenSplit(
        rows, cols, values[rows, cols], np.ones(len(rows)), hidden, none_of(rows), (n, l)
    )
    first = LearnedWeights(axis.first(), np.ones(2), np.ones(4), np.empty(0), 0.1)
    found = learned_weights([data], [(axis.arrays(np.arange(n)), PartArrays(l, ()))], first, 20)
    assert found.row_scales[1] < 0.5 * found.row_scales[0]
    kernel = axis.kernel(found.row, found.row_scales)
    assert_allclose(
        kernel.to_array(), whole(axis.arrays(np.arange(n)), found.row, found.row_scales)
    )
    assert_allclose(
        kernel.cross(x[[3]]), kernel.block([3], None) - found.row[-1] * np.eye(n)[[3]], atol=1e-12
    )


@pytest.mark.parametrize("agree", [True, False])
def test_what_does_not_hold_beyond_what_it_was_learned_from_is_not_taken(agree):
    """Columns to learn from follow one part; those that are spared the same, or another."""
    rng = np.random.default_rng(0)
    n, l = 40, 40
    one, other = (kf.kernels.rbf(rng.random((n, 1)), 0.2).to_array() for _ in range(2))
    first, last = (np.linalg.cholesky(k + 1e-6 * np.eye(n)) for k in (one, one if agree else other))
    noise = rng.standard_normal((n, l))
    values = np.hstack([first @ noise[:, :20], last @ noise[:, 20:]])
    rows, cols = np.divmod(np.arange(n * l), l)
    hidden = rng.random(n * l) < 0.5
    data = HiddenSplit(
        rows, cols, values[rows, cols], np.ones(n * l), hidden, hidden & (cols >= 20), (n, l)
    )
    none = np.empty(0)
    start = LearnedWeights(np.array([0.5, 0.5, 1.0, 0.1]), np.ones(2), none, none, 0.1)
    parts = (PartArrays(n, (one, other)), PartArrays(l, ()))
    found = learned_weights([data], [parts], start, 10)
    if agree:
        assert found.row[0] > 5 * found.row[1]
    else:
        assert_allclose(found.row, start.row)
        assert found.mu != start.mu
