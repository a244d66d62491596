"""How noise that no experiment could detect changes the rank of a matrix (parthiban2021, S15)."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import torch

from course_lib.metrics import rank


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
    constants: Iterable[float] = (1e-20, 1e-21, 1e-22, 1e-23, 1e-24, 1e-25),
    entries: int = 10,
    epsilons: Iterable[float] = (1e-3, 1e-4, 1e-5),
    seed: int = 0,
) -> Iterator[Fragility]:
    """Yield the ranks of `noisy_low_rank(n, c)` for each constant c (parthiban2021, Table S15).

    The singular values are those of the whole matrix in float64. Press' threshold in that
    precision, 1e-14 σ_1, is too small for a Gram matrix, which squares the values.
    """
    for c in constants:
        values = torch.linalg.svdvals(torch.from_numpy(noisy_low_rank(n, c, entries, seed))).numpy()
        narrow, wide = (rank.press_rank(values, (n, n), p) for p in (np.float32, np.float64))
        effective = {epsilon: rank.effective_rank(values, epsilon) for epsilon in epsilons}
        yield Fragility(c, narrow, wide, effective)
