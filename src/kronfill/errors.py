"""Every exception and warning that kronfill raises on purpose.

All exceptions derive from :class:`KronfillError` and also from the built-in exception that fits
best, so that ``except ValueError`` keeps working.

Examples
--------
>>> import kronfill as kf
>>> try:
...     kf.Observations([0, 0], [1, 1], [3.0, 4.0], shape=(2, 2))
... except kf.errors.DuplicateEntryError as error:
...     print(type(error).__name__)
DuplicateEntryError
"""

from __future__ import annotations

from collections.abc import Callable

__all__ = [
    "ConvergenceWarning",
    "DataError",
    "DuplicateEntryError",
    "EmptyDataError",
    "FeatureError",
    "IllConditionedWarning",
    "IndexRangeError",
    "KernelError",
    "KronfillError",
    "KronfillWarning",
    "LabelError",
    "MemoryLimitError",
    "MissingDependencyError",
    "ModelFileError",
    "NonFiniteError",
    "NotPSDError",
    "NotSymmetricError",
    "ParameterError",
    "ShapeError",
    "StorageError",
    "argument",
]

_MARK = "\u2063"
"""A character that nobody writes or sees: it stands on both sides of a parameter in a message."""
_UNSAID = object()


def argument(name: str, value: object = _UNSAID) -> str:
    """Mark a parameter in the message of an error, so that other interfaces can respell it.

    Parameters
    ----------
    name : str
        The parameter, as Python spells it in a sentence ("level") or a call ("rows=").
    value : object, optional
        What to give for it; ``...`` stands for whatever there is.

    Returns
    -------
    str
        Such as "level", "rows=", "rows=..." or "unmatched='keep'", with marks that are not seen.

    Examples
    --------
    >>> from kronfill.errors import ParameterError, argument
    >>> error = ParameterError(f"{argument('level')} must lie between 0 and 1, got 7.")
    >>> error.parameter, str(error)
    ('level', 'level must lie between 0 and 1, got 7.')
    >>> error.spelled(lambda name: f"--{name}")
    '--level must lie between 0 and 1, got 7.'
    """
    shown = "..." if value is ... else repr(value)
    return f"{_MARK}{name if value is _UNSAID else f'{name}={shown}'}{_MARK}"


class KronfillError(Exception):
    """Base class of every exception of this library.

    Parameters
    ----------
    message : str
        What is wrong, what was got and what is allowed; see :func:`argument`.
    parameter : str, optional
        The parameter that it is about; by default the first that is marked in the message.
    advice : str, optional
        What to try in Python, where that is something else elsewhere: the end of the message.

    Attributes
    ----------
    parameter : str or None
        Name of the parameter that it is about, where there is one.
    advice : str
        See above.
    """

    def __init__(
        self, message: str = "", *, parameter: str | None = None, advice: str = ""
    ) -> None:
        super().__init__(message)
        marked = str(message).split(_MARK)[1:2]
        self.parameter = parameter or next((text.partition("=")[0] for text in marked), None)
        self.advice = advice

    def spelled(self, spell: Callable[[str], str], advice: str | None = None) -> str:
        """Return the message for another interface.

        Parameters
        ----------
        spell : callable
            Gives the spelling of a parameter there, from that of Python.
        advice : str, optional
            What to try there, in place of the error's own advice.

        Returns
        -------
        str
        """
        pieces = str(self.args[0] if self.args else "").split(_MARK)
        pieces[1::2] = [spell(text) for text in pieces[1::2]]
        ending = self.advice if advice is None else advice
        return "".join(pieces) + (f" {ending}" if self.advice else "")

    def __str__(self) -> str:
        return self.spelled(str)


class DataError(KronfillError, ValueError):
    """The observations handed in cannot be used as they are."""


class EmptyDataError(DataError):
    """There is no observation, no row or no column."""


class NonFiniteError(DataError):
    """A value, weight or feature is NaN or infinite."""


class DuplicateEntryError(DataError):
    """The same (row, column) entry was given more than once."""


class ShapeError(DataError):
    """Arrays that belong together have different lengths or the wrong number of dimensions."""


class IndexRangeError(DataError, IndexError):
    """A row or column index lies outside the matrix, or is not an integer."""


class LabelError(DataError, KeyError):
    """A row or column label is unknown, missing or ambiguous."""


class KernelError(KronfillError, ValueError):
    """A kernel cannot be built or evaluated as asked."""


class NotSymmetricError(KernelError):
    """A kernel matrix is not symmetric."""


class NotPSDError(KernelError):
    """A kernel matrix has a negative eigenvalue.

    Attributes
    ----------
    smallest_eigenvalue : float or None
        The offending eigenvalue, where it was computed.
    """

    def __init__(
        self, message: str, smallest_eigenvalue: float | None = None, *, advice: str = ""
    ) -> None:
        super().__init__(message, advice=advice)
        self.smallest_eigenvalue = smallest_eigenvalue


class FeatureError(KernelError):
    """A feature table has missing values, unusable columns or the wrong width."""


class ParameterError(KronfillError, ValueError):
    """A parameter of an estimator, solver or function is out of its range."""


class MemoryLimitError(MemoryError, KronfillError):
    """The problem would need more memory than there is; nothing was started."""

    # MemoryError has to come first for its objects to be made anew in another process.
    def __init__(
        self, message: str = "", *, parameter: str | None = None, advice: str = ""
    ) -> None:
        KronfillError.__init__(self, message, parameter=parameter, advice=advice)


class StorageError(KronfillError, OSError):
    """A file cannot be read or written: a full disk, a missing or damaged partition."""


class MissingDependencyError(KronfillError, ImportError):
    """An optional package is needed for what was asked."""


class ModelFileError(KronfillError, OSError, ValueError):
    """A model cannot be saved, or a file is not the whole and unchanged model it should be."""


class KronfillWarning(UserWarning):
    """Base class of every warning of this library."""


class ConvergenceWarning(KronfillWarning):
    """An iterative solver stopped before it reached its tolerance."""


class IllConditionedWarning(KronfillWarning):
    """The system is singular to working precision; what was done about it is in ``solution_``."""
