"""How well the ones of each row are ranked among all columns that were not seen there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import rankdata

from kronfill._types import Floats
from kronfill.core.limits import CHUNK_FLOATS
from kronfill.data import Observations
from kronfill.errors import DataError
from kronfill.estimators.base import MatrixEstimator, check_rank, index_pairs

__all__ = ["RankingFigures", "average_precision", "ndcg", "ranking_figures", "recall", "row_auc"]


@dataclass(frozen=True)
class RankingFigures:
    """Means over the rows that have a one to be found.

    Attributes
    ----------
    recall, ndcg : float
        Share of the ones among the first k, and normalised discounted cumulative gain of these.
    auc : float
        Share of pairs of a one and another candidate that are in the right order.
    average_precision : float
        Mean over the ones of the share of ones among those ranked as high.
    k, rows : int
        How many are looked at, and the number of rows.
    """

    recall: float
    ndcg: float
    auc: float
    average_precision: float
    k: int
    rows: int


def recall(scores: Floats, relevant: Any, k: int) -> float:
    """Share of the relevant items (of at most k) among the k with the largest scores.

    Examples
    --------
    >>> from kronfill.selection.ranking import recall
    >>> recall([0.9, 0.1, 0.8, 0.7], [True, True, False, False], k=2)
    0.5
    """
    hits = _sorted(scores, relevant)
    return float(hits[:k].sum() / min(k, hits.sum()))


def ndcg(scores: Floats, relevant: Any, k: int) -> float:
    """Normalised discounted cumulative gain of the k items with the largest scores.

    Examples
    --------
    >>> from kronfill.selection.ranking import ndcg
    >>> round(ndcg([0.9, 0.1, 0.8, 0.7], [True, True, False, False], k=2), 4)
    0.6131
    """
    hits = _sorted(scores, relevant)
    discount = 1.0 / np.log2(np.arange(2, min(k, len(hits)) + 2))
    best = discount[: int(min(k, hits.sum()))].sum()
    return float((hits[:k] * discount).sum() / best)


def row_auc(scores: Floats, relevant: Any) -> float:
    """Share of pairs (relevant, not) in the right order, ties counting half.

    Examples
    --------
    >>> from kronfill.selection.ranking import row_auc
    >>> row_auc([0.9, 0.1, 0.8, 0.7], [True, True, False, False])
    0.5
    """
    flags = np.asarray(relevant, dtype=bool)
    ones, others = int(flags.sum()), int((~flags).sum())
    if others == 0:
        return float("nan")
    above = rankdata(np.asarray(scores))[flags].sum() - ones * (ones + 1) / 2
    return float(above / (ones * others))


def average_precision(scores: Floats, relevant: Any) -> float:
    """Mean over the relevant items of the precision at their rank.

    Examples
    --------
    >>> from kronfill.selection.ranking import average_precision
    >>> average_precision([0.9, 0.1, 0.8, 0.7], [True, True, False, False])
    0.75
    """
    hits = _sorted(scores, relevant)
    precision = np.cumsum(hits) / np.arange(1, len(hits) + 1)
    return float(precision[hits > 0].mean())


def _sorted(scores: Any, relevant: Any) -> Floats:
    """Relevance in the order of falling scores; among equals the first stays first."""
    order = np.argsort(-np.asarray(scores, dtype=float), kind="stable")
    hits = np.asarray(relevant, dtype=float)[order]
    if not hits.any():
        msg = "No item is relevant: there is nothing to be ranked high."
        raise DataError(msg)
    return hits


def ranking_figures(model: MatrixEstimator, X: Any, y: Any = None, k: int = 10) -> RankingFigures:
    """How high the ones of each row are ranked among the columns without a one in the fit.

    Parameters
    ----------
    model : fitted estimator
        What ``predict_matrix`` says is the score of an entry.
    X : array-like of shape (t, 2) or Observations
        Entries that were not fitted to.
    y : array-like of shape (t,), optional
        Whether each is a one (above 0); all are by default.
    k : int, default=10
        How many of each row are looked at.

    Returns
    -------
    RankingFigures

    Examples
    --------
    >>> import numpy as np, kronfill as kf
    >>> from kronfill.selection import ranking_figures
    >>> X = np.array([(i, j) for i in range(8) for j in range(8) if (i < 4) == (j < 4)])
    >>> group = kf.kernels.precomputed(np.kron(np.eye(2), np.ones((4, 4))))
    >>> est = kf.KKMCEXClassifier(group, group, negatives="sample").fit(X[::2])
    >>> ranking_figures(est, X[1::2], k=2)
    RankingFigures(recall=1.0, ndcg=1.0, auc=1.0, average_precision=1.0, k=2, rows=8)
    """
    check_rank(k, "k")
    rows, cols = index_pairs(model, X)
    values = X.values if isinstance(X, Observations) and y is None else y
    ones = np.ones(len(rows), bool) if values is None else np.asarray(values, float) > 0
    rows, cols = rows[ones], cols[ones]
    known: Observations = vars(model)["observations_"]
    used = known.values > 0
    asked = np.unique(rows)
    if not len(asked):
        msg = "None of these entries is a one: there is nothing to be ranked high."
        raise DataError(msg)
    found = []
    step = max(1, CHUNK_FLOATS // model.shape_[1])
    for first in range(0, len(asked), step):
        part = asked[first : first + step]
        scores = model.predict_matrix(rows=part)
        wanted, gone = np.zeros(scores.shape, bool), np.zeros(scores.shape, bool)
        for flags, (r, c) in (
            (wanted, (rows, cols)),
            (gone, (known.rows[used], known.cols[used])),
        ):
            inside = np.isin(r, part)
            flags[np.searchsorted(part, r[inside]), c[inside]] = True
        for i in range(len(part)):
            left = ~gone[i] | wanted[i]
            s, w = scores[i, left], wanted[i, left]
            found.append((recall(s, w, k), ndcg(s, w, k), row_auc(s, w), average_precision(s, w)))
    a, b, c, d = (float(mean) for mean in np.nanmean(np.array(found), axis=0))
    return RankingFigures(a, b, c, d, k=int(k), rows=len(asked))
