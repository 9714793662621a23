"""Do intervals hold where masks are uneven, and for new rows: every method, made-up and real data.

Each split draws a mask (and, for made-up tables, values) anew; intervals are made from the observed
entries alone and tested on the others. ``KRONFILL_DATA`` has Davis, as it has the other tables.
"""

from __future__ import annotations

import os
import warnings
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import expit
from scipy.stats import norm

import kronfill as kf
from kronfill.errors import DataError, KronfillWarning
from kronfill.estimators.conformal.left_out_errors import Around
from kronfill.masks import fit_mask
from studies.common import RESULTS, load, markdown
from studies.real_data import ALL, Real, leading_columns, with_own_part

PAGE = Path(__file__).parents[1] / "docs" / "intervals.md"
PICTURE = PAGE.parent / "figures" / "intervals.png"
REAL_PICTURE = PICTURE.with_name("intervals-real.png")
COVERAGE = 0.9
MASKS = ("uniform", "popularity", "popularity, uneven noise", "block gaps", "by value")
METHODS = ("KKMCEX", "RRMCEX", "KMC", "IMC", "MC")
WAYS = (
    "plain", "weighted, effects", "weighted", "weighted, normalised", "weighted, learned",
)  # fmt: skip
"""All errors alike; by odds of being missing; over the model's scale; over what errors show.

The mask model knows the side information, whether or not the method makes use of it, but for that
of "effects", which sees the mask alone.
"""
SHOWN = ("plain", "weighted, learned")
"""Ways that are shown by the number of observations of the row."""
DRAWN = ("KKMCEX", "MC")
LARGE, SIZE, SMALL = (60, 50), (40, 36), (24, 22)
"""Rows and columns of made-up tables: known rows and columns, new ones, jackknife+ over rows."""


def run(quick=False, splits=200, methods=METHODS):
    """Made-up tables, known rows and columns: every mask, method and way."""
    masks = MASKS
    if quick:
        splits, methods, masks = 4, DRAWN, MASKS[2:3]
    rows = []
    for mask in masks:
        for method in methods:
            name = {"mask": mask, "method": method}
            rows += _ways(name, [_made_up(mask, method, seed) for seed in range(splits)])
            if mask == "uniform":
                found = [_jackknife(mask, method, seed) for seed in range(splits)]
                rows.append(name | {"way": "jackknife+"} | _summary(found))
    return {"rows": rows}


def _ways(name, found):
    """A row for each way, from what each split found for all of them."""
    return [name | {"way": way} | _summary([one[way] for one in found]) for way in WAYS]


def run_new(quick=False, splits=200):
    """Made-up tables, new rows and columns: split and jackknife+ over rows."""
    rows = []
    for mask in MASKS[:1] if quick else MASKS:
        for method in METHODS[:1] if quick else METHODS:
            for way in ("split",) if quick else ("split", "jackknife+"):
                found = [_new(mask, method, way, seed) for seed in range(4 if quick else splits)]
                for k, kind in enumerate(("new row", "new column", "both new")):
                    part = [one[k] for one in found]
                    rows.append({"mask": mask, "method": method, "way": f"{kind}, {way}",
                                 "size": SIZE if way == "split" else SMALL}
                                | _summary(part))  # fmt: skip
    return {"rows": rows}


def run_auto(quick=False, splits=200):
    """What ``kf.complete`` and ``details`` give by default: entries of every kind."""
    rows = []
    for mask in MASKS[2:3] if quick else (MASKS[0], MASKS[2]):
        found = [_by_default(mask, seed) for seed in range(2 if quick else splits)]
        for kind in sorted({kind for one in found for kind in one}):
            part = [one[kind] for one in found if kind in one]
            rows.append(
                {"mask": mask, "method": "auto", "way": kind, "size": SIZE} | _summary(part)
            )
    return {"rows": rows}


def _by_default(mask, seed):
    """Share inside by kind of entry, a tenth of the rows and of the columns never seen.

    Rows that nobody has seen because they are unpopular are not drawn like the others, but are
    noisier: they are left out.
    """
    values, seen, _, features = made_up(mask, seed)
    hidden = [np.arange(size) < size // 10 for size in seen.shape]
    seen[hidden[0]] = False
    seen[:, hidden[1]] = False
    fair = (seen.any(axis=1) | hidden[0])[:, None] & (seen.any(axis=0) | hidden[1])
    sides = [pd.DataFrame({"z": part[:, -1]}) for part in features]
    table = pd.DataFrame(np.where(seen, values, np.nan))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KronfillWarning)
        found = kf.complete(table, *sides).details(level=COVERAGE)
    found = found.assign(truth=values.ravel())[(fair & ~seen).ravel()]
    out = {}
    for kind, part in found.groupby("interval", observed=True):
        hit = (part["lower"] <= part["truth"]) & (part["truth"] <= part["upper"])
        out[kind] = [hit.mean(), np.median(part["upper"] - part["lower"]), *[np.nan] * 4]
    return out


def run_real(quick=False, splits=20):
    """Real tables with masks by row popularity: known entries, and rows never seen."""
    rows, names = [], ("bixi",) if quick else ("bixi", "seattle", "davis", "drug")
    for name in names:
        data = (ALL | {"davis": davis})[name]()
        for method in ("KKMCEX",) if quick else ("KKMCEX", "MC"):
            est = _real_estimator(data, method)
            count = 3 if quick else splits
            found = [_real(data, est, seed) for seed in range(count)]
            rows += _ways({"data": data.name, "method": method}, found)
        for way in ("gaussian", "constant", "split"):
            found = [_real_new(data, way, seed) for seed in range(3 if quick else splits)]
            rows.append({"data": data.name, "method": "KKMCEX", "way": f"new row, {way}"}
                        | _summary(found))  # fmt: skip
    return {"rows": rows}


# Made-up tables.


def made_up(mask, seed, n=SIZE[0], l=SIZE[1]):
    """Values, who is observed, the two kernels and the features."""
    rng = np.random.default_rng([MASKS.index(mask), seed])
    x, t, popularity = rng.random(n), rng.random(l), rng.standard_normal(n)
    truth = 2 * np.sin(5 * x)[:, None] * np.cos(4 * t) + 0.3 * rng.standard_normal(n)[:, None]
    p, noise = np.full((n, l), 0.3), np.full(n, 0.3)
    if mask.startswith("popularity"):
        p = np.repeat(expit(-0.8 + 1.3 * popularity)[:, None], l, axis=1)
    if mask == "popularity, uneven noise":
        noise = 0.3 * np.exp(-0.6 * popularity)
    if mask == "block gaps":
        p = np.where((x < 0.5)[:, None] & (t < 0.5), 0.08, 0.4)
        noise = np.where(x < 0.5, 0.6, 0.3)
    values = truth + noise[:, None] * rng.standard_normal((n, l))
    if mask == "by value":
        p = expit(-0.8 - values)
    seen = rng.random((n, l)) < p
    kernels = [_kernel(z) for z in (x, t)]
    return values, seen, kernels, [_features(z) for z in (x, t)]


def _kernel(z):
    smooth = kf.kernels.rbf(z, length_scale=0.3) + kf.kernels.constant(len(z))
    return smooth + 0.1 * kf.kernels.identity(len(z))


def _features(z):
    return np.column_stack([np.ones_like(z), np.sin(5 * z), np.cos(5 * z), np.cos(4 * z), z])


def _estimator(method, kernels, features, shape):
    return {
        "KKMCEX": kf.KKMCEX(*kernels, mu=0.3, center="mean"),
        "RRMCEX": kf.RRMCEX(*kernels, 12, 12, mu=0.3, center="mean"),
        "KMC": kf.KMC(*kernels, rank=3, mu=0.3, center="mean"),
        "IMC": kf.IMC(*features, rank=2, mu=0.3, center="mean"),
        "MC": kf.MC(shape, rank=2, mu=1.0, center="both"),
    }[method]


def _made_up(mask, method, seed):
    values, seen, kernels, features = made_up(mask, seed, *LARGE)
    est = _estimator(method, kernels, features, values.shape)
    return _known(values, seen, est, kernels, seed)


def _jackknife(mask, method, seed):
    values, seen, kernels, features = made_up(mask, seed)
    est = _estimator(method, kernels, features, values.shape)
    model = _fit(values, seen, est, {"method": "jackknife+"}, seed)
    at, quarter = _missing(values, seen, model, seed)
    return _judged(values, at, model.predict_interval(at, COVERAGE), quarter)


def _known(values, seen, est, kernels, seed, most=10**9):
    """By way: share inside, the median width, the share by quarter of the rows by observations."""
    options = {"mask": "kernel", "mask_kernels": kernels, "scores": "auto"}
    model = _fit(values, seen, est, options, seed)
    at, quarter = _missing(values, seen, model, seed, most)
    return {
        way: _judged(values, at, np.column_stack(part.at(at, COVERAGE)), quarter)
        for way, part in variants(vars(model)["_bounds"], int(seen.sum())).items()
    }


def _missing(values, seen, model, seed, most=10**9):
    """Missing entries of rows and columns known to the fit, and the quarter of each by row."""
    part = model.estimator_.observations_
    warm = (part.row_counts > 0)[:, None] & (part.col_counts > 0)
    at = np.argwhere(~seen & warm & np.isfinite(values))
    at = np.random.default_rng(seed).permutation(at)[:most]
    edges = np.quantile(part.row_counts[part.row_counts > 0], [0.25, 0.5, 0.75])
    return at, np.searchsorted(edges, part.row_counts[at[:, 0]])


def variants(part, m):
    """The same errors of the same fit to some of m entries, counted and scaled in each way."""
    raw = part.scores * (1.0 if part.scale is None else part.scale.at(part.rows, part.cols))
    base = getattr(part.scale, "base", part.scale)
    scaled = raw if base is None else raw / base.at(part.rows, part.cols)

    def ordered(scores, mask=None, **more):
        order = np.argsort(scores, kind="stable")
        odds = None if mask is None else mask.odds(part.rows, part.cols)[order]
        return Around(part.model, scores[order], odds, mask=mask, **more)

    train = part.model.observations_
    found = (
        ordered(raw), ordered(raw, fit_mask("effects", train, train.m / m)),
        ordered(raw, part.mask), ordered(scaled, part.mask, scale=base), part,
    )  # fmt: skip
    return dict(zip(WAYS, found, strict=True))


def _fit(values, seen, est, options, seed):
    rows, cols = np.nonzero(seen)
    obs = kf.Observations(rows, cols, values[seen], values.shape)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KronfillWarning)
        model = kf.ConformalRegressor(est, calibration=0.25, random_state=seed, **options)
        return model.fit(obs)


def _judged(values, at, ends, quarter=None):
    low, high = ends.T
    truth = values[tuple(at.T)]
    hit = (low <= truth) & (truth <= high)
    own = [hit[quarter == k] for k in range(4)] if quarter is not None else [[]] * 4
    shares = [np.mean(part) if len(part) else np.nan for part in own]
    return [hit.mean(), np.median(high - low), *shares]


def _new(mask, method, way, seed):
    """The same for rows, columns and both of which nothing was seen."""
    values, seen, kernels, features = made_up(mask, seed, *(SMALL if way != "split" else SIZE))
    n, l = values.shape
    seen[: n // 5] = False
    seen[:, : l // 5] = False
    est = _estimator(method, kernels, features, values.shape)
    options = {"new": way} | ({"scores": "auto"} if way == "split" else {})
    model = _fit(values, seen, est, options, seed)
    out = []
    for rows, cols in ((True, False), (False, True), (True, True)):
        block = (np.arange(n) < n // 5)[:, None] == rows
        at = np.argwhere(block & ((np.arange(l) < l // 5) == cols))
        out.append(_judged(values, at, model.predict_interval(at, COVERAGE)))
    return out


# Real tables.


def davis():
    """pKd of 68 drugs and 442 kinases."""
    folder = Path(os.environ.get("KRONFILL_DATA", "")) / "davis"
    name = "drug-target_interaction_affinities_Kd__Davis_et_al.2011v1.txt"
    if not (folder / name).exists():
        msg = f"Davis is not in {folder}: set KRONFILL_DATA."
        raise DataError(msg)
    values = -np.log10(np.loadtxt(folder / name) / 1e9)
    kernels = []
    for file in ("drug-drug_similarities_2D.txt", "target-target_similarities_WS.txt"):
        found = np.loadtxt(folder / file)
        found = found / found.max()
        kernels.append(kf.kernels.precomputed(kf.kernels.nearest_psd((found + found.T) / 2)))
    features = [leading_columns(kernel) for kernel in kernels]
    return Real("Davis", values, *map(with_own_part, kernels), *features)


def _real_mask(data, seed, m=1200):
    rng = np.random.default_rng(seed)
    known = np.isfinite(data.values)
    popularity = 1.3 * rng.standard_normal(len(known))
    level = -1.5 + np.log(m / known.sum()) + 0.5
    return known & (rng.random(known.shape) < expit(level + popularity)[:, None])


def _real_estimator(data, method):
    """The method with a mu from a mask of its own that no later one is judged by."""
    est = {
        "KKMCEX": lambda mu: kf.KKMCEX(data.row_kernel, data.col_kernel, mu, center="mean"),
        "MC": lambda mu: kf.MC(data.values.shape, rank=3, mu=mu, center="both"),
    }[method]
    seen = _real_mask(data, 10**6)
    obs = kf.Observations(*np.nonzero(seen), data.values[seen], data.values.shape)
    return est(float(est("auto").fit(obs).mu_))


def _real(data, est, seed):
    kernels = (data.row_kernel, data.col_kernel)
    return _known(data.values, _real_mask(data, seed), est, kernels, seed, most=2000)


def _real_new(data, way, seed):
    est = _real_estimator(data, "KKMCEX")
    seen = _real_mask(data, seed)
    rng = np.random.default_rng([1, seed])
    cold = rng.choice(len(seen), len(seen) // 5, replace=False)
    seen[cold] = False
    hidden = np.zeros_like(seen)
    hidden[cold] = np.isfinite(data.values[cold])
    if way == "gaussian":
        obs = kf.Observations(*np.nonzero(seen), data.values[seen], data.values.shape)
        est.fit(obs)
        at = rng.permutation(np.argwhere(hidden & (obs.col_counts > 0)))[:1000]
        half = norm.ppf(0.95) * np.sqrt(est.predict_std(at) ** 2 + est.noise_variance_)
        middle = est.predict(at)
        return _judged(data.values, at, np.column_stack([middle - half, middle + half]))
    scores = "absolute" if way == "constant" else "auto"
    model = _fit(data.values, seen, est, {"new": "split", "scores": scores}, seed)
    counts = model.estimator_.observations_.col_counts
    at = rng.permutation(np.argwhere(hidden & (counts > 0)))[:1000]
    return _judged(data.values, at, model.predict_interval(at, COVERAGE))


def _summary(found):
    found = np.array(found)
    error = found[:, 0].std(ddof=1) / np.sqrt(len(found))
    width = float(np.median(found[:, 1]))
    quarters = [part[np.isfinite(part)] for part in found[:, 2:].T]
    shares = [float(part.mean()) if len(part) else None for part in quarters]
    return {
        "splits": len(found), "coverage": float(found[:, 0].mean()), "standard_error": float(error),
        "least_observed": shares[0], "by_quarter": shares,
        "width": width if np.isfinite(width) else None,
    }  # fmt: skip


def table(result, first="mask"):
    """Markdown: known rows and columns, a column for each way."""
    found = {(row[first], row["method"], row["way"]): row for row in result["rows"]}
    lines = []
    for name, method in dict.fromkeys(key[:2] for key in found if key[2] in WAYS):
        cells = [_cell(found.get((name, method, way))) for way in WAYS]
        lines.append([name, method, *cells])
    return markdown([first, "method", *WAYS], lines)


def new_table(result, first="mask"):
    """Markdown: new rows and columns."""
    lines = [
        [row[first], row["method"], _size(row), f"{row['splits']}", row["way"], _cell(row)]
        for row in result["rows"]
        if row["way"] not in WAYS
    ]
    return markdown([first, "method", "size", "splits", "intervals", "inside, width"], lines)


def _size(row):
    return " x ".join(map(str, row["size"])) if "size" in row else ""


def _cell(row):
    """Share inside with its standard error, that in rows with few observations, median width."""
    if row is None:
        return ""
    least = "" if row["least_observed"] is None else f" ({row['least_observed']:.3f})"
    width = "infinite" if row["width"] is None else f"{row['width']:.2f}"
    return f"{row['coverage']:.3f} ± {row['standard_error']:.3f}{least}, {width}"


def quarter_table(result):
    """Markdown: real tables by the number of observations of the row, fewest first."""
    lines = [
        [row["data"], row["method"], row["way"], *(f"{part:.3f}" for part in row["by_quarter"])]
        for row in result["rows"]
        if row["way"] in SHOWN
    ]
    return markdown(["data", "method", "intervals", "fewest", "", " ", "most"], lines)


def tables(folder=RESULTS):
    """All tables of the page, by the name of their place."""
    made = {}
    results = {
        name: load(f"uneven_{name}", folder) for name in ("made_up", "new", "auto", "real")
    }  # fmt: skip
    if results["made_up"] is not None:
        made["uneven_made_up"] = table(results["made_up"])
        jackknife = [row for row in results["made_up"]["rows"] if row["way"] == "jackknife+"]
        if jackknife:
            made["jackknife"] = new_table({"rows": jackknife})
    for name in ("new", "auto"):
        if results[name] is not None:
            made[f"uneven_{name}"] = new_table(results[name])
    if results["real"] is not None:
        made["uneven_real"] = table(results["real"], "data")
        made["uneven_real_quarters"] = quarter_table(results["real"])
        made["uneven_real_new"] = new_table(results["real"], "data")
    return made


# The picture.

COLOURS = dict(zip(WAYS, ("#666666", "#56B4E9", "#0072B2", "#009E73", "#D55E00"), strict=True))


def draw(made, real, path):
    """Coverage by mask, and on real data coverage in rows with few observations against width."""
    with _picture(path, (11, 4.4), 1, 2, width_ratios=(3, 2)) as (left, right):
        _by_mask(made["rows"], left)
        _by_width(real["rows"], right)


def draw_real(real, path):
    """Each real table: coverage by the number of observations of the row, and that of new rows."""
    names = list(dict.fromkeys(row["data"] for row in real["rows"]))
    with _picture(path, (11, 5.6), 2, len(names), sharex=True, sharey="row") as axes:
        for k, name in enumerate(names):
            mine = [row for row in real["rows"] if row["data"] == name]
            _by_quarter(mine, axes[0, k])
            _widths(mine, axes[1, k])
            axes[0, k].set_title(name, loc="left", fontsize=10)
        axes[0, 0].set_ylabel("share inside nominal 90%")
        axes[1, 0].set_ylabel("median width, plain KKMCEX = 1")
        shown = axes[0, 0].get_legend_handles_labels()
        axes[1, 0].legend(*shown, frameon=False, fontsize=8, loc="lower right")
        axes[1, 0].set_ylim(0, None)


@contextmanager
def _picture(path, size, rows, cols, **layout):
    """Axes of a picture that is saved at the end."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    style = {"font.size": 10, "axes.spines.top": False, "axes.spines.right": False}
    with plt.rc_context(style):
        figure, axes = plt.subplots(rows, cols, figsize=size, **layout)
        yield axes
        figure.tight_layout()
        figure.savefig(path, dpi=150)
        plt.close(figure)


NEW_WAYS = ("gaussian", "constant", "split")
PLACES = ("fewest", "", "", "most", *(f"new row,\n{way}" for way in NEW_WAYS))
"""Where something is shown: quarters of the rows by their observations, then new rows."""


def _by_quarter(rows, axis):
    for row in rows:
        if row["way"] in SHOWN:
            own = row["method"] == "KKMCEX"
            look = {"color": COLOURS[row["way"]], "mfc": None if own else "white"}
            label = f"{row['method']}, {row['way']}"
            axis.plot(row["by_quarter"], "-o" if own else "--s", ms=5, lw=1, label=label, **look)
    for k, row in _new_rows(rows):
        axis.errorbar(k, row["coverage"], 2 * row["standard_error"], fmt="D", ms=5, color="#CC79A7")
    axis.axhline(COVERAGE, color="black", lw=0.8)
    axis.axhspan(COVERAGE - 0.03, COVERAGE + 0.03, color="#eeeeee", zorder=0)


def _widths(rows, axis):
    base = next(r["width"] for r in rows if (r["method"], r["way"]) == ("KKMCEX", "plain"))
    for row in rows:
        if row["way"] in SHOWN:
            own = row["method"] == "KKMCEX"
            look = {"color": COLOURS[row["way"]], "ls": "-" if own else "--", "lw": 1.5}
            axis.plot([0, 3], [row["width"] / base] * 2, **look)
    for k, row in _new_rows(rows):
        axis.plot(k, row["width"] / base, "D", ms=5, color="#CC79A7")
    axis.set_xticks(range(len(PLACES)), PLACES, rotation=90, fontsize=8)


def _new_rows(rows):
    """Place and row of each kind of interval for new rows."""
    found = {row["way"].removeprefix("new row, "): row for row in rows}
    return [(4 + k, found[way]) for k, way in enumerate(NEW_WAYS) if way in found]


def _by_mask(rows, axis):
    for row in rows:
        if row["way"] in WAYS and row["method"] in ("KKMCEX", "MC"):
            k, w = MASKS.index(row["mask"]), list(WAYS).index(row["way"])
            own = row["method"] == "KKMCEX"
            x = k + 0.1 * (w - 2) + (-0.025 if own else 0.025)
            look = {"color": COLOURS[row["way"]], "mfc": None if own else "white"}
            axis.plot(x, row["coverage"], "o" if own else "s", ms=7, **look)
            axis.plot(x, row["least_observed"], "_", ms=9, color=COLOURS[row["way"]])
    axis.axhline(COVERAGE, color="black", lw=0.8)
    axis.axhspan(COVERAGE - 0.03, COVERAGE + 0.03, color="#eeeeee", zorder=0)
    axis.set_xticks(range(len(MASKS)), [name.replace(", ", ",\n") for name in MASKS])
    axis.set_ylabel("share inside nominal 90% intervals")
    axis.set_title(
        "Made-up tables: all missing entries (circle KKMCEX, square MC),\n"
        "and rows with few observations (dash)", loc="left", fontsize=10,
    )  # fmt: skip
    for way, colour in COLOURS.items():
        axis.plot([], [], "o", color=colour, label=way)
    axis.legend(frameon=False, fontsize=9, loc="lower left")


def _by_width(rows, axis):
    names = list(dict.fromkeys(row["data"] for row in rows))
    for name, marker in zip(names, "osD^", strict=False):
        mine = [r for r in rows if (r["data"], r["method"]) == (name, "KKMCEX")]
        mine = [r for r in mine if r["way"] in WAYS]
        base = next(r["width"] for r in mine if r["way"] == "plain")
        at = [r["width"] / base for r in mine], [r["least_observed"] for r in mine]
        axis.plot(*at, "-", color="#cccccc", lw=0.8, zorder=0)
        for x, y, row in zip(*at, mine, strict=True):
            axis.plot(x, y, marker, color=COLOURS[row["way"]], ms=7)
        axis.plot([], [], marker, color="#666666", label=name)
    axis.axhline(COVERAGE, color="black", lw=0.8)
    axis.set_xlabel("median width, plain intervals = 1")
    axis.set_ylabel("share inside, rows with few observations")
    axis.set_title("Real tables, masks by row popularity, KKMCEX", loc="left", fontsize=10)
    axis.legend(frameon=False, fontsize=9, loc="lower right")
