"""The precision in which the theorems compute."""

import torch
from torch import Tensor

from course_lib.metrics.inputs import Numbers


def double(value: Numbers, device: torch.device | None = None) -> Tensor:
    """Return a number, an array or a tensor as a tensor of float64, gradients kept."""
    return torch.as_tensor(value, dtype=torch.float64, device=device)
