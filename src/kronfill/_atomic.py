"""Files that are whole or as they were before: written aside, then moved into place together."""

from __future__ import annotations

import errno
import glob
import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from kronfill.errors import KronfillError, StorageError

try:
    import fcntl
except ImportError:  # a system without such locks
    fcntl = None  # type: ignore[assignment]

__all__ = ["ASIDE", "Publication", "lock_file", "remove_abandoned", "written_whole"]

_OWN = f".{'[0-9a-f]' * 8}.part"
ASIDE = f".*{_OWN}"
"""Pattern of the names of files that are written aside."""


class Publication:
    """Files that take their places together when the block ends, or not at all.

    Each is written under another name in the folder of its place and flushed to the disk. At the
    end of the block all are renamed, which a file system does in one step for each. Whatever goes
    wrong before, or while they are renamed, every place is as it was and nothing is left behind.
    What a killed process left behind is removed by the next one that writes to the same place.

    A link is followed: the file it points to is replaced. The permissions of a file that is
    replaced are kept.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from kronfill._atomic import Publication
    >>> folder = Path(tempfile.mkdtemp())
    >>> with Publication() as publication:
    ...     for name in ("a", "b"):
    ...         with publication.open(folder / name) as file:
    ...             _ = file.write(b"whole")
    ...     (folder / "a").exists()
    False
    >>> sorted(path.name for path in folder.iterdir())
    ['a', 'b']
    """

    def __init__(self) -> None:
        self._ready: list[tuple[Path, Path]] = []
        self._aside: list[Path] = []
        self._locks: list[int] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                self._publish()
        finally:
            for path in self._aside:
                _remove(path)
            for lock in self._locks:
                os.close(lock)

    @contextmanager
    def open(self, path: Path) -> Iterator[BinaryIO]:
        """Open a file that will take the place of ``path``.

        Parameters
        ----------
        path : Path
            The place.

        Yields
        ------
        BinaryIO

        Raises
        ------
        StorageError
            If the file cannot be written.
        """
        target = Path(os.path.realpath(path))
        try:
            aside, file = self._begun(target)
            try:
                yield file
                file.flush()
                os.fsync(file.fileno())
            except BaseException:
                _remove(aside)
                raise
            finally:
                with suppress(OSError):  # what a full disk did not take is tried once more
                    file.close()
            if target.exists():
                aside.chmod(target.stat().st_mode & 0o777)
        except KronfillError:
            raise
        except OSError as error:
            raise _failure(path, error) from error
        self._ready.append((aside, target))

    def _begun(self, target: Path) -> tuple[Path, BinaryIO]:
        """A new file beside a place, locked for as long as it is needed, and opened."""
        if target.exists() and not target.is_file():
            msg = f"{target} cannot be written: it is there and is not an ordinary file."
            raise StorageError(msg)
        remove_abandoned(target.parent.glob(f".{glob.escape(target.name)}{_OWN}"))
        while True:
            aside = _beside(target)
            file = open(aside, "xb")  # noqa: SIM115
            self._aside.append(aside)
            if lock_file(file.fileno()):
                self._locks.append(os.dup(file.fileno()))
            if aside.exists():  # not taken for abandoned before it was locked
                return aside, file
            file.close()

    def _publish(self) -> None:
        """Rename all files; if that fails for one of them, the others get back what was there."""
        done: list[tuple[Path, bool, Path | None]] = []
        try:
            for aside, target in self._ready:
                there = target.exists()
                kept = self._second_name(target) if len(self._ready) > 1 else None
                try:
                    os.replace(aside, target)
                except OSError as error:
                    raise _failure(target, error) from error
                done.append((target, there, kept))
        except BaseException:
            for target, there, kept in done:
                with suppress(OSError):
                    if kept is not None:
                        os.replace(kept, target)
                    elif not there:
                        target.unlink()
            raise
        for folder in {target.parent for target, _, _ in done}:
            _flush_folder(folder)

    def _second_name(self, target: Path) -> Path | None:
        """Another name for what is there, if anything is and the file system allows it."""
        kept = _beside(target)
        try:
            os.link(target, kept)
        except OSError:
            return None
        self._aside.append(kept)
        return kept


@contextmanager
def written_whole(path: Path) -> Iterator[BinaryIO]:
    """Open a file for writing that takes the place of ``path`` only once it is complete.

    Parameters
    ----------
    path : Path
        The place; see :class:`Publication`, of which this is one with a single file.

    Yields
    ------
    BinaryIO

    Raises
    ------
    StorageError
        If the file cannot be written; one that was there before is as it was.
    """
    with Publication() as publication, publication.open(path) as file:
        yield file


def remove_abandoned(found: Iterable[Path]) -> None:
    """Remove files written aside whose process is gone.

    Parameters
    ----------
    found : iterable of Path
        Files that a :class:`Publication` may have left behind. One that a process holds a lock of
        is still being written.
    """
    for path in found:
        with suppress(OSError):
            number = os.open(path, os.O_RDONLY)
            try:
                if lock_file(number, wait=False):
                    path.unlink()
            finally:
                os.close(number)


def _beside(target: Path) -> Path:
    return target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")


def lock_file(number: int, wait: bool = True) -> bool | None:
    """Lock an open file, until its last copy is closed.

    Parameters
    ----------
    number : int
        Its descriptor.
    wait : bool, default=True
        Whether to wait for another process that holds the lock.

    Returns
    -------
    bool or None
        False if another process holds it, None where there are no such locks.
    """
    if fcntl is None:
        return None
    try:
        fcntl.flock(number, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _failure(path: Path, error: OSError) -> StorageError:
    """An error that names the file and says what is wrong."""
    why = error.strerror or str(error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        why = f"the disk is full ({why}); free some space, then run the same again"
    return StorageError(f"{path} cannot be written: {why}.")


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink()


def _flush_folder(folder: Path) -> None:
    """Have the new names on the disk too, where folders can be flushed."""
    with suppress(OSError):
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)
