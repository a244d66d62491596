"""Start several processes that train one experiment together."""

import os
import subprocess
import sys
from pathlib import Path

import torch

from course_lab import results
from course_lab.experiment import Experiment
from course_lab.recipes import elsewhere
from course_lab.results import Result
from course_lab.run import run
from course_lib.errors import CourseError, Paused
from course_lib.ranges import Count, checked

# Options of `run` that the command line of another process takes, each in its own words.
PASSED_ON = ("device", "checkpoint_seconds", "deadline", "patience")


@checked
def launch(experiment: Experiment, processes: Count | None = None, **options) -> Result:
    """Run an experiment as `run` does, over all GPUs of this machine when there are several.

    A notebook is one process. For more than one, `torchrun` is started on the same experiment, and
    the result that it leaves is read.

    experiment: what is trained.
    processes: by default as many GPUs as share the columns of a batch evenly, and 1 without a GPU
        or with device="cpu".
    options: those of `run`.

    CourseError for an option that does not reach other processes, such as a callback, and where
    one of them fails; `Paused` where they stopped at the deadline.
    """
    if processes is None:
        processes = 1 if options.get("device") == "cpu" else _processes(experiment)
    if processes == 1:
        return run(experiment, **options)
    if unable := sorted(set(options) - {"folder", "progress", *PASSED_ON}):
        raise CourseError(f"with {processes} processes there is no {', '.join(unable)}")
    folder = Path(options.get("folder") or results.run_folder(experiment))
    folder.mkdir(parents=True, exist_ok=True)
    results.write_json(folder / "experiment.json", experiment.to_dict())
    quiet = {} if options.get("progress", True) else {"TQDM_DISABLE": "1"}
    command = _command(experiment, folder, processes, options)
    done = subprocess.run(command, env=os.environ | quiet)
    if done.returncode:
        raise CourseError(f"the workers failed with exit code {done.returncode}; see above")
    if not results.is_done(folder):
        raise Paused(f"{experiment.name} paused at its deadline; run it again")
    return run(experiment, folder, device=options.get("device", "auto"))  # reads what is done


def _processes(experiment: Experiment) -> int:
    """Return the largest number of this machine's GPUs that share a batch evenly."""
    most = 1 if experiment.is_counted else max(1, torch.cuda.device_count())
    if experiment.translates:  # pairs are shared by any number
        return most
    o = experiment.optimisation
    even = (n for n in range(1, most + 1) if o.batch % (n * o.accumulate) == 0)
    return max(even, default=1)


def _command(experiment: Experiment, folder: Path, processes: int, options: dict) -> list[str]:
    """Return the command of all processes for the experiment.json in its folder."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", str(processes), "-m", "course_lab", "train"]
    command += [str(folder / "experiment.json"), "--folder", str(folder)]
    for file in elsewhere.files_of(experiment):
        command += ["--with", str(file.path)]
    for name in PASSED_ON:
        if options.get(name) is not None:
            command += [f"--{name.replace('_', '-')}", str(options[name])]
    return command
