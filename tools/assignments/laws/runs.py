"""All experiments share these parts: a variant's tokens, batches, training, files to hand in."""

import csv
import json
from functools import cache
from pathlib import Path

import numpy as np

TOKENS = 20_000
ROWS, LENGTH = 40, 20  # of a batch
LSTM = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")


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


def counts(text, hidden: int) -> np.ndarray:
    """Return how often each word occurs before the last `hidden` tokens, one added."""
    return 1 + np.bincount(text[:-hidden], minlength=int(text.max()) + 1)


def train_tied(text, words: int, width: int, loss, seed: int, steps: int, early: int, rows: int):
    """Train an LSTM with one word matrix W; return its arrays, and W's first rows early on.

    text: the tokens that are trained on; words, width: the shape of W; loss: a function of hidden
    states (n, width), W and the wanted words (n,); seed: of W and the LSTM; steps: of training;
    early: the step after which the first `rows` rows of W are kept as W60.
    """
    import torch

    torch.manual_seed(seed)
    W = torch.nn.Parameter(torch.randn(words, width) / width**0.5)

    def own_loss(hidden, wanted):
        return loss(hidden, W, wanted)

    return train_lstm(text, {"W": W}, lambda ids: W[ids], own_loss, steps, early, rows)


def train_lstm(text, matrices, read, loss, steps: int, early: int, rows: int, rates=None):
    """Train an LSTM and the matrices that its words are made of; return the arrays of all.

    text: the tokens that are trained on; matrices: parameters by name; read: a function of words'
    numbers that gives their vectors; loss: a function of hidden states (n, d) and the wanted words
    (n,); steps: of training; early: the step after which the first `rows` rows of each matrix are
    kept, W as W60; rates: of learning, by a matrix's name, where another than 0.02.
    """
    import torch

    rates = rates or {}
    width = read(torch.as_tensor(text[:1])).shape[-1]
    lstm = torch.nn.LSTM(width, width)
    groups = [{"params": [M], "lr": rates.get(name, 0.02)} for name, M in matrices.items()]
    optimiser = torch.optim.Adam([*groups, {"params": lstm.parameters()}], 0.02)
    arrays = {}
    for step in range(steps):
        given, wanted = columns(text, step)
        optimiser.zero_grad()
        loss(lstm(read(given))[0].flatten(0, 1), wanted.flatten()).backward()
        optimiser.step()
        if step + 1 == early:
            arrays |= {f"{k}60": M[:rows].detach().numpy().copy() for k, M in matrices.items()}
    trained = matrices | {k: getattr(lstm, k) for k in LSTM}
    return arrays | {k: M.detach().numpy().copy() for k, M in trained.items()}


def last_logits(arrays, text, count: int):
    """Return the logits of a run on the last tokens in float64, and the words that did follow."""
    import torch

    W = torch.as_tensor(arrays["W"]).double()
    lstm = torch.nn.LSTM(W.shape[1], W.shape[1]).double()
    lstm.load_state_dict({k: torch.as_tensor(arrays[k]).double() for k in LSTM})
    last = torch.as_tensor(text[-count:])
    with torch.no_grad():
        return lstm(W[last[:-1]])[0] @ W.T, last[1:]


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
