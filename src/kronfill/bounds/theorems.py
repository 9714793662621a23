"""Theorems 1 to 4 of the paper as printed, each with what is wrong with it and the correction.

"The paper" is P. Gimenez-Febrer, A. Pages-Zamora, G. B. Giannakis, "Generalization error bounds for
kernel matrix completion and extrapolation", arXiv:1906.08770. The universal constant G, for which
it gives no value, is sqrt(pi / 2) here: a proved one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kronfill.bounds.bound import Assumption, Bound
from kronfill.bounds.classes.hypothesis import HypothesisClass, check_radius
from kronfill.bounds.classes.nuclear import IMCBall, KMCBall
from kronfill.bounds.classes.rkhs import RKHSBall, TrainingSpan
from kronfill.bounds.complexity.monte_carlo import check_delta
from kronfill.bounds.losses import Loss, as_loss
from kronfill.bounds.splits import Sizes, Split, as_split
from kronfill.bounds.transductive import BOUNDED, FIXED, GAP, UNIFORM
from kronfill.errors import ParameterError

__all__ = ["theorem_1", "theorem_2", "theorem_3", "theorem_4"]

TRC = "Rademacher complexity"
C0 = 5.05


def theorem_1(
    hypothesis: HypothesisClass | float, split: Split | Sizes, loss: Any, delta: float = 0.05
) -> Bound:
    r"""Implements Theorem 1 of the paper as printed, with the contraction that follows it.

    .. math::
        L_u - L_m \le \tfrac{1}{\gamma} R_n(F) + 5.05\, q \sqrt{\min(m, u)}
        + \sqrt{2 q \ln(1/\delta)}

    Parameters
    ----------
    hypothesis : HypothesisClass or float
        The class, whose complexity enters by the paper's closed form, or R_n(F) itself.
    split : Split or Sizes
        Training and test entries; their numbers will do if R_n is given.
    loss : Loss
        The loss; gamma is its Lipschitz constant.
    delta : float, default=0.05
        Probability that the statement fails.

    Returns
    -------
    Bound
        With the errata, and as ``corrected`` El-Yaniv and Pechyony's theorem with range B and the
        contraction gamma R.

    Examples
    --------
    >>> from kronfill.bounds import Sizes, Square, theorem_1
    >>> bound = theorem_1(0.1, Sizes(450, 450), Square(clip=(-1, 1)))
    >>> round(bound.value, 3), round(bound.corrected.value, 3), bound.valid
    (0.664, 2.631, False)
    """
    check_delta(delta)
    loss = as_loss(loss)
    sizes, size, fixed = _complexity(hypothesis, split)
    gamma, log = loss.lipschitz, np.log(1.0 / delta)
    terms = {
        "complexity": size / gamma,
        "constant 5.05": C0 * sizes.q * np.sqrt(sizes.k),
        "confidence": float(np.sqrt(2.0 * sizes.q * log)),
    }
    errata = (
        "the contraction is R(l o F) <= gamma R(F), not R(F) / gamma",
        "the loss must have a range B, which multiplies the last two terms",
        "the last term is B sqrt((S/2) q ln(1/delta)), S > 1",
        "signs of +-1 with probability 1/2 are valid, but loose without limit when u >> m",
    )
    short = loss.bound > 1.0 or gamma > 1.0
    assumptions = (
        Assumption(UNIFORM),
        Assumption(FIXED, holds=fixed),
        Assumption(BOUNDED, holds=bool(np.isfinite(loss.bound) and np.isfinite(gamma))),
        Assumption(
            "range B <= 1 and gamma <= 1, without which the printed terms are too small", not short
        ),
    )
    return Bound.of(
        "Theorem 1 as printed", GAP, terms, assumptions=assumptions, errata=errata,
        corrected=_theorem_1_corrected(size, sizes, loss, delta, fixed),
    )  # fmt: skip


def _theorem_1_corrected(
    size: float, sizes: Sizes, loss: Loss, delta: float, fixed: bool | None
) -> Bound:
    """El-Yaniv and Pechyony (2009) as cited, for a complexity of any law with p >= p0."""
    spread = np.sqrt(0.5 * sizes.s * sizes.q * np.log(1.0 / delta))
    terms = {
        "complexity": loss.lipschitz * size,
        "constant 5.05": loss.bound * C0 * sizes.q * np.sqrt(sizes.k),
        "confidence": float(loss.bound * spread),
    }
    finite = bool(np.isfinite(loss.bound) and np.isfinite(loss.lipschitz))
    needs = Assumption(UNIFORM), Assumption(FIXED, fixed), Assumption(BOUNDED, finite)
    return Bound.of("Theorem 1 corrected", GAP, terms, assumptions=needs)


def theorem_2(hypothesis: KMCBall, split: Split) -> Bound:
    r"""Implements Theorem 2 of the paper as printed: the complexity of the KMC class.

    .. math:: R_n(F_K) \le \lambda_{\max} G q t_B (\sqrt N + \sqrt L)

    Parameters
    ----------
    hypothesis : KMCBall
        The class.
    split : Split
        Training and test entries.

    Returns
    -------
    Bound
        The corrected form has half the value and the geometric mean of the two eigenvalues.

    Examples
    --------
    >>> import numpy as np
    >>> from kronfill.bounds import KMCBall, Split, theorem_2
    >>> split = Split.of((np.arange(9), np.arange(9)), shape=(9, 16))
    >>> bound = theorem_2(KMCBall(np.eye(9), 4 * np.eye(16), t_b=1.0), split)
    >>> round(bound.value / bound.corrected.value, 3)
    4.0
    """
    _check(hypothesis, KMCBall, split)
    errata = (
        "the proof gives half of it, and its first equality is an inequality",
        "lambda_max is the larger of two; sqrt(lambda_max(K_w) lambda_max(K_h)) is enough",
        "that it grows with N and L is an artefact: F_K = F_I, so Theorem 3 holds for KMC",
    )
    terms = {"complexity": hypothesis.paper_form(split)}
    better = {"complexity": hypothesis.corrected_form(split)}
    corrected = Bound.of("Theorem 2 corrected", TRC, better)
    return Bound.of("Theorem 2 as printed", TRC, terms, errata=errata, corrected=corrected)


def theorem_3(hypothesis: IMCBall, split: Split) -> Bound:
    r"""Implements Theorem 3 of the paper as printed: the complexity of the IMC class.

    .. math:: R_n(F_I) \le q \sqrt{t_w t_h}\, \mathrm{Tr}(S_n K S_n^T)

    Parameters
    ----------
    hypothesis : IMCBall
        The class.
    split : Split
        Training and test entries.

    Returns
    -------
    Bound
        The corrected form has the square root of the trace, as the paper's proof ends. The printed
        one is valid only where the trace is at least 1.

    Examples
    --------
    >>> import numpy as np
    >>> from kronfill.bounds import IMCBall, Split, theorem_3
    >>> features = np.sqrt([[0.2]]), np.sqrt([[0.2], [0.2]])
    >>> ball = IMCBall(*features, t_w=1.0, t_h=1.0)
    >>> bound = theorem_3(ball, Split.of(([0], [0]), shape=(1, 2)))
    >>> round(bound.value, 2), bound.valid, round(bound.corrected.value, 3)
    (0.16, False, 0.566)
    """
    _check(hypothesis, IMCBall, split)
    trace = hypothesis.trace(split)
    better = {"complexity": hypothesis.paper_form(split)}
    corrected = Bound.of("Theorem 3 corrected", TRC, better)
    return Bound.of(
        "Theorem 3 as printed", TRC, {"complexity": split.sizes.q * hypothesis.tau * trace},
        assumptions=(Assumption("Tr(S_n K S_n^T) >= 1", holds=trace >= 1.0),),
        errata=("the trace lacks its square root: q sqrt(t_w t_h) sqrt(Tr(S_n K S_n^T))",),
        corrected=corrected,
    )  # fmt: skip


def theorem_4(hypothesis: TrainingSpan, split: Split) -> Bound:
    r"""Implements Theorem 4 of the paper as printed: the complexity of the KKMCEX class.

    .. math:: R_n(F_R) \le q b \sqrt{\mathrm{Tr}(S_n K_f S^T \bar K^{-1} S K_f S_n^T)}

    Parameters
    ----------
    hypothesis : TrainingSpan
        The class.
    split : Split
        Training and test entries.

    Returns
    -------
    Bound
        The corrected form is the complexity of the :class:`RKHSBall` under the law "eyp",
        b sqrt(2 q kbar): it may enter a bound on the generalization error, and does not grow with
        the size of the matrix.

    Examples
    --------
    >>> import numpy as np
    >>> from kronfill.bounds import Split, TrainingSpan, theorem_4
    >>> train = np.arange(30), np.arange(30)
    >>> span = TrainingSpan(np.ones((30, 30)), np.ones((30, 30)), b=1.0, train=train)
    >>> bound = theorem_4(span, Split.of(train, shape=(30, 30)))
    >>> round(bound.value, 2), round(bound.corrected.value, 2), bound.valid
    (1.03, 0.26, False)
    """
    _check(hypothesis, TrainingSpan, split)
    ball = RKHSBall(*hypothesis.kernel.kernels, b=hypothesis.b)
    corrected = Bound.of(
        "Theorem 4 corrected", TRC, {"complexity": ball.complexity(split, "eyp").value},
        assumptions=(Assumption("the radius b is fixed before the split"),),
    )  # fmt: skip
    errata = (
        "the class is spanned by sections at the training entries: Theorem 1 does not apply to it",
        "n counts test entries too: with all other entries as test set it grows as sqrt(N L) / m",
        "b read off a fitted model is random; it has to be fixed in advance or stratified over",
    )
    return Bound.of(
        "Theorem 4 as printed", TRC, {"complexity": hypothesis.paper_form(split)},
        assumptions=(Assumption(FIXED, holds=False),), errata=errata, corrected=corrected,
    )  # fmt: skip


def _complexity(
    hypothesis: HypothesisClass | float, split: Split | Sizes
) -> tuple[Sizes, float, bool | None]:
    if isinstance(hypothesis, HypothesisClass):
        whole = as_split(split, hypothesis.shape)
        fixed = None if hypothesis.fixed_before_split else False
        return whole.sizes, hypothesis.paper_form(whole), fixed
    sizes = split if isinstance(split, Sizes) else as_split(split).sizes
    return sizes, check_radius(hypothesis, "The complexity R_n"), None


def _check(hypothesis: Any, kind: type[HypothesisClass], split: Split) -> None:
    if not isinstance(hypothesis, kind):
        got = type(hypothesis).__name__
        msg = f"Got {got}, but this theorem is about the class {kind.__name__}."
        raise ParameterError(msg)
    as_split(split, hypothesis.shape)
