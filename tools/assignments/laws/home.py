"""The check cells of a student's notebook call this: the public laws, without any sandbox."""

import builtins
import importlib
import io
import json
import linecache
import signal
import sys
import threading
import time
from contextlib import contextmanager, redirect_stdout
from pathlib import Path

import numpy as np
from scipy import linalg, special

from tools.assignments.laws.common import (
    ASKED,
    SMALL,
    Failed,
    Limits,
    Step,
    Verdict,
    judge,
    judge_law,
    pasted,
)

CELL = "your cell"  # in the place of a file's name
PACKAGES = {*sys.stdlib_module_names, "numpy", "scipy"}  # which the marker has, too


def imported(name, scope=None, *rest):
    """Import what the marker has; what it has not is told, and not loaded into a step's memory."""
    package = name.partition(".")[0]
    known = PACKAGES | {"torch"} if "torch" in (scope or {}) else PACKAGES
    if (scope or {}).get("__name__") == "answer" and package not in known:
        torch = ", SciPy and PyTorch" if "torch" in known else " and SciPy"
        raise ModuleNotFoundError(f"the marker has NumPy{torch}, and no {package}")
    return builtins.__import__(name, scope, *rest)


def alone(step: Step, f):
    """Return the function as the marker has it: from its cell, which is run without the others."""
    code = f if isinstance(f, str) else cell_of(f)
    if not isinstance(f, str) and step.function not in code:  # it comes from no cell
        return f
    scope = {"np": np, "special": special, "linalg": linalg, "__name__": "answer"}
    if step.limits.torch:
        import torch
        import torch.utils.checkpoint

        scope["torch"] = torch
    scope["__builtins__"] = vars(builtins) | {"__import__": imported}
    with redirect_stdout(io.StringIO()), told():
        exec(compile(f"{code}\n{step.harness}", CELL, "exec"), scope)
    if step.called not in scope:
        raise Failed("error", f"the cell defines no {step.called}")
    return scope[step.called]


def cell_of(f) -> str:
    """Return the code of the notebook's cell that defines a function or class, "" for no cell."""
    methods = [m for m in (f, *getattr(f, "__dict__", {}).values()) if hasattr(m, "__code__")]
    file = methods[0].__code__.co_filename if methods else ""
    return "" if Path(file).is_file() else "".join(linecache.getlines(file))


@contextmanager
def told():
    """Turn an error of the student's code into a sentence that names the line."""
    try:
        yield
    except (Failed, NotImplementedError):
        raise
    except Exception as error:
        trace, line = error.__traceback__, 0
        while trace:
            line = trace.tb_lineno if trace.tb_frame.f_code.co_filename == CELL else line
            trace = trace.tb_next
        place = f" in line {line} of your cell" if line else ""
        sentence = f"trying it ended in {type(error).__name__}{place}: {error}"
        if isinstance(error, NameError):
            sentence += "; each answer cell stands alone"
        raise Failed("error", sentence) from None


@contextmanager
def bounded(limits: Limits):
    """Hold this process to the memory of a step, where the system can: the marker does."""
    if not sys.platform.startswith("linux"):
        yield
        return
    import ctypes
    import resource

    # Large arrays that are freed go back to the system, as at the marker (M_MMAP_THRESHOLD is −3).
    getattr(ctypes.CDLL(None), "mallopt", lambda *_: 0)(-3, 1 << 20)
    with open("/proc/self/statm") as sizes:
        taken = int(sizes.read().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (taken + (limits.memory << 20), before[1]))
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "t allocate memory" not in str(error):
            raise
        raise Failed("memory", f"it needs more than {limits.memory} MB") from None
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


@contextmanager
def timed(limits: Limits):
    """Stop what runs longer than a step may, where the system can: the marker does."""

    def stop(*_):
        raise Failed("late", f"it took longer than {limits.seconds} s")

    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "SIGALRM"):
        yield
        return
    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, limits.seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def limited(f, limits: Limits):
    """Return the function under the limits of its step; beyond them Failed is raised."""
    spent = 0.0

    def call(*arguments):
        nonlocal spent
        begin = time.perf_counter()
        before = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
        with told(), timed(limits), bounded(limits):
            value = f(*arguments)
        seconds = time.perf_counter() - begin
        spent += seconds
        if seconds > limits.seconds:  # where nothing could stop it
            raise Failed("late", f"it took longer than {limits.seconds} s")
        if spent > limits.together:
            raise Failed("late", f"all calls together took longer than {limits.together} s")
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
    obeyed = f"Step {name} obeys its laws."
    candidates = ()
    if step.kind == "law":
        candidates = laws.RIGHT[name], laws.CANDIDATES[name]
        obeyed = (
            f"Step {name} accepts the right functions and refuses the {len(candidates[1])} wrong "
            "ones of this check. The marker tries more of them."
        )
    try:
        verdict = judged(step, f, candidates, (), large)
    except NotImplementedError:
        print(f"Step {name}: nothing yet")
        return
    print(f"Step {name}: not yet: {verdict.sentence}" if verdict.sentence else obeyed)
    if instance := pasted(step, verdict.arguments):
        print(f"\nIt fails at\n\n{instance}")


def judged(step: Step, f, candidates=(), known=(), large: bool = True) -> Verdict:
    """Return the verdict on an answer that is called in this process, within the step's limits.

    f: the function, or the code of its cell; candidates: for a law step, the right functions and
    the wrong ones; known: the catalogue's mistakes.
    """
    rng = np.random.default_rng()
    try:
        limits = step.limits
        if candidates:
            limits = limits._replace(calls=sum(map(len, candidates)))
        answer = limited(alone(step, f), limits)
        if not candidates:
            return judge(step, answer, rng, known, large)

        def law(candidate, seed):
            return answer(asked(candidate), np.random.default_rng(seed))

        return judge_law(step, law, int(rng.integers(1 << 30)), *candidates)
    except Failed as failure:  # of the cell itself
        return Verdict(0.0, failure.sentence)


def asked(candidate):
    """Return a candidate under the marker's bounds: NaN for a large instance, so many calls."""
    count = 0

    def call(*arguments):
        nonlocal count
        count += 1
        if count > ASKED:
            raise Failed("asked", f"it evaluates the candidate more than {ASKED:,} times")
        return float("nan") if sum(map(np.size, arguments)) > SMALL else candidate(*arguments)

    return call


def hint(assignment: str, name: str, count: int) -> None:
    """Show the first hints of a step, so many as the number says.

    assignment: "A1"; name: of the step, "1.1". Hints cost nothing. The number in the cell tells the
    teacher how many were opened.
    """
    from IPython.display import Markdown, display

    file = f"{assignment.lower()}_hints.json"
    places = (Path(__file__).with_name(file), Path("tools", "assignments", "laws", file))
    path = next((p for p in places if p.is_file()), None)
    if path is None:
        print(f"{places[1]} is missing beside this notebook: unpack student.zip again")
        return
    hints = json.loads(path.read_text("utf-8"))[name]
    for title, text in hints[:count]:
        display(Markdown(f"**{title}.** {text}"))
    if count < len(hints):
        print(
            f"{len(hints) - count} more: write {count + 1} for the {count}, and run the cell again"
        )
