"""Kernels of one axis that depend on a few positive numbers: weights of a sum, or parameters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from kronfill._types import Floats, Index
from kronfill.data.arrays import real_array
from kronfill.errors import KernelError, ParameterError
from kronfill.kernels import Kernel, as_kernel

__all__ = ["Family", "Fixed", "Mixture", "Parameters", "as_family"]


STEP = 1e-4
"""Relative step of the central differences by kernel parameters."""
NEGLIGIBLE = 1e-4
"""A share of the diagonal below this is no part of a sum."""


class Blocks(NamedTuple):
    """A family at the items of a search."""

    block: Callable[[Floats], Floats]
    """From theta to K(theta)."""
    slope: Callable[[Floats, Floats], Floats]
    """From theta and G to <G, dK / dtheta_a> for each a."""


class Family(ABC):
    """Kernels K(theta) over the same items, theta being logarithms of positive numbers."""

    @property
    @abstractmethod
    def start(self) -> Floats:
        """Where a search begins."""

    @property
    @abstractmethod
    def reach(self) -> tuple[float, float]:
        """How far theta may go down and up from the start."""

    @abstractmethod
    def kernel(self, theta: Floats) -> Kernel | None:
        """The kernel for these numbers; None is the identity."""

    @abstractmethod
    def told(self, theta: Floats) -> Any:
        """The numbers in the user's terms."""

    def scale(self, theta: Floats) -> float:
        """K(theta) of a search over ``kernel(theta)``."""
        return 1.0

    @abstractmethod
    def at(self, items: Index) -> Blocks:
        """The family at some of the items."""


class Fixed(Family):
    """One kernel, nothing to search for."""

    def __init__(self, kernel: Kernel | None) -> None:
        self._kernel = kernel

    start = np.zeros(0)
    reach = (0.0, 0.0)

    def kernel(self, theta: Floats) -> Kernel | None:
        """See :class:`Family`."""
        return self._kernel

    def told(self, theta: Floats) -> None:
        """See :class:`Family`."""

    def at(self, items: Index) -> Blocks:
        """See :class:`Family`."""
        block = np.eye(len(items)) if self._kernel is None else self._kernel.block(items, items)
        return Blocks(lambda theta: block, lambda theta, by_kernel: np.zeros(0))


class Mixture(Family):
    """Sums of kernels with non-negative weights.

    Parameters
    ----------
    kernels : sequence of Kernel or array-like of shape (n, n)
        The parts, all over the same items. An identity among them lets items differ from what the
        others say.

    Examples
    --------
    >>> import numpy as np, kronfill as kf
    >>> from kronfill.selection import Mixture
    >>> family = Mixture([np.ones((3, 3)), kf.kernels.identity(3)])
    >>> family.kernel(family.start)
    0.5 * Precomputed(n=3) + 0.5 * Identity(n=3)
    """

    def __init__(self, kernels: Sequence[Any]) -> None:
        parts = [as_kernel(part, f"kernel {k}") for k, part in enumerate(kernels)]
        if not parts or len({part.n for part in parts}) > 1:
            msg = (
                "A mixture needs one or more kernels over the same items, got sizes "
                f"{[part.n for part in parts]}."
            )
            raise KernelError(msg)
        self.kernels = tuple(parts)
        # An all-zero kernel has no size of its own; its weight does not matter.
        self._sizes = np.array([float(part.diagonal().mean()) or 1.0 for part in parts])

    @property
    def start(self) -> Floats:
        """Equal shares of the diagonal."""
        return np.asarray(-np.log(self._sizes * len(self.kernels)))

    reach = (-14.0, 3.0)  # e^-14 times smaller is no part at all

    def told(self, theta: Floats) -> Floats:
        """Weights of the parts; together their mean diagonal is 1, and small shares are 0."""
        share = np.exp(theta - theta.max()) * self._sizes
        share /= share.sum()
        share[share < NEGLIGIBLE] = 0.0
        return np.asarray(share / share.sum() / self._sizes)

    def scale(self, theta: Floats) -> float:
        """See :class:`Family`."""
        return float(np.exp(theta) @ self._sizes)

    def kernel(self, theta: Floats) -> Kernel:
        """See :class:`Family`."""
        pairs = zip(self.told(theta), self.kernels, strict=True)
        total: Kernel = sum(float(w) * part for w, part in pairs if w > 0)  # type: ignore[assignment]
        return total

    def at(self, items: Index) -> Blocks:
        """See :class:`Family`."""
        parts = np.array([part.block(items, items) for part in self.kernels])
        return Blocks(
            lambda theta: np.asarray(np.tensordot(np.exp(theta), parts, axes=1)),
            lambda theta, by_kernel: np.exp(theta) * np.tensordot(parts, by_kernel, axes=2),
        )


class Parameters(Family):
    """A kernel with positive parameters, such as length scales.

    Parameters
    ----------
    make : callable
        ``make(**parameters)`` returns the kernel.
    **start : float or array-like
        Where the search begins, by the name of the parameter; all positive. An array is a
        parameter for each of its entries.

    Examples
    --------
    >>> import kronfill as kf
    >>> from kronfill.selection import Parameters
    >>> points = [[0.0], [1.0], [3.0]]
    >>> family = Parameters(lambda length_scale: kf.kernels.rbf(points, length_scale),
    ...                     length_scale=1.0)
    >>> family.kernel(family.start)
    RBF(n=3, length_scale=1)
    """

    def __init__(self, make: Callable[..., Any], **start: Any) -> None:
        if not start:
            msg = "Parameters needs a starting value for each parameter: length_scale=1.0, say."
            raise ParameterError(msg)
        self.make = make
        self._shapes: dict[str, tuple[int, ...]] = {}
        logs = []
        for name, value in start.items():
            array = real_array(value, name)
            if not (np.isfinite(array).all() and (array > 0).all()):
                msg = f"The starting value of {name} must be positive, got {value!r}."
                raise ParameterError(msg)
            self._shapes[name] = array.shape
            logs.append(np.log(array).ravel())
        self._start = np.concatenate(logs)

    @property
    def start(self) -> Floats:
        """See :class:`Family`."""
        return self._start

    reach = (-7.0, 7.0)  # a factor of a thousand

    def told(self, theta: Floats) -> dict[str, Any]:
        """Parameters by name."""
        out: dict[str, Any] = {}
        first = 0
        for name, shape in self._shapes.items():
            size = int(np.prod(shape))
            values = np.exp(theta[first : first + size])
            out[name] = values.reshape(shape) if shape else float(values[0])
            first += size
        return out

    def kernel(self, theta: Floats) -> Kernel:
        """See :class:`Family`."""
        return as_kernel(self.make(**self.told(theta)), "the kernel that was made")

    def at(self, items: Index) -> Blocks:
        """See :class:`Family`: slopes by central differences."""

        def block(theta: Floats) -> Floats:
            return self.kernel(theta).block(items, items)

        def slope(theta: Floats, by_kernel: Floats) -> Floats:
            steps = STEP * np.eye(len(theta))
            up = (np.vdot(by_kernel, block(theta + step)) for step in steps)
            down = (np.vdot(by_kernel, block(theta - step)) for step in steps)
            return np.array([(u - d) / (2 * STEP) for u, d in zip(up, down, strict=True)])

        return Blocks(block, slope)


def as_family(given: Any, kernel: Kernel | None, name: str) -> Family:
    """What is searched for on one axis: nothing, a mixture or parameters."""
    if given is None:
        return Fixed(kernel)
    if isinstance(given, Family):
        return given
    if isinstance(given, list | tuple):
        return Mixture(given)
    msg = (
        f"{name} must be None, a list of kernels (their weights are learned), Mixture(...) or "
        f"Parameters(make, ...), got {type(given).__name__}."
    )
    raise ParameterError(msg)
