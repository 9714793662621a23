"""Laws of the four splits, and their use in scikit-learn's tools."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score

import kronfill as kf
from kronfill.errors import ParameterError, ShapeError
from kronfill.selection import ColumnKFold, EntryKFold, RowColumnKFold, RowKFold

AXES = {EntryKFold: (), RowKFold: (0,), ColumnKFold: (1,), RowColumnKFold: (0, 1)}


def pairs(n, l, share, seed):
    rng = np.random.default_rng(seed)
    keep = np.flatnonzero(rng.random(n * l) < share)
    return rng.permutation(np.column_stack(np.divmod(keep, l)))


def few(X, kind):
    """How many things there are to deal out."""
    return len(X) if kind is EntryKFold else len(np.unique(X[:, AXES[kind][0]]))


@settings(max_examples=60, deadline=None)
@given(
    kind=st.sampled_from(list(AXES)),
    folds=st.integers(2, 4),
    size=st.tuples(st.integers(2, 9), st.integers(2, 9)),
    share=st.floats(0.3, 1.0),
    shuffle=st.booleans(),
    seed=st.integers(0, 99),
)
def test_laws(kind, folds, size, share, shuffle, seed):
    X = pairs(*size, share, seed)
    splitter = (
        RowColumnKFold(folds, 2, shuffle=shuffle, random_state=seed)
        if kind is RowColumnKFold
        else kind(folds, shuffle=shuffle, random_state=seed)
    )
    try:
        parts = list(splitter.split(X))
    except ParameterError:  # fewer items than folds, or a fold without training entries
        assert kind is RowColumnKFold or few(X, kind) < folds
        return
    assert len(parts) == splitter.get_n_splits(X)
    tested = np.concatenate([test for _, test in parts])
    assert sorted(tested) == list(range(len(X)))  # each entry is tested once
    for train, test in parts:
        assert len(np.intersect1d(train, test)) == 0
        for axis in AXES[kind]:
            assert len(np.intersect1d(X[train, axis], X[test, axis])) == 0
        if kind is not RowColumnKFold:
            assert len(train) + len(test) == len(X)
        else:  # nothing is left out of training without need
            apart = ~(np.isin(X[:, 0], X[test, 0]) | np.isin(X[:, 1], X[test, 1]))
            assert set(train) <= set(np.flatnonzero(apart))
    again = [test.tolist() for _, test in splitter.split(X)]
    assert again == [test.tolist() for _, test in parts]


def test_folds_are_even():
    X = pairs(11, 7, 1.0, 0)
    assert [len(np.unique(X[test, 0])) for _, test in RowKFold(3).split(X)] == [4, 4, 3]
    assert {len(test) for _, test in EntryKFold(4).split(X)} == {19, 20}


def test_the_seed_matters_and_no_shuffle_means_order():
    X = pairs(12, 12, 1.0, 0)
    first, second = (next(iter(EntryKFold(3, random_state=seed).split(X)))[1] for seed in (0, 1))
    assert not np.array_equal(first, second)
    assert np.array_equal(next(iter(EntryKFold(3, shuffle=False).split(X)))[1], np.arange(48))


def test_observations_are_split_too():
    obs = kf.Observations([0, 1, 2, 3], [0, 0, 1, 1], np.ones(4), (5, 2))
    assert [test.tolist() for _, test in ColumnKFold(2, shuffle=False).split(obs)] == [
        [0, 1],
        [2, 3],
    ]


def test_bad_input_is_refused():
    with pytest.raises(ShapeError, match="pair per entry"):
        next(iter(EntryKFold(2).split(np.zeros((4, 3)))))
    with pytest.raises(ParameterError, match="at least 2"):
        EntryKFold(1).get_n_splits()
    with pytest.raises(ParameterError, match="Use fewer folds"):
        next(iter(RowKFold(3).split([[0, 0], [0, 1], [1, 0]])))
    with pytest.raises(ParameterError, match="no training entries"):
        # The only entry of the other rows and columns is missing.
        list(RowColumnKFold(2, 2, shuffle=False).split([[0, 0], [0, 1], [1, 0]]))


@pytest.mark.parametrize("kind", list(AXES))
def test_in_scikit_learns_tools(kind):
    k = kf.kernels.rbf(np.linspace(0, 1, 12), length_scale=0.4)
    X = pairs(12, 12, 0.7, 0)
    y = np.sin(X[:, 0] / 3) * np.cos(X[:, 1] / 3)
    cv = kind(2)
    assert repr(cv).startswith(kind.__name__)
    scores = cross_val_score(kf.KKMCEX(k, k, mu=0.01), X, y, cv=cv)
    assert len(scores) == cv.get_n_splits(X)
    search = GridSearchCV(clone(kf.KKMCEX(k, k)), {"mu": [1e-3, 1e3]}, cv=cv).fit(X, y)
    assert search.best_params_ == {"mu": 1e-3}


def test_new_rows_are_harder_than_known_ones():
    rng = np.random.default_rng(0)
    k = kf.kernels.rbf(rng.random((20, 2)), length_scale=0.3) + 0.5 * kf.kernels.identity(20)
    X = pairs(20, 20, 0.6, 0)
    y = rng.standard_normal(20)[X[:, 0]] + 0.1 * rng.standard_normal(len(X))
    known, new = (
        cross_val_score(kf.KKMCEX(k, np.ones((20, 20)), mu=0.1), X, y, cv=cv).mean()
        for cv in (EntryKFold(4), RowKFold(4))
    )
    assert known > new + 0.3
