"""Tables into files, block by block; a file is there whole or is as it was before."""

from __future__ import annotations

import io
import os
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from kronfill._atomic import Publication, written_whole
from kronfill._optional import needed
from kronfill.cli.session import Session
from kronfill.data.reading.file_table import FileTable
from kronfill.errors import ParameterError

__all__ = [
    "SUFFIXES", "TextStyle", "certificate_facts", "check_outputs", "named_as", "new_items_facts",
    "save_model",
    "text_style", "write_table",
]  # fmt: skip

SUFFIXES = {
    ".csv": "CSV", ".tsv": "TSV", ".txt": "TSV", ".parquet": "Parquet", ".pq": "Parquet",
    ".feather": "Feather", ".arrow": "Feather", ".xlsx": "Excel",
}  # fmt: skip
EXCEL_ROWS, EXCEL_COLUMNS, EXCEL_TEXT = 1_048_576, 16_384, 32_767
FORMULA = tuple("=+-@\t\r")
"""What a text begins with that spreadsheets may take for a formula."""


@dataclass(frozen=True)
class TextStyle:
    """What stands between the cells of a CSV file, and in its decimal numbers."""

    separator: str = ","
    decimal: str = "."


def text_style(table: FileTable) -> TextStyle:
    """How a CSV file is to be written so that who wrote the table can open it."""
    return TextStyle(table.separator if table.separator != "\t" else ",", table.decimal)


def check_outputs(outputs: dict[str, Path | None], inputs: Iterable[Path | None] = ()) -> None:
    """Raise before any work if an output could not be written, or would destroy an input.

    Keys are the options by which outputs were given; those of tables end in "(table)".
    """
    read = {os.path.realpath(path) for path in inputs if path is not None}
    taken: dict[str, str] = {}
    for option, path in outputs.items():
        if path is None:
            continue
        name = option.split()[0]
        if path.is_dir():
            msg = f"{name} {path} is a folder; give the name of a file."
            raise ParameterError(msg)
        if option.endswith("(table)"):
            _kind(path)
        real = os.path.realpath(path)
        if real in read:
            msg = f"{name} {path} is also an input; write to another file."
            raise ParameterError(msg)
        if real in taken:
            msg = f"{name} and {taken[real]} are the same file, {path}."
            raise ParameterError(msg)
        taken[real] = name
        _check_writable(name, path, Path(real))


def _check_writable(name: str, path: Path, real: Path) -> None:
    if not real.parent.is_dir():
        msg = f"{name} {path}: there is no folder {real.parent}; make it first."
        raise ParameterError(msg)
    if real.exists() and not os.access(real, os.W_OK):
        msg = f"{name} {path} is there already and may not be changed."
        raise ParameterError(msg)
    try:
        with tempfile.TemporaryFile(dir=real.parent):
            pass
    except OSError as error:
        msg = f"{name} {path}: cannot write into {real.parent}: {error.strerror}."
        raise ParameterError(msg) from None


def _kind(path: Path) -> str:
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        msg = (
            f"The format of {path} is told by the end of its name, which may be "
            f"{', '.join(SUFFIXES)}; got {repr(suffix) if suffix else 'none'}."
        )
        raise ParameterError(msg)
    return SUFFIXES[suffix]


def write_table(
    path: Path,
    frames: Iterable[Any],
    style: TextStyle | None = None,
    among: Publication | None = None,
) -> int:
    """Write data frames with the same columns one below the other; returns the number of lines.

    The file appears by itself, or together with the others of a publication.
    """
    kind = _kind(path)
    count = 0
    opened = written_whole(path) if among is None else among.open(path)
    with opened as file, _writer(kind, file, style or TextStyle()) as writer:
        for frame in frames:
            writer.write(frame)
            count += len(frame)
    return count


def save_model(session: Session, model: Any, path: Path, outputs: Publication) -> str:
    """Write a model among other outputs; returns what was written."""
    from kronfill.io import write_model

    with session.stage(f"Saving {path}"), outputs.open(path) as file:
        write_model(model, file)
    return str(path)


def named_as(block: Any, names: tuple[str, str, str]) -> Any:
    """Columns called as in the table, unless they would clash."""
    row, col, value = names
    rest = {"status", "lower", "upper", "std", "interval"}
    if len({row, col, value} | rest) < 8:
        return block
    return block.rename(columns={"row": row, "column": col, "value": value})


class _Writer(ABC):
    def __init__(self, file: BinaryIO) -> None:
        self.file = file

    @abstractmethod
    def write(self, frame: Any) -> None:
        """Append a block."""

    def close(self) -> None:
        """Write what comes last."""
        return

    def abandon(self) -> None:
        """Let go of what was begun: the file will not be kept."""
        return


@contextmanager
def _writer(kind: str, file: BinaryIO, style: TextStyle) -> Iterator[_Writer]:
    makers: dict[str, Any] = {
        "CSV": _Text, "TSV": _Text, "Parquet": _Columns, "Feather": _Columns, "Excel": _Excel
    }  # fmt: skip
    writer: _Writer = makers[kind](file)
    if isinstance(writer, _Text):
        writer.style = TextStyle("\t", style.decimal) if kind == "TSV" else style
    if isinstance(writer, _Columns):
        writer.kind = kind
    try:
        yield writer
    except BaseException:
        writer.abandon()
        raise
    writer.close()


class _Text(_Writer):
    """CSV and TSV; numbers with as many digits as they need to be read back the same."""

    style = TextStyle()
    _begun = False

    def write(self, frame: Any) -> None:
        text = frame.to_csv(
            index=False,
            header=not self._begun,
            sep=self.style.separator,
            decimal=self.style.decimal,
        )
        self.file.write(text.encode())
        self._begun = True


class _Columns(_Writer):
    """Parquet and Feather."""

    kind = "Parquet"
    _sink: Any = None

    def write(self, frame: Any) -> None:
        import pyarrow as pa
        from pyarrow import parquet

        plain = {
            name: column.astype(str) if isinstance(column.dtype, _category()) else column
            for name, column in frame.items()
        }
        table = pa.Table.from_pydict(
            {str(name): pa.Array.from_pandas(column) for name, column in plain.items()}
        )
        if self._sink is None and self.kind == "Parquet":
            self._sink = parquet.ParquetWriter(self.file, table.schema)
        elif self._sink is None:
            self._sink = pa.ipc.new_file(self.file, table.schema)
        self._sink.write_table(table)

    def close(self) -> None:
        if self._sink is not None:
            self._sink.close()


def _category() -> Any:
    import pandas as pd

    return pd.CategoricalDtype


class _Excel(_Writer):
    """One sheet, within the size that Excel allows; text is text, whatever it looks like."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__(file)
        openpyxl = needed("openpyxl", "Writing an Excel file")
        self._cell = openpyxl.cell.cell
        self._book = openpyxl.Workbook(write_only=True)
        self._sheet = self._book.create_sheet("kronfill")
        self._lines = 0

    def write(self, frame: Any) -> None:
        if not self._lines:
            self._append(str(name) for name in frame.columns)
            self._lines = 1
        self._lines += len(frame)
        if self._lines > EXCEL_ROWS or len(frame.columns) > EXCEL_COLUMNS:
            msg = (
                f"An Excel sheet has at most {EXCEL_ROWS:,} lines and {EXCEL_COLUMNS:,} columns, "
                f"which is less than the result; write a CSV or Parquet file."
            )
            raise ParameterError(msg)
        plain = frame.astype(object).where(frame.notna(), None)
        for line in plain.itertuples(index=False, name=None):
            self._append(line)

    def _append(self, line: Iterable[Any]) -> None:
        cells = [self._text(value) if isinstance(value, str) else value for value in line]
        self._sheet.append(cells)

    def _text(self, text: str) -> Any:
        """A cell with this text, which openpyxl and Excel might take for something else."""
        if len(text) > EXCEL_TEXT or self._cell.ILLEGAL_CHARACTERS_RE.search(text):
            msg = (
                f"An Excel cell holds up to {EXCEL_TEXT:,} characters and no control characters, "
                f"unlike {text[:20]!r}; write a CSV or Parquet file."
            )
            raise ParameterError(msg)
        if not text.startswith(FORMULA) and text not in self._cell.ERROR_CODES:
            return text
        cell = self._cell.WriteOnlyCell(self._sheet, text)
        cell.data_type, cell.quotePrefix = "s", True
        return cell

    def close(self) -> None:
        whole = io.BytesIO()  # openpyxl leaves much open if a file cannot be written to
        self._book.save(whole)
        self.file.write(whole.getbuffer())

    def abandon(self) -> None:
        self._book.save(io.BytesIO())  # closes the temporary files of the sheet


def certificate_facts(found: Any) -> dict[str, Any]:
    """What a certificate says, for the JSON object."""
    return {
        "value": found.value, "valid": found.valid, "vacuous": found.vacuous, "delta": found.delta,
        "train_loss": found.train_loss, "gap": found.gap, "theorem": found.name,
        "sentence": found.sentence, "terms": dict(found.terms), "variance": found.variance,
        "holdout_loss": found.holdout_loss,
        "class_value": found.class_value if found.class_value < float("inf") else None,
        "assumptions": [{"text": str(part), "holds": part.holds} for part in found.assumptions],
    }  # fmt: skip


def new_items_facts(found: Any) -> dict[str, Any]:
    """What a certificate for new rows or columns says, for the JSON object."""
    return {
        "value": found.value, "valid": found.valid, "estimate": found.estimate,
        "vacuous": found.vacuous, "delta": found.delta, "axis": found.axis,
        "held_out": found.held_out, "population": found.population, "variance": found.variance,
        "sentence": found.sentence,
        "assumptions": [{"text": str(part), "holds": part.holds} for part in found.assumptions],
    }  # fmt: skip
