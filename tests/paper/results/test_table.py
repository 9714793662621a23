"""From cells to means, verdicts and text."""

from __future__ import annotations

import csv
import io
import math

import numpy as np
import pytest

from kronfill.paper.published import ALGORITHMS, METRICS, PANELS, SIZES, paper_values
from kronfill.paper.results.table import Point, algorithms_shown, curves, summarize, to_csv
from kronfill.paper.results.verdict import verdicts


def cell(method="kkmcex", panel="a", size=100, realization=0, test=1.0, status="done"):
    return {
        "key": f"{panel}-{size}-{realization}-{method}", "panel": panel, "snr": PANELS[panel],
        "N": size, "realization": realization, "method": method, "status": status,
        "train": 0.25 * test, "test": test, "ge": 0.75 * test,
    }  # fmt: skip


def test_the_paper_has_198_numbers():
    values = [
        paper_values(panel, algorithm, metric)
        for panel in PANELS
        for algorithm in ALGORITHMS
        for metric in METRICS
    ]
    assert sum(len(row) for row in values) == 198
    assert all(tuple(row) == SIZES for row in values)
    assert paper_values("b", "KKMCEX", "test")[3100] == 0.134649038129618


def test_means_and_standard_errors():
    points = summarize(cell(realization=k, test=float(k)) for k in range(5))
    found = {p.metric: p for p in points}
    assert found["test"].value == 2.0
    assert found["test"].stderr == pytest.approx(np.std(range(5), ddof=1) / math.sqrt(5))
    assert found["test"].realizations == 5
    assert found["ge"].paper == paper_values("a", "KKMCEX", "ge")[100]
    assert found["test"].relative == pytest.approx(2.0 / found["test"].paper - 1)


def test_order_of_cells_does_not_matter_and_failed_ones_do_not_count():
    cells = [cell(realization=k, test=0.1 * k, size=size) for k in range(7) for size in (100, 400)]
    cells.append(cell(realization=9, test=99.0, status="failed"))
    assert to_csv(summarize(cells)) == to_csv(summarize(cells[::-1]))
    assert {p.realizations for p in summarize(cells)} == {7}


def test_csv_has_the_columns_asked_for():
    rows = list(csv.DictReader(io.StringIO(to_csv(summarize([cell(), cell(size=123)])))))
    assert list(rows[0]) == [
        "panel", "snr", "algorithm", "metric", "N", "value", "stderr", "realizations", "paper",
    ]  # fmt: skip
    by_size = {row["N"]: row for row in rows if row["metric"] == "test"}
    assert float(by_size["100"]["paper"]) == paper_values("a", "KKMCEX", "test")[100]
    assert by_size["123"]["paper"] == ""
    assert by_size["100"]["stderr"] == ""


def points_like_the_paper(factor=1.0, error=1e-9):
    return [
        Point(panel, PANELS[panel], label, metric, size, factor * value, error, 10, value)
        for panel in PANELS
        for algorithm, label in algorithms_shown().items()
        for metric in METRICS
        for size, value in paper_values(panel, algorithm, metric).items()
    ]


def test_the_paper_agrees_with_itself():
    found = verdicts(points_like_the_paper())
    assert len(found) == 18
    assert {v.word for v in found} == {"agrees"}


def test_a_factor_of_two_is_the_same_shape_only():
    words = {(v.panel, v.algorithm, v.metric): v.word for v in verdicts(points_like_the_paper(2.0))}
    assert words.pop(("a", "KKMCEX", "train")) == "agrees"  # rounding: only the order counts
    assert set(words.values()) == {"same shape"}


def test_wide_errors_excuse_a_deviation():
    found = verdicts(points_like_the_paper(2.0, error=1.0))
    assert {v.word for v in found} == {"agrees"}


def test_another_shape_differs():
    points = [
        Point("a", np.inf, "KMC (row-wise)", "test", size, 0.002, 1e-6, 30, value)
        for size, value in paper_values("a", "KMC", "test").items()
    ]
    found = {(v.panel, v.algorithm, v.metric): v for v in verdicts(points)}
    assert found["a", "KMC", "test"].word == "differs"
    assert "paper's grows with N" in found["a", "KMC", "test"].sentence
    assert found["b", "KMC", "test"].word == "not run"


def test_curves_are_in_order_of_size():
    found = curves(summarize([cell(size=400), cell(size=100)]))
    assert [p.N for p in found["a", "KKMCEX", "test"]] == [100, 400]
