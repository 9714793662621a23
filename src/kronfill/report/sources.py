"""What each source is worth, for the report."""

from __future__ import annotations

from typing import Any

from kronfill.auto.model import AutoMC
from kronfill.auto.worth import worth_of_sources
from kronfill.estimators.base import inner_method
from kronfill.report.content import SourceLine

__all__ = ["source_lines"]

MOST_FITS = 300_000
"""Of more observations times sources the report does not fit without each source."""


def source_lines(model: Any) -> list[SourceLine] | None:
    """Shares and losses of the sources of the default method; None for others and large tables."""
    model = inner_method(model)  # on another scale, or with a likelihood
    if not isinstance(model, AutoMC):
        return None
    obs, axes = model.fitted_to()
    count = sum(len(axis.source_labels) for axis in axes)
    if count == 0 or obs.m * count > MOST_FITS:
        return None
    return [
        SourceLine(
            one.axis, one.label, one.share, one.loss, one.loss_error, one.new_loss, one.new_error
        )
        for one in worth_of_sources(model)
    ]
