"""Step 1.6: Figure 1 of inan2017 on a student's own tokens."""

import itertools

import numpy as np

from tools.assignments.laws.runs import columns, save_runs, tokens  # noqa: F401 (the experiment's)

BETAS = (0.0, 0.5, 1.0)
WIDTH = 12
STEPS, EARLY, ROWS = 240, 60, 64
NUMBERS = ("distance", "share", "contradicted")
ARRAYS, EARLIER = ("E", "W"), ("E60", "W60")


def runs(variant):
    """Return the 18 runs of a variant: (β, rows at norm 1, seed)."""
    return list(itertools.product(BETAS, (False, True), variant.seeds))


def name(beta, unit, seed) -> str:
    """Return the name of a run in the files that are handed in."""
    return f"{beta:g}-{'unit' if unit else 'free'}-{seed}"


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
    kept = {}
    for step in range(steps):
        read, wanted = columns(text, step)
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


def save(folder, trained: dict, claims: dict, prediction: str) -> None:
    """Write what is to be handed in for step 1.6."""
    save_runs("1.6", folder, name, NUMBERS, trained, claims, prediction)
