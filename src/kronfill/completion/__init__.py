"""Labelled tables in, labelled tables out: what kf.complete does.

The table and what is known about its axes are put together, a method is fitted, and the result
answers by label. Tables that are not in memory are completed where they are
(:class:`StreamedCompletion`). Methods themselves are in :mod:`kronfill.estimators`.
"""

from kronfill.completion.streamed.problem import StreamedProblem
from kronfill.completion.streamed.table import StreamedCompletion, complete_streamed
from kronfill.completion.table import Completion, complete

__all__ = ["Completion", "StreamedCompletion", "StreamedProblem", "complete", "complete_streamed"]
