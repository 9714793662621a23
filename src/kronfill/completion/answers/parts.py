"""What each source is worth, as a labelled table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from kronfill._optional import needed
from kronfill.auto.model import AutoMC
from kronfill.auto.worth import worth_of_sources
from kronfill.errors import ParameterError
from kronfill.estimators.base import inner_method

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["parts_frame"]

COLUMNS = ["weight", "share", "loss", "loss error", "loss, new", "loss, new error"]


def parts_frame(model: Any) -> DataFrame:
    """A line for each source by axis and label; see ``Completion.parts``."""
    model = inner_method(model)  # on another scale, or with a likelihood
    if not isinstance(model, AutoMC):
        msg = (
            f"{type(model).__name__} does not weigh sources against each other: complete the table "
            "with method='auto'."
        )
        raise ParameterError(msg)
    pd = needed("pandas", "What sources are worth")
    found = worth_of_sources(model)
    index = pd.MultiIndex.from_tuples(
        [(one.axis, one.label) for one in found], names=["axis", "source"]
    )
    lines = [
        (one.weight, one.share, one.loss, one.loss_error, one.new_loss, one.new_error)
        for one in found
    ]
    return cast("DataFrame", pd.DataFrame(lines, index=index, columns=COLUMNS))
