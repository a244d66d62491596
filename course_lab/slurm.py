"""The runs of a plan as jobs of a Slurm cluster, by submitit.

A job that reaches its time limit, or that the cluster takes back for another one, is queued again
and goes on from the run's last checkpoint.
"""

import shutil
from collections.abc import Generator
from pathlib import Path

from course_lab.notebook_job import Job, execute
from course_lab.resources import Resources
from course_lib.errors import CourseError

CLUSTER = "slurm"
REQUEUED = 1000  # times that a job may reach its hours; submitit would give up after three


class Requeued:
    """A run that is queued again where it is interrupted; submitit calls it, and `checkpoint`."""

    def __call__(self, job: Job) -> tuple[str, str] | None:
        """Do the run, or go on with it."""
        return execute(job)

    def checkpoint(self, job: Job):
        """Return what is queued in the place of this job: the same run, which has a checkpoint."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self, job)


def check_cluster() -> None:
    """Raise CourseError where there is no Slurm to submit to."""
    if shutil.which("sbatch") is None:
        raise CourseError("sbatch is not found: call `batch run` on a login node of the cluster")


def run_on_cluster(
    jobs: dict[str, Job], resources: Resources, at_once: int, folder: Path
) -> Generator[tuple[str, tuple[str, str] | None], None, None]:
    """Yield (key, what `execute` returns) as jobs of the cluster end.

    jobs: by key.
    resources: what each of them asks for.
    at_once: how many run at the same time at most.
    folder: on a disk that the nodes share; receives what the jobs print.

    When the iterator is closed, the jobs that have not ended are cancelled.
    """
    from submitit import AutoExecutor
    from submitit.core.utils import FailedJobError, UncompletedJobError
    from submitit.helpers import as_completed

    executor = AutoExecutor(folder / "%j", cluster=CLUSTER, slurm_max_num_timeout=REQUEUED)
    executor.update_parameters(**resources.parameters(at_once))
    with executor.batch():
        submitted = [(executor.submit(Requeued(), job), key) for key, job in jobs.items()]
    keys = {job.job_id: key for job, key in submitted}
    pending = dict(submitted)
    try:
        for done in as_completed([job for job, _ in submitted]):
            del pending[done]
            try:
                yield keys[done.job_id], done.result()
            except (FailedJobError, UncompletedJobError) as error:
                *_, last = str(error).strip().splitlines() or ["it left no message"]
                yield keys[done.job_id], ("killed", f"job {done.job_id}: {last}")
    finally:
        for job in pending:
            job.cancel()
