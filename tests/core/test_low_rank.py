"""Pivoted Cholesky: accuracy, economy, and matrices that are hard for it."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from kronfill.core.low_rank import LowRankFactor, pivoted_cholesky
from kronfill.errors import KernelError, NonFiniteError, ParameterError, ShapeError


def factorise(K, **settings):
    return pivoted_cholesky(
        lambda idx: K[:, idx],
        np.diagonal(K),
        submatrix=lambda rows, cols: K[np.ix_(rows, cols)],
        **settings,
    )


def gram(n, rank, seed=0):
    x = np.random.default_rng(seed).normal(size=(n, rank))
    return x @ x.T


def smooth(n, length_scale):
    x = np.random.default_rng(0).random((n, 2)) / length_scale
    square = (x**2).sum(1)
    return np.exp(np.minimum(0, x @ x.T - square[:, None] / 2 - square / 2))


def spectrum(n, lowest):
    Q, _ = np.linalg.qr(np.random.default_rng(1).normal(size=(n, n)))
    K = (Q * np.logspace(0, lowest, n)) @ Q.T
    return (K + K.T) / 2


def scaled(n):
    scale = np.logspace(0, -9, n)
    return gram(n, 5) * np.outer(scale, scale)


HARD = {
    "identity": np.eye(300),
    "one": np.array([[3.0]]),
    "ones": np.ones((250, 250)),
    "zero": np.zeros((4, 4)),
    "zero rows": np.pad(gram(50, 4), ((0, 3), (2, 0))).T @ np.pad(gram(50, 4), ((0, 3), (2, 0))),
    "rank 7": gram(300, 7),
    "full": gram(200, 250),
    "copies": np.kron(np.eye(60), np.ones((4, 4))),
    "smooth": smooth(400, 0.3),
    "rough": smooth(400, 0.02),
    "falling": spectrum(200, -20),
    "items of all scales": scaled(100),
    "diagonal": np.diag(np.logspace(0, -30, 80)),
    "huge": 1e200 * gram(40, 3),
    "tiny": 1e-200 * gram(40, 3),
}


@pytest.mark.parametrize("rtol", [1e-13, 1e-4, 0.0])
@pytest.mark.parametrize("name", HARD)
def test_accuracy(name, rtol):
    K = HARD[name]
    factor = factorise(K, rtol=rtol)
    trace = np.trace(K)
    assert np.abs(K - factor.phi @ factor.phi.T).max() <= (rtol + 1e-13) * trace
    assert factor.residual <= max(rtol, 1e-15)
    assert factor.rank <= K.shape[0]


@pytest.mark.parametrize("name", HARD)
def test_extension(name):
    K = HARD[name]
    factor = factorise(K)
    assert_array_equal(np.triu(factor.phi[factor.pivots], 1), 0)
    assert len(set(factor.pivots)) == factor.rank
    again = factor.extend(K[:, factor.pivots])
    assert np.abs(again @ factor.phi.T - K).max() <= 2e-13 * np.trace(K)


def test_rank_is_economical():
    for length_scale in (0.7, 0.3):
        K = smooth(800, length_scale)
        values = np.linalg.eigvalsh(K)
        best = 800 - np.searchsorted(np.cumsum(np.clip(values, 0, None)), 1e-10 * 800)
        assert factorise(K, rtol=1e-10).rank <= 1.25 * best + 3
    assert factorise(HARD["rank 7"]).rank == 7
    assert factorise(HARD["copies"]).rank == 60


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 60), st.integers(1, 60), st.integers(0, 999), st.integers(1, 70))
def test_any_rank_any_block(n, rank, seed, block_size):
    K = gram(n, rank, seed)
    factor = factorise(K, block_size=block_size, seed=seed)
    assert factor.rank == min(n, rank)
    assert np.abs(K - factor.phi @ factor.phi.T).max() <= 2e-13 * np.trace(K)


def test_same_seed_same_factor():
    K = HARD["smooth"]
    assert factorise(K).phi.tobytes() == factorise(K).phi.tobytes()
    assert not np.array_equal(factorise(K, seed=1).pivots, factorise(K).pivots)


def test_max_rank():
    factor = factorise(HARD["full"], max_rank=11)
    assert factor.rank == 11
    left = np.trace(HARD["full"]) - np.sum(factor.phi**2)
    assert factor.residual == pytest.approx(left / np.trace(HARD["full"]))


def test_columns_alone_are_enough():
    K = HARD["smooth"]
    factor = pivoted_cholesky(lambda idx: K[:, idx], np.diagonal(K))
    assert_array_equal(factor.phi, factorise(K).phi)


def test_only_the_pivots_columns_are_asked_for():
    K, asked = HARD["rank 7"], []

    def columns(idx):
        asked.extend(idx)
        return K[:, idx]

    pivoted_cholesky(columns, np.diagonal(K), submatrix=lambda r, c: K[np.ix_(r, c)])
    assert len(asked) < 20


def test_factor_object():
    factor = factorise(HARD["rank 7"])
    assert repr(factor).startswith("LowRankFactor(n=300, rank=7, pivoted, residual=")
    back = pickle.loads(pickle.dumps(factor))
    assert not back.phi.flags.writeable
    assert_array_equal(back.phi, factor.phi)
    with pytest.raises(ShapeError, match=r"shape \(k, 7\), got \(2, 3\)"):
        factor.extend(np.ones((2, 3)))
    with pytest.raises(KernelError, match=r"use kernel.factor_new"):
        LowRankFactor(np.eye(2), None, 0.0).extend(np.eye(2))


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"diagonal": [[1.0]]}, ShapeError, "one-dimensional"),
        ({"diagonal": [1.0, np.nan]}, NonFiniteError, "nan at item 1"),
        ({"diagonal": [1.0, -1.0]}, KernelError, "-1 at item 1"),
        ({"rtol": -1.0}, ParameterError, "rtol must be"),
        ({"max_rank": 0}, ParameterError, "max_rank must be"),
    ],
)
def test_bad_arguments(arguments, error, text):
    with pytest.raises(error, match=text):
        pivoted_cholesky(**{"columns": None, "diagonal": [1.0], **arguments})


def test_nan_in_the_kernel_is_reported():
    K = np.eye(40)
    K[3, 5] = K[5, 3] = np.nan
    with pytest.raises(NonFiniteError, match="NaN or infinite"):
        factorise(K)


def test_after_the_deadline_no_further_round_starts():
    factor = factorise(HARD["full"], block_size=16, deadline=0.0)
    assert 1 <= factor.rank <= 16
    rest = HARD["full"] - factor.phi @ factor.phi.T
    assert np.abs(rest[factor.pivots]).max() < 1e-10
