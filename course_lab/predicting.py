"""A few figures tell what a language model predicts on its test split; a result keeps them.

The figures answer what a perplexity cannot: which words a model takes for likely at given places,
of which words it loses least, and whether a probability of 0.3 is right three times in ten. One
pass over log P of the whole split gives all of them.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from course_lib.data import Corpus
from course_lib.evaluation.generation import generate
from course_lib.evaluation.log_prob import log_prob_blocks
from course_lib.models import LanguageModel

# Where the word to be predicted stands in PTB's test split, whose line ends are tokens, too. The
# first 18 are the contexts of parthiban2021's Table S2: six are of Yang et al., six chosen, six
# drawn. The last four are those of inan2017's Table 4.
PLACES = {
    "ptb": (2700, 21300, 82040, 478, 82205, 63609, 32603, 36509, 38890)
    + (46198, 54702, 57173, 18782, 28690, 48746, 65255, 41649, 58545)
    + (10644, 11091, 15004, 17099)
}
EVENLY = 12  # places of another text
BEST = 5  # words told at a place
AMONG = (1, 5)  # likeliest words among which the next one is looked for, at every token
BINS = 10  # of the greatest probability, for calibration
WATCHED = ("<unk>", "a", "an", "the")  # inan2017, section 6.2: words near to no other word
DECADES = (1, 10, 100, 1_000, 10_000)  # of how often a word occurs in the training split
SAMPLE = 40  # words of the text that the model writes
MOST = 10**10  # numbers of log P that are looked at, some minutes of a core


def predictions(
    model: LanguageModel, corpus: Corpus, seed: int, settings: Mapping[str, Any]
) -> dict | None:
    """Return what a model predicts on the test split; None where that would take too long.

    model: a language model.
    corpus: the text that it was trained on.
    seed: of the text that it writes.
    settings: `eos`, `length`, `memory` and `clamp` of the evaluation.

    Keys of the result: "places", place → [[word, probability], …], the best `BEST`; "calibration",
    [tokens, mean greatest probability, share right] for each of `BINS`; "among", k → share of all
    tokens that are among the k likeliest words, for the k of `AMONG`; "watched", word →
    [tokens, mean probability where it is the next word, mean probability elsewhere]; "losses",
    group of `groups` → [tokens, mean −log P in nats]; "sample", a text that the model writes.
    """
    tokens = corpus.test
    if len(tokens) * len(corpus) > MOST:
        return None
    watched = {word: corpus.index[word] for word in WATCHED if word in corpus.index}
    wanted = places(corpus)
    told = {}
    greatest, right, losses, likely, likelier = [], [], [], [], []
    start = 0
    for rows in log_prob_blocks(model, tokens, progress=False, **settings):
        rows = rows.float().cpu()
        target = tokens[start : start + len(rows)]
        best = rows.max(1)
        greatest.append(best.values.exp())
        right.append(best.indices == target)
        of_target = rows.gather(1, target[:, None])
        losses.append(-of_target[:, 0])
        likelier.append((rows > of_target).sum(1))  # how many words are likelier than the next one
        likely.append(rows[:, list(watched.values())].exp())
        for place in wanted:
            if start <= place < start + len(rows):
                told[str(place)] = _best_words(rows[place - start], corpus.words)
        start += len(rows)
    likely = torch.cat(likely).double()
    likelier = torch.cat(likelier)
    return {
        "places": told,
        "calibration": _calibration(torch.cat(greatest), torch.cat(right)),
        "among": {str(k): _mean((likelier < k).double()) for k in AMONG},
        "watched": {
            word: _where(likely[:, column], tokens == number)
            for column, (word, number) in enumerate(watched.items())
        },
        "losses": _mean_losses(torch.cat(losses), tokens, corpus),
        "sample": generate(model, corpus, length=SAMPLE, seed=seed),
    }


def places(corpus: Corpus) -> Sequence[int]:
    """Return the places of a test split at which the best words are told."""
    if corpus.name in PLACES and max(PLACES[corpus.name]) < len(corpus.test):
        return PLACES[corpus.name]
    return sorted({int(x) for x in np.linspace(0, len(corpus.test) - 1, EVENLY + 1)[1:]})


def groups(corpus: Corpus) -> dict[str, Tensor]:
    """Return which words (N,) are of each group: by frequency in training, and the watched ones."""
    ends = (*DECADES[1:], 10**18)
    named = {}
    for low, high in zip(DECADES, ends, strict=True):
        name = f"{low:,} to {high - 1:,}" if high < 10**18 else f"{low:,} and more"
        named[name] = (corpus.counts >= low) & (corpus.counts < high)
    for word in WATCHED:
        if word in corpus.index:
            named[word] = torch.arange(len(corpus)) == corpus.index[word]
    return named


def _best_words(row: Tensor, words: Sequence[str]) -> list[list]:
    """Return the `BEST` likeliest words of a row of log P, each with its probability."""
    best = row.topk(min(BEST, len(row)))
    pairs = zip(best.indices.tolist(), best.values.exp().tolist(), strict=True)
    return [[words[number], _rounded(p)] for number, p in pairs]


def _calibration(greatest: Tensor, right: Tensor) -> list[list]:
    """Return tokens, mean probability and share right of each bin of the greatest probability."""
    bins = (greatest * BINS).long().clamp(max=BINS - 1)
    rows = []
    for number in range(BINS):
        inside = bins == number
        count = int(inside.sum())
        means = [_mean(x[inside].double()) for x in (greatest, right)] if count else [0.0, 0.0]
        rows.append([count, *means])
    return rows


def _where(likely: Tensor, is_next: Tensor) -> list:
    """Return tokens, and the mean probability of a word where it is the next one and elsewhere."""
    means = [_mean(likely[mask]) if mask.any() else 0.0 for mask in (is_next, ~is_next)]
    return [int(is_next.sum()), *means]


def _mean_losses(losses: Tensor, tokens: Tensor, corpus: Corpus) -> dict[str, list]:
    """Return tokens and mean loss of each group of words that the split has."""
    rows = {}
    for name, members in groups(corpus).items():
        inside = members[tokens]
        count = int(inside.sum())
        if count:
            rows[name] = [count, _mean(losses[inside].double())]
    return rows


def _mean(values: Tensor) -> float:
    return _rounded(values.mean().item())


def _rounded(value: float) -> float:
    """Return a figure with as many digits as anybody reads."""
    return float(f"{value:.5g}")
