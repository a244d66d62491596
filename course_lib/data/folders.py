"""Where corpora and the reader's progress lie.

The only place that reads the course's own environment variables.
"""

import os
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]


def home() -> Path:
    """Return the repository when the course runs from one, else the working folder."""
    return REPOSITORY if (REPOSITORY / "pyproject.toml").exists() else Path.cwd()


def shipped() -> Path:
    """Return the folder of what comes with the course: plans and published figures.

    That is `home` where it has them, as the repository has; else, in an installed package, a folder
    of the laboratory.
    """
    own = home()
    return own if (own / "data" / "plans").is_dir() else REPOSITORY / "course_lab" / "shipped"


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
