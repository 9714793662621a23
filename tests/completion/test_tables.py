"""Tables of every make are completed alike."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import xarray as xr
from scipy import sparse

import kronfill as kf
from kronfill.completion.tables import told_roles

RNG = np.random.default_rng(4)
USERS, FILMS = [f"u{k:02d}" for k in range(12)], [f"f{k}" for k in range(9)]
AGES = pd.DataFrame({"age": RNG.random(12)}, index=pd.Index(USERS, name="user"))
STARS = np.round(3 + 2 * AGES.to_numpy() * RNG.standard_normal(9) + RNG.random((12, 9)), 1)
WIDE = pd.DataFrame(STARS, USERS, FILMS).mask(RNG.random((12, 9)) < 0.3)
LONG = WIDE.rename_axis("userId").melt(ignore_index=False, var_name="movieId", value_name="rating")
LONG = LONG.dropna().reset_index()
HOW = {"method": "kkmcex", "mu": 0.5}


def ordered(done):
    return done.filled.loc[USERS, FILMS].to_numpy()


EXPECTED = ordered(kf.complete(WIDE, rows=AGES, **HOW))


def arrays():
    coords = {"user": USERS, "film": FILMS, "age": ("user", AGES["age"].to_numpy())}
    at_r = [USERS.index(user) for user in LONG["userId"]]
    at_c = [FILMS.index(film) for film in LONG["movieId"]]
    stored = sparse.coo_array((LONG["rating"], (at_r, at_c)), shape=(12, 9))
    named = {"row_labels": USERS, "col_labels": FILMS}
    frame = pd.DataFrame.sparse.from_spmatrix(sparse.csr_matrix(stored), USERS, FILMS)
    return {
        "named long": (LONG, {"row": "userId", "col": "movieId", "value": "rating"}, AGES),
        "telling long": (LONG.assign(timestamp=range(len(LONG))), {}, AGES),
        "polars long": (pl.from_pandas(LONG), {}, pl.from_pandas(AGES.reset_index())),
        "polars wide": (pl.from_pandas(WIDE.rename_axis("user").reset_index()), {}, AGES),
        "xarray": (xr.DataArray(WIDE.to_numpy(), coords, ("user", "film")), {}, None),
        "labelled sparse": (kf.Observations.from_matrix(stored, **named), {}, AGES),
        "sparse frame": (frame, {}, AGES),
        "nullable": (WIDE.astype("Float64"), {}, AGES),
    }


@pytest.mark.parametrize("make", list(arrays()))
def test_every_make_is_completed_alike(make):
    table, roles, rows = arrays()[make]
    done = kf.complete(table, rows=rows, **roles, **HOW)
    np.testing.assert_allclose(ordered(done), EXPECTED, atol=1e-8)


def test_yes_and_no_are_numbers():
    seen = pd.DataFrame({"a": [True, None, False], "b": [True, True, None]}, dtype="boolean")
    plain = seen.astype("Float64")
    one, other = (kf.complete(table, method="mc", rank=1, mu=1.0).filled for table in (seen, plain))
    np.testing.assert_array_equal(one, other)


def test_new_items_of_polars():
    done = kf.complete(WIDE, rows=AGES, **HOW)
    new = pd.DataFrame({"user": ["x", "y"], "age": [0.2, 0.8]})
    plain = done.extrapolate(rows=new.set_index("user"))
    pd.testing.assert_frame_equal(done.extrapolate(rows=pl.from_pandas(new)), plain)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["user_id", "item_id", "rating"], ("user_id", "item_id", "rating")),
        (["Rating", "Movie", "User Name", "date"], ("User Name", "Movie", "Rating")),
        (["drug", "target", "affinity"], ("drug", "target", "affinity")),
        (["user", "item", "rating", "price"], None),
        (["user", "user2", "rating"], None),
        (["a", "b", "c"], None),
        (["user", "item", "clicked"], ("user", "item", "clicked")),
        (["station", "product", "trips", "date"], ("station", "product", "trips")),
    ],
)
def test_names_that_tell(names, expected):
    assert told_roles(names) == expected
