"""Several processes that train one model: how they begin, and how long one waits for another."""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState, PartialState
from accelerate.utils import InitProcessGroupKwargs
from torch import distributed

from course_lib.errors import unknown

# Seconds. In training all processes do the same at the same time, so that one which does not answer
# for minutes hangs. Loading a corpus or searching at test time may take one of them much longer.
PATIENCE = 600.0
LONG_PATIENCE = 7_200.0


def accelerator_on(
    device: str,
    patience: float = PATIENCE,
    trackers: Sequence[str] = (),
    folder: Path | None = None,
) -> Accelerator:
    """Return accelerate's object for a device, whatever an earlier run in this process had.

    It computes in float32, because training and evaluation decide on their own precision.

    device: "auto" or "cpu"; CourseError for another.
    patience: seconds that a process waits for another.
    trackers: names that accelerate knows, such as tensorboard; they are started later.
    folder: where trackers that write files write them.
    """
    if device not in ("auto", "cpu"):
        raise unknown("device", device, ("auto", "cpu"))
    cpu = device == "cpu" or not torch.cuda.is_available()
    if PartialState._shared_state:  # accelerate keeps one for the whole process
        now: Any = PartialState()
        if now.num_processes == 1 and (now.device.type == "cpu") != cpu:
            AcceleratorState._reset_state(reset_partial_state=True)
    waiting = InitProcessGroupKwargs(timeout=timedelta(seconds=patience))
    accelerator = Accelerator(
        cpu=cpu,
        mixed_precision="no",
        kwargs_handlers=[waiting],
        log_with=list(trackers) or None,
        project_dir=folder if trackers else None,
    )
    # An update's micro-batches have their weights; the environment would beat an argument.
    accelerator.gradient_accumulation_steps = 1
    return accelerator


class Meeting:
    """A point that all processes reach, each in its own time, up to `LONG_PATIENCE` apart.

    All processes must make it together and wait at it equally often. For one process it is nothing.
    """

    def __init__(self, accelerator: Accelerator):
        self.group: Any = None
        if accelerator.num_processes > 1:
            timeout = timedelta(seconds=LONG_PATIENCE)
            self.group = distributed.new_group(backend="gloo", timeout=timeout)

    def wait(self) -> None:
        """Wait for the others; a RuntimeError names the processes that did not come."""
        if self.group is not None:
            distributed.monitored_barrier(self.group, wait_all_ranks=True)
