"""Memory that is freed and soon needed again stays with the process."""

import ctypes
import os
import sys
from pathlib import Path

import torch


def keep_freed_memory() -> bool:
    """Ask the C library to hand freed memory out again instead of returning it to the system.

    glibc returns large blocks at once. The next step of training gets new pages for them, one
    fault and 4 KB of zeros after the other: about a tenth of its time. Affects the whole process,
    for good; whether the library understood (only Linux's glibc does).
    """
    if sys.platform != "linux":
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    no_limit, trim_threshold, mmap_max = -1, -1, -4  # constants of <malloc.h>
    return bool(mallopt and mallopt(trim_threshold, no_limit) and mallopt(mmap_max, 0))


def peak_memory(device: torch.device) -> float:
    """The most MB this process has held: of the GPU's memory on a GPU, else resident."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    try:  # getrusage would count what the parent held when it started this process
        status = Path("/proc/self/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) / 1024
    except (OSError, IndexError):
        pass
    try:
        import resource
    except ImportError:  # on Windows
        import psutil

        return psutil.Process().memory_info().peak_wset / 2**20
    scale = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / scale


def reset_peak_memory(device: torch.device) -> float:
    """Forget the peak and return the MB that are held now.

    Where the system cannot forget it, later peaks count from the highest so far.
    """
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        return torch.cuda.memory_allocated(device) / 2**20
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        pass
    return peak_memory(device)


def total_memory(device: torch.device) -> int:
    """Bytes of memory of the GPU, or of this machine."""
    if device.type == "cuda":
        return torch.cuda.get_device_properties(device).total_memory
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 8 << 30  # Windows does not say; what a small laptop has
