"""Where corpora lie: the library's only place that reads an environment variable of the course."""

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
