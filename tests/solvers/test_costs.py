"""What the model of costs says about sizes for which the answer is known."""

import numpy as np
import pytest

import kronfill as kf
from kronfill.ridge.problem import Mask, RidgeProblem, Sampled
from kronfill.solvers import auto, costs
from kronfill.solvers.costs import Size


def size(m, n, l):
    return Size(m, (n, l), (n, l))


def test_a_complete_grid_takes_fewer_passes_than_one_with_gaps():
    whole, gaps = (costs.pcg(size(m, 500, 500), (240, 240)) for m in (250_000, 240_000))
    assert whole.seconds < 0.6 * gaps.seconds


@pytest.mark.parametrize(
    ("n", "ranks", "eigen"),
    [(100, (55, 100), True), (500, (238, 242), False), (1000, (63, 255), False),
     (200, (200, 200), True), (1000, (1000, 1000), True)],
)  # fmt: skip
def test_on_complete_grids_the_faster_of_two_is_expected_to_be(n, ranks, eigen):
    # Which is faster was measured (``python -m benchmarks.choice``).
    grid, primal = costs.grid_eigen(size(n * n, n, n)), costs.pcg(size(n * n, n, n), ranks)
    assert (grid.seconds < primal.seconds) == eigen


def test_costs_grow_with_the_observations():
    few, many = size(1000, 3000, 3000), size(100_000, 3000, 3000)
    for cost in (costs.cholesky, lambda size: costs.dual_pcg(size, (None, None))):
        assert cost(few).seconds < cost(many).seconds
        assert cost(few).bytes < cost(many).bytes
    for cost in (costs.pcg, costs.primal_direct, costs.identity_pcg, costs.dual_pcg):
        assert cost(few, (60, 60)).seconds < cost(many, (60, 60)).seconds
        assert cost(few, (60, 60)).bytes < cost(many, (60, 60)).bytes


@pytest.mark.parametrize("mu", [1.0, 0.01])
def test_full_rank_kernels_that_were_factored_all_the_same_are_expected_to_be_full(mu, monkeypatch):
    """A factor of full rank is no thin one: DualPCG works with the matrices and is the faster."""
    rng = np.random.default_rng(0)
    x = [rng.random((n, 2)) for n in (160, 120)]
    kernels = [
        kf.kernels.precomputed(
            1 + np.exp(-np.sqrt(((p[:, None] - p) ** 2).sum(axis=-1))) + 0.1 * np.eye(len(p))
        )
        for p in x
    ]
    monkeypatch.setattr(auto, "TRIAL", 1e6)  # the factors are found whatever it takes
    pairs = np.argwhere(rng.random((160, 120)) < 0.3)
    sampled = Sampled(Mask(*pairs.T, (160, 120)), rng.random(len(pairs)))
    problem = RidgeProblem(kernels[0], kernels[1], sampled, mu)
    reason = auto.Auto().solve(problem).solution.reason
    full = costs.dual_pcg(Size.of_problem(problem), (None, None)).seconds
    assert "ranks 160 x 120" in reason
    assert f"DualPCG {full:.2g} s" in reason
