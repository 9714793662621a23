"""Members of a mix: what is said of fits that are only compared."""

import numpy as np
import pytest

import kronfill as kf
from kronfill.auto.members import LOOSE, MixChoice, members_beside
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
