"""The shape of a cloud of word vectors: is it round, or a narrow cone?

Every function takes a matrix W (n, d), one vector a row, as an array or a tensor on any device and
of any precision, and computes in float64. It raises CourseError unless W is a finite matrix. The
functions of a spectrum take the singular values instead, so that these are computed once.

At most three copies of W are held beside blocks of BLOCK numbers: 260,000 × 400 takes under 4 GiB.
"""

from typing import NamedTuple

import numpy as np
import scipy  # `stats` takes half as long as PyTorch to import: at its first use
import torch
from torch import Tensor
from torch.nn.functional import normalize

from course_lib.errors import CourseError
from course_lib.metrics.inputs import (
    TINY,
    Numbers,
    as_matrix,
    as_numbers,
    as_spectrum,
    count_rows_in_pairs,
    rows_at_once,
    unit_rows,
)
from course_lib.metrics.subspaces import oriented
from course_lib.ranges import Count, checked

ROUNDING = 8 * torch.finfo(torch.float64).eps  # of a mean, relative to what is averaged


def singular_values(W: Numbers, normalised: bool = False) -> np.ndarray:
    """Return σ_1 ≥ … ≥ σ_min(n,d) of W, divided by σ_1 if `normalised` (gao2019, section 3.1)."""
    values = torch.linalg.svdvals(as_matrix(W))
    if normalised:
        values = values / values[0].clamp_min(torch.finfo(values.dtype).tiny)
    return values.cpu().numpy()


def stable_rank(values: Numbers) -> float:
    """Return Σ σ² / σ_1² of singular values: between 1 and the rank, steady under small noise."""
    squares = as_spectrum(values) ** 2
    return float(squares.sum() / squares.max())


def participation_rank(values: Numbers) -> float:
    """Return (Σ σ²)² / Σ σ⁴ of singular values: k for k equal ones and none besides."""
    squares = as_spectrum(values) ** 2
    return float(squares.sum() ** 2 / (squares**2).sum())


def isoscore(W: Numbers) -> float:
    """Return how evenly the variance fills the d dimensions: 0 on a line, 1 if all are equal.

    It is (R − 1) / (d − 1) with R = (Σ λ)² / Σ λ² and the variances λ along the principal axes,
    which is what the steps of Rudman et al. 2022 come to: (k − 1) / (d − 1) where k directions
    share the variance equally. The cloud is centred, so that its drift is not seen. Equal rows have
    IsoScore 0. Raises CourseError for a single column.
    """
    matrix = as_matrix(W)
    if matrix.shape[1] < 2:
        raise CourseError("IsoScore compares dimensions: the matrix needs at least two columns")
    spread = singular_values(matrix - matrix.mean(0))
    if not spread.any():
        return 0.0
    return (participation_rank(spread) - 1) / (matrix.shape[1] - 1)


def mean_cosine(W: Numbers, other: Numbers | None = None) -> float:
    """Return the mean cosine of two different rows of W, or of a row of W and a row of `other`.

    It is (‖Σ ŵ_i‖² − Σ ‖ŵ_i‖²) / (n (n−1)), which takes Θ(nd) operations (gao2019, proposition 1,
    whose R is this times (n−1)/n). A row of zeros has cosine 0 with every row.
    Naive: `C = Ŵ @ Ŵ.T; (C.sum() - C.trace()) / (n * (n - 1))`.
    """
    if other is not None:
        return float(unit_rows(W).mean(0) @ unit_rows(other).mean(0))
    return float(_contributions(unit_rows(W)).sum())


def cosine_by_dimension(W: Numbers) -> np.ndarray:
    """Return what each of the d coordinates contributes to the mean cosine, which is their sum.

    A few rogue dimensions may make up most of it (Timkey & van Schijndel 2021, who sample pairs of
    rows; here all pairs are taken).
    """
    return _contributions(unit_rows(W)).cpu().numpy()


class Drift(NamedTuple):
    """How much of the cloud is the vector m = mean of w that all words share."""

    share: float  # ‖m‖² / mean ‖w‖²: the rest, 1 − share, is the centred cloud's
    cosine: float  # the mean cosine
    along: float  # its part that comes from the one direction m
    centred: float  # the mean cosine once m is subtracted


def common_drift(W: Numbers) -> Drift:
    """Split the cloud and its mean cosine into the common vector and the rest.

    The contributions of orthonormal directions to the mean cosine add up to it, as those of the
    coordinates do in `cosine_by_dimension`; `along` is the contribution of m/‖m‖.
    """
    matrix = as_matrix(W)
    mean, energy = matrix.mean(0), matrix.norm() ** 2 / len(matrix)
    share = min(1.0, float(mean.square().sum() / energy)) if energy > 0 else 0.0
    rows = unit_rows(matrix)
    cosine = float(_contributions(rows).sum())
    along = float(_contributions(rows @ normalize(mean, dim=0, eps=TINY)[:, None]))
    del rows
    rest = matrix - mean
    rest[rest.norm(dim=1) < ROUNDING * mean.norm()] = 0.0
    return Drift(share, cosine, along, mean_cosine(rest))


def cone_angles(W: Numbers, axis: Numbers | None = None) -> np.ndarray:
    """Return the angle (n,) of every row to `axis` (d,), in radians from 0 to π.

    The default axis is the mean of the unit rows. The 95 % quantile of the angles is the half-angle
    of a cone that holds 95 % of the words; about another axis there may be a narrower one. A row of
    zeros is at a right angle. Raises CourseError where the axis is 0, up to rounding.
    """
    rows = unit_rows(W)
    axis = rows.mean(0) if axis is None else unit_rows(as_numbers(axis, "axis")[None])[0].to(rows)
    if axis.norm() < ROUNDING:
        raise CourseError("the rows' directions cancel, or the axis is 0: give the axis")
    axis = axis / axis.norm()
    along = rows @ axis
    across = (rows - along[:, None] * axis).norm(dim=1)  # near 0 and π only the sine is exact
    angles = torch.atan2(across, along).where(rows.any(1), torch.pi / 2)
    return angles.cpu().numpy()


class Frequency(NamedTuple):
    """Ids of the words below a share of the training tokens, and of the most frequent ones."""

    rare: np.ndarray
    frequent: np.ndarray


def by_frequency(counts: Numbers, rare: float = 1e-4, frequent: int = 500) -> Frequency:
    """Split a vocabulary by its training counts (N,) into rare and frequent words.

    rare: words rarer than this share of all tokens are rare (gao2019, section 4, uses 1e-4);
    frequent: how many of the most frequent words are frequent, the most frequent first.
    """
    counts = as_numbers(counts, "the counts")
    order = np.argsort(-counts, kind="stable")
    return Frequency(np.flatnonzero(counts < rare * counts.sum()), order[:frequent])


class FrequencyNorms(NamedTuple):
    """The norms of words in bins of frequency, the rarest bin first."""

    count: np.ndarray  # mean count of a bin's words
    norm: np.ndarray  # mean norm of a bin's words
    words: np.ndarray  # number of a bin's words
    spearman: float  # ρ between count and norm over all words


def norms_by_frequency(W: Numbers, counts: Numbers, bins: int = 10) -> FrequencyNorms:
    """Return the norms of words by their training counts (N,), in at most `bins` bins.

    The bins are equally wide in log(1 + count), and empty ones are left out. Raises CourseError
    unless there is a count of at least 0 for each row.
    """
    norms = as_matrix(W).norm(dim=1).cpu().numpy()
    counts = as_numbers(counts, "counts")
    if len(counts) != len(norms) or (counts < 0).any():
        raise CourseError(f"{len(norms)} counts, 0 or more, are needed, one a row")
    scale = np.log1p(counts)
    edges = np.linspace(scale.min(), scale.max(), bins + 1)[1:-1]
    _, bin_of, words = np.unique(np.digitize(scale, edges), return_inverse=True, return_counts=True)
    count, norm = (np.bincount(bin_of, values) / words for values in (counts, norms))
    constant = np.ptp(counts) == 0 or np.ptp(norms) == 0
    spearman = np.nan if constant else float(np.asarray(scipy.stats.spearmanr(counts, norms))[0])
    return FrequencyNorms(count, norm, words, spearman)


def pair_cosines(W: Numbers, pairs: int = 20_000, seed: int = 0) -> np.ndarray:
    """Return the cosines of random pairs of different rows, for a histogram.

    pairs, seed: how many, and of the generator that draws them.
    """
    rows, random = unit_rows(W), np.random.default_rng(seed)
    n = count_rows_in_pairs(rows)
    first = random.integers(n, size=pairs)
    second = (first + random.integers(1, n, size=pairs)) % n
    return (rows[first] * rows[second]).sum(1).cpu().numpy()


def positive_share(W: Numbers) -> float:
    """Return the share of all pairs of different rows whose cosine is above 0, block by block."""
    rows = unit_rows(W)
    n = count_rows_in_pairs(rows)
    positive = sum(int((block @ rows.T > 0).sum()) for block in rows.split(rows_at_once(n)))
    return (positive - int((rows.square().sum(1) > 0).sum())) / (n * (n - 1))


class Isotropy(NamedTuple):
    """I1 = min Z / max Z, 1 if isotropic; I2 = std Z / mean Z, 0 if isotropic (wang2020)."""

    I1: float
    I2: float


def isotropy(W: Numbers, both_signs: bool = True) -> Isotropy:
    """Return how far Z(a) = Σ_i exp(w_iᵀ a) is from constant over the unit eigenvectors a of WᵀW.

    The sign of an eigenvector is arbitrary and changes Z. By default both a and −a are evaluated;
    with `both_signs=False` only the a along which the cloud lies, Σ w_iᵀa ≥ 0. Z is computed in
    logarithms, so that none overflows. The standard deviation is the population's.
    """
    matrix = as_matrix(W)
    axes = oriented(matrix, torch.linalg.eigh(matrix.T @ matrix).eigenvectors)
    log_z = []
    for some in axes.split(rows_at_once(len(matrix)), dim=1):
        along = matrix @ some
        log_z += [sign.logsumexp(0) for sign in ((along, -along) if both_signs else (along,))]
    log_z = torch.cat(log_z)
    z = torch.exp(log_z - log_z.max())
    return Isotropy(float(z.min()), float(z.std(correction=0) / z.mean()))


@checked
def sampled_isotropy(W: Numbers, rows: Count = 40_000, seed: int = 0) -> Isotropy:
    """Return the mean `isotropy` of `rows` random rows over 10 draws, as wang2020 gives it.

    W: (n, d); with n ≤ `rows` all rows are taken once. Each draw has its own eigenvectors.
    rows, seed: how many rows of a draw, and of the generator that draws them.
    """
    W = W.detach() if isinstance(W, Tensor) else np.asarray(W)
    if len(W) <= rows:
        return isotropy(W)
    random = np.random.default_rng(seed)
    samples = (random.choice(len(W), rows, replace=False) for _ in range(10))
    return Isotropy(*np.mean([isotropy(W[sample]) for sample in samples], 0).tolist())


def _contributions(rows: Tensor) -> Tensor:
    """Return each column's part (k,) of the mean of ŵ_iᵀŵ_j over i ≠ j, of rows (n, k)."""
    n = count_rows_in_pairs(rows)
    return (rows.sum(0).square() - rows.norm(dim=0).square()) / (n * (n - 1))
