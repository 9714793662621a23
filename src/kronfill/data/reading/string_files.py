"""Files of strings, one for each item: sequences in FASTA format, molecules as lines of SMILES."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from kronfill.errors import DataError

__all__ = ["fasta_items", "smiles_items"]

Items = tuple[list[str], list[str]]
"""Names and strings."""


def fasta_items(lines: Iterable[str], path: Path) -> Items:
    """Names and sequences: lines after ">name description" belong together.

    Of names such as sp|P00533|EGFR_HUMAN the accession number is taken.

    Examples
    --------
    >>> fasta_items([">sp|P1|ONE_HUMAN first", "MKV", "lla*", ">two", "MT"], Path("x.fasta"))
    (['P1', 'two'], ['MKVLLA', 'MT'])
    """
    found: list[tuple[str, list[str]]] = []
    for line in lines:
        text = line.strip()
        if text.startswith(">"):
            found.append(((text[1:].split() or [""])[0], []))
        elif text and not text.startswith(";"):  # an old sign of comments
            found[-1][1].append(text)
    names: list[str] = []
    sequences: list[str] = []
    for name, parts in found:
        sequence = "".join("".join(parts).split()).upper().removesuffix("*")
        if not name or not sequence:
            what = "a sequence without a name" if not name else f"no sequence for {name!r}"
            msg = f"{path} has {what}: each begins with a line '>name', its letters follow."
            raise DataError(msg)
        bars = name.split("|")
        names.append(bars[1] if len(bars) == 3 and bars[1] else name)
        sequences.append(sequence)
    return names, sequences


def smiles_items(lines: Iterable[str], path: Path) -> Items:
    r"""Names and molecules: in each line SMILES, white space and a name.

    Examples
    --------
    >>> smiles_items(["CCO ethanol", "", "c1ccccc1\tbenzene"], Path("x.smi"))
    (['ethanol', 'benzene'], ['CCO', 'c1ccccc1'])
    """
    names: list[str] = []
    molecules: list[str] = []
    for number, line in enumerate(lines, 1):
        molecule, *name = line.strip().split(maxsplit=1) or [""]
        if not molecule or (not names and molecule.lower() == "smiles"):  # blank, or a header
            continue
        if not name:
            msg = (
                f"{path}, line {number}: {molecule[:40]!r} has no name. A SMILES file has a "
                "molecule and its name in each line; give a table with both as columns otherwise."
            )
            raise DataError(msg)
        names.append(name[0])
        molecules.append(molecule)
    return names, molecules
