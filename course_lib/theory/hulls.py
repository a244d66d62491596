"""The point of a convex hull that is nearest 0: the certificate of margins and of their absence."""

import numpy as np
from scipy.optimize import lsq_linear, nnls

from course_lib.metrics.inputs import Numbers, as_matrix


def nearest_in_hull(rows: Numbers) -> np.ndarray:
    """Return convex weights λ (m,) of the point p = Σ λ_i a_i nearest 0 in the hull of rows (m, D).

    The μ ≥ 0 that minimises ‖Σ μ_i a_i‖² + (Σ μ_i − 1)² is λ up to its sum. The solution is
    optimal, to rounding, if no a_iᵀp is below ‖p‖². That is checked: SciPy's solver (1.15 to 1.17)
    at times stops elsewhere where rows are dependent, and a slower one takes over.
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
        weights = weights.clip(0)  # which leaves its bound by rounding
    return weights / weights.sum()
