"""The shape of a cloud of word vectors: is it round, or a narrow cone?

Every function takes a matrix W (n, d), one vector a row, as an array or a tensor on any device and
of any precision, and computes in float64. CourseError if it is not a finite matrix.
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from course_lib.errors import CourseError

BLOCK = 1 << 22  # numbers held at once where all pairs of rows are visited: 32 MiB


def singular_values(W, normalised: bool = False) -> np.ndarray:
    """σ_1 ≥ … ≥ σ_min(n,d) of W; `normalised` divides them by σ_1 (gao2019, section 3.1)."""
    values = torch.linalg.svdvals(_matrix(W))
    if normalised:
        values = values / values[0].clamp_min(torch.finfo(values.dtype).tiny)
    return values.cpu().numpy()


def mean_cosine(W, other=None) -> float:
    """Mean cosine of two different rows of W, or of a row of W with a row of `other`.

    (‖Σ ŵ_i‖² − Σ ‖ŵ_i‖²) / (n (n−1)), in Θ(nd): the n × n cosines are never formed (gao2019,
    proposition 1, whose R is this times (n−1)/n). A row of zeros has cosine 0 with every row.
    Naive: `C = Ŵ @ Ŵ.T; (C.sum() - C.trace()) / (n * (n - 1))`.
    """
    rows = _unit(W)
    if other is not None:
        return float(rows.mean(0) @ _unit(other).mean(0))
    n = _pairs(rows)
    return float((rows.sum(0).square().sum() - rows.square().sum()) / (n * (n - 1)))


class Frequency(NamedTuple):
    """Ids of the words below a share of the training tokens, and of the most frequent ones."""

    rare: np.ndarray
    frequent: np.ndarray


def by_frequency(counts, rare: float = 1e-4, frequent: int = 500) -> Frequency:
    """Split a vocabulary by its training counts (N,): words rarer than `rare` of all tokens
    (gao2019, section 4, uses 1e-4), and the `frequent` most frequent, most frequent first."""
    counts = np.asarray(counts)
    order = np.argsort(-counts, kind="stable")
    return Frequency(np.flatnonzero(counts < rare * counts.sum()), order[:frequent])


def pair_cosines(W, pairs: int = 20_000, seed: int = 0) -> np.ndarray:
    """Cosines of `pairs` random pairs of different rows: for a histogram."""
    rows, random = _unit(W), np.random.default_rng(seed)
    n = _pairs(rows)
    first = random.integers(n, size=pairs)
    second = (first + random.integers(1, n, size=pairs)) % n
    return (rows[first] * rows[second]).sum(1).cpu().numpy()


def positive_share(W) -> float:
    """Share of the pairs of different rows whose cosine is above 0: all of them, block by block."""
    rows = _unit(W)
    n = _pairs(rows)
    positive = sum(int((block @ rows.T > 0).sum()) for block in _blocks(rows))
    return (positive - int((rows.square().sum(1) > 0).sum())) / (n * (n - 1))


class Isotropy(NamedTuple):
    """I1 = min Z / max Z, 1 if isotropic; I2 = std Z / mean Z, 0 if isotropic (wang2020)."""

    I1: float
    I2: float


def isotropy(W, both_signs: bool = True) -> Isotropy:
    """How far Z(a) = Σ_i exp(w_iᵀ a) is from constant over the unit eigenvectors a of WᵀW.

    The sign of an eigenvector is arbitrary and changes Z: by default ±a are both evaluated, 2d
    values; with `both_signs=False` only the a along which the cloud lies, Σ w_iᵀa ≥ 0. All in
    logarithms, so that no norm of W overflows; the standard deviation is the population's.
    """
    matrix = _matrix(W)
    axes = _oriented(matrix, torch.linalg.eigh(matrix.T @ matrix).eigenvectors)
    along = matrix @ axes
    log_z = torch.logsumexp(torch.cat([along, -along], 1) if both_signs else along, 0)
    z = torch.exp(log_z - log_z.max())
    return Isotropy(float(z.min()), float(z.std(correction=0) / z.mean()))


def nearest_neighbours(W) -> tuple[np.ndarray, np.ndarray]:
    """Distance of every row to its nearest other row, and that row's number: exact, n² d work.

    Distances to a block of rows at a time, so that memory stays bounded; the winner's distance is
    then computed from the difference, without cancellation.
    Naive: `D = torch.cdist(W, W).fill_diagonal_(inf); D.min(1)`.
    """
    rows = _matrix(W)
    _pairs(rows)
    squares, nearest, start = rows.square().sum(1), [], 0
    for block in _blocks(rows):
        distances = torch.addmm(squares, block, rows.T, alpha=-2)
        distances.diagonal(start).fill_(torch.inf)
        nearest.append(distances.argmin(1))
        start += len(block)
    index = torch.cat(nearest)
    return (rows - rows[index]).norm(dim=1).cpu().numpy(), index.cpu().numpy()


class Projection(NamedTuple):
    """points (n, k) = W @ axes; axes (d, k) orthonormal, the first k right singular vectors."""

    points: np.ndarray
    axes: np.ndarray


def project(W, k: int = 2, reference=None) -> Projection:
    """The rank-k picture of the cloud by singular value decomposition, not centred (gao2019).

    An axis has no sign of its own. It points where Σ w_iᵀa ≥ 0; given `reference` axes (d, k) of
    an earlier snapshot, it points along the reference, so that successive pictures do not flip.
    """
    matrix = _matrix(W)
    axes = torch.linalg.svd(matrix, full_matrices=False).Vh[:k].T
    if reference is None:
        axes = _oriented(matrix, axes)
    else:
        reference = torch.as_tensor(reference).to(axes)
        axes = axes * torch.where((axes * reference).sum(0) < 0, -1.0, 1.0)
    return Projection((matrix @ axes).cpu().numpy(), axes.cpu().numpy())


def _matrix(W) -> Tensor:
    matrix = torch.as_tensor(W).detach().double()
    if matrix.ndim != 2 or not matrix.numel():
        raise CourseError(f"a matrix with one vector a row is needed, got shape {(*matrix.shape,)}")
    if not matrix.isfinite().all():
        row = int((~matrix.isfinite()).any(1).nonzero()[0])
        raise CourseError(f"row {row} of the matrix holds a number that is not finite")
    return matrix


def _unit(W) -> Tensor:
    """Rows divided by their largest entry, then by their norm: no square overflows or vanishes."""
    matrix = _matrix(W)
    largest = matrix.abs().amax(1, keepdim=True)
    matrix = matrix / largest.where(largest > 0, 1.0)
    norm = matrix.norm(dim=1, keepdim=True)
    return matrix / norm.where(norm > 0, 1.0)


def _pairs(rows: Tensor) -> int:
    if len(rows) < 2:
        raise CourseError(f"pairs of different rows need at least two rows, got {len(rows)}")
    return len(rows)


def _blocks(rows: Tensor):
    return rows.split(max(1, BLOCK // len(rows)))


def _oriented(matrix: Tensor, axes: Tensor) -> Tensor:
    """Each axis (a column) with the sign that makes the rows' coordinates sum to at least 0."""
    return axes * torch.where((matrix @ axes).sum(0) < 0, -1.0, 1.0)
