"""Small pictures without a drawing library: PNG files with a palette."""

from __future__ import annotations

import base64
import struct
import zlib

import numpy as np
from numpy.typing import NDArray

__all__ = ["STATUS", "VALUES", "WIDTHS", "Color", "palette", "png_uri"]

Color = tuple[int, int, int]

# Dark to bright, even in lightness, told apart by the colour-blind.
VALUES: tuple[Color, ...] = (
    (68, 1, 84), (72, 40, 120), (62, 74, 137), (49, 104, 142), (38, 130, 142),
    (31, 158, 137), (53, 183, 121), (109, 205, 89), (180, 222, 44), (253, 231, 37),
)  # fmt: skip
WIDTHS: tuple[Color, ...] = (
    (255, 245, 230), (253, 212, 158), (252, 141, 89), (203, 40, 25), (110, 0, 0),
)  # fmt: skip
STATUS: tuple[Color, ...] = ((17, 102, 178), (190, 196, 204), (222, 130, 40))
"""Observed, filled, extrapolated."""


def palette(anchors: tuple[Color, ...], size: int = 256) -> list[Color]:
    """Colours between the anchors."""
    at = np.linspace(0, len(anchors) - 1, size)
    columns = [np.interp(at, np.arange(len(anchors)), part) for part in zip(*anchors, strict=True)]
    return [(int(r), int(g), int(b)) for r, g, b in np.rint(np.column_stack(columns))]


def png_uri(codes: NDArray[np.uint8], colors: list[Color], alpha: bytes) -> str:
    """An image with one pixel per code as a data URI; ``alpha`` says how opaque each code is."""
    height, width = codes.shape
    rows = np.zeros((height, width + 1), dtype=np.uint8)  # each row begins with its filter, none
    rows[:, 1:] = codes
    table = np.zeros((256, 3), dtype=np.uint8)
    table[: len(colors)] = colors
    data = b"".join(
        _chunk(kind, content)
        for kind, content in (
            (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
            (b"PLTE", table.tobytes()),
            (b"tRNS", alpha),
            (b"IDAT", zlib.compress(rows.tobytes(), 9)),
            (b"IEND", b""),
        )
    )
    return "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n" + data).decode("ascii")


def _chunk(kind: bytes, content: bytes) -> bytes:
    return (
        struct.pack(">I", len(content))
        + kind
        + content
        + struct.pack(">I", zlib.crc32(kind + content))
    )
