"""The files that ``kronfill complete`` writes: their names, and whether they can be written."""

from __future__ import annotations

from pathlib import Path

from kronfill.cli.outputs import SUFFIXES, check_outputs
from kronfill.errors import ParameterError

__all__ = ["OutputFiles"]

MANY_DETAILS = 1_000_000
"""Up to so many entries their details are written beside a wide table without being asked for."""


class OutputFiles:
    """The files to be written."""

    def __init__(
        self,
        table: Path,
        output: Path | None,
        details: Path | None,
        no_details: bool,
        pairs: Path | None,
        report: Path | None,
        save: Path | None,
    ) -> None:
        self.table, self.pairs, self.report, self.save = table, pairs, report, save
        self.output = output or Path(f"{_stem(table)}-filled{_suffix(table)}")
        self.details, self.no_details = details, no_details
        self._inputs: tuple[Path | None, ...] = (table, pairs)
        if details is not None and (no_details or pairs is not None):
            other = "--no-details" if no_details else "--pairs, whose output has them already"
            msg = f"--details cannot be given together with {other}."
            raise ParameterError(msg)

    def check(self, inputs: tuple[Path | None, Path | None]) -> None:
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
        wide = layout == "wide" and self.pairs is None
        if not wide and self.details is not None:
            msg = "--details is for wide tables; the output of a long one has details in each line."
            raise ParameterError(msg)
        if wide and self.details is None and not self.no_details and lines <= MANY_DETAILS:
            self.details = self.output.with_name(f"{self.output.stem}-details{self.output.suffix}")
            check_outputs({"--details (table)": self.details}, self._inputs)
        return self


def _stem(path: Path) -> str:
    name = path.name.removesuffix(".gz")
    return name.rsplit(".", 1)[0] if "." in name else name


def _suffix(path: Path) -> str:
    suffix = Path(path.name.removesuffix(".gz")).suffix.lower()
    return suffix if suffix in SUFFIXES else ".csv"
