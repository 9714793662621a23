"""A method as it was asked for, and what a fit of it has chosen."""

from __future__ import annotations

from typing import Any

from sklearn.base import clone

__all__ = ["kept"]


def kept(model: Any) -> Any:
    """The method unfitted, with everything that was chosen: mu, rank, weights of kernels, links.

    Examples
    --------
    >>> import kronfill as kf
    >>> from kronfill.estimators.choices import kept
    >>> kept(kf.MC(rank=1, mu=0.5).fit([[0, 0], [1, 1]], [1.0, 2.0]))
    MC(mu=0.5, rank=1)
    """
    made = clone(model)
    given, has = made.get_params(deep=False), vars(model)
    chosen: dict[str, Any] = {"mu": float(model.mu_)} if "mu" in given else {}
    if isinstance(given.get("rank"), str):
        chosen["rank"] = has["rank_"]
    if "choice" in given:
        chosen["choice"] = has["choice_"]
    if "links" in given:
        chosen |= {"links": has["links_"], "estimator": kept(has["estimator_"])}
    if "errors" in given:  # values on another scale
        chosen = {"scale": has["scale_"], "errors": has["errors_"]}
        chosen["estimator"] = kept(has["estimator_"])
    return made.set_params(**chosen)
