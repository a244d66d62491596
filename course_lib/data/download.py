"""Downloads that resume, are verified after arrival, and never leave half a file in place.

Bytes arrive in `train.txt.part`; the file gets its name by an atomic rename once its SHA-256 is
right. An interrupted download keeps the `.part` and goes on from there, at any mirror. Where no
SHA-256 is published, the one that arrives first is recorded beside the file and holds from then on.
"""

import hashlib
import json
import os
import ssl
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from filelock import FileLock
from tqdm.auto import tqdm

from course_lib.data import folders
from course_lib.data.registry import DOWNLOADS, Download, File
from course_lib.errors import CourseError, unknown

ATTEMPTS = 3  # at one mirror before the next is tried
TIMEOUT = 20  # seconds without a byte
NETWORK = (URLError, ConnectionError, TimeoutError, HTTPException, ssl.SSLError)


def fetch(name: str, progress: bool = True) -> Path:
    """Download what is missing of a corpus and return its folder; files that are there stay.

    `CourseError` in one sentence if a file cannot be had: what is missing, its SHA-256, where to
    put it, what to run. Only a `.part` to resume from may be left then.
    """
    if name not in DOWNLOADS:
        raise unknown("corpus to download", name, DOWNLOADS)
    entry, folder = DOWNLOADS[name], folders.corpora() / name
    lock = folder / ".lock"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(lock):
            try:
                for file in absent(entry, folder):
                    download(file, folder, f"{name}/{file.name}", progress)
            finally:  # by who holds it alone
                with suppress(OSError):
                    lock.unlink(missing_ok=True)
    except Unavailable as error:
        wanted = ", ".join(
            f"{f.name} (SHA-256 {f.sha256 or 'not published'})" for f in absent(entry, folder)
        )
        raise CourseError(
            f"{name} is not complete and could not be downloaded ({error}): run `python -m "
            f"course_lib data fetch {name}` with a network, or put {wanted} from {entry.source} "
            f"into {folder.resolve()}, or set COURSE_DATA to a folder that has {name}/"
        ) from None
    except OSError as error:
        raise CourseError(
            f"{name} cannot be written to {folder}: {error.strerror or error}; set COURSE_DATA to "
            "a folder of your own"
        ) from None
    finally:
        with suppress(OSError):
            folder.rmdir()  # refuses unless it is empty
    return folder


def absent(entry: Download, folder: Path) -> list[File]:
    """The files of a corpus that are not in its folder."""
    return [file for file in entry.files if not (folder / here(file, folder).name).exists()]


def here(file: File, folder: Path) -> File:
    """The form in which a file lies in the folder: unpacked, else as it is published."""
    return file.plain if file.plain and (folder / file.plain.name).exists() else file


def file_digest(path: Path) -> str:
    """SHA-256 of a file of any size."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def expected(file: File, folder: Path) -> str | None:
    """The SHA-256 a file must have: published, else recorded at the first fetch, else None."""
    if file.sha256 is not None:
        return file.sha256
    try:
        return json.loads(record_of(file, folder).read_text(encoding="utf-8"))["sha256"]
    except (OSError, ValueError, KeyError):
        return None


def record(file: File, folder: Path) -> str:
    """Write down the SHA-256 of a file that has no published one, and return it."""
    found = file_digest(folder / file.name)
    content = {"sha256": found, "bytes": (folder / file.name).stat().st_size, "verified": False}
    path = record_of(file, folder)
    with suppress(OSError):  # a folder of someone else
        part = path.with_suffix(f".{os.getpid()}.part")
        part.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
        os.replace(part, path)
    return found


def record_of(file: File, folder: Path) -> Path:
    return folder / f"{file.name}.sha256.json"


class Unavailable(Exception):
    """No mirror delivered the file; the message says why."""


def download(file: File, folder: Path, title: str, progress: bool = True) -> None:
    """One file from the first mirror that delivers it whole; `Unavailable` if none does."""
    path, part = folder / file.name, folder / f"{file.name}.part"
    reasons: dict[str, None] = {}  # ordered, each once
    for url in file.mirrors:
        for _ in range(ATTEMPTS):
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
            if file.sha256 is None:
                fault = None if archived(part) else "is not an archive"
            else:
                found = file_digest(part)
                fault = None if found == file.sha256 else f"arrived with SHA-256 {found}"
            if fault is None:
                os.replace(part, path)
                if file.sha256 is None:
                    record(file, folder)
                return
            part.unlink()
            reasons[f"{host(url)}: {file.name} {fault}"] = None
    raise Unavailable("; ".join(reasons))


def archived(path: Path) -> bool:
    """Whether a file begins like gzip or zip: what a network's login page does not."""
    with open(path, "rb") as file:
        return file.read(2) in (b"\x1f\x8b", b"PK")


def host(url: str) -> str:
    return urlsplit(url).netloc


def say(error: Exception) -> str:
    """What the network said, without its error numbers."""
    error = getattr(error, "reason", error)
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def receive(url: str, part: Path, size: int | None, title: str | None = None) -> None:
    """Bring `part` to `size` bytes from `url`, from where it stands if the server knows ranges.

    With a title, a progress bar. Without a size the server's is believed. Raises ConnectionError
    if the stream ends early; what has arrived stays in `part`.
    """
    start = part.stat().st_size if part.exists() else 0
    if start == size:
        return
    if size is not None and start > size:
        part.unlink()
        start = 0
    headers = {"User-Agent": "course_lib"} | ({"Range": f"bytes={start}-"} if start else {})
    with urlopen(Request(url, headers=headers), timeout=TIMEOUT) as response:
        resumed = response.status == 206
        start = start if resumed else 0
        if size is None and (coming := response.headers.get("Content-Length")):
            size = start + int(coming)
        with (
            open(part, "ab" if resumed else "wb") as out,
            tqdm(
                total=size, initial=start, desc=title, unit="B", unit_scale=True, disable=not title
            ) as bar,
        ):
            while (size is None or start <= size) and (block := response.read(1 << 16)):
                out.write(block)
                start += len(block)
                bar.update(len(block))
    if size is not None and start < size:
        raise ConnectionError(f"the connection ended after {start:,} of {size:,} bytes")
