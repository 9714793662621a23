"""The package as a whole: light to import, documented, and its examples run."""

from __future__ import annotations

import inspect
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from numpydoc.docscrape import FunctionDoc, NumpyDocString

import kronfill as kf

ROOT = Path(__file__).parent.parent
HEAVY = ("sklearn", "numba", "pandas", "matplotlib", "networkx", "scipy")


def test_import_loads_nothing_heavy():
    code = f"import sys, kronfill; print([m for m in {HEAVY} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_python_m_is_the_command_line():
    done = subprocess.run(
        [sys.executable, "-m", "kronfill", "--version"], capture_output=True, text=True, check=True
    )
    assert kf.__version__ in done.stdout


def test_every_public_name_is_reachable():
    assert set(kf.__all__) <= set(dir(kf))
    for name in kf.__all__:
        assert getattr(kf, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        kf.nothing  # noqa: B018


def public_objects():
    modules = [kf.kernels, kf.solvers, kf.datasets]
    for name in kf.__all__:
        if not inspect.ismodule(getattr(kf, name)):
            yield name, getattr(kf, name)
    for module in modules:
        for name in module.__all__:
            yield f"{module.__name__}.{name}", getattr(module, name)


OBJECTS = dict(public_objects())


@pytest.mark.parametrize("name", OBJECTS)
def test_docstrings_name_every_parameter_and_have_an_example(name):
    thing = OBJECTS[name]
    doc = NumpyDocString(inspect.getdoc(thing) or "")
    assert doc["Summary"], "no summary"
    if name.endswith(("Status", "Solution", "LowRankFactor", "BixiData", "PaperMatrix")):
        return  # results: users read them, they do not make them
    if name.endswith(("FeatureTable", "Parts")):
        assert doc["Examples"]
        return  # built by a class method, or a tuple of whatever the parts need
    assert doc["Examples"], "no example"
    target = thing.__init__ if inspect.isclass(thing) else thing
    wanted = [
        p.name
        for p in inspect.signature(target).parameters.values()
        if p.name != "self" and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]
    told = [part.strip() for p in doc["Parameters"] for part in p.name.split(",")]
    private = {
        "model",
        "observations",
        "words",
        "known",
        "n",
        "labels",
    }  # Completion, kernels: not for users
    if inspect.isclass(thing) and not told:
        assert set(wanted) <= private, f"undocumented: {wanted}"
    else:
        assert told == wanted


@pytest.mark.parametrize("name", ["KKMCEX", "RRMCEX", "KMC", "IMC", "MC", "BayesianKMC"])
def test_methods_of_estimators_are_documented(name):
    for method in ("fit", "predict", "predict_matrix", "extrapolate", "score"):
        doc = FunctionDoc(getattr(getattr(kf, name), method))
        assert doc["Summary"]
        assert doc["Parameters"]
        assert doc["Returns"]


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.py")), ids=lambda p: p.stem)
def test_examples_run(path, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.setattr(sys, "argv", [str(path)])  # not the arguments of pytest
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out or list(tmp_path.iterdir())


def test_nothing_is_unpickled():
    """No module of the package loads pickles, and no array file is read with pickles allowed."""
    for path in (ROOT / "src").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert "import pickle" not in text, path
        assert "allow_pickle=True" not in text, path


@pytest.mark.skipif(os.name != "posix", reason="make")
def test_readme_names_the_two_commands():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "make demo" in text
    assert "make test" in text
