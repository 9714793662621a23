"""What is asked of a completed table by label: how sure, why this number, what to measure next."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, cast, overload

import numpy as np

from kronfill._types import Floats
from kronfill.completion.entries.details import EntryDetails
from kronfill.completion.likelihood import likelihood_of
from kronfill.errors import ParameterError

if TYPE_CHECKING:
    from pandas import DataFrame

    from kronfill.estimators.gaussian_process.explain import Explanation

__all__ = ["Questions"]


class Questions(EntryDetails):
    """Adds what a method knows about its own predictions to a completed table."""

    @abstractmethod
    def _frame(self, values: Any) -> DataFrame:
        """A table with the labels of rows and columns."""

    @overload
    def std(self, pairs: None = None) -> DataFrame: ...

    @overload
    def std(self, pairs: Any) -> Floats: ...

    def std(self, pairs: Any = None) -> DataFrame | Floats:
        """Standard deviation of the latent values: how sure the method itself is.

        Parameters
        ----------
        pairs : iterable of (row label, column label), optional
            The entries; the whole table by default.

        Returns
        -------
        DataFrame or ndarray of shape (len(pairs),)
            Without the noise, of which the variance is ``done.model.noise_variance_``.

        See Also
        --------
        intervals : What a new measurement would lie in, checked on hidden entries.

        Examples
        --------
        >>> import numpy as np, pandas as pd, kronfill as kf
        >>> table = pd.DataFrame({"x": [1.0, 1.2, 9.0], "y": [2.0, np.nan, 8.0]}, list("abc"))
        >>> sizes = pd.DataFrame({"size": [1.0, 2.0, 9.0]}, list("abc"))
        >>> done = kf.complete(table, rows=sizes, method="kkmcex", mu=0.1)
        >>> bool(done.std([("b", "y")]) > done.std([("b", "x")]))
        True
        """
        model = self._able("predict_std", "has no standard deviation of its own")
        if pairs is not None:
            return np.asarray(model.predict_std(np.column_stack(self.locate(pairs))))
        n, l = self.observations.shape
        whole = np.empty((n, l))
        for at_r, at_c in self._blocks(None, max(l, 1) * max(1, 100_000 // max(l, 1))):
            whole[at_r, at_c] = model.predict_std(np.column_stack([at_r, at_c]))
        return self._frame(whole)

    def explain(self, row: Any, col: Any, top: int = 10) -> Explanation:
        """Say which observations a prediction comes from.

        Parameters
        ----------
        row, col : label
            The entry.
        top : int, default=10
            How many observations to list.

        Returns
        -------
        Explanation
            ``to_frame()`` makes a DataFrame of it.

        Examples
        --------
        >>> import numpy as np, pandas as pd, kronfill as kf
        >>> table = pd.DataFrame({"x": [1.0, 1.2, 9.0], "y": [2.0, np.nan, 8.0]}, list("abc"))
        >>> sizes = pd.DataFrame({"size": [1.0, 2.0, 9.0]}, list("abc"))
        >>> done = kf.complete(table, rows=sizes, method="kkmcex", mu=0.1)
        >>> done.explain("b", "y", top=1)
        Prediction 2.63 at (b, y)
              +4.895  mean
              -5.141  from (b, x), observed 1.2
              +2.877  from all other observations
        """
        model = self._able("explain", "cannot say which observations a prediction comes from")
        found: Explanation = model.explain(row, col, top)
        return found

    def suggest(
        self, n: int = 10, candidates: Any = None, cost: Any = None, *, random_state: Any = 0
    ) -> DataFrame:
        """Say which entries to measure next: those that tell most about all the others.

        Parameters
        ----------
        n : int, default=10
            How many.
        candidates : iterable of (row label, column label), optional
            The entries to choose from; by default all that were not observed.
        cost : array-like, optional
            What each candidate costs; alike by default.
        random_state : int, Generator or None, default=0
            Seed of the entries that are looked at where there are very many.

        Returns
        -------
        DataFrame
            Columns "row", "column", "std" (now), "reduction" (the share of the variance of the
            entries not observed that each takes off) and "cost", best first.

        Examples
        --------
        >>> import numpy as np, pandas as pd, kronfill as kf
        >>> table = pd.DataFrame({"x": [1.0, 1.2, 9.0], "y": [2.0, np.nan, np.nan]}, list("abc"))
        >>> sizes = pd.DataFrame({"size": [1.0, 2.0, 9.0]}, list("abc"))
        >>> done = kf.complete(table, rows=sizes, method="kkmcex", mu=0.1)
        >>> done.suggest(1)[["row", "column"]].to_numpy().tolist()
        [['c', 'y']]
        """
        model = self._able("suggest", "does not know how sure it is")
        pairs = None if candidates is None else np.column_stack(self.locate(candidates))
        found = model.suggest(n, pairs, cost, random_state=random_state)
        return cast("DataFrame", found.to_frame().rename(columns={"col": "column"}))

    def _able(self, what: str, cannot: str) -> Any:
        """The method, if it can do what is asked."""
        if not hasattr(self.model, what):
            name = type(self.model).__name__
            msg = f"{name} {cannot}: use method='auto', or 'kkmcex', which always can."
            if likelihood_of(self.model) != "gaussian":
                msg = (
                    f"{name} {cannot}, as its values are linked to those of the table. Complete it "
                    "with likelihood='gaussian' for that."
                )
            raise ParameterError(msg)
        return self.model
