"""A page about a completed table: what went in, how it was done, how far it can be trusted.

:func:`write_report` computes everything that the page says (``build``, plain numbers and words in
``content``) and turns it into one HTML file (``html``). Measuring the accuracy is no business of
this room but of :mod:`kronfill.completion`, whose names are here for convenience; nor are
certificates (:mod:`kronfill.bounds`) or the page of the paper's figure (:mod:`kronfill.paper`).
"""

from kronfill.completion.judging.evaluation import Evaluation, evaluate
from kronfill.completion.judging.scores import HiddenEntries
from kronfill.report.write import write_report

__all__ = ["Evaluation", "HiddenEntries", "evaluate", "write_report"]
