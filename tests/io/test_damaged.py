"""Model files that are not what they should be are refused. More in tests/slow/test_io_fuzz.py."""

from __future__ import annotations

import json
import os
import zipfile

import pytest
from numpy.testing import assert_array_equal

import kronfill as kf
from kronfill.errors import KronfillError, ModelFileError

from ..model_files import rebuilt
from .samples import L, N, written


def test_what_is_no_model_is_called_so(tmp_path):
    path = tmp_path / "model.kf"
    with pytest.raises(ModelFileError, match="There is no file"):
        kf.load(path)
    with pytest.raises(ModelFileError, match="a folder or a device"):
        kf.load(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ModelFileError, match="a folder or a device"):
        kf.load(tmp_path / "pipe")
    with pytest.raises(ModelFileError, match="cannot be read"):
        kf.load("a name with \0 in it")
    path.write_bytes(b"")
    with pytest.raises(ModelFileError, match="empty"):
        kf.load(path)
    path.write_text("a,b\n1,2\n")
    with pytest.raises(ModelFileError, match="not a kronfill model"):
        kf.load(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("manifest.json", "{}")
    with pytest.raises(ModelFileError, match="did not write"):
        kf.load(path)


def test_an_error_of_a_model_file_is_an_os_and_a_value_error():
    assert issubclass(ModelFileError, (KronfillError, OSError, ValueError))


def test_a_file_that_was_only_rebuilt_is_fine(small, tmp_path):
    path = written(tmp_path / "model.kf", rebuilt(small[1], lambda manifest, parts: None))
    assert_array_equal(kf.load(path).predict_matrix(), small[2])


def test_a_newer_version_says_who_wrote_it(small, tmp_path):
    def newer(manifest, _):
        manifest.update(version=2, kronfill="9.1")

    path = written(tmp_path / "model.kf", rebuilt(small[1], newer))
    with pytest.raises(ModelFileError, match=r"written by kronfill 9\.1 .* Upgrade"):
        kf.load(path)


def test_a_class_of_a_later_kronfill_is_not_called_damage_only(small, tmp_path):
    def later(manifest, _):
        manifest["kronfill"] = "9.1"
        manifest["objects"][0]["class"] = "Quantum"

    path = written(tmp_path / "model.kf", rebuilt(small[1], later))
    with pytest.raises(ModelFileError, match=r"'Quantum'.* written by kronfill 9\.1.* upgrade"):
        kf.load(path)


def first(manifest, name):
    return next(line for line in manifest["objects"] if line["class"] == name)["state"]


def set_state(name, key, value):
    def change(manifest, _):
        first(manifest, name)[key] = value

    return change


def update(**changes):
    return lambda manifest, _: manifest.update(changes)


def nested(manifest, _):
    first(manifest, "KKMCEX")["center"] = None
    text = json.dumps(manifest).encode()
    return text.replace(b'"center": null', b'"center": ' + b'{"list": [' * 20_000 + b"]}" * 20_000)


def laughs(manifest, _):
    """Sums of sums: ten to the power of forty kernels in forty lines."""
    one = {"class": "Identity", "state": {"n": 1, "labels": None}}
    lines = [one]
    for k in range(40):
        parts = {"tuple": [{"object": k}] * 10}
        lines.append({"class": "Product", "state": {"n": 1, "labels": None, "parts": parts}})
    manifest.update(objects=lines)


def chain(manifest, _):
    one = {"class": "Identity", "state": {"n": 1, "labels": None}}
    lines = [one]
    for k in range(5000):
        base = {"object": k}
        state = {"n": 1, "labels": None, "base": base, "scale": 1.0}
        lines.append({"class": "Scaled", "state": state})
    manifest.update(objects=lines)


def shape_of(number, shape):
    return lambda manifest, _: manifest["arrays"][number].update(shape=shape)


CRAFTED = {
    "no manifest": lambda manifest, parts: b"",
    "a list": lambda manifest, parts: b"[]",
    "not json": lambda manifest, parts: b"{",
    "nan": lambda manifest, parts: b'{"format": NaN}',
    "not text": lambda manifest, parts: b"\xff\xfe",
    "another format": update(format="zip"),
    "version 0": update(version=0),
    "version true": update(version=True),
    "version text": update(version="1"),
    "more keys": update(more=1),
    "no arrays": update(arrays=[]),
    "arrays are none": update(arrays=None),
    "no objects": update(objects=[]),
    "objects are text": update(objects="many"),
    "another root": update(model={"object": 0}),
    "a root of text": update(model="KKMCEX"),
    "a root to come": update(model={"object": 10**6}),
    "a root before": update(model={"object": -1}),
    "an unknown kind": update(model={"python": "print(1)"}),
    "deep": nested,
    "laughs": laughs,
    "chain": chain,
    "an unlisted entry": lambda manifest, parts: parts.update({"more.bin": b"x"}),
    "a missing entry": lambda manifest, parts: parts.pop("0.bin")[:0] or None,
    "a large shape": shape_of(0, [2**62, 2**62]),
    "a larger shape": shape_of(0, [10**30]),
    "a negative shape": shape_of(0, [-1]),
    "a shape of zeros": shape_of(0, [2**61, 0]),
    "a shape of text": shape_of(0, "12"),
    "many dimensions": shape_of(0, [1] * 70),
    "objects as type": lambda manifest, _: manifest["arrays"][0].update(dtype="|O"),
    "another order": lambda manifest, _: manifest["arrays"][0].update(order="K"),
    "a class of python": lambda manifest, _: manifest["objects"][0].update({"class": "os.system"}),
    "a class in a list": lambda manifest, _: manifest["objects"][0].update({"class": ["RBF"]}),
    "more state": set_state("RBF", "more", 1),
    "a negative scale": set_state("RBF", "length_scale", -1.0),
    "another size": set_state("Identity", "n", 5),
    "no size": set_state("Identity", "n", 10**400),
    "another weight": set_state("KKMCEX", "mu_", {"float": "nan"}),
    "another table size": set_state("KKMCEX", "shape_", {"tuple": [N, L + 1]}),
    "no labels": set_state("Observations", "row_labels", {"tuple": ["a"]}),
    "labels of lists": set_state("Observations", "row_labels", {"tuple": [{"list": []}] * N}),
    "other values": set_state("Observations", "values", {"array": 0}),
    "rows out of range": set_state("Observations", "shape", {"tuple": [1, L]}),
    "an unknown array": set_state("Observations", "values", {"array": 999}),
    "an array by name": set_state("Observations", "values", {"array": "0"}),
    "a date of nonsense": set_state("KKMCEX", "center", {"date": "yesterday"}),
    "an endless date": set_state("KKMCEX", "center", {"time64": [1, "<M8[x]"]}),
    "an evil zone": set_state(
        "KKMCEX", "center", {"datetime": ["2026-01-01T00:00:00", "../../etc/passwd", 0]}
    ),
    "an evil generator": set_state(
        "KKMCEX", "center", {"random": [False, {"dict": [["bit_generator", "Generator"]]}]}
    ),
    "half a generator": set_state(
        "KKMCEX", "center", {"random": [False, {"dict": [["bit_generator", "PCG64"]]}]}
    ),
    "an index of nothing": set_state("KKMCEX", "center", {"index": [{"numbers": 0}, None, "D"]}),
    "a bad frame": set_state("KKMCEX", "center", {"frame": [{"object": 0}, {"object": 0}, []]}),
    "bad levels": set_state(
        "KKMCEX", "center", {"levels": [[{"range": [0, 1, 1, None]}], [0], [1]]}
    ),
    "a wrong step": set_state("KKMCEX", "center", {"range": [0, 1, 0, None]}),
    "bad strings": set_state("KKMCEX", "center", {"tuple": {"texts": [0, 0]}}),
    "bad columns": set_state("KKMCEX", "center", {"tuple": {"columns": []}}),
    "bad numbers": set_state("KKMCEX", "center", {"float": "1e400"}),
    "a bad status": set_state("Solution", "status", {"status": "GOOD"}),
}


@pytest.mark.parametrize("name", CRAFTED)
def test_crafted_manifests_with_valid_checksums_are_refused(name, small, tmp_path):
    path = written(tmp_path / "model.kf", rebuilt(small[1], CRAFTED[name]))
    with pytest.raises(ModelFileError) as caught:
        kf.load(path)
    assert str(path) in str(caught.value)


def test_a_sparse_matrix_with_indices_out_of_range_is_refused(small, tmp_path):
    def change(manifest, _):
        node = first(manifest, "SplitModel")["own"] if "SplitModel" in str(manifest) else None
        node = node or first(manifest, "Bilinear")["core"]
        node["csr"][3] = [N, 1]
        first(manifest, "Bilinear")

    path = written(tmp_path / "model.kf", rebuilt(small[1], change))
    with pytest.raises(ModelFileError, match="damaged or was changed"):
        kf.load(path)
