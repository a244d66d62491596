"""What an examination finds, as data."""

import platform
from dataclasses import dataclass, field
from importlib.metadata import version

import numpy as np
import torch
from torch import Tensor

from course_lab.examine.diagnosis import (
    NAMED,
    Diagnosis,
    Groups,
)
from course_lab.examine.matrices import Source
from course_lib.metrics.neighbours import nearest_neighbours


@dataclass(frozen=True, eq=False)
class Examination:
    """What was found. `W`, `counts` and `groups` are those of the words that were examined, all or
    a sample; `unknown` says why there are no counts, `not_run` why there is no perplexity."""

    source: Source
    W: Tensor = field(repr=False)
    diagnosis: Diagnosis
    metrics: dict[str, float]
    spectrum: np.ndarray = field(repr=False)
    random: np.ndarray = field(repr=False)  # singular values of a Gaussian matrix of that shape
    repairs: dict[str, dict]
    counts: np.ndarray | None = None
    words: list[str] | None = field(default=None, repr=False)
    groups: Groups | None = field(default=None, repr=False)
    counted: str | None = None
    unknown: str | None = None
    not_run: str | None = None
    sampled: tuple[str, ...] = ()
    against: "Examination | None" = None

    def to_dict(self) -> dict:
        """Every number and its origin, ready for JSON."""
        findings = [
            {"name": f.name, "severity": f.severity, "grade": f.grade, "seen": f.seen,
             "reason": f.reason, "remedy": f.remedy, "numbers": f.numbers}
            for f in self.diagnosis.findings
        ]  # fmt: skip
        return {
            "verdict": self.diagnosis.name,
            "sentence": self.diagnosis.sentence,
            "severity": self.diagnosis.severity,
            "named_from": NAMED,
            "findings": findings,
            "metrics": self.metrics,
            "repairs": self.repairs,
            "singular_values": self.spectrum.tolist(),
            "counts": self.counted,
            "groups": self.groups.rule if self.groups else None,
            "missing": [why for why in (self.unknown, self.not_run) if why],
            "sampled": list(self.sampled),
            "source": self.source.to_dict(),
            "versions": {"python": platform.python_version()} | {p: version(p) for p in PACKAGES},
            "against": self.against.to_dict() if self.against else None,
        }


def few(W: Tensor) -> Tensor:
    """At most PAIRED rows, drawn with a fixed seed: what all pairs are visited of."""
    if len(W) <= PAIRED:
        return W
    rows = np.random.default_rng(SEED).choice(len(W), PAIRED, replace=False)
    return W[torch.from_numpy(np.sort(rows))]


def nearest_distances(W: Tensor) -> np.ndarray:
    """Distance of every row to its nearest other row."""
    return nearest_neighbours(W)[0]


PAIRED = 4000  # words among which all pairs are visited


SEED = 0


PACKAGES = ("course-lib", "torch", "numpy", "scipy", "safetensors")


def plain(value):
    """NumPy's numbers as Python's; what is not a number, as None."""
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not np.isfinite(value) else value
