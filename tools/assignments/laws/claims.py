"""Marks for the claims of an experiment: by what was handed in, and by beginning a run again.

An experiment is a module with `ARRAYS` and `EARLIER`, the names of a run's arrays at its end and
after a few steps; `NUMBERS`, what is claimed; `runs(variant)`, `name(*run)`, `tokens(variant)`, and
`train(text, variant, *run, steps)`.
"""

import csv
import io
import json

import numpy as np

from tools.assignments.laws.common import Failed, Verdict, apart

# Shares of the step's points.
COMPLETE, RIGHT, REPLICATED, PREDICTED = 0.2, 0.4, 0.3, 0.1
TOLERANCE = 1e-6  # of a claimed number, beside one part in 10⁴ for counted words
REPLICATION = 0.01  # relative; another processor's instructions differ by far less


def mark(experiment, measured, step: str, files: dict[str, bytes], variant, rng, text) -> Verdict:
    """Return the verdict on the files of a step.

    experiment: the module; measured: a function of (arrays, text, run) that gives a run's numbers;
    step: "1.6"; files: by name; variant: the student's; rng: draws the run that is begun again;
    text: the variant's tokens, None to load them.
    """
    sentences: list[str] = []
    try:
        arrays = weights(step, files)
    except Failed as failure:
        return Verdict(0.0, failure.sentence, "files", failure.kind)
    try:
        claims = claimed(step, files, experiment.NUMBERS)
    except Failed as failure:
        claims = None
        sentences.append(failure.sentence)
    names = {experiment.name(*run): run for run in experiment.runs(variant)}
    if arrays and not {key.partition("/")[0] for key in arrays} & names.keys():
        return Verdict(0.0, "these runs are of another variant than yours", "variant", "variant")
    needed = (*experiment.ARRAYS, *experiment.EARLIER)
    whole = {n: {k: arrays[f"{n}/{k}"] for k in needed} for n in names if has(arrays, n, needed)}
    missing = sorted(names.keys() - whole.keys())
    share = COMPLETE * len(whole) / len(names)
    if missing:
        sentences.append(f"{len(missing)} of {len(names)} runs are missing, as {missing[0]}")
    text = experiment.tokens(variant) if text is None else text

    # The claimed numbers, from the arrays.
    wrong = {}
    for name in sorted(whole) if claims is not None else ():
        try:
            numbers = measured(whole[name], text, names[name])
        except (ValueError, IndexError, np.linalg.LinAlgError) as error:
            wrong[name] = f"{name}: nothing can be computed from its arrays: {error}"
            continue
        for what, value in numbers.items():
            said = claims.get(name, {}).get(what, float("nan"))
            if not abs(said - value) <= TOLERANCE + 1e-4 * (what == "contradicted"):
                wrong[name] = f"{name}: {what} is {value:.6f} by your arrays, you say {said:.6f}"
    if claims is not None:
        share += RIGHT * (len(whole) - len(wrong)) / len(names)
    sentences += list(wrong.values())[:3]

    # One run, begun again: training it to its end takes long, and processors differ by more there.
    if whole:
        name = sorted(whole)[int(rng.integers(len(whole)))]
        again = experiment.train(text, variant, *names[name], experiment.EARLY)
        far = max(distant(whole[name][k], again[k]) for k in experiment.EARLIER)
        if far < REPLICATION:
            share += REPLICATED
        else:
            sentences.append(
                f"{name}, trained again for {experiment.EARLY} steps, differs by {far:.1%}: was it "
                "run with your variant, and as given?"
            )

    # The prediction, which only has to be there.
    if len(prediction(step, files)) > 30:
        share += PREDICTED
    else:
        sentences.append("no prediction: a sentence, written before the runs, is worth points")
    return Verdict(round(share, 6), "; ".join(sentences), "claims" * bool(sentences))


def has(arrays: dict, name: str, needed) -> bool:
    """Return whether all arrays of a run were handed in."""
    return {f"{name}/{k}" for k in needed} <= arrays.keys()


def distant(value: np.ndarray, expected: np.ndarray) -> float:
    """Return the relative distance of two arrays, infinite for another shape."""
    return apart(value, expected) if value.shape == expected.shape else float("inf")


def tensors(step: str, files) -> dict[str, np.ndarray]:
    """Return the arrays of a step's file, whatever is in them; raise Failed for no such file."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    name = f"{step}.safetensors"
    if name not in files:
        raise Failed("missing", f"{name} was not handed in")
    try:
        return load(files[name])
    except (SafetensorError, ValueError, KeyError, TypeError, MemoryError) as error:
        raise Failed("damaged", f"{name} cannot be read: {error}") from None


def weights(step: str, files) -> dict[str, np.ndarray]:
    """Return a step's arrays, all of them finite numbers; raise Failed for others."""
    arrays = tensors(step, files)
    if not all(a.dtype.kind == "f" and np.isfinite(a).all() for a in arrays.values()):
        raise Failed("finite", f"{step}.safetensors has NaN, or what is no number")
    return arrays


def claimed(step: str, files, numbers) -> dict[str, dict[str, float]]:
    """Return the claimed numbers by run; raise Failed where there is no readable table."""
    if f"{step}.csv" not in files:
        raise Failed("missing", f"{step}.csv was not handed in")
    try:
        lines = csv.DictReader(io.StringIO(files[f"{step}.csv"].decode("utf-8-sig")))
        return {line["run"]: {n: float(line[n]) for n in numbers} for line in lines}
    except KeyError as error:
        raise Failed("damaged", f"{step}.csv has no column {error}") from None
    except (ValueError, TypeError, csv.Error) as error:
        raise Failed("damaged", f"{step}.csv cannot be read: {error}") from None


def prediction(step: str, files) -> str:
    """Return the prediction that was handed in, "" where there is none."""
    try:
        return str(json.loads(files[f"{step}.json"])["prediction"])
    except (KeyError, ValueError, TypeError, RecursionError):
        return ""
