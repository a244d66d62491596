"""Dropout of single entries, with four of them drawn from one random number.

PyTorch draws a float for each entry on a CPU, one after the other: 80 ms for the recurrent matrix
of 1150 units, a tenth of a training step of AWD-LSTM. Whether an entry is kept needs 16 bits.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.machine import accelerated

_STEPS = 1 << 16  # a share is rounded to one of so many


class _Dropout(torch.autograd.Function):
    """x ∘ kept / share kept; what is remembered is one byte an entry."""

    @staticmethod
    def forward(ctx, x, kept_of_steps):
        bits = x.new_empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(1 << 63), None)
        kept = bits.view(torch.int16)[: x.numel()].view(x.shape) < kept_of_steps - _STEPS // 2
        ctx.scale = _STEPS / kept_of_steps
        ctx.save_for_backward(kept)
        return torch.mul(x, kept).mul_(ctx.scale)

    @staticmethod
    def backward(ctx, gradient):
        (kept,) = ctx.saved_tensors
        return torch.mul(gradient, kept).mul_(ctx.scale), None


def entry_dropout(x: Tensor, dropout: float, training: bool = True) -> Tensor:
    """Drop entries as `F.dropout` does; what remains is divided by 1 − `dropout`.

    On a CPU the probability is rounded to a multiple of 2^-16, and the divisor with it, so that the
    expectation is exactly x. Raises ValueError outside [0, 1).
    """
    if not 0 <= dropout < 1:
        raise ValueError(f"a share to drop lies in [0, 1), not {dropout}")
    if accelerated(x) or x.device.type != "cpu" or not training or not dropout:
        return F.dropout(x, dropout, training)
    return _Dropout.apply(x, min(max(1, round((1 - dropout) * _STEPS)), _STEPS - 1))


class EntryDropout(nn.Module):
    """`entry_dropout` as a module, as `nn.Dropout`."""

    def __init__(self, dropout: float):
        super().__init__()
        self.dropout = dropout

    def forward(self, x: Tensor) -> Tensor:
        """Return x (…) with entries dropped in training."""
        return entry_dropout(x, self.dropout, self.training)
