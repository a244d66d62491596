"""Do the vectors of words that people find similar point the same way?

A benchmark has `pairs`, n pairs of lower-cased words, and `scores` (n,), people's judgement of
each: `course_lab.corpora.similarity` reads the 13 of parthiban2021. A look-up, `lower_cased` or
`as_written`, says which row of the word matrix belongs to a word of a pair.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy  # `stats` takes half as long as PyTorch to import: at its first use
import torch
from torch.nn import functional as F

from course_lib.errors import CourseError

if TYPE_CHECKING:
    import pandas as pd

LEAST = 3  # pairs: of two, every ρ is 1 or −1


def lower_cased(words: Sequence[str]) -> dict[str, int]:
    """Return the look-up that takes no notice of capitals: lower-cased word -> id.

    `words[i]` is the word with id i. Of several spellings the lower-case one counts, else the
    first. (The scripts that come with the benchmarks let the last one win.)
    """
    index = {word: i for word, i in as_written(words).items() if word == word.lower()}
    for i, word in enumerate(words):
        index.setdefault(word.lower(), i)
    return index


def as_written(words: Sequence[str]) -> dict[str, int]:
    """Return the look-up of parthiban2021's code: each word, as the vocabulary has it -> its id.

    The lower-cased words of the benchmarks miss those that a vocabulary has in capitals only, such
    as the names of WikiText-2. Penn Treebank is lower-cased, and the two look-ups agree on it.
    """
    return {word: i for i, word in enumerate(words)}


class Similarity(NamedTuple):
    """ρ with its interval, NaN with fewer than 3 pairs, and how many pairs the look-up knows."""

    rho: float
    low: float
    high: float
    found: int
    missing: int


def similarity(W, words, benchmark, resamples: int = 1_000, seed: int = 0) -> Similarity:
    """Return Spearman's ρ of cosines and judgements over the pairs whose two words are known.

    ρ is Pearson's r of the ranks; ties share their mean rank. The interval is the 95 % percentile
    one over pairs drawn with replacement.

    W: (N, d), a word a row; the rows are normalised to length 1.
    words: the N words, which `lower_cased` then looks up, or a look-up {word: row}.
    benchmark: pairs and scores.
    resamples, seed: of the interval; with 0 resamples it is NaN.
    Raises CourseError unless W is finite with a row for each word.
    """
    index = words if isinstance(words, Mapping) else lower_cased(words)
    rows = torch.as_tensor(W).detach()
    if rows.ndim != 2 or len(rows) <= max(index.values(), default=-1) or not rows.isfinite().all():
        shape = (*rows.shape,)
        raise CourseError(f"a finite vector for each of {len(index)} words is needed, got {shape}")

    # the pairs that the look-up knows
    known = np.array([a in index and b in index for a, b in benchmark.pairs], bool)
    n = int(known.sum())
    missing = len(known) - n
    if n < LEAST:
        return Similarity(np.nan, np.nan, np.nan, n, missing)
    pairs = [pair for pair, both in zip(benchmark.pairs, known, strict=True) if both]
    scores = np.asarray(benchmark.scores)[known]

    # cosines of the pairs; equal ones tie, whatever the rounding
    ids = torch.tensor([[index[word] for word in pair] for pair in pairs])
    first, second = F.normalize(rows[ids].cpu().double(), dim=-1).unbind(1)
    cosines = (first * second).sum(1).numpy().round(12)

    # ρ, NaN if one side is constant, and its interval
    rho = float(_spearman(cosines, scores))
    if np.isnan(rho) or not resamples:
        return Similarity(rho, np.nan, np.nan, n, missing)
    interval = scipy.stats.bootstrap(
        (cosines, scores),
        lambda x, y, axis: np.nan_to_num(_spearman(x, y, axis)),  # one pair n times: no order
        n_resamples=resamples,
        batch=max(1, (1 << 20) // n),
        vectorized=True,
        paired=True,
        confidence_level=0.95,
        method="percentile",
        rng=np.random.default_rng(seed),
    ).confidence_interval
    return Similarity(rho, float(interval.low), float(interval.high), n, missing)


def similarities(W, words, benchmarks: Mapping, **options) -> "pd.DataFrame":
    """Return `similarity` for each benchmark: a row each with rho, low, high, found, missing.

    W, words, options: as in `similarity`; benchmarks: {name: benchmark}.
    """
    import pandas as pd

    index = words if isinstance(words, Mapping) else lower_cased(words)
    rows = {name: similarity(W, index, b, **options) for name, b in benchmarks.items()}
    return pd.DataFrame.from_dict(rows, orient="index", columns=Similarity._fields)


def _spearman(x, y, axis=-1):
    """Return ρ along an axis, NaN where a side is constant; SciPy's takes one sample at a time."""
    x, y = (scipy.stats.rankdata(values, axis=axis) for values in (x, y))
    x, y = (ranks - ranks.mean(axis, keepdims=True) for ranks in (x, y))
    with np.errstate(invalid="ignore"):
        return (x * y).sum(axis) / np.sqrt(np.square(x).sum(axis) * np.square(y).sum(axis))
