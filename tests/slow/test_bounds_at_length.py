"""Numeric checks of the bounds at full length; tests/bounds has them in small."""

from __future__ import annotations

import warnings
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose

import kronfill as kf
from kronfill.bounds.complexity.signs import as_law
from kronfill.errors import ConvergenceWarning

from ..bounds import conftest as shared
from ..bounds.test_expectation import additive, all_splits, random_class

pytestmark = pytest.mark.slow
smooth = shared.smooth
sign_table = shared.sign_table
_one_blas_thread = shared._one_blas_thread

B = kf.bounds
QUARTER = B.Square(clip=(-1, 1)) / 4
KNOWN = np.array([[1, 0, 1, 1], [0, 1, 1, 1], [1, 1, 1, 1], [1, 1, 0, 1]], dtype=float)


# The expectation step, exact over all splits


def suprema(vectors, classes):
    """Largest <v, f> over the members f of each class, for every vector v."""
    out = vectors @ classes[:, 0].T
    for k in range(1, classes.shape[1]):
        np.maximum(out, vectors @ classes[:, k].T, out=out)
    return out


def largest_ratios(classes, table):
    """Largest ratios of the expected gap to its bounds, over classes in [0, 1]^n and all m.

    ``classes`` has shape (number of classes, members, n); repeated members change nothing.
    """
    n = classes.shape[2]
    over_signs = suprema(table(n, 1).patterns, classes)
    worst = {}
    for m in range(1, n):
        sizes, signs = B.Sizes(m, n - m), table(n, m)
        expected = suprema(all_splits(n, m), classes).mean(axis=0)
        size = {
            law: as_law(law).scale(sizes) * (signs.weights(law) @ over_signs)
            for law in ("sub", "eyp")
        }
        bounds = {"A": size["sub"], "A2": size["eyp"] + additive(sizes), "p0": size["eyp"]}
        for name, bound in bounds.items():
            zero = bound < 1e-12  # one function only, up to repetition
            assert np.all(expected[zero] < 1e-12)
            ratio = np.max(expected[~zero] / bound[~zero])
            worst[name] = max(worst.get(name, 0.0), ratio)
    return worst


def check_ratios(worst):
    assert worst["A"] <= 1 + 1e-12
    assert worst["A2"] <= 1


def test_theorems_a_and_a2_hold_for_a_hundred_thousand_random_classes(sign_table):
    rng = np.random.default_rng(0)
    worst = {"A": 0.0, "A2": 0.0, "p0": 0.0}
    for n in range(2, 7):
        drawn = (random_class(rng, n) for _ in range(20_000))
        classes = np.array([members[np.arange(8) % len(members)] for members in drawn])
        found = largest_ratios(classes, sign_table)
        check_ratios(found)
        worst = {name: max(worst[name], found[name]) for name in worst}
    assert worst["A"] >= 0.99
    assert worst["A2"] > 0.7
    assert worst["p0"] > 1


@pytest.mark.parametrize("n", [2, 3, 4])
def test_theorems_a_and_a2_hold_for_every_class_of_indicators(n, sign_table):
    """All nonempty sets of functions from n <= 4 entries to {0, 1}: 65,535 of them for n = 4."""
    cube = np.array(list(product((0.0, 1.0), repeat=n)))
    member = np.arange(1, 2 ** len(cube))[:, None] >> np.arange(len(cube)) & 1 == 1
    first = cube[member.argmax(axis=1)]
    classes = np.where(member[:, :, None], cube, first[:, None])
    found = largest_ratios(classes, sign_table)
    check_ratios(found)
    assert found["A"] >= 0.99
    # Without an additive term p0 fails for each n; by hand 4/3 for {01, 10}, n = 2 and m = 1.
    assert_allclose(found["p0"], {2: 4 / 3, 3: 9 / 7, 4: 1.33225}[n], rtol=1e-6)


def test_the_law_of_the_cited_theorem_fails_without_its_additive_term(sign_table):
    table, sizes = sign_table(4, 1), B.Sizes(1, 3)
    expected = suprema(all_splits(4, 1), KNOWN[None]).mean()
    size = table.expectation(suprema(table.patterns, KNOWN[None])[:, 0], "eyp")
    assert_allclose(expected / size, 1.213, atol=5e-4)
    assert expected <= size + additive(sizes)


# Certificates of fitted models

SMOOTH, ROUGH = {"length_scale": 0.5, "noise": 0.1}, {"length_scale": 0.1, "noise": 0.3}
SETTINGS = {
    # name: (problem, kernel of the fit if not that of the truth, m, mu, whether it says something)
    "balanced": ({"size": 30, **SMOOTH}, None, 450, 0.01, True),
    "few": ({"size": 30, **SMOOTH}, None, 150, 0.01, True),
    "rough": ({"size": 30, **ROUGH}, None, 450, 0.01, True),
    "heavy ridge": ({"size": 30, **SMOOTH}, None, 450, 1.0, True),
    "most": ({"size": 30, **SMOOTH}, None, 750, 0.01, True),
    "few and rough": ({"size": 30, **ROUGH}, None, 150, 1e-3, False),
    "matern": ({"size": 30, "length_scale": 0.2, "noise": 0.3}, "matern", 450, 0.1, True),
    "noiseless": ({"size": 24, "length_scale": 0.5, "noise": 0.0}, None, 288, 1e-4, True),
    "small": ({"size": 24, "length_scale": 0.2, "noise": 0.1}, None, 96, 0.1, True),
    "noisy": ({"size": 20, "length_scale": 0.1, "noise": 0.5}, None, 200, 0.01, False),
    "very few": ({"size": 20, **SMOOTH}, None, 40, 0.1, True),
    "memory": ({"size": 20, "length_scale": 0.5, "noise": 0.3}, "identity", 200, 0.1, False),
}
OTHER = {
    "matern": lambda size: kf.kernels.matern(np.linspace(0, 1, size), length_scale=0.3),
    "identity": kf.kernels.identity,
}


@pytest.mark.parametrize("name", SETTINGS)
def test_no_certificate_of_kkmcex_is_below_the_truth(name, smooth):
    options, other, m, mu, speaks = SETTINGS[name]
    problem = smooth(**options)
    if other is not None:
        problem = replace(problem, kernel=OTHER[other](options["size"]))
    gaps, proved = [], []
    for seed in range(128):
        train, test = problem.split(m, seed)
        est = kf.KKMCEX(problem.kernel, problem.kernel, mu=mu).fit(train)
        found = B.certificate(est, (-1, 1), delta=0.05, loss=QUARTER)
        gap = B.generalization_error(est, train, test, QUARTER)
        loss = QUARTER.mean(test.values, est.predict(test))
        assert_allclose(gap, loss - found.train_loss, atol=1e-12)
        gaps.append(gap)
        proved.append(found.gap)
    assert np.sum(np.array(gaps) > np.array(proved)) == 0
    if speaks:
        assert np.mean(proved) < 1


# KMC and IMC are one method


def imc_start(est):
    return est.row_coef_, est.col_coef_


def kmc_start(est):
    return est.W_, est.H_


def swept(model, start, pair, obs, sweeps=800):
    """Sweep this many times from a given starting point.

    ALS ends early once rounding keeps the objective from falling, so it is taken up again: runs
    that end at different sweeps would differ by the square root of the rounding.
    """
    done = 0
    while done < sweeps:
        solver = kf.ALS(sweeps=sweeps - done, tol=0.0, accelerate=False, start=start)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.set_params(solver=solver).fit(obs)
        done, start = done + model.n_iter_, pair(model)
    assert done == sweeps
    return model


def features(kind, rng, n, width):
    """Full column rank, more columns than rows, or columns of rank 3 only."""
    if kind == "wide":
        return rng.standard_normal((n, n + 6))
    if kind == "deficient":
        return rng.standard_normal((n, 3)) @ rng.standard_normal((3, width))
    return rng.standard_normal((n, width))


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("mu", [0.1, 0.5])
@pytest.mark.parametrize("rank", [2, 4])
@pytest.mark.parametrize("kind", ["full", "wide", "deficient"])
def test_kmc_and_imc_stay_together_for_800_sweeps(kind, rank, mu, seed):
    rng = np.random.default_rng(seed)
    n, l = 13, 10
    phi_w, phi_h = features(kind, rng, n, 5), features(kind, rng, l, 4)
    rows, cols = np.divmod(rng.permutation(n * l)[:80], l)
    obs = kf.Observations(rows, cols, 1 + rng.standard_normal(80), (n, l))
    a_w, a_h = (rng.standard_normal((phi.shape[1], rank)) for phi in (phi_w, phi_h))
    imc = swept(kf.IMC(phi_w, phi_h, rank=rank, mu=mu), (a_w, a_h), imc_start, obs)
    kernels = phi_w @ phi_w.T, phi_h @ phi_h.T
    kmc = swept(kf.KMC(*kernels, rank=rank, mu=mu), (phi_w @ a_w, phi_h @ a_h), kmc_start, obs)
    assert_allclose(kmc.predict_matrix(), imc.predict_matrix(), rtol=0, atol=1e-9)
    if kind == "deficient" and rank > 3 and mu < 0.5:
        # With more factors than the features have rank the balance comes slowly if mu is small.
        imc = swept(imc, imc_start(imc), imc_start, obs, sweeps=5200)
        kmc = swept(kmc, kmc_start(kmc), kmc_start, obs, sweeps=5200)
    fitted = imc.predict(obs)
    square = (obs.values - fitted) @ fitted / mu
    t_w, t_h = (np.linalg.norm(coef) ** 2 for coef in (imc.row_coef_, imc.col_coef_))
    nuclear = np.linalg.norm(imc.row_coef_ @ imc.col_coef_.T, "nuc")
    norms = [t_w, t_h, nuclear, B.IMCBall(phi_w, phi_h, 1.0, 1.0).norm_of(kmc)]
    assert_allclose(norms, square, rtol=1e-6)
