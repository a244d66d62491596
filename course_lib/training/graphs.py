"""CUDA graphs for encoders that launch a small operation for every word.

A loop over the words of a segment launches thousands of operations: a VD-LSTM about 1,200 in a
training step, an RHN about 7,500. A GPU computes each in less time than the host needs to launch
it. A CUDA graph records all of them once, and launches them together from then on.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from course_lib.protocols import Unrolled

PLAIN = 2  # calls of a shape that run as they are; the next one records the graph
SHAPES = 8  # that are recorded: each graph holds its own memory, and lengths may be random


def fits(encoder: nn.Module, device: torch.device, processes: int, micro_batches: int) -> bool:
    """Return whether a training may run its encoder as CUDA graphs.

    The encoder is `Unrolled`, and one process trains it on a GPU. A replay overwrites the outputs
    of the one before, so an update may not have several micro-batches.
    """
    alone = processes == 1 and micro_batches == 1
    return alone and device.type == "cuda" and isinstance(encoder, Unrolled) and encoder.unrolled


@contextmanager
def replaying(
    encoder: nn.Module, device: torch.device, processes: int, micro_batches: int
) -> Iterator[None]:
    """Have an encoder replay its training calls meanwhile, if it `fits` the other arguments."""
    if fitting := fits(encoder, device, processes, micro_batches):
        encoder.forward = Replayed(encoder)
    try:
        yield
    finally:
        if fitting:
            del encoder.forward


class Replayed:
    """An encoder's forward method, which replays its training calls as CUDA graphs.

    `encoder.forward = Replayed(encoder)` puts it in place. A call with a state, in training, whose
    shapes have been seen often enough, is recorded and then replayed. All other calls run as
    before, and so does a shape whose recording fails, after a warning.

    A replay writes its outputs over those of the replay before. So the caller may hold one step's
    outputs at a time: the gradients of several micro-batches cannot be added up. A step's loss must
    be gone when the next begins: PyTorch warns that a graph that is kept may break a recording.
    """

    def __init__(self, encoder: nn.Module):
        self.encoder = encoder
        self.plain = encoder.forward
        self.seen: dict[tuple, int] = {}  # calls, by what decides whether a graph fits
        self.graphs: dict[tuple, nn.Module | None] = {}  # None where the recording failed

    def __call__(self, x: Tensor, state: Any = None) -> tuple:
        if state is None or not (self.encoder.training and torch.is_grad_enabled()):
            return self.plain(x, state)
        kind = x.device.type
        leaves = pytree.tree_leaves((x, state))
        narrow = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else None
        key = narrow, *((t.shape, t.dtype, t.device, t.requires_grad) for t in leaves)
        self.seen[key] = self.seen.get(key, 0) + 1
        if self.seen[key] > PLAIN and key not in self.graphs and len(self.graphs) < SHAPES:
            self.graphs[key] = self.recorded(x, state)
        graph = self.graphs.get(key)
        return self.plain(x, state) if graph is None else graph(x, state)

    def recorded(self, x: Tensor, state: Any) -> Any:
        """Return the encoder with its forward and backward pass as graphs; None if that fails.

        Recording draws random numbers; afterwards the generators are as they were before.
        """
        kind = x.device.type
        first, sample = pytree.tree_map(
            lambda t: t.detach().clone().requires_grad_(t.requires_grad), (x, state)
        )
        devices = [x.device] if x.is_cuda else []
        narrow = {"dtype": torch.get_autocast_dtype(kind), "cache_enabled": False}
        with torch.random.fork_rng(devices):
            with torch.autocast(kind, enabled=torch.is_autocast_enabled(kind), **narrow):
                try:
                    return torch.cuda.make_graphed_callables(_Call(self), (first, sample))
                except RuntimeError as error:
                    warnings.warn(
                        f"{type(self.encoder).__name__} runs without a CUDA graph, more slowly but "
                        f"with the same result, because recording it failed: {error}",
                        stacklevel=2,
                    )
                    return None


class _Call(nn.Module):
    """The plain call as a module, since a graph takes its parameters from a module."""

    def __init__(self, replayed: Replayed):
        super().__init__()
        self.encoder = replayed.encoder
        self.plain = replayed.plain

    def forward(self, x: Tensor, state: Any) -> tuple:
        # A part of the state may be a part of x, whose place the next call's x takes first.
        hidden, state = self.plain(x, state)
        return hidden, pytree.tree_map(torch.clone, state)
