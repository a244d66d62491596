"""Who may write the folder of a run: one process at a time."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from course_lib.errors import CourseError

RUN = ".lock"  # held by the worker of a batch
TRAINING = ".training.lock"  # held by the process that trains, whoever started it


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Hold the lock of a training in `folder`, which is made where there is none.

    Raises CourseError where another process holds it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / TRAINING, timeout=1)
    try:
        lock.acquire()
    except Timeout:
        raise CourseError(f"another process trains in {folder}; wait until it ends") from None
    try:
        yield
    finally:
        lock.release()


def held(path: Path, seconds: float = 0) -> bool:
    """Return whether a process holds the lock `path` now, and goes on to for so many seconds.

    Where this process may not write, as on a disk that is only read, it cannot be known: False.
    """
    if not path.exists():
        return False
    try:
        with FileLock(path, timeout=seconds):
            return False
    except Timeout:
        return True
    except OSError as error:
        if error.errno in (errno.EROFS, errno.EACCES):
            return False
        raise
