"""The products of the kernel: with a matrix in the quickest way, their sums in float32."""

from collections.abc import Callable
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

from course_lib.machine import accelerated, arranged, arranges, quickest

PART = 1 << 20  # numbers of a product that are added to float32 ones at once, in `add_product`
LARGE = 1 << 32  # multiplications, below which the products' last digits are always the same
TALL = 400  # rows of a block in half precision that one product takes on a CPU


def type_of_sums(x: Tensor) -> torch.dtype:
    """Return the type of sums: float32, or float64 for inputs of float64."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def product_type(x: Tensor) -> torch.dtype:
    """Return the type of the matrix products: autocast's, unless the input is in float64."""
    if torch.is_autocast_enabled(x.device.type) and x.dtype != torch.float64:
        return torch.get_autocast_dtype(x.device.type)
    return x.dtype


def rows_times(block: Tensor, matrix: Tensor) -> Tensor:
    """Return block @ matrix of a block (m, N) and a matrix (N, d).

    In half precision on a CPU it takes a few hundred rows at once: tall products are slow there.
    """
    rows = len(block) if accelerated(block) or block.element_size() > 2 else TALL
    parts = [part @ matrix for part in block.split(rows)]
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def arranged_products(matrix: Tensor, rows: int, block: int) -> list[Callable[[Tensor], Tensor]]:
    """Return the functions x → x Mᵀ and g → g M with M arranged by oneDNN; [] if that is no gain.

    matrix: M (N, d).
    rows: of all x (m, d) and g (m, N) together.
    block: the m of one of them.

    Two arranged copies of M must be small beside all logits, so there are at least 8 d rows. Which
    way is quicker the processor decides, so the first call of a size measures up to `TALL` rows.
    """
    words, size = matrix.shape
    few = rows < 8 * size or rows * matrix.numel() < LARGE
    if few or matrix.device.type != "cpu" or accelerated(matrix) or not arranges(matrix.dtype):
        return []

    # Nothing is made for an answer that is known.
    arrange = cache(lambda: [arranged(matrix, block), arranged(matrix.T, block)])
    zeros = cache(lambda: [matrix.new_zeros(min(TALL, block), n) for n in (size, words)])

    def plain(x, g):
        return torch.mm(x, matrix.T, out=g), rows_times(g, matrix)

    ways = {
        "plain": lambda: plain(*zeros()),
        "arranged": lambda: [product(x) for product, x in zip(arrange(), zeros(), strict=True)],
    }
    way = quickest(f"products with a matrix {words} × {size}, {matrix.dtype}", ways)
    return arrange() if way == "arranged" else []


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
    a, b: (N, m) and (m, e), of the type of the sums or of a narrower one.

    A narrower product is added in parts on a CPU, while the cache has them. So is a large one in
    float32 whose rows would not all begin at multiples of 32 bytes: with such rows it takes up to
    1.6 times as long, so the parts have wider ones.
    """
    if bias is None and matrix is not None and matrix.dtype == a.dtype:
        unaligned = size % 8 and a.element_size() == 4 and a.numel() > PART
        if accelerated(a) or not unaligned:
            matrix.addmm_(a, b)
            return
        b = F.pad(b, (0, -size % 8))
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
