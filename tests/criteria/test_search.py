"""The search along a path of trials: how near it comes, what it relies on."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kronfill._progress import told_to
from kronfill.criteria.search import Trial, least_error
from kronfill.errors import ConvergenceWarning
from kronfill.ridge.solution import Solution, Status


def solution(status):
    return Solution(status, "PCG")


def curve(place, below, above, floor=1.0):
    """Errors that rise by these amounts per decade on either side of a minimum, as bowls do."""

    def error(mu):
        x = np.log10(mu) - place
        slope = above if x > 0 else below
        return floor + slope * x * x / (1 + abs(x))

    return error


@given(
    st.floats(-5.5, 2.5), st.floats(0.02, 5), st.floats(0.02, 5), st.floats(1e-3, 1e3),
)  # fmt: skip
@example(2.5, 2.5625, 2.5, 1.0)  # between the last two of the path, which are as good
@example(1.875, 5.0, 4.25, 1.0)  # between two that are as good, one of them on the other side
def test_the_error_is_within_a_percent_of_the_least(place, below, above, scale):
    error = curve(place + np.log10(scale), below, above)
    found = least_error(lambda mu: Trial(mu, error(mu)), scale, "test")
    assert error(found.mu) <= 1.02  # of mean squares: 1% in the root
    assert len(found.trials) <= 17


def test_a_first_rise_is_not_the_end():
    """Two valleys, the deeper one behind a hill."""

    def error(mu):
        x = np.log10(mu)
        return 2 - 0.5 * np.exp(-((x - 0.5) ** 2)) - np.exp(-2 * (x + 2) ** 2)

    found = least_error(lambda mu: Trial(mu, error(mu)), 1.0, "test")
    assert error(found.mu) == pytest.approx(error(1e-2), rel=0.01)


def test_a_parabola_that_promises_nothing_is_not_followed():
    flat = least_error(lambda mu: Trial(mu, 1 + 0.02 * np.log10(mu / 0.1) ** 2), 1.0, "test")
    assert flat.mu == pytest.approx(0.1)
    assert all(np.log10(one.mu) == pytest.approx(round(np.log10(one.mu))) for one in flat.trials)
    steep = least_error(lambda mu: Trial(mu, 1 + 0.5 * np.log10(mu / 0.06) ** 2), 1.0, "test")
    assert steep.mu == pytest.approx(0.06, rel=0.2)


def test_a_fit_that_did_not_converge_is_not_chosen():
    def trial(mu):
        status = Status.SETTLED if mu > 2e-3 else Status.MAX_ITERATIONS
        return Trial(mu, 1 + abs(np.log10(mu / 1e-3)), solution(status))

    with pytest.warns(ConvergenceWarning, match="did not converge"):
        found = least_error(trial, 1.0, "test")
    assert 2e-3 < found.mu < 1e-2


def test_fits_that_did_not_converge_and_look_worse_are_not_worth_a_word():
    def trial(mu):
        status = Status.CONVERGED if mu > 2e-2 else Status.STALLED
        return Trial(mu, 1 + abs(np.log10(mu / 1e-1)), solution(status))

    assert least_error(trial, 1.0, "test").mu == pytest.approx(0.1, rel=0.3)


@pytest.mark.parametrize("level", [0.0, 1.0])
def test_where_nothing_changes_with_mu_few_trials_are_made(level):
    found = least_error(lambda mu: Trial(mu, level), 2.0, "test")
    assert np.isfinite(found.mu)
    assert len(found.trials) <= 12


def test_whoever_asks_is_told_of_the_trials():
    said = []
    with told_to(lambda what, done, total: said.append((what, done, total))):
        found = least_error(lambda mu: Trial(mu, curve(0, 1, 1)(mu)), 1.0, "test")
    assert len(said) == len(found.trials)
    assert {what for what, _, _ in said} == {"trials to choose mu"}
