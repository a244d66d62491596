"""Step 1.6: Figure 1 of inan2017 on a student's own tokens, and how the claims are marked.

The student hands in the matrices of all runs and the numbers claimed for them. The numbers are
computed again from the matrices, and one run, drawn at random, is trained again for 60 steps.
"""

import csv
import io
import itertools

import numpy as np

from tools.assignments.laws.common import Failed, Verdict, apart

BETAS = (0.0, 0.5, 1.0)
TOKENS, WIDTH = 20_000, 12
STEPS, EARLY, ROWS = 240, 60, 64
NUMBERS = ("distance", "share", "contradicted")
# Shares of the step's points.
COMPLETE, RIGHT, REPLICATED, PREDICTED = 0.2, 0.4, 0.3, 0.1


def runs(variant):
    """Return the 18 runs of a variant: (β, rows at norm 1, seed)."""
    return list(itertools.product(BETAS, (False, True), variant.seeds))


def name(beta, unit, seed) -> str:
    """Return the name of a run in the files that are handed in."""
    return f"{beta:g}-{'unit' if unit else 'free'}-{seed}"


def tokens(variant) -> np.ndarray:
    """Return the variant's tokens, numbered by first occurrence."""
    from course_lab.corpora.docstrings import load_docstrings

    ids = np.asarray(load_docstrings().train)[variant.begin : variant.begin + TOKENS]
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


def measured(W, E) -> dict[str, float]:
    """Return the three numbers of a run from its matrices."""
    from tools.assignments.laws import a1

    W, E = W.astype(float), E.astype(float)
    X = np.column_stack([E, np.ones(len(E))])
    fitted = X @ np.linalg.lstsq(X, W, rcond=None)[0]
    share = 1 - ((W - fitted) ** 2).sum() / ((W - W.mean(0)) ** 2).sum()
    return {
        "distance": distance(W, E),
        "share": float(share),
        "contradicted": float(a1.contradicted(E).mean()),
    }


def save(folder, variant, trained: dict, claims: dict, prediction: str) -> None:
    """Write what is to be handed in: matrices, claimed numbers, prediction.

    trained: {run: what `train` returned}; claims: {run: {"distance": …, "share": …,
    "contradicted": …}}; a run is (β, unit, seed).
    """
    import json
    from pathlib import Path

    from safetensors.numpy import save_file

    arrays = {f"{name(*run)}/{k}": np.ascontiguousarray(v) for run, a in trained.items() for k, v in a.items()}
    save_file(arrays, Path(folder, "1.6.safetensors"))
    lines = [[name(*run), *(repr(float(claims[run][n])) for n in NUMBERS)] for run in claims]
    with open(Path(folder, "1.6.csv"), "w", newline="") as file:
        csv.writer(file).writerows([["run", *NUMBERS], *lines])
    Path(folder, "1.6.json").write_text(json.dumps({"prediction": prediction}))


def mark(files: dict[str, bytes], variant, rng, text=None) -> Verdict:
    """Return the verdict on the files of step 1.6; `text` is the variant's tokens, else loaded."""
    try:
        arrays, claims = weights(files), claimed(files)
    except Failed as failure:
        return Verdict(0.0, failure.sentence, "files", failure.kind)
    expected = {name(*run) for run in runs(variant)}
    theirs = {key.partition("/")[0] for key in arrays}
    if theirs and not theirs & expected:
        return Verdict(0.0, "these runs are of another variant than yours", "variant", "variant")
    missing = sorted(run for run in expected if not {f"{run}/{k}" for k in ("E", "W", "E60", "W60")} <= arrays.keys())
    share, sentences = COMPLETE * (1 - len(missing) / len(expected)), []
    if missing:
        sentences.append(f"{len(missing)} of {len(expected)} runs are missing, as {missing[0]}")

    # The claimed numbers, from the matrices.
    wrong = []
    for run in sorted(expected - set(missing)):
        W, E = arrays[f"{run}/W"], arrays[f"{run}/E"]
        if W.shape != E.shape or W.ndim != 2 or not W.std() > 0 or not 2 <= W.shape[1] <= 64 or len(W) > TOKENS:
            wrong.append(f"{run}: the matrices have shapes {W.shape} and {E.shape}")
            continue
        for what, value in measured(W, E).items():
            said = claims.get(run, {}).get(what, float("nan"))
            if not abs(said - value) <= 1e-6 + 1e-4 * (what == "contradicted"):
                wrong.append(f"{run}: {what} is {value:.6f} by your matrices, you say {said:.6f}")
    if not missing:
        share += RIGHT * max(0.0, 1 - len({w.partition(":")[0] for w in wrong}) / len(expected))
    sentences += wrong[:3]

    # One run, trained again.
    whole = sorted(run for run in runs(variant) if name(*run) not in missing)
    if whole:
        beta, unit, seed = whole[int(rng.integers(len(whole)))]
        again = train(tokens(variant) if text is None else text, variant, beta, unit, seed, EARLY)
        own = {k: arrays[f"{name(beta, unit, seed)}/{k}"] for k in ("E60", "W60")}
        far = max(apart(own[k], again[k]) if own[k].shape == again[k].shape else np.inf for k in own)
        if far < 0.01:
            share += REPLICATED
        else:
            sentences.append(
                f"{name(beta, unit, seed)}, trained again for {EARLY} steps, differs by {far:.1%}: "
                "was it run with your variant, and as given?"
            )

    # The prediction, which only has to be there.
    if len(prediction(files)) > 30:
        share += PREDICTED
    else:
        sentences.append("no prediction: a sentence, written before the runs, is worth points")
    return Verdict(round(share, 6), "; ".join(sentences), "claims" * bool(sentences))


def weights(files) -> dict[str, np.ndarray]:
    """Return the arrays that were handed in; raise Failed where there is no readable file."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    if "1.6.safetensors" not in files:
        raise Failed("missing", "1.6.safetensors was not handed in")
    try:
        arrays = load(files["1.6.safetensors"])
    except (SafetensorError, ValueError, KeyError, TypeError, MemoryError) as error:
        raise Failed("damaged", f"1.6.safetensors cannot be read: {error}") from None
    if not all(a.dtype.kind == "f" and np.isfinite(a).all() for a in arrays.values()):
        raise Failed("finite", "1.6.safetensors has NaN, or what is no number")
    return arrays


def claimed(files) -> dict[str, dict[str, float]]:
    """Return the claimed numbers by run; raise Failed where there is no readable table."""
    try:
        lines = csv.DictReader(io.StringIO(files["1.6.csv"].decode()))
        return {line["run"]: {n: float(line[n]) for n in NUMBERS} for line in lines}
    except (KeyError, ValueError, TypeError, csv.Error) as error:
        raise Failed("missing", f"1.6.csv is missing or has no {error}") from None


def prediction(files) -> str:
    """Return the prediction that was handed in, "" where there is none."""
    import json

    try:
        return str(json.loads(files["1.6.json"])["prediction"])
    except (KeyError, ValueError, TypeError, RecursionError):
        return ""
