"""Where corpora lie. The only place in the course that reads an environment variable."""

import os
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]


def home() -> Path:
    """The repository when the course runs from one, else the working folder."""
    return REPOSITORY if (REPOSITORY / "pyproject.toml").exists() else Path.cwd()


def corpora() -> Path:
    """`COURSE_DATA` if it is set, else `data/corpora`; one folder a corpus, `ptb/train.txt` …"""
    given = os.environ.get("COURSE_DATA")
    return Path(given).expanduser() if given else home() / "data" / "corpora"


def cache() -> Path:
    """Where what is expensive to derive is kept; may be deleted at any time."""
    return home() / ".course-cache"
