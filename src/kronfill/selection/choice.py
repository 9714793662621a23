"""A choice among candidates, and what error to expect of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from kronfill._progress import as_progress, tell, told_to
from kronfill._types import Floats
from kronfill.data import Observations
from kronfill.errors import ParameterError
from kronfill.estimators import KKMCEX, RRMCEX
from kronfill.estimators.base import chosen_from, mark_chosen, validated
from kronfill.estimators.folds import left_out
from kronfill.selection.kernels import KernelTuner, prepared
from kronfill.selection.path import check_method, mu_path

__all__ = ["Choice", "Nested", "choose"]


@dataclass(frozen=True, eq=False)
class Nested:
    """What happened when the whole choice was repeated inside each outer fold.

    Attributes
    ----------
    rmse : float
        Root mean square error of the outer test entries.
    standard_error : float
        Of ``rmse``, from the spread between the outer folds.
    by_fold : ndarray of shape (folds,)
        Root mean square error of each fold.
    names : tuple of str
        The candidate chosen in each fold.
    """

    rmse: float
    standard_error: float
    by_fold: Floats
    names: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Choice:
    """A choice among candidates.

    Attributes
    ----------
    name : str
        The candidate with the smallest error.
    estimator : estimator
        It, fitted to all observations. It remembers among how many it was chosen, which a
        :func:`~kronfill.bounds.certificate` has to pay for.
    rmse : dict of str to float
        Root mean square error of each candidate, by which it was chosen. That of the winner is
        optimistic: it was selected for being small.
    nested : Nested or None
        The honest error of the choice, if outer folds were given.

    See Also
    --------
    choose : Makes one.
    """

    name: str
    estimator: Any
    rmse: dict[str, float]
    nested: Nested | None = None


def choose(
    candidates: Mapping[str, Any],
    X: Any,
    y: Any = None,
    *,
    cv: Any = None,
    outer: Any = None,
    progress: Any = False,
) -> Choice:
    """Choose among candidates by their error on entries that they have not seen.

    Parameters
    ----------
    candidates : dict of str to estimator
        Estimators with different kernels, methods or centring, :class:`KernelTuner` included.
    X : array-like of shape (m, 2) or Observations
        Observed entries.
    y : array-like of shape (m,), optional
        Their values; left out when ``X`` is an :class:`~kronfill.Observations`.
    cv : splitter, optional
        Inner folds: the splitter says which question is asked, :class:`RowKFold` for new rows. By
        default leave-one-out, from the exact formula; for KKMCEX and RRMCEX only.
    outer : splitter, optional
        Outer folds. The whole choice is repeated without the entries of each, and judged on them.
    progress : bool or callable, default=False
        Show how far the work is, or call this with (what, done, total); total is None where
        nobody knows.

    Returns
    -------
    Choice

    Examples
    --------
    >>> import numpy as np, kronfill as kf
    >>> from kronfill.selection import EntryKFold, choose
    >>> rng = np.random.default_rng(0)
    >>> place, noise = np.linspace(0, 1, 20), rng.random(20)
    >>> X = np.argwhere(rng.random((20, 15)) < 0.5)
    >>> y = np.sin(6 * place[X[:, 0]]) * X[:, 1]
    >>> candidates = {
    ...     "place": kf.KKMCEX(kf.kernels.rbf(place), None, mu="auto", center="mean"),
    ...     "noise": kf.KKMCEX(kf.kernels.rbf(noise), None, mu="auto", center="mean"),
    ... }
    >>> choice = choose(candidates, X, y, outer=EntryKFold(3))
    >>> choice.name, choice.nested.names
    ('place', ('place', 'place', 'place'))
    """
    if not isinstance(candidates, Mapping) or not candidates:
        msg = f"candidates must be a dictionary of estimators by name, got {candidates!r}."
        raise ParameterError(msg)
    with told_to(as_progress(progress, "Choosing")):
        return _chosen(candidates, X, y, cv, outer)


def _chosen(candidates: Mapping[str, Any], X: Any, y: Any, cv: Any, outer: Any) -> Choice:
    observations = _observations(next(iter(candidates.values())), X, y)
    errors: dict[str, float] = {}
    for name, one in candidates.items():
        tell("candidates", len(errors), len(candidates))
        errors[name] = _error(one, observations, cv)
    if not np.isfinite(list(errors.values())).any():
        msg = "No candidate has an error: every entry alone determines an effect. Give cv."
        raise ParameterError(msg)
    name = min(errors, key=lambda key: np.nan_to_num(errors[key], nan=np.inf))
    nested = None if outer is None else _nested(candidates, observations, cv, outer)
    winner = clone(candidates[name])
    count = sum(chosen_from(_method(one)) for one in candidates.values())
    mark_chosen(_method(winner), count)
    return Choice(name, winner.fit(observations), errors, nested)


def _method(candidate: Any) -> Any:
    """The method that a candidate fits in the end."""
    return candidate.estimator if isinstance(candidate, KernelTuner) else candidate


def _observations(candidate: Any, X: Any, y: Any) -> Observations:
    """The observations, with the size that the kernels of a candidate say."""
    if isinstance(candidate, KernelTuner):
        return prepared(candidate, X, y)[2]
    return validated(check_method(candidate), X, y)[1]


def _error(candidate: Any, observations: Observations, cv: Any) -> float:
    """Root mean square error of entries that were not seen."""
    if cv is None:
        if not isinstance(candidate, KKMCEX | RRMCEX):
            msg = (
                "Without cv a candidate must be KKMCEX or RRMCEX, which have an exact "
                f"leave-one-out error; got {type(candidate).__name__}. Give cv=EntryKFold(5)."
            )
            raise ParameterError(msg)
        mus = None if isinstance(candidate.mu, str) else [candidate.mu]
        path = mu_path(candidate, observations, mus=mus, criterion="loo")
        return float(np.sqrt(np.min(path.criteria["loo"])))
    total, weight = 0.0, 0.0
    splits = cv.split(observations.X)
    for fold in left_out(lambda part: clone(candidate).fit(part), observations, splits):
        w = np.ones(fold.held.m) if fold.held.weights is None else fold.held.weights
        total, weight = total + float(w @ fold.gap**2), weight + float(w.sum())
    return float(np.sqrt(total / weight))


def _nested(
    candidates: Mapping[str, Any], observations: Observations, cv: Any, outer: Any
) -> Nested:
    squares, sizes, names = [], [], []

    def chosen(part: Observations) -> Any:
        choice = choose(candidates, part, cv=cv)
        names.append(choice.name)
        return choice.estimator

    for fold in left_out(chosen, observations, outer.split(observations.X)):
        weights = fold.held.weights
        squares.append(float(np.average(fold.gap**2, weights=weights)))
        sizes.append(float(fold.held.m if weights is None else weights.sum()))
    folds = np.array(squares)
    rmse = float(np.sqrt(np.average(folds, weights=sizes)))
    spread = folds.std(ddof=1) / np.sqrt(len(folds)) if len(folds) > 1 else np.inf
    return Nested(rmse, float(spread / (2 * rmse)), np.sqrt(folds), tuple(names))
