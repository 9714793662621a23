"""Forged model files: the checksums are right, the contents are not.

Whoever writes such a file knows the format. Each file depends on its model and its number alone.
"""

from __future__ import annotations

import copy
import tempfile
import warnings
import zlib
from pathlib import Path

import networkx as nx
import numpy as np
import pandas as pd
from scipy import sparse

import kronfill as kf
from kronfill.io.arrays import sha256
from kronfill.kernels.graphs import nodes as graphs
from kronfill.kernels.thin import thin

from .model_files import rebuilt

N, L = 10, 7


# Models: one of each method, with kernels, labels, solvers and indexes of many kinds.


def frame(n):
    rng = np.random.default_rng(n)
    columns = {
        "size": rng.normal(size=n),
        "town": rng.choice(["Oslo", "Rome", "Lima"], n),
        "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), "D"),
        "open": rng.random(n) < 0.5,
    }
    return pd.DataFrame(columns, index=[f"r{i}" for i in range(n)])


def columns_of_every_kind(n):
    rng, days = np.random.default_rng(n), pd.date_range("2026", periods=n)
    return pd.DataFrame(
        {
            "kind": pd.Categorical(rng.choice(["x", "y"], n)),
            "count": pd.array(rng.integers(0, 5, n), dtype="Int64"),
            "yes": pd.array(rng.random(n) < 0.5, dtype="boolean"),
            "share": pd.array(rng.random(n), dtype="Float64"),
            "zoned": days.tz_localize("Europe/Oslo"),
            "text": pd.array([f"t{i % 3}" for i in range(n)], dtype="string"),
            "objects": np.array([f"o{i % 2}" for i in range(n)], dtype=object),
        },
        index=pd.period_range("2026-01", periods=n, freq="M"),
    )


def ring(n):
    """The kernel of a graph that counts as a large one."""
    before, graphs._DENSE_UP_TO = graphs._DENSE_UP_TO, 5
    try:
        cycle = sparse.csr_array(nx.to_scipy_sparse_array(nx.cycle_graph(n)))
        return kf.kernels.regularized_laplacian(cycle), kf.kernels.diffusion(cycle)
    finally:
        graphs._DENSE_UP_TO = before


def some_data():
    rng = np.random.default_rng(0)
    X = rng.permutation(np.argwhere(rng.random((N, L)) < 0.6))
    return X, rng.standard_normal(len(X)), rng.standard_normal((N, 2))


def models():
    """What makes each model."""
    X, y, points = some_data()
    kk, rng = kf.kernels, np.random.default_rng(1)
    cols = kk.periodic(np.arange(L), 4.0) + kk.constant(L) + 0.1 * kk.identity(L)
    graph = kk.diffusion(nx.path_graph(N)) * kk.polynomial(points, 2).normalized()
    labels = [(f"r{i}", i) for i in range(N)]
    named = kf.Observations(*X.T, y, (N, L), row_labels=labels, weights=np.arange(1.0, len(y) + 1))
    some = {"solver": kf.ALS(sweeps=40, tol=1e-2), "rank": 2, "mu": 0.5}
    table = pd.DataFrame(named.to_dense(), columns=pd.date_range("2026", periods=L))
    table.index = [f"r{i}" for i in range(N)]
    levels = pd.MultiIndex.from_tuples(labels)
    dual = kf.KKMCEX(kk.rbf(points), cols, mu=0.1)
    counts = sparse.csr_array(rng.poisson(0.5, (N, 40)).astype(float))
    old = np.random.RandomState(3)
    old.standard_normal(5)
    start = (rng.random((N, 2)), rng.random((L, 2)))
    walked = kf.RowWise(sweeps=20, tol=1e-2, start=start)
    gram = points @ points.T + np.eye(N)
    return {
        "split": lambda: kf.ConformalRegressor(kf.RRMCEX(graph, None, row_rank=3, mu=0.1)).fit(
            X, y
        ),
        "jackknife": lambda: kf.ConformalRegressor(dual, "jackknife+").fit(named),
        "folds": lambda: kf.ConformalRegressor(kf.MC(**some), "jackknife+", folds=2).fit(X, y),
        "kkmcex": lambda: kf.KKMCEX(kk.rbf(frame(N)), cols, mu=0.1, center="both").fit(named),
        "primal": lambda: kf.KKMCEX(
            kk.linear(points), kk.identity(L), solver=kf.PrimalDirect()
        ).fit(X, y),
        "pcg": lambda: kf.KKMCEX(
            kk.linear(counts) + kk.rbf(counts), np.eye(L), solver=kf.PCG(tol=1e-8)
        ).fit(pd.DataFrame(X, columns=["place", "day"]), y),
        "dual": lambda: kf.KKMCEX(
            kk.rbf(points), kk.rbf(np.arange(L)), mu=0.1, solver=kf.DualPCG(rank=4)
        ).fit(X, y),
        "targets": lambda: kf.KKMCEX(kk.matern(points), cols, mu=0.1).fit(
            X, np.column_stack([y, -y])
        ),
        "large_graph": lambda: kf.KKMCEX(
            ring(2 * N)[0].take(np.arange(N)), ring(L)[1], mu=0.1, center="rows"
        ).fit(X, y),
        "thin": lambda: kf.RRMCEX(
            thin(kk.rbf(points), 4), gram[:L, :L], row_rank=3, col_rank=2, mu=0.1
        ).fit(X, y),
        "rrmcex": lambda: kf.RRMCEX(graph, None, row_rank=3, mu=0.1).fit(X, y),
        "kmc": lambda: kf.KMC(kk.tanimoto(np.abs(points)), np.eye(L), **some).fit(X, y),
        "row_wise": lambda: kf.KMC(
            kk.precomputed(gram), np.eye(L), **{**some, "solver": walked}
        ).fit(X, y),
        "bayesian": lambda: kf.BayesianKMC(
            kk.rbf(points), None, rank=2, solver=kf.Variational(sweeps=30)
        ).fit(X, y),
        "imc": lambda: kf.IMC(frame(N), None, center="rows", **some).fit(X, y),
        "imc_kinds": lambda: kf.IMC(columns_of_every_kind(N), counts[:L], **some).fit(X, y),
        "mc": lambda: kf.MC((N, L), warm_start=True, **some).fit(X, y),
        "mc_old": lambda: kf.MC(
            random_state=old, rank=2, solver=kf.ALS(start="gaussian", sweeps=40)
        ).fit(X, y),
        "mc_philox": lambda: kf.MC(
            random_state=np.random.Generator(np.random.Philox(3)),
            rank=2,
            solver=kf.ALS(start="gaussian", sweeps=40),
        ).fit(X, y),
        "completion": lambda: kf.complete(table, method="kkmcex", rows=frame(N + 2), mu=0.1),
        "levels": lambda: kf.complete(table.set_axis(levels), method="mc", rank=2, mu=0.5),
        "periods": lambda: kf.complete(
            table.set_axis(pd.period_range("2026-01", periods=N, freq="M")), method="mc", rank=2
        ),
    }


NAMES = tuple(models())


def bytes_of(name):
    """The file of a model."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / "model.kf"
        models()[name]().save(path)
        return path.read_bytes()


# Forgery.

NUMBERS = (
    0, 1, -1, 2, 3, N - 1, N, N + 1, L, 255, 623, 624, 625, 2**15, 2**31 - 1, 2**31, 2**32, 2**53,
    2**62, 2**63 - 1, 2**63, 2**64 - 1, -(2**31), -(2**63), -(2**70), 10**30, 10**400, 0.5, -0.5,
    1e-320, 1e-30, 1e30, 1e160, 1e308, -1e308,
)  # fmt: skip
VALUES = (
    None, True, False, "", "a", "auto", "mean", "both", "rows", "PCG64", [], {}, [0], {"a": 1},
    {"float": "nan"}, {"float": "inf"}, {"tuple": []}, {"tuple": [1, 2]}, {"tuple": [N, L]},
    {"list": ["a"]}, {"dict": []}, {"bytes": "00"}, {"dict": [[{"list": []}, 1]]},
    {"date": "2020-01-01"}, {"date": 3}, {"status": "EXACT"}, {"status": "STALLED"},
    {"datetime": ["2020-01-01", 1e9, 5]}, {"timedelta": 10**30}, {"time64": [10**30, "<M8[D]"]},
    {"time64": [2**62, "<M8[Y]"]}, {"objects": [[-1], []]}, {"objects": [[2, 3], {"tuple": 1}]},
    {"csr": [0, 0, 0, [1, 1]]}, {"range": [0, 10**9, 1, None]}, {"range": [0, N, 1, None]},
    {"stamp": [2**62, "<M8[Y]", None]}, {"missing": "NA"}, {"period": [1, "M"]},
    {"period": [2**62, "D"]}, {"tuple": {"texts": [0, 1]}}, {"tuple": {"ints": 0}},
    {"tuple": {"columns": [[1], [2, 3]]}}, {"random": [True, {"dict": []}]},
    {"index": [{"numbers": 0}, None, None]}, {"frame": [{"range": [0, 1, 1, None]}, {}, []]},
)  # fmt: skip


def pick(rng, items):
    return copy.deepcopy(items[int(rng.integers(len(items)))])


def places(node):
    """All containers of a JSON tree with each key of theirs."""
    inner = ()
    if isinstance(node, dict):
        inner = list(node.items())
    elif isinstance(node, list):
        inner = list(enumerate(node))
    for key, item in inner:
        yield node, key
        yield from places(item)


def some_places(manifest, rng, wanted=lambda value: True, most=3):
    found = [(node, key) for node, key in places(manifest["objects"]) if wanted(node[key])]
    count = min(len(found), int(rng.integers(1, most + 1)))
    return [found[k] for k in rng.choice(len(found), count, replace=False)] if found else []


def is_number(value):
    return type(value) in (int, float)


def replaced(manifest, parts, rng):
    for node, key in some_places(manifest, rng):
        roll = rng.random()
        if isinstance(node, list) and key >= len(node):
            continue
        if roll < 0.25:
            node[key] = {"object": int(rng.integers(len(manifest["objects"])))}
        elif roll < 0.45:
            node[key] = {"array": int(rng.integers(len(manifest["arrays"])))}
        else:
            node[key] = pick(rng, VALUES + NUMBERS)


def other_number(manifest, parts, rng):
    for node, key in some_places(manifest, rng, is_number):
        node[key] = pick(rng, NUMBERS)


def other_size(manifest, parts, rng):
    """One number becomes another one wherever it stands: sizes still agree with each other."""
    sizes = {node[key] for node, key in places(manifest) if type(node[key]) is int}
    old, new = pick(rng, sorted(sizes)), pick(rng, NUMBERS)
    tree = manifest if rng.random() < 0.5 else manifest["objects"]
    for node, key in list(places(tree)):
        if type(node[key]) is int and node[key] == old and key not in ("array", "object"):
            node[key] = new


def other_state(manifest, parts, rng):
    """A number of a random generator becomes another one."""
    states = [node[key] for node, key in places(manifest["objects"]) if key == "random"]
    found = [
        (node, key)
        for state in states
        for node, key in places(state)
        if is_number(node[key]) and key != "array"
    ]
    node, key = pick_place(found, rng)
    node[key] = pick(rng, (-(2**31), -1, 0, 2, 5, 625, 2**31 - 1, 2**64, 2**128, 0.5, 1e308))


def dropped(manifest, parts, rng):
    found = list(places(manifest))
    node, key = found[int(rng.integers(len(found)))]
    del node[key]


def exchanged(manifest, parts, rng):
    found = list(places(manifest["objects"]))
    (a, i), (b, j) = (found[k] for k in rng.integers(len(found), size=2))
    a[i], b[j] = copy.deepcopy(b[j]), copy.deepcopy(a[i])


def renumbered(manifest, parts, rng):
    """A reference to another array or object of the same file."""
    found = list(places(manifest["objects"]))
    refs = [(node, key) for node, key in found if key in ("array", "object")]
    node, key = pick_place(refs, rng)
    node[key] = int(rng.integers(len(manifest["arrays" if key == "array" else "objects"])))


def same_shape(manifest, parts, rng):
    """A reference to another array of the same type and shape, or object of the same class."""
    found = list(places(manifest["objects"]))
    refs = [(node, key) for node, key in found if key in ("array", "object")]
    node, key = pick_place(refs, rng)
    lines = manifest["arrays" if key == "array" else "objects"]

    def kind(line):
        return (line["dtype"], line["shape"]) if key == "array" else line["class"]

    if type(node[key]) is int:
        like = [k for k, line in enumerate(lines) if kind(line) == kind(lines[node[key]])]
        node[key] = int(rng.choice(like))


def pick_place(found, rng):
    return found[int(rng.integers(len(found)))]


def other_class(manifest, parts, rng):
    one, other = (manifest["objects"][k] for k in rng.integers(len(manifest["objects"]), size=2))
    one["class"] = other["class"]


def repeated(manifest, parts, rng):
    """A list becomes longer by copies of one of its items."""
    lists = [
        (node, key) for node, key in places(manifest["objects"]) if isinstance(node[key], list)
    ]
    node, key = pick_place(lists, rng)
    if node[key]:
        node[key] = node[key] + [copy.deepcopy(pick(rng, node[key]))] * int(10 ** rng.uniform(0, 4))


def other_shape(manifest, parts, rng):
    line = pick_line(manifest, rng)
    shape = line["shape"]
    choice = int(rng.integers(6))
    if choice == 0:
        line["shape"] = shape[::-1]
    elif choice == 1:
        line["shape"] = [int(np.prod(shape))]
    elif choice == 2:
        line["shape"] = [1, *shape]
    elif choice == 3:
        line["dtype"] = str(rng.choice(["<i8", "<f8", "<u8", "<f4", "<i4", "|b1", "|u1"]))
    elif choice == 4:
        line["shape"] = [int(k) for k in rng.integers(0, 2**40, 2)]
    else:
        line["order"] = "F" if line["order"] == "C" else "C"


def pick_line(manifest, rng):
    return manifest["arrays"][int(rng.integers(len(manifest["arrays"])))]


def numbers_of(line, parts):
    return np.frombuffer(parts[line["entry"]], line["dtype"]).copy()


def store(line, numbers, manifest, parts):
    """Give an array other numbers; it no longer shares them with others."""
    name = f"{len({other['entry'] for other in manifest['arrays']})}.bin"
    used = [other for other in manifest["arrays"] if other["entry"] == line["entry"]]
    name = line["entry"] if len(used) == 1 else name
    parts[name] = numbers.tobytes()
    line.update(entry=name, sha256=sha256(parts[name]), dtype=numbers.dtype.newbyteorder("<").str)


def other_numbers(manifest, parts, rng):
    """Some numbers of an array are others."""
    line = pick_line(manifest, rng)
    numbers = numbers_of(line, parts)
    if not numbers.size:
        return
    at = rng.integers(numbers.size, size=int(rng.integers(1, 5)))
    if numbers.dtype.kind == "f":
        odd = [np.nan, np.inf, -1.0, 0.0, 1e6, 1e160, 1e308, -1e308, 1e-320]
    else:
        span = np.iinfo(numbers.dtype if numbers.dtype.kind != "b" else np.uint8)
        odd = [k for k in NUMBERS if isinstance(k, int) and span.min <= k <= span.max]
    plain = numbers.view(np.uint8) if numbers.dtype.kind == "b" else numbers
    plain[at] = pick(rng, odd)
    store(line, numbers, manifest, parts)


def other_indices(manifest, parts, rng):
    """Positions, pivots, row ends or codes are others: outside, twice, in another order."""
    lines = [line for line in manifest["arrays"] if line["dtype"] in ("<i8", "<i4", "|i1")]
    line = pick_place(lines, rng)
    numbers = numbers_of(line, parts)
    at = rng.integers(numbers.size, size=2)
    choice = int(rng.integers(4))
    if choice == 0:
        rng.shuffle(numbers)
    elif choice == 1:
        numbers[at[0]] = numbers[at[1]]
    elif choice == 2:
        numbers[at[0]] += int(rng.choice([-1, 1, N, 100]))
    else:
        numbers[at[0]] = rng.choice([np.iinfo(numbers.dtype).min, np.iinfo(numbers.dtype).max])
    store(line, numbers, manifest, parts)


def all_numbers(manifest, parts, rng):
    """All numbers of an array are others: zeros, huge, shuffled, turned round."""
    line = pick_line(manifest, rng)
    numbers = numbers_of(line, parts)
    choice = int(rng.integers(5))
    with np.errstate(all="ignore"):
        if choice == 0:
            numbers[:] = 0
        elif choice == 1:
            numbers = numbers[::-1].copy()
        elif choice == 2:
            rng.shuffle(numbers)
        elif choice == 3 and numbers.dtype.kind != "b":
            numbers = (-numbers).astype(numbers.dtype)
        elif numbers.dtype.kind == "f":
            numbers *= 10.0 ** rng.choice([-300, -160, 8, 160, 300])
        else:
            numbers[:] = numbers.max(initial=0)
    store(line, numbers, manifest, parts)


def other_length(manifest, parts, rng):
    """An array is shorter or longer along its first axis, and says so."""
    line = pick_line(manifest, rng)
    numbers, shape = numbers_of(line, parts), line["shape"]
    if not shape or not numbers.size:
        return
    wide = numbers.size // shape[0]
    rows = int(rng.choice([0, 1, max(0, shape[0] - 1), shape[0] + 1, 3 * shape[0]]))
    store(line, np.resize(numbers, rows * wide), manifest, parts)
    line["shape"] = [rows, *shape[1:]]


def other_type(manifest, parts, rng):
    """The same numbers in another type."""
    line = pick_line(manifest, rng)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kind = str(rng.choice(["<i8", "<f8", "<u8", "<f4", "<i4", "|i1", "|b1", "|u1"]))
        store(line, numbers_of(line, parts).astype(kind), manifest, parts)


FORGERIES = (
    replaced, replaced, other_number, other_number, other_size, other_state, dropped, exchanged,
    renumbered, same_shape, other_class, repeated, other_shape, other_numbers, other_numbers,
    other_indices, all_numbers, other_length, other_type,
)  # fmt: skip


def forged(data, name, number):
    """The file of a model, forged in one way or two; and how."""
    rng = np.random.default_rng([zlib.crc32(name.encode()), number])
    count, ways = 1 + (rng.random() < 0.3), []

    def change(manifest, parts):
        while len(ways) < count:
            way = pick_place(FORGERIES, rng)
            try:
                way(manifest, parts, rng)
            except (AttributeError, IndexError, KeyError, TypeError, ValueError):
                continue  # there is nothing of this kind, or the first way left nothing of it
            ways.append(way.__name__)

    return rebuilt(data, change), " and ".join(ways)
