"""Steps 6.4, 6.5 and 6.7 at home: tokens, trials, the registered runs, and files to hand in."""

import csv
import hashlib
import json
import re
from datetime import datetime
from pathlib import Path

import numpy as np

from tools.assignments.laws import a6_forms, a6_registration, runs
from tools.assignments.laws.a6_harness import WINDOW, predicted, trained
from tools.assignments.laws.a6_layer import Definition
from tools.assignments.laws.common import Failed

WORDS = 500  # of the vocabulary; number 0 is every other word
HIDDEN = 4_000  # last tokens, on which the runs are measured
RARE = 20  # times in the text at most: a rare word
STEPS = 300
DIVERGED = 1e8  # nats: the measure of a trial that ended in NaN or beyond
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


def measured(log_prob, arrays, text, hidden, which: str) -> float:
    """Return the mean −log P of a run in nats, of all hidden words that followed or of the rare.

    log_prob: a function of W, bias and contexts (n, d); text: the tokens whose first part the run
    was trained on; hidden: those on which it is measured; which: "loss" or "rare".
    """
    X, Y = measured_windows(hidden)
    W, A, a, bias = (arrays[k].astype(float) for k in ("W", "A", "a", "bias"))
    h = np.tanh(W[X].reshape(len(X), -1) @ A + a)
    losses = -log_prob(W, bias, h)[np.arange(len(Y)), Y]
    if which == "rare":
        losses = losses[np.bincount(text[:-HIDDEN], minlength=WORDS)[Y] <= RARE]
    return float(losses.mean())


def recomputed(arrays, text, methods, strengths, which: str) -> float:
    """Return the measure of another's run by the definition; no code of the other's is run."""
    log_prob = Definition(methods, strengths).log_prob
    return measured(log_prob, arrays, text, text[-HIDDEN:], which)


def best(trials) -> tuple[float, tuple[float, float]]:
    """Return rate and strengths of the trial with the least measure."""
    rate, *strengths, _ = min(trials, key=lambda line: line[-1])
    return rate, tuple(strengths)


def run(Layer, text, strengths, rate, seed: int, which: str) -> tuple[dict, float]:
    """Return the arrays of a run that is trained here, and its measure on the last tokens."""
    X, Y = windows(text[:-HIDDEN])
    p = shares(text)
    values = trained(Layer, X, Y, p, strengths, rate, seed, STEPS)
    arrays = dict(zip(ARRAYS, values, strict=True))

    def log_prob(W, bias, h):
        return predicted(Layer, W, bias, p, strengths, h)

    return arrays, measured(log_prob, arrays, text, text[-HIDDEN:], which)


def register(registration: dict, path="registration.json") -> None:
    """Write the registration with the time; what is there is never written over."""
    stamped = registration | {"written": datetime.now().isoformat(timespec="seconds")}
    text = json.dumps(stamped, indent=1)  # before there is a file, which would stay half written
    if not Path(path).exists():
        Path(path).write_text(text, "utf-8")
    elif unstamped(Path(path).read_text("utf-8")) != unstamped(text):
        print(
            f"{path} is there, says something else, and is not written over; before your first "
            "hand-in you may delete it and run this cell again"
        )


def unstamped(text: str) -> str:
    """Return a registration without its time."""
    return re.sub(r'"written": "[^"]*"', "", text)


def tried(Layer, text, settings, seed: int, which: str) -> list[list[float]]:
    """Return a line a trial: rate, the two strengths, the measure on the last tokens.

    A trial that diverges has `DIVERGED` as its measure, which JSON holds and no trial chooses.
    """
    import torch

    lines = []
    for rate, *strengths in settings:
        try:
            value = run(Layer, text, strengths, rate, seed, which)[1]
        except torch.linalg.LinAlgError:  # as the singular values of NaN end
            value = DIVERGED
        lines.append([rate, *strengths, value if abs(value) < DIVERGED else DIVERGED])
    return lines


def unfit(settings: dict, registration: dict, methods) -> list[str]:
    """Return what of the settings and the layer is not as it was registered, or is not allowed.

    A registration that does not hold comes first: what is trained by it earns nothing.
    """
    try:
        content = json.dumps(registration).encode()
        registration = a6_registration.registered({"registration.json": content})
    except Failed as failure:
        return [failure.sentence]
    if problems := a6_registration.faults(registration):
        return problems
    count = registration["trials"]
    trials = {kind: [[*line, 0] for line in settings[kind]] for kind in KINDS}
    content = json.dumps(trials, default=float).encode()
    try:
        a6_forms.filled({"SETTINGS": content}, "SETTINGS", a6_forms.Trials)
        problems = []
    except Failed as failure:
        problems = [failure.sentence]
    problems += [
        f"{kind} has {len(settings[kind])} settings; {count} trials are registered"
        for kind in KINDS
        if len(settings[kind]) != count
    ]
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
    seeds, which = registration["seeds"], registration["measure"]
    arrays, lines = {}, [["run", "value"]]
    for kind in KINDS:
        rate, strengths = best(trials[kind])
        for seed in seeds:
            own, value = run(layers[kind], text, strengths, rate, seed, which)
            arrays |= {f"{kind}-{seed}/{k}": np.ascontiguousarray(v) for k, v in own.items()}
            lines.append([f"{kind}-{seed}", value])
    save_file(arrays, Path(folder, "6.4.safetensors"))
    made = {"registration": stamp, "begun": begun, "trials": trials}
    Path(folder, "6.4.json").write_text(json.dumps(made), "utf-8")
    with open(Path(folder, "6.4.csv"), "w", newline="") as file:
        csv.writer(file).writerows(lines)
    return results(folder)


def results(folder) -> dict[str, np.ndarray]:
    """Return the measures of the registered runs by kind, in the order of the seeds."""
    with open(Path(folder, "6.4.csv"), newline="") as file:
        lines = list(csv.DictReader(file))
    return {
        kind: np.array([float(line["value"]) for line in lines if line["run"].startswith(kind)])
        for kind in KINDS
    }
