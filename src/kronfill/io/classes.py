"""The classes that a model file may hold: nothing in a file can name one that is not listed here.

Kernels and fitted forms say themselves what they are made of; for solvers and methods it is said
here. An object is refused if an index lies outside an array, a factor has another width than its
coefficients, a kernel another size.
"""

from __future__ import annotations

import dataclasses
import sys
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone

from kronfill import solvers
from kronfill._stored import (
    Stored,
    Test,
    count,
    either,
    flag,
    floats,
    indices,
    inside,
    label_tuple,
    of,
    one_of,
    optional,
    positions,
    positive,
    real,
    result,
    text,
    truths,
    tuple_of,
    whole,
)
from kronfill.completion import Completion
from kronfill.core.low_rank import LowRankFactor
from kronfill.data import Observations
from kronfill.data.reading.frames import is_frame
from kronfill.estimators import IMC, KKMCEX, KMC, MC, RRMCEX, ConformalRegressor
from kronfill.estimators.base import MatrixRegressor, fitted_form
from kronfill.estimators.conformal import METHODS, Around, LeavingFoldsOut, LeavingOneOut
from kronfill.estimators.fitted.bilinear import (
    Bilinear,
    Combined,
    Factored,
    Features,
    Sections,
    ValueBasis,
)
from kronfill.estimators.fitted.identity_part import FORMS, IdentityForm, Stacked
from kronfill.estimators.gaussian_process import GaussianProcessRegressor
from kronfill.estimators.inputs import check_largest
from kronfill.io.records import Record
from kronfill.kernels.algebra import Normalized, Product, Scaled, Sum
from kronfill.kernels.base import Kernel
from kronfill.kernels.dotproduct import Linear, Polynomial, Tanimoto
from kronfill.kernels.encoding import ArrayEncoder, FrameEncoder
from kronfill.kernels.features import FeatureTable
from kronfill.kernels.functions import FunctionKernel
from kronfill.kernels.given import Constant, Identity, Precomputed
from kronfill.kernels.graphs.laplacian import (
    Diffusion,
    RandomWalk,
    RegularizedLaplacian,
    SparseLaplacian,
)
from kronfill.kernels.graphs.nodes import GraphKernel, GraphSection, SparseGraphKernel
from kronfill.kernels.stationary import RBF, Matern, Periodic
from kronfill.kernels.thin import Thin
from kronfill.ridge.effects import AdditiveEffects
from kronfill.ridge.solution import Solution, Status

__all__ = ["MODELS", "RECORDS", "is_fitted"]

kernel = of(Kernel)
shape = tuple_of(count, 2)


def _of_pandas(name: str) -> Test:
    """An object of this class of pandas, without importing it."""

    def passes(value: Any) -> bool:
        pandas = sys.modules.get("pandas")
        return pandas is not None and isinstance(value, getattr(pandas, name))

    return passes


_is_index, _is_levels, _is_series = map(_of_pandas, ("Index", "MultiIndex", "Series"))


# Kernels and fitted forms say themselves what they are made of.

_THEMSELVES: tuple[type[Stored], ...] = (
    ArrayEncoder, FrameEncoder, FeatureTable, LowRankFactor,
    RBF, Matern, Periodic, Linear, Polynomial, Tanimoto,
    Sum, Product, Scaled, Normalized, Precomputed, FunctionKernel, Thin, Constant, Identity,
    Diffusion, RegularizedLaplacian, RandomWalk, SparseLaplacian,
    GraphKernel, SparseGraphKernel, GraphSection,
    Sections, Factored, Features, Combined, ValueBasis, Bilinear, *FORMS,
)  # fmt: skip


# Solvers, and how a solve went.


def _matrix_like(value: Any) -> bool:
    """What a user may give for a matrix: it is looked at when it is used."""
    return isinstance(value, np.ndarray | list | tuple) or sparse.issparse(value) or is_frame(value)


def _solver(kind: Any) -> Record:
    """Settings, whose ranges the class checks; what belongs to one run or machine is not kept."""
    names = [part.name for part in dataclasses.fields(kind) if part.name not in _PASSING]
    return Record(kind, {}, {name: _SETTINGS[name] for name in names}, forgotten=_PASSING)


def _measured(state: dict[str, Any]) -> dict[str, Any]:
    """The state without an error that was not measured."""
    return {name: value for name, value in state.items() if name != "error" or value is not None}


_PASSING = ("callback", "progress", "work_dir", "client")
_SETTINGS: dict[str, Test] = {
    **dict.fromkeys(("tol", "max_iter", "sweeps", "time_limit", "checkpoint"), result),
    "accelerate": either(flag, whole),
    "dtype": text,
    "rank": optional(count),
    "memory": optional(either(real, text)),
    "start": lambda value: text(value) or (_matrix_like(value) and all(map(_matrix_like, value))),
}
_SOLVERS = [
    kind
    for kind in (getattr(solvers, name) for name in solvers.__all__)
    if dataclasses.is_dataclass(kind) and kind is not Solution
]
_SOLVES = (
    Record(AdditiveEffects, {"mean": real, "row": floats(1), "col": floats(1)}),
    Record(
        Solution,
        {
            "status": of(Status),
            "solver": text,
            "reason": text,
            "iterations": whole,
            "residual": result,
            "history": tuple_of(result),
            "rank": optional(whole),
        },
        {"error": result},
        tidy=_measured,
    ),
    *(_solver(kind) for kind in _SOLVERS),
)


# Estimators.

_entries = {
    "rows": positions,
    "cols": positions,
    "values": floats(1),
    "weights": optional(floats(1)),
    "shape": shape,
    "row_labels": label_tuple,
    "col_labels": label_tuple,
}


def _is_moderate(value: Observations) -> bool:
    """Whether values and weights are of a size that a fit takes; it says so itself if not."""
    check_largest(value.values, value.weights)
    return True


def _places(state: dict[str, Any]) -> int:
    """What it takes to find a label, for each."""
    return 128 * sum(len(state[name] or ()) for name in ("row_labels", "col_labels"))


def _two_names(value: Any) -> bool:
    """What the columns of X were called."""
    named = isinstance(value, np.ndarray) and value.dtype == object and value.shape == (2,)
    return named and all(map(text, value))


_fitted = {
    "shape_": shape,
    "observations_": of(Observations),
    "n_features_in_": one_of(2),
    "feature_names_in_": _two_names,
    "mu_": positive,
    "mean_": either(real, floats(1)),
    "row_effects_": either(floats(1), floats(2)),
    "col_effects_": either(floats(1), floats(2)),
    "solution_": either(of(Solution), tuple_of(of(Solution))),
    "n_iter_": whole,
    "_model": of(Bilinear, IdentityForm, Stacked),
    "_chosen_from": count,
}
_AT_TIMES = ("feature_names_in_", "observations_", "dual_coef_", "_from_table", "_chosen_from")
_pair = {"W_": floats(2), "H_": floats(2), "objective_": real}
_sides = {"_kernels": tuple_of(optional(kernel), 2)}
_outside = {"_from_table": lambda value: value is True}


def _sized(parts: Any, sizes: tuple[int, int]) -> bool:
    """Whether the parts of the two axes are as long as the axes."""
    pairs = zip(parts, sizes, strict=True)
    return all(part is None or part == size for part, size in pairs)


def _estimator(est: Any) -> bool:
    """Whether everything that was fitted has the size of the table."""
    has = vars(est)
    if not is_fitted(est):
        return set(has) <= {*est.get_params(deep=False), "_chosen_from"}
    size, form = est.shape_, fitted_form(est)
    targets: tuple[int, ...] = ()
    if isinstance(form, Stacked):
        targets = (len(form.forms),)
    effects = (est.row_effects_.shape, est.col_effects_.shape)
    seen = has.get("observations_")
    return (
        form.shape == size
        and (seen is None) == ("_from_table" in has)
        and (seen is None or seen.shape == size)
        and effects == tuple((length, *targets) for length in size)
        and np.shape(est.mean_) == targets
        and isinstance(est.solution_, tuple) == bool(targets)
        and _sized([part and part.n for part in has.get("_kernels", (None, None))], size)
        and _sized([part and part.n for part in has.get("_tables", (None, None))], size)
        and all(part is None or part.width == part.new_width for part in has.get("_tables", ()))
        and ("dual_coef_" not in has or est.dual_coef_.shape == (seen and seen.m, *targets))
        and ("dual_coef_" in has) == (isinstance(est, KKMCEX) and seen is not None)
        and ("W_" not in has or _is_pair(est.W_, est.H_, size))
        and ("_bases" not in has or _is_cut(est, has["_bases"]))
        and (bool(targets) <= isinstance(est, KKMCEX))
    )


def _is_pair(left: Any, right: Any, size: tuple[int, int]) -> bool:
    return (len(left), len(right)) == size and left.shape[1] == right.shape[1]


def _is_cut(est: RRMCEX, bases: Any) -> bool:
    """Whether the fitted form is made from the factors that were kept to go on from."""
    form, ranks = fitted_form(est), (est.row_rank_, est.col_rank_)
    return (
        isinstance(form, Bilinear)
        and (form.row_basis, form.col_basis) == bases
        and isinstance(form.core, np.ndarray)
        and form.core.shape == est.coef_.shape == ranks
    )


_PARAMETERS: dict[str, Test] = {
    **dict.fromkeys(("row_kernel", "col_kernel"), optional(either(kernel, _matrix_like))),
    **dict.fromkeys(("row_features", "col_features"), optional(either(_matrix_like, _is_series))),
    **dict.fromkeys(("row_rank", "col_rank", "rank"), real),
    "mu": either(real, text),
    "center": optional(text),
    "solver": either(text, lambda value: type(value) in _SOLVERS),
    "shape": optional(
        lambda v: isinstance(v, np.ndarray | list | tuple) and shape((*map(int, v),))
    ),
    "warm_start": either(flag, whole),
    "random_state": optional(of(int, list, tuple, np.random.Generator, np.random.RandomState)),
}


def _method(kind: type[MatrixRegressor], **more: Test) -> Record:
    """A method: its parameters, and what a fit sets (from a table outside of memory less)."""
    parameters = {name: _PARAMETERS[name] for name in kind().get_params(deep=False)}
    state = {**_fitted, **more}
    at_times = {name: state.pop(name) for name in _AT_TIMES if name in state}
    at_times.update(parameters)
    return Record(kind, state, at_times, fits=_estimator, bare=True)


def _indexes_only(state: dict[str, Any]) -> dict[str, Any]:
    known = tuple(own if _is_index(own) else None for own in state["_known"])
    return {**state, "_known": known}


def _without_a_fit(state: dict[str, Any]) -> dict[str, Any]:
    """The method that was given is kept as it was meant: its parameters, whatever else it is."""
    return {**state, "estimator": clone(state["estimator"])}


def _leaving_one_out(value: LeavingOneOut) -> bool:
    weights = value.model.observations_.weights
    m = value.model.observations_.m if weights is None else np.count_nonzero(weights)
    return isinstance(
        value.model, GaussianProcessRegressor
    ) and value.residuals.shape == value.lonely.shape == (m,)


def _leaving_folds_out(value: LeavingFoldsOut) -> bool:
    return (
        {one.shape_ for one in value.models} == {value.model.shape_}
        and value.label.shape == value.scores.shape
        and inside(value.label, len(value.models))
        and bool((value.scores >= 0).all())
    )


def _completion(value: Completion) -> bool:
    seen = value.observations
    pairs = zip(vars(value)["_known"], (seen.row_labels, seen.col_labels), strict=True)
    return (
        value.model.shape_ == seen.shape
        and not isinstance(fitted_form(value.model), Stacked)
        and all(_begins(own, names) for own, names in pairs)
    )


def _begins(own: Any, names: tuple[Any, ...] | None) -> bool:
    """Whether the labels of an axis can go on where the index of the table ends."""
    if names is None or own is None:
        return names is not None
    if not _is_levels(own):
        return len(own) <= len(names)
    like = (type(name) is tuple and len(name) == own.nlevels for name in names[len(own) :])
    return len(own) <= len(names) and all(like)


_cut = tuple_of(lambda value: isinstance(value, Combined) and isinstance(value.basis, Factored), 2)


def is_fitted(value: Any) -> bool:
    """Whether a fit has left something behind; a completed table always has."""
    return isinstance(value, Completion) or bool(value.__sklearn_is_fitted__())


def _fitted_method(value: Any) -> bool:
    return isinstance(value, MatrixRegressor) and is_fitted(value)


def _fitted_to_entries(value: Any) -> bool:
    """A method for which one can be told which rows and columns have observations."""
    known = _fitted_method(value) and "observations_" in vars(value)
    return known and not isinstance(fitted_form(value), Stacked)


_ESTIMATORS = (
    Record(Observations, _entries, fits=_is_moderate, cost=_places, constructed=True),
    _method(KKMCEX, dual_coef_=either(floats(1), floats(2)), **_sides, **_outside),
    _method(
        RRMCEX,
        coef_=floats(2),
        row_rank_=count,
        col_rank_=count,
        _bases=_cut,
        **_sides,
        **_outside,
    ),
    _method(KMC, **_pair, **_sides),
    _method(
        IMC,
        row_coef_=floats(2),
        col_coef_=floats(2),
        _tables=tuple_of(optional(of(FeatureTable)), 2),
        **_pair,
    ),
    _method(MC, **_pair),
    Record(
        Around,
        {"model": _fitted_to_entries, "scores": floats(1)},
        fits=lambda value: bool((np.diff(value.scores, prepend=0.0) >= 0).all()),
    ),
    Record(
        LeavingOneOut,
        {"model": _fitted_to_entries, "residuals": floats(1), "lonely": truths},
        fits=_leaving_one_out,
    ),
    Record(
        LeavingFoldsOut,
        {
            "model": _fitted_to_entries,
            "scores": floats(1),
            "models": tuple_of(_fitted_to_entries),
            "label": indices,
        },
        fits=_leaving_folds_out,
    ),
    Record(
        ConformalRegressor,
        {
            "estimator": of(MatrixRegressor),
            "method": one_of(*METHODS),
            "calibration": real,
            "folds": count,
            "random_state": _PARAMETERS["random_state"],
            "n_features_in_": one_of(2),
            "_bounds": of(Around, LeavingOneOut, LeavingFoldsOut),
        },
        tidy=_without_a_fit,
    ),
    Record(
        Completion,
        {
            "model": _fitted_method,
            "observations": of(Observations),
            "_told": tuple_of(text, 2),
            "_known": tuple_of(optional(_is_index), 2),
        },
        fits=_completion,
        tidy=_indexes_only,
    ),
)

_RECORDS = (*map(Record.of, _THEMSELVES), *_SOLVES, *_ESTIMATORS)
RECORDS = {record.name: record for record in _RECORDS}
"""Every class that a model file may hold, by its name there."""
MODELS = (KKMCEX, RRMCEX, KMC, IMC, MC, ConformalRegressor, Completion)
"""The classes that can be saved by themselves."""
