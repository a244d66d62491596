"""The atlas: what public word matrices are like, so that a severity has something to be held to.

Beside chance, which every severity is measured from, stands what trained matrices have: those of
models that packages of the ordinary index carry. The table has numbers only, each row with its
source and the SHA-256 of the file. `python -m course_lab atlas --again` computes it anew.
"""

import json
from functools import cache
from importlib import resources
from pathlib import Path
from typing import NamedTuple

from course_lab.corpora.packaged import PACKAGED, check_packaged
from course_lab.examine.crowds import crowds
from course_lab.examine.diagnosis import Diagnosis, diagnose
from course_lab.examine.examination import draw
from course_lab.examine.matrices import read
from course_lab.examine.measures import Spectra, isoscore
from course_lab.examine.record import plain
from course_lib.metrics import geometry

FILE = "atlas.json"
DIGITS = 4  # significant ones of each number
# whether it predicts, where the file does not say
KNOWN = {"glove": False, "minilm": False, "wordllama": False}


class Rank(NamedTuple):
    """The severity's place among public matrices: so many of them have a lower one."""

    below: int
    matrices: int

    def __str__(self) -> str:
        return f"more than {self.below} of {self.matrices} public matrices"


@cache
def atlas() -> tuple[dict, ...]:
    """Return the rows of the table, by falling number of words."""
    text = resources.files("course_lab.examine").joinpath(FILE).read_text("utf-8")
    return tuple(json.loads(text)["matrices"])


def rank(name: str, severity: float, sha256: str | None = None) -> Rank:
    """Return where a finding's severity stands among those of the atlas.

    name: of the finding. severity: of the matrix at hand, as it is without counts. sha256: of its
    file, so that it is not compared with itself.
    """
    rows = [row for row in atlas() if row["sha256"] != sha256 and name in row["severities"]]
    return Rank(sum(row["severities"][name] < severity for row in rows), len(rows))


def ranks(diagnosis: Diagnosis, sha256: str | None = None) -> dict[str, Rank]:
    """Return the rank of every finding of a matrix that the atlas has, by the finding's name."""
    found = {f.name: rank(f.name, f.severity, sha256) for f in diagnosis.findings}
    return {name: place for name, place in found.items() if place.matrices}


def row_of(name: str) -> dict:
    """Return the row of a packaged model that is on this machine; CourseError if it is not."""
    model = PACKAGED[name]
    check_packaged(model)
    source = read(model.path)
    predicts = KNOWN.get(name, source.predicts)
    W = draw(source.W)
    diagnosis = diagnose(W, None, predicts)
    spectra = Spectra.of(W)
    drift = geometry.common_drift(W)
    numbers = {
        "mean cosine": drift.cosine,
        "share of the mean vector": drift.share,
        "IsoScore": isoscore(spectra.centred, W.shape[1]),
        "stable rank": geometry.stable_rank(spectra.whole),
        "equal rows": sum(len(crowd.rows) for crowd in crowds(W)),
    }
    severities = {finding.name: finding.severity for finding in diagnosis.findings}
    return {
        "name": name,
        "title": model.title,
        "source": [wheel.requirement for wheel in model.wheels],
        "sha256": model.sha256,
        "licence": model.licence,
        "matrix": source.name,
        "words": len(source.W),
        "size": source.W.shape[1],
        "examined": len(W),
        "stored": source.dtype,
        "tied": source.tied,
        "predicts": predicts,
        "verdict": diagnosis.sentence,
        "severities": {key: _short(value) for key, value in severities.items()},
        "measures": {key: _short(value) for key, value in numbers.items()},
    }


def write(rows: list[dict], path: Path) -> None:
    """Write the table, by falling number of words."""
    rows = sorted(rows, key=lambda row: (-row["words"], row["name"]))
    content = plain({"matrices": rows})
    text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
    path.write_text(text + "\n", encoding="utf-8")


def _short(value):
    return value if isinstance(value, int) else float(f"{value:.{DIGITS}g}")
