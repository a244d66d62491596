"""Step 2.6: the cosine penalty with three weights, on a student's own tokens."""

import itertools

import numpy as np

from tools.assignments.laws.runs import columns, save_runs, tokens  # noqa: F401 (the experiment's)

KINDS = ("none", "equal", "frequent")
WIDTH, PENALTY = 12, 5.0
HIDDEN = 2_000  # last tokens, which no run is trained on
STEPS, EARLY, ROWS = 240, 60, 64
NUMBERS = ("frequent", "rare", "loss")
LSTM = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
ARRAYS, EARLIER = ("W", *LSTM), ("W60",)


def runs(variant):
    """Return the 9 runs of a variant: (kind of weights, seed)."""
    return list(itertools.product(KINDS, variant.seeds))


def name(kind, seed) -> str:
    """Return the name of a run in the files that are handed in."""
    return f"{kind}-{seed}"


def counts(text) -> np.ndarray:
    """Return how often each word occurs in the part that is trained on, one added."""
    return 1 + np.bincount(text[:-HIDDEN], minlength=int(text.max()) + 1)


def groups(text) -> dict[str, np.ndarray]:
    """Return the words that are frequent, a tenth of all, and those that are rare, a half."""
    order = np.argsort(-counts(text), kind="stable")
    return {"frequent": order[: len(order) // 10], "rare": order[len(order) // 2 :]}


def weights(text, variant, kind) -> np.ndarray:
    """Return the weights of the penalty: equal ones, or frequency to the power κ."""
    powers = counts(text) ** (variant.kappa if kind == "frequent" else 0.0)
    return powers / powers.sum()


def train(text, variant, kind, seed, steps=STEPS):
    """Train an LSTM with one word matrix; return its arrays, and W's first rows at 60 steps."""
    import torch
    from torch.nn import functional as F

    torch.manual_seed(seed)
    W = torch.nn.Parameter(torch.randn(int(text.max()) + 1, WIDTH) / WIDTH**0.5)
    lstm = torch.nn.LSTM(WIDTH, WIDTH)
    p = torch.as_tensor(weights(text, variant, kind)).float()
    optimiser = torch.optim.Adam([W, *lstm.parameters()], 0.02)
    kept = {}
    for step in range(steps):
        read, wanted = columns(text[:-HIDDEN], step)
        logits = lstm(W[read])[0].flatten(0, 1) @ W.T
        loss = F.cross_entropy(logits, wanted.flatten())
        if kind != "none":
            loss = loss + PENALTY * ((p @ F.normalize(W, dim=1)) ** 2).sum()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        if step + 1 == EARLY:
            kept["W60"] = W[:ROWS].detach().numpy().copy()
    kept |= {k: getattr(lstm, k).detach().numpy().copy() for k in LSTM}
    return kept | {"W": W.detach().numpy().copy()}


def hidden_loss(arrays, text) -> float:
    """Return the mean loss of a run on the last tokens, in nats, computed in float64."""
    import torch
    from torch.nn import functional as F

    W = torch.as_tensor(arrays["W"]).double()
    lstm = torch.nn.LSTM(W.shape[1], W.shape[1]).double()
    lstm.load_state_dict({k: torch.as_tensor(arrays[k]).double() for k in LSTM})
    last = torch.as_tensor(text[-HIDDEN:])
    with torch.no_grad():
        logits = lstm(W[last[:-1]])[0] @ W.T
        return float(F.cross_entropy(logits, last[1:]))


def save(folder, trained: dict, claims: dict, prediction: str) -> None:
    """Write what is to be handed in for step 2.6."""
    save_runs("2.6", folder, name, NUMBERS, trained, claims, prediction)
