"""Whole rows held out: what they prove about rows without observations."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from numpy.testing import assert_allclose

import kronfill as kf
from kronfill.errors import DataError, ParameterError

B = kf.bounds
SHAPE = (40, 6)


def fitted(values, train_rows, kernel=None):
    rows = np.repeat(train_rows, values.shape[1])
    cols = np.tile(np.arange(values.shape[1]), len(train_rows))
    est = kf.KKMCEX(kernel, None, mu=0.1, center="mean")
    return est.fit(kf.Observations(rows, cols, values[rows, cols], values.shape))


def entries(values, mask):
    rows, cols = np.nonzero(mask)
    return kf.Observations(rows, cols, values[rows, cols], values.shape)


@pytest.mark.parametrize(("kind", "delta"), [("edge", 0.3), ("mixed", 0.1)])
def test_coverage_over_all_choices_of_rows_and_columns(kind, delta):
    """Two of five rows held out, two of three columns observed in each: all 90 cases."""
    rng = np.random.default_rng(0)
    for trial in range(3):
        values = rng.choice([0.0, 1.0], (7, 3), p=[0.7, 0.3])
        if kind == "mixed":
            values = rng.beta(0.4, 1.0 + trial, (7, 3))
        est = fitted(values, np.array([5, 6]), kernel=np.eye(7) + 0.5)
        loss = B.Square(clip=(0, 1))
        truth = loss(values[:5], est.predict_matrix()[:5]).mean()
        found = []
        for two in combinations(range(5), 2):
            for columns in product(combinations(range(3), 2), repeat=2):
                mask = np.zeros((7, 3), dtype=bool)
                for row, some in zip(two, columns, strict=True):
                    mask[row, list(some)] = True
                found.append(
                    B.new_items_certificate(est, (0, 1), entries(values, mask), delta).value
                )
        failed = np.mean(np.array(found) < truth - 1e-9)
        assert failed <= delta


def test_violations_with_rows_of_different_lengths():
    """Loud rows have few observations: each row counts as one, and the bound holds."""
    rng = np.random.default_rng(1)
    n, l = 150, 8
    loud = rng.random(n) < 0.2
    values = np.where(loud[:, None], rng.choice([0.0, 1.0], (n, l)), 0.5)
    fit_rows = np.arange(20)
    est = fitted(values, fit_rows, kernel=np.eye(n) + 1.0)
    loss = B.Square(clip=(0, 1))
    truth = loss(values[20:], est.predict_matrix()[20:]).mean()
    failed, pooled = 0, []
    for _ in range(150):
        chosen = rng.choice(np.arange(20, n), 40, replace=False)
        mask = np.zeros((n, l), dtype=bool)
        for row in chosen:
            mask[row, rng.choice(l, 1 if loud[row] else l, replace=False)] = True
        held = entries(values, mask)
        found = B.new_items_certificate(est, (0, 1), held)
        failed += found.value < truth
        pooled.append(loss.mean(held.values, est.predict(held)))
        assert found.held_out == 40
        assert found.population == 130
    assert failed <= 15  # 5% of 150 and three standard errors
    assert np.mean(pooled) < 0.5 * truth  # what counting entries would have said


def same_column(rng, kind, n=200, l=8, v=40):
    """Rows of which one of 8 columns is all loss; one column is seen, of each row or of all."""
    values = np.zeros((n, l))
    values[:, 0] = 1.0
    est = fitted(np.where(np.arange(n)[:, None] < 10, 0.0, values), np.arange(10), np.eye(n) + 1.0)
    rows = rng.choice(np.arange(10, n), v, replace=False)
    cols = np.full(v, rng.integers(l)) if kind == "shared" else rng.integers(0, l, v)
    return est, kf.Observations(rows, cols, values[rows, cols], values.shape), 1 / l


def test_columns_that_are_shared_by_all_rows_refute_the_certificate():
    """Each column is drawn at random, but once for all rows: the bound fails, and says so."""
    rng = np.random.default_rng(4)
    failed, refuted = {"shared": 0, "own": 0}, {"shared": 0, "own": 0}
    for kind in failed:
        for _ in range(60):
            est, held, truth = same_column(rng, kind)
            found = B.new_items_certificate(est, (0, 1), held)
            failed[kind] += found.value < truth
            refuted[kind] += not found.valid
            assert ("IT DOES NOT APPLY HERE" in found.sentence) == (not found.valid)
    assert failed["shared"] > 40  # seven in eight
    assert failed["own"] <= 6  # 5% of 60 and two standard errors
    assert refuted["shared"] == 60
    assert refuted["own"] <= 2  # one in a thousand, or a few: five entries a column are few
    est, held, _ = same_column(rng, "shared")
    said = " ".join(str(B.new_items_certificate(est, (0, 1), held)).split())
    assert "[DOES NOT HOLD] within a held-out row the columns observed were drawn" in said
    assert "independently for each row (their counts would be as they are with" in said


def test_columns_are_rows_of_the_transposed():
    rng = np.random.default_rng(2)
    values = rng.random(SHAPE)
    kernel = kf.kernels.rbf(np.linspace(0, 1, 40), length_scale=0.2)
    est = fitted(values, np.arange(15), kernel)
    turned = kf.KKMCEX(None, kernel, mu=0.1, center="mean").fit(
        kf.Observations(
            est.observations_.cols, est.observations_.rows, est.observations_.values, SHAPE[::-1]
        )
    )
    mask = np.zeros(SHAPE, dtype=bool)
    mask[15:30] = rng.random((15, 6)) < 0.7
    mask[15:30, 0] = True
    found = B.new_items_certificate(est, (0, 1), entries(values, mask))
    other = B.new_items_certificate(turned, (0, 1), entries(values.T, mask.T), axis="cols")
    assert_allclose(other.value, found.value, rtol=1e-6)
    assert "15 of them that were held out" in found.sentence
    assert "25 columns that the model was not fitted to" in other.sentence
    assert "[assumed] within a held-out row the columns" in " ".join(str(found).split())


def test_bad_input_is_refused():
    rng = np.random.default_rng(3)
    values = rng.random(SHAPE)
    est = fitted(values, np.arange(15), np.eye(40) + 1.0)
    mask = np.zeros(SHAPE, dtype=bool)
    mask[14:20] = True
    with pytest.raises(DataError, match="must consist of whole rows"):
        B.new_items_certificate(est, (0, 1), entries(values, mask))
    mask[14] = False
    held = entries(values, mask)
    with pytest.raises(ParameterError, match="axis must be"):
        B.new_items_certificate(est, (0, 1), held, axis="diagonal")
    with pytest.raises(ParameterError, match="loss of finite range"):
        B.new_items_certificate(est, (0, 1), held, loss="square")
    with pytest.raises(DataError, match="outside the stated range"):
        B.new_items_certificate(est, (0.4, 0.5), held)
    with pytest.raises(DataError, match="holdout must be an Observations"):
        B.new_items_certificate(est, (0, 1), None)
