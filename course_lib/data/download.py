"""Downloads that resume, are verified after arrival, and never leave half a file in place.

Bytes arrive in `train.txt.part`; the file gets its name by an atomic rename once its SHA-256 is
right. An interrupted download keeps the `.part` and goes on from there, at any mirror.
"""

import os
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from filelock import FileLock
from tqdm.auto import tqdm

from course_lib.data import folders
from course_lib.data.corpus import digest
from course_lib.data.registry import DOWNLOADS, File
from course_lib.errors import CourseError, unknown

ATTEMPTS = 3  # at one mirror before the next is tried
TIMEOUT = 20  # seconds without a byte


def fetch(name: str, progress: bool = True) -> Path:
    """Download what is missing of a corpus and return its folder; files that are there stay."""
    if name not in DOWNLOADS:
        raise unknown("downloadable corpus", name, DOWNLOADS)
    folder = folders.corpora() / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / ".lock"):
            for file in DOWNLOADS[name].files:
                if not (folder / file.name).exists():
                    download(file, folder, name, progress)
    except PermissionError as error:
        raise CourseError(
            f"{name} cannot be written to {folder}: {error.strerror}; set COURSE_DATA to a folder "
            "of your own"
        ) from None
    return folder


def download(file: File, folder: Path, name: str, progress: bool = True) -> Path:
    """One file from the first mirror that delivers it whole; `CourseError` if none does."""
    path, part = folder / file.name, folder / f"{file.name}.part"
    reasons = []
    for url in file.mirrors:
        for _ in range(ATTEMPTS):
            try:
                with bar(f"{name}/{file.name}", file.size, progress) as shown:
                    receive(url, part, file.size, shown)
                found = digest(part.read_bytes())
                if found == file.sha256:
                    os.replace(part, path)
                    return path
                part.unlink()
                reason = f"arrived with SHA-256 {found}"
            except HTTPError as error:
                reason = f"HTTP {error.code}"
                if error.code == 416:  # the .part is no beginning of this file
                    part.unlink(missing_ok=True)
                    continue
                break
            except (OSError, HTTPException) as error:
                if isinstance(error, PermissionError):
                    raise
                reason = str(getattr(error, "reason", error)) or type(error).__name__
                if not part.exists():
                    break  # not a byte: no use in asking this address again
        reasons.append(f"{url}: {reason}")
    raise CourseError(
        f"{name}/{file.name} is missing and could not be downloaded; put the file with SHA-256 "
        f"{file.sha256} into {folder.resolve()}, or run `python -m course_lib data fetch {name}` "
        f"with a network ({'; '.join(reasons)})"
    )


def receive(url: str, part: Path, size: int, shown: Callable[[int], None]) -> None:
    """Bring `part` to `size` bytes from `url`, from where it stands if the server knows ranges.

    Raises ConnectionError if the stream ends early; what has arrived stays in `part`.
    """
    start = part.stat().st_size if part.exists() else 0
    if start >= size:
        if start > size:
            part.unlink()
            return receive(url, part, size, shown)
        return None
    headers = {"User-Agent": "course_lib"} | ({"Range": f"bytes={start}-"} if start else {})
    with urlopen(Request(url, headers=headers), timeout=TIMEOUT) as response:
        resumed = response.status == 206
        start = start if resumed else 0
        shown(start)
        with open(part, "ab" if resumed else "wb") as out:
            while start <= size and (block := response.read(1 << 16)):
                out.write(block)
                start += len(block)
                shown(len(block))
    if start < size:
        raise ConnectionError(f"the connection ended after {start:,} of {size:,} bytes")
    return None


class bar:
    """A progress bar in bytes as a callable, silent where it is not wanted."""

    def __init__(self, title: str, size: int, progress: bool):
        self.tqdm = tqdm(
            total=size, desc=title, unit="B", unit_scale=True, leave=False, disable=not progress
        )

    def __enter__(self) -> Callable[[int], None]:
        return self.tqdm.update

    def __exit__(self, *_):
        self.tqdm.close()
