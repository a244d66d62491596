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
    """x ∘ mask / share kept; the backward pass needs one byte an entry."""

    @staticmethod
    def forward(ctx, x, kept_of_steps):
        bits = x.new_empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(1 << 63), None)
        mask = bits.view(torch.int16)[: x.numel()].view(x.shape) < kept_of_steps - _STEPS // 2
        ctx.scale = _STEPS / kept_of_steps
        ctx.save_for_backward(mask)
        return torch.mul(x, mask.view(torch.uint8)).mul_(ctx.scale)

    @staticmethod
    def backward(ctx, gradient):
        (mask,) = ctx.saved_tensors
        return torch.mul(gradient, mask.view(torch.uint8)).mul_(ctx.scale), None


def entry_dropout(x: Tensor, dropout: float, training: bool = True) -> Tensor:
    """Drop entries as `F.dropout` does; ValueError for a share outside [0, 1).

    On a CPU the share is rounded to a multiple of 2^-16, and the scale of what remains with it.
    """
    if not 0 <= dropout < 1:
        raise ValueError(f"a share to drop lies in [0, 1), not {dropout}")
    if accelerated(x) or x.device.type != "cpu" or not training or not dropout:
        return F.dropout(x, dropout, training)
    return _Dropout.apply(x, min(max(1, round((1 - dropout) * _STEPS)), _STEPS - 1))


class EntryDropout(nn.Dropout):
    """`entry_dropout` as a module."""

    def forward(self, x: Tensor) -> Tensor:
        return entry_dropout(x, self.p, self.training)
