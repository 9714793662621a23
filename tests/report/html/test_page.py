"""The page: whole, self-contained, and harmless whatever the labels are."""

from __future__ import annotations

import datetime
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

import kronfill as kf
from kronfill.errors import KronfillWarning
from kronfill.report import write_report

from ..conftest import completed, numbers_of

VOID = {"meta", "link", "img", "br", "line", "circle", "polygon", "polyline", "path"}
HEADINGS = [
    "What went in", "Method and parameters", "How accurate it is", "The completed table",
    "Entries to look at", "Certificate", "Environment",
]  # fmt: skip


class Reader(HTMLParser):
    """Reads a page, checks that tags close, and collects what it refers to."""

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.links, self.ids, self.text = [], [], [], [], {}

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.tags.append((tag, attrs))
        self.links += [attrs[name] for name in ("src", "href") if name in attrs]
        self.ids += [attrs["id"]] if "id" in attrs else []
        assert not [name for name in attrs if name.startswith("on")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open:
            self.text.setdefault(self.open[-1], []).append(data)


def read(done, tmp_path, **settings):
    text = write_report(done, tmp_path / "report.html", **settings).read_text(encoding="utf-8")
    page = Reader()
    page.feed(text)
    page.close()
    assert page.open == []
    assert len(page.ids) == len(set(page.ids))
    assert all(link.startswith(("data:", "#")) for link in page.links)
    assert {link[1:] for link in page.links if link.startswith("#")} <= set(page.ids)
    return page, text


@pytest.mark.parametrize("name", ["kkmcex", "mc"])
def test_the_page_is_whole(name, request, tmp_path):
    page, text = read(request.getfixturevalue(name), tmp_path)
    assert page.text["h2"] == HEADINGS
    assert len(page.text["h1"]) >= 1
    assert "http:" not in text
    assert "https:" not in text
    tables = [attrs for tag, attrs in page.tags if tag == "table"]
    captions = [tag for tag, _ in page.tags if tag == "caption"]
    assert len(tables) == len(captions)
    for tag, attrs in page.tags:
        if tag == "img":
            assert attrs["alt"]
        if tag in ("svg", "canvas"):
            assert attrs["aria-label"]
    assert len(text) < 400_000


def test_parts_that_cancel_are_said_to_explain_nothing(tmp_path):
    said = "none of them tells where the prediction comes from"
    _, text = read(completed(mu=1e-6), tmp_path)
    shown = [entry["cancellation"] for entry in numbers_of(text)["uncertain"]]
    assert min(shown) > 10
    assert text.count(said) >= len(shown)
    _, text = read(completed(mu=100.0), tmp_path)
    shown = [entry["cancellation"] for entry in numbers_of(text)["uncertain"]]
    assert max(shown) < 10
    assert said not in text


def test_the_certificate_is_asked_for_or_stated(kkmcex, tmp_path):
    assert "value_range=(low, high)" in read(kkmcex, tmp_path)[1]
    page, text = read(kkmcex, tmp_path, value_range=(-2, 2))
    assert "value_range=(low, high)" not in text
    assert "What it assumes" in page.text["caption"]


HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=http://x.example onerror=alert(1)>',
    "</script><script>alert(2)</script>",
    "'; alert(3) //",
    "&lt;b&gt; &amp;",
    "\u202egnihtemos",
    "👩\u200d👧 שלום",
    "x" * 5000,
    "",
    "\x00\x1b[31m",
    "<!-- ",
    "{rows} %s {0}",
]


@pytest.mark.parametrize("method", ["kkmcex", "mc"])
def test_hostile_labels_stay_labels(method, tmp_path):
    rng = np.random.default_rng(0)
    n = len(HOSTILE)
    table = pd.DataFrame(rng.random((n, n)), index=HOSTILE, columns=HOSTILE[::-1])
    places = pd.DataFrame({"<i>": np.arange(n)}, index=HOSTILE)
    done = kf.complete(table.mask(rng.random((n, n)) < 0.3), places, method=method, mu=1.0)
    page, text = read(done, tmp_path)
    scripts = [attrs for tag, attrs in page.tags if tag == "script"]
    assert len(scripts) == 3
    assert sum(tag == "img" for tag, _ in page.tags) == 4
    assert not [attrs for tag, attrs in page.tags if tag == "i"]
    assert "\x00" not in text
    assert numbers_of(text)["cells"]["row_labels"][0] == "<script>alert(1)</script>"
    assert numbers_of(text)["cells"]["row_labels"][8] == "(blank)"


def test_dates_are_shown_as_dates(tmp_path):
    days = pd.date_range("2024-05-01", periods=6)
    table = pd.DataFrame(np.arange(18.0).reshape(3, 6), columns=days)
    done = kf.complete(table, method="kkmcex", cols=pd.DataFrame({"d": days}, index=days), mu=0.1)
    labels = numbers_of(read(done, tmp_path)[1])["cells"]["column_labels"]
    assert labels == [str(datetime.date(2024, 5, k)) for k in range(1, 7)]


TABLES = {
    "one row": np.array([[1.0, 2.0, np.nan, 4.0, 5.0]]),
    "one column": np.array([[1.0, 2.0, np.nan, 4.0, 5.0]]).T,
    "one entry": np.array([[2.0]]),
    "one observation": np.array([[np.nan, 2.0], [np.nan, np.nan]]),
    "two observations": np.array([[np.nan, 2.0], [1.0, np.nan]]),
    "nothing in common": np.diag([1.0, 2.0, 3.0]) + np.where(np.eye(3), 0.0, np.nan),
    "complete": np.arange(12.0).reshape(4, 3) % 5,
    "constant": np.where(np.eye(5), np.nan, 3.0),
    "mostly cold": np.vstack([np.arange(8.0).reshape(2, 4), np.full((6, 4), np.nan)]),
    "large values": 1e60 * np.where(np.eye(5), np.nan, np.arange(5.0)),
    "far from zero": 1e9 + np.where(np.eye(5), np.nan, np.arange(5.0)),
}


@pytest.mark.parametrize("method", ["kkmcex", "rrmcex", "kmc", "imc", "mc"])
@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
@pytest.mark.filterwarnings("ignore::kronfill.errors.KronfillWarning")
def test_tables_of_any_shape(table, method, tmp_path):
    sides = [pd.DataFrame({"x": np.linspace(0, 1, size)}) for size in table.shape]
    done = kf.complete(table, *sides, method=method, mu=1.0, rank=1)
    page, _ = read(done, tmp_path)
    assert page.text["h2"] == HEADINGS


@pytest.mark.parametrize("center", [None, "rows", "cols", "both"])
def test_every_kind_of_effects(center, tmp_path):
    table = np.where(np.eye(7, 5), np.nan, np.arange(5.0))
    table[3] = np.nan
    known = pd.DataFrame({"x": np.arange(7.0)})
    read(kf.complete(table, known, method="kkmcex", center=center, mu=1.0), tmp_path)


def test_nothing_known_and_weights(tmp_path):
    obs = kf.Observations(
        [0, 0, 1, 2], [0, 1, 1, 0], [1.0, 2.0, 3.0, 4.0], (3, 2), weights=[1, 2, 0, 1]
    )
    with pytest.warns(KronfillWarning, match="Nothing is known"):
        done = kf.complete(obs, method="kkmcex", mu=1.0)
    assert "have weights" in read(done, tmp_path)[1]
