"""Dropout whose mask is drawn once for a whole sequence (Gal and Ghahramani 2016)."""

import torch
from torch import Tensor

from course_lib.errors import CourseError


def check_probability(name: str, dropout: float) -> float:
    """`dropout` itself; CourseError unless it is at least 0 and below 1, where nothing is left."""
    if not isinstance(dropout, int | float) or not 0 <= dropout < 1:
        raise CourseError(f"{name} is a share, at least 0 and below 1; {dropout} is not")
    return dropout


def keep_mask(like: Tensor, dropout: float) -> Tensor:
    """Shaped like `like`: 0 with probability `dropout`, else 1/(1 − dropout)."""
    keep = 1 - dropout
    return torch.empty_like(like).bernoulli_(keep).div_(keep)


def locked_dropout(x: Tensor, dropout: float) -> Tensor:
    """X (T, …) times one mask for all time steps; x itself where nothing is to be dropped.

    The mask is in float32 even where x is of a half type, in which 1/(1 − dropout) is up to 0.2 %
    off, the same way everywhere, and the mean of what is read no longer x.
    """
    if not dropout:
        return x
    wide = torch.promote_types(x.dtype, torch.float32)
    return (x * keep_mask(x[:1].to(wide), dropout)).to(x.dtype)
