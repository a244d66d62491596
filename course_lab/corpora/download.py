"""Downloads that resume, are verified after arrival, and never leave half a file in place.

Bytes arrive in `train.txt.part`; the file gets its name by an atomic rename once its SHA-256 is
right. An interrupted download keeps the `.part` and goes on from there, at any mirror. Where no
SHA-256 is published, the one that arrives first is recorded beside the file and holds from then on.
"""

import hashlib
import json
import os
import ssl
import sys
import time
from contextlib import contextmanager, suppress
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from filelock import FileLock, Timeout
from tqdm.auto import tqdm

from course_lab.corpora.registry import DOWNLOADS, Download, File
from course_lib.data import folders
from course_lib.errors import CourseError, unknown

ATTEMPTS = 3  # at one mirror before the next is tried
TIMEOUT = 20  # seconds without a byte
SLOWEST = 1_000  # bytes a second; a mirror that is slower over WINDOW is given up
WINDOW = 30  # seconds
LARGEST = 2_000_000_000  # bytes of a file whose size the registry does not know
# A ValueError is an address that is none, in a redirect, or a length that is no number.
NETWORK = (URLError, ConnectionError, TimeoutError, HTTPException, ssl.SSLError, ValueError)


def fetch(name: str, progress: bool = True) -> Path:
    """Download what is missing of a corpus and return its folder; files that are there stay.

    A second process that wants the same corpus says so and waits for the first. `CourseError` in
    one sentence if a file cannot be had: what is missing, its SHA-256, where to put it, what to
    run. Only a `.part` to resume from may be left then.
    """
    if name not in DOWNLOADS:
        raise unknown("corpus to download", name, DOWNLOADS)
    entry = DOWNLOADS[name]
    folder = folders.corpora() / name
    try:
        with filling(folder, name):
            for file in absent(entry, folder):
                download(file, folder, f"{name}/{file.name}", progress)
    except Unavailable as error:
        wanted = ", ".join(
            f"{f.name} (SHA-256 {f.sha256 or 'not published'})" for f in absent(entry, folder)
        )
        raise CourseError(
            f"{name} is not complete and could not be downloaded ({error}): run `python -m "
            f"course_lab data fetch {name}` with a network, or put {wanted} from {entry.source} "
            f"into {folder.resolve()}, or set COURSE_DATA to a folder that has {name}/"
        ) from None
    return folder


@contextmanager
def filling(folder: Path, name: str):
    """Make a folder and hold its lock; an empty one goes again.

    name: of what comes into it, for the CourseError that is raised where it cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with alone_in(folder):
            yield
    except OSError as error:
        raise CourseError(
            f"{name} cannot be written to {folder}: {error.strerror or error}; set COURSE_DATA to "
            "a folder of your own"
        ) from None
    finally:
        with suppress(OSError):
            folder.rmdir()  # refuses unless it is empty


@contextmanager
def alone_in(folder: Path):
    """Hold the lock of a folder; where another process holds it, say so and wait."""
    path = folder / ".lock"
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        print(f"another process downloads to {folder}; waiting for it", file=sys.stderr)
        lock.acquire()
    try:
        yield
    finally:
        with suppress(OSError):
            path.unlink(missing_ok=True)
        lock.release()


def absent(entry: Download, folder: Path) -> list[File]:
    """Return the files of a corpus that are not in its folder."""
    return [file for file in entry.files if not (folder / here(file, folder).name).exists()]


def here(file: File, folder: Path) -> File:
    """Return the form in which a file lies in the folder: unpacked, else as it is published."""
    return file.plain if file.plain and (folder / file.plain.name).exists() else file


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file of any size."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def expected(file: File, folder: Path) -> str | None:
    """Return the SHA-256 a file must have: published, else recorded at its first fetch, or None."""
    if file.sha256 is not None:
        return file.sha256
    try:
        return json.loads(record_of(file, folder).read_text(encoding="utf-8"))["sha256"]
    except (OSError, ValueError, KeyError):
        return None


def record(file: File, folder: Path) -> str:
    """Write down the SHA-256 of a file that has no published one, and return it."""
    sha256 = file_digest(folder / file.name)
    content = {"sha256": sha256, "bytes": (folder / file.name).stat().st_size, "verified": False}
    path = record_of(file, folder)
    with suppress(OSError):  # a folder of someone else
        part = path.with_suffix(f".{os.getpid()}.part")
        part.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
        os.replace(part, path)
    return sha256


def record_of(file: File, folder: Path) -> Path:
    return folder / f"{file.name}.sha256.json"


class Unavailable(Exception):
    """No mirror delivered the file; the message says why."""


def download(file: File, folder: Path, title: str, progress: bool = True) -> None:
    """Bring one file from the first mirror that delivers it whole; `Unavailable` if none does.

    file: what must arrive, and its mirrors.
    folder: receives it.
    title: its name beside the progress bar.
    progress: whether there is a bar.
    """
    path = folder / file.name
    part = folder / f"{file.name}.part"
    reasons: dict[str, None] = {}  # ordered, each once
    for url in file.mirrors:
        for _ in range(ATTEMPTS):
            # Bring the bytes; what has arrived is gone on from, here or at the next mirror.
            try:
                receive(url, part, file.size, title if progress else None)
            except HTTPError as error:
                reasons[f"{host(url)}: HTTP {error.code}"] = None
                if error.code != 416:
                    break
                part.unlink(missing_ok=True)  # no beginning of this file: start anew
                continue
            except NETWORK as error:
                reasons[f"{host(url)}: {say(error)}"] = None
                if not part.exists():
                    break  # not a byte: no use in asking this address again
                continue

            # Is it the file that was published?
            if file.sha256 is None:
                fault = None if archived(part) else "is not an archive"
            else:
                arrived = file_digest(part)
                fault = None if arrived == file.sha256 else f"arrived with SHA-256 {arrived}"
            if fault is None:
                os.replace(part, path)
                if file.sha256 is None:
                    record(file, folder)
                return
            part.unlink()
            reasons[f"{host(url)}: {file.name} {fault}"] = None
    raise Unavailable("; ".join(reasons))


def archived(path: Path) -> bool:
    """Return whether a file begins like gzip or zip, as the login page of a network does not."""
    with open(path, "rb") as file:
        return file.read(2) in (b"\x1f\x8b", b"PK")


def host(url: str) -> str:
    return urlsplit(url).netloc


def say(error: Exception) -> str:
    """Return what the network said, without its error numbers."""
    error = getattr(error, "reason", error)
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def receive(url: str, part: Path, size: int | None, title: str | None = None) -> None:
    """Bring `part` to `size` bytes from `url`, from where it stands if the server knows ranges.

    url: the address at one mirror.
    part: the file that receives the bytes; what has arrived stays in it, whatever happens.
    size: as the registry knows it; if it is None, the server's is believed, up to LARGEST.
    title: of the progress bar; without one there is no bar.

    Raises ConnectionError if the stream ends early or is slower than SLOWEST, ValueError for a
    length that is no number or too large.
    """
    # Where the file stands.
    start = part.stat().st_size if part.exists() else 0
    if start == size:
        return
    if start > (LARGEST if size is None else size):
        part.unlink()
        start = 0

    # The bytes from there on.
    headers = {"User-Agent": "course_lib"} | ({"Range": f"bytes={start}-"} if start else {})
    with urlopen(Request(url, headers=headers), timeout=TIMEOUT) as response:
        resumed = response.status == 206
        start = start if resumed else 0
        if size is None and (coming := response.headers.get("Content-Length")):
            size = start + int(coming)
            if not start < size <= LARGEST:
                raise ValueError(f"a length of {coming} bytes is announced")
        with (
            open(part, "ab" if resumed else "wb") as out,
            tqdm(
                total=size, initial=start, desc=title, unit="B", unit_scale=True, disable=not title
            ) as bar,
        ):
            most = LARGEST if size is None else size
            began, counted = time.monotonic(), start
            while start <= most and (block := response.read1(1 << 16)):
                out.write(block)
                start += len(block)
                bar.update(len(block))
                if (passed := time.monotonic() - began) > WINDOW:
                    if start - counted < SLOWEST * passed:
                        rate = (start - counted) / passed
                        raise ConnectionError(f"only {rate:,.0f} bytes a second arrived")
                    began, counted = time.monotonic(), start

    # Was it all, and no more?
    if start > most:
        part.unlink()
        raise ValueError(f"more than {most:,} bytes arrived")
    if size is not None and start < size:
        raise ConnectionError(f"the connection ended after {start:,} of {size:,} bytes")
