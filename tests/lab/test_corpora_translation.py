"""Corpora in archives and pairs of files: small ones of the published layout, and bad input."""

import dataclasses
import gzip
import io
import re
import tarfile
import zipfile
from collections import Counter

import pytest
import torch
from typer.testing import CliRunner

from course_lab import corpora
from course_lab.cli.data import app
from course_lab.corpora import archives
from course_lab.corpora.download import absent
from course_lab.corpora.files import load_wikitext103
from course_lab.corpora.registry import DOWNLOADS
from course_lab.corpora.translation import (
    Cleaner,
    load_iwslt14,
    load_multi30k,
    load_wmt14,
    paired,
    segments,
    talk_lines,
    whole,
)
from course_lib import data
from course_lib.data import folders
from course_lib.errors import CourseError


def tgz(path, members):
    """An archive of {name: text or bytes}; a name may also map to a TarInfo, stored as it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members.items():
            if isinstance(content, tarfile.TarInfo):
                archive.addfile(content)
                continue
            raw = content.encode() if isinstance(content, str) else content
            entry = tarfile.TarInfo(name)
            entry.size = len(raw)
            archive.addfile(entry, io.BytesIO(raw))


@pytest.fixture
def at(tmp_path, monkeypatch):
    """Corpora and cache in a fresh folder; archives are taken as they come."""
    monkeypatch.setenv("COURSE_DATA", str(tmp_path))
    monkeypatch.setattr(folders, "cache", lambda: tmp_path / "cache")
    for name in ("wmt14", "wikitext-103"):
        entry = DOWNLOADS[name]
        files = tuple(dataclasses.replace(f, size=None, sha256=None) for f in entry.files)
        monkeypatch.setitem(DOWNLOADS, name, dataclasses.replace(entry, files=files))
    return tmp_path


def lines_of(*rows):
    return "".join(f"{row}\n" for row in rows)


# Multi30k

folder = folders.corpora() / "multi30k"
needs_multi30k = pytest.mark.skipif(
    bool(absent(DOWNLOADS["multi30k"], folder)),
    reason=f"multi30k is not in {folder}: python -m course_lab data fetch multi30k",
)


@needs_multi30k
def test_facts_of_multi30k():
    pairs = load_multi30k(download=False)
    assert [len(getattr(pairs, split)) for split in data.SPLITS] == [29_000, 1_014, 1_000]
    assert len(pairs) == 10_000 and pairs.direction == "de-en" and not pairs.lowercase
    assert pairs.sha256["train.de"].startswith("2c2b73fd") and len(pairs.sha256) == 6
    assert pairs.test.source_text[0] == "Ein Mann mit einem orangefarbenen Hut, der etwas anstarrt."
    assert pairs.test.target_text[0] == "A man in an orange hat starring at something."
    for split in (pairs.train, pairs.valid, pairs.test):
        sides = ((split.source, split.source_text), (split.target, split.target_text))
        for ids, texts in sides:
            for i in range(0, len(split), 7):
                if pairs.unk not in ids[i]:
                    assert pairs.decode(ids[i]) == data.bpe.normalise(texts[i])
    assert not any((ids == pairs.unk).any() for ids in pairs.train.target)
    assert (
        pairs.counts.sum()
        == len(pairs.train.source.values) + len(pairs.train.target.values) + 58_000
    )
    batches = data.buckets(pairs.train, 4_000, torch.Generator().manual_seed(1))
    assert Counter(i for batch in batches for i in batch) == Counter(range(29_000))
    longer = [
        max(len(x), len(y)) + 1 for x, y in zip(pairs.train.source, pairs.train.target, strict=True)
    ]
    assert all(max(longer[i] for i in batch) * len(batch) <= 4_000 for batch in batches)
    assert sum(longer) > 0.9 * 4_000 * len(batches)  # little is padding


def small_multi30k(monkeypatch, folder, packed):
    """Files of the published names, three pairs a split, as published or unpacked."""
    folder.mkdir()
    files = []
    for file in DOWNLOADS["multi30k"].files:
        text = lines_of(*(f"{file.plain.name} eins {i}" for i in range(3))).encode()
        path = folder / (file.name if packed else file.plain.name)
        path.write_bytes(gzip.compress(text, mtime=0) if packed else text)
        sha256 = data.corpus.digest(path.read_bytes())
        plain = dataclasses.replace(file.plain, sha256=sha256)
        files.append(dataclasses.replace(file, sha256=sha256, plain=plain))
    entry = dataclasses.replace(DOWNLOADS["multi30k"], files=tuple(files), sizes=(3, 3, 3))
    monkeypatch.setitem(DOWNLOADS, "multi30k", entry)


@pytest.mark.parametrize("packed", [True, False])
def test_multi30k_packed_and_unpacked(at, monkeypatch, packed):
    small_multi30k(monkeypatch, at / "multi30k", packed)
    pairs = corpora.load("multi30k", direction="en-de", pieces=60, lowercase=True)
    assert list(pairs.valid.source_text) == [f"valid.en eins {i}" for i in range(3)]
    assert list(pairs.test.target_text) == [f"test.de eins {i}" for i in range(3)]
    broken = at / "multi30k" / ("val.en.gz" if packed else "valid.en")
    broken.write_bytes(broken.read_bytes()[:-2])
    with pytest.raises(CourseError, match=f"{broken.name} is not the published file"):
        corpora.load("multi30k")
    broken.unlink()
    with pytest.raises(
        CourseError, match="multi30k/val.en.gz .SHA-256 [0-9a-f]{64}. is missing; run"
    ):
        corpora.load("multi30k", download=False)


def test_multi30k_of_another_size_is_noticed(at, monkeypatch):
    small_multi30k(monkeypatch, at / "multi30k", packed=True)
    entry = dataclasses.replace(DOWNLOADS["multi30k"], sizes=(3, 3, 4))
    monkeypatch.setitem(DOWNLOADS, "multi30k", entry)
    with pytest.raises(CourseError, match=r"multi30k has \(3, 3, 3\) pairs, not \(3, 3, 4\)"):
        corpora.load("multi30k")


# the reader's own pairs


def own(folder, suffixes=("fr", "en"), **contents):
    for split in data.SPLITS:
        for suffix in suffixes:
            text = contents.get(f"{split}_{suffix}", f"un {suffix}\ndeux {suffix}\n".encode())
            if text is not None:
                (folder / f"{split}.{suffix}").write_bytes(text)
    return folder


def test_own_pairs(tmp_path):
    (own(tmp_path) / "train.fr").unlink()
    (tmp_path / "train.fr.gz").write_bytes(gzip.compress("\ufeffun é\r\nsans fin".encode()))
    pairs = corpora.load_pairs(tmp_path, direction="fr-en", pieces=60)
    assert list(pairs.train.source_text) == ["un é", "sans fin"] and pairs.name == tmp_path.name
    assert list(pairs.train.target_text) == ["un en", "deux en"]
    same = corpora.load(str(tmp_path), direction="fr-en", pieces=60)
    assert same.words == pairs.words and set(same.sha256) >= {"train.fr", "test.en"}
    asked = ["describe", str(tmp_path), "--direction", "en-fr", "--pieces", "60"]
    told = CliRunner().invoke(app, asked).stdout
    assert told.startswith("name ") and re.search("^lower-cased +no$", told, re.MULTILINE)


@pytest.mark.parametrize(
    "contents, message",
    [
        ({"valid_fr": None}, "has no valid.fr; sentence pairs need train.fr, train.en, valid.fr"),
        ({"train_en": b"one\n"}, "train.fr and train.en have different numbers of lines, 2 and 1: "
         ".*train.fr, line 2 has no translation"),
        ({"test_fr": b"un\n" * 7}, "have different .* of lines, 7 and 2: .*test.fr, line 3 has no"),
        ({"test_en": b"un\n" * 7}, "test.en have .* of lines, 2 and 7: test.en, line 3 has no"),
        ({"valid_en": b"good\nb\xe9d\n"}, "valid.en, line 2: byte 0xe9 is not UTF-8"),
        ({"train_fr": b"un\n \t\n"}, "train.fr, line 2 is empty; leave out the pair"),
        ({"valid_fr": b"", "valid_en": b""}, "valid.fr and valid.en have no lines"),
    ],
)  # fmt: skip
def test_own_pairs_that_cannot_be_read(tmp_path, contents, message):
    with pytest.raises(CourseError, match=message):
        corpora.load_pairs(own(tmp_path, **contents), direction="fr-en")


def test_directions_and_options_are_checked(tmp_path, at):
    for direction in ("fren", "fr-", "-en", "fr-fr", "fr-en-fr"):
        with pytest.raises(CourseError, match=f"direction '{direction}' must name two suffixes"):
            corpora.load_pairs(own(tmp_path), direction=direction)
    with pytest.raises(
        CourseError,
        match="has no train.de and no valid.de .*other suffixes by the option direction.*=fr-en",
    ):
        corpora.load_pairs(tmp_path, direction="de-en")
    with pytest.raises(
        CourseError, match="unknown direction of multi30k 'de-fr'; did you mean de-en"
    ):
        corpora.load("multi30k", direction="de-fr")
    with pytest.raises(
        CourseError, match="unknown option of corpus iwslt14 'piece'; did you mean p"
    ):
        corpora.load("iwslt14", piece=5)
    with pytest.raises(
        CourseError, match="unknown variant of iwslt14 'wang202'; did you mean wang2"
    ):
        corpora.load("iwslt14", variant="wang202")
    with pytest.raises(CourseError, match="unknown corpus 'multi30'; did you mean multi30k"):
        corpora.load("multi30")


@pytest.mark.parametrize("n, m", [(0, 3), (3, 0), (2, 5)])
def test_sides_of_different_length(n, m):
    with pytest.raises(CourseError, match=f"a and b have different .*, {n} and {m}: "):
        list(paired(["x"] * n, ["y"] * m, ("a", "b")))


# IWSLT 2014


def talk(language, n):
    """One talk of the training text with the tags of the published file, n sentences."""
    return lines_of(
        f"<url>http://www.ted.com/talks/{language}</url>",
        "<keywords>talks, science</keywords>",
        "<speaker>Ein Mensch</speaker>",
        "<talkid>1</talkid>",
        f"<title>Titel &amp; mehr {language}</title>",
        f"<description>TED Talk Beschreibung {language}.</description>",
        *(f" Satz {i} auf {language}, nicht wahr? " for i in range(n)),
        f'<reviewer href="http://x">Wer {language}</reviewer>',
        f'<translator href="http://x">Was {language}</translator>',
    )


def iwslt14(path, train=None, **changes):
    members = {
        f"de-en/train.tags.de-en.{x}": (train or {}).get(x, talk(x, 60)) for x in ("de", "en")
    }
    for name in ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012"):
        for x in ("de", "en"):
            members[f"de-en/IWSLT14.{name}.de-en.{x}.xml"] = lines_of(
                '<?xml version="1.0" encoding="UTF-8"?>',
                f'<mteval><refset setid="{name}" srclang="de" trglang="en">',
                '<doc docid="1" genre="lectures"><talkid>9</talkid><title>Nicht dies</title>',
                f'<seg id="1"> {name} It’s &quot;{x}&quot; </seg>',
                f'<seg id="2">Zweiter {x}</seg>',
                "</doc></refset></mteval>",
            )
    tgz(path, members | changes)


def test_iwslt14_as_the_papers_prepare_it(at):
    iwslt14(at / "iwslt14" / "de-en.tgz")
    pairs = corpora.load("iwslt14", pieces=150)
    sentences = [f"Satz {i} auf de, nicht wahr?" for i in range(60)]
    everything = ["Titel & mehr de", "TED Talk Beschreibung de.", *sentences]
    kept = list(enumerate(everything, start=1))
    assert list(pairs.train.source_text) == [text for n, text in kept if n % 23]
    assert list(pairs.valid.source_text) == [text for n, text in kept if n % 23 == 0]
    assert pairs.train.target_text[0] == "Titel & mehr en" and pairs.lowercase
    assert pairs.decode(pairs.train.source[0]) == "titel & mehr de"
    tests = ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012")
    assert list(pairs.test.target_text) == [
        text for name in tests for text in (f'{name} It\'s "en"', "Zweiter en")
    ]
    older = load_iwslt14("en-de", variant="wang2019")
    assert [t.split()[0] for t in older.test.source_text[::2]] == [n for n in tests if "X" not in n]
    assert older.direction == "en-de" and older.valid.source_text[0].endswith("auf en, nicht wahr?")
    assert not (at / "iwslt14" / "de-en").exists()  # nothing is extracted


def test_iwslt14_leaves_out_what_cannot_be_a_translation(at):
    rows = {
        "de": ["eins zwei drei", "", "vier fünf", "w " * 176, "w " * 175, "a b c d"],
        "en": ["one two three", "x", "a b c d", "w " * 176, "w " * 175, "a b c d e f"],
    }
    train = {x: lines_of(*row, *["wohl wahr"] * 20) for x, row in rows.items()}
    iwslt14(at / "iwslt14" / "de-en.tgz", train=train)
    pairs = corpora.load("iwslt14", pieces=150)
    assert pairs.left_out == pairs.describe()["pairs left out of train"] == 3
    assert [t[:5] for t in pairs.train.source_text[:3]] == ["eins ", "w w w", "a b c"]


def test_what_is_text_in_a_talk_and_in_a_test_set():
    rows = ["<doc>", '<seg id="7"> a&amp;b  c </seg>', "<title>no</title>", '<seg id="8"></seg>']
    assert list(segments(rows)) == ["a&b c", ""]
    rows = ["<url>u</url>", "<title> A <b> </title>", "<talkid>3</talkid>", " x < y ", "<speaker>"]
    assert list(talk_lines(rows)) == ["A <b>", "x < y", "<speaker>"]


def test_whole_files_line_by_line(tmp_path):
    for name, text in (("a", "1\n2"), ("b", "one\ntwo\n")):
        (tmp_path / name).write_text(text)
    assert list(whole(tmp_path / "a", tmp_path / "b")) == [("1", "one"), ("2", "two")]


def test_cleaner_keeps_exactly_the_fit_pairs():
    cleaner = Cleaner(longest=4, ratio=2)
    pairs = [("a", "a b"), ("a", "a b c"), ("a b c d", "a b"), ("a b c d e", "a b c"), ("", "a")]
    assert list(cleaner(pairs)) == [pairs[0], pairs[2]] and cleaner.left_out == 3
    assert list(Cleaner(longest=2)([("don't", "a"), ("a", "b.")])) == [("a", "b.")]


def test_iwslt14_with_a_line_missing(at):
    iwslt14(at / "iwslt14" / "de-en.tgz", train={"de": talk("de", 60) + "mehr\n"})
    with pytest.raises(
        CourseError, match="train.tags.de-en.de and .* have different .* line 6[0-9] h"
    ):
        corpora.load("iwslt14")


# WMT 2014


def wmt14(folder, **changes):
    def sides(member, n, rows=lambda x, i: f"Satz {i} {x}"):
        return {member.format(x): lines_of(*(rows(x, i) for i in range(n))) for x in ("de", "en")}

    europarl = sides("training/europarl-v7.de-en.{}", 9) | sides("training/europarl-v7.fr-en.{}", 1)
    tgz(folder / "training-parallel-europarl-v7.tgz", europarl)
    crawl = {
        "commoncrawl.de-en.annotation": "x\n",
        "./commoncrawl.de-en.de": lines_of("Gut.", "", "W " * 251),
        "./commoncrawl.de-en.en": lines_of("Good.", "Empty.", "Long."),
    }
    tgz(folder / "training-parallel-commoncrawl.tgz", crawl)
    tgz(
        folder / "training-parallel-nc-v9.tgz",
        sides("training/news-commentary-v9.de-en.{}", 2, lambda x, i: f"Nachricht {i} {x}"),
    )
    dev = sides("dev/newstest2012.{}", 3) | sides("dev/newstest2013.{}", 2)
    tgz(folder / "dev.tgz", {"dev/newstest2011.de": "nein\n"} | dev)
    test = {
        f"test-full/newstest2014-deen-{kind}.{x}.sgm": lines_of(
            f'<refset setid="newstest2014" srclang="any" trglang="{x}">',
            '<doc sysid="ref" docid="1" genre="news" origlang="de">',
            *(f'<seg id="{i}">Prüfung {i} &lt; {x}</seg>' for i in range(1, 5)),
            "</doc></refset>",
        )
        for kind, x in (("src", "de"), ("ref", "en"))
    }
    tgz(folder / "test-full.tgz", test | changes)


def test_wmt14_from_its_archives(at):
    wmt14(at / "wmt14")
    pairs = corpora.load("wmt14", pieces=100)
    assert pairs.compound_split and pairs.small(train=2, valid=1, test=1, words=50).compound_split
    assert pairs.direction == "en-de" and pairs.left_out == 2 and not pairs.lowercase
    assert [len(getattr(pairs, split)) for split in data.SPLITS] == [12, 5, 4]
    assert list(pairs.train.source_text)[8:] == [
        "Satz 8 en",
        "Good.",
        "Nachricht 0 en",
        "Nachricht 1 en",
    ]
    assert list(pairs.test.target_text) == [f"Prüfung {i} < de" for i in range(1, 5)]
    other = corpora.load("wmt14", pieces=100, direction="de-en")
    assert (
        list(other.test.source_text) == list(pairs.test.target_text) and other.words == pairs.words
    )


def test_ids_of_many_pairs_take_four_bytes_each(at):
    wmt14(at / "wmt14")
    pairs = load_wmt14(pieces=100)
    for side in (pairs.train.source, pairs.train.target):
        assert side.values.nbytes == 4 * sum(map(len, side)) and side.starts.nbytes == 8 * 13


# WikiText-103

WIKI = {
    "train": " \n = Title = \n \n the cat the <unk> . \n the end \n",
    "valid": " a cat \n",
    "test": " the end \n",
}


def wikitext103(path):
    path.parent.mkdir(exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for split, text in WIKI.items():
            archive.writestr(f"wikitext-103/wiki.{split}.tokens", text)


def sized(monkeypatch, sizes, words):
    entry = dataclasses.replace(DOWNLOADS["wikitext-103"], sizes=sizes, words=words)
    monkeypatch.setitem(DOWNLOADS, "wikitext-103", entry)


def test_wikitext_103_from_its_archive(at, monkeypatch):
    wikitext103(at / "wikitext-103" / "wikitext-103-v1.zip")
    sized(monkeypatch, (15, 3, 3), 9)
    corpus = corpora.load("wikitext-103")
    assert corpus.words[:3] == ["<eos>", "the", "="] and (corpus.counts.diff() <= 0).all()
    assert corpus.decode(corpus.train) == "\n= Title =\n\nthe cat the <unk> .\nthe end\n"
    assert corpus.sha256["train"] == data.corpus.digest(WIKI["train"])
    plain = load_wikitext103(by_frequency=False)
    assert plain.words[:3] == ["<eos>", "=", "Title"] and plain.decode(plain.test) == "the end\n"
    sized(monkeypatch, (15, 3, 4), 9)
    with pytest.raises(CourseError, match=r"wikitext-103 has \(15, 3, 3\) tokens and 9 words, not"):
        corpora.load("wikitext-103")


# archives


def test_members_are_read_as_streams_in_blocks_that_end_with_a_line(tmp_path):
    rows = [f"Zeile {i} é" for i in range(500)]
    tgz(tmp_path / "a.tgz", {"./x/one": "nein\n", "x/two": lines_of(*rows)})
    assert list(archives.lines(tmp_path / "a.tgz", "x/two")) == rows
    assert list(archives.lines(tmp_path / "a.tgz", "x/one")) == ["nein"]
    blocks = list(archives.blocks(tmp_path / "a.tgz", "x/three", "x/two", size=100))
    assert len(blocks) > 30 and "".join(blocks) == lines_of(*rows)
    assert all(block.endswith("\n") for block in blocks)
    assert [path.name for path in tmp_path.iterdir()] == ["a.tgz"]


@pytest.mark.parametrize("name", ["../evil", "/etc/evil", "x/../../evil", "C:\\evil", "..\\evil"])
def test_a_member_that_leads_out_of_its_folder_is_refused(tmp_path, name):
    tgz(tmp_path / "a.tgz", {name: "evil\n", "good": "good\n"})
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("good", "good\n")
        archive.writestr(name, "evil\n")
    for path in (tmp_path / "a.tgz", tmp_path / "a.zip"):
        with pytest.raises(CourseError, match=f"{path.name} has the member .*evil.*; refused"):
            list(archives.lines(path, "good"))


def test_a_link_in_place_of_a_member_is_refused(tmp_path):
    link = tarfile.TarInfo("good")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    tgz(tmp_path / "a.tgz", {"good": link})
    with pytest.raises(CourseError, match="a.tgz: good is not a plain file; refused"):
        list(archives.lines(tmp_path / "a.tgz", "good"))


def test_damaged_archives_are_named(tmp_path):
    rows = lines_of(*(f"Zeile {i * i} {i**7}" for i in range(5000)))
    tgz(tmp_path / "a.tgz", {"x": rows})
    (tmp_path / "b.gz").write_bytes(gzip.compress(rows.encode()))
    with zipfile.ZipFile(tmp_path / "c.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x", rows)
    for path in sorted(tmp_path.iterdir()):
        whole = path.read_bytes()
        assert "".join(archives.blocks(path, "x")) == rows
        for damaged in (
            whole[: len(whole) // 2],
            b"no archive",
            whole[:200] + b"\0" * 99 + whole[299:],
        ):
            path.write_bytes(damaged)
            with pytest.raises(
                CourseError, match=f"{path.name} is truncated or damaged .*; restore it"
            ):
                list(archives.blocks(path, "x"))
        path.unlink()
        with pytest.raises(CourseError, match=f"{path.name} cannot be read: No such file"):
            list(archives.lines(path, "x"))


def test_a_member_that_is_not_there(tmp_path):
    tgz(tmp_path / "a.tgz", {f"m{i}": "x\n" for i in range(9)})
    with pytest.raises(CourseError, match="a.tgz has no member x or y; it has: m0, m1, .*m4, …"):
        list(archives.lines(tmp_path / "a.tgz", "x", "y"))


def test_bytes_that_are_no_text_are_named_with_member_and_line(tmp_path):
    tgz(tmp_path / "a.tgz", {"x": b"good\n" * 300 + b"b\xffd\n"})
    for read in (archives.lines, archives.blocks):
        with pytest.raises(CourseError, match="a.tgz: x, line 301: byte 0xff is not UTF-8"):
            list(read(tmp_path / "a.tgz", "x"))
    with pytest.raises(CourseError, match="line 301: byte 0xff"):
        list(archives.blocks(tmp_path / "a.tgz", "x", size=64))


# files without a published checksum


def test_the_first_checksum_is_recorded_and_holds_from_then_on(at):
    path = at / "iwslt14" / "de-en.tgz"
    iwslt14(path)
    corpora.load("iwslt14", pieces=150)
    listed = CliRunner().invoke(app, ["list"]).stdout
    assert "here, unverified" in next(row for row in listed.splitlines() if "iwslt14" in row)
    verified = CliRunner().invoke(app, ["verify", "iwslt14"])
    assert verified.exit_code == 0 and "unchanged, unverified" in verified.stdout
    path.write_bytes(path.read_bytes() + b"\0")
    with pytest.raises(CourseError, match="de-en.tgz is not the recorded file .changed; SHA-256"):
        corpora.load("iwslt14", pieces=150)
    bad = CliRunner().invoke(app, ["verify", "iwslt14"])
    assert bad.exit_code == 1 and "WRONG" in bad.stdout and "data fetch iwslt14" in bad.stdout


def test_every_registered_file_can_be_checked():
    for entry in DOWNLOADS.values():
        assert {f.name for f in entry.files} and entry.licence and entry.source and entry.title
        for file in entry.files:
            assert file.mirrors and all(url.startswith("http") for url in file.mirrors)
            for form in filter(None, (file, file.plain)):
                assert form.sha256 is None or len(form.sha256) == 64
    texts = {name for name, entry in DOWNLOADS.items() if entry.sizes}
    assert texts < set(corpora.names()) and set(DOWNLOADS) - texts == {"word-similarity"}
