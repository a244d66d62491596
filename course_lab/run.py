"""Run an experiment: corpus, model, training, final figures, result folder.

The stages follow one another in `_run`: prepare, train, take the best weights, compute the final
figures, write the result. A run that was interrupted passes through the same stages: training goes
on from its last checkpoint, and final figures that were computed before come from their cache.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from torch import nn

from course_lab import provenance, results
from course_lab.checkpoints import check_goes_on, load_start, start_of
from course_lab.corpora.download import file_digest
from course_lab.counting import count, counted
from course_lab.experiment import Experiment
from course_lab.figure_cache import FigureCache
from course_lab.final_figures import (
    fetched_benchmarks,
    final_figures,
    word_matrix_geometry,
    word_similarity,
)
from course_lab.locks import alone_in
from course_lab.pair_cosines import pair_arrays
from course_lab.processes import PATIENCE, Meeting, accelerator_on
from course_lab.recipes import elsewhere
from course_lab.results import Result
from course_lab.tracking import Report, check_trackers, tracked, with_geometry
from course_lab.vocabulary import vocabulary_to_dict
from course_lib import machine
from course_lib.data import Corpus, SentencePairs
from course_lib.errors import CourseError
from course_lib.evaluation.perplexity import evaluating
from course_lib.machine import keep_freed_memory
from course_lib.metrics.similarity import lower_cased
from course_lib.models import OutputModel
from course_lib.ranges import Count, Finite, NonNegative, Positive, checked
from course_lib.training.batches import LanguageModelBatches, TranslationBatches
from course_lib.training.checkpoint import load_checkpoint as read_checkpoint
from course_lib.training.checkpoint import restore
from course_lib.training.loop import fit


@checked
def run(
    experiment: Experiment,
    folder: Path | None = None,
    *,
    callback: Callable[[int, nn.Module], None] | None = None,
    report: Report | None = None,
    trackers: Sequence[str] = (),
    geometry_every: Count | None = None,
    progress: bool = True,
    device: str = "auto",
    checkpoint_seconds: NonNegative = 60.0,
    deadline: Finite | None = None,
    patience: Positive = PATIENCE,
) -> Result:
    """Train an experiment, or go on with one that was interrupted, and evaluate it.

    The best epoch in validation is evaluated, or the last one where optimisation.keep says so.
    Afterwards the folder holds result.json, best.safetensors and last.safetensors. Several
    processes train together where `accelerate launch` or `torchrun` starts them.

    experiment: everything that decides the figures.
    folder: where checkpoints and result go; by default runs/<recipe>/<profile>-seed<n>, followed
        by -<variant> where settings differ from the recipe's.
    callback: called with the step and the model before the first step and after each.
    report: called with a step and figures: loss, rate, speed and norm of the gradient every twenty
        steps, perplexities after each epoch, and the geometry where it is asked for.
    trackers: names of accelerate's trackers that are told the same, such as tensorboard, whose
        files lie in the folder's `tracker`.
    geometry_every: steps between two looks at the matrix that predicts; None for no look.
    progress: whether bars are shown.
    device: "auto", or "cpu" to keep a GPU out of it.
    checkpoint_seconds: time between two checkpoints within an epoch.
    deadline: seconds as time.time() counts. After it the run saves and raises `Paused`, and the
        next call goes on. One process also pauses between two final figures; several do not.
    patience: seconds that a process waits in training for another that does not answer. It has
        nothing to do with optimisation.patience, which counts epochs.

    An n-gram model is counted instead, in one go: of the arguments it takes the folder alone.

    A folder that holds the finished result of this experiment is not trained in again; the result
    and its weights are read. CourseError is raised where another process trains in the folder,
    where the folder holds another experiment or another text, and where the weights of a finished
    result, or those that it started from, are no longer the same.
    """
    if not experiment.name:
        raise CourseError("a run is called after its experiment; give the experiment a name")
    folder = Path(folder) if folder is not None else results.run_folder(experiment)
    check_trackers(trackers)
    options = _Options(callback, report, geometry_every, progress, checkpoint_seconds, deadline)
    accelerator = accelerator_on(device, patience, trackers, folder)
    if accelerator.device.type == "cpu":
        keep_freed_memory()  # or each step would get its memory from the system anew
    if not accelerator.is_main_process:  # the first process locks the folder for all
        return _run(experiment, folder, accelerator, options)
    with alone_in(folder):
        return _run(experiment, folder, accelerator, options)


@dataclass(frozen=True)
class _Options:
    """Those arguments of `run` that the training takes; none of them changes a figure."""

    callback: Callable[[int, nn.Module], None] | None
    report: Report | None
    geometry_every: int | None
    progress: bool
    checkpoint_seconds: float
    deadline: float | None


@dataclass(frozen=True)
class _Prepared:
    """Everything that a run has before its first step, and that its later stages share."""

    experiment: Experiment
    folder: Path
    accelerator: Accelerator
    corpus: Corpus | SentencePairs
    model: OutputModel
    task: LanguageModelBatches | TranslationBatches
    identity: dict  # experiment, checksums of the text, digest of the weights that it begins with
    starts: list[dict]  # the machines and commits that began or resumed the run, each once
    benchmarks: dict  # of word similarity, by name; empty where none was fetched


def _run(
    experiment: Experiment, folder: Path, accelerator: Accelerator, options: _Options
) -> Result:
    """Pass through the stages of a run in this process."""
    started = time.perf_counter()
    machine.reset_peak_memory(accelerator.device)
    origin = provenance.origin(accelerator.device) | {"processes": accelerator.num_processes}
    if own_files := elsewhere.digests_of(experiment):
        origin["own_files"] = own_files
    corpus = experiment.load_corpus()
    if results.is_done(folder):
        return _finished(folder, experiment, corpus, accelerator.device)
    if experiment.is_counted:
        return count(experiment, folder, corpus, origin, accelerator.is_main_process)

    # prepare: settings that do not fit are refused here, before the long training
    prepared = _prepare(experiment, folder, accelerator, corpus, origin)
    # Where one process may be hours behind, as after loading a corpus or computing figures, they
    # wait in a meeting. The accelerator's own wait, after training, gives up after `patience`.
    meeting = Meeting(accelerator)
    meeting.wait()

    # train
    training = time.perf_counter()
    epochs = _train(prepared, options)
    training = time.perf_counter() - training
    peak = machine.peak_memory(accelerator.device)  # of the training, not of the final figures
    accelerator.wait_for_everyone()  # for `patience` only: all end the training together

    # take the weights of best.safetensors
    model, best_epoch = _best_model(prepared)

    # compute the final figures; those that an earlier call computed come from the cache
    cache = _figure_cache(prepared, options.deadline)
    shown = options.progress and accelerator.is_main_process
    metrics, arrays = _metrics(prepared, model, best_epoch, cache, shown)
    meeting.wait()

    # write the result
    # The cache's starts are those of `prepared` and of calls that went no further than figures.
    source = _source(prepared, epochs, cache.starts)
    source["peak_memory_mb"] = round(peak)
    source["last_start_seconds"] = round(time.perf_counter() - started, 1)
    source["last_training_seconds"] = round(training, 1)  # of these
    if accelerator.is_main_process:
        results.write_result(folder, experiment, epochs, metrics, source, arrays)
    cache.forget()
    return Result(model, corpus, experiment, folder, epochs, metrics, source)


# The stages --------------------------------------------------------------------------------------


def _prepare(
    experiment: Experiment,
    folder: Path,
    accelerator: Accelerator,
    corpus: Corpus | SentencePairs,
    origin: dict,
) -> _Prepared:
    """Build the model and its batches, and check every setting that can be checked by now.

    experiment, corpus: what is trained, on which text.
    folder: of the run; its paused run, if there is one, must be of this experiment.
    accelerator: tells this process's share of the batches.
    origin: what runs now, the last of the run's starts.
    """
    starts = provenance.starts(folder / "last.safetensors", origin)
    provenance.warn_of_changed_files(starts, origin.get("own_files", {}), folder)
    _check_order(experiment, corpus)
    benchmarks = fetched_benchmarks(experiment)
    model = experiment.build(len(corpus))
    optimisation = experiment.optimisation
    if not experiment.translates:
        # Entering and leaving is the check: an encoder without a memory refuses to have one set.
        with evaluating(model, optimisation.evaluation_memory, optimisation.evaluation_clamp):
            pass
    identity = {"experiment": experiment.identity(), "corpus": corpus.sha256}
    if experiment.start_from is not None:
        # The weights of the earlier run go into the model; the digest is of their file.
        identity["start"] = load_start(model, experiment, corpus)
    check_goes_on(folder, identity)
    kind: Any = TranslationBatches if experiment.translates else LanguageModelBatches
    task = kind(corpus, optimisation, accelerator.process_index, accelerator.num_processes)
    return _Prepared(
        experiment, folder, accelerator, corpus, model, task, identity, starts, benchmarks
    )


def _check_order(experiment: Experiment, corpus: Corpus | SentencePairs) -> None:
    """Raise CourseError where an adaptive softmax needs words by frequency but has others."""
    is_wanted = "by_frequency" in experiment.requires
    if is_wanted and isinstance(corpus, Corpus) and not corpus.is_by_frequency:
        raise CourseError(
            f"{experiment.name}: the clusters of an adaptive softmax are of words by frequency, "
            f"but the words of {corpus.name} are in another order; load them with the option "
            "by_frequency, of the corpus or of its part `small`"
        )


def _train(prepared: _Prepared, options: _Options) -> list[dict]:
    """Train to the end, from the last checkpoint if there is one; return the epochs' figures."""
    experiment = prepared.experiment
    every = options.geometry_every
    with tracked(prepared.accelerator, experiment, options.report) as report:
        callback = options.callback
        if report and every:
            callback = with_geometry(report, prepared.corpus.counts, every, callback)
        return fit(
            prepared.model,
            prepared.task,
            experiment.optimisation,
            prepared.accelerator,
            folder=prepared.folder,
            identity=prepared.identity,
            vocabulary=vocabulary_to_dict(prepared.corpus),
            starts=prepared.starts,
            seed=experiment.seed,
            callback=callback,
            report=report,
            progress=options.progress,
            checkpoint_seconds=options.checkpoint_seconds,
            deadline=options.deadline,
            trained=experiment.start_from is not None,
        )


def _best_model(prepared: _Prepared) -> tuple[OutputModel, int]:
    """Return the model with the weights of best.safetensors, and the number of their epoch."""
    tensors, head = read_checkpoint(prepared.folder / "best.safetensors")
    model = prepared.model
    experiment = prepared.experiment
    accelerator = prepared.accelerator
    if experiment.optimisation.shard and accelerator.num_processes > 1:
        # Some final figures, as of dynamic evaluation, change all weights in place, but a process
        # holds only a part of `prepared.model`. The weights therefore go into a fresh model.
        model = experiment.build(len(prepared.corpus)).to(accelerator.device)
    restore(model, tensors, str(prepared.folder))
    return model.eval(), head["epoch"]


def _figure_cache(prepared: _Prepared, deadline: float | None) -> FigureCache:
    """Return the cache of the final figures of the best weights.

    With several processes it has no file and never pauses, because the processes could not agree on
    when to pause.
    """
    alone = prepared.accelerator.num_processes == 1
    folder = prepared.folder
    weights = {"weights": file_digest(folder / "best.safetensors")}
    return FigureCache(
        folder / "figures.json" if alone else None,
        prepared.identity | weights,
        deadline,
        prepared.starts,
    )


def _metrics(
    prepared: _Prepared,
    model: OutputModel,
    best_epoch: int,
    cache: FigureCache,
    progress: bool,
) -> tuple[dict, dict]:
    """Return the final figures, and the arrays that go with them."""
    corpus = prepared.corpus
    arrays = {}
    metrics = {
        "best_epoch": best_epoch,
        "parameters": sum(p.numel() for p in model.parameters()),
        **final_figures(model, corpus, prepared.experiment, progress, arrays, cache),
        **word_matrix_geometry(model, corpus.counts),
    }
    if prepared.benchmarks and isinstance(corpus, Corpus):
        metrics["word_similarity"] = word_similarity(model, corpus, prepared.benchmarks)
        W = model.output_layer.words.matrix().detach().cpu()
        look_up = lower_cased(corpus.words)
        arrays |= pair_arrays(W, corpus.counts, look_up, prepared.benchmarks)
    return metrics, arrays


def _source(prepared: _Prepared, epochs: list[dict], starts: list[dict]) -> dict:
    """Return where the result comes from; the caller adds what only it has measured.

    epochs: the figures of each epoch, whose seconds and tokens are summed.
    starts: the origins of all calls that trained or computed figures.
    """
    seconds = sum(epoch["seconds"] + epoch["validation_seconds"] for epoch in epochs)
    tokens = sum(epoch["tokens"] for epoch in epochs)
    device = prepared.accelerator.device
    source = provenance.provenance(starts, prepared.corpus, device, seconds, tokens)
    if "start" in prepared.identity:
        source["start"] = prepared.identity["start"]
    source["weights"] = results.weights(prepared.folder)
    return source


# A run that is done ------------------------------------------------------------------------------


def _finished(
    folder: Path, experiment: Experiment, corpus: Corpus | SentencePairs, device: torch.device
) -> Result:
    """Return the result of a finished run, with its figures and its weights from the folder.

    CourseError if it is of another experiment or another text, if the weights that it started from
    have changed since, or if its own weights are missing or not those that were measured.
    """
    done = results.result_of(folder, experiment)
    again = f"remove {folder} to train it again"
    # the text is the one that it was trained on
    if done["provenance"].get("corpus_sha256") != corpus.sha256:
        raise CourseError(
            f"{folder} has the result of another text of that name; {again}, or give this run a "
            "folder of its own by `train --folder`"
        )
    figures = done["epochs"], done["metrics"], done["provenance"]
    if experiment.is_counted:
        return Result(counted(experiment, corpus), corpus, experiment, folder, *figures)
    # the weights that it started from are still what they were
    first_weights = start_of(experiment)
    before = done["provenance"].get("start")
    current = file_digest(first_weights) if first_weights and first_weights.exists() else None
    if before and current and before != current:
        raise CourseError(
            f"{folder} started from weights of {experiment.start_from}, but {first_weights} now "
            f"holds others; {again}"
        )
    # its own weights are those that its figures were measured with
    path = folder / "best.safetensors"
    if not path.exists():
        raise results.without_weights(folder)
    results.check_weights(path, done)
    model = experiment.build(len(corpus)).to(device)
    restore(model, read_checkpoint(path)[0], str(path))
    starts = provenance.starts_of(done["provenance"])
    provenance.warn_of_changed_files(starts, elsewhere.digests_of(experiment), folder)
    return Result(model.eval(), corpus, experiment, folder, *figures)
