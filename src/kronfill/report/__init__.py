"""A page about a completed table: what went in, how it was done, how far it can be trusted."""

from kronfill.completion.evaluation import Evaluation, HiddenEntries, evaluate
from kronfill.report.write import write_report

__all__ = ["Evaluation", "HiddenEntries", "evaluate", "write_report"]
