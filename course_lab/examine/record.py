"""The findings of an examination are plain data."""

import json
import platform
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import version

import numpy as np
from torch import Tensor

from course_lab.examine.atlas import Rank, digest, ranks
from course_lab.examine.crowds import Crowd
from course_lab.examine.diagnosis import Diagnosis, capital, diagnose, listed
from course_lab.examine.findings import NAMED, Finding
from course_lab.examine.groups import Groups, fair
from course_lab.examine.source import Source
from course_lab.examine.unargmaxable import FirstPlaces

PACKAGES = ("course-lib", "torch", "numpy", "scipy", "safetensors")


@dataclass(frozen=True, eq=False)
class Examination:
    """The verdict on one matrix, the numbers, and what could not be said.

    W, counts, words, groups: of the words that were examined, all or a sample. spectrum: singular
    values; random: those of a Gaussian matrix of the same shape. counted: where the counts come
    from. unknown: why there are no counts. not_run: why there is no perplexity. sampled: what was
    computed on a part. atlas: rows of the user's own table of matrices, with which it is compared
    beside the public ones.
    Of the whole matrix are together, the rows that are equal or nearly so, never_first, the rows
    that no context puts first, None if nobody asked, names, what its rows stand for, and occurs,
    whether the word of a row occurs in the text that was counted.
    seconds: that it took. peak_memory: the most MB that the process held. Of `against` neither is
    known.
    """

    source: Source
    W: Tensor = field(repr=False)
    diagnosis: Diagnosis
    metrics: dict[str, float]
    spectrum: np.ndarray = field(repr=False)
    random: np.ndarray = field(repr=False)
    repairs: dict[str, dict]
    counts: np.ndarray | None = None
    words: list[str] | None = field(default=None, repr=False)
    groups: Groups | None = field(default=None, repr=False)
    counted: str | None = None
    unknown: str | None = None
    not_run: str | None = None
    sampled: tuple[str, ...] = ()
    together: tuple[Crowd, ...] = field(default=(), repr=False)
    never_first: FirstPlaces | None = field(default=None, repr=False)
    names: list[str] | None = field(default=None, repr=False)
    occurs: np.ndarray | None = field(default=None, repr=False)
    atlas: tuple[dict, ...] = field(default=(), repr=False)
    against: "Examination | None" = None
    seconds: float = float("nan")
    peak_memory: float = float("nan")

    @cached_property
    def places(self) -> dict[str, Rank]:
        """Where the severities stand among those of the atlas, by the finding's name.

        The atlas knows no counts, so where they are known the matrix is judged without them again.
        """
        diagnosis = self.diagnosis
        if self.groups is not None:
            diagnosis = diagnose(fair(self.W, self.groups))
        return ranks(diagnosis, self.source.predicts, digest(self.source), self.atlas)

    @property
    def unusual(self) -> tuple[Finding, ...]:
        """The findings that hold and are worse than in most trained matrices."""
        return tuple(f for f in self.diagnosis.named if f not in self._usual)

    @property
    def _usual(self) -> list[Finding]:
        places = self.places
        return [f for f in self.diagnosis.named if f.name in places and places[f.name].usual]

    @property
    def verdict(self) -> str:
        """The name of the first unusual finding, or its form; else "usual" or "healthy"."""
        if self.unusual:
            return self.unusual[0].form or self.unusual[0].name
        return "usual" if self._usual else "healthy"

    @property
    def sentence(self) -> str:
        """The verdict in words; what most trained matrices have is said to be usual."""
        said = [] if self._usual and not self.unusual else [listed(self.unusual)]
        for finding in self._usual:
            place = self.places[finding.name]
            said.append(
                f"{capital(finding.title)} ({finding.grade}, {finding.severity:.2f}) is usual, as "
                f"in {place.having} of {place.matrices} {place.among}."
            )
        return " ".join(said)

    @property
    def missing(self) -> list[str]:
        """Return why there are no counts, and why there is no perplexity."""
        return [why for why in (self.unknown, self.not_run) if why]

    @property
    def notes(self) -> list[str]:
        """Return what is missing, what was computed on a part, and how the matrix was chosen."""
        sampled = [f"sampled: {what}" for what in self.sampled]
        return [*self.missing, *sampled, *self.source.notes]

    def called(self, rows) -> list[str]:
        """Return what rows of the whole matrix stand for; `row 7` where nobody knows."""
        return [self.names[row] if self.names else f"row {row}" for row in rows]

    def never_called(self) -> list[str] | None:
        """Return what the rows stand for that no context puts first; None if nobody asked."""
        return None if self.never_first is None else self.called(self.never_first.never)

    def proofs(self) -> dict[str, list] | None:
        """Return other words and their weights, by the word that no context puts first.

        The weighted mean of the others' rows is the word's row, and that of their biases is no less
        than its bias. A word that another row has, too, is told by its number. None if nobody
        asked.
        """
        if self.never_first is None:
            return None
        alike = Counter(self.names or ())

        def told(row: int) -> str:
            (word,) = self.called([row])
            return f"{word} (row {row})" if alike[word] > 1 else word

        return {
            told(word): [[told(row), share] for row, share in zip(*proof, strict=True)]
            for word, proof in sorted(self.never_first.weights.items())
        }

    def to_dict(self) -> dict:
        """Return every number and its origin, ready for JSON."""
        findings = [
            {"name": f.name, "form": f.form, "severity": f.severity, "grade": f.grade,
             "seen": f.seen, "reason": f.reason, "remedy": f.remedy, "numbers": f.numbers,
             "place": self.places[f.name]._asdict() if f.name in self.places else None}
            for f in self.diagnosis.findings
        ]  # fmt: skip
        versions = {package: version(package) for package in PACKAGES}
        return {
            "verdict": self.verdict,
            "sentence": self.sentence,
            "severity": self.diagnosis.severity,
            "named_from": NAMED,
            "findings": findings,
            "advice": [finding.remedy for finding in self.unusual],
            "metrics": self.metrics,
            "repairs": self.repairs,
            "equal_or_nearly_so": [
                {"words": self.called(crowd.rows), "around": self.called(crowd.around)}
                for crowd in self.together
            ],
            "never_first": self.proofs(),
            "singular_values": self.spectrum.tolist(),
            "counts": self.counted,
            "groups": self.groups.rule if self.groups else None,
            "missing": self.missing,
            "sampled": list(self.sampled),
            "source": self.source.to_dict(),
            "seconds": self.seconds,
            "peak_memory_mb": self.peak_memory,
            "versions": {"python": platform.python_version()} | versions,
            "against": self.against.to_dict() if self.against else None,
        }


def as_json(figures: dict) -> bytes:
    """Return figures as a file of JSON has them."""
    text = json.dumps(plain(figures), indent=1, ensure_ascii=False, allow_nan=False)
    return f"{text}\n".encode()


def plain(value):
    """Return NumPy's numbers as Python's, and what is not a number as None."""
    if isinstance(value, dict):
        return {key: plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not np.isfinite(value) else value
