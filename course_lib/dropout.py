"""Dropout of two kinds: one mask for a whole sequence (Gal and Ghahramani 2016), single entries."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.machine import accelerated
from course_lib.ranges import Dropout, check

_STEPS = 1 << 16  # a share is rounded to one of so many


def keep_mask(like: Tensor, dropout: float) -> Tensor:
    """Return a mask shaped like `like`: 0 with probability `dropout`, else 1/(1 − dropout).

    The mask is in float32 even where `like` is of a half type, in which 1/(1 − dropout) is up to
    0.2 % off, the same way everywhere, and the mean of what is read no longer that of the whole.
    """
    check("the share to drop", dropout, Dropout)
    keep = 1 - dropout
    wide = torch.promote_types(like.dtype, torch.float32)
    return torch.empty_like(like, dtype=wide).bernoulli_(keep).div_(keep)


def locked_dropout(x: Tensor, dropout: float, training: bool = True) -> Tensor:
    """Return x (T, …) times one mask for all time steps, or x where nothing is to be dropped."""
    if not dropout or not training:
        return x
    return (x * keep_mask(x[:1], dropout)).to(x.dtype)


class _Dropout(torch.autograd.Function):
    """x ∘ mask / share kept, where four entries are drawn from one random number.

    On a CPU PyTorch draws a float for each entry, one after the other: 80 ms for the recurrent
    matrix of 1150 units, a tenth of a training step of AWD-LSTM. Whether an entry is kept needs 16
    bits. The backward pass needs one byte an entry.
    """

    @staticmethod
    def forward(ctx, x, kept_of_steps):
        bits = x.new_empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(1 << 63), None)
        # uniform in [−2¹⁵, 2¹⁵), so below kept − 2¹⁵ with the probability kept / 2¹⁶
        mask = bits.view(torch.int16)[: x.numel()].view(x.shape) < kept_of_steps - _STEPS // 2
        ctx.scale = _STEPS / kept_of_steps
        ctx.save_for_backward(mask)
        return torch.mul(x, mask.view(torch.uint8)).mul_(ctx.scale)

    @staticmethod
    def backward(ctx, gradient):
        (mask,) = ctx.saved_tensors
        return torch.mul(gradient, mask.view(torch.uint8)).mul_(ctx.scale), None


def entry_dropout(x: Tensor, dropout: float, training: bool = True) -> Tensor:
    """Drop entries as `F.dropout` does; CourseError for a share outside [0, 1).

    On a CPU the share is rounded to a multiple of 2^-16, and the scale of what remains with it.
    """
    check("the share to drop", dropout, Dropout)
    if accelerated(x) or x.device.type != "cpu" or not training or not dropout:
        return F.dropout(x, dropout, training)
    return _Dropout.apply(x, min(max(1, round((1 - dropout) * _STEPS)), _STEPS - 1))


class EntryDropout(nn.Dropout):
    """`entry_dropout` as a module."""

    def forward(self, x: Tensor) -> Tensor:
        return entry_dropout(x, self.p, self.training)
