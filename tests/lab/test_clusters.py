"""One plan of twelve runs on each engine, with kills and a requeue: each run once, same figures.

It takes some minutes an engine. Dask and Ray come with the extra `cluster`; for Slurm there is a
real one of one node where its daemons are, else submitit's executor for one machine.
`COURSE_NIGHTLY=1 python -m pytest -s tests/lab/test_clusters.py` prints a row for each engine.
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import psutil
import pytest

import course_lab
from course_lab import batch, notebook_source, results, slurm
from course_lab.locks import TRAINING
from course_lab.plans import read_plan
from course_lib.data import folders
from tests import slurm_node

pytestmark = pytest.mark.nightly
SEEDS = [1, 2, 3, 4, 5, 6]
PLAN = f"""title = "Twelve tiny runs"
slurm = {{hours = 0.2, cpus = 1}}
[[runs]]
recipes = ["docstrings/transformer-128/tied"]
profile = "smoke"
seeds = {SEEDS}
change = {{"optimisation.epochs" = 8, "size" = 8, "encoder.head_size" = 8}}
[[runs]]
recipes = ["ptb/vd-lstm-200/tied"]
profile = "smoke"
seeds = {SEEDS}
change = {{"optimisation.epochs" = 16, "size" = 8, "encoder.units" = 8}}
"""
TOLD = """

# %%
with open({log!r}, "a", encoding="utf-8") as file:
    file.write(f"{word} {{RECIPE}} {{SEED}}\\n")
"""
CALLS = 5  # of the batch at most, until everything is done
WORKERS = os.cpu_count() or 2  # one thread each, so that all engines compute the same digits


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The figures of each run by its key, as this process computes them alone."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        folder = tmp_path_factory.mktemp("alone")
        monkeypatch.setattr(folders, "home", lambda: folder)
        runs = read_plan(written(folder)).runs
        figures = {
            p.key: course_lab.run(p.experiment(), progress=False, device="cpu").metrics
            for p in runs
        }
    assert len(figures) == 12
    return figures


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Runs lie in a folder of their own, and their notebook tells when it begins and ends."""
    monkeypatch.setattr(folders, "home", lambda: tmp_path)
    text = (notebook_source.FOLDER / "20_train_language_model.py").read_text("utf-8")
    log = str(tmp_path / "log")
    begins = TOLD.format(log=log, word="begins")
    head, mark, rest = text.partition("\n# %% [markdown]\n# ## The recipe\n")
    assert mark
    source = tmp_path / "20_twelve.py"
    source.write_text(head + begins + mark + rest + TOLD.format(log=log, word="ends"), "utf-8")
    monkeypatch.setattr(batch, "notebook", lambda experiment: source)
    return tmp_path


def written(folder):
    path = folder / "twelve.toml"
    path.write_text(PLAN, "utf-8")
    return path


# The engines -------------------------------------------------------------------------------------


@contextlib.contextmanager
def local(folder, monkeypatch):
    yield "loky"


@contextlib.contextmanager
def dask(folder, monkeypatch):
    distributed = pytest.importorskip("distributed")
    config = pytest.importorskip("dask").config
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True}
    with (
        distributed.LocalCluster(**options, dashboard_address=None) as cluster,
        config.set({"scheduler-address": cluster.scheduler_address}),
    ):
        yield "dask"


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


@contextlib.contextmanager
def ray(folder, monkeypatch):
    pytest.importorskip("ray")
    short = tempfile.mkdtemp(prefix="ray-")  # its sockets' names must not be long
    command = [Path(sys.executable).with_name("ray"), "start", "--head", "--block"]
    port = free_port()  # above those that Ray gives to its workers, 10,002 to 19,999
    command += [f"--port={port}", "--num-cpus=2", "--include-dashboard=false"]
    command += ["--disable-usage-stats", f"--temp-dir={short}"]
    head = subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL)
    monkeypatch.setenv("RAY_ADDRESS", f"127.0.0.1:{port}")
    try:
        assert within(60, lambda: list(Path(short).glob("session_latest/sockets/raylet*")))
        yield "ray"
    finally:
        head.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            head.wait(30)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(head.pid, signal.SIGKILL)
        shutil.rmtree(short, ignore_errors=True)


@contextlib.contextmanager
def on_slurm(folder, monkeypatch):
    pytest.importorskip("submitit")
    if not slurm_node.missing():
        with slurm_node.started(folder, monkeypatch):
            yield "slurm"
        return
    monkeypatch.setattr(slurm, "CLUSTER", "local")  # which begins all at once: two at a time
    monkeypatch.setattr(batch, "check_cluster", lambda: None)
    at_once = batch.run_on_cluster

    def by_twos(jobs, *others):
        items = list(jobs.items())
        for first in range(0, len(items), 2):
            yield from at_once(dict(items[first : first + 2]), *others)

    monkeypatch.setattr(batch, "run_on_cluster", by_twos)
    yield "slurm"


# Interruptions -----------------------------------------------------------------------------------


def within(seconds, look):
    """Return what a look finds, as soon as it finds something, before so many seconds are over."""
    deadline = time.monotonic() + seconds
    while not (seen := look()) and time.monotonic() < deadline:
        time.sleep(0.1)
    return seen


def kernel_of(folder):
    """Return the process that trains in a folder, once there is a checkpoint to go on from."""
    if not (folder / "last.safetensors").exists() or (folder / "result.json").exists():
        return None
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if any(file.path == str(folder / TRAINING) for file in process.open_files()):
                return process
    return None


def kill(kernel):
    """Kill what looks after a run: the worker, or the job's process."""
    kernel.parent().kill()


def requeue(kernel):
    """Queue a running job again, as a cluster does that needs the node."""
    subprocess.run(["scontrol", "requeue", kernel.environ()["SLURM_JOB_ID"]], check=True)


def interrupt(planned, how, told, stop):
    """Interrupt, in each of some ways, a run that is in the middle."""
    waiting = list(how)
    met = set()
    while waiting and not stop.is_set():
        for p in planned:
            folder = results.run_folder(p.experiment())
            kernel = kernel_of(folder) if p.key not in met else None
            if kernel is not None and waiting:
                with contextlib.suppress(psutil.Error):
                    waiting[0](kernel)
                    met.add(p.key)
                    told.append((waiting.pop(0).__name__, p.key))
        time.sleep(0.1)


# The test ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", [local, dask, ray, on_slurm])
def test_twelve_runs_once_each_with_the_same_figures(engine, home, undisturbed, monkeypatch):
    plan = read_plan(written(home))
    began = time.monotonic()
    with engine(home, monkeypatch) as backend:
        real = engine is on_slurm and slurm.CLUSTER == "slurm"
        how = [kill, requeue] if real else [kill, kill]
        told, stop = [], threading.Event()
        arguments = (plan.runs, how, told, stop)
        thread = threading.Thread(target=interrupt, args=arguments, daemon=True)
        thread.start()
        try:
            calls = 0
            while calls < CALLS:
                calls += 1
                states = batch.run_plan(plan, WORKERS, backend=backend, progress=False)
                if all(state.name == "done" for state in states):
                    break
        finally:
            stop.set()
            thread.join()
        seconds = time.monotonic() - began
        # everything is done, and nothing is done again
        assert [state.name for state in states] == ["done"] * 12, [str(s) for s in states]
        assert len(told) == len(how), told
        log = (home / "log").read_text("utf-8")
        again = batch.run_plan(plan, WORKERS, backend=backend, progress=False)
        assert [s.name for s in again] == ["done"] * 12
        assert (home / "log").read_text("utf-8") == log
    # each run ended exactly once, and those that were interrupted began again
    lines = [tuple(line.split()) for line in log.splitlines()]
    ends = Counter(line[1:] for line in lines if line[0] == "ends")
    begins = Counter(line[1:] for line in lines if line[0] == "begins")
    assert len(ends) == 12 and set(ends.values()) == {1}
    assert begins.keys() == ends.keys()
    assert begins.total() - ends.total() >= len(set(told))
    # the figures are those of an undisturbed run
    for state in states:
        metrics = results.read_result(state.folder)["metrics"]
        assert metrics == undisturbed[state.planned.key], state.planned.key
    name = f"{engine.__name__}{' (real)' * real}"
    print(
        f"\n{name}: 12 runs, {', '.join(f'{what} of {key}' for what, key in told)}; "
        f"{begins.total()} starts, 12 ends, {calls} calls, {seconds:.0f} s"
    )
