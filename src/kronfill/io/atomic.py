"""Files that are either whole or as they were before: written aside, then moved into place."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

__all__ = ["written_whole"]


@contextmanager
def written_whole(path: Path) -> Iterator[BinaryIO]:
    """Open a file for writing that takes the place of ``path`` only once it is complete.

    It is written under another name in the same folder, flushed to the disk and then renamed,
    which a file system does in one step. Whatever goes wrong before, ``path`` is untouched and
    nothing is left behind. A link is followed: the file it points to is replaced, and its
    permissions are kept.
    """
    target = Path(os.path.realpath(path))
    aside = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    with open(aside, "xb") as file:
        try:
            yield file
            file.flush()
            os.fsync(file.fileno())
            file.close()
            if target.exists():
                aside.chmod(target.stat().st_mode & 0o777)
            os.replace(aside, target)
        except BaseException:
            file.close()
            with suppress(OSError):
                aside.unlink()
            raise
    _flush_folder(target.parent)


def _flush_folder(folder: Path) -> None:
    """Have the new name on the disk too, where folders can be flushed."""
    with suppress(OSError):
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)
