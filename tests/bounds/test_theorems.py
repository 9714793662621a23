"""The theorems as functions: what they return, and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import kronfill as kf
from kronfill.errors import ParameterError

B = kf.bounds
LOSS = B.Square(clip=(-1, 1)) / 4


@pytest.fixture
def case():
    kernel = kf.kernels.rbf(np.linspace(0, 1, 30), length_scale=0.2)

    def make(m, seed=0):
        train = np.divmod(np.random.default_rng(seed).permutation(900)[:m], 30)
        return kernel, train, B.Split.of(train, shape=(30, 30))

    return make


def all_bounds(kernel, train, split):
    span = B.TrainingSpan(kernel, kernel, 2.0, train)
    ball = B.RKHSBall(kernel, kernel, 2.0)
    features = kernel.factor().phi
    return [
        B.theorem_1(ball, split, LOSS),
        B.theorem_2(B.KMCBall(kernel, kernel, 2.0), split),
        B.theorem_3(B.IMCBall(features, features, 1.0, 1.0), split),
        B.theorem_4(span, split),
        B.theorem_a(ball, split, LOSS),
        B.theorem_a2(ball, split, LOSS),
        B.theorem_b(ball, split, 1.0),
    ]


def test_every_bound_is_the_sum_of_its_terms_and_says_what_it_needs(case):
    for bound in all_bounds(*case(300)):
        assert_allclose(bound.value, sum(bound.terms.values()))
        assert min(bound.terms.values()) >= 0
        text = str(bound)
        assert bound.name in text
        for assumption in bound.assumptions:
            assert assumption.text in text
        if "printed" in bound.name:
            assert bound.errata
            assert bound.corrected.name in text
            assert not bound.corrected.errata
            assert bound.corrected.valid
        else:
            assert bound.corrected is None
            assert bound.valid
        with pytest.raises(AttributeError):
            bound.value = 0.0
        with pytest.raises(TypeError):
            bound.terms["complexity"] = 0.0


def test_a_is_better_for_balanced_and_a2_for_unbalanced_splits(case):
    kernel, _, even = case(450)
    _, _, uneven = case(60)
    ball = B.RKHSBall(kernel, kernel, 3.0)
    for split, better in ((even, "Theorem A"), (uneven, "Theorem A2")):
        both = [theorem(ball, split, LOSS) for theorem in (B.theorem_a, B.theorem_a2)]
        best = B.generalization_bound(ball, split, LOSS)
        assert best.name == better
        assert best.value == min(bound.value for bound in both)
        cited = B.theorem_1(ball, split, LOSS).corrected
        assert best.value < cited.value


def test_the_closed_forms_of_the_ball(case):
    kernel, _, split = case(300)
    ball, sizes = B.RKHSBall(kernel, kernel, 2.0), split.sizes
    assert_allclose(B.theorem_a(ball, split, LOSS).terms["complexity"], 2 * 2 * np.sqrt(1 / 300))
    found = B.theorem_a2(ball, split, LOSS).terms
    assert_allclose(found["complexity"], 2 * np.sqrt(2 * sizes.q))
    # n = 900, m = 300: E|Bin - m| is close to sqrt(2 / pi) of its standard deviation
    normal = np.sqrt(2 / np.pi * 300 * 600 / 900)
    assert_allclose(found["random sample size"], 0.5 * sizes.q * normal, rtol=2e-3)
    assert_allclose(found["confidence"], sizes.q * np.sqrt(sizes.v * np.log(20) / 2))


def test_a_complexity_may_be_given(case):
    _, _, split = case(300)
    ball = B.NuclearBall((30, 30), 10.0)
    closed = B.theorem_a(ball, split, LOSS)
    found = ball.monte_carlo(split, "sub", draws=200, delta=0.01)
    given = B.theorem_a(ball, split, LOSS, delta=0.04, complexity=found.upper)
    assert given.terms["complexity"] < closed.terms["complexity"]
    assert_allclose(given.terms["complexity"], LOSS.lipschitz * found.upper)
    assert found.upper > found.value


def test_what_does_not_fit_is_refused(case):
    kernel, train, split = case(300)
    ball, span = B.RKHSBall(kernel, kernel, 1.0), B.TrainingSpan(kernel, kernel, 1.0, train)
    with pytest.raises(ParameterError, match="no finite range"):
        B.theorem_a(ball, split, B.Square())
    with pytest.raises(ParameterError, match="Use RKHSBall"):
        B.theorem_a2(span, split, LOSS)
    with pytest.raises(ParameterError, match="Use RKHSBall"):
        B.theorem_a(B.SumClass((ball, span)), split, LOSS)
    for theorem, wrong in ((B.theorem_2, ball), (B.theorem_3, ball), (B.theorem_4, ball)):
        with pytest.raises(ParameterError, match="this theorem is about the class"):
            theorem(wrong, split)
    with pytest.raises(ParameterError, match="about an RKHSBall"):
        B.theorem_b(span, split, 1.0)
    with pytest.raises(ParameterError, match="split must be a Split"):
        B.theorem_1(ball, split.sizes, LOSS)
    with pytest.raises(ParameterError, match="complexity R_n must be a finite number"):
        B.theorem_1(-1.0, split, LOSS)
    assert not B.theorem_1(span, split, LOSS).valid
    assert not B.theorem_1(ball, split, "square").valid
