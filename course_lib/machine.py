"""This machine: its processor, the way of computing that is the quickest on it, its memory."""

import contextlib
import ctypes
import functools
import math
import os
import platform
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import torch

REHEARSED = False  # the tests set it: what is chosen for a GPU is then chosen on a CPU, too
CHOICES: dict[str, str] = {}  # what `quickest` answered; a run keeps it in its checkpoint
MARGIN = 0.95


def accelerated(x: torch.Tensor) -> bool:
    """Return whether code for `x` should suit a GPU: few large operations, no waiting."""
    return x.is_cuda or REHEARSED


def moved(x: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Return a copy of `x` on the device without waiting; `on_host` returns the original.

    From pageable memory a copy to a GPU would make the host wait, so it goes through pinned memory.
    Results of operations on the copy, views among them, know no original.
    """
    if x.device.type == device.type:
        return x
    pinned = x.pin_memory() if device.type == "cuda" else x
    there = pinned.to(device, non_blocking=True)
    there.host = x  # pyright: ignore[reportAttributeAccessIssue] (a tensor takes any attribute)
    return there


def on_host(x: torch.Tensor) -> torch.Tensor:
    """Return `x` in the host's memory: the original that `moved` copied, else `x` or a copy."""
    return getattr(x, "host", x).cpu()


@functools.cache
def processor() -> str:
    """Return this machine's processor and the vector instructions that PyTorch uses of it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        named = next(line for line in lines if line.startswith("model name"))
        model = named.split(":", 1)[1].strip()
    except (OSError, StopIteration):
        model = platform.processor() or platform.machine()
    return f"{model}, {torch.backends.cpu.get_cpu_capability()}"


def quickest(question: str, ways: Mapping[str, Callable[[], object]]) -> str:
    """Return the name of the way that takes the least time on this machine.

    question: says what is computed, and how large it is.
    ways: functions by name; the first stays unless another takes less than 0.95 of its time.

    The ways run in turn, twice or more often, and the shortest time of each counts. The answer
    holds for the process, because ways differ in the last digits of what they compute.
    """
    question = f"{question}, {torch.get_num_threads()} threads, {processor()}"
    if question not in CHOICES:
        seconds = dict.fromkeys(ways, math.inf)
        end = time.perf_counter() + 0.5
        for number in range(8):
            for name, way in ways.items():
                started = time.perf_counter()
                way()
                seconds[name] = min(seconds[name], time.perf_counter() - started)
            if number and time.perf_counter() > end:
                break
        seconds[next(iter(ways))] *= MARGIN
        CHOICES[question] = min(seconds, key=lambda name: seconds[name])
    return CHOICES[question]


@functools.cache
def arranges(dtype: torch.dtype) -> bool:
    """Return whether `arranged` takes this type here: float32, and bf16 where oneDNN does."""
    onednn = torch.ops.mkldnn
    needed = "_is_mkldnn_bf16_supported", "_reorder_linear_weight", "_linear_pointwise"
    has = torch.backends.mkldnn.is_available() and all(hasattr(onednn, name) for name in needed)
    narrow = dtype == torch.bfloat16
    return has and (onednn._is_mkldnn_bf16_supported() if narrow else dtype == torch.float32)


def arranged(matrix: torch.Tensor, rows: int) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return x → x @ matrix.T, x (m, k), in new memory, with the matrix arranged once by oneDNN.

    Without this oneDNN arranges a bf16 matrix anew at every product, and float32 goes to MKL.
    matrix: (n, k), on the CPU, float32 or bfloat16; it is copied.
    rows: about the m of every x, which decides how oneDNN arranges the matrix.
    """
    onednn = torch.ops.mkldnn
    copy = onednn._reorder_linear_weight(matrix, rows)
    return lambda x: onednn._linear_pointwise(x, copy, None, "none", [], "")


def keep_freed_memory() -> bool:
    """Ask the C library to hand freed memory out again instead of returning it to the system.

    glibc returns large blocks at once. The next step of training gets new pages for them, one
    fault and 4 KB of zeros after the other: about a tenth of its time. It holds for the whole
    process. Return whether the library understood, which only Linux's glibc does.
    """
    if sys.platform != "linux":
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    no_limit, trim_threshold, mmap_max = -1, -1, -4  # constants of <malloc.h>
    return bool(mallopt and mallopt(trim_threshold, no_limit) and mallopt(mmap_max, 0))


def peak_memory(device: torch.device) -> float:
    """Return the most MB this process has held: of the GPU's memory on a GPU, else resident."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    # getrusage would count what the parent held when it started this process
    with contextlib.suppress(OSError, IndexError):
        status = Path("/proc/self/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) / 1024
    try:
        import resource
    except ImportError:  # on Windows
        import psutil

        return psutil.Process().memory_info().peak_wset / 2**20
    scale = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / scale


def reset_peak_memory(device: torch.device) -> float:
    """Forget the peak and return the MB that are held now, or the peak where it must stay."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        return torch.cuda.memory_allocated(device) / 2**20
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return peak_memory(device)


def total_memory(device: torch.device) -> int:
    """Return the bytes of memory of the GPU, or of this machine."""
    if device.type == "cuda":
        return torch.cuda.get_device_properties(device).total_memory
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 8 << 30  # Windows does not say; what a small laptop has
