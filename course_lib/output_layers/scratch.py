"""The memory of one block of positions, used again for the next."""

import math
import threading

import torch
from torch import Tensor


class _Memory(threading.local):
    """One block's memory for each thread, by name and type."""

    def __init__(self):
        self.kept, self.walking = {}, False


_memory = _Memory()


def block_memory(name: str, shape: tuple[int, ...], dtype: torch.dtype, device) -> Tensor:
    """Uninitialised memory; during a walk over blocks the same at every call.

    Fresh memory comes page by page from the operating system: filling a new block takes several
    times as long as filling an old one. A GPU's allocator keeps its memory anyway. A transform
    may ask for memory here too: outside the kernel, where nothing says that one result is used
    up before the next is made, it receives fresh memory.
    """
    if device.type != "cpu" or not _memory.walking:
        return torch.empty(shape, dtype=dtype, device=device)
    kept, size = _memory.kept, math.prod(shape)
    if (name, dtype) not in kept or kept[name, dtype].numel() < size:
        kept[name, dtype] = torch.empty(size, dtype=dtype)
    return kept[name, dtype][:size].view(shape)
