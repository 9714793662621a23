"""From a completed table to everything that its report says."""

from __future__ import annotations

from typing import Any

from kronfill._progress import ShareProgress
from kronfill.completion.judging.evaluation import Evaluation, evaluate
from kronfill.report.accuracy import accuracy
from kronfill.report.cells import MOST, table_cells, widths
from kronfill.report.content import Report
from kronfill.report.curve import error_path
from kronfill.report.entries import surprising_entries, uncertain_entries
from kronfill.report.facts import data_facts, environment, guarantee, method_facts
from kronfill.report.sources import source_lines
from kronfill.report.uncertainty import chosen_intervals, source_of

__all__ = ["build"]


def build(
    completion: Any,
    evaluation: Evaluation | None,
    value_range: Any,
    seed: int,
    progress: ShareProgress | None,
) -> Report:
    """Compute all sections; what may fail for reasons of the user's comes first."""
    model, obs = completion.model, completion.observations

    def say(what: str, share: float) -> None:
        if progress is not None:
            progress(what, share)

    say("the certificate", 0.0)
    proved = guarantee(completion, value_range)
    say("cross-validation", 0.1)
    if evaluation is None:
        evaluation = evaluate(
            completion, seed=seed, progress=lambda what, share: say(what, 0.1 + 0.5 * share)
        )
    say("the curve of the ridge weight", 0.6)
    path = error_path(model, seed)
    say("intervals", 0.7)
    intervals, count = chosen_intervals(completion, MOST)
    found = widths(completion, intervals, count)
    say("the picture of the table", 0.8)
    cells = table_cells(completion, found)
    say("what each source is worth", 0.85)
    sources = source_lines(model)
    say("explanations", 0.9)
    return Report(
        data=data_facts(obs, completion.side_information),
        method=method_facts(model),
        path=path,
        accuracy=accuracy(evaluation),
        uncertainty=source_of(completion, intervals, evaluation),
        cells=cells,
        uncertain=uncertain_entries(completion, found),
        surprising=surprising_entries(completion, evaluation, intervals),
        guarantee=proved,
        environment=environment(),
        sources=sources,
    )
