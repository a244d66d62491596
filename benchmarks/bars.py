"""The bars that this course sets itself for speed and memory, and whether kept tables meet them.

A bar is of one precision and one kind of processor; a GPU has none. Where one is missed, the page
of speeds shows how far the floor of the machine is, and which operators take the time.
"""

from collections.abc import Iterator
from typing import NamedTuple

from course_lab.kept_costs import times_plain

FLOOR = {"fp32": 0.85, "bf16": 0.8}  # of the speed that the machine's floor allows, at least
NEAR_THE_FLOOR = ("awd-lstm/ptb", "mos/ptb")
NAIVE = {"fp32": 1.1, "bf16": 1.15}  # the softmax's speed over that of its naive form, at least
# A model's speed over that of its released code in fp32, at least; two are lower without AMX.
RELEASED = {
    "awd-lstm/ptb": {"fp32": 1.2, "bf16": 4.0},
    "awd-lstm/wikitext-2": {"fp32": 1.2, "bf16": 2.5},
    "mos/ptb": {"fp32": 1.1, "bf16": 4.0},
    "mos/wikitext-2": {"fp32": 1.0, "bf16": 5.0},
    "transformer-xl/ptb": {"fp32": 2.5, "bf16": 2.5},
    "cache/ptb": {"fp32": 30.0},
    "dynamic/ptb": {"fp32": 5.0},
}
NO_AMX = dict.fromkeys(("awd-lstm/ptb", "mos/ptb"), {"fp32": 1.1, "bf16": 2.2})
OVER_PLAIN = {"transformer-xl/ptb": 1.5}  # a model's speed over that of its plain form, at least
MEMORY = {"softmax": 0.25, "mos/ptb": 0.4}  # over the naive or the plain form's, at most
RELEASED_MEMORY = {"awd-lstm/ptb": 1.0, "awd-lstm/wikitext-2": 1.0, "mos/ptb": 0.4}  # at most
# A training step's time over that with our softmax, at most.
STEPS = {"adversarial": 1.03, "cosine": 1.02, "spectrum": 1.06, "gss": 1.05, "plif": 1.12}


class Judged(NamedTuple):
    """A bar, and what was measured."""

    what: str  # in words
    precision: str
    bar: float
    at_most: bool  # else at least
    measured: float

    @property
    def met(self) -> bool:
        """Return whether the measurement is on the right side of the bar."""
        return self.measured <= self.bar if self.at_most else self.measured >= self.bar


def of_processor(table: dict) -> bool:
    """Return whether a table is a processor's, whose kind tells of AMX, and no GPU's."""
    return "AMX" in table["machine"]


def of_models(precision: str, table: dict) -> Iterator[Judged]:
    """Yield the bars of whole models and of steps with another output layer."""
    if not of_processor(table):
        return
    rows = {row["model"]: row for row in table["rows"] if "model" in row}

    # beside plain PyTorch: each model in fp32, of which the slowest is shown
    if precision == "fp32" and rows:
        name = min(rows, key=lambda model: times_plain(rows[model]))
        what = f"speed of every model over plain PyTorch, the least: `{name}`"
        yield Judged(what, precision, 1.0, False, times_plain(rows[name]))
    for name, bar in OVER_PLAIN.items():
        if name in rows:
            what = f"speed of `{name}` over plain PyTorch"
            yield Judged(what, precision, bar, False, times_plain(rows[name]))

    # beside the released code, which was measured elsewhere: the middle of its speeds
    bars = RELEASED | (NO_AMX if "no AMX" in table["machine"] else {})
    for name in (name for name in bars if name in rows and precision in bars[name]):
        row = rows[name]
        released = sum(row["reference"]["tokens"]) / 2
        allowed = f"the floor allows {row['floor'] / released:.1f}"
        what = f"speed of `{name}` over the released code, where {allowed}"
        yield Judged(what, precision, bars[name][precision], False, row["tokens/s"] / released)
    for name in (name for name in RELEASED_MEMORY if name in rows):
        ratio = rows[name]["MB"] / rows[name]["reference"]["megabytes"]
        what = f"memory of `{name}` over the released code"
        yield Judged(what, precision, RELEASED_MEMORY[name], True, ratio)

    # beside the floor, and memory
    for name in NEAR_THE_FLOOR:
        if name in rows:
            share = rows[name]["tokens/s"] / rows[name]["floor"]
            yield Judged(f"`{name}`, share of the floor", precision, FLOOR[precision], False, share)
    for name in (name for name in MEMORY if name in rows):
        ratio = rows[name]["MB"] / rows[name]["plain MB"]
        yield Judged(f"memory of `{name}` over plain", precision, MEMORY[name], True, ratio)

    # a step with another output layer
    for row in table["rows"]:
        if row.get("method") in STEPS:
            what = f"step of AWD-LSTM with `{row['method']}` over one with our softmax"
            yield Judged(what, precision, STEPS[row["method"]], True, row["of softmax"])


def of_layers(words: int, precision: str, table: dict) -> Iterator[Judged]:
    """Yield the bars of output layers alone with a vocabulary of `words`."""
    if not of_processor(table):
        return
    of = f", {words:,} words"
    rows = {row["method"]: row for row in table["rows"] if row["of naive"] is not None}

    # beside the naive form: each layer in fp32, of which the slowest is shown
    ours = {name: row for name, row in rows.items() if name != "softmax by torch"}
    if precision == "fp32" and ours:
        name = max(ours, key=lambda method: ours[method]["of naive"])
        what = f"time of every output layer over its naive form, the most: `{name}`{of}"
        yield Judged(what, precision, 1.0, True, ours[name]["of naive"])
    softmax = rows.get("softmax")
    if softmax:
        speed = 1 / softmax["of naive"]
        memory = softmax["MB"] / softmax["naive MB"]
        yield Judged(
            f"speed of the softmax over naive{of}", precision, NAIVE[precision], False, speed
        )
        bar = MEMORY["softmax"]
        yield Judged(f"memory of the softmax over naive{of}", precision, bar, True, memory)

    # beside the floor, which tables from before it was measured lack
    for row in table["rows"]:
        if row.get("of floor") is not None:
            what = f"`{row['method']}` alone, share of the floor{of}"
            yield Judged(what, precision, FLOOR[precision], False, row["of floor"])
