"""Sums in float32, also of products in half precision."""

import torch
from torch import Tensor

from course_lib.machine import accelerated

PART = 1 << 20  # numbers of a product in half precision that are added to float32 ones at once


def type_of_sums(x: Tensor) -> torch.dtype:
    """Return the type of sums: float32, or float64 for inputs of float64."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def rows_at_once(block: Tensor) -> int:
    """Return how many rows of a block (m, N) one product with the matrix takes.

    All of them, but in half precision on a CPU a few hundred: tall products are slow there.
    """
    return len(block) if accelerated(block) or block.element_size() > 2 else 400


def with_bias(matrix: Tensor, bias: Tensor) -> Tensor:
    """Return [matrix, bias, 0] (N, e), so that its product with [x, 1] includes the bias.

    matrix: (N, d); bias: (N,).
    The zeros are there for `add_product`, and because AMX multiplies rows 32 numbers at a time.
    """
    size = matrix.shape[1]
    wider = matrix.new_zeros(len(matrix), -(-(size + 2) // 32) * 32)
    wider[:, :size] = matrix
    wider[:, size] = bias
    return wider


def add_product(
    matrix: Tensor | None, bias: Tensor | None, a: Tensor, b: Tensor, size: int
) -> None:
    """Add the product a @ b to the gradients of a matrix and its bias.

    matrix: (N, d) or None, receives the first d = `size` columns of the product;
    bias: (N,) or None, receives the next two, for rounded weights and what rounding took;
    a, b: (N, m) and (m, e), of a narrower type than the sums.
    On a CPU a few rows at a time, while the cache has them.
    """
    rows = len(a) if accelerated(a) else max(1, PART // b.shape[1])
    for start in range(0, len(a), rows):
        part = slice(start, start + rows)
        product = a[part] @ b
        if matrix is not None:
            matrix[part].add_(product[:, :size])
        if bias is not None:
            bias[part].add_(product[:, size]).add_(product[:, size + 1])


def add_outside_softmax(
    total: Tensor, inputs: Tensor, target: Tensor, at_target: Tensor, everywhere: Tensor | None
) -> None:
    """Add Σ_i (at_target_i onehot(y_i) + everywhere_i) inputs_iᵀ to a gradient.

    These are the terms of the logits' gradient that are no multiple of the softmax.

    total: (N, e); inputs: (m, e), K = m / b rows for each position;
    target: (b,), the words y;
    at_target: (m, 1); everywhere: (m, 1) or None for zeros.
    """
    per_component = (inputs * at_target).view(len(target), -1, inputs.shape[1])
    rows = per_component.sum(1).to(total.dtype)
    if accelerated(total):  # in one order, so that the sum is the same each time
        total.index_put_((target,), rows, accumulate=True)
    else:
        total.index_add_(0, target, rows)
    if everywhere is not None:
        total.add_((inputs * everywhere).sum(0))
