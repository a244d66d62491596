"""The precision in which the theorems compute."""

import torch
from torch import Tensor


def double(value, device=None) -> Tensor:
    """Return a number, an array or a tensor as a tensor of float64, gradients kept."""
    return torch.as_tensor(value, dtype=torch.float64, device=device)
