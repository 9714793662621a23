"""The number with the least error along a path of trial fits: mu, for whatever method.

A coarse path goes down by powers of ten. It is not left at the first rise: only where two trials
in a row are clearly worse than the best one so far and it is not falling again, or three are no
better. Then parabolas through the best trial and its neighbours, in the logarithms of mu and of the
error, lead to the minimum; the search is over once both neighbours are hardly worse, or little
worse and the parabola promises hardly better.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from kronfill._progress import tell
from kronfill.errors import ConvergenceWarning
from kronfill.ridge.solution import Solution

__all__ = ["Search", "Trial", "chosen", "coarse_path", "least_error", "refined"]

CLEARLY = 0.04
"""A mean square error that is larger by this share is clearly worse: 2% in its root."""
HARDLY = 0.008
"""One that is larger by no more is hardly worse: 0.4% in its root."""
GAIN, TRUSTED = 0.0005, 0.04
"""A parabola that promises a mean square error smaller by less than the first share is not
followed, if neither of the outer trials is above the best one by more than the second."""
REFINED = 8
"""Most trials between powers of ten."""
TOP, HIGHEST, LOWEST = 0, 3, -6
"""Powers of ten, in units of the scale: where the path begins, and how far it may go."""
HALF = 0.5
"""At an end of the path the only neighbour must be closer than this, in powers of ten."""
NEAR = 0.05
"""Two trials whose logarithms (to base ten) are closer than this tell the same."""


@dataclass(frozen=True)
class Trial:
    """One trial fit.

    Attributes
    ----------
    mu : float
        Its ridge weight.
    error : float
        Its error: the mean square error of entries that were hidden from it.
    solution : Solution or None
        How the solve behind it ended; None where it is exact.
    rank : int or None
        Number of factors, where there are any.
    """

    mu: float
    error: float
    solution: Solution | None = None
    rank: int | None = None

    @property
    def sound(self) -> bool:
        """Whether the number can be relied upon."""
        settled = self.solution is None or self.solution.converged or self.solution.settled
        return settled and bool(np.isfinite(self.error))


@dataclass(frozen=True)
class Search:
    """What a search has looked at, and what it chose.

    Attributes
    ----------
    mu : float
        The choice.
    trials : tuple of Trial
        What was looked at, in that order.
    criterion : str
        What an error is.
    rank : int or None
        The number of factors chosen, where there are any.

    Examples
    --------
    >>> import numpy as np, kronfill as kf
    >>> X = np.argwhere(np.ones((6, 5)))
    >>> found = kf.KKMCEX(mu="auto", center="mean").fit(X, X[:, 0] + 0.1 * X[:, 1]).mu_search_
    >>> found.criterion, found.mu == min(found.trials, key=lambda trial: trial.error).mu
    ('leave-one-out', True)
    """

    mu: float
    trials: tuple[Trial, ...]
    criterion: str
    rank: int | None = None


def least_error(ask: Callable[[float], Trial], scale: float, criterion: str) -> Search:
    """The mu with the least error, by a coarse path and parabolas.

    Parameters
    ----------
    ask : callable
        Makes the trial for a mu.
    scale : float
        The natural unit of mu.
    criterion : str
        What an error is.

    Examples
    --------
    >>> from kronfill.criteria.search import Trial, least_error
    >>> bowl = lambda mu: Trial(mu, 1 + np.log10(mu / 0.03) ** 2)
    >>> found = least_error(bowl, 1.0, "height")
    >>> round(found.mu, 2), len(found.trials)
    (0.03, 8)
    """
    trials: list[Trial] = []

    def told(mu: float) -> Trial:
        tell("trials to choose mu", len(trials), None)
        return ask(mu)

    coarse_path(told, scale, trials)
    refined(told, trials)
    return chosen(trials, criterion)


def coarse_path(
    ask: Callable[[float], Trial], scale: float, trials: list[Trial], top: int = TOP
) -> None:
    """Add trials at powers of ten, from the largest down, until it is clear that it got worse."""
    for power in range(top, LOWEST - 1, -1):
        trials.append(ask(scale * 10.0**power))
        least = min((one.error for one in trials if one.sound), default=np.inf)
        clear = len(trials) > 2 and all(_is_worse(one, least) for one in trials[-2:])
        clear = clear and not trials[-1].error < (1 - CLEARLY) * trials[-2].error
        if clear or (len(trials) > 3 and all(one.error > least for one in trials[-3:])):
            break
    for power in range(top + 1, HIGHEST + 1):
        best = _best(trials)
        if best is None or best.mu < max(one.mu for one in trials):
            break
        trials.append(ask(scale * 10.0**power))


def _is_worse(trial: Trial, least: float) -> bool:
    return not trial.sound or trial.error > (1 + CLEARLY) * least


def _best(trials: Sequence[Trial]) -> Trial | None:
    """The best of those that can be relied upon."""
    return min((one for one in trials if one.sound), key=lambda one: one.error, default=None)


def refined(
    ask: Callable[[float], Trial], trials: list[Trial], most: int = REFINED, least: float = GAIN
) -> None:
    """Add trials between the best one and its neighbours, until there is hardly more to gain.

    That is so where both are hardly worse and no parabola says otherwise, or where the parabola
    promises less than ``least``.
    """
    for _ in range(most):
        best = _best(trials)
        if best is None or best.error <= 0:
            return
        at = np.log10([one.mu for one in trials])
        here = np.log10(best.mu)
        sides = [
            min(
                (one for one, x in zip(trials, at, strict=True) if side * (x - here) > 0),
                key=lambda one: abs(np.log10(one.mu) - here),
                default=None,
            )
            for side in (-1, 1)
        ]
        known = [one for one in sides if one is not None]
        wide = len(known) == 1 and abs(np.log10(known[0].mu) - here) > HALF  # it may be between
        place, gain = _vertex(best, sides, here)
        flat = not wide and all(_hardly_worse(one, best) for one in known)
        if gain < least or (flat and not HARDLY < gain < np.inf):
            return
        trials.append(ask(10.0**place))


def _hardly_worse(trial: Trial, best: Trial) -> bool:
    near = abs(np.log10(trial.mu / best.mu)) < NEAR
    return near or (trial.sound and trial.error <= (1 + HARDLY) * best.error)


def _vertex(best: Trial, sides: Sequence[Trial | None], here: float) -> tuple[float, float]:
    """Where a parabola through three trials has its minimum; else within the wider gap.

    And by which share the error falls there; infinity where there is no parabola to trust.
    """
    below, above = sides
    if below is None or above is None:
        other = above if below is None else below
        assert other is not None  # there are two trials at least
        return 0.5 * (here + float(np.log10(other.mu))), np.inf
    low, high = float(np.log10(below.mu)), float(np.log10(above.mu))
    place, gain = np.nan, np.inf
    if below.sound and above.sound:
        f, g, h = np.log([below.error, best.error, above.error])
        left, right = (here - low) * (g - h), (here - high) * (g - f)
        if left != right:
            place = here - 0.5 * ((here - low) * left - (here - high) * right) / (left - right)
            if low < place < high and max(f, h) <= g + TRUSTED:
                bend = (left - right) / ((here - low) * (here - high) * (high - low))
                gain = abs(bend) * (place - here) ** 2
    wide = low if here - low > high - here else high
    if not low < place < high or abs(place - here) < 0.5 * NEAR:
        return here + 0.38 * (wide - here), gain
    edge = 0.15 * min(here - low, high - here)  # not on top of a neighbour
    return float(np.clip(place, low + edge, high - edge)), gain


def chosen(trials: Sequence[Trial], criterion: str) -> Search:
    """The best of the trials; a warning if one that cannot be relied upon looked better."""
    doubtful = [one for one in trials if not one.sound]
    best = _best(trials) or min(trials, key=lambda one: one.error)
    looked = [one for one in doubtful if one.error <= best.error]
    if looked:
        message = (
            f"mu = {best.mu:.3g} was chosen on trial fits of which those for mu = "
            f"{', '.join(f'{one.mu:.3g}' for one in sorted(doubtful, key=lambda t: t.mu))} did not "
            "converge: the choice may be poor. Give mu as a number, or use kernels of a smaller "
            "range of similarities."
        )
        warnings.warn(message, ConvergenceWarning, stacklevel=2)
    return Search(best.mu, tuple(trials), criterion, best.rank)
