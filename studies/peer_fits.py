"""One fit of another library, in an environment that has it, NumPy and SciPy.

``python -m studies.peer_fits NAME GIVEN.npz FOUND.npz``: values with gaps and what is known about
rows and columns as numbers go in, means and standard deviations and seconds come out.
"""

from __future__ import annotations

import sys
import time

import numpy as np


def latent_kronecker(values, wanted, rows, cols):
    """BoTorch's LatentKroneckerGP as its authors ran it: Adam, learning rate 0.1, 100 steps."""
    import torch
    from botorch.models.latent_kronecker_gp import LatentKroneckerGP
    from botorch.models.transforms.input import Normalize
    from gpytorch.mlls import ExactMarginalLogLikelihood

    yield
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    x, t, y = (torch.tensor(one) for one in (rows, cols, values))
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
    yield mean.numpy()[wanted], np.sqrt(variance.numpy() + float(noise))[wanted]


def factorisation_machine(values, wanted, rows, cols, rank=12, sweeps=200):
    """Gibbs sampling of a factorisation machine on items and features, a scale for each group."""
    import myfm
    from scipy import sparse

    yield
    blocks = [
        sparse.hstack([sparse.identity(len(side)), sparse.csr_matrix(side)], "csr")
        for side in (rows, cols)
    ]
    train, test = np.nonzero(np.isfinite(values)), wanted
    related = [
        [myfm.RelationBlock(index.tolist(), block) for index, block in zip(at, blocks, strict=True)]
        for at in (train, test)
    ]
    groups = [size for side in (rows, cols) for size in side.shape if size]
    model = myfm.MyFMRegressor(rank=rank, random_seed=0)
    middle, spread = values[train].mean(), values[train].std()
    model.fit(
        None, (values[train] - middle) / spread, X_rel=related[0], n_iter=sweeps,
        n_kept_samples=sweeps // 2, group_shapes=groups,
    )  # fmt: skip
    yield middle + spread * model.predict(None, related[1]), None


def macau(values, wanted, rows, cols, rank=16, sweeps=300):
    """SMURFF's Macau: Gibbs sampling of factors with linear side information."""
    import smurff
    from scipy import sparse

    yield
    train = np.nonzero(np.isfinite(values))
    middle = values[train].mean()
    known = sparse.coo_matrix((values[train] - middle, train), shape=values.shape)
    asked = sparse.coo_matrix((np.ones(len(wanted[0])), wanted), shape=values.shape)
    sides = [side if side.shape[1] else None for side in (rows, cols)]
    session = smurff.TrainSession(
        priors=["macau" if side is not None else "normal" for side in sides],
        num_latent=rank, burnin=sweeps // 2, nsamples=sweeps // 2, seed=0, verbose=0,
    )  # fmt: skip
    session.addTrainAndTest(known, asked, smurff.AdaptiveNoise(1.0, 1000.0))
    for axis, side in enumerate(sides):
        if side is not None:
            session.addSideInfo(axis, side, direct=True)
    out = np.full(values.shape, np.nan)
    for one in session.run():
        out[tuple(one.coords)] = middle + one.pred_avg
    yield out[wanted], None


FITS = {"LatentKroneckerGP": latent_kronecker, "myFM": factorisation_machine, "SMURFF": macau}


def main(name, given, found):
    """Fit and predict once; seconds are without the import of the library."""
    with np.load(given) as data:
        sides = data["values"], (data["at_rows"], data["at_cols"]), data["rows"], data["cols"]
    fit = FITS[name](*sides)
    next(fit)
    begun = time.perf_counter(), time.process_time()
    mean, std = next(fit)
    took = time.perf_counter() - begun[0], time.process_time() - begun[1]
    np.savez(found, mean=mean, std=np.empty(0) if std is None else std, took=took)


if __name__ == "__main__":
    main(*sys.argv[1:])
