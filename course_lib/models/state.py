"""States are nested tuples of tensors, handed in and out; these functions make and walk them."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from course_lib.errors import CourseError


def map_state(function: Callable[[Tensor], Any], state: Any) -> Any:
    """Apply `function` to every tensor of a state; None stays None."""
    if isinstance(state, tuple | list):
        return tuple(map_state(function, part) for part in state)
    return function(state) if isinstance(state, Tensor) else state


def check_segment(x: Tensor, state: Any) -> None:
    """Raise CourseError unless x (T, B, …) has a step, and each tensor of the state B rows."""
    if not len(x):
        raise CourseError(f"an encoder reads one time step or more, got the shape {(*x.shape,)}")

    def check(part: Tensor) -> None:
        if len(part) != x.shape[1]:
            raise CourseError(f"the state has {len(part)} columns, the words {x.shape[1]}")

    map_state(check, state)


def zeros(x: Tensor, units: int) -> Tensor:
    """Return the state (B, units) before a text whose inputs are x (T, B, …).

    Where autocast makes products narrow, a state that grows over a whole text stays in float32.
    """
    autocast = torch.is_autocast_enabled(x.device.type)
    dtype = torch.promote_types(x.dtype, torch.float32) if autocast else x.dtype
    return x.new_zeros(x.shape[1], units, dtype=dtype)


def detach(state: Any) -> Any:
    """Return the same state, cut from the graph that made it (truncated backpropagation)."""
    return map_state(Tensor.detach, state)
