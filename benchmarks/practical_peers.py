"""Another library on one table of ``practical``, as a child process; NumPy and SciPy beside it.

Each gets the features of both axes and fits with its defaults, but for the number of factors and
samples below. Time is from arrays to predictions of the test part.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from importlib.metadata import version

import numpy as np

from benchmarks.practical_data import read

FACTORS = 16


def smurff(table: dict) -> np.ndarray:
    """Macau: Bayesian factorisation whose factors follow the features; values are centred."""
    import scipy.sparse as sp
    import smurff

    mean = table["y"].mean()
    train, test = (
        sp.coo_matrix((values, tuple(pairs.T)), table["shape"])
        for pairs, values in (
            (table["train"], table["y"] - mean),
            (table["test"], table["y_test"] - mean + 1e-12),
        )
    )
    session = smurff.MacauSession(
        Ytrain=train, Ytest=test, side_info=[table["row_features"], table["col_features"]],
        num_latent=FACTORS, burnin=100, nsamples=200, seed=1, verbose=0,
    )  # fmt: skip
    found = {tuple(one.coords): one.pred_avg for one in session.run()}
    return np.array([found[tuple(pair)] for pair in table["test"]]) + mean


def myfm(table: dict) -> np.ndarray:
    """A factorisation machine by Gibbs sampling, on indices and features."""
    import myfm
    import scipy.sparse as sp

    def blocks(pairs):
        out = []
        for axis, name in enumerate(("row", "col")):
            features = table[f"{name}_features"]
            block = sp.hstack([sp.identity(len(features)), sp.csr_matrix(features)], "csr")
            out.append(myfm.RelationBlock(pairs[:, axis].astype(int).tolist(), block))
        return out

    n, l = (table[f"{name}_features"].shape for name in ("row", "col"))
    model = myfm.MyFMRegressor(rank=FACTORS, random_seed=1)
    model.fit(
        None, table["y"], X_rel=blocks(table["train"]), n_iter=200,
        group_shapes=[n[0], n[1], l[0], l[1]],
    )  # fmt: skip
    return np.asarray(model.predict(None, blocks(table["test"])))


def cmfrec(table: dict) -> np.ndarray:
    """Collective factorisation of the table and both feature matrices."""
    import cmfrec
    import pandas as pd

    def frame(name, label):
        features = pd.DataFrame(table[f"{name}_features"]).add_prefix("x")
        return features.assign(**{label: np.arange(len(features))})

    rows, cols = table["train"].T
    given = pd.DataFrame({"UserId": rows, "ItemId": cols, "Rating": table["y"]})
    model = cmfrec.CMF(k=FACTORS, verbose=False)
    model.fit(given, U=frame("row", "UserId"), I=frame("col", "ItemId"))
    return np.asarray(model.predict(*table["test"].T))


def botorch(table: dict) -> np.ndarray:
    """LatentKroneckerGP with its kernels trained, where the items of one axis are numbers."""
    import torch
    from botorch.fit import fit_gpytorch_mll
    from botorch.models.latent_kronecker_gp import LatentKroneckerGP
    from gpytorch.mlls import ExactMarginalLogLikelihood

    axis = table["number"]
    if axis < 0:
        raise SystemExit("no axis of numbers")
    name = ("col", "row")[axis]
    features = torch.tensor(table[f"{name}_features"])
    length = table["shape"][axis]
    times = torch.linspace(0, 1, length, dtype=torch.float64)[:, None]
    grid = np.full(table["shape"], np.nan)
    grid[tuple(table["train"].T)] = table["y"]
    values = torch.tensor(grid if axis == 1 else grid.T)
    model = LatentKroneckerGP(features, times, values)
    with model.use_iterative_methods():
        likelihood = ExactMarginalLogLikelihood(model.likelihood, model)
        fit_gpytorch_mll(likelihood, optimizer_kwargs={"options": {"maxiter": 50}})
        model.eval()
        with torch.no_grad():
            mean = model.posterior(features, times).mean.reshape(values.shape).numpy()
    mean = mean if axis == 1 else mean.T
    return mean[tuple(table["test"].T)]


def main() -> None:
    warnings.simplefilter("ignore")
    name, path = sys.argv[1:]
    table = read(path)
    begun = time.perf_counter()
    predicted = globals()[name](table)
    seconds = time.perf_counter() - begun
    error = float(np.sqrt(np.mean((predicted - table["y_test"]) ** 2)))
    print("\n" + json.dumps({"seconds": seconds, "rmse": error, "version": version(name)}))


if __name__ == "__main__":
    main()
