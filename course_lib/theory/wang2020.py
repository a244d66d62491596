"""wang2020, theorem 4.1: what a decaying spectrum of the word matrix does for generalisation."""

from typing import NamedTuple

import numpy as np

from course_lib.errors import CourseError
from course_lib.metrics.inputs import Numbers, as_numbers


class Gap(NamedTuple):
    """The bound on expected minus training loss by m, (d − 1,), and where it is least."""

    m: np.ndarray  # 2 … d
    head: np.ndarray  # C₁ A N √(Σ_{j<m} σ_j²) / √n, which grows with m
    tail: np.ndarray  # C₁ A N √(m^{1−2γ} / (2γ−1)) / √n, which falls with m
    confidence: float  # C₂ B √log(1/δ) / √n
    least_m: int
    least: float  # head + tail + confidence there


def generalisation_gap(
    singular_values: Numbers,
    gamma: float,
    N: int,
    n: int,
    A: float = 1.0,
    B: float = 1.0,
    delta: float = 0.05,
    C1: float = 1.0,
    C2: float = 1.0,
) -> Gap:
    """Return what the gap is at most, with probability 1 − δ, for any m in [2, d] (theorem 4.1).

        (C₁ A N (√(Σ_{j<m} σ_j²) + √(m^{1−2γ} / (2γ−1))) + C₂ B √log(1/δ)) / √n

    singular_values: (d,), of the word matrix; gamma: σ_k ≤ k^{−γ}. Scale W so that this holds: the
        tail has no unit, and `least_m` depends on W's. m^{1−2γ} / (2γ−1) ≤ Σ_{k≥m} k^{−2γ}.
    N, n: words and training tokens.
    A: G V H √log d, for a G-Lipschitz loss, right singular vectors with ‖V‖_1 ≤ V and ‖h‖_∞ ≤ H.
    B, delta: |loss| ≤ B; δ.
    C1, C2: absolute constants that the theorem leaves open, so that only ratios mean anything.

    CourseError unless all σ are finite, γ > 1/2, d ≥ 2, n ≥ 1 and 0 < δ < 1.
    """
    values = np.sort(as_numbers(singular_values, "singular values"))[::-1]
    if not (gamma > 0.5 and len(values) >= 2 and n >= 1 and 0 < delta < 1):
        raise CourseError(
            "theorem 4.1 needs γ > 1/2, two singular values or more, n ≥ 1 and 0 < δ < 1, not γ = "
            f"{gamma}, {len(values)} singular values, n = {n} and δ = {delta}"
        )
    m = np.arange(2, len(values) + 1)
    scale = C1 * A * N / np.sqrt(n)
    head = scale * np.sqrt(np.square(values).cumsum()[m - 2])
    tail = scale * np.sqrt(m ** (1 - 2 * gamma) / (2 * gamma - 1))
    confidence = float(C2 * B * np.sqrt(np.log(1 / delta)) / np.sqrt(n))
    at = int((head + tail).argmin())
    return Gap(m, head, tail, confidence, int(m[at]), float(head[at] + tail[at]) + confidence)
