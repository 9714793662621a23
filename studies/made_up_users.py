"""Made-up tables as people have them: star ratings with users and films, and hourly sensors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

JOBS = ("student", "engineer", "artist", "lawyer", "doctor", "other", "retired", "sales")
GENRES = np.array(
    ["Action", "Comedy", "Drama", "Horror", "Romance", "SciFi", "Thriller", "Documentary",
     "Animation"]
)  # fmt: skip
FIRST = ("The", "Last", "First", "Dark", "Golden", "Silent", "Broken", "Hidden")
SECOND = ("King", "River", "Night", "Dream", "City", "Garden", "War", "House", "Star", "Road")


@dataclass(frozen=True)
class Ratings:
    """Stars from 1 to 5, one for each line, and what is known about users and films."""

    stars: pd.DataFrame
    users: pd.DataFrame
    films: pd.DataFrame


@dataclass(frozen=True)
class Sensors:
    """Readings by sensor and hour without a gap, where they are missing, and places."""

    readings: pd.DataFrame
    missing: np.ndarray
    places: pd.DataFrame


def ratings(seed=12, users=2000, films=800, count=60_000):
    """Tastes depend on occupation, age and gender through genres; noise 0.7 before rounding."""
    rng = np.random.default_rng(seed)
    age = rng.integers(16, 75, users).astype(float)
    gender, job = rng.choice(["M", "F"], users), rng.integers(0, len(JOBS), users)
    genre = rng.random((films, len(GENRES))) < 0.22
    genre[np.arange(films), rng.integers(0, len(GENRES), films)] = True
    year = rng.integers(1940, 2022, films)
    titles = [
        f"{rng.choice(FIRST)} {rng.choice(SECOND)} of {rng.choice(SECOND)} ({y})" for y in year
    ]
    taste = rng.normal(0, 0.5, (len(JOBS), len(GENRES)))[job]
    taste += ((age - 45) / 18)[:, None] * rng.normal(0, 0.35, len(GENRES))
    taste += (gender == "M")[:, None] * rng.normal(0, 0.3, len(GENRES))
    taste += rng.normal(0, 0.3, (users, len(GENRES)))
    like = taste @ (genre / np.sqrt(genre.sum(1))[:, None]).T
    busy, known = rng.gamma(1.2, 1, users) + 0.1, rng.gamma(0.8, 1, films) + 0.1
    drawn = rng.choice(users, 3 * count, p=busy / busy.sum()) * films
    drawn += rng.choice(films, 3 * count, p=known / known.sum())
    i, j = np.divmod(pd.unique(drawn)[:count], films)
    score = 3.5 + rng.normal(0, 0.4, users)[i] + rng.normal(0, 0.45, films)[j]
    score += 0.9 * like[i, j] + rng.normal(0, 0.7, len(i))
    stars = np.clip(np.round(score), 1, 5).astype(int)
    when = 978_300_000 + rng.integers(0, 10**8, len(i))
    people = pd.DataFrame({"age": age, "gender": gender, "occupation": np.array(JOBS)[job]})
    people["zip"] = rng.integers(10_000, 99_999, users)
    people.loc[rng.choice(users, users * 3 // 100, replace=False), "age"] = np.nan
    people.loc[rng.choice(users, users // 50, replace=False), "gender"] = None
    genres = ["|".join(GENRES[row]) for row in genre]
    works = pd.DataFrame({"title": titles, "year": year, "genres": genres})
    return Ratings(
        pd.DataFrame({"user": i + 1, "film": j + 1001, "stars": stars, "timestamp": when}),
        people.set_axis(np.arange(users) + 1),
        works.set_axis(np.arange(films) + 1001),
    )


def sensors(seed=11, count=200, hours=3000):
    """A day, a week and a drift, noise 0.4; stretches of 24 to 150 hours and one sensor missing."""
    rng = np.random.default_rng(seed)
    place, t = rng.random((count, 2)), np.arange(hours)
    phase = rng.normal(0, 0.3, count) + 1.5 * place[:, 0]
    day = (3 + 2 * place[:, 0])[:, None] * np.sin(2 * np.pi * t / 24 + phase[:, None])
    week, drift = 1.5 * np.sin(2 * np.pi * t / 168), np.cumsum(rng.normal(0, 0.05, hours))
    values = (10 + 5 * place[:, 1])[:, None] + day + week + drift
    values = values + rng.normal(0, 0.4, (count, hours))
    gone = np.zeros(values.shape, dtype=bool)
    for i in range(count):
        for _ in range(max(1, hours // 600)):
            start = rng.integers(0, max(1, hours - 150))
            gone[i, start : start + rng.integers(24, 150)] = True
    gone[7] = True
    names = [f"s{i:03d}" for i in range(count)]
    when = pd.date_range("2026-06-01", periods=hours, freq="h")
    return Sensors(pd.DataFrame(values, names, when), gone, pd.DataFrame(place, names, ["x", "y"]))


def items(count=100_000, seed=0):
    """A table of features: words as rare as in texts, dates, gaps, labels and codes."""
    rng = np.random.default_rng(seed)
    rare = 1.0 / np.arange(1, 20_001)
    words = rng.choice(20_000, (count, 12), p=rare / rare.sum())
    genre = rng.choice(GENRES, (count, 2))
    price = rng.gamma(2.0, 3.0, count)
    price[rng.random(count) < 0.05] = np.nan
    return pd.DataFrame(
        {
            "text": [" ".join(f"word{k}" for k in line) for line in words],
            "released": pd.Timestamp("2000-01-01") + pd.to_timedelta(
                rng.integers(0, 9000, count), "D"
            ),
            "price": price,
            "genres": ["|".join(dict.fromkeys(pair)) for pair in genre],
            "postcode": rng.integers(10_000, 99_999, count) // 100,
        },
        index=pd.Index([f"i{k}" for k in range(count)], name="item"),
    )  # fmt: skip
