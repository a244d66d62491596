"""Run a plan: the notebook of every run through papermill, several at a time, never one twice.

A run's folder holds, beside what training leaves there, `notebook.ipynb` as it was executed,
`failed.json` if it failed, and locks (`course_lab.locks`): this and other calls, on this machine
and on others that share the disk, leave a locked run alone. Where a run stands is read from
its folder, so there is no list of jobs to go out of date.
"""

import json
import math
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from filelock import FileLock, Timeout
from safetensors import SafetensorError, safe_open

from course_lab import notebook_source, results
from course_lab.experiment import Experiment
from course_lab.keep import keep_result
from course_lab.locks import RUN, TRAINING, held
from course_lab.notebook_job import Job, execute
from course_lab.plans import Plan, Planned, earlier
from course_lab.process_slots import KILLED, run_in_workers
from course_lib.data.download import file_digest
from course_lib.errors import CourseError, unknown
from course_lib.training.checkpoint import check_progress, write_atomically

BACKENDS = {"loky": None, "dask": "distributed", "ray": "ray"}  # and what each needs installed
START_SECONDS = 10  # a run takes about this long to its first step; with less left none is started


# Where a run stands ------------------------------------------------------------------------------


@dataclass(frozen=True)
class State:
    """Where a run stands, as its folder tells."""

    planned: Planned
    folder: Path
    name: str  # waiting, running, paused, done, failed, killed or blocked
    epoch: int = 0  # finished
    epochs: int = 0  # of the whole run, at most
    seconds: float = 0.0  # of training and validation so far
    share: float = 0.0  # of the training that these seconds did
    figures: dict = field(default_factory=dict)
    cell: int | None = None  # of the notebook, from 1, as the reader counts them
    error: str = ""

    def __str__(self):
        if self.name == "done":
            shown = [f"{k.replace('_', ' ')} {v:.2f}" for k, v in self.figures.items()]
            return ", ".join(["done", *shown])
        if self.name == "waiting":
            return f"waiting for {self.error}" if self.error else "waiting"
        begun = self.share or (self.epochs and self.name in ("running", "paused"))
        begun = f" epoch {self.epoch} of {self.epochs}" * bool(begun)
        cell = f" cell {self.cell}" if self.cell else ""
        return f"{self.name}{begun}{cell}" + f": {self.error}" * bool(self.error)

    @property
    def waits(self) -> bool:
        """Whether another run must finish first; `error` names it."""
        return self.name == "waiting" and bool(self.error)


def state(planned: Planned) -> State:
    """What the run's folder tells."""
    experiment = planned.experiment()
    folder = results.run_folder(experiment)
    found = State(planned, folder, "waiting", epochs=experiment.optimisation.epochs)
    if held(folder / RUN) or held(folder / TRAINING):
        found = replace(found, name="running")
    failed, within = _json(folder / "failed.json"), 0.0  # seconds in an epoch that is not finished
    if (folder / "result.json").exists():
        try:
            content = results.result_of(folder, experiment)
        except CourseError as error:
            return replace(found, name="blocked", error=str(error))
        done, metrics = {"epochs": content["epochs"]}, content["metrics"]
        figures = {k: v for k, v in metrics.items() if k.startswith(("valid_", "test_"))}
        found = replace(found, name="done", figures=figures, share=1.0)
    elif (folder / "last.safetensors").exists():
        try:
            done = _progress(folder / "last.safetensors")
        except CourseError as error:
            return replace(found, name="blocked", error=str(error))
        limit = experiment.optimisation.max_steps
        share = len(done["epochs"]) / max(1, found.epochs)
        if limit and done["step"] / limit > share:
            share, within = done["step"] / limit, done["seconds"]
        name = found.name if found.name == "running" else "paused"
        found = replace(found, name=name, share=share)
    else:
        done = {"epochs": []}
        if found.name == "waiting" and failed is None:
            found = _first(found, experiment)
            if not found.error and (folder / "figures.json").exists():
                found = replace(found, name="paused")
    if failed is not None and found.name != "running":
        found = replace(found, name="failed", **failed)
    seconds = sum(e["seconds"] + e["validation_seconds"] for e in done["epochs"]) + within
    return replace(found, epoch=len(done["epochs"]), seconds=seconds)


def _json(path: Path) -> dict | None:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        return {"cell": None, "error": f"{path.name} is damaged ({error}); remove it"}


def _progress(path: Path) -> dict:
    """How far a checkpoint is, without reading its tensors."""
    try:
        with safe_open(path, framework="pt") as file:
            head = json.loads(file.metadata()["progress"])
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise CourseError(f"{path} is no checkpoint of a run ({error}); remove it") from None
    check_progress(head, path)
    return head


def _first(found: State, experiment: Experiment) -> State:
    """With what this run begins with, if that is not there yet or only its figures are."""
    if (first := earlier(experiment)) is None:
        return found
    folder = results.run_folder(first)
    weights = folder / f"{experiment.start_weights}.safetensors"
    name = first.name + f" with {first.variant}" * bool(first.variant)
    if not (folder / "result.json").exists():
        return replace(found, error=f"the weights of {name}")
    if weights.exists():
        return found
    return replace(
        found, name="blocked",
        error=f"it begins with the weights of {name}, of which only the result is here; "
        f"bring {weights} as well",
    )  # fmt: skip


# A plan ------------------------------------------------------------------------------------------


def run_plan(
    plan: Plan,
    workers: int = 1,
    minutes: float | None = None,
    retry: bool = False,
    backend: str = "loky",
    progress: bool = True,
) -> list[State]:
    """Do the plan's unfinished runs, `workers` at a time; one state for each run of the plan.

    Within the budget of `minutes`: then training pauses with a checkpoint and goes on at the next
    call. Failed runs are left alone unless `retry`. A run that begins with another's weights comes
    after it. The cores are shared out evenly. Each worker sees one GPU, dealt out in turn.
    """
    from tqdm import tqdm

    if workers < 1:
        raise CourseError(f"workers must be at least 1, not {workers}")
    if minutes is not None and minutes <= 0:
        raise CourseError(f"the budget must be above 0 minutes, not {minutes}")
    check_backend(backend)
    end = None if minutes is None else time.time() + 60 * minutes
    # what saving a checkpoint and closing the notebooks may take
    deadline = None if end is None else end - min(60, 2 + 3 * minutes)
    start_by = math.inf if end is None else deadline - START_SECONDS
    if start_by < time.time():
        raise CourseError(f"in {minutes:g} minutes no run can begin; give it a quarter at least")
    tried = {}

    def jobs() -> dict[str, Job]:
        """What can be begun now, runs that were begun earlier first."""
        if time.time() > start_by:
            return {}
        states = [state(p) for p in plan.runs if p.key not in tried]
        left = {"waiting", "paused", "running"} | ({"failed"} if retry else set())
        states = [s for s in states if s.name in left and not s.waits]
        states.sort(key=lambda s: s.name != "paused")
        return {
            s.planned.key: Job(s.folder, *_notebook(s, deadline), workers, start_by, retry)
            for s in states
        }

    with tqdm(total=0, unit="run", disable=not progress) as bar:
        while ready := jobs():
            bar.total += len(ready)
            each = _slots(ready, workers, end) if backend == "loky" else _remote(ready, backend)
            for key, trouble in each:
                tried[key] = trouble
                bar.set_postfix_str(key, refresh=False)
                bar.update()
    return [_after(s, tried.get(s.planned.key)) for s in states_of(plan)]


def states_of(plan: Plan) -> list[State]:
    """Where each run stands; one that waits for weights that the plan does not make is blocked."""
    states = [state(planned) for planned in plan.runs]
    made = {s.folder for s in states}
    return [
        replace(s, name="blocked", error=f"it begins with {s.error}, which no run here makes")
        if s.waits and results.run_folder(earlier(s.planned.experiment())) not in made
        else s
        for s in states
    ]


def _after(found: State, trouble: tuple[str, str] | None) -> State:
    """Where a run stands, with what its folder does not tell."""
    if not trouble or found.name not in ("waiting", "paused"):
        return found
    return replace(
        found, name=trouble[0], error=f"{trouble[1]}; it is tried again at the next call"
    )


def notebook(experiment: Experiment) -> Path:
    """The source of the notebook that runs an experiment."""
    name = "21_train_translator" if experiment.translates else "20_train_language_model"
    return notebook_source.select([name])[0]


def _notebook(found: State, deadline: float | None) -> tuple[Path, dict]:
    """(source, parameters) that do a run."""
    p = found.planned
    parameters = {"RECIPE": p.recipe, "PROFILE": p.profile, "SEED": p.seed}
    parameters |= {"CHANGE": json.loads(json.dumps(p.change)), "FOLDER": str(found.folder)}
    return notebook(p.experiment()), parameters | {"DEADLINE": deadline or 0}


def check_backend(backend: str) -> None:
    """CourseError for an unknown back end of joblib, or one that is not installed."""
    from importlib.util import find_spec

    if backend not in BACKENDS:
        raise unknown("back end", backend, BACKENDS)
    needs = BACKENDS[backend]
    if needs and find_spec(needs) is None:
        raise CourseError(f"the back end {backend} is not installed; pip install {needs}")


def _slots(jobs: dict[str, Job], workers: int, end: float | None) -> Iterator[tuple]:
    """(key, what `execute` returns) as runs end, in slots with a process, and a GPU, each."""

    def limit(job: Job) -> float | None:
        if time.time() > job.start_by:
            return 0
        return None if end is None else max(0.1, end - time.time())

    gpus = visible_gpus()
    seen = [{"CUDA_VISIBLE_DEVICES": gpu} for gpu in gpus] if len(gpus) > 1 else [{}]
    # One that does not pause in time is stopped; its last checkpoint is a minute old at most.
    for key, trouble in run_in_workers(execute, jobs, workers, limit, seen):
        yield key, ("killed", KILLED) if trouble == KILLED else trouble


def visible_gpus() -> list[str]:
    """The GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them."""
    import torch

    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    count = torch.cuda.device_count()
    return given.split(",")[:count] if given else [str(i) for i in range(count)]


def _remote(jobs: dict[str, Job], backend: str) -> Iterator[tuple]:
    """The same, by the workers of a dask or ray cluster."""
    from joblib import Parallel, delayed, parallel_config

    if backend == "dask":  # the scheduler in DASK_SCHEDULER_ADDRESS, else one on this machine
        from distributed import Client as Cluster
    else:  # the cluster in RAY_ADDRESS, else one on this machine
        from ray import init as Cluster
        from ray.util.joblib import register_ray

        register_ray()
    with Cluster(), parallel_config(backend=backend, n_jobs=-1):
        as_they_come = "generator_unordered" if backend == "dask" else "list"  # not by ray
        each = Parallel(batch_size=1, return_as=as_they_come)
        yield from each(delayed(_keyed)(key, job) for key, job in jobs.items())


def _keyed(key: str, job: Job) -> tuple:
    return key, execute(job)


# Reports and results -----------------------------------------------------------------------------


def table(states: list[State]) -> str:
    """One line a run: recipe, variant, seed, and where it stands."""
    rows = [("recipe", "variant", "seed", "state")]
    rows += [(s.planned.recipe, s.planned.variant, str(s.planned.seed), str(s)) for s in states]
    a, b, c = (max(len(row[i]) for row in rows) for i in range(3))
    return "\n".join(f"{r:<{a}}  {v:<{b}}  {n:>{c}}  {s}" for r, v, n, s in rows)


def summary(states: list[State]) -> str:
    """`8 runs: 5 done, 2 waiting, 1 failed; about 12 minutes of training remain`."""
    counts = {}
    for s in states:
        counts[s.name] = counts.get(s.name, 0) + 1
    text = f"{len(states)} runs: " + ", ".join(f"{n} {name}" for name, n in counts.items())
    minutes, without = remaining(states)
    if minutes:
        text += f"; about {minutes:.1f} minutes of training remain"
    return text + f"; of {without} the length is not known yet" * bool(without)


def remaining(states: list[State]) -> tuple[float, int]:
    """(minutes of training that the unfinished runs still need, one at a time; runs without).

    A run that has finished an epoch is judged by itself, another by runs of its recipe and profile.
    """
    whole: dict = {}
    for s in states:
        if s.share and s.seconds:
            like = (s.planned.recipe, s.planned.profile)
            whole.setdefault(like, []).append(s.seconds / s.share)
    seconds, without = 0.0, 0
    for s in states:
        like = whole.get((s.planned.recipe, s.planned.profile))
        if s.name not in ("waiting", "running", "paused", "killed"):
            continue
        if s.share and s.seconds:
            seconds += s.seconds / s.share - s.seconds
        elif like:
            seconds += sum(like) / len(like)
        else:
            without += 1
    return seconds / 60, without


def merge(plan: Plan, folder: Path) -> dict[str, str]:
    """Take over results of the plan's runs from `folder`, the `runs` of another machine.

    What became of each that was found: "copied", "the same" or why it is refused. A result that
    differs from the one here, is damaged, or is of another experiment is refused. Weights that lie
    beside a result come with it: finetuning and test-time adaptation begin with them. They take the
    place of other weights here; where none come, those stay, and who would use them is told.
    """
    folder, found = Path(folder), {}
    for planned in plan.runs:
        source, experiment = folder / planned.key, planned.experiment()
        if not (source / "result.json").exists():
            continue
        target = results.run_folder(experiment)
        try:
            found[planned.key] = _merged(results.result_of(source, experiment), source, target)
        except (CourseError, Timeout) as error:
            found[planned.key] = f"refused: {error}"
    if not found:
        first = plan.runs[0].key
        raise CourseError(f"{folder} has no result of the plan, such as {first}/result.json")
    return found


def _merged(content: dict, source: Path, target: Path) -> str:
    target.mkdir(parents=True, exist_ok=True)
    with FileLock(target / RUN, timeout=1), FileLock(target / TRAINING, timeout=1):
        same = (target / "result.json").exists()
        if same and results.read_result(target)["sha256"] != content["sha256"]:
            raise CourseError(f"{target} has a different result; remove one of the two")
        lacking = (source / "arrays.npz").exists() and not (target / "arrays.npz").exists()
        arrays = results.read_arrays(source) if lacking or not same else {}
        said = content["provenance"].get("weights", {})  # nothing by older versions
        brought = []
        for name in ("last", "best"):
            here, there = (folder / f"{name}.safetensors" for folder in (target, source))
            results.check_weights(there, content)
            if here.exists() and (said.get(name) == file_digest(here) or same and not said):
                continue
            if there.exists():
                brought.append((here, there))
        for here, there in brought:
            write_atomically(here, there.read_bytes())
        if lacking or not same:
            results.write(target, content, arrays)
        (target / "failed.json").unlink(missing_ok=True)
    return "the same" if same else "copied"


def keep(plan: Plan) -> list[Path]:
    """Copy the results of all finished runs to where they are committed; returns the folders."""
    return [keep_result(s.folder) for s in map(state, plan.runs) if s.name == "done"]
