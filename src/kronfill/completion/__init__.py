"""Labelled tables in, labelled tables out: what kf.complete does.

The table and what is known about its axes are put together, a method is fitted, and the result
answers by label. Methods themselves are in :mod:`kronfill.estimators`.
"""

from kronfill.completion.table import Completion, complete

__all__ = ["Completion", "complete"]
