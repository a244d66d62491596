"""A cache of what is expensive to derive: it is derived once and lies on disk as JSON."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import FileLock

from course_lib.data.corpus import digest


def cached(path: Path, make: Callable[[], Any], right: Callable[[Any], bool] | None = None) -> Any:
    """Return what `make()` gave when `path` was written; it is made if it is missing or damaged.

    path: the file. A folder that cannot be written costs time only.
    make: gives what JSON can hold. Processes that start together call it once.
    right: whether a content is right; one that is not is made anew every time, and not kept.
    """
    with suppress(OSError, ValueError, KeyError):
        return read(path, right)
    with one_at_a_time(path):
        with suppress(OSError, ValueError, KeyError):
            return read(path, right)  # another process was faster
        content = make()
        if right is None or right(content):
            with suppress(OSError):
                text = json.dumps({"sha256": digest(json.dumps(content)), "content": content})
                part = path.with_suffix(f".{os.getpid()}.part")
                part.write_text(text, encoding="utf-8")
                os.replace(part, path)
    return content


def read(path: Path, right: Callable[[Any], bool] | None = None) -> Any:
    """Return the content of `path`; ValueError or KeyError if it is damaged or not `right`."""
    entry = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(entry, dict) or digest(json.dumps(entry["content"])) != entry["sha256"]:
        raise ValueError(f"{path} is damaged")
    if right is not None and not right(entry["content"]):
        raise ValueError(f"{path} is out of date")
    return entry["content"]


@contextmanager
def one_at_a_time(path: Path) -> Iterator[None]:
    """Hold a lock beside `path`, if its folder can be written."""
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
