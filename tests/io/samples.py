"""Models to save and what can be asked of them, for the tests of model files."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.testing import assert_array_equal

import kronfill as kf

N, L = 12, 9
RNG = np.random.default_rng(5)
POINTS, NEW = RNG.standard_normal((N, 3)) + 2.0, RNG.standard_normal((2, 3)) + 2.0
COLS, NEW_COLS = RNG.standard_normal((L, 2)), RNG.standard_normal((3, 2))
COUNTS = RNG.poisson(1.0, (N, 6)).astype(float)
X = RNG.permutation(np.argwhere(RNG.random((N, L)) < 0.5))
Y = np.sin(POINTS[X[:, 0], 0]) + COLS[X[:, 1], 0] + 0.1 * RNG.standard_normal(len(X))
PAIRS = np.argwhere(np.ones((N, L)))


def frame(n, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "size": rng.normal(100.0, 20.0, n),
            "town": rng.choice(["Oslo", "Rome", "Lima"], n),
            "kind": pd.Categorical(rng.choice([1, 2], n)),
            "open": rng.random(n) < 0.5,
            "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), "D"),
            7: rng.integers(0, 5, n),
        },
        index=[f"item{i}" for i in range(n)],
    )


def gram():
    return POINTS @ POINTS.T


def similar(kernel):
    """Two new items, described by their similarities."""
    return 0.5 * kernel.to_array()[:2], np.full(2, 5.0)


def methods(row, col):
    return {
        "kkmcex": kf.KKMCEX(row, col, mu=0.1, center="mean"),
        "rrmcex": kf.RRMCEX(row, col, row_rank=4, col_rank=0.999, mu=0.1),
        "kmc": kf.KMC(row, col, rank=2, mu=0.5, solver=kf.ALS(sweeps=20, tol=1e-3), center="rows"),
    }


def saved(model, folder, **settings):
    """The model after a round trip through a file."""
    path = folder / "model.kf"
    model.save(path)
    return kf.load(path, **settings)


def numbers(est, new_rows=None, new_cols=None):
    """All that can be asked of an estimator, as arrays."""
    found = {
        "predict": est.predict(PAIRS),
        "matrix": est.predict_matrix(),
        "block": est.predict_matrix([3, 1], [0, 5]),
        "all": est.extrapolate(),
        "rows": est.extrapolate(rows=new_rows),
        "cols": est.extrapolate(cols=new_cols),
        "both": est.extrapolate(new_rows, new_cols),
        "mu": np.array(est.mu_),
    }
    if hasattr(est, "predict_std"):
        why, next_ones = est.explain(1, 2), est.suggest(3)
        found |= {
            "std": est.predict_std(PAIRS),
            "new_std": est.extrapolate_std(new_rows, new_cols),
            "signal": np.array(est.signal_variance_),
            "why": np.array([*why.contributions, why.prediction, why.rest]),
            "next": np.asarray(next_ones),
            "next_std": next_ones.std,
        }
    return found


def assert_same(one, other, **new):
    before, after = numbers(one, **new), numbers(other, **new)
    assert before.keys() == after.keys()
    for name, array in before.items():
        assert_array_equal(after[name], array, err_msg=name)


def written(path, data):
    path.write_bytes(data)
    return path
