"""The embedded sentence pairs: the same text everywhere, no sentence twice, sound phrases."""

import re
import string
import warnings
from pathlib import Path

import pytest

from course_lab import corpora
from course_lab.corpora import cldr
from course_lib import data
from course_lib.errors import CourseError


@pytest.fixture(scope="module")
def texts():
    return cldr.generate()


def rows(texts, split):
    return list(zip(texts[split]["de"], texts[split]["en"], strict=True))


def test_the_embedded_pairs_are_the_pinned_ones():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pairs = corpora.load("cldr")
    assert tuple(len(getattr(pairs, split)) for split in data.SPLITS) == cldr.PAIRS
    assert pairs.sha256 == cldr.SHA256 and len(pairs) == cldr.WORDS
    assert 10_000 < len(pairs.train) < 30_000 and pairs.direction == "de-en"
    assert 0 < pairs.unk not in pairs.train.source.values
    split = pairs.test
    for side, side_text in ((split.source, split.source_text), (split.target, split.target_text)):
        unseen = sum(pairs.unk in ids for ids in side)
        right = sum(pairs.decode(ids) == text for ids, text in zip(side, side_text, strict=True))
        assert right == len(split) - unseen > 0.99 * len(split)


def test_the_pin_is_that_of_the_constraints():
    listed = (Path(__file__).parents[2] / "constraints.txt").read_text().lower().split()
    assert f"babel=={cldr.VERSION}" in listed


def test_no_sentence_twice_in_either_language_nor_in_two_splits(texts):
    for language in ("de", "en"):
        found = [text.lower() for split in data.SPLITS for text in texts[split][language]]
        assert len(found) == len(set(found)) == sum(cldr.PAIRS)


def test_both_sides_say_the_same_and_follow_a_phrase(texts):
    """Each pair fits one phrase on both sides; years agree."""

    def pattern(phrase):
        return re.compile(re.sub(r"\\{\w+\\}", "(.+)", re.escape(phrase)))

    phrases = [(pattern(de), pattern(en)) for de, en in cldr.PHRASES]
    used = set()
    for german, english in rows(texts, "train"):
        fits = [
            i for i, (x, y) in enumerate(phrases) if x.fullmatch(german) and y.fullmatch(english)
        ]
        assert fits, (german, english)
        used |= set(fits)
        assert german == " ".join(german.split()) and english == " ".join(english.split())
    assert used == set(range(len(phrases)))
    years = re.compile(r"\b(?:19[5-9]|20[0-4])\d\b(?![.,]\d)")
    for german, english in rows(texts, "valid"):
        if "geboren" in german or german.startswith("Heute"):
            assert years.findall(german) == years.findall(english) != []


def test_pairs_that_can_be_checked_by_hand(texts):
    known = dict(rows(texts, "train") + rows(texts, "valid") + rows(texts, "test"))
    assert known["Reiseziel: Jordanien."] == "Destination: Jordan."
    assert known["Sprechen Sie Sardisch?"] == "Do you speak Sardinian?"
    assert known["Er hat vor 23 Tagen angerufen."] == "He called 23 days ago."
    assert known["Die Preise steigen um 24,8 %."] == "Prices are rising by 24.8%."
    assert known["Das Buch hat 1.532 Seiten."] == "The book has 1,532 pages."
    assert known["Der Zug fährt um 19:41 Uhr ab."] == "The train leaves at 7:41 PM."


def test_slots_of_both_languages_are_the_same():
    for german, english in cldr.PHRASES:
        slots = [
            {name for _, name, *_ in string.Formatter().parse(x) if name} for x in (german, english)
        ]
        assert slots[0] == slots[1] != set()


def test_another_babel_warns_and_an_edited_one_is_refused(monkeypatch):
    monkeypatch.setattr(cldr, "DRAWS", 20)
    with pytest.raises(CourseError, match="Babel is the pinned .* but its text is not"):
        corpora.load("cldr", pieces=500)
    monkeypatch.setattr(cldr, "VERSION", "0.1")
    with pytest.warns(UserWarning, match="Babel .* for 0.1 .SHA-256 of train.de [0-9a-f]{64}"):
        pairs = corpora.load("cldr", pieces=500, direction="en-de", lowercase=True)
    assert pairs.direction == "en-de" and pairs.lowercase and len(pairs) == 500
    with pytest.raises(CourseError, match="unknown direction of cldr 'de_en'; did you mean de-en"):
        cldr.load_cldr("de_en")
