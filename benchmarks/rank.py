"""The spectrum of log P in one pass, against NumPy's singular value decomposition of the table."""

import time
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from benchmarks.timing import in_a_process
from course_lib import machine
from course_lib.metrics import rank

BLOCK = 256
KINDS = ("softmax", "mixture")  # of rank d + 2, and of a rank that falls off slowly
METHODS = ("course", "numpy float32", "numpy float64")


def log_prob(kind: str, m: int, N: int, d: int, components: int = 3) -> Iterator[Tensor]:
    """Yield blocks (≤ BLOCK, N) of m rows of log P, float32, of random contexts and words."""
    random = torch.Generator().manual_seed(1)
    W = torch.randn(N, d, generator=random, device="cpu") / d**0.5
    bias = -torch.arange(1.0, N + 1, device="cpu").log()  # Zipf
    K = 1 if kind == "softmax" else components
    for start in range(0, m, BLOCK):
        h = 2 * torch.randn(K, min(BLOCK, m - start), d, generator=random, device="cpu")
        yield torch.logsumexp((h @ W.T + bias).log_softmax(-1) - np.log(K), 0)


def measured(method: str, kind: str, m: int, N: int, d: int, threads: int) -> dict:
    """Return seconds with the making of log P, MB at the peak above those before, and ranks."""
    torch.set_num_threads(threads)
    before, started = machine.peak_memory(torch.device("cpu")), time.perf_counter()
    if method == "course":
        found = rank.spectrum(log_prob(kind, m, N, d))
    else:
        table, row = np.empty((m, N), method.split()[1]), 0
        for block in log_prob(kind, m, N, d):
            table[row : row + len(block)] = block
            row += len(block)
        found = rank.Spectrum(np.linalg.svd(table, compute_uv=False), (m, N))
    return {
        "method": method,
        "seconds": time.perf_counter() - started,
        "memory MB": machine.peak_memory(torch.device("cpu")) - before,
        "Press' rank": found.press_rank(),
        **{f"ε = {epsilon:g}": found.effective_rank(epsilon) for epsilon in (1e-3, 1e-4, 1e-5)},
    }


def report(
    kind: str = "softmax",
    m: int = 20_000,
    N: int = 10_000,
    d: int = 400,
    methods: tuple[str, ...] = METHODS,
) -> Iterator[dict]:
    """Yield one row a method, each measured in a process of its own.

    NumPy takes OMP_NUM_THREADS threads there, as torch does. The method in float64 is exact, and at
    full size it takes by far the longest.
    """
    threads = torch.get_num_threads()
    for method in methods:
        yield in_a_process(measured, method, kind, m, N, d, threads)
