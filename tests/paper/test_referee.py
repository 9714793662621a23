"""The referee's study: its parts against slow or known results, and the quick run as a whole."""

from __future__ import annotations

import csv
import math
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
from typer.testing import CliRunner

from kronfill import cli
from kronfill.paper.referee.answers import (
    agreement,
    answer_bounds,
    answer_needed,
    answer_ranks,
    answer_sides,
    needed,
    rank_table,
)
from kronfill.paper.referee.complexities import ClosedForm, complexities, tightest
from kronfill.paper.referee.fits import SIDES, FitSettings, RefereeFit, fits_over_m
from kronfill.paper.referee.study import RefereePlan, RefereeStudy, referee_text


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    out = tmp_path_factory.mktemp("referee")
    done = CliRunner().invoke(cli.app, ["reproduce", "referee", "--quick", "--out", str(out)])
    assert done.exit_code == 0, done.output
    return out


def rows(path):
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_the_quick_study_answers_four_questions_with_a_picture_each(quick):
    text = (quick / "referee.md").read_text(encoding="utf-8")
    assert text.count("\n## ") == 4
    for name in ("complexities", "sides", "samples", "ranks"):
        assert f"figures/referee-{name}.png" in text
        assert (quick / f"referee-{name}.png").stat().st_size > 5_000


def test_every_method_has_printed_and_corrected_forms_over_n_and_over_equal_parts(quick):
    found = rows(quick / "referee-forms.csv")
    for sweep in ("N", "m = u"):
        for method in ("MC", "KMC", "IMC", "KKMCEX"):
            forms = {r["form"] for r in found if (r["sweep"], r["method"]) == (sweep, method)}
            assert "as printed" in forms
            assert len(forms) > 1
    assert all(r["m"] == r["u"] for r in found if r["sweep"] == "m = u")


def test_no_corrected_form_is_below_the_exact_complexity(quick):
    for row in rows(quick / "referee-forms.csv"):
        assert float(row["bound"]) > float(row["exact"]) - 4 * float(row["stderr"])


def test_side_information_that_is_right_is_best_and_none_at_all_predicts_nothing(quick):
    found = {(r["method"], r["side"]): float(r["test"]) for r in rows(quick / "referee-fits.csv")
             if r["m"] == "200" and r["method"] == "KKMCEX"}  # fmt: skip
    assert {side for _, side in found} == set(SIDES)
    assert min(found, key=found.get) == ("KKMCEX", "right")
    # With identity kernels every entry that was not observed is predicted as 0.
    assert found["KKMCEX", "identity"] == pytest.approx(1 + 0.3**2, rel=0.1)


def test_the_same_seed_gives_the_same_and_another_seed_does_not():
    one, two, other = (fits_over_m(FitSettings(12, 2, (1.0,), seed), (40,)) for seed in (0, 0, 1))
    assert one == two
    assert one != other
    forms = [complexities((8, 12), 20, (10,), 1.3, 4, seed) for seed in (0, 0, 1)]
    assert forms[0] == forms[1]
    assert forms[0] != forms[2]


def test_tightest_leaves_out_what_is_printed():
    forms = complexities((8, 12), 20, (10,), 1.3, 4, 0)
    best = tightest(forms)
    assert len(best) == 3 * 3 * 4  # splits, laws, methods
    assert not any(row.form == "as printed" for row in best)
    low = replace(forms[0], form="as printed", bound=1e-9)
    assert len(tightest([*forms, low])) == len(best)
    assert low.below


def made(method="MC", side="none", m=100, test=1.0, ge=0.5, bound=1.0):
    return RefereeFit(method, side, m, 1.0, test, 0.01, ge, bound, bound, bound)


def test_observations_needed_are_interpolated():
    row = [made(m=100, test=0.8), made(m=400, test=0.2)]
    assert needed(row, "MC", 0.4) == pytest.approx(200)  # halfway in both logarithms
    assert needed(row, "MC", 0.9) == 100
    assert math.isnan(needed(row, "MC", 0.1))
    fits = [made(method, m=m, test=80 / m) for method in ("MC", "KMC", "IMC", "KKMCEX")
            for m in (100, 400)]  # fmt: skip
    assert "for 0.5: KKMCEX 160, KMC 160, IMC 160, MC 160" in answer_needed(fits)
    assert "for 0.15: KKMCEX more than 400" in answer_needed(fits)


def test_agreement_is_kendalls_tau():
    rng = np.random.default_rng(0)
    for _ in range(20):
        a, b = rng.standard_normal((2, 6))
        assert agreement(a, b) == pytest.approx(scipy.stats.kendalltau(a, b).statistic)


def test_the_answers_follow_the_numbers():
    methods = ("KKMCEX", "KMC", "IMC")
    sides = [made(method, side, test=1 + k, ge=1 + k, bound=9 - k)
             for method in methods for k, side in enumerate(SIDES)]  # fmt: skip
    samples = [made(method, "right", m, 1 + k, 1 + k, 1 + k)
               for m in (50, 60) for k, method in enumerate(("MC", *methods))]  # fmt: skip
    text = answer_ranks(rank_table(sides, samples))
    assert text.startswith("Yes, one ranks the methods")
    assert "No bound ranks the kernels" in text
    assert "-1.00" in text
    answer = answer_sides([*sides, made(test=4.5)])
    assert "identity 6.00" in answer
    assert "KKMCEX with rows shuffled" in answer
    assert "KKMCEX with length scale" not in answer
    forms = complexities((8, 12), 20, (10,), 1.3, 4, 0)
    low = [replace(row, bound=0.0) for row in forms[:3]]
    assert f"Of {len(forms)} closed forms 3 lie below" in answer_bounds([*low, *forms[3:]])


DOCS = Path(__file__).parents[2] / "docs"
KINDS = {"str": str, "int": int, "float": float}


def read(path, kind):
    types = {field.name: KINDS[field.type] for field in fields(kind)}
    return [kind(**{name: types[name](x) for name, x in row.items()}) for row in rows(path)]


def test_the_published_page_is_that_of_the_published_tables():
    forms = read(DOCS / "referee-forms.csv", ClosedForm)
    fits = read(DOCS / "referee-fits.csv", RefereeFit)
    count = 1 + 3 * len(SIDES)
    study = RefereeStudy(RefereePlan(), forms, fits[:count], fits[count:])
    assert (DOCS / "referee.md").read_text(encoding="utf-8") == referee_text(study)
