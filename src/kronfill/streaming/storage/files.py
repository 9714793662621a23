"""Files that are there as a whole or not at all, and folders that one process works in."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kronfill._atomic import ASIDE, lock_file, remove_abandoned, written_whole
from kronfill.errors import StorageError, argument

__all__ = ["alone_in", "mapped", "read_json", "write_whole"]


def write_whole(path: Path, *arrays: NDArray[Any] | bytes) -> int:
    """Write a file that is there as a whole or not at all; its checksum."""
    checksum = 0
    try:
        with written_whole(path) as file:
            for array in arrays:
                data = memoryview(array).cast("B")  # type: ignore[arg-type]
                file.write(data)
                checksum = zlib.crc32(data, checksum)
    except StorageError as error:
        msg = f"{error} What was finished before is kept."
        raise StorageError(msg) from error
    return checksum


@contextmanager
def alone_in(folder: Path) -> Iterator[Path]:
    """Make a folder, and refuse to share it with another process that works there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = open(folder / "lock", "w")  # noqa: SIM115
    except OSError as error:
        msg = f"{folder} cannot be written to: {error}; choose another {argument('work_dir')}."
        raise StorageError(msg) from error
    with lock:
        if lock_file(lock.fileno(), wait=False) is False:
            msg = (
                f"Another process is working in {folder}; wait for it, or use another "
                f"{argument('work_dir')}."
            )
            raise StorageError(msg)
        remove_abandoned(folder.rglob(ASIDE))
        yield folder


def read_json(path: Path) -> dict[str, Any] | None:
    """What a file of JSON holds; None where there is none."""
    try:
        text = path.read_text()
    except FileNotFoundError:
        return None
    try:
        content: dict[str, Any] = json.loads(text)
    except ValueError as error:
        msg = f"{path} is damaged ({error}); use another {argument('work_dir')}."
        raise StorageError(msg) from None
    return content


def mapped(path: Path, dtype: Any, start: int, stop: int) -> NDArray[Any]:
    """Elements start, ..., stop - 1 of an array on disk; what is not touched is not read."""
    if start == stop:
        return np.empty(0, dtype)
    size = np.dtype(dtype).itemsize
    try:
        # Copy on write: nothing is written, and compiled loops know such arrays already.
        mapped = np.memmap(path, dtype, "c", start * size, (stop - start,))
    except (OSError, ValueError) as error:
        msg = f"{path} cannot be read: {error}. Delete its folder to make the partitions anew."
        raise StorageError(msg) from error
    return mapped.view(np.ndarray)
