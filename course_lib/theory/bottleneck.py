"""What d numbers between the network and N words cannot carry, forwards and backwards.

Forwards: Yang et al. 2018 and parthiban2021; backwards: Godey and Artzi 2026.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from course_lib.errors import CourseError
from course_lib.metrics import rank
from course_lib.theory.double import double


def rank_bound(d: int, bias: bool = True) -> int:
    """The greatest rank of log P that one softmax over contexts of d numbers can have.

    log P = H Wᵀ + 1 bᵀ − log Z 1ᵀ: rank d of the first term, one more for the row-wise normaliser,
    one more for a bias: d + 2 (402 at d = 400, parthiban2021, Table 1), without one d + 1 (Yang et
    al. 2018, corollary 1).
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
        press = (rank.press_rank(values, (n, n), p) for p in (np.float32, np.float64))
        effective = {epsilon: rank.effective_rank(values, epsilon) for epsilon in epsilons}
        yield Fragility(c, *press, effective)


class HiddenSize(NamedTuple):
    """The length of a softmax' contexts, as `hidden_size` finds it."""

    d: int | None  # None where the spectrum has no gap
    gap: float  # σ_d / σ_{d+1}
    singular_values: np.ndarray  # in which the gap was sought


def hidden_size(blocks: Iterable, least_gap: float = 10.0) -> HiddenSize:
    """Return how long the contexts of a softmax are, found from its output alone.

    blocks: (b, N) each, logits or log-probabilities of more than d contexts in sum.
    A row of log P = W h + b − log Z minus its mean has no log Z. Minus the first such row it has no
    b either, and what is left spans the d columns of W, or d − 1 dimensions if the columns combine
    to 1, a direction that changes no probability. Below σ_d comes rounding: d is where the ratio of
    two successive singular values is greatest, if that is at least `least_gap`. A mixture has no
    such gap, nor have outputs that are rounded coarsely.
    Source: Finlayson et al. 2024; Carlini et al. 2024.
    Raises CourseError for fewer than 4 rows, and as `spectrum`.
    """
    values, (m, N) = rank.spectrum(_differences(blocks))
    if m < 3 or not values[0] > 0:
        raise CourseError(f"a gap needs 4 different contexts or more, got {m + 1} rows")
    values = values[: min(m, N - 1)]
    seen = values.clip(values[0] * rank.RESOLVED)
    ratios = seen[:-1] / seen[1:]
    d = int(ratios.argmax()) + 1
    return HiddenSize(d if ratios[d - 1] >= least_gap else None, float(ratios[d - 1]), values)


class LostGradient(NamedTuple):
    """The norm of each gradient (…), the norm that reaches the contexts, and the shares lost."""

    norm: Tensor  # ‖g‖
    kept: Tensor  # ‖P g‖
    lost: Tensor  # ‖g − P g‖² / ‖g‖²: the share of the squared norm
    suppressed: Tensor  # 1 − ‖P g‖ / ‖g‖: the share of the norm


def column_space(W) -> Tensor:
    """Return an orthonormal basis (N, r) of the span of W's columns (N, d).

    Directions with singular values up to max(N, d) ε σ_1 do not count. CourseError unless W is a
    matrix.
    """
    W = double(W).detach()
    if W.ndim != 2:
        raise CourseError(f"a word matrix has the shape (N, d), not {(*W.shape,)}")
    U, values, _ = torch.linalg.svd(W, full_matrices=False)
    return U[:, values > max(W.shape) * torch.finfo(W.dtype).eps * values.max()]


def cross_entropy_gradient(log_prob, target) -> Tensor:
    """∂(−log P(y))/∂l = softmax(l) − e_y: log_prob (…, N), target (…) ids -> (…, N)."""
    gradient = double(log_prob).exp()
    target = torch.as_tensor(target, device=gradient.device)[..., None]
    return gradient.scatter_add(-1, target, -torch.ones_like(target, dtype=gradient.dtype))


def lost_gradient(space, gradient) -> LostGradient:
    """How much of the logits' gradient a linear output layer of rank d cannot pass on.

    space: the layer's `column_space`, an orthonormal U (N, r); gradient g (…, N) of the loss with
    respect to the logits l = W h, such as `cross_entropy_gradient`. Backpropagation hands Wᵀg to
    the network, so that what of g is orthogonal to W's columns leaves no trace there. With the
    projection P = U Uᵀ on their span,

        ‖g‖² = ‖P g‖² + ‖g − P g‖²,   lost = ‖g − P g‖² / ‖g‖²,   suppressed = 1 − ‖P g‖ / ‖g‖

    Random directions would keep r/N of the squared norm; Godey and Artzi 2026 report 95–99 % of the
    norm as suppressed in language models. Of a gradient of 0 nothing is lost.

    CourseError if the gradient's last size is not N.
    """
    U, g = double(space).detach(), double(gradient).detach()
    if not g.ndim or g.shape[-1] != len(U):
        raise CourseError(
            f"a gradient has a number for each of the {len(U):,} words, got shape {(*g.shape,)}"
        )
    inside = g @ U
    norm, kept = g.norm(dim=-1), inside.norm(dim=-1)
    rest = (g - inside @ U.T).norm(dim=-1)
    positive = norm.where(norm > 0, 1.0)
    suppressed = (1 - kept / positive).clamp(min=0).where(norm > 0, 0.0)
    return LostGradient(norm, kept, (rest / positive).square(), suppressed)


def _differences(blocks: Iterable) -> Iterator[Tensor]:
    """Yield rows minus their means, minus the first of them, which is left out."""
    first = None
    for rows in rank.rows_of(blocks):
        rows = rows.double()
        rows = rows - rows.mean(1, keepdim=True)
        if first is None and len(rows):
            first, rows = rows[0], rows[1:]
        if len(rows):
            yield rows - first
