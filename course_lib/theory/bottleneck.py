"""How many directions log P can span, and how its rank shows: Yang et al. 2018, parthiban2021."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from course_lib.errors import CourseError
from course_lib.metrics import rank


def rank_bound(d: int, bias: bool = True) -> int:
    """Return the greatest rank of log P that one softmax over contexts of d numbers can have.

    log P = H Wᵀ + 1 bᵀ − log Z 1ᵀ: rank d of the first term, one more for the row-wise normaliser,
    and one more for a bias. That is d + 2 (402 at d = 400, parthiban2021, Table 1), and d + 1
    without a bias (Yang et al. 2018, corollary 1).
    """
    return d + 1 + bias


def noisy_low_rank(n: int, c: float, entries: int = 10, seed: int = 0) -> np.ndarray:
    """Return a diagonal matrix (n, n) of low rank plus Gaussian noise of variance c / n², float64.

    Its diagonal has the `entries` e^{−k/2}, k = 0, 1 …, with σ_1 = 1 and effective ranks between 7
    and 10. The source does not say which entries it takes (parthiban2021, supplement, Table S15).
    """
    matrix = np.random.default_rng(seed).normal(scale=np.sqrt(c) / n, size=(n, n))
    k = np.arange(entries)
    matrix[k, k] += np.exp(-k / 2)
    return matrix


class Fragility(NamedTuple):
    """Ranks of one noisy matrix: Press' by both precisions, and the ε-effective ones by ε."""

    c: float
    press_float32: int
    press_float64: int
    effective: dict[float, int]


def fragility(
    n: int,
    variances: Iterable[float] = (1e-20, 1e-21, 1e-22, 1e-23, 1e-24, 1e-25),
    entries: int = 10,
    epsilons: Iterable[float] = (1e-3, 1e-4, 1e-5),
    seed: int = 0,
) -> Iterator[Fragility]:
    """Yield the ranks of `noisy_low_rank(n, c)` for each variance c (parthiban2021, Table S15).

    The singular values are those of the whole matrix in float64. Press' threshold in that
    precision, 1e-14 σ_1, is too small for a Gram matrix, which squares the values.
    """
    for c in variances:
        values = torch.linalg.svdvals(torch.from_numpy(noisy_low_rank(n, c, entries, seed))).numpy()
        narrow, wide = (rank.press_rank(values, (n, n), p) for p in (np.float32, np.float64))
        effective = {epsilon: rank.effective_rank(values, epsilon) for epsilon in epsilons}
        yield Fragility(c, narrow, wide, effective)


class HiddenSize(NamedTuple):
    """The length of a softmax' contexts, as `hidden_size` finds it."""

    d: int | None  # None where the spectrum has no gap
    gap: float  # σ_d / σ_{d+1}
    singular_values: np.ndarray  # in which the gap was sought


def hidden_size(blocks: Iterable, least_gap: float = 10.0) -> HiddenSize:
    """Return how long the contexts of a softmax are, found from its output alone.

    blocks: (b, N) each, logits or log-probabilities of d + 2 contexts or more, and as many words.
    A row of log P = W h + b − log Z minus its mean has no log Z. Minus the first such row it has no
    b either, and what is left spans the d columns of W, or d − 1 dimensions if the columns combine
    to 1, a direction that changes no probability. Below σ_d comes rounding: d is where the ratio of
    two successive singular values is greatest, if that is at least `least_gap`. A mixture has no
    such gap, nor have outputs that are rounded coarsely.
    Source: Finlayson et al. 2024; Carlini et al. 2024.
    Raises CourseError for fewer than 4 different rows or 3 words, and as `spectrum`.
    """
    values, (m, N) = rank.spectrum(_differences(blocks))
    if m < 3 or N < 3 or not values[0] > 0:
        raise CourseError(f"a gap needs 4 different contexts or more, 3 words; got {m + 1} of {N}")
    values = values[: min(m, N - 1)]
    seen = values.clip(values[0] * rank.RESOLVED)
    ratios = seen[:-1] / seen[1:]
    d = int(ratios.argmax()) + 1
    return HiddenSize(d if ratios[d - 1] >= least_gap else None, float(ratios[d - 1]), values)


def _differences(blocks: Iterable) -> Iterator[Tensor]:
    """Yield rows minus their means, minus the first of them, which is left out."""
    first: Tensor | None = None
    for rows in rank.rows_of(blocks):
        rows = rows.double()
        rows = rows - rows.mean(1, keepdim=True)
        if first is None and len(rows):
            first, rows = rows[0], rows[1:]
        if len(rows) and first is not None:
            yield rows - first
