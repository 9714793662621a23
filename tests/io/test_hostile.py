"""Model files made by someone who knows the format: the checksums are right, the contents are not.

Forged at random in tests/slow/test_io_fuzz.py, and a few of those here.
"""

from __future__ import annotations

import sys
import tracemalloc

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

import kronfill as kf
from kronfill.errors import ModelFileError
from kronfill.io.arrays import sha256
from kronfill.kernels.thin import thin

from ..forging import ring
from ..model_files import file_of, parts_of, rebuilt
from ..trying import allowed, bad, run

N, L = 12, 9
RNG = np.random.default_rng(5)
POINTS = RNG.standard_normal((N, 3))
X = RNG.permutation(np.argwhere(RNG.random((N, L)) < 0.5))
Y = RNG.standard_normal(len(X))
ROWS = kf.kernels.rbf(POINTS)
LARGE = 2**17
"""An array of so many whole numbers takes 1 MiB."""


def bytes_of(model, folder):
    model.save(folder / "whole.kf")
    return (folder / "whole.kf").read_bytes()


@pytest.fixture
def forge(tmp_path):
    """A function that saves a model, changes its file and loads it."""

    def load(model, change):
        path = tmp_path / "model.kf"
        path.write_bytes(rebuilt(bytes_of(model, tmp_path), change))
        return kf.load(path)

    return load


def first(manifest, name):
    return next(line for line in manifest["objects"] if line["class"] == name)["state"]


def added(manifest, parts, array):
    """The number of an array that is put into the file."""
    entry = f"{len({line['entry'] for line in manifest['arrays']})}.bin"
    parts[entry] = array.tobytes()
    line = {"entry": entry, "dtype": array.dtype.str, "shape": list(array.shape), "order": "C"}
    manifest["arrays"].append({**line, "sha256": sha256(parts[entry])})
    return len(manifest["arrays"]) - 1


def changed(name, key, value):
    """A change of one value in the state of the first object of a class."""

    def change(manifest, parts):
        is_array = isinstance(value, np.ndarray)
        node = {"array": added(manifest, parts, value)} if is_array else value
        assert key in first(manifest, name)
        first(manifest, name)[key] = node

    return change


# Random generators.


def seeded(generator):
    start = kf.ALS(start="gaussian", sweeps=5, tol=0.9)
    return kf.MC(rank=2, solver=start, random_state=generator).fit(X, Y)


GENERATORS = {
    name: np.random.Generator(getattr(np.random, name)(3))
    for name in ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")
}
GENERATORS["old"] = np.random.RandomState(3)
GENERATORS["old with another source"] = np.random.RandomState(np.random.PCG64(3))


@pytest.mark.parametrize("name", GENERATORS)
def test_every_random_generator_goes_on_where_it_was(name, forge):
    est = seeded(GENERATORS[name])
    back = forge(est, lambda manifest, parts: None)
    assert_array_equal(back.random_state.standard_normal(7), est.random_state.standard_normal(7))


STATES = [
    *(("MT19937", "pos", value) for value in (-1, 625, 2**31 - 1, 10**9, 0.5, None)),
    ("MT19937", "key", np.zeros(624, np.uint32)),
    ("MT19937", "key", np.ones(623, np.uint32)),
    ("MT19937", "key", np.ones(624)),
    ("MT19937", "key", {"tuple": [1] * 624}),
    *(("Philox", "buffer_pos", value) for value in (-1, -(2**31), 5, 10**9, True)),
    ("Philox", "buffer", np.ones(3, np.uint64)),
    ("Philox", "counter", np.ones(5, np.uint64)),
    ("PCG64", "inc", 0),
    ("PCG64", "inc", 2**128 + 1),
    ("PCG64DXSM", "inc", 6),
    ("PCG64", "state", -1),
    ("PCG64", "has_uint32", 2),
    ("PCG64", "uinteger", 2**32),
    ("SFC64", "uinteger", -1),
    ("old", "pos", 700),
    ("old", "has_gauss", 5),
    ("old", "gauss", {"float": "nan"}),
    ("old", "bit_generator", "Generator"),
    ("old", "more", 1),
]


def set_number(node, key, value):
    """Set a value in a dictionary of a manifest, or in one inside of it."""
    pairs = node["dict"]
    for pair in pairs:
        if pair[0] == key and not (isinstance(pair[1], dict) and "dict" in pair[1]):
            pair[1] = value
            return True
    return any(set_number(item, key, value) for _, item in pairs if "dict" in str(item))


@pytest.mark.parametrize(("name", "key", "value"), STATES)
def test_a_state_that_a_generator_cannot_be_in_is_refused(name, key, value, forge):
    def change(manifest, parts):
        is_array = isinstance(value, np.ndarray)
        node = {"array": added(manifest, parts, value)} if is_array else value
        state = first(manifest, "MC")["random_state"]["random"][1]
        if not set_number(state, key, node):
            state["dict"].append([key, node])

    with pytest.raises(ModelFileError, match="random generator"):
        forge(seeded(GENERATORS[name]), change)


# Numbers that compiled code would trust, and parts that do not belong together.


def of_features(kernel, **settings):
    return kf.KKMCEX(kernel, None, **settings).fit(X, Y)


def featured(n):
    return pd.DataFrame({"x": np.arange(n) / 7, "y": np.arange(n) % 3})


SPARSE = sparse.csr_array(RNG.poisson(0.5, (N, 40)).astype(float))
DAYS = pd.DataFrame(
    np.where(RNG.random((N, L)) < 0.5, 1.0, np.nan),
    pd.MultiIndex.from_product([["a"], range(N)]),
    pd.date_range("2026", periods=L),
)
MODELS = {
    "rbf": lambda: of_features(ROWS),
    "scales": lambda: of_features(kf.kernels.rbf(POINTS, [1.0, 2.0, 3.0])),
    "sparse": lambda: of_features(kf.kernels.rbf(SPARSE)),
    "frame": lambda: of_features(kf.kernels.rbf(featured(N))),
    "periodic": lambda: of_features(kf.kernels.periodic(POINTS, 2.0)),
    "matern": lambda: of_features(kf.kernels.matern(POINTS)),
    "linear": lambda: of_features(kf.kernels.linear(POINTS), solver=kf.PrimalDirect()),
    "thin": lambda: of_features(thin(ROWS, 4), solver=kf.PrimalDirect()),
    "graph": lambda: of_features(kf.kernels.diffusion(nx.path_graph(N))),
    "walk": lambda: of_features(kf.kernels.random_walk(nx.path_graph(N))),
    "ring": lambda: of_features(ring(N)[0]),
    "sum": lambda: of_features(ROWS + kf.kernels.identity(N)),
    "pcg": lambda: of_features(ROWS, solver=kf.PCG(), mu=0.3, center="mean"),
    "names": lambda: kf.MC(rank=2).fit(pd.DataFrame(X, columns=["a", "b"]), Y),
    "rrmcex": lambda: kf.RRMCEX(ROWS, None, row_rank=3).fit(X, Y),
    "mc": lambda: kf.MC((N, L), rank=2).fit(X, Y),
    "imc": lambda: kf.IMC(POINTS, None, rank=2).fit(X, Y),
    "split": lambda: kf.ConformalRegressor(kf.MC(rank=2)).fit(X, Y),
    "completion": lambda: kf.complete(DAYS, method="mc", rank=1, mu=1.0),
}
WIDE = {"csr": [0, 1, 2, [N, 40]]}
NOT_FINITE = ({"float": "nan"}, {"float": "inf"})
WRONG = [
    ("rbf", changed("RBF", "length_scale", 0.0)),
    ("rbf", changed("RBF", "centre", np.ones(2))),
    ("scales", changed("RBF", "length_scale", np.array([1.0, 0.0, 1.0]))),
    ("scales", changed("RBF", "length_scale", np.array([1.0, -2.0, 1.0]))),
    ("sparse", changed("RBF", "centre", np.ones(40))),
    ("frame", changed("FrameEncoder", "scales", np.array([1.0, 0.0]))),
    ("rbf", changed("ArrayEncoder", "width", 10**9)),
    ("sparse", changed("ArrayEncoder", "width", 10**9)),
    ("periodic", changed("ArrayEncoder", "width", 6)),
    ("matern", changed("Matern", "nu", {"array": 0})),
    ("thin", changed("LowRankFactor", "pivots", np.zeros(4, np.intp))),
    ("thin", changed("LowRankFactor", "pivots", np.array([0, 1, 2, N]))),
    ("thin", changed("LowRankFactor", "pivots", np.array([0, 1, 2, -1]))),
    ("thin", changed("LowRankFactor", "phi", np.zeros((N, 4)))),
    ("linear", changed("LowRankFactor", "phi", np.ones((N, 2)))),
    ("graph", changed("GraphKernel", "K", None)),
    ("walk", changed("RandomWalk", "steps", 10**9)),
    ("ring", changed("SparseLaplacian", "top", -1.0)),
    ("ring", changed("SparseLaplacian", "top", {"float": "inf"})),
    ("ring", changed("SparseLaplacian", "still", np.zeros(N))),
    ("ring", changed("SparseLaplacian", "still", np.arange(1.0, N + 1))),
    ("sum", changed("Sum", "parts", {"tuple": []})),
    ("sum", changed("Identity", "n", 10**15)),
    *(("pcg", changed("KKMCEX", "mean_", value)) for value in NOT_FINITE),
    *(("pcg", changed("AdditiveEffects", "mean", value)) for value in NOT_FINITE),
    ("pcg", changed("KKMCEX", "mu", 10**400)),
    ("pcg", changed("KKMCEX", "mu", {"float": "nan"})),
    ("pcg", changed("KKMCEX", "solver", {"tuple": []})),
    ("pcg", changed("PCG", "max_iter", 10**400)),
    ("pcg", changed("PCG", "tol", "small")),
    ("pcg", changed("Observations", "rows", {"object": 0})),
    ("pcg", changed("Observations", "rows", {"tuple": [0] * len(X)})),
    ("pcg", changed("Observations", "rows", np.zeros(len(X)))),
    ("names", changed("MC", "feature_names_in_", {"objects": [[2, 2], ["a", "b", "c", "d"]]})),
    ("names", changed("MC", "feature_names_in_", np.ones(2))),
    ("mc", changed("MC", "H_", np.ones((L, 3)))),
    ("mc", changed("MC", "random_state", "now")),
    ("mc", changed("MC", "n_features_in_", 2.0)),
    ("mc", changed("MC", "shape", {"tuple": [2**40, L]})),
    ("rrmcex", changed("RRMCEX", "coef_", np.ones((1, 1)))),
    ("rrmcex", changed("RRMCEX", "row_rank_", 5)),
    ("imc", changed("ArrayEncoder", "width", 4)),
    ("completion", changed("Observations", "row_labels", None)),
    ("completion", changed("Completion", "known", {"tuple": [{"object": 10**6}, None]})),
]


@pytest.mark.filterwarnings("ignore::kronfill.errors.KronfillWarning")
@pytest.mark.parametrize(("name", "change"), WRONG)
def test_parts_that_do_not_fit_are_refused(name, change, forge):
    with pytest.raises(ModelFileError, match="damaged or was changed"):
        forge(MODELS[name](), change)


@pytest.mark.filterwarnings("ignore::kronfill.errors.KronfillWarning")
@pytest.mark.parametrize("name", MODELS)
def test_as_they_were_they_are_accepted(name, forge):
    forge(MODELS[name](), lambda manifest, parts: None)


@pytest.mark.parametrize(
    "settings",
    [
        {"shape": [N, L], "random_state": 2**100},
        {"shape": np.array([N, L]), "random_state": [1, 2, 3]},
        {"solver": kf.ALS(sweeps=float("inf"), start=[np.ones((N, 2)), np.ones((L, 2))])},
        {"solver": kf.ALS(start=(np.ones((N, 2)), np.ones((L, 2)).tolist()), tol=0.5)},
        {"warm_start": 1, "rank": 10**30, "mu": 10**20},
    ],
)
def test_settings_of_every_kind_are_accepted(settings, forge):
    est = kf.MC(**{"rank": 2, **settings}).fit(X, Y)
    back = forge(est, lambda manifest, parts: None)
    assert_array_equal(back.fit(X, Y).predict_matrix(), est.fit(X, Y).predict_matrix())


def test_a_factor_kept_for_other_items_is_refused(forge):
    """The factors that a model goes on from are those that it predicts with."""

    def change(manifest, parts):
        model = first(manifest, "RRMCEX")
        model["bases"] = {"tuple": model["bases"]["tuple"][::-1]}

    square = kf.RRMCEX(ROWS, ROWS, row_rank=3, col_rank=3).fit([[0, 1], [1, 2]], [1.0, 2.0])
    with pytest.raises(ModelFileError, match="do not fit together"):
        forge(square, change)


def test_indexes_do_not_stay_in_the_file(tmp_path):
    """What was checked is what is used, even if the file is changed in place afterwards."""
    rng = np.random.default_rng(0)
    m, n = 2**17, 1000
    codes = rng.choice(n * n, m, replace=False)
    obs = kf.Observations(codes // n, codes % n, rng.standard_normal(m), (n, n))
    est = kf.MC(rank=1, solver=kf.ALS(sweeps=3, tol=0.9)).fit(obs)
    path = tmp_path / "model.kf"
    est.save(path)
    back = kf.load(path)
    with open(path, "r+b") as file:
        file.write(b"\xff" * path.stat().st_size)
    assert_array_equal(back.observations_.rows, obs.rows)
    assert_array_equal(back.observations_.cols, obs.cols)


# Files that stand for more than they hold.


def named_often(manifest, parts):
    """Labels that are tuples of a hundred columns, all of them the same array."""
    number = added(manifest, parts, np.arange(LARGE))
    labels = {"tuple": {"columns": [{"ints": number}] * 100}}
    first(manifest, "Observations")["row_labels"] = labels


def listed_often(manifest, parts):
    """A thousand arrays in the same entry."""
    number = added(manifest, parts, np.zeros(LARGE - 1))
    manifest["arrays"] += [manifest["arrays"][number]] * 1000
    columns = [{"array": k} for k in range(number, number + 1000)]
    first(manifest, "IMC")["row_features"] = {"list": columns}


def wide_frame(manifest, parts):
    number = added(manifest, parts, np.zeros(LARGE - 1))
    columns = [{"numbers": number}] * 500
    index, names = ({"range": [0, k, 1, None]} for k in (LARGE - 1, 500))
    first(manifest, "IMC")["row_features"] = {"frame": [index, names, columns]}


def lists_of_lists(manifest, parts):
    number = added(manifest, parts, np.zeros(LARGE))
    first(manifest, "IMC")["row_features"] = {"list": [{"list": {"floats": number}}] * 300}


def many_observations(manifest, parts):
    at = {"array": added(manifest, parts, np.arange(LARGE))}
    ones = {"array": added(manifest, parts, np.ones(LARGE))}
    state = {"rows": at, "cols": at, "values": ones, "weights": None}
    state |= {"shape": {"tuple": [LARGE, LARGE]}, "row_labels": None, "col_labels": None}
    manifest["objects"] = [{"class": "Observations", "state": state}] * 300


def many_categories(manifest, parts):
    """Categories that are a range: nothing of them is in the file."""
    added(manifest, parts, np.zeros(LARGE))
    codes = added(manifest, parts, np.zeros(1, np.int8))
    one = {"index": [{"categories": [codes, {"range": [0, 10**6, 1, None]}, False]}, None, None]}
    first(manifest, "IMC")["row_features"] = {"list": [one] * 50}


def long_message(manifest, parts):
    """What is refused is shown, but it is not written out for that."""
    number = added(manifest, parts, np.arange(LARGE))
    first(manifest, "IMC")["center"] = {"tuple": [{"tuple": {"ints": number}}] * 60}


AMPLIFIED = [
    named_often, listed_often, wide_frame, lists_of_lists, many_observations, many_categories,
    long_message,
]  # fmt: skip


@pytest.mark.parametrize("change", AMPLIFIED, ids=lambda change: change.__name__)
def test_a_small_file_does_not_become_a_large_model(change, tmp_path):
    path = tmp_path / "model.kf"
    path.write_bytes(rebuilt(bytes_of(MODELS["imc"](), tmp_path), change))
    tracemalloc.start()
    with pytest.raises(ModelFileError):
        kf.load(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < allowed(path.stat().st_size)


def test_a_sparse_table_may_be_wide_without_taking_room(tmp_path):
    """Width is a number in the file; nothing of that length is made to check it."""
    width = 10**8

    def change(manifest, parts):
        first(manifest, "FeatureTable")["values"]["csr"][3] = [N, width]
        first(manifest, "ArrayEncoder")["width"] = width

    path = tmp_path / "model.kf"
    path.write_bytes(rebuilt(bytes_of(MODELS["sparse"](), tmp_path), change))
    tracemalloc.start()
    back = kf.load(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**22
    assert back.row_kernel._table.width == width


def test_a_table_that_is_too_wide_is_neither_written_nor_read(forge, tmp_path):
    hashed = sparse.csr_array((np.ones(N), (np.arange(N), np.arange(N))), shape=(N, 2**27 + 1))
    with pytest.raises(ModelFileError, match="134217729 columns"):
        kf.IMC(None, None, rank=1).fit(X, Y).set_params(row_features=hashed).save(tmp_path / "a.kf")
    with pytest.raises(ModelFileError, match="sparse matrix of shape"):
        forge(MODELS["sparse"](), changed("FeatureTable", "values", {"csr": [0, 1, 2, [N, 2**40]]}))


def test_an_empty_array_is_not_endless(forge):
    with pytest.raises(ModelFileError, match="array 0 of shape"):
        forge(
            MODELS["mc"](), lambda manifest, parts: parts.update({"0.bin": b""}) or line(manifest)
        )


def line(manifest):
    empty = {"shape": [0, 10**12], "sha256": sha256(b"")}
    entry = manifest["arrays"][0]["entry"]
    for one in manifest["arrays"]:
        if one["entry"] == entry:
            one.update(empty)


def test_an_object_that_nothing_refers_to_is_refused(forge):
    """It would be made, however often it stands there, and never be seen."""

    def change(manifest, parts):
        manifest["objects"].append({"class": "Cholesky", "state": {}})

    with pytest.raises(ModelFileError, match="no part of the model"):
        forge(MODELS["mc"](), change)


def test_a_kernel_of_very_many_parts_is_refused(forge):
    """A thousand names of a sum of a thousand names: every prediction would take a million."""

    def change(manifest, parts):
        lines, number = manifest["objects"], 0
        model = lines.pop()
        assert (lines[number]["class"], model["class"]) == ("Identity", "KKMCEX")
        for _ in range(2):
            state = {"n": N, "labels": None, "parts": {"tuple": [{"object": number}] * 990}}
            number = len(lines)
            lines.append({"class": "Sum", "state": state})
        model["state"]["row_kernel"] = {"object": number}
        manifest["model"] = {"object": number + 1}
        lines.append(model)

    with pytest.raises(ModelFileError, match="stands for"):
        forge(kf.KKMCEX(kf.kernels.identity(N)).fit(X, Y), change)


@pytest.mark.parametrize("kind", ["ints", "tuples", "keys"])
def test_labels_that_a_dictionary_cannot_tell_apart_are_refused(kind, forge):
    """Different numbers with one hash: a search among them looks at all of them."""
    step = 2**61 - 1

    def change(manifest, parts):
        few = np.arange(-4, 5) * step
        grid = np.array(np.meshgrid(few, few, few)).reshape(3, -1)
        columns = [{"ints": added(manifest, parts, column)} for column in grid]
        labels = {"tuple": {"columns": columns}}
        if kind == "ints":
            labels = {"tuple": [int(k) * step for k in range(729)]}
        if kind == "keys":
            labels = {"dict": [[int(k) * step, None] for k in range(729)]}
        first(manifest, "Observations")["row_labels"] = labels

    obs = kf.Observations([0], [0], [1.0], (729, 1), row_labels=range(729))
    with pytest.raises(ModelFileError, match="same hash"):
        forge(kf.MC(rank=1).fit(obs), change)


def test_repeated_values_are_not_taken_for_an_attack(forge):
    """-1 and -2 have the same hash, and a column may have both of them many times."""
    column = np.array([-1, -2, None, "x"] * 500, dtype=object)
    features = pd.DataFrame({"a": column, "b": [True, False] * 1000})
    est = kf.IMC(None, None, rank=1).fit(X, Y).set_params(row_features=features)
    pd.testing.assert_frame_equal(forge(est, lambda manifest, parts: None).row_features, features)


def test_many_equal_columns_can_be_saved(tmp_path):
    """What is equal is stored once, but not so often that it looks like too much."""
    n = 10_000
    columns = {f"c{j}": np.zeros(n) for j in range(400)}
    columns |= {f"t{j}": np.array(["a"] * n, dtype=object) for j in range(100)}
    features = pd.DataFrame(columns)
    path = tmp_path / "model.kf"
    est = kf.IMC(None, None, rank=1).fit(X, Y).set_params(row_features=features)
    est.save(path)
    assert path.stat().st_size < features.memory_usage().sum() / 4
    pd.testing.assert_frame_equal(kf.load(path).row_features, features)


def test_json_that_is_no_json_is_refused(tmp_path):
    """Python reads NaN, Infinity and 1e999 where JSON has no such numbers."""
    data = bytes_of(MODELS["mc"](), tmp_path)
    for number in (b"NaN", b"Infinity", b"1e999"):
        parts = parts_of(data)
        text = parts["manifest.json"].replace(b'"objective_":', b'"objective_":' + number + b",x:")
        text = text.replace(b",x:", b',"rest":')
        parts.update({"manifest.json": text, "manifest.sha256": sha256(text).encode()})
        (tmp_path / "model.kf").write_bytes(file_of(parts))
        with pytest.raises(ModelFileError):
            kf.load(tmp_path / "model.kf")


# At random.


@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited as Linux does it")
def test_forged_files_are_refused_or_give_a_model_that_works():
    lines = run(["completion", "mc_old"], 120, 25)
    assert not bad(lines)
    assert len(lines) == 50
    assert {line["outcome"] for line in lines} == {"refused", "works"}
