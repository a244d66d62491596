"""Word similarity: against SciPy on every pair, on vocabularies whose answer is known."""

import hashlib
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr

from course_lab import corpora, published
from course_lab.corpora import registry
from course_lab.corpora import similarity as source
from course_lab.corpora.registry import File
from course_lab.corpora.similarity import Benchmark, load_word_similarity
from course_lab.statistics import wins
from course_lib.data import folders
from course_lib.errors import CourseError
from course_lib.metrics.similarity import (
    Similarity,
    as_written,
    lower_cased,
    similarities,
    similarity,
)

pytestmark = pytest.mark.usefixtures("device")

few = settings(max_examples=30, deadline=None)
seeds = st.integers(0, 2**32 - 1)


def vocabulary(n):
    return [f"word{i}" for i in range(n)]


def benchmark(seed, words, n, ties=5):
    random = np.random.default_rng(seed)
    return Benchmark(
        [tuple(random.choice(words, 2)) for _ in range(n)],
        random.integers(0, ties, n).astype(float),
    )


@few
@given(seeds, st.integers(3, 40), st.integers(2, 30))
def test_rho_is_scipys_over_the_pairs_found(seed, n, known):
    words = vocabulary(30)
    bench, W = benchmark(seed, words, n), np.random.default_rng(seed).normal(size=(known, 4))
    found = similarity(W, words[:known], bench, resamples=100)
    cosines, scores = [], []
    for (a, b), score in zip(*bench, strict=True):
        if max(i := words.index(a), j := words.index(b)) < known:
            cosines.append(W[i] @ W[j] / np.linalg.norm(W[i]) / np.linalg.norm(W[j]))
            scores.append(score)
    assert (found.found, found.missing) == (len(scores), n - len(scores))
    if len(scores) < 3:
        assert np.isnan([found.rho, found.low, found.high]).all()
    elif np.ptp(np.round(cosines, 12)) and np.ptp(scores):
        expected = spearmanr(np.round(cosines, 12), scores).statistic
        assert found.rho == pytest.approx(expected, abs=1e-9)
        assert found.low <= found.rho + 1e-9 or found.found < 8


def test_what_does_not_vary_has_no_rho_and_without_resamples_there_is_no_interval():
    words, W = vocabulary(4), np.random.default_rng(0).normal(size=(4, 3))
    pairs = [(words[0], words[1]), (words[0], words[2]), (words[1], words[3])]
    constant = similarity(W, words, Benchmark(pairs, np.ones(3)))
    assert np.isnan(constant[:3]).all() and constant.found == 3
    plain = similarity(W, words, Benchmark(pairs, np.arange(3.0)), resamples=0)
    assert np.isfinite(plain.rho) and np.isnan([plain.low, plain.high]).all()


def test_vectors_that_agree_with_people():
    """On a circle: the closer the angle, the more similar. Any increasing judgement gives ρ = 1."""
    words, angles = vocabulary(40), np.linspace(0, 3, 40)
    W = np.stack([np.cos(angles), np.sin(angles)], 1)
    pairs = [("word0", word) for word in words[1:]]
    agree = Benchmark(pairs, np.exp(-angles[1:]))
    lengths = np.geomspace(1e-3, 1e3, 40)[:, None]  # which the rows lose
    for matrix in (W, lengths * W, torch.from_numpy(lengths * W).requires_grad_()):
        assert similarity(matrix, words, agree)[:3] == pytest.approx((1, 1, 1))
    against = Benchmark(pairs, angles[1:])
    assert similarity(W, words, against)[:3] == pytest.approx((-1, -1, -1))


def test_the_interval_holds_what_it_says():
    """Over 200 benchmarks of a known correlation, the 95 % interval holds it about as often."""
    random, hits, words = np.random.default_rng(0), 0, vocabulary(400)
    angles = random.uniform(0, 3, 200)
    W = np.zeros((400, 2))
    W[:200, 0], W[200:] = 1, np.stack([np.cos(angles), np.sin(angles)], 1)
    whole = -angles + random.normal(size=200)
    truth = spearmanr(np.cos(angles), whole).statistic
    for seed in range(200):
        chosen = np.random.default_rng(seed).integers(0, 200, 60)
        bench = Benchmark([(words[i], words[200 + i]) for i in chosen], whole[chosen])
        found = similarity(W, words, bench, resamples=200, seed=seed)
        hits += found.low <= truth <= found.high
    assert 175 <= hits <= 197
    again = similarity(W, words, bench, resamples=200, seed=199)
    assert again == found != similarity(W, words, bench, resamples=200, seed=7)


def test_few_pairs_have_an_interval_too():
    """Some of the resamples are one pair three times, which orders nothing."""
    bench = Benchmark([("a", "b"), ("a", "c"), ("b", "c")], np.array([1.0, 2.0, 3.0]))
    found = similarity(np.array([[1, 0], [1, 3], [0, 1.0]]), ["a", "b", "c"], bench)
    assert found.found == 3 and np.isfinite(found[:3]).all() and found.rho == pytest.approx(0.5)


def test_equal_cosines_tie_whatever_the_rounding():
    """Rows of three pairs differ by a factor alone, which moves the last digit of their cosine."""
    first, second = np.random.default_rng(142).normal(size=(2, 7))
    W = np.stack([f * row for f in (1, 3, 0.1) for row in (first, second)] + [first, first])
    words = vocabulary(8)
    pairs = list(zip(words[::2], words[1::2], strict=True))
    found = similarity(W, words, Benchmark(pairs, np.array([1.0, 2, 3, 4])), resamples=0)
    assert found.rho == pytest.approx(spearmanr([0, 0, 0, 1], [1, 2, 3, 4]).statistic)


def test_lower_case_wins_else_the_first():
    index = lower_cased(["The", "the", "THE", "Paris", "PARIS", "Rome"])
    assert index == {"the": 1, "paris": 3, "rome": 5}
    bench = Benchmark([("paris", "the"), ("rome", "berlin")], np.ones(2))
    assert similarity(np.eye(2), ["The", "Paris"], bench)[3:] == (1, 1)


def test_the_papers_look_up_misses_what_has_capitals_only():
    """lmkit looks a lower-cased word up in the vocabulary as it is."""
    words = ["The", "the", "Paris", "rome", "Berlin", "berlin"]
    assert as_written(words) == {word: i for i, word in enumerate(words)}
    bench = Benchmark([("paris", "the"), ("rome", "berlin"), ("rome", "the")], np.ones(3))
    assert similarity(np.eye(6), as_written(words), bench)[3:] == (2, 1)
    assert similarity(np.eye(6), lower_cased(words), bench)[3:] == (3, 0)


def test_a_table_for_all_benchmarks():
    words, W = vocabulary(12), np.random.default_rng(0).normal(size=(12, 3))
    benches = {"a": benchmark(0, words, 20), "b": benchmark(1, vocabulary(20), 30)}
    table = similarities(W, words, benches, resamples=50)
    assert table.columns.tolist() == list(Similarity._fields)
    for name, bench in benches.items():
        one = similarity(W, lower_cased(words), bench, resamples=50)
        assert table.loc[name].tolist() == pytest.approx(list(one))


@pytest.mark.parametrize(
    "W", [np.ones(4), np.ones((3, 2)), np.full((4, 2), np.nan)], ids=["flat", "short", "nan"]
)
def test_vectors_must_fit_the_words(W):
    bench = Benchmark([("word0", "word1")], np.ones(1))
    with pytest.raises(CourseError, match="a finite vector for each of 4 words"):
        similarity(W, vocabulary(4), bench)


def small_files(tmp_path, monkeypatch, text="Tiger\tcat\t7.35\r\ntiger\tTIGER\t10\r\n"):
    """The loader with two benchmarks of its own."""
    folder = tmp_path / "word-similarity"
    folder.mkdir()
    rows = []
    for name in ("one", "two"):
        (folder / f"EN-{name}.txt").write_bytes(text.encode())
        rows.append(
            (name, f"EN-{name}.txt", 2, len(text), hashlib.sha256(text.encode()).hexdigest())
        )
    files = tuple(File(r[1], r[3], r[4], ("http://127.0.0.1:9/none",)) for r in rows)
    entry = replace(registry.WORD_SIMILARITY, files=files)
    monkeypatch.setattr(source, "BENCHMARKS", rows)
    monkeypatch.setitem(registry.DOWNLOADS, "word-similarity", entry)
    monkeypatch.setattr(folders, "corpora", lambda: tmp_path)
    return folder


def test_benchmarks_are_read_in_lower_case(tmp_path, monkeypatch):
    small_files(tmp_path, monkeypatch)
    found = load_word_similarity()
    assert list(found) == ["one", "two"]
    assert found["one"].pairs == [("tiger", "cat"), ("tiger", "tiger")]
    assert found["one"].scores.tolist() == [7.35, 10]


def test_a_missing_or_changed_benchmark_says_what_to_do(tmp_path, monkeypatch):
    folder = small_files(tmp_path, monkeypatch)
    (folder / "EN-two.txt").write_text("tiger\tcat\t1")
    with pytest.raises(CourseError, match="EN-two.txt is not the published file .truncated"):
        load_word_similarity()
    (folder / "EN-two.txt").unlink()
    with pytest.raises(
        CourseError, match="could not be downloaded.*EN-two.txt .SHA-256 [0-9a-f]{64}"
    ):
        load_word_similarity()


def test_the_thirteen_are_registered():
    entry = registry.DOWNLOADS["word-similarity"]
    assert len(entry.files) == 13 and sum(row[2] for row in registry.BENCHMARKS) == 11_768
    assert all(len(f.sha256) == 64 and len(f.mirrors) == 3 for f in entry.files)
    assert len({f.sha256 for f in entry.files}) == 13


def test_pairs_in_common_are_counted_in_either_order():
    lists = {
        "one": Benchmark([("a", "b"), ("c", "d")], np.arange(2.0)),
        "twice": Benchmark([("b", "a"), ("a", "b"), ("e", "f")], np.arange(3.0)),
    }
    assert source.pairs_in_common(lists).to_numpy().tolist() == [[2, 1], [1, 2]]


def test_a_list_lies_within_a_larger_one_that_has_all_its_pairs():
    holders = source.holders()
    assert list(holders) == [row[0] for row in registry.BENCHMARKS]
    shares = source.overlap()
    for name, larger in holders.items():
        others = shares.columns.drop(name)
        assert larger == {other for other in others if shares.loc[name, other] == 1}
    assert source.apart(["MC-30", "MEN", "RG-65", "own"]) == ["MEN", "RG-65", "own"]
    assert source.apart(["MC-30", "MEN"]) == ["MC-30", "MEN"]


@pytest.mark.skipif(not source.fetched(), reason="the benchmarks are not on this machine")
def test_what_is_kept_of_pairs_in_common_is_what_the_lists_say():
    counted = source.pairs_in_common(load_word_similarity())
    kept = pd.read_csv(source.IN_COMMON, index_col=0)
    pd.testing.assert_frame_equal(counted, kept)


# Pairs missing from the corpora's vocabularies, by look-up.
MISSING = {
    ("ptb", lower_cased): (116, 66, 80, 55, 21, 146, 346, 1952, 65, 9, 1889, 1746, 424),
    ("ptb", as_written): (116, 66, 80, 55, 21, 146, 346, 1952, 65, 9, 1889, 1746, 424),
    ("wikitext-2", lower_cased): (34, 20, 19, 17, 4, 25, 74, 695, 43, 0, 1580, 1025, 83),
}
CORPORA = ("ptb", "wikitext-2", "word-similarity")
have = {name: (folders.corpora() / name).is_dir() for name in CORPORA}


@pytest.mark.skipif(not all(have.values()), reason="the corpora are not on this machine")
@pytest.mark.parametrize("name, look_up", MISSING)
def test_pairs_missing_from_the_corpora(name, look_up):
    words = corpora.load(name).words
    none = np.zeros((len(words), 1))
    table = similarities(none, look_up(words), load_word_similarity(), resamples=0)
    assert (table.found + table.missing).sum() == 11_768
    assert tuple(table.missing) == MISSING[name, look_up]


@pytest.mark.parametrize("corpus", ["ptb", "wikitext-2"])
def test_wins_of_the_published_correlations_are_the_published_wins(corpus):
    """Figure 4 of parthiban2021 out of its supplement's Table 3."""
    rows = published.rows().query(f"paper == 'parthiban2021' & corpus == '{corpus}'")
    rho = rows[rows.metric == "spearman"].pivot(index="setting", columns="method", values="value")
    assert rho.shape == (13, 6) and set(rho.index) == {row[0] for row in registry.BENCHMARKS}
    [said] = rows[rows.metric == "similarity wins"].to_dict("records")
    assert wins(rho).loc["moc", "mos"] == said["value"]
