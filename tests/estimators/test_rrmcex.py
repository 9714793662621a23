"""RRMCEX: KKMCEX with the kernels cut to their leading eigenvectors."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import kronfill as kf
from kronfill.errors import ParameterError

RNG = np.random.default_rng(0)
KW, KH = (kf.kernels.rbf(RNG.standard_normal((n, 2)), length_scale=1.5) for n in (14, 9))
X = np.argwhere(RNG.random((14, 9)) < 0.5)
Y = RNG.standard_normal(len(X))


def cut(kernel, k):
    lam, vec = np.linalg.eigh(kernel.to_array())
    return (vec[:, -k:] * lam[-k:]) @ vec[:, -k:].T


@pytest.mark.parametrize("solver", ["auto", kf.PrimalDirect(), kf.PCG(tol=1e-12)])
@pytest.mark.parametrize("center", [None, "both"])
def test_is_kkmcex_with_truncated_kernels(solver, center):
    est = kf.RRMCEX(KW, KH, row_rank=4, col_rank=3, mu=0.2, center=center, solver=solver).fit(X, Y)
    dense = kf.KKMCEX(
        kf.kernels.nearest_psd(cut(KW, 4)), kf.kernels.nearest_psd(cut(KH, 3)), mu=0.2,
        center=center,
    ).fit(X, Y)  # fmt: skip
    assert est.coef_.shape == (4, 3)
    assert_allclose(est.predict_matrix(), dense.predict_matrix(), atol=1e-6)


def test_full_ranks_are_kkmcex():
    est = kf.RRMCEX(KW, KH, row_rank=1.0, col_rank=99, mu=0.2).fit(X, Y)
    assert_allclose(
        est.predict_matrix(), kf.KKMCEX(KW, KH, mu=0.2).fit(X, Y).predict_matrix(), atol=1e-6
    )


def test_fraction_explains_that_much_of_the_trace():
    est = kf.RRMCEX(KW, KH, row_rank=0.9, col_rank=0.5).fit(X, Y)
    lam = np.linalg.eigvalsh(KW.to_array())[::-1]
    share = np.cumsum(lam) / lam.sum()
    assert share[est.row_rank_ - 1] >= 0.9 > share[est.row_rank_ - 2]


@pytest.mark.parametrize("rank", [0, -1, 1.5, 0.0, "many", True, None])
def test_bad_rank(rank):
    with pytest.raises(ParameterError, match="row_rank must be"):
        kf.RRMCEX(KW, KH, row_rank=rank).fit(X, Y)
