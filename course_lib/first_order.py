"""Backward passes that are written out by hand, which can be differentiated only once."""

import functools
from collections.abc import Callable

import torch


def first_order(backward: Callable) -> Callable:
    """Decorate a backward pass that is written out, so that it refuses `create_graph`.

    PyTorch's `once_differentiable` refuses only where the incoming gradient needs one itself, else
    a second derivative silently lacks what the saved tensors add to it.
    """

    @functools.wraps(backward)
    def checking(ctx, *gradients):
        if torch.is_grad_enabled():
            name = backward.__qualname__
            raise RuntimeError(f"{name} cannot be differentiated again: leave out create_graph")
        return backward(ctx, *gradients)

    return checking
