"""Errors written for the reader: what is wrong, where, and what to do."""

import lzma
import tarfile
import tokenize
import zipfile
import zlib
from collections.abc import Iterable
from difflib import get_close_matches


class CourseError(Exception):
    """Something the reader can mend. The command line prints it without a traceback (exit 2)."""


class Paused(CourseError):
    """A run that stopped at its deadline, with a checkpoint from which it goes on."""


# What readers of archives, arrays, JSON and text raise on a damaged file. JSONDecodeError and
# UnicodeDecodeError are ValueErrors; NotImplementedError is a zip archive's unknown compression;
# TokenError is a damaged header of an .npy file; RecursionError is JSON with endless brackets.
DAMAGED = (OSError, EOFError, ValueError, NotImplementedError, RecursionError)
DAMAGED += (lzma.LZMAError, tarfile.TarError, zipfile.BadZipFile, zlib.error, tokenize.TokenError)

LISTED = 24  # names in a message; a reader looks up more in a list of their own


def unknown(kind: str, name: object, known: Iterable[str]) -> CourseError:
    """Return the error for a name that does not exist; it lists near matches, else what exists."""
    known = sorted(set(known))
    near = get_close_matches(name, known, n=3, cutoff=0.5) if isinstance(name, str) else []
    more = f" and {len(known) - LISTED} more" * (len(known) > LISTED)
    hint = f"known: {', '.join(known[:LISTED]) or 'none'}{more}"
    if near:
        hint = f"did you mean {' or '.join(near)}?"
    return CourseError(f"unknown {kind} {name!r}; {hint}")
