"""Speeds on the roads of Seattle."""

from __future__ import annotations

import io
import os
from typing import Any

import numpy as np
import scipy.io
from numpy.typing import NDArray

from kronfill._optional import needed
from kronfill.data.datasets.dataset import Dataset, Published
from kronfill.data.datasets.store import Folder

__all__ = ["load_seattle"]

_FOLDER = Folder(
    name="seattle",
    source="https://github.com/MengyingLei/stBKLM",
    upstream="data/traffic/seattle",
    licence="MIT licence",
)
_ABOUT = """Speeds in miles per hour of 323 road sensors in 720 hours (30 days), complete.
From the repository MengyingLei/stBKLM, copyright (c) 2025 Mengying Lei, MIT licence; only the file
format differs. Two sensors are linked if the roads they are on are adjacent."""
_CITATION = (
    "M. Lei, A. Labbe, Y. Wu, L. Sun. Bayesian Kernelized Matrix Factorization for Spatiotemporal "
    "Traffic Data Imputation and Kriging. IEEE Transactions on Intelligent Transportation Systems "
    "23(10), 18962-18974, 2022."
)
_PUBLISHED = Published(
    method="BKMF",
    rmse=3.830,
    mae=2.216,
    seconds=6365.0,
    protocol="the mask of the authors' script: 116,093 entries for training, 116,467 hidden",
    source="MengyingLei/stBKLM (Gaussian-process factors, MCMC)",
)


def load_seattle(data_home: str | os.PathLike[str] | None = None) -> Dataset:
    """Load speeds of 323 road sensors in 720 hours (needs pandas and the files).

    Parameters
    ----------
    data_home : path, optional
        Directory that has the folder ``seattle``; by default the one of the variable
        ``KRONFILL_DATA``, or else one for the user, see :func:`data_directories`.

    Returns
    -------
    Dataset
        ``table``: 323 x 720, complete. ``rows``: adjacency of the sensors, a DataFrame of zeros
        and ones for a graph kernel. ``cols``: hour of the day, day, and both as one number.
        ``test_masks``: the one mask with which others report results.

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
    ...     datasets.load_seattle("a-directory-without-data")
    ... except DataError as error:
    ...     print(str(error)[:55])
    seattle: missing sedata_amonth_matrix.mat and 2 others;
    """
    files = _FOLDER.read(data_home)
    pd = needed("pandas", "load_seattle")
    speeds = _array(files["sedata_amonth_matrix.mat"], "data_matrix")
    links = _array(files["seattle_adj.mat"], "A").astype(np.int64)
    np.fill_diagonal(links, 0)
    sensors = pd.RangeIndex(len(speeds), name="sensor")
    hours = pd.RangeIndex(speeds.shape[1], name="hour")
    return Dataset(
        name="Seattle",
        table=pd.DataFrame(speeds, index=sensors, columns=hours),
        rows=pd.DataFrame(links, index=sensors, columns=sensors),
        cols=pd.DataFrame(
            {"hour of day": hours % 24, "day": hours // 24, "time": np.arange(len(hours))},
            index=hours,
        ),
        attribution=_ABOUT,
        citation=_CITATION,
        licence=files["LICENSE"].decode("utf-8"),
        published=(_PUBLISHED,),
        test_masks=(_hidden(speeds.shape),),
    )


def _array(content: bytes, name: str) -> NDArray[Any]:
    """Return an array of a MATLAB file."""
    return np.asarray(scipy.io.loadmat(io.BytesIO(content))[name])


def _hidden(shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """Return the mask of the authors' script, whose random numbers are NumPy's old ones."""
    drawn = np.random.RandomState(6).rand(*shape)
    return np.asarray(np.round(drawn) == 0)
