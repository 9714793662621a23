"""A long random search for problems on which the solvers disagree."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from kronfill.ridge.problem import fitted_at
from kronfill.solvers.dense import Cholesky
from kronfill.solvers.pcg import PCG
from kronfill.solvers.primal import PrimalDirect

from ..oracles.dense import Case

pytestmark = pytest.mark.slow


@settings(max_examples=500, deadline=None)
@given(
    shape=st.tuples(st.integers(1, 40), st.integers(1, 40)),
    ranks=st.tuples(st.integers(1, 12), st.integers(1, 12)),
    share=st.floats(0.01, 1.0),
    kind=st.sampled_from([None, "mean", "rows", "cols", "both"]),
    weighted=st.booleans(),
    log_mu=st.floats(-3, 3),
    seed=st.integers(0, 1_000_000),
)
def test_solvers_agree(shape, ranks, share, kind, weighted, log_mu, seed):
    m = max(1, round(share * shape[0] * shape[1]))
    problem = Case(shape, ranks, m, kind, weighted, 10**log_mu, seed).build()
    fitted = fitted_at(problem, Cholesky().solve(problem).dual)
    scale = np.abs(problem.sampled.values).max()
    for solver in (PrimalDirect(), PCG(tol=1e-10)):
        result = solver.solve(problem)
        assert_allclose(fitted_at(problem, result.dual), fitted, atol=1e-6 * scale)
        p = result.primal
        direct = (p.row.phi @ p.core @ p.col.phi.T)[problem.sampled.rows, problem.sampled.cols]
        assert_allclose(direct, fitted, atol=1e-8 * scale)
