"""Thousands of damaged and forged model files: never a crash, never a wrong model."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

import kronfill as kf
from kronfill.errors import ModelFileError

from ..forging import NAMES, bytes_of
from ..model_files import file_of, parts_of, rebuilt
from ..trying import bad, run

pytestmark = pytest.mark.slow

DAMAGED, FORGED = 250, 250
"""Files of each kind, for each model."""


@pytest.fixture(scope="module")
def files():
    return {name: bytes_of(name) for name in NAMES}


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
            kf.load(path)
            continue
        with pytest.raises(ModelFileError):
            kf.load(path)


# Forgery: files whose checksums are right and whose contents are not.


@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited as Linux does it")
@pytest.mark.parametrize("name", NAMES)
def test_forged_files_are_refused_or_give_a_model_that_works(name):
    lines = run([name], 0, FORGED)
    assert not bad(lines)
    assert len(lines) == FORGED
    assert 0.1 * FORGED < sum(line["outcome"] == "works" for line in lines) < 0.5 * FORGED


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
