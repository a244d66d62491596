"""Name the packages of the extra `lab`, which the laboratory needs, that are not installed."""

import re
from collections.abc import Iterable
from importlib import metadata

EXTRAS = ("core", "lab")  # `lab` asks for `core`, the rest of what `course_lib` imports


def absent() -> list[str]:
    """Return the packages of the extra `lab` that are not installed.

    A checkout that is on the path without being installed declares no packages. Python itself then
    names the first one that it does not find.
    """
    try:
        requirements = metadata.requires("course-lib") or []
    except metadata.PackageNotFoundError:
        return []
    asked = [re.match(r"([\w.-]+).*;.*\bextra == ['\"](\w+)", text) for text in requirements]
    names = [match[1] for match in asked if match and match[2] in EXTRAS]
    return [name for name in names if not _installed(name)]


def refusal(names: Iterable[str]) -> str:
    """Return the sentence that says what the laboratory lacks and how it is installed."""
    return f"the laboratory needs {', '.join(names)}; pip install 'course-lib[lab]'"


def _installed(name: str) -> bool:
    try:
        metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return False
    return True
