"""Products with a matrix that oneDNN arranges once.

By itself oneDNN arranges it anew at every product. For float32 PyTorch has another library, which
is the slower one on some processors.
"""

import functools
from collections.abc import Callable

import torch
from torch import Tensor


@functools.cache
def arranges(dtype: torch.dtype) -> bool:
    """Return whether PyTorch has the oneDNN operations of `arranged`, and the processor bf16."""
    onednn = torch.ops.mkldnn
    needed = "_is_mkldnn_bf16_supported", "_reorder_linear_weight", "_linear_pointwise"
    has = torch.backends.mkldnn.is_available() and all(hasattr(onednn, name) for name in needed)
    if dtype == torch.bfloat16:
        return has and onednn._is_mkldnn_bf16_supported()
    return has and dtype == torch.float32


def arranged(matrix: Tensor, rows: int) -> Callable[[Tensor], Tensor]:
    """Return the function x → x @ matrix.T of x (m, k), in new memory.

    matrix: (n, k), on the CPU, float32 or bfloat16. It is copied.
    rows: about the m of every x, which decides how oneDNN arranges the matrix.
    """
    onednn = torch.ops.mkldnn
    copy = onednn._reorder_linear_weight(matrix, rows)
    return lambda x: onednn._linear_pointwise(x, copy, None, "none", [], "")
