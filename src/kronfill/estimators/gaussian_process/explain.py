"""Why this number: a prediction as a sum over the observations.

By the representer theorem f(i, j) = sum_k d_k K_w[i, r_k] K_h[j, c_k]: every observation has its
share, the product of its dual coefficient and its similarity with the entry.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from kronfill._optional import needed
from kronfill._types import Floats, Index
from kronfill.data import Observations
from kronfill.errors import LabelError
from kronfill.estimators.gaussian_process.posterior import GaussianProcess
from kronfill.estimators.inputs import check_range
from kronfill.ridge.effects import AdditiveEffects

__all__ = ["Explanation", "explanation", "names_of"]


CANCELS = 10.0
"""Terms that add up to so many times what there is to explain say nothing one by one."""


@dataclass(frozen=True, eq=False)
class Explanation:
    """A prediction taken apart; what :meth:`KKMCEX.explain` returns.

    Attributes
    ----------
    prediction : float
        The value predicted: mean, effects and the contributions of all observations add up to it.
    mean, row_effect, col_effect : float
        The additive part.
    rest : float
        Sum of the contributions of the observations that are not listed.
    rows, cols : ndarray of int
        The observations that contribute most, largest absolute contribution first.
    values : ndarray
        Their observed values.
    contributions : ndarray
        What each adds to the prediction.
    similarities : ndarray
        Similarity of each with the entry asked about, K_w[i, r] K_h[j, c].
    entry : tuple
        The entry asked about, by label where there are labels.
    row_labels, col_labels : list
        Rows and columns of the listed observations, by label where there are labels.
    cancellation : float
        What the contributions of all observations add up to without their signs, divided by the
        largest number that they have to explain: their sum, or an observed value less its effects.
    mu : float
        The ridge weight of the fit; NaN where it is not for the user to choose.
    scale : str
        What values are taken as, "logarithms" for example; nothing if they are as they are.
    """

    entry: tuple[Any, Any]
    prediction: float
    mean: float
    row_effect: float
    col_effect: float
    rest: float
    rows: Index
    cols: Index
    values: Floats
    contributions: Floats
    similarities: Floats
    row_labels: list[Any]
    col_labels: list[Any]
    cancellation: float = 1.0
    mu: float = float("nan")
    scale: str = ""

    @property
    def cancels(self) -> bool:
        """Whether the contributions cancel so much that none of them explains anything."""
        return self.cancellation > CANCELS

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with one line per listed observation."""
        pd = needed("pandas", "to_frame")
        columns = {
            "row": pd.Series(self.row_labels, dtype=None if self.row_labels else object),
            "col": pd.Series(self.col_labels, dtype=None if self.col_labels else object),
            "value": self.values,
            "similarity": self.similarities,
            "contribution": self.contributions,
        }
        return pd.DataFrame(columns)

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        scale = f", values as {self.scale}" if self.scale else ""
        lines = [f"Prediction {self.prediction:.4g} at ({self.entry[0]}, {self.entry[1]}){scale}"]
        for name, part in (
            ("mean", self.mean),
            ("row effect", self.row_effect),
            ("column effect", self.col_effect),
        ):
            if part:
                lines.append(f"  {part:+10.4g}  {name}")
        for row, col, value, part in zip(
            self.row_labels, self.col_labels, self.values, self.contributions, strict=True
        ):
            lines.append(f"  {part:+10.4g}  from ({row}, {col}), observed {value:.4g}")
        if self.rest:
            lines.append(f"  {self.rest:+10.4g}  from all other observations")
        if self.cancels:
            times, larger = f"{self.cancellation:.3g} times", ""
            if not np.isnan(self.mu):
                larger = f"; a larger mu than {self.mu:.3g} makes them smaller"
            lines += [
                f"These terms cancel: without their signs they add up to {times} what there is to",
                "explain, and none of them tells where the prediction comes from. What an",
                f"observation does, a fit without it shows{larger}.",
            ]
        return "\n".join(lines)


def explanation(
    process: GaussianProcess,
    dual: Floats,
    effects: AdditiveEffects,
    obs: Observations,
    entry: tuple[Any, Any],
    top: int,
) -> Explanation:
    """Take the prediction at an entry apart, which is given by labels or indices."""
    i, j = (_position(obs, item, axis) for item, axis in zip(entry, ("row", "column"), strict=True))
    check_range(np.array([i]), obs.shape[0], "row")
    check_range(np.array([j]), obs.shape[1], "column")
    s = process.sampled
    left, right = (
        prior.kernel.block(np.array([at]))[0][index]  # an item may be asked for many times
        for prior, at, index in zip(process.priors, (i, j), (s.rows, s.cols), strict=True)
    )
    similarity = left * right
    parts = dual * similarity
    chosen = np.argsort(-np.abs(parts), kind="stable")[:top]
    additive = (effects.mean, float(effects.row[i]), float(effects.col[j]))
    total = float(parts.sum())
    spread = s.values - effects.mean - effects.row[s.rows] - effects.col[s.cols]
    size = max(abs(total), float(np.abs(spread).max()))
    return Explanation(
        (names_of(obs.row_labels, [i])[0], names_of(obs.col_labels, [j])[0]),
        sum(additive) + total,
        *additive,
        total - float(parts[chosen].sum()) if len(chosen) < len(parts) else 0.0,
        s.rows[chosen],
        s.cols[chosen],
        s.values[chosen],
        parts[chosen],
        similarity[chosen],
        names_of(obs.row_labels, s.rows[chosen]),
        names_of(obs.col_labels, s.cols[chosen]),
        float(np.abs(parts).sum()) / size if size > 0 else 1.0,
        process.mu,
    )


def _position(obs: Observations, item: Any, axis: str) -> int:
    """Index of an item: a label first, where there are labels, then an index."""
    labels = obs.row_labels if axis == "row" else obs.col_labels
    if labels is not None:
        index = obs.row_index if axis == "row" else obs.col_index
        return int(index([item])[0])
    if isinstance(item, bool | np.bool_) or not isinstance(item, int | np.integer):
        msg = (
            f"{axis} must be an index, got {item!r}: the observations that were fitted to have no "
            f"{axis} labels. An Observations made from a table has them."
        )
        raise LabelError(msg)
    return int(item)


def names_of(labels: tuple[Any, ...] | None, index: Iterable[int]) -> list[Any]:
    """Labels of items, indices where there are none."""
    return [int(k) if labels is None else labels[k] for k in index]
