"""The folder of a streamed fit: what it holds, and whether to go on with it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kronfill.errors import ParameterError, StorageError
from kronfill.streaming.storage.files import write_whole

__all__ = ["TABLE", "WorkDir", "content"]

NOTE = "fit.json"
TABLE = "the table"
"""The setting that partitions depend on."""


def content(path: Path | None) -> str | None:
    """Digest of what a small file holds."""
    if path is None:
        return None
    return hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()


@dataclass(frozen=True)
class WorkDir:
    """A work directory and what was said about it.

    Attributes
    ----------
    path : Path
        The folder.
    resume : bool
        Whether to go on with what it holds.
    """

    path: Path
    resume: bool

    def check(self, settings: dict[str, Any]) -> str:
        """Say what is there; raise if it must not be gone on with."""
        told = self._told()
        begun = told is not None or any(self.path.glob("by-*/journal.json"))
        if not begun:
            return "nothing yet"
        done = told is None or bool(told.get("done"))
        what = "the partitions of a fit that is done" if done else "a fit that is not finished"
        if not self.resume:
            msg = (
                f"{self.path} holds {what} already. Go on with it (--resume), or use another "
                "folder (--work-dir)."
            )
            raise ParameterError(msg)
        before = (told or {}).get("settings", settings)
        changed = [name for name, value in settings.items() if before.get(name) != value]
        if TABLE in changed or (changed and not done):
            msg = (
                f"{self.path} holds {what}, but with other settings: {', '.join(changed)} changed "
                "since. Give the same as before, or use another folder (--work-dir)."
            )
            raise ParameterError(msg)
        return what

    def _told(self) -> dict[str, Any] | None:
        try:
            told = json.loads((self.path / NOTE).read_text())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            msg = f"{self.path / NOTE} cannot be read: {error}. Use another folder (--work-dir)."
            raise StorageError(msg) from None
        if not isinstance(told, dict):
            msg = f"{self.path / NOTE} is damaged. Use another folder (--work-dir)."
            raise StorageError(msg)
        return told

    def note(self, settings: dict[str, Any], done: bool) -> None:
        """Write down what the folder is for, and whether the fit is done."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            msg = f"{self.path} cannot be made: {error.strerror}; use another folder (--work-dir)."
            raise StorageError(msg) from error
        text = json.dumps({"settings": settings, "done": done}, indent=1)
        write_whole(self.path / NOTE, text.encode())
