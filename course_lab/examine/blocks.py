"""A large matrix in blocks of rows, so that no copy of it in float64 is ever held."""

from collections.abc import Iterator

import torch
from torch import Tensor

from course_lib.metrics.inputs import rows_at_once


def blocks(W: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """Yield the rows of W (N, d) block by block in float64, each with its place."""
    step = rows_at_once(W.shape[1])
    for start in range(0, len(W), step):
        part = slice(start, start + step)
        yield part, W[part].double()


def moments(W: Tensor, p: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return the mean row (d,) and the second moments Σ p w wᵀ (d, d) of W (N, d), in float64.

    p: (N,), what each word weighs, with sum 1; every word the same if None.
    """
    size = W.shape[1]
    mean = torch.zeros(size, dtype=torch.float64)
    second = torch.zeros(size, size, dtype=torch.float64)
    for part, rows in blocks(W):
        weighted = rows / len(W) if p is None else p[part, None] * rows
        mean += weighted.sum(0)
        second += rows.T @ weighted
    return mean, second
