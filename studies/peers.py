"""What other libraries give on the same splits: LatentKroneckerGP, myFM and SMURFF.

They are no dependencies: run ``python -m studies.peers FILE [NAME ...]`` in an environment that has
them beside this project; results are added to the file, from which the page takes them.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd

from kronfill.kernels import rbf
from studies.defaults import SETS, figures

EIGENVECTORS = 64
"""Leading eigenvectors of a kernel that stand for it where features are wanted."""


def latent_kronecker(table, hidden, rows, cols):
    """BoTorch's LatentKroneckerGP as its authors ran it: Adam, learning rate 0.1, 100 steps."""
    import torch
    from botorch.models.latent_kronecker_gp import LatentKroneckerGP
    from botorch.models.transforms.input import Normalize
    from gpytorch.mlls import ExactMarginalLogLikelihood

    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    x, t = (torch.tensor(side.to_numpy(float)) for side in (rows, cols))
    y = torch.tensor(table.mask(hidden).to_numpy(float))
    model = LatentKroneckerGP(x, t, y, input_transform=Normalize(x.shape[1]))
    likelihood = ExactMarginalLogLikelihood(model.likelihood, model)
    adam = torch.optim.Adam(model.parameters(), lr=0.1)
    model.train()
    with model.use_iterative_methods():
        for _ in range(100):
            adam.zero_grad()
            loss = -likelihood(model(*model.train_inputs), model.train_targets)
            loss.backward()
            adam.step()
        model.eval()
        with torch.no_grad():
            found = model.posterior(x, t)
            drawn = found.rsample(torch.Size([64]))
            mean, variance = drawn.mean(dim=0), drawn.var(dim=0)
            noise = model.likelihood.noise * model.outcome_transform._stdvs_sq.reshape(-1).mean()
    return mean.numpy(), np.sqrt(variance.numpy() + float(noise))


def _features(side, size):
    """Numbers that stand for what is known: those given, or eigenvectors of a similarity."""
    if side is None:
        return np.zeros((size, 0))
    if isinstance(side, dict):
        return np.hstack([_features(one, size) for one in side.values()])
    if isinstance(side, pd.DataFrame) and side.shape == (size, size):
        values, vectors = np.linalg.eigh((side.to_numpy(float) + side.to_numpy(float).T) / 2)
        lead = values[-EIGENVECTORS:].clip(0)
        return vectors[:, -EIGENVECTORS:] * np.sqrt(lead)
    if isinstance(side, pd.DataFrame):
        values, vectors = np.linalg.eigh(rbf(pd.get_dummies(side)).to_array())
        return vectors[:, -EIGENVECTORS:] * np.sqrt(values[-EIGENVECTORS:].clip(0))
    import networkx as nx

    links = nx.normalized_laplacian_matrix(side, nodelist=range(size)).toarray()
    return np.linalg.eigh(links)[1][:, :EIGENVECTORS] * np.sqrt(size)


def factorisation_machine(table, hidden, rows, cols, rank=12, sweeps=200):
    """Gibbs sampling of a factorisation machine, items and features of what is known."""
    import myfm
    from scipy import sparse

    n, l = table.shape
    sides = [
        sparse.hstack([sparse.eye(size), sparse.csr_matrix(_features(side, size))]).tocsr()
        for side, size in ((rows, n), (cols, l))
    ]
    values = table.to_numpy(float)
    train = np.nonzero(~hidden & np.isfinite(values))
    test = np.nonzero(hidden & np.isfinite(values))
    design = [sparse.hstack([sides[0][at[0]], sides[1][at[1]]]).tocsr() for at in (train, test)]
    model = myfm.MyFMRegressor(rank=rank, random_seed=0)
    middle, spread = values[train].mean(), values[train].std()
    model.fit(
        design[0], (values[train] - middle) / spread, n_iter=sweeps, n_kept_samples=sweeps // 2
    )
    out = np.full(table.shape, np.nan)
    out[test] = middle + spread * model.predict(design[1])
    return out, None


def macau(table, hidden, rows, cols, rank=16, sweeps=300):
    """SMURFF's Macau: Gibbs sampling of factors with linear side information."""
    import smurff
    from scipy import sparse

    values = table.to_numpy(float)
    train = np.nonzero(~hidden & np.isfinite(values))
    test = np.nonzero(hidden & np.isfinite(values))
    middle = values[train].mean()
    known = sparse.coo_matrix((values[train] - middle, train), shape=table.shape)
    wanted = sparse.coo_matrix((values[test] - middle, test), shape=table.shape)
    session = smurff.TrainSession(
        priors=["macau" if side is not None else "normal" for side in (rows, cols)],
        num_latent=rank, burnin=sweeps // 2, nsamples=sweeps // 2, seed=0, verbose=0,
    )  # fmt: skip
    session.addTrainAndTest(known, wanted, smurff.AdaptiveNoise(1.0, 1000.0))
    for axis, (side, size) in enumerate(zip((rows, cols), table.shape, strict=True)):
        if side is not None:
            session.addSideInfo(axis, _features(side, size), direct=True)
    out = np.full(table.shape, np.nan)
    for one in session.run():
        out[one.coords] = middle + one.pred_avg
    return out, None


PEERS = {
    **{f"myFM: {name}": factorisation_machine for name in SETS if not name.startswith("lcbench")},
    **{f"SMURFF: {name}": macau for name in SETS if not name.startswith("lcbench")},
    **{f"LatentKroneckerGP: {name}": latent_kronecker for name in SETS if "lcbench" in name},
}


def main(path, names):
    """Run peers on the splits of some data sets, and add what they give to a file."""
    out = Path(path)
    for name in names or PEERS:
        task, _, only = name.partition("#")
        peer, what = task.split(": ", 1)
        load, splits = SETS[what]
        for split in [int(only)] if only else range(splits):
            table, hidden, rows, cols = load(split)
            begun = time.perf_counter(), time.process_time()
            mean, std = PEERS[task](table, hidden, rows, cols)
            seconds = time.perf_counter() - begun[0]
            found = figures(table.to_numpy(float), hidden, mean, std)
            found |= {"seconds": seconds, "processor": time.process_time() - begun[1]}
            kept = json.loads(out.read_text(encoding="utf-8")) if out.exists() else {}
            kept.setdefault(task, {})[str(split)] = found
            out.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
            print(peer, what, split, found, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
