"""Runs of this course: their word matrix, vocabulary, text and model.

A checkpoint says of itself which text it was trained on, and a checkpoint may come from anybody.
What it says never decides what is read or fetched. Its vocabulary, with the counts of the words,
lies in the checkpoint itself. The text is loaded in two cases only:

* the run was trained on an embedded corpus, which needs neither a file nor the network;
* the user names the corpus. Then its name or path is the user's. The checkpoint gives no more than
  the options, such as the number of words, and the words or checksums that the text must have.
"""

import json
from pathlib import Path

from torch import Tensor, nn

from course_lab import results
from course_lab.checkpoints import EMBEDDED, check_parts, text_of_run
from course_lab.examine.source import Source
from course_lab.examine.tensor_files import TensorFiles, check_finite, checkpoint_in
from course_lab.experiment import Experiment
from course_lab.vocabulary import vocabulary_from_dict
from course_lib.data import Corpus, SentencePairs
from course_lib.errors import CourseError
from course_lib.training.checkpoint import load_checkpoint as read_checkpoint
from course_lib.training.checkpoint import restore


def read_header(tensors: TensorFiles) -> dict | None:
    """Return what a checkpoint of this course says of itself; None of any other file."""
    try:
        header = json.loads(tensors.metadata["progress"])
        return header if isinstance(header["identity"]["experiment"], dict) else None
    except (KeyError, TypeError, ValueError, RecursionError):
        return None


def read_words(path: Path, tensors: TensorFiles, header: dict) -> Source:
    """Return the output words of a run: a plain matrix, or the product of a spectral one.

    path: as the user gave it. tensors: of its checkpoint. header: what the checkpoint says of
    itself.
    Raises CourseError for a checkpoint without its word matrix, or with a vocabulary that is not
    the matrix's, and for a part of somebody's own, whose file has not been named.
    """
    check_parts(path, header)
    experiment = Experiment.from_dict(header["identity"]["experiment"])
    # the matrix
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
    # the words of its rows
    vocabulary = None
    if header.get("vocabulary") is not None:
        vocabulary = vocabulary_from_dict(header["vocabulary"], str(path))
        if len(vocabulary) != len(W):
            raise CourseError(f"{path} holds {len(W):,} rows, but {len(vocabulary):,} words")
    note = f"recipe {experiment.name}, profile {experiment.profile}, seed {experiment.seed}"
    return Source(
        W.contiguous(),
        path,
        name,
        "run of this course",
        tensors.entries[stored].dtype,
        tensors.digests(stored),
        tied,
        predicts=True,
        notes=(note,),
        experiment=experiment,
        text_sha256=header["identity"].get("corpus") or {},
        vocabulary=vocabulary,
    )


def load_text(source: Source, corpus: str | Path | None) -> Corpus | SentencePairs | None:
    """Return a text with the words of a run; None where its own is not embedded and none is named.

    source: a run of this course.
    corpus: the name or path that the user gave, None if none.
    Raises CourseError if the text cannot be loaded, or if its words are not the run's.
    """
    assert source.experiment is not None  # as that of every run of this course
    if corpus is None and source.experiment.corpus.kind not in EMBEDDED:
        return None
    words = source.vocabulary.words if source.vocabulary else None
    return text_of_run(source.path, source.experiment, source.text_sha256, corpus, words)


def is_own(source: Source, text: Corpus | SentencePairs) -> bool:
    """Return whether a run was trained on this text."""
    return text.sha256 == source.text_sha256


def read_weights(source: Source) -> dict[str, Tensor]:
    """Return the tensors of a run's checkpoint; CourseError if the model's are not finite."""
    file = checkpoint_in(source.path) if source.path.is_dir() else source.path
    tensors, _ = read_checkpoint(file)
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
    if results.is_done(folder):
        results.check_weights(folder / "best.safetensors", results.read_result(folder))
    assert source.experiment is not None
    model = source.experiment.build(len(text))
    restore(model, weights, str(source.path))
    return model.eval()
