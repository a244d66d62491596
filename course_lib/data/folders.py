"""Where corpora and the reader's progress lie.

The only place of the library that reads the course's own environment variables.
"""

import os
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]


def home() -> Path:
    """Return the repository when the course runs from one, else the working folder."""
    return REPOSITORY if (REPOSITORY / "pyproject.toml").exists() else Path.cwd()


def corpora() -> Path:
    """Return `COURSE_DATA` if it is set, else `data/corpora`; it has one folder a corpus.

    A relative path begins at the repository, whatever folder a notebook runs in.
    """
    return home() / Path(os.environ.get("COURSE_DATA") or "data/corpora").expanduser()


def cache() -> Path:
    """Return the folder of what is expensive to derive; it may be deleted at any time."""
    return home() / ".course-cache"


def progress() -> Path:
    """Return the folder of the exercises' record: `COURSE_PROGRESS` if it is set, else `runs`."""
    return home() / Path(os.environ.get("COURSE_PROGRESS") or "runs").expanduser()


def strict_exercises() -> bool:
    """Return whether `COURSE_EXERCISES=strict`, so that tests take a wrong answer for an error."""
    return os.environ.get("COURSE_EXERCISES") == "strict"
