"""Step 3.6: the adversary in three balls, at the same mean margin, on a student's own tokens."""

import itertools

import numpy as np

from tools.assignments.laws.runs import columns, save_runs, tokens  # noqa: F401 (the experiment's)

BALLS = ("none", "l2", "linf", "ellipsoid")
WIDTH = 12
HIDDEN = 2_000  # last tokens, which no run is trained on
STEPS, EARLY, ROWS = 240, 60, 64
NUMBERS = ("loss", "tempered")
LSTM = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
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
    import torch
    from torch.nn import functional as F

    torch.manual_seed(seed)
    W = torch.nn.Parameter(torch.randn(int(text.max()) + 1, WIDTH) / WIDTH**0.5)
    lstm = torch.nn.LSTM(WIDTH, WIDTH)
    optimiser = torch.optim.Adam([W, *lstm.parameters()], 0.02)
    kept = {}
    for step in range(steps):
        read, wanted = columns(text[:-HIDDEN], step)
        hidden = lstm(W[read])[0].flatten(0, 1)
        logits, target = hidden @ W.T, wanted.flatten()
        if ball != "none":
            pulled = margins(hidden, W.detach(), ball)
            pulled = variant.margin * pulled / pulled.mean().detach()
            logits = logits - F.one_hot(target, len(W)) * pulled[:, None]
        loss = F.cross_entropy(logits, target)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        if step + 1 == EARLY:
            kept["W60"] = W[:ROWS].detach().numpy().copy()
    kept |= {k: getattr(lstm, k).detach().numpy().copy() for k in LSTM}
    return kept | {"W": W.detach().numpy().copy()}


def losses(arrays, text) -> dict[str, float]:
    """Return the mean loss on the last tokens, as it is and at the best of 31 temperatures."""
    import torch
    from torch.nn import functional as F

    W = torch.as_tensor(arrays["W"]).double()
    lstm = torch.nn.LSTM(W.shape[1], W.shape[1]).double()
    lstm.load_state_dict({k: torch.as_tensor(arrays[k]).double() for k in LSTM})
    last = torch.as_tensor(text[-HIDDEN:])
    with torch.no_grad():
        logits = lstm(W[last[:-1]])[0] @ W.T
        tempered = [float(F.cross_entropy(logits / t, last[1:])) for t in TEMPERATURES]
        return {"loss": float(F.cross_entropy(logits, last[1:])), "tempered": min(tempered)}


def save(folder, trained: dict, claims: dict, prediction: str) -> None:
    """Write what is to be handed in for step 3.6."""
    save_runs("3.6", folder, name, NUMBERS, trained, claims, prediction)
