"""Sums over all observations that are kept on disk until the fit is done.

A fit of many observations spends its time in a few sums over all of them, one per iteration; what
is done between two sums takes no time and gives the same bits whenever it is repeated. So the sums
are kept, each under a digest of what went into it, with the position and the partial result of
the one under way. A fit that was killed is simply run again: every sum that is there is looked up,
which brings back iterate, residual and search direction as they were, bit for bit.
"""

from __future__ import annotations

import hashlib
import shutil
import struct
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from kronfill._types import Floats
from kronfill.errors import StorageError, argument
from kronfill.streaming.storage.files import write_whole

__all__ = ["Products", "digest"]

HEAD = struct.Struct("<16sq")
"""Digest and position of the sum under way."""


class Products:
    """Sums by what went into them.

    Parameters
    ----------
    folder : Path or None
        Where they are kept; None keeps nothing.
    every : float
        Seconds between two writes, at least.

    Attributes
    ----------
    found : int
        Number of sums that were looked up and not made again.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> from pathlib import Path
    >>> from kronfill.streaming.storage.checkpoint import Products
    >>> folder, x = Path(tempfile.mkdtemp()), np.ones((1, 2))
    >>> Products(folder, every=0).total([b"data", x], (1, 2), 3, lambda k: k * x)
    array([[3., 3.]])
    >>> again = Products(folder, every=0)
    >>> again.total([b"data", x], (1, 2), 3, lambda k: 1 / 0), again.found
    (array([[3., 3.]]), 1)
    """

    def __init__(self, folder: Path | None, every: float) -> None:
        self._folder, self._every = folder, every
        self._waiting: list[tuple[str, Floats]] = []
        self._written = time.monotonic()
        self.found = 0
        if folder is not None:
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                msg = f"{folder} cannot be made: {error}; choose another {argument('work_dir')}."
                raise StorageError(msg) from error

    def total(
        self,
        what: list[bytes | Floats],
        shape: tuple[int, ...],
        count: int,
        term: Callable[[int], Floats],
    ) -> Floats:
        """Sum of term(0), ..., term(count - 1), added in this order.

        Parameters
        ----------
        what : list of bytes and arrays
            All that the sum depends on.
        shape : tuple of int
            Shape of the sum.
        count : int
            Number of terms.
        term : callable
            Makes one of them.

        Returns
        -------
        ndarray
        """
        key = digest(what)
        kept = self._read(key.hex(), shape)
        if kept is not None:
            self.found += 1
            return kept
        begin, out = self._under_way(key, shape)
        for k in range(begin, count):
            out += term(k)
            if k + 1 < count and self._due():
                self._write("partial", HEAD.pack(key, k + 1), out)
        if self._folder is not None:
            self._waiting.append((key.hex(), out.copy()))
        if self._due():
            self._flush()
        return out

    def clear(self) -> None:
        """Drop everything: the fit is done."""
        self._waiting = []
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _due(self) -> bool:
        return self._folder is not None and time.monotonic() - self._written >= self._every

    def _flush(self) -> None:
        """Write the sums that are finished."""
        while self._waiting:
            self._write(*self._waiting[0])
            self._waiting.pop(0)

    def _write(self, name: str, *data: bytes | Floats) -> None:
        assert self._folder is not None
        if name == "partial":
            self._flush()
        write_whole(self._folder / name, *data)
        self._written = time.monotonic()

    def _load(self, name: str, size: int) -> bytes | None:
        if self._folder is None:
            return None
        try:
            data = (self._folder / name).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            msg = f"{self._folder / name} cannot be read: {error}. Delete it to go on without."
            raise StorageError(msg) from error
        return data if len(data) == size else None

    def _read(self, name: str, shape: tuple[int, ...]) -> Floats | None:
        data = self._load(name, 8 * int(np.prod(shape)))
        return None if data is None else np.frombuffer(data).reshape(shape).copy()

    def _under_way(self, key: bytes, shape: tuple[int, ...]) -> tuple[int, Floats]:
        """Position and partial result of this sum."""
        data = self._load("partial", HEAD.size + 8 * int(np.prod(shape)))
        if data is not None:
            kept, position = HEAD.unpack_from(data)
            if kept == key:
                return position, np.frombuffer(data, offset=HEAD.size).reshape(shape).copy()
        return 0, np.zeros(shape)


def digest(what: list[bytes | Floats]) -> bytes:
    """Digest of bytes and arrays, 16 bytes long."""
    made = hashlib.blake2b(digest_size=16)
    for one in what:
        made.update(one if isinstance(one, bytes) else np.ascontiguousarray(one).data)
    return made.digest()
