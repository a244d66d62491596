"""Matrix products of half-precision numbers, added up in float32."""

from torch import Tensor

from course_lib.machine import accelerated

PART = 1 << 20  # numbers of a product in half precision that are added to float32 ones at once


def rows_at_once(block: Tensor) -> int:
    """Return how many rows of a block (m, N) one product with the matrix takes.

    All of them, but in half precision on a CPU a few hundred: tall products are slow there.
    """
    return len(block) if accelerated(block) or block.element_size() > 2 else 400


def with_bias(matrix: Tensor, bias: Tensor) -> Tensor:
    """Return [matrix, bias, 0] (N, e), so that a context [x, 1] has its bias in the product.

    matrix: (N, d); bias: (N,).
    The column after the bias takes the rest of its gradient's weights, see `add_product`. Rows end
    at a multiple of 32 numbers, as AMX multiplies them.
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
    bias: (N,) or None, receives the next two, a column of weights and of what rounding took;
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
    total: Tensor,
    inputs: Tensor,
    target: Tensor,
    at_target: Tensor,
    everywhere: Tensor | None,
) -> None:
    """Add Σ_i (at_target_i onehot(y_i) + everywhere_i) inputs_iᵀ to a gradient.

    These are the terms of the logits' gradient that are no multiple of the softmax.

    total: (N, e), the gradient;
    inputs: (m, e), K = m / b rows for each position;
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
