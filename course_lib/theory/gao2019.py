"""gao2019, section 4 and appendices: why the vectors of rare words end in a narrow cone.

Contexts are rows of H (M, d). `log_rest` (M,) is log C_i, C_i = Σ_l exp(w_lᵀh_i) over all words but
the one looked at. Arrays or tensors in; everything is computed in float64.
"""

from typing import NamedTuple

import numpy as np
import torch
from scipy.optimize import linprog
from torch import Tensor
from torch.nn import functional as F

from course_lib.errors import CourseError
from course_lib.metrics.inputs import Numbers, as_matrix, double, rows_at_once, unit_rows

NEW = 200  # contexts that enter the linear programme at once, d if that is more


class Hull(NamedTuple):
    """The test whether 0 lies outside the contexts' convex hull: it does where margin > 0."""

    margin: float  # −max_i vᵀh_i, or 0
    residual: float  # ‖Σ_i weights_i h_i‖: no unit vector has a margin beyond it
    direction: Tensor  # v (d,), uniformly negative, of norm 1; zeros where there is none
    weights: Tensor  # (M,), convex, of the point of the hull that is `residual` away from 0


def uniformly_negative_direction(H: Numbers) -> Hull:
    """Return a v with vᵀh_i < 0 for all i, or convex weights with Σ λ_i h_i = 0.

    There is always one of the two and never both (gao2019, definition 1 and theorem 2).

    The linear programme is max t with vᵀĥ_i ≤ −t and |v_k| ≤ 1, on contexts ĥ_i of norm 1. Its
    dual minimises ‖Σ λ_i ĥ_i‖_1 over convex λ, so one solution by HiGHS gives both. `margin` and
    `residual` are evaluated on all contexts and certify the answer whatever the solver's accuracy:
    a margin above 0 that v exists, a residual of 0 (up to rounding) that none does.

    CourseError unless H is a finite matrix with at least one row.
    """
    H = as_matrix(H).cpu()
    M, d = H.shape
    norms = H.norm(dim=1, keepdim=True)
    unit = (H / norms.where(norms > 0, 1.0)).numpy()
    new = max(NEW, d)
    active = np.unique(np.linspace(0, M - 1, min(M, new)).astype(int))

    # A programme over few contexts. Those on which its v fails join them, until v serves all of
    # them, or the few alone have 0 in their hull.
    while True:
        rows = np.hstack([unit[active], np.ones((len(active), 1))])
        bounds = [(-1, 1)] * d + [(None, None)]
        programme = linprog(-np.eye(d + 1)[-1], rows, np.zeros(len(active)), bounds=bounds)
        if not programme.success:
            raise CourseError(f"the linear programme was not solved: {programme.message}")
        v = programme.x[:d]
        t = programme.x[d]
        share = -programme.ineqlin.marginals
        along = unit @ v
        failed = np.setdiff1d(np.flatnonzero(along > -t / 2), active)
        if t <= 1e-9 or not len(failed):
            break
        active = np.union1d(active, failed[along[failed].argsort()[::-1][:new]])

    # Both certificates, on all contexts.
    direction = F.normalize(torch.from_numpy(v), dim=0)
    margin = float(-(H @ direction).max())
    if margin <= 0:
        margin = 0.0
        direction = torch.zeros_like(direction)
    weights = torch.zeros(M, dtype=torch.float64)
    lengths = norms[active, 0].where(norms[active, 0] > 0, 1.0)
    weights[active] = torch.from_numpy(share.clip(0)) / lengths
    weights /= weights.sum()
    return Hull(margin, float((weights @ H).norm()), direction, weights)


def layer_norm_condition(gain: Numbers, bias: Numbers) -> float:
    """Return 1ᵀ(b/g), which is 0 wherever the hull of contexts g ∘ z + b, 1ᵀz = 0, contains 0.

    gain, bias: (d,). CourseError for other shapes or a gain of 0. Source: gao2019, appendix C.
    """
    gain, bias = double(gain), double(bias)
    if gain.ndim != 1 or gain.shape != bias.shape:
        raise CourseError(f"gain {(*gain.shape,)} and bias {(*bias.shape,)} must both be (d,)")
    if not gain.all():
        raise CourseError(f"entry {int((gain == 0).nonzero()[0])} of the layer norm's gain is 0")
    return float((bias / gain).sum())


def layer_norm_direction(gain: Numbers, bias: Numbers) -> Tensor:
    """Return v = −sign(c) / g, (d,), with c = 1ᵀ(b/g): vᵀh = −|c| for every h = g ∘ z + b.

    This uniformly negative direction needs no linear programme and no context; it is 0 if c is.
    It follows from appendix C of gao2019 by multiplying h with 1/g.
    """
    condition = layer_norm_condition(gain, bias)
    return -float(np.sign(condition)) / double(gain)


def log_rest(W: Numbers, H: Numbers, word: int) -> Tensor:
    """Return log C_i = log Σ_{l ≠ word} exp(w_lᵀh_i), (M,), of W (N, d), H (M, d) and an id."""
    logits = double(H) @ double(W).T
    others = torch.arange(logits.shape[1]) != torch.arange(logits.shape[1])[word]
    return logits[:, others].logsumexp(1)


def non_appearing_loss(w: Numbers, H: Numbers, log_rest: Numbers) -> Tensor:
    """Return mean_i log(exp(h_iᵀw) + C_i), (…): the loss of a word that never comes.

    Along a uniformly negative direction, w = k v, it falls as k grows, towards its lower bound
    mean log C_i, which it reaches only at infinity (gao2019, equation 2 and theorem 1B).

    w: (…, d), the word's vector.
    H, log_rest: the contexts (M, d) and log C_i (M,), else CourseError.
    """
    H, log_rest = double(H), double(log_rest)
    if log_rest.shape != H.shape[:1]:
        raise CourseError(f"{len(H)} contexts need as many log C_i, got {(*log_rest.shape,)}")
    return torch.logaddexp(double(w) @ H.T, log_rest).mean(-1)


def rare_word_bound(epsilon: float, alpha: float, beta: float, B: float) -> float:
    """Return 4εB / (α − ε(α + β)), a bound on ‖x* − x*_ε‖².

    x* is the minimum of f, and x*_ε that of (1 − ε) f + ε g. So a rare word, f with a little of g,
    ends near one that never comes (gao2019, theorem 3). f is the non-appearing loss with a penalty
    α/2 ‖w‖², so that it is α-strongly convex. g, where the word comes, has |g| ≤ B and a Hessian of
    at least −β I. For the expected number of right guesses, g = −mean σ(h_jᵀw − log C_j), B is 1
    and β the greatest eigenvalue of mean h_j h_jᵀ / (6√3). For −log P there is no bound.

    epsilon: ε, the share of the contexts in which the word comes.
    alpha, beta, B: α, β and B of f and g.

    CourseError unless α > 0, β ≥ 0, B ≥ 0 and 0 ≤ ε < α / (α + β), where both minima are unique.
    """
    if not (alpha > 0 and beta >= 0 and B >= 0 and 0 <= epsilon < alpha / (alpha + beta)):
        raise CourseError(
            "the rare-word bound needs α > 0, β ≥ 0, B ≥ 0 and 0 ≤ ε < α/(α+β), not α = "
            f"{alpha}, β = {beta}, B = {B}, ε = {epsilon}"
        )
    return 4 * epsilon * B / (alpha - epsilon * (alpha + beta))


class Merikoski(NamedTuple):
    """A bound: total / N ≤ eigenvalue always, eigenvalue ≤ total where smallest_cosine ≥ 0."""

    eigenvalue: float  # the greatest of ŴŴᵀ
    total: float  # the sum of its entries
    smallest_cosine: float  # its least entry


def merikoski(W: Numbers) -> Merikoski:
    """Return the greatest eigenvalue of ŴŴᵀ, W's rows normalised, and the sum of its entries.

    Source: gao2019, theorem 4, after Merikoski 1984.

    The sum is ‖Σ ŵ_i‖² = N + N² R, R the cosine regulariser: for a cloud of positive cosines,
    making R smaller bounds the greatest eigenvalue, and the others, whose sum is fixed, gain.
    The least cosine takes N² d multiplications.
    """
    rows = unit_rows(W)
    least = min(float((part @ rows.T).min()) for part in rows.split(rows_at_once(len(rows))))
    eigenvalue = float(torch.linalg.eigvalsh(rows.T @ rows)[-1])
    return Merikoski(eigenvalue, float(rows.sum(0).square().sum()), least)
