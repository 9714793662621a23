"""The benchmark harness, on a problem so small that its times mean nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
pytestmark = pytest.mark.skipif(
    not (ROOT / "benchmarks").is_dir(), reason="a source distribution comes without benchmarks"
)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Folder and output of a quick run."""
    return quick_run("speed", tmp_path_factory.mktemp("speed"))


def quick_run(name, out):
    command = [sys.executable, "-m", "benchmarks", "--quick", "--no-peers", "--only", name]
    command += ["--out", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return out, done.stdout


def test_every_measurement_ended_well(run):
    results = json.loads((run[0] / "speed.json").read_text())
    assert [row["failed"] for row in results["measured"] if "failed" in row] == []
    assert {row["kind"] for row in results["measured"]} == {"rbf", "given"}
    assert all(row["true_residual"] <= 1e-6 for row in results["measured"])


def test_auto_is_compared_with_what_applies(run):
    results = json.loads((run[0] / "speed.json").read_text())
    (row,) = results["choice"]
    assert {"auto", "Cholesky", "PrimalDirect", "GridEigen", "PCG"} <= set(row["seconds"])
    best = min(value for name, value in row["seconds"].items() if name != "auto")
    assert row["auto_over_best"] == pytest.approx(row["seconds"]["auto"] / best)


def test_page_and_picture(run):
    folder, printed = run
    page = (folder / "speed.md").read_text()
    assert "### Goals" in page
    assert "### kronfill alone" in page
    assert "| 3,000 | 100 |" in page
    assert "| 3,000 | 100 |" in printed
    assert (folder / "figures" / "speed.png").stat().st_size > 20_000


@pytest.mark.slow
def test_practical_goes_through_everything(tmp_path):
    quick_run("speed", tmp_path)  # makes the page
    folder, printed = quick_run("practical", tmp_path)
    (row,) = json.loads((folder / "practical.json").read_text())["tables"]
    parts = [row[part] for part in ("fixed", "complete", "kmc", "evaluate")]
    assert [part["failed"] for part in parts if "failed" in part] == []
    assert [fit["mu"] for fit in row["fixed"]["fits"]] == [1.0, 0.1, 0.01]
    assert all(fit["residual"] <= 1e-6 for fit in row["fixed"]["fits"])
    page = (folder / "speed.md").read_text()
    assert "### Seconds, everything chosen" in page
    assert "### Seconds, everything chosen" in printed
    assert (folder / "figures" / "practical.png").stat().st_size > 10_000


def test_what_is_around_the_tables_stays(run, tmp_path):
    folder = run[0]
    page = tmp_path / "speed.md"
    page.write_text("before\n<!-- results: begin -->\nold\n<!-- results: end -->\nafter\n")
    (tmp_path / "speed.json").write_text((folder / "speed.json").read_text())
    command = [sys.executable, "-m", "benchmarks", "--redraw", "--out", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert "old" not in text
    assert "### Goals" in text


def test_same_entries_everywhere_and_no_entry_twice():
    code = (
        "import numpy as np; from benchmarks.problems import Problem\n"
        "for zipf in (False, True):\n"
        "    X, y = Problem(600, 30, zipf=zipf).data()\n"
        "    print(len(np.unique(X, axis=0)), X.min() >= 0, X.max() < 30, y.sum().hex())\n"
    )
    command = [sys.executable, "-c", code]
    first, second = (
        subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    )
    assert first == second
    assert [line.split()[:3] for line in first.splitlines()] == [["600", "True", "True"]] * 2


def test_the_entry_kernel_of_the_peers_is_the_exact_one():
    code = (
        "import numpy as np; from benchmarks.problems import Problem, true_residual, MU\n"
        "p = Problem(60, 30); X, y = p.data(); K = p.entry_kernel(X)\n"
        "slow = [p.kernel_rows(a, X[:, a])[:, X[:, a]] for a in range(2)]\n"
        "print(abs(K - slow[0] * slow[1]).max())\n"
        "d = np.linalg.solve(K + MU * np.eye(60), y)\n"
        "print(true_residual(X, y, d, p.kernel_rows))\n"
        "print(true_residual(X, y, 1.01 * d, p.kernel_rows))\n"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    gap, solved, spoilt = map(float, done.stdout.split())
    assert gap < 1e-13
    assert solved < 1e-12
    assert spoilt == pytest.approx(0.01, rel=1e-6)
