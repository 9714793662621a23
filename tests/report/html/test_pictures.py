"""PNG files: what is written can be read."""

from __future__ import annotations

import base64
import struct
import zlib

import numpy as np
import pytest

from kronfill.report.html.pictures import VALUES, palette, png_uri


def chunks(uri):
    data = base64.b64decode(uri.removeprefix("data:image/png;base64,"))
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, found = 8, {}
    while at < len(data):
        (size,) = struct.unpack(">I", data[at : at + 4])
        kind, content = data[at + 4 : at + 8], data[at + 8 : at + 8 + size]
        assert struct.unpack(">I", data[at + 8 + size : at + 12 + size])[0] == zlib.crc32(
            kind + content
        )
        found[kind] = content
        at += 12 + size
    return found


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (1, 200)])
def test_the_pixels_are_the_codes(shape):
    codes = np.random.default_rng(0).integers(0, 256, shape).astype(np.uint8)
    colors = palette(VALUES)
    found = chunks(png_uri(codes, colors, bytes(range(256))))
    height, width = struct.unpack(">II", found[b"IHDR"][:8])[::-1]
    assert (height, width) == shape
    rows = np.frombuffer(zlib.decompress(found[b"IDAT"]), np.uint8).reshape(height, width + 1)
    np.testing.assert_array_equal(rows[:, 1:], codes)
    assert not rows[:, 0].any()
    table = np.frombuffer(found[b"PLTE"], np.uint8).reshape(-1, 3)
    np.testing.assert_array_equal(table, colors)
    assert found[b"tRNS"] == bytes(range(256))


def test_a_palette_goes_through_its_anchors():
    colors = palette(VALUES)
    assert colors[0] == VALUES[0]
    assert colors[-1] == VALUES[-1]
    assert len(set(colors)) > 250
