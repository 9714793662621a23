"""Kernels of a user's own function in a model file: its name, and never more."""

from __future__ import annotations

import functools
import math
import sys

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.metrics.pairwise import linear_kernel

import kronfill as kf
from kronfill.errors import ModelFileError, ParameterError

from ..model_files import parts_of, rebuilt

N, L = 12, 5
RNG = np.random.default_rng(5)
POINTS, NEW = RNG.standard_normal((N, 3)), RNG.standard_normal((2, 3))
X = RNG.permutation(np.argwhere(RNG.random((N, L)) < 0.5))
Y = RNG.standard_normal(len(X))
WORDS = ["kernel", "colonel", "matrix", "metric", "factor", "vector"] * 2


def shared(a, b):
    return len(set(a) & set(b))


def gauss(a, b):
    return math.exp(-np.sum((a - b) ** 2))


def town(a, b):
    return a.x * b.x + (a.town == b.town)


NAME = f"{__name__}:{gauss.__name__}"


def fitted(kernel):
    return kf.KKMCEX(kernel, None, mu=0.1).fit(X, Y)


FRAME = pd.DataFrame({"x": POINTS[:, 0], "town": list("ab") * 6}, index=WORDS[:6] + list("abcdef"))
CASES = {
    "array": (kf.kernels.from_function(gauss, POINTS), gauss, NEW),
    "sparse": (
        kf.kernels.from_function(linear_kernel, sparse.csr_array(POINTS), vectorized=True),
        linear_kernel,
        NEW,
    ),
    "frame": (kf.kernels.from_function(town, FRAME), town, FRAME[:2]),
    "objects": (kf.kernels.from_function(shared, WORDS), shared, ["lemon"]),
    "numbers": (kf.kernels.from_function(math.gcd, range(1, N + 1)), math.gcd, [8, 15]),
}


@pytest.mark.parametrize("name", CASES)
def test_the_same_numbers_come_back(name, tmp_path):
    kernel, function, new = CASES[name]
    est = fitted(kernel + 0.1 * kf.kernels.identity(N))
    est.save(tmp_path / "model.kf")
    back = kf.load(tmp_path / "model.kf", functions=[function])
    assert_array_equal(back.predict_matrix(), est.predict_matrix())
    assert_array_equal(back.extrapolate(rows=new), est.extrapolate(rows=new))
    assert_array_equal(back.extrapolate_std(rows=new), est.extrapolate_std(rows=new))
    assert repr(back.row_kernel) == repr(est.row_kernel)
    assert back.row_kernel.labels == est.row_kernel.labels


def test_items_of_which_not_all_pairs_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr("kronfill.kernels.functions._FEW", 5)
    est = fitted(kf.kernels.from_function(gauss, POINTS))
    est.save(tmp_path / "model.kf")
    back = kf.load(tmp_path / "model.kf", functions=[gauss])
    assert_array_equal(back.extrapolate(rows=NEW), est.extrapolate(rows=NEW))


def test_nothing_is_taken_from_a_name(tmp_path):
    """Although the function could be imported."""
    est = fitted(kf.kernels.from_function(gauss, POINTS))
    est.save(tmp_path / "model.kf")
    for functions in (None, [], {}, [shared], {"gauss": gauss}):
        with pytest.raises(ModelFileError, match=f"function '{NAME}'.*functions=.gauss.") as caught:
            kf.load(tmp_path / "model.kf", functions=functions)
        assert "damaged" not in str(caught.value)
    moved = kf.load(tmp_path / "model.kf", functions={NAME: gauss, "more": shared})
    assert_array_equal(moved.predict_matrix(), est.predict_matrix())
    with pytest.raises(ModelFileError, match="Hand it over"):
        kf.load(tmp_path / "model.kf")
    manifest = parts_of((tmp_path / "model.kf").read_bytes())["manifest.json"]
    assert manifest.count(NAME.encode()) == 1


@pytest.mark.parametrize("functions", [gauss, 3, ["gauss"], {1: gauss}, {NAME: "gauss"}])
def test_what_is_handed_over_must_be_functions(functions, tmp_path):
    with pytest.raises(ParameterError, match="list of functions, or a dictionary"):
        kf.load(tmp_path / "model.kf", functions=functions)


class Model:
    def similarity(self, a, b):
        return 1.0

    def __call__(self, a, b):
        return 1.0


def local():
    def inner(a, b):
        return 1.0

    return inner


REFUSED = {
    "<lambda>": lambda a, b: 1.0,
    "local.<locals>.inner": local(),
    "Model.similarity": Model().similarity,
    "Model": Model(),
    "partial": functools.partial(gauss),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_name_of_its_own_is_refused_when_saved(name, tmp_path):
    est = fitted(kf.kernels.from_function(REFUSED[name], POINTS))
    with pytest.raises(ModelFileError, match=f"function {name} of a kernel .* top level of a") as e:
        est.save(tmp_path / "model.kf")
    assert "kronfill.kernels.precomputed" in str(e.value)
    assert not (tmp_path / "model.kf").exists()


def test_a_function_that_hides_behind_the_name_of_another_is_refused(tmp_path, monkeypatch):
    est = fitted(kf.kernels.from_function(gauss, POINTS))
    monkeypatch.setattr(sys.modules[__name__], "gauss", shared)
    with pytest.raises(ModelFileError, match="function gauss of a kernel cannot be saved"):
        est.save(tmp_path / "model.kf")


CHANGES = {
    "another function": ("function", {"function": ["os:system", False]}, "function 'os:system'"),
    "no name": ("function", {"function": [None, False]}, "is not of the type"),
    "no flag": ("function", {"function": [NAME, 1]}, "is not of the type"),
    "a name alone": ("function", NAME, "function of a FunctionKernel"),
    "more": ("function", {"function": [NAME, False, 1]}, "items are expected"),
    "fewer items": ("items", {"tuple": [1, 2]}, "do not fit together"),
    "no items": ("items", None, "items of a FunctionKernel"),
    "text": ("items", "x" * N, "items of a FunctionKernel"),
    "another size": ("n", N + 1, "do not fit together"),
    "other similarities": ("K", 1.5, "K of a FunctionKernel"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_forged_files_are_refused(name, tmp_path):
    key, node, match = CHANGES[name]
    fitted(kf.kernels.from_function(gauss, POINTS)).save(tmp_path / "model.kf")

    def change(manifest, parts):
        line = next(o for o in manifest["objects"] if o["class"] == "FunctionKernel")
        assert key in line["state"]
        line["state"][key] = node

    (tmp_path / "model.kf").write_bytes(rebuilt((tmp_path / "model.kf").read_bytes(), change))
    with pytest.raises(ModelFileError, match=match):
        kf.load(tmp_path / "model.kf", functions=[gauss])
