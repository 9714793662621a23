"""How the class that a fitted model is in came about: fixed in advance, or chosen by looking."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any

from sklearn.utils.validation import check_is_fitted

from kronfill.auto.model import AutoMC
from kronfill.bounds.fitted import fitted_form
from kronfill.errors import ParameterError
from kronfill.estimators import BayesianKMC
from kronfill.estimators.base import chosen_from
from kronfill.estimators.fitted.bilinear import Basis, Combined
from kronfill.estimators.wrapping import Wrapping

__all__ = ["Origin", "origin"]

CHOICES = (
    "row_kernel",
    "col_kernel",
    "row_features",
    "col_features",
    "center",
    "row_rank",
    "col_rank",
)
"""Parameters that decide the class; those chosen by the values have to be counted."""
UNFIXED = "the class is then not fixed in advance and no bound through it holds"
TUNED = (
    f"the kernels were chosen by looking at the values, from no declared finite list: {UNFIXED}. "
    "Declare how many candidates there were (kernels=number), or give a hold-out"
)
LEARNED = (
    f"the kernels were learned from the values: {UNFIXED}. Give a hold-out that had no part in it"
)


@dataclass(frozen=True)
class Origin:
    """A fitted model, and among how many classes it was chosen by looking at the values."""

    model: Any
    """A fitted method."""
    candidates: int | None
    """1 if nothing was chosen by looking; None if there is no finite list."""
    reason: str
    """Why no bound through the class holds, or empty."""


def origin(estimator: Any, kernels: Any) -> Origin:
    """What is known and what was declared about the choice of the class.

    What a search or a wrapper holds is looked for inside. Kernels that were learned are marked, and
    so is what :func:`~kronfill.selection.choose` has chosen, whatever was declared.
    """
    counts = [_declared(kernels)]
    searched = 1
    while hasattr(estimator, "best_estimator_") or isinstance(estimator, Wrapping):
        if isinstance(estimator, Wrapping):
            check_is_fitted(estimator)
            estimator = estimator.estimator_
            continue
        found = _searched(estimator)
        counts += [None] * (found is None)
        searched *= found or 1
        estimator = estimator.best_estimator_
    if isinstance(estimator, AutoMC | BayesianKMC):
        return Origin(estimator, None, LEARNED)
    form = fitted_form(estimator)
    if _is_learned(form.row_basis) or _is_learned(form.col_basis):
        return Origin(estimator, None, LEARNED)
    counts.append(searched * chosen_from(estimator))
    if None in counts:
        return Origin(estimator, None, TUNED)
    return Origin(estimator, max(count for count in counts if count is not None), "")


def _declared(kernels: Any) -> int | None:
    """The number of candidates that the user states, None if there is no list of them."""
    if isinstance(kernels, str) and kernels in ("fixed", "tuned"):
        return 1 if kernels == "fixed" else None
    if isinstance(kernels, Integral) and not isinstance(kernels, bool) and int(kernels) >= 1:
        return int(kernels)
    msg = (
        'kernels must be "fixed", the number of candidates they were chosen from, or "tuned", got '
        f"{kernels!r}."
    )
    raise ParameterError(msg)


def _searched(search: Any) -> int | None:
    """Number of different classes among the candidates of a search.

    scikit-learn's searches draw up their list before they look at a value. Others may go where the
    values lead them: then there is no list.
    """
    tried = {
        tuple((name, id(value)) for name, value in sorted(params.items()) if name in CHOICES)
        for params in getattr(search, "cv_results_", {}).get("params", ())
    }
    listed = type(search).__module__.startswith("sklearn.")
    return len(tried) if len(tried) == 1 or (tried and listed) else None


def _is_learned(basis: Basis) -> bool:
    while isinstance(basis, Combined):
        basis = basis.basis
    kernel = getattr(basis, "kernel", None)
    return kernel is not None and kernel.learned
