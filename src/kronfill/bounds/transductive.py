"""Theorems A, A2 and B: transductive bounds with explicit constants, proved in docs/theory.md."""

from __future__ import annotations

import numpy as np

from kronfill.bounds.bound import Assumption, Bound
from kronfill.bounds.classes.hypothesis import HypothesisClass, check_radius
from kronfill.bounds.classes.rkhs import RKHSBall
from kronfill.bounds.classes.top_lambda import largest_eigenvalue
from kronfill.bounds.complexity.monte_carlo import check_delta
from kronfill.bounds.losses import Loss, as_loss
from kronfill.bounds.splits import Split, as_split
from kronfill.errors import ParameterError

__all__ = ["generalization_bound", "theorem_a", "theorem_a2", "theorem_b"]

GAP = "generalization error"
UNIFORM = "the training entries are a uniformly random subset of all entries considered"
FIXED = "the hypothesis class, its radius included, is fixed before the training entries are drawn"
BOUNDED = "the loss has a known range and Lipschitz constant on all entries"


def theorem_a(
    hypothesis: HypothesisClass,
    split: Split,
    loss: Loss,
    delta: float = 0.05,
    *,
    complexity: float | None = None,
) -> Bound:
    r"""Implements Theorem A: the generalization error without any additive constant.

    With probability at least 1 - delta over the split, for all F of the class at once,

    .. math:: L_u - L_m \le \gamma R_{sub}(F) + B q \sqrt{V \ln(1/\delta) / 2}.

    Parameters
    ----------
    hypothesis : HypothesisClass
        The class.
    split : Split
        Training and test entries.
    loss : Loss
        A loss with finite range and Lipschitz constant.
    delta : float, default=0.05
        Probability that the statement fails.
    complexity : float, optional
        R_sub of the class, if known better than by the smallest closed form (for instance the
        ``upper`` of :meth:`HypothesisClass.monte_carlo`, whose own delta has to be added).

    Returns
    -------
    Bound

    Examples
    --------
    >>> import numpy as np
    >>> from kronfill.bounds import RKHSBall, Split, Square, theorem_a
    >>> ball = RKHSBall(np.eye(30), np.eye(30), b=1.0)
    >>> rows, cols = np.divmod(np.arange(0, 900, 2), 30)
    >>> split = Split.of((rows, cols), shape=(30, 30))
    >>> bound = theorem_a(ball, split, Square(clip=(-1, 1)) / 4)
    >>> round(bound.value, 3), {name: round(v, 3) for name, v in bound.terms.items()}
    (0.176, {'complexity': 0.094, 'confidence': 0.082})
    """
    _check(hypothesis, split, loss, delta)
    size = hypothesis.complexity(split, "sub").value if complexity is None else complexity
    terms = {
        "complexity": loss.lipschitz * size,
        "confidence": loss.bound * split.sizes.deviation(delta),
    }
    return Bound.of("Theorem A", GAP, terms, assumptions=_assumptions(loss))


def theorem_a2(
    hypothesis: HypothesisClass,
    split: Split,
    loss: Loss,
    delta: float = 0.05,
    *,
    complexity: float | None = None,
) -> Bound:
    r"""Implements Theorem A2: El-Yaniv and Pechyony's theorem with 1/2 for the constant 5.05.

    .. math::
        L_u - L_m \le \gamma R_{p_0}(F) + \tfrac{B}{2} q\, E|\mathrm{Bin}(n, m/n) - m|
        + B q \sqrt{V \ln(1/\delta) / 2}

    where the second term is at most (B/2) sqrt(q). It beats Theorem A for unbalanced splits.

    Parameters
    ----------
    hypothesis, split, loss, delta :
        As for :func:`theorem_a`.
    complexity : float, optional
        The complexity of the class under the law "eyp", if known better.

    Returns
    -------
    Bound

    Examples
    --------
    >>> import numpy as np
    >>> from kronfill.bounds import RKHSBall, Split, Square, theorem_a, theorem_a2
    >>> ball = RKHSBall(np.eye(90), np.eye(90), b=4.0)
    >>> split = Split.of((np.arange(90), np.arange(90)), shape=(90, 90))
    >>> loss = Square(clip=(-1, 1)) / 4
    >>> round(theorem_a2(ball, split, loss).value, 2), round(theorem_a(ball, split, loss).value, 2)
    (0.77, 0.97)
    """
    _check(hypothesis, split, loss, delta)
    sizes = split.sizes
    size = hypothesis.complexity(split, "eyp").value if complexity is None else complexity
    terms = {
        "complexity": loss.lipschitz * size,
        "random sample size": 0.5 * loss.bound * sizes.q * sizes.mean_deviation,
        "confidence": loss.bound * sizes.deviation(delta),
    }
    return Bound.of("Theorem A2", GAP, terms, assumptions=_assumptions(loss))


def generalization_bound(
    hypothesis: HypothesisClass, split: Split, loss: Loss, delta: float = 0.05
) -> Bound:
    """The smaller of Theorems A and A2, at no extra cost: both bound the same expectation.

    Parameters
    ----------
    hypothesis, split, loss, delta :
        As for :func:`theorem_a`.

    Returns
    -------
    Bound

    Examples
    --------
    >>> import numpy as np
    >>> from kronfill.bounds import Absolute, NuclearBall, Split, generalization_bound
    >>> split = Split.of((np.arange(90), np.arange(90)), shape=(90, 90))
    >>> generalization_bound(NuclearBall((90, 90), t=9.0), split, Absolute(clip=(-1, 1))).name
    'Theorem A2'
    """
    both = (
        theorem_a(hypothesis, split, loss, delta),
        theorem_a2(hypothesis, split, loss, delta),
    )
    return min(both, key=lambda bound: bound.value)


def theorem_b(
    hypothesis: RKHSBall,
    split: Split,
    value_max: float,
    delta: float = 0.05,
    *,
    top: float | None = None,
) -> Bound:
    r"""Implements Theorem B: the square loss without clipping, for all norms b at once.

    With probability at least 1 - delta, for every F with norm b,

    .. math::
        L_u - L_m \le M^2 w + 2 b M \left(\sqrt{q \bar k n / (n - 1)} + 2 \sqrt{k_{\max}} w\right)
        + b^2 \max(\Lambda, 0)

    where abs(values) <= M, w = q sqrt(V ln(2/delta) / 2), kbar and k_max are mean and maximum of
    the diagonal of S_n K_f S_n^T and Lambda is the largest eigenvalue of Psi^T diag(g) Psi, with
    g = 1/u on test and -1/m on training entries.

    Parameters
    ----------
    hypothesis : RKHSBall
        The space; its radius b may be read off the fitted model.
    split : Split
        Training and test entries.
    value_max : float
        Largest absolute value that any entry can have.
    delta : float, default=0.05
        Probability that the statement fails.
    top : float, optional
        Lambda, if known; computed by default.

    Returns
    -------
    Bound

    Examples
    --------
    >>> import numpy as np
    >>> from kronfill.bounds import RKHSBall, Split, theorem_b
    >>> rows, cols = np.divmod(np.arange(0, 900, 2), 30)
    >>> split = Split.of((rows, cols), shape=(30, 30))
    >>> bound = theorem_b(RKHSBall(np.eye(30), np.eye(30), b=1.0), split, value_max=1.0)
    >>> round(bound.value, 3)
    0.589
    """
    if not isinstance(hypothesis, RKHSBall):
        msg = f"Theorem B is about an RKHSBall, got {type(hypothesis).__name__}."
        raise ParameterError(msg)
    as_split(split, hypothesis.shape)
    check_delta(delta)
    limit = check_radius(value_max, "value_max")
    sizes, b = split.sizes, hypothesis.b
    w = sizes.deviation(delta / 2.0)
    mean, largest = hypothesis.trace(split) / sizes.n, _largest_diagonal(hypothesis, split)
    top = largest_eigenvalue(hypothesis.row, hypothesis.col, split) if top is None else top
    spread = np.sqrt(sizes.q * mean * sizes.n / max(sizes.n - 1, 1))
    terms = {
        "confidence": limit**2 * w,
        "complexity": float(2 * b * limit * (spread + 2 * np.sqrt(largest) * w)),
        "curvature": b**2 * max(top, 0.0),
    }
    needs = (Assumption(UNIFORM), Assumption(f"all values lie in [-{limit:g}, {limit:g}]"))
    return Bound.of("Theorem B", GAP, terms, assumptions=needs)


def _largest_diagonal(hypothesis: RKHSBall, split: Split) -> float:
    """Largest K_w[i, i] K_h[j, j]; over rows and columns that have entries."""
    row = hypothesis.row.diagonal[split.entries.row_counts > 0]
    col = hypothesis.col.diagonal[split.entries.col_counts > 0]
    return float(row.max() * col.max())


def _assumptions(loss: Loss) -> tuple[Assumption, ...]:
    low, high = loss.takes
    bounded = Assumption(BOUNDED, holds=True)
    if np.isfinite(low):
        bounded = Assumption(f"{BOUNDED}: their values lie in [{low:g}, {high:g}]")
    return (Assumption(UNIFORM), Assumption(FIXED), bounded)


def _check(hypothesis: HypothesisClass, split: Split, loss: Loss, delta: float) -> None:
    as_split(split, hypothesis.shape)
    check_delta(delta)
    if not hypothesis.fixed_before_split:
        msg = (
            f"{type(hypothesis).__name__} depends on which entries are drawn for training, so no "
            "bound of this kind holds for it. Use RKHSBall with the same kernels and b."
        )
        raise ParameterError(msg)
    if not np.isfinite(as_loss(loss).bound) or not np.isfinite(loss.lipschitz):
        msg = (
            f"The {loss} has no finite range or Lipschitz constant, which the theorem needs. Clip "
            "the predictions, Square(clip=(low, high)), cut the loss off, Truncated(Square(), "
            "level), or use theorem_b, which needs neither."
        )
        raise ParameterError(msg)
