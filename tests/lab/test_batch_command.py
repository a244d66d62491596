"""`batch run` as the reader starts it: whatever ends it leaves no process, and it runs its code."""

import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import nbformat
import psutil
import pytest

from course_lab.cli.batch import ending_signals
from course_lab.notebook_job import execute_notebook
from course_lab.notebook_source import ROOT

PLAN = """title = "two runs of some seconds"
[[runs]]
recipes = ["ptb/vd-lstm-200/tied"]
profile = "smoke"
seeds = [1, 2]
change = {"optimisation.epochs" = 60}
"""
PATIENCE = 600  # seconds; ends a test that would otherwise wait for ever, and measures nothing
TELL = """
import pathlib as _pathlib, sys as _sys
with open(_pathlib.Path(__file__).with_name("importers.log"), "a") as _file:
    _file.write(" ".join(_sys.argv) + "\\n")
"""


@pytest.fixture
def checkout(tmp_path) -> Path:
    """Another checkout of the course, whose library notes by whom it is imported."""
    for package in ("course_lib", "course_lab", "benchmarks"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / package, tmp_path / package, ignore=ignored)
    (tmp_path / "notebooks").mkdir()
    shutil.copy(ROOT / "notebooks" / "20_train_language_model.py", tmp_path / "notebooks")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "data").symlink_to(ROOT / "data")
    if (ROOT / ".course-cache").is_dir():
        shutil.copytree(ROOT / ".course-cache", tmp_path / ".course-cache")
    with open(tmp_path / "course_lib" / "__init__.py", "a") as file:
        file.write(TELL)
    (tmp_path / "plan.toml").write_text(PLAN)
    return tmp_path


def start(checkout: Path, mark: str) -> subprocess.Popen:
    """Start the batch in a session of its own; all its processes have `mark` in the environment."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | {"MARK": mark}
    command = [sys.executable, "-m", "course_lab", "batch", "run", "plan.toml", "--workers", "2"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.Popen(command, cwd=checkout, env=environment, start_new_session=True, **pipes)


def marked(mark: str) -> list[psutil.Process]:
    """Return the living processes with this mark."""
    living = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("MARK") == mark and process.status() != psutil.STATUS_ZOMBIE:
                living.append(process)
        except psutil.Error:
            pass
    return living


def present(*names: str) -> list[signal.Signals]:
    """Return the signals of these names that this system has; Windows can send none of them."""
    return [] if os.name == "nt" else [getattr(signal, name) for name in names]


def until(condition, what: str):
    """Wait for a condition and return it."""
    end = time.monotonic() + PATIENCE
    while not (value := condition()):
        assert time.monotonic() < end, what
        time.sleep(0.2)
    return value


@pytest.mark.parametrize("number", present("SIGTERM", "SIGKILL"))
def test_a_batch_that_is_ended_leaves_no_process(checkout, number):
    """Workers and kernels end with it, and the next call finishes what it had begun."""
    mark = uuid.uuid4().hex
    batch = start(checkout, mark)
    try:
        training = lambda: len(list(checkout.glob("runs/**/last.safetensors"))) == 2  # noqa: E731
        until(lambda: training() or batch.poll() is not None, "no run began")
        assert batch.poll() is None, batch.stdout.read()
        assert len(marked(mark)) >= 5  # itself, two workers, two kernels
        os.kill(batch.pid, number)
        output = batch.communicate(timeout=PATIENCE)[0]
        until(lambda: not marked(mark), f"processes live on: {marked(mark)}")
    finally:
        for process in marked(mark):
            process.kill()
    assert not list(checkout.glob("runs/**/result.json"))
    if number != signal.SIGKILL:
        assert batch.returncode == 128 + number
        assert f"ended by {number.name}; the same command goes on" in output
        return
    kernels = (checkout / "course_lib" / "importers.log").read_text().count("ipykernel_launcher")
    assert kernels == 2  # which run the code of this checkout, not the one of the environment
    second = start(checkout, mark)
    assert "2 runs: 2 done" in second.communicate(timeout=PATIENCE)[0]
    assert second.returncode == 0 and not marked(mark)
    kernels = (checkout / "course_lib" / "importers.log").read_text().count("ipykernel_launcher")
    assert kernels == 4 and len(list(checkout.glob("runs/**/result.json"))) == 2


@pytest.mark.parametrize("number", present("SIGTERM", "SIGHUP"))
def test_ending_signals_interrupt(number):
    """Once: a second signal must not interrupt the ending. One that is ignored stays ignored."""
    with pytest.raises(KeyboardInterrupt) as interrupt, ending_signals():
        try:
            os.kill(os.getpid(), number)
            time.sleep(60)
        finally:
            os.kill(os.getpid(), number)
    assert interrupt.value.args == (number,) and signal.getsignal(number) == signal.SIG_DFL
    signal.signal(number, signal.SIG_IGN)  # as under nohup
    try:
        with ending_signals():
            os.kill(os.getpid(), number)
        assert signal.getsignal(number) == signal.SIG_IGN
    finally:
        signal.signal(number, signal.SIG_DFL)


def test_a_kernel_ends_with_its_worker(tmp_path):
    """A worker that is killed cannot end its kernel."""
    source = tmp_path / "10_sleeps.py"
    source.write_text('# %% tags=["parameters"]\nX = 1\n\n# %%\nimport time\ntime.sleep(3600)\n')
    mark = uuid.uuid4().hex
    code = (
        "import sys; from pathlib import Path; from course_lab.notebook_job import *; "
        "execute_notebook(Path(sys.argv[1]), {}, Path(sys.argv[1] + '.ipynb'), 1)"
    )
    worker = subprocess.Popen(
        [sys.executable, "-c", code, str(source)],
        cwd=ROOT,
        env=os.environ | {"MARK": mark, "PYTHONPATH": str(ROOT)},
    )
    try:
        until(lambda: len(marked(mark)) >= 2, "no kernel came up")
        time.sleep(2)  # it watches once it is up
        worker.kill()
        worker.wait()
        until(lambda: not marked(mark), "the kernel lives on")
    finally:
        for process in marked(mark):
            process.kill()


def test_a_kernel_runs_the_packages_that_asked(tmp_path, monkeypatch):
    """Whatever the environment holds: here this checkout, by PYTHONPATH and as it is installed."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    asking = tmp_path / "asking"
    for package in ("course_lib", "course_lab"):
        (asking / package).mkdir(parents=True)
        (asking / package / "__init__.py").touch()
    source = tmp_path / "10_where.py"
    source.write_text(
        '# %% tags=["parameters"]\nX = 1\n\n# %%\nimport course_lab, course_lib\n'
        "print(course_lab.__file__, course_lib.__file__)\n"
    )
    for packages in (asking, ROOT):
        executed = tmp_path / "executed.ipynb"
        execute_notebook(source, {}, executed, 1, packages)
        printed = nbformat.read(executed, as_version=4).cells[-1].outputs[0].text
        files = [packages / package / "__init__.py" for package in ("course_lab", "course_lib")]
        assert printed.split() == list(map(str, files))
