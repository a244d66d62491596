"""Do the vectors of words that people find similar point the same way?

A benchmark has `pairs`, n pairs of lower-cased words, and `scores` (n,), people's judgement of
each: `course_lib.data.similarity` reads the 13 of parthiban2021.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from scipy.stats import bootstrap, rankdata
from torch.nn import functional as F

from course_lib.errors import CourseError

LEAST = 3  # pairs: of two, every ρ is 1 or −1


def lower_cased(words: Sequence[str]) -> dict[str, int]:
    """Lower-cased word -> id, where `words[i]` is the word with id i.

    Of several spellings the lower-case one counts, else the first. (The scripts that come with the
    benchmarks let the last one win. parthiban2021's own look a pair's lower-cased words up as they
    are, and so miss those that WikiText-2 has in capitals only, such as names.)
    """
    index: dict[str, int] = {}
    for i, word in enumerate(words):
        if word == word.lower():
            index[word] = i
    for i, word in enumerate(words):
        index.setdefault(word.lower(), i)
    return index


class Similarity(NamedTuple):
    """ρ with its interval, NaN with fewer than 3 pairs; pairs found in the vocabulary, missing."""

    rho: float
    low: float
    high: float
    found: int
    missing: int


def similarity(
    W, words, benchmark, confidence: float = 0.95, resamples: int = 1_000, seed: int = 0
) -> Similarity:
    """Spearman's ρ of cosines and judgements over the pairs whose two words are both known.

    W (N, d) with a word a row, words the N words or a dict as `lower_cased` gives; W's rows are
    normalised to length 1. ρ is Pearson's r of the ranks, ties sharing their mean rank. The
    interval is the percentile one over pairs drawn with replacement, NaN without `resamples`.
    CourseError unless W is finite with a row a word.
    """
    index, rows = _index(words), torch.as_tensor(W).detach()
    if rows.ndim != 2 or len(rows) <= max(index.values(), default=-1) or not rows.isfinite().all():
        raise CourseError(
            f"word similarity needs a finite vector for each of {len(index):,} words, got shape "
            f"{(*rows.shape,)}"
        )
    known = _known(index, benchmark)
    n = int(known.sum())
    if n < LEAST:
        return Similarity(np.nan, np.nan, np.nan, n, len(known) - n)
    pairs = [pair for pair, both in zip(benchmark.pairs, known, strict=True) if both]
    ids = torch.tensor([[index[word] for word in pair] for pair in pairs])
    first, second = F.normalize(rows[ids].cpu().double(), dim=-1).unbind(1)
    cosines = (first * second).sum(1).numpy().round(12)  # equal ones tie, whatever the rounding
    scores = np.asarray(benchmark.scores)[known]
    rho = float(_spearman(cosines, scores))
    if np.isnan(rho) or not resamples:  # NaN: one side is constant
        return Similarity(rho, np.nan, np.nan, n, len(known) - n)
    interval = bootstrap(
        (cosines, scores),
        lambda x, y, axis: np.nan_to_num(_spearman(x, y, axis)),  # one pair n times: no order
        n_resamples=resamples,
        batch=max(1, (1 << 20) // n),
        vectorized=True,
        paired=True,
        confidence_level=confidence,
        method="percentile",
        rng=np.random.default_rng(seed),
    ).confidence_interval
    return Similarity(rho, float(interval.low), float(interval.high), n, len(known) - n)


def similarities(W, words, benchmarks: Mapping, **options) -> pd.DataFrame:
    """`similarity` for each benchmark: a row each with rho, low, high, found, missing."""
    index = _index(words)
    rows = {name: similarity(W, index, b, **options) for name, b in benchmarks.items()}
    return pd.DataFrame.from_dict(rows, orient="index", columns=Similarity._fields)


def coverage(words, benchmarks: Mapping) -> pd.DataFrame:
    """Which part of each benchmark a vocabulary knows: a row each with pairs, found, missing."""
    index = _index(words)
    known = {name: _known(index, benchmark) for name, benchmark in benchmarks.items()}
    rows = {name: (len(k), int(k.sum()), int((~k).sum())) for name, k in known.items()}
    return pd.DataFrame.from_dict(rows, orient="index", columns=["pairs", "found", "missing"])


def wins(scores: Mapping[str, Iterable[float]]) -> pd.DataFrame:
    """How often the model of a row beats the model of a column: on how many benchmarks its ρ is
    greater (parthiban2021, Figure 4).

    scores: model -> ρ by benchmark, the same benchmarks in the same order. What is NaN for one of
    two models counts for neither.
    """
    scores = {model: list(values) for model, values in scores.items()}
    lengths = {len(values) for values in scores.values()}
    if len(lengths) > 1:
        raise CourseError(f"models with different numbers of benchmarks, {sorted(lengths)}")
    table = np.array(list(scores.values()), np.float64)
    count = (table[:, None] > table[None]).sum(-1)
    return pd.DataFrame(count, index=list(scores), columns=list(scores))


def _index(words) -> Mapping[str, int]:
    return words if isinstance(words, Mapping) else lower_cased(list(words))


def _known(index: Mapping[str, int], benchmark) -> np.ndarray:
    """Whether both words of a pair are in the vocabulary, (n,)."""
    return np.array([a in index and b in index for a, b in benchmark.pairs], bool)


def _spearman(x, y, axis=-1):
    """ρ along an axis: scipy's `spearmanr` takes one sample at a time. NaN if one is constant."""
    x, y = (rankdata(values, axis=axis) for values in (x, y))
    x, y = (ranks - ranks.mean(axis, keepdims=True) for ranks in (x, y))
    with np.errstate(invalid="ignore"):
        return (x * y).sum(axis) / np.sqrt(np.square(x).sum(axis) * np.square(y).sum(axis))
