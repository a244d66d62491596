"""Memory that is freed and soon needed again stays with the process."""

import ctypes
import sys


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
