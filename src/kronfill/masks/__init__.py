"""How likely each entry of a table is observed, learned from which entries are.

A mask model is fitted to a random part of the observed entries (``share`` of them) and tells the
odds that an entry is missing; weighted conformal intervals count entries by these odds, and
``uniformity`` tests whether they need to. What lives here knows nothing of values: a mask whose
gaps depend on the values themselves is beyond it.
"""

from kronfill.masks.base import KINDS, MaskModel
from kronfill.masks.choice import fit_mask
from kronfill.masks.effects import EffectsMask
from kronfill.masks.kernel import KernelMask
from kronfill.masks.rank_one import RankOneMask
from kronfill.masks.uniformity import (
    SamplingTest,
    apart_p_value,
    uniformity,
    uniformity_where_known,
)

__all__ = [
    "KINDS",
    "EffectsMask",
    "KernelMask",
    "MaskModel",
    "RankOneMask",
    "SamplingTest",
    "apart_p_value",
    "fit_mask",
    "uniformity",
    "uniformity_where_known",
]
