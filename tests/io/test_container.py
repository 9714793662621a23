"""The outside of a model file: a plain zip, whole or absent, of which every byte counts."""

from __future__ import annotations

import json
import mmap
import os
import stat
import struct
import subprocess
import sys
import zipfile

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import kronfill as kf
from kronfill._atomic import written_whole
from kronfill.errors import ModelFileError
from kronfill.io import arrays, container

from ..model_files import parts_of
from .samples import POINTS, X, Y, saved

# The file.


def test_the_file_is_a_plain_zip_of_json_and_aligned_numbers(small, tmp_path):
    path = tmp_path / "model.kf"
    path.write_bytes(small[1])
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        manifest = json.loads(archive.read("manifest.json"))
        assert manifest["version"] == 1
        assert manifest["kronfill"] == kf.__version__
        for info in archive.infolist():
            assert info.compress_type == zipfile.ZIP_STORED
            name, extra = struct.unpack_from("<2H", small[1], info.header_offset + 26)
            assert (info.header_offset + 30 + name + extra) % 64 == 0
        line = manifest["arrays"][0]
        read = np.frombuffer(archive.read(line["entry"]), line["dtype"]).reshape(line["shape"])
    assert any(np.array_equal(read, array) for array in [small[0].row_kernel.parts[0]._centre])


def test_the_same_model_makes_the_same_bytes(small, tmp_path):
    small[0].save(tmp_path / "again.kf")
    assert (tmp_path / "again.kf").read_bytes() == small[1]
    kf.load(tmp_path / "again.kf").save(tmp_path / "third.kf")
    assert (tmp_path / "third.kf").read_bytes() == small[1]


def test_large_arrays_stay_in_the_file_and_small_ones_do_not(tmp_path):
    wide = kf.MC((200_000, 3), rank=1).fit([[0, 0], [199_999, 2]], [1.0, 2.0])
    back = saved(wide, tmp_path)

    def owner(array):
        while isinstance(array, np.ndarray):
            array = array.base
        return array

    assert back.W_.nbytes >= arrays.MAPPED_FROM
    assert isinstance(getattr(owner(back.W_), "obj", owner(back.W_)), mmap.mmap)
    assert not back.W_.flags.writeable
    assert owner(back.H_) is None
    before = back.predict([[199_999, 2]])
    wide.set_params(mu=5.0).fit([[0, 0]], [1.0]).save(tmp_path / "model.kf")  # over the mapped file
    assert_array_equal(back.predict([[199_999, 2]]), before)
    back.fit([[0, 0], [199_999, 2]], [1.0, 2.0])
    assert_array_equal(back.predict([[199_999, 2]]), before)


def test_indices_do_not_stay_in_the_file(tmp_path):
    """Compiled code trusts them, and a file can change after it was checked."""
    rows = np.arange(140_000)
    seen = kf.Observations(rows, 0 * rows, rows % 7 + 1.0, (len(rows), 1))
    assert seen.rows.nbytes >= arrays.MAPPED_FROM
    back = saved(kf.MC(rank=1, mu=0.1).fit(seen), tmp_path).observations_
    path = tmp_path / "model.kf"
    with path.open("r+b") as file:  # in place
        file.write(b"\xff" * path.stat().st_size)
    assert_array_equal(back.rows, seen.rows)
    assert_array_equal(back.cols, seen.cols)


def test_numbers_of_large_arrays_are_checked_unless_told_otherwise(tmp_path):
    path = tmp_path / "model.kf"
    kf.MC((200_000, 3), rank=1).fit([[0, 0], [199_999, 2]], [1.0, 2.0]).save(path)
    data = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        largest = max(archive.infolist(), key=lambda info: info.file_size)
    data[largest.header_offset + 100_000] ^= 1
    path.write_bytes(data)
    with pytest.raises(ModelFileError, match="checksum"):
        kf.load(path)
    assert kf.load(path, verify=False).shape_ == (200_000, 3)


def test_loading_needs_no_pandas_where_the_model_has_none(tmp_path):
    path = tmp_path / "model.kf"
    kf.KKMCEX(kf.kernels.rbf(POINTS)).fit(X, Y).save(path)
    code = f"""
import sys

class NoPandas:
    def find_spec(self, name, *_):
        if name == "pandas":
            raise ImportError(name)

sys.meta_path.insert(0, NoPandas())
import kronfill as kf

print(kf.load({str(path)!r}).predict([[0, 0]]).shape)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "(1,)"


# Writing.


def test_a_failed_save_leaves_the_old_file_and_nothing_else(small, tmp_path, monkeypatch):
    path = tmp_path / "model.kf"
    path.write_bytes(b"what was there")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ModelFileError, match="No space left on device"):
        small[0].save(path)
    monkeypatch.undo()
    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(ModelFileError, match="What was there before is unchanged"):
        small[0].save(path)
    assert path.read_bytes() == b"what was there"
    assert [one.name for one in tmp_path.iterdir()] == ["model.kf"]


def test_an_interrupted_write_leaves_nothing(tmp_path):
    path = tmp_path / "model.kf"
    path.write_bytes(b"what was there")

    def interrupted():
        with written_whole(path) as file:
            file.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_bytes() == b"what was there"
    assert [one.name for one in tmp_path.iterdir()] == ["model.kf"]


def test_a_link_is_followed_and_permissions_are_kept(small, tmp_path):
    target, link = tmp_path / "real.kf", tmp_path / "link.kf"
    target.write_bytes(b"")
    target.chmod(0o640)
    link.symlink_to(target)
    small[0].save(link)
    assert link.is_symlink()
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    assert_array_equal(kf.load(link).predict_matrix(), small[2])
    small[0].save(tmp_path / "new.kf")
    plain = tmp_path / "plain"
    plain.write_bytes(b"")
    assert (tmp_path / "new.kf").stat().st_mode == plain.stat().st_mode


@pytest.mark.parametrize("path", ["missing/model.kf", ".", 3])
def test_a_place_that_cannot_be_written_to(path, small, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelFileError):
        small[0].save(path)


def test_compressed_entries_are_refused(small, tmp_path):
    """Nothing unpacks to more than the file holds."""
    path = tmp_path / "model.kf"
    data = bytearray(small[1])
    start = data.rindex(b"PK\1\2")
    data[start + 10] = 8
    path.write_bytes(data)
    with pytest.raises(ModelFileError, match="compressed, which is not accepted"):
        kf.load(path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, part in parts_of(small[1]).items():
            archive.writestr(name, part)
    with pytest.raises(ModelFileError):
        kf.load(path)


def test_every_byte_counts(small, tmp_path):
    """A file with one bit changed, wherever it is, is refused."""
    rng, path = np.random.default_rng(0), tmp_path / "model.kf"
    data = small[1]
    places = rng.choice(len(data), size=200, replace=False).tolist()
    places += [0, len(data) - 1, data.index(b"PK\1\2") + 40, len(data) - 50]
    for place in places:
        changed = bytearray(data)
        changed[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(changed)
        with pytest.raises(ModelFileError):
            kf.load(path)


def test_a_file_that_was_cut_or_extended_is_refused(small, tmp_path):
    rng, path = np.random.default_rng(1), tmp_path / "model.kf"
    for length in [1, 3, 22, 97, 98, len(small[1]) - 1, *rng.integers(1, len(small[1]), 40)]:
        path.write_bytes(small[1][:length])
        with pytest.raises(ModelFileError):
            kf.load(path)
    for longer in (small[1] + b"\0", b"\0" + small[1], small[1] + small[1]):
        path.write_bytes(longer)
        with pytest.raises(ModelFileError):
            kf.load(path)


def test_two_entries_of_the_same_name_are_refused(tmp_path, monkeypatch):
    entry = container._Entry(b"a", 1, 0)
    layout = container._Layout.of([entry, entry])
    path = tmp_path / "twice.kf"
    path.write_bytes(b"".join(header + b"x" for header in layout.headers) + layout.tail)
    with pytest.raises(ModelFileError, match="two entries of the same name"):
        kf.load(path)


def test_too_many_entries_are_not_written(tmp_path, monkeypatch):
    monkeypatch.setattr(container, "MAX_ENTRIES", 3)
    with pytest.raises(ModelFileError, match="at most 3"):
        kf.MC(rank=1).fit(X, Y).save(tmp_path / "model.kf")
