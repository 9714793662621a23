"""Values that are not Gaussian: active drugs, counted trips, liked films and stars.

Davis: is a drug active on a kinase (pKd >= 7)? The fixed split of the field, and one drug in five
hidden as a whole. BIXI: trips as counts, a fifth of the entries hidden, and 30% of the stations.
Flixster: was a film liked (>= 4), and how many stars, on the fixed split. Beside scikit-learn on
features that say the same, and LightFM and implicit where they are installed; nothing is chosen on
the test part.
"""

from __future__ import annotations

import csv
import json
import os
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from scipy import sparse
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
from sklearn.metrics import average_precision_score, log_loss, roc_auc_score

import kronfill as kf
from kronfill.bench.problems import standardised
from kronfill.kernels import constant, identity, linear, periodic, precomputed, rbf
from kronfill.likelihoods.families import Poisson
from studies.common import cores, markdown, timed

PAGE = Path(__file__).parents[1] / "docs" / "likelihoods.md"
PICTURE = PAGE.parent / "figures" / "reliability.svg"
ACTIVE, LIKED = 7.0, 4.0
BINS = 10


def run(quick=False):
    """Figures of every method; quick: small parts of each table."""
    parts = {"davis": davis, "bixi": bixi, "flixster": flixster}
    return {"cores": cores()} | {name: part(quick) for name, part in parts.items()}


# Davis.


def davis(quick=False):
    """Average precision and AUC, known and new drugs."""
    active, drugs, kinases, test = _davis_data()
    if quick:
        keep = np.arange(0, 442, 8)
        active, kinases = active[:, keep], kinases[np.ix_(keep, keep)]
        test = test[:, keep]
    new = np.zeros(active.shape, bool)
    new[np.random.default_rng(0).permutation(len(active))[: len(active) // 5]] = True
    rows = []
    for split, hidden in (("known drugs", test), ("new drugs", new)):
        train, ask = np.argwhere(~hidden), np.argwhere(hidden)
        y, truth = active[~hidden], active[hidden]
        for name, call in (
            ("AutoMC, linked", None if quick else _davis_auto),
            ("KKMCEXClassifier", _davis_ours),
            ("KKMCEXClassifier, linked", None if quick else _davis_linked),
            ("scikit-learn LogisticRegression", _davis_sklearn),
            ("LightFM", _davis_lightfm if find_spec("lightfm") else None),
        ):
            if call is not None:
                share, seconds = timed(call, train, y, ask, drugs, kinases)
                rows.append(
                    {"split": split, "method": name, "seconds": seconds} | _labels(share, truth)
                )
    return rows


def _davis_data():
    home = Path(os.environ["KRONFILL_DATA"]) / "davis"
    kd = np.loadtxt(home / "drug-target_interaction_affinities_Kd__Davis_et_al.2011v1.txt")
    drugs = np.loadtxt(home / "drug-drug_similarities_2D.txt")
    kinases = np.loadtxt(home / "target-target_similarities_WS.txt")
    kinases /= np.sqrt(np.outer(kinases.diagonal(), kinases.diagonal()))
    test = np.zeros(kd.size, bool)
    test[json.loads((home / "test_fold_setting1.txt").read_text())] = True
    return 9 - np.log10(kd) >= ACTIVE, _psd(drugs), _psd(kinases), test.reshape(kd.shape)


def _psd(similarity):
    """The nearest positive semidefinite matrix."""
    lam, vec = np.linalg.eigh((similarity + similarity.T) / 2)
    return (vec * np.maximum(lam, 0)) @ vec.T


def _davis_kernels(drugs, kinases):
    """A classifier that knows both similarities."""
    row = precomputed(drugs) + 0.2 * constant(len(drugs)) + 0.2 * identity(len(drugs))
    col = precomputed(kinases) + 0.2 * constant(len(kinases)) + 0.2 * identity(len(kinases))
    return kf.KKMCEXClassifier(row, col, mu="auto", center="mean", solver=kf.Auto(tol=1e-3))


def _davis_ours(train, y, ask, drugs, kinases):
    return _davis_kernels(drugs, kinases).fit(train, y).predict_proba(ask)[:, 1]


def _davis_linked(train, y, ask, drugs, kinases):
    """The same, with links of its own for known and for new drugs."""
    return kf.LinkedRegressor(_davis_kernels(drugs, kinases)).fit(train, y).predict(ask)


def _davis_auto(train, y, ask, drugs, kinases):
    """What kf.complete(likelihood="bernoulli") does."""
    return kf.LinkedRegressor(kf.AutoMC(drugs, kinases)).fit(train, y).predict(ask)


def _davis_sklearn(train, y, ask, drugs, kinases):
    """Both similarities as features, side by side."""
    made = [np.hstack([drugs[part[:, 0]], kinases[part[:, 1]]]) for part in (train, ask)]
    return LogisticRegression(max_iter=3000).fit(made[0], y).predict_proba(made[1])[:, 1]


def _davis_lightfm(train, y, ask, drugs, kinases):
    """Own factors beside those of the similarities, logistic loss."""
    from lightfm import LightFM

    sides = [sparse.csr_matrix(np.hstack([k / k.sum(axis=1)[:, None], np.eye(len(k))]))
             for k in (drugs, kinases)]  # fmt: skip
    table = sparse.coo_matrix(
        (np.where(y, 1, -1), (train[:, 0], train[:, 1])), shape=(len(drugs), len(kinases))
    )
    model = LightFM(no_components=20, loss="logistic", random_state=0)
    model.fit(table, user_features=sides[0], item_features=sides[1], epochs=30)
    score = model.predict(
        ask[:, 0].astype(np.int32), ask[:, 1].astype(np.int32), sides[1], sides[0]
    )
    return 1 / (1 + np.exp(-score))


def _labels(share, truth):
    """Figures of probabilities, and what a reliability curve is drawn from."""
    share = np.clip(share, 1e-9, 1 - 1e-9)
    at = np.minimum((share * BINS).astype(int), BINS - 1)
    count = np.bincount(at, minlength=BINS)
    said, seen = (np.bincount(at, value, minlength=BINS) for value in (share, truth))
    return {
        "average_precision": float(average_precision_score(truth, share)),
        "auc": float(roc_auc_score(truth, share)),
        "log_loss": float(log_loss(truth, share)),
        "count": count.tolist(),
        "said": (said / np.maximum(count, 1)).tolist(),
        "seen": (seen / np.maximum(count, 1)).tolist(),
    }


# BIXI.


def bixi(quick=False):
    """Mean Poisson deviance, known and new stations."""
    data = kf.datasets.load_bixi()
    trips = data.trips.to_numpy(float)
    stations, days = (standardised(x.to_numpy(float)) for x in (data.stations, data.days))
    if quick:
        trips, stations, days = trips[::6, :56], stations[::6], days[:56]
    known = np.isfinite(trips)
    rng = np.random.default_rng(0)
    some = known & (rng.random(trips.shape) < 0.2)
    new = np.zeros(trips.shape, bool)
    new[rng.permutation(len(trips))[: round(0.3 * len(trips))]] = True
    rows = []
    for split, hidden in (("known stations", some), ("new stations", known & new)):
        train, ask = np.argwhere(known & ~hidden), np.argwhere(hidden)
        y, truth = trips[tuple(train.T)], trips[hidden]
        for name, call in (
            ("AutoMC, linked", None if quick else _bixi_auto),
            ("KKMCEXPoisson", _bixi_poisson),
            ("KKMCEX of log(1 + trips)", _bixi_logarithm),
            ("scikit-learn PoissonRegressor", _bixi_sklearn),
        ):
            if call is None:
                continue
            mean, seconds = timed(call, train, y, ask, stations, days)
            deviance = Poisson().deviance(truth, np.log(np.maximum(mean, 1e-3)))
            rows.append({"split": split, "method": name, "seconds": seconds,
                         "deviance": float(deviance.mean())})  # fmt: skip
    return rows


def _bixi_kernels(stations, days):
    n, l = len(stations), len(days)
    day = np.arange(float(l))
    row = 0.4 * rbf(stations[:, :2], 0.3) + 0.3 * rbf(stations) + 0.2 * constant(n)
    col = 0.3 * rbf(day, 14.0) + 0.2 * periodic(day, 7.0, 1.0) + 0.2 * rbf(days) + 0.2 * constant(l)
    return row + 0.1 * identity(n), col + 0.1 * identity(l)


def _bixi_auto(train, y, ask, stations, days):
    """What kf.complete(likelihood="poisson") does with kernels of the same features."""
    day = np.arange(float(len(days)))
    row = {"place": rbf(stations[:, :2], 0.3), "features": rbf(stations)}
    col = {"day": rbf(day, 14.0), "week": periodic(day, 7.0, 1.0), "weather": rbf(days)}
    return kf.LinkedRegressor(kf.AutoMC(row, col), "poisson").fit(train, y).predict(ask)


def _bixi_poisson(train, y, ask, stations, days):
    kernels = _bixi_kernels(stations, days)
    est = kf.KKMCEXPoisson(*kernels, mu="auto", center="mean", solver=kf.Auto(tol=1e-3))
    return est.fit(train, y).predict(ask)


def _bixi_logarithm(train, y, ask, stations, days):
    """The Gaussian of logarithms, its mean moved so that training counts are met in total."""
    kernels = _bixi_kernels(stations, days)
    est = kf.KKMCEX(*kernels, mu="auto", center="mean", solver=kf.Auto(tol=1e-3))
    est.fit(train, np.log1p(y))
    fitted = np.maximum(np.expm1(est.predict(train)), 0.0)
    return np.maximum(np.expm1(est.predict(ask)), 0.0) * y.sum() / fitted.sum()


def _bixi_sklearn(train, y, ask, stations, days):
    """Features of station and day, and the day of the week."""
    week = np.eye(7)[np.arange(len(days)) % 7]
    made = [np.hstack([stations[part[:, 0]], days[part[:, 1]], week[part[:, 1]]])
            for part in (train, ask)]  # fmt: skip
    return PoissonRegressor(alpha=1e-4, max_iter=1000).fit(made[0], y).predict(made[1])


# Flixster.


def flixster(quick=False):
    """Liked or not, and the log likelihood of the stars."""
    X, stars, is_train = _flixster_data()
    if quick:
        keep = (X < 300).all(axis=1)
        X, stars, is_train = X[keep], stars[keep], is_train[keep]
    n = int(X.max()) + 1
    train, ask, liked = X[is_train], X[~is_train], stars >= LIKED
    y, truth = liked[is_train], liked[~is_train]
    rows = []
    for name, call in (
        ("AutoMC, linked", None if quick else _liked_auto),
        ("KKMCEXClassifier", _liked_ours),
        ("scikit-learn LogisticRegression", _liked_sklearn),
        ("LightFM", _liked_lightfm if find_spec("lightfm") else None),
        ("implicit LogisticMF", _liked_implicit if find_spec("implicit") else None),
    ):
        if call is not None:
            share, seconds = timed(call, train, y, ask, n)
            rows.append({"split": "liked", "method": name, "seconds": seconds}
                        | _labels(share, truth))  # fmt: skip
    known, asked = stars[is_train], stars[~is_train]
    for name, call in (
        ("AutoMC, linked", None if quick else _stars_auto),
        ("KKMCEXOrdinal", _stars_ours),
        ("row + column ridge", _stars_sklearn),
    ):
        if call is None:
            continue
        (likelihood, rmse), seconds = timed(call, train, known, ask, asked, n)
        rows.append({"split": "stars", "method": name, "seconds": seconds,
                     "log_likelihood": likelihood, "rmse": rmse})  # fmt: skip
    return rows


def _flixster_data():
    home = Path(os.environ["KRONFILL_DATA"]) / "flixster"
    with open(home / "ratings.csv", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    X = np.array([(int(line["user"]), int(line["item"])) for line in lines])
    stars = np.array([float(line["rating"]) for line in lines])
    return X, stars, np.array([line["split"] == "train" for line in lines])


def _low_rank_kernels(n):
    """Nothing is known but who is who: a common part and one's own on each axis."""
    one = linear(np.full((n, 1), 0.65)) + 0.6 * identity(n)
    return one, one


def _liked_auto(train, y, ask, n):
    seen = kf.Observations(*train.T, y.astype(float), (n, n))
    return kf.LinkedRegressor(kf.AutoMC()).fit(seen).predict(ask)


def _stars_auto(train, y, ask, truth, n):
    est = kf.LinkedRegressor(kf.AutoMC(), "ordinal").fit(kf.Observations(*train.T, y, (n, n)))
    rmse = float(np.sqrt(np.mean((est.predict(ask) - truth) ** 2)))
    return float(-est.losses(ask, truth).mean()), rmse


def _liked_ours(train, y, ask, n):
    est = kf.KKMCEXClassifier(
        *_low_rank_kernels(n), mu="auto", center="mean", solver=kf.Auto(tol=1e-3)
    )
    return est.fit(train, y).predict_proba(ask)[:, 1]


def _one_hot(part, n):
    where = (np.arange(len(part)), np.ones(len(part)))
    sides = [sparse.csr_matrix((where[1], (where[0], part[:, k])), (len(part), n)) for k in (0, 1)]
    return sparse.hstack(sides, format="csr")


def _liked_sklearn(train, y, ask, n):
    """One-hot users and films; C on a tenth of the training part."""
    held = np.random.default_rng(0).random(len(train)) < 0.1
    made, other = _one_hot(train, n), _one_hot(ask, n)

    def fit(c, part):
        return LogisticRegression(C=c, max_iter=1000).fit(made[part], y[part])

    losses = {c: log_loss(y[held], fit(c, ~held).predict_proba(made[held])[:, 1])
              for c in (0.03, 0.1, 0.3, 1.0, 3.0)}  # fmt: skip
    return fit(min(losses, key=losses.get), slice(None)).predict_proba(other)[:, 1]


def _liked_lightfm(train, y, ask, n):
    from lightfm import LightFM

    table = sparse.coo_matrix((np.where(y, 1, -1), (train[:, 0], train[:, 1])), shape=(n, n))
    model = LightFM(no_components=10, loss="logistic", random_state=0).fit(table, epochs=20)
    score = model.predict(ask[:, 0].astype(np.int32), ask[:, 1].astype(np.int32))
    return 1 / (1 + np.exp(-score))


def _liked_implicit(train, y, ask, n):
    """Ones alone; its scores are no probabilities of liking, but they rank."""
    from implicit.lmf import LogisticMatrixFactorization

    table = sparse.csr_matrix((np.ones(int(y.sum())), tuple(train[y].T)), shape=(n, n))
    model = LogisticMatrixFactorization(factors=10, random_state=0)
    model.fit(table.astype(np.float32), show_progress=False)
    score = np.einsum("ij,ij->i", model.user_factors[ask[:, 0]], model.item_factors[ask[:, 1]])
    return 1 / (1 + np.exp(-score))


def _stars_ours(train, y, ask, truth, n):
    est = kf.KKMCEXOrdinal(*_low_rank_kernels(n), mu="auto", solver=kf.Auto(tol=1e-3))
    est.fit(train, y)
    share = est.predict_proba(ask)[np.arange(len(ask)), np.searchsorted(est.levels_, truth)]
    return float(np.log(share).mean()), float(np.sqrt(np.mean((est.predict(ask) - truth) ** 2)))


def _stars_sklearn(train, y, ask, truth, n):
    """Shares of each star as probabilities, ridge for the number."""
    levels, codes = np.unique(y, return_inverse=True)
    share = np.bincount(codes) / len(codes)
    model = Ridge(alpha=3.0).fit(_one_hot(train, n), y)
    rmse = np.sqrt(np.mean((model.predict(_one_hot(ask, n)) - truth) ** 2))
    return float(np.log(share[np.searchsorted(levels, truth)]).mean()), float(rmse)


# What is shown.


def table(result):
    """Markdown, a table for each data set."""
    shown = {
        "davis": ("average_precision", "auc", "log_loss"),
        "bixi": ("deviance",),
        "flixster": ("average_precision", "auc", "log_loss", "log_likelihood", "rmse"),
    }
    made = []
    for name, keys in shown.items():
        rows = [
            [row["split"], row["method"], *(_number(row.get(key)) for key in keys),
             f"{row['seconds']:.0f}"]
            for row in result[name]
        ]  # fmt: skip
        heads = (name, "", *(key.replace("_", " ") for key in keys), "processor seconds")
        made.append(markdown(heads, rows))
    return "\n\n".join(made)


def _number(value):
    return "" if value is None else f"{value:.3f}"


def draw(result, path):
    """Reliability curves: how often what was said with a probability was so."""
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "kronfill"
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(4.6, 4.2), layout="constrained")
    axes.plot([0, 1], [0, 1], color="0.7", lw=1)
    plain = "KKMCEXClassifier"
    for data, split, method, label in (
        ("davis", "known drugs", plain, "active, known drugs"),
        ("davis", "new drugs", plain, "active, new drugs"),
        ("davis", "new drugs", f"{plain}, linked", "active, new drugs, linked"),
        ("flixster", "liked", plain, "liked films"),
    ):
        for row in result[data]:
            if row["split"] == split and row["method"] == method:
                said, seen, count = (np.array(row[key]) for key in ("said", "seen", "count"))
                kept = count >= 20
                axes.plot(said[kept], seen[kept], marker="o", ms=4, label=label)
    axes.set(xlabel="probability said", ylabel="share that was so", aspect="equal")
    axes.legend(frameon=False, fontsize=8)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
