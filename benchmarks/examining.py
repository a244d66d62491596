"""What it takes to examine the packaged models, and what is found; and what other tools say.

Each examination is the command that a reader would type, in a process of its own, from its start
to its report.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.timing import BUSY, Watch, machine_kind
from course_lab.corpora.packaged import PACKAGED, check_packaged
from course_lab.examine.matrices import read
from course_lab.examine.measures import Spectra, isoscore
from course_lib.errors import CourseError
from course_lib.metrics import geometry

TABLE = "benchmarks/examine/KIND/packaged"  # where `benchmarks examine --keep` puts its table
BESIDE = "benchmarks/examine/other-tools"  # and `benchmarks other-tools --keep`
CASES = (
    ("ocr-recogniser",),
    ("ocr-recogniser", "--first-places", "30"),
    ("wordllama",),
    ("smollm2",),
    ("smollm2", "--corpus", "docstrings"),
    ("gemma3-270m",),
    ("gemma3-270m", "--first-places", "30"),
)
COMPARED = ("ocr-recogniser", "ocr-recogniser-5", "ocr-recogniser-6", "smollm2", "wordllama")
TOOLS = ("IsoScore", "weightwatcher")


def examined() -> Iterator[dict]:
    """Yield a row for each of `CASES`; CourseError at once if a model is missing."""
    for name, *_ in CASES:
        check_packaged(PACKAGED[name])
    for name, *options in CASES:
        yield _row(name, options)


def _row(name: str, options: list[str]) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "course_lab", "examine", PACKAGED[name].path, *options]
        watch = Watch()
        started = time.perf_counter()
        done = subprocess.run([*command, "--out", folder], capture_output=True, text=True)
        seconds = time.perf_counter() - started
        others = watch.others()
        if done.returncode:
            raise CourseError(f"{name} could not be examined: {done.stderr.strip()}")
        report = json.loads((Path(folder) / "report.json").read_text("utf-8"))
    return {
        "model": " ".join([name, *options]),
        "words": report["source"]["words"],
        "size": report["source"]["size"],
        "seconds": seconds,
        "MB": report["peak_memory_mb"],
        "verdict": report["sentence"],
        "advice": report["advice"],
        "never first": None if report["never_first"] is None else len(report["never_first"]),
        "machine": machine_kind(),
        "others": others,
        "counts": others <= BUSY,
    }


def beside_other_tools() -> Iterator[dict]:
    """Yield, for each packaged model, our IsoScore and stable rank beside those of two packages.

    Raises CourseError if a package or a model is missing.
    """
    try:
        versions = {tool: version(tool) for tool in TOOLS}
        import weightwatcher
        from IsoScore import IsoScore
    except (ImportError, PackageNotFoundError):
        raise CourseError(
            f"{' and '.join(TOOLS)} are compared with: pip install {' '.join(TOOLS)}"
        ) from None
    for name in COMPARED:
        check_packaged(PACKAGED[name])
    for name in COMPARED:
        W = read(PACKAGED[name].path).W.double()
        spectra = Spectra.of(W)
        points: Any = np.asarray(W, np.float64)
        watched = weightwatcher.WeightWatcher(log_level="ERROR").analyze(model=_one_layer(W))
        yield {
            "model": name,
            "IsoScore": isoscore(spectra.centred, W.shape[1]),
            "their IsoScore": float(IsoScore.IsoScore(points)),
            "stable rank": geometry.stable_rank(spectra.whole),
            "their stable rank": float(watched.stable_rank[0]),
            "alpha": float(watched.alpha[0]),
            "versions": versions,
        }


def _one_layer(W):
    """Return a model whose only layer has the matrix W (N, d)."""
    import torch

    layer = torch.nn.Linear(W.shape[1], W.shape[0], bias=False)
    layer.weight = torch.nn.Parameter(W.float(), requires_grad=False)
    return torch.nn.Sequential(layer)
