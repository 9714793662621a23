"""Side information as people have it: labels, strings, dates, and large tables of features.

Ratings: genres read as labels, and as one category for each combination. Davis: affinities from
SMILES and sequences alone, from the two matrices of similarities, and from both. Sensors: dates as
they are, and hour and weekday made by hand; forecasts beside the mean of the hour of the week.
Reading: 100,000 items with words, dates, labels and gaps. Ratings and sensors are made up
(``studies.made_up_users``). Nothing is chosen on what is tested.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

import kronfill as kf
from studies import made_up_users
from studies.common import RESULTS, cores, load, markdown, on_cores, save, timed
from studies.defaults import davis, folder

NAME = "side_information"
PAGE = Path(__file__).parents[1] / "docs" / "side-information.md"
AHEAD = 48
"""Hours that are forecast."""


def run(quick=False, out=RESULTS):
    """All parts; quick: small ones. A part is kept as soon as it is there."""
    if quick:
        return {"cores": cores(), **{name: part(quick=True) for name, part in PARTS.items()}}
    begun = f"{NAME}.begun"
    found = load(begun, out) or {"cores": cores()}
    for name, part in PARTS.items():
        if name not in found:
            found[name] = part()
            save(found, begun, out)
            print(f"{name}: {found[name]}", flush=True)
    (out / f"{begun}.json").unlink(missing_ok=True)
    return found


# The parts.


def ratings(quick=False):
    """A fifth of the stars hidden; genres as labels, and as categories without the titles."""
    made = (
        made_up_users.ratings(users=120, films=80, count=2500) if quick else made_up_users.ratings()
    )
    settings = {"method": "kkmcex", "mu": 3.0} if quick else {}
    hidden = np.random.default_rng(0).random(len(made.stars)) < 0.2
    seen = made.stars[~hidden].drop(columns="timestamp")
    truth = made.stars[hidden]
    rows = []
    for name, kinds in (
        ("genres as labels", {}),
        ("each combination of genres a category", {"genres": "category", "title": "ignore"}),
    ):
        call = (lambda k: kf.complete(seen, made.users, made.films, kinds=k, **settings), kinds)
        done, seconds = timed(*call)
        gap = done.predict(truth[["user", "film"]]) - truth["stars"].to_numpy()
        rows.append({"known": name, "error": rms(gap), "seconds": seconds})
    return rows


def affinities(quick=False):
    """Davis, the fixed split: mean square errors; quick: strings alone, of twelve drugs."""
    table, hidden, *alike = davis()
    strings = []
    for name, column, labels in (
        ("ligands_can", "smiles", table.index),
        ("proteins", "sequence", table.columns),
    ):
        texts = json.loads((folder("davis") / f"{name}.txt").read_text())
        strings.append(pd.DataFrame({column: list(texts.values())}, labels))
    if quick:
        table, hidden = table.iloc[:12, :20], hidden[:12, :20]
        strings = [strings[0].iloc[:12], strings[1].iloc[:20]]
        done = kf.complete(table.mask(hidden), *strings, "kkmcex", mu=1.0)
        gap = (done.predicted - table).to_numpy()[hidden]
        return [{"known": "SMILES and sequences", "error": rms(gap) ** 2, "seconds": 0.0}]
    both = [list(pair) for pair in zip(strings, alike, strict=True)]
    rows = []
    for name, (drugs, kinases) in (
        ("the two matrices of similarities", alike),
        ("SMILES and sequences", strings),
        ("both", both),
    ):
        done, seconds = timed(kf.complete, table.mask(hidden), drugs, kinases)
        gap = (done.predicted - table).to_numpy()[hidden]
        rows.append({"known": name, "error": rms(gap) ** 2, "seconds": seconds})
    return rows


def gaps(quick=False):
    """Errors in the stretches that sensors lack, but for the one that is missing altogether."""
    made = made_up_users.sensors(count=12, hours=24 * 21) if quick else made_up_users.sensors()
    seen = made.readings.mask(made.missing)
    asked = made.missing & ~made.missing.all(axis=1, keepdims=True)
    plain = seen.set_axis([f"h{k}" for k in range(seen.shape[1])], axis=1)
    by_hand = pd.DataFrame(
        {
            "time": np.arange(float(seen.shape[1])),
            "hour": seen.columns.hour.astype(str),
            "weekday": seen.columns.day_of_week.astype(str),
        },
        plain.columns,
    )
    rows = []
    for name, table, cols in (
        ("the dates alone", seen, None),
        ("time, hour and weekday by hand", plain, by_hand),
    ):
        done, seconds = timed(kf.complete, table, made.places, cols)
        gap = (done.predicted.to_numpy() - made.readings.to_numpy())[asked]
        rows.append({"known": name, "error": rms(gap), "seconds": seconds})
    return rows


def forecasts(quick=False):
    """The last 48 hours: ours, how often intervals hold, and the mean of the hour of the week."""
    made = made_up_users.sensors(count=12, hours=24 * 21) if quick else made_up_users.sensors()
    seen = made.readings.mask(made.missing)
    past, truth = seen.iloc[:, :-AHEAD], seen.iloc[:, -AHEAD:]
    done, seconds = timed(kf.complete, past, made.places)
    (coming, details), more = timed(lambda: (done.forecast(AHEAD), done.forecast_details(AHEAD)))
    there = truth.notna().to_numpy()
    ends = details[["lower", "upper"]].to_numpy().reshape(*truth.shape, 2)
    inside = (ends[..., 0] <= truth.to_numpy()) & (truth.to_numpy() <= ends[..., 1])
    hour = [columns.day_of_week * 24 + columns.hour for columns in (past.columns, truth.columns)]
    usual = past.T.groupby(np.asarray(hour[0])).mean().T[hour[1]]
    simple = (usual.to_numpy() - truth.to_numpy())[there]
    return {
        "error": rms((coming.to_numpy() - truth.to_numpy())[there]),
        "inside": float(inside[there].mean()),
        "seasonal": rms(simple[np.isfinite(simple)]),
        "seconds": seconds + more,
    }


def reading(quick=False):
    """Seconds and memory to read and encode a file, in a process of its own."""
    with tempfile.TemporaryDirectory() as home:
        path = Path(home) / "items.csv"
        items = 2000 if quick else 100_000
        made_up_users.items(items).to_csv(path)
        told = subprocess.run(
            [sys.executable, "-m", "studies.side_information", path],
            check=True, capture_output=True, text=True,
        )  # fmt: skip
    return {"items": items, **json.loads(told.stdout)}


def _read(path):
    """What :func:`reading` measures, from the import of the library on."""
    from kronfill.completion.feature_sources import feature_sources
    from kronfill.data.reading.side_files import read_side
    from kronfill.data.reading.table_files import open_file

    side = read_side(open_file(path), impute="none")
    sources, words = feature_sources(side.build())
    return {
        "seconds": time.process_time(),
        "megabytes": _peak(),
        "sources": len(sources),
        "words": words.removeprefix(": "),
    }


def _peak():
    """Largest memory of this process in MB; getrusage would begin at that of the one before."""
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) * 1024 / 1e6


PARTS = {
    "ratings": ratings,
    "davis": affinities,
    "sensors": gaps,
    "forecast": forecasts,
    "reading": reading,
}


def rms(gap):
    """Root mean square."""
    return float(np.sqrt(np.mean(np.square(gap))))


# The page.


def tables(folder=RESULTS):
    """What goes on the page, by the name of its place."""
    result = load(NAME, folder)
    return {} if result is None else {NAME: table(result)}


def table(result):
    """Markdown: a table of each part, and sentences."""
    made = []
    for part, head, digits, data in (
        ("ratings", ("what is known of films", "RMSE"), 3,
         "Made-up stars of 2,000 users for 800 films, a fifth of them hidden:"),
        ("davis", ("what is known of drugs and kinases", "mean square error"), 4,
         "Kinase affinities of Davis et al., the split that others use:"),
        ("sensors", ("what is known of hours", "RMSE"), 3,
         "Gaps of 24 to 150 hours in 3,000 hours of 200 made-up sensors, whose noise is 0.4:"),
    ):  # fmt: skip
        if part in result:
            made.append(data)
            lines = [
                [one["known"], f"{one['error']:.{digits}f}", f"{one['seconds']:.0f}"]
                for one in result[part]
            ]
            seconds = f"processor seconds, {on_cores(result)}"
            made.append(markdown((*head, seconds), lines))
    if "forecast" in result:
        one = result["forecast"]
        made.append(
            f"The last {AHEAD} hours are forecast with an error of {one['error']:.3f}; the mean of "
            f"the same hour of the week, by sensor, has {one['seasonal']:.3f}. "
            f"{one['inside']:.1%} of the readings are in intervals of 90%."
        )
    if "reading" in result:
        one = result["reading"]
        made.append(
            f"A file of {one['items']:,} items with a text, a date, a price, genres and a postcode "
            f"is read in {one['seconds']:.1f} processor seconds, the import of the library "
            f"included, with {one['megabytes']:.0f} MB of memory at most."
        )
    return "\n\n".join(made)


if __name__ == "__main__":
    print(json.dumps(_read(sys.argv[1])))
