"""Values on another scale: fitted there, told in their own units."""

from kronfill.estimators.transformed.regressor import TransformedRegressor
from kronfill.estimators.transformed.scales import ValueScale

__all__ = ["TransformedRegressor", "ValueScale"]
