"""A disk that is full for some files, without a file system of its own."""

from __future__ import annotations

import builtins
from contextlib import contextmanager

import pytest

from kronfill import _atomic


@contextmanager
def full_for(name):
    """Writing a file whose path ends so fails as on a full disk: /dev/full takes no byte."""

    def opened(path, mode):
        file = builtins.open(path, mode)  # noqa: SIM115
        place = str(path.with_name(path.name[1 : -len(".01234567.part")]))
        if not place.endswith(name):
            return file
        file.close()
        return builtins.open("/dev/full", "wb")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_atomic, "open", opened, raising=False)
        yield
