"""Fitting a mask model by its name."""

from __future__ import annotations

from kronfill.data import Observations
from kronfill.errors import ParameterError
from kronfill.kernels.base import Kernel
from kronfill.masks.base import KINDS, MaskModel
from kronfill.masks.effects import fit_effects
from kronfill.masks.kernel import fit_kernel
from kronfill.masks.rank_one import fit_rank_one

__all__ = ["fit_mask"]


def fit_mask(
    kind: str,
    part: Observations,
    share: float = 1.0,
    kernels: tuple[Kernel | None, Kernel | None] = (None, None),
) -> MaskModel | None:
    """Fit a mask model to a part of the observed entries.

    Parameters
    ----------
    kind : {"uniform", "effects", "rank one", "kernel"}
        Row and column effects, popularities, or effects and what the kernels tell; "uniform" is
        no model.
    part : Observations
        The entries fitted to. Their values are not looked at.
    share : float, default=1.0
        Which share of all observed entries they are, drawn at random.
    kernels : pair of Kernel or None
        What is known about rows and columns; for "kernel" at least one.

    Returns
    -------
    MaskModel or None

    Examples
    --------
    >>> import numpy as np, kronfill as kf
    >>> from kronfill.masks import fit_mask
    >>> p = np.linspace(0.1, 0.9, 50)
    >>> mask = np.random.default_rng(0).random((50, 40)) < p[:, None]
    >>> seen = kf.Observations.from_matrix(np.where(mask, 1.0, np.nan))
    >>> odds = fit_mask("effects", seen).odds(np.array([5, 45]), np.array([0, 0]))
    >>> bool(odds[0] > 3 > 0.5 > odds[1])  # of being missing
    True
    """
    if kind not in KINDS:
        msg = f"mask must be one of {KINDS}, got {kind!r}."
        raise ParameterError(msg)
    if kind == "uniform":
        return None
    entries = (part.rows, part.cols, part.shape)
    if kind == "effects":
        return fit_effects(*entries, share)
    if kind == "rank one":
        return fit_rank_one(*entries, share)
    if all(kernel is None for kernel in kernels):
        msg = (
            "mask='kernel' needs side information: the method has no kernel on either axis. Use "
            "mask='effects'."
        )
        raise ParameterError(msg)
    return fit_kernel(*entries, kernels, share)
