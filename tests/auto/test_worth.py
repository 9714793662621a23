"""What sources are worth: shares that add up, losses of those that tell and those that do not."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from pandas.testing import assert_frame_equal

import kronfill as kf
from kronfill.auto.plan import Plan
from kronfill.auto.worth import worth_of_sources
from kronfill.completion import Completion
from kronfill.completion.answers.parts import parts_frame
from kronfill.errors import ParameterError


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    x, other = rng.random((40, 1)), rng.random((40, 1))
    values = np.sin(7 * x) * rng.standard_normal(25) + 0.1 * rng.standard_normal((40, 25))
    obs = kf.Observations.from_matrix(np.where(rng.random(values.shape) < 0.4, values, np.nan))
    rows = {"true": kf.kernels.rbf(x, 0.2), "false": kf.kernels.rbf(other, 0.2)}
    return kf.AutoMC(rows, plan=Plan(rank=3, steps=6, folds=1, hidden=0.2)).fit(obs)


def test_a_source_that_tells_is_missed_and_another_is_not(fitted):
    found = {one.label: one for one in worth_of_sources(fitted)}
    assert list(found) == ["true", "false", "latent factors"]
    true, false = found["true"], found["false"]
    assert true.weight > 3 * false.weight
    assert true.new_loss > 2 * true.new_error > 0
    assert abs(false.new_loss) < 0.2 * true.new_loss
    assert true.share > 3 * abs(false.share)


def test_shares_of_an_axis_add_up(fitted):
    """With the constant and the identity, which are no sources."""
    found = worth_of_sources(fitted)
    assert 0.5 < sum(one.share for one in found) < 1.2


def test_as_a_table(fitted):
    frame = parts_frame(fitted)
    assert list(frame.index.names) == ["axis", "source"]
    assert_allclose(frame.loc[("rows", "true"), "weight"], worth_of_sources(fitted)[0].weight)
    with pytest.raises(ParameterError, match="method='auto'"):
        parts_frame(kf.MC(rank=1, mu=1.0).fit(fitted.observations_))


def test_a_table_that_was_asked_everything_can_be_saved(fitted, tmp_path):
    done = Completion.from_model(fitted)
    parts, told = done.parts, done.details(level=0.8)
    assert done.std().shape == (40, 25)
    assert len(done.suggest(2)) == 2
    done.save(tmp_path / "asked.kf")
    back = kf.load(tmp_path / "asked.kf")
    assert_frame_equal(back.details(level=0.8), told)
    assert_frame_equal(back.parts, parts)
