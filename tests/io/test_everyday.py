"""Models of tables as people have them: encoders, dates and scales of values come back."""

import importlib.util

import numpy as np
import pandas as pd
import pytest

import kronfill as kf

from .samples import N

WORDS = ["fast", "slow", "red", "green", "round"]
SMILES = ["CCO", "CCCO", "c1ccccc1", "CC(=O)O", "CCN", "CCCN"]


def columns(n, seed=0):
    """One column of each kind that is encoded by itself; some without a value."""
    rng = np.random.default_rng(seed)
    gaps = pd.DataFrame({"age": rng.integers(20, 60, n) + 0.5, "town": rng.choice(["A", "B"], n)})
    gaps.loc[1, "age"] = np.nan
    return {
        "labels": pd.DataFrame({"genres": ["|".join(rng.choice(WORDS, 2)) for _ in range(n)]}),
        "text": pd.DataFrame({"title": [" ".join(rng.choice(WORDS, 3)) for _ in range(n)]}),
        "protein": pd.DataFrame({"seq": ["".join(rng.choice(list("ACDW"), 25)) for _ in range(n)]}),
        "smiles": pd.DataFrame({"drug": rng.choice(SMILES, n)}),
        "date": pd.DataFrame(
            {"since": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 99, n), "D")}
        ),
        "number": gaps,
    }


KINDS = [
    "labels",
    "text",
    "protein",
    pytest.param(
        "smiles",
        marks=pytest.mark.skipif(
            importlib.util.find_spec("rdkit") is None, reason="reading molecules needs rdkit"
        ),
    ),
    "date",
    "number",
]


def table(seed=0):
    rng = np.random.default_rng(seed)
    values = np.exp(np.add.outer(rng.standard_normal(N), rng.standard_normal(8)))
    seen = np.where(rng.random(values.shape) < 0.7, values, np.nan)
    return pd.DataFrame(seen, index=[f"item{i}" for i in range(N)])


def assert_comes_back(done, folder, **new):
    before = done.extrapolate(**new)
    done.save(folder / "done.kf")
    back = kf.load(folder / "done.kf")
    pd.testing.assert_frame_equal(back.filled, done.filled, check_exact=True)
    pd.testing.assert_frame_equal(back.extrapolate(**new), before, check_exact=True)


@pytest.mark.parametrize("kind", KINDS)
def test_columns_come_back(kind, tmp_path):
    frame, new = columns(N)[kind], columns(3, 1)[kind].set_axis(list("xyz"))
    said = {} if kind == "number" else {frame.columns[0]: kind}
    seen = table()
    done = kf.complete(
        seen, rows=frame.set_axis(seen.index), method="kkmcex", mu=0.3, kinds=said, transform=None
    )
    assert_comes_back(done, tmp_path, rows=new)


@pytest.mark.parametrize("method", ["kkmcex", "auto"])
@pytest.mark.parametrize("value_range", [None, (0.0, 100.0)])
@pytest.mark.parametrize("scale", ["log", "sqrt", "ranks"])
def test_scales_of_values_come_back(scale, value_range, method, tmp_path):
    frame = columns(N)["number"].dropna()
    seen = table().iloc[frame.index]
    mu = {"mu": 0.3} if method == "kkmcex" else {}
    done = kf.complete(
        seen, rows=frame.set_axis(seen.index), method=method, transform=scale,
        value_range=value_range, **mu,
    )  # fmt: skip
    assert done.model.scale_.kind == scale
    assert_comes_back(done, tmp_path, rows=frame.iloc[:2].set_axis(list("xy")))
