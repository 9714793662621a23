"""Work spread over threads: everything done once, errors passed on, safe after a fork."""

import multiprocessing
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import numba
import numpy as np
import pytest

import kronfill as kf
from kronfill.core.threads import GRAIN, each, one_blas_thread, over


@pytest.mark.parametrize("count", [0, 1, 2, 100])
def test_each_number_is_done_once(count):
    done: list[int] = []
    each(count, done.append)
    assert sorted(done) == list(range(count))


@pytest.mark.parametrize("n", [0, 1, GRAIN, 3 * GRAIN + 1, 100 * GRAIN])
def test_ranges_cover_everything_once(n):
    spans: list[tuple[int, int]] = []
    over(n, lambda first, last: spans.append((first, last)))
    spans.sort()
    assert spans[0][0] == 0
    assert spans[-1][1] == n
    assert all(a[1] == b[0] for a, b in pairwise(spans))


def test_an_error_is_passed_on_and_the_rest_is_left():
    begun: list[int] = []

    def job(i):
        begun.append(i)
        raise KeyError(i)

    with pytest.raises(KeyError):
        each(10_000, job)
    assert len(begun) <= numba.get_num_threads()


@pytest.mark.skipif(numba.config.NUMBA_NUM_THREADS < 2, reason="one thread may be used")
def test_two_threads_work_at_once():
    met = threading.Barrier(2, timeout=30)
    before = numba.get_num_threads()
    numba.set_num_threads(2)
    try:
        each(2, lambda i: met.wait() and None)
    finally:
        numba.set_num_threads(before)


def test_blas_gets_its_threads_back_whoever_leaves_first():
    from threadpoolctl import threadpool_info

    def counts():
        return [lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"]

    before = counts()
    first, second = one_blas_thread(), one_blas_thread()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert set(counts()) == {1}
    second.__exit__(None, None, None)
    assert counts() == before


def _problem(seed=0):
    rng = np.random.default_rng(seed)
    pairs = np.argwhere(rng.random((60, 50)) < 0.5)
    kernels = kf.kernels.rbf(rng.random((60, 2))), kf.kernels.rbf(rng.random((50, 2)))
    return kernels, pairs, rng.standard_normal(len(pairs))


def _dual(seed=0):
    kernels, pairs, y = _problem(seed)
    return kf.KKMCEX(*kernels, mu=0.1, solver=kf.PCG(tol=1e-9)).fit(pairs, y).dual_coef_


def _put_dual(queue):
    queue.put(_dual())


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_every_blas_is_known_to_threadpoolctl():
    import scipy.linalg  # noqa: F401
    from threadpoolctl import threadpool_info

    mapped = Path("/proc/self/maps").read_text(encoding="utf-8").split()
    loaded = {Path(name).resolve() for name in mapped if "openblas" in Path(name).name}
    known = {Path(lib["filepath"]).resolve() for lib in threadpool_info()}
    assert loaded <= known


@pytest.mark.skipif(sys.platform == "win32", reason="no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_can_fit_too():
    expected = _dual()
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_put_dual, args=(queue,))
    child.start()
    found = queue.get(timeout=60)
    child.join(timeout=60)
    assert child.exitcode == 0
    np.testing.assert_array_equal(found, expected)


def test_several_threads_may_fit_at_once():
    expected = [_dual(seed) for seed in range(4)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(_dual, range(4)))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)
