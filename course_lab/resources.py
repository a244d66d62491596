"""The resources that each run of a plan asks of a Slurm cluster."""

from dataclasses import dataclass

from course_lab.validation import CONFIG
from course_lib.ranges import Count, Positive, Whole

SIGNAL_SECONDS = 90  # before the time limit, when the job is asked to stop


@dataclass(frozen=True)
class Resources:
    """The table [slurm] of a plan: the resources that each of its runs asks of the cluster."""

    __pydantic_config__ = CONFIG

    hours: Positive = 24.0  # a longer run is queued again
    cpus: Count = 4
    gpus: Whole = 0  # more than one train one model together
    memory_gb: Count | None = None  # None: what the cluster gives
    partition: str | None = None
    account: str | None = None
    constraint: str | None = None  # a kind of node, such as h100

    def parameters(self, at_once: int) -> dict:
        """Return them as submitit names them; `at_once` jobs run at the same time at most."""
        named = {
            "name": "course",
            "timeout_min": max(1, round(60 * self.hours)),  # 0 would be no limit
            "cpus_per_task": self.cpus,
            "gpus_per_node": self.gpus,
            "mem_gb": self.memory_gb,
            "slurm_partition": self.partition,
            "slurm_account": self.account,
            "slurm_constraint": self.constraint,
            "slurm_array_parallelism": at_once,
            "slurm_signal_delay_s": SIGNAL_SECONDS,
        }
        return {name: value for name, value in named.items() if value is not None}
