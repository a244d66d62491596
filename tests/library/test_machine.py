"""Freed memory that stays: measured where the C library can be asked for it."""

import ctypes
import subprocess
import sys

import pytest

from course_lib.machine import keep_freed_memory

FAULTS = """
import resource
from course_lib.machine import keep_freed_memory
import torch
assert {keep} == (keep_freed_memory() if {keep} else False)
for _ in range(20):
    torch.ones(20 << 20)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    torch.ones(20 << 20)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(
    sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "mallopt"), reason="needs glibc"
)
def test_a_tensor_that_is_freed_costs_no_new_pages_the_next_time():
    """80 MB five times, once the first blocks are there: 100,000 pages of 4 KB, or none."""
    faults = {
        keep: int(subprocess.check_output([sys.executable, "-c", FAULTS.format(keep=keep)]))
        for keep in (True, False)
    }
    assert faults[True] < 100 and faults[False] > 50_000


def test_where_the_library_does_not_know_it_nothing_happens(monkeypatch):
    monkeypatch.setattr(sys, "platform", "win32")
    assert keep_freed_memory() is False
