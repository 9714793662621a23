"""Arrays of every kind, wherever arrays enter: the answer of the plain array, or a clear error.

What a mask hides is never used: it is missing where a whole matrix is read, refused elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import kronfill as kf
from kronfill import bounds, kernels, selection
from kronfill.errors import KronfillError

N, L = 6, 5
RNG = np.random.default_rng(0)
SEEN = RNG.permutation(np.argwhere(np.ones((N, L))))
X, NEW = SEEN[:24], SEEN[24:]
"""All numbers are whole, most are 0 or 1, so that integers and truth values say the same."""
Y = RNG.integers(0, 2, len(X)).astype(float)
W = np.ones(len(X))
Y_NEW = np.array([1.0, 0.0, 1.0, 1.0, 0.0, 1.0])
POINTS = RNG.integers(0, 2, (N, 3)).astype(float)
ITEMS = RNG.integers(0, 2, (L, 2)).astype(float)
LINKS = np.triu(RNG.integers(0, 2, (N, N)), 1).astype(float)
LINKS += LINKS.T
K_ROW, K_COL = np.eye(N), np.ones((L, L))
TABLE = RNG.integers(0, 2, (N, L)).astype(float)
AT = np.array([0, 1, 0])


def kkmcex(**more: Any) -> Any:
    return kf.KKMCEX(K_ROW, K_COL, mu=0.5, **more)


def rrmcex() -> Any:
    return kf.RRMCEX(K_ROW, K_COL, row_rank=N, col_rank=1, mu=0.5)


def fitted() -> Any:
    return kkmcex().fit(X, Y)


def featured() -> Any:
    return kf.KKMCEX(kernels.rbf(POINTS, 1.0), kernels.rbf(ITEMS, 1.0), mu=0.5).fit(X, Y)


def obs(rows: Any, cols: Any, values: Any, weights: Any) -> Any:
    return kf.Observations(rows, cols, values, (N, L), weights=weights)


def of(method: str) -> dict[str, Any]:
    """Fit a method to arrays, all of which may be of any kind."""
    makers: dict[str, Callable[..., Any]] = {
        "KKMCEX": lambda row, col: kf.KKMCEX(row, col, mu=0.5),
        "RRMCEX": lambda row, col: kf.RRMCEX(row, col, row_rank=N, col_rank=1, mu=0.5),
        "KMC": lambda row, col: kf.KMC(row, col, rank=1, mu=0.5),
        "IMC": lambda row, col: kf.IMC(row, col, rank=1, mu=0.5),
        "BayesianKMC": lambda row, col: kf.BayesianKMC(row, col, rank=1),
        "MC": lambda: kf.MC((N, L), rank=1, mu=0.5),
    }

    def call(X: Any, y: Any, w: Any, **sides: Any) -> Any:
        return makers[method](**sides).fit(X, y, w).predict_matrix()

    sides = {"row": POINTS, "col": ITEMS} if method == "IMC" else {"row": K_ROW, "col": K_COL}
    sides = {} if method == "MC" else sides
    return {"call": call, "X": X, "y": Y, "w": W, **sides}


CASES: dict[str, dict[str, Any]] = {
    **{f"{name}.fit": of(name) for name in ("KKMCEX", "RRMCEX", "KMC", "IMC", "MC", "BayesianKMC")},
    "several targets": {
        "call": lambda y: kkmcex().fit(X, y).predict(X), "y": np.column_stack((Y, 1 - Y)),
    },
    "fit to observations": {
        "call": lambda w: kkmcex().fit(obs(*X.T, Y, None), sample_weight=w).predict(X), "w": W,
    },
    "ConformalRegressor.fit": {
        "call": lambda X, y, w, at: kf.ConformalRegressor(kkmcex(), "jackknife+")
        .fit(X, y, w).predict_interval(at),
        "X": X, "y": Y, "w": W, "at": NEW,
    },
    "predict": {"call": lambda X: fitted().predict(X), "X": NEW},
    "predict_matrix": {
        "call": lambda rows, cols: fitted().predict_matrix(rows, cols), "rows": AT, "cols": AT,
    },
    "predict_std": {"call": lambda X: fitted().predict_std(X), "X": NEW},
    "sample_posterior": {"call": lambda rows: fitted().sample_posterior(rows), "rows": AT[:2]},
    "score": {
        "call": lambda X, y, w: fitted().score(X, y, w), "X": NEW, "y": Y_NEW, "w": np.ones(6),
    },
    "extrapolate": {
        "call": lambda rows: fitted().extrapolate(rows=rows), "rows": np.ones((2, N)),
    },
    "extrapolate from features": {
        "call": lambda cols: featured().extrapolate(cols=cols), "cols": ITEMS[:2],
    },
    "extrapolate_std": {
        "call": lambda cross, own: fitted().extrapolate_std(rows=(cross, own)),
        "cross": np.eye(2, N), "own": np.ones(2),
    },
    "suggest": {
        "call": lambda candidates, cost: np.asarray(fitted().suggest(2, candidates, cost)),
        "candidates": NEW, "cost": np.ones(6),
    },
    **{
        f"{make.__name__} partial_fit": {
            "call": lambda X, y, w, make=make: make().partial_fit(X, y, w).predict_matrix(),
            "X": X, "y": Y, "w": W,
        }
        for make in (kkmcex, rrmcex)
    },
    **{
        f"{make.__name__} partial_fit again": {
            "call": lambda X, y, w, make=make: make().partial_fit(SEEN[:24], Y)
            .partial_fit(X, y, w).predict_matrix(),
            "X": NEW, "y": Y_NEW, "w": np.ones(6),
        }
        for make in (kkmcex, rrmcex)
    },
    "KKMCEX.forget": {"call": lambda X: fitted().forget(X).predict_matrix(), "X": X[:3]},
    "KKMCEX.revise": {
        "call": lambda X, y: fitted().revise(X, y).predict_matrix(), "X": X[:3], "y": 1 - Y[:3],
    },
    "RRMCEX.forget": {
        "call": lambda X, y: rrmcex().partial_fit(SEEN[:24], Y).forget(X, y).predict_matrix(),
        "X": X[:3], "y": Y[:3],
    },
    "RRMCEX.revise": {
        "call": lambda X, y, old: rrmcex().partial_fit(SEEN[:24], Y).revise(X, y, old)
        .predict_matrix(),
        "X": X[:3], "y": 1 - Y[:3], "old": Y[:3],
    },
    "fold_in": {
        "call": lambda item, at, y, w: featured().fold_in(item, at, y, sample_weight=w),
        "item": POINTS[:1], "at": AT[:2], "y": Y[:2], "w": np.ones(2),
    },
    "mu_path": {
        "call": lambda X, y, mus, w: selection.mu_path(kkmcex(), X, y, mus=mus, sample_weight=w)
        .criteria["loo"],
        "X": X, "y": Y, "mus": np.array([1.0, 2.0]), "w": W,
    },
    "leave_out": {
        "call": lambda X, y, items, w: np.nan_to_num(
            selection.leave_out(kkmcex(), X, y, items=items, sample_weight=w)
        ),
        "X": X, "y": Y, "items": AT[:2], "w": W,
    },
    "choose": {
        "call": lambda X, y: selection.choose({"a": kkmcex(), "b": rrmcex()}, X, y)
        .estimator.predict(NEW),
        "X": X, "y": Y,
    },
    "KernelTuner.fit": {
        "call": lambda X, y, w: selection.KernelTuner(
            kf.KKMCEX(), rows=[kernels.rbf(POINTS), kernels.identity(N)], max_iter=2
        ).fit(X, y, w).predict(NEW),
        "X": X, "y": Y, "w": W,
    },
    "RowKFold": {
        "call": lambda X: np.concatenate([t for _, t in selection.RowKFold(2).split(X)]), "X": X,
    },
    "Parameters": {
        "call": lambda size: selection.Parameters(kernels.rbf, length_scale=size).start,
        "size": np.ones(3),
    },
    "ALS start": {
        "call": lambda left, right: kf.MC(
            (N, L), rank=1, mu=0.5, solver=kf.ALS(start=(left, right))
        ).fit(X, Y).predict_matrix(),
        "left": np.ones((N, 1)), "right": np.ones((L, 1)),
    },
    "Observations": {
        "call": lambda rows, cols, y, w: obs(rows, cols, y, w).to_dense(0.0),
        "rows": X[:, 0], "cols": X[:, 1], "y": Y, "w": W,
    },
    "with_values": {
        "call": lambda y: obs(*X.T, Y, None).with_values(y).values, "y": 1 - Y,
    },
    "take": {"call": lambda at: obs(*X.T, Y, None).take(at).values, "at": AT[:2]},
    "take by mask": {
        "call": lambda at: obs(*X.T, Y, None).take(at).values, "at": np.arange(len(X)) < 3,
    },
    "rbf": {
        "call": lambda points, size: kernels.rbf(points, size).block(),
        "points": POINTS, "size": np.ones(3),
    },
    "periodic": {
        "call": lambda points, period: kernels.periodic(points, period).block(),
        "points": POINTS, "period": np.ones(3),
    },
    "linear": {"call": lambda points: kernels.linear(points).block(), "points": POINTS},
    "tanimoto": {
        "call": lambda points: kernels.tanimoto(points).block(), "points": POINTS + np.eye(N, 3),
    },
    "diffusion": {"call": lambda graph: kernels.diffusion(graph).block(), "graph": LINKS},
    "precomputed": {"call": lambda K: kernels.precomputed(K).block(), "K": K_ROW},
    "nearest_psd": {"call": lambda K: np.asarray(kernels.nearest_psd(K)), "K": LINKS},
    "kernel.block": {
        "call": lambda at: kernels.rbf(POINTS).block(at, at), "at": AT,
    },
    "kernel[...]": {"call": lambda at: kernels.rbf(POINTS)[at, :], "at": AT},
    "kernel.take": {"call": lambda at: kernels.rbf(POINTS).take(at).block(), "at": AT},
    "kernel.apply": {"call": lambda V: kernels.rbf(POINTS).apply(V), "V": POINTS},
    "kernel.cross": {"call": lambda new: kernels.rbf(POINTS).cross(new), "new": POINTS[:2]},
    "complete": {
        "call": lambda rows: kf.complete(TABLE, rows, method="kkmcex", mu=0.5)
        .filled.to_numpy(),
        "rows": K_ROW,
    },
    "Completion.details": {
        "call": lambda rows, cols: next(
            kf.complete(np.where(TABLE, 1, np.nan), K_ROW, method="kkmcex", mu=0.5).iter_details(
                (rows, cols)
            )
        )["value"].to_numpy(),
        "rows": AT, "cols": AT[::-1],
    },
    "Split.of": {
        "call": lambda rows, cols: bounds.Split.of((rows, cols), shape=(N, L)).rows,
        "rows": X[:, 0], "cols": X[:, 1],
    },
    "sampling_test": {
        "call": lambda rows, cols: bounds.sampling_test((rows, cols), shape=(N, L)).p_value,
        "rows": X[:, 0], "cols": X[:, 1],
    },
    "generalization_error": {
        "call": lambda model: bounds.generalization_error(
            model, obs(*X.T, Y, None), obs(*NEW.T, Y_NEW, None)
        ),
        "model": TABLE,
    },
    "generalization_error of predictions": {
        "call": lambda one, two: bounds.generalization_error(
            (one, two), obs(*X.T, Y, None), obs(*NEW.T, Y_NEW, None)
        ),
        "one": 1 - Y, "two": Y_NEW,
    },
    "loss": {
        "call": lambda y, f: bounds.Square()(y, f), "y": Y, "f": 1 - Y,
    },
    "supremum": {
        "call": lambda row, signs: bounds.RKHSBall(row, K_COL, 1.0).supremum(signs),
        "row": K_ROW, "signs": TABLE,
    },
}  # fmt: skip
ARGUMENTS = [(name, key) for name, case in CASES.items() for key in case if key != "call"]


def last(array: Any) -> Any:
    return np.arange(array.size).reshape(array.shape) == array.size - 1


def masked(array: Any) -> Any:
    return np.ma.array(array, mask=last(array))


def mapped(array: Any, folder: Path, mode: str) -> Any:
    np.save(folder / "array.npy", array)
    return np.load(folder / "array.npy", mmap_mode=mode)


def read_only(array: Any) -> Any:
    array = array.copy()
    array.flags.writeable = False
    return array


def strided(array: Any) -> Any:
    wide = np.zeros((*array.shape, 2), array.dtype)
    wide[..., 1] = array
    return wide[..., 1]


def framed(array: Any) -> Any:
    return pd.Series(array) if array.ndim == 1 else pd.DataFrame(array)


def nullable(array: Any) -> Any:
    kind = {"b": "boolean", "i": "Int64"}.get(array.dtype.kind, "Float64")
    return framed(array).astype(kind)


def sparse(array: Any) -> Any:
    return sp.csr_array(array) if array.ndim == 2 else sp.coo_array(array[None])


SAME: dict[str, Callable[[Any, Path], Any]] = {
    "masked nowhere": lambda a, _: np.ma.array(a),
    "memory-mapped": lambda a, folder: mapped(a, folder, "r"),
    "memory-mapped, writeable": lambda a, folder: mapped(a, folder, "c"),
    "read-only": lambda a, _: read_only(a),
    "Fortran": lambda a, _: np.asfortranarray(a),
    "strided": lambda a, _: strided(a),
}
SAME_OR_REFUSED: dict[str, Callable[[Any, Path], Any]] = {
    "object": lambda a, _: a.astype(object),
    "int": lambda a, _: a.astype(int),
    "bool": lambda a, _: a.astype(bool),
    "float32": lambda a, _: a.astype(np.float32),
    "list": lambda a, _: a.tolist(),
    "sparse": lambda a, _: sparse(a),
}


def answer(name: str, key: str, given: Any) -> Any:
    case = {k: v for k, v in CASES[name].items() if k != "call"}
    return CASES[name]["call"](**{**case, key: given})


@pytest.mark.parametrize(("name", "key"), ARGUMENTS)
def test_what_a_mask_hides_is_refused(name, key):
    array = CASES[name][key]
    with pytest.raises(KronfillError, match="masked at position"):
        answer(name, key, masked(array))
    with pytest.raises(KronfillError):
        answer(name, key, list(masked(array)) if array.ndim == 2 else [masked(array)])


@pytest.mark.parametrize(("name", "key"), ARGUMENTS)
def test_the_same_answer_or_a_clear_error(name, key, tmp_path):
    array = CASES[name][key]
    plain = answer(name, key, array)
    for kind, make in {**SAME, **SAME_OR_REFUSED}.items():
        given = make(array, tmp_path)
        if kind in ("int", "bool") and not np.array_equal(array, given):
            continue
        try:
            got = answer(name, key, given)
        except KronfillError:
            if kind in SAME:
                raise
            continue
        np.testing.assert_allclose(got, plain, rtol=1e-9, atol=1e-12, err_msg=kind)


@pytest.mark.parametrize(("name", "key"), ARGUMENTS)
def test_nullable_columns_are_as_good_as_others(name, key):
    array = CASES[name][key]
    try:
        plain = answer(name, key, framed(array))
    except KronfillError:
        with pytest.raises(KronfillError):
            answer(name, key, nullable(array))
        return
    np.testing.assert_allclose(answer(name, key, nullable(array)), plain, rtol=1e-9, atol=1e-12)
    with pytest.raises(KronfillError):
        answer(name, key, nullable(array).mask(last(array)))


MATRICES: dict[str, Callable[[Any], Any]] = {
    "masked": lambda a: np.ma.array(np.nan_to_num(a, nan=99.0), mask=np.isnan(a)),
    "object": lambda a: a.astype(object),
    "read-only": read_only,
    "Fortran": np.asfortranarray,
    "strided": strided,
    "float32": lambda a: a.astype(np.float32),
    "nullable": lambda a: pd.DataFrame(a).astype("Float64"),
    "list": lambda a: a.tolist(),
    "sparse": lambda a: sp.coo_array((a[~np.isnan(a)], np.nonzero(~np.isnan(a))), shape=a.shape),
}


@pytest.mark.parametrize("kind", [*MATRICES, "memory-mapped"])
@pytest.mark.parametrize("method", ["kkmcex", "rrmcex", "kmc", "mc"])
def test_what_a_mask_hides_in_a_matrix_is_missing(kind, method, tmp_path):
    table = np.where(RNG.random((N, L)) < 0.2, np.nan, TABLE)
    given = mapped(table, tmp_path, "r") if kind == "memory-mapped" else MATRICES[kind](table)
    settings = {"rows": K_ROW, "method": method, "mu": 0.5, "rank": 1}
    plain, got = (kf.complete(t, **settings).filled for t in (table, given))
    np.testing.assert_allclose(got, plain, rtol=1e-9)
