"""Byte-pair encoding shared by two languages (Sennrich et al. 2016), by the tokenizers library.

Text is normalised, cut into words, and each word into pieces that were learned from the train
split of both languages together. No piece crosses the border of a word. A word is, as in Moses'
tokeniser, a run of letters and inner hyphens, a number with its inner points and commas, an English
clitic ('s, 't), a row of points, or any other sign alone. Unlike Moses' it leaves nothing out: a
blank before a word is kept as `▁` in front of it, so that joining the pieces gives the text back.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path

import tokenizers
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from course_lib.data import folders
from course_lib.data.cache import cached
from course_lib.data.corpus import EOS, UNK, digest
from course_lib.errors import CourseError

SPECIAL = ("<pad>", "<bos>", EOS, UNK)  # ids 0, 1, 2, 3
BLANK = "▁"
WORD = "|".join(
    (
        rf"{BLANK}?\p{{N}}+(?:[.,]\p{{N}}+)*",
        rf"{BLANK}?[\p{{L}}\p{{M}}]+(?:-[\p{{L}}\p{{M}}]+)*",
        r"'\p{L}+",
        rf"{BLANK}?\.{{2,}}",
        rf"{BLANK}?[^\p{{L}}\p{{M}}\p{{N}}{BLANK}]",
        BLANK,
    )
)
APART = pre_tokenizers.Split(Regex(WORD), "isolated")
WORDS = pre_tokenizers.Sequence([pre_tokenizers.Metaspace(BLANK, "always", split=False), APART])
KEPT_FROM = 1_000_000  # characters; less is learned in half a second and not kept


def normalise(text: str, lowercase: bool = False) -> str:
    """Return text in Unicode NFC, with single blanks, and `_` for `▁`, which stands for a blank."""
    text = text.lower() if lowercase else text
    return " ".join(unicodedata.normalize("NFC", text).replace(BLANK, "_").split())


def tokenise(text: str) -> str:
    """Return the words of a text separated by blanks, for BLEU on tokenised text."""
    words = (word.removeprefix(BLANK) for word, _ in WORDS.pre_tokenize_str(normalise(text)))
    return " ".join(filter(None, words))


def split_compounds(words: str) -> str:
    """Return tokenised text with compounds in parts, `a-b` → `a ##AT##-##AT## b`.

    The BLEU of Vaswani et al. (2017) counts German ones so, by the script of their released code.
    """
    return re.sub(r"(\S)-(\S)", r"\1 ##AT##-##AT## \2", words)


def learn(texts: Iterable[str], pieces: int) -> str:
    """Return the encoding of `pieces` pieces, special ones included, as the library's JSON.

    The same texts, in any order, give the same merges: by falling count, equal counts by id. A
    pair that occurs once is not merged, so a short text gives fewer pieces. `CourseError` if there
    are more characters than pieces.
    """
    bpe = Tokenizer(models.BPE(unk_token=UNK))
    bpe.pre_tokenizer = WORDS
    bpe.decoder = decoders.Metaspace(BLANK, "always", split=False)
    trainer = trainers.BpeTrainer(
        vocab_size=pieces, min_frequency=2, special_tokens=list(SPECIAL), show_progress=False
    )
    bpe.train_from_iterator(texts, trainer)
    if bpe.get_vocab_size() > pieces:
        raise CourseError(
            f"{pieces:,} pieces are too few: the text has {bpe.get_vocab_size() - len(SPECIAL):,} "
            f"different characters, and {len(SPECIAL)} pieces are special"
        )
    return bpe.to_str()


def learned(texts: Iterable[str], pieces: int, key: str, characters: int) -> Tokenizer:
    """Return the encoding of texts, as `learn` has it, from the cache where it lies there.

    texts, pieces: as `learn` takes them.
    key: stands for the content of the texts.
    characters: of the texts; that of a short one is learned anew.
    """
    key = digest(f"{key} {pieces} {tokenizers.__version__} {Path(__file__).read_text('utf-8')}")
    path = folders.cache() / f"bpe-{key[:16]}.json"
    make = partial(learn, texts, pieces)
    return read(make() if characters < KEPT_FROM else cached(path, make))


def read(json: str) -> Tokenizer:
    """Return the encoding of the library's JSON; in a text "<pad>" means the five characters."""
    bpe = Tokenizer.from_str(json)
    bpe.encode_special_tokens = True
    return bpe


def encode_all(bpe: Tokenizer, texts: Iterable[str], lowercase: bool) -> Iterator[list[int]]:
    """Yield the ids of each text; 10,000 texts are encoded at a time, on all cores."""
    texts = (normalise(text, lowercase) for text in texts)
    while rows := list(islice(texts, 10_000)):
        for encoded in bpe.encode_batch_fast(rows, add_special_tokens=False):
            yield encoded.ids
