"""Exercises that check themselves, and the reader's record of those that are right."""

import json
import os
import re
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from course_lib.errors import CourseError


class NotRight(CourseError):
    """An exercise that is not tried or not right; raised only where the tests ask for it."""


def check(exercise: str, answer: Any, right: Callable) -> None:
    """Say whether an answer is right, and record it when it is.

    exercise: the lesson's number, a dot and the exercise's number, such as "06.1" or "06b.1".
    answer: what the exercise asks for; None while it is not tried.
    right: called with the answer, gives True, False or a sentence that helps. An exception in it
        is told, not raised. What is printed depends on the answer alone, so that lessons with
        exercises can be committed.

    CourseError for a bad name. Under `COURSE_EXERCISES=strict` nothing is recorded, and NotRight is
    raised for anything but a right answer.
    """
    if not isinstance(exercise, str) or not re.fullmatch(r"\d\d[b-z]?\.[1-9]\d*", exercise):
        raise CourseError(
            "an exercise is named by its lesson's two digits, a dot and its own number, as "
            f"'06.1', not {exercise!r}"
        )
    wrong, cause = judge(answer, right)
    if wrong:
        wrong = f"Exercise {exercise} is not {wrong}"
        if strict():
            raise NotRight(wrong) from cause
        print(wrong)
    else:
        print(f"Exercise {exercise} is right.")
        if not strict():
            record(exercise)


def judge(answer: Any, right: Callable) -> tuple[str, Exception | None]:
    """Return ("", None) for a right answer, else what it is not and the exception that shows it."""
    if answer is None:
        return "tried yet.", None
    if _not_a_number(answer):  # which passes by every comparison
        return "right yet: it is NaN, or has one in it", None
    try:
        verdict = right(answer)
        if not isinstance(verdict, str | bool):
            verdict = bool(verdict.item())  # of NumPy or PyTorch; one value, whatever its shape
    except Exception as error:
        return f"right yet: trying it ended in {type(error).__name__}: {error}", error
    if isinstance(verdict, str):
        return f"right yet: {verdict}", None
    return "" if verdict else "right yet.", None


def _not_a_number(answer) -> bool:
    """Return whether an answer of numbers, however nested, has a NaN among them."""
    if isinstance(answer, dict):
        return any(map(_not_a_number, answer.values()))
    if isinstance(answer, list | tuple):
        return any(map(_not_a_number, answer))
    try:  # an array, a tensor, a number
        return bool((answer != answer).any() if hasattr(answer, "shape") else answer != answer)
    except Exception:  # nothing of the kind
        return False


def recorded() -> dict[str, datetime]:
    """Return when each exercise was first right, by name; a damaged record is set aside."""
    path = progress_file()
    try:
        content = json.loads(path.read_text("utf-8"))
        return {name: datetime.fromisoformat(when) for name, when in content.items()}
    except FileNotFoundError:
        return {}
    except (ValueError, TypeError, AttributeError):  # no JSON, no times, no object
        names = (path.with_name(f"progress.damaged-{n}.json") for n in range(1, 1000))
        aside = next(name for name in names if not name.exists())
        path.rename(aside)
        print(f"{path} was damaged; it is now {aside.name}, and a new record begins.")
        return {}


def record(exercise: str) -> None:
    """Note that `exercise` is right now; the time of an earlier right answer stays."""
    from filelock import FileLock

    from course_lib.training.checkpoint import write_json

    path = progress_file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(path.with_name(".progress.lock")):  # two lessons may be open at a time
            right = recorded()
            right.setdefault(exercise, datetime.now().astimezone())
            write_json(path, {n: right[n].isoformat(timespec="minutes") for n in sorted(right)})
    except OSError as error:
        print(
            f"It could not be recorded in {path}: {error.strerror or error}; set COURSE_PROGRESS "
            "to a folder that can be written to."
        )


def progress_file() -> Path:
    """Return the path of the reader's `progress.json`: below `COURSE_PROGRESS`, else `runs`."""
    from course_lib.data import folders

    below = Path(os.environ.get("COURSE_PROGRESS") or "runs").expanduser()
    return folders.home() / below / "progress.json"


def strict() -> bool:
    """Return whether `COURSE_EXERCISES=strict`, so that tests take a wrong answer for an error."""
    return os.environ.get("COURSE_EXERCISES") == "strict"
