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
]


class KronfillError(Exception):
    """Base class of every exception of this library."""


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

    def __str__(self) -> str:
        # KeyError would show the repr of the message.
        return str(self.args[0]) if self.args else ""


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

    def __init__(self, message: str, smallest_eigenvalue: float | None = None) -> None:
        super().__init__(message)
        self.smallest_eigenvalue = smallest_eigenvalue


class FeatureError(KernelError):
    """A feature table has missing values, unusable columns or the wrong width."""


class ParameterError(KronfillError, ValueError):
    """A parameter of an estimator, solver or function is out of its range."""


class MemoryLimitError(KronfillError, MemoryError):
    """The problem would need more memory than there is; nothing was started."""


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
