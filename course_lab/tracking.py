"""The figures of a run's steps, for experiment trackers and whoever else watches.

Trackers are accelerate's: tensorboard, wandb, mlflow, aim and others, where they are installed.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from accelerate import Accelerator
from torch import nn

from course_lab.experiment import Experiment
from course_lib.errors import CourseError, unknown
from course_lib.metrics.registry import summary
from course_lib.training.checkpoint import whole

Report = Callable[[int, dict[str, float]], None]
# A tracker's page has a section for what stands before the `/`. A name without one would be a
# section of its own.
SECTIONS = {
    "train_perplexity": "perplexity/train",
    "valid_perplexity": "perplexity/valid",
    "loss": "step/loss",
    "learning_rate": "step/learning_rate",
    "gradient_norm": "step/gradient_norm",
    "tokens_per_second": "step/tokens_per_second",
}
FOLDER = "tracker"  # in a run's folder: what a tracker writes that writes files


def check_trackers(names: Sequence[str]) -> None:
    """Raise CourseError for a tracker that accelerate does not know, or that is not installed."""
    from accelerate.tracking import LOGGER_TYPE_TO_CLASS, get_available_trackers

    installed = [tracker.value for tracker in get_available_trackers()]
    for name in names:
        if name not in LOGGER_TYPE_TO_CLASS:
            raise unknown("tracker", name, LOGGER_TYPE_TO_CLASS)
        if name not in installed:
            raise CourseError(f"the tracker {name} is not installed; pip install {name}")


@contextmanager
def tracked(
    accelerator: Accelerator, experiment: Experiment, report: Report | None
) -> Iterator[Report | None]:
    """Start the accelerator's trackers; yield what tells them and `report` of a step's figures.

    What is yielded is None where nobody wants to be told.
    """
    if not accelerator.log_with:
        yield report
        return
    accelerator.init_trackers(FOLDER)
    if accelerator.is_main_process:
        _store(accelerator, _flat(experiment.to_dict()))

    def told(step: int, figures: dict[str, float]) -> None:
        accelerator.log({SECTIONS.get(name, name): x for name, x in figures.items()}, step=step)
        if report:
            report(step, figures)

    try:
        yield told
    finally:
        for tracker in accelerator.trackers:  # `end_training` would end the processes' group, too
            tracker.finish()


def with_geometry(
    report: Report, counts: torch.Tensor, every: int, callback: Callable | None
) -> Callable[[int, nn.Module], None]:
    """Return a callback that reports the geometry of the matrix that predicts, and calls another.

    report: receives `geometry/mean_cosine` and the like.
    counts: how often each word occurs in train, (N,).
    every: steps between two looks, the first before training.
    callback: called with every step and the model, too, unless it is None.
    """

    def look(step: int, model: Any) -> None:
        if step % every == 0:
            with torch.no_grad():
                figures = summary(whole(model.output_layer.words.matrix()).cpu(), counts)
            numbers = {k: v for k, v in figures.items() if isinstance(v, int | float)}
            report(step, {f"geometry/{name}": value for name, value in numbers.items()})
        if callback:
            callback(step, model)

    return look


def _store(accelerator: Accelerator, settings: dict[str, bool | int | float | str]) -> None:
    """Give every tracker the settings of the run."""
    for tracker in accelerator.trackers:
        if tracker.name == "tensorboard":
            # As hyperparameters they would be a second run in the list, named by the time.
            rows = [f"| {name} | {value} |" for name, value in settings.items()]
            table = "\n".join(["| setting | value |", "|---|---|", *rows])
            tracker.tracker.add_text("settings", table)
        else:
            tracker.store_init_configuration(settings)


def _flat(plain: object, path: str = "") -> dict[str, bool | int | float | str]:
    """Return nested settings under dotted names, as trackers take them."""
    if isinstance(plain, dict | list):
        items = plain.items() if isinstance(plain, dict) else enumerate(plain)
        rows = (_flat(value, f"{path}{name}.") for name, value in items)
        return {key: value for row in rows for key, value in row.items()}
    is_plain = isinstance(plain, bool | int | float | str)
    return {path.removesuffix("."): plain if is_plain else str(plain)}
