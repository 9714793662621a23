"""Files that appear whole and together: all of them or none, whatever goes wrong."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys

import pytest

from kronfill._atomic import Publication, written_whole
from kronfill.errors import ParameterError, StorageError
from tests.disks import full_for

NAMES = ("a", "b", "c")


@pytest.fixture
def places(tmp_path):
    """Three places, of which the first two are taken, in two folders."""
    (tmp_path / "other").mkdir()
    paths = [tmp_path / "a", tmp_path / "other" / "b", tmp_path / "c"]
    for path in paths[:2]:
        path.write_bytes(b"before")
    return paths


def write_all(paths, end=None):
    with Publication() as publication:
        for path in paths:
            with publication.open(path) as file:
                file.write(b"after" * 10_000)
        if end is not None:
            raise end


def as_before(paths):
    assert [path.read_bytes() for path in paths[:2]] == [b"before"] * 2
    assert not paths[2].exists()
    nothing_aside(paths)


def nothing_aside(paths):
    folders = {path.parent for path in paths}
    left = {one.name for folder in folders for one in folder.iterdir()}
    assert left <= {*NAMES, "other"}


def test_all_appear_at_the_end(places):
    with Publication() as publication:
        for path in places:
            with publication.open(path) as file:
                file.write(b"after")
            assert [one.read_bytes() for one in places[:2]] == [b"before"] * 2
            assert not places[2].exists()
    assert [path.read_bytes() for path in places] == [b"after"] * 3
    nothing_aside(places)


@pytest.mark.parametrize("end", [KeyboardInterrupt(), ValueError("odd"), ParameterError("no")])
def test_what_ends_the_block_leaves_all_as_it_was(places, end):
    with pytest.raises(type(end)):
        write_all(places, end)
    as_before(places)


@pytest.mark.parametrize("name", NAMES)
def test_a_full_disk_leaves_all_as_it_was(places, name):
    """The buffer of the file is still full when it is closed, so that closing it fails as well."""
    with full_for(f"/{name}"), pytest.raises(StorageError, match=rf"{name} cannot .* disk is full"):
        write_all(places)
    as_before(places)


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("error", [OSError(errno.EBUSY, "busy"), KeyboardInterrupt()])
def test_a_rename_that_fails_takes_the_others_back(places, monkeypatch, count, error):
    rename, calls = os.replace, []

    def failing(source, target):
        calls.append(target)
        if len(calls) == count:
            raise error
        rename(source, target)

    monkeypatch.setattr(os, "replace", failing)
    with pytest.raises((StorageError, KeyboardInterrupt)):
        write_all(places)
    monkeypatch.undo()
    assert len(calls) >= count
    as_before(places)


def test_without_hard_links_new_files_are_still_taken_back(places, monkeypatch):
    def refused(*_):
        raise OSError(errno.EPERM, "no links here")

    rename = os.replace

    def failing(source, target):
        if target.name == "b":
            raise OSError(errno.EBUSY, "busy")
        rename(source, target)

    monkeypatch.setattr(os, "link", refused)
    monkeypatch.setattr(os, "replace", failing)
    with pytest.raises(StorageError, match="b cannot be written: busy"):
        write_all([places[2], places[1]])
    monkeypatch.undo()
    as_before(places)


def test_a_device_is_not_replaced_by_a_file(tmp_path):
    (tmp_path / "link").symlink_to("/dev/null")
    with (
        pytest.raises(StorageError, match="not an ordinary file"),
        written_whole(tmp_path / "link"),
    ):
        pass
    assert not os.path.isfile("/dev/null")


WRITE = """
import sys, time
from pathlib import Path
from kronfill._atomic import Publication

with Publication() as publication:
    with publication.open(Path(sys.argv[1])) as file:
        file.write(b"from the other process")
    print("ready", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def other(places):
    """Another process that has written its file and waits before it renames it."""
    command = [sys.executable, "-c", WRITE, str(places[0])]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    yield process
    process.kill()
    process.communicate()


def aside(places):
    return list(places[0].parent.glob(".a.*.part"))


def test_what_a_killed_process_left_is_removed_by_the_next(places, other):
    os.kill(other.pid, signal.SIGKILL)
    other.wait()
    assert len(aside(places)) == 1
    write_all(places)
    assert aside(places) == []


def test_what_another_process_is_writing_is_not_touched(places, other):
    write_all(places)
    assert len(aside(places)) == 1
    other.communicate("go on\n")
    assert other.returncode == 0
    assert places[0].read_bytes() == b"from the other process"
    assert aside(places) == []


def test_a_name_that_is_a_pattern(tmp_path):
    path, twin = tmp_path / "a[b]*.csv", tmp_path / ".axb.01234567.part"
    twin.write_bytes(b"not ours")
    for name in (".a[b]*.csv.01234567.part", ".ab.csv.01234567.part"):
        (tmp_path / name).write_bytes(b"")
    with written_whole(path) as file:
        file.write(b"x")
    left = sorted(one.name for one in tmp_path.iterdir())
    assert left == [".ab.csv.01234567.part", ".axb.01234567.part", "a[b]*.csv"]


def test_a_finished_file_is_locked_until_it_is_renamed(places):
    with Publication() as publication:
        with publication.open(places[0]) as file:
            file.write(b"first")
        with written_whole(places[0]) as file:
            file.write(b"second")
    assert places[0].read_bytes() == b"first"
