"""The vocabulary of a trained model: what a text must leave behind so that the model can be asked.

It round-trips through JSON and lies in every checkpoint, so that a model outlives its corpus.
"""

import json
from dataclasses import dataclass, field
from typing import Any

import torch
from tokenizers import Tokenizer

from course_lab.corpora.piece_text import PieceTextEncoding
from course_lib.data import bpe
from course_lib.data.corpus import EOS, Corpus, WordEncoding
from course_lib.data.pairs import PieceEncoding, SentencePairs
from course_lib.errors import CourseError


@dataclass
class WordVocabulary(WordEncoding):
    """The words of a language model, by id, and how often each occurred in the train split."""

    name: str
    words: list[str] = field(repr=False)
    counts: torch.Tensor = field(repr=False)  # (N,) int64
    sha256: dict[str, str] = field(default_factory=dict, repr=False)


@dataclass
class PieceTextVocabulary(PieceTextEncoding, WordVocabulary):
    """The pieces of a language model whose text was cut into pieces."""

    pieces: Tokenizer = field(kw_only=True, repr=False)


@dataclass
class PieceVocabulary(PieceEncoding):
    """The encoding of a translator and how often each piece occurred in the train split."""

    name: str
    words: list[str] = field(repr=False)
    counts: torch.Tensor = field(repr=False)  # (N,) int64
    encoding: Tokenizer = field(repr=False)
    direction: str
    lowercase: bool
    sha256: dict[str, str] = field(default_factory=dict, repr=False)


Vocabulary = WordVocabulary | PieceVocabulary | Corpus | SentencePairs


def vocabulary_to_dict(corpus: Vocabulary) -> dict:
    """Return the vocabulary of a corpus as plain data, ready for JSON."""
    plain = {"name": corpus.name, "counts": corpus.counts.tolist(), "sha256": dict(corpus.sha256)}
    if isinstance(corpus, PieceTextEncoding):
        plain["pieces"] = json.loads(corpus.pieces.to_str())
    if isinstance(corpus, WordEncoding):
        return plain | {"words": corpus.words}
    plain["tokenizer"] = json.loads(corpus.encoding.to_str())  # whose quotes are escaped once
    return plain | {"direction": corpus.direction, "lowercase": corpus.lowercase}


def vocabulary_from_dict(plain: dict, where: str) -> WordVocabulary | PieceVocabulary:
    """Return the vocabulary that `vocabulary_to_dict` wrote.

    CourseError, which names the file `where`, for anything else.
    """
    words: Any
    damaged = CourseError(f"{where} holds a vocabulary that cannot be read")
    if not isinstance(plain, dict) or not isinstance(plain.get("name"), str):
        raise damaged
    try:
        counts = torch.tensor(plain["counts"], dtype=torch.int64)
        sha256 = dict(plain["sha256"])
        encoding = bpe.read(json.dumps(plain["tokenizer"])) if "tokenizer" in plain else None
        pieces = bpe.read(json.dumps(plain["pieces"])) if "pieces" in plain else None
    except Exception as error:  # tokenizers raises nothing more special
        raise CourseError(f"{damaged} ({error})") from None
    if encoding is not None:
        words = [encoding.id_to_token(i) for i in range(encoding.get_vocab_size())]
        direction: Any = plain.get("direction")
        lowercase: Any = plain.get("lowercase")
        made = PieceVocabulary(plain["name"], words, counts, encoding, direction, lowercase, sha256)
        good = isinstance(direction, str) and isinstance(lowercase, bool)
    else:
        words = plain.get("words")
        made = WordVocabulary(plain["name"], words, counts, sha256)
        if pieces is not None:
            made = PieceTextVocabulary(plain["name"], words, counts, sha256, pieces=pieces)
        good = isinstance(words, list) and EOS in words and all(type(w) is str for w in words)
    if not good or None in words or counts.shape != (len(words),) or (counts < 0).any():
        raise damaged
    return made
