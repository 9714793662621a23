"""Files of data sets: where they are looked for, and whether they are the right ones."""

from __future__ import annotations

import hashlib
import os
import sys
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from kronfill.errors import DataError, ParameterError

__all__ = ["Folder", "data_directories", "packaged", "verified"]

VARIABLE = "KRONFILL_DATA"


def data_directories(data_home: str | os.PathLike[str] | None = None) -> tuple[Path, ...]:
    """Return the directories in which data sets are looked for, in this order.

    Parameters
    ----------
    data_home : path, optional
        Look here and nowhere else. By default in the directory of the variable
        ``KRONFILL_DATA``, if it is set, and then in one for the user.

    Returns
    -------
    tuple of Path

    Examples
    --------
    >>> from kronfill.data import datasets
    >>> [str(place) for place in datasets.data_directories("my-data")]
    ['my-data']
    >>> datasets.data_directories()[-1].name
    'kronfill'
    """
    if data_home is not None:
        try:
            return (Path(data_home).expanduser(),)
        except TypeError:
            msg = f"data_home must be a path or None, got {data_home!r}."
            raise ParameterError(msg) from None
    named = os.environ.get(VARIABLE)
    return (*((Path(named).expanduser(),) if named else ()), _of_the_user())


def _of_the_user() -> Path:
    """Where this system keeps data of a user's programs."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or "~/AppData/Local"
    elif sys.platform == "darwin":
        base = "~/Library/Application Support"
    else:
        base = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(base).expanduser() / "kronfill"


@dataclass(frozen=True)
class Folder:
    """The folder of one data set, and what to tell a user who does not have it.

    Parameters
    ----------
    name : str
        Name of the folder in a data directory.
    source : str
        Where the files can be had.
    upstream : str
        Folder in the source that has them.
    licence : str
        Name of the licence.
    """

    name: str
    source: str
    upstream: str
    licence: str

    def files(self) -> dict[str, str]:
        """SHA-256 of each file, by its path in the folder."""
        lines = packaged("datasets/checksums.txt").decode("ascii").splitlines()
        both = (line.split(maxsplit=1) for line in lines)
        return {
            path.removeprefix(f"{self.name}/"): digest
            for digest, path in both
            if path.startswith(f"{self.name}/")
        }

    def read(self, data_home: str | os.PathLike[str] | None = None) -> dict[str, bytes]:
        """Read every file and compare it with its checksum.

        Parameters
        ----------
        data_home : path, optional
            As in :func:`data_directories`.

        Returns
        -------
        dict of bytes
            By path in the folder.

        Raises
        ------
        DataError
            If a file is missing, cannot be read or is not the one expected.
        """
        places = [base / self.name for base in data_directories(data_home)]
        place = next((place for place in places if place.is_dir()), places[0])
        expected = self.files()
        missing = [name for name in expected if not (place / name).is_file()]
        if missing:
            looked = [place] if place.is_dir() else places
            raise DataError(self._absent(missing, looked))
        content = {}
        for name, digest in expected.items():
            try:
                content[name] = (place / name).read_bytes()
            except OSError as error:
                msg = f"{place / name} cannot be read: {error.strerror or error}. {self._advice()}"
                raise DataError(msg) from None
            verified(content[name], digest, str(place / name), self._advice())
        return content

    def _absent(self, missing: list[str], looked: list[Path]) -> str:
        others = len(missing) - 1
        more = "" if others == 0 else f" and {others} other{'s' if others > 1 else ''}"
        where = " and ".join(map(str, looked))
        return f"{self.name}: missing {missing[0]}{more}; looked in {where}. {self._advice()}"

    def _advice(self) -> str:
        return (
            f"kronfill does not download data. It comes from {self.source} ({self.licence}): copy "
            f"what is in {self.upstream}, and the licence file, to DIRECTORY/{self.name} and set "
            f"{VARIABLE}=DIRECTORY (in Python, data_home=DIRECTORY does as well)."
        )


def verified(content: bytes, digest: str, name: str, advice: str) -> bytes:
    """Return the content if it has the SHA-256 expected."""
    found = hashlib.sha256(content).hexdigest()
    if found != digest:
        msg = f"{name} is not the file expected: its SHA-256 is {found}, not {digest}. {advice}"
        raise DataError(msg)
    return content


def packaged(name: str) -> bytes:
    """Read a file that comes with the package."""
    return resources.files("kronfill.data").joinpath(name).read_bytes()
