"""How the page opens: the completed table as a picture, and three sentences for anyone."""

from __future__ import annotations

import numpy as np

from kronfill.report.cells import decoded
from kronfill.report.html.formats import Numbers
from kronfill.report.html.pictures import STATUS, VALUES, Color, palette, png_uri
from kronfill.report.verdicts import WHAT, part_verdict

__all__ = ["opening"]

SHADES = 85
"""Colours for each of measured, filled and extrapolated values."""
PALE = 105
"""How opaque what was not measured is, of 255."""
WARMER = 0.5
"""How far the colours of extrapolated values are moved towards the colour of that word."""


def opening(n: Numbers) -> str:
    """The picture and the sentences."""
    lines = "".join(f"<p>{text}</p>" for text in (_known(n), _good(n), _use(n)))
    return f'<div class="opening">{_picture(n)}<div class="plainly">{lines}</div></div>'


def _known(n: Numbers) -> str:
    rest = n.tree["data"]["entries"] - n.tree["data"]["observed"]
    if not rest:
        return f"All {n.show('data.entries', 'i')} values of this table were measured."
    measured = "was" if n.tree["data"]["observed"] == 1 else "were"
    return (
        f"This table has {n.show('data.entries', 'i')} values, of which "
        f"{n.show('data.observed', 'i')} {measured} measured: all others are predictions."
    )


def _good(n: Numbers) -> str:
    parts = n.tree["accuracy"]["parts"]
    if not parts:
        return "How far predictions are off could not be measured: there are too few values."
    at = next((k for k, part in enumerate(parts) if part["kind"] == "known"), 0)
    path = f"accuracy.parts.{at}"
    rule = {"mean": "always saying the mean", "effects": "row and column averages"}
    best = parts[at]["best"]
    if parts[at]["method"]["auc"] is not None:
        return (
            f"Of a 1 and a 0 that were hidden to see, the 1 has the larger probability in "
            f"{n.show(f'{path}.method.auc', '%')} of cases (half of them would be chance), "
            f"measured on {n.show(f'{path}.count', 'i')} values."
        )
    return (
        f"A prediction is off by {n.show(f'{path}.method.mae')} on average, measured on "
        f"{n.show(f'{path}.count', 'i')} values that were hidden to see; {rule[best]} would be off "
        f"by {n.show(f'{path}.{best}.mae')}."
    )


def _use(n: Numbers) -> str:
    parts = n.tree["accuracy"]["parts"]
    tones = {part["kind"]: part_verdict(n, k).tone for k, part in enumerate(parts)}
    bad = [WHAT[kind] for kind, tone in tones.items() if tone == "bad"]
    unsure = [WHAT[kind] for kind, tone in tones.items() if tone == "warn"]
    good = [WHAT[kind] for kind, tone in tones.items() if tone == "good"]
    if bad:
        return f"Do not rely on it for {_and(bad)}: averages do as well there."
    if unsure:
        return f"Be careful with {_and(unsure)}: there it may be no better than averages."
    if good:
        return f"It can be relied on more than averages for {_and(good)}."
    return "Compare it with values that you know before you rely on it."


def _and(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _picture(n: Numbers) -> str:
    """Measured values in full colour, filled ones pale, extrapolated ones pale and warm."""
    cells = n.tree["cells"]
    shape = (cells["rows"], cells["columns"])
    values = decoded(cells["values"], cells["low"], cells["high"]).reshape(shape)
    low, high = cells["scale"]
    place = np.clip((values - low) / (high - low if high > low else 1.0), 0.0, 1.0)
    codes = np.where(np.isnan(place), 0, np.rint(place * (SHADES - 1))).astype(np.uint8)
    shares = (cells[name] for name in ("observed", "cold_rows", "cold_columns"))
    observed, cold_r, cold_c = (decoded(share, 0.0, 1.0) for share in shares)
    cold = (cold_r[:, None] > 0.5) | (cold_c[None, :] > 0.5)
    kind = np.where(observed.reshape(shape) >= 0.5, 0, np.where(cold, 2, 1))
    codes = (codes + SHADES * kind).astype(np.uint8)
    base = palette(VALUES, SHADES)
    colors = [*base, *base, *(_warm(color) for color in base)]
    alpha = bytes([255] * SHADES + [PALE] * 2 * SHADES)
    middle = base[SHADES // 2]
    words = (("measured", middle, 1.0), ("filled in", middle, PALE / 255),
             ("extrapolated", _warm(middle), PALE / 255))  # fmt: skip
    swatches = " ".join(
        f'<span><span class="swatch" style="background:rgba{(*color, round(opaque, 2))}"></span>'
        f"{word}</span>"
        for k, (word, color, opaque) in enumerate(words)
        if (kind == k).any()
    )
    return (
        f'<figure><img class="cells first" src="{png_uri(codes, colors, alpha)}" '
        'alt="The completed table: measured values in full colour, predicted ones paler">'
        f'<figcaption class="legend">{swatches}</figcaption></figure>'
    )


def _warm(color: Color) -> Color:
    red, green, blue = (
        round((1 - WARMER) * own + WARMER * other)
        for own, other in zip(color, STATUS[2], strict=True)
    )
    return red, green, blue
