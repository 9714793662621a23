"""Model files taken apart and put together again, for tests that damage them."""

from __future__ import annotations

import io
import json
import zipfile

from kronfill.io.arrays import sha256
from kronfill.io.container import write_container


def parts_of(data):
    """The entries of a file."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def file_of(parts):
    """A file with these entries, laid out as it should be."""
    file = io.BytesIO()
    write_container(file, parts)
    return file.getvalue()


def rebuilt(data, change):
    """The file with valid checksums around what a function does to the manifest and the entries."""
    parts = parts_of(data)
    manifest = json.loads(parts["manifest.json"])
    text = change(manifest, parts)
    text = text if isinstance(text, bytes) else json.dumps(manifest).encode()
    parts["manifest.json"], parts["manifest.sha256"] = text, sha256(text).encode()
    return file_of(parts)
