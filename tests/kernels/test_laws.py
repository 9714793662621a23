"""Laws that every kernel obeys."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone

from kronfill.core.psd import check_symmetric_psd
from kronfill.errors import IndexRangeError, KernelError


@pytest.fixture
def K(case):
    return case.kernel.to_array()


@pytest.fixture
def scale(K):
    return max(1e-300, float(np.abs(K).max()))


@pytest.fixture
def items(case):
    return np.random.default_rng(0).integers(0, case.kernel.n, size=6)


def test_symmetric_positive_semidefinite(case, K):
    assert K.shape == case.kernel.shape == (len(case.kernel), case.kernel.n)
    assert K.dtype == np.float64
    check_symmetric_psd(K)


def test_blocks_are_parts_of_the_matrix(case, K, scale, items):
    kernel, tol = case.kernel, 1e-12 * scale
    assert_allclose(kernel.block(items), K[items], atol=tol)
    assert_allclose(kernel.block(None, items), K[:, items], atol=tol)
    assert_allclose(kernel.block(items[:3], items), K[np.ix_(items[:3], items)], atol=tol)
    assert kernel.block([], items).shape == (0, 6)
    assert kernel.block(None, []).shape == (kernel.n, 0)


def test_diagonal(case, K, scale, items):
    assert_allclose(case.kernel.diagonal(), np.diag(K), atol=1e-12 * scale)
    assert_allclose(case.kernel.diagonal(items), np.diag(K)[items], atol=1e-12 * scale)


def test_subscripts_follow_numpy(case, K, scale):
    kernel, tol = case.kernel, 1e-12 * scale
    mask = np.arange(kernel.n) % 2 == 0
    assert isinstance(kernel[0, -1], float)
    assert_allclose(kernel[0, -1], K[0, -1], atol=tol)
    assert_allclose(kernel[0, :], K[0], atol=tol)
    assert_allclose(kernel[:, -1], K[:, -1], atol=tol)
    assert_allclose(kernel[::2, mask], K[::2][:, mask], atol=tol)
    assert_allclose(np.asarray(kernel), K, atol=tol)
    with pytest.raises(IndexRangeError, match="allowed are 0 to"):
        kernel.block([kernel.n])
    with pytest.raises(IndexRangeError, match="two positions"):
        kernel[0]


def test_known_items_given_as_new_ones_are_recognised(case, K, scale, items):
    if case.known is None:
        pytest.skip("known items cannot be described as new ones")
    assert_allclose(case.kernel.cross(case.known), K, atol=1e-12 * scale)
    assert_allclose(case.kernel.cross(case.known, items), K[:, items], atol=1e-12 * scale)
    assert_allclose(case.kernel.new_diagonal(case.known), np.diag(K), atol=1e-12 * scale)


def test_known_and_new_items_together_are_psd(case, K):
    kernel = case.kernel
    if case.new is None:
        pytest.skip("no new items")
    cross, selves = kernel.cross(case.new), kernel.new_diagonal(case.new)
    assert cross.shape == (selves.size, kernel.n)
    for row, self_similarity in zip(cross, selves, strict=True):
        joined = np.block([[K, row[:, None]], [row[None], self_similarity]])
        assert np.linalg.eigvalsh(joined)[0] > -1e-9 * np.abs(joined).max()


@pytest.mark.parametrize("rtol", [1e-13, 1e-6])
def test_factor(case, K, rtol):
    factor = case.kernel.factor(rtol)
    trace = np.trace(K)
    assert_allclose(factor.phi @ factor.phi.T, K, atol=(rtol + 1e-13) * max(trace, 1e-300))
    assert abs(np.trace(K) - np.sum(factor.phi**2)) <= (factor.residual + 1e-14) * trace + 1e-300
    assert factor.residual <= rtol
    assert not factor.phi.flags.writeable
    assert case.kernel.factor(rtol).phi.tobytes() == factor.phi.tobytes()


def test_factor_of_limited_rank(case, K):
    factor = case.kernel.factor(max_rank=2)
    assert factor.rank <= 2
    left = np.linalg.eigvalsh(K - factor.phi @ factor.phi.T)
    assert left[0] > -1e-10 * max(np.trace(K), 1e-300)


def test_factor_of_new_items(case):
    if case.new is None:
        pytest.skip("no new items")
    kernel = case.kernel
    factor = kernel.factor()
    phi_new = kernel.factor_new(factor, case.new)
    cross = kernel.cross(case.new)
    assert phi_new.shape == (cross.shape[0], factor.rank)
    # What the factor leaves out is small, so is its similarity with a new item (square root).
    atol = 2 * np.sqrt(1e-13 * np.trace(kernel.to_array()) * kernel.new_diagonal(case.new).max())
    assert_allclose(phi_new @ factor.phi.T, cross, atol=atol)


def test_take_reorders_items(case, K, scale, items):
    small = case.kernel.take(items)
    assert small.n == len(items)
    assert_allclose(small.to_array(), K[np.ix_(items, items)], atol=1e-12 * scale)
    if case.kernel.labels is not None:
        assert small.labels == tuple(case.kernel.labels[i] for i in items)
    with pytest.raises(KernelError, match="items is empty"):
        case.kernel.take([])


def test_take_remembers_how_new_items_are_described(case):
    if case.new is None or isinstance(case.new, tuple):
        pytest.skip("new items of a given kernel come with similarities")
    order = np.arange(case.kernel.n)[::-1]
    assert_allclose(case.kernel.take(order).cross(case.new), case.kernel.cross(case.new)[:, ::-1])


def test_scaling_and_adding(case, K, scale):
    kernel = case.kernel
    both = 2.0 * kernel + kernel * 3
    assert_allclose(both.to_array(), 5.0 * K, atol=1e-11 * scale)
    assert_allclose((kernel * kernel).to_array(), K * K, atol=1e-12 * scale**2)
    assert_allclose(sum([kernel, kernel]).diagonal(), 2 * np.diag(K), atol=1e-12 * scale)


def test_normalized_has_unit_diagonal(case, K):
    if not np.diag(K).all():
        with pytest.raises(KernelError, match="no similarity with themselves"):
            case.kernel.normalized()
        return
    unit = case.kernel.normalized()
    assert_allclose(np.diag(unit.to_array()), 1.0)
    root = np.sqrt(np.diag(K))
    assert_allclose(unit.to_array(), K / np.outer(root, root), atol=1e-12)


def test_immutable(case):
    kernel = case.kernel
    assert clone(kernel) is kernel
    assert copy.deepcopy(kernel) is kernel
    assert copy.copy(kernel) is kernel
    with pytest.raises(AttributeError, match="cannot be changed"):
        kernel.n = 3
    with pytest.raises(AttributeError, match="cannot be changed"):
        del kernel.n


def test_pickles(case, K):
    back = pickle.loads(pickle.dumps(case.kernel))
    assert_allclose(back.to_array(), K, rtol=1e-13)
    assert back.labels == case.kernel.labels
    assert repr(back) == repr(case.kernel)
    if case.new is not None:
        assert_allclose(back.cross(case.new), case.kernel.cross(case.new), rtol=1e-13)
    for value in vars(back).values():
        assert not isinstance(value, np.ndarray) or not value.flags.writeable


def test_says_what_it_is(case):
    text = repr(case.kernel)
    assert f"n={case.kernel.n}" in text
    assert case.kernel.nbytes >= 0
