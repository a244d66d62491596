"""An examination: matrix, counts, diagnosis, measures, repairs; one object that can be written.

Nothing is read or fetched that the user did not name. What a checkpoint says of its own text
decides nothing: see `course_runs`.
"""

import time
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from course_lab import corpora
from course_lab.examine import atlas as tables
from course_lab.examine import course_runs, measures, real_models, unargmaxable
from course_lab.examine import frequencies as counting
from course_lab.examine.chance import random_spectrum
from course_lab.examine.crowds import crowds
from course_lab.examine.diagnosis import diagnose
from course_lab.examine.frequencies import Frequencies
from course_lab.examine.groups import Groups, fair, frequency_groups, sample
from course_lab.examine.lost_gradient import lost_at_the_start
from course_lab.examine.matrices import read
from course_lab.examine.measures import SEED, Spectra
from course_lab.examine.record import Examination
from course_lab.examine.repairs import REPAIRS, perplexities, principal_components, read_in_part
from course_lab.examine.source import Source
from course_lab.examine.weighted import weighted_measures
from course_lib import machine
from course_lib.data import Corpus, SentencePairs
from course_lib.errors import CourseError

CPU = torch.device("cpu")
NUMBERS = 1 << 26  # of a matrix examined at once, 512 MiB in float64; of larger ones a sample


def examine(
    path: Path,
    *,
    against: Path | None = None,
    corpus: str | Path | None = None,
    matrix: str | None = None,
    counts: Path | None = None,
    first_places: float = 0.0,
    atlas: Path | None = None,
) -> Examination:
    """Examine the output matrix of a checkpoint.

    path: a run of this course, a safetensors file, a Hugging Face folder, a GGUF or ONNX file, an
        .npy or .npz file.
    against: another checkpoint to compare it with.
    corpus: name or folder of the text in which words are counted. For a run of this course it is
        the text that the run was trained on, or another with its words; any other is encoded with
        the checkpoint's tokenizer. Then the model is run on it, too, if that is possible.
    matrix: the tensor to be examined, where it is not found or not the one wanted; in `against`,
        too, if that has one of this name.
    counts: a file of counts in place of a text.
    first_places: the seconds that may be spent on the words that no context makes the likeliest.
        With 0 nothing is said of them.
    atlas: a table of the user's own matrices, which `python -m course_lab atlas` makes; severities
        are compared with its rows, too.

    Nothing else is read or fetched. A run brings the counts of its words. Its perplexity needs the
    text: it is there if that is an embedded corpus, which needs neither a file nor the network, or
    if it is the `corpus`.
    Raises CourseError for anything unreadable, without a word matrix, or with weights that are not
    finite.
    """
    if not first_places >= 0:
        raise CourseError(f"first_places is a number of seconds, 0 or more, not {first_places}")
    began = time.perf_counter()
    machine.reset_peak_memory(CPU)
    # the matrix, the text it was trained on, and how often each word occurs
    others = () if atlas is None else tables.read_rows(atlas)
    words = len(counting.read_counts(counts)[1]) if counts is not None else None
    source = read(path, matrix, words)
    text, no_text = _text_of_run(source, corpus)
    frequencies, no_counts = _frequencies(source, text, corpus, counts)
    # the examination
    examination, repaired = _examine(source, frequencies, no_counts)
    examination = replace(examination, atlas=others)
    if first_places > 0:
        places = unargmaxable.first_places(source.W, first_places, source.bias)
        sampled = examination.sampled
        if len(source.W) > places.asked:
            asked = f"first places: of the {places.asked:,} words nearest to the middle, with all "
            sampled = (*sampled, f"{asked}words as rivals")
        metrics = examination.metrics | {
            "words that are never first": len(places.never),
            "words whose first place is open": places.open,
        }
        examination = replace(examination, metrics=metrics, sampled=sampled, never_first=places)
    # perplexity before and after the repairs
    if source.experiment is None and corpus is not None:
        examination = _with_reading(examination, repaired, corpora.load(corpus))
    else:
        examination = _with_run(examination, repaired, text, no_text)
    # the other checkpoint
    if against is not None:
        other = _other(against, corpus, matrix, source, frequencies)
        examination = replace(examination, against=other)
    seconds = time.perf_counter() - began
    return replace(examination, seconds=seconds, peak_memory=machine.peak_memory(CPU))


def _with_run(
    examination: Examination,
    repaired: dict[str, Tensor],
    text: Corpus | SentencePairs | None,
    no_text: str | None,
) -> Examination:
    """Return the examination with the perplexities of a run of this course on its own text."""
    source = examination.source
    if text is None:
        return replace(examination, not_run=no_text)
    if not course_runs.is_own(source, text):
        why = f"the model cannot be run: it was trained on another text than {text.name}"
        return replace(examination, not_run=why)
    weights = course_runs.read_weights(source)  # refuses weights that are not finite
    try:
        model = course_runs.build_model(source, text, weights)
    except CourseError as error:
        return replace(examination, not_run=f"the model cannot be run: {error}")
    matrices = {"": source.W} | _repaired(examination, repaired)
    values = perplexities(model, text, source.experiment, matrices)
    sampled = (*examination.sampled, *read_in_part(text))
    return replace(examination, repairs=_with_values(examination, values), sampled=sampled)


def _repaired(examination: Examination, repaired: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the repairs of the whole matrix; `repaired` are those of its sample, if it has one."""
    W = examination.source.W
    if examination.W is W:
        return repaired
    return {name: repair(W) for name, repair in REPAIRS.items()}


def _with_values(examination: Examination, values: dict[str, float]) -> dict[str, dict]:
    """Return the repairs with their perplexities; `values` has that of the matrix itself at ""."""
    return {
        name: content | {"perplexity_before": values[""], "perplexity": values[name]}
        for name, content in examination.repairs.items()
    }


def _with_reading(
    examination: Examination, repaired: dict[str, Tensor], corpus: Corpus | SentencePairs
) -> Examination:
    """Return the examination with what the model of a checkpoint makes of a text."""
    source = examination.source
    try:
        reading = real_models.read_text(source, corpus)
    except CourseError as error:
        return replace(examination, not_run=f"the model cannot be run: {error}")
    matrices = {"": source.W} | _repaired(examination, repaired)
    values = {name: reading.perplexity(W) for name, W in matrices.items()}
    repairs = _with_values(examination, values)
    lost = reading.lost(source.W)
    metrics = examination.metrics | {
        "perplexity": values[""],
        "gradient lost, of the squared norm": lost.squared,
        "gradient lost, of the norm": lost.norm,
        "gradient lost by a random matrix, of the squared norm": lost.chance,
    }
    part = f"perplexity: {len(reading.target):,} tokens of the validation split of {corpus.name}"
    sampled = (*examination.sampled, part)
    return replace(examination, repairs=repairs, metrics=metrics, sampled=sampled, not_run=None)


def _other(
    path: Path,
    corpus: str | Path | None,
    matrix: str | None,
    first: Source,
    frequencies: Frequencies | None,
) -> Examination:
    """Return the examination of the other checkpoint, without repairs.

    Its words are counted in its own text or by its own tokenizer; where neither is at hand and both
    checkpoints have equally many words, the counts are those of the first.
    """
    words = len(first.W)
    try:
        source = read(path, matrix, words)
    except CourseError:
        if matrix is None:
            raise
        source = read(path, None, words)
    try:
        text, _ = _text_of_run(source, corpus)
    except CourseError:  # the corpus is the first one's
        text = None
    encoded = corpus if source.experiment is None and real_models.encoding(source) else None
    own, unknown = _frequencies(source, text, encoded, None)
    if own is None and frequencies is not None and len(frequencies.counts) == len(source.W):
        own, unknown = frequencies, None
    return _examine(source, own, unknown, repaired=False)[0]


# --- what a run of this course brings ------------------------------------------------------------


def _text_of_run(
    source: Source, corpus: str | Path | None
) -> tuple[Corpus | SentencePairs | None, str | None]:
    """Return (text, None) of a run whose text may be loaded, else (None, why not).

    CourseError where the user names a text that cannot be loaded or has other words.
    """
    if source.experiment is None:
        return None, (
            "perplexity needs a text, which --corpus names, and a model that can be run: a run of "
            "this course, a Llama in a GGUF file, or a Hugging Face folder where transformers is "
            "installed"
        )
    try:
        text = course_runs.load_text(source, corpus)
    except CourseError as error:
        if corpus is not None:
            raise
        return None, f"the model cannot be run: {error}"
    if text is None:
        trained_on = source.experiment.corpus.kind
        return None, (
            f"the model cannot be run: it says that it was trained on {trained_on!r:.80}, which is "
            "read only if you name it with --corpus"
        )
    return text, None


def _frequencies(
    source: Source,
    text: Corpus | SentencePairs | None,
    corpus: str | Path | None,
    counts: Path | None,
) -> tuple[Frequencies | None, str | None]:
    """Return (counts, None), or (None, why there are none)."""
    N = len(source.W)
    known = text or source.vocabulary
    if counts is not None:
        words = list(known.words) if known else source.words
        words = words or counting.pieces(real_models.encoding(source), N)
        return counting.from_file(counts, N, words), None
    if known:
        return counting.of_corpus(known), None
    if corpus is not None:
        return counting.from_text(corpora.load(corpus), real_models.encoding(source), N), None
    return None, (
        "no counts: nothing is said about rare and frequent words. Give --counts FILE, or --corpus "
        "NAME with the text of a run, or with any text where the checkpoint has a tokenizer"
    )


# --- one matrix ----------------------------------------------------------------------------------


class _Examined(NamedTuple):
    """The words that are examined, all or a sample, and what was left out."""

    W: Tensor
    counts: np.ndarray | None
    words: list[str] | None
    groups: Groups | None
    sampled: tuple[str, ...]


def _examine(
    source: Source, frequencies: Frequencies | None, unknown: str | None, repaired: bool = True
) -> tuple[Examination, dict[str, Tensor]]:
    """Return the examination of a matrix and, unless `repaired` is false, the repaired matrices."""
    # rare and frequent words of the whole vocabulary, then a sample of it
    groups = None
    if frequencies is not None:
        try:
            groups = frequency_groups(frequencies.counts)
        except CourseError as error:
            unknown = str(error)
    names = frequencies.words if frequencies and frequencies.words else source.words
    W, counts, words, groups, sampled = _sampled(source.W, frequencies, groups, names)
    # the verdict, which refuses a matrix of nothing but zeros, and the numbers
    diagnosis = diagnose(W, groups, source.predicts)
    everyone = fair(W, groups)
    spectra = Spectra.of(everyone)
    table = measures.measures(W, groups, counts, spectra)
    table |= _of_all_words(source, frequencies)
    # both again after each repair
    matrices = {name: repair(everyone) for name, repair in REPAIRS.items()} if repaired else {}
    there = groups and groups.sampled(np.sort(groups.order))
    repairs = {}
    for name, better in matrices.items():
        after = spectra.without(0 if name == "centring" else principal_components(W.shape[1]))
        gone = after.whole[0] <= 1e-12 * spectra.whole[0]  # all rows alike: the rest is rounding
        numbers = measures.measures(better, there, fair(counts, groups), after)
        if W is source.W and counts is not None:
            numbers |= weighted_measures(better, counts)
        repairs[name] = {
            "metrics": numbers,
            "verdict": "Nothing is left." if gone else diagnose(better, there).sentence,
        }
    examination = Examination(
        source,
        W,
        diagnosis,
        metrics=table,
        spectrum=spectra.whole,
        random=random_spectrum(*everyone.shape),
        repairs=repairs,
        counts=counts,
        words=words,
        groups=groups,
        counted=frequencies.source if frequencies else None,
        unknown=unknown,
        sampled=sampled,
        together=tuple(crowds(source.W)),
        names=names,
        occurs=frequencies.counts > 0 if frequencies else None,
    )
    return examination, matrices


def _of_all_words(source: Source, frequencies: Frequencies | None) -> dict[str, float]:
    """Return the numbers that need counts, which a sample of the words would not give.

    A sample has all frequent words, and would weigh them too much.
    """
    if frequencies is None or not frequencies.counts.sum() > 0:
        return {}
    table = weighted_measures(source.W, frequencies.counts)
    if source.predicts:
        lost = lost_at_the_start(source.W, frequencies.counts)
        table["gradient lost at the start of training"] = lost.squared
        table["the same of a random matrix"] = lost.chance
    return table


def draw(W: Tensor) -> Tensor:
    """Return the words of a matrix that are examined where nobody knows their counts."""
    return W if len(W) <= NUMBERS // W.shape[1] else W[torch.from_numpy(_drawn(W, None))]


def _drawn(W: Tensor, groups: Groups | None) -> np.ndarray:
    return sample(len(W), NUMBERS // W.shape[1], groups, SEED)


def _sampled(
    W: Tensor, frequencies: Frequencies | None, groups: Groups | None, words: list[str] | None
) -> _Examined:
    """Return all words of a matrix; of a large one all frequent words and some of the others.

    W: (N, d). frequencies: how often each word occurs, None if nobody knows. groups: rare and
    frequent words of the whole vocabulary. words: what the rows stand for.
    """
    counts = frequencies.counts if frequencies else None
    sampled = []
    N = len(W)
    most = NUMBERS // W.shape[1]
    if N > most:
        rows = _drawn(W, groups)
        drawn = "drawn at random" if groups is None else "all frequent ones and others at random"
        sampled.append(f"{most:,} of {N:,} words, {drawn} (seed {SEED})")
        W = W[torch.from_numpy(rows)]
        counts = None if counts is None else counts[rows]
        words = None if words is None else [words[row] for row in rows]
        groups = groups and groups.sampled(rows)
    if len(W) > measures.PAIRED:
        sampled.append(
            f"nearest neighbours and the share of positive pairs: among {measures.PAIRED:,} words"
        )
    return _Examined(W, counts, words, groups, tuple(sampled))
