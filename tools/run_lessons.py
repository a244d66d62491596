"""Run the course: every notebook through papermill, several at a time, only what changed.

An executed notebook lies in `<target>/NAME.ipynb` beside a marker `NAME.done` with the hash of
all that decides its output: its source, the library, kept results, the parameters. A failing
notebook does not stop the others; papermill's copy of it, with the error inside, goes to
`<target>/failed/`.
"""

import hashlib
import json
import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

import nbformat

from course_lab import notebook_source
from course_lab.notebook_job import execute_notebook, first_line, lesson_cell
from course_lab.workers import KILLED, run_in_workers
from course_lib.errors import CourseError, unknown

READ = ("course_lib", "course_lab", "data/plans", "data/results", "data/published.csv")
READ += ("data/contexts.csv", "data/frequencies.csv", "data/records.csv")


@dataclass(frozen=True)
class Job:
    """One notebook to be executed: what a worker process needs, and no more."""

    source: Path
    target: Path  # folder of the executed notebooks
    parameters: dict
    threads: int
    hash: str


@dataclass(frozen=True)
class Outcome:
    """The outcome of a notebook, whose `status` is done, unchanged or failed."""

    name: str
    status: str
    minutes: float
    cell: int | None = None  # of the failing cell, from 1, as the reader counts them
    error: str = ""


def complete(source: Path, parameters: dict, target: Path) -> dict:
    """Return the parameters with which `source` is executed into the folder `target`.

    source      the notebook's source
    parameters  what the command line gives
    target      the folder of the executed notebooks

    A notebook with a parameter FOLDER goes on with the run it finds there. In `smoke` and `quick`
    it is given an empty one below `target`, so that it shows what the library does now; longer
    runs stay where the notebook keeps them, to be resumed. Raises CourseError unless the notebook's
    `parameters` cell declares every parameter.
    """
    from papermill import inspect_notebook

    known = inspect_notebook(notebook_source.read(source))
    for name in parameters:
        if name not in known:
            raise unknown(f"parameter of {source.stem}", name, known)
    if "FOLDER" in known and parameters.get("PROFILE") in ("smoke", "quick"):
        return {"FOLDER": str(target / "runs" / source.stem)} | parameters
    return parameters


def library_hash(*paths: Path) -> str:
    """Return a SHA-256 over the names and contents of files and folders.

    Without `paths` they are all that lessons read: library, laboratory, plans, kept results and
    published figures.
    """
    digest = hashlib.sha256()
    for top in paths or [notebook_source.ROOT / name for name in READ]:
        for path in sorted(top.rglob("*")) if top.is_dir() else [top]:
            if path.is_file() and "__pycache__" not in path.parts:
                digest.update(f"{path.relative_to(top.parent).as_posix()}\0".encode())
                digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def job_hash(source: Path, parameters: dict, threads: int, library: str) -> str:
    """Return a SHA-256 of all that decides a notebook's output.

    source      the notebook's source
    parameters  what is given for its `parameters` cell
    threads     of the kernel, on whose number the rounding of sums depends
    library     the hash of what lessons read
    """
    decides = [source.read_text("utf-8"), sorted(parameters.items()), threads, library]
    return hashlib.sha256(json.dumps(decides).encode()).hexdigest()


def is_done(job: Job) -> dict | None:
    """Return the marker of an execution that is still valid, else None."""
    marker = job.target / f"{job.source.stem}.done"
    try:
        done = json.loads(marker.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    current = done.get("hash") == job.hash and (job.target / f"{job.source.stem}.ipynb").is_file()
    return done if current else None


def execute(job: Job) -> Outcome:
    """Execute one notebook in this process; whatever goes wrong is returned as an outcome."""
    from papermill.exceptions import PapermillExecutionError

    name = job.source.stem
    final = job.target / f"{name}.ipynb"
    marker = job.target / f"{name}.done"
    trial = job.target / "failed" / f"{name}.ipynb"
    begin = time.perf_counter()
    cell = None
    try:
        for old in (marker, final):
            old.unlink(missing_ok=True)
        shutil.rmtree(job.target / "runs" / name, ignore_errors=True)
        trial.parent.mkdir(parents=True, exist_ok=True)
        execute_notebook(job.source, job.parameters, trial, job.threads)
        settle(trial, final)
        minutes = (time.perf_counter() - begin) / 60
        marker.write_text(json.dumps({"hash": job.hash, "minutes": minutes}), "utf-8")
        return Outcome(name, "done", minutes)
    except PapermillExecutionError as failure:
        cell = lesson_cell(trial)
        error = f"{failure.ename}: {failure.evalue}"
    except Exception as failure:  # a dead kernel, a full disk: the other notebooks go on
        error = f"{type(failure).__name__}: {failure}"
    minutes = (time.perf_counter() - begin) / 60
    return Outcome(name, "failed", minutes, cell, first_line(error))


def settle(trial: Path, final: Path) -> None:
    """Move an executed notebook to `final` without what differs from run to run (times, paths)."""
    notebook = nbformat.read(trial, as_version=4)
    notebook.metadata.pop("papermill", None)
    for number, cell in enumerate(notebook.cells):
        cell.metadata.pop("papermill", None)
        if "injected-parameters" in notebook_source.tags(cell):
            cell["id"] = f"injected-parameters-{number}"
    nbformat.write(notebook, trial)
    os.replace(trial, final)


def run_course(
    sources: list[Path],
    target: Path,
    parameters: dict,
    workers: int = 2,
    progress: bool = True,
) -> list[Outcome]:
    """Execute notebooks, several at a time; return the outcome of each.

    sources     the notebooks' sources
    target      the folder of the executed notebooks, where those with a valid marker stay
    parameters  given to every notebook
    workers     notebooks executed at the same time, each with its part of the cores
    progress    whether a bar is shown

    Raises CourseError for parameters that a notebook lacks.
    """
    from joblib import cpu_count
    from tqdm import tqdm

    if workers < 1:
        raise CourseError(f"workers must be at least 1, not {workers}")

    # What is to be executed, and what is there already.
    threads = max(1, cpu_count() // workers)
    library = library_hash()
    jobs = []
    for source in sources:
        given = complete(source, parameters, target)
        jobs.append(Job(source, target, given, threads, job_hash(source, given, threads, library)))
    outcomes = {}
    for job in jobs:
        if done := is_done(job):
            outcomes[job.source.stem] = Outcome(job.source.stem, "unchanged", done["minutes"])

    # The execution, the longest notebooks first.
    waiting = [job for job in jobs if job.source.stem not in outcomes]
    waiting.sort(key=lambda job: -stated_minutes(job))
    with tqdm(total=len(waiting), unit="notebook", disable=not progress) as bar:
        for name, outcome in run_in_workers(execute, {j.source.stem: j for j in waiting}, workers):
            if outcome == KILLED:
                outcome = Outcome(name, "failed", 0, None, f"{KILLED}; try fewer workers")
            outcomes[name] = outcome
            bar.set_postfix_str(f"{name} {outcome.status}", refresh=False)
            bar.update()
    return [outcomes[job.source.stem] for job in jobs]


def stated_minutes(job: Job) -> float:
    """Return the minutes that the lesson states for its profile, 0 where it states none."""
    try:
        stated = notebook_source.minutes(job.source)
    except CourseError:
        return 0.0
    return stated.get(job.parameters.get("PROFILE", "quick"), 0.0)


def table(outcomes: list[Outcome]) -> str:
    """Return the summary: notebook, minutes, status, and for a failure the cell and the error."""
    width = max([len(o.name) for o in outcomes] + [8])
    lines = [f"{'notebook':<{width}}  minutes  status"]
    for o in outcomes:
        where = f"  cell {o.cell}: {o.error}" if o.cell else f"  {o.error}" if o.error else ""
        lines.append(f"{o.name:<{width}}  {o.minutes:7.1f}  {o.status}{where}")
    return "\n".join(lines)
