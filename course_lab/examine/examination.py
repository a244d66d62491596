"""An examination: matrix, counts, diagnosis, metrics, repairs; one object that can be written."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from course_lab import load_checkpoint
from course_lab.examine import frequencies as counting
from course_lab.examine.diagnosis import (
    Groups,
    diagnose,
    frequency_groups,
    random_spectrum,
)
from course_lab.examine.frequencies import Frequencies
from course_lab.examine.matrices import Source, read
from course_lab.examine.record import PAIRED, SEED, Examination, few, nearest_distances
from course_lab.examine.repairs import REPAIRS, perplexities, read_in_part
from course_lib import data
from course_lib.errors import CourseError
from course_lib.metrics import geometry, rank

NUMBERS = 1 << 26  # of a matrix examined at once, 512 MiB in float64; of larger ones a sample


def examine(
    path: Path,
    *,
    against: Path | None = None,
    corpus: str | Path | None = None,
    matrix: str | None = None,
    counts: Path | None = None,
) -> Examination:
    """Examine the output matrix of a checkpoint, and that of another to compare it with.

    corpus: name or folder of the text whose words, by the checkpoint's tokenizer.json, are
    counted; counts: a file of counts instead; a run of this course brings its own. matrix: the
    tensor to be examined, where it is not found or not the one wanted; in `against` too, if that
    has one of this name. CourseError for anything unreadable or without a word matrix.
    """
    words = len(counting.read_counts(counts)[1]) if counts is not None else None
    source = read(path, matrix, words)
    model, text, not_run = _model(source)
    found, unknown = _frequencies(source, text, corpus, counts)
    one = _examination(source, found, unknown)
    if model is None:
        one = replace(one, not_run=not_run)
    else:
        repairs = _with_perplexity(one.repairs, source, model, text)
        one = replace(one, repairs=repairs, sampled=(*one.sampled, *read_in_part(text)))
    if against is None:
        return one
    return replace(one, against=_other(against, corpus, matrix, one, found))


def _other(path, corpus, matrix, one: Examination, found: Frequencies | None) -> Examination:
    """The other checkpoint, without its repairs; counted by its own corpus or tokenizer, or, where
    both have equally many words, like the first."""
    words = len(one.source.W)
    try:
        source = read(path, matrix, words)
    except CourseError:
        if matrix is None:
            raise
        source = read(path, None, words)
    _, text, _ = _model(source)
    tokenizer = (source.folder / "tokenizer.json").is_file()
    own, unknown = _frequencies(source, text, corpus if tokenizer else None, None)
    if own is None and found is not None and len(found.counts) == len(source.W):
        own, unknown = found, None
    return _examination(source, own, unknown, repaired=False)


def _model(source: Source):
    """(model, corpus, None) of a run of this course, else (None, None, why not)."""
    if source.experiment is None:
        return None, None, "perplexity needs a run of this course, whose model can be built"
    try:
        model, corpus, _ = load_checkpoint(source.path)
    except CourseError as error:
        return None, None, f"the model cannot be run: {error}"
    return model, corpus, None


def _frequencies(source, text, corpus, counts) -> tuple[Frequencies | None, str | None]:
    """(counts, None) or (None, why there are none)."""
    N = len(source.W)
    if counts is not None:
        return counting.from_file(counts, N, _vocabulary(source, text, N)), None
    if corpus is not None:
        tokenizer, given = None, data.load(corpus)
        if source.experiment is None:
            tokenizer = source.folder / "tokenizer.json"
        elif text is not None and list(given.words) != list(text.words):
            raise CourseError(
                f"{source.path} was trained on {text.name}, whose words are not those of "
                f"{given.name}; leave --corpus out"
            )
        return counting.from_text(given, tokenizer, N), None
    if text is not None:
        return counting.of_corpus(text), None
    return None, (
        "no counts: nothing is said about rare and frequent words. Give --counts FILE, or --corpus "
        "NAME where a tokenizer.json lies beside the checkpoint"
    )


def _vocabulary(source: Source, text, N: int) -> list[str] | None:
    """The words of the rows, where the run's corpus or a tokenizer beside the checkpoint says."""
    if text is not None:
        return list(text.words)
    return counting.pieces(source.folder / "tokenizer.json", N)


def _examination(source, found, unknown, repaired: bool = True) -> Examination:
    W, counts, words, tokens = source.W, None, None, None
    if found is not None:
        counts, words, tokens = found.counts, found.words, found.counts.sum()
    sampled = []
    most = NUMBERS // W.shape[1]
    if len(W) > most:
        rows = np.sort(np.random.default_rng(SEED).choice(len(W), most, replace=False))
        sampled.append(f"{most:,} of {len(W):,} words, drawn at random (seed {SEED})")
        W = W[torch.from_numpy(rows)]
        counts = None if counts is None else counts[rows]
        words = None if words is None else [words[i] for i in rows]
    groups = None
    if counts is not None:
        try:
            groups = frequency_groups(counts, tokens)
        except CourseError as error:
            unknown = str(error)
    diagnosis = diagnose(W, groups)  # refuses a matrix of nothing but zeros
    if len(W) > PAIRED:
        sampled.append(
            f"nearest neighbours and the share of positive pairs: among {PAIRED:,} words"
        )
    spectrum = geometry.singular_values(W)
    metrics = measured(W, groups, spectrum)
    repairs = {}
    for name, repair in REPAIRS.items() if repaired else ():
        better = repair(W)
        after = geometry.singular_values(better)
        gone = after[0] <= 1e-12 * spectrum[0]  # all rows alike: what is left is rounding
        repairs[name] = {
            "metrics": measured(better, groups, after),
            "verdict": "Nothing is left." if gone else diagnose(better, groups).sentence,
        }
    return Examination(
        source, W, diagnosis, metrics, spectrum, random_spectrum(*W.shape), repairs,
        counts, words, groups, found.source if found else None, unknown, sampled=tuple(sampled),
    )  # fmt: skip


def measured(W, groups: Groups | None, spectrum: np.ndarray) -> dict[str, float]:
    """The numbers of the table, by name; lengths in units of the root mean square norm."""
    scale = float(W.double().square().sum(1).mean().sqrt())
    some = few(W)
    drift = geometry.common_drift(W)
    table = {"mean cosine": drift.cosine}
    if groups:
        rare, frequent = W[groups.rare], W[groups.frequent]
        table["mean cosine, rare words"] = geometry.mean_cosine(rare)
        table["mean cosine, frequent words"] = geometry.mean_cosine(frequent)
        table["mean cosine, rare with frequent"] = geometry.mean_cosine(rare, frequent)
    cosines, isotropy = geometry.cosine_by_dimension(W), geometry.isotropy(W)
    ranks = {"stable rank": 0.0, "rank for 99 % of the energy": 0}
    if spectrum.any():
        ranks["stable rank"] = geometry.stable_rank(spectrum)
        ranks["rank for 99 % of the energy"] = rank.effective_rank(spectrum, 0.01)
    return table | {
        "share of the mean vector": drift.share,
        "positive pairs": geometry.positive_share(some),
        "σ₂/σ₁": float(spectrum[1] / spectrum[0]) if spectrum[0] else 0.0,
        **ranks,
        "IsoScore": geometry.isoscore(W),
        "isotropy I₁": isotropy.I1,
        "isotropy I₂": isotropy.I2,
        "largest part of one dimension in the mean cosine": float(cosines.max()),
        "distance to the nearest word": float(np.median(nearest_distances(some)) / scale)
        if scale
        else 0,
        "root mean square norm": scale,
    }


def _with_perplexity(repairs: dict, source: Source, model, text) -> dict:
    """The repairs with the perplexity before and after, of the whole matrix."""
    matrices = {"": source.W} | {name: repair(source.W) for name, repair in REPAIRS.items()}
    found = perplexities(model, text, source.experiment, matrices)
    return {
        name: content | {"perplexity_before": found[""], "perplexity": found[name]}
        for name, content in repairs.items()
    }
