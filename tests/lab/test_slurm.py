"""Runs of a plan as jobs of a cluster: submitit's local one always, a real Slurm each night."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from course_lab import batch, slurm
from course_lab.batch_states import states_of
from course_lab.notebook_job import Job
from course_lab.plans import read_plan
from course_lab.resources import Resources
from course_lib.data import folders
from course_lib.errors import CourseError
from tests import slurm_node

PLAN = """title = "t"
{table}
[[runs]]
recipes = ["docstrings/transformer-128/tied"]
profile = "smoke"
seeds = {seeds}
change = {{"optimisation.epochs" = {epochs}, "size" = 8, "encoder.head_size" = 8}}
"""


def plan_of(tmp_path, seeds, epochs=1, table=""):
    path = tmp_path / "mine.toml"
    path.write_text(PLAN.format(seeds=seeds, epochs=epochs, table=table), encoding="utf-8")
    return read_plan(path)


def test_a_plan_says_what_its_runs_ask_for(tmp_path):
    plan = plan_of(tmp_path, [1], table='slurm = {gpus = 2, hours = 0.5, partition = "long"}')
    asked = plan.slurm.parameters(at_once=3)
    assert (asked["gpus_per_node"], asked["timeout_min"], asked["slurm_partition"]) == (
        2,
        30,
        "long",
    )
    assert asked["slurm_array_parallelism"] == 3 and "mem_gb" not in asked
    moment = plan_of(tmp_path, [1], table="slurm = {hours = 0.005}").slurm.parameters(1)
    assert moment["timeout_min"] == 1  # 0 would be no limit
    with pytest.raises(CourseError, match="gpu"):
        plan_of(tmp_path, [1], table="slurm = {gpu = 2}")
    with pytest.raises(CourseError, match="hours"):
        plan_of(tmp_path, [1], table="slurm = {hours = 0}")
    with pytest.raises(CourseError, match="gpus"):
        plan_of(tmp_path, [1], table="slurm = {gpus = -1}")


def test_a_run_with_several_gpus_is_told_how_many(tmp_path):
    plan = plan_of(tmp_path, [1], table="slurm = {gpus = 4}")
    (state,) = states_of(plan)
    assert batch._job(state, plan.slurm.gpus, None, 1, 0.0, False).parameters["PROCESSES"] == 4
    assert "PROCESSES" not in batch._job(state, 1, None, 1, 0.0, False).parameters


def test_only_a_cluster_gives_a_run_several_gpus(tmp_path, monkeypatch):
    """A worker of this machine sees one at most, so its run would wait for the others' ranks."""
    plan = plan_of(tmp_path, [1], table="slurm = {gpus = 4}")
    asked = {}

    def back_end(name):
        def begin(jobs, *rest):
            asked[name] = [job.parameters.get("PROCESSES") for job in jobs.values()]
            yield from ((key, ("failed", "not begun")) for key in jobs)

        return begin

    monkeypatch.setattr(batch, "check_backend", lambda name: None)
    monkeypatch.setattr(batch, "_local", back_end("loky"))
    monkeypatch.setattr(batch, "run_on_cluster", back_end("slurm"))
    for name in ("loky", "slurm"):
        batch.run_plan(plan, backend=name, progress=False)
    assert asked == {"loky": [None], "slurm": [4]}


def test_without_slurm_the_error_says_where_to_go(monkeypatch):
    pytest.importorskip("submitit")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(CourseError, match="sbatch is not found: .* login node"):
        batch.check_backend("slurm")


def test_jobs_end_each_with_its_own_outcome(tmp_path, monkeypatch):
    """By submitit's executor for this machine, with processes of its own as on a cluster."""
    pytest.importorskip("submitit")
    monkeypatch.setattr(slurm, "CLUSTER", "local")
    jobs = {
        "late": Job(tmp_path / "late", Path("none.py"), {}, start_by=0.0),
        "broken": Job(tmp_path / "broken", tmp_path / "none.py", {}),
    }
    outcomes = dict(slurm.run_on_cluster(jobs, Resources(hours=0.2), 2, tmp_path / "printed"))
    assert outcomes["late"] is None
    assert outcomes["broken"][0] == "failed" and "none.py" in outcomes["broken"][1]


def test_a_run_may_be_many_times_as_long_as_its_jobs(tmp_path, monkeypatch):
    """Submitit gives a job up that has reached its hours three times."""
    submitit = pytest.importorskip("submitit")
    made = []

    class Executor(submitit.AutoExecutor):
        def update_parameters(self, **parameters):
            made.append(self._executor)
            raise KeyboardInterrupt

    monkeypatch.setattr(submitit.SlurmExecutor, "affinity", lambda self: 1)
    monkeypatch.setattr(shutil, "which", lambda name: name)
    monkeypatch.setattr(submitit, "AutoExecutor", Executor)
    with pytest.raises(KeyboardInterrupt):
        next(slurm.run_on_cluster({}, Resources(), 1, tmp_path))
    assert made[0].max_num_timeout == slurm.REQUEUED > 100


def test_what_has_not_ended_is_cancelled(tmp_path, monkeypatch):
    pytest.importorskip("submitit")
    monkeypatch.setattr(slurm, "CLUSTER", "local")
    jobs = {"late": Job(tmp_path / "late", Path("none.py"), {}, start_by=0.0)}
    jobs["slow"] = Job(tmp_path / "slow", Path("none.py"), {})
    monkeypatch.setattr(slurm, "Requeued", Slow)
    pickled = pytest.importorskip("cloudpickle")  # whose other process knows no module of tests
    pickled.register_pickle_by_value(sys.modules[__name__])
    outcomes = slurm.run_on_cluster(jobs, Resources(hours=0.2), 2, tmp_path / "printed")
    assert next(outcomes)[0] == "late"
    written = tmp_path / "slow.pid"
    assert within(60, lambda: written.exists() and written.read_text())
    outcomes.close()
    assert within(20, lambda: not lives(int(written.read_text()))), "the job goes on"


def within(seconds, holds):
    """Return whether something holds before so many seconds have gone by."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def lives(pid):
    """Return whether a process is there and has not ended."""
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


class Slow:
    """A job that sleeps, unless it is the late one."""

    def __call__(self, job):
        if job.folder.name == "slow":
            job.folder.with_suffix(".pid").write_text(str(os.getpid()))
            time.sleep(600)


# A real cluster ----------------------------------------------------------------------------------


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    """Start a Slurm of one node, as root, and end it afterwards."""
    with slurm_node.started(tmp_path, monkeypatch):
        yield tmp_path


@pytest.mark.nightly
def test_a_plan_on_slurm_with_a_kill_and_a_requeue(cluster, monkeypatch):
    """Each run is done exactly once, also one whose job is queued again in the middle."""
    pytest.importorskip("submitit")
    monkeypatch.setattr(folders, "home", lambda: cluster)
    plan = plan_of(cluster, [1, 2, 3], epochs=6, table="slurm = {hours = 0.2, cpus = 1}")
    requeued = []

    def interrupt(outcomes):
        """Queue the first job again as soon as it has a checkpoint, as a cluster would."""
        first = plan.runs[0]
        path = cluster / "runs" / first.key / "last.safetensors"
        deadline = time.monotonic() + 240
        while not path.exists() and time.monotonic() < deadline:
            time.sleep(0.2)
        running = ["squeue", "-h", "-t", "R", "-o", "%i"]  # 1_0, the first of the array
        listed = subprocess.run(running, capture_output=True, text=True).stdout
        number = sorted(listed.split())[0]
        subprocess.run(["scontrol", "requeue", number], check=True)
        requeued.append(number)
        yield from outcomes

    original = batch.run_on_cluster
    monkeypatch.setattr(batch, "run_on_cluster", lambda *a: interrupt(started(original(*a))))
    states = batch.run_plan(plan, workers=2, backend="slurm", progress=False)
    assert requeued and [state.name for state in states] == ["done"] * 3
    assert batch.run_plan(plan, workers=2, backend="slurm", progress=False) == states


def started(outcomes):
    """Begin a generator, whose first outcome is handed on later."""
    import itertools
    import threading

    box = []
    thread = threading.Thread(target=lambda: box.extend(outcomes))
    thread.start()

    def rest():
        thread.join()
        yield from box

    return itertools.chain(rest())
