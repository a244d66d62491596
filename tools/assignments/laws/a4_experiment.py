"""Step 4.6: no penalty, the two-sided one, and a ceiling, on a student's own tokens."""

import itertools

import numpy as np

from tools.assignments.laws.runs import (
    LSTM,
    counts,
    last_logits,
    save_runs,
    tokens,  # noqa: F401 (the experiment's)
    train_lstm,
)

KINDS = ("none", "two-sided", "ceiling")
WIDTH, WEIGHT, ORTHOGONALITY = 16, 0.1, 1.0
HIDDEN = 2_000  # last tokens, which no run is trained on
STEPS, EARLY, ROWS = 240, 60, 64
NUMBERS = ("above", "I1", "off", "loss")
ARRAYS, EARLIER = ("U", "s", "V", *LSTM), ("U60", "s60", "V60")


def runs(variant):
    """Return the 9 runs of a variant: (kind of penalty, seed)."""
    return list(itertools.product(KINDS, variant.seeds))


def name(kind, seed) -> str:
    """Return the name of a run in the files that are handed in."""
    return f"{kind}-{seed}"


def bounds(variant) -> np.ndarray:
    """Return the variant's bounds c₁ k^−γ, (16,)."""
    return variant.c1 * np.arange(1, WIDTH + 1) ** -variant.gamma


def train(text, variant, kind, seed, steps=STEPS):
    """Train an LSTM over W = U Σ Vᵀ; return its arrays, and those of the factors at 60 steps.

    All kinds begin with the same orthonormal U and V, and with σ at half of the bounds. The paper's
    first two penalties hold U and V; the kind decides what holds σ.
    """
    import torch
    from torch.nn import functional as F

    # the start
    torch.manual_seed(seed)
    c = torch.as_tensor(bounds(variant)).float()
    U = torch.nn.Parameter(torch.linalg.qr(torch.randn(int(text.max()) + 1, WIDTH))[0])
    V = torch.nn.Parameter(torch.linalg.qr(torch.randn(WIDTH, WIDTH))[0])
    s = torch.nn.Parameter(c / 2)

    # the words' vectors and the loss
    def read(ids):
        return (U[ids] * s) @ V.T

    def penalty():
        over = s.abs().sort(descending=True).values - c
        return {
            "none": 0.0,
            "two-sided": WEIGHT * over.square().sum(),
            "ceiling": WEIGHT * over.clamp(min=0).square().sum(),
        }[kind]

    def loss(hidden, wanted):
        prediction = F.cross_entropy((hidden @ V * s) @ U.T, wanted)
        one = torch.eye(WIDTH)
        bent = sum((M.T @ M - one).square().sum() for M in (U, V))
        return prediction + penalty() + ORTHOGONALITY * bent

    # A step of U or V moves W by σ times as much.
    typical = float(c.norm()) / WIDTH**0.5
    rates = {"U": 0.02 / typical, "V": 0.02 / typical, "s": 0.1}
    matrices = {"U": U, "s": s, "V": V}
    return train_lstm(text[:-HIDDEN], matrices, read, loss, steps, EARLY, ROWS, rates)


def matrix(arrays) -> np.ndarray:
    """Return the word matrix of a run, in float64."""
    U, s, V = (arrays[k].astype(float) for k in ("U", "s", "V"))
    return (U * s) @ V.T


def frequencies(text) -> np.ndarray:
    """Return each word's share of the text that is trained on, one occurrence added."""
    times = counts(text, HIDDEN)
    return times / times.sum()


def off(arrays) -> float:
    """Return ‖UᵀU − I‖_F of a run: where it is small, the sizes of s are the singular values."""
    U = arrays["U"].astype(float)
    return float(np.linalg.norm(U.T @ U - np.eye(U.shape[1])))


def hidden_loss(arrays, text) -> float:
    """Return the mean loss of a run on the last tokens, in nats, computed in float64."""
    from torch.nn import functional as F

    logits, wanted = last_logits(arrays | {"W": matrix(arrays)}, text, HIDDEN)
    return float(F.cross_entropy(logits, wanted))


def save(folder, trained: dict, claims: dict, prediction: str) -> None:
    """Write what is to be handed in for step 4.6."""
    save_runs("4.6", folder, name, NUMBERS, trained, claims, prediction)
