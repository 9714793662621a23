"""``make docs``: no warnings, every public name, nothing from outside, readable in a browser."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import kronfill as kf

NEEDED = ("sphinx", "myst_parser", "furo", "numpydoc", "sphinx_copybutton", "latex2mathml")
MISSING = [name for name in NEEDED if importlib.util.find_spec(name) is None]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(MISSING), reason=f"pip install --group docs ({', '.join(MISSING)})"),
]
DOCS = Path(__file__).parent.parent.parent / "docs"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
BROWSER = next((path for path in map(shutil.which, BROWSERS) if path), None)
PUBLIC = (
    "Observations", "Observations.from_matrix", "KKMCEX", "KMC", "IMC", "MC", "RRMCEX",
    "KKMCEX.fit", "KKMCEX.predict", "KKMCEX.predict_matrix", "KKMCEX.extrapolate",
    "KKMCEX.predict_std", "KKMCEX.extrapolate_std", "KKMCEX.explain", "KKMCEX.suggest",
    "KKMCEX.save", "RRMCEX.predict_std", "load", "complete", "Completion", "kernels.rbf",
    "kernels.matern", "kernels.linear", "kernels.polynomial", "kernels.periodic",
    "kernels.tanimoto", "kernels.diffusion", "kernels.regularized_laplacian",
    "kernels.random_walk", "kernels.precomputed", "kernels.identity",
    "kernels.Kernel.normalized", "selection.mu_path", "selection.EntryKFold",
    "selection.RowKFold", "selection.ColumnKFold", "selection.RowColumnKFold",
    "bounds.theorem_1", "bounds.theorem_2", "bounds.theorem_3", "bounds.theorem_4",
    "bounds.generalization_error", "bounds.certificate", "datasets.make_paper_matrix",
    "datasets.load_bixi", "datasets.load_seattle", "datasets.load_drug_response", "solvers.PCG",
    "solvers.RowWise",
)  # fmt: skip


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The pages, built from a copy, so that nothing is written into the working tree."""
    source = tmp_path_factory.mktemp("docs") / "source"
    shutil.copytree(DOCS, source, ignore=shutil.ignore_patterns("_build", "api"))
    built = source.parent / "html"
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "-b", "html", "-W", "--keep-going", "-q", source, built],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return built


def test_every_public_name_has_an_entry(site):
    from sphinx.util.inventory import InventoryFile

    with (site / "objects.inv").open("rb") as file:
        inventory = InventoryFile.load(file, "", lambda base, name: name)
    names = {name for kind, found in inventory.items() if kind.startswith("py:") for name in found}
    assert [name for name in PUBLIC if f"kronfill.{name}" not in names] == []
    for module in (kf.kernels, kf.solvers, kf.selection, kf.bounds, kf.errors):
        assert {f"{module.__name__}.{name}" for name in module.__all__} <= names


def test_pages_ask_for_nothing_from_outside(site):
    for page in site.rglob("*.html"):
        text = page.read_text("utf-8")
        loaded = re.findall(r'<(?:script|img)[^>]*\bsrc="([^"]*)"', text)
        loaded += re.findall(r'<link[^>]*rel="stylesheet"[^>]*href="([^"]*)"', text)
        assert not [address for address in loaded if re.match(r"(https?:)?//", address)], page


@pytest.mark.skipif(BROWSER is None, reason=f"needs a browser: {', '.join(BROWSERS)}")
@pytest.mark.parametrize("width", [1200, 500])
def test_pages_in_a_browser(site, width):
    """Nothing is wider than the page, and formulas are drawn."""
    script = """<script>
      addEventListener("load", () => {
        const root = document.documentElement, math = [...document.querySelectorAll("math")];
        const found = {page: root.scrollWidth, window: innerWidth, formulas: math.length,
          drawn: math.filter(m => m.getBoundingClientRect().width > 0).length};
        document.body.innerHTML = "<pre id=found>" + JSON.stringify(found) + "</pre>";
      });
    </script>"""
    for name in ("index", "tutorial", "theory", "coming-from", "api/kronfill.KKMCEX"):
        page = site / f"{name}.html"
        probe = page.with_name("probe.html")
        text = page.read_text("utf-8").replace("</head>", script + "</head>")
        probe.write_text(text, encoding="utf-8")
        done = subprocess.run(
            [BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
             "--v=0", f"--window-size={width},2000", "--virtual-time-budget=5000", "--dump-dom",
             f"--user-data-dir={site.parent / 'profile'}", probe.as_uri()],
            capture_output=True, text=True, check=True, timeout=120,
        )  # fmt: skip
        assert "CONSOLE" not in done.stderr, name
        found = json.loads(re.search(r'<pre id="found">(.*?)</pre>', done.stdout, re.S).group(1))
        assert found["page"] <= found["window"], name
        assert found["drawn"] == found["formulas"]
        if name.startswith("api/"):
            assert found["formulas"] > 0
