"""Who may write the folder of a run: one process at a time."""

from pathlib import Path

from filelock import FileLock, Timeout

RUN = ".lock"  # held by the worker of a batch
TRAINING = ".training.lock"  # by the process that trains, whoever started it


def held(path: Path) -> bool:
    """Whether some process holds this lock now."""
    if not path.exists():
        return False
    try:
        with FileLock(path, timeout=0):
            return False
    except Timeout:
        return True
