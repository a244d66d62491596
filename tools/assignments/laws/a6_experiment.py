"""Steps 6.4, 6.5 and 6.7 at home: tokens, trials, the registered runs, and files to hand in."""

import csv
import hashlib
import json
from datetime import datetime
from pathlib import Path

import numpy as np

from tools.assignments.laws import a6_layer, runs
from tools.assignments.laws.a6_harness import WINDOW, predicted, trained

WORDS = 500  # of the vocabulary; number 0 is every other word
HIDDEN = 4_000  # last tokens, on which the runs are measured
RARE = 20  # times in the text at most: a rare word
STEPS = 300
ARRAYS = ("W", "A", "a", "bias", "W60")
KINDS = ("layer", "baseline")


def vocabulary(variant) -> np.ndarray:
    """Return the corpus' numbers of the commonest words of a student's tokens, in their order."""
    ids = runs.corpus()[variant.begin : variant.begin + runs.TOKENS]
    words, times = np.unique(ids, return_counts=True)
    return words[np.argsort(-times, kind="stable")[: WORDS - 1]]


def numbered(ids, words) -> np.ndarray:
    """Return a text as numbers of a vocabulary, 0 for words that it does not have."""
    places = {word: k for k, word in enumerate(words.tolist(), 1)}
    return np.array([places.get(word, 0) for word in ids.tolist()])


def tokens(variant) -> np.ndarray:
    """Return the variant's tokens in its own vocabulary."""
    ids = runs.corpus()[variant.begin : variant.begin + runs.TOKENS]
    return numbered(ids, vocabulary(variant))


def windows(text, apart: int = 1):
    """Return three words (n, 3) and the one that follows (n,), at each `apart`-th place."""
    at = np.arange(WINDOW, len(text), apart)
    return np.stack([text[at - k] for k in range(WINDOW, 0, -1)], 1), text[at]


def measured_windows(text):
    """Return windows of which none holds a word that another one is asked for."""
    return windows(text, WINDOW + 1)


def shares(text) -> np.ndarray:
    """Return each word's share of the text that is trained on, one occurrence added."""
    times = 1 + np.bincount(text[:-HIDDEN], minlength=WORDS)
    return times / times.sum()


def contexts(arrays, X) -> np.ndarray:
    """Return the contexts (n, d) of a run's own matrices, in float64."""
    W, A, a = (arrays[k].astype(float) for k in ("W", "A", "a"))
    return np.tanh(W[X].reshape(len(X), -1) @ A + a)


def score(log_prob, Y, text, measure: str) -> float:
    """Return the mean −log P in nats, of all words that followed or of the rare ones."""
    losses = -log_prob[np.arange(len(Y)), Y]
    if measure == "rare":
        losses = losses[np.bincount(text[:-HIDDEN], minlength=WORDS)[Y] <= RARE]
    return float(losses.mean())


def train(Layer, text, strengths, rate, seed, steps=STEPS) -> dict:
    """Train a model with a layer on the text but its last tokens; return its arrays."""
    X, Y = windows(text[:-HIDDEN])
    arrays = trained(Layer, X, Y, shares(text), strengths, rate, seed, steps)
    return dict(zip(ARRAYS, arrays, strict=True))


def measure(Layer, arrays, text, strengths, which: str) -> float:
    """Return the registered measure of a run on the last tokens."""
    X, Y = measured_windows(text[-HIDDEN:])
    h = contexts(arrays, X)
    log_prob = predicted(Layer, arrays["W"], arrays["bias"], shares(text), strengths, h)
    return score(log_prob, Y, text, which)


def recomputed(arrays, text, methods, strengths, which: str) -> float:
    """Return the measure of another's run by the definition; no code of the other's is run."""
    X, Y = measured_windows(text[-HIDDEN:])
    W, bias = arrays["W"].astype(float), arrays["bias"].astype(float)
    log_prob = a6_layer.log_prob(methods, W, bias, strengths, contexts(arrays, X))
    return score(log_prob, Y, text, which)


def register(registration: dict, path="registration.json") -> None:
    """Write the registration with the time; what is there is never written over."""
    if Path(path).exists():
        print(
            f"{path} is there, and is not written over: before the first hand-in, delete it first"
        )
        return
    stamped = registration | {"written": datetime.now().isoformat(timespec="seconds")}
    with open(path, "x", encoding="utf-8") as file:
        json.dump(stamped, file, indent=1)


def tried(Layer, text, settings, seed: int, which: str) -> list[list[float]]:
    """Return a line a trial: rate, the two strengths, the measure on the last tokens."""
    lines = []
    for rate, *strengths in settings:
        arrays = train(Layer, text, strengths, rate, seed)
        lines.append([rate, *strengths, measure(Layer, arrays, text, strengths, which)])
    return lines


def unfit(settings: dict, registration: dict, methods) -> list[str]:
    """Return what of the settings and the layer is not as it was registered."""
    count = registration["trials"]
    problems = [
        f"{kind} has {len(settings[kind])} settings; {count} trials are registered"
        for kind in KINDS
        if len(settings[kind]) != count
    ]
    if any(line[1] or line[2] for line in settings["baseline"]):
        problems.append("the baseline has no strengths: write 0 for both")
    if {*methods} != {*registration["methods"]}:
        problems.append(f"METHODS is {tuple(methods)}; registered are {registration['methods']}")
    return problems


def run_all(layers: dict, text, trials: dict, registration: dict, folder=".") -> dict:
    """Train every registered run with the best setting of its kind, and write the files of 6.4.

    layers: {"layer": …, "baseline": …}; trials: lines of `tried` by kind. Returns the measures by
    kind, in the order of the seeds.
    """
    from safetensors.numpy import save_file

    begun = datetime.now().isoformat(timespec="seconds")
    stamp = hashlib.sha256(Path(folder, "registration.json").read_bytes()).hexdigest()
    arrays, values = {}, {kind: [] for kind in KINDS}
    for kind in KINDS:
        rate, *strengths, _ = min(trials[kind], key=lambda line: line[-1])
        for seed in registration["seeds"]:
            run = train(layers[kind], text, strengths, rate, seed)
            arrays |= {f"{kind}-{seed}/{k}": np.ascontiguousarray(v) for k, v in run.items()}
            which = registration["measure"]
            values[kind].append(measure(layers[kind], run, text, strengths, which))
    save_file(arrays, Path(folder, "6.4.safetensors"))
    with open(Path(folder, "6.4.csv"), "w", newline="") as file:
        lines = [
            [f"{kind}-{seed}", repr(value)]
            for kind in KINDS
            for seed, value in zip(registration["seeds"], values[kind], strict=True)
        ]
        csv.writer(file).writerows([["run", "value"], *lines])
    made = {"registration": stamp, "begun": begun, "trials": trials}
    Path(folder, "6.4.json").write_text(json.dumps(made), "utf-8")
    return {kind: np.array(v) for kind, v in values.items()}
