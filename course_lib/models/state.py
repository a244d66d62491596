"""States are nested tuples of tensors, handed in and out; these functions make and walk them."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def map_state(function: Callable[[Tensor], Tensor], state: Any) -> Any:
    """Apply `function` to every tensor of a state; None stays None."""
    if isinstance(state, tuple | list):
        return tuple(map_state(function, part) for part in state)
    return function(state) if isinstance(state, Tensor) else state


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


def flatten(state: Any, name: str = "state") -> dict[str, Tensor]:
    """Return {"state.0.1": tensor, …}; `unflatten` is the inverse."""
    if isinstance(state, tuple | list):
        return {
            k: v for i, part in enumerate(state) for k, v in flatten(part, f"{name}.{i}").items()
        }
    return {name: state} if isinstance(state, Tensor) else {}


def unflatten(tensors: dict[str, Tensor], name: str = "state") -> Any:
    """Return the nested tuples that `flatten` took apart; None when there are none of that name."""
    if name in tensors:
        return tensors[name]
    parts = {key[len(name) + 1 :].split(".")[0] for key in tensors if key.startswith(name + ".")}
    return tuple(unflatten(tensors, f"{name}.{i}") for i in sorted(map(int, parts))) or None
