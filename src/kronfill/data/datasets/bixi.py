"""Bicycle trips in Montreal."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from kronfill._optional import needed
from kronfill.data.datasets.dataset import Dataset
from kronfill.data.datasets.store import packaged, verified

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["BixiData", "load_bixi"]

_FILE = "bixi2019.npz"
_SHA256 = "63f553053736e7ba5ee0d3849f8a9b746b4df82573beea85289c2f86607c375c"


@dataclass(frozen=True, eq=False, repr=False)
class BixiData(Dataset):
    """Daily departures from the bicycle stations of Montreal, with features of both sides.

    Attributes
    ----------
    trips : DataFrame, 587 stations x 196 days
        Number of departures; NaN is missing. The same as ``table``.
    stations : DataFrame, 587 x 15
        Latitude, longitude and 13 features of the surroundings. The same as ``rows``.
    days : DataFrame, 196 x 5
        Weather and holidays. The same as ``cols``.
    attribution, citation, licence : str
        Where the data come from, the publication to cite, the licence.
    published, test_masks : tuple
        Empty: no result on a fixed split of these entries is known.
    """

    @property
    def trips(self) -> pd.DataFrame:
        """Number of departures; NaN is missing."""
        return self.table

    @property
    def stations(self) -> pd.DataFrame:
        """Latitude, longitude and 13 features of the surroundings of each station."""
        stations: pd.DataFrame = self.rows
        return stations

    @property
    def days(self) -> pd.DataFrame:
        """Weather and holidays of each day."""
        days: pd.DataFrame = self.cols
        return days


def load_bixi() -> BixiData:
    """Load the bicycle trips that come with this package (needs pandas).

    Returns
    -------
    BixiData
        Trips, features of the stations and the days, attribution and licence.

    Raises
    ------
    MissingDependencyError
        If pandas is not installed.
    DataError
        If the file in the package is damaged.

    Notes
    -----
    100,112 of the 115,052 entries are observed. They are not missing at random: the source removed
    every count above the 90th percentile and emptied three days. See ``attribution``.

    Examples
    --------
    >>> from kronfill.data import datasets
    >>> bixi = datasets.load_bixi()
    >>> bixi
    BixiData(BIXI: 587 x 196, 100,112 entries known)
    >>> list(bixi.days.columns)[:3]
    ['humidity', 'max_temp_f', 'mean_temp_c']
    """
    pd = needed("pandas", "load_bixi")
    content = verified(packaged(f"files/{_FILE}"), _SHA256, _FILE, "Install kronfill again.")
    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    stations = pd.Index(_lines(arrays["stations"]), name="station")
    dates = arrays["days"].astype("datetime64[D]").astype("datetime64[ns]")
    days = pd.DatetimeIndex(dates, name="day")
    trips = np.where(arrays["trips"] == 0, np.nan, arrays["trips"].astype(np.float64))
    return BixiData(
        name="BIXI",
        table=pd.DataFrame(trips, index=stations, columns=days),
        rows=pd.DataFrame(
            arrays["station_features"], index=stations, columns=_lines(arrays["station_columns"])
        ),
        cols=pd.DataFrame(
            arrays["day_features"], index=days, columns=_lines(arrays["day_columns"])
        ),
        attribution=packaged("files/BIXI-README.md").decode("utf-8"),
        citation=(
            "M. Lei, A. Labbe, L. Sun. Scalable Spatiotemporally Varying Coefficient Modelling "
            "with Bayesian Kernelized Tensor Regression. arXiv:2109.00046."
        ),
        licence=packaged("files/BIXI-LICENSE.txt").decode("utf-8"),
        published=(),
        test_masks=(),
    )


def _lines(text: npt.NDArray[np.uint8]) -> list[str]:
    """Return the lines of UTF-8 text stored as bytes."""
    return text.tobytes().decode("utf-8").split("\n")
