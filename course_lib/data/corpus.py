"""A corpus: three splits of word ids, the words they stand for, and where they came from."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cached_property
from typing import Any

import numpy as np
import torch

from course_lib.errors import CourseError, unknown
from course_lib.ranges import Count, checked

SPLITS = ("train", "valid", "test")
EOS, UNK = "<eos>", "<unk>"


class Encoding:
    """Words, or pieces of words, and their ids; `words[i]` is the word with id i."""

    name: str
    words: list[str]

    def __len__(self) -> int:
        """Return N, the size of the vocabulary."""
        return len(self.words)

    @cached_property
    def index(self) -> dict[str, int]:
        """Return the id of each word."""
        return {word: i for i, word in enumerate(self.words)}


class ThreeSplits:
    """The three splits and the origin that every corpus has.

    A subclass is a dataclass with the fields `name`, `words`, `licence`, `source`, `sha256` and
    one for each split, and has `counts` (N,) and `unk`, the unknown word's id or None.
    """

    def __post_init__(self: Any):
        for split in SPLITS:
            if not len(getattr(self, split)):
                raise CourseError(f"corpus {self.name}: the {split} split is empty")

    def origin(self: Any) -> dict:
        """Return figures of the words in train, and where the text comes from, ready for JSON."""
        share = self.counts.double() / self.counts.sum()
        return {
            "unknown share": float(share[self.unk]) if self.unk is not None else 0.0,
            "unigram entropy (nats)": float(-torch.xlogy(share, share).sum()),
            "licence": self.licence,
            "source": self.source,
            "sha256": dict(self.sha256),
        }


class WordEncoding(Encoding):
    """The words of running text and their ids.

    A text has one, and so has a trained model without its text.
    """

    unit = "words"  # what perplexity is counted by

    @property
    def eos(self) -> int:
        """The id of the line end."""
        return self.index[EOS]

    @property
    def unk(self) -> int | None:
        """The id of the unknown word, None where the vocabulary has none."""
        return self.index.get(UNK)

    def encode(self, text: str, where: str = "text") -> torch.Tensor:
        """Return the ids of the words in `text`, every line end one `<eos>`; (n,) int64.

        A word outside the vocabulary becomes `<unk>`. Where the vocabulary has no `<unk>`, it is a
        CourseError that names `where`, the line and near matches.
        """
        ids = []
        for number, line in enumerate(blocks_of(text, 0), start=1):
            for word in line.split():
                i = self.index.get(word, self.unk)
                if i is None:
                    near = get_close_matches(word, self.words, n=3, cutoff=0.6)
                    hint = f"; did you mean {' or '.join(near)}?" if near else ""
                    raise CourseError(
                        f"{where}, line {number}: the word {word!r} is not among the "
                        f"{len(self.words):,} words of {self.name}, which has no {UNK}{hint}"
                    )
                ids.append(i)
            if line.endswith("\n"):
                ids.append(self.eos)
        return torch.tensor(ids, dtype=torch.int64)

    def reads(self, word: str) -> bool:
        """Return whether a word between blanks is in the vocabulary."""
        return word in self.index

    def continued(self, text: str, ids: list[int]) -> str:
        """Return a text with the words of `ids` behind it."""
        return f"{text} {self.decode(ids)}".strip(" ")

    def decode(self, ids: torch.Tensor | list[int]) -> str:
        """Return the words of `ids` separated by blanks; `<eos>` ends a line."""
        rows = [[]]
        for i in torch.as_tensor(ids).flatten().tolist():
            if i == self.eos:
                rows.append([])
            else:
                rows[-1].append(self.words[i])
        return "\n".join(" ".join(row) for row in rows)


@dataclass
class Corpus(ThreeSplits, WordEncoding):
    """Word ids of the three splits, 1-D int64; `words[i]` is the word with id i.

    Line ends are the word `<eos>`; ids are given in order of first appearance in train, valid,
    test, or by falling frequency where that is asked for. `sha256` has the digest of each split.
    """

    name: str
    words: list[str]
    train: torch.Tensor = field(repr=False)
    valid: torch.Tensor = field(repr=False)
    test: torch.Tensor = field(repr=False)
    sha256: dict[str, str] = field(default_factory=dict, repr=False)
    licence: str = "unknown"
    source: str = "unknown"

    @cached_property
    def counts(self) -> torch.Tensor:
        """The number of times that each word occurs in train, (N,) int64."""
        return torch.bincount(self.train, minlength=len(self.words))

    def describe(self) -> dict:
        """Return figures and origin, ready for JSON."""
        sizes = {f"{split} tokens": len(getattr(self, split)) for split in SPLITS}
        return {"name": self.name, "words": len(self.words)} | sizes | self.origin()

    @property
    def is_by_frequency(self) -> bool:
        """True if ids fall with the count in train, as an adaptive softmax needs."""
        return bool((self.counts.diff() <= 0).all())

    def half(self, which: str) -> "Corpus":
        """Return a corpus of the "first" or "second" half of train, with the same words.

        Ids that fall with the count in the whole train split are given anew, so that they fall with
        the count in the half. CourseError for another name.
        """
        middle = len(self.train) // 2
        halves = {"first": self.train[:middle], "second": self.train[middle:]}
        if which not in halves:
            raise unknown("half of a train split", which, halves)
        words = self.words
        ids = {"train": halves[which], "valid": self.valid, "test": self.test}
        if self.is_by_frequency:
            ids = {split: x.clone() for split, x in ids.items()}
            words = sort_by_frequency(words, ids)
        half = replace(self, name=f"{self.name} ({which} half)", words=words, **ids)
        half.source = f"the {which} half of the train split of {self.name}"
        half.sha256 = dict(self.sha256) | {"train": digest(half.decode(half.train))}
        return half

    @checked
    def small(
        self,
        train: Count = 20_000,
        valid: Count = 2_000,
        test: Count = 2_000,
        words: Count = 500,
        by_frequency: bool | None = None,
        all_words: bool = False,
    ) -> "Corpus":
        """Return a corpus of the beginning of each split; rare words become `<unk>`.

        train, valid, test: how many tokens of each split.
        words: how many words at most, the most frequent in these tokens.
        by_frequency: whether ids fall with the count in train; None: if they do so in the whole.
        all_words: whether every word of the whole corpus keeps its id, so that parts of several
            sizes have one vocabulary; `words` then says nothing. CourseError with `by_frequency`.
        """
        if all_words and by_frequency:
            raise CourseError("all_words keeps the ids of the whole text: leave out by_frequency")
        sizes = zip(SPLITS, (train, valid, test), strict=True)
        ids = {split: getattr(self, split)[:n].clone() for split, n in sizes}
        vocabulary = self.words
        if not all_words:
            vocabulary, ids = keep_frequent(vocabulary, ids, words)
            if self.is_by_frequency if by_frequency is None else by_frequency:
                vocabulary = sort_by_frequency(vocabulary, ids)
        small = replace(self, name=f"{self.name} (small)", words=vocabulary, **ids)
        small.source = f"the beginning of each split of {self.name}"
        small.sha256 = {split: digest(small.decode(ids[split])) for split in SPLITS}
        return small


def digest(text: str | bytes) -> str:
    """Return the SHA-256 of a text, hexadecimal."""
    return hashlib.sha256(text.encode() if isinstance(text, str) else text).hexdigest()


def with_line_feeds(text: str) -> str:
    """Return a text whose lines end with `\\n`, as they do not on every system.

    `\\r\\n` ends a line, too. `\\r` alone does so only in a text without any `\\n`, as old Macs
    wrote them: in other texts it is a stray sign within a line.
    """
    text = text.replace("\r\n", "\n")
    return text if "\n" in text else text.replace("\r", "\n")


def from_texts(
    name: str,
    texts: Mapping[str, str | Iterable[str]],
    words: Count | None = None,
    by_frequency: bool = False,
    **origin,
) -> Corpus:
    """Return the corpus of three texts.

    name: of the corpus.
    texts: one a split; it may come in blocks that end with a line, to save memory.
    words: the largest size of the vocabulary; the rarest words beyond it become `<unk>`.
    by_frequency: whether ids fall with the count in train, as an adaptive softmax needs.
    origin: licence, source and digests.
    """
    index: dict[str, int] = {}
    ids = {split: encode_growing(texts[split], index) for split in SPLITS}
    vocabulary = list(index)
    if words is not None:
        vocabulary, ids = keep_frequent(vocabulary, ids, words)
    if by_frequency:
        vocabulary = sort_by_frequency(vocabulary, ids)
    return Corpus(name, vocabulary, **ids, **origin)


def encode_growing(text: str | Iterable[str], index: dict[str, int]) -> torch.Tensor:
    """Return the ids of a text, new words entering `index`; block by block, to save memory."""
    parts = [np.empty(0, np.int32)]
    blocks = blocks_of(text) if isinstance(text, str) else text
    for block in filter(None, blocks):  # an empty block has no line that could end
        block = block if block.endswith("\n") else block + "\n"
        tokens = block.replace("\n", f" {EOS} ").split()
        for word in dict.fromkeys(tokens):
            index.setdefault(word, len(index))
        parts.append(np.fromiter(map(index.__getitem__, tokens), np.int32, len(tokens)))
    return torch.from_numpy(np.concatenate(parts, dtype=np.int64))


def blocks_of(text: str, size: int = 1 << 22) -> Iterator[str]:
    """Yield a text `with_line_feeds`, in blocks of about `size` characters or, for 0, by lines."""
    text = with_line_feeds(text)
    start = 0
    while start < len(text):
        end = text.find("\n", start + size) + 1 or len(text)
        yield text[start:end]
        start = end


def sort_by_frequency(words: list[str], ids: Mapping[str, torch.Tensor]) -> list[str]:
    """Return the words by falling count in train, equal counts as before.

    words: by id.
    ids: of each split; they change in place.
    """
    order = torch.bincount(ids["train"], minlength=len(words)).argsort(descending=True, stable=True)
    renumber = torch.empty_like(order)
    renumber[order] = torch.arange(len(order))
    for x in ids.values():
        for part in x.split(1 << 22):  # all at once would be copies as large as the split
            part.copy_(renumber[part])
    return [words[i] for i in order.tolist()]


def keep_frequent(
    words: list[str], ids: Mapping[str, torch.Tensor], size: int
) -> tuple[list[str], dict[str, torch.Tensor]]:
    """Cap the vocabulary at `size` words: `<eos>`, `<unk>` and the most frequent in train.

    words: by id.
    ids: of each split.
    size: the number of words that remain at most; CourseError below 3.

    Returns words and ids. Other words become `<unk>`; words that no longer occur are dropped and
    ids given anew in order of first appearance. Of equal counts the word that came first stays.
    """
    if size < 3:
        raise CourseError(f"a vocabulary of {size} words is too small; at least 3 are needed")

    # Which words stay.
    counts = torch.bincount(ids["train"], minlength=len(words)).tolist()
    used = np.unique(torch.cat(list(ids.values())).numpy()).tolist()
    if len({words[i] for i in used} | {EOS}) > size:
        common = [i for i in used if words[i] not in (EOS, UNK)]
        stay = {words[i] for i in sorted(common, key=lambda i: -counts[i])[: size - 2]} | {EOS}
    else:
        stay = set(words)

    # All other words become one.
    table: dict[str, int] = {}
    merged = np.array([table.setdefault(w if w in stay else UNK, len(table)) for w in words])
    mapped = {split: merged[x.numpy()] for split, x in ids.items()}

    # New ids in order of first appearance.
    present, first = np.unique(np.concatenate(list(mapped.values())), return_index=True)
    order = present[np.argsort(first)]
    renumber = np.zeros(len(table), np.int64)
    renumber[order] = np.arange(len(order))
    names = list(table)
    vocabulary = [names[i] for i in order]
    if EOS not in vocabulary:
        vocabulary.append(EOS)
    return vocabulary, {split: torch.from_numpy(renumber[x]) for split, x in mapped.items()}
