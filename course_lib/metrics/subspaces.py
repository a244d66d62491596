"""Column spaces: principal angles, distances, projections."""

from typing import NamedTuple

import numpy as np
import scipy  # `linalg` takes a quarter of a second to import: at its first use
import torch
from torch import Tensor

from course_lib.errors import CourseError
from course_lib.metrics.inputs import Numbers, as_matrix
from course_lib.ranges import Count, checked


def principal_angles(A: Numbers, B: Numbers, k: int | None = None) -> np.ndarray:
    """Return the angles between the column spaces of A (N, d₁) and B (N, d₂), falling, in radians.

    With `k` they are between the spans of the k leading left singular vectors.
    """
    return scipy.linalg.subspace_angles(*(basis.cpu().numpy() for basis in _bases(A, B, k)))


def subspace_distance(A: Numbers, B: Numbers, k: int | None = None) -> float:
    """Return ‖Q₁ − Q₂Q₂ᵀQ₁‖_F / √C, the root mean square sine of the principal angles (inan2017).

    Q₁ (N, C) and Q₂ are orthonormal bases of the column spaces of A and B, or of their k leading
    left singular vectors. It is 0 if A's space lies in B's, and 1 if it is orthogonal to B's.
    """
    first, second = _bases(A, B, k)
    return float((first - second @ (second.T @ first)).norm() / first.shape[1] ** 0.5)


class Projection(NamedTuple):
    """points (n, k) = W @ axes; axes (d, k) orthonormal, the first k right singular vectors."""

    points: np.ndarray
    axes: np.ndarray


@checked
def project(W: Numbers, k: Count = 2) -> Projection:
    """Return the cloud's picture in its first k right singular vectors, not centred (gao2019).

    An axis has no sign of its own; it points where Σ w_iᵀa ≥ 0.
    """
    matrix = as_matrix(W)
    triangle = torch.linalg.qr(matrix, mode="r").R  # of the same axes, without the n left vectors
    axes = oriented(matrix, torch.linalg.svd(triangle, full_matrices=False).Vh[:k].T)
    return Projection((matrix @ axes).cpu().numpy(), axes.cpu().numpy())


def _bases(A: Numbers, B: Numbers, k: int | None) -> tuple[Tensor, Tensor]:
    """Return orthonormal bases (N, k) of the leading column spaces, by default the whole ones."""
    A = as_matrix(A)
    B = as_matrix(B).to(A.device)
    if len(A) != len(B):
        raise CourseError(f"column spaces need the same rows, got {len(A)} and {len(B)}")
    bases = []
    for matrix in (A, B):
        U, values, _ = torch.linalg.svd(matrix, full_matrices=False)
        rank = int((values > max(matrix.shape) * torch.finfo(values.dtype).eps * values[0]).sum())
        wanted = rank if k is None else k
        if not 1 <= wanted <= rank:
            raise CourseError(f"a matrix of rank {rank} has no {wanted} leading vectors")
        bases.append(U[:, :wanted])
    return bases[0], bases[1]


def oriented(matrix: Tensor, axes: Tensor) -> Tensor:
    """Return each axis, a column, with the sign that makes Σ w_iᵀa at least 0."""
    return axes * torch.where((matrix @ axes).sum(0) < 0, -1.0, 1.0)
