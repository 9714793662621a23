"""What every hypothesis class can say about itself: the base of all of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from types import MappingProxyType
from typing import Any

import numpy as np

from kronfill.bounds.complexity.monte_carlo import MonteCarlo, estimate
from kronfill.bounds.complexity.patterns import Pattern, as_pattern
from kronfill.bounds.complexity.signs import SignLaw, as_law
from kronfill.bounds.splits import Split, as_split
from kronfill.errors import ParameterError

__all__ = ["Complexity", "HypothesisClass", "check_radius"]


@dataclass(frozen=True)
class Complexity:
    """An upper bound on a transductive Rademacher complexity.

    Attributes
    ----------
    value : float
        The bound.
    name : str
        Which closed form it is.
    law : str
        Law of the signs.
    candidates : mapping of str to float
        All closed forms that hold for this class under this law.
    """

    value: float
    name: str
    law: str
    candidates: Mapping[str, float]


class HypothesisClass(ABC):
    """A set of matrices F, symmetric about 0.

    Its transductive Rademacher complexity is R = c E sup_F sum_a sigma_a F_a, with the scale c and
    the signs sigma of one of three laws, see :mod:`kronfill.bounds.complexity.signs`.
    """

    shape: tuple[int, int]
    fixed_before_split: bool = True
    """Whether the class does not depend on which entries are drawn for training."""

    @property
    @abstractmethod
    def lipschitz(self) -> float:
        """Lipschitz constant of the supremum as a function of the signs."""

    @abstractmethod
    def _supremum(self, pattern: Pattern) -> float: ...

    @abstractmethod
    def _closed_forms(self, split: Split, law: SignLaw) -> dict[str, float]:
        """Bounds on c E sup by name."""

    @abstractmethod
    def paper_form(self, split: Split) -> float:
        """The paper's closed form of the complexity, under its own law, as its proof ends."""

    @abstractmethod
    def norm_of(self, estimator: Any) -> float:
        """Norm of a fitted model in this class: the smallest radius with which it is a member.

        Additive effects of the model are not counted, see :class:`~kronfill.bounds.EffectsClass`.

        Parameters
        ----------
        estimator : MC, KMC, IMC, KKMCEX or RRMCEX
            A model fitted with the kernels or features of the class.

        Returns
        -------
        float
        """

    def supremum(self, signs: Any) -> float:
        """Exact supremum over the class of the sum of sigma F.

        Parameters
        ----------
        signs : array-like or sparse matrix of shape (N, L)
            The signs, 0 outside S_n.

        Returns
        -------
        float
        """
        return self._supremum(as_pattern(signs, self.shape))

    def closed_forms(self, split: Split, law: Any = "sub") -> dict[str, float]:
        """All closed-form upper bounds on the complexity.

        Parameters
        ----------
        split : Split
            Training and test entries.
        law : {"sub", "eyp", "paper"}, default="sub"
            Law of the signs.

        Returns
        -------
        dict of str to float
        """
        return self._closed_forms(as_split(split, self.shape), as_law(law))

    def complexity(self, split: Split, law: Any = "sub") -> Complexity:
        """The smallest closed-form upper bound on the complexity.

        Parameters
        ----------
        split, law :
            As for :meth:`closed_forms`.

        Returns
        -------
        Complexity
        """
        forms = self.closed_forms(split, law)
        name = min(forms, key=lambda key: forms[key])
        return Complexity(forms[name], name, as_law(law).name, MappingProxyType(forms))

    def monte_carlo(
        self,
        split: Split,
        law: Any = "sub",
        *,
        draws: int = 200,
        delta: float = 0.01,
        random_state: Any = 0,
        n_jobs: int | None = None,
    ) -> MonteCarlo:
        """Estimate the complexity from random sign patterns.

        Parameters
        ----------
        split, law :
            As for :meth:`closed_forms`.
        draws : int, default=200
            Number of sign patterns.
        delta : float, default=0.01
            Probability that the upper confidence value is too small.
        random_state : int, Generator or None, default=0
            Seed; the same seed gives the same result for any number of workers.
        n_jobs : int, optional
            Number of threads, as in joblib.

        Returns
        -------
        MonteCarlo
        """
        return estimate(
            self._supremum,
            split,
            as_law(law),
            lipschitz=self.lipschitz,
            ceiling=self.complexity(split, law).value,
            draws=draws,
            delta=delta,
            random_state=random_state,
            n_jobs=n_jobs,
        )


def check_radius(value: Any, name: str) -> float:
    """Raise unless ``value`` is a finite number that is not negative."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= float(value) < np.inf:
        msg = f"{name} must be a finite number, not negative, got {value!r}."
        raise ParameterError(msg)
    return float(value)
