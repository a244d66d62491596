"""Batches: killed, broken, paused, moved away and merged back, and still never a run twice."""

import contextlib
import dataclasses
import errno
import json
import math
import os
import shutil
import subprocess
import sys
import threading
import time
import types
from pathlib import Path

import joblib
import nbformat
import numpy as np
import psutil
import pytest
import torch
from filelock import FileLock
from joblib import parallel
from joblib._parallel_backends import ThreadingBackend
from safetensors.torch import save_file
from typer.testing import CliRunner

import course_lab
from course_lab import batch, batch_states, cost, locks, notebook_source, plans, rates, results
from course_lab.batch import run_plan
from course_lab.batch_states import State, remaining, state, states_of, summary
from course_lab.cli import batch as command
from course_lab.locks import RUN, TRAINING, held
from course_lab.merge import keep, merge
from course_lab.notebook_job import Job, execute
from course_lab.planned import Planned
from course_lib.data import folders
from course_lib.errors import CourseError
from course_lib.training.checkpoint import PROGRESS, load_checkpoint, save_checkpoint

BASE = "ptb/vd-lstm-200/tied"
PARAMETERS = """# %% tags=["parameters"]
PROFILE = "quick"  # profile
RECIPE = ""  # recipe
SEED = 1  # seed
FOLDER = ""  # of the run
CHANGE = {}  # settings
DEADLINE = 0  # when to pause

# %%
import os, shutil, time
from pathlib import Path
def log(word):
    with open(Path(LOG), "a") as file:
        seen = [os.environ.get(n, "") for n in ("CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS")]
        file.write(f"{SEED} {word} {'/'.join(seen)}\\n")
log("begins")
"""
# What a run is to the batch, in no time: it brings a result made beforehand. While there is a
# deadline, 1 pauses at it and 2 does not care for it; 4 once kills its worker; 13 is unlucky.
BRINGS = """
# %%
if SEED == 1 and DEADLINE:
    from course_lib.errors import Paused
    shutil.copy(Path(READY, "last.safetensors"), FOLDER)
    time.sleep(DEADLINE - time.time())
    raise Paused("paused at its deadline")

# %%
if SEED == 4 and not Path(FOLDER, "once").exists():
    Path(FOLDER, "once").touch()
    os.kill(os.getppid(), 9)
    time.sleep(60)

# %%
time.sleep(3600 if SEED == 2 and DEADLINE else 0.5)
if SEED == 13:
    raise ValueError("unlucky")

# %%
log("ends")
shutil.copy(Path(READY, f"{SEED}.json"), Path(FOLDER, "result.json"))
"""


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Runs and kept results lie elsewhere; the text of the notebook is chosen by the test."""
    monkeypatch.setattr(folders, "home", lambda: tmp_path / "home")
    (tmp_path / "ready").mkdir()
    (tmp_path / "home" / "data" / "plans").mkdir(parents=True)
    return tmp_path


def use(monkeypatch, home, text):
    """Every run is done by this notebook."""
    source = home / "20_short.py"
    names = f"LOG = {str(home / 'log')!r}\nREADY = {str(home / 'ready')!r}\n"
    head, body = PARAMETERS.split("# %%\nimport")
    source.write_text(f"{head}# %%\n{names}import{body}{text}", "utf-8")
    monkeypatch.setattr(batch, "notebook", lambda experiment: source)
    return source


def written(home, *tables, name="mine", profile="smoke"):
    text = 'title = "a title"\n'
    for table in tables:
        text += f'[[runs]]\nrecipes = ["{BASE}"]\nprofile = "{profile}"\n{table}\n'
    path = home / "home" / "data" / "plans" / f"{name}.toml"
    path.write_text(text, "utf-8")
    return plans.read_plan(path)


def finish(folder: Path, planned: Planned, valid=50.0, origin=None):
    """A result as a run of this experiment leaves it."""
    row = {"epoch": 1, "seconds": 50.0, "validation_seconds": 10.0, "train_perplexity": 60.0}
    metrics = {"best_epoch": 1, "valid_perplexity": valid, "test_perplexity": 40.0}
    origin = {"commit": "0"} | (origin or {})
    results.write_result(folder, planned.experiment(), [row], metrics, origin)


def ready(home, plan):
    for planned in plan.runs:
        finish(home / "made", planned)
        os.replace(home / "made" / "result.json", home / "ready" / f"{planned.seed}.json")


def logged(home, word):
    lines = (home / "log").read_text().split("\n")[:-1]
    return sorted(int(line.split()[0]) for line in lines if line.split()[1] == word)


def names(states):
    return {s.planned.seed: s.name for s in states}


def test_threads_are_the_share_of_the_machine_that_asks(monkeypatch):
    """A cluster's node has other cores than the machine that hands out the jobs."""
    job = Job(Path(), Path(), {}, share=5)
    for cores, threads in ((12, 2), (64, 12), (2, 1)):
        monkeypatch.setattr("joblib.cpu_count", lambda cores=cores: cores)
        assert job.threads == threads


def test_a_job_of_slurm_takes_no_more_threads_than_it_asked_for(monkeypatch):
    """A node that does not bind its jobs shows each of them all of its cores."""
    monkeypatch.setattr("joblib.cpu_count", lambda: 64)
    for cpus, share, threads in (("8", 1, 8), ("8", 2, 4), ("1", 1, 1), ("128", 1, 64)):
        monkeypatch.setenv("SLURM_CPUS_PER_TASK", cpus)
        assert Job(Path(), Path(), {}, share).threads == threads


# The whole of it ---------------------------------------------------------------------------------


def kill_worker_of(folder: Path, killed: list) -> None:
    """As soon as a run has been training for an epoch, with -9 the process that looks after it."""
    while not killed:
        time.sleep(0.1)
        if not (folder / "last.safetensors").exists():
            continue
        for process in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.Error):
                kernel = any("ipykernel" in word for word in process.cmdline())
                if kernel and any(f.path.startswith(str(folder)) for f in process.open_files()):
                    process.parent().kill()
                    killed.append(process.pid)


@pytest.mark.nightly
def test_eight_real_runs_killed_broken_paused_moved_and_merged(home):
    """The notebook itself, two workers, one process of them killed, one run with a learning rate
    that breaks it: every healthy run ends as if nothing had happened, and is done once."""
    plan = written(
        home,
        'seeds = [1, 2]\nchange = {"optimisation.epochs" = 60}',
        "seeds = [3, 4, 5, 6, 7]",
        'seeds = [13]\nchange = {"optimisation.learning_rate" = 1e30}',
    )
    first = names(run_plan(plan, workers=2, minutes=0.25, progress=False))
    assert len(first) == 8 and set(first.values()) <= {"done", "paused", "waiting", "failed"}
    assert set(first.values()) & {"paused", "waiting"}  # cut in the middle

    killed, folder = [], state(plan.runs[0]).folder
    shutil.rmtree(folder, ignore_errors=True)  # so that it trains for a while
    killer = threading.Thread(target=kill_worker_of, args=(folder, killed), daemon=True)
    killer.start()
    second = run_plan(plan, workers=2, progress=False)
    assert killed and names(second)[1] == "killed"
    third = run_plan(plan, workers=2, progress=False)
    healthy = [1, 2, 3, 4, 5, 6, 7]
    assert names(third) == dict.fromkeys(healthy, "done") | {13: "failed"}
    broken = next(s for s in third if s.planned.seed == 13)
    assert broken.cell and "the loss became" in broken.error
    for s in (third[0], third[2]):
        undisturbed = course_lab.run(
            s.planned.experiment(), home / f"alone {s.planned.seed}", progress=False
        )
        assert results.read_result(s.folder)["metrics"] == undisturbed.metrics

    other, moved = home / "other machine", third[:4]
    for s in moved:
        (other / s.planned.key).mkdir(parents=True)
        for name in ("result.json", "arrays.npz"):
            os.replace(s.folder / name, other / s.planned.key / name)
    assert merge(plan, other) == {s.planned.key: "copied" for s in moved}
    before = {s.planned.seed: (s.folder / "notebook.ipynb").stat().st_mtime for s in third[:7]}
    assert names(run_plan(plan, workers=2, progress=False)) == names(third)
    for s in third[:7]:
        assert (s.folder / "notebook.ipynb").stat().st_mtime == before[s.planned.seed]
    assert len(keep(plan)) == 7 and not results.kept_results()  # of the profile smoke


def test_eight_runs_killed_broken_paused_moved_and_merged(home, monkeypatch):
    use(monkeypatch, home, BRINGS)
    monkeypatch.setattr(batch, "START_SECONDS", 3)
    monkeypatch.setattr(batch, "visible_gpus", lambda: ["4", "7"])
    plan = written(home, "seeds = [1, 4, 2, 13, 5, 6, 7, 8]")
    ready(home, plan)
    checkpoint(home / "ready", 1)
    first = run_plan(plan, workers=2, minutes=1 / 3, progress=False)  # it does not wait for 2
    late = dict.fromkeys((2, 13, 5, 6, 7, 8), "waiting")  # the budget is cut in the middle
    assert names(first) == {1: "paused", 4: "killed"} | late
    killed = next(s for s in first if s.planned.seed == 4)
    assert str(killed) == (
        "killed: its worker was killed (out of memory?); it is tried again at the next call"
    )
    workers = {line.split()[2] for line in (home / "log").read_text().splitlines()}
    half = max(1, joblib.cpu_count() // 2)
    assert workers == {f"4/{half}", f"7/{half}"}  # each its own GPU and half of the cores

    second = run_plan(plan, workers=2, progress=False)
    healthy = [1, 2, 4, 5, 6, 7, 8]
    assert names(second) == dict.fromkeys(healthy, "done") | {13: "failed"}
    broken = next(s for s in second if s.planned.seed == 13)
    assert (broken.cell, broken.error) == (5, "ValueError: unlucky")
    assert logged(home, "ends") == healthy  # each exactly once
    begun = logged(home, "begins")
    assert [begun.count(seed) for seed in (1, 4, 5, 6, 7, 8, 13)] == [2, 2, 1, 1, 1, 1, 1]

    other = home / "other machine"
    moved = [s for s in second if s.planned.seed in (1, 4, 5, 8)]
    for s in moved:
        (other / s.planned.key).mkdir(parents=True)
        os.replace(s.folder / "result.json", other / s.planned.key / "result.json")
    assert names(map(state, plan.runs))[5] == "waiting"
    assert merge(plan, other) == {s.planned.key: "copied" for s in moved}
    third = run_plan(plan, workers=2, progress=False)
    assert names(third) == names(second) and logged(home, "begins") == begun
    assert len(keep(plan)) == 7 and not results.kept_results()  # of the profile smoke


def test_two_calls_at_once_do_every_run_once(home, monkeypatch):
    use(monkeypatch, home, BRINGS)
    plan = written(home, "seeds = [1, 2, 3, 13]")
    ready(home, plan)
    found = [None, None]

    def call(i):
        found[i] = run_plan(plan, workers=1, progress=False)

    calls = [threading.Thread(target=call, args=(i,)) for i in (0, 1)]
    for thread in calls:
        thread.start()
    for thread in calls:
        thread.join()
    assert logged(home, "begins") == [1, 2, 3, 13]
    assert logged(home, "ends") == [1, 2, 3]
    last = names(map(state, plan.runs))
    assert last == dict.fromkeys((1, 2, 3), "done") | {13: "failed"}
    assert any(names(f) == last for f in found)

    (home / "20_short.py").write_text(
        (home / "20_short.py").read_text().replace("raise ValueError", "print")
    )
    assert names(run_plan(plan, progress=False)) == last  # it is not tried again
    assert names(run_plan(plan, retry=True, progress=False))[13] == "done"
    assert logged(home, "ends") == [1, 2, 3, 13]


# One run -----------------------------------------------------------------------------------------


def job(planned, source, **options):
    """What `run_plan` gives a worker."""
    made = batch._job(state(planned), 0, options.pop("deadline", None), 1, math.inf, False)
    return dataclasses.replace(made, source=source, **options)


def test_the_real_notebook_pauses_at_its_deadline_and_goes_on(home):
    adam = {"optimizer": "adamw", "learning_rate": 1e-3, "betas": [0.5, 0.6]}
    change = {"encoder.dropout": 0.1} | {f"optimisation.{k}": v for k, v in adam.items()}
    planned = Planned(BASE, "smoke", 1, change)
    source = batch.notebook(planned.experiment())
    assert execute(job(planned, source, deadline=time.time())) is None
    paused = state(planned)
    assert str(paused) == "paused epoch 0 of 1"
    head = load_checkpoint(paused.folder / "last.safetensors")[1]
    assert head["step"] == 1 and head["identity"]["experiment"] == planned.experiment().identity()
    assert execute(job(planned, source)) is None
    whole = course_lab.run(planned.experiment(), home / "whole", progress=False)
    found = {k: whole.metrics[k] for k in ("valid_perplexity", "test_perplexity")}
    assert state(planned).figures == found  # as if it had not paused
    executed = nbformat.read(paused.folder / "notebook.ipynb", as_version=4)
    assert f"perplexity {found['test_perplexity']:.2f}" in str(executed.cells)


def test_a_worker_leaves_alone_what_is_held_done_failed_or_too_late(home, monkeypatch):
    source = use(monkeypatch, home, BRINGS)
    planned = written(home, "seeds = [1]").runs[0]
    folder = state(planned).folder
    assert execute(job(planned, source, start_by=time.time() - 1)) is None
    assert not folder.exists()
    folder.mkdir(parents=True)
    for lock in (RUN, TRAINING):  # by another worker, by hand
        held = threading.Event()

        def hold(lock=lock, held=held):
            with FileLock(folder / lock):
                held.set()
                time.sleep(2.5)

        holder = threading.Thread(target=hold)
        holder.start()
        held.wait()
        assert str(state(planned)) == "running epoch 0 of 1"
        assert execute(job(planned, source)) is None
        holder.join()
    (folder / "failed.json").write_text('{"cell": 4, "error": "ValueError: no"}')
    assert execute(job(planned, source)) is None
    finish(folder, planned)
    assert execute(job(planned, source)) is None
    assert not (folder / "failed.json").exists()  # a run that is done did not fail
    assert execute(job(planned, source, retry=True)) is None
    assert not (home / "log").exists()  # not one of them was begun


def test_whatever_goes_wrong_in_a_worker_is_a_value(home, monkeypatch):
    source = use(monkeypatch, home, "\n# %%\nos._exit(3)\n")
    planned = written(home, "seeds = [1]").runs[0]
    doomed = job(planned, source)
    assert execute(doomed) == ("killed", "its kernel was killed (out of memory?)")
    assert state(planned).name == "waiting"  # and will be tried again
    (home / "file").write_text("")
    name, error = execute(dataclasses.replace(doomed, folder=home / "file" / "run"))
    assert name == "failed" and "NotADirectoryError" in error


def test_a_worker_needs_no_pytorch():
    code = "import sys, course_lab.notebook_job; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_what_does_not_pause_is_stopped_with_the_budget(home, monkeypatch):
    source = use(monkeypatch, home, "\n# %%\nwhile True:\n    log('beats')\n    time.sleep(0.2)\n")
    runs = written(home, "seeds = [1, 2]").runs
    start_by = time.time() + 10
    jobs = {p.key: job(p, source, start_by=start_by) for p in runs}
    assert dict(batch._local(jobs, 1, start_by + 3)) == dict.fromkeys(jobs)  # it ends

    def beats():  # none where the machine is so busy that the kernel had not come up
        return (home / "log").read_text() if (home / "log").exists() else ""

    time.sleep(1)
    seen = beats()
    time.sleep(1.5)
    assert beats() == seen and "2 begins" not in seen  # no kernel lives on


# What a folder tells -----------------------------------------------------------------------------


def checkpoint(folder, epochs, step=0, seconds=0):
    rows = [{"seconds": 50.0, "validation_seconds": 10.0}] * epochs
    head = dict.fromkeys(PROGRESS, 0) | {"epochs": rows, "step": step, "seconds": seconds}
    head = json.dumps(head)
    folder.mkdir(parents=True, exist_ok=True)
    save_file({"x": torch.zeros(1)}, folder / "last.safetensors", {"progress": head})


def test_states_are_read_from_the_folder(home):
    planned = Planned(BASE, "smoke", 1, {"optimisation.epochs": 4})
    folder = results.run_folder(planned.experiment())
    assert str(state(planned)) == "waiting"
    checkpoint(folder, 1)
    assert str(state(planned)) == "paused epoch 1 of 4"
    (folder / "failed.json").write_text('{"cell": 7, "error": "ValueError: no"}')
    assert str(state(planned)) == "failed epoch 1 of 4 cell 7: ValueError: no"
    (folder / "failed.json").write_text('{"cell": 7')
    assert "blocked: failed.json is damaged" in str(state(planned))
    (folder / "failed.json").unlink()
    finish(folder, planned)
    assert str(state(planned)) == "done, valid perplexity 50.00, test perplexity 40.00"
    (folder / "result.json").write_text((folder / "result.json").read_text().replace("50.0", "5"))
    assert state(planned).name == "blocked" and "its own checksum" in str(state(planned))
    experiment = planned.experiment()
    results.write_result(results.run_folder(experiment), experiment, [], {"best_epoch": 1}, {})
    assert state(planned).name == "blocked" and "valid_perplexity = None" in str(state(planned))
    finish(folder, Planned(BASE, "smoke", 1, {"optimisation.epochs": 5}))
    assert "another experiment (optimisation.epochs is 5 there, 4 here" in str(state(planned))
    (folder / "result.json").unlink()
    (folder / "last.safetensors").write_bytes(b"cut off")
    assert "last.safetensors is no checkpoint" in str(state(planned))
    best = {"identity": {}, "epoch": 1}  # of a best epoch
    save_checkpoint(folder / "last.safetensors", {}, best)
    assert "no checkpoint of a run to go on with (it has no step" in str(state(planned))
    (folder / "last.safetensors").unlink()
    (folder / "figures.json").write_text("{}")  # of a search that its budget has cut
    assert str(state(planned)) == "paused epoch 0 of 4"


def result_without(key, folder, planned):
    """A result whose checksum is right and which has no `key`."""
    finish(folder, planned)
    content = results.read_result(folder)
    del content[key], content["sha256"]
    content["sha256"] = results._digest(content)
    (folder / "result.json").write_text(json.dumps(content))


DAMAGE = {
    "a list in failed.json": ("failed.json", "[1]"),
    "no error in failed.json": ("failed.json", '{"cell": 1}'),
    "a cell without a number": ("failed.json", '{"cell": "x", "error": "no"}'),
    "half a failed.json": ("failed.json", '{"cell": 7'),
    "a list in result.json": ("result.json", "[1]"),
    "half a result.json": ("result.json", '{"experiment": {'),
    "no text in result.json": ("result.json", "\udcff"),
    "depth without end": ("result.json", "[" * 100_000),
    "no header in a checkpoint": ("last.safetensors", "\0" * 8),
    "a header without end": ("last.safetensors", "\udcff" * 16),
}


@pytest.mark.parametrize("damage", [*DAMAGE, "metrics", "epochs", "provenance", "experiment"])
def test_a_damaged_folder_blocks_its_own_run_and_no_other(home, monkeypatch, damage):
    """Status, run, keep and merge go on with the other runs and say what is wrong with this one."""
    plan = written(home, "seeds = [1, 2]", profile="quick")
    bad, good = plan.runs
    folder, other = results.run_folder(bad.experiment()), home / "other"
    for place in (folder, other / bad.key):
        place.mkdir(parents=True)
        if damage in DAMAGE:
            name, text = DAMAGE[damage]
            (place / name).write_bytes(text.encode("utf-8", "surrogateescape"))
        else:
            result_without(damage, place, bad)
    finish(other / good.key, good)
    given = handed_out(monkeypatch)
    states = run_plan(plan, progress=False)
    assert [job.parameters["SEED"] for job in given] == [2]
    call = lambda *words: CliRunner().invoke(command.app, words)  # noqa: E731
    assert [s.name for s in states] == ["blocked", "waiting"] and states[0].error
    assert "blocked: " in call("status", "mine").output
    merged = call("merge", "mine", str(other))
    assert f"{good.key}: copied" in merged.output and not isinstance(merged.exception, CourseError)
    if (other / bad.key / "result.json").exists():
        assert f"{bad.key}: refused: " in merged.output and merged.exit_code == 1
    kept = call("keep", "mine")
    assert "kept " in kept.output and kept.exit_code == 1
    assert f"{bad.key}: refused: {states[0].error}" in kept.output


def test_the_rest_is_estimated_from_finished_epochs(home):
    four, other = {"optimisation.epochs": 4}, {"optimisation.epochs": 9}
    one, two, three = (Planned(BASE, "smoke", seed, four) for seed in (1, 2, 3))
    unlike = Planned("ptb/vd-lstm-200/baseline", "smoke", 1, other)
    checkpoint(results.run_folder(one.experiment()), 1)  # a minute an epoch
    states = [state(p) for p in (one, two, three, unlike)]
    assert remaining(states) == (60 * (3 + 4 + 4), states[3:])
    assert summary(states) == (
        "4 runs: 1 paused, 3 waiting; about 11 min remain, one run at a time; "
        "nobody knows yet how long 1 of them takes"
    )
    steps = Planned(BASE, "smoke", 1, {"optimisation.max_steps": 100, "optimisation.epochs": 50})
    checkpoint(results.run_folder(steps.experiment()), 2, step=40)
    assert remaining([state(steps)]) == (pytest.approx(180), [])
    few = Planned(BASE, "smoke", 1, {"optimisation.max_steps": 9_000, "optimisation.epochs": 3})
    checkpoint(results.run_folder(few.experiment()), 2, step=40)  # ends by its epochs
    assert remaining([state(few)]) == (pytest.approx(60), [])
    # within an epoch: its seconds belong to the share of the steps
    checkpoint(results.run_folder(steps.experiment()), 2, step=80, seconds=120.0)
    assert state(steps).seconds == 240
    assert remaining([state(steps)]) == (pytest.approx(60), [])


def test_the_rest_counts_what_stands_around_a_training(home):
    """The start of the kernel, the text and the final figures, as runs that are done had them."""
    one, two, three = (Planned(BASE, "smoke", seed) for seed in (1, 2, 3))
    unlike = Planned("ptb/vd-lstm-200/baseline", "smoke", 1)
    origin = {"last_start_seconds": 75.0, "last_training_seconds": 61.0}
    finish(results.run_folder(one.experiment()), one, origin=origin)
    assert state(one).around == 14
    assert remaining([state(one), state(two)])[0] == 60 + 14
    checkpoint(results.run_folder(unlike.experiment()), 1)  # of another recipe, which has one epoch
    assert remaining([state(one), state(unlike)])[0] == 14
    # the notebook says how long it took with its kernel
    notebook = nbformat.v4.new_notebook(metadata={"papermill": {"duration": 83.5}})
    path = state(one).folder / "notebook.ipynb"
    nbformat.write(notebook, path)
    assert state(one).around == 22.5
    path.write_text("{")
    assert state(one).around == 14
    # a run that was resumed in its final figures trained in an earlier call
    origin = {"last_start_seconds": 20.0, "last_training_seconds": 0.0}
    finish(results.run_folder(three.experiment()), three, origin=origin)
    assert state(three).around == 20
    assert remaining([state(s) for s in (one, two, three)])[0] == 60 + (14 + 20) / 2


def test_status_sums_what_nobody_knows_by_its_operations(home, monkeypatch):
    plan = written(home, "seeds = [1, 2]")
    here = rates.Measured(cost.Rates({"fp32": 1e9}, {"fp32": 1e9}), "a machine", 2, 0.0)
    monkeypatch.setattr(rates, "this_machine", lambda: here)
    experiment = plan.runs[0].experiment()
    one = cost.cost(experiment, here.rates)
    shown = CliRunner().invoke(command.app, ("status", "mine")).output
    assert "nobody knows yet how long 2 of them take" in shown
    assert 2 * one.flops / rates.H100["fp32"] < 1
    expected = f"{batch_states.about(2 * one.seconds)} on this machine, at least a part of a second"
    assert f"2 of them by their operations: {expected} on one H100" in shown
    assert str(here) in shown
    finish(results.run_folder(experiment), plan.runs[0])
    assert "operations" not in CliRunner().invoke(command.app, ("status", "mine")).output


def test_a_lock_that_is_taken_for_a_moment_is_not_held(tmp_path):
    """As by somebody who asks where a run stands."""
    path, taken, seen = tmp_path / ".lock", threading.Event(), threading.Event()

    def ask():
        with FileLock(path):
            taken.set()
            seen.wait()
            time.sleep(0.2)

    asking = threading.Thread(target=ask)
    asking.start()
    taken.wait()
    assert held(path)
    seen.set()
    assert not held(path, seconds=10)
    asking.join()


@pytest.mark.parametrize(("number", "refused"), [(errno.EROFS, False), (errno.EIO, True)])
def test_on_a_disk_that_is_only_read_no_lock_is_held(tmp_path, monkeypatch, number, refused):
    class Unwritable(FileLock):
        def acquire(self, *arguments, **options):
            raise OSError(number, "no")

    (tmp_path / ".lock").touch()
    monkeypatch.setattr(locks, "FileLock", Unwritable)
    with pytest.raises(OSError, match="no") if refused else contextlib.nullcontext():
        assert not held(tmp_path / ".lock")


def test_arrays_that_are_damaged_here_are_merged_anew(home):
    plan = plans.Plan(path=Path("p"), title="p", runs=(Planned(BASE, "smoke"),))
    (planned,) = plan.runs
    source, target = home / "other" / planned.key, results.run_folder(planned.experiment())
    figures = {"valid_perplexity": 50.0, "test_perplexity": 40.0}
    for folder in (source, target):
        results.write_result(
            folder, planned.experiment(), [], figures, {}, {"losses": np.arange(5.0)}
        )
    (target / "arrays.npz").write_bytes(b"cut off")
    assert merge(plan, home / "other") == {planned.key: "the same"}
    assert results.read_arrays(target)["losses"].tolist() == [0, 1, 2, 3, 4]
    for folder in (source, target):
        (folder / "arrays.npz").write_bytes(b"cut off")
    assert "arrays.npz is damaged" in merge(plan, home / "other")[planned.key]


def test_times_are_told_with_how_sure_they_are():
    told = [batch_states.about(seconds) for seconds in (0.2, 5, 720)]
    assert told == ["less than 1 s", "about 5 s", "about 12 min"]


def test_a_worker_waits_for_who_only_asks_where_a_run_stands(home, monkeypatch):
    source, asked = use(monkeypatch, home, BRINGS), threading.Event()
    planned = written(home, "seeds = [1]").runs[0]
    folder = state(planned).folder
    folder.mkdir(parents=True)

    def ask():
        with FileLock(folder / TRAINING):
            asked.set()
            time.sleep(0.3)

    asking = threading.Thread(target=ask)
    asking.start()
    asked.wait()
    execute(job(planned, source))
    asking.join()
    assert (home / "log").exists()  # it was begun


def test_a_run_waits_for_the_one_whose_weights_it_begins_with(home, monkeypatch):
    planned = [Planned(f"{BASE}/second-session", "smoke"), Planned(BASE, "smoke")]
    done = []

    def local(jobs, workers, end):
        for key, job in jobs.items():
            done.append(job.parameters["RECIPE"])
            finish(job.folder, next(p for p in planned if p.key == key))
            (job.folder / "last.safetensors").touch()
            yield key, None

    monkeypatch.setattr(batch, "_local", local)
    alone = plans.Plan(path=Path("p"), title="p", runs=tuple(planned[:1]))
    assert str(state(planned[0])) == f"waiting for the weights of {BASE}"
    assert str(run_plan(alone, progress=False)[0]) == (
        f"blocked: it begins with the weights of {BASE}, which no run here makes"
    )
    states = run_plan(plans.Plan(path=Path("p"), title="p", runs=tuple(planned)), progress=False)
    assert done == [BASE, f"{BASE}/second-session"] and {s.name for s in states} == {"done"}


# Results of other machines -----------------------------------------------------------------------


def test_merge_refuses_what_it_must_not_take_over(home):
    plan = written(home, "seeds = [1, 2, 3, 4, 5]")
    other = home / "other"
    with pytest.raises(CourseError, match="has no result of the plan, such as ptb/.*/result.json"):
        merge(plan, other)
    same, differs, damaged, another, new = plan.runs
    for planned in (same, differs, damaged, new):
        finish(other / planned.key, planned)
    finish(results.run_folder(same.experiment()), same)
    finish(results.run_folder(differs.experiment()), differs, valid=51.0)
    path = other / damaged.key / "result.json"
    path.write_text(path.read_text().replace("50.0", "10.0"))
    finish(other / another.key, Planned(BASE, "smoke", 99))
    (target := results.run_folder(new.experiment())).mkdir(parents=True)
    (target / "failed.json").write_text('{"cell": 1, "error": "on this machine"}')
    with FileLock(target / TRAINING):  # by hand, outside of any plan
        assert "could not be acquired" in merge(plan, other)[new.key]
    found = merge(plan, other)
    assert found[same.key] == "the same" and found[new.key] == "copied"
    assert "different result" in found[differs.key]
    assert "its own checksum" in found[damaged.key]
    assert "another experiment (seed is 99 there, 4 here)" in found[another.key]
    assert state(differs).figures["valid_perplexity"] == 51.0
    assert [state(p).name for p in plan.runs] == ["done", "done", "waiting", "waiting", "done"]
    assert merge(plan, other) == found | {new.key: "the same"}


def test_settings_of_a_run_are_those_of_the_one_it_waits_for(home):
    """A plan with both at one dropout does them in turn; with the second alone it is blocked."""
    change, name = {"encoder.dropout": 0.4}, f"{BASE}/second-session"
    runs = [Planned(BASE, "smoke"), *(Planned(n, "smoke", 1, change) for n in (BASE, name))]
    whole = states_of(plans.Plan(path=Path("p"), title="p", runs=tuple(runs)))
    said = f"the weights of {BASE} with encoder.dropout=0.4"
    assert [str(s) for s in whole] == ["waiting", "waiting", f"waiting for {said}"]
    found = states_of(plans.Plan(path=Path("p"), title="p", runs=(runs[0], runs[2])))
    assert str(found[1]) == f"blocked: it begins with {said}, which no run here makes"


def test_weights_come_with_a_merged_result(home):
    """What begins with them can go on; with the result alone it says what is missing."""
    runs = (Planned(BASE, "smoke"), Planned(f"{BASE}/second-session", "smoke"))
    plan = plans.Plan(path=Path("p"), title="p", runs=runs)
    first, source = plan.runs[0], home / "other" / plan.runs[0].key
    target = results.run_folder(first.experiment())
    finish(source, first)
    assert merge(plan, home / "other") == {first.key: "copied"}
    found = [str(s) for s in states_of(plan)]
    assert found[0].startswith("done") and found[1] == (
        f"blocked: it begins with the weights of {BASE}, of which only the result is here; "
        f"bring {target / 'last.safetensors'} as well"
    )
    for name in ("last", "best"):
        (source / f"{name}.safetensors").write_text(name)
    assert merge(plan, home / "other") == {first.key: "the same"}
    assert [(target / f"{n}.safetensors").read_text() for n in ("last", "best")] == ["last", "best"]
    assert str(states_of(plan)[1]) == "waiting"


def test_weights_of_another_training_do_not_pass_for_those_of_a_merged_result(home):
    """They make way for the right ones; alone they stay, and are refused when they are read."""
    plan = plans.Plan(path=Path("p"), title="p", runs=(Planned(BASE, "smoke"),))
    (planned,) = plan.runs
    experiment = planned.experiment()
    source, target = home / "other" / planned.key, results.run_folder(experiment)
    made = course_lab.run(experiment, source, progress=False)
    weights = (source / "best.safetensors").read_bytes()
    course_lab.run(experiment.change(seed=2), target, progress=False)
    (target / "result.json").unlink()
    kept = home / "kept"
    os.replace(source / "best.safetensors", kept)
    assert merge(plan, home / "other") == {planned.key: "copied"}
    for use in (course_lab.load_checkpoint, lambda f: course_lab.run(experiment, f)):
        with pytest.raises(CourseError, match="does not hold the weights of the result beside it"):
            use(target)
    os.replace(kept, source / "best.safetensors")
    assert merge(plan, home / "other") == {planned.key: "the same"}
    assert (target / "best.safetensors").read_bytes() == weights
    assert course_lab.run(experiment, target).metrics == made.metrics
    (source / "best.safetensors").write_bytes(b"others")
    (target / "best.safetensors").unlink()
    assert "refused" in merge(plan, home / "other")[planned.key]
    assert not (target / "best.safetensors").exists()


# Workers -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("minutes", "reserve"), [(1, 5), (10, 32), (60, 60)])
def test_a_budget_keeps_time_for_the_last_checkpoints(home, monkeypatch, minutes, reserve):
    """2 s and three in sixty, a minute at most; nothing begins in the last seconds before that."""
    plan = written(home, "seeds = [1]")
    given = handed_out(monkeypatch)
    monkeypatch.setattr(batch, "time", types.SimpleNamespace(time=lambda: 1e9))
    run_plan(plan, minutes=minutes, progress=False)
    (job,) = given
    assert job.parameters["DEADLINE"] == 1e9 + 60 * minutes - reserve
    assert job.start_by == job.parameters["DEADLINE"] - batch.START_SECONDS


@pytest.mark.parametrize("retry", [False, True])
def test_every_unfinished_run_is_handed_out(home, monkeypatch, retry):
    """Those that seem to run, too: perhaps somebody only asks where they stand."""
    plan = written(home, "seeds = [1, 2, 3, 4, 5, 6]")
    folders = [results.run_folder(p.experiment()) for p in plan.runs]
    waiting, paused, running, failed, done, blocked = folders
    checkpoint(paused, 0)
    for folder in (running, failed, blocked):
        folder.mkdir(parents=True)
    (failed / "failed.json").write_text('{"cell": 1, "error": "ValueError: no"}')
    (blocked / "result.json").write_text("[1]")
    finish(done, plan.runs[4])
    given = handed_out(monkeypatch)
    with FileLock(running / RUN):
        names = [s.name for s in states_of(plan)]
        run_plan(plan, retry=retry, progress=False)
    assert names == ["waiting", "paused", "running", "failed", "done", "blocked"]
    assert [job.folder for job in given] == [paused, waiting, running] + [failed] * retry


def handed_out(monkeypatch) -> list[Job]:
    """Return the list that receives the jobs of the next call, which are not done."""
    given = []

    def local(jobs, workers, end):
        given.extend(jobs.values())
        yield from dict.fromkeys(jobs).items()

    monkeypatch.setattr(batch, "_local", local)
    return given


def test_bad_input_is_refused_before_anything_runs(home):
    plan = written(home, "seeds = [1]")
    for options, message in [
        ({"workers": 0}, "workers must be a whole number of at least 1, not 0"),
        ({"workers": -1}, "workers must be a whole number of at least 1, not -1"),
        ({"minutes": 0}, "minutes must be a number above 0 and at most 525600 or none, not 0"),
        ({"minutes": math.nan}, "minutes must be a number above 0 .*, not nan"),
        ({"minutes": math.inf}, "minutes must be a number above 0 .*, not inf"),
        ({"minutes": 0.1}, "in 0.1 minutes no run can begin; give it a quarter at least"),
        ({"backend": "lokky"}, "unknown back end 'lokky'; did you mean loky"),
    ]:
        with pytest.raises(CourseError, match=message):
            run_plan(plan, **options)
    assert not (home / "home" / "runs").exists()


def test_a_back_end_that_is_not_installed_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(CourseError, match="back end dask is not installed; pip install distribut"):
        batch.check_backend("dask")
    batch.check_backend("loky")


@pytest.mark.parametrize(
    ("backend", "module", "client"), [("dask", "distributed", "Client"), ("ray", "ray", "init")]
)
def test_clusters_are_reached_through_joblib(home, monkeypatch, backend, module, client):
    """Threads in place of the cluster, which the course does not install."""
    plan = written(home, "seeds = [1, 2, 3]")
    source = use(monkeypatch, home, BRINGS)
    jobs = {p.key: job(p, source, start_by=time.time() - 1) for p in plan.runs}
    fake = types.ModuleType(module)
    setattr(fake, client, contextlib.nullcontext)
    monkeypatch.setitem(sys.modules, module, fake)
    register = types.ModuleType("ray.util.joblib")
    register.register_ray = lambda: None
    monkeypatch.setitem(sys.modules, "ray.util.joblib", register)
    monkeypatch.setitem(parallel.BACKENDS, backend, ThreadingBackend)
    assert dict(batch._remote(jobs, backend)) == dict.fromkeys(jobs), "too late for any of them"
    done = []
    monkeypatch.setattr(batch, "execute", lambda job: done.append(job) or job.folder)
    found = dict(batch._remote(jobs, backend))
    assert found == {key: job.folder for key, job in jobs.items()} and len(done) == 3
    # a cluster that loses a worker gives up: what it has not told is tried by the next call
    monkeypatch.setattr(batch, "execute", lambda job: 1 / 0 if job is last else None)
    last = list(jobs.values())[-1]
    found = dict(batch._remote(jobs, backend))
    assert found[plan.runs[-1].key][0] == "killed" and found.keys() == jobs.keys()
    assert "gave up: ZeroDivisionError" in found[plan.runs[-1].key][1]


@pytest.mark.parametrize(
    ("given", "count", "found"),
    [(None, 2, ["0", "1"]), ("3,5", 2, ["3", "5"]), (None, 0, []), ("", 0, [])],
)
def test_the_gpus_are_those_this_process_may_use(monkeypatch, given, count, found):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if given is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", given)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    assert batch.visible_gpus() == found


def test_papermill_hands_settings_to_a_notebook_as_json(tmp_path):
    """As the page on batches has it; papermill knows no tables, so the settings come as text."""
    settings = {"optimisation.epochs": 2, "size": 8, "encoder.units": 8}
    source = notebook_source.FOLDER / "20_train_language_model.ipynb"
    command = [sys.executable, "-m", "papermill", str(source), str(tmp_path / "done.ipynb")]
    command += ["-p", "RECIPE", BASE, "-p", "PROFILE", "smoke", "-p", "SEED", "3"]
    command += ["-p", "FOLDER", str(tmp_path / "run"), "-p", "CHANGE", json.dumps(settings)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    content = results.read_result(tmp_path / "run")["experiment"]
    assert content == Planned(BASE, "smoke", 3, settings).experiment().to_dict()


def test_settings_as_text_are_those_of_a_table():
    table = {"encoder.dropout": 0.4, "optimisation.clip": None}
    told = Planned(BASE, "smoke", 1, json.dumps(table))
    assert told == Planned(BASE, "smoke", 1, table) and isinstance(told.change, dict)
    assert Planned(BASE, "smoke", 1, "") == Planned(BASE, "smoke")
    for text in ("{", "[1]", "encoder.dropout=0.4", "3"):
        with pytest.raises(CourseError, match="settings are a JSON object, such as"):
            Planned(BASE, "smoke", 1, text)


def test_every_kind_of_experiment_has_its_notebook():
    language = course_lab.recipes[BASE]
    assert batch.notebook(language).stem == "20_train_language_model"
    translation = language.change(encoder=course_lab.part("Transformer"))
    if (notebook_source.FOLDER / "21_train_translator.py").exists():
        assert batch.notebook(translation).stem == "21_train_translator"
    else:
        with pytest.raises(CourseError, match="unknown notebook '21_train_translator'"):
            batch.notebook(translation)


# The command line --------------------------------------------------------------------------------


def test_commands(home, monkeypatch):
    plan = written(home, "seeds = [1, 2]")
    calls = []

    def run(plan, *options):
        calls.append(options)
        return [state(p) for p in plan.runs]

    monkeypatch.setattr(batch, "run_plan", run)
    call = lambda *words: CliRunner().invoke(command.app, words)  # noqa: E731
    one, two = plan.runs
    assert "no run of" in str(call("keep", "mine").exception)
    finish(results.run_folder(one.experiment()), one)
    result = call("status", "mine")
    assert result.exit_code == 0 and result.output.splitlines() == [
        "a title",
        "",
        "recipe                variant  seed  state",
        f"{BASE}              1  done, valid perplexity 50.00, test perplexity 40.00",
        f"{BASE}              2  waiting",
        "",
        "2 runs: 1 done, 1 waiting; about 60 s remain, one run at a time",
    ]
    result = call("run", "mine", "--workers", "2", "--budget", "5", "--retry", "--backend", "dask")
    assert result.exit_code == 0 and calls == [(2, 5.0, True, "dask")]
    folder = results.run_folder(two.experiment())
    folder.mkdir(parents=True)
    (folder / "failed.json").write_text('{"cell": 3, "error": "ValueError: no"}')
    result = call("run", "mine")
    assert result.exit_code == 1 and calls[1] == (1, None, False, "loky")
    assert "failed cell 3: ValueError: no" in result.output
    assert f"failed: {folder}" in result.output.replace("\n", "")
    kept = call("keep", "mine")
    assert kept.exit_code == 1 and "refused: " in kept.output
    assert "not done, and so not kept: 1 of 2 runs" in kept.output
    assert "the profile smoke, which shows that the code runs and is no result" in kept.output
    finish(home / "other" / two.key, two)
    assert call("merge", "mine", str(home / "other")).output == f"{two.key}: copied\n"
    finish(home / "other" / one.key, one, valid=1.0)
    result = call("merge", "mine", str(home / "other"))
    assert result.exit_code == 1 and "different result" in result.output
    assert isinstance(call("status", "mime").exception, CourseError)
    calls.clear()
    for option, value in (("workers", "0"), ("workers", "-1"), *(("budget", b) for b in BUDGETS)):
        refused = str(call("run", "mine", f"--{option}", value).exception)
        assert refused.startswith(f"--{option} must be a ") and refused.endswith(value)
    assert not calls


BUDGETS = ("nan", "inf", "-1.0", "0.0", "1e+300")


def test_the_summary_counts_states():
    planned = Planned(BASE, "smoke")
    waiting, failed = (State(planned, Path("f"), name) for name in ("waiting", "failed"))
    text = summary([waiting, failed, failed])
    assert text == "3 runs: 1 waiting, 2 failed; nobody knows yet how long 1 of them takes"
    assert summary([failed]) == "1 run: 1 failed"
