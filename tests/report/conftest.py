"""A small table with two cold rows and something known about both axes."""

from __future__ import annotations

import json
import re

import numpy as np
import pandas as pd
import pytest

import kronfill as kf


def tables(n=18, l=8):
    """A smooth table with noise, part of it missing, rows 3 and 7 altogether; and the features."""
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"x": np.linspace(0, 1, n)}, index=[f"r{k}" for k in range(n)])
    cols = pd.DataFrame({"y": np.linspace(0, 1, l)}, index=list("abcdefghijklmnop"[:l]))
    truth = np.sin(5 * rows["x"].to_numpy())[:, None] * np.cos(4 * cols["y"].to_numpy())[None]
    values = truth + 0.05 * rng.standard_normal((n, l))
    table = pd.DataFrame(values, index=rows.index, columns=cols.index)
    table = table.mask(rng.random((n, l)) > 0.6)
    table.iloc[[3, 7]] = np.nan
    return table, rows, cols


def completed(method="kkmcex", size=(18, 8), **settings):
    table, rows, cols = tables(*size)
    return kf.complete(table, rows, cols, method=method, **settings)


def numbers_of(page):
    """The block of JSON of a page."""
    found = re.search(r'<script type="application/json" id="numbers">(.*?)</script>', page, re.S)
    return json.loads(found.group(1))


@pytest.fixture(scope="session")
def kkmcex():
    return completed()


@pytest.fixture(scope="session")
def mc():
    return completed("mc", rank=3)
