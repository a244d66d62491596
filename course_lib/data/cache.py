"""What is expensive to derive is derived once and kept in `folders.cache()` as JSON."""

import json
import os
from collections.abc import Callable
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import FileLock

from course_lib.data.corpus import digest


def cached(path: Path, make: Callable[[], Any], right: Callable[[Any], bool] | None = None) -> Any:
    """Return what `make()` gave (JSON) when `path` was written; made if it is not there or damaged.

    What is not `right` is made anew every time, and not kept. Processes that start together make it
    once. A folder that cannot be written costs time only.
    """
    with suppress(OSError, ValueError, KeyError):
        return read(path, right)
    with one_at_a_time(path):
        with suppress(OSError, ValueError, KeyError):
            return read(path, right)  # another process was faster
        content = make()
        if right is not None and not right(content):
            return content
        with suppress(OSError):
            text = json.dumps({"sha256": checksum(content), "content": content})
            part = path.with_suffix(f".{os.getpid()}.part")
            part.write_text(text, encoding="utf-8")
            os.replace(part, path)
    return content


def read(path: Path, right: Callable[[Any], bool] | None = None) -> Any:
    """The kept content; ValueError or KeyError if it is not what was written, or not `right`."""
    kept = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(kept, dict) or checksum(kept["content"]) != kept["sha256"]:
        raise ValueError(f"{path} is damaged")
    if right is not None and not right(kept["content"]):
        raise ValueError(f"{path} is out of date")
    return kept["content"]


def checksum(content: Any) -> str:
    return digest(json.dumps(content))


@contextmanager
def one_at_a_time(path: Path):
    """A lock beside `path`."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path.with_suffix(".lock"))
        lock.acquire()
    except OSError:
        yield
        return
    try:
        yield
    finally:
        lock.release()
        with suppress(OSError):
            path.with_suffix(".lock").unlink()
