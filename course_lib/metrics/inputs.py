"""Checks and conversions of what the metrics take: matrices, vectors, spectra."""

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from course_lib.errors import CourseError

Numbers = Tensor | ArrayLike  # an array, a tensor, or lists of numbers
TINY = torch.finfo(torch.float64).tiny  # the least norm that rows are divided by: any but 0
BLOCK = 1 << 24  # numbers held at once where all pairs of rows are visited: 128 MiB in float64


def double(value: Numbers, device: torch.device | None = None) -> Tensor:
    """Return a number, an array or a tensor as a tensor of float64, gradients kept."""
    return torch.as_tensor(value, dtype=torch.float64, device=device)


def as_matrix(W: Numbers) -> Tensor:
    """Return W (n, d) as a finite tensor in float64 on its device.

    Raises CourseError that says why it is no finite matrix.
    """
    if not isinstance(W, Tensor):
        try:
            W = torch.from_numpy(np.require(W, np.float64, ["C", "W"]))
        except (TypeError, ValueError) as error:
            raise CourseError(f"a matrix of numbers is needed: {error}") from error
    matrix = W.detach().double()
    if matrix.ndim != 2 or not matrix.numel():
        raise CourseError(f"a matrix with one vector a row is needed, got shape {(*matrix.shape,)}")
    if not torch.stack(matrix.aminmax()).isfinite().all():  # isfinite alone holds a copy or two
        row = int((~matrix.isfinite()).any(1).nonzero()[0])
        raise CourseError(f"row {row} of the matrix holds a number that is not finite")
    return matrix


def as_numbers(values: Numbers, name: str) -> np.ndarray:
    """Return a list or vector of finite numbers (n,) as an array in float64.

    Raises CourseError that names it by `name`.
    """
    if isinstance(values, Tensor):
        values = values.detach().double().cpu()
    try:
        numbers = np.asarray(values, dtype=float)
    except (TypeError, ValueError) as error:
        raise CourseError(f"{name}: numbers are needed: {error}") from error
    if numbers.ndim != 1 or not len(numbers) or not np.isfinite(numbers).all():
        raise CourseError(f"{name}: a list of finite numbers is needed, got shape {numbers.shape}")
    return numbers


def as_spectrum(values: Numbers) -> np.ndarray:
    """Return singular values divided by the largest, so that no square overflows.

    Raises CourseError if one is below 0, or none above.
    """
    values = as_numbers(values, "singular values")
    if not (values >= 0).all() or not values.any():
        raise CourseError("singular values are 0 or more, and one above 0 is needed")
    return values / values.max()


def unit_rows(W: Numbers) -> Tensor:
    """Return the rows of W (n, d), each divided by its norm; a row of zeros stays.

    A row is divided by its largest entry first, so that no square overflows or vanishes.
    """
    matrix = as_matrix(W)
    largest = torch.maximum(matrix.amax(1, keepdim=True), -matrix.amin(1, keepdim=True))
    matrix = matrix / largest.where(largest > 0, 1.0)
    norm = matrix.norm(dim=1, keepdim=True)
    return matrix.div_(norm.where(norm > 0, 1.0))


def rows_at_once(width: int) -> int:
    """Return how many rows of `width` numbers a block holds, at least one."""
    return max(1, BLOCK // width)


def count_rows_in_pairs(rows: Tensor) -> int:
    """Return the number of rows. Raises CourseError if they make no pair."""
    if len(rows) < 2:
        raise CourseError(f"pairs of different rows need at least two rows, got {len(rows)}")
    return len(rows)
