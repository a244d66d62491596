"""Several processes: one that hangs is noticed soon, one that is slow at the ends is waited for."""

import json
import math
import os
import subprocess
import sys
import time

import pytest

import course_lab
from course_lab import part
from course_lab.processes import LONG_PATIENCE, PATIENCE
from course_lib.errors import CourseError
from course_lib.training import Optimisation

# The second process sleeps, in the middle of training or among its final figures.
SLEEPY = """
import os, sys, time
import course_lab.run, course_lib.training.loop
where, seconds = os.environ["SLEEPS"].split()
module = sys.modules[where.rpartition(".")[0]]
name = where.rpartition(".")[2]
real = getattr(module, name)
def sleepy(*given, **options):
    if os.environ["RANK"] == "1":
        time.sleep(float(seconds))
    return real(*given, **options)
setattr(module, name, sleepy)
from course_lab.cli import main
sys.exit(main())
"""


@pytest.fixture
def experiment():
    small = {"train": 2000, "valid": 300, "test": 250, "words": 60}
    return course_lab.Experiment(
        name="test/processes",
        corpus=part("docstrings", small=small),
        size=12,
        encoder=part("VariationalLSTM", units=12, dropout=0.0),
        optimisation=Optimisation(learning_rate=2.0, epochs=1, batch=4, length=10),
    )


def torchrun(folder, experiment, sleeps, *options):
    """Train by two processes of which the second sleeps: exit code, messages and seconds."""
    (folder / "e.json").write_text(json.dumps(experiment.to_dict()), "utf-8")
    (folder / "sleepy.py").write_text(SLEEPY, "utf-8")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", "2", str(folder / "sleepy.py"), "train", str(folder / "e.json")]
    command += ["--folder", str(folder / "run"), "--device", "cpu", *options]
    started = time.monotonic()
    done = subprocess.run(
        command, env=os.environ | {"SLEEPS": sleeps}, capture_output=True, text=True, timeout=500
    )
    return done.returncode, done.stderr, time.monotonic() - started


def test_a_process_that_hangs_in_training_is_noticed(experiment, tmp_path):
    """It would sleep for an hour; the other one's patience is two seconds."""
    sleeps = "course_lib.training.loop.WeightAverage 3600"
    averaged = experiment.change(optimisation={"average_from": 1})
    code, said, seconds = torchrun(tmp_path, averaged, sleeps, "--patience", "2")
    assert code != 0 and seconds < 300
    assert "another process of this run does not answer" in said and "last checkpoint" in said
    assert not (tmp_path / "run" / "result.json").exists()


def test_a_process_that_is_slow_in_its_final_figures_is_waited_for(experiment, tmp_path):
    sleeps = "course_lab.run.final_figures 40"
    code, said, _ = torchrun(tmp_path, experiment, sleeps, "--patience", "20")
    assert code == 0, said[-2000:]
    assert course_lab.read_result(tmp_path / "run")["provenance"]["processes"] == 2


def test_patience_is_of_minutes_in_training_and_of_hours_around_it():
    assert PATIENCE == 600 and LONG_PATIENCE == 7200


OUT_OF_RANGE = {
    "checkpoint_seconds": (math.nan, math.inf, -1.0),
    "deadline": (math.nan, math.inf),
    "patience": (math.nan, 0, -1, math.inf),
}


@pytest.mark.parametrize("option", OUT_OF_RANGE)
def test_times_that_cannot_be_meant_are_refused_before_anything_runs(option, experiment, tmp_path):
    for value in OUT_OF_RANGE[option]:
        with pytest.raises(CourseError, match=f"{option} must be a .*number.* not {value}"):
            course_lab.run(experiment, tmp_path / "run", **{option: value})
    with pytest.raises(CourseError, match="processes must be a whole number of at least 1 or none"):
        course_lab.launch(experiment, 0)
    assert not (tmp_path / "run").exists()
