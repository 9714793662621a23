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


def quick_run(name, out, *more):
    command = [sys.executable, "-m", "benchmarks", "--quick", "--no-peers", "--only", name]
    command += ["--out", str(out), *more]
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


def test_classes_and_counts_are_compared_with_numbers(run):
    (row,) = json.loads((run[0] / "speed.json").read_text())["newton"]
    for name in ("KKMCEXClassifier", "KKMCEXPoisson"):
        assert row[name]["converged"]
        assert row[name]["times"] == pytest.approx(row[name]["seconds"] / row["kkmcex_s"])


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
    names = ("fixed", "complete", "default", "kmc", "tuner", "evaluate", "folds")
    assert {name: row[name]["failed"] for name in names if "failed" in row[name]} == {}
    assert [fit["mu"] for fit in row["fixed"]["fits"]] == [1.0, 0.1, 0.01]
    assert all(fit["residual"] <= 1e-6 for fit in row["fixed"]["fits"])
    page = (folder / "speed.md").read_text()
    for title in ("### Goals of ordinary tables", "### Seconds, everything chosen"):
        assert title in page
        assert title in printed
    assert (folder / "figures" / "practical.png").stat().st_size > 10_000


@pytest.mark.slow
def test_practical_goes_on_where_it_was_cut(tmp_path):
    """What stands is kept; what failed, or what other code measured, is measured again."""
    quick_run("practical", tmp_path)
    kept = tmp_path / "practical.json"
    results = json.loads(kept.read_text())
    (row,) = results["tables"]
    row["complete"]["seconds"] = 123.0
    row["kmc"] = {"failed": "exit 1: no memory"}
    row["tuner"]["code"] = "other"
    row["tuner"]["seconds"] = 456.0
    del row["fixed"]
    kept.write_text(json.dumps(results))
    quick_run("practical", tmp_path, "--resume")
    (row,) = json.loads(kept.read_text())["tables"]
    assert row["complete"]["seconds"] == 123.0
    assert "seconds" in row["kmc"]
    assert row["tuner"]["seconds"] < 60
    assert len(row["fixed"]["fits"]) == 3


GOALS = """
import json
from benchmarks import practical_goals as goals
fit = {"seconds": 2.0, "expected": 1.0, "peak_gb": 0.5}
rows = [
    {"name": "features", "complete": {"seconds": 3.0, "peak_gb": 1.0}, "kmc": {"seconds": 9.0},
     "smurff": {"seconds": 5.0, "rmse": 0.5}, "myfm": {"seconds": 7.0, "rmse": 0.4},
     "default": {"seconds": 6.0, "rmse": 0.6}, "evaluate": {"failed": "over 120 s"},
     "fixed": {"fits": [fit]}},
    {"name": "ratings", "complete": {"seconds": 9.0}, "kmc": {"seconds": 9.0},
     "fixed": {"failed": "exit 1: no"}},
]
found = goals.check({"tables": rows})
print(json.dumps({goal["what"].partition(" (")[0]: [goal["value"], goal["met"]] for goal in found}))
"""


def test_the_goals_of_practical_say_what_is_met():
    done = subprocess.run(
        [sys.executable, "-c", GOALS], cwd=ROOT, capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout)
    assert found["features: KKMCEX, mu chosen"] == [3.0, True]
    assert found["ratings: KKMCEX, mu chosen"] == [9.0, False]
    assert found["drugs x kinases: KKMCEX, mu chosen"] == [None, None]
    assert found["slowest fit at fixed mu"] == [2.0, True]
    assert found["KMC over KKMCEX, both chosen"] == [3.0, False]
    assert found["features: `evaluate` of the default"] == [120.0, False]
    slower = "the default over the slower of SMURFF and myFM"
    assert found[slower] == [pytest.approx(6 / 7), True]
    error = "error of the default over that of the better of SMURFF and myFM"
    assert found[error] == [pytest.approx(1.5), False]
    assert found["most memory of a process"] == [1.0, True]
    apart = "seconds expected and taken at fixed mu: the larger over the smaller, worst"
    assert found[apart] == [2.0, True]


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
