"""Corpora, batches, bad input: the laws of course_lib.data."""

import gzip
import json
import math
import random
import zipfile

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from course_lab import corpora
from course_lab.cli.data import app
from course_lab.corpora import archives
from course_lab.corpora.download import absent
from course_lab.corpora.piece_text import from_pieces
from course_lab.corpora.registry import DOWNLOADS
from course_lib import data
from course_lib.data import folders
from course_lib.data.corpus import blocks_of, from_texts
from course_lib.errors import CourseError

WORDS = st.text("abcdé<>.", min_size=1, max_size=3).filter(lambda w: w not in (data.EOS, data.UNK))
LINES = st.lists(st.lists(WORDS, max_size=6), min_size=1, max_size=6)


def text_of(rows) -> str:
    return "".join(" ".join(row) + "\n" for row in rows)


def toy(**options) -> data.Corpus:
    texts = {"train": "the cat sat\nthe dog sat\n", "valid": "the cat ran\n", "test": "a dog\n"}
    return from_texts("toy", texts, **options)


# corpora


def test_ids_follow_first_appearance_and_line_ends_are_words():
    corpus = toy()
    assert corpus.words == ["the", "cat", "sat", "<eos>", "dog", "ran", "a"]
    assert corpus.train.tolist() == [0, 1, 2, 3, 0, 4, 2, 3]
    assert corpus.counts.tolist() == [2, 1, 2, 2, 1, 0, 0]
    assert (corpus.eos, corpus.unk, len(corpus)) == (3, None, 7)


@given(LINES, LINES, LINES)
def test_decode_is_the_inverse_of_encode(train, valid, test):
    texts = {"train": text_of(train), "valid": text_of(valid), "test": text_of(test)}
    corpus = from_texts("any", texts)
    for split, text in texts.items():
        ids = getattr(corpus, split)
        assert torch.equal(corpus.encode(corpus.decode(ids)), ids)
        assert corpus.decode(ids) == text
    seen = torch.cat([corpus.train, corpus.valid, corpus.test])
    firsts = [(seen == i).nonzero()[0].item() for i in range(len(corpus))]
    assert firsts == sorted(firsts)


def test_a_file_without_a_last_line_end_and_a_blank_line():
    corpus = from_texts("toy", {"train": "a b\n\nc", "valid": "a\r", "test": "\u2028 a\n"})
    assert corpus.decode(corpus.train) == "a b\n\nc\n"
    assert list(blocks_of("x\u2028y\x0bz\nw", 0)) == ["x\u2028y\x0bz\n", "w"]


def test_an_empty_block_is_no_line():
    texts = {"train": ["a b\n", "", "c\n"], "valid": "c\n", "test": "c\n"}
    assert from_texts("toy", texts).train.tolist() == [0, 1, 2, 3, 2]


def test_the_line_ends_of_old_macs_mean_the_same_everywhere():
    text = "a b\rc\r"
    corpus = from_texts("toy", dict.fromkeys(data.SPLITS, text))
    assert corpus.decode(corpus.train) == "a b\nc\n"
    assert torch.equal(corpus.encode(text), corpus.train)
    pieces = from_pieces("toy", dict.fromkeys(data.SPLITS, text * 20), pieces=20)
    assert torch.equal(pieces.encode(text * 20), pieces.train)
    assert pieces.decode(pieces.encode(text)) == "a b\nc\n"


def test_of_equally_frequent_words_the_first_stay():
    text = "".join(f"w{i}\n" for i in range(3000))
    corpus = from_texts("any", dict.fromkeys(data.SPLITS, text), words=1000)
    assert corpus.words == ["w0", "<eos>", *(f"w{i}" for i in range(1, 998)), "<unk>"]


@given(LINES, st.integers(3, 12))
def test_a_capped_vocabulary_keeps_the_most_frequent(rows, cap):
    texts = {split: text_of(rows) for split in data.SPLITS}
    whole, capped = from_texts("any", texts), from_texts("any", texts, words=cap)
    assert len(capped) <= max(cap, 3) and len(capped.train) == len(whole.train)
    kept = [word for word in whole.words if word in capped.index and word != data.EOS]
    lost = [word for word in whole.words if word not in capped.index]
    if not lost:
        assert capped.words == whole.words
    elif kept:
        fewest = min(whole.counts[whole.index[word]].item() for word in kept)
        assert fewest >= max(whole.counts[whole.index[word]].item() for word in lost)
    for before, after in zip(whole.train.tolist(), capped.train.tolist(), strict=True):
        expected = data.UNK if whole.words[before] in lost else whole.words[before]
        assert capped.words[after] == expected


@given(LINES)
@settings(deadline=None)
def test_ids_by_frequency_fall_with_the_count(rows):
    texts = {split: text_of(rows) for split in data.SPLITS}
    first = from_texts("any", texts)
    sorted_ = from_texts("any", {s: iter([t]) for s, t in texts.items()}, by_frequency=True)
    assert sorted(sorted_.counts, reverse=True) == list(sorted_.counts)
    order = sorted(range(len(first)), key=lambda i: -first.counts[i])  # stable
    assert sorted_.words == [first.words[i] for i in order]
    assert all(sorted_.decode(getattr(sorted_, s)) == text for s, text in texts.items())


def test_equally_frequent_words_keep_their_order():
    text = "".join(f"w{i}\n" for i in range(3000)) + "w2999\n" * 2
    corpus = from_texts("any", dict.fromkeys(data.SPLITS, text), by_frequency=True)
    assert corpus.words == ["<eos>", "w2999", *(f"w{i}" for i in range(2999))]


def test_a_text_in_blocks_is_the_text():
    rows = [f"word{i % 7} x{i}" for i in range(50)]
    text = "".join(f"{row}\n" for row in rows)
    whole = from_texts("any", dict.fromkeys(data.SPLITS, text))
    for size in (1, 30, 10_000):
        assert "".join(blocks_of(text, size)) == text
        assert all(block.endswith("\n") for block in blocks_of(text, size))
        parts = {split: blocks_of(text, size) for split in data.SPLITS}
        assert torch.equal(from_texts("any", parts).train, whole.train)


def test_halves_are_the_train_split_cut_in_two():
    corpus = corpora.load("zipf")
    first, second = corpus.half("first"), corpus.half("second")
    assert torch.equal(torch.cat([first.train, second.train]), corpus.train)
    assert abs(len(first.train) - len(second.train)) <= 1 and first.words == corpus.words
    assert torch.equal(first.test, corpus.test) and first.sha256["test"] == corpus.sha256["test"]
    assert len({c.sha256["train"] for c in (corpus, first, second)}) == 3
    with pytest.raises(CourseError, match="unknown half of a train split 'frist'.*first"):
        corpus.half("frist")


def test_parts_of_several_sizes_can_share_the_whole_vocabulary():
    """Ids and words are those of the whole text, also of words that the part lacks."""
    corpus = corpora.load("docstrings")
    parts = [corpus.small(n, 300, 200, all_words=True) for n in (500, 5_000)]
    assert all(part.words == corpus.words for part in parts)
    assert parts[0].train.tolist() == corpus.train[:500].tolist()
    assert (parts[0].counts == 0).any() and parts[0].counts.sum() == 500


def test_parts_with_all_words_leave_the_whole_as_it_is():
    """Also where ids fall with the count in the whole, and otherwise in each part."""
    valid = "a b c d\n" * 3
    texts = {"train": "a a a b b c\n" * 3 + "c c c c b d\n" * 20, "valid": valid, "test": valid}
    corpus = from_texts("any", texts, by_frequency=True)
    ids = {split: getattr(corpus, split).clone() for split in data.SPLITS}
    a, b = (corpus.small(n, 15, 15, all_words=True) for n in (21, 60))
    for part in (a, b):
        part.train.fill_(0)  # nor is a part a view of it
        assert torch.equal(part.valid, ids["valid"][:15])
    assert all(torch.equal(getattr(corpus, split), ids[split]) for split in data.SPLITS)
    assert a.words == b.words == corpus.words
    with pytest.raises(CourseError, match="all_words keeps the ids .* leave out by_frequency"):
        corpus.small(21, 15, 15, all_words=True, by_frequency=True)


def test_small_is_deterministic_and_small():
    corpus = corpora.load("zipf", tokens=5000)
    small, again = corpus.small(2000, 300, 200, words=50), corpus.small(2000, 300, 200, words=50)
    assert (len(small.train), len(small.valid), len(small.test), len(small)) == (2000, 300, 200, 50)
    assert torch.equal(small.train, again.train) and small.sha256 == again.sha256
    assert small.unk is not None and small.counts.sum() == 2000
    assert small.describe()["name"] == "zipf (small)"


def test_a_half_keeps_the_text_and_the_order_by_frequency():
    text = "a a a b\n" * 20 + "c c c a\n" * 20
    corpus = from_texts("any", dict.fromkeys(data.SPLITS, text), by_frequency=True)
    ids = corpus.train.clone()
    for which, part in (("first", text[: len(text) // 2]), ("second", text[len(text) // 2 :])):
        half = corpus.half(which)
        assert half.is_by_frequency and half.decode(half.train) == part
        assert half.decode(half.valid) == text and sorted(half.words) == sorted(corpus.words)
    assert torch.equal(corpus.train, ids)  # the whole stays as it was
    given = from_texts("any", dict.fromkeys(data.SPLITS, "b a a\n" * 4))
    assert not given.is_by_frequency and given.half("second").words == given.words


def test_small_keeps_the_order_by_frequency():
    """As a prefix is sorted otherwise than the whole, its ids are given anew."""
    text = "".join(f"w{i % 50} w{i * i % 17}\n" for i in range(400))
    corpus = from_texts("any", dict.fromkeys(data.SPLITS, text), by_frequency=True)
    for words in (10, 60):
        falling, given = corpus.small(90, 90, 90, words).counts.diff() <= 0, corpus.train[:90]
        assert falling.all() and not (given.bincount().diff() <= 0).all()
    by_appearance = corpus.small(90, 90, 90, 60, by_frequency=False)
    assert not (by_appearance.counts.diff() <= 0).all()
    assert corpus.small(90, 90, 90, 60).decode(corpus.small(90, 90, 90, 60).train) == (
        corpus.decode(corpus.train[:90])
    )


def test_describe_states_the_unigram_entropy():
    facts = from_texts("toy", dict.fromkeys(data.SPLITS, "a\n")).describe()
    assert math.isclose(facts["unigram entropy (nats)"], math.log(2))
    json.dumps(facts)


def present(name: str):
    """A parameter that is skipped where the corpus has not been downloaded."""
    folder = folders.corpora() / name
    reason = f"{name} is not in {folder}: python -m course_lab data fetch {name}"
    return pytest.param(
        name, marks=pytest.mark.skipif(bool(absent(DOWNLOADS[name], folder)), reason=reason)
    )


@pytest.mark.parametrize("name", [present(name) for name in ("ptb", "wikitext-2")])
def test_facts_of_the_published_corpora(name):
    corpus = corpora.load(name)
    published = {
        "ptb": (929_589, 73_760, 82_430, 10_000),
        "wikitext-2": (2_088_628, 217_646, 245_569, 33_278),
    }
    found = (len(corpus.train), len(corpus.valid), len(corpus.test), len(corpus))
    assert found == published[name]
    text = (folders.corpora() / name / "test.txt").read_text(encoding="utf-8")
    assert torch.equal(corpus.encode(text), corpus.test)


@pytest.mark.parametrize("name", [present("wikitext-103")])
def test_facts_of_wikitext_103(name):
    corpus = corpora.load(name)
    found = (len(corpus.train), len(corpus.valid), len(corpus.test), len(corpus))
    assert found == (103_227_021, 217_646, 245_569, 267_735)
    assert corpus.counts.diff().max() <= 0


# bad input


def folder_with(tmp_path, **contents):
    for split in data.SPLITS:
        content = contents.get(split, b"some words\n")
        if content is not None:
            (tmp_path / f"{split}.txt").write_bytes(content)
    return tmp_path


def test_own_folder(tmp_path):
    corpus = corpora.load(folder_with(tmp_path, train=b"\xef\xbb\xbfa b\r\nb\r\n"))
    assert corpus.decode(corpus.train) == "a b\nb\n" and corpus.name == tmp_path.name


def test_own_file_is_cut_by_lines(tmp_path):
    path = tmp_path / "mine.txt"
    path.write_text("".join(f"line {i}\n" for i in range(10)))
    corpus = corpora.load(str(path), split=(0.5, 0.3, 0.2))
    assert [len(getattr(corpus, split)) for split in data.SPLITS] == [15, 9, 6]
    assert corpus.decode(corpus.test) == "line 8\nline 9\n"
    assert len(corpora.load(path, words=5)) == 5


@pytest.mark.parametrize(
    "contents, message",
    [
        ({"train": b"good\nb\xe9d\n"}, "train.txt, line 2: byte 0xe9 is not UTF-8 text"),
        ({"valid": b""}, "valid.txt has no words; every split needs some text"),
        ({"test": b" \n\n"}, "test.txt has no words"),
        ({"valid": None, "test": None}, "has no valid.txt and no test.txt; a corpus folder needs"),
    ],
)
def test_unreadable_folder(tmp_path, contents, message):
    with pytest.raises(CourseError, match=message):
        corpora.load(folder_with(tmp_path, **contents))


def test_a_file_too_short_to_split(tmp_path):
    (tmp_path / "short.txt").write_text("one line\n")
    with pytest.raises(CourseError, match="has 1 line, .* leave the valid split without"):
        corpora.load(tmp_path / "short.txt")
    with pytest.raises(CourseError, match="three positive shares that sum to 1"):
        corpora.load(tmp_path / "short.txt", split=(1, 1, 1))


def test_unknown_names_and_options_list_near_matches():
    with pytest.raises(CourseError, match="unknown corpus 'docstring'; did you mean docstrings"):
        corpora.load("docstring")
    with pytest.raises(CourseError, match="unknown option of corpus zipf 'token'; did you mean to"):
        corpora.load("zipf", token=5)
    with pytest.raises(CourseError, match="nowhere/mine.txt does not exist"):
        corpora.load("nowhere/mine.txt")


def test_a_word_outside_the_vocabulary():
    corpus = toy()
    with pytest.raises(CourseError, match="prompt.txt, line 2: the word 'fish' is not among the 7"):
        corpus.encode("the cat\nthe fish\n", where="prompt.txt")
    capped = toy(words=4)
    assert capped.encode("fish").tolist() == [capped.unk]


def test_a_vocabulary_of_two_words_is_refused():
    with pytest.raises(CourseError, match="a vocabulary of 2 words is too small"):
        toy(words=2)


def test_a_split_shorter_than_one_batch():
    message = "valid of toy has 4 tokens, too few for a batch of 3 columns .at least 6 are needed"
    with pytest.raises(CourseError, match=message):
        data.columns(toy().valid, 3, where="valid of toy")
    with pytest.raises(CourseError, match="batch must be a whole number of at least 1"):
        data.columns(toy().valid, 0)


# batches


@given(st.integers(2, 200), st.integers(1, 20))
def test_columns_are_contiguous_and_drop_the_remainder(length, batch):
    tokens = torch.arange(length)
    if length // batch < 2:
        with pytest.raises(CourseError):
            data.columns(tokens, batch)
        return
    cut = data.columns(tokens, batch)
    n = length // batch
    assert cut.shape == (n, batch)
    assert torch.equal(cut.t().reshape(-1), tokens[: n * batch])


@given(st.integers(2, 120), st.integers(1, 5), st.integers(1, 40), st.booleans(), st.integers(0, 9))
def test_every_row_but_the_first_is_a_target_once(n, batch, length, random_length, seed):
    columns = torch.arange(n * batch).view(n, batch)
    generator = torch.Generator().manual_seed(seed)
    pairs = list(data.batches(columns, length, generator, random_length))
    inputs = torch.cat([x for x, _ in pairs])
    targets = torch.cat([y for _, y in pairs])
    assert torch.equal(inputs, columns[:-1]) and torch.equal(targets, columns[1:])
    assert all(x.shape == y.shape for x, y in pairs)
    if random_length:
        assert all(len(x) >= 5 for x, _ in pairs[:-1])
    else:
        assert all(len(x) == length for x, _ in pairs[:-1])


def test_random_lengths_follow_the_rule_of_awd_lstm():
    from course_lib.data.batches import draw_length

    generator = torch.Generator().manual_seed(1)
    drawn = torch.tensor([draw_length(70, generator) for _ in range(20_000)]).double()
    short = drawn[drawn < 52]
    assert abs(len(short) / len(drawn) - 0.05) < 0.006
    assert abs(drawn[drawn > 52].mean() - 69.5) < 0.2  # int() cuts half a step
    assert abs(short.mean() - 34.5) < 0.6 and abs(drawn[drawn > 52].std() - 5) < 0.15
    assert {draw_length(1, generator) for _ in range(500)} >= {5, 6}


@given(st.integers(1, 30), st.integers(1, 6), st.integers(0, 99))
def test_partial_shuffle_rotates_each_column(n, batch, seed):
    columns = torch.arange(n * batch).view(batch, n).t().contiguous()
    rotated = data.partial_shuffle(columns, torch.Generator().manual_seed(seed))
    offsets = torch.randint(n, (batch,), generator=torch.Generator().manual_seed(seed))
    pairs = zip(columns.T, offsets.tolist(), strict=True)
    assert torch.equal(rotated, torch.stack([column.roll(-k) for column, k in pairs], 1))


# command line


def command(*arguments):
    return CliRunner().invoke(app, list(arguments))


def test_commands_describe_and_list():
    listed = command("list").stdout
    assert all(name in listed for name in corpora.names()) and "929,589" in listed
    facts = json.loads(command("describe", "zipf", "--json").stdout)
    assert facts["true rank"] == 18 and facts["words"] == 1000
    assert "true entropy (nats)" in command("describe", "zipf").stdout
    assert isinstance(command("describe", "zipff").exception, CourseError)


def test_command_fetch_knows_what_is_embedded():
    assert "zipf: embedded, nothing to download" in command("fetch", "zipf").stdout
    assert "did you mean ptb" in str(command("fetch", "pbt").exception)


def test_lines_that_end_as_on_an_old_mac(tmp_path):
    """CR alone ends lines of a file without any LF, and is a blank within the lines of others."""
    for end in ("\n", "\r\n", "\r"):
        corpus = corpora.load(folder_with(tmp_path, train=f"a b{end}b{end}{end}".encode()))
        assert corpus.decode(corpus.train) == "a b\nb\n\n"
        (tmp_path / "mine.txt").write_bytes(end.join(f"line {i}" for i in range(10)).encode())
        own = corpora.load(tmp_path / "mine.txt", split=(0.5, 0.3, 0.2))
        assert own.decode(own.test) == "line 8\nline 9\n"
        assert list(archives.lines(tmp_path / "mine.txt"))[7:] == ["line 7", "line 8", "line 9"]
        with pytest.raises(CourseError, match="there, line 3: the word 'x' is not among"):
            corpus.encode(end.join(["a", "b", "x"]), "there")
        bad = end.encode().join([b"a", b"b", b"\xff", b"c"])
        with pytest.raises(CourseError, match="train.txt, line 3: byte 0xff"):
            corpora.load(folder_with(tmp_path, train=bad))
    corpus = corpora.load(folder_with(tmp_path, train=b"a\rb c\nd\n"))
    assert corpus.decode(corpus.train) == "a b c\nd\n"


@pytest.mark.parametrize("option", ["train", "valid", "test", "words"])
@pytest.mark.parametrize("value", [-5, 0, 2.5, True, math.nan])
def test_a_cut_of_a_corpus_has_sizes_above_0(option, value):
    corpus = corpora.load("zipf", N=20, d=4, tokens=1000)
    with pytest.raises(CourseError, match=f"{option} of ZipfCorpus must be a whole number of at"):
        corpus.small(**{option: value})


def test_options_of_corpora_are_in_their_ranges(tmp_path):
    path = tmp_path / "mine.txt"
    path.write_text("".join(f"line {i}\n" for i in range(10)))
    for options in ({"split": (math.nan, 0.5, 0.5)}, {"split": (0.5, 0.5)}, {"words": -1}):
        with pytest.raises(CourseError, match=f"{next(iter(options))}.*must be"):
            corpora.load(path, **options)
    for options in ({"sharpness": math.nan}, {"components": 0}, {"tokens": -1}, {"d": 1.5}):
        with pytest.raises(CourseError, match=f"{next(iter(options))} must be a"):
            corpora.load("zipf", **options)


def test_an_archive_that_cannot_be_unpacked_is_named(tmp_path):
    """Each kind of damage, and what readers of archives raise for it."""
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x", "some words\n" * 1000)
    whole = path.read_bytes()
    directory = whole.rindex(b"PK\x01\x02")
    for place, value in [(directory + 10, 99), (directory + 8, 1), (35, 255), (45, 255)]:
        damaged = bytearray(whole)
        damaged[place] = value
        path.write_bytes(damaged)
        with pytest.raises(CourseError, match="a.zip is truncated or damaged"):
            list(archives.lines(path, "x"))
    plain = tmp_path / "a.txt.gz"
    packed = bytearray(gzip.compress(random.Random(0).randbytes(3000)))
    for place in range(30, 3000, 300):
        packed[place] ^= 255
    for content in (packed, packed[:50], b"no gzip"):
        plain.write_bytes(content)
        with pytest.raises(CourseError, match="a.txt.gz(, line .* is not UTF-8| is truncated or)"):
            list(archives.lines(plain))
