"""Transductive bounds on the generalization error of matrix completion.

A fitted model has a small loss on the entries it was fitted to; how much larger can it be on the
others? :func:`certificate` answers for a fitted model. Behind it: :func:`theorem_a`,
:func:`theorem_a2` and :func:`theorem_b`, the theorems of the paper as printed and corrected
(:func:`theorem_1` to :func:`theorem_4`), hypothesis classes with exact and closed-form Rademacher
complexities, and losses that know their range. Proofs are in docs/theory.md.

``classes`` holds the hypothesis classes, ``complexity`` the random signs and what they cost. Not
here: intervals for single entries (:mod:`kronfill.uncertainty`, conformal prediction) and accuracy
on hidden entries (:mod:`kronfill.completion`), which prove nothing about the others.
"""

from kronfill.bounds.bound import Assumption, Bound
from kronfill.bounds.certificate import Certificate, certificate
from kronfill.bounds.classes.effects import EffectsClass, SumClass
from kronfill.bounds.classes.hypothesis import Complexity, HypothesisClass
from kronfill.bounds.classes.nuclear import IMCBall, KMCBall, NuclearBall
from kronfill.bounds.classes.rkhs import LocalBall, RKHSBall, TrainingSpan
from kronfill.bounds.complexity.monte_carlo import MonteCarlo
from kronfill.bounds.losses import Absolute, Loss, Square, Truncated, generalization_error
from kronfill.bounds.new_rows import NewItemsCertificate, new_items_certificate
from kronfill.bounds.sampling import SamplingTest, sampling_test
from kronfill.bounds.splits import Sizes, Split
from kronfill.bounds.theorems import theorem_1, theorem_2, theorem_3, theorem_4
from kronfill.bounds.transductive import generalization_bound, theorem_a, theorem_a2, theorem_b

__all__ = [
    "Absolute",
    "Assumption",
    "Bound",
    "Certificate",
    "Complexity",
    "EffectsClass",
    "HypothesisClass",
    "IMCBall",
    "KMCBall",
    "LocalBall",
    "Loss",
    "MonteCarlo",
    "NewItemsCertificate",
    "NuclearBall",
    "RKHSBall",
    "SamplingTest",
    "Sizes",
    "Split",
    "Square",
    "SumClass",
    "TrainingSpan",
    "Truncated",
    "certificate",
    "generalization_bound",
    "generalization_error",
    "new_items_certificate",
    "sampling_test",
    "theorem_1",
    "theorem_2",
    "theorem_3",
    "theorem_4",
    "theorem_a",
    "theorem_a2",
    "theorem_b",
]
