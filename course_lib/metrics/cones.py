"""Convex hulls and cones around word vectors."""

from typing import NamedTuple

import numpy as np
import torch
from scipy.optimize import lsq_linear, nnls
from torch import Tensor
from torch.nn.functional import normalize

from course_lib.errors import CourseError
from course_lib.metrics.inputs import (
    BLOCK,
    as_matrix,
    as_numbers,
    unit_rows,
)
from course_lib.metrics.neighbours import nearest_neighbours


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
    unit = unit_rows(W)
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
    rows = unit_rows(W)
    axis = rows.mean(0) if axis is None else torch.tensor(as_numbers(axis, "axis")).to(rows)
    if not axis.any():
        raise CourseError("the rows' directions cancel: give the axis")
    return _angles(rows, axis / axis.norm()).cpu().numpy()


def _angles(rows: Tensor, axis: Tensor) -> Tensor:
    """Angles of unit rows to a unit axis; near 0 and π only the sine tells them apart."""
    along = rows @ axis
    across = (rows - along[:, None] * axis).norm(dim=1)
    return torch.atan2(across, along)
