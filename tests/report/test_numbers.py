"""Every number of a report, computed again from the saved model and the data.

What is expected is worked out here by obvious means (dense kernels, least squares, loops over
folds) and keyed by the path of the number; a number that nobody worked out again is a failure.
"""

from __future__ import annotations

import base64
import importlib.metadata
import os
import platform
import re

import numpy as np
import pytest
from sklearn.base import clone

import kronfill as kf
from kronfill.bounds import sampling_test
from kronfill.report import write_report
from kronfill.report.html.formats import written
from kronfill.selection import ColumnKFold, EntryKFold, RowKFold, leave_out, mu_path

from .conftest import completed, numbers_of, tables

RANGE = (-2.0, 2.0)
LEVEL = 0.9
NORMAL = 1.6448536269514722
"""Quantile of the normal distribution that leaves 90% in the middle."""


@pytest.fixture(scope="module", params=["kkmcex", "rrmcex", "mc"])
def case(request, tmp_path_factory):
    """The page, its numbers, and the model as it was loaded from its file."""
    folder = tmp_path_factory.mktemp("report")
    settings = {"rank": 2, "mu": 0.5, "size": (30, 14)} if request.param == "mc" else {}
    done = completed(request.param, **settings)
    done.save(folder / "model.kf")
    page = write_report(done, folder / "report.html", value_range=RANGE)
    text = page.read_text(encoding="utf-8")
    return text, numbers_of(text), kf.load(folder / "model.kf")


def leaves(tree, at=""):
    """Every number and word of the numbers, by path."""
    if isinstance(tree, dict | list):
        pairs = tree.items() if isinstance(tree, dict) else enumerate(tree)
        for key, value in pairs:
            yield from leaves(value, f"{at}.{key}".lstrip("."))
    else:
        yield at, tree


class Again:
    """The numbers worked out from the data (a table and two tables of features) and the model."""

    def __init__(self, done):
        self.done, self.model = done, done.model
        self.table = tables(*done.observations.shape)[0]
        self.seen = self.table.notna().to_numpy()
        self.X = np.argwhere(self.seen)
        self.y = self.table.to_numpy()[self.seen]
        self.found = {}

    def put(self, at, value):
        if isinstance(value, dict | list | tuple):
            for key, one in value.items() if isinstance(value, dict) else enumerate(value):
                self.put(f"{at}.{key}", one)
        else:
            self.found[at] = value

    def all(self):
        self.data()
        self.method()
        self.path()
        self.held = {kind: self.hidden(kind) for kind in ("known", "row", "column")}
        self.accuracy()
        self.low, self.high, told = self.intervals()
        self.put("uncertainty", {**told, "level": LEVEL})
        self.put("sources", None)  # of the default method alone
        self.cells()
        self.entries()
        self.guarantee()
        self.put("sources", None)  # those of the default method have a worth
        self.environment()
        self.put("sources", None)  # those of the default method alone are weighed
        return self.found

    def data(self):
        n, l = self.seen.shape
        per_row, per_col = self.seen.sum(axis=1), self.seen.sum(axis=0)
        warm = int((per_row > 0).sum() * (per_col > 0).sum())
        three = lambda v: {"least": v.min(), "median": np.median(v), "most": v.max()}  # noqa: E731
        test = sampling_test(np.nonzero(self.seen), shape=(n, l))
        self.put("data", {
            "rows": n, "columns": l, "entries": n * l, "observed": len(self.y),
            "filled": warm - len(self.y), "extrapolated": n * l - warm,
            "share": len(self.y) / (n * l), "cold_rows": int((per_row == 0).sum()),
            "cold_columns": int((per_col == 0).sum()), "about_rows": self.done._told[0],
            "about_columns": self.done._told[1], "weighted": False, "value": three(self.y),
            "mean": self.y.mean(), "std": self.y.std(), "per_row": three(per_row),
            "per_column": three(per_col), "sampling_p": test.p_value, "even": test.compatible,
        })  # fmt: skip

    def method(self):
        model = self.model
        has_std = hasattr(model, "predict_std")
        ranks = {"rank": model.rank} if not has_std else {}
        if isinstance(model, kf.RRMCEX):
            ranks = {"row_rank": model.row_rank_, "col_rank": model.col_rank_}
        gap = self.y - model.predict(self.X)
        self.put("method", {
            "name": type(model).__name__, "mu": model.mu_, "likelihood": "gaussian",
            "hidden_deviance": None,
            "mu_asked": "auto" if model.mu == "auto" else "given", "center": "mean",
            "row_kernel": repr(model.row_kernel) if has_std else "none",
            "col_kernel": repr(model.col_kernel) if has_std else "none",
            "ranks": ranks, "solver": model.solution_.solver, "iterations": model.n_iter_,
            "converged": True, "status": model.solution_.status.value,
            "train_rmse": np.sqrt(np.mean(gap**2)),
            "signal_std": np.sqrt(model.signal_variance_) if has_std else None,
            "noise_std": np.sqrt(model.signal_variance_ * model.mu_) if has_std else None,
        })  # fmt: skip

    def path(self):
        loo = hasattr(self.model, "predict_std")
        path = mu_path(self.model, self.X, self.y, criterion="loo" if loo else "cv")
        if loo:
            rmse = [
                np.sqrt(np.mean(leave_out(self.with_mu(mu), self.X, self.y) ** 2))
                for mu in path.mus
            ]
            margin = [0.0] * len(rmse)
        else:
            rmse = np.sqrt(path.criteria["cv"]).tolist()
            margin = (path.errors["cv"] / (2 * np.sqrt(path.criteria["cv"]))).tolist()
        self.put("path", {
            "criterion": "loo" if loo else "cv", "how": path.method, "observations": len(self.y),
            "sampled": False, "mus": path.mus.tolist(), "rmse": rmse, "margin": margin,
            "best_mu": path.mus[int(np.argmin(rmse))], "best_rmse": min(rmse),
        })  # fmt: skip

    def with_mu(self, mu):
        return clone(self.model).set_params(mu=float(mu))

    def hidden(self, kind):
        """Folds left out in turn: entries, rows or columns; then only entries of this kind."""
        folds = {"known": EntryKFold, "row": RowKFold, "column": ColumnKFold}[kind]
        lines = []
        for train, test in folds(5, random_state=0).split(self.X):
            obs = kf.Observations(*self.X[train].T, self.y[train], self.seen.shape)
            predicted = self.with_mu(self.model.mu_).fit(obs).predict(self.X[test])
            effects = least_squares_effects(self.X[train], self.y[train], self.seen.shape)
            for k, value in zip(test, predicted, strict=True):
                i, j = self.X[k]
                in_row, in_col = (self.X[train, 0] == i).any(), (self.X[train, 1] == j).any()
                if (in_row, in_col) == {"known": (1, 1), "row": (0, 1), "column": (1, 0)}[kind]:
                    mean = self.y[train].mean()
                    lines.append((i, j, self.y[k], value, mean, effects[i, j]))
        return np.array(lines)

    def accuracy(self):
        self.put("accuracy", {"scheme": "folds", "folds": 5, "seed": 0, "ranking": None})
        for k, (kind, lines) in enumerate(self.held.items()):
            y = lines[:, 2]
            scores = {}
            for name, guess in zip(("method", "mean", "effects"), lines[:, 3:].T, strict=True):
                square = np.mean((y - guess) ** 2)
                scores[name] = {
                    "rmse": np.sqrt(square),
                    "mae": np.mean(np.abs(y - guess)),
                    "r2": 1 - square / np.var(y),
                    **dict.fromkeys(("deviance", "auc", "average_precision")),
                }
            best = min(("mean", "effects"), key=lambda name, s=scores: s[name]["rmse"])
            rival = lines[:, 4 if best == "mean" else 5]
            gap = (y - rival) ** 2 - (y - lines[:, 3]) ** 2
            gain = 1 - scores["method"]["rmse"] / scores[best]["rmse"]
            sure = abs(gap.mean()) > 2 * gap.std(ddof=1) / np.sqrt(len(gap))
            self.put(f"accuracy.parts.{k}", {
                "kind": kind, "count": len(y), **scores, "best": best, "gain": gain,
                "doubt": None, "clear": bool(sure and abs(gain) >= 0.01),
                "observed": y.tolist(), "predicted": lines[:, 3].tolist(),
            })  # fmt: skip

    def intervals(self):
        """Ends of the interval of every entry."""
        middle = self.model.predict_matrix()
        if hasattr(self.model, "predict_std"):
            pairs = np.argwhere(np.ones(middle.shape))
            std = self.model.predict_std(pairs).reshape(middle.shape)
            half = NORMAL * np.sqrt(std**2 + self.model.signal_variance_ * self.model.mu_)
            told = "Gaussian: the model's standard deviation, noise included"
            return middle - half, middle + half, {"kind": "gaussian", "told": told, "coverage": []}
        pairs = np.argwhere(np.ones(middle.shape))
        found = self.done.intervals_for(0, "calibrated")
        low, high, _ = found.at(*pairs.T, middle.ravel(), LEVEL)
        assert np.isfinite(high - low).all()
        groups = self.done.coverage(level=LEVEL).to_dict("records")
        told = {"kind": "calibrated", "told": found.words, "coverage": groups}
        return low.reshape(middle.shape), high.reshape(middle.shape), told

    def cells(self):
        n, l = self.seen.shape
        filled = np.where(self.seen, self.table.to_numpy(), self.model.predict_matrix())
        half = np.where(self.seen, np.nan, (self.high - self.low) / 2)
        most = np.nanmax(half) if np.isfinite(half).any() else 0.0
        cold_rows, cold_cols = ~self.seen.any(axis=1), ~self.seen.any(axis=0)
        self.put("cells", {
            "rows": n, "columns": l, "row_edges": list(range(n + 1)),
            "column_edges": list(range(l + 1)), "averaged": False,
            "row_labels": list(self.table.index), "column_labels": list(self.table.columns),
            "low": filled.min(), "high": filled.max(), "observed_most": 1.0,
            "scale": np.quantile(filled, [0.01, 0.99]).tolist(),
            "width_rows": n, "width_columns": l, "width_low": 0.0, "width_high": most,
            "width_widest": False,
        })  # fmt: skip
        self.found["cells.values"] = Codes(filled, filled.min(), filled.max())
        self.found["cells.observed"] = Codes(self.seen, 0.0, 1.0)
        self.found["cells.cold_rows"] = Codes(cold_rows, 0.0, 1.0)
        self.found["cells.cold_columns"] = Codes(cold_cols, 0.0, 1.0)
        self.found["cells.width"] = Codes(half, 0.0, most)

    def entries(self):
        half = np.where(self.seen, np.nan, (self.high - self.low) / 2)
        half = np.round(half / np.nanmax(half), 6)
        counts = self.seen.sum(axis=1)[:, None] + self.seen.sum(axis=0)[None]
        order = sorted(
            np.argwhere(~np.isnan(half)).tolist(), key=lambda at: (-half[*at], counts[*at])
        )
        first = {}
        for i, j in order:
            first.setdefault(i, (i, j))
        for k, at in enumerate(list(first.values())[:5]):
            cold = not (self.seen[at[0]].any() and self.seen[:, at[1]].any())
            status = "extrapolated" if cold else "filled"
            self.entry(f"uncertain.{k}", at, status, observed=None, left_out=None)
        known = self.held["known"]
        far = np.argsort(-np.abs(known[:, 2] - known[:, 3]), kind="stable")[:5]
        for k, (i, j, value, predicted) in enumerate(known[far, :4]):
            at = (int(i), int(j))
            self.entry(f"surprising.{k}", at, "observed", observed=value, left_out=predicted)

    def entry(self, where, at, status, **values):
        i, j = at
        model = self.model
        predicted = model.predict_matrix()[i, j]
        parts, rest, cancellation = [], predicted - model.mean_, None
        if hasattr(model, "explain"):
            weights = self.similarities(i, j)
            shares = self.dual() * weights
            for k in np.argsort(-np.abs(shares), kind="stable")[:5]:
                r, c = self.X[k]
                parts.append({
                    "row": self.table.index[r], "column": self.table.columns[c],
                    "value": self.y[k], "similarity": weights[k], "contribution": shares[k],
                })  # fmt: skip
            rest -= sum(part["contribution"] for part in parts)
            size = max(abs(shares.sum()), np.abs(self.y - model.mean_).max())
            cancellation = np.abs(shares).sum() / size
        self.put(where, {
            "i": i, "j": j, "row": self.table.index[i], "column": self.table.columns[j],
            "status": status, "predicted": predicted, "lower": self.low[i, j],
            "upper": self.high[i, j], "base": model.mean_, "row_effect": 0.0,
            "column_effect": 0.0, "rest": rest, "parts": parts, "cancellation": cancellation,
            "explained": True, **values,
        })  # fmt: skip

    def dual(self):
        """mu d = y - prediction at the observed entries."""
        return (self.y - self.model.predict(self.X)) / self.model.mu_

    def similarities(self, i, j):
        row, col = self.kernels()
        return row[i, self.X[:, 0]] * col[j, self.X[:, 1]]

    def kernels(self):
        kernels = (self.model.row_kernel.to_array(), self.model.col_kernel.to_array())
        if isinstance(self.model, kf.KKMCEX):
            return kernels
        ranks = (self.model.row_rank_, self.model.col_rank_)
        return tuple(cut(k, rank) for k, rank in zip(kernels, ranks, strict=True))

    def guarantee(self):
        found = kf.bounds.certificate(self.model, RANGE)
        names = {True: "holds", False: "fails", None: "not checked"}
        proved = None if found.vacuous else np.sqrt(found.value / found.loss.scale)
        gap = self.y - np.clip(self.model.predict(self.X), *RANGE)
        self.put("guarantee", {
            "low": RANGE[0], "high": RANGE[1], "delta": 0.05, "value": found.value,
            "rmse": proved, "train_loss": found.loss.scale * np.mean(gap**2),
            "valid": found.valid, "vacuous": found.vacuous, "sentence": found.sentence,
            "variance": np.var(self.y), "holdout_loss": None, "new_sentence": None,
            "class_value": min(one.value for one in found.candidates),
            "terms": dict(found.terms),
            "assumptions": [(one.text, names[one.holds]) for one in found.assumptions],
        })  # fmt: skip

    def environment(self):
        version = importlib.metadata.version
        names = ("numpy", "scipy", "scikit-learn", "numba", "pandas")
        self.put("environment", {
            "kronfill": kf.__version__, "Python": platform.python_version(),
            "system": f"{platform.system()} {platform.machine()}",
            "processors": str(os.cpu_count()), **{name: version(name) for name in names},
        })  # fmt: skip


class Codes:
    """A grid that is encoded in 16 bits; equal if as close as that allows."""

    def __init__(self, values, low, high):
        self.values, self.low, self.high = np.ravel(values).astype(float), low, high

    def __eq__(self, text):
        codes = np.frombuffer(base64.b64decode(text), "<u2")
        back = np.where(codes == 65535, np.nan, self.low + codes / 65534 * (self.high - self.low))
        atol = 0.5001 * (self.high - self.low) / 65534
        return np.allclose(back, self.values, rtol=0, atol=atol, equal_nan=True)

    __hash__ = None


def cut(kernel, rank):
    """The kernel of its leading eigenvectors."""
    lam, vec = np.linalg.eigh(kernel)
    return (vec[:, -rank:] * lam[-rank:]) @ vec[:, -rank:].T


def least_squares_effects(X, y, shape):
    """Mean + row + column effects by least squares; where not unique, the smallest effects."""
    n, l = shape
    Z = np.hstack([np.ones((len(X), 1)), np.eye(n)[X[:, 0]], np.eye(l)[X[:, 1]]])
    beta = np.linalg.lstsq(Z, y, rcond=None)[0]
    _, size, vec = np.linalg.svd(Z)
    free = vec[int((size > 1e-9).sum()) :].T
    beta = beta - free @ np.linalg.lstsq(free[1:], beta[1:], rcond=None)[0]
    return beta[0] + beta[1 : n + 1][:, None] + beta[n + 1 :][None]


def test_every_number_is_what_model_and_data_give(case):
    _, numbers, loaded = case
    found, expected = dict(leaves(numbers)), Again(loaded).all()
    missing = set(found) ^ set(expected)
    assert not missing
    for at, value in found.items():
        want = expected[at]
        if isinstance(want, float | np.floating) and value is not None:
            assert value == pytest.approx(want, rel=1e-6, abs=1e-8), at
        else:
            assert want == value, at


def test_the_report_of_the_loaded_model_is_the_same(case, tmp_path):
    _, numbers, loaded = case
    page = write_report(loaded, tmp_path / "again.html", value_range=RANGE)
    again = dict(leaves(numbers_of(page.read_text(encoding="utf-8"))))
    for at, value in leaves(numbers):
        same = pytest.approx(value, rel=1e-9, abs=1e-10) if isinstance(value, float) else value
        assert again[at] == same, at


SHOWN = re.compile(r'<(span|bdi) data-n="([^"]*)" data-f="(.)">(.*?)</\1>', re.S)
SAID = ("(a share lies between 0 and 1)", "arrow keys, + − and 0.")
"""Digits that are words of the page."""


def test_every_number_on_the_page_is_one_of_them(case):
    text, numbers, _ = case
    found = dict(leaves(numbers))
    marks = SHOWN.findall(text)
    assert len(marks) > 100
    for _, at, form, shown in marks:
        escaped = written(found[at], form).replace("&", "&amp;").replace("<", "&lt;")
        escaped = escaped.replace(">", "&gt;").replace('"', "&quot;").replace("'", "&#x27;")
        assert shown == escaped, at
    for part in ("script", "style", "svg", "head"):
        text = re.sub(rf"<{part}\b.*?</{part}>", "", text, flags=re.S)
    text = re.sub(r"<[^>]*>", "", SHOWN.sub("", text))
    for words in SAID:
        text = text.replace(words, "")
    assert not re.findall(r".{0,30}[0-9].{0,30}", text)
