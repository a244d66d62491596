"""The course's own small model: trained in seconds, to be seen with the same eyes as a real one."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch import Tensor

from course_lab.examine.real_models import Reading
from course_lab.plans import read_plan
from course_lab.run import run
from course_lib import data

PLAN = "lessons-11"  # its first run is a tied Transformer of 128 dimensions on the docstrings


def small_model(tokens: int) -> tuple[Tensor, list[str], np.ndarray, Reading]:
    """Train the model; return its matrix W (N, d), the words, their counts, and a reading.

    tokens: of the validation split, that the model reads.
    """
    experiment = read_plan(PLAN).runs[0].experiment()
    with TemporaryDirectory() as folder:
        result = run(experiment, Path(folder), progress=False, device="cpu")
    corpus: Any = result.corpus
    model: Any = result.model
    model.eval()
    text = data.columns(corpus.valid[: tokens + 1], 1)
    with torch.no_grad():
        read = [(model(x).hidden, y) for x, y in data.batches(text, experiment.optimisation.length)]
        contexts, target = (torch.cat(part).flatten(0, 1) for part in zip(*read, strict=True))
        W = model.output_layer.words.matrix().clone()
        bias = model.output_layer.logit_bias()
    return W, list(corpus.words), corpus.counts.numpy(), Reading(contexts, target, bias)
