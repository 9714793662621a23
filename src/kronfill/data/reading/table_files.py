"""Tables in files: CSV, TSV, Parquet, Feather and Excel behind one interface.

Text files are read as text, cell by cell as they are written: what a column means is decided by
who asks for it, as labels ("007" stays "007") or as numbers.
"""

from __future__ import annotations

import csv
import gzip
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from kronfill._optional import needed
from kronfill.data.amounts import count_of
from kronfill.data.reading.file_table import FileTable, label_text
from kronfill.data.reading.string_files import fasta_items, smiles_items
from kronfill.errors import DataError

__all__ = ["FORMATS", "open_file"]

FORMATS = ("CSV", "TSV", "Parquet", "Feather", "Excel", "FASTA", "SMILES")
SEPARATORS = ",;\t|"
BLOCK = 64 * 2**20
"""Bytes of text that are parsed together; a line must not be longer."""
_SIGNS = ((b"PAR1", "Parquet"), (b"ARROW1", "Feather"), (b"PK\x03\x04", "Excel"))
_SUFFIXES = {
    ".parquet": "Parquet", ".pq": "Parquet", ".feather": "Feather", ".arrow": "Feather",
    ".ipc": "Feather", ".xlsx": "Excel", ".xlsm": "Excel", ".xls": "Excel",
}  # fmt: skip
_SMILES = (".smi", ".smiles")
_COMMA = re.compile(r"[+-]?\d+,\d+([eE][+-]?\d+)?")
_POINT = re.compile(r"[+-]?\d*\.\d+([eE][+-]?\d+)?")


def open_file(path: str | Path, sheet: str | None = None) -> FileTable:
    r"""Read a table from a file, whose format is told by its content.

    Parameters
    ----------
    path : str or Path
        A text file with a header line (separated by commas, semicolons, tabs or bars; it may be
        compressed with gzip), a Parquet, Feather (Arrow) or Excel file; sequences in FASTA format,
        or molecules with their names in a file called .smi, become a table of names and strings.
    sheet : str, optional
        Sheet of an Excel file; the first by default.

    Returns
    -------
    FileTable

    Raises
    ------
    DataError
        If the file cannot be read; the message says why.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "users.csv"
    >>> _ = path.write_text("id;age\n007;31,5\n008;\n")
    >>> table = open_file(path)
    >>> table.words, table.names
    ("CSV separated by ';' with decimal commas", ['id', 'age'])
    >>> table.labels(0)[1], table.numbers(1)
    (['007', '008'], array([31.5,  nan]))
    """
    path = Path(path)
    needed("pyarrow", "Reading tables from files")
    kind = _format(path)
    if sheet is not None and kind != "Excel":
        msg = f"{path} is not an Excel file: only those have sheets, got the sheet {sheet!r}."
        raise DataError(msg)
    if kind == "CSV":
        table = _read_strings(path) or _read_text(path)
    elif kind == "Excel":
        table = _read_excel(path, sheet)
    else:
        table = _read_arrow(path, kind)
    _check_names(table)
    return table


def _format(path: Path) -> str:
    """What the file is, by its first bytes; its name has to agree where it names a format."""
    try:
        with path.open("rb") as file:
            start = file.read(8)
    except OSError as error:
        reason = error.strerror or str(error)
        msg = f"Cannot read {path}: {reason[:1].lower()}{reason[1:]}."
        raise DataError(msg) from None
    found = next((name for sign, name in _SIGNS if start.startswith(sign)), "CSV")
    named = _SUFFIXES.get(path.suffix.lower())
    if found == "CSV" and named is not None:
        kind = f"{'an' if named == 'Excel' else 'a'} {named} file"
        kind = "an .xls file of Excel before 2007" if path.suffix == ".xls" else kind
        msg = f"{path} is called {kind} but is none that can be read. Is it whole? Try a CSV file."
        raise DataError(msg)
    return found


def _check_names(table: FileTable) -> None:
    blank = [j for j, name in enumerate(table.names) if not name.strip() and j > 0]
    if blank:
        msg = f"{table.path}: column {blank[0] + 1} has no name in the header; name or delete it."
        raise DataError(msg)
    twice = {name for name in table.names if table.names.count(name) > 1}
    if twice:
        named = ", ".join(map(repr, sorted(twice)[:3]))
        msg = f"{table.path} has more than one column called {named}; rename or delete them."
        raise DataError(msg)


# One reader for each format.


def _read_text(path: Path) -> FileTable:
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    names, separator = _header(path)
    try:
        columns = arrow_csv.read_csv(
            path,
            read_options=arrow_csv.ReadOptions(block_size=BLOCK),
            parse_options=arrow_csv.ParseOptions(delimiter=separator, newlines_in_values=True),
            convert_options=arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False
            ),
        )
    except (pa.ArrowException, OSError, ValueError) as error:
        why = _uneven(path, separator) or _first_sentence(error)
        if "Empty CSV" in why:  # a header without even an end of line
            why = "it has a header but no lines below it."
        msg = f"Cannot read {path} as a table: {why}"
        raise DataError(msg) from None
    comma = separator != "," and _has_decimal_commas(columns)
    kind = "TSV" if separator == "\t" else "CSV"
    words = kind if separator in ",\t" else f"CSV separated by {separator!r}"
    words += " with decimal commas" if comma else ""
    names = [name.strip() for name in columns.column_names]
    return FileTable(path, words, names, columns, separator, "," if comma else ".")


def _read_strings(path: Path) -> FileTable | None:
    """A FASTA or SMILES file as a table of two columns; None for other text."""
    import pyarrow as pa

    try:
        with _opened(path) as file:
            lines = list(
                itertools.dropwhile(lambda line: not line.strip(), itertools.islice(file, 50))
            )
            fasta = bool(lines) and lines[0].lstrip().startswith(">")
            if not fasta and not path.name.lower().removesuffix(".gz").endswith(_SMILES):
                return None
            read = fasta_items if fasta else smiles_items
            names, strings = read(itertools.chain(lines, file), path)
    except (UnicodeDecodeError, EOFError, OSError):
        return None  # whoever reads it as text says what is wrong
    kind, column = ("FASTA", "sequence") if fasta else ("SMILES", "smiles")
    columns = pa.table(
        {"name": pa.array(names, pa.string()), column: pa.array(strings, pa.string())}
    )
    return FileTable(path, kind, ["name", column], columns)


def _uneven(path: Path, separator: str) -> str | None:
    """Which line has more or fewer cells than the header, if that is what is wrong."""
    try:
        with _opened(path) as file:
            lines = csv.reader(file, delimiter=separator)
            width = len(next((line for line in lines if line), []))
            for line in lines:
                if line and len(line) != width:
                    cells = count_of(len(line), "cell")
                    begin = separator.join(line)[:60]
                    quotes = f" Cells with {separator!r} in them must stand in quotes."
                    return (
                        f"line {lines.line_num} has {cells}, the header {width}: {begin!r}."
                        f"{quotes * (len(line) > width)}"
                    )
    except (csv.Error, UnicodeDecodeError, EOFError, OSError):
        pass
    return None


def _first_sentence(error: Exception) -> str:
    text = str(error).split("\n")[0].strip()
    text = text if len(text) <= 200 else text[:200] + " ..."
    return text if text.endswith(".") else text + "."


def _header(path: Path) -> tuple[list[str], str]:
    """Column names of a text file and what separates them."""
    try:
        with _opened(path) as file:
            line = next((line for line in file if line.strip()), "")
            more = list(itertools.islice(file, 50))  # a quoted name may go on in the next line
    except (UnicodeDecodeError, EOFError, OSError) as error:
        what = "is not text in UTF-8" if isinstance(error, UnicodeDecodeError) else "is damaged"
        msg = (
            f"Cannot read {path}: it {what}. Save it as CSV in UTF-8 (in Excel: 'CSV UTF-8'), or "
            "give a Parquet, Feather or Excel file."
        )
        raise DataError(msg) from None
    if not line:
        msg = f"{path} is empty; a table needs a header line and at least one line below it."
        raise DataError(msg)
    try:
        splits = {s: next(csv.reader([line, *more], delimiter=s)) for s in SEPARATORS}
    except csv.Error as error:
        msg = f"Cannot read the header of {path}: {error}."
        raise DataError(msg) from None
    separator = max(SEPARATORS, key=lambda s: (len(splits[s]), -SEPARATORS.index(s)))
    if path.name.lower().endswith((".tsv", ".tab", ".tsv.gz")):
        separator = "\t"
    return splits[separator], separator


def _opened(path: Path) -> IO[str]:
    """A text file, compressed or not; a byte order mark is skipped."""
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def _has_decimal_commas(columns: Any) -> bool:
    """Whether numbers are written 3,5: some cells look like it and none like 3.5."""
    cells = [cell for column in columns.slice(0, 1000).columns for cell in column.to_pylist()]
    comma = any(_COMMA.fullmatch(cell.strip()) for cell in cells)
    return comma and not any(_POINT.fullmatch(cell.strip()) for cell in cells)


def _read_arrow(path: Path, kind: str) -> FileTable:
    import pyarrow as pa
    from pyarrow import feather, parquet

    try:
        if kind == "Parquet":
            columns = parquet.ParquetFile(path).read()
        else:
            columns = feather.read_table(path, memory_map=False)
    except (pa.ArrowException, OSError, ValueError) as error:
        msg = f"Cannot read {path} as a {kind} file: {_first_sentence(error)}"
        raise DataError(msg) from None
    return _typed(path, kind, columns)


def _typed(path: Path, words: str, columns: Any) -> FileTable:
    """Columns with types of their own; the index that pandas stored last comes first."""
    hidden = [j for j, name in enumerate(columns.column_names) if name.startswith("__index_level_")]
    order = hidden + [j for j in range(columns.num_columns) if j not in hidden]
    columns = columns.select(order)
    stored = (columns.schema.pandas_metadata or {}).get("index_columns", [])
    first = [name for name in stored if isinstance(name, str) and name in columns.column_names]
    if first and not hidden:
        rest = [name for name in columns.column_names if name not in first]
        columns = columns.select([*first, *rest])
    names = ["" if j < len(hidden) else name for j, name in enumerate(columns.column_names)]
    return FileTable(path, words, names, columns)


def _read_excel(path: Path, sheet: str | None) -> FileTable:
    openpyxl = needed("openpyxl", f"Reading {path}")
    import pyarrow as pa

    try:
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
    except Exception as error:  # the reader of a zip of XML: anything may be wrong with it
        msg = f"Cannot read {path} as an Excel file: {_first_sentence(error)}"
        raise DataError(msg) from None
    if sheet is not None and sheet not in book.sheetnames:
        named = ", ".join(map(repr, book.sheetnames))
        msg = f"{path} has no sheet {sheet!r}; its sheets are {named}."
        raise DataError(msg)
    name = sheet or book.sheetnames[0]
    lines = _cells(book[name])
    if not lines:
        msg = f"{path}, sheet {name!r} is empty; a table needs a header line and lines below it."
        raise DataError(msg)
    width = max(len(line) for line in lines)
    padded = [line + [None] * (width - len(line)) for line in lines]
    names = [label_text(cell) for cell in padded[0]]
    arrays = [_excel_column([line[j] for line in padded[1:]]) for j in range(width)]
    columns = pa.Table.from_arrays(arrays, names=[f"c{j}" for j in range(width)])
    more = "" if len(book.sheetnames) == 1 else f" of {len(book.sheetnames)}"
    return FileTable(path, f"Excel, sheet {name!r}{more}", names, columns)


def _cells(sheet: Any) -> list[list[Any]]:
    """Lines of a sheet without the blank ones, each up to its last filled cell."""
    out = []
    for line in sheet.iter_rows(values_only=True):
        cells = list(line)
        while cells and cells[-1] is None:
            cells.pop()
        if cells:
            out.append(cells)
    return out


def _excel_column(cells: list[Any]) -> Any:
    """Cells of one kind keep it; mixed ones become text."""
    import datetime

    import pyarrow as pa

    filled: Iterator[Any] = (cell for cell in cells if cell is not None)
    kinds = {type(cell) for cell in filled}
    if kinds <= {int, float}:
        return pa.array([None if c is None else float(c) for c in cells], pa.float64())
    if kinds == {bool}:
        return pa.array(cells, pa.bool_())
    if kinds == {datetime.datetime}:
        return pa.array(cells, pa.timestamp("us"))
    return pa.array([None if c is None else label_text(c) for c in cells], pa.string())
