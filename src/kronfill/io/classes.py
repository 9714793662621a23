"""The classes that a model file may hold: for each the names of its state, and what fits together.

Nothing in a file can name a class that is not listed here. An object is refused if an index lies
outside an array, a factor has another width than its coefficients, a kernel another size.
"""

from __future__ import annotations

import dataclasses
import sys
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone

from kronfill import solvers
from kronfill.completion import Completion
from kronfill.core.low_rank import LowRankFactor
from kronfill.data import Observations
from kronfill.estimators import IMC, KKMCEX, KMC, MC, RRMCEX, ConformalRegressor
from kronfill.estimators.base import MatrixRegressor
from kronfill.estimators.conformal import METHODS, _Around, _LeavingFoldsOut, _LeavingOneOut
from kronfill.estimators.fitted.bilinear import (
    Basis,
    Bilinear,
    Combined,
    Factored,
    Features,
    Sections,
    ValueBasis,
)
from kronfill.estimators.fitted.identity_part import IdentityForm, Stacked, _Extended, _Smooth
from kronfill.estimators.inputs import check_largest
from kronfill.estimators.posterior import GaussianProcessReading
from kronfill.io.checks import (
    Test,
    anything,
    count,
    either,
    flag,
    floats,
    indices,
    inside,
    of,
    one_of,
    optional,
    positions,
    positive,
    positive_floats,
    real,
    result,
    sparse_floats,
    text,
    truths,
    tuple_of,
    whole,
)
from kronfill.io.records import Record
from kronfill.kernels._featured import FeatureKernel
from kronfill.kernels._frames import is_frame
from kronfill.kernels.algebra import Normalized, Product, Scaled, Sum
from kronfill.kernels.base import Kernel
from kronfill.kernels.dotproduct import Linear, Polynomial, Tanimoto
from kronfill.kernels.features import FeatureTable, _ArrayEncoder, _FrameEncoder
from kronfill.kernels.given import Constant, Identity, Precomputed
from kronfill.kernels.graphs.laplacian import (
    Diffusion,
    LaplacianFunction,
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

MAX_STEPS = 2**16
"""Steps of a random walk: each is a product."""
FEW_PARTS = 8
"""Of a sum that has an explicit factor."""

kernel = of(Kernel)
labels = optional(of(tuple))
per_feature = either(positive, positive_floats)
shape = tuple_of(count, 2)


def _of_pandas(name: str) -> Test:
    """An object of this class of pandas, without importing it."""

    def passes(value: Any) -> bool:
        pandas = sys.modules.get("pandas")
        return pandas is not None and isinstance(value, getattr(pandas, name))

    return passes


_is_index, _is_levels, _is_series = map(_of_pandas, ("Index", "MultiIndex", "Series"))


# Kernels.


def _labelled(value: Any) -> bool:
    return value.labels is None or len(value.labels) == value.n


def _featured(value: FeatureKernel) -> bool:
    """Whether new items, encoded and placed, have the coordinates of the known ones.

    This is told by sizes alone: a table of few entries may be very wide.
    """
    table, width = value._table, value._table._encoder.width
    is_sparse, on_circles = sparse.issparse(table.values), isinstance(value, Periodic)
    scales = [getattr(value, name, 1.0) for name in ("length_scale", "period")]
    centre = getattr(value, "_centre", None)
    return (
        _labelled(value)
        and table.n == value.n
        and table.width == (2 * width if on_circles else width)
        and all(np.shape(scale) in ((), (width,)) for scale in scales)
        and (centre is None or centre.shape == (width,))
        and not (is_sparse and (on_circles or centre is not None))
    )


_marked = {"learned": lambda value: value is True}


def _kernel(kind: type[Kernel], fits: Test = _labelled, **state: Test) -> Record:
    return Record(kind, {"n": count, "labels": labels, **state}, _marked, fits=fits)


def _of_features(kind: type[Kernel], **state: Test) -> Record:
    return _kernel(kind, _featured, _table=of(FeatureTable), **state)


def _same_items(value: Any) -> bool:
    return _labelled(value) and {part.n for part in value.parts} == {value.n}


def _base_items(value: Any) -> bool:
    return _labelled(value) and bool(value.base.n == value.n)


def _normalized(value: Normalized) -> bool:
    return _base_items(value) and value._weights.shape == (value.n,)


def _thin(value: Thin) -> bool:
    factor, phi = value.factor_of_base, value.phi
    return (
        _labelled(value)
        and len(phi) == value.n
        and _factors(value.base, factor)
        and factor.rank == phi.shape[1]
    )


def _factors(whole: Kernel, factor: LowRankFactor) -> bool:
    """Whether a factor is one of this kernel, as far as sizes tell: for new items too."""
    explicit = _explicit(whole) if factor.pivots is None else None
    rank = factor.rank
    if isinstance(explicit, Linear):
        rank = explicit._table.width
    if isinstance(explicit, Thin):
        rank = explicit.known_rank
    return whole.n == factor.n and factor.rank == rank


def _explicit(whole: Kernel) -> Kernel:
    """The part of a kernel that a factor without pivots is of: multiples and identities aside."""
    while True:
        if isinstance(whole, Scaled | Normalized):
            whole = whole.base
        elif isinstance(whole, Sum) and len(whole.parts) <= FEW_PARTS:
            smooth = [part for part in whole.parts if not isinstance(_unscaled(part), Identity)]
            if len(smooth) != 1:
                return whole
            (whole,) = smooth
        else:
            return whole


def _unscaled(whole: Kernel) -> Kernel:
    while isinstance(whole, Scaled | Normalized):
        whole = whole.base
    return whole


def _square(value: Any, n: int) -> bool:
    return value is None or value.shape == (n, n)


def _graph(value: GraphKernel) -> bool:
    weights = value._weights
    known = (value._K is None) != (weights is None)
    stored = weights.data if sparse.issparse(weights) else weights
    return (
        known
        and _labelled(value)
        and _square(value._K, value.n)
        and _square(weights, value.n)
        and (weights is None or bool(np.min(stored, initial=0.0) >= 0))
    )


def _large_graph(value: SparseGraphKernel) -> bool:
    selves = value._selves
    right = selves is None or selves.shape == (value.n,)
    return right and _labelled(value) and value._laplacian.n == value.n


def _laplacian(value: SparseLaplacian) -> bool:
    """Whether it is one: its diagonal stored, nothing positive beside it, and L still = 0.

    Then I + L has an inverse: still (I + L) still is dominated by its diagonal.
    """
    matrix, still, n = value.matrix, value.still, value.n
    if matrix.shape != (n, n) or still.shape != (n,):
        return False
    own = np.repeat(np.arange(n), np.diff(matrix.indptr)) == matrix.indices
    rounding = 1e-9 * float((abs(matrix) @ still).max())
    return (
        np.array_equal(np.sort(matrix.indices[own]), np.arange(n))
        and bool((matrix.data[~own] <= 0).all())
        and bool((np.abs(matrix @ still) <= rounding).all())
    )


def _section(value: GraphSection) -> bool:
    return (
        _labelled(value) and len(value._items) == value.n and inside(value._items, value._whole.n)
    )


def _encoder(value: _FrameEncoder) -> bool:
    kinds, names = value.kinds, value.columns
    if set(kinds) != {"number", "bool", "date", "category"}:
        return False
    if any(type(some) is not list for some in kinds.values()):
        return False
    listed = [name for some in kinds.values() for name in some]
    scaled = len(kinds["number"]) + len(kinds["date"])
    width = scaled + len(kinds["bool"]) + sum(map(len, value.categories))
    return (
        len(listed) == len(names)
        and set(listed) == set(names)
        and value.centres.shape == value.scales.shape == (scaled,)
        and len(value.categories) == len(kinds["category"])
        and value.width == width
    )


def _table(value: FeatureTable) -> bool:
    return value.labels is None or len(value.labels) == value.n


def _factor(value: LowRankFactor) -> bool:
    """Whether new items follow from the pivots, by a triangular system that can be solved."""
    pivots = value.pivots
    if pivots is None:
        return True
    right = len(pivots) == value.rank and inside(pivots, value.n)
    return right and bool((value.phi[pivots, np.arange(value.rank)] > 0).all())


_matrix = either(floats(2), sparse_floats)


def _matrix_like(value: Any) -> bool:
    """What a user may give for a matrix: it is looked at when it is used."""
    return isinstance(value, np.ndarray | list | tuple) or sparse.issparse(value) or is_frame(value)


_KERNELS = (
    Record(_ArrayEncoder, {"width": count}),
    Record(
        _FrameEncoder,
        {
            "columns": tuple_of(anything),
            "kinds": of(dict),
            "centres": floats(1),
            "scales": positive_floats,
            "categories": tuple_of(tuple_of(text)),
            "width": count,
            "dense": flag,
        },
        fits=_encoder,
    ),
    Record(
        FeatureTable,
        {"values": _matrix, "labels": labels, "_encoder": of(_ArrayEncoder, _FrameEncoder)},
        fits=_table,
    ),
    Record(
        LowRankFactor,
        {"phi": floats(2), "pivots": optional(indices), "residual": real},
        fits=_factor,
    ),
    _of_features(RBF, length_scale=per_feature, _centre=optional(floats(1))),
    _of_features(
        Matern,
        length_scale=per_feature,
        _centre=optional(floats(1)),
        nu=one_of(0.5, 1.5, 2.5),
    ),
    _of_features(Periodic, period=per_feature, length_scale=per_feature),
    _of_features(Linear),
    _of_features(Polynomial, degree=count, gamma=positive, coef0=real),
    _of_features(Tanimoto),
    _kernel(Sum, _same_items, parts=tuple_of(kernel)),
    _kernel(Product, _same_items, parts=tuple_of(kernel)),
    _kernel(Scaled, _base_items, base=kernel, scale=positive),
    _kernel(Normalized, _normalized, base=kernel, _weights=floats(1)),
    _kernel(
        Precomputed, lambda value: _labelled(value) and _square(value._K, value.n), _K=floats(2)
    ),
    _kernel(
        Thin,
        _thin,
        base=kernel,
        factor_of_base=of(LowRankFactor),
        phi=floats(2),
        residual=real,
    ),
    _kernel(Constant),
    _kernel(Identity),
    Record(Diffusion, {"t": positive, "normalized": flag}),
    Record(RegularizedLaplacian, {"sigma": positive, "normalized": flag}),
    Record(RandomWalk, {"steps": lambda value: count(value) and value <= MAX_STEPS, "a": positive}),
    Record(
        SparseLaplacian,
        {
            "matrix": sparse_floats,
            "top": lambda value: real(value) and value >= 0,
            "still": positive_floats,
        },
        fits=_laplacian,
    ),
    _kernel(
        GraphKernel,
        _graph,
        _function=of(LaplacianFunction),
        _weights=optional(_matrix),
        _K=optional(floats(2)),
    ),
    Record(
        SparseGraphKernel,
        {
            "n": count,
            "labels": labels,
            "_function": of(LaplacianFunction),
            "_laplacian": of(SparseLaplacian),
            "_selves": optional(floats(1)),
        },
        _marked,
        forgotten=("_operator",),
        fits=_large_graph,
    ),
    _kernel(GraphSection, _section, _whole=of(SparseGraphKernel), _items=indices),
)


# Fitted forms.


def _extent(basis: Basis) -> tuple[int, int]:
    """Number of known items and of columns of a basis."""
    if isinstance(basis, Sections):
        return basis.kernel.n, len(basis.items)
    if isinstance(basis, Factored | _Smooth):
        return basis.factor.n, basis.factor.rank
    if isinstance(basis, Features):
        return basis.table.n, basis.table.width
    if isinstance(basis, Combined):
        return _extent(basis.basis)[0], basis.coef.shape[1]
    if isinstance(basis, _Extended):
        return _extent(basis.basis)[0], basis.core.shape[1]
    assert isinstance(basis, ValueBasis)
    return basis.values.shape[0], basis.values.shape[1]


def _encodes(table: FeatureTable) -> bool:
    """Whether new items have the features of the known ones."""
    return table.width == table._encoder.width


def _combined(value: Combined) -> bool:
    width: int = value.coef.shape[0]
    return _extent(value.basis)[1] == width


def _extended(value: _Extended) -> bool:
    return _extent(value.basis)[1] == value.core.shape[0] and value.own.shape == _extent(value)


def _bilinear(value: Bilinear) -> bool:
    (n, a), (l, b) = _extent(value.row_basis), _extent(value.col_basis)
    effects = value.effects
    return (
        value.shape == (n, l)
        and (a == b if value.core is None else value.core.shape == (a, b))
        and (effects is None or (effects.row.shape, effects.col.shape) == ((n,), (l,)))
    )


def _split(value: IdentityForm) -> bool:
    shapes = {value.row_part.shape, value.col_part.shape, tuple(value.own.shape)}
    return len(shapes) == 1


def _form_shape(form: Any) -> tuple[int, int]:
    if isinstance(form, Stacked):
        return _form_shape(form.forms[0])
    shape: tuple[int, int] = form.row_part.shape if isinstance(form, IdentityForm) else form.shape
    return shape


def _stacked(value: Stacked) -> bool:
    return len({_form_shape(form) for form in value.forms}) == 1


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
_basis = of(Basis)
_narrow = of(Sections, Factored, _Smooth, Combined, _Extended, ValueBasis)
"""Features alone may be sparse and very wide; what combines them has a number for each."""
_form = of(Bilinear, IdentityForm, Stacked)

_FORMS = (
    Record(
        Sections,
        {"kernel": kernel, "items": indices},
        fits=lambda value: inside(value.items, value.kernel.n),
    ),
    *(
        Record(
            kind,
            {"kernel": kernel, "factor": of(LowRankFactor)},
            fits=lambda value: _factors(value.kernel, value.factor),
        )
        for kind in (Factored, _Smooth)
    ),
    Record(Features, {"table": of(FeatureTable)}, fits=lambda value: _encodes(value.table)),
    Record(Combined, {"basis": _basis, "coef": floats(2)}, fits=_combined),
    Record(ValueBasis, {"values": floats(2)}, called="Table"),
    Record(_Extended, {"basis": _basis, "core": floats(2), "own": floats(2)}, fits=_extended),
    Record(AdditiveEffects, {"mean": real, "row": floats(1), "col": floats(1)}),
    Record(
        Bilinear,
        {
            "row_basis": _narrow,
            "col_basis": _narrow,
            "core": optional(_matrix),
            "effects": optional(of(AdditiveEffects)),
            "shape": shape,
        },
        fits=_bilinear,
    ),
    Record(
        IdentityForm,
        {"row_part": of(Bilinear), "col_part": of(Bilinear), "own": sparse_floats},
        fits=_split,
        called="SplitModel",
    ),
    Record(Stacked, {"forms": tuple_of(of(Bilinear, IdentityForm))}, fits=_stacked),
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
    "row_labels": labels,
    "col_labels": labels,
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
    "_model": _form,
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
        return set(has) <= {*est._get_param_names(), "_chosen_from"}
    size = est.shape_
    targets: tuple[int, ...] = ()
    if isinstance(est._model, Stacked):
        targets = (len(est._model.forms),)
    effects = (est.row_effects_.shape, est.col_effects_.shape)
    seen = has.get("observations_")
    return (
        _form_shape(est._model) == size
        and (seen is None) == ("_from_table" in has)
        and (seen is None or seen.shape == size)
        and effects == tuple((length, *targets) for length in size)
        and np.shape(est.mean_) == targets
        and isinstance(est.solution_, tuple) == bool(targets)
        and _sized([part and part.n for part in has.get("_kernels", (None, None))], size)
        and _sized([part and part.n for part in has.get("_tables", (None, None))], size)
        and all(part is None or _encodes(part) for part in has.get("_tables", ()))
        and ("dual_coef_" not in has or est.dual_coef_.shape == (seen and seen.m, *targets))
        and ("dual_coef_" in has) == (isinstance(est, KKMCEX) and seen is not None)
        and ("W_" not in has or _is_pair(est.W_, est.H_, size))
        and ("_bases" not in has or _is_cut(est))
        and (bool(targets) <= isinstance(est, KKMCEX))
    )


def _is_pair(left: Any, right: Any, size: tuple[int, int]) -> bool:
    return (len(left), len(right)) == size and left.shape[1] == right.shape[1]


def _is_cut(est: RRMCEX) -> bool:
    """Whether the fitted form is made from the factors that were kept to go on from."""
    form, ranks = est._model, (est.row_rank_, est.col_rank_)
    return (
        isinstance(form, Bilinear)
        and (form.row_basis, form.col_basis) == est._bases
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
    parameters = {name: _PARAMETERS[name] for name in kind._get_param_names()}
    state = {**_fitted, **more}
    at_times = {name: state.pop(name) for name in _AT_TIMES if name in state}
    at_times.update(parameters)
    return Record(kind, state, at_times, forgotten=("_kept_reading",), fits=_estimator, bare=True)


def _indexes_only(state: dict[str, Any]) -> dict[str, Any]:
    known = tuple(own if _is_index(own) else None for own in state["_known"])
    return {**state, "_known": known}


def _without_a_fit(state: dict[str, Any]) -> dict[str, Any]:
    """The method that was given is kept as it was meant: its parameters, whatever else it is."""
    return {**state, "estimator": clone(state["estimator"])}


def _leaving_one_out(value: _LeavingOneOut) -> bool:
    weights = value.model.observations_.weights
    m = value.model.observations_.m if weights is None else np.count_nonzero(weights)
    return isinstance(
        value.model, GaussianProcessReading
    ) and value.residuals.shape == value.lonely.shape == (m,)


def _leaving_folds_out(value: _LeavingFoldsOut) -> bool:
    return (
        {one.shape_ for one in value.models} == {value.model.shape_}
        and value.label.shape == value.scores.shape
        and inside(value.label, len(value.models))
        and bool((value.scores >= 0).all())
    )


def _completion(value: Completion) -> bool:
    seen = value.observations
    pairs = zip(value._known, (seen.row_labels, seen.col_labels), strict=True)
    return (
        value.model.shape_ == seen.shape
        and not isinstance(value.model._model, Stacked)
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
    return known and not isinstance(value._model, Stacked)


_ESTIMATORS = (
    Record(Observations, _entries, fits=_is_moderate, cost=_places),
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
        _Around,
        {"model": _fitted_to_entries, "scores": floats(1)},
        fits=lambda value: bool((np.diff(value.scores, prepend=0.0) >= 0).all()),
    ),
    Record(
        _LeavingOneOut,
        {"model": _fitted_to_entries, "residuals": floats(1), "lonely": truths},
        fits=_leaving_one_out,
    ),
    Record(
        _LeavingFoldsOut,
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
            "_bounds": of(_Around, _LeavingOneOut, _LeavingFoldsOut),
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

RECORDS = {record.name: record for record in (*_KERNELS, *_FORMS, *_ESTIMATORS)}
"""Every class that a model file may hold, by its name there."""
MODELS = (KKMCEX, RRMCEX, KMC, IMC, MC, ConformalRegressor, Completion)
"""The classes that can be saved by themselves."""
