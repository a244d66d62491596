"""Every number of a result: perplexities, BLEU, ranks, geometry, word similarity."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn

from course_lab.experiment import Experiment
from course_lib.data import (
    Corpus,
    similarity,
    split_compounds,
    token_batches,
    tokenise,
)
from course_lib.data.registry import DOWNLOADS
from course_lib.evaluation.adaptation import compute
from course_lib.evaluation.log_prob import log_prob_blocks
from course_lib.evaluation.perplexity import evaluating, perplexity
from course_lib.evaluation.translation import BeamSearch, bleu, translate, translation_perplexity
from course_lib.metrics.rank import spectrum
from course_lib.metrics.similarity import similarities
from course_lib.metrics.subspaces import subspace_distance
from course_lib.metrics.summary import summary
from course_lib.output_layers.centring import centred

RANKED = 2_048  # words up to which the spectrum of log P is a matter of a second or two


def word_matrix_geometry(model: nn.Module, counts: torch.Tensor) -> dict:
    """The geometry of the matrix that predicts; untied, that of the matrix that reads, and the
    distance of the first's column space from the second's."""
    W = model.output_layer.words.matrix().cpu()
    found = {"geometry": summary(W, counts)}
    if not model.tied:
        E = model.words.matrix().cpu()
        found["input_geometry"] = summary(E, counts)
        found["subspace_distance"] = subspace_distance(W, E)
    return found


def fetched_benchmarks(experiment: Experiment) -> dict:
    """Those of word similarity, where they have been fetched, for a text that was fetched as well:
    the embedded ones know too few of their words. Read before the training, which a damaged file
    would otherwise lose."""
    natural = experiment.corpus.kind in DOWNLOADS and not experiment.translates
    return similarity.load_word_similarity() if natural and similarity.fetched() else {}


def word_similarity(model: nn.Module, corpus: Corpus, benchmarks: dict) -> dict:
    """Of each benchmark Spearman's ρ for the matrix that predicts, as it is and with its mean row
    taken away: in a cone, cosines tell of the common direction, and so of how rare two words are.
    None with fewer than 3 pairs. And how many pairs the vocabulary knows."""
    W = model.output_layer.words.matrix().detach()
    matrices = {"rho": W, "rho_centred": centred(W)}
    tables = {
        name: similarities(M, corpus.words, benchmarks, resamples=0) for name, M in matrices.items()
    }
    return {
        name: {
            key: None if math.isnan(table.rho[name]) else float(table.rho[name])
            for key, table in tables.items()
        }
        | {"found": int(tables["rho"].found[name])}
        for name in benchmarks
    }


def final_figures(
    model: nn.Module,
    corpus: Corpus,
    experiment: Experiment,
    progress: bool,
    arrays: dict | None = None,
    noted: Callable[[str, Callable], Any] = compute,
) -> dict:
    """Of the validation and test split: perplexity at batch 1, with an `adaptation` as that gives;
    of a translator, BLEU too, with its signature; the ranks of log P over the first contexts of the
    test split, where the experiment asks for them or the vocabulary is small. `arrays` takes the
    singular values that they are counted in; `noted` is asked for every figure but the ranks."""
    o = experiment.optimisation
    if experiment.translates:
        return _translation_figures(model, corpus, experiment, progress, noted)
    if experiment.adaptation is not None:
        adapt = experiment.adaptation.build("adaptation")
        with evaluating(model, o.evaluation_memory, o.evaluation_clamp):
            return adapt(model, corpus, o.evaluation_length, progress, noted)
    settings = {
        "eos": corpus.eos,
        "length": o.evaluation_length,
        "memory": o.evaluation_memory,
        "clamp": o.evaluation_clamp,
    }
    figures = {
        f"{name}_perplexity": noted(name, partial(perplexity, model, split, **settings))
        for name, split in (("valid", corpus.valid), ("test", corpus.test))
    }
    contexts = experiment.ranked_contexts or (2 * RANKED if len(corpus) <= RANKED else 0)
    if contexts:
        shown = progress and len(corpus) > RANKED
        blocks = log_prob_blocks(model, corpus.test, contexts=contexts, progress=shown, **settings)
        found = spectrum(blocks)
        figures["log_prob"] = found.summary()
        if arrays is not None:
            arrays["log_prob_singular_values"] = found.singular_values.astype(np.float32)
    return figures


def _translation_figures(model, corpus, experiment, progress, noted) -> dict:
    """Perplexity; BLEU of the text as it is read, lower-cased where the corpus is, and of its words
    separated by the course's own tokeniser, which is nearer to the papers' figures; of WMT 2014
    with compounds split at their hyphens, too, as Vaswani et al. (2017) measured it."""
    search = experiment.decoding.build("decoding") if experiment.decoding else BeamSearch()

    def of_split(name: str) -> dict:
        split = getattr(corpus, name)
        batches = token_batches(split, experiment.optimisation.max_tokens)
        figures = {f"{name}_perplexity": translation_perplexity(model, batches)}
        found = translate(model, split.source, search, progress=progress)
        texts = [corpus.decode(ids) for ids in found], list(split.target_text)
        score = bleu(*texts, lowercase=corpus.lowercase)
        words = [[tokenise(text) for text in side] for side in texts]
        tokenised = bleu(*words, tokenize="none", lowercase=corpus.lowercase)
        figures |= {f"{name}_bleu": score.score, f"{name}_tokenised_bleu": tokenised.score}
        if corpus.compound_split:
            split_up = [[split_compounds(text) for text in side] for side in words]
            compounds = bleu(*split_up, tokenize="none", lowercase=corpus.lowercase)
            figures[f"{name}_compound_split_bleu"] = compounds.score
        return figures | {
            "bleu_signature": score.signature,
            "tokenised_bleu_signature": tokenised.signature,
        }

    figures = noted("valid", partial(of_split, "valid")) | noted("test", partial(of_split, "test"))
    last = "bleu_signature", "tokenised_bleu_signature"
    return {n: figures[n] for n in figures if n not in last} | {n: figures[n] for n in last}
