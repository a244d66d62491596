"""The shape of a cloud of word vectors: is it round, or a narrow cone?

Every function takes a matrix W (n, d), one vector a row, as an array or a tensor on any device and
of any precision, and computes in float64; angles are in radians. CourseError if it is not a finite
matrix. The functions of a spectrum take the singular values instead, so that these are computed
once and may come from elsewhere, such as log P's.

At most three copies of W are held beside blocks of BLOCK numbers: 260,000 × 400 takes under 4 GiB.
"""

from typing import NamedTuple

import numpy as np
import torch
from scipy.linalg import subspace_angles
from scipy.optimize import lsq_linear, nnls
from scipy.stats import gaussian_kde, spearmanr
from torch import Tensor
from torch.nn.functional import normalize

from course_lib.errors import CourseError

BLOCK = 1 << 24  # numbers held at once where all pairs of rows are visited: 128 MiB in float64


def singular_values(W, normalised: bool = False) -> np.ndarray:
    """σ_1 ≥ … ≥ σ_min(n,d) of W; `normalised` divides them by σ_1 (gao2019, section 3.1)."""
    values = torch.linalg.svdvals(as_matrix(W))
    if normalised:
        values = values / values[0].clamp_min(torch.finfo(values.dtype).tiny)
    return values.cpu().numpy()


def stable_rank(values) -> float:
    """‖W‖_F² / σ_1² from the singular values: between 1 and the rank, steady under small noise.

    The ε-effective rank of the same values is in `metrics.rank`.
    """
    squares = _spectrum(values) ** 2
    return float(squares.sum() / squares.max())


def participation_rank(values) -> float:
    """(Σ σ²)² / Σ σ⁴: k for k equal singular values and none besides."""
    squares = _spectrum(values) ** 2
    return float(squares.sum() ** 2 / (squares**2).sum())


def isoscore(W) -> float:
    """How evenly the cloud's variance fills its d dimensions: 0 on a line, 1 if all are equal.

    (k − 1) / (d − 1) when k directions share it equally (Rudman et al. 2022). Their steps (rotate
    to principal components, scale the variances λ to length √d, distance from (1, …, 1), rescale)
    come to (R − 1) / (d − 1) with R = (Σ λ)² / Σ λ². The cloud is centred: its drift is not seen.
    Equal rows have no spread, and 0.
    """
    matrix = as_matrix(W)
    if matrix.shape[1] < 2:
        raise CourseError("IsoScore compares dimensions: the matrix needs at least two columns")
    spread = singular_values(matrix - matrix.mean(0))
    if not spread.any():
        return 0.0
    return (participation_rank(spread) - 1) / (matrix.shape[1] - 1)


def mean_cosine(W, other=None) -> float:
    """Mean cosine of two different rows of W, or of a row of W with a row of `other`.

    (‖Σ ŵ_i‖² − Σ ‖ŵ_i‖²) / (n (n−1)), in Θ(nd): the n × n cosines are never formed (gao2019,
    proposition 1, whose R is this times (n−1)/n). A row of zeros has cosine 0 with every row.
    Naive: `C = Ŵ @ Ŵ.T; (C.sum() - C.trace()) / (n * (n - 1))`.
    """
    if other is not None:
        return float(_unit(W).mean(0) @ _unit(other).mean(0))
    return float(_contributions(_unit(W)).sum())


class CosineFloor(NamedTuple):
    """cosines (draws,): mean cosine of the cloud with signs drawn; p: how often it reaches W's."""

    cosines: np.ndarray
    p: float


def cosine_floor(W, draws: int = 199, seed: int = 0) -> CosineFloor:
    """What mean cosine a cloud of these very directions has without a side that it prefers.

    Null hypothesis: w and −w are equally likely, so each row's sign is drawn anew. That keeps every
    norm and the whole spectrum, low rank and rogue dimensions included, and takes away only the
    common direction: mean 0, variance 2 Σ_{i≠j} cos²_ij / (n (n−1))². (Shuffling entries within
    columns would keep the columns' means, that is the drift itself, and is no floor.)
    p = (1 + number of draws ≥ W's) / (1 + draws), one-sided.
    """
    rows = _unit(W)
    n = _pairs(rows)
    random, sums = np.random.default_rng(seed), []
    for count in _counts(draws, max(1, BLOCK // n)):
        signs = random.integers(0, 2, size=(count, n), dtype=np.int8) * 2 - 1
        sums.append(torch.as_tensor(signs, device=rows.device).double() @ rows)
    cosines = (torch.cat(sums).square().sum(1) - rows.square().sum()) / (n * (n - 1))
    reached = int((cosines >= _contributions(rows).sum()).sum())
    return CosineFloor(cosines.cpu().numpy(), (1 + reached) / (1 + draws))


def cosine_by_dimension(W) -> np.ndarray:
    """Contribution of each of the d coordinates to the mean cosine, of which they are the sum.

    ((Σ_i ŵ_ik)² − Σ_i ŵ_ik²) / (n (n−1)) for k = 1 … d: a few rogue dimensions may make up most of
    it (Timkey & van Schijndel 2021, where the pairs are sampled; here all are taken).
    """
    return _contributions(_unit(W)).cpu().numpy()


class Drift(NamedTuple):
    """How much of the cloud is the vector m = mean of w that all words share."""

    share: float  # ‖m‖² / mean ‖w‖²: the rest, 1 − share, is the centred cloud's
    cosine: float  # the mean cosine
    along: float  # its part that comes from the one direction m
    centred: float  # the mean cosine once m is subtracted

    @property
    def cosine_share(self) -> float:
        """Share of the mean cosine along m; it says little where the mean cosine is near 0."""
        return self.along / self.cosine if self.cosine else 0.0


def common_drift(W) -> Drift:
    """Split the cloud and its mean cosine into the common vector and the rest.

    Contributions of orthonormal directions to the mean cosine add up to it, as in
    `cosine_by_dimension`; `along` is that of m/‖m‖.
    """
    matrix = as_matrix(W)
    mean, energy = matrix.mean(0), matrix.norm() ** 2 / len(matrix)
    share = float(mean.square().sum() / energy) if energy > 0 else 0.0
    rows = _unit(matrix)
    cosine = float(_contributions(rows).sum())
    along = float(_contributions(rows @ normalize(mean, dim=0)[:, None]))
    del rows
    return Drift(share, cosine, along, mean_cosine(matrix - mean))


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


class FrequencyNorms(NamedTuple):
    """By bin, rarest first: its words' mean count, mean norm, and number; and over all words
    Spearman's ρ between count and norm."""

    count: np.ndarray
    norm: np.ndarray
    words: np.ndarray
    spearman: float


def norms_by_frequency(W, counts, bins: int = 10) -> FrequencyNorms:
    """Norm of the words against their training counts (N,), in at most `bins` bins.

    The bins are equally wide in log(1 + count), as frequencies are Zipf's; empty ones are left out.
    """
    norms = as_matrix(W).norm(dim=1).cpu().numpy()
    counts = as_numbers(counts, "counts")
    if len(counts) != len(norms) or (counts < 0).any():
        raise CourseError(f"{len(norms)} counts, 0 or more, are needed, one a row")
    scale = np.log1p(counts)
    edges = np.linspace(scale.min(), scale.max(), bins + 1)[1:-1]
    _, bin_of, words = np.unique(np.digitize(scale, edges), return_inverse=True, return_counts=True)
    means = (np.bincount(bin_of, values) / words for values in (counts, norms))
    constant = np.ptp(counts) == 0 or np.ptp(norms) == 0
    spearman = np.nan if constant else float(spearmanr(counts, norms).statistic)
    return FrequencyNorms(*means, words, spearman)


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
    matrix = as_matrix(W)
    axes = _oriented(matrix, torch.linalg.eigh(matrix.T @ matrix).eigenvectors)
    log_z = []
    for some in axes.split(max(1, BLOCK // len(matrix)), dim=1):
        along = matrix @ some
        log_z += [sign.logsumexp(0) for sign in ((along, -along) if both_signs else (along,))]
    log_z = torch.cat(log_z)
    z = torch.exp(log_z - log_z.max())
    return Isotropy(float(z.min()), float(z.std(correction=0) / z.mean()))


class SampledIsotropy(NamedTuple):
    """Mean and standard deviation of I1 and I2 over the draws."""

    mean: Isotropy
    std: Isotropy


def sampled_isotropy(
    W, rows: int = 40_000, draws: int = 10, seed: int = 0, both_signs: bool = True
) -> SampledIsotropy:
    """`isotropy` of `rows` random rows (all, if there are no more), over `draws` independent draws.

    wang2020 gives the mean of 10 draws of 40,000 words; each draw has its own eigenvectors.
    """
    W = W.detach() if isinstance(W, Tensor) else np.asarray(W)
    if rows < 1 or draws < 2:
        raise CourseError(f"a spread needs 1 row and 2 draws or more, got {rows} and {draws}")
    if len(W) <= rows:
        return SampledIsotropy(isotropy(W, both_signs), Isotropy(0.0, 0.0))
    random = np.random.default_rng(seed)
    samples = (random.choice(len(W), rows, replace=False) for _ in range(draws))
    values = np.array([isotropy(W[sample], both_signs) for sample in samples])
    return SampledIsotropy(Isotropy(*values.mean(0)), Isotropy(*values.std(0, ddof=1)))


def nearest_neighbours(W) -> tuple[np.ndarray, np.ndarray]:
    """Distance of every row to its nearest other row, and that row's number: exact, n² d work.

    Products in float32, of the centred rows x (distances do not see the drift), find who may be
    nearest: they miss ‖x_i − x_j‖² by at most c (‖x_i‖² + ‖x_j‖²), c = (d + 16) 2⁻²⁴, so a row
    whose lower bound is above the least upper bound is out. Rows left with many candidates are
    sifted once more by products in float64; the candidates' distances are then computed from the
    differences, without cancellation, and the lowest number wins a tie. So the winner is that of
    float64 at the price of float32: 2 n² d = 5.4e13 operations for 260,000 × 400, a quarter of an
    hour at the 60 GFLOP/s of one core.
    Naive: `D = torch.cdist(W, W).fill_diagonal_(inf); D.min(1)`.
    """
    rows = as_matrix(W)
    n = _pairs(rows)
    centred = rows - rows.mean(0)
    scale = centred.norm(p=torch.inf)
    centred /= scale.where(scale > 0, 1.0)
    # Where float32 products are rounded to fewer bits (TF32, bfloat16) the bound would not hold.
    fast = torch.float32 if torch.get_float32_matmul_precision() == "highest" else torch.float64
    sieves = [_Sieve(centred.to(fast)), _Sieve(centred)]
    distance, index = rows.new_empty(n), torch.empty(n, dtype=torch.long, device=rows.device)
    for ids in torch.arange(n, device=rows.device).split(max(1, BLOCK // n)):
        i, j = sieves[0].candidates(ids)
        crowded = torch.bincount(i, minlength=len(ids)) > CROWD
        if crowded.any():
            again, others = sieves[1].candidates(ids[crowded])
            settled = ~crowded[i]
            i = torch.cat([i[settled], crowded.nonzero()[:, 0][again]])
            j = torch.cat([j[settled], others])
        some = max(1, BLOCK // (4 * rows.shape[1]))
        pairs = zip(i.split(some), j.split(some), strict=True)
        apart = torch.cat([(rows[ids[a]] - rows[b]).norm(dim=1) for a, b in pairs])
        least = apart.new_full((len(ids),), torch.inf).scatter_reduce(0, i, apart, "amin")
        tied = apart == least[i]
        distance[ids] = least
        index[ids] = torch.full_like(ids, n).scatter_reduce(0, i[tied], j[tied], "amin")
    return distance.cpu().numpy(), index.cpu().numpy()


CROWD = 32  # candidates of a row from which a product in float64 is cheaper than all differences


class _Sieve:
    """Bounds on the distances between rows x (n, d) from one product in x's precision."""

    def __init__(self, x: Tensor):
        eps = torch.finfo(x.dtype)
        self.x, self.c = x, (x.shape[1] + 16) * eps.eps / 2
        self.squares = torch.linalg.vector_norm(x, dim=1, dtype=torch.float64) ** 2
        self.floor = ((1 - self.c) * self.squares).to(x.dtype)
        self.underflow = 8 * x.shape[1] * eps.tiny

    def candidates(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Pairs (position in ids, other row), by position, that may be nearest neighbours."""
        lower = torch.addmm(self.floor, self.x[ids], self.x.T, alpha=-2)  # + ‖x_i‖² (1 − c)
        lower[torch.arange(len(ids), device=ids.device), ids] = torch.inf
        least, first = lower.min(1)
        slack = 2 * self.c * (self.squares[ids] + self.squares[first]) + self.underflow
        reach = least + slack.to(least)
        return (lower <= reach[:, None]).nonzero(as_tuple=True)


def density(values, points: int = 200) -> tuple[np.ndarray, np.ndarray]:
    """Gaussian kernel density of numbers (n,), such as nearest-neighbour distances (wang2019,
    figure 1a), at `points` places from three bandwidths below the least to three above the most."""
    values = as_numbers(values, "density")
    if not np.ptp(values):
        raise CourseError("a density needs numbers that are not all the same")
    kernel = gaussian_kde(values)
    reach = 3 * kernel.factor * values.std(ddof=1)
    places = np.linspace(values.min() - reach, values.max() + reach, points)
    return places, kernel(places)


class Margins(NamedTuple):
    """lower (n,) ≤ margin of each word ≤ upper (n,)."""

    lower: np.ndarray
    upper: np.ndarray

    def recognisable(self, epsilon: float) -> tuple[float, float]:
        """The share of ε-recognisable words is between these two."""
        return float((self.lower > epsilon).mean()), float((self.upper > epsilon).mean())


def margin_bounds(W, contexts=None) -> Margins:
    """The margin max_h min_{j≠i} (w_i − w_j)ᵀh/‖h‖ of every word, 0 if negative, from two sides.

    Word i is ε-recognisable if its margin is above ε (wang2019, definition 3.2). A margin is at
    most the distance to the nearest row (theorem 3.3), and at least what one context attains: that
    of `contexts` (n, d), such as witnesses of `metrics.unargmaxable`, by default w_i − mean, so
    also where a context is NaN, as that of a word without a witness.
    4 n² d work. The margin itself is a quadratic programme for each word.
    """
    rows = as_matrix(W)
    upper = nearest_neighbours(rows)[0]
    default = rows - rows.mean(0)
    given = default if contexts is None else torch.as_tensor(contexts).detach().to(rows)
    if given.shape != rows.shape:
        raise CourseError(f"one context a row: {(*rows.shape,)}, got {(*given.shape,)}")
    contexts = as_matrix(torch.where(given.isnan().all(1, keepdim=True), default, given))
    lower = []
    for ids in torch.arange(len(rows), device=rows.device).split(max(1, BLOCK // len(rows))):
        h = normalize(contexts[ids], dim=1)
        logits = h @ rows.T
        own = (h * rows[ids]).sum(1)
        logits[torch.arange(len(ids), device=rows.device), ids] = -torch.inf
        lower.append((own - logits.amax(1)).clamp_min(0))
    return Margins(torch.cat(lower).cpu().numpy().clip(max=upper), upper)


def nearest_in_hull(rows) -> np.ndarray:
    """Convex weights λ (m,) of the point p = Σ λ_i a_i nearest 0 in the convex hull of rows (m, D).

    Non-negative least squares: μ ≥ 0 that minimises ‖Σ μ_i a_i‖² + (Σ μ_i − 1)² is λ up to its sum.
    Exact to rounding, 0.2 s for 460 rows of size 400. The solution is optimal if no a_iᵀp is below
    ‖p‖². That is checked: SciPy's solver (1.15 to 1.17) at times stops elsewhere where rows are
    dependent, and a slower one takes over.
    """
    A = as_matrix(rows).cpu().numpy()
    # No point of the hull is nearer 0 than the nearest row: at that scale the answer is not small.
    scale = max(np.linalg.norm(A, axis=1).min(), 1e-9 * np.abs(A).max(), 1e-300)
    system = np.vstack([A.T / scale, np.ones(len(A))])
    target = np.append(np.zeros(A.shape[1]), 1.0)
    try:
        weights, _ = nnls(system, target)
    except RuntimeError:  # too many exchanges
        weights = np.zeros(len(A))
    descent = system.T @ (target - system @ weights)
    if max(descent.max(), abs(descent @ weights)) > 1e-9:
        solver = {"method": "bvls", "tol": 1e-14, "max_iter": 3 * len(A)}
        weights = lsq_linear(system, target, bounds=(0, np.inf), **solver).x
    return weights / weights.sum()


class Cone(NamedTuple):
    """All rows are within `angle` of `axis`; no circular cone narrower than `bound` holds them."""

    angle: float
    bound: float
    axis: np.ndarray  # (d,), of norm 1
    weights: np.ndarray  # (n,), convex: cos(bound) = ‖Σ weights_i ŵ_i‖


def enclosing_cone(W, tolerance: float = 1e-9) -> Cone:
    """The narrowest circular cone with apex 0 that holds every row: its half-angle in radians.

    cos θ = max_{‖a‖=1} min_i ŵ_iᵀa. Below a right angle this is a convex problem, whose dual is the
    point of the rows' convex hull nearest 0: for any convex weights min_i ŵ_iᵀa ≤ ‖Σ λ_i ŵ_i‖, and
    the nearest point is the axis. Both sides are evaluated, and then angle = bound up to
    `tolerance` in the cosine. If the hull holds 0 there is no such cone: bound is a right angle (up
    to `tolerance`), and angle, about the mean direction, only an upper bound on the narrowest.
    Solved by `nearest_in_hull` of few rows, to which those outside the cone are added.
    Rows of zeros have no direction and are left out; CourseError if there is no other.
    """
    unit = _unit(W)
    ids = unit.any(1).nonzero()[:, 0]
    if not len(ids):
        raise CourseError("every row is zero: no direction, no cone")
    rows = unit[ids]
    mean = rows.mean(0)
    if not mean.any():
        mean = rows[0]
    axis = mean_axis = mean / mean.norm()
    active = torch.zeros(len(rows), dtype=torch.bool, device=rows.device)
    cosines = rows @ axis
    while not active[cosines.argmin()]:  # else nothing is left to add
        outside = cosines.masked_fill(active, torch.inf).topk(min(64, len(rows)), largest=False)
        active[outside.indices] = True
        some = rows[active].cpu().numpy()
        weights = rows.new_zeros(len(rows))
        weights[active] = torch.as_tensor(nearest_in_hull(some), device=rows.device)
        point = weights @ rows
        highest = float(point.norm())
        if highest <= tolerance:  # 0 is in the hull
            axis = mean_axis
            break
        axis = point / highest
        cosines = rows @ axis
        if float(cosines.min()) >= highest - tolerance:
            break
    angle = _angles(rows, axis).max()
    spread = np.zeros(len(unit))
    spread[ids.cpu().numpy()] = weights.cpu().numpy()
    return Cone(float(angle), float(np.arccos(min(highest, 1.0))), axis.cpu().numpy(), spread)


def cone_angles(W, axis=None) -> np.ndarray:
    """Angle of every row to `axis` (d,), by default the mean of the unit rows: radians, 0 to π.

    `np.quantile(…, 0.95)` is the half-angle of the cone about that axis that holds 95 % of the
    words: an upper bound on the narrowest, as another axis, and other words, may do better. A row
    of zeros is at a right angle.
    """
    rows = _unit(W)
    axis = rows.mean(0) if axis is None else torch.tensor(as_numbers(axis, "axis")).to(rows)
    if not axis.any():
        raise CourseError("the rows' directions cancel: give the axis")
    return _angles(rows, axis / axis.norm()).cpu().numpy()


def principal_angles(A, B, k: int | None = None) -> np.ndarray:
    """Angles between the column spaces of A (N, d₁) and B (N, d₂), largest first, in radians.

    With `k`, between the spans of their k leading left singular vectors. For the spaces of contexts
    pass the transposed matrices.
    """
    return subspace_angles(*(basis.cpu().numpy() for basis in _bases(A, B, k)))


def subspace_distance(A, B, k: int | None = None) -> float:
    """‖Q₁ − Q₂Q₂ᵀQ₁‖_F / √C, with orthonormal bases Q₁ (N, C) and Q₂ of the column spaces of A and
    B, or of their k leading left singular vectors: the root mean square of the sines of the
    principal angles, 0 if A's space lies in B's, 1 if it is orthogonal to it (inan2017)."""
    first, second = _bases(A, B, k)
    return float((first - second @ (second.T @ first)).norm() / first.shape[1] ** 0.5)


class Projection(NamedTuple):
    """points (n, k) = W @ axes; axes (d, k) orthonormal, the first k right singular vectors."""

    points: np.ndarray
    axes: np.ndarray


def project(W, k: int = 2, reference=None) -> Projection:
    """The rank-k picture of the cloud by singular value decomposition, not centred (gao2019).

    An axis has no sign of its own. It points where Σ w_iᵀa ≥ 0; given `reference` axes (d, k) of
    an earlier snapshot, it points along the reference, so that successive pictures do not flip.
    """
    matrix = as_matrix(W)
    triangle = torch.linalg.qr(matrix, mode="r").R  # of the same axes, without the n left vectors
    axes = torch.linalg.svd(triangle, full_matrices=False).Vh[:k].T
    if reference is None:
        axes = _oriented(matrix, axes)
    else:
        reference = torch.as_tensor(reference).to(axes)
        axes = axes * torch.where((axes * reference).sum(0) < 0, -1.0, 1.0)
    return Projection((matrix @ axes).cpu().numpy(), axes.cpu().numpy())


def as_matrix(W) -> Tensor:
    """W (n, d) as a finite tensor in float64 on its device; CourseError that says why it is not."""
    if not isinstance(W, Tensor):
        try:
            W = torch.from_numpy(np.require(W, np.float64, "CW"))
        except (TypeError, ValueError) as error:
            raise CourseError(f"a matrix of numbers is needed: {error}") from error
    matrix = W.detach().double()
    if matrix.ndim != 2 or not matrix.numel():
        raise CourseError(f"a matrix with one vector a row is needed, got shape {(*matrix.shape,)}")
    if not torch.stack(matrix.aminmax()).isfinite().all():  # isfinite alone holds a copy or two
        row = int((~matrix.isfinite()).any(1).nonzero()[0])
        raise CourseError(f"row {row} of the matrix holds a number that is not finite")
    return matrix


def as_numbers(values, name: str) -> np.ndarray:
    """A list or vector of finite numbers (n,) as an array in float64; CourseError naming it."""
    if isinstance(values, Tensor):
        values = values.detach().double().cpu()
    try:
        numbers = np.asarray(values, dtype=float)
    except (TypeError, ValueError) as error:
        raise CourseError(f"{name}: numbers are needed: {error}") from error
    if numbers.ndim != 1 or not len(numbers) or not np.isfinite(numbers).all():
        raise CourseError(f"{name}: a list of finite numbers is needed, got shape {numbers.shape}")
    return numbers


def _spectrum(values) -> np.ndarray:
    """Singular values divided by the largest, so that no square overflows."""
    values = as_numbers(values, "singular values")
    if not (values >= 0).all() or not values.any():
        raise CourseError("singular values are 0 or more, and one above 0 is needed")
    return values / values.max()


def _unit(W) -> Tensor:
    """Rows divided by their largest entry, then by their norm: no square overflows or vanishes."""
    matrix = as_matrix(W)
    largest = torch.maximum(matrix.amax(1, keepdim=True), -matrix.amin(1, keepdim=True))
    matrix = matrix / largest.where(largest > 0, 1.0)
    norm = matrix.norm(dim=1, keepdim=True)
    return matrix.div_(norm.where(norm > 0, 1.0))


def _bases(A, B, k: int | None) -> tuple[Tensor, Tensor]:
    """Orthonormal bases (N, k) of the two leading column spaces, by default the whole spaces."""
    A = as_matrix(A)
    B = as_matrix(B).to(A.device)
    if len(A) != len(B):
        raise CourseError(f"column spaces need the same rows, got {len(A)} and {len(B)}")
    bases = []
    for matrix in (A, B):
        U, values, _ = torch.linalg.svd(matrix, full_matrices=False)
        rank = int((values > max(matrix.shape) * torch.finfo(values.dtype).eps * values[0]).sum())
        if not 1 <= (k or rank) <= rank:
            raise CourseError(f"a matrix of rank {rank} has no {k or 'leading'} leading vectors")
        bases.append(U[:, : k or rank])
    return bases[0], bases[1]


def _angles(rows: Tensor, axis: Tensor) -> Tensor:
    """Angles of unit rows to a unit axis; near 0 and π only the sine tells them apart."""
    along = rows @ axis
    across = (rows - along[:, None] * axis).norm(dim=1)
    return torch.atan2(across, along)


def _contributions(rows: Tensor) -> Tensor:
    """Each column's part of the mean of ŵ_iᵀŵ_j over i ≠ j: (n, k) → (k,)."""
    n = _pairs(rows)
    return (rows.sum(0).square() - rows.norm(dim=0).square()) / (n * (n - 1))


def _pairs(rows: Tensor) -> int:
    if len(rows) < 2:
        raise CourseError(f"pairs of different rows need at least two rows, got {len(rows)}")
    return len(rows)


def _counts(total: int, most: int) -> list[int]:
    """`total` in parts of at most `most`."""
    return [min(most, total - start) for start in range(0, total, most)]


def _blocks(rows: Tensor):
    return rows.split(max(1, BLOCK // len(rows)))


def _oriented(matrix: Tensor, axes: Tensor) -> Tensor:
    """Each axis (a column) with the sign that makes the rows' coordinates sum to at least 0."""
    return axes * torch.where((matrix @ axes).sum(0) < 0, -1.0, 1.0)
