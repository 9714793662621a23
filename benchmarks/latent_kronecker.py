"""BoTorch's LatentKroneckerGP on one problem, as a child process.

The hyperparameters are given (RBF kernels, noise mu), nothing is trained: what is timed is the
solution of the linear system that the posterior mean needs, which the model keeps as ``mean_cache``
when a posterior is asked for. Its second axis takes one number per column; a kernel that looks the
point up by this number gives it the same column kernel as everyone.
"""

from __future__ import annotations

import json
import math
import sys
import warnings
from importlib.metadata import version

import gpytorch
import numpy as np
import torch
from botorch.models.latent_kronecker_gp import LatentKroneckerGP

from benchmarks import clock
from benchmarks.problems import MU, Problem, true_residual

TOLERANCE = 9e-7
"""Of its CG, relative to the right-hand side."""


class Looked(gpytorch.kernels.Kernel):
    """A kernel of points that are given by their number."""

    def __init__(self, base, points) -> None:
        super().__init__()
        self.base = base
        self.register_buffer("points", points)

    def forward(self, x1, x2, diag=False, **params):
        first, second = (self.points[x[..., 0].long()] for x in (x1, x2))
        return self.base.forward(first, second, diag=diag, **params)


def rbf(length_scale: float):
    kernel = gpytorch.kernels.RBFKernel().double()
    kernel.lengthscale = length_scale
    return kernel


def solve(problem: Problem, pairs, values, preconditioner: int):
    """The dual vector in the order of the observations given."""
    n = problem.size
    left, right = (torch.from_numpy(points) for points in problem.points())
    rows, cols = torch.from_numpy(pairs[:, 0].copy()), torch.from_numpy(pairs[:, 1].copy())
    number = torch.arange(n, dtype=torch.float64)[:, None]
    grid = torch.full((n, n), math.nan, dtype=torch.float64)
    grid[rows, cols] = torch.from_numpy(values)
    likelihood = gpytorch.likelihoods.GaussianLikelihood().double()
    likelihood.noise = MU
    row_kernel, col_kernel = (rbf(scale) for scale in problem.scales)
    model = LatentKroneckerGP(
        left, number, grid, likelihood=likelihood, covar_module_X=row_kernel,
        covar_module_T=Looked(col_kernel, right), outcome_transform=None,
    )  # fmt: skip
    model.eval()
    set_to = gpytorch.settings
    with (
        torch.no_grad(),
        model.use_iterative_methods(tol=TOLERANCE),
        set_to.eval_cg_tolerance(TOLERANCE),
        set_to.max_preconditioner_size(preconditioner),
        set_to.skip_posterior_variances(True),  # they would cost a second solve
    ):
        model.posterior(left[:1], number[:1])
        by_grid = model.prediction_strategy.mean_cache.numpy()
    dual = np.empty_like(by_grid)
    dual[np.argsort(pairs[:, 0] * n + pairs[:, 1])] = by_grid
    return dual


def main() -> None:
    problem, more = Problem.parse(sys.argv[1])
    warnings.simplefilter("ignore")
    size = more.pop("preconditioner", 15)  # its default
    pairs, values = problem.data()
    small = Problem(1000, 40)
    solve(small, *small.data(), size)
    found, dual = clock.measured(lambda: solve(problem, pairs, values, size), **more)
    result = found | {
        "true_residual": true_residual(pairs, values, dual, problem.kernel_rows),
        "version": f"{version('botorch')}, torch {version('torch')}",
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
