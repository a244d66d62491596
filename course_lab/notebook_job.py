"""Execute the notebook of one run, in a worker process.

The worker imports no PyTorch; the notebook's kernel does. The worker holds the lock of the run's
folder, and the system frees the lock of a process that dies.
"""

import json
import math
import os
import re
import tempfile
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

import nbformat
from filelock import FileLock, Timeout

from course_lab import notebook_source
from course_lab.locks import RUN, TRAINING, held

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")


@dataclass(frozen=True)
class Job:
    """A run to be done: what a worker needs and no more."""

    folder: Path  # of the run
    source: Path  # of the notebook
    parameters: dict  # of the notebook
    share: int = 1  # the cores are divided into so many parts
    start_by: float = math.inf  # as time.time() counts; later the run is not begun
    retry: bool = False  # whether a run that failed is begun again
    packages: Path = notebook_source.ROOT  # the folder whose course_lib and course_lab are run

    @property
    def threads(self) -> int:
        """The threads of a kernel: a share of the cores that the job may use.

        A job of Slurm may use those that were asked for, also on a node that does not bind it to
        them.
        """
        from joblib import cpu_count

        cores = min(cpu_count(), int(os.environ.get("SLURM_CPUS_PER_TASK", cpu_count())))
        return max(1, cores // self.share)


def execute(job: Job) -> tuple[str, str] | None:
    """Do a run; return None where its folder tells how it went, else its state and the reason.

    The state is "killed" or "failed". A run is not begun when it is done, when another process
    holds its folder, when it failed before, or when it is too late.
    """
    if time.time() > job.start_by:
        return None
    try:
        job.folder.mkdir(parents=True, exist_ok=True)
        # The lock is waited for: who asks where a run stands takes it for a moment.
        with FileLock(job.folder / RUN, timeout=1):
            failed = (job.folder / "failed.json").exists()
            done = (job.folder / "result.json").exists()
            if (failed and not job.retry) or (done and not failed):
                return None
            if held(job.folder / TRAINING, seconds=1):  # by a training that was begun by hand
                return None
            return _train(job)
    except Timeout:
        return None
    except Exception as failure:  # such as a full disk; the other runs go on
        return "failed", first_line(f"{type(failure).__name__}: {failure}")


def _train(job: Job) -> tuple[str, str] | None:
    """Execute the notebook of a run; write failed.json where a cell of it fails."""
    from nbclient.exceptions import DeadKernelError
    from papermill.exceptions import PapermillExecutionError

    executed = job.folder / "notebook.ipynb"
    failed = job.folder / "failed.json"
    failed.unlink(missing_ok=True)
    try:
        execute_notebook(job.source, job.parameters, executed, job.threads, job.packages)
    except PapermillExecutionError as failure:
        if failure.ename != "Paused":
            error = first_line(f"{failure.ename}: {failure.evalue}")
            part = job.folder / ".failed.json.part"
            part.write_text(json.dumps({"cell": lesson_cell(executed), "error": error}), "utf-8")
            os.replace(part, failed)
    except DeadKernelError:
        return "killed", "its kernel was killed (out of memory?)"
    return None


def execute_notebook(
    source: Path,
    parameters: dict,
    executed: Path,
    threads: int,
    packages: Path = notebook_source.ROOT,
) -> None:
    """Execute a notebook in a kernel of its own, which hashes alike in every run.

    Arguments:
        source: the notebook's `.py`; it runs in the folder of that file, or where the course is an
            installed package in the working folder, which holds the runs.
        parameters: the values of its `parameters` cell.
        executed: the file that receives the executed notebook.
        threads: the threads with which the kernel computes.
        packages: the folder from which the kernel imports course_lib and course_lab.

    Raises what papermill raises.
    """
    import papermill

    # The environment may hold another checkout of the course; the packages that ask come first.
    path = os.pathsep.join(filter(None, (str(packages), os.environ.get("PYTHONPATH"))))
    environment = dict.fromkeys(THREADS, str(threads)) | {"PYTHONHASHSEED": "0"}
    environment |= {"PYTHONPATH": path}
    papermill.execute_notebook(
        notebook_source.read(source),
        str(executed),
        parameters=parameters,
        kernel_name="python3",
        progress_bar=False,
        record_timing=False,
        cwd=str(source.parent if notebook_source.IN_REPOSITORY else Path.cwd()),
        kernel_manager_class=kernel_manager(environment),
    )


def kernel_manager(environment: dict[str, str]) -> type:
    """Return the class of a kernel's manager, which adds `environment` to that of this process."""
    from jupyter_client.manager import AsyncKernelManager

    class Manager(AsyncKernelManager):
        async def start_kernel(self, **options):
            await super().start_kernel(**options, env=os.environ | environment)

    return by_sockets(Manager)


def by_sockets(manager: type) -> type:
    """Return the class of a kernel's manager that reaches the kernel by socket files.

    Where the system has none it stays with TCP ports. Free ports are looked up, let go, and opened
    again by the kernel: of two kernels that start at the same moment one can lose its port in
    between, and its notebook then waits for ever.
    """
    from traitlets import default

    if os.name == "nt":
        return manager

    def path(self) -> str:
        return str(Path(tempfile.gettempdir()) / f"course-{uuid.uuid4().hex[:12]}")

    return type(
        "SocketManager", (manager,), {"transport": "ipc", "_ip_default": default("ip")(path)}
    )


def lesson_cell(executed: Path) -> int | None:
    """Return the number of the failing cell, from 1, without the cells that papermill adds."""
    added = {"papermill-error-cell-tag", "injected-parameters"}
    cells = nbformat.read(executed, as_version=4).cells
    cells = [cell for cell in cells if added.isdisjoint(notebook_source.tags(cell))]
    for number, cell in enumerate(cells, 1):
        if any(output.output_type == "error" for output in cell.get("outputs", ())):
            return number
    return None


def first_line(error: str, width: int = 160) -> str:
    """Return an error's message on one line, without terminal colours."""
    text = " ".join(re.sub(r"\x1b\[[0-9;]*m", "", error).split())
    return text if len(text) <= width else text[: width - 1] + "…"
