"""Execute the notebook of one run, in a worker process; it imports no PyTorch, the kernel does.

The worker holds the lock of the run's folder. The system frees the lock of a process that dies.
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
    """A run to be done; what a worker needs and no more."""

    folder: Path
    source: Path  # of the notebook
    parameters: dict
    share: int = 1  # into so many parts the cores are divided
    start_by: float = math.inf  # too late to begin after that, as time.time() counts
    retry: bool = False

    @property
    def threads(self) -> int:
        """Of the machine that asks, which on a cluster is the one that executes."""
        from joblib import cpu_count

        return max(1, cpu_count() // self.share)


def execute(job: Job) -> tuple[str, str] | None:
    """Do a run; None where its folder tells how it went, else ("killed" or "failed", why).

    It is left alone when it is done, held by another, failed before, or when it is too late.
    """
    if time.time() > job.start_by:
        return None
    try:
        job.folder.mkdir(parents=True, exist_ok=True)
        # who asks where a run stands takes its locks for a moment
        with FileLock(job.folder / RUN, timeout=1):
            failed = (job.folder / "failed.json").exists()
            if failed and not job.retry or (job.folder / "result.json").exists() and not failed:
                return None
            if held(job.folder / TRAINING, seconds=1):  # begun by hand
                return None
            return _train(job)
    except Timeout:
        return None
    except Exception as failure:  # a full disk, say: the other runs go on
        return "failed", first_line(f"{type(failure).__name__}: {failure}")


def _train(job: Job) -> tuple[str, str] | None:
    from nbclient.exceptions import DeadKernelError
    from papermill.exceptions import PapermillExecutionError

    executed, failed = job.folder / "notebook.ipynb", job.folder / "failed.json"
    failed.unlink(missing_ok=True)
    try:
        execute_notebook(job, executed)
    except PapermillExecutionError as failure:
        if failure.ename != "Paused":
            error = first_line(f"{failure.ename}: {failure.evalue}")
            part = job.folder / ".failed.json.part"
            part.write_text(json.dumps({"cell": lesson_cell(executed), "error": error}), "utf-8")
            os.replace(part, failed)
    except DeadKernelError:
        return "killed", "its kernel was killed (out of memory?)"
    return None


def execute_notebook(job, executed: Path) -> None:
    """Execute the notebook job.source, beside which it runs, with job.parameters into `executed`.

    The kernel computes with job.threads threads and hashes alike in every run. Raises what
    papermill raises.
    """
    import papermill

    os.environ |= dict.fromkeys(THREADS, str(job.threads)) | {"PYTHONHASHSEED": "0"}
    papermill.execute_notebook(
        notebook_source.read(job.source),
        str(executed),
        parameters=job.parameters,
        kernel_name="python3",
        progress_bar=False,
        record_timing=False,
        cwd=str(job.source.parent),
        kernel_manager_class=kernel_manager(),
    )


def kernel_manager() -> type:
    """How kernels are reached: by socket files where there are any, else by TCP ports.

    A kernel's free ports are looked up, let go, and opened again by the kernel. Of two that start
    at the same moment one can lose its port in between, and its notebook then waits for ever.
    """
    from jupyter_client.manager import AsyncKernelManager
    from traitlets import default

    if os.name == "nt":
        return AsyncKernelManager
    path = Path(tempfile.gettempdir()) / f"course-{uuid.uuid4().hex[:12]}"
    names = {"transport": "ipc", "_ip_default": default("ip")(lambda self: str(path))}
    return type("SocketKernelManager", (AsyncKernelManager,), names)


def lesson_cell(executed: Path) -> int | None:
    """Number, from 1, of the failing cell, as the lesson counts (papermill adds cells)."""
    added = {"papermill-error-cell-tag", "injected-parameters"}
    cells = nbformat.read(executed, as_version=4).cells
    cells = [cell for cell in cells if added.isdisjoint(notebook_source.tags(cell))]
    for number, cell in enumerate(cells, 1):
        if any(output.output_type == "error" for output in cell.get("outputs", ())):
            return number
    return None


def first_line(error: str, width: int = 160) -> str:
    """An error's message on one line, without terminal colours."""
    text = " ".join(re.sub(r"\x1b\[[0-9;]*m", "", error).split())
    return text if len(text) <= width else text[: width - 1] + "…"
