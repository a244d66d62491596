"""How often each word occurs: a run's own corpus, a file of counts, or a text and a tokenizer."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from course_lib import data
from course_lib.errors import CourseError

LINES = 10_000  # lines of text encoded at once


@dataclass(frozen=True)
class Frequencies:
    """Counts (N,) and, where they are known, the words; `source` says where both came from."""

    counts: np.ndarray
    words: list[str] | None
    source: str


def of_corpus(corpus) -> Frequencies:
    """Return the counts of a corpus' words, or pieces, in its train split."""
    counts = corpus.counts.numpy().astype(float)
    return Frequencies(counts, list(corpus.words), f"train split of {corpus.name}")


def from_text(corpus, encode: Tokenizer | None, N: int) -> Frequencies:
    """Return the counts of N words in the train split of a corpus.

    corpus: the text. encode: the checkpoint's tokenizer, with which the text is encoded; without
    one the corpus must have N words itself. N: rows of the matrix.
    Raises CourseError for sentence pairs, or where the numbers of words do not agree.
    """
    if encode is None:
        if len(corpus) != N:
            raise CourseError(
                f"corpus {corpus.name} has {len(corpus):,} words, the matrix {N:,}, and there is "
                "no tokenizer in the checkpoint, and no tokenizer.json beside it, to encode the "
                "text with"
            )
        return of_corpus(corpus)
    if isinstance(corpus, data.SentencePairs):
        raise CourseError(f"{corpus.name} has sentence pairs; counting needs running text")
    size = encode.get_vocab_size(with_added_tokens=True)
    if size > N:
        raise CourseError(f"the tokenizer has {size:,} pieces, but the matrix only {N:,} rows")
    counts = np.zeros(N)
    lines = corpus.decode(corpus.train).split("\n")
    for start in range(0, len(lines), LINES):
        texts = encode.encode_batch(lines[start : start + LINES], add_special_tokens=False)
        ids = np.concatenate([np.array(text.ids, dtype=int) for text in texts])
        counts += np.bincount(ids, minlength=N)
    source = f"train split of {corpus.name}, by the checkpoint's tokenizer"
    return Frequencies(counts, _pieces(encode, N), source)


def from_file(path: Path, N: int, words: list[str] | None = None) -> Frequencies:
    """Return the counts in a file that has a count a line, or `word<TAB>count`.

    path: the file. N: rows of the matrix. words: those of the rows, where they are known; then
    `word<TAB>count` is matched by word, a missing word counts 0, and a word that is there twice
    counts the sum. Else the file needs N lines in the order of the rows.
    Raises CourseError, which names file and line.
    """
    path = Path(path)
    names, counts = read_counts(path)
    if words is not None and names is not None:
        table = Counter()
        for name, count in zip(names, counts, strict=True):
            table[name] += count
        by_row = np.array([float(table[word]) for word in words])
        if not by_row.any():
            raise CourseError(f"{path}: none of its words is a word of the matrix")
        matched = f"{path.name}, matched by word ({(by_row > 0).sum():,} of {N:,} rows)"
        return Frequencies(by_row, words, matched)
    if len(counts) != N:
        raise CourseError(f"{path} has {len(counts):,} counts, the matrix {N:,} rows")
    return Frequencies(counts, names, f"{path.name}, in the order of the rows")


def read_counts(path: Path) -> tuple[list[str] | None, np.ndarray]:
    """Return (words or None, counts) of a file of counts; CourseError names file and line."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")  # with a mark at its start or without
    except FileNotFoundError:
        raise CourseError(f"there is no file of counts {path}") from None
    except OSError as error:
        raise CourseError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise CourseError(f"{path} is not UTF-8 text ({error})") from None
    names = []
    counts = []
    for number, line in enumerate(text.removesuffix("\n").split("\n"), 1):
        name, tab, count = line.rpartition("\t")
        try:
            value = float(count)
        except ValueError:
            value = -1.0
        if not 0 <= value < np.inf:
            raise CourseError(f"{path}, line {number}: {count!r} is no count of 0 or more")
        names += [name] if tab else []
        counts.append(value)
    if names and len(names) != len(counts):
        raise CourseError(f"{path}: some lines are `word<TAB>count` and some are a count alone")
    return names or None, np.array(counts)


def pieces(encode: Tokenizer | None, N: int) -> list[str] | None:
    """Return what each of N rows stands for by a tokenizer; None without one."""
    return None if encode is None else _pieces(encode, N)


def _pieces(encode: Tokenizer, N: int) -> list[str]:
    return [encode.id_to_token(i) or f"row {i}" for i in range(N)]


def read_tokenizer(path: Path) -> Tokenizer:
    """Return the tokenizer in a file, without truncation or padding; CourseError if it is none."""
    try:
        made = Tokenizer.from_file(str(path))
    except Exception as error:  # tokenizers raises nothing more special
        raise CourseError(f"{path} is no tokenizer that can be read ({error})") from None
    made.no_truncation()  # what models are fed with is not what a text is counted with
    made.no_padding()
    return made
