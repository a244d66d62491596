"""Sentence pairs of two languages, in pieces of one shared byte-pair encoding."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import ClassVar

import numpy as np
import torch
from tokenizers import Tokenizer

from course_lib.data.bpe import SPECIAL, encode_all, learned, normalise
from course_lib.data.corpus import SPLITS, digest
from course_lib.data.rows import Ids, Texts
from course_lib.errors import CourseError
from course_lib.ranges import Count


@dataclass(frozen=True, eq=False)
class Split:
    """Pairs of one split. Each field reads like a list of length n.

    source, target: tensors (length,) int64 without special pieces; source_text, target_text: the
    sentences as they were read. Lists are taken and kept compactly.
    """

    source: Ids = field(repr=False)
    target: Ids = field(repr=False)
    source_text: Texts = field(repr=False)
    target_text: Texts = field(repr=False)

    def __post_init__(self):
        for name, kind in (("source", Ids), ("target", Ids)):
            object.__setattr__(self, name, kind.of(getattr(self, name)))
            object.__setattr__(self, f"{name}_text", Texts.of(getattr(self, f"{name}_text")))
        lengths = {len(getattr(self, name)) for name in self.__dataclass_fields__}
        if len(lengths) > 1:
            raise CourseError(f"the sides of a split have different lengths: {sorted(lengths)}")

    def __len__(self) -> int:
        """Number of pairs."""
        return len(self.source)


@dataclass
class SentencePairs:
    """Sentence pairs; `words[i]` is the piece with id i, the first four of them special.

    `direction` is "de-en" for German into English. `sha256` holds the digest of the text of each
    split and language ("train.de"). With `lowercase` the pieces are of lower-cased text, while the
    texts of the splits, the references of BLEU, are as they were read: compare them lower-cased.
    `left_out` counts the pairs of train that were cleaned away while reading. `compound_split` says
    that published BLEU is of words with compounds split at their hyphens, too.
    """

    pad: ClassVar[int] = 0
    bos: ClassVar[int] = 1
    eos: ClassVar[int] = 2
    unk: ClassVar[int] = 3

    name: str
    words: list[str] = field(repr=False)
    train: Split
    valid: Split
    test: Split
    encoding: Tokenizer = field(repr=False)
    direction: str = "de-en"
    lowercase: bool = False
    left_out: int = 0
    compound_split: bool = False
    sha256: dict[str, str] = field(default_factory=dict, repr=False)
    licence: str = "unknown"
    source: str = "unknown"

    def __post_init__(self):
        for split in SPLITS:
            if not len(getattr(self, split)):
                raise CourseError(f"corpus {self.name}: the {split} split is empty")

    def __len__(self) -> int:
        """N, the number of pieces."""
        return len(self.words)

    @cached_property
    def index(self) -> dict[str, int]:
        """piece -> id"""
        return {word: i for i, word in enumerate(self.words)}

    @cached_property
    def counts(self) -> torch.Tensor:
        """How often each piece occurs in train, both languages, (N,) int64.

        One `<eos>` for each sentence; `<pad>` and `<bos>`, which are never predicted, count 0.
        """
        sides = (self.train.source, self.train.target)
        counts = sum(np.bincount(side.values, minlength=len(self)) for side in sides)
        counts[self.eos] += 2 * len(self.train)
        return torch.from_numpy(counts)

    def encode(self, text: str) -> torch.Tensor:
        """Ids of a sentence without special pieces, (n,) int64; unseen characters are `<unk>`."""
        (ids,) = encode_all(self.encoding, [text], self.lowercase)
        return torch.tensor(ids, dtype=torch.int64)

    def decode(self, ids: torch.Tensor | list[int]) -> str:
        """The sentence of `ids`: pieces joined, special ones left out, single blanks."""
        ids = torch.as_tensor(ids).flatten().tolist()
        return " ".join(self.encoding.decode([i for i in ids if i >= len(SPECIAL)]).split())

    def describe(self) -> dict:
        """Figures and origin, ready for JSON. Tokens count pieces and one `<eos>` a sentence."""
        share = self.counts.double() / self.counts.sum()
        sizes = {}
        for split in SPLITS:
            pairs = getattr(self, split)
            sizes[f"{split} pairs"] = len(pairs)
            for side, ids in zip(
                self.direction.split("-"), (pairs.source, pairs.target), strict=True
            ):
                sizes[f"{split} tokens ({side})"] = len(ids.values) + len(pairs)
        return {
            "name": self.name,
            "direction": self.direction,
            "words": len(self.words),
            "lower-cased": self.lowercase,
            **sizes,
            "pairs left out of train": self.left_out,
            "unknown share": float(share[self.unk]),
            "unigram entropy (nats)": float(-torch.xlogy(share, share).sum()),
            "licence": self.licence,
            "source": self.source,
            "sha256": dict(self.sha256),
        }

    def small(
        self, train: Count = 2_000, valid: Count = 200, test: Count = 200, words: Count = 1_000
    ) -> "SentencePairs":
        """The first pairs of each split, and an encoding of at most `words` pieces learned anew."""
        texts = {}
        for split, n in zip(SPLITS, (train, valid, test), strict=True):
            pairs = getattr(self, split)
            texts[split] = (pairs.source_text[:n], pairs.target_text[:n])
        small = encoded(f"{self.name} (small)", texts, self.direction, words, self.lowercase)
        small.compound_split = self.compound_split
        small.licence, small.source = self.licence, f"the beginning of each split of {self.name}"
        return small


def encoded(
    name: str,
    texts: Mapping[str, tuple[Iterable[str], Iterable[str]]],
    direction: str,
    pieces: int,
    lowercase: bool = False,
    **origin,
) -> SentencePairs:
    """Sentence pairs from the (source, target) texts of each split.

    One encoding of at most `pieces` pieces is learned on train, both languages together; it does
    not depend on the direction.
    """
    texts = {split: (Texts.of(x), Texts.of(y)) for split, (x, y) in texts.items()}
    languages = direction.split("-")
    sha256 = {
        f"{split}.{language}": side.digest()
        for split, sides in texts.items()
        for language, side in zip(languages, sides, strict=True)
    }
    train = texts["train"]
    key = digest(" ".join(sorted(sha256[f"train.{language}"] for language in languages)))
    bpe = learned(
        (normalise(text, lowercase) for text in chain(*train)),
        pieces,
        f"{key} {lowercase}",
        sum(len(side.values) for side in train),
    )
    splits = {
        split: Split(*(Ids.of(encode_all(bpe, side, lowercase)) for side in sides), *sides)
        for split, sides in texts.items()
    }
    words = [bpe.id_to_token(i) for i in range(bpe.get_vocab_size())]
    return SentencePairs(
        name, words, **splits, encoding=bpe, direction=direction, lowercase=lowercase,
        sha256=sha256, **origin,
    )  # fmt: skip
