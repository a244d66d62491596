"""AWD-LSTM trained as its released code trains it, to hold the course's own training against.

The model is `PlainLSTM` (torch's LSTM, every logit in a tensor), the loop is the one of the
released main.py: lengths drawn anew, the learning rate scaled by them, penalties on the
activations, clipping, torch's SGD. Nothing of the course's training or kernel runs in it. Both
begin with the same weights and make lengths and masks of the same random numbers, so that only
rounding parts them. At a learning rate of 30 it does so in some hundred steps: epochs end some
percent apart, and means over several iterates are what can be compared (`going_on`).
"""

import itertools
import re
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import nn
from tqdm import tqdm

from benchmarks.reference_models import PlainLSTM
from course_lab import provenance, results
from course_lab.experiment import Experiment
from course_lab.locks import alone_in
from course_lab.planned import Planned
from course_lab.run import run
from course_lib import data
from course_lib.dropout import entry_dropout, keep_mask
from course_lib.errors import CourseError
from course_lib.models import LanguageModel, detach
from course_lib.training.checkpoint import (
    difference,
    load_checkpoint,
    parameters_of,
    restore,
    save_checkpoint,
)

RECIPE = "ptb/awd-lstm/softmax"
OLD = f"{RECIPE}/standard-seed1-3-epochs-check"  # the kept table, as it was named at first


def experiments(epochs: int = 3, kind: str = "standard", seed: int = 1) -> dict[str, Experiment]:
    """Return the first epochs of the recipe, by the course and plainly.

    The plain training has a name of its own, since no recipe is trained by another loop.

    epochs: how many
    kind: the profile
    seed: of both
    """
    change = {"optimisation.epochs": epochs}
    if epochs > 6:  # the plain loop averages no weights, which the recipe may begin to do
        change["optimisation.average_after"] = None
    course = Planned(RECIPE, kind, seed, change).experiment()
    return {"course": course, "plain": course.change(name=f"{RECIPE}/plainly")}


def kept_pairs() -> dict[int, tuple[list[float], list[float]]]:
    """Return validation perplexities by epoch of each kept pair, course and plain, by its seed.

    The first pairs were kept under other names than those of today.
    """
    kept = results.kept_folder()
    names = (path.name for path in (kept / RECIPE).glob("standard-seed*"))
    pairs = {}
    for seed in sorted({int(re.findall(r"\d+", name)[0]) for name in names}):
        old = f"{RECIPE}/standard-seed{seed}-3-epochs"
        for pair in (map(results.key_of, experiments(seed=seed).values()), (old, f"{old}-plainly")):
            folders = [kept / name for name in pair]
            if seed not in pairs and all(map(results.is_done, folders)):
                course, plain = (results.read_result(folder)["epochs"] for folder in folders)
                pairs[seed] = tuple([row["valid_perplexity"] for row in e] for e in (course, plain))
    return pairs


def kept_check() -> dict:
    """Return the table that `check` made of seed 1, as it is named today or as it was at first."""
    now = f"{results.key_of(experiments()['course'])}-check"
    return results.read_table(now if (results.kept_folder() / f"{now}.json").exists() else OLD)


def train(kind: str, experiment: Experiment, progress: bool = True) -> Path:
    """Train "course" or "plain", if it is not there yet; returns the folder of its result.

    CourseError where another process trains in it, or it holds something else.
    """
    folder = results.run_folder(experiment)
    if kind == "course":
        run(experiment, folder, device="cpu", progress=progress)
        return folder
    with alone_in(folder):
        if (folder / "result.json").exists():
            results.result_of(folder, experiment)
        else:
            _train_plainly(experiment, folder, progress)
    return folder


def _train_plainly(experiment: Experiment, folder: Path, progress: bool) -> None:
    o, corpus = experiment.optimisation, experiment.load_corpus()
    cpu = torch.device("cpu")
    model = as_plain(experiment.build(len(corpus)))
    optimizer = torch.optim.SGD(model.parameters(), o.learning_rate, weight_decay=o.weight_decay)
    text, valid = _batchify(corpus.train, o.batch), _validation(corpus, o)
    torch.manual_seed(experiment.seed)  # for the masks of all epochs
    epochs, last = [], folder / "last.safetensors"
    identity = {"experiment": experiment.identity(), "corpus": corpus.sha256}
    starts = provenance.starts(last, provenance.origin(cpu))
    if last.exists():  # interrupted after the end of some epoch
        tensors, head = load_checkpoint(last)
        if where := difference(head.get("identity", {}), identity):
            raise CourseError(f"{last} is of another training ({where}); remove it")
        restore(model, tensors, str(last))
        torch.set_rng_state(tensors["random"])
        epochs = head["epochs"]
    for epoch in range(len(epochs) + 1, o.epochs + 1):
        started, total, done = time.perf_counter(), 0.0, 0
        bar = tqdm(total=len(text) - 1, desc=f"epoch {epoch}/{o.epochs}", disable=not progress)
        for loss, rows in _steps(model, optimizer, text, o, experiment.seed, epoch):
            total, done = total + loss * rows, done + rows
            bar.update(rows)
            bar.set_postfix_str(f"loss with penalties {total / done:.2f}")
        bar.close()
        seconds, started = time.perf_counter() - started, time.perf_counter()
        epochs.append(
            {
                "epoch": epoch,
                "valid_perplexity": _perplexity(model, valid, o.length),
                "tokens": (len(text) - 1) * o.batch,
                "seconds": seconds,
                "validation_seconds": time.perf_counter() - started,
            }
        )
        weights = {f"model.{name}": tensor for name, tensor in parameters_of(model).items()}
        save_checkpoint(
            last,
            weights | {"random": torch.get_rng_state()},
            {"identity": identity, "epochs": epochs, "starts": starts},
        )
    metrics = {
        "parameters": sum(p.numel() for p in model.parameters()),
        # like those of the course's result, at batch 1, each epoch's above in columns
        "valid_perplexity": _perplexity(model, _whole(corpus, "valid"), o.evaluation_length),
        "test_perplexity": _perplexity(model, _whole(corpus, "test"), o.evaluation_length),
    }
    wall = sum(e["seconds"] + e["validation_seconds"] for e in epochs)
    tokens = sum(e["tokens"] for e in epochs)
    source = provenance.provenance(starts, corpus, cpu, wall, tokens)
    source["weights"] = results.weights(folder)
    results.write_result(folder, experiment, epochs, metrics, source)


def _steps(model, optimizer, text, o, seed, epoch) -> Iterator[tuple[float, int]]:
    """Train an epoch on columns (n, B); yield (loss with penalties, rows read) after each step."""
    lengths = torch.Generator().manual_seed(seed * 1_000_003 + epoch - 1)
    begin, state = 0, None
    while begin < len(text) - 1:
        model.train()
        mean = o.length if torch.rand((), generator=lengths) < 0.95 else o.length / 2
        length = max(5, int(mean + 5 * torch.randn((), generator=lengths).item()))
        target = text[begin + 1 : begin + 1 + length]
        # By the length that is there, as the paper says. The released code takes the drawn one
        # where the text ends sooner, too: a full step on a few words just before validation.
        optimizer.param_groups[0]["lr"] = o.learning_rate * len(target) / o.length
        optimizer.zero_grad()
        loss, state = model(text[begin : begin + len(target)], state, target)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), o.clip)
        optimizer.step()
        state, begin = detach(state), begin + len(target)
        yield loss.item(), len(target)


class ReferenceLSTM(PlainLSTM):
    """A `PlainLSTM` whose masks are made of the random numbers that the course's model draws."""

    def kept_rows(self, weight):
        return keep_mask(weight.new_empty(len(weight)), 0.1)[:, None]

    def dropped(self, recurrent):
        return recurrent * in_torchs_order(entry_dropout(torch.ones_like(recurrent), 0.5))


def check(found: dict[str, Experiment]) -> dict:
    """Return what tells rounding from a mistake in two finished trainings.

    These are losses of one set of weights, where no difference can grow, and means over later
    iterates, which swing less than a single iterate does.
    """
    folders = {name: results.run_folder(experiment) for name, experiment in found.items()}
    pairs = list(same_weights(found["course"]))
    course, plain = (statistics.mean(losses) for losses in zip(*pairs, strict=True))
    return {
        "results": {name: results.read_result(path)["sha256"] for name, path in folders.items()},
        "same_weights": {
            "segments": len(pairs),
            "course_loss": course,
            "plain_loss": plain,
            "largest_difference": max(abs(a - b) for a, b in pairs),
        },
        "iterates": {name: going_on(name, experiment) for name, experiment in found.items()},
        "provenance": provenance.origin(torch.device("cpu")),
    }


@torch.no_grad()
def same_weights(experiment: Experiment, segments: int = 24) -> Iterator[tuple[float, float]]:
    """Yield the losses of both models with one set of weights, in nats a token.

    The weights are those that the course's training of `experiment` ended with. Every segment is
    read with all dropout and penalties.
    """
    corpus, ours = _trained("course", experiment)
    plain, o = as_plain(ours.train()).train(), experiment.optimisation
    text = _batchify(corpus.train, o.batch)
    for start in torch.linspace(0, len(text) - 1 - o.length, segments).long().tolist():
        tokens, target = text[start : start + o.length], text[start + 1 : start + 1 + o.length]
        torch.manual_seed(start)
        loss = ours(tokens, None, target).loss.item()
        torch.manual_seed(start)
        yield loss, plain(tokens, None, target)[0].item()


def going_on(
    kind: str,
    experiment: Experiment,
    steps: int = 90,
    every: int = 10,
    progress: bool = True,
) -> list[float]:
    """Return validation perplexities of single iterates of the plain training.

    It goes on from the weights that "course" or "plain" ended with, and is validated every so many
    steps. Lengths and masks are the same for both.
    """
    corpus, model = _trained(kind, experiment)
    model = as_plain(model) if kind == "course" else model
    o = experiment.optimisation
    optimizer = torch.optim.SGD(model.parameters(), o.learning_rate, weight_decay=o.weight_decay)
    text, valid = _batchify(corpus.train, o.batch), _validation(corpus, o)
    torch.manual_seed(experiment.seed)
    on = _steps(model, optimizer, text, o, experiment.seed, o.epochs + 1)
    found, taken = [], itertools.islice(on, steps)
    bar = tqdm(taken, total=steps, unit="step", desc=f"{kind} goes on", disable=not progress)
    for number, _ in enumerate(bar, 1):
        if number % every == 0:
            found.append(_perplexity(model, valid, o.length))
    return found


def _trained(kind: str, experiment: Experiment) -> tuple:
    """Return (corpus, model) with the weights that a finished training ended with."""
    path, corpus = results.run_folder(experiment) / "last.safetensors", experiment.load_corpus()
    if not path.exists():
        raise CourseError(f"{path} is not here, only its result; remove that to train it again")
    results.check_weights(path, results.read_result(path.parent))
    model = experiment.build(len(corpus))
    model = model if kind == "course" else as_plain(model)
    restore(model, load_checkpoint(path)[0], str(path))
    return corpus, model


def as_plain(model: LanguageModel) -> ReferenceLSTM:
    """Return the plain twin of a tied AWD-LSTM with a softmax, with its weights."""
    encoder, (words, size) = model.encoder, model.words.weight.shape
    sizes = (size, *(matrix.shape[1] for matrix in encoder.recurrent))
    rates = encoder.input_dropout, encoder.hidden_dropout
    plain = ReferenceLSTM(words, sizes, 0, *rates, latent_dropout=0.0)
    copy_weights(model, plain)
    return plain


@torch.no_grad()
def copy_weights(model: LanguageModel, plain: PlainLSTM) -> None:
    """Copy word vectors, biases and LSTM layers, whose gates torch has in another order."""
    encoder = model.encoder
    plain.embedding.weight.copy_(model.words.weight)
    plain.bias.copy_(model.output_layer.bias)
    kinds = encoder.input, encoder.recurrent, encoder.input_bias, encoder.recurrent_bias
    for lstm, *weights in zip(plain.lstms, *kinds, strict=True):
        for parameter, weight in zip(lstm.parameters(), weights, strict=True):
            parameter.copy_(in_torchs_order(weight))


def in_torchs_order(gates: torch.Tensor) -> torch.Tensor:
    """Return (4u, …) of the gates o i f g in the order i f g o of torch's LSTM."""
    output, reading, forget, new = gates.chunk(4)
    return torch.cat([reading, forget, new, output])


def _batchify(tokens: torch.Tensor, batch: int) -> torch.Tensor:
    return tokens[: len(tokens) // batch * batch].view(batch, -1).t().contiguous()


def _validation(corpus, o) -> torch.Tensor:
    """Return the validation split in columns as the course cuts it: the first word is predicted."""
    return data.columns(corpus.valid, o.evaluation_batch, before=corpus.eos)


def _whole(corpus, split: str) -> torch.Tensor:
    """A split in one column, from the end of a line on."""
    tokens = getattr(corpus, split)
    return torch.cat([tokens.new_tensor([corpus.eos]), tokens])[:, None]


@torch.no_grad()
def _perplexity(model: PlainLSTM, text: torch.Tensor, length: int) -> float:
    """Return the perplexity of all rows but the first of columns (n, B)."""
    model.eval()
    total, state = 0.0, None
    for start in range(0, len(text) - 1, length):
        target = text[start + 1 : start + 1 + length]
        loss, state = model(text[start : start + len(target)], state, target)
        total += loss.item() * len(target)
    return torch.tensor(total / (len(text) - 1)).exp().item()
