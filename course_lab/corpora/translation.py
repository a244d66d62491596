"""Sentence pairs read from files: Multi30k, IWSLT 2014, WMT 2014, and the reader's own."""

import html
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, zip_longest
from pathlib import Path

from course_lab.corpora.archives import lines
from course_lab.corpora.files import verified_files
from course_lab.corpora.registry import DOWNLOADS
from course_lib.data.corpus import SPLITS
from course_lib.data.pairs import SentencePairs, encoded
from course_lib.data.rows import Texts, compact_columns
from course_lib.errors import CourseError, unknown
from course_lib.ranges import Count, checked

DIRECTIONS = ("de-en", "en-de")
Pair = tuple[str, str]


@checked
def load_multi30k(
    direction: str = "de-en", pieces: Count = 10_000, lowercase: bool = False, download: bool = True
) -> SentencePairs:
    """Multi30k, as published (.gz) or unpacked (train.de …); 29,000 / 1,014 / 1,000 pairs."""
    languages = languages_of("multi30k", direction)
    entry, paths = DOWNLOADS["multi30k"], verified_files("multi30k", download)
    sides = {
        file.plain.name: path for file, path in zip(entry.files, paths, strict=True) if file.plain
    }
    texts = _of_splits(sides, languages)
    found = tuple(len(texts[split][0]) for split in SPLITS)
    if found != entry.sizes:
        raise CourseError(
            f"multi30k has {found} pairs, not {entry.sizes}, although its checksums are right; "
            "please report this"
        )
    return finished("multi30k", texts, direction, pieces, lowercase)


@checked
def load_pairs(
    folder: Path | str,
    direction: str = "de-en",
    pieces: Count = 10_000,
    lowercase: bool = False,
) -> SentencePairs:
    """The reader's own folder: train.de and train.en, valid.*, test.* for direction "de-en".

    A suffix is any name without a hyphen; files may end in .gz. `CourseError` if one is missing,
    not UTF-8, or shorter than its partner, or if a line is empty, with file and line.
    """
    folder = Path(folder).expanduser()
    source, _, target = direction.partition("-")
    if not source or not target or source == target or "-" in target:
        raise CourseError(f"direction {direction!r} must name two suffixes, as in 'de-en'")
    languages = source, target
    names = [f"{split}.{language}" for split in SPLITS for language in languages]
    packed = {name: folder / f"{name}.gz" for name in names}
    plain = {name: folder / name for name in names}  # which comes first
    found = {n: path for paths in (packed, plain) for n, path in paths.items() if path.is_file()}
    missing = [name for name in names if name not in found]
    if missing:
        raise CourseError(
            f"{folder} has no {' and no '.join(missing)}; sentence pairs need {', '.join(names)}; "
            "name other suffixes by the option direction, as in train's --change "
            "corpus.direction=fr-en"
        )
    texts = _of_splits(found, languages)
    origin = {"licence": "the reader's own", "source": str(folder)}
    return encoded(folder.name, texts, direction, pieces, lowercase, **origin)


IWSLT14_TESTS = {
    "wang2020": ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012"),
    "wang2019": ("TED.dev2010", "TED.tst2010", "TED.tst2011", "TED.tst2012"),
}
IWSLT14_PIECES = {"wang2020": 10_000, "wang2019": 33_000}


@checked
def load_iwslt14(
    direction: str = "de-en",
    variant: str = "wang2020",
    pieces: Count | None = None,
    lowercase: bool = True,
    download: bool = True,
) -> SentencePairs:
    """TED talks of IWSLT 2014, prepared as is usual (Ranzato et al. 2016; fairseq's script).

    Tags are removed and pairs left out of which a side is empty or longer than 175 words, or 1.5
    times as long as the other; every 23rd of the rest is valid. Words are counted as letters' runs
    and single signs, not by Moses' tokeniser, and the lines of credits (speaker, reviewer,
    translator), which the script keeps, are left out: the numbers of pairs come out close to the
    published 160,239 / 7,283, not equal. Lower-cased.

    variant "wang2020": 10,000 pieces, test = dev2010, dev2012, tst2010, tst2011, tst2012 (6,750
    pairs). "wang2019": about 33,000 pieces, test without dev2012; that paper names tst2011 twice,
    the second read as tst2012.
    """
    languages = languages_of("iwslt14", direction)
    if variant not in IWSLT14_TESTS:
        raise unknown("variant of iwslt14", variant, IWSLT14_TESTS)
    (path,) = verified_files("iwslt14", download)

    def pairs(member: str, read: Callable) -> Iterator[Pair]:
        names = [f"de-en/{member}".format(language) for language in languages]
        left, right = (read(lines(path, name)) for name in names)
        return paired(left, right, names)

    talks = pairs("train.tags.de-en.{}", talk_lines)
    cleaner = Cleaner(longest=175, ratio=1.5)
    train, valid = [], []
    for n, pair in enumerate(cleaner(p for p in talks if not any(map(CREDITS.match, p))), start=1):
        (train if n % 23 else valid).append(pair)
    tests = (
        pairs(f"IWSLT14.{name}.de-en.{{}}.xml", lambda rows: map(plain_quote, segments(rows)))
        for name in IWSLT14_TESTS[variant]
    )
    texts = {
        "train": compact_columns(train),
        "valid": compact_columns(valid),
        "test": compact_columns(chain(*tests)),
    }
    pieces = IWSLT14_PIECES[variant] if pieces is None else pieces
    return finished("iwslt14", texts, direction, pieces, lowercase, cleaner.left_out)


WMT14_TRAIN = (
    ("training-parallel-europarl-v7.tgz", "training/europarl-v7.de-en.{}"),
    ("training-parallel-commoncrawl.tgz", "commoncrawl.de-en.{}"),
    ("training-parallel-nc-v9.tgz", "training/news-commentary-v9.de-en.{}"),
)
WMT14_VALID = (
    ("dev.tgz", "dev/newstest2012.{}"),
    ("dev.tgz", "dev/newstest2013.{}"),
)
WMT14_TEST = "test-full/newstest2014-deen-{}.{}.sgm"


@checked
def load_wmt14(
    direction: str = "en-de", pieces: Count = 37_000, lowercase: bool = False, download: bool = True
) -> SentencePairs:
    """News translation of WMT 2014 (Vaswani et al. 2017): 4.5 million pairs, 37,000 pieces.

    train: Europarl 7, Common Crawl, News Commentary 9, without the pairs of which a side is empty
    or longer than 250 words. valid: newstest2012 and 2013; test: newstest2014 (full). Texts and ids
    take about 3 GB; learning the pieces takes minutes the first time and is kept.
    """
    languages = languages_of("wmt14", direction)
    files = {path.name: path for path in verified_files("wmt14", download)}

    def pairs(archive: str, member: str) -> Iterator[Pair]:
        names = [member.format(language) for language in languages]
        left, right = (lines(files[archive], name) for name in names)
        return paired(left, right, names)

    cleaner = Cleaner(longest=250)
    left, right = (  # the one side is called src and the other ref, whichever is translated
        segments(lines(files["test-full.tgz"], *(WMT14_TEST.format(k, x) for k in ("src", "ref"))))
        for x in languages
    )
    texts = {
        "train": compact_columns(cleaner(chain.from_iterable(pairs(*x) for x in WMT14_TRAIN))),
        "valid": compact_columns(chain.from_iterable(pairs(*x) for x in WMT14_VALID)),
        "test": compact_columns(
            paired(left, right, [WMT14_TEST.format("*", x) for x in languages])
        ),
    }
    corpus = finished("wmt14", texts, direction, pieces, lowercase, cleaner.left_out)
    corpus.compound_split = True
    return corpus


def finished(name, texts, direction, pieces, lowercase, left_out=0) -> SentencePairs:
    """Return the pairs of a registered corpus, encoded."""
    entry = DOWNLOADS[name]
    origin = {"left_out": left_out, "licence": entry.licence, "source": entry.source}
    return encoded(name, texts, direction, pieces, lowercase, **origin)


def languages_of(name: str, direction: str) -> tuple[str, str]:
    if direction not in DIRECTIONS:
        raise unknown(f"direction of {name}", direction, DIRECTIONS)
    source, _, target = direction.partition("-")
    return source, target


def _of_splits(
    files: Mapping[str, Path], languages: tuple[str, str]
) -> dict[str, tuple[Texts, Texts]]:
    """Return both sides of each split from files that are named `train.de` and so on."""
    texts = {}
    for split in SPLITS:
        paths = (files[f"{split}.{language}"] for language in languages)
        source, target = compact_columns(whole(*paths))
        texts[split] = source, target
    return texts


def whole(left: Path, right: Path) -> Iterator[Pair]:
    """Yield the pairs of two files; `CourseError` if a line is empty or has no partner."""
    pairs = paired(lines(left), lines(right), (str(left), right.name))
    for number, pair in enumerate(pairs, start=1):
        for path, text in zip((left, right), pair, strict=True):
            if not text.strip():
                raise CourseError(f"{path}, line {number} is empty; leave out the pair")
        yield pair


def paired(left: Iterable[str], right: Iterable[str], names: Sequence[str]) -> Iterator[Pair]:
    """Yield line n of both sides as a pair; `CourseError` if one side has more lines."""
    sides, n = zip_longest(left, right), 0
    for n, pair in enumerate(sides, start=1):
        if None in pair:
            numbers = [n - 1 if text is None else n + sum(1 for _ in sides) for text in pair]
            raise CourseError(
                f"{' and '.join(names)} have different numbers of lines, {numbers[0]:,} and "
                f"{numbers[1]:,}: {names[pair[0] is None]}, line {n:,} has no translation; line n "
                "of one side must be the translation of line n of the other"
            )
        yield pair
    if not n:
        raise CourseError(f"{' and '.join(names)} have no lines")


TOKEN = re.compile(r"\w+|[^\w\s]")


class Cleaner:
    """Passes on the pairs fit to train on and counts the others (Moses' clean-corpus-n)."""

    def __init__(self, longest: int, ratio: float = float("inf")):
        self.longest, self.ratio, self.left_out = longest, ratio, 0

    def __call__(self, pairs: Iterable[Pair]) -> Iterator[Pair]:
        for pair in pairs:
            shorter, longer = sorted(len(TOKEN.findall(text)) for text in pair)
            if 0 < shorter and longer <= min(self.longest, self.ratio * shorter):
                yield pair
            else:
                self.left_out += 1


LEFT_OUT = re.compile(r"\s*<(?:url|talkid|keywords)>")
KEPT = re.compile(r"</?(?:title|description)>")
CREDITS = re.compile(r"<(?:speaker|reviewer|translator)\b")
SEGMENT = re.compile(r"<seg id=\"?\d+\"?>(.*?)</seg>", re.IGNORECASE)


def talk_lines(rows: Iterable[str]) -> Iterator[str]:
    """Sentences, titles, descriptions and credits of talks, without the lines of data on them."""
    return (clean(KEPT.sub("", row)) for row in rows if not LEFT_OUT.match(row))


def segments(rows: Iterable[str]) -> Iterator[str]:
    """The text of each <seg> of an SGML or XML test set, which has one a line."""
    return (clean(text) for row in rows for text in SEGMENT.findall(row))


def clean(text: str) -> str:
    """Return a text with its entities replaced and single blanks."""
    return " ".join(html.unescape(text).split())


def plain_quote(text: str) -> str:
    return text.replace("’", "'")
