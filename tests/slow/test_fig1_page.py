"""The quick run, and its page in a browser."""

from __future__ import annotations

import csv
import json
import re
import shutil
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
BROWSER = next((path for path in map(shutil.which, BROWSERS) if path), None)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """`kronfill reproduce fig1 --quick`."""
    out = tmp_path_factory.mktemp("fig1")
    subprocess.run(
        [sys.executable, "-m", "kronfill.cli", "reproduce", "fig1", "--quick", "--out", str(out)],
        check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    return out


def test_the_quick_run_writes_everything(results):
    with (results / "fig1.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert {row["N"] for row in rows} == {"100", "400", "1000"}
    assert {row["panel"] for row in rows} == {"a", "b"}
    assert all(float(row["value"]) < 2.0 for row in rows)
    for name in ("fig1", "fig1-variants", "fig1-bounds", "fig1-costs"):
        assert (results / f"{name}.png").stat().st_size > 20_000


def test_the_page_needs_nothing_from_outside(results):
    text = (results / "fig1.html").read_text(encoding="utf-8")
    assert not re.findall(r'(?:src|href)="(?!data:)[^"]*"', text)
    assert "<script" not in text


@pytest.mark.skipif(BROWSER is None, reason=f"needs a browser: {', '.join(BROWSERS)}")
def test_the_page_in_a_browser(results):
    """No console errors, and every picture is there, decoded and visible."""
    page = results / "fig1.html"
    probe = results / "probe.html"
    script = """<script>
      addEventListener("load", () => {
        const seen = [...document.images].map(i => {
          const box = i.getBoundingClientRect(), style = getComputedStyle(i);
          return {done: i.complete, pixels: i.naturalWidth, width: box.width, height: box.height,
                  shown: style.display !== "none" && style.visibility === "visible"};
        });
        document.body.innerHTML = "<pre id=found>" + JSON.stringify(
          {seen, tables: document.querySelectorAll("table tr").length,
           text: document.body.innerText.length}) + "</pre>";
      });
    </script>"""
    text = page.read_text(encoding="utf-8")
    probe.write_text(text.replace("</head>", script + "</head>"), encoding="utf-8")
    done = subprocess.run(
        [BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
         "--v=0", "--window-size=1200,3000", "--virtual-time-budget=5000", "--dump-dom",
         f"--user-data-dir={results / 'profile'}", probe.as_uri()],
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    assert "CONSOLE" not in done.stderr
    found = json.loads(re.search(r"<pre id=\"found\">(.*?)</pre>", done.stdout, re.S).group(1))
    assert len(found["seen"]) == 4
    for image in found["seen"]:
        assert image["done"]
        assert image["shown"]
        assert image["pixels"] > 800
        assert image["width"] > 600
        assert image["height"] > 200
    assert found["tables"] > 18
