"""Members of a mix: what is said of fits that are only compared."""

from dataclasses import replace

import numpy as np
import pytest

import kronfill as kf
from kronfill.auto.members import LOOSE, MixChoice, low_rank_member, members_beside
from kronfill.auto.plan import planned
from kronfill.auto.sources import AxisParts
from kronfill.auto.weights import LearnedWeights
from kronfill.errors import IllConditionedWarning
from kronfill.solvers import Auto

MU = 1e-3


def test_a_rough_comparison_does_not_warn_of_its_own_roughness():
    rng = np.random.default_rng(0)
    axes = tuple(AxisParts.of(kf.kernels.rbf(rng.random((n, 2))), "sources") for n in (120, 90))
    X = np.argwhere(rng.random((120, 90)) < 0.7)
    obs = kf.Observations(X[:, 0], X[:, 1], 5 + rng.standard_normal(len(X)), (120, 90))
    scales = [np.ones(sum(axis.scales)) for axis in axes]
    side = LearnedWeights(axes[0].first(), axes[1].first(), *scales, MU)
    choice = MixChoice(side=side, share=np.ones((4, 3)))
    low_rank = kf.BayesianKMC(rank=1).fit(obs)

    found = members_beside(low_rank, obs, axes, choice, LOOSE).side  # warnings are errors here

    kernels = [
        axis.kernel(axis.first(), ones).as_learned()
        for axis, ones in zip(axes, scales, strict=True)
    ]
    alone = kf.KKMCEX(*kernels, mu=MU, center="mean", solver=Auto(tol=LOOSE))
    with pytest.warns(IllConditionedWarning, match="digits"):
        alone.fit(obs)
    np.testing.assert_array_equal(found.predict(obs), alone.predict(obs))


def test_factors_follow_whatever_has_the_higher_bound():
    rng = np.random.default_rng(1)
    place = np.linspace(0, 1, 40)[:, None]
    F = np.sin(6 * place) @ rng.standard_normal((1, 30))
    X = np.argwhere(rng.random(F.shape) < 0.3)
    y = F[X[:, 0], X[:, 1]] + 0.3 * rng.standard_normal(len(X))
    obs = kf.Observations(X[:, 0], X[:, 1], y, F.shape)
    near = kf.kernels.rbf(place, length_scale=0.2)
    axes = AxisParts.of({"place": near}, "row_sources"), AxisParts(F.shape[1])
    row, col = axes
    side = LearnedWeights(row.first(), col.first(), np.ones(sum(row.scales)), np.empty(0), 0.1)
    choice, plan = MixChoice(side=side), planned(obs.shape, obs.m, 3)
    found, follows = low_rank_member(obs, axes, choice, plan, 0)
    each = {
        name: low_rank_member(obs, axes, replace(choice, follows=name), plan, 0)
        for name in ("parts", "sources")
    }
    assert all(name == fit[1] for name, fit in each.items())
    best = max(each, key=lambda name: each[name][0].bound_)
    assert follows == best
    assert found.bound_ == each[best][0].bound_ > min(fit.bound_ for fit, _ in each.values())
