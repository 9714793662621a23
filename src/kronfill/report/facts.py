"""What went in, what ran, on what: the sections of a report that need no further fit."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kronfill import __version__
from kronfill.bounds import sampling_test
from kronfill.completion.likelihood import described_method, likelihood_of
from kronfill.data import Observations
from kronfill.data.amounts import count_of
from kronfill.estimators.base import MatrixRegressor
from kronfill.estimators.gaussian_process.regressor import (
    GaussianProcessRegressor,
    gaussian_process,
)
from kronfill.report.content import Data, Guarantee, MethodFacts, Spread

__all__ = ["data_facts", "environment", "guarantee", "method_facts"]

PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "pandas")
RANKS = ("rank", "row_rank_", "col_rank_")
LONGEST = 200
"""Characters of the description of a kernel."""
HOLDS = {True: "holds", False: "fails", None: "not checked"}


def data_facts(obs: Observations, about: tuple[str, str]) -> Data:
    """Sizes, what is missing, and the values."""
    n, l = obs.shape
    warm = (n - len(obs.cold_rows)) * (l - len(obs.cold_cols))
    test = sampling_test(obs)
    return Data(
        rows=n,
        columns=l,
        entries=n * l,
        observed=obs.m,
        filled=warm - obs.m,
        extrapolated=n * l - warm,
        share=obs.density,
        cold_rows=len(obs.cold_rows),
        cold_columns=len(obs.cold_cols),
        about_rows=about[0],
        about_columns=about[1],
        weighted=obs.weights is not None,
        value=_spread(obs.values),
        mean=float(obs.values.mean()),
        std=float(obs.values.std()),
        per_row=_spread(obs.row_counts),
        per_column=_spread(obs.col_counts),
        sampling_p=test.p_value,
        even=test.compatible,
    )


def _spread(values: NDArray[Any]) -> Spread:
    return Spread(float(values.min()), float(np.median(values)), float(values.max()))


def method_facts(model: MatrixRegressor) -> MethodFacts:
    """Parameters that were given, and what came of them."""
    obs = model.observations_
    own: Any = model
    solution = own.solution_
    gap = obs.values - model.predict(obs)
    signal, noise = None, None
    if isinstance(model, GaussianProcessRegressor) and gaussian_process(model).dof:
        signal, noise = (
            float(np.sqrt(part)) for part in (model.signal_variance_, model.noise_variance_)
        )
    inner = described_method(model)
    own = inner if inner is not model else own
    return MethodFacts(
        name=type(inner).__name__,
        likelihood=likelihood_of(model),
        hidden_deviance=getattr(model, "deviance_", {}).get("known"),
        mu=float(own.mu_),
        mu_asked="auto" if getattr(own, "mu", "auto") == "auto" else "given",
        center=str(getattr(own, "center", None) or "none"),
        ranks={name.rstrip("_"): float(vars(own)[name]) for name in RANKS if name in vars(own)},
        row_kernel=_kernel(own, "row"),
        col_kernel=_kernel(own, "col"),
        solver=solution.solver,
        iterations=int(own.n_iter_),
        converged=bool(solution.converged),
        status=str(solution.status.value),
        train_rmse=float(np.sqrt(np.mean(gap**2))),
        signal_std=signal,
        noise_std=noise,
    )


def _kernel(model: Any, axis: str) -> str:
    """The kernel or the features of an axis in a few words."""
    for name in (f"{axis}_kernel", f"{axis}_features"):
        side = vars(model).get(name)
        if side is None:
            continue
        if name.endswith("features"):
            return count_of(side.shape[1], "feature")
        text = " ".join(repr(side).split())
        return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
    return "none"


def guarantee(completion: Any, value_range: Any) -> Guarantee | None:
    """The certificate, if the range of the values is known."""
    found = completion.certified
    if value_range is not None and (found is None or found.value_range != tuple(value_range)):
        found = completion.certificate(value_range)
    if found is None:
        return None
    new = completion.certified_new
    low, high = (float(end) for end in found.value_range)
    proved = found.value if np.isfinite(found.value) and not found.vacuous else None
    return Guarantee(
        low=low,
        high=high,
        delta=float(found.delta),
        value=float(found.value),
        rmse=None if proved is None else float(np.sqrt(proved / found.loss.scale)),
        train_loss=float(found.train_loss),
        valid=bool(found.valid),
        vacuous=bool(found.vacuous),
        sentence=found.sentence,
        variance=float(found.variance),
        holdout_loss=None if found.holdout_loss is None else float(found.holdout_loss),
        class_value=float(found.class_value) if np.isfinite(found.class_value) else None,
        new_sentence=None if new is None else new.sentence,
        terms={name: float(value) for name, value in found.terms.items()},
        assumptions=[(part.text, HOLDS[part.holds]) for part in found.assumptions],
    )


def environment() -> dict[str, str]:
    """Versions of what ran."""
    found = {
        "kronfill": __version__,
        "Python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "processors": str(os.cpu_count() or 1),
    }
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:  # optional
            continue
    return found
