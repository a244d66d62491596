"""Run an experiment: corpus, model, training, final figures, result folder."""

import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState, PartialState
from accelerate.utils import InitProcessGroupKwargs
from torch import nn

from course_lab import provenance, results
from course_lab.checkpoints import start_from, start_of
from course_lab.experiment import Experiment
from course_lab.figure_cache import FigureCache
from course_lab.final_figures import (
    fetched_benchmarks,
    final_figures,
    word_matrix_geometry,
    word_similarity,
)
from course_lab.locks import alone_in
from course_lab.results import Result
from course_lib import machine
from course_lib.data import (
    Corpus,
    SentencePairs,
)
from course_lib.data.download import file_digest
from course_lib.errors import CourseError, unknown
from course_lib.evaluation.perplexity import evaluating
from course_lib.machine import keep_freed_memory
from course_lib.training.batches import LanguageModelBatches, TranslationBatches
from course_lib.training.checkpoint import load_checkpoint as read_checkpoint
from course_lib.training.checkpoint import restore
from course_lib.training.loop import fit


def run(
    experiment: Experiment,
    folder: Path | None = None,
    *,
    callback: Callable[[int, nn.Module], None] | None = None,
    progress: bool = True,
    device: str = "auto",
    checkpoint_seconds: float = 60.0,
    deadline: float | None = None,
) -> Result:
    """Train an experiment, or go on with one that was interrupted, and evaluate its best epoch.

    Device, number of processes and their ranks come from accelerate (`accelerate launch`,
    `torchrun`, or none); `device="cpu"` keeps a GPU out of it. Final figures: validation and test
    perplexity at batch 1. The folder (default: runs/<recipe>/<profile>-seed<n>) then holds
    result.json, best.safetensors and last.safetensors. `Paused` after `deadline` (time.time()), in
    one process also between two final figures, to go on at the next call; CourseError
    where another process trains in that folder, or it holds something else.
    """
    folder = Path(folder) if folder is not None else results.run_folder(experiment)
    options = callback, progress, checkpoint_seconds, deadline
    accelerator = accelerator_on(device)
    if accelerator.device.type == "cpu":
        keep_freed_memory()
    if not accelerator.is_main_process:
        return _run(experiment, folder, accelerator, *options)
    with alone_in(folder):
        return _run(experiment, folder, accelerator, *options)


def _run(
    experiment: Experiment,
    folder: Path,
    accelerator: Accelerator,
    callback: Callable[[int, nn.Module], None] | None,
    progress: bool,
    checkpoint_seconds: float,
    deadline: float | None,
) -> Result:
    started = time.perf_counter()
    machine.reset_peak_memory(accelerator.device)
    origin = provenance.origin(accelerator.device) | {"processes": accelerator.num_processes}
    corpus = experiment.load_corpus()
    if (folder / "result.json").exists():
        return _finished(folder, experiment, corpus, accelerator.device)
    starts = provenance.starts(folder / "last.safetensors", origin)
    _check_order(experiment, corpus)
    benchmarks = fetched_benchmarks(experiment)
    model = experiment.build(len(corpus))
    identity = {"experiment": experiment.identity(), "corpus": corpus.sha256}
    optimisation = experiment.optimisation
    if not experiment.translates:  # settings of the evaluation that fail, do so before the work
        with evaluating(model, optimisation.evaluation_memory, optimisation.evaluation_clamp):
            pass
    if experiment.start_from is not None:
        identity["start"] = start_from(model, experiment, corpus)
    kind = TranslationBatches if experiment.translates else LanguageModelBatches
    task = kind(corpus, optimisation, accelerator.process_index, accelerator.num_processes)
    epochs = fit(
        model, task, optimisation, accelerator, folder=folder, identity=identity, starts=starts,
        seed=experiment.seed, callback=callback, progress=progress,
        checkpoint_seconds=checkpoint_seconds, deadline=deadline,
        trained=experiment.start_from is not None,
    )  # fmt: skip
    peak = machine.peak_memory(accelerator.device)  # of the training, not of the final figures
    accelerator.wait_for_everyone()
    tensors, head = read_checkpoint(folder / "best.safetensors")
    if optimisation.shard and accelerator.num_processes > 1:  # a search changes whole weights
        model = experiment.build(len(corpus)).to(accelerator.device)
    restore(model, tensors, str(folder))
    model.eval()
    arrays = {}
    of = identity | {"weights": file_digest(folder / "best.safetensors")}
    alone = accelerator.num_processes == 1  # several could not agree on when to pause
    shown = progress and accelerator.is_main_process
    noted = FigureCache(folder / "figures.json" if alone else None, of, deadline, starts)
    metrics = {
        "best_epoch": head["epoch"],
        "parameters": sum(p.numel() for p in model.parameters()),
        **final_figures(model, corpus, experiment, shown, arrays, noted),
        **word_matrix_geometry(model, corpus.counts),
    }
    if benchmarks:
        metrics["word_similarity"] = word_similarity(model, corpus, benchmarks)
    seconds = sum(e["seconds"] + e["validation_seconds"] for e in epochs)
    tokens = sum(e["tokens"] for e in epochs)
    source = provenance.provenance(noted.starts, corpus, accelerator.device, seconds, tokens)
    source["peak_memory_mb"] = round(peak)
    if "start" in identity:
        source["start"] = identity["start"]
    source["weights"] = results.weights(folder)
    source["last_start_seconds"] = round(time.perf_counter() - started, 1)
    if accelerator.is_main_process:
        results.write_result(folder, experiment, epochs, metrics, source, arrays)
        (folder / "failed.json").unlink(missing_ok=True)  # of an earlier try
    noted.forget()
    return Result(model, corpus, experiment, folder, epochs, metrics, source)


def _check_order(experiment: Experiment, corpus: Corpus | SentencePairs) -> None:
    """CourseError for clusters of words by frequency where the words have another order."""
    whole = "half" not in experiment.corpus.options  # whose order a half keeps
    ordered = "by_frequency" not in experiment.requires or (corpus.counts.diff() <= 0).all()
    if whole and not ordered:
        raise CourseError(
            f"{experiment.name}: the clusters of an adaptive softmax are of words by frequency, "
            f"but the words of {corpus.name} are in another order; load them with the option "
            "by_frequency, of the corpus or of its part `small`"
        )


def _finished(folder: Path, experiment: Experiment, corpus, device: torch.device) -> Result:
    """A run that is done: its figures and their provenance stand, its weights are read.

    CourseError if it is another experiment's, of another text, or of a start that has changed.
    """
    done, path = results.result_of(folder, experiment), folder / "best.safetensors"
    again = f"remove {folder} to train it again"
    if done["provenance"]["corpus_sha256"] != corpus.sha256:
        raise CourseError(f"{folder} has the result of another text of that name; {again}")
    start, begun = start_of(experiment), done["provenance"].get("start")
    if start is not None and start.exists() and begun not in (None, file_digest(start)):
        raise CourseError(
            f"{folder} began with weights of {experiment.start_from} that {start} has no more; "
            f"{again}"
        )
    if not path.exists():
        raise CourseError(
            f"{folder} has a result but not its weights; bring {path.name} as well, or {again}"
        )
    results.check_weights(path, done)
    model = experiment.build(len(corpus)).to(device)
    restore(model, read_checkpoint(path)[0], str(path))
    return Result(
        model.eval(), corpus, experiment, folder, done["epochs"], done["metrics"],
        done["provenance"],
    )  # fmt: skip


PATIENCE = timedelta(hours=2)  # with another process whose search at test time takes longer


def accelerator_on(device: str) -> Accelerator:
    """Of "auto" or "cpu", whatever an earlier run in this process had, and in float32: training
    and evaluation decide on their own precision. CourseError for another device."""
    if device not in ("auto", "cpu"):
        raise unknown("device", device, ("auto", "cpu"))
    cpu = device == "cpu" or not torch.cuda.is_available()
    if PartialState._shared_state:  # accelerate keeps one for the whole process
        now = PartialState()
        if now.num_processes == 1 and (now.device.type == "cpu") != cpu:
            AcceleratorState._reset_state(reset_partial_state=True)
    patience = InitProcessGroupKwargs(timeout=PATIENCE)
    return Accelerator(cpu=cpu, mixed_precision="no", kwargs_handlers=[patience])
