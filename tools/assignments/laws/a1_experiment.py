"""Step 1.6: Figure 1 of inan2017 on a student's own tokens.

The student hands in the matrices of all runs and the numbers claimed for them.
"""

import csv
import itertools
from functools import cache

import numpy as np

BETAS = (0.0, 0.5, 1.0)
TOKENS, WIDTH = 20_000, 12
STEPS, EARLY, ROWS = 240, 60, 64
NUMBERS = ("distance", "share", "contradicted")


def runs(variant):
    """Return the 18 runs of a variant: (β, rows at norm 1, seed)."""
    return list(itertools.product(BETAS, (False, True), variant.seeds))


def name(beta, unit, seed) -> str:
    """Return the name of a run in the files that are handed in."""
    return f"{beta:g}-{'unit' if unit else 'free'}-{seed}"


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


def train(text, variant, beta, unit, seed, steps=STEPS):
    """Train an LSTM on the tokens; return {"E", "W", "E60", "W60"} as float32 arrays.

    The loss is (1 − β) times the cross-entropy plus β τ² times the augmented loss. With `unit` the
    rows of E have norm 1. The first rows of both matrices after 60 steps are what is replicated.
    """
    import torch
    from torch.nn import functional as F

    torch.manual_seed(seed)
    words = int(text.max()) + 1
    E = torch.nn.Parameter(torch.randn(words, WIDTH) / WIDTH**0.5)
    W = torch.nn.Parameter(torch.randn(words, WIDTH) / WIDTH**0.5)
    lstm = torch.nn.LSTM(WIDTH, WIDTH)
    optimiser = torch.optim.Adam([E, W, *lstm.parameters()], 0.02)
    columns = torch.as_tensor(text[: len(text) // 40 * 40]).reshape(40, -1).T
    kept = {}
    for step in range(steps):
        at = step * 20 % (len(columns) - 21)
        read, wanted = columns[at : at + 20], columns[at + 1 : at + 21]
        rows = F.normalize(E, dim=1) if unit else E
        logits = lstm(rows[read])[0].flatten(0, 1) @ W.T
        soft = (rows[wanted.flatten()] @ rows.T / variant.tau).softmax(1)
        augmented = (soft * (soft.log() - (logits / variant.tau).log_softmax(1))).sum(1).mean()
        loss = (1 - beta) * F.cross_entropy(logits, wanted.flatten())
        loss = loss + beta * variant.tau**2 * augmented
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        if step + 1 == EARLY:
            rows = F.normalize(E, dim=1) if unit else E
            kept |= {"E60": rows[:ROWS].detach().numpy().copy()}
            kept |= {"W60": W[:ROWS].detach().numpy().copy()}
    rows = F.normalize(E, dim=1) if unit else E
    return kept | {"E": rows.detach().numpy(), "W": W.detach().numpy()}


def distance(W, E) -> float:
    """Return the distance of two column spaces: 0 for the same, 1 for orthogonal ones."""
    bases = [np.linalg.svd(X.astype(float), full_matrices=False)[0] for X in (W, E)]
    return float(np.sqrt(max(0.0, 1 - ((bases[0].T @ bases[1]) ** 2).sum() / W.shape[1])))


def save(folder, variant, trained: dict, claims: dict, prediction: str) -> None:
    """Write what is to be handed in: matrices, claimed numbers, prediction.

    trained: {run: what `train` returned}; claims: {run: {"distance": …, "share": …,
    "contradicted": …}}; a run is (β, unit, seed).
    """
    import json
    from pathlib import Path

    from safetensors.numpy import save_file

    arrays = {
        f"{name(*run)}/{k}": np.ascontiguousarray(v)
        for run, a in trained.items()
        for k, v in a.items()
    }
    save_file(arrays, Path(folder, "1.6.safetensors"))
    lines = [[name(*run), *(repr(float(claims[run][n])) for n in NUMBERS)] for run in claims]
    with open(Path(folder, "1.6.csv"), "w", newline="") as file:
        csv.writer(file).writerows([["run", *NUMBERS], *lines])
    Path(folder, "1.6.json").write_text(json.dumps({"prediction": prediction}))
