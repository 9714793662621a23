"""The files that ``kronfill complete`` writes: their names, and whether they can be written."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from kronfill.cli.outputs import SUFFIXES, check_outputs
from kronfill.errors import ParameterError

__all__ = ["OutputFiles", "OutputOptions"]

OUTPUT = "Output"

MANY_DETAILS = 1_000_000
"""Up to so many entries their details are written beside a wide table without being asked for."""


def _file(*names: str, text: str) -> object:
    return typer.Option(*names, help=text, metavar="FILE", rich_help_panel=OUTPUT)


@dataclass(frozen=True)
class OutputOptions:
    """What is to be written."""

    output: Annotated[
        Path | None,
        _file(
            "-o", "--output", text="The filled table; TABLE with '-filled' in its name by default."
        ),
    ] = None
    details: Annotated[
        Path | None,
        _file(
            "--details",
            text="For a wide table: status and interval of every entry, one line each; the output "
            "with '-details' in its name by default, up to a million entries.",
        ),
    ] = None
    no_details: Annotated[
        bool, typer.Option("--no-details", help="Write no details.", rich_help_panel=OUTPUT)
    ] = False
    pairs: Annotated[
        Path | None,
        _file(
            "--pairs",
            text="Only these entries: a file with a row and a column label in each line.",
        ),
    ] = None
    everything: Annotated[
        bool,
        typer.Option(
            "--all", help="Write every entry, even more than 20 million.", rich_help_panel=OUTPUT
        ),
    ] = False
    report: Annotated[Path | None, _file("--report", text="An HTML report.")] = None
    certify: Annotated[
        float | None,
        typer.Option(
            "--certify", metavar="SHARE", rich_help_panel=OUTPUT,
            help="Share of the entries, such as 0.1, that is set aside at random to prove how "
            "large the error on unobserved entries is at most; needs --range. Then all are used.",
        ),
    ] = None  # fmt: skip
    certify_new: Annotated[
        str | None,
        typer.Option(
            "--certify-new", metavar="rows|cols", rich_help_panel=OUTPUT,
            help="Set that share of the rows (cols) aside as well, whole, to prove how large the "
            "error on rows without any entry is at most; needs --certify.",
        ),
    ] = None  # fmt: skip
    save: Annotated[Path | None, _file("--save", text="The model, as a .kf file.")] = None


class OutputFiles:
    """The files to be written for a table."""

    def __init__(self, table: Path, options: OutputOptions) -> None:
        self.report, self.save = options.report, options.save
        self.output = options.output or Path(f"{_stem(table)}-filled{_suffix(table)}")
        self.details, self._options = options.details, options
        self._inputs: tuple[Path | None, ...] = (table, options.pairs)
        if options.details is not None and (options.no_details or options.pairs is not None):
            also = (
                "--no-details" if options.no_details else "--pairs, whose output has them already"
            )
            msg = f"--details cannot be given together with {also}."
            raise ParameterError(msg)

    def check(self, inputs: tuple[Path, ...]) -> None:
        """Raise if one of them could not be written."""
        outputs = {
            "--output (table)": self.output, "--details (table)": self.details,
            "--report": self.report, "--save": self.save,
        }  # fmt: skip
        self._inputs += inputs
        check_outputs(outputs, self._inputs)
        for option, path, ends in (
            ("--report", self.report, (".html", ".htm")),
            ("--save", self.save, (".kf",)),
        ):
            if path is not None and path.suffix.lower() not in ends:
                what = "an HTML page" if option == "--report" else "a model"
                msg = f"{option} {path}: {what} is written, so the name must end in {ends[0]}."
                raise ParameterError(msg)

    def named(self, layout: str, lines: int) -> OutputFiles:
        """The file of details gets its name, if there is to be one."""
        wide = layout == "wide" and self._options.pairs is None
        if not wide and self.details is not None:
            msg = "--details is for wide tables; the output of a long one has details in each line."
            raise ParameterError(msg)
        if wide and self.details is None and not self._options.no_details and lines <= MANY_DETAILS:
            self.details = self.output.with_name(f"{self.output.stem}-details{self.output.suffix}")
            check_outputs({"--details (table)": self.details}, self._inputs)
        return self


def _stem(path: Path) -> str:
    name = path.name.removesuffix(".gz")
    return name.rsplit(".", 1)[0] if "." in name else name


def _suffix(path: Path) -> str:
    suffix = Path(path.name.removesuffix(".gz")).suffix.lower()
    return suffix if suffix in SUFFIXES else ".csv"
