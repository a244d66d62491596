"""wang2019, section 3: a softmax whose target row is moved against it by at most ε.

Every function takes plain arrays or tensors, W (N, d) with one word a row and contexts h (…, d),
and computes in float64.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from course_lib.metrics.inputs import TINY, Numbers, as_matrix, count_rows_in_pairs, double
from course_lib.theory.hulls import nearest_in_hull


def worst_perturbation(h: Numbers, epsilon: Numbers) -> Tensor:
    """Return δ* = −ε h/‖h‖, which makes (w + δ)ᵀh least of all δ with ‖δ‖ ≤ ε: wᵀh − ε‖h‖.

    h (…, d), epsilon a number or (…) → (…, d); 0 where h is 0 (wang2019, theorem 3.1, eq. 6).
    """
    h = double(h)
    return -double(epsilon, h.device)[..., None] * F.normalize(h, dim=-1, eps=TINY)


def adversarial_probability(W: Numbers, h: Numbers, target: Numbers, epsilon: Numbers) -> Tensor:
    """Return the least probability of word i when its row moves by at most ε, AdvSoft_ε(i, w, h).

        exp(w_iᵀh − ε‖h‖) / (exp(w_iᵀh − ε‖h‖) + Σ_{j≠i} exp(w_jᵀh))       (wang2019, eq. 7)

    W (N, d), h (…, d), target (…) ids, epsilon a number or (…) → (…). It is also the least when
    every row moves by at most ε/2 (theorem 3.1).
    Naive: `V = W.clone(); V[i] += worst_perturbation(h, ε); softmax(V @ h)[i]`.
    """
    W = double(W)
    h, epsilon = double(h, W.device), double(epsilon, W.device)
    target = torch.as_tensor(target, device=W.device)[..., None]
    offset = -(epsilon * h.norm(dim=-1))[..., None]
    logits = (h @ W.T).scatter_add(-1, target, offset.expand_as(target))
    return logits.log_softmax(-1).gather(-1, target).squeeze(-1).exp()


def energy(W: Numbers, target: Numbers, norm: Numbers, epsilon: Numbers) -> Tensor:
    """Return how far word i is from the others, Φ = −log Σ_{j≠i} exp(−‖h‖ (‖w_i − w_j‖ − ε)).

    W (N, d), target (…) ids, norm (…) the contexts' ‖h‖, epsilon a number or (…) → (…).
    Φ ≤ ‖h‖ (min_{j≠i} ‖w_i − w_j‖ − ε) (wang2019, theorem 3.4).
    """
    W = double(W)
    target = torch.as_tensor(target, device=W.device)
    norm, epsilon = (double(value, W.device)[..., None] for value in (norm, epsilon))
    rows = W[target].reshape(-1, W.shape[1])
    exact = "donot_use_mm_for_euclid_dist"
    distances = torch.cdist(rows, W, compute_mode=exact).view(*target.shape, len(W))
    terms = -norm * (distances - epsilon)
    return -terms.where(F.one_hot(target, len(W)) == 0, -torch.inf).logsumexp(-1)


def recognition_bound(W: Numbers, target: Numbers, norm: Numbers, epsilon: Numbers) -> Tensor:
    """Return σ(Φ), which no AdvSoft_ε(i, w, h) with an h of that norm exceeds.

    Only a word far from all others is sure (wang2019, theorem 3.4). Arguments: those of `energy`.
    """
    return energy(W, target, norm, epsilon).sigmoid()


class Witness(NamedTuple):
    """Word i is ε-recognisable if ε < margin, by the context h, and not if ε ≥ bound."""

    margin: float  # min_j (w_i − w_j)ᵀ h, attained by h
    bound: float  # ‖Σ_j weights_j (w_i − w_j)‖, which no unit vector exceeds
    h: Tensor  # (d,), of norm 1; zeros when no context puts word i first
    weights: Tensor  # (N,), a convex combination with 0 at i


def margin_witness(W: Numbers, i: int) -> Witness:
    """Return the largest ε up to which word i is recognisable, with a certificate from both sides.

    A word is ε-recognisable if some h has w_iᵀh − ε‖h‖ > w_jᵀh for all j ≠ i (wang2019,
    definition 3.2), that is if ε < max_{‖h‖=1} min_{j≠i} (w_i − w_j)ᵀh. Where that is above 0 it
    is the distance from 0 to the convex hull of the w_i − w_j, and h points to the nearest point.
    The hull's vertices being farther, such a word is more than ε from every other row (theorem
    3.3). The nearest point is `nearest_in_hull`'s; margin and bound are evaluated from h and the
    weights, so that they hold whatever its accuracy.

    CourseError unless W has two rows or more, all finite.
    """
    W = as_matrix(W).cpu()
    count_rows_in_pairs(W)
    others = torch.arange(len(W)) != torch.arange(len(W))[i]
    D = W[i] - W[others]
    weights = torch.zeros(len(W), dtype=W.dtype)
    weights[others] = torch.from_numpy(nearest_in_hull(D))
    point = weights[others] @ D
    h = F.normalize(point, dim=0, eps=TINY)
    margin = max(0.0, float((D @ h).min()))
    return Witness(margin, float(point.norm()), h if margin else torch.zeros_like(h), weights)
