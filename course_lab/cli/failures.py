"""Sentences for what fails around the code: files, disks, memory, texts in another encoding."""

import errno
import lzma
import os
import tarfile
import tokenize
import traceback
import zipfile
import zlib
from urllib.error import URLError

from course_lab import extras
from course_lib.errors import CourseError

ADVICE = {
    errno.EACCES: "choose a place that you may write to, or change its permissions",
    errno.EPERM: "choose a place that you may write to, or change its permissions",
    errno.EROFS: "choose a place that can be written to",
    errno.ENOSPC: "make room on that disk and give the same command again",
    errno.EDQUOT: "make room in your quota and give the same command again",
    errno.EFBIG: "the system limits the size of files; raise the limit or choose another disk",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.ENOTDIR: "a part of that path is a file; choose a folder",
    errno.EISDIR: "that is a folder; name a file",
    errno.EEXIST: "something of that name is in the way; choose another name",
    errno.ENOENT: "check the name",
    errno.EMFILE: "close other files, or raise the limit of open files (ulimit -n)",
    errno.EIO: "the disk failed; use another one",
}
OF_BATCHES = ("jupytext", "nbclient", "nbformat", "papermill")  # what batches of notebooks need
SMALLER = "close other programs, or take a smaller batch or model"
# How the allocators of PyTorch say that there is no memory, in a plain RuntimeError.
NO_MEMORY = ("can't allocate memory", "not enough memory", "out of memory")
# How PyTorch says that another process of a distributed run did not answer.
NO_ANSWER = ("Timed out waiting", "Connection closed by peer", "Watchdog caught collective")


def explanation(error: BaseException) -> str | None:
    """Return a sentence on what went wrong and what to do; None for a fault of the code itself."""
    text = str(error)
    match error:
        case CourseError():
            return text
        case ModuleNotFoundError() if error.name in OF_BATCHES:
            return extras.refusal([error.name])
        case ConnectionError() | TimeoutError() | URLError():
            return f"the network, or another process, does not answer ({text}); try again"
        case OSError():
            return _of_a_file(error)
        case UnicodeEncodeError():
            return f"a text has letters that the encoding of its output lacks ({text}); set UTF-8"
        case UnicodeError():
            return f"a text is not in the encoding that it is read in ({text}); save it as UTF-8"
        case MemoryError():
            return f"the memory is not enough ({text or 'no more is to be had'}); {SMALLER}"
        case RecursionError() if _while_reading(error):
            return "something is nested too deeply to be read, such as the brackets of a JSON file"
        case EOFError() | zipfile.BadZipFile() | zlib.error() | lzma.LZMAError():
            return _of_damage(text)
        case tarfile.TarError() | tokenize.TokenError():
            return _of_damage(text)
        case RuntimeError() if any(phrase in text for phrase in NO_MEMORY):
            return f"the memory is not enough ({_first_line(text)}); {SMALLER}"
        case RuntimeError() if any(phrase in text for phrase in NO_ANSWER):
            return (
                f"another process of this run does not answer ({_first_line(text)}); look at its "
                "messages, and give the same command again to go on from the last checkpoint"
            )
    return None


def _of_a_file(error: OSError) -> str:
    """Return a sentence that names the file, the system's reason and what to do about it."""
    reason = error.strerror or str(error) or type(error).__name__
    names = [os.fsdecode(name) for name in (error.filename, error.filename2) if _is_path(name)]
    # no file is named where a stream fails, as a full disk does that the output is sent to
    where = " → ".join(names) or "the output, or a file that the system does not name"
    advice = ADVICE.get(error.errno or 0)
    return f"{where}: {reason}" + (f"; {advice}" if advice else "")


def _of_damage(text: str) -> str:
    return f"a file is damaged ({text}); bring it again, or remove it to have it made again"


def _while_reading(error: RecursionError) -> bool:
    """Return whether a reader of JSON or TOML went too deep, and not a function of the course."""
    innermost = list(traceback.walk_tb(error.__traceback__))[-1:]
    names = [frame.f_globals.get("__name__", "") for frame, _ in innermost]
    return any(name.partition(".")[0] in ("json", "tomllib") for name in names)


def _is_path(name) -> bool:
    return isinstance(name, str | bytes) and bool(name)


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]
