"""Variational Bayes of low-rank factors, one item after the other, with dense matrices."""

from __future__ import annotations

import numpy as np


def unpacked(packed, d):
    """Full matrices of packed lower triangles."""
    low, high = np.tril_indices(d)
    out = np.empty((len(packed), d, d))
    out[:, low, high] = out[:, high, low] = packed
    return out


def half_step(means, moments, rows, cols, values, weights, tau, precision, prior):
    """Posterior means and covariances, expected squares and residuals; moments are matrices."""
    n, d = prior.shape
    mean, covariance = np.empty((n, d)), np.empty((n, d, d))
    squares = residual = 0.0
    for i in range(n):
        a, b = np.diag(precision).astype(float), precision * prior[i]
        for k in np.flatnonzero(rows == i):
            j, w = cols[k], weights[k]
            a += tau * w * moments[j][:d, :d]
            b += tau * w * (values[k] * means[j, :d] - moments[j][:d, d])
        covariance[i] = np.linalg.inv(a)
        mean[i] = covariance[i] @ b
        x = np.append(mean[i], 1.0)
        second = np.outer(x, x)
        second[:d, :d] += covariance[i]
        for k in np.flatnonzero(rows == i):
            j, w, y = cols[k], weights[k], values[k]
            squares += w * (y**2 - 2 * y * (x @ means[j]) + np.sum(second * moments[j]))
            residual += w * (y - x @ means[j])
    return mean, covariance, squares, residual


def evidence_bound(table, weights, factors):
    """E log p(y, W, H, U) - E log q(W, H, U), every expectation written out.

    ``factors`` holds both axes, mean and tau; q(u_f) is the Gaussian that is best for q(w_f), as
    the scales and the smooth part were renewed last.
    """
    seen = ~np.isnan(table)
    p, tau, mean = factors.rank, factors.tau, factors.mean
    (x, s), (z, c) = (_whole(axis, p, k) for k, axis in enumerate((factors.row, factors.col)))
    expected = mean + x @ z.T
    variance = (
        np.einsum("iab,ja,jb->ij", s, z, z) + np.einsum("jab,ia,ib->ij", c, x, x)
        + np.einsum("iab,jab->ij", s, c)
    )  # fmt: skip
    squares = ((table - expected) ** 2 + variance)[seen]
    w = weights[seen]
    total = 0.5 * np.sum(np.log(tau * w / (2 * np.pi)) - tau * w * squares)
    return total + _divergence(factors.row) + _divergence(factors.col)


def _whole(axis, p, position):
    """Mean and covariance of (factors, row effect or 1, 1 or column effect)."""
    n, d = axis.mean.shape
    mean, covariance = np.zeros((n, p + 2)), np.zeros((n, p + 2, p + 2))
    at = [*range(p)] + [p + position] * (d - p)
    mean[:, at] = axis.mean
    mean[:, p + 1 - position] = 1.0
    covariance[np.ix_(range(n), at, at)] = unpacked(axis.covariance, d)
    return mean, covariance


def _divergence(axis):
    """E log p(w, u) - E log q(w, u) of one axis."""
    (n, d), prior = axis.mean.shape, axis.prior
    full = unpacked(axis.covariance, d)
    total = 0.5 * sum(np.linalg.slogdet(2 * np.pi * np.e * one)[1] for one in full)
    lam, vectors = np.linalg.eigh(prior.smoothness.phi @ prior.smoothness.phi.T)
    lam, vectors = lam[lam > 1e-10], vectors[:, lam > 1e-10]
    for f in range(d):
        v, s, m = prior.smooth[f], prior.own[f], axis.mean[:, f]
        u_variance = v * lam * s / (v * lam + s)
        u = v * lam / (v * lam + s) * (vectors.T @ m)
        smooth = vectors @ u
        spread = np.sum(full[:, f, f]) + np.sum(u_variance)
        total -= 0.5 * (n * np.log(2 * np.pi * s) + (np.sum((m - smooth) ** 2) + spread) / s)
        total -= 0.5 * np.sum(np.log(2 * np.pi * v * lam) + (u**2 + u_variance) / (v * lam))
        total += 0.5 * np.sum(np.log(2 * np.pi * np.e * u_variance))
    return total
