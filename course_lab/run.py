"""Run an experiment: corpus, model, training, final figures, result folder."""

import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState, PartialState
from accelerate.utils import InitProcessGroupKwargs
from torch import nn

from course_lab import results
from course_lab.experiment import Experiment
from course_lab.figure_cache import Noted, at_once
from course_lab.locks import alone_in
from course_lab.plans import command, earlier
from course_lib.data import (
    Corpus,
    SentencePairs,
    similarity,
    split_compounds,
    token_batches,
    tokenise,
)
from course_lib.data.download import file_digest
from course_lib.data.registry import DOWNLOADS
from course_lib.errors import CourseError, Paused, unknown
from course_lib.evaluation.log_prob import log_prob_blocks
from course_lib.evaluation.perplexity import evaluating, perplexity
from course_lib.evaluation.translation import BeamSearch, bleu, translate, translation_perplexity
from course_lib.machine import keep_freed_memory
from course_lib.metrics.geometry import subspace_distance
from course_lib.metrics.rank import spectrum
from course_lib.metrics.similarity import similarities
from course_lib.metrics.summary import summary
from course_lib.output_layers.centring import centred
from course_lib.training.batches import Columns, Pairs
from course_lib.training.checkpoint import difference, restore
from course_lib.training.checkpoint import load_checkpoint as read_checkpoint
from course_lib.training.loop import fit

PATIENCE = timedelta(hours=2)  # with another process whose search at test time takes longer
RANKED = 2_048  # words up to which the spectrum of log P is a matter of a second or two


@dataclass
class Result:
    """What a run leaves: the model at its best epoch and every figure."""

    model: nn.Module
    corpus: Corpus | SentencePairs
    experiment: Experiment
    folder: Path
    epochs: list[dict]
    metrics: dict
    provenance: dict


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
    results.reset_peak_memory(accelerator.device)
    origin = results.origin(accelerator.device) | {"processes": accelerator.num_processes}
    corpus = experiment.load_corpus()
    if (folder / "result.json").exists():
        return _finished(folder, experiment, corpus, accelerator.device)
    starts = results.starts(folder / "last.safetensors", origin)
    _check_order(experiment, corpus)
    benchmarks = _benchmarks(experiment)
    model = experiment.build(len(corpus))
    identity = {"experiment": experiment.identity(), "corpus": corpus.sha256}
    optimisation = experiment.optimisation
    if not experiment.translates:  # settings of the evaluation that fail, do so before the work
        with evaluating(model, optimisation.evaluation_memory, optimisation.evaluation_clamp):
            pass
    if experiment.start_from is not None:
        identity["start"] = _start_from(model, experiment, corpus)
    kind = Pairs if experiment.translates else Columns
    task = kind(corpus, optimisation, accelerator.process_index, accelerator.num_processes)
    epochs = fit(
        model, task, optimisation, accelerator, folder=folder, identity=identity, starts=starts,
        seed=experiment.seed, callback=callback, progress=progress,
        checkpoint_seconds=checkpoint_seconds, deadline=deadline,
        trained=experiment.start_from is not None,
    )  # fmt: skip
    peak = results.peak_memory(accelerator.device)  # of the training, not of the final figures
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
    noted = Noted(folder / "figures.json" if alone else None, of, deadline, starts)
    metrics = {
        "best_epoch": head["epoch"],
        "parameters": sum(p.numel() for p in model.parameters()),
        **final_figures(model, corpus, experiment, shown, arrays, noted),
        **shapes(model, corpus.counts),
    }
    if benchmarks:
        metrics["word_similarity"] = word_similarity(model, corpus, benchmarks)
    seconds = sum(e["seconds"] + e["validation_seconds"] for e in epochs)
    tokens = sum(e["tokens"] for e in epochs)
    source = results.provenance(noted.starts, corpus, accelerator.device, seconds, tokens)
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
    clusters = experiment.output_layer.kind == "AdaptiveSoftmax" and not experiment.translates
    whole = "half" not in experiment.corpus.options  # whose order a half keeps
    if clusters and whole and not (corpus.counts.diff() <= 0).all():
        raise CourseError(
            f"{experiment.name}: the clusters of an adaptive softmax are of words by frequency, "
            f"but the words of {corpus.name} are in another order; load them with the option "
            "by_frequency, of the corpus or of its part `small`"
        )


def shapes(model: nn.Module, counts: torch.Tensor) -> dict:
    """The geometry of the matrix that predicts; untied, that of the matrix that reads, and the
    distance of the first's column space from the second's."""
    W = model.output_layer.words.matrix().cpu()
    found = {"geometry": summary(W, counts)}
    if not model.tied:
        E = model.words.matrix().cpu()
        found["input_geometry"] = summary(E, counts)
        found["subspace_distance"] = subspace_distance(W, E)
    return found


def _benchmarks(experiment: Experiment) -> dict:
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
    noted: Callable[[str, Callable], Any] = at_once,
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
        if experiment.corpus.kind == "wmt14":
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


def load_checkpoint(path: Path) -> tuple[nn.Module, Corpus, Experiment]:
    """(model, corpus, experiment) of a run folder or of one of its checkpoints.

    Given a folder, its best epoch. CourseError for anything but a checkpoint of this course, or
    where the corpus at hand is not the one the model was trained on.
    """
    path = Path(path)
    if path.is_dir():
        path = path / "best.safetensors"
        if (path.parent / "result.json").exists():
            results.check_weights(path, results.read_result(path.parent))
    tensors, head = read_checkpoint(path)
    identity = head.get("identity", {})
    if "experiment" not in identity:
        raise CourseError(f"{path} does not say which experiment it belongs to")
    experiment = Experiment.from_dict(identity["experiment"])
    corpus = experiment.load_corpus()
    known = identity.get("corpus") or {}
    if changed := [k for k in {**known, **corpus.sha256} if known.get(k) != corpus.sha256.get(k)]:
        raise CourseError(
            f"{path} was trained on another version of {corpus.name}: {' and '.join(changed)} has "
            "another checksum; restore that text, or train again"
        )
    model = experiment.build(len(corpus))
    restore(model, tensors, str(path))
    return model.eval(), corpus, experiment


def _finished(folder: Path, experiment: Experiment, corpus, device: torch.device) -> Result:
    """A run that is done: its figures and their provenance stand, its weights are read.

    CourseError if it is another experiment's, of another text, or of a start that has changed.
    """
    done, path = results.result_of(folder, experiment), folder / "best.safetensors"
    again = f"remove {folder} to train it again"
    if done["provenance"]["corpus_sha256"] != corpus.sha256:
        raise CourseError(f"{folder} has the result of another text of that name; {again}")
    start, begun = _start_of(experiment), done["provenance"].get("start")
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


def with_starts(experiment: Experiment, folder: Path | None = None) -> list[Experiment]:
    """It and, first, what must be trained before it because it begins with the weights.

    Nothing before a run that is done: it needs that no more, and its own start may be gone.
    """

    def done(run: Experiment, folder: Path | None = None) -> bool:
        return ((folder or results.run_folder(run)) / "result.json").exists()

    first = earlier(experiment)
    if first is None or done(first) or done(experiment, folder):
        return [experiment]
    return [*with_starts(first), experiment]


def _start_of(experiment: Experiment) -> Path | None:
    """The checkpoint that it begins with, whether it is there or not."""
    first = earlier(experiment)
    return first and results.run_folder(first) / f"{experiment.start_weights}.safetensors"


def _start_from(model: nn.Module, experiment: Experiment, corpus) -> str:
    """Begin with the last or best weights of an earlier recipe at the same profile and seed;
    returns their file's digest."""
    first, path = earlier(experiment), _start_of(experiment)
    folder = path.parent
    if not (folder / "result.json").exists():
        begun = (folder / "last.safetensors").exists()
        raise CourseError(
            f"{experiment.name} starts from the weights of {first.name}, which "
            f"{'has not finished' if begun else 'is not trained'}; train it with --starts, or "
            f"first run: {command(first)}"
        )
    tensors, head = read_checkpoint(path)
    identity = head.get("identity", {})
    found = {"experiment": Experiment.from_dict(identity.get("experiment", {})).identity()}
    expected = {"experiment": first.identity()}
    if first.corpus == experiment.corpus:
        found["corpus"], expected["corpus"] = identity.get("corpus"), corpus.sha256
    said = results.result_of(folder, first)["provenance"].get("weights", {})
    digest = file_digest(path)
    if found == expected and said:
        found["weights"], expected["weights"] = digest, said.get(experiment.start_weights)
    if where := difference(found, expected):
        raise CourseError(
            f"{path} does not hold what {first.name} ended with ({where}); "
            f"remove {folder} and train that again"
        )
    restore(model, tensors, str(path))
    return digest


def launch(experiment: Experiment, processes: int | None = None, **options) -> Result:
    """`run`, over all GPUs of this machine when there are several.

    A notebook is one process: for more than one it starts `torchrun` on the same experiment and
    reads what that leaves. `processes` defaults to as many GPUs as share the columns of a batch
    evenly, and 1 without one or with device="cpu".
    CourseError for an option of `run` that does not reach other processes, such as a callback.
    """
    import os
    import subprocess

    if processes is None:
        cpu, o = options.get("device") == "cpu", experiment.optimisation
        processes = most = 1 if cpu else max(1, torch.cuda.device_count())
        if not experiment.translates:
            shares = (n for n in range(1, most + 1) if o.batch % (n * o.accumulate) == 0)
            processes = max(shares, default=1)
    if processes == 1:
        return run(experiment, **options)
    reach = {"folder", "device", "deadline", "checkpoint_seconds", "progress"}
    if left := sorted(set(options) - reach):
        raise CourseError(f"with {processes} processes there is no {', '.join(left)}")
    folder = Path(options.get("folder") or results.run_folder(experiment))
    folder.mkdir(parents=True, exist_ok=True)
    results.write_json(folder / "experiment.json", experiment.to_dict())
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]
    command += [str(processes), "-m", "course_lab", "train", str(folder / "experiment.json")]
    command += ["--folder", str(folder), "--device", options.get("device", "auto")]
    command += ["--checkpoint-seconds", str(options.get("checkpoint_seconds", 60.0))]
    deadline = options.get("deadline")
    command += ["--deadline", str(deadline)] if deadline is not None else []
    quiet = {} if options.get("progress", True) else {"TQDM_DISABLE": "1"}
    done = subprocess.run(command, env=os.environ | quiet)
    if done.returncode:
        raise CourseError(f"the workers failed with exit code {done.returncode}; see above")
    if not (folder / "result.json").exists():
        raise Paused(f"{experiment.name} paused at its deadline; run it again")
    model, corpus, _ = load_checkpoint(folder)
    if torch.cuda.is_available() and options.get("device") != "cpu":
        model = model.to("cuda")  # where `run` leaves it
    content = results.read_result(folder)
    return Result(
        model, corpus, experiment, folder,
        content["epochs"], content["metrics"], content["provenance"],
    )  # fmt: skip
