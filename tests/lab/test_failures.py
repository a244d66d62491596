"""What fails around the code is a sentence with exit code 2, never a traceback."""

import errno
import json
import os
import signal
import subprocess
import sys
import tarfile
import time
import tokenize
import zipfile
import zlib
from pathlib import Path
from urllib.error import URLError

import numpy as np
import pytest
import torch
import typer

from course_lab.cli import main, run_application
from course_lab.cli.failures import explanation
from course_lib.errors import DAMAGED, CourseError
from course_lib.training.checkpoint import write_atomically

ROOT = Path(__file__).resolve().parents[2]
RECIPE = ("train", "ptb/vd-lstm-200/tied", "--profile", "smoke", "--device", "cpu")


@pytest.fixture
def within(monkeypatch, capsys):
    """Run a command of the laboratory in this process: its exit code and what it says."""

    def run(*arguments) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["course_lab", *map(str, arguments)])
        code = main()
        return code, capsys.readouterr().err

    return run


def command(*arguments, **options) -> subprocess.CompletedProcess:
    """Run the real command in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "course_lab", *map(str, arguments)],
        cwd=ROOT, timeout=200, stderr=subprocess.PIPE, **{"stdout": subprocess.PIPE} | options,
    )  # fmt: skip
    done.said = done.stderr.decode()
    return done


@pytest.fixture
def ended(monkeypatch, capsys):
    """Run an application whose only command raises an error: its exit code and what it says."""

    def run(error: BaseException) -> tuple[int, str]:
        app = typer.Typer()

        @app.command()
        def fail() -> None:
            raise error

        monkeypatch.setattr(sys, "argv", ["fail"])
        code = run_application(app)
        return code, capsys.readouterr().err

    return run


FILE_ERRORS = {
    errno.EACCES: "Permission denied; choose a place that you may write to",
    errno.ENOSPC: "No space left on device; make room on that disk",
    errno.ENAMETOOLONG: "File name too long; choose a shorter name",
    errno.ENOTDIR: "Not a directory; a part of that path is a file",
    errno.EROFS: "Read-only file system; choose a place that can be written to",
    errno.ELOOP: "Too many levels of symbolic links",
}


@pytest.mark.parametrize("number", FILE_ERRORS)
def test_an_error_of_a_file_names_it_and_says_what_to_do(number, ended):
    error = OSError(number, os.strerror(number), "/some/result.json")
    assert ended(error) == (2, f"error: {explanation(error)}\n")
    assert explanation(error).startswith(f"/some/result.json: {FILE_ERRORS[number]}")


OTHERS = {
    CourseError("unknown recipe"): "unknown recipe",
    MemoryError("Unable to allocate 8. EiB"): "memory is not enough (Unable to allocate 8. EiB)",
    MemoryError(): "memory is not enough (no more is to be had)",
    torch.OutOfMemoryError("CUDA out of memory. Tried 2 GiB"): "not enough (CUDA out of memory",
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"): "save it as UTF-8",
    zipfile.BadZipFile("Bad magic number"): "a file is damaged (Bad magic number); bring it again",
    zlib.error("Error -3"): "a file is damaged (Error -3)",
    tokenize.TokenError("EOF in multi-line statement"): "a file is damaged",
    RuntimeError("[gloo] Timed out waiting 3000ms for recv"): "another process of this run does",
}


@pytest.mark.parametrize("error", OTHERS, ids=lambda error: type(error).__name__)
def test_each_class_of_failure_has_a_sentence(error, ended):
    code, said = ended(error)
    assert code == 2 and OTHERS[error] in said and said.count("\n") == 1


def test_the_allocators_of_pytorch_and_numpy_are_understood(ended):
    with pytest.raises(RuntimeError) as without_memory:
        torch.empty(2**46)
    with pytest.raises(MemoryError) as of_numpy:
        np.empty(2**46)
    for error in (without_memory.value, of_numpy.value):
        code, said = ended(error)
        assert code == 2 and "the memory is not enough" in said and "smaller batch" in said


def test_a_fault_of_the_code_keeps_its_traceback(ended):
    for error in (KeyError("x"), RuntimeError("shape mismatch"), ValueError("x")):
        with pytest.raises(type(error)):
            ended(error)


def test_an_interrupt_is_silent_and_has_the_exit_code_of_one(ended):
    assert ended(KeyboardInterrupt()) == (130, "")


def test_a_write_that_fails_names_its_file(tmp_path, monkeypatch):
    def full(number):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left on device.*result.json"):
        write_atomically(tmp_path / "result.json", b"{}")
    assert not list(tmp_path.iterdir())


def test_what_damaged_files_raise_is_in_one_set():
    for error in (UnicodeDecodeError, EOFError, zlib.error, zipfile.BadZipFile, RecursionError):
        assert issubclass(error, DAMAGED)
    assert not issubclass(KeyError, DAMAGED), "a name that the code mistook is no damage"
    assert not issubclass(MemoryError, DAMAGED), "a sound file may be too large"


# Real commands -----------------------------------------------------------------------------------


def test_folders_that_cannot_be_written_to(tmp_path, within):
    (tmp_path / "file").write_text("")
    below, long = tmp_path / "file" / "run", tmp_path / ("n" * 300)
    for folder, reason in ((below, "Not a directory"), (long, "File name too long")):
        code, said = within(*RECIPE, "--folder", folder)
        assert code == 2 and f"error: {folder}" in said and reason in said, said


def test_a_full_disk_under_the_output():
    with open("/dev/full", "w") as full:
        done = command("data", "list", stdout=full)
    assert done.returncode == 2 and "No space left on device; make room" in done.said
    assert "Traceback" not in done.said and "Exception ignored" not in done.said


def test_a_reader_that_leaves_is_no_error():
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as closed:
        done = command("recipes", "--plain", stdout=closed)
    assert (done.returncode, done.said) == (1, "")


def test_a_file_too_large_for_the_system_is_named(tmp_path):
    limited = "ulimit -f 1; exec " + sys.executable + ' -m course_lab "$@"'
    arguments = [*RECIPE, "--folder", tmp_path / "run"]
    done = subprocess.run(
        ["bash", "-c", limited, "sh", *map(str, arguments)],
        cwd=ROOT, capture_output=True, text=True, timeout=200,
    )  # fmt: skip
    assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr
    assert "safetensors" in done.stderr and "File too large" in done.stderr
    assert not list((tmp_path / "run").glob("*.part")), "no half of a file is left"


def test_a_model_beyond_all_memory(tmp_path, within):
    huge = ("--change", f"size={2**31 - 1}", "--folder", tmp_path / "run")
    code, said = within(*RECIPE, *huge)
    assert code == 2 and "the memory is not enough" in said, said


def test_an_experiment_nested_without_end(tmp_path, within):
    (tmp_path / "deep.json").write_text("[" * 100_000)
    code, said = within("train", tmp_path / "deep.json")
    assert code == 2 and "deep.json is not a readable experiment" in said


def test_an_interrupted_training_ends_quietly(tmp_path):
    arguments = [*RECIPE, "--folder", str(tmp_path), "--change", "optimisation.epochs=100000"]
    process = subprocess.Popen(
        [sys.executable, "-m", "course_lab", *arguments, "--checkpoint-seconds", "0"],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        # tests that run in the background of a shell ignore interrupts, and would hand that on
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    while not (tmp_path / "last.safetensors").exists() and process.poll() is None:
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=100)[1]
    assert process.returncode == 130 and "Traceback" not in said, said


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (ConnectionResetError("reset by peer"), "the network, or another process"),
        (TimeoutError("timed out"), "the network, or another process"),
        (URLError("no route"), "the network, or another process"),
        (UnicodeEncodeError("ascii", "ö", 0, 1, "no"), "the encoding of its output"),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"), "that it is read in"),
        (tarfile.ReadError("bad header"), "a file is damaged"),
        (EOFError("end of stream"), "a file is damaged"),
    ],
)
def test_each_failure_has_a_sentence_of_its_own(error, says):
    assert says in explanation(error)


def test_a_reader_that_goes_too_deep_is_told_from_a_fault_of_the_code():
    def endless(n):
        return endless(n + 1)

    with pytest.raises(RecursionError) as own:
        endless(0)
    assert explanation(own.value) is None
    with pytest.raises(RecursionError) as of_json:
        json.loads("[" * 100_000)
    assert "nested too deeply" in explanation(of_json.value)
