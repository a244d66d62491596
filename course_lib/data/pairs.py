"""Sentence pairs of two languages, in pieces of one shared byte-pair encoding."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Any, ClassVar

import numpy as np
import torch
from tokenizers import Tokenizer

from course_lib.data.bpe import SPECIAL, encode_all, learned, normalise
from course_lib.data.corpus import SPLITS, Encoding, ThreeSplits, digest
from course_lib.data.rows import Ids, Texts
from course_lib.errors import CourseError
from course_lib.ranges import Count, checked


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

    def __post_init__(self) -> None:
        for name in ("source", "target"):
            object.__setattr__(self, name, Ids.of(getattr(self, name)))
            object.__setattr__(self, f"{name}_text", Texts.of(getattr(self, f"{name}_text")))
        lengths = {len(getattr(self, name)) for name in self.__dataclass_fields__}
        if len(lengths) > 1:
            raise CourseError(f"the sides of a split have different lengths: {sorted(lengths)}")

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self.source)


class PieceEncoding(Encoding):
    """The pieces of a byte-pair encoding and their ids; the first four are special.

    Sentence pairs have one, and so has a trained translator without its sentences.
    """

    pad: ClassVar[int] = 0
    bos: ClassVar[int] = 1
    eos: ClassVar[int] = 2
    unk: ClassVar[int] = 3

    encoding: Tokenizer
    lowercase: bool

    def encode(self, text: str) -> torch.Tensor:
        """Return the ids of a sentence without special pieces, (n,) int64.

        A character that train does not contain becomes `<unk>`.
        """
        (ids,) = encode_all(self.encoding, [text], self.lowercase)
        return torch.tensor(ids, dtype=torch.int64)

    def decode(self, ids: torch.Tensor | list[int]) -> str:
        """Return the sentence of `ids`: pieces joined, special ones left out, single blanks."""
        ids = torch.as_tensor(ids).flatten().tolist()
        return " ".join(self.encoding.decode([i for i in ids if i >= len(SPECIAL)]).split())


@dataclass
class SentencePairs(ThreeSplits, PieceEncoding):
    """Sentence pairs; `words[i]` is the piece with id i, the first four of them special.

    `direction` is "de-en" for German into English. `sha256` holds the digest of the text of each
    split and language ("train.de"). With `lowercase` the pieces are of lower-cased text, while the
    texts of the splits, the references of BLEU, are as they were read: compare them lower-cased.
    `left_out` counts the pairs of train that were cleaned away while reading. `compound_split` says
    that published BLEU is of words with compounds split at their hyphens, too.
    """

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

    @cached_property
    def counts(self) -> torch.Tensor:
        """The number of times that each piece occurs in train, both languages, (N,) int64.

        One `<eos>` for each sentence; `<pad>` and `<bos>`, which are never predicted, count 0.
        """
        counts = np.bincount(self.train.source.values, minlength=len(self))
        counts += np.bincount(self.train.target.values, minlength=len(self))
        counts[self.eos] += 2 * len(self.train)
        return torch.from_numpy(counts)

    def describe(self) -> dict:
        """Return figures and origin, ready for JSON; tokens are pieces and one `<eos>` each."""
        sizes = {}
        for split in SPLITS:
            pairs = getattr(self, split)
            sizes[f"{split} pairs"] = len(pairs)
            source, target = self.direction.split("-")
            for side, ids in {source: pairs.source, target: pairs.target}.items():
                sizes[f"{split} tokens ({side})"] = len(ids.values) + len(pairs)
        named = {"name": self.name, "direction": self.direction, "words": len(self.words)}
        named |= {"lower-cased": self.lowercase} | sizes
        return named | {"pairs left out of train": self.left_out} | self.origin()

    @checked
    def small(
        self, train: Count = 2_000, valid: Count = 200, test: Count = 200, words: Count = 1_000
    ) -> "SentencePairs":
        """Return the beginning of each split, in pieces that are learned anew.

        train, valid, test: how many pairs of each split.
        words: how many pieces at most.
        """
        texts = {}
        for split, n in zip(SPLITS, (train, valid, test), strict=True):
            pairs = getattr(self, split)
            texts[split] = (pairs.source_text[:n], pairs.target_text[:n])
        source = f"the beginning of each split of {self.name}"
        origin = dict(licence=self.licence, source=source, compound_split=self.compound_split)
        name = f"{self.name} (small)"
        return encoded(name, texts, self.direction, words, self.lowercase, **origin)


def encoded(
    name: str,
    texts: Mapping[str, tuple[Iterable[str], Iterable[str]]],
    direction: str,
    pieces: int,
    lowercase: bool = False,
    **origin,
) -> SentencePairs:
    """Return sentence pairs from the texts of each split.

    name: of the corpus.
    texts: (source, target), the sentences of both sides, by split.
    direction: the languages of source and target, such as "de-en".
    pieces: how many the encoding has at most. It is learned on train, both languages together,
        and does not depend on the direction.
    lowercase: whether the pieces are of lower-cased text.
    origin: licence, source and the number of pairs left out.
    """
    texts = {split: (Texts.of(x), Texts.of(y)) for split, (x, y) in texts.items()}

    # The digest of each side, from which the cache knows what was learned before.
    languages = direction.split("-")
    sha256 = {
        f"{split}.{language}": side.digest()
        for split, sides in texts.items()
        for language, side in zip(languages, sides, strict=True)
    }
    train = texts["train"]
    key = digest(" ".join(sorted(sha256[f"train.{language}"] for language in languages)))
    rows = (normalise(text, lowercase) for text in chain(*train))
    size = sum(len(side.values) for side in train)
    bpe = learned(rows, pieces, f"{key} {lowercase}", size)

    # The ids of each split.
    def ids(side: Texts) -> Ids:
        return Ids.of(encode_all(bpe, side, lowercase))

    splits = {split: Split(ids(x), ids(y), x, y) for split, (x, y) in texts.items()}
    words: Any = [bpe.id_to_token(i) for i in range(bpe.get_vocab_size())]
    origin |= {"encoding": bpe, "direction": direction, "lowercase": lowercase, "sha256": sha256}
    return SentencePairs(name, words, **splits, **origin)
