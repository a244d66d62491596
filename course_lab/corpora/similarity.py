"""The word-similarity benchmarks: pairs of words and how similar people find them."""

from typing import NamedTuple

import numpy as np

from course_lab.corpora.download import absent
from course_lab.corpora.files import read_text, verified_files
from course_lab.corpora.registry import BENCHMARKS, WORD_SIMILARITY
from course_lib.data import folders
from course_lib.errors import CourseError


class Benchmark(NamedTuple):
    """Pairs of words, lower-cased, and how similar people found each; both of length n."""

    pairs: list[tuple[str, str]]
    scores: np.ndarray


def fetched() -> bool:
    """Return whether the benchmarks lie in the folder of the corpora."""
    return not absent(WORD_SIMILARITY, folders.corpora() / WORD_SIMILARITY.name)


def load_word_similarity() -> dict[str, Benchmark]:
    """The 13 benchmarks by name, in the order of parthiban2021's list, every word lower-cased.

    They are files EN-….txt in the folder `word-similarity` of the corpora, a pair and its score a
    line, fetched if they are not there. CourseError naming the file, its SHA-256 and its place if
    one cannot be had or differs.
    """
    found = {}
    paths = verified_files("word-similarity")
    for (name, _, pairs, *_), path in zip(BENCHMARKS, paths, strict=True):
        text = read_text(path).lower()
        rows = [line.split() for line in text.splitlines() if line.strip()]
        if len(rows) != pairs:
            raise CourseError(f"{path} has {len(rows):,} pairs; {name} has {pairs:,}")
        found[name] = Benchmark(
            [(a, b) for a, b, _ in rows], np.array([float(score) for *_, score in rows])
        )
    return found
