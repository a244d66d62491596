"""Several processes: accelerate's set-up of one, and the start of many."""

import sys
from pathlib import Path

import torch

from course_lab import results
from course_lab.checkpoints import load_checkpoint
from course_lab.experiment import Experiment
from course_lab.results import Result
from course_lab.run import run
from course_lib.errors import CourseError, Paused


def launch(experiment: Experiment, processes: int | None = None, **options) -> Result:
    """`run`, over all GPUs of this machine when there are several.

    A notebook is one process: for more than one it starts `torchrun` on the same experiment and
    reads what that leaves. `processes` defaults to as many GPUs as share the columns of a batch
    evenly, and 1 without one or with device="cpu".
    CourseError for an option of `run` that does not reach other processes, such as a callback.
    """
    import os
    import subprocess

    if processes is None:
        cpu, o = options.get("device") == "cpu", experiment.optimisation
        processes = most = 1 if cpu else max(1, torch.cuda.device_count())
        if not experiment.translates:
            shares = (n for n in range(1, most + 1) if o.batch % (n * o.accumulate) == 0)
            processes = max(shares, default=1)
    if processes == 1:
        return run(experiment, **options)
    reach = {"folder", "device", "deadline", "checkpoint_seconds", "progress"}
    if left := sorted(set(options) - reach):
        raise CourseError(f"with {processes} processes there is no {', '.join(left)}")
    folder = Path(options.get("folder") or results.run_folder(experiment))
    folder.mkdir(parents=True, exist_ok=True)
    results.write_json(folder / "experiment.json", experiment.to_dict())
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]
    command += [str(processes), "-m", "course_lab", "train", str(folder / "experiment.json")]
    command += ["--folder", str(folder), "--device", options.get("device", "auto")]
    command += ["--checkpoint-seconds", str(options.get("checkpoint_seconds", 60.0))]
    deadline = options.get("deadline")
    command += ["--deadline", str(deadline)] if deadline is not None else []
    quiet = {} if options.get("progress", True) else {"TQDM_DISABLE": "1"}
    done = subprocess.run(command, env=os.environ | quiet)
    if done.returncode:
        raise CourseError(f"the workers failed with exit code {done.returncode}; see above")
    if not (folder / "result.json").exists():
        raise Paused(f"{experiment.name} paused at its deadline; run it again")
    model, corpus, _ = load_checkpoint(folder)
    if torch.cuda.is_available() and options.get("device") != "cpu":
        model = model.to("cuda")  # where `run` leaves it
    content = results.read_result(folder)
    return Result(
        model, corpus, experiment, folder,
        content["epochs"], content["metrics"], content["provenance"],
    )  # fmt: skip
