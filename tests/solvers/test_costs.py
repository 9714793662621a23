"""What the model of costs says about sizes for which the answer is known."""

import pytest

from kronfill.solvers import costs
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
    for cost in (costs.cholesky, costs.identity_dual_pcg):
        assert cost(few).seconds < cost(many).seconds
        assert cost(few).bytes < cost(many).bytes
    for cost in (costs.pcg, costs.primal_direct, costs.identity_pcg, costs.dual_pcg):
        assert cost(few, (60, 60)).seconds < cost(many, (60, 60)).seconds
        assert cost(few, (60, 60)).bytes < cost(many, (60, 60)).bytes
