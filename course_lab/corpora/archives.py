"""Lines of text files and of members of archives, read as streams; nothing is ever extracted."""

import gzip
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO

from course_lib.errors import DAMAGED, CourseError


@contextmanager
def opened(path: Path, *members: str) -> Iterator[tuple[IO[bytes] | gzip.GzipFile, str]]:
    """Open a file, plain or .gz, or the first of `members` in a .tgz or .zip: (stream, name).

    `CourseError` if the file is missing or damaged, if the archive has none of the members, or if
    an entry before it has a path that leads out of the archive or is no plain file.
    """
    try:
        # a member of a tape archive, in its order
        if path.suffix in (".tgz", ".tar"):
            with tarfile.open(path, "r|*") as archive:
                seen = []
                for entry in archive:
                    name = inside(entry.name, path)
                    if name in members:
                        stream = archive.extractfile(entry) if entry.isfile() else None
                        if stream is None:
                            raise CourseError(f"{path}: {name} is not a plain file; refused")
                        yield stream, f"{path}: {name}"
                        return
                    seen.append(name)
            raise absent(path, members, seen)
        # a member of a zip archive, in the order of `members`
        if path.suffix == ".zip":
            with zipfile.ZipFile(path) as archive:
                names = {inside(name, path): name for name in archive.namelist()}
                for name in members:
                    if name in names:
                        with archive.open(names[name]) as stream:
                            yield stream, f"{path}: {name}"
                        return
            raise absent(path, members, list(names))
        # a file by itself
        with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as stream:
            yield stream, str(path)
    except (*DAMAGED, RuntimeError) as error:  # the latter of a member that needs a password
        if isinstance(error, OSError) and not isinstance(error, gzip.BadGzipFile):
            raise CourseError(f"{path} cannot be read: {error.strerror or error}") from None
        raise CourseError(
            f"{path} is truncated or damaged ({str(error) or type(error).__name__}); restore it, "
            "or delete it if it was downloaded and fetch it again"
        ) from None


def inside(name: str, path: Path) -> str:
    """Return a member's name without a leading `./`; `CourseError` if it leads out."""
    windows = PureWindowsPath(name)
    if windows.drive or windows.root or ".." in windows.parts:
        raise CourseError(f"{path} has the member {name!r}, which leads out of its folder; refused")
    return str(PurePosixPath(name))


def absent(path: Path, members: tuple[str, ...], seen: list[str]) -> CourseError:
    shown = ", ".join(seen[:5]) + (", …" if len(seen) > 5 else "")
    return CourseError(f"{path} has no member {' or '.join(members)}; it has: {shown or 'nothing'}")


def lines(path: Path, *members: str) -> Iterator[str]:
    """Yield the lines of a text file or member without their ends.

    `\\n` and `\\r\\n` end a line, and `\\r` in a file that has no `\\n`. `CourseError` names the
    file and the line of bytes that are not UTF-8.
    """
    with opened(path, *members) as (stream, where):
        for number, raw in enumerate(stream, start=1):
            text = decoded(raw, where, number).removesuffix("\n").removesuffix("\r")
            text = text.removeprefix("\ufeff") if number == 1 else text
            if number == 1 and not raw.endswith(b"\n"):
                yield from text.split("\r")  # all of the file
            else:
                yield text


def blocks(path: Path, *members: str, size: int = 1 << 22) -> Iterator[str]:
    """Yield the text in blocks of about `size` bytes that end with a line."""
    with opened(path, *members) as (stream, where):
        number = 1
        while raw := stream.read(size) + stream.readline():
            yield decoded(raw, where, number)
            number += raw.count(b"\n")


def decoded(raw: bytes, where: str, line: int) -> str:
    """Return UTF-8 text.

    raw: the bytes, which begin in line number `line` of the file.
    where: the file's name in an error.
    line: counted from 1.

    `CourseError` names the file and the line of a byte that is not UTF-8.
    """
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        ends = b"\n" if b"\n" in raw else b"\r"
        line += raw[: error.start].count(ends)
        raise CourseError(
            f"{where}, line {line}: byte 0x{raw[error.start]:02x} is not UTF-8 text; "
            "save the file as UTF-8"
        ) from None
