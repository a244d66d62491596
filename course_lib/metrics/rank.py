"""How many directions log P spans: its singular values in one pass, and the ranks read off them.

log P (m, N) has one context a row and one word a column. It comes in blocks of rows and is never
stored: what is summed up is the Gram matrix Σ_t x_t x_tᵀ (N, N) of the rows x_t, whose eigenvalues
are the squares of the singular values.

Squaring costs half of the digits. Press' threshold, about 1e-5 σ_1 for a test split, becomes 1e-10
of the largest eigenvalue. That is hopeless in float32, whose rounding is 6e-8, but far above that
of float64. So the sums are float64, and singular values down to `RESOLVED` σ_1 mean something.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import scipy  # `linalg` takes a quarter of a second to import: at its first use
import torch
from torch import Tensor

from course_lib.errors import CourseError
from course_lib.metrics.inputs import TINY, Numbers, as_numbers

RESOLVED = 1e-7  # of σ_1: singular values below may be nothing but rounding
ROWS = 512  # of log P that are widened to float64 at once
WIDTH, BAND = 512, 64  # columns that lie together; diagonals left after the first reduction


class Spectrum(NamedTuple):
    """Singular values, falling, (min(m, N),), and the shape (m, N) of what they belong to."""

    singular_values: np.ndarray
    shape: tuple[int, int]

    def press_rank(self) -> int:
        """Return the `press_rank` for float32."""
        return press_rank(self.singular_values, self.shape)

    def effective_rank(self, epsilon: float) -> int:
        """Return the ε-effective rank, see `effective_rank`."""
        return effective_rank(self.singular_values, epsilon)

    def summary(self) -> dict:
        """Return shape and ranks, ready for JSON; the effective ones by ε, from 1e-3 to 1e-5."""
        effective = {f"{e:g}": self.effective_rank(e) for e in (1e-3, 1e-4, 1e-5)}
        sizes = dict(zip(("contexts", "words"), self.shape, strict=True))
        return sizes | {"press_rank": self.press_rank(), "effective_rank": effective}


def spectrum(blocks: Iterable) -> Spectrum:
    """Return the singular values of a matrix given as blocks (b, N) of its rows, in one pass.

    blocks: any number of rows each, tensors or arrays; a matrix (m, N) is one block.
    N² / 2 numbers of float64 are kept: 0.4 GB for 10,000 words, 4.4 GB for 33,278. While 4 m ≤ N
    the rows themselves are kept instead. It takes m N² + 4/3 N³ multiplications and additions.
    Naive: `np.linalg.svd(np.concatenate(blocks), compute_uv=False)`.
    Raises CourseError for no rows, rows of different lengths, or a number that is not finite.
    """
    blocks_of_rows = []  # while they are fewer numbers than the Gram matrix
    gram = None
    m = N = 0
    for rows in rows_of(blocks):
        m += len(rows)
        N = rows.shape[1]
        if gram is None and 4 * m <= N:
            blocks_of_rows.append(rows.clone())
            continue
        if gram is None:
            gram = _Gram(N, rows.device)
            while blocks_of_rows:
                gram.add(blocks_of_rows.pop())
        gram.add(rows)
    if not m:
        raise CourseError("there is no spectrum without rows: every block is empty")
    if gram is None:  # the other product, (m, m), has the same eigenvalues
        gram = _Gram(m, blocks_of_rows[0].device)
        gram.add(torch.cat(blocks_of_rows).T)
    return Spectrum(np.sqrt(gram.eigenvalues().clip(0))[::-1][: min(m, N)], (m, N))


def press_rank(
    singular_values: Numbers, shape: tuple[int, int], precision: type[np.floating] = np.float32
) -> int:
    """Return how many singular values exceed ½ √(m+n+1) σ_1 ε (Press et al. 2007).

    shape: (m, n); precision: the type whose rounding ε is; parthiban2021 takes float32's. Of a
    `spectrum`, only that threshold is above `RESOLVED`.
    """
    values = as_numbers(singular_values, "singular values")
    threshold = 0.5 * np.sqrt(sum(shape) + 1) * values.max() * np.finfo(precision).eps
    return int((values > threshold).sum())


def effective_rank(singular_values: Numbers, epsilon: float) -> int:
    """Return the least k with Σ_{i≤k} σ_i² ≥ (1 − ε) Σ σ_i², the ε-effective rank.

    singular_values: in any order. Source: parthiban2021, p. 8. CourseError unless 0 ≤ ε < 1.
    """
    if not 0 <= epsilon < 1:
        raise CourseError(f"ε of the effective rank is a share, 0 ≤ ε < 1, not {epsilon}")
    values = np.sort(as_numbers(singular_values, "singular values"))
    rests = np.square(values / max(values[-1], TINY)).cumsum()  # what is left out, rising
    return int((rests > epsilon * rests[-1]).sum())


def rows_of(blocks: Iterable) -> Iterator[Tensor]:
    """Yield the blocks as finite tensors (b, N) of one N."""
    m, N = 0, None
    for block in [blocks] if getattr(blocks, "ndim", 0) == 2 else blocks:
        rows = torch.as_tensor(block).detach()
        if rows.ndim != 2 or not rows.shape[1] or N not in (None, rows.shape[1]):
            wanted = "the number of words" if N is None else f"{N:,}"
            raise CourseError(
                f"a block of log P has the shape (rows, {wanted}), but after {m:,} rows came one "
                f"of shape {(*rows.shape,)}"
            )
        if not rows.isfinite().all():
            row = m + int((~rows.isfinite()).any(1).nonzero()[0])
            raise CourseError(f"row {row:,} of log P is not finite: no probability may be 0")
        m, N = m + len(rows), rows.shape[1]
        yield rows


class _Gram:
    """G = Σ x xᵀ over rows x (n,), float64, of which half is kept because G is symmetric.

    Of every group of `WIDTH` columns these are the rows from the group's first column on.
    """

    def __init__(self, n: int, device):
        self.n = n
        shapes = [(n - start, min(WIDTH, n - start)) for start in range(0, n, WIDTH)]
        self.groups = [torch.zeros(s, dtype=torch.float64, device=device) for s in shapes]

    def add(self, rows: Tensor) -> None:
        for part in rows.split(ROWS):
            part = part.double()
            for start, group in zip(range(0, self.n, WIDTH), self.groups, strict=True):
                group.addmm_(part[:, start:].T, part[:, start : start + group.shape[1]])

    def eigenvalues(self) -> np.ndarray:
        """Return the eigenvalues (n,), rising, and use the matrix up.

        Orthogonal transformations of `BAND` columns at a time, nearly all of it products of
        matrices, leave `BAND` diagonals below the main one. LAPACK then solves the band (Bischof,
        Lang and Sun 2000).
        """
        n, band = self.n, np.zeros((min(BAND + 1, self.n), self.n))
        for start in range(0, n, BAND):
            number, at = divmod(start, WIDTH)
            group = self.groups[number]
            k = min(BAND, group.shape[1] - at)
            head = group[at : at + 2 * k, at : at + k]
            if start + k < n:
                V, S, head[k:] = _reflections(group[at + k :, at : at + k], len(head) - k)
                rest = [(0, group[at + k :, at + k :])] if at + k < group.shape[1] else []
                for i in range(number + 1, len(self.groups)):
                    rest.append((i * WIDTH - start - k, self.groups[i]))
                _transform(rest, V, S)
            for column, values in enumerate(head.T.cpu().numpy(), start):
                values = values[column - start :][: len(band)]
                band[: len(values), column] = values
            if at + k == group.shape[1]:
                self.groups[number] = group.new_empty(0)  # used up
        solve = scipy.linalg.eigvals_banded
        return np.asarray(solve(band, lower=True, overwrite_a_band=True, check_finite=False))


def _reflections(panel: Tensor, k: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return V (r, q), S = T⁻¹ (q, q) and R (k, c) of panel (r, c) = Q [R; 0], Q = I − V T Vᵀ."""
    packed, tau = torch.geqrf(panel)
    V = packed[:, : len(tau)].tril(-1)
    V.diagonal().fill_(1)
    V *= tau != 0  # such a column needs no reflection
    S = (V.T @ V).triu(1)
    S.diagonal().copy_(torch.where(tau != 0, 1 / tau, 1.0))
    return V, S, packed[:k].triu()


def _transform(parts: list[tuple[int, Tensor]], V: Tensor, S: Tensor) -> None:
    """Turn A into Qᵀ A Q = A − V Yᵀ − Y Vᵀ in place, Y = X − ½ V Tᵀ Vᵀ X, X = A V T.

    A is symmetric, given as (first row r, A[r:, r : r + c]) for neighbouring groups of columns.
    """
    AV = torch.zeros_like(V)
    for r, columns in parts:
        c = columns.shape[1]
        AV[r:].addmm_(columns, V[r : r + c])
        AV[r : r + c].addmm_(columns[c:].T, V[r + c :])
    X = torch.linalg.solve_triangular(S, AV, upper=True, left=False)
    Y = X - 0.5 * V @ torch.linalg.solve_triangular(S.T, V.T @ X, upper=False)
    for r, columns in parts:
        c = columns.shape[1]
        columns.addmm_(V[r:], Y[r : r + c].T, alpha=-1)
        columns.addmm_(Y[r:], V[r : r + c].T, alpha=-1)
