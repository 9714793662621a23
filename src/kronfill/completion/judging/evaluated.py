"""What was found when entries were hidden: predictions by kind, and their scores as lines."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, cast

from kronfill._optional import needed
from kronfill.completion.entries.groups import GroupCoverage
from kronfill.completion.judging.scores import HiddenEntries
from kronfill.selection.ranking import RankingFigures

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["KINDS", "NO_SCORES", "QUESTIONS", "RULES", "Evaluation"]

KINDS = ("known", "row", "column", "both")
"""What is new to the fit: nothing, the row, the column, both; in the order of ``kinds_of``."""
QUESTIONS = dict(zip(KINDS, ("entries", "new rows", "new columns", "both new"), strict=True))
RULES = ("mean", "row + column effects")
"""The simple rules, in the order of :meth:`HiddenEntries.scores`."""
NO_SCORES = {
    **dict.fromkeys(("rmse", "mae", "r2", "deviance", "auc", "average_precision"), math.nan),
    "tested": 0, "note": "",
}  # fmt: skip
SHOWN = {"rmse": "RMSE", "deviance": "deviance", "auc": "AUC", "average_precision": "AP"}


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation:
    """Predictions for hidden entries; what :func:`kronfill.report.evaluate` returns.

    Attributes
    ----------
    scheme : {"folds", "hold-out", "none"}
        Whether folds were left out in turn, or a part hidden once, or nothing could be.
    folds : int
        Number of folds; 1 for a hold-out.
    seed : int
        Seed of the split.
    parts : dict of str to HiddenEntries
        Hidden entries by kind: "known" where row and column have other observations, "row" in rows
        without any, "column" in columns without any, "both". Kinds without entries are left out.
    notes : dict of str to str
        Why a kind that was asked for is left out.
    doubts : dict of str to str
        For each kind whose predictions come from fits that did not converge, what happened: the
        errors of such a kind are those of unfinished fits.
    coverage : list of GroupCoverage
        How often the intervals of completed tables hold in each group, if ``by`` was given.
    ranking : RankingFigures or None
        Of yes or no: how high the hidden ones of each row are ranked among the columns without a
        one in the fit, for entries of known rows and columns.
    method : str
        The method that predicts.

    Examples
    --------
    >>> import numpy as np, kronfill as kf
    >>> from kronfill.report import evaluate
    >>> table = np.add.outer(np.arange(6.0), np.arange(5.0))
    >>> done = evaluate(kf.complete(table, method="mc", rank=2, mu=0.1))
    >>> done.scheme, sorted(done.parts)
    ('folds', ['column', 'known', 'row'])
    >>> done.scores["method"].tolist()[:3]
    ['MC', 'mean', 'row + column effects']
    """

    scheme: str
    folds: int
    seed: int
    parts: dict[str, HiddenEntries]
    notes: dict[str, str] = field(default_factory=dict)
    doubts: dict[str, str] = field(default_factory=dict)
    coverage: list[GroupCoverage] = field(default_factory=list)
    ranking: RankingFigures | None = None
    method: str = "method"

    def lines(self) -> list[dict[str, Any]]:
        """Scores, a line for each question and method; a question without an answer says why."""
        found: list[dict[str, Any]] = []
        for kind, question in QUESTIONS.items():
            first = {"question": question, "method": self.method, **NO_SCORES}
            if kind in self.notes:
                found.append({**first, "note": self.notes[kind]})
            elif kind in self.parts:
                found += self._measured(kind, first)
        return found

    def _measured(self, kind: str, first: dict[str, Any]) -> list[dict[str, Any]]:
        hidden, found = self.parts[kind], []
        for name, score in zip((self.method, *RULES), hidden.scores(), strict=True):
            measured = {key: value for key, value in asdict(score).items() if value is not None}
            found.append({**first, "method": name, "tested": len(hidden), **measured})
        found[0]["note"] = self.doubts.get(kind, "")
        return found

    @property
    def scores(self) -> DataFrame:
        """The lines as a table.

        Columns are "question", "method", "rmse", "mae", "r2", what of "deviance", "auc" and
        "average_precision" there is for such values, "tested" and "note".
        """
        pd = needed("pandas", "Scores")
        frame = pd.DataFrame(self.lines())
        extra = [name for name in ("deviance", "auc", "average_precision") if name in frame]
        none = [name for name in extra if frame[name].isna().all()]
        return cast("DataFrame", frame.drop(columns=none))

    def __repr__(self) -> str:
        lines = self.lines()
        shown = {
            key: head for key, head in SHOWN.items() if not all(math.isnan(x[key]) for x in lines)
        }
        wide = max([len(RULES[1]), *(len(line["method"]) for line in lines)])
        heads = "".join(f" {head:>9}" for head in shown.values())
        out, last = [f"{'':<12} {'method':<{wide}}{heads} {'tested':>8}"], ""
        for line in lines:
            question = "" if line["question"] == last else line["question"]
            last = line["question"]
            cells = "".join(f" {_number(line[key]):>9}" for key in shown)
            out.append(f"{question:<12} {line['method']:<{wide}}{cells} {line['tested']:>8,}")
            if line["note"]:
                out.append(f"{'':<12} {line['note']}")
        return "\n".join([*out, *self._ranking_words()])

    def _ranking_words(self) -> list[str]:
        figures = self.ranking
        if figures is None:
            return []
        k, recall, ndcg = figures.k, f"{figures.recall:.3g}", f"{figures.ndcg:.3g}"
        words = f"recall at {k} {recall}, NDCG at {k} {ndcg}, AUC {figures.auc:.3g}"
        return [f"Hidden ones of each row among its columns without a one: {words}."]


def _number(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.4g}"
