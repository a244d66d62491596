"""The word-similarity benchmarks: pairs of words and how similar people find them.

Some benchmarks are parts of others. How many pairs two of them have in common is kept beside this
module, because results have to be read alike where the benchmarks were not fetched.
"""

import functools
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from course_lab.corpora.download import absent
from course_lab.corpora.files import read_text, verified_files
from course_lab.corpora.registry import BENCHMARKS, WORD_SIMILARITY
from course_lib.data import folders
from course_lib.errors import CourseError

if TYPE_CHECKING:
    import pandas as pd

# Written by `pairs_in_common(load_word_similarity()).to_csv(IN_COMMON)`.
IN_COMMON = Path(__file__).with_name("pairs_in_common.csv")


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


# Lists within lists ------------------------------------------------------------------------------


def pairs_in_common(lists: Mapping[str, Benchmark]) -> "pd.DataFrame":
    """Return how many pairs a row's list has in common with a column's, in either order.

    A pair that a list has twice counts once.
    """
    import pandas as pd

    sets = {name: {frozenset(pair) for pair in one.pairs} for name, one in lists.items()}
    counts = [[len(a & b) for b in sets.values()] for a in sets.values()]
    return pd.DataFrame(counts, index=list(sets), columns=list(sets))


def overlap() -> "pd.DataFrame":
    """Return the share of a row's pairs that a column's list has as well, for the 13 lists."""
    common = _kept_in_common()
    return common.div(np.diag(common), axis=0)


def apart(names: Iterable[str]) -> list[str]:
    """Return the lists that do not lie wholly within a larger one of them.

    A mean over a list and its part would count the part twice. A list that is none of the 13 stays.
    """
    names = list(names)
    return [name for name in names if holders().get(name, set()).isdisjoint(names)]


@functools.cache
def holders() -> dict[str, set[str]]:
    """Return for each of the 13 lists the larger ones that have all its pairs."""
    common = _kept_in_common()
    size = {name: common.loc[name, name] for name in common.index}
    return {
        name: {other for other in size if common.loc[name, other] == size[name] < size[other]}
        for name in size
    }


def _kept_in_common() -> "pd.DataFrame":
    import pandas as pd

    return pd.read_csv(IN_COMMON, index_col=0)
