"""Laws share these parts: steps, limits, trials with their record, and the diagnosis.

A law is a function `(f, rng)` that draws an instance from `rng`, calls the answer `f`, and returns
"" or a sentence. The marker and the student's notebook run the same laws.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from textwrap import fill
from typing import NamedTuple

import numpy as np

DRAWS = 3  # instances of each small law
COMPARED = 20_000  # numbers; larger instances are not compared with known mistakes
ASKED = 5_000  # a law's evaluations of one candidate
SMALL = 500  # numbers in an instance that a candidate evaluates, whose derivatives are naive


class Failed(Exception):
    """An answer that gave no value: `kind` is machine-readable, `sentence` is for the student."""

    def __init__(self, kind: str, sentence: str):
        super().__init__(sentence)
        self.kind, self.sentence = kind, sentence


class Limits(NamedTuple):
    """The limits of one call: seconds, MB beside the interpreter's own, with PyTorch or without.

    calls: how many calls may take their whole time; all together may take no longer.
    """

    seconds: int = 10
    memory: int = 400
    torch: bool = False
    calls: int = 4

    @property
    def together(self) -> int:
        """Return the seconds of the processor that all calls may take together."""
        return self.seconds * self.calls


class Mistake(NamedTuple):
    """A known wrong answer: its name, the function that gives it, and what the student is told.

    The message may be a function of (arguments, value), where a number makes it clearer.
    """

    name: str
    function: Callable
    message: str | Callable


class Catalogue(dict[str, list[Mistake]]):
    """The known mistakes of an assignment by step, in the order in which they are tried."""

    def enter(self, step: str, name: str, message: str | Callable) -> Callable:
        """Return a decorator that enters a function as a known mistake of a step."""

        def entered(function):
            self.setdefault(step, []).append(Mistake(name, function, message))
            return function

        return entered


def candidates(*functions: Callable) -> tuple[Mistake, ...]:
    """Return wrong functions for a student's law to refuse; they have names and no message."""
    return tuple(Mistake(f.__name__.replace("_", " "), f, "") for f in functions)


@dataclass(frozen=True)
class Step:
    """A step of an assignment.

    name: "1.1"; title: a few words; function: the name that the student defines; arguments: names
    in order; points, minutes: as the notebook states them; laws: on small instances, each drawn
    several times; large: on one instance at which a naive answer ends; read: where to read again;
    told: sentences for failures of a kind, {"memory": …}; kind: function, law, experiment, manual,
    or project, whose verdict needs other steps' cells, too; harness: code that stands below the
    student's cell and defines `answer`, which is called instead of the function; shown: a call as
    it is pasted, where it is not the function's own.
    """

    name: str
    title: str
    function: str
    arguments: tuple[str, ...]
    points: int
    minutes: int
    laws: tuple[Callable, ...] = ()
    large: tuple[Callable, ...] = ()
    read: str = ""
    told: dict[str, str] = field(default_factory=dict)
    limits: Limits = Limits()
    kind: str = "function"
    harness: str = ""
    shown: str = ""

    @property
    def called(self) -> str:
        """Return the name that the marker calls."""
        return "answer" if self.harness else self.function


class Call(NamedTuple):
    """One call of an answer: its arguments and the value that came back."""

    arguments: tuple
    value: object


class Trial:
    """An answer whose calls are recorded, for the diagnosis and the instance to paste."""

    def __init__(self, f: Callable):
        self.f = f
        self.calls: list[Call] = []

    def __call__(self, *arguments):
        """Call the answer; a copy of the arguments is what it gets."""
        self.calls.append(Call(arguments, None))
        value = self.f(*map(copied, arguments))
        self.calls[-1] = Call(arguments, value)
        return value


class Verdict(NamedTuple):
    """A verdict: the share of the points, the sentence, and the law or mistake behind it."""

    share: float
    sentence: str = ""
    law: str = ""
    mistake: str = ""  # the catalogue's name for it
    arguments: tuple = ()  # of the call that failed


def copied(value):
    """Return a copy of an array, or of a tuple of arrays; anything else as it is."""
    if isinstance(value, tuple):
        return tuple(map(copied, value))
    return value.copy() if isinstance(value, np.ndarray) else value


def size(value) -> int:
    """Return how many numbers an array has, or a tuple of arrays."""
    return sum(map(size, value)) if isinstance(value, tuple) else np.size(value)


def drawn(rng, *shape: int) -> np.ndarray:
    """Draw normal numbers of two decimals, which are short to paste."""
    return rng.normal(size=shape).round(2)


def array(value, shape: tuple[int, ...], what: str = "the answer", kind: str = "f") -> np.ndarray:
    """Return a value as an array of this shape; raise Failed, with a sentence, for another."""
    if value is None:
        raise Failed("value", f"{what} is None: has the function a `return`?")
    if isinstance(value, tuple | str):
        raise Failed("value", f"{what} is a {type(value).__name__}, asked is an array")
    try:
        got = np.asarray(value)
    except ValueError:  # rows of several lengths
        raise Failed("shape", f"{what} is no array: its rows have several lengths") from None
    if got.shape != shape:
        raise Failed("shape", f"{what} has shape {got.shape}, asked is {shape or 'one number'}")
    if kind == "b":
        if got.dtype.kind != "b":
            raise Failed("value", f"{what} has type {got.dtype}, asked are truth values")
        return got
    if got.dtype in (np.float32, np.float16):
        raise Failed(
            "value", f"{what} has type {got.dtype}, whose digits do not suffice: use float64"
        )
    try:
        got = got.astype(float)
    except (OverflowError, TypeError, ValueError):
        raise Failed("value", f"{what} has something that is no number") from None
    bad = int((~np.isfinite(got)).sum())
    if bad:
        raise Failed("finite", f"{what} has {bad} of {got.size} numbers that are NaN or infinite")
    return got


def number(value) -> float:
    """Return an answer that is one number; raise Failed, with a sentence, for another."""
    return float(array(value, ()))


def shares(rng, n: int) -> np.ndarray:
    """Draw the shares of n words in a text, positive and short to paste, which add up to 1."""
    total = 100 if n < 50 else 10 * n
    return (1 + rng.multinomial(total - n, rng.dirichlet(np.ones(n)))) / total


def apart(value: np.ndarray, expected: np.ndarray) -> float:
    """Return the largest difference, relative to the largest expected size."""
    if not np.size(expected):
        return 0.0
    return float(np.abs(value - expected).max() / max(np.abs(expected).max(), 1e-300))


def told_apart(value: float, expected: float, digits: int = 4) -> tuple[str, str]:
    """Return two numbers with as many digits as show that they differ."""
    for count in range(digits, 18):
        pair = f"{value:.{count}g}", f"{expected:.{count}g}"
        if pair[0] != pair[1]:
            break
    return pair


def parts(value, count: int) -> tuple:
    """Return a value as a tuple of `count` parts; raise Failed for another.

    A list of numbers comes as an array from the sandbox, and counts as a tuple, too.
    """
    several = isinstance(value, tuple | list) or isinstance(value, np.ndarray) and value.ndim == 1
    if not several or len(value) != count:
        raise Failed("value", f"asked are {count} values, returned together as a tuple")
    return tuple(value)


def judge(step: Step, f: Callable, rng, mistakes=(), large: bool = True) -> Verdict:
    """Try an answer by the step's laws, and say what is wrong with it.

    f: the answer; mistakes: the catalogue; large: also at the size where a naive answer ends. An
    answer that is right but for the large laws has half of the points.
    """
    for law in [law for law in step.laws for _ in range(DRAWS)] + list(step.large * large):
        trial = Trial(f)
        kind = "law"
        try:
            sentence = law(trial, rng)
        except Failed as failure:
            kind, sentence = failure.kind, failure.sentence
        if sentence:
            known = diagnose(trial.calls, mistakes) if kind in ("law", "finite", "shape") else None
            arguments = trial.calls[-1].arguments if trial.calls else ()
            sentence = step.told.get(kind, "{}").format(sentence) if kind != "law" else sentence
            name, sentence = known or ("", sentence)
            half = 0.5 if law in step.large and not known else 0.0
            return Verdict(half, sentence, law.__name__, name or kind * (kind != "law"), arguments)
    return Verdict(1.0)


def diagnose(calls: list[Call], mistakes) -> tuple[str, str] | None:
    """Return name and message of the known mistake that gives the same values, None for none."""
    small = [c for c in calls if size(c.arguments) <= COMPARED]
    for mistake in mistakes if small else ():
        if all(same(call.value, mistake.function, call.arguments) for call in small):
            message = mistake.message
            text = message(*small[-1]) if callable(message) else message
            return mistake.name, text
    return None


def same(value, function: Callable, arguments: tuple) -> bool:
    """Return whether a mistake's function gives this value."""
    try:
        with np.errstate(all="ignore"):
            other = function(*map(copied, arguments))
        pairs = zip(value, other, strict=True) if isinstance(value, tuple) else [(value, other)]
        return all(
            np.shape(a) == np.shape(b)
            and np.allclose(
                a,
                b,
                rtol=1e-6,
                atol=1e-9 * np.abs(b[np.isfinite(b)]).max(initial=0),
                equal_nan=True,
            )
            for a, b in ((np.asarray(a, float), np.asarray(b, float)) for a, b in pairs)
        )
    except Exception:
        return False


def judge_law(step: Step, call: Callable, seed: int, right: list, wrong: list) -> Verdict:
    """Try a student's law: `call(candidate, seed)` must be True for the right ones only.

    The candidates come in any order, so that a law learns nothing from how often it was called. The
    points are the cube of the share of the wrong candidates that are refused, none where a right
    one is: any one property refuses half of the wrong ones, and earns an eighth.
    """
    rng = np.random.default_rng(seed)
    tried = [*right, *(mistake.function for mistake in wrong)]
    accepted = np.zeros(len(tried), bool)
    try:
        for k in rng.permutation(len(tried)):
            accepted[k] = truth(call(tried[k], int(rng.integers(1 << 40))))
    except Failed as failure:
        return Verdict(0.0, failure.sentence, step.function, failure.kind)
    if not accepted[: len(right)].all():
        return Verdict(0.0, "it refuses a right function, so it is no law", step.function)
    left = int(accepted[len(right) :].sum())
    share = 1 - left / len(wrong)
    sentence = f"it accepts {left} of {len(wrong)} wrong functions: what do they leave unchanged?"
    return Verdict(share**3, sentence * bool(left), step.function)


def truth(value) -> bool:
    """Return a law's verdict; raise Failed for anything but one truth value."""
    is_one = isinstance(value, bool | np.bool_ | np.ndarray) and np.size(value) == 1
    if not is_one or np.asarray(value).dtype.kind != "b":
        raise Failed("value", "a law returns True or False")
    return bool(np.asarray(value).item())


def written(value) -> str:
    """Return a value as code: each number as short as it can be, each row of a matrix on a line."""
    if isinstance(value, tuple):
        return f"({', '.join(map(written, value))},)"
    if not isinstance(value, np.ndarray):
        return repr(value)
    numbers = repr(value.tolist()).replace("inf", "np.inf").replace("nan", "np.nan")
    rows = numbers.replace("], [", "],\n    [").split("\n")
    lines = (fill(row, 92, subsequent_indent="     ", break_on_hyphens=False) for row in rows)
    return "np.array({})".format("\n".join(lines))


def pasted(step: Step, arguments: tuple, most: int = 300) -> str:
    """Return the call on which an answer failed, as code to paste into a cell."""
    lines = []
    for name, value in zip(step.arguments, arguments, strict=False):
        if size(value) > most:
            return f"# {name} has {size(value):,} numbers: too many to be printed here"
        lines.append(f"{name} = {written(value)}")
    call = step.shown or f"{step.function}({', '.join(step.arguments)})"
    return "\n".join([*lines, call]) if lines else ""
