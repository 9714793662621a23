"""Objects whose attributes are written once, while they are built."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy import sparse

from kronfill.kernels._indexing import frozen

__all__ = ["Immutable"]


class Immutable:
    """Arrays are read-only, attributes cannot be set; copying returns the same object."""

    def _set(self, **attributes: Any) -> None:
        for value in attributes.values():
            if isinstance(value, np.ndarray) or sparse.issparse(value):
                frozen(value)
        self.__dict__.update(attributes)

    def _with(self, **changes: Any) -> Self:
        """Return the same kind of kernel with some attributes replaced."""
        other = object.__new__(type(self))
        other._set(**{**self.__dict__, **changes})
        return other

    def __setattr__(self, name: str, value: object) -> None:
        msg = f"a kernel cannot be changed (setting {name!r}); build a new one instead"
        raise AttributeError(msg)

    def __delattr__(self, name: str) -> None:
        msg = f"a kernel cannot be changed (deleting {name!r}); build a new one instead"
        raise AttributeError(msg)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._set(**state)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __sklearn_clone__(self) -> Self:
        return self
