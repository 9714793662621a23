"""Thousands of damaged and forged model files: never a crash, never a wrong model."""

from __future__ import annotations

import copy
import json
import struct

import networkx as nx
import numpy as np
import pandas as pd
import pytest

import kronfill as kf
from kronfill.errors import KronfillError, ModelFileError
from kronfill.io.arrays import sha256

from ..model_files import file_of, parts_of, rebuilt

pytestmark = pytest.mark.slow

N, L = 10, 7
DAMAGED, FORGED = 500, 600
"""Files of each kind, for each model."""


def frame(n):
    rng = np.random.default_rng(n)
    columns = {
        "size": rng.normal(size=n),
        "town": rng.choice(["Oslo", "Rome", "Lima"], n),
        "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), "D"),
        "open": rng.random(n) < 0.5,
    }
    return pd.DataFrame(columns, index=[f"r{i}" for i in range(n)])


def models():
    """One of each method, with kernels, labels and indexes of many kinds between them."""
    rng = np.random.default_rng(0)
    X = rng.permutation(np.argwhere(rng.random((N, L)) < 0.6))
    y = rng.standard_normal(len(X))
    kk, points = kf.kernels, rng.standard_normal((N, 2))
    cols = kk.periodic(np.arange(L), 4.0) + kk.constant(L) + 0.1 * kk.identity(L)
    graph = kk.diffusion(nx.path_graph(N)) * kk.polynomial(points, 2).normalized()
    labels = [(f"r{i}", i) for i in range(N)]
    named = kf.Observations(*X.T, y, (N, L), row_labels=labels, weights=np.arange(1.0, len(y) + 1))
    some = {"solver": kf.ALS(sweeps=40, tol=1e-2), "rank": 2, "mu": 0.5}
    table = pd.DataFrame(named.to_dense(), columns=pd.date_range("2026", periods=L))
    table.index = [f"r{i}" for i in range(N)]
    levels = pd.MultiIndex.from_tuples(labels)
    dual = kf.KKMCEX(kk.rbf(points), cols, mu=0.1)
    return {
        "split": kf.ConformalRegressor(kf.RRMCEX(graph, None, row_rank=3, mu=0.1)).fit(X, y),
        "jackknife": kf.ConformalRegressor(dual, "jackknife+").fit(named),
        "folds": kf.ConformalRegressor(kf.MC(**some), "jackknife+", folds=2).fit(X, y),
        "kkmcex": kf.KKMCEX(kk.rbf(frame(N)), cols, mu=0.1, center="both").fit(named),
        "primal": kf.KKMCEX(kk.linear(points), kk.identity(L), solver=kf.PrimalDirect()).fit(X, y),
        "targets": kf.KKMCEX(kk.matern(points), cols, mu=0.1).fit(X, np.column_stack([y, -y])),
        "rrmcex": kf.RRMCEX(graph, None, row_rank=3, mu=0.1).fit(X, y),
        "kmc": kf.KMC(kk.tanimoto(np.abs(points)), np.eye(L), **some).fit(X, y),
        "imc": kf.IMC(frame(N), None, center="rows", **some).fit(X, y),
        "mc": kf.MC((N, L), random_state=np.random.default_rng(3), **some).fit(X, y),
        "completion": kf.complete(table, rows=frame(N + 2), mu=0.1),
        "levels": kf.complete(table.set_axis(levels), method="mc", rank=2, mu=0.5),
    }


MODELS = models()
NAMES = list(MODELS)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    found = {}
    for name, model in MODELS.items():
        model.save(folder / f"{name}.kf")
        found[name] = (folder / f"{name}.kf").read_bytes()
    return found


def method_of(model):
    """The fitted method in a completed table, or in what wraps it."""
    return getattr(model, "model", getattr(model, "estimator_", model))


def table_of(model):
    return method_of(model).predict_matrix()


def use(model):
    """Ask a model for what a service would; only errors of kronfill may come."""
    est = method_of(model)
    obs = getattr(est, "observations_", None)
    assert obs is not None
    pairs = np.argwhere(np.ones((min(N, obs.shape[0]), min(L, obs.shape[1]))))
    asked = [
        lambda: est.predict(pairs),
        lambda: est.predict_matrix(),
        lambda: est.extrapolate(rows=frame(2)),
        lambda: est.extrapolate(rows=np.ones((2, 2))),
        lambda: est.extrapolate(cols=np.ones((1, 1))),
        lambda: est.extrapolate(cols=2),
        lambda: repr(model),
    ]
    if hasattr(est, "predict_std"):
        asked += [lambda: est.predict_std(pairs[:5]), lambda: est.explain(0, 0)]
    if hasattr(model, "predict_interval"):
        asked += [lambda pair=pair: model.predict_interval([pair]) for pair in pairs]
    if hasattr(model, "filled"):
        asked += [lambda: model.filled, lambda: model.status, lambda: model.best(1)]
    for ask in asked:
        try:
            with np.errstate(all="ignore"):
                ask()
        except KronfillError:
            pass


# Damage: whatever is done to the bytes of a file, it is refused.


def flipped(data, rng):
    out = bytearray(data)
    for _ in range(int(rng.integers(1, 9))):
        out[int(rng.integers(len(out)))] ^= 1 << int(rng.integers(8))
    return bytes(out)


def span(data, rng, longest=200):
    start = int(rng.integers(len(data)))
    return start, min(len(data), start + int(rng.integers(1, longest)))


def overwritten(data, rng):
    start, end = span(data, rng)
    return data[:start] + rng.bytes(end - start) + data[end:]


def zeroed(data, rng):
    start, end = span(data, rng)
    return data[:start] + bytes(end - start) + data[end:]


def cut(data, rng):
    return data[: int(rng.integers(len(data)))]


def removed(data, rng):
    start, end = span(data, rng)
    return data[:start] + data[end:]


def inserted(data, rng):
    start, end = span(data, rng)
    return data[:start] + rng.bytes(end - start) + data[start:]


def repeated(data, rng):
    start, end = span(data, rng, 4000)
    return data[:end] + data[start:]


def swapped(data, rng):
    """Two entries of the same length change places, as far as there are any."""
    parts = parts_of(data)
    names = [name for name in parts if name.endswith(".bin")]
    one, other = rng.choice(names, 2, replace=False)
    parts[one], parts[other] = parts[other], parts[one]
    return file_of(parts)


def reordered(data, rng):
    parts = parts_of(data)
    names = list(parts)
    rng.shuffle(names)
    return file_of({name: parts[name] for name in names})


DAMAGE = (
    flipped,
    flipped,
    overwritten,
    zeroed,
    cut,
    removed,
    inserted,
    repeated,
    swapped,
    reordered,
)


@pytest.mark.parametrize("name", NAMES)
def test_damaged_files_are_refused(name, files, tmp_path):
    rng, path = np.random.default_rng(1), tmp_path / "model.kf"
    for k in range(DAMAGED):
        data = DAMAGE[k % len(DAMAGE)](files[name], rng)
        path.write_bytes(data)
        if data == files[name]:  # zeros written over zeros
            np.testing.assert_array_equal(table_of(kf.load(path)), table_of(MODELS[name]))
            continue
        with pytest.raises(ModelFileError):
            kf.load(path)


# Forgery: files whose checksums are right and whose contents are not.


def places(node, found, depth=0):
    """All containers of a JSON tree with a key of theirs."""
    if isinstance(node, dict):
        items = list(node.items())
    elif isinstance(node, list):
        items = list(enumerate(node))
    else:
        return
    for key, item in items:
        found.append((node, key))
        places(item, found, depth + 1)


def odd_value(rng, manifest):
    count = len(manifest["arrays"])
    objects = len(manifest["objects"])
    odd = [
        None, True, False, 0, 1, -1, 2, N, L, 2**31, 2**63, -(2**70), 10**30, 0.5, -0.5, 1e308,
        "", "a", "auto", "mean", "both", [], {}, [0], {"a": 1}, {"float": "nan"}, {"float": "inf"},
        {"tuple": []}, {"tuple": [1, 2]}, {"list": ["a"]}, {"dict": []}, {"bytes": "00"},
        {"dict": [[{"list": []}, 1]]}, {"date": "2020-01-01"}, {"date": 3}, {"status": "EXACT"},
        {"datetime": ["2020-01-01", 1e9, 5]}, {"timedelta": 10**30}, {"time64": [10**30, "<M8[D]"]},
        {"objects": [[-1], []]}, {"objects": [[2, 3], {"tuple": 1}]}, {"csr": [0, 0, 0, [1, 1]]},
        {"range": [0, 10**18, 1, None]}, {"stamp": [2**62, "<M8[Y]", None]}, {"missing": "NA"},
        {"period": [1, "M"]}, {"tuple": {"texts": [0, 1]}}, {"tuple": {"ints": 0}},
        {"tuple": {"columns": [[1], [2, 3]]}}, {"random": [True, {"dict": []}]},
        {"index": [{"numbers": 0}, None, None]}, {"frame": [{"range": [0, 1, 1, None]}, {}, []]},
    ]  # fmt: skip
    roll = rng.random()
    if roll < 0.3 and objects:
        return {"object": int(rng.integers(objects))}
    if roll < 0.5 and count:
        return {"array": int(rng.integers(count))}
    return copy.deepcopy(odd[int(rng.integers(len(odd)))])


def replaced(manifest, parts, rng):
    found = []
    places(manifest["objects"], found)
    for _ in range(int(rng.integers(1, 4))):
        node, key = found[int(rng.integers(len(found)))]
        if isinstance(node, dict) or key < len(node):
            node[key] = odd_value(rng, manifest)


def dropped(manifest, parts, rng):
    found = []
    places(manifest, found)
    node, key = found[int(rng.integers(len(found)))]
    if isinstance(node, dict) or key < len(node):
        del node[key]


def exchanged(manifest, parts, rng):
    found = []
    places(manifest["objects"], found)
    (a, i), (b, j) = (found[k] for k in rng.integers(len(found), size=2))
    a[i], b[j] = copy.deepcopy(b[j]), copy.deepcopy(a[i])


def renumbered(manifest, parts, rng):
    """References to other arrays and objects of the same file."""
    found = []
    places(manifest["objects"], found)
    refs = [(node, key) for node, key in found if key in ("array", "object")]
    node, key = refs[int(rng.integers(len(refs)))]
    node[key] = int(rng.integers(len(manifest["arrays" if key == "array" else "objects"])))


def other_class(manifest, parts, rng):
    one, other = (manifest["objects"][k] for k in rng.integers(len(manifest["objects"]), size=2))
    one["class"] = other["class"]


def other_shape(manifest, parts, rng):
    line = manifest["arrays"][int(rng.integers(len(manifest["arrays"])))]
    choice = int(rng.integers(5))
    if choice == 0:
        line["shape"] = line["shape"][::-1]
    elif choice == 1:
        line["shape"] = [int(np.prod(line["shape"]))]
    elif choice == 2:
        line["shape"] = [1, *line["shape"]]
    elif choice == 3:
        line["dtype"] = str(rng.choice(["<i8", "<f8", "<u8", "<f4", "<i4", "|b1", "|u1"]))
    else:
        line["shape"] = [int(k) for k in rng.integers(0, 2**40, 2)]


def other_numbers(manifest, parts, rng):
    """Numbers of an array changed, with the right checksum."""
    line = manifest["arrays"][int(rng.integers(len(manifest["arrays"])))]
    data = bytearray(parts[line["entry"]])
    if not data:
        return
    for _ in range(int(rng.integers(1, 5))):
        if line["dtype"] == "<i8":
            value = int(rng.choice([-1, 0, 1, N, 10**9, 2**62, -(2**63)]))
            struct.pack_into("<q", data, 8 * int(rng.integers(len(data) // 8)), value)
        elif line["dtype"] == "<f8":
            value = float(rng.choice([np.nan, np.inf, -1.0, 0.0, 1e6]))
            struct.pack_into("<d", data, 8 * int(rng.integers(len(data) // 8)), value)
        else:
            data[int(rng.integers(len(data)))] = int(rng.integers(256))
    parts[line["entry"]] = bytes(data)
    for other in manifest["arrays"]:
        if other["entry"] == line["entry"]:
            other["sha256"] = sha256(bytes(data))


FORGERIES = (
    replaced, replaced, replaced, dropped, exchanged, renumbered, renumbered, other_class,
    other_shape, other_numbers, other_numbers,
)  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", NAMES)
def test_forged_files_are_refused_or_give_a_model_that_works(name, files, tmp_path):
    rng, path = np.random.default_rng(2), tmp_path / "model.kf"
    refused = 0
    for k in range(FORGED):
        forge = FORGERIES[k % len(FORGERIES)]
        data = rebuilt(files[name], lambda m, parts, forge=forge: forge(m, parts, rng))
        path.write_bytes(data)
        try:
            model = kf.load(path)
        except KronfillError:
            refused += 1
        else:
            try:
                use(model)
            except Exception as error:
                keep = tmp_path / f"bad-{k}.kf"
                keep.write_bytes(data)
                msg = f"{forge.__name__} number {k}, kept as {keep}: {error!r}"
                raise AssertionError(msg) from error
    assert refused > 0.5 * FORGED


def test_nested_json_of_any_depth_is_refused(files, tmp_path):
    path = tmp_path / "model.kf"
    for depth in (50, 61, 1000, 10_000, 200_000):
        for opening, closing in (("[", "]"), ('{"tuple":[', "]}"), ('{"a":', "}")):
            inner = opening * depth + "1" + closing * depth

            def change(manifest, parts, inner=inner):
                manifest["model"] = "HERE"
                return json.dumps(manifest).replace('"HERE"', inner).encode()

            path.write_bytes(rebuilt(files["mc"], change))
            with pytest.raises(ModelFileError):
                kf.load(path)
