"""A run of an n-gram model: it counts the train split, and has no epochs, weights or chance."""

import time
from pathlib import Path

import numpy as np
import torch

from course_lab import provenance, results
from course_lab.experiment import Experiment
from course_lab.final_figures import TEST_LOSSES
from course_lab.results import Result
from course_lib.data import Corpus, SentencePairs
from course_lib.models.kneser_ney import KneserNey


def counted(experiment: Experiment, corpus: Corpus | SentencePairs) -> KneserNey:
    """Return the n-gram model of an experiment, which has counted the train split."""
    assert isinstance(corpus, Corpus)  # as the experiment loads it for an encoder of running text
    ngrams = experiment.encoder.build("encoder")
    return ngrams.fit(corpus.train, corpus.eos, len(corpus))


def count(
    experiment: Experiment,
    folder: Path,
    corpus: Corpus | SentencePairs,
    origin: dict,
    writes: bool = True,
) -> Result:
    """Count the n-grams of a text, predict its other splits, and write the result.

    experiment: of an n-gram model.
    folder: receives result.json and arrays.npz.
    corpus: the text of the experiment.
    origin: what runs now, for the provenance.
    writes: whether this process writes the result.
    """
    started = time.perf_counter()
    model = counted(experiment, corpus)
    metrics = {"ngrams": model.size(), "valid_perplexity": model.perplexity(corpus.valid)}
    seconds = time.perf_counter() - started  # of counting and validation, as of a network's run
    losses = -model.log_prob(corpus.test)
    metrics["test_perplexity"] = float(np.exp(losses.mean()))
    arrays = {TEST_LOSSES: losses.astype(np.float16)}
    tokens = len(corpus.train)
    source = provenance.provenance([origin], corpus, torch.device("cpu"), seconds, tokens)
    if writes:
        folder.mkdir(parents=True, exist_ok=True)
        results.write_result(folder, experiment, [], metrics, source, arrays)
    return Result(model, corpus, experiment, folder, [], metrics, source)
