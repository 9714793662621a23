"""Derivatives of criteria by the kernels and mu, against differences of the exact criteria."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from kronfill.criteria.exact import criteria
from kronfill.criteria.gradients import Sensitivity
from kronfill.criteria.reduction import DualForm
from kronfill.errors import KernelError, ParameterError
from kronfill.ridge.problem import RidgeProblem
from kronfill.solvers.half_steps import FactorKernel

from ..oracles.dense import Case


def exact(problem, mu, criterion):
    got = criteria(DualForm.of(problem), np.array([mu]))
    return -got.lml[0] / problem.sampled.m if criterion == "lml" else np.log(got.loo[0])


@pytest.mark.parametrize("criterion", ["lml", "loo"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", [None, "mean", "both"])
def test_values_and_derivatives(kind, weighted, criterion):
    case = Case((7, 6), (7, 6), 25, kind=kind, weighted=weighted, mu=0.5)
    problem = case.build()
    slope = Sensitivity(problem.sampled, criterion)
    rows, cols = slope.rows, slope.cols
    at = (
        problem.row_kernel.block()[np.ix_(rows, rows)],
        problem.col_kernel.block()[np.ix_(cols, cols)],
    )
    got = slope(*at, 0.5)
    assert got.value == pytest.approx(exact(problem, 0.5, criterion), rel=1e-9)
    rng, h = np.random.default_rng(0), 1e-5
    change_r, change_c = rng.standard_normal((2, 7, 7))
    turn = {
        "row": lambda t: (problem.row_kernel.phi + t * change_r, problem.col_kernel.phi, 0.5),
        "col": lambda t: (
            problem.row_kernel.phi,
            problem.col_kernel.phi + t * change_c[:6, :6],
            0.5,
        ),
        "mu": lambda t: (problem.row_kernel.phi, problem.col_kernel.phi, 0.5 + t),
    }

    def value(name, t):
        row, col, mu = turn[name](t)
        moved = RidgeProblem(FactorKernel(row), FactorKernel(col), problem.sampled, mu)
        return exact(moved, mu, criterion)

    def along(phi, change, items):
        d = phi @ change.T
        return (d + d.T)[np.ix_(items, items)]

    wanted = {name: (value(name, h) - value(name, -h)) / (2 * h) for name in turn}
    assert got.mu == pytest.approx(wanted["mu"], rel=1e-5, abs=1e-8)
    by_row = np.vdot(got.row, along(problem.row_kernel.phi, change_r, rows))
    by_col = np.vdot(got.col, along(problem.col_kernel.phi, change_c[:6, :6], cols))
    assert_allclose([by_row, by_col], [wanted["row"], wanted["col"]], rtol=1e-5)


def test_bad_input_is_refused():
    problem = Case((3, 3), (3, 3), 5).build()
    with pytest.raises(ParameterError, match="criterion"):
        Sensitivity(problem.sampled, "gcv")
    slope = Sensitivity(problem.sampled, "lml")
    n, l = len(slope.rows), len(slope.cols)
    with pytest.raises(KernelError, match="singular"):
        slope(np.zeros((n, n)), np.zeros((l, l)), 0.0)
