"""What a run tells of its steps: to a function, to a tracker, on the command line."""

import math
from types import SimpleNamespace

import pytest
import torch
from typer.testing import CliRunner

import course_lab
from course_lab import Experiment, part, tracking
from course_lab.cli import application
from course_lib.errors import CourseError
from course_lib.metrics.geometry import mean_cosine
from course_lib.training import Optimisation
from course_lib.training.loop import WINDOW

SMALL = {"train": 4_000, "valid": 300, "test": 300, "words": 40}


@pytest.fixture
def experiment():
    return Experiment(
        name="tiny",
        corpus=part("docstrings", small=SMALL),
        encoder=part("VariationalLSTM", units=8, layers=1),
        size=8,
        optimisation=Optimisation(epochs=2, batch=4, length=10, clip=1.0, learning_rate=0.5),
    )


def told(experiment, folder, **options):
    """Return what a report was told, by step."""
    heard = []
    result = course_lab.run(
        experiment, folder, progress=False, device="cpu",
        report=lambda step, figures: heard.append((step, dict(figures))), **options,
    )  # fmt: skip
    return result, heard


def test_a_report_hears_every_window_and_every_epoch(experiment, tmp_path):
    result, heard = told(experiment, tmp_path / "a")
    steps = 2 * math.ceil(result.epochs[0]["tokens"] / 40)
    windows = [(step, f) for step, f in heard if "loss" in f]
    assert [step for step, _ in windows][:3] == [WINDOW, 2 * WINDOW, 3 * WINDOW]
    assert windows[-1][0] == steps
    assert all(f["gradient_norm"] > 0 and f["tokens_per_second"] > 0 for _, f in windows)
    assert all(f["learning_rate"] == 0.5 for _, f in windows)
    # the losses are those of the epoch's perplexity, the last of fewer tokens
    epoch = [f["loss"] for step, f in windows if step <= steps // 2]
    tokens = [WINDOW * 40] * (len(epoch) - 1)
    tokens.append(result.epochs[0]["tokens"] - sum(tokens))
    assert 0 < tokens[-1] < WINDOW * 40
    mean = sum(n * x for n, x in zip(tokens, epoch, strict=True)) / sum(tokens)
    assert math.exp(mean) == pytest.approx(result.epochs[0]["train_perplexity"], rel=1e-9)
    ends = [f for _, f in heard if "valid_perplexity" in f]
    assert [f["valid_perplexity"] for f in ends] == [e["valid_perplexity"] for e in result.epochs]


def test_who_listens_changes_no_figure(experiment, tmp_path):
    experiment, seen = experiment.change(tied=False), {}
    silent = course_lab.run(experiment, tmp_path / "a", progress=False, device="cpu")

    def look(step, model):
        seen[step] = model.output_layer.words.matrix().detach().clone()

    result, heard = told(experiment, tmp_path / "b", geometry_every=7, callback=look)
    assert result.metrics == silent.metrics
    geometry = {step: f for step, f in heard if any(k.startswith("geometry/") for k in f)}
    assert list(geometry)[:3] == [0, 7, 14]
    for step in (0, 7, 14):
        expected = mean_cosine(seen[step])
        assert geometry[step]["geometry/mean_cosine"] == pytest.approx(expected, abs=1e-6)


def test_a_gradient_that_is_not_clipped_has_no_norm(experiment, tmp_path):
    unclipped = experiment.change(optimisation={"clip": None, "learning_rate": 0.01})
    _, heard = told(unclipped, tmp_path / "a")
    assert not any("gradient_norm" in f for _, f in heard)


def test_tensorboard_has_the_curves(experiment, tmp_path):
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    course_lab.run(
        experiment, tmp_path, progress=False, device="cpu", trackers=["tensorboard"],
        geometry_every=50,
    )  # fmt: skip
    reader = events.EventAccumulator(str(tmp_path / tracking.FOLDER)).Reload()
    names = set(reader.Tags()["scalars"])
    assert {"step/loss", "step/learning_rate", "perplexity/valid", "geometry/mean_cosine"} <= names
    assert {name.partition("/")[0] for name in names} == {"step", "perplexity", "geometry"}
    losses = reader.Scalars("step/loss")
    assert losses[0].step == WINDOW and losses[-1].value < losses[0].value
    (settings,) = reader.Tensors("settings/text_summary")
    assert b"| optimisation.learning_rate | 0.5 |" in settings.tensor_proto.string_val[0]
    # A folder below would be another run in the tracker's list.
    assert not [path for path in (tmp_path / tracking.FOLDER).iterdir() if path.is_dir()]


def test_other_trackers_get_the_settings_as_they_take_them():
    class Wandb:
        name = "wandb"

        def store_init_configuration(self, values):
            self.settings = values

    tracker = Wandb()
    tracking._store(SimpleNamespace(trackers=[tracker]), {"seed": 1})
    assert tracker.settings == {"seed": 1}


def test_a_tracker_that_is_not_there(monkeypatch):
    with pytest.raises(CourseError, match="did you mean tensorboard"):
        tracking.check_trackers(["tensorbord"])
    monkeypatch.setattr("accelerate.tracking.get_available_trackers", lambda: [])
    with pytest.raises(CourseError, match="wandb is not installed; pip install wandb"):
        tracking.check_trackers(["wandb"])
    done = CliRunner().invoke(
        application(), ["train", "docstrings/transformer-128/tied", "--geometry-every", "5"]
    )
    assert "add --track" in str(done.exception)


def test_settings_are_flat_for_a_tracker(experiment):
    flat = tracking._flat(experiment.to_dict())
    assert flat["corpus.options.small.train"] == 4_000
    assert flat["optimisation.learning_rate"] == 0.5
    assert all(isinstance(value, bool | int | float | str) for value in flat.values())
    assert not any(isinstance(value, torch.Tensor) for value in flat.values())
