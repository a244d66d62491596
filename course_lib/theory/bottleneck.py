"""How many directions log P can span, and how its rank shows: Yang et al. 2018, parthiban2021."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from torch import Tensor

from course_lib.errors import CourseError
from course_lib.metrics import rank

LEAST_GAP = 10.0  # ratio of two singular values; rounding's own are near each other


def rank_bound(d: int, bias: bool = True) -> int:
    """Return the greatest rank of log P that one softmax over contexts of d numbers can have.

    log P = H Wᵀ + 1 bᵀ − log Z 1ᵀ: rank d of the first term, one more for the row-wise normaliser,
    and one more for a bias. That is d + 2 (402 at d = 400, parthiban2021, Table 1), and d + 1
    without a bias (Yang et al. 2018, corollary 1).
    """
    return d + 1 + bias


class HiddenSize(NamedTuple):
    """The length of a softmax' contexts, as `hidden_size` finds it."""

    d: int | None  # None where the spectrum has no gap
    gap: float  # σ_d / σ_{d+1}
    singular_values: np.ndarray  # in which the gap was sought


def hidden_size(blocks: Iterable) -> HiddenSize:
    """Return how long the contexts of a softmax are, found from its output alone.

    blocks: (b, N) each, logits or log-probabilities of d + 2 contexts or more, and as many words.
    A row of log P = W h + b − log Z minus its mean has no log Z. Minus the first such row it has no
    b either, and what is left spans the d columns of W, or d − 1 dimensions if the columns combine
    to 1, a direction that changes no probability. Below σ_d comes rounding: d is where the ratio of
    two successive singular values is greatest, if that is at least `LEAST_GAP`. A mixture has no
    such gap, nor have outputs that are rounded coarsely.
    Source: Finlayson et al. 2024; Carlini et al. 2024.
    Raises CourseError for fewer than 4 different rows or 3 words, and as `rank.rows_of`.
    """
    values, (m, N) = rank.spectrum(_differences(blocks))
    if m < 3 or N < 3 or not values[0] > 0:
        raise CourseError(f"a gap needs 4 different contexts or more, 3 words; got {m + 1} of {N}")
    values = values[: min(m, N - 1)]
    seen = values.clip(values[0] * rank.RESOLVED)
    ratios = seen[:-1] / seen[1:]
    d = int(ratios.argmax()) + 1
    return HiddenSize(d if ratios[d - 1] >= LEAST_GAP else None, float(ratios[d - 1]), values)


def _differences(blocks: Iterable) -> Iterator[Tensor]:
    """Yield rows minus their means, minus the first of them, which is left out."""
    first: Tensor | None = None
    m = 0
    for rows in rank.rows_of(blocks):
        m += len(rows)
        rows = rows.double()
        rows = rows - rows.mean(1, keepdim=True)
        if first is None and len(rows):
            first, rows = rows[0], rows[1:]
        if len(rows) and first is not None:
            yield rows - first
    if m < 2:
        raise CourseError(f"a gap needs 4 different contexts or more; got {m}")
