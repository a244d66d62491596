"""What the experiments of all assignments share: a variant's tokens, batches, files to hand in."""

import csv
import json
from functools import cache
from pathlib import Path

import numpy as np

TOKENS = 20_000
ROWS, LENGTH = 40, 20  # of a batch


@cache
def corpus() -> np.ndarray:
    """Return the training text of the embedded corpus as the numbers of its words."""
    from course_lab.corpora.docstrings import load_docstrings

    return np.asarray(load_docstrings().train)


def tokens(variant) -> np.ndarray:
    """Return the variant's tokens, numbered by first occurrence."""
    ids = corpus()[variant.begin : variant.begin + TOKENS]
    _, first, inverse = np.unique(ids, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse]


def columns(text: np.ndarray, step: int):
    """Return what is read and what is wanted in a step, tensors (20, 40)."""
    import torch

    whole = torch.as_tensor(text[: len(text) // ROWS * ROWS]).reshape(ROWS, -1).T
    at = step * LENGTH % (len(whole) - LENGTH - 1)
    return whole[at : at + LENGTH], whole[at + 1 : at + LENGTH + 1]


def save_runs(step, folder, name, numbers, trained, claims, prediction) -> None:
    """Write what is to be handed in: arrays, claimed numbers, prediction.

    step: "1.6"; name: a function of a run that gives its name; numbers: what is claimed; trained:
    {run: arrays}; claims: {run: {number: value}}; a run is a tuple.
    """
    from safetensors.numpy import save_file

    arrays = {
        f"{name(*run)}/{key}": np.ascontiguousarray(value)
        for run, kept in trained.items()
        for key, value in kept.items()
    }
    save_file(arrays, Path(folder, f"{step}.safetensors"))
    lines = [[name(*run), *(repr(float(claims[run][n])) for n in numbers)] for run in claims]
    with open(Path(folder, f"{step}.csv"), "w", newline="") as file:
        csv.writer(file).writerows([["run", *numbers], *lines])
    Path(folder, f"{step}.json").write_text(json.dumps({"prediction": prediction}))
