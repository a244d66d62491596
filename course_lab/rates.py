"""The rates at which machines multiply matrices: this one's, measured, and those that are stated.

This machine's rates are measured in about a second and kept for a day. A measurement beside other
work is wrong for as long as it is kept, so it is held against the runs that this machine has done:
where they took twice or half as long as the rates say, it is measured again.
"""

import json
import math
import statistics
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import torch

from course_lab import results
from course_lab.cost import Rates, cost
from course_lab.experiment import Experiment
from course_lib.data import cache, folders
from course_lib.data.corpus import digest
from course_lib.errors import DAMAGED, CourseError
from course_lib.evaluation.perplexity import float32_products
from course_lib.machine import processor

DAY = 86_400
APART = 2.0  # times, by which runs may differ from their estimates
SHORTEST = 300  # seconds of training; a shorter run tells more of its start than of the rates
LOOKED_AT = 40  # runs, the latest ones
# Operations a second of one H100 SXM with dense matrices, as its architecture white paper has them.
H100 = {"fp32": 66.9e12, "tf32": 494.7e12, "bf16": 989.4e12}


@dataclass(frozen=True)
class Measured:
    """The rates of a machine, when they were measured, and what its runs say of them."""

    rates: Rates
    machine: str
    threads: int
    taken: float  # seconds since 1970
    beside_runs: float | None = None  # how many times the estimated time runs took, the median

    def __str__(self):
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(self.taken))
        large = ", ".join(f"{x / 1e9:,.0f} in {p}" for p, x in sorted(self.rates.large.items()))
        threads = f"{self.threads} thread{'s' * (self.threads != 1)}"
        text = f"{self.machine}, {threads}, measured {when}: {large} GFLOP/s"
        if self.beside_runs is None:
            return text
        text += f"; its runs took {self.beside_runs:.1f} times the estimates"
        return text + "; other work beside it may disturb the measurement" * self.is_off

    @property
    def is_off(self) -> bool:
        """True where the runs contradict the rates."""
        return self.beside_runs is not None and not 1 / APART < self.beside_runs < APART


def this_machine() -> Measured:
    """Return this machine's rates, measured at most a day ago and not contradicted by its runs."""
    started = time.time()
    now = _measured()
    if now.is_off and now.taken < started:  # it was kept; one that is new is not made better
        _file().unlink(missing_ok=True)
        now = _measured()
    return now


def floor_on_h100(experiment: Experiment, flops: float) -> float:
    """Return the seconds that matrix products take at the stated rate of one H100, at least."""
    return flops / H100[experiment.optimisation.precision]


# Measuring ---------------------------------------------------------------------------------------


def _machine() -> str:
    return torch.cuda.get_device_name() if torch.cuda.is_available() else processor()


def _file() -> Path:
    key = f"{_machine()}, {torch.get_num_threads()} threads, torch {torch.__version__}, dated"
    return folders.cache() / f"rates-{digest(key)[:12]}.json"


def _measured() -> Measured:
    """Return the kept measurement, or a new one where it is older than a day."""
    kept = cache.cached(_file(), _measure, right=lambda c: 0 <= time.time() - c["taken"] < DAY)
    rates = Rates(kept["large"], kept["step"])
    threads = torch.get_num_threads()
    ratios = list(times_of_estimates(rates, _machine(), threads))
    beside = statistics.median(ratios) if ratios else None
    return Measured(rates, _machine(), threads, kept["taken"], beside)


def _measure() -> dict:
    """Return the rates in all precisions, and the time."""
    cuda = torch.cuda.is_available()
    device = "cuda" if cuda else "cpu"
    size = 4096 if cuda else 1024
    shapes = {"large": (size, size, size), "step": (20, 1150, 4600)}
    measurement: dict = {"taken": time.time()}
    for name, shape in shapes.items():
        with float32_products("tf32"):
            narrow = {"tf32": measured(shape, torch.float32, device)}
        with float32_products("ieee"):
            narrow["fp32"] = measured(shape, torch.float32, device)
        measurement[name] = narrow | {"bf16": measured(shape, torch.bfloat16, device)}
    return measurement


def measured(shape: tuple[int, int, int], dtype: torch.dtype, device: str = "cpu") -> float:
    """Return the operations a second of (m, k) @ (k, n), the best of several trials."""
    m, k, n = shape
    a, b = torch.randn(m, k, device=device).to(dtype), torch.randn(k, n, device=device).to(dtype)
    repeats = 20 if device == "cuda" else 3
    best = math.inf
    for _ in range(5):
        start = time.perf_counter()
        c = a @ b
        for _ in range(repeats - 1):
            c = a @ b
        c[0, 0].item()  # waits for the device
        best = min(best, (time.perf_counter() - start) / repeats)
    return 2.0 * m * k * n / best


# Beside what the machine has done ----------------------------------------------------------------


def times_of_estimates(rates: Rates, machine: str, threads: int) -> Iterator[float]:
    """Yield how many times its estimate each long run took that a machine has done.

    machine, threads: as a run's provenance names them. A run that went on on another machine, and
    one whose files cannot be read, say nothing.
    """
    for path in _latest():
        with suppress(CourseError, KeyError, TypeError, ValueError, AttributeError, *DAMAGED):
            content = json.loads(path.read_text(encoding="utf-8"))
            origin = content["provenance"]
            done = len(content["epochs"])
            alike = (origin["device"], origin["threads"]) == (machine, threads)
            alike = alike and origin.get("processes", 1) == 1  # as the estimate is
            if not alike or "earlier_starts" in origin or origin["wall_seconds"] < SHORTEST:
                continue
            experiment = Experiment.from_dict(content["experiment"])
            trained = experiment.change(optimisation={"epochs": done})
            yield origin["wall_seconds"] / cost(trained, rates).seconds


def _latest() -> list[Path]:
    """Return the result files of the latest runs that were longer than those of the course."""
    roots = (results.runs_folder(), results.kept_folder())
    files = (path for root in roots for path in root.rglob("result.json"))
    long = [path for path in files if path.parent.name.startswith(("standard", "full", "desk"))]
    return sorted(long, key=lambda path: path.stat().st_mtime, reverse=True)[:LOOKED_AT]
