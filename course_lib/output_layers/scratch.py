"""Memory for the tensors of one block of positions, which is used again for the next block.

Fresh memory comes page by page from the operating system: filling a new block takes several times
as long as filling an old one. The kernel therefore hands every transform a `Scratch`. Each autograd
function of a transform takes a `Frame` of its own from the scratch, and each of its tensors a name
in that frame, so that two functions never write into the same memory.

    def forward(ctx, logits, scratch):
        frame = scratch.frame()
        return torch.mul(logits, 2, out=frame.empty_like("double", logits))
"""

import threading
from contextlib import contextmanager
from math import prod

import torch
from torch import Tensor

LIMIT = 256 << 20  # bytes, by default, of a block's tensors that are as wide as the vocabulary


class Frame:
    """The named memory of one function and of its backward pass; here fresh at every request."""

    def empty(self, name: str, shape: tuple[int, ...], dtype: torch.dtype, device) -> Tensor:
        """Return an uninitialised tensor.

        name: what the tensor holds. In the kernel a second request for the name may overwrite
        the first: a backward pass thus uses memory that its forward pass has used up.
        """
        return torch.empty(shape, dtype=dtype, device=device)

    def empty_like(self, name: str, x: Tensor, dtype: torch.dtype | None = None) -> Tensor:
        """Return an uninitialised tensor like `x`."""
        return self.empty(name, x.shape, dtype or x.dtype, x.device)


class Scratch:
    """A transform takes its frames from a scratch; outside the kernel all memory is fresh.

    There a result may still be needed when the next is made, and nothing may be overwritten.
    """

    def frame(self) -> Frame:
        """Return the memory of one more function of this block."""
        return Frame()

    def start_block(self) -> None:
        """Say that the tensors of the last block are used up."""


FRESH = Scratch()  # what a transform called by hand takes


class BlockScratch(Scratch):
    """Memory that every block of a walk uses again: its n-th frame is the last block's n-th.

    An output layer owns one and keeps it from step to step. A copy of the layer begins with none.
    """

    def __init__(self, limit: int = LIMIT):
        """Take the bytes for a block's tensors of N columns, which `BlockedLoss` keeps."""
        self.limit = limit
        self._frames: list[_ReusedFrame] = []
        self._taken = 0
        self._in_use = threading.Lock()

    @contextmanager
    def walk(self, device: torch.device):
        """Yield the memory for a walk over blocks on `device`.

        It is this scratch's own, or fresh memory while another walk, of another thread or around
        this one, holds it. A GPU's allocator keeps its memory anyway: there it is fresh, too. It is
        fresh in inference mode, because no later training may write into tensors made there.
        """
        fresh = device.type != "cpu" or torch.is_inference_mode_enabled()
        if fresh or not self._in_use.acquire(blocking=False):
            yield Scratch()
            return
        try:
            yield self
        finally:
            self._in_use.release()

    def start_block(self):
        self._taken = 0

    def frame(self):
        if self._taken == len(self._frames):
            self._frames.append(_ReusedFrame())
        self._taken += 1
        return self._frames[self._taken - 1]

    def __reduce__(self):
        return BlockScratch, (self.limit,)


class _ReusedFrame(Frame):
    def __init__(self):
        self._memory: dict[tuple[str, torch.dtype], Tensor] = {}

    def empty(self, name, shape, dtype, device):
        size = prod(shape)
        memory = self._memory.get((name, dtype))
        if memory is None or memory.numel() < size:
            memory = torch.empty(size, dtype=dtype, device=device)
            self._memory[name, dtype] = memory
        return memory[:size].view(shape)
