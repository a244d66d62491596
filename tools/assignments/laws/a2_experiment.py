"""Step 2.6: the cosine penalty with three weights, on a student's own tokens."""

import itertools

import numpy as np

from tools.assignments.laws.runs import (
    LSTM,
    counts,
    last_logits,
    save_runs,
    tokens,  # noqa: F401 (the experiment's)
    train_tied,
)

KINDS = ("none", "equal", "frequent")
WIDTH, PENALTY = 12, 5.0
HIDDEN = 2_000  # last tokens, which no run is trained on
STEPS, EARLY, ROWS = 240, 60, 64
NUMBERS = ("frequent", "rare", "loss")
ARRAYS, EARLIER = ("W", *LSTM), ("W60",)


def runs(variant):
    """Return the 9 runs of a variant: (kind of weights, seed)."""
    return list(itertools.product(KINDS, variant.seeds))


def name(kind, seed) -> str:
    """Return the name of a run in the files that are handed in."""
    return f"{kind}-{seed}"


def groups(text) -> dict[str, np.ndarray]:
    """Return the words that are frequent, a tenth of all, and those that are rare, a half."""
    order = np.argsort(-counts(text, HIDDEN), kind="stable")
    return {"frequent": order[: len(order) // 10], "rare": order[len(order) // 2 :]}


def weights(text, variant, kind) -> np.ndarray:
    """Return the weights of the penalty: equal ones, or frequency to the power κ."""
    powers = counts(text, HIDDEN) ** (variant.kappa if kind == "frequent" else 0.0)
    return powers / powers.sum()


def train(text, variant, kind, seed, steps=STEPS):
    """Train an LSTM with one word matrix; return its arrays, and W's first rows at 60 steps."""
    import torch
    from torch.nn import functional as F

    p = torch.as_tensor(weights(text, variant, kind)).float()

    def loss(hidden, W, wanted):
        prediction = F.cross_entropy(hidden @ W.T, wanted)
        if kind == "none":
            return prediction
        return prediction + PENALTY * ((p @ F.normalize(W, dim=1)) ** 2).sum()

    words = int(text.max()) + 1
    return train_tied(text[:-HIDDEN], words, WIDTH, loss, seed, steps, EARLY, ROWS)


def hidden_loss(arrays, text) -> float:
    """Return the mean loss of a run on the last tokens, in nats, computed in float64."""
    from torch.nn import functional as F

    logits, wanted = last_logits(arrays, text, HIDDEN)
    return float(F.cross_entropy(logits, wanted))


def save(folder, trained: dict, claims: dict, prediction: str) -> None:
    """Write what is to be handed in for step 2.6."""
    save_runs("2.6", folder, name, NUMBERS, trained, claims, prediction)
