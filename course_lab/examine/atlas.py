"""The atlas: what public word matrices are like, so that a severity has something to be held to.

Beside chance, which every severity is measured from, stands what trained matrices have: those of
models that packages of the ordinary index carry. The table has numbers only, each row with its
source and the SHA-256 of the file. `python -m course_lab atlas --again` computes it anew, and
`python -m course_lab atlas CHECKPOINT … --out mine.json` makes a table of one's own matrices, which
`examine --atlas mine.json` takes beside the public ones.
"""

import json
from collections.abc import Iterable
from functools import cache
from importlib import resources
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from course_lab.examine.diagnosis import Diagnosis
from course_lab.examine.findings import NAMED
from course_lab.examine.source import Source
from course_lib.errors import CourseError

FILE = "atlas.json"
# how a matrix is called by whether it predicts
USES = {True: "matrices that predict", False: "matrices that only read", None: "matrices"}


USUAL = 60  # a percentile up to it is below the median of the atlas or about it
FEWEST = 4  # matrices of the atlas of which a percentile says what is usual


class Rank(NamedTuple):
    """The severity's place among the matrices of the atlas: so many of them have a lower one.

    among: what these matrices do, and whose they are. having: how many of them have the finding.
    """

    below: int
    matrices: int
    among: str
    having: int

    @property
    def percentile(self) -> int:
        """The per cent of the matrices that have a lower severity."""
        return round(100 * self.below / self.matrices)

    @property
    def usual(self) -> bool:
        """True if half of the matrices or more have the finding, and it is no worse here."""
        many = 2 * self.having >= self.matrices >= FEWEST
        return many and self.percentile <= USUAL

    def __str__(self) -> str:
        return (
            f"percentile {self.percentile} of {self.matrices} {self.among}; {self.having} of them "
            "have the finding"
        )


@cache
def atlas() -> tuple[dict, ...]:
    """Return the rows of the table, by falling number of words."""
    text = resources.files("course_lab.examine").joinpath(FILE).read_text("utf-8")
    return tuple(json.loads(text)["matrices"])


def rank(
    name: str,
    severity: float,
    predicts: bool | None = None,
    sha256: str | None = None,
    own: tuple[dict, ...] = (),
) -> Rank:
    """Return where a finding's severity stands among those of the atlas.

    name: of the finding. severity: of the matrix at hand, as it is without counts. predicts:
    whether it predicts; only matrices of the same use are compared with it, and all of them where
    nobody knows. sha256: of its file, so that it is not compared with itself. own: rows of the
    user's own table, which count beside the public ones, each file once.
    """
    once = {row["sha256"] or id(row): row for row in (*own, *atlas())}
    rows = [
        row
        for row in once.values()
        if row["sha256"] != sha256
        and name in row["severities"]
        and (predicts is None or row["predicts"] is predicts)
    ]
    others = [row["severities"][name] for row in rows]
    below = sum(other < severity for other in others)
    whose = "public and own" if own else "public"
    return Rank(below, len(rows), f"{whose} {USES[predicts]}", sum(o >= NAMED for o in others))


def ranks(
    diagnosis: Diagnosis,
    predicts: bool | None = None,
    sha256: str | None = None,
    own: tuple[dict, ...] = (),
) -> dict[str, Rank]:
    """Return the rank of every finding of a matrix that the atlas has, by the finding's name."""
    found = {f.name: rank(f.name, f.severity, predicts, sha256, own) for f in diagnosis.findings}
    return {name: place for name, place in found.items() if place.matrices}


def by_kind(rows: Iterable[dict]) -> list[tuple[str, list[dict]]]:
    """Return the rows by tying, each part by rising size of a word, and by rising vocabulary."""
    titles = {True: "tied", False: "untied", None: "the file does not say whether it is tied"}
    parts = [
        (title, [row for row in rows if row["tied"] is tied]) for tied, title in titles.items()
    ]
    order = itemgetter("size", "words")
    return [(title, sorted(part, key=order)) for title, part in parts if part]


def digest(source: Source) -> str | None:
    """Return the SHA-256 that tells a checkpoint's file from others."""
    return next(iter(source.sha256.values()), None)


def read_rows(path: Path) -> tuple[dict, ...]:
    """Return the rows of a table that `write` made; CourseError for any other file."""
    try:
        rows = json.loads(Path(path).read_text("utf-8"))["matrices"]
        if not isinstance(rows, list) or not rows:
            raise ValueError("it lists no matrices")
        for row in rows:
            severities = row["severities"].values()
            if not all(type(value) in (int, float) and 0 <= value <= 1 for value in severities):
                raise ValueError("a severity is no number between 0 and 1")
            if not isinstance(row["predicts"], bool | None):
                raise ValueError("a row does not say whether its matrix predicts")
            if not isinstance(row["sha256"], str | None):
                raise ValueError("a row does not say its file")
    except OSError as error:
        raise CourseError(f"{path} cannot be read: {error.strerror or error}") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CourseError(
            f"{path} is no table of `python -m course_lab atlas CHECKPOINT … --out FILE` ({error})"
        ) from None
    return tuple(rows)
