"""Writing: whole or not at all, the same for the same seed, errors before work."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import kronfill as kf
from kronfill.errors import DataError, KronfillError
from kronfill.report import evaluate, write_report

from .conftest import completed, numbers_of


def test_the_method_of_a_completion_does_the_same(kkmcex, tmp_path):
    one = kkmcex.report(tmp_path / "one.html", value_range=(-2, 2), seed=3)
    two = write_report(kkmcex, tmp_path / "two.html", value_range=(-2, 2), seed=3)
    assert one == tmp_path / "one.html"
    assert one.read_bytes() == two.read_bytes()


def test_another_seed_hides_other_entries(mc, tmp_path):
    pages = [write_report(mc, tmp_path / f"{k}.html", seed=k).read_text() for k in (0, 1)]
    first, second = (numbers_of(page)["accuracy"]["parts"][0] for page in pages)
    assert first["method"]["rmse"] != second["method"]["rmse"]


def test_an_evaluation_made_before_is_used(mc, tmp_path):
    found = evaluate(mc, seed=5)
    page = write_report(mc, tmp_path / "a.html", evaluation=found, seed=0)
    numbers = numbers_of(page.read_text(encoding="utf-8"))["accuracy"]
    assert numbers["seed"] == 5
    assert numbers["parts"][0]["predicted"] == found.parts["known"].predicted.tolist()


def test_an_older_page_survives_a_failure(kkmcex, tmp_path):
    path = tmp_path / "report.html"
    path.write_text("older")
    with pytest.raises(DataError, match="outside the stated range"):
        write_report(kkmcex, path, value_range=(0.0, 0.1))
    assert path.read_text() == "older"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["missing/report.html", ""])
def test_a_place_that_cannot_be_written_is_an_error_of_ours(kkmcex, tmp_path, name):
    with pytest.raises(KronfillError, match="cannot be written"):
        write_report(kkmcex, tmp_path / name)


def test_progress_goes_from_nothing_to_all(mc, tmp_path):
    told = []
    write_report(mc, tmp_path / "a.html", progress=lambda what, share: told.append((what, share)))
    shares = [share for _, share in told]
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0.0, 1.0)
    assert len({what for what, _ in told}) > 4


def test_a_large_table_is_drawn_in_blocks_and_judged_by_a_hold_out(tmp_path):
    """Kernels that a report must not form: 3,000 x 2,000 entries, 20,000 observed."""
    rng = np.random.default_rng(0)
    flat = rng.choice(6_000_000, size=20_000, replace=False)
    rows, cols = np.divmod(flat, 2000)
    values = np.sin(rows / 500) + np.cos(cols / 300) + 0.1 * rng.standard_normal(20_000)
    obs = kf.Observations(rows, cols, values, (3000, 2000))
    done = kf.complete(obs, method="mc", rank=2, mu=1.0)
    page = write_report(done, tmp_path / "a.html").read_text(encoding="utf-8")
    numbers = numbers_of(page)
    assert numbers["cells"]["averaged"]
    assert numbers["accuracy"]["scheme"] == "hold-out"
    assert numbers["path"]["sampled"]
    assert numbers["uncertainty"]["kind"] == "calibrated"
    assert len(page) < 5_000_000


def test_a_kernel_method_with_more_observations_than_are_factorised(tmp_path, monkeypatch):
    from kronfill.completion.judging import evaluation
    from kronfill.report import curve, uncertainty

    monkeypatch.setattr(evaluation, "FOLDS_LIMIT", 50)
    monkeypatch.setattr(curve, "LIMIT", 50)
    monkeypatch.setattr(uncertainty, "WORK", 1e3)
    page = write_report(completed(), tmp_path / "a.html").read_text(encoding="utf-8")
    numbers = numbers_of(page)
    assert numbers["uncertainty"]["kind"] == "calibrated"
    assert numbers["path"]["observations"] == 50
    assert numbers["path"]["sampled"]
    assert "a random sample of" in page


def test_a_report_on_values_of_another_scale(tmp_path):
    rng = np.random.default_rng(0)
    table = np.exp(np.add.outer(rng.standard_normal(30), rng.standard_normal(20)))
    seen = pd.DataFrame(np.where(rng.random(table.shape) < 0.7, table, np.nan))
    done = kf.complete(seen, method="mc", rank=1, mu=1.0, transform="log")
    text = done.report(tmp_path / "r.html").read_text(encoding="utf-8")
    assert text.index('class="opening"') < text.index('class="summary"')
    assert "of which" in text
    assert "A prediction is off by" in text
