"""Writing a report to a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kronfill._atomic import written_whole
from kronfill._progress import ShareProgress
from kronfill.completion.judging.evaluation import Evaluation
from kronfill.errors import StorageError
from kronfill.report.build import build
from kronfill.report.html.page import page

__all__ = ["write_report"]


def write_report(
    completion: Any,
    path: Any,
    *,
    evaluation: Evaluation | None = None,
    value_range: tuple[float, float] | None = None,
    seed: int = 0,
    progress: ShareProgress | None = None,
) -> Path:
    """Write a page about a completed table: one HTML file that needs nothing but a browser.

    It says what went in and what was missing, the method with its parameters, how accurate it is
    on entries, rows and columns that were hidden, shows the completed table with its uncertainty,
    explains the most uncertain and the most surprising entries, and states the certificate.

    Parameters
    ----------
    completion : Completion
        What :func:`kronfill.complete` returned.
    path : str or path
        The file. One that is there is replaced, in one step, once the new one is complete.
    evaluation : Evaluation, optional
        How accurate the predictions are, if :func:`evaluate` was called before.
    value_range : tuple of float, optional
        Range (low, high) that all values are known to obey, from what they mean. Without it the
        page has no certificate.
    seed : int, default=0
        Seed of what is hidden to measure accuracy, and of samples from large tables.
    progress : callable, optional
        Called with what is being done (text) and the share that is done (from 0 to 1).

    Returns
    -------
    Path
        The file.

    Raises
    ------
    StorageError
        If the file cannot be written; one that was there before is as it was.

    See Also
    --------
    evaluate : The accuracy by itself.

    Examples
    --------
    >>> import tempfile, numpy as np, pandas as pd, kronfill as kf
    >>> from kronfill.report import write_report
    >>> table = pd.DataFrame(np.add.outer(np.arange(6.0), np.arange(5.0)))
    >>> done = kf.complete(table.mask(table == 4.0), method="mc", rank=2, mu=0.1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = write_report(done, f"{folder}/report.html")
    ...     page.name, "How accurate it is" in page.read_text(encoding="utf-8")
    ('report.html', True)
    """
    target = _place(path)
    text = page(build(completion, evaluation, value_range, seed, progress))
    try:
        with written_whole(target) as file:
            file.write(text.encode("utf-8"))
    except StorageError as error:
        msg = f"{error} What was there before is unchanged."
        raise StorageError(msg) from error
    if progress is not None:
        progress("done", 1.0)
    return target


def _place(path: Any) -> Path:
    """The file, unless it is plain before any work that it cannot be written."""
    target = Path(path)
    if target.is_dir():
        msg = f"{target} cannot be written: it is a folder. Name a file in it, such as report.html."
        raise StorageError(msg)
    if not target.absolute().parent.is_dir():
        msg = f"{target} cannot be written: there is no folder {target.parent}. Make it first."
        raise StorageError(msg)
    return target
