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
    anything,
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
    positive_floats,
    real,
    result,
    text,
    truths,
    tuple_of,
    whole,
)
from kronfill.auto.members import MixChoice
from kronfill.auto.mixing import MixedForm
from kronfill.auto.model import AutoMC
from kronfill.auto.plan import Plan
from kronfill.auto.sources import FactorMap, WeightedSources
from kronfill.auto.weights import LearnedWeights
from kronfill.bounds import Certificate, NewItemsCertificate
from kronfill.completion import Completion
from kronfill.completion.entries.intervals import Calibrated
from kronfill.core.low_rank import LowRankFactor
from kronfill.data import Observations
from kronfill.data.reading.frames import is_frame
from kronfill.estimators import (
    IMC,
    KKMCEX,
    KMC,
    MC,
    RRMCEX,
    BayesianKMC,
    ConformalClassifier,
    ConformalCounts,
    ConformalRegressor,
    KKMCEXClassifier,
    KKMCEXOrdinal,
    KKMCEXPoisson,
    LinkedRegressor,
)
from kronfill.estimators.base import (
    MatrixEstimator,
    MatrixRegressor,
    fitted_form,
    fitted_kernels,
)
from kronfill.estimators.conformal.calibration import SCORES
from kronfill.estimators.conformal.left_out_errors import (
    Around,
    LeavingFoldsOut,
    LeavingItemsOut,
    LeavingOneOut,
    LeftOutErrors,
)
from kronfill.estimators.conformal.regressor import METHODS, NEW
from kronfill.estimators.conformal.scales import (
    ConstantScale,
    FactorScale,
    LearnedScale,
    Scale,
    StdScale,
)
from kronfill.estimators.fitted.bilinear import (
    Bilinear,
    Combined,
    Factored,
    Features,
    Sections,
    ValueBasis,
)
from kronfill.estimators.fitted.identity_part import FORMS, IdentityForm, Stacked
from kronfill.estimators.fitted.posterior_basis import PosteriorBasis
from kronfill.estimators.gaussian_process.regressor import GaussianProcessRegressor
from kronfill.estimators.generalized.base import LikelihoodEstimator
from kronfill.estimators.generalized.linked import LIKELIHOODS
from kronfill.estimators.generalized.linked_form import LinkedForm
from kronfill.estimators.inputs import check_largest
from kronfill.estimators.transformed.form import Limits, UndoneForm
from kronfill.estimators.transformed.regressor import TransformedRegressor
from kronfill.estimators.transformed.scales import SCALES, ValueScale
from kronfill.io.certificates import CERTIFICATES
from kronfill.io.records import Record
from kronfill.kernels.algebra import Normalized, Product, Scaled, Sum
from kronfill.kernels.base import Kernel
from kronfill.kernels.columns.encoding import ArrayEncoder, FrameEncoder
from kronfill.kernels.columns.gaps import CompletenessEncoder, GappyEncoder
from kronfill.kernels.columns.single_columns import (
    BagEncoder,
    DateEncoder,
    FingerprintEncoder,
    KmerEncoder,
)
from kronfill.kernels.dotproduct import Linear, Polynomial, Tanimoto
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
from kronfill.kernels.mapped import Mapped, SimilarityRows
from kronfill.kernels.sources import SourceKernel
from kronfill.kernels.stationary import RBF, Matern, Periodic
from kronfill.kernels.thin import Thin
from kronfill.likelihoods.links import Link
from kronfill.masks import KINDS as MASKS
from kronfill.masks import EffectsMask, KernelMask, MaskModel, RankOneMask
from kronfill.ridge.effects import AdditiveEffects
from kronfill.ridge.solution import Solution, Status
from kronfill.variational.factors import Variational

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
    ArrayEncoder, FrameEncoder, GappyEncoder, CompletenessEncoder, BagEncoder, KmerEncoder,
    FingerprintEncoder, DateEncoder, FeatureTable, LowRankFactor,
    RBF, Matern, Periodic, Linear, Polynomial, Tanimoto,
    Sum, Product, Scaled, Normalized, Precomputed, FunctionKernel, Thin, Constant, Identity,
    Diffusion, RegularizedLaplacian, RandomWalk, SparseLaplacian,
    GraphKernel, SparseGraphKernel, GraphSection, SourceKernel,
    Sections, Factored, Features, Combined, ValueBasis, PosteriorBasis, Bilinear, *FORMS,
    ValueScale, Limits, UndoneForm,
    Mapped, SimilarityRows, FactorMap, WeightedSources, MixedForm, MixChoice, LearnedWeights,
    Link, LinkedForm, EffectsMask, RankOneMask, KernelMask,
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
] + [Variational]
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
        forgotten=("criterion", "change"),  # of trials, which no file holds
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
_AT_TIMES = (
    "feature_names_in_", "observations_", "dual_coef_", "rank_", "_from_table", "_chosen_from",
)  # fmt: skip
_pair = {"W_": floats(2), "H_": floats(2), "objective_": real, "rank_": count}
_sides = {"_kernels": tuple_of(optional(kernel), 2)}
_linked = {
    "dual_coef_": either(floats(1), floats(2)),
    "_curvature": either(floats(1), floats(2)),
}
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
        and ("dual_coef_" in has) == (isinstance(est, _DUAL) and seen is not None)
        and ("_curvature" not in has or est._curvature.shape == est.dual_coef_.shape)
        and ("classes_" not in has or _are_classes(est, len(targets) and targets[0]))
        and all(np.array_equal(link.levels, est.levels_) for link in has.get("links_", ()))
        and (has.get("exposure_") is None or est.exposure_.shape == (seen and seen.m,))
        and ("W_" not in has or _is_pair(est.W_, est.H_, size))
        and ("_bases" not in has or _is_cut(est, has["_bases"]))
        and (bool(targets) <= isinstance(est, _DUAL))
    )


_DUAL = (KKMCEX, LikelihoodEstimator)
"""Methods with a number for each observation, perhaps for several targets."""


def _are_classes(est: KKMCEXClassifier, targets: int) -> bool:
    """Whether the labels are as many as there are functions, and the codes are theirs."""
    codes = est.observations_.values
    return (
        len(est.classes_) == (targets or 2)
        and bool((codes == np.floor(codes)).all())
        and inside(codes, len(est.classes_))
    )


def _label_array(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.ndim == 1 and value.dtype.kind in "biufUO"


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
    **dict.fromkeys(("row_rank", "col_rank"), real),
    "rank": either(real, text),
    "mu": either(real, text),
    "center": optional(text),
    "solver": either(text, lambda value: type(value) in _SOLVERS),
    "class_weight": optional(of(str, dict)),
    "negatives": optional(text),
    "shape": optional(
        lambda v: isinstance(v, np.ndarray | list | tuple) and shape((*map(int, v),))
    ),
    "warm_start": either(flag, whole),
    "random_state": optional(of(int, list, tuple, np.random.Generator, np.random.RandomState)),
}


def _method(kind: type[MatrixEstimator], **more: Test) -> Record:
    """A method: its parameters, and what a fit sets (from a table outside of memory less)."""
    parameters = {name: _PARAMETERS[name] for name in kind().get_params(deep=False)}
    state = {**_fitted, **more}
    at_times = {name: state.pop(name) for name in _AT_TIMES if name in state}
    at_times.update(parameters)
    return Record(kind, state, at_times, fits=_estimator, bare=True, forgotten=("mu_search_",))


def _indexes_only(state: dict[str, Any]) -> dict[str, Any]:
    known = tuple(own if _is_index(own) else None for own in state["_known"])
    return {**state, "_known": known}


def _without_a_fit(state: dict[str, Any]) -> dict[str, Any]:
    """The method that was given is kept as it was meant: its parameters, whatever else it is."""
    return {**state, "estimator": clone(state["estimator"])}


def _without_none(state: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in state.items() if value is not None}


def _two_groups(value: Any) -> bool:
    """What a user may give for groups: it is looked at when it is used."""
    two = isinstance(value, tuple | list) and len(value) == 2
    return two and all(part is None or _matrix_like(part) or _is_series(part) for part in value)


_two_kernels = tuple_of(optional(kernel), 2)


def _known_of(kernels: Any, size: tuple[int, int]) -> bool:
    """Whether kernels know each row and each column."""
    return _sized([part and part.n for part in kernels], size)


def _scale_of(scale: Any, model: Any) -> bool:
    """Whether a scale speaks of the table of a model."""
    if isinstance(scale, LearnedScale):
        right = (len(scale.row), len(scale.col)) == model.shape_
        return right and _scale_of(scale.base, model)
    return isinstance(scale, ConstantScale) or scale.model.shape_ == model.shape_


def _mask_of(mask: MaskModel, shape: tuple[int, int]) -> bool:
    effects: Any = mask.effects if isinstance(mask, KernelMask) else mask
    sizes = (len(effects.row), len(effects.col)) == shape
    return sizes and (not isinstance(mask, KernelMask) or (len(mask.row), len(mask.col)) == shape)


def _around(value: Around) -> bool:
    count, shape = len(value.scores), value.model.shape_
    parts = (value.weights, value.label, value.rows, value.cols)
    return (
        bool((np.diff(value.scores, prepend=0.0) >= 0).all())
        and all(part is None or len(part) == count for part in parts)
        and (value.scale is None or _scale_of(value.scale, value.model))
        and (value.mask is None or _mask_of(value.mask, shape))
        and (value.groups is None) == (value.label is None)
        and (value.groups is None or _are_groups(value.groups, shape))
    )


def _are_groups(groups: Any, shape: tuple[int, int]) -> bool:
    right = _sized([None if part is None else len(part) for part in groups], shape)
    return right and all(part is None or inside(part, 2**31) for part in groups)


def _leaving_items_out(value: LeavingItemsOut) -> bool:
    return (
        {one.shape_ for one in value.models} == {value.model.shape_}
        and value.label.shape == value.scores.shape == value.weights.shape
        and inside(value.label, len(value.models))
        and len(value.scales) == len(value.models)
        and all(_scale_of(scale, value.model) for scale in value.scales)
        and bool((value.scores >= 0).all())
    )


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


def _calibrated(value: Any) -> bool:
    """Whether the method is fitted and the scores are sorted."""
    return is_fitted(value.estimator_) and bool((np.diff(value.scores_, prepend=0.0) >= 0).all())


def _four_parts(value: Any) -> bool:
    """What was calibrated for each kind of entry, or why it could not be."""
    allowed = either(text, of(Around, LeavingItemsOut))
    four = type(value) is list and len(value) == 4
    return four and all(map(optional(allowed), value)) and not isinstance(value[0], LeavingItemsOut)


def _completion(value: Completion) -> bool:
    seen = value.observations
    pairs = zip(vars(value)["_known"], (seen.row_labels, seen.col_labels), strict=True)
    return (
        value.model.shape_ == seen.shape
        and _known_of(value._side_kernels, seen.shape)
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


_PLAN = tuple(part.name for part in dataclasses.fields(Plan))
_numbers_by_name = lambda value: isinstance(value, dict) and all(map(text, value))  # noqa: E731


def _mix() -> Record:
    """AutoMC: its members are methods themselves."""
    state = {name: test for name, test in _fitted.items() if name not in _AT_TIMES}
    state |= {
        "observations_": of(Observations),
        "_model": of(MixedForm),
        "members_": lambda value: (
            isinstance(value, dict) and all(_fitted_method(one) for one in value.values())
        ),
        **dict.fromkeys(("shares_", "weights_", "hidden_error_"), _numbers_by_name),
        "plan_": of(Plan),
        "noise_variance_": positive,
        "choice_": of(MixChoice),
        **_sides,
    }
    parameters: dict[str, Test] = {
        **dict.fromkeys(("row_sources", "col_sources"), anything),
        "rank": real,
        "budget": optional(real),
        "plan": optional(of(Plan)),
        "choice": optional(of(MixChoice)),
        "random_state": _PARAMETERS["random_state"],
        "progress": flag,
        "on_interrupt": one_of("raise", "keep"),
    }
    more = {"feature_names_in_": _two_names, "_chosen_from": count}
    return Record(AutoMC, state, {**more, **parameters}, fits=_is_mix, bare=True)


def _is_mix(est: AutoMC) -> bool:
    """Whether the members are those of the mix."""
    if not is_fitted(est):
        return set(vars(est)) <= {*est.get_params(deep=False), "_chosen_from"}
    form = fitted_form(est)
    return (
        isinstance(form, MixedForm)
        and form.shape == est.shape_ == est.observations_.shape
        and form.forms == tuple(map(fitted_form, est.members_.values()))
        and set(est.members_) == set(est.shares_)
        and isinstance(est.members_.get("low rank"), BayesianKMC)
        and all(
            part is None or part.n == n
            for part, n in zip(vars(est)["_kernels"], est.shape_, strict=True)
        )
    )


def _links() -> Record:
    """A method with a link behind it."""
    state: dict[str, Test] = {name: test for name, test in _fitted.items() if name not in _AT_TIMES}
    state |= {
        "observations_": of(Observations),
        "_model": of(LinkedForm),
        "estimator_": lambda value: isinstance(value, MatrixEstimator) and is_fitted(value),
        "links_": tuple_of(of(Link), 4),
        "levels_": floats(1),
        "deviance_": _numbers_by_name,
    }
    parameters: dict[str, Test] = {
        "estimator": of(MatrixEstimator),
        "likelihood": one_of(*LIKELIHOODS),
        "negatives": optional(one_of("sample")),
        "links": optional(tuple_of(of(Link), 4)),
        "random_state": _PARAMETERS["random_state"],
    }
    more = {"feature_names_in_": _two_names, "_chosen_from": count}
    state |= {**_sides, **parameters}
    return Record(LinkedRegressor, state, more, fits=_is_linked, tidy=_without_a_fit)


def _is_linked(est: LinkedRegressor) -> bool:
    """Whether form, links and what is known are those of the method."""
    form, seen = fitted_form(est), est.observations_
    return (
        isinstance(form, LinkedForm)
        and form.form is fitted_form(est.estimator_)
        and form.shape == est.shape_ == seen.shape == est.estimator_.shape_
        and form.links == est.links_
        and np.array_equal(est.levels_, est.links_[0].levels)
        and (est.likelihood == "poisson") == (len(est.levels_) == 0)
        and bool(
            (seen.values >= 0).all()
            if est.likelihood == "poisson"
            else np.isin(seen.values, est.levels_).all()
        )
        and (est.row_effects_.shape, est.col_effects_.shape)
        == tuple((size,) for size in est.shape_)
        and fitted_kernels(est) == fitted_kernels(est.estimator_)
    )


def _transformed() -> Record:
    """A method that is fitted on another scale."""
    state: dict[str, Test] = {name: test for name, test in _fitted.items() if name not in _AT_TIMES}
    four = tuple_of(floats(1), 4)
    state |= {
        "observations_": of(Observations),
        "_model": of(UndoneForm),
        "estimator_": _fitted_method,
        "scale_": of(ValueScale),
        "errors_": four,
        "trials_": _numbers_by_name,
        "estimator": of(MatrixRegressor),
        "scale": optional(either(one_of("auto", *SCALES), of(ValueScale))),
        "value_range": optional(tuple_of(real, 2)),
        "rounded": flag,
        "trial": optional(of(MatrixRegressor)),
        "errors": optional(four),
        **_sides,
    }
    more = {"feature_names_in_": _two_names, "_chosen_from": count}
    return Record(TransformedRegressor, state, more, fits=_is_transformed, tidy=_without_a_fit)


def _is_transformed(est: TransformedRegressor) -> bool:
    """Whether form, scale and what is known are those of the method."""
    form = fitted_form(est)
    return (
        isinstance(form, UndoneForm)
        and form.form is fitted_form(est.estimator_)
        and form.shape == est.shape_ == est.observations_.shape == est.estimator_.shape_
        and form.scale is est.scale_
        and len(form.errors) == len(est.errors_)
    )


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
    Record(Plan, dict.fromkeys(_PLAN, real)),
    _mix(),
    _links(),
    _transformed(),
    _method(
        BayesianKMC,
        W_=floats(2),
        H_=floats(2),
        rank_=whole,
        noise_variance_=positive,
        bound_=real,
        **_sides,
    ),
    _method(KKMCEXClassifier, classes_=_label_array, **_linked, **_sides),
    _method(
        KKMCEXOrdinal,
        dual_coef_=floats(1),
        levels_=floats(1),
        links_=tuple_of(of(Link), 4),
        deviance_=_numbers_by_name,
        **_sides,
    ),
    _method(KKMCEXPoisson, exposure_=optional(floats(1)), **_linked, **_sides),
    Record(ConstantScale, {}),
    Record(StdScale, {"model": _fitted_to_entries}, fits=lambda v: hasattr(v.model, "predict_std")),
    Record(FactorScale, {"model": _fitted_to_entries}, fits=lambda v: hasattr(v.model, "W_")),
    Record(
        LearnedScale,
        {
            "base": of(ConstantScale, StdScale, FactorScale),
            "level": real,
            "exponent": real,
            "row": floats(1),
            "col": floats(1),
        },
    ),
    Record(
        Around,
        {"model": _fitted_to_entries, "scores": floats(1)},
        {
            "weights": positive_floats,
            "scale": of(Scale),
            "mask": of(MaskModel),
            "groups": tuple_of(optional(indices), 2),
            "label": indices,
            "rows": positions,
            "cols": positions,
        },
        fits=_around,
        tidy=_without_none,
    ),
    Record(
        LeavingItemsOut,
        {
            "model": _fitted_to_entries,
            "scores": floats(1),
            "weights": positive_floats,
            "label": indices,
            "models": tuple_of(_fitted_to_entries),
            "scales": tuple_of(of(Scale)),
        },
        fits=_leaving_items_out,
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
        {
            "mask": one_of(*MASKS),
            "scores": one_of(*SCORES),
            "groups": optional(either(text, _two_groups)),
            "new": one_of(*NEW),
            "mask_kernels": optional(lambda pair: _two_groups(pair) or _two_kernels(pair)),
            "_outside": tuple_of(either(of(LeftOutErrors), text)),
        },
        tidy=_without_a_fit,
    ),
    *(
        Record(
            kind,
            {
                "estimator": of(method),
                "calibration": real,
                "random_state": _PARAMETERS["random_state"],
                "n_features_in_": one_of(2),
                "estimator_": of(method),
                "scores_": floats(1),
                **more,
            },
            tidy=_without_a_fit,
            fits=_calibrated,
        )
        for kind, method, more in (
            (ConformalClassifier, KKMCEXClassifier, {"classes_": _label_array}),
            (ConformalCounts, KKMCEXPoisson, {}),
        )
    ),
    Record(
        Calibrated,
        {
            "model": _fitted_to_entries,
            "count": whole,
            "groups": optional(tuple_of(optional(indices), 2)),
            "_parts": _four_parts,
        },
        {"kernels": _two_kernels},
        fits=lambda made: _known_of(made.kernels, made.model.shape_),
    ),
    Record(
        Completion,
        {
            "model": _fitted_method,
            "observations": of(Observations),
            "_told": tuple_of(text, 2),
            "_known": tuple_of(optional(_is_index), 2),
        },
        {
            "certified": of(Certificate),
            "certified_new": of(NewItemsCertificate),
            "_calibrated": of(Calibrated),
            "_side_kernels": _two_kernels,
        },
        forgotten=("_parts",),
        fits=_completion,
        tidy=_indexes_only,
    ),
)

_RECORDS = (*map(Record.of, _THEMSELVES), *_SOLVES, *_ESTIMATORS, *CERTIFICATES)
RECORDS = {record.name: record for record in _RECORDS}
"""Every class that a model file may hold, by its name there."""
MODELS = (
    AutoMC, TransformedRegressor, KKMCEX, RRMCEX, KMC, IMC, MC, BayesianKMC,
    KKMCEXClassifier, KKMCEXOrdinal, KKMCEXPoisson, LinkedRegressor, ConformalRegressor,
    ConformalClassifier, ConformalCounts, Completion,
)  # fmt: skip
"""The classes that can be saved by themselves."""
