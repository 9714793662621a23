"""Complexities: exact ones by enumeration against every closed form, from both sides."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import kronfill as kf
from kronfill.bounds.classes.sides import ClassAxis
from kronfill.bounds.complexity.signs import as_law
from kronfill.errors import ParameterError, ShapeError

B = kf.bounds
LAWS = ("paper", "eyp", "sub")
PROBLEMS = range(12)


def classes(tiny):
    return {
        "MC": B.NuclearBall((3, 4), t=1.5),
        "KMC": B.KMCBall(tiny.row_kernel, tiny.col_kernel, t_b=1.2),
        "ball": B.RKHSBall(tiny.row_kernel, tiny.col_kernel, b=0.7),
        "span": B.TrainingSpan(tiny.row_kernel, tiny.col_kernel, b=0.7, train=tiny.train),
        "effects": B.EffectsClass((3, 4), mean=0.3, rows=0.5, cols=0.2),
    }


def root(kernel):
    lam, vec = np.linalg.eigh(kernel)
    return vec * np.sqrt(np.maximum(lam, 0)) @ vec.T


def brute_suprema(tiny, patterns):
    """Suprema of all patterns by the dual norms, written down independently of the library."""
    sigma = np.zeros((len(patterns), 3, 4))
    sigma[:, tiny.rows, tiny.cols] = patterns
    turned = root(tiny.row_kernel) @ sigma @ root(tiny.col_kernel)
    kernel = tiny.entry_kernel
    cross = kernel[: tiny.m]
    inverse = np.linalg.pinv(kernel[: tiny.m, : tiny.m], rcond=1e-12, hermitian=True)
    nystrom = cross.T @ inverse @ cross
    quad = np.einsum("ki,ij,kj->k", patterns, kernel, patterns)
    quad_span = np.einsum("ki,ij,kj->k", patterns, nystrom, patterns)
    rows, cols = sigma.sum(axis=2), sigma.sum(axis=1)
    return {
        "MC": 1.5 * np.linalg.norm(sigma, 2, axis=(1, 2)),
        "KMC": 0.6 * np.linalg.norm(turned, 2, axis=(1, 2)),
        "ball": 0.7 * np.sqrt(np.maximum(quad, 0)),
        "span": 0.7 * np.sqrt(np.maximum(quad_span, 0)),
        "effects": 0.3 * np.abs(rows.sum(axis=1))
        + 0.5 * np.linalg.norm(rows, axis=1)
        + 0.2 * np.linalg.norm(cols, axis=1),
    }


@pytest.mark.parametrize("seed", PROBLEMS)
def test_suprema_equal_the_brute_ones(tiny, sign_table, seed):
    problem = tiny(seed)
    patterns = sign_table(problem.n, problem.m).patterns[:: 6561 // 9]
    brute = brute_suprema(problem, patterns)
    for name, hypothesis in classes(problem).items():
        for pattern, expected in zip(patterns, brute[name], strict=True):
            sigma = np.zeros((3, 4))
            sigma[problem.rows, problem.cols] = pattern
            assert_allclose(hypothesis.supremum(sigma), expected, rtol=1e-9, atol=1e-10)


def test_every_closed_form_is_above_the_exact_complexity_and_some_are_close(tiny, sign_table):
    worst, compared = {}, 0
    for seed in PROBLEMS:
        problem = tiny(seed)
        table = sign_table(problem.n, problem.m)
        brute = brute_suprema(problem, table.patterns)
        for name, hypothesis in classes(problem).items():
            for law in LAWS:
                exact = table.expectation(brute[name], law)
                forms = hypothesis.closed_forms(problem.split, law)
                if law == "paper":
                    forms["paper form"] = hypothesis.paper_form(problem.split)
                for form, value in forms.items():
                    ratio = exact / value
                    assert ratio <= 1 + 1e-12, (seed, name, law, form, ratio)
                    key = (name, form)
                    worst[key] = max(worst.get(key, 0.0), ratio)
                    compared += 1
    assert compared > 600
    # How tight the tightest instance is: a form that became vacuous would fall below.
    assert worst["MC", "fourth moment"] > 0.93
    assert worst["MC", "Frobenius norm"] > 0.8
    assert worst["MC", "paper form"] > 0.3
    assert worst["KMC", "trace"] > 0.9
    assert worst["KMC", "Chevet"] > 0.3
    assert 0.1 < worst["KMC", "paper form"] < 0.25
    assert worst["ball", "trace"] > 0.97
    assert worst["span", "Nystrom trace"] > 0.95
    assert worst["effects", "second moment"] > 0.7


def test_the_smallest_form_is_picked_and_named(tiny):
    problem = tiny(0)
    for hypothesis in classes(problem).values():
        for law in LAWS:
            found = hypothesis.complexity(problem.split, law)
            assert found.value == min(found.candidates.values())
            assert found.candidates[found.name] == found.value
            assert found.law == law


def test_complexity_grows_with_the_probability_of_a_sign(tiny, sign_table):
    for seed in PROBLEMS:
        problem = tiny(seed)
        table = sign_table(problem.n, problem.m)
        for values in brute_suprema(problem, table.patterns).values():
            eyp, paper = table.expectation(values, "eyp"), table.expectation(values, "paper")
            assert eyp <= paper * (1 + 1e-12)
            # p0 <= 1/4 always, so a law that was silently p = 1/2 would fail here.
            assert eyp < 0.95 * paper


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_monte_carlo_finds_the_exact_complexity(tiny, sign_table, seed, law):
    problem = tiny(seed)
    table = sign_table(problem.n, problem.m)
    brute = brute_suprema(problem, table.patterns)
    for name, hypothesis in classes(problem).items():
        exact = table.expectation(brute[name], law)
        found = hypothesis.monte_carlo(problem.split, law, draws=400, random_state=seed)
        assert abs(found.value - exact) < 5 * found.standard_error + 1e-12
        assert found.standard_error < 0.1 * exact
        assert exact <= found.upper <= hypothesis.complexity(problem.split, law).value * (1 + 1e-12)


def test_the_upper_confidence_value_is_not_only_the_closed_form():
    ball = B.NuclearBall((60, 50), t=1.0)
    rng = np.random.default_rng(0)
    split = B.Split.of(np.divmod(rng.permutation(3000)[:400], 50), shape=(60, 50))
    for law in LAWS:
        found = ball.monte_carlo(split, law, draws=200, n_jobs=2)
        closed = ball.complexity(split, law).value
        assert found.value + 3 * found.standard_error < found.upper < closed


def test_the_variance_behind_the_upper_value_is_an_upper_bound(tiny, sign_table):
    worst = dict.fromkeys(LAWS, 0.0)
    for seed in PROBLEMS:
        problem = tiny(seed)
        table = sign_table(problem.n, problem.m)
        brute = brute_suprema(problem, table.patterns)
        for name, hypothesis in classes(problem).items():
            for law in LAWS:
                weights = table.weights(law)
                mean = weights @ brute[name]
                variance = weights @ (brute[name] - mean) ** 2
                limit = as_law(law).variance(problem.split.sizes) * hypothesis.lipschitz**2
                assert variance <= limit
                worst[law] = max(worst[law], variance / limit)
    assert min(worst.values()) > 0.04  # not vacuous by orders of magnitude


@pytest.mark.parametrize("law", LAWS)
def test_the_same_seed_gives_the_same_bits_for_any_number_of_workers(tiny, law):
    problem = tiny(1)
    for hypothesis in classes(problem).values():
        one = hypothesis.monte_carlo(problem.split, law, draws=12, random_state=3, n_jobs=1)
        two = hypothesis.monte_carlo(problem.split, law, draws=12, random_state=3, n_jobs=2)
        other = hypothesis.monte_carlo(problem.split, law, draws=12, random_state=4)
        assert one == two
        assert one != other


@pytest.mark.parametrize("law", LAWS)
def test_a_whole_grid_and_its_list_of_entries_agree(law):
    rng = np.random.default_rng(5)
    row, col = rng.normal(size=(6, 3)), rng.normal(size=(5, 2))
    flat = rng.permutation(30)
    train, left, rest = flat[:8], flat[8:11], flat[11:]
    grid = B.Split.of(np.divmod(train, 5), shape=(6, 5), without=np.divmod(left, 5))
    listed = B.Split.of(np.divmod(train, 5), np.divmod(rest, 5), shape=(6, 5))
    assert grid.sizes == listed.sizes
    for hypothesis in (
        B.NuclearBall((6, 5), 1.0),
        B.IMCBall(row, col, 1.0, 2.0),
        B.RKHSBall(row @ row.T, col @ col.T, 1.0),
        B.TrainingSpan(row @ row.T, col @ col.T, 1.0, np.divmod(train, 5)),
        B.EffectsClass((6, 5), 1.0, 1.0, 1.0),
    ):
        ours, theirs = (hypothesis.closed_forms(split, law) for split in (grid, listed))
        assert ours.keys() == theirs.keys()
        assert_allclose(list(ours.values()), list(theirs.values()), rtol=1e-11)
        estimates = [
            hypothesis.monte_carlo(split, law, draws=300, random_state=seed)
            for seed, split in enumerate((grid, listed))
        ]
        gap = abs(estimates[0].value - estimates[1].value)
        assert gap < 5 * np.hypot(*(found.standard_error for found in estimates))


def test_monte_carlo_figures_of_a_medium_grid():
    """60 x 50, m = 400, all other entries for testing: values per unit radius."""
    rng = np.random.default_rng(1)
    row = kf.kernels.rbf(np.linspace(0, 1, 60), length_scale=0.2)
    col = kf.kernels.rbf(np.linspace(0, 1, 50), length_scale=0.2)
    train = np.divmod(rng.permutation(3000)[:400], 50)
    split = B.Split.of(train, shape=(60, 50))
    known = {"paper": (0.0409, 0.158), "eyp": (0.0201, 0.0760), "sub": (0.0269, 0.1000)}
    for law, (nuclear, ball) in known.items():
        found = B.NuclearBall((60, 50), 1.0).monte_carlo(split, law, draws=60, n_jobs=2)
        assert_allclose(found.value, nuclear, rtol=0.02)
        assert_allclose(B.RKHSBall(row, col, 1.0).complexity(split, law).value, ball, rtol=5e-3)
        spread = B.KMCBall(row, col, 2.0).monte_carlo(split, law, draws=60, n_jobs=2).value
        assert 0.4 * ball < spread < 0.95 * ball
        for hypothesis in (B.RKHSBall(row, col, 1.0), B.TrainingSpan(row, col, 1.0, train)):
            value = hypothesis.monte_carlo(split, law, draws=120, n_jobs=2).value
            assert_allclose(value, ball, rtol=0.06)


def test_the_fitted_size_cuts_the_ball_down_but_not_below_the_truth():
    rng = np.random.default_rng(2)
    kernel = kf.kernels.rbf(np.linspace(0, 1, 25), length_scale=0.3)
    ball = B.RKHSBall(kernel, kernel, 4.0)
    split = B.Split.of(np.divmod(rng.permutation(625)[:200], 25), shape=(25, 25))
    local = B.LocalBall(ball, r=0.1)
    for law in LAWS:
        value, whole = local.complexity(split, law).value, ball.complexity(split, law).value
        assert value < 0.6 * whole
        found = local.monte_carlo(split, law, draws=100)
        assert 0.9 * value < found.value < value + 3 * found.standard_error
    # A size that binds nothing leaves the ball as it is.
    loose = B.LocalBall(ball, r=1e6)
    assert_allclose(loose.complexity(split).value, ball.complexity(split).value, rtol=1e-3)
    sigma = np.sign(rng.normal(size=(25, 25)))
    assert_allclose(loose.supremum(sigma), ball.supremum(sigma), rtol=1e-3)


def test_sums_of_classes_add(tiny):
    problem = tiny(3)
    parts = tuple(classes(problem)[name] for name in ("KMC", "effects"))
    whole = B.SumClass(parts)
    sigma = np.sign(np.random.default_rng(0).normal(size=(3, 4)))
    assert_allclose(whole.supremum(sigma), sum(part.supremum(sigma) for part in parts))
    expected = sum(part.complexity(problem.split).value for part in parts)
    assert_allclose(whole.complexity(problem.split).value, expected)
    assert_allclose(
        whole.paper_form(problem.split), sum(part.paper_form(problem.split) for part in parts)
    )


def test_bad_input_is_refused(tiny):
    problem = tiny(0)
    ball = B.NuclearBall((3, 4), 1.0)
    with pytest.raises(ParameterError, match="law must be one of"):
        ball.complexity(problem.split, "seed")
    with pytest.raises(ParameterError, match="split must be a Split"):
        ball.complexity(problem.train)
    with pytest.raises(ShapeError, match="3 x 4 matrix, the class of 5 x 4"):
        B.NuclearBall((5, 4), 1.0).complexity(problem.split)
    with pytest.raises(ParameterError, match="t must be a finite number"):
        B.NuclearBall((3, 4), -1.0)
    with pytest.raises(ParameterError, match="draws must be an integer"):
        ball.monte_carlo(problem.split, draws=1)
    with pytest.raises(ShapeError, match=r"shape \(3, 4\), got \(2, 2\)"):
        ball.supremum(np.ones((2, 2)))
    with pytest.raises(kf.errors.NotPSDError):
        B.RKHSBall(np.diag([1.0, -1.0]), np.eye(2), 1.0)
    with pytest.raises(ShapeError, match="agree on the shape"):
        B.SumClass((ball, B.NuclearBall((5, 4), 1.0)))


def test_classes_cannot_be_changed():
    ball = B.NuclearBall((3, 4), 1.0)
    with pytest.raises(AttributeError):
        ball.t = 2.0
    side = ClassAxis.of_factor(np.ones((3, 1)))
    with pytest.raises(AttributeError):
        side.phi = np.zeros((3, 1))
