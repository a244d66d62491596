"""Runs of this course: their word matrix, and the model with the text that it was trained on.

A checkpoint says of itself which text it was trained on, and a checkpoint may come from anybody.
What it says never decides what is read or fetched. The text is loaded in two cases only:

* the run was trained on an embedded corpus, which needs neither a file nor the network;
* the user names the corpus. Then its name or path is the user's. The checkpoint gives no more than
  the options, such as the number of words, and the checksums that the text must have.
"""

import json
from dataclasses import replace
from pathlib import Path

from torch import Tensor, nn

from course_lab import results
from course_lab.examine.source import Source
from course_lab.examine.tensor_files import (
    TensorFiles,
    check_finite,
    checkpoint_in,
    open_tensors,
)
from course_lab.experiment import Experiment, Part
from course_lib.data import Corpus, SentencePairs
from course_lib.errors import CourseError
from course_lib.training.checkpoint import load_checkpoint as read_checkpoint
from course_lib.training.checkpoint import restore

EMBEDDED = ("docstrings", "zipf", "cldr")


def identity(tensors: TensorFiles) -> dict | None:
    """Return experiment and checksums of a checkpoint of this course; None of any other file."""
    try:
        content = json.loads(tensors.metadata["progress"])["identity"]
        return content if isinstance(content["experiment"], dict) else None
    except (KeyError, TypeError, ValueError, RecursionError):
        return None


def read_words(path: Path, tensors: TensorFiles, identity: dict) -> Source:
    """Return the output words of a run: a plain matrix, or the product of a spectral one.

    CourseError for a checkpoint without its word matrix.
    """
    experiment = Experiment.from_dict(identity["experiment"])
    untied = "model.output_layer.words"
    tied = not any(name.startswith(f"{untied}.") for name in tensors.entries)
    stem = "model.words" if tied else untied
    if f"{stem}.weight" in tensors.entries:
        stored = name = f"{stem}.weight"
        W = tensors.tensor(name)
    elif f"{stem}.U" in tensors.entries:
        stored, name = f"{stem}.U", f"{stem}.U, free, V"
        U, sigma, V = (tensors.tensor(f"{stem}.{part}").double() for part in ("U", "free", "V"))
        sigma = sigma.abs()
        words = experiment.words if tied else experiment.output_words or experiment.words
        if words.options.get("normalise"):
            sigma = sigma / sigma.max()
        W = (U * sigma) @ V.T
    else:
        raise CourseError(
            f"{tensors.file} is a checkpoint of {experiment.name} without its word matrix"
        )
    note = f"recipe {experiment.name}, profile {experiment.profile}, seed {experiment.seed}"
    return Source(
        W.contiguous(),
        path,
        name,
        "run of this course",
        tensors.entries[stored].dtype,
        tensors.digests(stored),
        tied,
        notes=(note,),
        experiment=experiment,
    )


def load_text(source: Source, corpus: str | Path | None) -> Corpus | SentencePairs | None:
    """Return the text that a run was trained on; None where it is not embedded and not named.

    source: a run of this course.
    corpus: the name or path that the user gave, None if none.
    Raises CourseError if the text cannot be loaded or is another one.
    """
    experiment = source.experiment
    trained_on = experiment.corpus
    if corpus is None and trained_on.kind not in EMBEDDED:
        return None
    for option, value in trained_on.options.items():  # a suffix of a file, say
        if isinstance(value, str) and ("/" in value or "\\" in value):
            raise CourseError(
                f"{source.path}: the option {option} of its corpus is the path {value!r:.80}; a "
                "checkpoint does not decide what is read"
            )
    named = Part(str(corpus or trained_on.kind), trained_on.options)
    text = replace(experiment, corpus=named).load_corpus()
    if text.sha256 != _text_checksums(source):
        raise CourseError(
            f"{source.path} was trained on {trained_on.kind!r:.80}, whose words are not those of "
            f"{text.name}: the checksums differ; "
            + ("leave --corpus out" if corpus else "the text of this corpus has changed")
        )
    return text


def read_weights(source: Source) -> dict[str, Tensor]:
    """Return the tensors of a run's checkpoint; CourseError if the model's are not finite."""
    tensors, _ = read_checkpoint(_checkpoint(source))
    for name, tensor in tensors.items():
        if name.startswith("model."):
            check_finite(source.path, name, tensor)
    return tensors


def build_model(
    source: Source, text: Corpus | SentencePairs, weights: dict[str, Tensor]
) -> nn.Module:
    """Return the model of a run, ready to be evaluated.

    source: the run. text: what it was trained on. weights: the tensors of its checkpoint.
    Raises CourseError for weights that do not fit the model, or that a result beside them does not
    know.
    """
    folder = source.path
    if folder.is_dir() and (folder / "result.json").exists():
        results.check_weights(folder / "best.safetensors", results.read_result(folder))
    model = source.experiment.build(len(text))
    restore(model, weights, str(source.path))
    return model.eval()


def _checkpoint(source: Source) -> Path:
    return checkpoint_in(source.path) if source.path.is_dir() else source.path


def _text_checksums(source: Source) -> dict[str, str]:
    return identity(open_tensors(_checkpoint(source))).get("corpus") or {}
