"""The floor of a step: how long its products and its bytes must take on this machine.

It is  operations / rate of matrix products + bytes / bandwidth,  all three rates measured on this
machine: all products at the rate of a large square one in that precision, on a CPU by the quicker
of PyTorch's product and oneDNN's with an arranged matrix; the recurrent matrices once for every
time step, forward and backward, at the bandwidth of a matrix of 20 MB, which is about that of the
largest LSTM; parameters and gradients once for everything that must touch them, at the memory's.
Elementwise work, dropout and activations count nothing, so that no implementation gets below it.
A virtual machine's rates change within seconds, so a floor and the time beside it are measured in
the same round.
"""

import time
from dataclasses import dataclass
from functools import partial

import torch

from benchmarks.work import Work
from course_lib import machine
from course_lib.evaluation.perplexity import float32_products


@dataclass(frozen=True)
class Limits:
    """The rates of this machine, a second: operations of products, bytes of a cache, of memory."""

    operations: float
    cached: float
    memory: float

    def seconds(self, work: Work) -> float:
        """Return the seconds that this work takes at least."""
        reading = 4 * work.cached / self.cached + 4 * work.memory / self.memory
        return work.operations / self.operations + reading


def limits(precision: str, device: str, size: int | None = None, megabytes: int = 256) -> Limits:
    """Measured: quickest product of `size`, repeated reading of 20 MB, a copy of `megabytes`.

    The product is 2048 wide on a CPU. On a GPU it is 8192 wide, so that the launch adds little.
    """
    size = size or (2048 if device == "cpu" else 8192)
    with float32_products("tf32" if precision == "tf32" else "ieee"):
        return _limits(precision, device, size, megabytes)


def _limits(precision: str, device: str, size: int, megabytes: int) -> Limits:
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    a, b = (torch.randn(size, size, device=device).to(dtype) for _ in "ab")
    out, small = torch.empty_like(a), torch.randn(20 << 18, device=device)
    products = [lambda: torch.mm(a, b, out=out)]
    if device == "cpu" and machine.arranges(dtype):
        products.append(partial(machine.arranged(b, size), a))
    large, other = (torch.randn(megabytes << 18, device=device) for _ in "ab")
    return Limits(
        2 * size**3 / min(_best(product, device) for product in products),
        small.nbytes / _best(small.sum, device),
        2 * large.nbytes / _best(lambda: other.copy_(large), device),
    )


def _best(function, device) -> float:
    """Return the least seconds of a call; on a GPU many calls share the wait for their end."""
    repetitions, calls = (9, 1) if device == "cpu" else (4, 20)
    seconds = []
    for _ in range(repetitions):
        started = time.perf_counter()
        for _ in range(calls):
            function()
        if device != "cpu":
            torch.cuda.synchronize()
        seconds.append((time.perf_counter() - started) / calls)
    return min(seconds)
