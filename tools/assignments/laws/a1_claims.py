"""How the claims of step 1.6 are marked: by the matrices, and by training one run again."""

import csv
import io
import json

import numpy as np

from tools.assignments.laws import a1
from tools.assignments.laws.a1_experiment import EARLY, NUMBERS, distance, name, runs, tokens, train
from tools.assignments.laws.common import Failed, Verdict, apart

WORDS = 6_000  # more than any slice of 20,000 tokens has
ARRAYS = ("E", "W", "E60", "W60")
# Shares of the step's points.
COMPLETE, RIGHT, REPLICATED, PREDICTED = 0.2, 0.4, 0.3, 0.1


def measured(W, E) -> dict[str, float]:
    """Return the three numbers of a run from its matrices."""
    W, E = W.astype(float), E.astype(float)
    X = np.column_stack([E, np.ones(len(E))])
    fitted = X @ np.linalg.lstsq(X, W, rcond=None)[0]
    share = 1 - ((W - fitted) ** 2).sum() / ((W - W.mean(0)) ** 2).sum()
    return {
        "distance": distance(W, E),
        "share": float(share),
        "contradicted": float(a1.contradicted(E).mean()),
    }


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
    missing = sorted(run for run in expected if not {f"{run}/{k}" for k in ARRAYS} <= arrays.keys())
    share, sentences = COMPLETE * (1 - len(missing) / len(expected)), []
    if missing:
        sentences.append(f"{len(missing)} of {len(expected)} runs are missing, as {missing[0]}")

    # The claimed numbers, from the matrices.
    wrong = []
    for run in sorted(expected - set(missing)):
        W, E = arrays[f"{run}/W"], arrays[f"{run}/E"]
        if (
            W.shape != E.shape
            or W.ndim != 2
            or not W.std() > 0
            or not 2 <= W.shape[1] <= 64
            or len(W) > WORDS
        ):
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
        far = max(
            apart(own[k], again[k]) if own[k].shape == again[k].shape else np.inf for k in own
        )
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
    try:
        return str(json.loads(files["1.6.json"])["prediction"])
    except (KeyError, ValueError, TypeError, RecursionError):
        return ""
