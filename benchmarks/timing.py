"""Time and memory of whole training steps, against the plain PyTorch way of writing them."""

import os
import re
import statistics
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import psutil
import torch
from torch import nn
from torch.nn import functional as F

from benchmarks.work import timed
from course_lib import machine
from course_lib.errors import CourseError
from course_lib.models import LanguageModel, VariationalLSTM, detach
from course_lib.output_layers import FullWords, Softmax

UNITS, LAYERS, BATCH, LENGTH, DROPOUT = 200, 2, 20, 35, 0.3
BUSY = 0.1  # of all processors, taken by other processes: from there on a time does not count
LONG = 3.0  # seconds of a round, beyond which one round is enough to warm up
VARIANTS = [(kind, precision) for precision in ("fp32", "bf16") for kind in ("plain", "course")]


class Plain(nn.Module):
    """A model as one writes it first: nn.LSTM, nn.Linear with the embedding's weight."""

    def __init__(self, vocabulary: int):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, UNITS)
        self.lstm = nn.LSTM(UNITS, UNITS, LAYERS, dropout=DROPOUT)
        self.linear = nn.Linear(UNITS, vocabulary, bias=False)
        self.linear.weight = self.embedding.weight
        nn.init.uniform_(self.embedding.weight, -0.1, 0.1)

    def forward(self, tokens, state, target):
        hidden, state = self.lstm(self.embedding(tokens), state)
        return F.cross_entropy(self.linear(hidden).flatten(0, 1), target.flatten()), state


class Course(nn.Module):
    """The course's model of the same sizes: variational LSTM and the chunk kernel."""

    def __init__(self, vocabulary: int):
        super().__init__()
        matrix = FullWords(vocabulary, UNITS)
        encoder = VariationalLSTM(UNITS, UNITS, LAYERS, DROPOUT)
        self.model = LanguageModel(matrix, encoder, Softmax(matrix, bias=False))

    def forward(self, tokens, state, target):
        step = self.model(tokens, state, target)
        return step.loss, step.state


def zipf_text(vocabulary: int, count: int) -> torch.Tensor:
    """Return `count` random words whose frequencies follow Zipf's law."""
    return torch.multinomial(1 / torch.arange(1.0, vocabulary + 1), count, replacement=True)


def stepper(kind: str, precision: str, vocabulary: int, device: str = "cpu") -> Callable[[], None]:
    """A function that makes one training step on random text with Zipf's frequencies."""
    torch.manual_seed(1)
    model = {"plain": Plain, "course": Course}[kind](vocabulary).to(device)
    fused = {"fused": True} if kind == "course" else {}
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0, **fused)
    text = zipf_text(vocabulary, (LENGTH + 1) * BATCH).view(-1, BATCH).to(device)
    state = None

    def step():
        nonlocal state
        loss, state = model(text[:-1], state, text[1:])
        state = detach(state)
        with torch.autocast(device, enabled=False):
            (loss * LENGTH).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        optimizer.zero_grad()

    return timed(step, precision, device)


def machine_kind(device: str = "cpu") -> str:
    """Return what decides speed: the GPU, or the processor and what it multiplies bf16 with."""
    if device != "cpu":
        return torch.cuda.get_device_name()
    units = {"AMX": "_is_amx_tile_supported", "AVX-512 bf16": "_is_avx512_bf16_supported"}
    has = {unit for unit, name in units.items() if getattr(torch.cpu, name, bool)()}
    named = ", ".join(unit if unit in has else f"no {unit}" for unit in units)
    return f"{machine.processor()}, {named}"


def named(table: str, kind: str | None = None) -> str:
    """Return a table's name with a kind of machine in place of `KIND`; this one's if None."""
    kind = kind or machine_kind("cuda" if torch.cuda.is_available() else "cpu")
    return table.replace("KIND", re.sub("[^a-z0-9]+", "-", kind.lower()))


def keep(table: str, rows: list[dict], rounds: int, among: Iterable[str] = ()) -> Path:
    """Keep the rows of a table in data/results, below the kind of this machine; return the file.

    table: its name, `KIND` in it stands for the machine's.
    among: the names of all rows of the table, in order. Other rows that it has already stay, and
        these rows take their places, each with its own provenance; by default the table is new.

    Rows that failed are left out, and the table has their names under "failed".
    CourseError where a row was measured beside other work, and where all rows failed, or one that
    the kept table has: then nothing changes.
    """
    from course_lab import provenance, results

    failed = [name_of(row) for row in rows if "failed" in row]
    rows = [row for row in rows if "failed" not in row]
    if failed:
        before = results.tables(table.split("/KIND")[0]).get(named(table), {"rows": []})
        why = f"{', '.join(failed)} failed"
        if {name_of(row) for row in before["rows"]}.intersection(failed):
            raise CourseError(f"the kept table stays as it is: {why}")
        if not rows:
            raise CourseError(f"nothing is kept: {why}")
    busy = [row for row in rows if not row["counts"]]
    if busy:
        others = max(row["others"] for row in busy)
        raise CourseError(
            f"nothing is kept: in {len(busy)} of {len(rows)} rows other processes took up to "
            f"{others:.0%} of the machine; measure again while nothing else runs"
        )
    kind = rows[0]["machine"]
    name = named(table, kind)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    made = {"provenance": provenance.origin(device), "rounds": rounds}
    told = [{k: None if v != v else v for k, v in row.items()} for row in rows]  # JSON has no NaN
    if among and name in results.tables(table.split("/KIND")[0]):
        places = {one: place for place, one in enumerate(among)}
        kept = results.read_table(name)
        rows_of = {name_of(row): row for row in kept["rows"]}
        rows_of |= {name_of(row): row | made for row in told}
        # Methods of the table that this PyTorch does not have come last.
        told = sorted(rows_of.values(), key=lambda row: places.get(name_of(row), len(places)))
        made = {key: kept[key] for key in made}
    made |= {"failed": failed} if failed else {}
    return results.write_table(name, {"machine": kind, **made, "rows": told})


def name_of(row: dict) -> str:
    """Return the model or the method that a row is of."""
    return row.get("model") or row["method"]


def undisturbed(measure: Callable[[], dict], tries: int = 3) -> dict:
    """Return the row of a measurement, the first that counts; after so many tries the last."""
    for _ in range(tries):
        row = measure()
        if row["counts"]:
            break
    return row


class Watch:
    """Sees how much of the machine other processes than our own take from now on."""

    def __init__(self):
        self.started = self._now()

    def _now(self) -> tuple[float, float, float]:
        """Return the seconds that all processors have worked, we have, and a clock's.

        We are this process, and the processes of its own that have ended.
        """
        times = psutil.cpu_times()._asdict()
        idle = ("idle", "iowait", "guest", "guest_nice")  # a guest's time is in the user's, too
        worked = sum(seconds for kind, seconds in times.items() if kind not in idle)
        return worked, sum(os.times()[:4]), time.perf_counter()

    def others(self) -> float:
        """Return the share of all processors' time that other processes took, in [0, 1]."""
        worked, own, seconds = (b - a for a, b in zip(self.started, self._now(), strict=True))
        return max(0.0, (worked - own) / max(seconds, 1e-9) / psutil.cpu_count())


class Seconds(dict):
    """The median seconds of each step; `rounds` has all of them, `others` what disturbed them."""

    def __init__(self, rounds: dict[str, list[float]], others: float = 0.0):
        super().__init__({name: statistics.median(taken) for name, taken in rounds.items()})
        self.rounds = rounds
        self.others = others

    def ratios(self, a, b) -> list[float]:
        """Return the ratio within each round, in which slow changes of the machine cancel."""
        return [x / y for x, y in zip(self.rounds[a], self.rounds[b], strict=True)]

    def ratio(self, a, b) -> float:
        """Return the median of the ratios within a round."""
        return statistics.median(self.ratios(a, b))


def alternating(steps: dict, rounds: int) -> Seconds:
    """Time every step once a round, in turn, after two rounds to warm up.

    Every second round runs backwards, so that no step always follows the same other. Where a round
    takes longer than `LONG`, one is enough to warm up.
    """
    seconds = {name: [] for name in steps}
    begun = time.perf_counter()
    for name in steps:
        steps[name]()
    warm = time.perf_counter() - begun > LONG
    watch = Watch()
    for number in range(0 if warm else -1, rounds):
        for name in list(steps)[:: -1 if number % 2 else 1]:
            started = time.perf_counter()
            steps[name]()
            if number >= 0:
                seconds[name].append(time.perf_counter() - started)
    return Seconds(seconds, watch.others())


def conditions(device: str, *measured: Seconds) -> dict:
    """Return what a row says of its circumstances.

    "machine": its kind; "others": the largest share of it that other processes took during a
    measurement; "counts": whether that was little enough.
    """
    others = max(seconds.others for seconds in measured)
    return {"machine": machine_kind(device), "others": others, "counts": others <= BUSY}


def remark(row: dict) -> str:
    """Return what is printed behind a row that does not count."""
    return "" if row["counts"] else f"  busy, others took {row['others']:.0%}: does not count"


def in_a_process(function: Callable, *arguments):
    """The function's result from a fresh process: a peak of memory is a process's."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def peak_memory(kind: str, precision: str, vocabulary: int, device: str, threads: int) -> float:
    """Return the MB that a model and three training steps add to a fresh process' peak."""
    torch.set_num_threads(threads)
    where = torch.device(device)
    before = machine.peak_memory(where)
    step = stepper(kind, precision, vocabulary, device)
    for _ in range(3):
        step()
    return machine.peak_memory(where) - before


def language_model(vocabulary: int, rounds: int = 9, device: str | None = None) -> list[dict]:
    """Return a row a variant: median tokens/s of alternating steps, peak, ratios to the first."""
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    seconds = alternating({v: stepper(*v, vocabulary, device) for v in VARIANTS}, rounds)
    speed = {v: BATCH * LENGTH / s for v, s in seconds.items()}
    threads = torch.get_num_threads()
    memory = {v: in_a_process(peak_memory, *v, vocabulary, device, threads) for v in VARIANTS}
    base = VARIANTS[0]
    return [
        {
            "variant": " ".join(v),
            "tokens/s": speed[v],
            "speed ratio": seconds.ratio(base, v),
            "memory MB": memory[v],
            "memory ratio": memory[v] / memory[base],
            **conditions(device, seconds),
        }
        for v in VARIANTS
    ]
