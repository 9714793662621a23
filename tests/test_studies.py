"""The studies on real data, so small that they take seconds; the page that they write."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

import kronfill as kf
from kronfill.errors import DataError

ROOT = Path(__file__).resolve().parents[1]
if not (ROOT / "studies").is_dir():
    pytest.skip("a source distribution comes without studies", allow_module_level=True)
sys.path.insert(0, str(ROOT))
command, common, page = (import_module(f"studies.{n}") for n in ("__main__", "common", "page"))
defaults, peers, made_up = (import_module(f"studies.{n}") for n in ("defaults", "peers", "made_up"))
side_information = import_module("studies.side_information")
active_choice, conformal_coverage = page.active_choice, page.conformal_coverage
certificates = page.certificates
bixi, drug_response, seattle = page.bixi, page.drug_response, page.seattle

# As in the command: an alternating method that stops at its limit is as good as its error says.
pytestmark = pytest.mark.filterwarnings("ignore::kronfill.errors.ConvergenceWarning")


def data_there(load):
    try:
        load()
    except DataError:
        return False
    return True


needs_seattle = pytest.mark.skipif(
    not data_there(kf.datasets.load_seattle), reason="the Seattle data are not here"
)
likelihoods = import_module("studies.likelihoods")
needs_davis = pytest.mark.skipif(
    not (Path(os.environ.get("KRONFILL_DATA", "")) / "davis").is_dir(),
    reason="the Davis data are not here",
)
needs_drugs = pytest.mark.skipif(
    not data_there(kf.datasets.load_drug_response), reason="the drug response data are not here"
)


def rmse(rows):
    return {row["method"]: row["rmse"] for row in rows}


def shuffled_and_not(errors, method):
    return errors[method], [error for name, error in errors.items() if "shuffled" in name]


# The studies.


def test_made_up_tables_have_the_default_beside_each_single_method(tmp_path):
    result = made_up.run(quick=True)
    (draws,) = result["kinds"].values()
    found = {method: one["rmse"] for method, one in draws["0"].items()}
    assert found["auto"] < min(error for method, error in found.items() if method != "auto")
    common.save(result, made_up.RECORD, tmp_path)
    text = made_up.tables(tmp_path)["made_up"]
    assert "| both |" in text
    assert "BayesianKMC" in text
    assert "| MC" not in text  # it was not run


def test_made_up_tables_go_on_where_they_were(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(made_up, "KINDS", ("both", made_up.MISLED))
    monkeypatch.setattr(made_up, "SEEDS", 1)
    monkeypatch.setattr(
        made_up, "once", lambda *case: asked.append(case) or {"rmse": 1.0, "processor": 0.0}
    )
    first = made_up.run(out=tmp_path)
    assert len(asked) == 2 * (1 + len(made_up.METHODS)) + 1
    assert asked[-1] == (made_up.MISLED, 0, "kmc")
    asked.clear()
    assert made_up.run(out=tmp_path) == first
    assert not asked
    made_up.run(anew=["auto"], out=tmp_path)
    assert asked == [("both", 0, "auto"), (made_up.MISLED, 0, "auto")]
    assert "1.000 times that without it" in made_up.table(first)


@pytest.mark.parametrize("kind", made_up.KINDS)
def test_made_up_tables_hold_what_they_say(kind):
    table, rows, cols, truth, wanted = made_up.made(kind, 0)
    assert int(table.notna().sum().sum()) == made_up.ENTRIES
    assert not (wanted & table.notna()).any(axis=None)
    assert len(rows) == len(truth) == made_up.SHAPE[0]
    assert len(cols) == made_up.SHAPE[1]
    if kind == "cold rows":
        assert wanted[:30].all()
        assert not wanted[30:].any()


def test_bixi_predicts_stations_that_were_never_seen():
    found = rmse(bixi.run(quick=True)["splits"])
    ours, shuffled = shuffled_and_not(found, bixi.METHOD)
    assert len(shuffled) == 2
    assert ours < 0.9 * found["MC"]
    assert ours < 0.9 * found["row + column effects"]
    assert ours < min(shuffled)


@needs_seattle
def test_seattle_uses_roads_and_hours():
    result = seattle.run(quick=True)
    found = rmse(result["methods"])
    ours, shuffled = shuffled_and_not(found, seattle.METHOD)
    assert len(shuffled) == 2
    assert ours < min(shuffled)
    assert max(ours, found["MC"]) < 0.7 * found["row + column effects"]
    assert result["others"][0]["rmse"] == 3.830


@pytest.mark.slow
@needs_drugs
def test_every_method_has_an_error_in_a_fold_of_drug_response():
    result = drug_response.run(quick=True)
    found = rmse(result["folds"])
    assert len(found) == 8
    assert found[drug_response.LEARNED] < found["row + column effects"]
    told = {row["method"]: row for row in drug_response.summary(result)}
    assert told["row + column effects"]["worse_in"] == 1
    assert told["MC"]["rmse"] == pytest.approx(found["MC"])


def test_intervals_cover_bixi():
    rows = conformal_coverage.run("bixi", quick=True)["rows"]
    assert [row["method"] for row in rows] == ["KKMCEX", "MC"]
    for row in rows:  # 20 splits: about four standard errors
        assert abs(row["coverage"] - 0.9) < 0.025
    assert rows[0]["width"] < rows[1]["width"]


def test_certificates_of_bixi_are_short_and_hold():
    result = certificates.run(quick=True, draws=100)
    (row,) = result["rows"]
    assert row["truth"] <= row["value"] < row["by_class"]
    assert row["margin"] < 0.5 * row["classical"]
    few = binom.ppf(0.999, 100, 0.05) / 100  # what chance allows of so few draws
    assert all(one["failed"] <= few for one in result["failures"])
    assert sum(one["losses"].startswith("new rows: ") for one in result["failures"]) == 6
    assert "| BIXI | 1,500 | 150 |" in certificates.table(result)


def test_the_certificates_that_are_kept_are_short_and_hold():
    """The margins of an earlier trial are reached, and no kind of losses fails too often."""
    result = common.load("certificates")
    for row, goal in zip(result["rows"], (7.4, 0.100, 18.9), strict=True):
        assert row["truth"] <= row["value"]
        assert row["margin"] <= goal
        assert row["margin"] <= 0.3 * row["classical"]
    assert all(one["failed"] <= 0.064 and one["draws"] == 1000 for one in result["failures"])
    assert sum(one["losses"].startswith("new rows: ") for one in result["failures"]) == 18
    assert result["folds"]["by_folds"] >= result["folds"]["single"]


@needs_drugs
def test_suggested_entries_are_worth_more_than_random_ones():
    result = active_choice.run("drug", quick=True)
    assert np.shape(result["variance"]) == (3, 3)
    assert result["variance"][0][0] == result["random"][0][0]  # the same beginning
    assert active_choice.gap(result, "variance").mean() > 0


def test_genres_as_labels_tell_more_than_as_categories():
    labels, categories = side_information.ratings(quick=True)
    assert labels["error"] < categories["error"]
    told = side_information.table({"cores": 2, "ratings": [labels, categories]})
    assert f"| genres as labels | {labels['error']:.3f} |" in told


def test_a_large_table_of_features_is_read_in_a_process_of_its_own():
    found = side_information.reading(quick=True)
    assert found["words"].startswith("text (text), released (dates), price (numbers, ")
    assert 0 < found["seconds"] < 30
    assert 50 < found["megabytes"] < 1000


@needs_davis
def test_strings_alone_tell_affinities():
    (found,) = side_information.affinities(quick=True)
    assert found["error"] < 0.6


# What they share.


@needs_davis
def test_active_drugs_are_ranked_and_probabilities_are_shares():
    rows = likelihoods.davis(quick=True)
    assert {row["split"] for row in rows} == {"known drugs", "new drugs"}
    for row in rows:
        assert 0.5 < row["auc"] <= 1
        assert len(row["said"]) == len(row["seen"]) == likelihoods.BINS
    ours = {row["split"]: row for row in rows if row["method"] == "KKMCEXClassifier"}
    assert ours["known drugs"]["auc"] > 0.8
    assert "average precision" in likelihoods.table({"davis": rows, "bixi": [], "flixster": []})


def test_effects_are_means_in_a_complete_table():
    values = np.arange(12.0).reshape(3, 4) + np.eye(3, 4)
    fitted = common.effects(common.observed(values, np.ones((3, 4), bool)))
    slow = values.mean(1)[:, None] + values.mean(0) - values.mean()
    np.testing.assert_allclose(fitted.predict_matrix(), slow, atol=1e-6)


def test_shuffling_moves_tables_together_along_one_axis():
    values = np.arange(20).reshape(5, 4)
    for axis in (0, 1):
        one, two = common.shuffled([values, -values], axis)
        assert (one == -two).all()
        assert (one != values).any()
        assert (np.sort(one, axis) == values).all()


def test_errors_are_those_of_the_masked_entries():
    fitted = kf.MC((2, 2), rank=1, mu=1e9, center="mean").fit([[0, 0], [1, 1]], [1.0, 1.0])
    values, mask = np.array([[1.0, 4.0], [1.0, np.nan]]), np.array([[0, 1], [1, 0]], bool)
    found = common.errors(fitted, values, mask)
    assert found["rmse"] == pytest.approx(np.sqrt(4.5))
    assert found["mae"] == pytest.approx(1.5)


# The results that are kept, and the page.


def test_the_page_tells_what_the_files_say(tmp_path):
    copy = tmp_path / "results.md"
    copy.write_text(page.PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    page.write(copy)
    assert copy.read_text(encoding="utf-8") == page.PAGE.read_text(encoding="utf-8")


def test_the_page_of_intervals_tells_what_the_files_say(tmp_path):
    study = import_module("studies.uneven_coverage")
    copy = tmp_path / "intervals.md"
    copy.write_text(study.PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    page.write(copy, found=study.tables())
    assert copy.read_text(encoding="utf-8") == study.PAGE.read_text(encoding="utf-8")


def test_the_page_of_the_default_tells_what_the_files_say(tmp_path):
    copy = tmp_path / "auto.md"
    copy.write_text(defaults.PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    page.write(copy, found=defaults.tables())
    assert copy.read_text(encoding="utf-8") == defaults.PAGE.read_text(encoding="utf-8")


def test_the_page_of_side_information_tells_what_the_files_say(tmp_path):
    copy = tmp_path / "side-information.md"
    copy.write_text(side_information.PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    page.write(copy, found=side_information.tables())
    assert copy.read_text(encoding="utf-8") == side_information.PAGE.read_text(encoding="utf-8")


def test_a_run_of_the_default_that_was_broken_off_goes_on(tmp_path, monkeypatch):
    asked = []

    def once(_load, split):
        asked.append(split)
        if len(asked) == 4:
            raise KeyboardInterrupt
        return {"rmse": 1.0, "seconds": 2.0}

    sets = {"one": (None, 3), "two": (None, 2)}
    monkeypatch.setattr(defaults, "once", once)
    monkeypatch.setattr(defaults, "SETS", sets)
    with pytest.raises(KeyboardInterrupt):
        defaults.run(out=tmp_path)
    found = defaults.run(out=tmp_path)["sets"]
    assert asked == [0, 1, 2, 0, 0, 1]
    assert {name: list(splits) for name, splits in found.items()} == {
        "one": ["0", "1", "2"], "two": ["0", "1"],
    }  # fmt: skip
    assert common.load(defaults.BEGUN, tmp_path) is None


def test_peers_go_on_where_they_were_and_may_fail(tmp_path, monkeypatch, capsys):
    def once(task, split):
        if (task, split) == ("B: two", 1):
            raise RuntimeError("no memory")
        return {"rmse": 1.0 + split, "seconds": 2.0}

    monkeypatch.setattr(peers, "once", once)
    monkeypatch.setattr(peers, "TASKS", ["A: one", "B: two"])
    monkeypatch.setattr(defaults, "SETS", {"one": (None, 1), "two": (None, 2)})
    common.save({"A: one": {"0": {"rmse": 7.0}}}, "peers", tmp_path)
    found = peers.run(out=tmp_path)
    assert found == {"A: one": {"0": {"rmse": 7.0}}, "B: two": {"0": {"rmse": 1.0, "seconds": 2.0}}}
    assert "B: two#1 failed: no memory" in capsys.readouterr().out
    assert peers.run(names=["A: one#0"], out=tmp_path)["A: one"]["0"]["rmse"] == 1.0
    assert common.load("peers", tmp_path)["A: one"]["0"]["rmse"] == 1.0


def test_peers_stand_beside_the_default():
    ours = {"rmse": 1.0, "nll": 0.5, "inside": 0.9, "processor": 2.0}
    theirs = {"rmse": 1.5, "processor": 30.0}
    result = {"cores": 2, "sets": {"Seattle": {"0": ours, "1": ours}}}
    made = defaults.table(result, {"myFM: Seattle": {"1": theirs, "2": theirs}})
    assert "| Seattle | kf.complete | 2 | 1.0000 ± 0.0000 | 0.500 ± 0.000 |" in made
    assert "|  | myFM | 2 | 1.5000 ± 0.0000 |  |  | 30 | 15.0 |  |" in made


def test_leading_features_are_those_of_the_labels_of_the_table():
    import networkx as nx
    import pandas as pd

    labels = ["c", "a", "b"]
    alike = pd.DataFrame(np.eye(3) + 0.5, list("abc"), list("abc"))
    alike.loc["a", "b"] = alike.loc["b", "a"] = 0.9
    found = peers.leading_features(300 * alike, labels)
    np.testing.assert_allclose(found @ found.T, alike.loc[labels, labels] / 1.5, atol=1e-12)
    assert peers.leading_features(None, labels).shape == (3, 0)
    graph = peers.leading_features(nx.path_graph(list("abc")), labels)
    np.testing.assert_allclose(np.abs(graph[0, 0]), np.abs(graph[1, 0]))  # both ends of the path
    both = peers.leading_features({"one": alike, "two": 2 * alike}, labels)
    np.testing.assert_allclose(both, np.hstack([found, found]))


def test_prose_stays_and_a_missing_place_is_an_error(tmp_path):
    curves = {name: [[2.0, 1.0], [2.0, 1.5]] for name in active_choice.STRATEGIES}
    made = {"data": "BIXI", "sizes": [1, 2]} | curves
    common.save(made, "active_bixi", tmp_path)
    text = tmp_path / "page.md"
    text.write_text("before\n<!-- active: begin -->\nold\n<!-- active: end -->\nafter\n")
    page.write(text, tmp_path)
    new = text.read_text()
    assert new.startswith("before\n")
    assert new.endswith("\nafter\n")
    assert "old" not in new
    assert "| random | 2.000 | 1.250 |" in new
    text.write_text("nothing\n")
    with pytest.raises(SystemExit, match="expected one"):
        page.write(text, tmp_path)


def test_one_study_from_the_command_line(tmp_path, monkeypatch, capsys):
    text = tmp_path / "page.md"
    text.write_text("<!-- active: begin -->\n<!-- active: end -->\n")
    given = ["studies", "active_bixi", "--quick", "--out", str(tmp_path), "--page", str(text)]
    monkeypatch.setattr(sys, "argv", given)
    command.main()
    assert common.load("active_bixi", tmp_path)["data"] == "BIXI"
    assert "| variance |" in text.read_text()
    assert "| variance |" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["studies", "nothing"])
    with pytest.raises(SystemExit):
        command.main()
    assert "there are defaults" in capsys.readouterr().err


@pytest.mark.skipif(not common.load("seattle"), reason="no results are kept here")
def test_what_is_claimed_of_the_kept_results():
    found = rmse(common.load("seattle")["methods"])
    seconds = {row["method"]: row["seconds"] for row in common.load("seattle")["methods"]}
    assert found[seattle.METHOD] < 3.5
    assert seconds[seattle.METHOD] < 120
    told = {
        row["method"]: row["rmse"] for row in drug_response.summary(common.load("drug_response"))
    }
    ours = told[drug_response.LEARNED]
    assert ours < told["uniform average of all kernels"]
    assert ours < told["best single pair"]
    assert ours < min(shuffled_and_not(told, drug_response.LEARNED)[1])
    for name in ("drug", "bixi", "seattle"):
        for row in common.load(f"conformal_{name}")["rows"]:
            low = 0.9 - 2 * row["standard_error"]
            assert low <= row["coverage"] <= 0.92
    better = active_choice.gap(common.load("active_drug"), "variance")
    assert better.mean() > 3 * better.std(ddof=1) / np.sqrt(len(better))
    bixi_rows = common.load("bixi")["splits"]
    for split in {row["split"] for row in bixi_rows}:
        found = rmse(row for row in bixi_rows if row["split"] == split)
        assert found[bixi.METHOD] < 0.7 * found["row + column effects"]
        assert found[bixi.METHOD] < 0.7 * found[f"{bixi.METHOD}, stations shuffled"]


def test_gaps_in_a_block_are_seen_by_what_is_known_about_rows_and_columns():
    study = import_module("studies.uneven_coverage")
    found = [study._made_up("block gaps", "MC", seed) for seed in range(8)]
    inside = {way: np.mean([one[way][0] for one in found]) for way in study.WAYS}
    assert inside["plain"] < 0.84
    for way in ("weighted", "weighted, learned"):  # 8 splits: two to three standard errors
        assert abs(inside[way] - 0.9) < 0.04
    assert inside["plain"] + 0.03 < inside["weighted, effects"] < inside["weighted"]


def test_weighted_intervals_hold_on_uneven_masks_in_the_study():
    rows = import_module("studies.uneven_coverage").run(quick=True)["rows"]
    found = {(row["mask"], row["method"], row["way"]): row for row in rows}
    for method in ("KKMCEX", "MC"):
        at = ("popularity, uneven noise", method)
        assert found[(*at, "plain")]["coverage"] < 0.82
        for way in ("weighted", "weighted, learned"):  # 4 splits: about four standard errors
            assert abs(found[(*at, way)]["coverage"] - 0.9) < 0.05
        learned = found[(*at, "weighted, learned")]
        assert learned["least_observed"] > found[(*at, "plain")]["least_observed"] + 0.15
    rows = import_module("studies.uneven_coverage").run_new(quick=True)["rows"]
    found = {(row["mask"], row["method"], row["way"]): row for row in rows}
    for kind in ("new row", "new column"):
        assert found[("uniform", "KKMCEX", f"{kind}, split")]["coverage"] > 0.85
