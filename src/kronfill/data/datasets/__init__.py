"""Data sets to try things on: real ones with side information, and the paper's synthetic matrix.

BIXI comes with the package. Seattle and drug response are read from a data directory: the one that
is named in the call, that of the variable ``KRONFILL_DATA``, or one for the user; every file is
compared with its SHA-256. Nothing is downloaded.
"""

from __future__ import annotations

from kronfill.data.datasets.bixi import BixiData, load_bixi
from kronfill.data.datasets.dataset import Dataset, Published
from kronfill.data.datasets.drugs import load_drug_response
from kronfill.data.datasets.paper import PaperMatrix, make_paper_matrix
from kronfill.data.datasets.seattle import load_seattle
from kronfill.data.datasets.store import data_directories

__all__ = [
    "BixiData",
    "Dataset",
    "PaperMatrix",
    "Published",
    "data_directories",
    "load_bixi",
    "load_drug_response",
    "load_seattle",
    "make_paper_matrix",
]
