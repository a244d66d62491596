"""Every number of a result: perplexities, BLEU, ranks, geometry, word similarity."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch

from course_lab.adaptation import compute
from course_lab.corpora import similarity
from course_lab.corpora.piece_text import PieceText
from course_lab.corpora.registry import DOWNLOADS
from course_lab.experiment import Experiment
from course_lab.predicting import predictions
from course_lib.data import Corpus, SentencePairs, split_compounds, token_batches, tokenise
from course_lib.data.bpe import BLANK
from course_lib.data.corpus import EOS
from course_lib.errors import CourseError
from course_lib.evaluation.log_prob import log_prob_blocks
from course_lib.evaluation.perplexity import evaluating, perplexity, token_losses
from course_lib.evaluation.translation import BeamSearch, bleu, translate, translation_perplexity
from course_lib.metrics.neighbours import nearest_neighbours
from course_lib.metrics.rank import spectrum
from course_lib.metrics.registry import summary
from course_lib.metrics.similarity import as_written, lower_cased, similarities
from course_lib.metrics.subspaces import subspace_distance
from course_lib.models import LanguageModel, OutputModel, TranslationModel
from course_lib.output_layers.centring import centred

RANKED = 2_048  # words up to which the spectrum of log P is a matter of a second or two
PAIRED = 50_000  # words up to which all pairs are compared, some seconds
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)  # of the distances to the nearest neighbours
TEST_LOSSES = "test_losses"  # the array of −log P of every token of the test split, in nats

# A figure is computed through a function of its name and of what computes it. `compute` just
# computes it; a FigureCache remembers it.
Cache = Callable[[str, Callable], Any]


def final_figures(
    model: OutputModel,
    corpus: Corpus | SentencePairs,
    experiment: Experiment,
    progress: bool,
    arrays: dict | None = None,
    noted: Cache = compute,
) -> dict:
    """Return the figures of the validation and the test split.

    A language model has its perplexity at batch 1, or what an `adaptation` makes of it, and the
    ranks of log P; a translator has its perplexity and BLEU.

    model: in evaluation mode.
    corpus: the text that it was trained on.
    experiment: says how it is evaluated.
    progress: whether bars are shown.
    arrays: receives the singular values of log P, and the loss of every token of the test split.
    noted: computes each figure but the ranks and the losses, or knows it already.
    """
    if isinstance(corpus, SentencePairs):
        assert isinstance(model, TranslationModel)
        return _translation_figures(model, corpus, experiment, progress, noted)
    assert isinstance(model, LanguageModel)
    o = experiment.optimisation
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
    if isinstance(corpus, PieceText) and "small" not in experiment.corpus.options:
        for name, split in (("valid", corpus.valid), ("test", corpus.test)):
            of_pieces = figures[f"{name}_perplexity"]
            figures[f"{name}_word_perplexity"] = per_word(of_pieces, corpus, split)
    if arrays is not None:
        # Two bytes a token hold a loss to 1 part in 2,000, as comparisons of words need it.
        losses = token_losses(model, corpus.test, **settings)
        arrays[TEST_LOSSES] = losses.cpu().numpy().astype(np.float16)
    if "small" not in experiment.corpus.options:  # a few kilobytes, for whole texts only
        told = noted("predictions", partial(predictions, model, corpus, experiment.seed, settings))
        figures |= {"predictions": told} if told else {}
    contexts = experiment.ranked_contexts or (2 * RANKED if len(corpus) <= RANKED else 0)
    if contexts:
        shown = progress and len(corpus) > RANKED
        blocks = log_prob_blocks(model, corpus.test, contexts=contexts, progress=shown, **settings)
        ranks = spectrum(blocks)
        figures["log_prob"] = ranks.summary()
        if arrays is not None:
            arrays["log_prob_singular_values"] = ranks.singular_values.astype(np.float32)
    return figures


# Translation -------------------------------------------------------------------------------------


def _translation_figures(
    model: TranslationModel,
    corpus: SentencePairs,
    experiment: Experiment,
    progress: bool,
    noted: Cache,
) -> dict:
    """Return perplexity and BLEU of both splits, with the signatures of BLEU at the end."""
    search = experiment.decoding.build("decoding") if experiment.decoding else BeamSearch()

    def of_split(name: str) -> dict:
        split = getattr(corpus, name)
        batches = token_batches(split, experiment.optimisation.max_tokens)
        figures = {f"{name}_perplexity": translation_perplexity(model, batches)}
        translations = translate(model, split.source, search, progress=progress)
        hypotheses = [corpus.decode(ids) for ids in translations]
        references = list(split.target_text)
        return figures | _bleu_figures(name, hypotheses, references, corpus)

    figures = noted("valid", partial(of_split, "valid")) | noted("test", partial(of_split, "test"))
    signatures = [name for name in figures if name.endswith("signature")]
    scores = [name for name in figures if name not in signatures]
    return {name: figures[name] for name in (*scores, *signatures)}


def _bleu_figures(
    name: str,
    hypotheses: list[str],
    references: list[str],
    corpus: SentencePairs,
) -> dict:
    """Return BLEU of a split's translations, in up to three ways.

    One is of the text as it is read, lower-cased where the corpus is. One is of its words separated
    by the course's own tokeniser, which is nearer to the papers' figures. WMT 2014 has a third,
    with compounds split at their hyphens, as Vaswani et al. (2017) measured it.
    """
    score = bleu(hypotheses, references, lowercase=corpus.lowercase)
    words = [[tokenise(text) for text in side] for side in (hypotheses, references)]
    tokenised = bleu(*words, tokenize="none", lowercase=corpus.lowercase)
    figures = {f"{name}_bleu": score.score, f"{name}_tokenised_bleu": tokenised.score}
    if corpus.compound_split:
        compounds = [[split_compounds(text) for text in side] for side in words]
        split_up = bleu(*compounds, tokenize="none", lowercase=corpus.lowercase)
        figures[f"{name}_compound_split_bleu"] = split_up.score
    return figures | {
        "bleu_signature": score.signature,
        "tokenised_bleu_signature": tokenised.signature,
    }


# Word vectors ------------------------------------------------------------------------------------


def word_matrix_geometry(model: OutputModel, counts: torch.Tensor) -> dict:
    """Return the geometry of the matrix that predicts.

    With at most `PAIRED` words there is also the distance of a word to its nearest neighbour: its
    mean and quantiles over all words. An untied model also has the geometry of the matrix that
    reads, and the distance between the two column spaces. counts (N,) says how often each word
    occurs in the train split.
    """
    W = model.output_layer.words.matrix().cpu()
    figures: dict[str, Any] = {"geometry": summary(W, counts)}
    if len(W) <= PAIRED:
        distances = nearest_neighbours(W)[0]
        quantiles = {str(q): float(np.quantile(distances, q)) for q in QUANTILES}
        figures["neighbours"] = {"mean": float(distances.mean()), "quantiles": quantiles}
    if not model.tied:
        E = model.words.matrix().cpu()
        figures["input_geometry"] = summary(E, counts)
        figures["subspace_distance"] = subspace_distance(W, E)
    return figures


def fetched_benchmarks(experiment: Experiment) -> dict:
    """Return the benchmarks of word similarity, where they have been fetched.

    They are for a text that was fetched as well, since the embedded ones know too few of their
    words. They are read before the training, which a damaged file would otherwise lose.
    """
    is_natural = experiment.corpus.kind in DOWNLOADS and not experiment.translates
    return similarity.load_word_similarity() if is_natural and similarity.fetched() else {}


def word_similarity(model: OutputModel, corpus: Corpus, benchmarks: dict) -> dict:
    """Return the word-similarity scores of the output matrix, a dictionary for each benchmark.

    "rho" is Spearman's ρ of the matrix as it is, "rho_centred" of the matrix without its mean row:
    in a cone, cosines tell of the common direction, and so of how rare two words are. Both are None
    with fewer than 3 pairs. "found" and "missing" count the pairs that the vocabulary knows and
    does not know where capitals do not matter; "…_as_written" are the four numbers with the look-up
    of parthiban2021's code.
    """
    W = model.output_layer.words.matrix().detach()
    look_ups = {"": lower_cased(corpus.words), "_as_written": as_written(corpus.words)}
    scores = {name: {} for name in benchmarks}
    for suffix, look_up in look_ups.items():
        tables = {
            "rho": similarities(W, look_up, benchmarks, resamples=0),
            "rho_centred": similarities(centred(W), look_up, benchmarks, resamples=0),
        }
        for name, of_one in scores.items():
            for key, table in tables.items():
                rho = float(table.rho[name])
                of_one[key + suffix] = None if math.isnan(rho) else rho
            for key in ("found", "missing"):
                of_one[key + suffix] = int(tables["rho"].loc[name, key])
    return scores


def per_word(perplexity: float, corpus: PieceText, ids: torch.Tensor) -> float:
    """Return a perplexity per word, as a model of words would have it.

    perplexity: per piece, on the text `ids`, (n,) int64. A line end counts as a word, and an
        `<unk>` as a part of one: it is a character that train lacks, whose blank is known.

    CourseError for an `<unk>` of a vocabulary that was cut, as of a `small` text.
    """
    # Pieces are learned from train, so one that is unknown there was cut, and may begin a word.
    if corpus.unk is not None and corpus.counts[corpus.unk] and (ids == corpus.unk).any():
        raise CourseError(
            f"the words of {corpus.name} cannot be counted: its vocabulary lacks pieces that "
            "begin one; take the perplexity per piece, or the whole vocabulary"
        )
    begins = torch.tensor([w == EOS or w.startswith(BLANK) for w in corpus.words])
    words = int(begins[ids].sum())
    return math.exp(math.log(perplexity) * len(ids) / words)
