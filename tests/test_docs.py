"""The pages say what is there."""

from __future__ import annotations

import importlib
import importlib.util
import re
import tomllib
from itertools import chain
from pathlib import Path

import pytest

import kronfill as kf

DOCS = Path(__file__).parent.parent / "docs"
_spec = importlib.util.spec_from_file_location("rooms", DOCS.parent / "tools" / "rooms.py")
rooms = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(rooms)
PAGES = sorted(DOCS.glob("*.md"))
# Set by fit, documented in the class.
FITTED = {"dual_coef_", "signal_variance_"}


def resolve(name):
    """The object that a dotted name stands for, or None."""
    first, *rest = name.split(".")
    thing = importlib.import_module(first)
    for at, part in enumerate(rest):
        if part in FITTED:
            return part if f"{part} :" in thing.__doc__ or part in dir(thing) else None
        found = getattr(thing, part, None)
        if found is None:
            try:
                found = importlib.import_module(".".join([first, *rest[: at + 1]]))
            except ImportError:
                return None
        thing = found
    return thing


PATHS = sorted(
    path
    for path in set(re.findall(r"`([\w/]+\.py)`", (DOCS / "architecture.md").read_text("utf-8")))
    if not path.startswith(("tools/", "tests/"))
)
NAMES = sorted(
    set(re.findall(r"`(kronfill(?:\.\w+)+)`", (DOCS / "equations.md").read_text("utf-8")))
)


@pytest.mark.parametrize("name", NAMES)
def test_the_index_of_equations_names_what_exists(name):
    assert resolve(name) is not None


def test_the_check_of_names_can_fail():
    assert len(NAMES) > 40
    assert resolve("kronfill.KKMCEX.nothing") is None
    assert resolve("kronfill.ridge.nothing") is None


def test_every_page_is_in_the_navigation():
    text = (DOCS / "index.md").read_text("utf-8")
    listed = set()
    for block in re.findall(r"```\{toctree\}\n(.*?)```", text, re.S):
        lines = [line for line in block.splitlines() if line and not line.startswith(":")]
        # A page may be listed under another title: Title <page>.
        listed |= {line.rpartition("<")[2].rstrip(">") for line in lines}
    assert listed == {page.stem for page in PAGES} - {"index"}


def test_the_architecture_names_every_room_and_its_picture_is_of_today():
    layers = rooms.layers(tomllib.loads((DOCS.parent / "pyproject.toml").read_text("utf-8")))
    page = (DOCS / "architecture.md").read_text("utf-8")
    table = page.partition("## What lives where")[2].partition("## The way")[0]
    for room in chain(*layers):
        assert f"`{room.partition('.')[2]}`" in table
    assert rooms.PICTURE.read_text("utf-8") == rooms.picture(layers)


@pytest.mark.parametrize("name", PATHS)
def test_modules_that_the_architecture_names_are_there(name):
    assert (DOCS.parent / "src" / "kronfill" / name).exists()


def test_every_room_of_names_is_in_the_reference():
    text = (DOCS / "api.md").read_text("utf-8")
    modules = {name for name in kf.__all__ if getattr(kf, name).__class__.__name__ == "module"}
    for name in modules:
        assert f"   kronfill.{name}\n" in text


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_to_files_lead_somewhere(page):
    text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.S)
    for target in re.findall(r"\]\(([^)\s#]+)", text):
        if not target.startswith(("http://", "https://")):
            assert (DOCS / target).exists(), target
