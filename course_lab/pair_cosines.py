"""Cosines of the pairs of the word-similarity benchmarks, as a result keeps them.

A word matrix of 10,000 words takes megabytes. What an analysis asks of it, a bootstrap over pairs
and the part that frequency has in a score, needs the cosines of the pairs only.
"""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from course_lib.output_layers.centring import centred

KINDS = ("raw", "centred", "whitened")
COSINES = "pair_cosines"  # the array (pairs, 3) of float16, NaN where a word is unknown
COUNTS = "pair_counts"  # the array (pairs, 2) of int32: how often each word occurs in training


def pair_arrays(
    W: Tensor, counts: Tensor, look_up: Mapping[str, int], benchmarks: Mapping
) -> dict[str, np.ndarray]:
    """Return the cosines of all pairs by `KINDS`, and their words' counts, list after list.

    W: (N, d), a word a row; counts: (N,), of the training split.
    look_up: word → row; benchmarks: name → pairs and scores, in their order.
    """
    pairs = [pair for one in benchmarks.values() for pair in one.pairs]
    rows = np.array([[look_up.get(word, -1) for word in pair] for pair in pairs])
    known = (rows >= 0).all(1)
    ids = torch.as_tensor(rows[known])
    cosines = np.full((len(pairs), len(KINDS)), np.nan, np.float16)
    for column, matrix in enumerate((W, centred(W), whitened(W, counts))):
        first, second = F.normalize(matrix[ids].double(), dim=-1).unbind(1)
        cosines[known, column] = (first * second).sum(-1).numpy()
    occurrences = np.full((len(pairs), 2), -1, np.int32)
    occurrences[known] = counts[ids].numpy()
    return {COSINES: cosines, COUNTS: occurrences}


def whitened(W: Tensor, counts: Tensor) -> Tensor:
    """Return the rows (N, d) with mean 0 and covariance I where words weigh by their frequency.

    Source: Yokoi et al. 2024, "Zipfian Whitening". A plain mean is one over the rare words, of
    which there are most; the mean over tokens is one over the words that a text has. Directions
    without spread stay 0.
    """
    W = W.double()
    p = counts.double() / counts.sum()
    about_mean = W - p @ W
    values, vectors = torch.linalg.eigh(about_mean.T @ (p[:, None] * about_mean))
    scale = torch.where(values > 1e-10 * values.max(), values.clamp(min=0).rsqrt(), 0.0)
    return about_mean @ (vectors * scale)
