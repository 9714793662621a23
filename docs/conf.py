"""How Sphinx builds the pages of this folder: ``make docs``."""

from __future__ import annotations

import inspect
import re
import sys
from typing import Any

import kronfill

project = "kronfill"
author = "The kronfill developers"
project_copyright = "the kronfill developers, BSD 3-Clause licence"
version = release = kronfill.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_copybutton",
]
exclude_patterns = ["_build"]
templates_path = ["_templates"]
html_theme = "furo"
html_title = f"kronfill {version}"
html_static_path = ["_static"]
html_css_files = ["kronfill.css"]
html_math_renderer = "mathml"
myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3
copybutton_prompt_text = r">>> |\.\.\. "
copybutton_prompt_is_regexp = True
# What a module exports is what it documents.
autosummary_ignore_module_all = False
autosummary_imported_members = True
# Solvers are names of kronfill and of kronfill.solvers; they have their pages there.
autosummary_context = {"solvers": kronfill.solvers.__all__}
autodoc_typehints = "none"
numpydoc_show_class_members = False

# Known to users as kronfill.datasets, which is no module of that name.
sys.modules["kronfill.datasets"] = kronfill.datasets


def skip_routing(
    app: Any, what: str, name: str, member: Any, skip: bool, options: Any
) -> bool | None:
    """Leave out the methods that scikit-learn adds to every estimator to route metadata."""
    if name == "get_metadata_routing" or (name.startswith("set_") and name.endswith("_request")):
        return True
    return None


def bare_attributes(
    app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    """Drop the docstring that a constant inherits from its type, such as that of tuples."""
    if what in ("data", "attribute") and inspect.getdoc(obj) == inspect.getdoc(type(obj)):
        lines.clear()


def without_foreign_labels(
    app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    """Keep the words of references to pages of scikit-learn, in methods that are its own."""
    if getattr(obj, "__module__", "").startswith("sklearn."):
        lines[:] = [re.sub(r":ref:`([^`<]*?) *<[^`]*>`", r"\1", line) for line in lines]


def without_last_blank(app: Any, name: str, source: list[str]) -> None:
    """Drop the blank line at the end of an example, which only doctest needs."""
    source[0] = source[0].replace("\n\n```\n", "\n```\n")


def visit_math(self: Any, node: Any) -> None:
    """Write a formula inside a line as MathML, which browsers draw without any script."""
    _write_mathml(self, node, "inline")


def visit_displaymath(self: Any, node: Any) -> None:
    """Write a formula of its own as MathML."""
    _write_mathml(self, node, "block")


def _write_mathml(translator: Any, node: Any, display: str) -> None:
    from docutils.nodes import SkipNode
    from latex2mathml.converter import convert

    formula = convert(node.astext(), display=display)
    tag = "span" if display == "inline" else "div"
    translator.body.append(f'<{tag} class="math">{formula}</{tag}>')
    raise SkipNode


def setup(app: Any) -> None:
    """Connect the functions above."""
    app.connect("autodoc-skip-member", skip_routing)
    app.connect("autodoc-process-docstring", bare_attributes)
    app.connect("autodoc-process-docstring", without_foreign_labels)
    app.connect("source-read", without_last_blank)
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_displaymath, None))
