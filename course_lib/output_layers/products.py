"""Matrix products of narrow types, added up in wider ones."""

from torch import Tensor

PART = 1 << 20  # numbers of a product in half precision that are added to float32 ones at once


def rows_at_once(block: Tensor) -> int:
    """How many rows of a block (m, N) one product with the matrix takes: all of them, but in half
    precision on a CPU, where tall products are slow, a few hundred."""
    return len(block) if block.is_cuda or block.element_size() > 2 else 400


def with_bias(matrix: Tensor, bias: Tensor) -> Tensor:
    """(N, d), (N,) → (N, e): the bias as what an input of 1 is multiplied by. Another column is for
    the rest of its gradient's weights; rows end at a multiple of 32, as AMX multiplies them."""
    size = matrix.shape[1]
    wider = matrix.new_zeros(len(matrix), -(-(size + 2) // 32) * 32)
    wider[:, :size], wider[:, size] = matrix, bias
    return wider


def add_product(matrix: Tensor | None, bias: Tensor | None, a: Tensor, b: Tensor, size: int):
    """matrix (N, d) += the first d = `size` columns of a (N, m) @ b (m, e), a product of a narrower
    type; bias (N,) += the next two. On a CPU a few rows at a time, while the cache has them."""
    rows = len(a) if a.is_cuda else max(1, PART // b.shape[1])
    for start in range(0, len(a), rows):
        product = a[start : start + rows] @ b
        if matrix is not None:
            matrix[start : start + rows].add_(product[:, :size])
        if bias is not None:
            bias[start : start + rows].add_(product[:, size]).add_(product[:, size + 1])


def add_rest(total: Tensor, inputs: Tensor, target: Tensor, at_target, everywhere) -> None:
    """total (N, e) += inputs_i (e,) times at_target_i in the target's row and everywhere_i in all.

    inputs (m, e), at_target and everywhere (m, 1), K rows each for every target (b,).
    """
    rows = (inputs * at_target).view(len(target), -1, inputs.shape[1]).sum(1).to(total.dtype)
    if total.is_cuda:  # in one order
        total.index_put_((target,), rows, accumulate=True)
    else:
        total.index_add_(0, target, rows)
    if everywhere is not None:
        total.add_((inputs * everywhere).sum(0))
