"""Where each run of a plan stands, as its folder tells, and how long the rest will take.

There is no list of jobs that could go out of date. A folder that cannot be understood makes its
own run `blocked` and concerns no other.
"""

import json
import math
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import mean

from safetensors import SafetensorError

from course_lab import results
from course_lab.experiment import Experiment
from course_lab.locks import RUN, TRAINING, held
from course_lab.planned import Planned, earlier
from course_lab.plans import Plan
from course_lab.recipes import elsewhere
from course_lib.errors import CourseError
from course_lib.training.checkpoint import check_progress, read_progress

# What reading a damaged file raises: no file, no JSON, no safetensors, or other content than is
# expected there.
MALFORMED = (
    AttributeError,
    LookupError,
    OSError,
    RecursionError,
    SafetensorError,
    TypeError,
    ValueError,
)


# One run -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class State:
    """Where a run stands."""

    planned: Planned
    folder: Path
    name: str  # waiting, running, paused, done, failed, killed or blocked
    epoch: int = 0  # finished epochs
    epochs: int = 0  # epochs of the whole run, at most
    seconds: float = 0.0  # of training and validation so far
    share: float = 0.0  # of the training, which took these seconds
    around: float | None = None  # seconds of a run that is done, beside its training, if known
    figures: dict = field(default_factory=dict)
    cell: int | None = None  # of the notebook, from 1, as the reader counts them
    error: str = ""

    def __str__(self):
        if self.name == "done":
            shown = [f"{name.replace('_', ' ')} {v:.2f}" for name, v in self.figures.items()]
            return ", ".join(["done", *shown])
        if self.name == "waiting":
            return f"waiting for {self.error}" if self.error else "waiting"
        begun = self.share or (self.epochs and self.name in ("running", "paused"))
        epoch = f" epoch {self.epoch} of {self.epochs}" if begun else ""
        cell = f" cell {self.cell}" if self.cell else ""
        error = f": {self.error}" if self.error else ""
        return f"{self.name}{epoch}{cell}{error}"

    @property
    def waits(self) -> bool:
        """True if another run must finish first, which `error` names."""
        return self.name == "waiting" and bool(self.error)


def state(planned: Planned) -> State:
    """Return where a run stands; it is `blocked` where its folder cannot be understood."""
    experiment = planned.experiment()
    folder = results.run_folder(experiment)
    epochs = 0 if experiment.is_counted else experiment.optimisation.epochs
    fresh = State(planned, folder, "waiting", epochs=epochs)
    try:
        return _in_folder(fresh, experiment)
    except CourseError as error:
        reason = str(error)
    except MALFORMED as error:
        reason = f"{folder} is not readable ({type(error).__name__}: {error}); mend or remove it"
    return replace(fresh, name="blocked", error=reason)


def _in_folder(fresh: State, experiment: Experiment) -> State:
    folder = fresh.folder
    running = held(folder / RUN) or held(folder / TRAINING)
    failure = _failure(folder / "failed.json")

    # How far the training is
    if results.is_done(folder):
        now = _done(fresh, experiment)
    elif (folder / "last.safetensors").exists():
        now = _paused(fresh, experiment)
    elif running or failure:
        now = fresh
    else:
        now = _not_begun(fresh, experiment)

    # What happens to it
    if running and now.name != "done":
        return replace(now, name="running")
    if failure and not running:
        return replace(now, name="failed", **failure)
    return now


def _failure(path: Path) -> dict:
    """Return the cell and the error of a failed run; nothing where the run did not fail."""
    try:
        failure = json.loads(path.read_text(encoding="utf-8"))
        cell = failure["cell"]
        error = failure["error"]
        if not isinstance(cell, int | None) or not isinstance(error, str):
            raise TypeError("a number and a sentence are expected")
    except FileNotFoundError:
        return {}
    except MALFORMED as error:
        raise CourseError(f"{path.name} is damaged ({error}); remove it") from None
    return {"cell": cell, "error": error}


def checked_result(folder: Path, experiment: Experiment) -> dict:
    """Return the result of a run, with its two perplexities, `epochs` and `provenance`.

    Raises CourseError where it is damaged, incomplete or another experiment's.
    """
    try:
        content = results.result_of(folder, experiment)
        results.check_perplexities(content, folder)
        _figures(content["metrics"])
        _seconds(content["epochs"])
        content["provenance"].keys()
    except MALFORMED as error:
        raise _unlike(folder / "result.json", "result of this course", error) from None
    return content


def _done(fresh: State, experiment: Experiment) -> State:
    """Return the state of a run that has a result."""
    content = checked_result(fresh.folder, experiment)
    epochs = content["epochs"]
    return replace(
        fresh,
        name="done",
        figures=_figures(content["metrics"]),
        share=1.0,
        epoch=len(epochs),
        seconds=_seconds(epochs),
        around=_around(fresh.folder, content["provenance"]),
    )


def _around(folder: Path, provenance: dict) -> float | None:
    """Return the seconds that a run took for its kernel, its text and its final figures.

    None where its result does not say, as that of an older version. The notebook says how long it
    took with its kernel; a run without a notebook had none.
    """
    call = provenance.get("last_start_seconds")
    training = provenance.get("last_training_seconds")
    if call is None or training is None:
        return None
    try:
        notebook = json.loads((folder / "notebook.ipynb").read_text(encoding="utf-8"))
        call = max(call, float(notebook["metadata"]["papermill"]["duration"]))
    except MALFORMED:
        pass
    return max(0.0, call - training)


def _paused(fresh: State, experiment: Experiment) -> State:
    """Return the state of a run that has a checkpoint; its tensors are not read."""
    path = fresh.folder / "last.safetensors"
    try:
        progress = read_progress(path)
        check_progress(progress, path)
        epochs = len(progress["epochs"])
        seconds = _seconds(progress["epochs"])
        share = epochs / max(1, fresh.epochs)
        # A run that ends by its steps knows its share of them within an epoch, too.
        limit = experiment.optimisation.max_steps
        if limit and progress["step"] / limit > share:
            share = progress["step"] / limit
            seconds += progress["seconds"]
    except MALFORMED as error:
        raise _unlike(path, "checkpoint of a run", error) from None
    return replace(fresh, name="paused", share=share, epoch=epochs, seconds=seconds)


def _unlike(path: Path, kind: str, error: Exception) -> CourseError:
    return CourseError(f"{path} is no {kind} ({type(error).__name__}: {error}); remove it")


def _figures(metrics: dict) -> dict[str, float]:
    """Return the figures of the validation and the test split."""
    return {k: float(v) for k, v in metrics.items() if k.startswith(("valid_", "test_"))}


def _seconds(rows: list[dict]) -> float:
    """Return the seconds of training and validation of finished epochs."""
    seconds = float(sum(row["seconds"] + row["validation_seconds"] for row in rows))
    if not math.isfinite(seconds):
        raise ValueError(f"its epochs took {seconds} seconds")
    return seconds


def _not_begun(fresh: State, experiment: Experiment) -> State:
    """Return the state of a run without a checkpoint, which may begin with another's weights."""
    if first := earlier(experiment):
        folder = results.run_folder(first)
        weights = folder / f"{experiment.start_weights}.safetensors"
        name = f"{first.name} with {first.variant}" if first.variant else first.name
        if not results.is_done(folder):
            return replace(fresh, error=f"the weights of {name}")
        if not weights.exists():
            raise CourseError(
                f"it begins with the weights of {name}, of which only the result is here; "
                f"bring {weights} as well"
            )
    # A run without training pauses between two of its final figures.
    return replace(fresh, name="paused") if (fresh.folder / "figures.json").exists() else fresh


# All runs of a plan ------------------------------------------------------------------------------


def states_of(plan: Plan) -> list[State]:
    """Return where each run stands; `blocked` where it waits for weights that no run makes."""
    states = [state(planned) for planned in plan.runs]
    made = {s.folder for s in states}
    return [
        replace(s, name="blocked", error=f"it begins with {s.error}, which no run here makes")
        if s.waits
        and (first := earlier(s.planned.experiment()))
        and results.run_folder(first) not in made
        else s
        for s in states
    ]


def table(states: list[State]) -> str:
    """Return one line a run: recipe, variant, seed, and where the run stands."""
    rows = [("recipe", "variant", "seed", "state")]
    for s in states:
        recipe = elsewhere.without_file(s.planned.recipe)
        rows.append((recipe, s.planned.variant, str(s.planned.seed), str(s)))
    a, b, c = (max(len(row[i]) for row in rows) for i in range(3))
    return "\n".join(f"{r:<{a}}  {v:<{b}}  {n:>{c}}  {s}" for r, v, n, s in rows)


def summary(states: list[State]) -> str:
    """Return `8 runs: 5 done, 2 waiting, 1 failed; about 12 min remain`."""
    counts = Counter(s.name for s in states)
    text = f"{len(states)} run{'s' * (len(states) != 1)}: "
    text += ", ".join(f"{n} {name}" for name, n in counts.items())
    seconds, unknown = remaining(states)
    if seconds:
        text += f"; {about(seconds)} remain, one run at a time"
    if unknown:
        takes = "takes" if len(unknown) == 1 else "take"
        text += f"; nobody knows yet how long {len(unknown)} of them {takes}"
    return text


def duration(seconds: float) -> str:
    """Return a time in the largest unit of which there are two."""
    for unit, length in (("days", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:,.0f} {unit}"
    return f"{seconds:.0f} s" if seconds >= 1 else "< 1 s"


def about(seconds: float) -> str:
    """Return a time with a word on how sure it is: `about 12 min`, `less than 1 s`."""
    return f"about {duration(seconds)}" if seconds >= 1 else "less than 1 s"


def remaining(states: list[State]) -> tuple[float, list[State]]:
    """Return the seconds that unfinished runs need, one at a time, and those that nobody knows.

    A run that has finished an epoch is judged by itself, another run by those of its recipe and
    profile. What a run needs beside its training, for the start of its kernel, its text and its
    final figures, is that of runs that are done: of its recipe, else of the plan.
    """
    # Seconds of whole trainings and of what stands around them, by recipe and profile
    whole: dict[tuple[str, str], list[float]] = {}
    around: dict[tuple[str, str], list[float]] = {}
    for s in states:
        kind = (s.planned.recipe, s.planned.profile)
        if s.share and s.seconds:
            whole.setdefault(kind, []).append(s.seconds / s.share)
        if s.around is not None:
            around.setdefault(kind, []).append(s.around)
    all_around = [seconds for group in around.values() for seconds in group]

    # Seconds of what is not done of them
    seconds = 0.0
    unknown = []
    for s in states:
        kind = (s.planned.recipe, s.planned.profile)
        if s.name not in ("waiting", "running", "paused", "killed"):
            continue
        if s.share and s.seconds:
            seconds += s.seconds / s.share - s.seconds
        elif kind in whole:
            seconds += mean(whole[kind])
        else:
            unknown.append(s)
            continue
        if others := around.get(kind, all_around):
            seconds += mean(others)
    return seconds, unknown


def estimated(states: list[State]) -> str | None:
    """Return a sentence on how long runs take of which no epoch is known, by their operations.

    None where that cannot be said of any of them, as of the reader's own text.
    """
    from course_lab import rates
    from course_lab.cost import cost

    here = rates.this_machine()
    seconds = floor = 0.0
    counted = 0
    for s in states:
        experiment = s.planned.experiment()
        try:
            expected = cost(experiment, here.rates)
        except CourseError:
            continue
        counted += 1
        seconds += expected.seconds
        floor += rates.floor_on_h100(experiment, expected.flops)
    if not counted:
        return None
    least = duration(floor) if floor >= 1 else "a part of a second"
    return (
        f"{counted} of them by their operations: {about(seconds)} on this machine, at "
        f"least {least} on one H100\n(at half the rates of {here};\n on the H100 at the "
        "rates that NVIDIA states)"
    )
