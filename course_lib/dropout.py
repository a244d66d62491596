"""Dropout whose mask is drawn once for a whole sequence (Gal and Ghahramani 2016)."""

import torch
from torch import Tensor


def keep_mask(like: Tensor, dropout: float) -> Tensor:
    """Return a mask shaped like `like`: 0 with probability `dropout`, else 1/(1 − dropout)."""
    keep = 1 - dropout
    return torch.empty_like(like).bernoulli_(keep).div_(keep)


def locked_dropout(x: Tensor, dropout: float, training: bool = True) -> Tensor:
    """Return x (T, …) times one mask for all time steps, or x where nothing is to be dropped.

    The mask is in float32 even where x is of a half type, in which 1/(1 − dropout) is up to 0.2 %
    off, the same way everywhere, and the mean of what is read no longer x.
    """
    if not dropout or not training:
        return x
    wide = torch.promote_types(x.dtype, torch.float32)
    return (x * keep_mask(x[:1].to(wide), dropout)).to(x.dtype)
