"""Sentence pairs: the shared encoding, compact rows, splits and token-bounded batches."""

import json
import subprocess
import sys
import unicodedata

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib import data
from course_lib.data import bpe, folders
from course_lib.data.buckets import cut
from course_lib.data.cache import cached
from course_lib.data.pairs import encoded
from course_lib.data.rows import Ids, Texts, compact_columns
from course_lib.errors import CourseError
from course_lib.targets import IGNORE

GERMAN = ["Ein Mann läuft.", "Zwei Männer laufen, einer sitzt.", "Das Kind läuft heute nicht!"]
ENGLISH = ["A man is running.", "Two men run, one sits.", "The child doesn't run today!"]
SIGNS = "abdekmnpsuEÄäéß <>_.,'\"-!?…0159▁\t\u00a0"
TEXTS = st.lists(st.sampled_from([*SIGNS, "e\u0301"]), max_size=30).map("".join) | st.sampled_from(
    ["<unk>", "<pad> a", ""]
)


def toy(lowercase=False, pieces=200, direction="de-en", repeat=3, extra=()):
    """Pairs whose train split has every sign of SIGNS; the splits are cut from the same lists."""
    source, target = GERMAN * repeat + [SIGNS], ENGLISH * repeat + [SIGNS.upper() + SIGNS.lower()]
    sides = (source, target) if direction == "de-en" else (target, source)
    few = (sides[0][:2], sides[1][:2])
    texts = {"train": sides, "valid": few, "test": (few[0] + list(extra), few[1] + list(extra))}
    return encoded("toy", texts, direction, pieces, lowercase)


@pytest.fixture(scope="module")
def pairs():
    return toy()


@pytest.fixture(scope="module")
def lowered():
    return toy(lowercase=True)


# the encoding


@given(TEXTS)
@settings(deadline=None)
def test_decode_undoes_encode(pairs, lowered, text):
    plain = " ".join(unicodedata.normalize("NFC", text).replace("▁", "_").split())
    assert bpe.normalise(text) == plain
    assert pairs.decode(pairs.encode(text)) == plain
    assert lowered.decode(lowered.encode(text)) == bpe.normalise(text, lowercase=True)
    assert pairs.encode(text).dtype == torch.int64 and pairs.unk not in pairs.encode(text)


@given(TEXTS)
@settings(deadline=None)
def test_no_piece_crosses_a_word(pairs, text):
    words = [word for word, _ in bpe.WORDS.pre_tokenize_str(bpe.normalise(text))]
    pieces = [pairs.words[i] for i in pairs.encode(text)]
    assert "".join(pieces) == "".join(words)
    ends = set(np.cumsum([len(word) for word in words]).tolist())
    assert ends <= set(np.cumsum([len(piece) for piece in pieces]).tolist())


@pytest.mark.parametrize(
    "text, expected",
    [
        ('Er sagt: "Nein, danke!"', 'Er sagt : " Nein , danke ! "'),
        ("It costs 1,000.50 euros...", "It costs 1,000.50 euros ..."),
        ("don't Vater-und-Sohn (x)", "don 't Vater-und-Sohn ( x )"),
        ("", ""),
    ],
)
def test_tokenise_separates_signs_from_words(text, expected):
    assert data.tokenise(text) == expected


def test_special_pieces_come_first_and_are_never_read_from_text(pairs):
    assert pairs.words[:4] == ["<pad>", "<bos>", "<eos>", "<unk>"] == list(bpe.SPECIAL)
    assert (pairs.pad, pairs.bos, pairs.eos, pairs.unk) == (0, 1, 2, 3)
    assert min(pairs.encode("<pad> <eos> <unk>")) > 3
    row = pairs.encode("A man runs.").tolist()
    assert pairs.decode([1, *row, 2, 0, 0]) == pairs.decode(torch.tensor(row)) == "A man runs."
    assert pairs.encode("Ω").tolist()[-1] == pairs.unk and "Ω" not in pairs.decode(
        pairs.encode("Ω")
    )


def test_merges_are_learned_by_falling_count():
    """The first merges of a text that Sennrich's algorithm can be followed on by hand."""
    learned = json.loads(bpe.learn(["aab aab aab ab"], pieces=4 + 3 + 3))
    assert [list(merge) for merge in learned["model"]["merges"]] == [
        ["a", "b"],  # 4 times
        ["a", "ab"],  # 3 times, as often as (▁, a), with the lower id
        ["▁", "aab"],  # 3 times
    ]


def test_the_same_merges_every_time_and_in_every_process():
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list("abcdefghij"), rng.integers(2, 9))) for _ in range(3000)]
    lines = [" ".join(words[i] for i in rng.integers(0, 3000, 20)) for _ in range(500)]
    first = bpe.learn(lines, 800)
    assert bpe.learn(lines, 800) == first == bpe.learn(lines[::-1], 800)
    program = "import sys; from course_lib.data import bpe; rows = sys.stdin.read().split('\\n'); "
    again = subprocess.run(
        [sys.executable, "-X", "utf8", "-c", program + "print(bpe.learn(rows, 800), end='')"],
        input="\n".join(lines),
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    assert again.stdout == first, again.stderr


def test_encoding_does_not_depend_on_the_direction(pairs):
    other = toy(direction="en-de")
    assert other.words == pairs.words
    assert list(other.train.target_text) == list(pairs.train.source_text)
    assert all(map(torch.equal, other.train.source, pairs.train.target))
    assert other.sha256 == pairs.sha256 and other.direction == "en-de"


def test_too_few_pieces_for_the_characters():
    with pytest.raises(
        CourseError, match="20 pieces are too few: the text has [0-9]+ different ch"
    ):
        toy(pieces=20)


def test_more_pieces_than_the_text_has():
    assert len(toy(pieces=5000)) < 400 and len(toy(pieces=90)) == 90


# the cache


def test_a_large_text_is_learned_once(monkeypatch, tmp_path):
    monkeypatch.setattr(folders, "cache", lambda: tmp_path / "cache")
    monkeypatch.setattr(bpe, "KEPT_FROM", 10)
    calls, learn = [], bpe.learn
    monkeypatch.setattr(bpe, "learn", lambda *a: calls.append(1) or learn(*a))
    first = toy()
    (path,) = (tmp_path / "cache").iterdir()
    assert toy(direction="en-de").words == first.words and len(calls) == 1
    whole = path.read_text()
    path.write_text(whole[:-40])
    assert toy().words == first.words and len(calls) == 2 and path.read_text() == whole
    toy(pieces=150), toy(lowercase=True), toy(repeat=4)
    assert len(calls) == 5 and len(list((tmp_path / "cache").iterdir())) == 4


def test_a_small_text_is_not_kept(monkeypatch, tmp_path):
    monkeypatch.setattr(folders, "cache", lambda: tmp_path / "cache")
    toy()
    assert not (tmp_path / "cache").exists()


def test_kept_content_is_made_again_if_it_is_damaged(tmp_path):
    path, made = tmp_path / "deep" / "x.json", []

    def make():
        made.append(1)
        return {"a": [1, 2.5, "ä"]}

    assert cached(path, make) == cached(path, make) == {"a": [1, 2.5, "ä"]} and len(made) == 1
    path.write_text(path.read_text().replace("2.5", "3.5"))
    assert cached(path, make) == {"a": [1, 2.5, "ä"]} and len(made) == 2
    assert [p.name for p in path.parent.iterdir()] == ["x.json"]


# rows and splits


@given(st.lists(st.lists(st.integers(0, 2**31 - 1), max_size=5), max_size=8), st.data())
@settings(deadline=None)
def test_rows_read_like_a_list(rows, draw):
    ids = Ids.of(rows)
    assert len(ids) == len(rows) and [x.tolist() for x in ids] == rows
    assert ids.lengths.tolist() == [len(row) for row in rows]
    assert ids.values.dtype == np.int32 and all(x.dtype == torch.int64 for x in ids)
    cut_at = slice(draw.draw(st.integers(-9, 9)), draw.draw(st.integers(-9, 9)))
    assert [x.tolist() for x in ids[cut_at]] == rows[cut_at]
    assert [x.tolist() for x in Ids.of([torch.tensor(row) for row in rows])] == rows
    if rows:
        assert ids[-1].tolist() == rows[-1]
    with pytest.raises(IndexError):
        ids[len(rows)]


@given(st.lists(st.tuples(st.text(max_size=5), st.text(max_size=5)), min_size=1, max_size=6))
@settings(deadline=None)
def test_texts_read_like_a_list(rows):
    left, right = compact_columns(iter(rows))
    assert list(left) == [x for x, _ in rows] and list(right) == [y for _, y in rows]
    assert list(Texts.of(list(left))) == list(left) and Texts.of(left) is left
    whole = "".join(f"{text}\n" for text in left)
    assert left.digest() == data.corpus.digest(whole)


def test_a_split_takes_lists_and_refuses_sides_of_different_length():
    ids = [torch.tensor([4, 5]), torch.tensor([6])]
    split = data.Split(ids, ids[::-1], ["a b", "c"], ["c", "a b"])
    assert len(split) == 2 and split.source[0].tolist() == [4, 5] and split.target_text[1] == "a b"
    with pytest.raises(CourseError, match=r"sides of a split have different lengths: \[1, 2\]"):
        data.Split(ids, ids[:1], ["a b", "c"], ["c", "a b"])


def test_counts_are_of_both_languages_with_line_ends(pairs):
    expected = torch.zeros(len(pairs), dtype=torch.int64)
    for side in (pairs.train.source, pairs.train.target):
        for row in side:
            for i in [*row.tolist(), pairs.eos]:
                expected[i] += 1
    assert torch.equal(pairs.counts, expected) and expected[:2].sum() == 0


def test_describe_and_origin(pairs):
    facts = pairs.describe()
    json.dumps(facts)
    assert facts["train pairs"] == len(pairs.train) == 10 and facts["direction"] == "de-en"
    lengths = sum(len(row) + 1 for row in pairs.train.source)
    assert facts["train tokens (de)"] == lengths and facts["unknown share"] == 0
    share = pairs.counts.double() / pairs.counts.sum()
    assert abs(facts["unigram entropy (nats)"] - torch.special.entr(share).sum().item()) < 1e-12
    assert set(facts["sha256"]) == {f"{s}.{x}" for s in data.SPLITS for x in ("de", "en")}
    assert pairs.index["▁man"] == pairs.words.index("▁man")


def test_small_takes_the_first_pairs_and_fewer_pieces(pairs):
    small, again = pairs.small(6, 2, 1, words=80), pairs.small(6, 2, 1, words=80)
    assert (len(small.train), len(small.valid), len(small.test), len(small)) == (6, 2, 1, 80)
    assert list(small.train.source_text) == pairs.train.source_text[:6]
    assert small.words == again.words and small.sha256 == again.sha256 != pairs.sha256
    assert small.decode(small.train.target[1]) == ENGLISH[1]
    assert small.describe()["name"] == "toy (small)"


def test_texts_stay_raw_where_ids_are_lower_cased(lowered):
    assert lowered.train.source_text[0] == GERMAN[0]
    assert lowered.decode(lowered.train.source[0]) == GERMAN[0].lower()
    assert lowered.describe()["lower-cased"]


def test_an_empty_split_is_refused():
    texts = {"train": (GERMAN, ENGLISH), "valid": ([], []), "test": (GERMAN, ENGLISH)}
    with pytest.raises(CourseError, match="corpus toy: the valid split is empty"):
        encoded("toy", texts, "de-en", 200)


# batches


def split_of(lengths) -> data.Split:
    """Pairs of given (source, target) lengths; each side's ids name the pair."""
    sides = [
        [torch.full((pair[side],), 10 + i) for i, pair in enumerate(lengths)] for side in (0, 1)
    ]
    text = [f"pair {i}" for i in range(len(lengths))]
    return data.Split(*sides, text, text)


LENGTHS = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), min_size=1, max_size=40)


@given(LENGTHS, st.integers(13, 60), st.integers(1, 4), st.none() | st.integers(0, 99))
@settings(deadline=None)
def test_every_pair_once_within_the_bound_and_as_many_batches_for_each_process(
    lengths, bound, world, seed
):
    split = split_of(lengths)

    def generator():
        return None if seed is None else torch.Generator().manual_seed(seed)

    whole = len(data.buckets(split, bound))
    if -(-whole // world) * world > len(lengths):
        with pytest.raises(CourseError, match=f"of one pair each do not divide by {world} proc"):
            data.buckets(split, bound, generator(), 0, world)
        return
    each = [data.buckets(split, bound, generator(), rank, world) for rank in range(world)]
    assert {len(batches) for batches in each} == {-(-whole // world)}
    rows = [row for batches in each for batch in batches for row in batch]
    assert sorted(rows) == list(range(len(lengths)))
    for batches in each:
        for batch in batches:
            longest = 1 + max(max(lengths[i]) for i in batch)
            assert batch and longest * len(batch) <= bound
    again = data.buckets(split, bound, generator(), 0, world)
    assert again == each[0]


@given(LENGTHS, st.integers(13, 60))
@settings(deadline=None)
def test_batches_are_as_few_as_can_be(lengths, bound):
    """Against dynamic programming over all ways to cut the sorted lengths."""
    longer = sorted(1 + max(pair) for pair in lengths)
    fewest = [0]
    for stop in range(1, len(longer) + 1):
        fits = [s for s in range(stop) if longer[stop - 1] * (stop - s) <= bound]
        fewest.append(1 + min(fewest[s] for s in fits))
    assert len(cut(longer, bound)) == len(data.buckets(split_of(lengths), bound)) == fewest[-1]


def test_neighbours_in_length_are_worked_on_together():
    lengths = [(n, n) for n in range(1, 200)]
    split = split_of(lengths)
    first, second = (
        data.buckets(split, 400, torch.Generator().manual_seed(3), rank, 2) for rank in (0, 1)
    )
    for mine, other in zip(first, second, strict=True):
        assert max(mine) + 1 == min(other)  # ids rise with length here


def test_the_generator_mixes_equal_lengths_and_the_order_of_batches():
    split = split_of([(4, 4)] * 40)
    orders = [data.buckets(split, 20, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2)]
    assert orders[0] == orders[1] != orders[2]
    assert {frozenset(batch) for batch in orders[0]} != {frozenset(batch) for batch in orders[2]}
    by_length = data.buckets(split_of([(n, n) for n in range(30)]), 31)
    assert [row for batch in by_length for row in batch] == list(range(30))
    mixed = data.buckets(
        split_of([(n, n) for n in range(30)]), 31, torch.Generator().manual_seed(1)
    )
    assert sorted(mixed) == sorted(by_length) and mixed != by_length


def test_a_sentence_too_long_for_a_batch_is_named():
    split = split_of([(3, 2), (2, 9), (1, 1)])
    with pytest.raises(CourseError, match="pair 2 has 10 tokens, more than a batch of 9: 'pair 1'"):
        data.buckets(split, 9)
    assert len(data.buckets(split, 10)) == 2


@given(LENGTHS)
@settings(deadline=None, max_examples=30)
def test_a_batch_is_time_major_and_padded(lengths):
    split = split_of(lengths)
    rows = list(range(len(lengths)))[::-1]
    source, tokens, target = data.collate(split, rows)
    for column, i in enumerate(rows):
        x, y = split.source[i].tolist(), split.target[i].tolist()
        wide = source[:, column].tolist()
        assert wide == x + [2] + [0] * (len(wide) - len(x) - 1)
        wide = tokens[:, column].tolist()
        assert wide == [1, *y] + [0] * (len(wide) - len(y) - 1)
        wide = target[:, column].tolist()
        assert wide == y + [2] + [IGNORE] * (len(wide) - len(y) - 1)
    assert len(source) == 1 + max(x for x, _ in lengths)
    assert tokens.shape == target.shape == (1 + max(y for _, y in lengths), len(rows))
    assert {source.dtype, tokens.dtype, target.dtype} == {torch.int64}


def test_token_batches_are_the_collated_buckets(pairs):
    generator, same = (torch.Generator().manual_seed(5) for _ in range(2))
    rows = data.buckets(pairs.train, 70, generator, 1, 2)
    batches = list(data.token_batches(pairs.train, 70, same, 1, 2))
    assert len(rows) == len(batches) > 1
    for batch, found in zip(rows, batches, strict=True):
        assert all(map(torch.equal, data.collate(pairs.train, batch), found))
        assert max(len(x) for x in found) * len(batch) <= 70


def test_batches_are_of_neighbours_in_length_of_both_sides():
    """By the longer side, then by the source; chance decides among pairs that are alike in both."""
    lengths = [(5, 9), (9, 2), (3, 9), (9, 9), (1, 2), (7, 9), (2, 1), (9, 5)] * 3
    split = split_of(lengths)

    def sizes(rows):
        return [(max(lengths[i]), lengths[i][0]) for i in rows]

    rows = [i for batch in data.buckets(split, 30) for i in batch]
    assert sizes(rows) == sorted(sizes(rows))
    for seed in range(5):
        batches = data.buckets(split, 30, torch.Generator().manual_seed(seed))
        assert all(sizes(batch) == sorted(sizes(batch)) for batch in batches)
        assert sorted(map(sizes, batches)) == sorted(map(sizes, data.buckets(split, 30)))
