"""Conjugate gradients: the one loop behind every iterative solve.

Several right-hand sides go through it together, along the first axis of every array; each leaves
the loop when the caller says so. The iteration for A x = b with a preconditioner P ~ A^-1 is

    x += s p,    r -= s A p,    s = <r, P r> / <p, A p>,    p = P r + (<r, P r> / its last value) p

so that ||x - A^-1 b|| in the norm of A falls with every step.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kronfill._types import Flags, Floats, Index
from kronfill.ridge.system import inner

__all__ = ["Descent", "conjugate_gradients", "per_target"]

Map = Callable[[Floats], Floats]


class Descent:
    """Where the loop is, for the right-hand sides that are still in it."""

    def __init__(self, times: Map, precondition: Map, r: Floats) -> None:
        self._times = times
        self._precondition = precondition
        self.x = np.zeros_like(r)
        self.r = r
        """Residuals; the array of right-hand sides is overwritten."""
        self._turned: Floats | None = None
        self._direction: Floats | None = None
        self._energy = self._last = self.initial = np.zeros(len(r))
        """The energy of the right-hand sides."""

    def energy(self) -> Floats:
        """<r, P r> of each: about the square of the error of x, in the norm of A."""
        if self._turned is None:
            self._turned = self._precondition(self.r)
            self._energy = inner(self.r, self._turned)
        return self._energy

    def advance(self) -> Flags:
        """One step; which of them were sound, that is, along a direction of positive curvature."""
        rho = self.energy()
        turned = self._turned
        assert turned is not None  # energy() has made it
        if self._direction is None:
            self._direction, self.initial = turned, rho
        else:
            self._direction *= per_target(rho / self._last, self.r)
            self._direction += turned
        image = self._times(self._direction)
        curvature = inner(self._direction, image)
        sound = (curvature > 0) & (rho > 0)
        step = np.divide(rho, curvature, out=np.zeros_like(rho), where=sound)
        step = per_target(step, self.r)
        self.x += step * self._direction
        self.r -= step * image
        self._last, self._turned = rho, None
        return np.asarray(sound)

    def keep(self, which: Flags) -> None:
        """Go on with some of them."""
        assert self._direction is not None
        self.x, self.r, self._direction = self.x[which], self.r[which], self._direction[which]
        self._last, self._energy = self._last[which], self._energy[which]
        self.initial = self.initial[which]
        if self._turned is not None:
            self._turned = self._turned[which]


def conjugate_gradients(
    times: Map,
    precondition: Map,
    rhs: Floats,
    leave: Callable[[Index, Descent, Flags], Flags],
) -> Floats:
    """Approximate solutions of A x = rhs, from zero.

    Parameters
    ----------
    times, precondition : callable
        A and P, on arrays whose first axis runs over right-hand sides. What ``precondition``
        returns is overwritten.
    rhs : ndarray
        Right-hand sides; overwritten.
    leave : callable
        ``leave(which, descent, sound)`` after every step: of the right-hand sides at positions
        ``which``, those that are done. One whose step was not sound must be among them.

    Examples
    --------
    >>> import numpy as np
    >>> from kronfill.solvers.cg import conjugate_gradients
    >>> a = np.array([[2.0, 1.0], [1.0, 3.0]])
    >>> leave = lambda which, descent, sound: ~sound | (descent.energy() < 1e-20)
    >>> conjugate_gradients(lambda p: p @ a, np.copy, np.array([[3.0, 4.0]]), leave).round(9)
    array([[1., 1.]])
    """
    descent = Descent(times, precondition, rhs)
    count = len(rhs)
    which = np.arange(count)
    out: Floats | None = None
    while len(which):
        done = leave(which, descent, descent.advance())
        if not done.any():
            continue
        if out is None and done.all():
            return descent.x
        out = np.empty((count, *rhs.shape[1:]), rhs.dtype) if out is None else out
        out[which[done]] = descent.x[done]
        which = which[~done]
        descent.keep(~done)
    return descent.x if out is None else out


def per_target(values: Floats, like: Floats) -> Floats:
    """One number per right-hand side, shaped to multiply arrays of all of them."""
    return values.astype(like.dtype).reshape(-1, *[1] * (like.ndim - 1))
