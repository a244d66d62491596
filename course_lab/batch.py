"""Run a plan: the notebook of every run through papermill, several at a time, never one twice.

A run's folder holds, beside what training leaves there, `notebook.ipynb` as it was executed,
`failed.json` if it failed, and locks (`course_lab.locks`): this and other calls, on this machine
and on others that share the disk, leave a locked run alone.
"""

import json
import math
import os
import time
from collections.abc import Generator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Gt, Le

from course_lab import notebook_source, results
from course_lab.batch_states import State, state, states_of
from course_lab.experiment import Experiment
from course_lab.notebook_job import Job, execute, first_line
from course_lab.plans import Plan
from course_lab.slurm import check_cluster, run_on_cluster
from course_lab.workers import KILLED, run_in_workers
from course_lib.errors import CourseError, unknown
from course_lib.ranges import Count, checked

# and what each needs installed
BACKENDS = {"loky": None, "dask": "distributed", "ray": "ray", "slurm": "submitit"}
START_SECONDS = 10  # a run takes about this long to its first step; with less left none is begun
Minutes = Annotated[float, Gt(0), Le(525_600)]  # a year, well below what a clock can wait for


@checked
def run_plan(
    plan: Plan,
    workers: Count = 1,
    minutes: Minutes | None = None,
    retry: bool = False,
    backend: str = "loky",
    progress: bool = True,
) -> list[State]:
    """Do the unfinished runs of a plan; return where each of its runs stands afterwards.

    A run that begins with another's weights comes after that one. The cores are shared out evenly.
    Each worker sees one GPU, dealt out in turn.

    Arguments:
        plan: the runs.
        workers: how many runs are done at the same time.
        minutes: the budget; then training pauses with a checkpoint, to go on at the next call.
        retry: whether runs that failed are begun again.
        backend: loky, or dask, ray or slurm for a cluster.
        progress: whether a bar is shown.

    Raises CourseError for a number out of its range, for a budget in which no run can begin, and
    for a back end that is unknown or not installed.
    """
    from tqdm import tqdm

    # The budget's three times: what is going on pauses, nothing is begun any more, the end
    check_backend(backend)
    deadline = end = None
    start_by = math.inf
    if minutes is not None:
        end = time.time() + 60 * minutes
        # what saving a checkpoint and closing the notebooks may take
        deadline = end - min(60, 2 + 3 * minutes)
        start_by = deadline - START_SECONDS
        if start_by < time.time():
            raise CourseError(
                f"in {minutes:g} minutes no run can begin; give it a quarter at least"
            )

    share = 1 if backend == "slurm" else workers  # a cluster's job has its own cores
    gpus = plan.slurm.gpus if backend == "slurm" else 0  # a worker here has one at most
    tried: dict[str, tuple[str, str] | None] = {}

    def jobs() -> dict[str, Job]:
        """Return what can be begun now, runs that were begun earlier first."""
        if time.time() > start_by:
            return {}
        states = [state(p) for p in plan.runs if p.key not in tried]
        # Who only asks where a run stands takes its lock and lets it look like running.
        unfinished = {"waiting", "paused", "running"} | ({"failed"} if retry else set())
        states = [s for s in states if s.name in unfinished and not s.waits]
        states.sort(key=lambda s: s.name != "paused")
        return {s.planned.key: _job(s, gpus, deadline, share, start_by, retry) for s in states}

    # Round by round, as finished runs let others begin
    with tqdm(total=0, unit="run", disable=not progress) as bar:
        while ready := jobs():
            bar.total += len(ready)
            bar.refresh()
            if backend == "loky":
                outcomes = _local(ready, workers, end)
            elif backend == "slurm":
                printed = results.runs_folder() / ".slurm"
                outcomes = run_on_cluster(ready, plan.slurm, workers, printed)
            else:
                outcomes = _remote(ready, backend)
            with closing(outcomes):  # an interruption ends the workers
                for key, trouble in outcomes:
                    tried[key] = trouble
                    bar.set_postfix_str(key, refresh=False)
                    bar.update()
    return [_after(s, tried.get(s.planned.key)) for s in states_of(plan)]


def _after(now: State, trouble: tuple[str, str] | None) -> State:
    """Return where a run stands, with the trouble that its folder does not tell."""
    if not trouble or now.name not in ("waiting", "paused"):
        return now
    name, reason = trouble
    return replace(now, name=name, error=f"{reason}; it is tried again at the next call")


def notebook(experiment: Experiment) -> Path:
    """Return the source of the notebook that runs an experiment."""
    name = "21_train_translator" if experiment.translates else "20_train_language_model"
    return notebook_source.select([name])[0]


def _job(
    now: State, gpus: int, deadline: float | None, share: int, start_by: float, retry: bool
) -> Job:
    """Return a run as a worker takes it; more than one of `gpus` train it together."""
    planned = now.planned
    parameters = {
        "RECIPE": planned.recipe,
        "PROFILE": planned.profile,
        "SEED": planned.seed,
        "CHANGE": json.loads(json.dumps(planned.change)),
        "FOLDER": str(now.folder),
        "DEADLINE": deadline or 0,
    }
    if gpus > 1:
        parameters["PROCESSES"] = gpus
    source = notebook(planned.experiment())
    return Job(now.folder, source, parameters, share, start_by, retry)


# The back ends -----------------------------------------------------------------------------------


def check_backend(backend: str) -> None:
    """Raise CourseError for a back end that is unknown or not installed."""
    from importlib.util import find_spec

    if backend not in BACKENDS:
        raise unknown("back end", backend, BACKENDS)
    needs = BACKENDS[backend]
    if needs and find_spec(needs) is None:
        raise CourseError(f"the back end {backend} is not installed; pip install {needs}")
    if backend == "slurm":
        check_cluster()


def _local(jobs: dict[str, Job], workers: int, end: float | None) -> Generator[tuple, None, None]:
    """Yield (key, what `execute` returns) as runs end, by workers of this machine."""

    def limit(job: Job) -> float | None:
        if time.time() > job.start_by:
            return 0
        return None if end is None else max(0.1, end - time.time())

    gpus = visible_gpus()
    seen = [{"CUDA_VISIBLE_DEVICES": gpu} for gpu in gpus] if len(gpus) > 1 else [{}]
    # A run that does not pause in time is stopped; its last checkpoint is a minute old at most.
    with closing(run_in_workers(execute, jobs, workers, limit, seen)) as outcomes:
        for key, trouble in outcomes:
            yield key, ("killed", KILLED) if trouble == KILLED else trouble


def visible_gpus() -> list[str]:
    """Return the GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them."""
    import torch

    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    count = torch.cuda.device_count()
    return given.split(",")[:count] if given else [str(i) for i in range(count)]


def _remote(jobs: dict[str, Job], backend: str) -> Generator[tuple, None, None]:
    """Yield (key, what `execute` returns) as runs end, by the workers of a dask or ray cluster.

    A cluster may give up where it has lost workers. The runs of which it has told nothing are then
    killed ones, and the next call goes on with them.
    """
    from joblib import Parallel, delayed, parallel_config

    if backend == "dask":  # the scheduler in DASK_SCHEDULER_ADDRESS, else one on this machine
        from distributed import Client as Cluster  # pyright: ignore[reportMissingImports]
    else:  # the cluster in RAY_ADDRESS, else one on this machine
        from ray import init as Cluster  # pyright: ignore[reportMissingImports]
        from ray.util.joblib import register_ray  # pyright: ignore[reportMissingImports]

        register_ray()
    with Cluster(), parallel_config(backend=backend, n_jobs=-1):
        as_they_come = "generator_unordered" if backend == "dask" else "list"  # not by ray
        options: dict[str, Any] = {"batch_size": 1, "return_as": as_they_come}
        each: Any = Parallel(**options)
        waiting = set(jobs)
        try:
            for key, trouble in each(delayed(_keyed)(key, job) for key, job in jobs.items()):
                waiting.remove(key)
                yield key, trouble
        except Exception as lost:
            reason = first_line(f"the cluster gave up: {type(lost).__name__}: {lost}")
            for key in sorted(waiting):
                yield key, ("killed", reason)


def _keyed(key: str, job: Job) -> tuple:
    return key, execute(job)
