"""Freed memory that stays: measured where the C library can be asked for it."""

import ctypes
import os
import subprocess
import sys

import psutil
import pytest
import torch

from course_lib import machine
from course_lib.machine import keep_freed_memory, quickest

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


@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc")
def test_the_memory_of_the_machine_is_in_bytes():
    total = psutil.virtual_memory().total
    assert machine.total_memory(torch.device("cpu")) == pytest.approx(total, rel=0.01)


PEAK = """
import torch
from course_lib import machine
cpu = torch.device("cpu")
before = machine.peak_memory(cpu)
torch.ones(100 << 20)  # 400 MB, which go back at once
print(before, machine.peak_memory(cpu), machine.reset_peak_memory(cpu))
"""


@pytest.mark.skipif(not os.access("/proc/self/clear_refs", os.W_OK), reason="needs clear_refs")
def test_a_peak_is_forgotten():
    out = subprocess.check_output([sys.executable, "-c", PEAK], text=True)
    before, peak, after = map(float, out.split())
    assert peak > before + 350 and after < before + 100


def test_where_the_library_does_not_know_it_nothing_happens(monkeypatch):
    monkeypatch.setattr(sys, "platform", "win32")
    assert keep_freed_memory() is False


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        ({"first": 1.0, "second": 0.9}, "second"),
        ({"first": 1.0, "second": 0.97}, "first"),
        ({"first": 1.0, "second": 2.0, "third": 0.3}, "third"),
    ],
)
def test_the_quickest_way_is_chosen_once_and_the_first_where_there_is_little_between(
    monkeypatch, seconds, expected
):
    """By a clock that only the ways move; the first run of each takes ten times as long."""
    clock = 0.0
    called = []

    def way(name):
        nonlocal clock
        clock += seconds[name] * (1 if name in called else 10)
        called.append(name)

    monkeypatch.setattr(machine, "CHOICES", {})
    monkeypatch.setattr(machine.time, "perf_counter", lambda: clock)
    ways = {name: lambda name=name: way(name) for name in seconds}
    assert quickest("which", ways) == expected
    runs = len(called)
    assert runs >= 2 * len(ways)
    assert quickest("which", ways) == expected and len(called) == runs
    quickest("another size", ways)
    assert len(called) > runs


def test_a_choice_that_was_handed_in_is_not_measured_again(monkeypatch):
    monkeypatch.setattr(machine, "CHOICES", {})
    quickest("which", {"slow": lambda: None})
    (question,) = machine.CHOICES
    assert question.startswith("which, ") and machine.processor() in question
    machine.CHOICES[question] = "as it was"
    assert quickest("which", {}) == "as it was"


def test_what_was_moved_is_known_to_the_host(monkeypatch):
    """To a GPU through pinned memory and without waiting; the meta device stands for a third."""
    calls = []
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda x: calls.append("pinned") or x)
    monkeypatch.setattr(
        torch.Tensor, "to", lambda x, device, **how: calls.append((device.type, how)) or x.clone()
    )
    x = torch.arange(3)
    there = machine.moved(x, torch.device("cuda"))
    assert calls == ["pinned", ("cuda", {"non_blocking": True})]
    assert there is not x and machine.on_host(there) is x
    assert machine.moved(x, torch.device("cpu")) is x and len(calls) == 2
    assert machine.moved(x, torch.device("meta")).host is x and "pinned" not in calls[2:]
    assert machine.on_host(x) is x
