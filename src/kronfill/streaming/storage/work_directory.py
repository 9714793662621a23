"""The folder of a streamed fit: what it holds, and whether to go on with it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kronfill.errors import ParameterError, StorageError, argument
from kronfill.streaming.storage.files import write_whole

__all__ = ["TABLE", "WorkDirectory"]

NOTE = "fit.json"
TABLE = "the table"
"""The setting that partitions depend on."""


@dataclass(frozen=True)
class WorkDirectory:
    """A folder with the sorted observations of a fit and what is needed to go on with it.

    Parameters
    ----------
    path : Path
        The folder; it need not be there yet.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from kronfill.streaming.storage.work_directory import WorkDirectory
    >>> work = WorkDirectory(Path(tempfile.mkdtemp()))
    >>> work.check({"mu": 0.1})
    'nothing yet'
    >>> work.note({"mu": 0.1}, done=False)
    >>> work.check({"mu": 0.1})
    'a fit that is not finished'
    """

    path: Path

    @property
    def has_partitions(self) -> bool:
        """Whether the table has been sorted, or some of it."""
        return any(self.path.glob("by-*/journal.json"))

    def partitions(self, by: int) -> Path:
        """Return the folder of the partitions whose outer items are rows (0) or columns (1)."""
        return self.path / ("by-columns" if by else "by-rows")

    def check(self, settings: Mapping[str, Any], resume: bool = True) -> str:
        """Say what is there; raise if it must not be gone on with.

        Parameters
        ----------
        settings : mapping of str to object
            All that the fit depends on, by the names that messages are to use.
        resume : bool, default=True
            Whether to go on with what is there.

        Returns
        -------
        str
        """
        found = self._note()
        if found is None and not self.has_partitions:
            return "nothing yet"
        done = found is None or bool(found.get("done"))
        what = "the partitions of a fit that is done" if done else "a fit that is not finished"
        if not resume:
            msg = (
                f"{self.path} holds {what} already. Go on with it ({argument('resume', True)}), or "
                f"use another {argument('work_dir')}."
            )
            raise ParameterError(msg)
        before = (found or {}).get("settings", settings)
        changed = [name for name, value in settings.items() if before.get(name) != value]
        if TABLE in changed or (changed and not done):
            msg = (
                f"{self.path} holds {what}, but with other settings: {', '.join(changed)} changed "
                f"since. Give the same as before, or use another {argument('work_dir')}."
            )
            raise ParameterError(msg)
        return what

    def _note(self) -> dict[str, Any] | None:
        path = self.path / NOTE
        try:
            found = json.loads(path.read_text())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            msg = f"{path} cannot be read: {error}. Use another {argument('work_dir')}."
            raise StorageError(msg) from None
        if not isinstance(found, dict):
            msg = f"{path} is damaged. Use another {argument('work_dir')}."
            raise StorageError(msg)
        return found

    def note(self, settings: Mapping[str, Any], done: bool) -> None:
        """Write down what the folder is for, and whether the fit is done."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            msg = (
                f"{self.path} cannot be made: {error.strerror}; use another {argument('work_dir')}."
            )
            raise StorageError(msg) from error
        text = json.dumps({"settings": dict(settings), "done": done}, indent=1)
        write_whole(self.path / NOTE, text.encode())
