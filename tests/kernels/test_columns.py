"""Kernels of columns that are no plain numbers, and of numbers that are missing."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import kronfill as kf
from kronfill.completion.feature_sources import feature_sources
from kronfill.data.reading.column_kinds import feature_words, recognise
from kronfill.errors import FeatureError, ParameterError
from kronfill.kernels.columns.dates import are_dates, rhythms
from kronfill.kernels.columns.gaps import gappy_rbf
from kronfill.kernels.columns.single_columns import (
    ALIKE,
    BagEncoder,
    FingerprintEncoder,
    KmerEncoder,
    column_table,
)
from kronfill.kernels.dotproduct import Linear


def is_psd(K):
    return np.linalg.eigvalsh(K).min() > -1e-10


def kernel_of(encoder, values):
    return Linear(column_table(encoder, pd.Series(values, dtype=object)))


numbers = st.one_of(st.none(), st.integers(-3, 3).map(float))
cities = st.one_of(st.none(), st.sampled_from(["Rome", "Oslo", "Bonn"]))


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(numbers, numbers, cities), min_size=2, max_size=12))
def test_gaps_are_expected_distances(lines):
    frame = pd.DataFrame(lines, columns=["age", "size", "city"])
    frame[["age", "size"]] = frame[["age", "size"]].astype(float)
    if frame.isna().all().any():
        return
    kernel = gappy_rbf(frame)
    K = kernel.to_array()
    assert is_psd(K)
    scale = (kernel.parts[0] if frame.isna().any(axis=None) else kernel).length_scale
    # The slow way: the mean over all values that a missing one may have.
    ways = {"age": [], "size": [], "city": []}
    for name in ("age", "size"):
        known = frame[name].dropna()
        spread = known.std(ddof=0) or 1.0
        ways[name] = [(v - known.mean()) / spread for v in known]
        frame[name] = (frame[name] - known.mean()) / spread
    ways["city"] = list(frame["city"].dropna())

    def expected(name, a, b):
        def distance(u, v):
            return 2.0 * (u != v) if name == "city" else (u - v) ** 2

        left = ways[name] if pd.isna(a) else [a]
        right = ways[name] if pd.isna(b) else [b]
        return np.mean([distance(u, v) for u in left for v in right])

    for i in range(len(frame)):
        for j in range(len(frame)):
            pairs = zip(frame.columns, frame.iloc[i], frame.iloc[j], strict=True)
            total = sum(expected(*pair) for pair in pairs)
            lacks = frame.iloc[i].isna().all() or frame.iloc[j].isna().all()
            if i != j or not frame.iloc[i].isna().any():
                want = 0.0 if lacks else math.exp(-total / (2 * scale**2))
                assert_allclose(K[i, j], want, atol=1e-12)


def test_without_gaps_it_is_the_usual_kernel_and_new_items_may_have_some():
    frame = pd.DataFrame({"x": [1.0, 2.0, 4.0], "k": ["a", "b", "a"]}, index=list("pqr"))
    kernel = gappy_rbf(frame)
    assert np.array_equal(kernel.to_array(), kf.kernels.rbf(frame).to_array())
    assert_allclose(kernel.cross(frame), kernel.to_array())
    mean = pd.DataFrame({"x": [7 / 3], "k": ["a"]})
    lacking = pd.DataFrame({"x": [None], "k": ["a"]})
    assert_allclose(kernel.cross(lacking), kernel.cross(mean))


def test_many_categories_with_gaps_stay_sparse():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"k": rng.integers(0, 400, 900).astype(str), "x": rng.random(900)})
    frame.loc[::7, "k"] = None
    frame.loc[::5, "x"] = np.nan
    kernel = gappy_rbf(frame)
    assert kernel.parts[0].table.encoder.inner.dense is False
    some = np.arange(40)
    K = kernel.block(some, some)
    assert is_psd(K)
    assert_allclose(kernel.cross(frame.iloc[:40], some), K, atol=1e-12)


labels = st.lists(st.sampled_from(["Action", "War", "Sci Fi", "Art"]), max_size=4)


@settings(deadline=None, max_examples=30)
@given(st.lists(labels, min_size=2, max_size=8))
def test_labels_are_shared_or_not(sets):
    if not any(sets):
        return
    cells = ["|".join(some) or None for some in sets]
    kernel = kernel_of(BagEncoder.fit(pd.Series(cells, dtype=object), "g", "labels"), cells)
    K = kernel.to_array()
    assert is_psd(K)
    for i, a in enumerate(map(set, sets)):
        for j, b in enumerate(map(set, sets)):
            want = len(a & b) / math.sqrt(len(a) * len(b)) if a and b else 0.0
            assert_allclose(K[i, j], want, atol=1e-12)
    assert_allclose(kernel.cross(pd.DataFrame({"g": cells})), K)


def test_labels_in_lists_and_new_labels():
    cells = [["a", "b"], ("b",), {"c"}]
    encoder = BagEncoder.fit(pd.Series(cells), "g", "labels")
    assert_allclose(kernel_of(encoder, cells).to_array()[0, 1], 1 / math.sqrt(2))
    assert_allclose(kernel_of(encoder, cells).cross(pd.DataFrame({"g": [["z"], ["b", "z"]]})),
                    [[0, 0, 0], [1 / math.sqrt(2), 1, 0]])  # fmt: skip


def test_words_as_scikit_learn_counts_them():
    from sklearn.feature_extraction.text import TfidfVectorizer

    texts = ["the dark river", "the river of the king", "golden king", "silent dark dark night"]
    tool = TfidfVectorizer(token_pattern=r"\w\w+", sublinear_tf=True)
    want = tool.fit_transform(texts).toarray()
    encoder = BagEncoder.fit(pd.Series(texts), "title", "text")
    assert encoder.vocabulary == tuple(tool.get_feature_names_out())
    assert_allclose(encoder.encode(pd.DataFrame({"title": texts})).toarray(), want)
    assert_allclose(kernel_of(encoder, texts).to_array(), want @ want.T)


def test_very_many_words_are_hashed(monkeypatch):
    monkeypatch.setattr("kronfill.kernels.columns.single_columns.MOST_WORDS", 64)
    texts = [f"word{k} word{k + 1} common" for k in range(100)]
    encoder = BagEncoder.fit(pd.Series(texts), "t", "text")
    assert encoder.vocabulary == ()
    K = kernel_of(encoder, texts).to_array()
    assert is_psd(K)
    assert_allclose(np.diag(K), 1.0)
    assert_allclose(kernel_of(encoder, texts).cross(pd.DataFrame({"t": texts[:3]})), K[:3])


@settings(deadline=None, max_examples=30)
@given(st.lists(st.text(alphabet="ACDEXG", max_size=9), min_size=2, max_size=6))
def test_sequences_share_pieces(sequences):
    K = kernel_of(KmerEncoder("s", "protein", 3), sequences).to_array()
    assert is_psd(K)
    found = []
    for text in sequences:
        pieces = (text[k : k + 3] for k in range(len(text) - 2))
        found.append(Counter(piece for piece in pieces if "X" not in piece))
    for i, a in enumerate(found):
        for j, b in enumerate(found):
            shared = sum(math.sqrt(a[piece] * b[piece]) for piece in a)
            size = math.sqrt(sum(a.values()) * sum(b.values()))
            assert_allclose(K[i, j], shared / size if size else 0.0, atol=1e-12)


@settings(deadline=None, max_examples=30)
@given(st.lists(st.text(alphabet="ACDEKRXst", max_size=12), min_size=2, max_size=6))
def test_letters_of_a_group_count_as_one(sequences):
    encoder = KmerEncoder.usual("s", "protein")
    K = kernel_of(encoder, sequences).to_array()
    assert is_psd(K)
    group = {letter: some[0] for some in ALIKE for letter in some}
    blunt = ["".join(group.get(letter, "X") for letter in text.upper()) for text in sequences]
    assert_allclose(K, kernel_of(KmerEncoder("s", "protein", 6), blunt).to_array(), atol=1e-12)
    assert_allclose(kernel_of(encoder, sequences).cross(pd.DataFrame({"s": sequences})), K)


def test_sequences_of_earlier_files_are_read_letter_by_letter():
    """A file without groups; one with groups that are not of the alphabet is refused."""
    assert KmerEncoder("s", "protein", 3).width == 20**3
    assert KmerEncoder("s", "protein", 3).fits_together()
    assert KmerEncoder.usual("s", "nucleotide").fits_together()
    assert not KmerEncoder("s", "protein", 3, ("AC", "A")).fits_together()


def test_rna_is_read_as_dna():
    K = kernel_of(KmerEncoder("s", "nucleotide", 6), ["ACGUACGUA", "acgtacgta", "GGGGGGGG"])
    assert_allclose(K.to_array(), [[1, 1, 0], [1, 1, 0], [0, 0, 1]])


def test_molecules():
    chem = pytest.importorskip("rdkit.Chem")
    from rdkit import DataStructs
    from rdkit.Chem import rdFingerprintGenerator

    smiles = ["CCO", "CCN", "c1ccccc1O", None]
    (source,), words = feature_sources(pd.DataFrame({"s": smiles}), {"s": "smiles"})
    assert words == ": s (molecules, SMILES, 1 missing)"
    K = source.kernel.to_array()
    tool = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=2048)
    prints = [tool.GetFingerprint(chem.MolFromSmiles(one)) for one in smiles[:3]]
    want = [[DataStructs.TanimotoSimilarity(a, b) for a in prints] for b in prints]
    assert_allclose(K[:3, :3], want)
    assert not K[3].any()
    new = pd.DataFrame({"s": ["OCC", None]})
    assert_allclose(source.kernel.cross(new), [K[0], np.zeros(4)])
    assert_allclose(source.kernel.new_diagonal(new), [1.0, 0.0])
    with pytest.raises(FeatureError, match=r"'C\(\(' at 0, which is no molecule"):
        FingerprintEncoder("s", 2, 2048, False).encode(pd.DataFrame({"s": ["C(("]}))


def test_rhythms_that_the_dates_can_tell():
    hourly = np.arange(24 * 30) / 24
    assert rhythms(hourly) == ["day", "week"]
    assert rhythms(hourly[:30]) == []
    assert rhythms(np.arange(365.0 * 3)) == ["week", "year"]
    assert rhythms(np.arange(0, 3000, 30.4)) == ["year"]
    assert rhythms(np.arange(0, 3000, 200.0)) == []
    assert are_dates(list(pd.date_range("2024-01-01", periods=5)))
    assert are_dates(["2024-01-01", "2024-01-02", "2024-01-03 12:00", "2024-01-05"])
    assert not are_dates(["a", "b", "c", "d"])
    assert not are_dates([2021, 2022, 2023, 2024])


ROWS = 40


@pytest.mark.parametrize(
    ("name", "values", "kind"),
    [
        ("age", np.arange(ROWS) % 30, "number"),
        ("zip", np.arange(ROWS) % 4 + 10_000, "code"),
        ("zip", np.arange(ROWS) + 10_000, "ignore"),
        ("user_id", np.arange(ROWS), "ignore"),
        ("plate", [f"{k % 9:03d}" for k in range(ROWS)], "code"),
        ("name", [f"x{k}q" for k in range(ROWS)], "ignore"),
        ("city", [f"c{k % 5}" for k in range(ROWS)], "category"),
        ("title", [f"The {['dark', 'red'][k % 2]} king of {k}" for k in range(ROWS)], "text"),
        ("genres", ["Action|War", "War"] * (ROWS // 2), "labels"),
        ("genres", ["Action, War", "War", "Art, War, Action", "Art"] * (ROWS // 4), "labels"),
        ("since", [f"2024-01-{k % 28 + 1:02d}" for k in range(ROWS)], "date"),
        ("when", pd.date_range("2024-01-01", periods=ROWS), "date"),
        ("mol", ["CCO", "c1ccccc1O", "CC(=O)N", "CN1C=NC2=C1"] * (ROWS // 4), "smiles"),
        ("dna", ["ACGT" * (5 + k % 7) for k in range(ROWS)], "nucleotide"),
        ("protein", ["MKKFFDSRREQGGSGLGSGSSW" * (1 + k % 3) for k in range(ROWS)], "protein"),
        ("flag", [True, False] * (ROWS // 2), "bool"),
        ("nothing", [None] * ROWS, "ignore"),
        # Sentences have commas too.
        ("note", [f"Well made, said number {k} of all those many people" for k in range(ROWS)],
         "text"),
    ],
)  # fmt: skip
def test_what_a_column_is_taken_for(name, values, kind):
    assert recognise(pd.DataFrame({name: values}))[name].kind == kind


def test_one_may_say_otherwise():
    frame = pd.DataFrame({"zip": [1, 2, 1], "genres": ["a|b", "b", "b"]})
    said = {"zip": "number", "genres": "category"}
    assert {n: f.kind for n, f in recognise(frame, said).items()} == said
    assert feature_words(recognise(frame)) == (
        "zip (codes, 2 categories), genres (2 labels, up to 2 each)"
    )
    with pytest.raises(ParameterError, match=r"one of number, bool.*genres='list'"):
        recognise(frame, {"genres": "list"})
    with pytest.raises(FeatureError, match="No column tells which items are alike"):
        feature_sources(frame, {"zip": "ignore", "genres": "ignore"})
    with pytest.raises(ParameterError, match="impute must be one of"):
        feature_sources(frame, impute="median")
