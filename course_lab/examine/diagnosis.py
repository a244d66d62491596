"""The verdict on a word matrix: every finding with its severity, the most severe first.

Every severity is a share of the cloud's energy, mean ‖w‖² (or mean ‖ŵ‖² = 1 of the directions
ŵ = w/‖w‖), that is not where a random matrix of the same shape would have it: 0 for a round cloud,
1 if nothing of the cloud is left. What chance alone gives is subtracted by a closed form, so that
the same threshold means the same at every shape.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch

from course_lab.examine.findings import (
    Finding,
    common_direction,
    directions,
    frequency_split,
    low_rank,
    norm_collapse,
    stretching,
)
from course_lab.examine.groups import Groups, fair
from course_lab.examine.rogue_dimensions import rogue_dimensions
from course_lib.errors import CourseError
from course_lib.metrics import inputs

LEAST = (16, 4)  # words and dimensions: fewer cannot be judged


@dataclass(frozen=True)
class Diagnosis:
    """Every finding, the most severe first."""

    findings: tuple[Finding, ...]

    @property
    def named(self) -> tuple[Finding, ...]:
        """Those findings that hold; none for a healthy matrix."""
        return tuple(finding for finding in self.findings if finding.holds)

    @property
    def name(self) -> str:
        """The first finding's form, or its name if it has but one, or "healthy"."""
        return self.named[0].form or self.named[0].name if self.named else "healthy"

    @property
    def severity(self) -> float:
        """The share of the cloud that is lost, 1 − Π (1 − severity of a finding).

        Each finding takes its share of what the others leave.
        """
        return float(1 - np.prod([1 - finding.severity for finding in self.findings]))

    @property
    def sentence(self) -> str:
        """Return the verdict in one sentence."""
        return listed(self.named)

    def __getitem__(self, name: str) -> Finding:
        """Return the finding called `name`."""
        return next(finding for finding in self.findings if finding.name == name)


def listed(findings: tuple[Finding, ...]) -> str:
    """Return the findings in one sentence, or that there is none."""
    if not findings:
        return "Healthy: the cloud of word vectors is nearly round."
    return capital("; ".join(f"{f.title} ({f.grade}, {f.severity:.2f})" for f in findings)) + "."


def capital(text: str) -> str:
    """Return a sentence that begins with a capital letter."""
    return text[0].upper() + text[1:]


def diagnose(W, groups: Groups | None = None, predicts: bool | None = None) -> Diagnosis:
    """Return the ranked findings for W (N, d), one word a row.

    groups: rare and frequent words; without them nothing is said about a frequency split.
    predicts: whether the matrix predicts words, on which the advice depends; None if unknown.

    Rogue dimensions come first: what a few coordinates explain is not blamed on the cloud, so the
    other findings are those of the remaining coordinates, times the share of energy that is
    theirs. CourseError for a matrix that is not finite, has no row but zeros, or is too small.
    """
    rows = inputs.as_matrix(W)
    words, size = rows.shape
    if words < LEAST[0] or size < LEAST[1]:
        raise CourseError(f"{(words, size)} is too small to judge: 16 words of size 4 at least")
    if not rows.any():
        raise CourseError("every row of the matrix is zero")
    # a few coordinates
    everyone = fair(rows, groups)
    stretched = stretching(everyone)
    rogue, coordinates = rogue_dimensions(everyone, stretched)
    if coordinates:
        others = np.setdiff1d(np.arange(size), coordinates)
        rows = rows[:, torch.as_tensor(others, device=rows.device)]
    # the cloud in the other coordinates
    unit = directions(rows)
    common = common_direction(rows, unit, groups, stretched, predicts)
    spectrum, rank = low_rank(unit, groups)
    findings = [common, spectrum, norm_collapse(fair(rows, groups), rank)]
    if groups:
        findings.append(frequency_split(unit, groups))
    # their share of the whole energy
    rest = 1 - rogue.severity
    findings = [replace(finding, severity=rest * finding.severity) for finding in findings]
    ranked = sorted([rogue, *findings], key=lambda finding: -finding.severity)
    return Diagnosis(tuple(ranked))
