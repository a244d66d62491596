"""Step 3.6: the adversary in three balls, at the same mean margin, on a student's own tokens."""

import itertools

import numpy as np

from tools.assignments.laws.runs import (
    LSTM,
    last_logits,
    save_runs,
    tokens,  # noqa: F401 (the experiment's)
    train_tied,
)

BALLS = ("none", "l2", "linf", "ellipsoid")
WIDTH = 12
HIDDEN = 2_000  # last tokens, which no run is trained on
STEPS, EARLY, ROWS = 240, 60, 64
NUMBERS = ("loss", "tempered")
ARRAYS, EARLIER = ("W", *LSTM), ("W60",)
TEMPERATURES = np.linspace(0.5, 2, 31)


def runs(variant):
    """Return the 20 runs of a variant: (ball, seed)."""
    return list(itertools.product(BALLS, variant.seeds))


def name(ball, seed) -> str:
    """Return the name of a run in the files that are handed in."""
    return f"{ball}-{seed}"


def margins(hidden, W, ball):
    """Return how far an adversary of radius 1 pulls the target's logit down, for each context."""
    cloud = W - W.mean(0)
    spread = cloud.T @ cloud / len(W)
    return {
        "l2": hidden.norm(dim=1),
        "linf": hidden.abs().sum(1),
        "ellipsoid": (hidden @ spread * hidden).sum(1).clamp(min=1e-12).sqrt(),
    }[ball]


def train(text, variant, ball, seed, steps=STEPS):
    """Train an LSTM with one word matrix; return its arrays, and W's first rows at 60 steps.

    The radius is such that the mean margin of each batch is the variant's, in nats.
    """
    from torch.nn import functional as F

    def loss(hidden, W, wanted):
        logits = hidden @ W.T
        if ball != "none":
            pulled = margins(hidden, W.detach(), ball)
            # Through the mean, too: else shorter contexts would lower the margin, down to h = 0.
            pulled = variant.margin * pulled / pulled.mean()
            logits = logits - F.one_hot(wanted, len(W)) * pulled[:, None]
        return F.cross_entropy(logits, wanted)

    words = int(text.max()) + 1
    return train_tied(text[:-HIDDEN], words, WIDTH, loss, seed, steps, EARLY, ROWS)


def losses(arrays, text) -> dict[str, float]:
    """Return the mean loss on the last tokens, as it is and at the best of 31 temperatures."""
    from torch.nn import functional as F

    logits, wanted = last_logits(arrays, text, HIDDEN)
    tempered = [float(F.cross_entropy(logits / t, wanted)) for t in TEMPERATURES]
    return {"loss": float(F.cross_entropy(logits, wanted)), "tempered": min(tempered)}


def save(folder, trained: dict, claims: dict, prediction: str) -> None:
    """Write what is to be handed in for step 3.6."""
    save_runs("3.6", folder, name, NUMBERS, trained, claims, prediction)
