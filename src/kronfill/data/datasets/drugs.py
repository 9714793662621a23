"""Responses of cancer cell lines to drugs."""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kronfill._optional import needed
from kronfill.data.datasets.dataset import Dataset
from kronfill.data.datasets.store import Folder

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["load_drug_response"]

_FOLDER = Folder(
    name="drug_response",
    source="https://github.com/aalto-ics-kepaco/pairwiseMKL",
    upstream="drug_response_data",
    licence="MIT licence; the responses are from GDSC",
)
_ABOUT = """Logarithm of IC50 of 124 drugs in 124 cancer cell lines, complete, with 10 kernels of
the drugs and 12 of the cell lines. From the repository aalto-ics-kepaco/pairwiseMKL, copyright (c)
2018 Anna Cichonska, MIT licence; the responses are those of Genomics of Drug Sensitivity in Cancer
(GDSC). Only the file format differs."""
_CITATION = (
    "A. Cichonska, T. Pahikkala, S. Szedmak, H. Julkunen, A. Airola, M. Heinonen, T. Aittokallio, "
    "J. Rousu. Learning with multiple pairwise kernels for drug bioactivity prediction. "
    "Bioinformatics 34(13), i509-i518, 2018."
)
_FOLDS = 10


def load_drug_response(data_home: str | os.PathLike[str] | None = None) -> Dataset:
    """Load responses of 124 cancer cell lines to 124 drugs (needs pandas and the files).

    Parameters
    ----------
    data_home : path, optional
        Directory that has the folder ``drug_response``; by default the one of the variable
        ``KRONFILL_DATA``, or else one for the user, see :func:`data_directories`.

    Returns
    -------
    Dataset
        ``table``: 124 x 124, complete, drugs by PubChem number and cell lines by name. ``rows``
        and ``cols``: 10 and 12 kernels as DataFrames, in a dictionary by name. ``test_masks``: the
        ten outer folds of the publication.

    Raises
    ------
    DataError
        If a file is missing or is not the one expected; says where to put it.
    MissingDependencyError
        If pandas is not installed.

    Examples
    --------
    >>> from kronfill.data import datasets
    >>> from kronfill.errors import DataError
    >>> try:
    ...     datasets.load_drug_response("a-directory-without-data")
    ... except DataError as error:
    ...     print(str(error)[:47])
    drug_response: missing Labels.txt and 26 others
    """
    files = _FOLDER.read(data_home)
    pd = needed("pandas", "load_drug_response")
    drugs = pd.Index(files["Drug_PubChem_IDs.txt"].decode("ascii").split(), name="drug")
    # Names of cell lines may hold spaces.
    cells = pd.Index(files["Cell_line_IDs.txt"].decode("ascii").splitlines(), name="cell line")
    # One fold number per entry, row by row.
    fold = _numbers(files["Folds/outer_folds.txt"]).reshape(len(drugs), len(cells))
    return Dataset(
        name="drug response",
        table=pd.DataFrame(_numbers(files["Labels.txt"]), index=drugs, columns=cells),
        rows=_kernels(files, "Drug_kernels/Kd_", drugs),
        cols=_kernels(files, "Cell_line_kernels/Kc_", cells),
        attribution=_ABOUT,
        citation=_CITATION,
        licence=files["LICENCE.TXT"].decode("utf-8"),
        published=(),
        test_masks=tuple(fold == number for number in range(_FOLDS)),
    )


def _kernels(files: dict[str, bytes], start: str, labels: pd.Index) -> dict[str, pd.DataFrame]:
    """Return the kernels whose files begin so, by the rest of their names."""
    pd = needed("pandas", "load_drug_response")
    return {
        name.removeprefix(start).removesuffix(".txt"): pd.DataFrame(
            _numbers(content), index=labels, columns=labels
        )
        for name, content in files.items()
        if name.startswith(start)
    }


def _numbers(content: bytes) -> NDArray[np.float64]:
    return np.loadtxt(io.BytesIO(content))
