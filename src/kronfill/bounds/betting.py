"""What a hold-out part proves: bets that the losses are small, without replacement.

Of n = u + v entries v are seen, in random order; entry a has a loss x_a between 0 and a ceiling c_a
that is known for all n of them. Before the s-th is seen choose w_a >= c_a for all entries that are
left. Their headroom w_a - x_a is not negative, and one who stakes all he has on it multiplies his
wealth by the headroom of the entry that comes over the mean headroom of those left. That factor has
the mean 1, so that his wealth after all v,

    E = prod over s = 1 .. v of  (w_s - x_s) (n - s + 1) / (A_s - u r),

with r the mean loss of the u entries never seen and A_s = sum of w over the entries left less
x_s + ... + x_v, is a martingale that starts at 1 and is never negative: P(E >= 1/delta) <= delta
(Ville). E grows with r, so that the r with E < 1/delta are an interval; its end is the bound.

No other game does better: what has a mean of at most 1 for all losses of a given mean is at most
k_a - l x_a for some l and k_a >= l c_a. A bold player sets w_a = max(c_a, level) with a level below
the largest ceiling, which pays where losses are small; a timid one w_a = level above all ceilings,
in proportion to the number of entries left, as the variance of the losses wants it (what is not yet
seen weighs the more the fewer are left). Who is best depends on the losses, so each gets a share of
the stake: the sum of their wealths is a martingale too.

I. Waudby-Smith, A. Ramdas, Estimating means of bounded random variables by betting, JRSS B 86
(2024), where w is a constant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import logsumexp

from kronfill._types import Floats
from kronfill.bounds.ceilings import Ceilings

__all__ = ["Game", "betting_bound", "first_refuted"]


@dataclass(frozen=True, eq=False)
class Player:
    """One who bets: his share of the stake, his headrooms, and A_s of each bet."""

    share: float
    headroom: Floats
    left: Floats

    def log_wealth(self, unseen: float) -> float:
        """Return ln E less the sum of ln(n - s + 1), for losses never seen that add up to this."""
        if self.headroom.min() <= 0.0:
            return -np.inf
        mean = self.left - unseen
        if mean.min() <= 0.0:  # more losses than the ceilings of those left allow
            return np.inf
        return float(np.log(self.headroom).sum() - np.log(mean).sum())


@dataclass(frozen=True, eq=False)
class Game:
    """The bets of all players on v entries, of which n = u + v were to be seen."""

    players: tuple[Player, ...]
    u: int

    @classmethod
    def of(cls, losses: Floats, ceilings: Floats, rest: Ceilings, delta: float) -> Game:
        """One bold player and several timid ones; what they do is settled before a loss is seen."""
        whole = rest + Ceilings.of([ceilings], rest.most)  # which of them are seen plays no part
        level = whole.boldest_level(np.log(1.0 / delta) / len(losses))
        headroom = np.maximum(ceilings, level) - losses
        bold = Player(1.0, headroom, rest.total_above(level) + _from_here_on(headroom))
        return cls((bold, *_timid(losses, whole.top, rest.count)), rest.count)

    def log_wealth(self, mean: float) -> float:
        """Return ln E if the mean loss of the entries never seen is this."""
        v = len(self.players[0].headroom)
        logs = [player.log_wealth(self.u * mean) for player in self.players]
        shares = np.array([player.share for player in self.players])
        odds = np.log(np.arange(self.u + v, self.u, -1.0)).sum()
        return float(logsumexp(logs, b=shares / shares.sum()) + odds)


def _timid(losses: Floats, top: float, u: int) -> Iterator[Player]:
    """Levels top, 2 top, 4 top, ... at the beginning.

    Losses of standard deviation s are best met by s sqrt(v n / (2 u ln(1/delta))), and s is at most
    top / 2.
    """
    n = u + len(losses)
    left = np.arange(n, u, -1.0)
    to_come = _from_here_on(losses)
    highest = max(0.0, np.log2(0.5 * np.sqrt(len(losses) * n / u)))
    for j in range(int(np.ceil(highest)) + 1):
        level = top * np.maximum(1.0, 2.0**j * left / n)
        yield Player(1.0 / (1.0 + j) ** 2, level - losses, level * left - to_come)


def _from_here_on(values: Floats) -> Floats:
    """Sum of each value and all after it."""
    return np.asarray(np.cumsum(values[::-1])[::-1])


def betting_bound(losses: Floats, ceilings: Floats, rest: Ceilings, delta: float) -> float:
    """Upper bound on the mean loss of the entries not seen, right with probability 1 - delta.

    Parameters
    ----------
    losses, ceilings : ndarray of shape (v,)
        The losses seen, in random order, and the largest that each could have been.
    rest : Ceilings
        The ceilings of the entries not seen.
    delta : float
        Probability of being wrong.

    Returns
    -------
    float
        At most the mean of the ceilings of the entries not seen.

    Examples
    --------
    >>> import numpy as np
    >>> from kronfill.bounds.betting import betting_bound
    >>> from kronfill.bounds.ceilings import Ceilings
    >>> rest = Ceilings.of([np.ones(9000)], most=1.0)
    >>> round(betting_bound(np.full(1000, 0.01), np.ones(1000), rest, 0.05), 4)
    0.0133
    """
    highest = rest.total / rest.count
    game = Game.of(losses, ceilings, rest, delta)

    def excess(mean: float) -> float:
        return float(np.clip(game.log_wealth(mean) + np.log(delta), -1e9, 1e9))

    return first_refuted(excess, highest)


def first_refuted(excess: Callable[[float], float], highest: float) -> float:
    """Where a growing function reaches 0 between 0 and ``highest``, rounded up; else the end."""
    if not excess(highest) > 0.0:
        return float(highest)
    if excess(0.0) >= 0.0:
        return 0.0
    tol = 1e-9 * highest
    return float(min(highest, brentq(excess, 0.0, highest, xtol=tol) + 2 * tol))
