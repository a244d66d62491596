"""The check cells of a student's notebook call this: the public laws, without any sandbox."""

import importlib
import sys
import time
from contextlib import contextmanager

import numpy as np

from tools.assignments.laws.common import Failed, Limits, judge, judge_law, pasted


@contextmanager
def bounded(limits: Limits):
    """Hold this process to the memory of a step, where the system can: the marker does."""
    if not sys.platform.startswith("linux"):
        yield
        return
    import resource

    with open("/proc/self/statm") as sizes:
        taken = int(sizes.read().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (taken + (limits.memory << 20), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def limited(f, limits: Limits):
    """Return the function under the limits of its step; beyond them Failed is raised."""

    def call(*arguments):
        begin = time.perf_counter()
        before = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
        try:
            with bounded(limits):
                value = f(*arguments)
        except MemoryError:
            raise Failed("memory", f"it needs more than {limits.memory} MB") from None
        if time.perf_counter() - begin > limits.seconds:
            raise Failed("late", f"it took longer than {limits.seconds} s")
        if not all(
            np.array_equal(a, b, True)
            for a, b in zip(arguments, before, strict=True)
            if isinstance(a, np.ndarray)
        ):
            raise Failed("changed", "it changes its arguments in place; work on a copy")
        return value

    return call


def check(assignment: str, name: str, f, large: bool = True) -> None:
    """Say whether a function obeys the laws of a step, and on which instance it does not.

    assignment: "A1"; name: of the step, "1.1"; f: your function; large: also try the size at
    which a naive answer ends, which takes some seconds.
    """
    laws = importlib.import_module(f"tools.assignments.laws.{assignment.lower()}")
    step = next(s for s in laws.STEPS if s.name == name)
    seed = int(np.random.default_rng().integers(1 << 30))
    try:
        if step.kind == "law":
            wrong = laws.CANDIDATES[name]
            right = laws.RIGHT[name]
            verdict = judge_law(
                step, lambda c, s: f(c, np.random.default_rng(s)), seed, right, wrong
            )
        else:
            verdict = judge(step, limited(f, step.limits), np.random.default_rng(seed), (), large)
    except NotImplementedError:
        print(f"Step {name}: nothing yet")
        return
    except Exception as error:
        print(f"Step {name}: not yet: trying it ended in {type(error).__name__}: {error}")
        raise
    if verdict.share == 1:
        print(f"Step {name} obeys its laws.")
    else:
        print(f"Step {name}: not yet: {verdict.sentence}")
        if instance := pasted(step, verdict.arguments):
            print(f"\nIt fails at\n\n{instance}")
