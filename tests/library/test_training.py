"""Schedules, checkpoints, the loop: resume bit by bit, stop on NaN, refuse what is not ours."""

import json
import math
import os
import pickle
import random
import shutil
import signal
import subprocess
import sys
import time
import warnings
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from safetensors.torch import load_file, save_file
from torch import nn

import course_lab
from course_lab import part, provenance, recipes
from course_lab.processes import accelerator_on
from course_lib import data, machine
from course_lib.data import folders
from course_lib.errors import CourseError, Paused
from course_lib.evaluation.perplexity import perplexity
from course_lib.models import LanguageModel
from course_lib.training import (
    Constant,
    Cosine,
    EpochDecay,
    InverseSquareRoot,
    OneCycle,
    Optimisation,
    loop,
)
from course_lib.training.averaging import stalled
from course_lib.training.batches import LanguageModelBatches
from course_lib.training.checkpoint import (
    difference,
    load_checkpoint,
    parameters_of,
    restore,
    save_checkpoint,
    write_atomically,
    write_json,
)
from course_lib.training.loop import fit
from course_lib.training.run_state import shard


@pytest.fixture
def text(tmp_path):
    """A small corpus on disk: 40 words with a pattern that can be learned."""
    folder, g = tmp_path / "corpus", random.Random(0)
    folder.mkdir()
    for split, lines in (("train", 250), ("valid", 30), ("test", 30)):
        rows = []
        for _ in range(lines):
            start = g.randrange(40)
            rows.append(" ".join(f"w{(start + i * (1 + start % 3)) % 40}" for i in range(9)))
        (folder / f"{split}.txt").write_text("\n".join(rows) + "\n")
    return folder


@pytest.fixture
def experiment(text):
    return course_lab.Experiment(
        name="test/tiny",
        corpus=part(str(text)),
        size=12,
        encoder=part("VariationalLSTM", units=12, dropout=0.2),
        optimisation=Optimisation(
            optimizer="adamw", learning_rate=0.05, schedule=OneCycle(), epochs=2, batch=5,
            length=10, random_length=True, partial_shuffle=True, clip=1.0, evaluation_batch=2,
        ),
    )  # fmt: skip


def figures(epochs):
    """What must not depend on interruptions: everything but the clock."""
    return [{k: v for k, v in e.items() if "seconds" not in k} for e in epochs]


def test_schedules_follow_their_formulas():
    assert Constant()(0.7, 9, 100) == 1
    decay = EpochDecay(0.9, 5)
    assert [decay(0, e, 1) for e in (1, 4)] == [1, 1]
    assert decay(0, 5, 1) == pytest.approx(0.9) and decay(0, 8, 1) == pytest.approx(0.9**4)
    once = EpochDecay(0.1, 13, last=13)
    assert once(0, 12, 1) == 1 and once(0, 13, 1) == once(0, 20, 1) == pytest.approx(0.1)
    for broken in (
        (InverseSquareRoot, {"warmup": 0}),
        (OneCycle, {"rise": 1.0}),
        (OneCycle, {"hold": 0.5, "rise": 0.5}),
    ):
        with pytest.raises(CourseError, match=f"{next(iter(broken[1]))} .*must be"):
            broken[0](**broken[1])
    with pytest.raises(CourseError, match="start of OneCycle must be a number above 0"):
        OneCycle(start=0)
    root = InverseSquareRoot(100)
    assert root(0, 1, 50) == 0.5 and root(0, 1, 100) == 1 and root(0, 1, 400) == 0.5
    for schedule, settings, what in [
        (EpochDecay, {"rate": -0.9}, "rate of EpochDecay must be a number above 0"),
        (EpochDecay, {"rate": math.inf}, "rate of EpochDecay must be a number above 0"),
        (EpochDecay, {"start": 0}, "start of EpochDecay must be a whole number of at least 1"),
        (EpochDecay, {"last": math.nan}, "last of EpochDecay must be a whole number"),
        (Cosine, {"floor": 5}, "floor of Cosine must be a number at least 0 and at most 1"),
        (Cosine, {"floor": math.nan}, "floor of Cosine must be"),
        (Cosine, {"warmup": -1}, "warmup of Cosine must be a whole number of at least 0"),
    ]:
        with pytest.raises(CourseError, match=what):
            schedule(**settings)
    cosine = Cosine(warmup=10, floor=0.1)
    assert cosine(0, 1, 5) == 0.5 and cosine(1, 1, 99) == pytest.approx(0.1)
    assert cosine(0.5, 1, 99) == pytest.approx(0.55)
    quarter = 0.5 * (1 + math.sqrt(0.5))  # of the way down a cosine, which a line is not
    assert Cosine()(0.25, 1, 99) == pytest.approx(quarter)
    cycle = OneCycle(rise=0.25, start=25)
    assert cycle(0, 1, 1) == pytest.approx(0.04) and cycle(0.25, 1, 1) == 1
    assert cycle(1, 1, 1) == pytest.approx(0)
    assert cycle(0.0625, 1, 1) == pytest.approx(0.04 + 0.96 * (1 - quarter))
    assert cycle(0.4375, 1, 1) == pytest.approx(quarter)
    held = OneCycle(rise=0.25, hold=0.25, start=25)
    assert held(0.25, 1, 1) == held(0.5, 1, 1) == 1 and held(1, 1, 1) == pytest.approx(0)
    assert held(0.1, 1, 1) == cycle(0.1, 1, 1) and held(0.625, 1, 1) == pytest.approx(quarter)


def test_the_rate_follows_the_drawn_length():
    o = Optimisation(learning_rate=30, length=70, random_length=True)
    assert o.factor(0, 1, 1, 35) == 0.5
    assert Optimisation(learning_rate=30, length=70).factor(0, 1, 1, 35) == 1
    decayed = Optimisation(length=70, random_length=True, schedule=EpochDecay(0.9, 1))
    assert decayed.factor(0, 1, 1, 35) == pytest.approx(0.45)


def test_bad_settings_are_refused():
    with pytest.raises(CourseError, match="unknown optimizer 'adam'.*adamw"):
        Optimisation(optimizer="adam")
    for name, value in [
        ("precision", "bf61"),
        ("precision", 16),
        ("keep", None),
        ("keep", ["last"]),
    ]:
        with pytest.raises(CourseError, match=f"{name} of Optimisation must be '.* or '.*', not"):
            Optimisation(**{name: value})
    for value in (None, 3, ["sgd"]):
        with pytest.raises(CourseError, match="unknown optimizer"):
            Optimisation(optimizer=value)
        with pytest.raises(CourseError, match="unknown optimizer"):
            Optimisation(groups={"words.": {"optimizer": value}})
    for name, value, least in [
        ("average_from", 0, 1), ("batch", 0, 1), ("batch", 2.5, 1), ("epochs", 1.5, 0),
        ("evaluation_memory", -3, 0), ("evaluation_clamp", 0, 1),
    ]:  # fmt: skip
        wanted = f"{name} of Optimisation must be a whole number of at least {least}"
        with pytest.raises(CourseError, match=wanted):
            Optimisation(**{name: value})
    for name, value in [
        ("clip", -1.0), ("clip", 0), ("clip", math.inf), ("learning_rate", math.nan),
        ("learning_rate", math.inf), ("eps", 0.0), ("eps", math.nan),
    ]:  # fmt: skip
        wanted = f"{name} of Optimisation must be a number above 0.*, not {value}"
        with pytest.raises(CourseError, match=wanted):
            Optimisation(**{name: value})
    for value in (-1e-6, math.nan, math.inf):
        with pytest.raises(CourseError, match="weight_decay of Optimisation must be"):
            Optimisation(weight_decay=value)
    with pytest.raises(CourseError, match="schedule must be one such as"):
        Optimisation(schedule="cosine")
    with pytest.raises(CourseError, match="the group 'words.' must be a table"):
        Optimisation(groups={"words.": 0.1})
    for setting, value in [
        ("learning_rate", math.inf), ("momentum", -0.5), ("ns_steps", 2.5), ("nesterov", "false"),
    ]:  # fmt: skip
        group = {"words.": {"optimizer": "muon", setting: value}}
        with pytest.raises(CourseError, match=f"{setting} of the group 'words.' must be"):
            Optimisation(groups=group)


def test_the_decay_of_zaremba_begins_after_the_epoch_that_he_states():
    """His code multiplies by rate^max(e − max_epoch, 0), e from 1: `start` is max_epoch + 1."""
    for max_epoch in (1, 5, 10):
        ours = EpochDecay(0.9, max_epoch + 1)
        for e in range(1, 15):
            assert ours(0, e, 1) == pytest.approx(0.9 ** max(e - max_epoch, 0))


def test_one_sgd_step_is_the_formula(experiment, tmp_path):
    """Loss summed over the steps, gradient clipped by its norm, then w − rate · g; the schedule
    multiplies the learning rate of every group."""
    o = Optimisation(
        learning_rate=0.5, epochs=1, batch=5, length=2000, sum_over_steps=True, clip=0.3,
        schedule=EpochDecay(0.8, 1), groups={"words.": {"learning_rate": 0.02}},
    )  # fmt: skip
    experiment = experiment.change(optimisation=o, encoder={"dropout": 0.0})
    corpus = experiment.load_corpus()
    model, other = experiment.build(len(corpus)), experiment.build(len(corpus))
    columns = data.columns(corpus.train, 5)
    loss = other(columns[:-1], None, columns[1:]).loss * (len(columns) - 1)
    loss.backward()
    norm = torch.stack([p.grad.norm() for p in other.parameters()]).norm()
    assert norm > 0.3
    epochs = fit(
        model,
        LanguageModelBatches(corpus, o),
        o,
        Accelerator(cpu=True),
        folder=tmp_path,
        identity={},
        progress=False,
    )
    for (name, ours), before in zip(model.named_parameters(), other.parameters(), strict=True):
        rate = 0.8 * (0.02 if name.startswith("words.") else 0.5)
        torch.testing.assert_close(ours, before - rate * 0.3 / (norm + 1e-6) * before.grad)
    assert epochs[0]["learning_rate"] == 0.8 * 0.5


def test_training_learns_and_leaves_a_result(experiment, tmp_path):
    seen = []
    result = course_lab.run(
        experiment.change(optimisation={"epochs": 10}), tmp_path, progress=False,
        callback=lambda step, model: seen.append(step),
    )  # fmt: skip
    assert seen == list(range(len(seen))) and len(seen) > 20
    perplexities = [e["train_perplexity"] for e in result.epochs]
    assert perplexities[-1] < 0.5 * perplexities[0] and result.metrics["test_perplexity"] < 12
    best = min(result.epochs, key=lambda e: e["valid_perplexity"])
    assert result.metrics["best_epoch"] == best["epoch"]
    content = course_lab.read_result(tmp_path)
    assert content["metrics"] == result.metrics and content["epochs"] == result.epochs
    source = content["provenance"]
    for key in ("commit", "packages", "corpus_sha256", "device", "threads"):
        assert source[key]
    times = [e["seconds"] + e["validation_seconds"] for e in result.epochs]
    assert source["wall_seconds"] == pytest.approx(sum(times), abs=0.1) and source["processes"] == 1
    columns = LanguageModelBatches(result.corpus, result.experiment.optimisation).columns
    assert source["tokens_seen"] == 10 * columns[1:].numel() and "earlier_starts" not in source
    assert course_lab.Experiment.from_dict(content["experiment"]) == result.experiment
    # a finished run is not repeated
    again = course_lab.run(result.experiment, tmp_path, progress=False)
    assert again.epochs == result.epochs and again.provenance == result.provenance
    # the checkpoint gives the same model back
    model, corpus, loaded = course_lab.load_checkpoint(tmp_path)
    assert loaded == result.experiment and corpus.sha256 == result.corpus.sha256
    for a, b in zip(model.parameters(), result.model.parameters(), strict=True):
        assert torch.equal(a, b)


def test_a_run_of_no_epochs_leaves_two_matrices_that_were_tied_at_first(
    experiment, tmp_path, monkeypatch
):
    """`tied_until` is a rule of training, so it does not copy the one over the other."""
    build = course_lab.Experiment.build

    def trained(self, *sizes):
        model = build(self, *sizes)
        model.output_layer.words.weight.data.add_(1)
        return model

    monkeypatch.setattr(course_lab.Experiment, "build", trained)
    changes = {"optimizer": "adamw", "tied_until": 0.5, "epochs": 0}
    experiment = experiment.change(optimisation=changes, tied=False)
    course_lab.run(experiment, tmp_path, progress=False)
    kept = load_file(tmp_path / "best.safetensors")
    reads, predicts = (kept[f"model.{side}words.weight"] for side in ("", "output_layer."))
    assert torch.allclose(predicts, reads + 1)


def test_seeds_decide_everything(experiment, tmp_path):
    one = course_lab.run(experiment, tmp_path / "1", progress=False)
    same = course_lab.run(experiment, tmp_path / "2", progress=False)
    other = course_lab.run(experiment.change(seed=2), tmp_path / "3", progress=False)
    assert figures(one.epochs) == figures(same.epochs) != figures(other.epochs)


# A rival of spectrum control for the word matrix, its own rule or rate for other parts.
GROUPS = {
    "words.": {"optimizer": "muon", "learning_rate": 0.01},
    "output_layer.": {"optimizer": "coupled-adam", "learning_rate": 0.02, "weight_decay": 0.1},
    "encoder.": {"learning_rate": 2.0},
}


class Interrupted(Exception):
    pass


OPTIMISATIONS = {
    "sgd": {"optimizer": "sgd"},
    "adamw": {"optimizer": "adamw"},
    "groups": {"optimizer": "sgd", "groups": GROUPS},
    "averaged": {"optimizer": "sgd", "average_from": 2},
    "tied at first": {"optimizer": "adamw", "tied_until": 0.5, "average_from": 2},
}


@pytest.mark.parametrize("changes", OPTIMISATIONS)
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_resumed_run_ends_bit_identical(experiment, tmp_path, changes, precision):
    """Interrupted within both epochs and between them, with dropout, shuffling, drawn lengths."""
    changes = OPTIMISATIONS[changes] | {"precision": precision}
    experiment = experiment.change(optimisation=changes, tied="tied_until" not in changes)
    whole = course_lab.run(experiment, tmp_path / "whole", progress=False, checkpoint_seconds=0)
    for stop in (7, 30, 61):

        def interrupt(step, model, stop=stop):
            if step == stop:
                raise Interrupted

        with pytest.raises(Interrupted):
            course_lab.run(
                experiment, tmp_path / "cut", progress=False, checkpoint_seconds=0,
                callback=interrupt,
            )  # fmt: skip
    cut = course_lab.run(experiment, tmp_path / "cut", progress=False, checkpoint_seconds=0)
    assert figures(cut.epochs) == figures(whole.epochs) and cut.metrics == whole.metrics
    for name in ("last", "best"):
        a, b = (load_file(tmp_path / f / f"{name}.safetensors") for f in ("whole", "cut"))
        assert a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a)


RULES = {
    "adamw": {"optimizer": "adamw"},
    "groups": {"optimizer": "sgd", "groups": {"words.": {"optimizer": "coupled-adam"}}},
}


@pytest.mark.parametrize("rule", RULES)
def test_words_that_are_tied_to_the_end_are_a_tied_run(experiment, tmp_path, rule):
    """Bit by bit, clipping included; those that are tied for a while part there and not before."""
    o = {"keep": "last", "random_length": False, "clip": 0.05}  # below every norm of the gradient
    experiment = experiment.change(optimisation=o | RULES[rule])
    tied = course_lab.run(experiment, tmp_path / "tied", progress=False)

    def untied(share, name):
        apart = []
        e = experiment.change(tied=False, optimisation={"tied_until": share})
        result = course_lab.run(
            e, tmp_path / name, progress=False,
            callback=lambda step, model: apart.append(
                not torch.equal(model.words.weight, model.output_layer.words.weight)
            ),
        )  # fmt: skip
        return result, apart

    whole, apart = untied(0.9999, "whole")
    assert figures(whole.epochs) == figures(tied.epochs) and not any(apart)
    assert torch.equal(whole.model.words.weight, tied.model.words.weight)
    part_of_it, apart = untied(0.5, "half")
    until = apart.index(True)
    assert all(apart[until:]) and until == len(apart) // 2 + 1  # the step after half of them
    assert figures(part_of_it.epochs)[0] == figures(tied.epochs)[0]
    assert figures(part_of_it.epochs)[1] != figures(tied.epochs)[1]
    # What is kept is an untied model.
    loaded, _, same = course_lab.load_checkpoint(tmp_path / "half")
    assert not loaded.tied and same == part_of_it.experiment
    matrix = tied.model.words.weight.numel()
    counts = [sum(p.numel() for p in r.model.parameters()) for r in (tied, part_of_it)]
    assert counts[1] - counts[0] == matrix
    assert "input_geometry" in part_of_it.metrics
    with pytest.raises(CourseError, match="is tied and predicts with `words`; leave"):
        part_of_it.experiment.change(output_words=part("FullWords"))


@pytest.mark.parametrize(
    ("precision", "products", "autocast"),
    [("fp32", "ieee", False), ("tf32", "tf32", False), ("bf16", "ieee", True)],
)
def test_a_step_computes_in_the_precision_asked_for(
    experiment, tmp_path, monkeypatch, precision, products, autocast
):
    """Forward and backward, whatever PyTorch is set to; the validation has all bits."""
    seen = set()

    def look(where, training):
        backends = torch.backends
        kinds = (backends.cuda.matmul, backends.cudnn.rnn, backends.cudnn.conv)
        forward = torch.is_autocast_enabled("cpu") if where == "forward" else None
        seen.add((where, training, *(kind.fp32_precision for kind in kinds), forward))

    forward = LanguageModel.forward

    def watched(self, *inputs, **options):
        look("forward", self.training)
        step = forward(self, *inputs, **options)
        if self.training:
            step.loss.register_hook(lambda _: look("backward", True))
        return step

    monkeypatch.setattr(LanguageModel, "forward", watched)
    optimisation = {"precision": precision, "max_steps": 2}
    before = torch.backends.cuda.matmul.fp32_precision
    course_lab.run(experiment.change(optimisation=optimisation), tmp_path, progress=False)
    assert seen == {
        ("forward", True, *[products] * 3, autocast),
        ("backward", True, *[products] * 3, None),
        ("forward", False, *["ieee"] * 3, False),
    }
    assert torch.backends.cuda.matmul.fp32_precision == before


def test_a_resumed_run_takes_the_ways_that_were_quickest_when_it_began(
    experiment, tmp_path, monkeypatch
):
    """Ways differ in the last digits; a processor that is busy now must not change them."""
    monkeypatch.setattr("course_lib.machine.CHOICES", {"a product": "as it was"})

    def interrupt(step, model):
        if step == 3:
            raise Interrupted

    with pytest.raises(Interrupted):
        course_lab.run(
            experiment, tmp_path, progress=False, checkpoint_seconds=0, callback=interrupt
        )
    choices = {"a product": "another way"}  # as an earlier run of this process took it
    monkeypatch.setattr("course_lib.machine.CHOICES", choices)
    course_lab.run(experiment, tmp_path, progress=False)
    assert choices["a product"] == "as it was"


def test_an_awd_lstm_resumes_its_averaged_sgd_bit_by_bit(experiment, tmp_path):
    """NT-ASGD that has begun: the average, the history behind the trigger, random states, the
    place in the epoch; weight drop and all other dropouts on."""
    experiment = experiment.change(
        encoder=part("AWDLSTM", units=[14, 14, 12]),
        input_embedding=part("InputEmbedding", row_dropout=0.1),
        output_dropout=0.4,
        regularizers=(part("ActivationRegularizer"), part("TemporalActivationRegularizer")),
        optimisation={
            "optimizer": "sgd", "learning_rate": 40.0, "clip": 0.25, "schedule": Constant(),
            "epochs": 5, "average_after": 1, "weight_decay": 1.2e-6,
        },
    )  # fmt: skip
    whole = course_lab.run(experiment, tmp_path / "whole", progress=False)
    averaged = [e["averaged"] for e in whole.epochs]
    assert averaged == sorted(averaged) and averaged[-2:] == [True, True] and not averaged[0]
    steps = load_checkpoint(tmp_path / "whole" / "last.safetensors")[1]["step"]
    for stop in (steps // 2, steps - 20, steps - 3):

        def interrupt(step, model, stop=stop):
            if step == stop:
                raise Interrupted

        with pytest.raises(Interrupted):
            course_lab.run(
                experiment, tmp_path / "cut", progress=False, checkpoint_seconds=0,
                callback=interrupt,
            )  # fmt: skip
    cut = course_lab.run(experiment, tmp_path / "cut", progress=False)
    assert figures(cut.epochs) == figures(whole.epochs) and cut.metrics == whole.metrics
    for name in ("last", "best"):
        a, b = (load_file(tmp_path / f / f"{name}.safetensors") for f in ("whole", "cut"))
        assert a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a)


@pytest.mark.parametrize("start", [{"average_from": 2}, {"average_after": 1}])
def test_averaged_weights_are_those_of_torch_asgd(experiment, tmp_path, start):
    """From the epoch named, or the first without a new best, validation and the best checkpoint
    are of the mean of the weights after every step, which torch's ASGD calls ax."""
    settings = {"optimizer": "sgd", "learning_rate": 4.0, "epochs": 6, "schedule": Constant()}
    settings |= {"random_length": False, "keep": "last"}
    experiment = experiment.change(optimisation=settings | start)
    corpus, seen, reference = experiment.load_corpus(), [], []

    def callback(step, model):
        seen.append([p.detach().clone() for p in model.parameters()])

    model = experiment.build(len(corpus))
    epochs = fit(
        model, LanguageModelBatches(corpus, experiment.optimisation), experiment.optimisation,
        Accelerator(cpu=True), folder=tmp_path, identity={}, callback=callback, progress=False,
    )  # fmt: skip
    averaged = [e["averaged"] for e in epochs]
    begun = averaged.index(True)
    assert begun >= 1 and all(averaged[begun:]) and not any(averaged[:begun])
    if "average_after" in start:
        history = [e["valid_perplexity"] for e in epochs[:begun]]
        late = [n for n in range(3, begun + 1) if history[n - 1] > min(history[: n - 2])]
        assert late == [begun], "the first epoch above the best of those before the last"
    per_epoch = (len(seen) - 1) // 6
    for first, *iterates in zip(*seen[begun * per_epoch :], strict=True):
        weight = nn.Parameter(first.clone())
        optimizer = torch.optim.ASGD([weight], lr=1.0, lambd=0.0, t0=0)
        # ASGD's first step does not count: a step that goes nowhere
        for before, after in zip([first, first, *iterates], [first, *iterates], strict=False):
            weight.grad = before - after  # with this gradient SGD goes where the run went
            optimizer.step()
        reference.append(optimizer.state[weight]["ax"])
    last, _ = load_checkpoint(tmp_path / "last.safetensors")
    names = [name for name, _ in model.named_parameters()]
    for name, expected in zip(names, reference, strict=True):
        torch.testing.assert_close(last[f"average.{name}"], expected, rtol=1e-4, atol=1e-5)
    restore(model, {f"model.{name}": last[f"average.{name}"] for name in names}, "last")
    o = experiment.optimisation
    found = perplexity(model, corpus.valid, corpus.eos, o.evaluation_batch, o.evaluation_length)
    assert found == pytest.approx(epochs[-1]["valid_perplexity"])
    best, head = load_checkpoint(tmp_path / "best.safetensors")
    assert head["epoch"] == 6
    assert all(torch.equal(best[f"model.{name}"], last[f"average.{name}"]) for name in names)


def test_the_non_monotone_trigger():
    assert not stalled([9, 8, 7, 6, 5], 2) and not stalled([9, 8, 10], 2)
    assert stalled([9, 8, 8.5, 8.4, 9.5], 2) and not stalled([9, 8, 8.5, 8.4, 7.9], 2)
    assert not stalled([9, 8, 7, 6, 6.5], 2), "a single rise above the last is forgiven"
    assert not stalled([9, 8, 6, 7, 7.5, 7.8], 3), "so are three after the best"
    assert stalled([5, 9, 8, 8.2, 8.1, 7.9], 2), "the best is one of all the earlier ones"
    assert stalled([9, 8, 10, 10.5, 8.5], 2), "which is their best, not their last"
    assert stalled([9, 8, 7, 6, 8.5], 2), "a new best among the last two does not count"
    assert not stalled([8] * 9, 2), "equal values never trigger"


def trained(experiment, folder, **options):
    """(model, figures) of a run by `fit` alone."""
    corpus, o = experiment.load_corpus(), experiment.optimisation
    model = experiment.build(len(corpus))
    epochs = fit(
        model, LanguageModelBatches(corpus, o), o, Accelerator(cpu=True), folder=folder,
        identity={}, progress=False, **options,
    )  # fmt: skip
    return model, epochs


def test_the_training_perplexity_is_of_the_cross_entropy_alone(experiment, tmp_path):
    """Without what else is minimised, every target once and alike, the last short segment's too."""
    experiment = experiment.change(
        encoder={"dropout": 0.0},
        objectives=(part("CrossEntropy"), part("ZLoss", weight=0.5)),
        regularizers=(part("ActivationRegularizer"),),
        optimisation={
            "optimizer": "sgd", "learning_rate": 1e-30, "epochs": 1, "random_length": False,
            "partial_shuffle": False, "length": 7,
        },
    )  # fmt: skip
    model, epochs = trained(experiment, tmp_path)
    columns = LanguageModelBatches(experiment.load_corpus(), experiment.optimisation).columns
    assert (len(columns) - 1) % 7, "the last segment is a short one"
    log_prob = model.eval().output_layer.log_prob(model(columns[:-1], None).hidden)
    nll = -log_prob.gather(-1, columns[1:, :, None]).mean().item()
    assert epochs[0]["train_perplexity"] == pytest.approx(math.exp(nll), rel=1e-4)


def test_a_batch_in_parts_is_the_same_update(experiment, tmp_path):
    """Columns read one part after the other, each with its own state: the gradients add up."""
    experiment = experiment.change(
        encoder={"dropout": 0.0},
        optimisation={"batch": 6, "optimizer": "sgd", "learning_rate": 3.0, "sum_over_steps": True},
    )
    whole, figures = trained(experiment, tmp_path / "1")
    parts = experiment.change(optimisation={"accumulate": 3})
    model, other = trained(parts, tmp_path / "3")
    for a, b in zip(whole.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
    for key in ("train_perplexity", "valid_perplexity"):
        assert figures[-1][key] == pytest.approx(other[-1][key], rel=1e-4)
    assert figures[-1]["tokens"] == other[-1]["tokens"]
    with pytest.raises(CourseError, match="batch of 6 does not divide by 1 processes × 4 parts"):
        trained(experiment.change(optimisation={"accumulate": 4}), tmp_path / "4")


def test_gates_are_of_whole_batches_read_in_parts(experiment, tmp_path):
    """Which words are rare, and by how much, does not depend on how many parts a batch has."""
    experiment = experiment.change(
        encoder={"dropout": 0.0},
        output_layer=part("GatedSoftmax", alpha=2.0, horizon=30),
        optimisation={"batch": 6, "optimizer": "sgd", "learning_rate": 3.0},
    )
    whole, figures = trained(experiment, tmp_path / "1")
    model, other = trained(experiment.change(optimisation={"accumulate": 3}), tmp_path / "3")
    for one, two in zip(whole.output_layer.gates(), model.output_layer.gates(), strict=True):
        torch.testing.assert_close(one, two, rtol=0.2, atol=0.05)
    rare, _, _ = whole.output_layer.gates()
    assert 0 < rare.sum() < len(rare)


def test_a_run_of_so_many_steps(experiment, tmp_path):
    """It ends within an epoch, validated, and its schedule runs over the steps."""
    experiment = experiment.change(optimisation={"epochs": 9, "max_steps": 75})
    seen = []
    _, epochs = trained(experiment, tmp_path, callback=lambda step, model: seen.append(step))
    assert seen[-1] == 75 and len(epochs) == 2
    assert epochs[-1]["learning_rate"] < 0.05 * 0.01  # OneCycle is at its end
    assert epochs[-1]["tokens"] < epochs[0]["tokens"]
    _, again = trained(experiment, tmp_path)  # finished: nothing is done
    assert again == epochs


def test_epochs_that_end_amid_a_schedule_over_steps_are_warned_of(experiment, tmp_path):
    settings = {"epochs": 1, "max_steps": 900, "random_length": False}
    with pytest.warns(UserWarning, match=r"ended after \d+ of 900 steps, amid the schedule; set"):
        trained(experiment.change(optimisation=settings), tmp_path / "a")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        constant = experiment.change(optimisation=settings | {"schedule": Constant()})
        trained(constant, tmp_path / "b")
        trained(experiment.change(optimisation={"max_steps": 20}), tmp_path / "c")


def test_patience_ends_a_run(experiment, tmp_path):
    """At the first epoch worse than the best of those before the last `patience`."""
    settings = {"optimizer": "sgd", "learning_rate": 9.0, "schedule": Constant(), "epochs": 40}
    experiment = experiment.change(optimisation=settings | {"patience": 2, "clip": None})
    _, epochs = trained(experiment, tmp_path)
    history = [e["valid_perplexity"] for e in epochs]
    assert 3 <= len(epochs) < 40 and stalled(history, 2)
    assert not any(stalled(history[:n], 2) for n in range(1, len(history)))
    assert trained(experiment, tmp_path)[1] == epochs


def test_the_last_epoch_is_kept_where_it_is_asked_for(experiment, tmp_path):
    settings = {"optimizer": "sgd", "learning_rate": 9.0, "schedule": Constant(), "clip": None}
    experiment = experiment.change(optimisation=settings | {"epochs": 5})
    kept = {}
    for keep in ("best", "last"):
        asked = experiment.change(optimisation={"keep": keep})
        _, epochs = trained(asked, tmp_path / keep)
        kept[keep] = load_checkpoint(tmp_path / keep / "best.safetensors")[1]["epoch"]
    history = [e["valid_perplexity"] for e in epochs]
    assert kept == {"best": 1 + history.index(min(history)), "last": 5} and kept["best"] < 5
    with pytest.raises(CourseError, match="must be .best. or .last., not .lst."):
        Optimisation(keep="lst")


def test_the_mean_of_the_last_epochs(experiment, tmp_path):
    ends, rows = [], 0

    def callback(step, model):
        ends.append([p.detach().clone() for p in model.parameters()])

    means = {"epochs": 5, "average_last": 2, "keep": "last"}
    experiment = experiment.change(optimisation=means)
    _, epochs = trained(experiment, tmp_path, callback=callback)
    assert [e["averaged"] for e in epochs] == [False] * 3 + [True] * 2
    last, _ = load_checkpoint(tmp_path / "last.safetensors")
    model = experiment.build(len(experiment.load_corpus()))
    progress = load_checkpoint(tmp_path / "last.safetensors")[1]
    assert progress["averaged_steps"] == 2
    final, best = ends[-1], load_checkpoint(tmp_path / "best.safetensors")[0]
    names = [name for name, _ in model.named_parameters()]
    fourth = [2 * last[f"average.{n}"] - w for n, w in zip(names, final, strict=True)]
    assert all(torch.equal(best[f"model.{name}"], last[f"average.{name}"]) for name in names)
    # some step of the run has the weights of the fourth epoch's end
    distances = [sum((a - b).abs().max() for a, b in zip(fourth, e, strict=True)) for e in ends]
    rows = min(range(len(ends)), key=distances.__getitem__)
    assert distances[rows] < 1e-5 and 0.7 * len(ends) < rows < 0.9 * len(ends)
    with pytest.raises(CourseError, match="one rule, not by average_from and average_last"):
        Optimisation(average_last=2, average_from=1)
    with pytest.raises(CourseError, match="end the run by epochs"):
        Optimisation(average_last=2, max_steps=10)
    with pytest.raises(CourseError, match="average_from counts epochs: end the run by epochs"):
        Optimisation(average_from=2, max_steps=10)
    with pytest.raises(CourseError, match="leave out patience"):
        Optimisation(average_last=2, patience=1)
    with pytest.raises(CourseError, match="begin in epoch 10, but the run ends with epoch 3"):
        Optimisation(average_from=10, epochs=3)
    assert Optimisation(average_from=10, epochs=0).average_from == 10  # only evaluates


def test_a_write_that_fails_leaves_what_was_there_and_no_part(tmp_path, monkeypatch):
    path = tmp_path / "result.json"
    write_atomically(path, b"before")

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(path, b"after")
    assert [file.name for file in tmp_path.iterdir()] == ["result.json"]
    assert path.read_bytes() == b"before"


def test_no_epochs_keep_the_weights(experiment, tmp_path):
    """For a recipe that only evaluates what another has trained."""
    result = course_lab.run(experiment.change(optimisation={"epochs": 0}), tmp_path, progress=False)
    fresh = experiment.build(len(result.corpus))
    for a, b in zip(fresh.parameters(), result.model.parameters(), strict=True):
        assert torch.equal(a, b)
    assert result.epochs == [] and result.metrics["best_epoch"] == 0
    assert result.metrics["test_perplexity"] == pytest.approx(40, rel=0.3)


@pytest.mark.parametrize("changes", ["groups", "averaged"])
def test_a_run_paused_at_its_deadline_goes_on_to_the_same_bits(experiment, tmp_path, changes):
    experiment = experiment.change(optimisation=OPTIMISATIONS[changes])
    whole = course_lab.run(experiment, tmp_path / "whole", progress=False)
    pauses = 0
    while True:
        try:
            result = course_lab.run(
                experiment, tmp_path / "cut", progress=False, deadline=time.time() + 0.1
            )
            break
        except Paused as pause:
            assert "deadline" in str(pause) and not (tmp_path / "cut" / "result.json").exists()
            pauses += 1
    assert pauses >= 2 and figures(result.epochs) == figures(whole.epochs)
    a, b = (load_file(tmp_path / f / "last.safetensors") for f in ("whole", "cut"))
    assert a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a)


class Restless(nn.Module):
    """An encoder behind noise that fades out, and a count of its own; it notes every call."""

    def __init__(self, encoder):
        super().__init__()
        self.inner, self.output_size, self.seen = encoder, encoder.output_size, []
        self.shift = nn.Parameter(torch.zeros(12))
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def anneal(self, progress):
        self.seen.append(progress)

    def after_step(self):
        self.shift -= self.shift.mean()  # in place on a leaf: only allowed without gradients
        self.steps += 1

    def forward(self, x, state):
        scale = 0.2 * (1 - self.seen[-1]) if self.training else 0.0
        return self.inner(x + self.shift + scale * torch.randn_like(x), state)


def test_modules_are_called_around_each_step_and_after_a_restart(experiment, tmp_path):
    """`anneal` with the share of the run done before a step, `after_step` behind it; a run that
    was interrupted, with several optimisers, goes on to the same bits."""
    experiment = experiment.change(optimisation={"groups": GROUPS})
    corpus, o = experiment.load_corpus(), experiment.optimisation

    def start(folder, callback=None):
        model = experiment.build(len(corpus))
        model.encoder = Restless(model.encoder)
        arguments = {"identity": {}, "progress": False, "checkpoint_seconds": 0}
        accelerator = Accelerator(cpu=True)
        torch.manual_seed(1)
        try:
            task = LanguageModelBatches(corpus, o)
            fit(model, task, o, accelerator, folder=folder, callback=callback, **arguments)
        except Interrupted:
            pass
        return model

    steps = []

    def called(step, model):
        steps.append(step)
        assert model.encoder.steps == len(model.encoder.seen) == step
        assert model.encoder.shift.mean().abs() < 1e-6

    whole = start(tmp_path / "whole", called)
    seen = whole.encoder.seen
    assert len(seen) == steps[-1] > 60 and whole.encoder.shift.abs().max() > 0.01
    assert seen[0] == 0 and seen == sorted(set(seen)) and 0.5 in seen and 0.95 < seen[-1] < 1
    again = []
    for stop in (7, 61):

        def interrupt(step, model, stop=stop):
            if step == stop:
                raise Interrupted

        again += start(tmp_path / "cut", interrupt).encoder.seen
    cut = start(tmp_path / "cut")
    assert again + cut.encoder.seen == seen
    a, b = (load_file(tmp_path / f / "last.safetensors") for f in ("whole", "cut"))
    assert a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a)


def test_a_result_names_every_commit_and_machine_that_it_was_trained_on(
    experiment, tmp_path, monkeypatch
):
    def stop_in(epoch):
        def callback(step, model):
            if step == epoch * 40:
                raise Interrupted

        return callback

    options = {"progress": False, "checkpoint_seconds": 0}
    for commit, threads, epoch in (("a", 2, 1), ("b", 1, 1.2), ("a", 2, 1.4)):
        monkeypatch.setattr(provenance, "commit", lambda commit=commit: commit)
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        with pytest.raises(Interrupted):
            course_lab.run(experiment, tmp_path, callback=stop_in(epoch), **options)
    monkeypatch.setattr(provenance, "commit", lambda: "c")
    source = course_lab.run(experiment, tmp_path, **options).provenance
    assert (source["commit"], source["threads"]) == ("c", 2)
    # each once, by when it was last used
    assert [(s["commit"], s["threads"]) for s in source["earlier_starts"]] == [("b", 1), ("a", 2)]
    assert provenance.describe_origin([{"provenance": source}]).endswith("at commits a, b and c.")
    released = {"provenance": source | {"commit": "release 1.2.3", "earlier_starts": []}}
    assert provenance.describe_origin([released]).endswith("at commit release 1.2.3.")


def test_the_commit_is_that_of_the_code(tmp_path, monkeypatch):
    """Marked where the library differs from it; never that of a repository it only lies in."""

    def git(*arguments):
        name = ("-c", "user.name=a", "-c", "user.email=a@b.org")
        done = subprocess.run(
            ["git", *name, *arguments], cwd=tmp_path, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    (tmp_path / "course_lib").mkdir()
    (tmp_path / "course_lib" / "x.py").write_text("1")
    (tmp_path / "notes.txt").write_text("1")
    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "first")
    monkeypatch.setattr(folders, "REPOSITORY", tmp_path.resolve())
    assert provenance.commit() == git("rev-parse", "HEAD")
    (tmp_path / "notes.txt").write_text("2")
    assert provenance.commit() == git("rev-parse", "HEAD"), "no part of the library"
    (tmp_path / "course_lib" / "x.py").write_text("2")
    assert provenance.commit() == git("rev-parse", "HEAD") + " (library changed since)"
    inside = tmp_path / "course_lib" / "site-packages"
    inside.mkdir()
    monkeypatch.setattr(folders, "REPOSITORY", inside.resolve())
    assert provenance.commit().startswith("release ")


def test_a_result_of_an_edited_text_or_of_other_weights_is_refused(experiment, text, tmp_path):
    run = tmp_path / "run"
    course_lab.run(experiment, run, progress=False)
    before = (text / "train.txt").read_text()
    (text / "train.txt").write_text(before + "w1 w2 w3\n")
    with pytest.raises(CourseError, match="has the result of another text of that name; remove"):
        course_lab.run(experiment, run, progress=False)
    (text / "train.txt").write_text(before)
    course_lab.run(experiment, run, progress=False)
    tensors, head = load_checkpoint(run / "best.safetensors")
    save_checkpoint(run / "best.safetensors", {k: t + 1 for k, t in tensors.items()}, head)
    with pytest.raises(CourseError, match="does not hold the weights of the result beside it"):
        course_lab.run(experiment, run, progress=False)
    save_checkpoint(tmp_path / "nameless.safetensors", tensors, {"epoch": 1})
    with pytest.raises(CourseError, match="does not say which experiment it belongs to"):
        course_lab.load_checkpoint(tmp_path / "nameless.safetensors")


def test_killed_five_times_ends_bit_identical(experiment, tmp_path):
    """`kill -9` at random moments of the real command; nothing half-written, the same weights."""
    experiment = experiment.change(optimisation={"epochs": 15})
    whole = course_lab.run(experiment, tmp_path / "whole", progress=False)
    write_json(tmp_path / "experiment.json", experiment.to_dict())
    folder, g = tmp_path / "killed", random.Random(1)
    command = [sys.executable, "-m", "course_lab", "train", str(tmp_path / "experiment.json")]
    command += ["--folder", str(folder), "--device", "cpu", "--checkpoint-seconds", "0"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    kills, steps = 0, []
    while kills < 5:
        last = folder / "last.safetensors"
        before = last.stat().st_mtime_ns if last.exists() else 0
        process = subprocess.Popen(command, env=environment, **quiet)
        while process.poll() is None and (
            not last.exists() or last.stat().st_mtime_ns == before
        ):  # let it make some progress
            time.sleep(0.02)
        time.sleep(g.uniform(0.05, 0.5))
        process.send_signal(signal.SIGKILL)
        error = process.communicate()[1]
        if process.returncode != -signal.SIGKILL:
            pytest.fail(f"ended before it was killed: {error.decode()[-500:]}")
        kills += 1
        steps.append(load_checkpoint(last)[1]["step"])  # readable whenever it was killed
    assert steps == sorted(set(steps))  # each start went on from the last
    subprocess.run(command, env=environment, check=True, **quiet)
    for name in ("last", "best"):
        a, b = (load_file(tmp_path / f / f"{name}.safetensors") for f in ("whole", "killed"))
        assert a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a)
    assert figures(course_lab.read_result(folder)["epochs"]) == figures(whole.epochs)
    assert not list(folder.glob("*.part")), "a half-written file is left"


METHODS = {
    "plain": {},
    "all": {
        "words": part("SpectralWords", init=0.5),
        "output_layer": part("AdversarialMixtureOfSoftmaxes", components=2, gradient="hidden"),
        "objectives": (part("LabelSmoothing"), part("ZLoss"), part("AugmentedLoss", weight=0.1)),
        "regularizers": (
            part("Orthogonality"),
            part("PolynomialPrior", weight=0.1, c1=2.0, gamma=0.5),
            part("CosineRegularizer"),
            part("ActivationRegularizer"),
            part("TemporalActivationRegularizer"),
        ),
    },
    # clusters that a process may see no word of, each process's columns in two parts
    "adaptive": {
        "output_layer": part("AdaptiveSoftmax", cutoffs=[10, 25]),
        "corpus": {"by_frequency": True},
    },
    # counts of what both processes read
    "gated": {"output_layer": part("GatedSoftmax", alpha=0.9, horizon=20)},
}


@pytest.mark.parametrize(
    "methods", ["all", *(pytest.param(n, marks=pytest.mark.nightly) for n in METHODS if n != "all")]
)
def test_two_processes_equal_one_with_the_double_batch(experiment, tmp_path, methods):
    """torchrun on two CPU processes: the same loss curve to rounding, with two optimisers."""
    groups = {"words.": {"optimizer": "coupled-adam", "learning_rate": 0.02}}
    # SGD where there are penalties: at their minimum Adam would blow rounding up to whole steps.
    own = {"groups": groups} if methods == "plain" else {"optimizer": "sgd", "learning_rate": 0.5}
    experiment = experiment.change(
        encoder={"dropout": 0.0},
        optimisation={"batch": 4, "random_length": False} | own,
        **METHODS[methods],
    )
    one = course_lab.run(experiment, tmp_path / "one", progress=False, device="cpu")
    if methods == "adaptive":
        experiment = experiment.change(optimisation={"accumulate": 2})
    two = course_lab.launch(experiment, 2, folder=tmp_path / "two", device="cpu")
    assert two.provenance["processes"] == 2
    for a, b in zip(one.epochs, two.epochs, strict=True):
        for key in ("train_perplexity", "valid_perplexity"):
            assert b[key] == pytest.approx(a[key], rel=1e-3)
    if methods == "gated":
        paths = [tmp_path / name / "last.safetensors" for name in ("one", "two")]
        a, b = (load_checkpoint(p)[0]["model.output_layer.appearances"] for p in paths)
        torch.testing.assert_close(a, b)


SLOW_CLOCK = """
import itertools, os, sys, time, types
from course_lib.training import loop
calls = itertools.count()
def clock():  # that of the second process jumps ahead after a while
    late = 1000.0 * int(os.environ["RANK"])
    return time.perf_counter() + late * (next(calls) > 40)
loop.time = types.SimpleNamespace(perf_counter=clock, time=time.time)
from course_lab.cli import main
sys.exit(main())
"""


def test_processes_whose_clocks_differ_stay_in_step(experiment, tmp_path):
    """Nothing that all of them must do together depends on one of their clocks."""
    experiment = experiment.change(optimisation={"batch": 4, "epochs": 6, "random_length": False})
    (tmp_path / "e.json").write_text(json.dumps(experiment.to_dict()), "utf-8")
    (tmp_path / "clock.py").write_text(SLOW_CLOCK, "utf-8")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", "2", str(tmp_path / "clock.py"), "train"]
    command += [str(tmp_path / "e.json"), "--folder", str(tmp_path / "run"), "--device", "cpu"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr[-2000:]
    assert len(course_lab.read_result(tmp_path / "run")["epochs"]) == 6


def test_accelerates_settings_do_not_decide_on_the_precision(monkeypatch):
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "bf16")
    AcceleratorState._reset_state(reset_partial_state=True)
    accelerator = accelerator_on("cpu")
    assert accelerator.mixed_precision == "no" and accelerator.device.type == "cpu"
    with pytest.raises(CourseError, match="unknown device 'gpu'"):
        accelerator_on("gpu")


@pytest.mark.parametrize("name", ["ACCELERATE_GRADIENT_ACCUMULATION_STEPS", "argument", "bf16"])
def test_an_accelerator_that_changes_the_training_is_refused(
    experiment, tmp_path, monkeypatch, name
):
    AcceleratorState._reset_state(reset_partial_state=True)
    if name == "bf16":
        monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "bf16")
    elif name != "argument":
        monkeypatch.setenv(name, "4")
    steps = 4 if name == "argument" else 1
    o, corpus = experiment.optimisation, experiment.load_corpus()
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=steps)
    arguments = experiment.build(len(corpus)), LanguageModelBatches(corpus, o), o
    with pytest.raises(CourseError, match="accelerator needs .*_steps=1 and mixed_precision='no'"):
        fit(*arguments, accelerator, folder=tmp_path, identity={}, progress=False)
    AcceleratorState._reset_state(reset_partial_state=True)
    assert accelerator_on("cpu").gradient_accumulation_steps == 1


def test_a_task_that_yields_more_than_it_may_is_refused(experiment, tmp_path):
    o, corpus = experiment.optimisation, experiment.load_corpus()

    class Twice(LanguageModelBatches):
        def updates(self, generator):
            for update in super().updates(generator):
                yield update._replace(micro_batches=update.micro_batches * 2)

    arguments = experiment.build(len(corpus)), Twice(corpus, o), o, Accelerator(cpu=True)
    with pytest.raises(CourseError, match="an update has 2 micro-batches; set accumulate"):
        fit(*arguments, folder=tmp_path, identity={}, progress=False)


def test_as_many_gpus_are_taken_as_share_a_batch(experiment, tmp_path, monkeypatch):
    """Of 8 for a batch of 20: 5; one to stay on the CPU; pairs are shared by any number."""
    taken = []

    class Torchrun(Exception):
        """In its place."""

    def started(command, **_):
        taken.append(int(command[command.index("--nproc-per-node") + 1]))
        raise Torchrun

    module = sys.modules["course_lab.launch"]
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 8)
    monkeypatch.setattr(subprocess, "run", started)
    monkeypatch.setattr(module, "run", lambda *_, **__: taken.append(1))
    language = experiment.change(optimisation={"batch": 20})
    pairs = experiment.change(encoder=part("Transformer"))
    for chosen, options in ((language, {}), (language.change(optimisation={"batch": 7}), {}),
                            (language.change(optimisation={"accumulate": 4}), {}),
                            (language, {"device": "cpu"}), (pairs, {})):  # fmt: skip
        with suppress(Torchrun):
            course_lab.launch(chosen, folder=tmp_path / "run", **options)
    assert taken == [5, 7, 5, 1, 8]


def test_options_that_reach_no_other_process_are_refused(experiment, tmp_path):
    with pytest.raises(CourseError, match="with 2 processes there is no callback, devce"):
        course_lab.launch(experiment, 2, folder=tmp_path / "run", callback=print, devce="cpu")
    assert not (tmp_path / "run").exists()


def test_a_loss_beyond_all_perplexities_stops_the_run(experiment, tmp_path):
    """Finite, but its exponential is not: an error for the reader, no overflow."""
    wild = {"optimizer": "sgd", "learning_rate": 1e12, "schedule": Constant(), "clip": None}
    with pytest.raises(CourseError, match="the loss became .* lower learning rate"):
        course_lab.run(experiment.change(optimisation=wild), tmp_path, progress=False)
    assert not (tmp_path / "result.json").exists()


SHARDED = {
    "adamw": {"optimizer": "adamw"},
    # Muon rounds to bfloat16, in another order where the matrix is spread
    "three": {"optimizer": "sgd", "learning_rate": 1.0}
    | {
        "groups": {
            "words.": {"optimizer": "coupled-adam", "learning_rate": 0.05},
            "encoder.recurrent.": {"optimizer": "muon", "learning_rate": 0.01},
        }
    },
    "blocks": {"optimizer": "adamw", "learning_rate": 0.005},
    "factors": {"optimizer": "adamw", "learning_rate": 0.005},
    "tied at first": {"optimizer": "adamw", "tied_until": 0.5}
    | {"groups": {"words.": {"optimizer": "ember", "learning_rate": 0.01}}},
}
BLOCKS = part(
    "TransformerXL",
    layers=2, heads=2, head_size=6, feedforward=20, memory=8, dropout=0.0, attention_dropout=0.0,
)  # fmt: skip


@pytest.mark.parametrize(
    "name",
    ["three", *(pytest.param(n, marks=pytest.mark.nightly) for n in SHARDED if n != "three")],
)
def test_a_sharded_run_equals_one_process(experiment, tmp_path, name):
    """Two processes with half of every parameter, gradient and slot each; paused within the first
    epoch, gone on with from the checkpoint put together from both."""
    changes = SHARDED[name] | {"average_from": 2, "batch": 4, "random_length": False}
    parts = {"encoder": {"dropout": 0.0}}
    if name == "three":  # which changes weights in place
        parts["adaptation"] = part("DynamicEvaluation", rate=2e-3, decay=0.01, batch=2)
    if name == "tied at first":
        parts["tied"] = False
    if name in ("blocks", "factors"):
        parts = {"encoder": BLOCKS}
    if name == "factors":  # as the large Transformer-XL under spectrum control has them
        parts |= {
            "corpus": {"by_frequency": True},
            "words": part("SpectralWords"),
            "output_layer": part("AdaptiveSoftmax", cutoffs=[5, 12]),
            "regularizers": (
                part("Orthogonality", frobenius_U=0.1, frobenius_V=0.1, spectral_U=0.1),
                part("ExponentialPrior", c1=3.0, c2=0.1, gamma=0.6, weight=0.1),
            ),
        }
    experiment = experiment.change(**parts, optimisation=changes)
    one = course_lab.run(experiment, tmp_path / "one", progress=False, device="cpu")
    experiment = experiment.change(optimisation={"shard": True})
    options = {"folder": tmp_path / "two", "device": "cpu"}
    with pytest.raises(Paused):
        course_lab.launch(experiment, 2, deadline=0.0, **options)
    head = load_checkpoint(tmp_path / "two" / "last.safetensors")[1]
    assert head["epoch"] == 0 and head["step"] == 20
    two = course_lab.launch(experiment, 2, **options)
    assert [e["averaged"] for e in two.epochs] == [False, True]
    for a, b in zip(one.epochs, two.epochs, strict=True):
        for key in ("train_perplexity", "valid_perplexity"):
            assert b[key] == pytest.approx(a[key], rel=5e-3 if name == "three" else 1e-3)
    for key in ("valid_perplexity", "test_perplexity"):
        assert two.metrics[key] == pytest.approx(one.metrics[key], rel=5e-3)
        assert ("adaptation" in two.metrics) == (name == "three")


def test_blocks_are_put_together_one_by_one(experiment):
    """Of a Transformer, decoder layers among them, and of Transformer-XL; an LSTM has none."""
    from torch.distributed import HashStore, destroy_process_group, init_process_group
    from torch.distributed.fsdp import FSDPModule

    small = part("Transformer", layers=2, heads=2, feedforward=20)
    init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
    try:
        for encoder, expected in ((BLOCKS, 2), (small, 4), (experiment.encoder, 0)):
            model = experiment.change(encoder=encoder).build(30)
            shard(model, "cpu", 1)
            units = [m for m in model.modules() if isinstance(m, FSDPModule)]
            assert len(units) == expected + 1 and isinstance(model, FSDPModule)
            assert all(hasattr(p, "device_mesh") for p in model.parameters())
    finally:
        destroy_process_group()


def test_a_loss_that_is_not_finite_stops_the_run(experiment, tmp_path):
    """The message names step and checkpoint; that checkpoint is good."""
    experiments_folder = tmp_path / "run"

    def poison(step, model):
        if step == 40:
            with torch.no_grad():
                model.words.weight[0, 0] = math.nan

    with pytest.raises(
        CourseError, match=r"the loss became nan at step 41 \(epoch 1\).*last good"
    ) as e:
        course_lab.run(
            experiment, experiments_folder, progress=False, callback=poison, checkpoint_seconds=0
        )
    last = experiments_folder / "last.safetensors"
    assert str(last) in str(e.value)
    tensors, head = load_checkpoint(last)
    assert head["step"] <= 40 and all(torch.isfinite(t.float()).all() for t in tensors.values())


def test_a_checkpoint_of_another_experiment_is_refused(experiment, tmp_path):
    course_lab.run(experiment, tmp_path, progress=False)
    other = experiment.change(optimisation={"learning_rate": 0.02})
    with pytest.raises(CourseError, match="another experiment.*learning_rate is 0.05 there, 0.02"):
        course_lab.run(other, tmp_path, progress=False)
    assert difference({"a": {"b": 1}}, {"a": {"b": 2}}) == "a.b is 1 there, 2 here"
    assert difference(None, {"a": 1}) == "it is None there, {'a': 1} here"
    assert difference({"a": {"b": 1}}, {"c": None, "a": {"b": 1, "d": None}}) is None


def test_a_checkpoint_from_before_a_setting_existed_goes_on(experiment, tmp_path):
    """One that is off here, as it was there; where it is on, it is another experiment."""
    full = experiment.change(optimisation={"epochs": 2})
    course_lab.run(full, tmp_path / "whole", progress=False)

    def stop(step, model):
        if step == 50:
            raise Interrupted

    with pytest.raises(Interrupted):
        course_lab.run(full, tmp_path / "run", progress=False, callback=stop, checkpoint_seconds=0)
    last = tmp_path / "run" / "last.safetensors"
    tensors, head = load_checkpoint(last)
    assert head["step"] > 0 and head["identity"]["experiment"].pop("ranked_contexts", "") is None
    save_checkpoint(last, tensors, head)
    with pytest.raises(CourseError, match="ranked_contexts is None there, 20 here"):
        course_lab.run(full.change(ranked_contexts=20), tmp_path / "run", progress=False)
    again = course_lab.run(full, tmp_path / "run", progress=False)
    whole = course_lab.run(full, tmp_path / "whole", progress=False)
    assert again.metrics == whole.metrics


def test_a_paused_run_that_cannot_go_on_says_what_differs_and_what_to_do(
    experiment, text, tmp_path
):
    """Begun by an earlier version, of another text, or another experiment."""
    folder = tmp_path / "run"
    with pytest.raises(Paused):
        course_lab.run(experiment, folder, progress=False, deadline=1.0)
    last = folder / "last.safetensors"
    tensors, head = load_checkpoint(last)
    assert head["starts"][-1]["commit"]

    def message(other=experiment, **settings):
        """Return why the run does not go on, begun with other settings or as another experiment."""
        plain = head["identity"]["experiment"] | settings
        plain = {name: value for name, value in plain.items() if value != "missing"}
        begun = head | {"identity": head["identity"] | {"experiment": plain}}
        begun["starts"] = [head["starts"][-1] | {"commit": "0123abc"}]
        save_checkpoint(last, tensors, begun)
        with pytest.raises(CourseError) as refused:
            course_lab.run(other, folder, progress=False)
        sentence = str(refused.value)
        assert sentence.endswith(
            f"remove {folder} to train anew, or keep it and choose another folder"
        )
        assert sentence.startswith(f"the paused run in {folder} ")
        return sentence

    # the same experiment in the words of an earlier version
    reading = {"kind": "Reading", "options": {}}
    earlier = message(reading=reading, input_embedding="missing")
    assert "is of this experiment, but it was begun by another version of the course (0123abc)" in (
        earlier
    )
    assert "reading is {'kind': 'Reading', 'options': {}} there, None here" in earlier
    assert "finish it with that version" in earlier and "another experiment" not in earlier
    # settings that nobody knows any more
    unreadable = message(temperament=1)
    assert "begun by another version of the course (0123abc)" in unreadable
    assert "temperament" in unreadable and "finish it with that version" in unreadable
    # another experiment, with every difference
    other = message(experiment.change(seed=7, optimisation={"learning_rate": 0.02}))
    assert "is of another experiment (" in other and "seed is 1 there, 7 here" in other
    assert "optimisation.learning_rate is 0.05 there, 0.02 here" in other
    # another text
    train = text / "train.txt"
    train.write_text(train.read_text()[:-4] + "\n")
    assert "on another text: the checksum of train differs; bring" in message()


def test_a_finished_run_is_read_for_its_own_experiment_alone(experiment, tmp_path):
    """Its figures stand; without an epoch of training, too, where no checkpoint would say whose."""
    zero = experiment.change(optimisation={"epochs": 0})
    done = course_lab.run(zero, tmp_path, progress=False)
    again = course_lab.run(zero, tmp_path, progress=False)
    assert (again.metrics, again.provenance) == (done.metrics, done.provenance)
    assert all(map(torch.equal, again.model.parameters(), done.model.parameters()))
    with pytest.raises(CourseError, match="the result of another experiment .seed is 1 there, 7"):
        course_lab.run(zero.change(seed=7), tmp_path, progress=False)
    (tmp_path / "best.safetensors").rename(tmp_path / "away")
    with pytest.raises(CourseError, match="a result but not its weights; bring best.safetensors"):
        course_lab.run(zero, tmp_path, progress=False)


def test_a_trained_model_is_kept_until_an_epoch_is_better(experiment, tmp_path):
    first = course_lab.run(experiment, tmp_path / "first", progress=False)
    corpus = first.corpus
    weights = {k: v.detach().clone() for k, v in parameters_of(first.model).items()}
    before = first.epochs[first.metrics["best_epoch"] - 1]["valid_perplexity"]
    for name, rate, stop in [("worse", 3.0, None), ("cut", 3.0, 40), ("better", 1e-3, None)]:
        o = Optimisation(
            optimizer="adamw", learning_rate=rate, epochs=2, batch=5, length=10, evaluation_batch=2
        )

        def interrupt(step, model, stop=stop):
            if step == stop:
                raise Interrupted

        def go_on(callback=None, name=name, o=o):
            first.model.load_state_dict(weights, strict=False)  # a tied matrix is there once
            return fit(
                first.model, LanguageModelBatches(corpus, o), o, Accelerator(cpu=True), identity={},
                folder=tmp_path / name, progress=False, checkpoint_seconds=0, trained=True,
                callback=callback,
            )  # fmt: skip

        if stop:
            with pytest.raises(Interrupted):
                go_on(interrupt)
        epochs = go_on()
        tensors, head = load_checkpoint(tmp_path / name / "best.safetensors")
        best = min(e["valid_perplexity"] for e in epochs)
        assert (head["epoch"] == 0) == (best > before) == (name != "better")
        kept = all(torch.equal(tensors[f"model.{k}"], v) for k, v in weights.items())
        assert kept == (name != "better")


def test_a_step_to_weights_that_are_not_finite_leaves_the_checkpoint_alone(experiment, tmp_path):
    """The loss before the step was well; the look at it cannot notice."""

    o = Optimisation(
        optimizer="sgd", learning_rate=0.1, epochs=1, batch=5, length=10, evaluation_batch=2
    )
    corpus, seen = experiment.load_corpus(), []
    model = experiment.build(len(corpus))

    def callback(step, model):
        seen.append(step)
        if step == 30:
            model.words.weight.register_hook(lambda g: g * math.nan)

    with pytest.raises(CourseError, match="a weight is no longer finite after step 31 .epoch 1."):
        fit(
            model, LanguageModelBatches(corpus, o), o, Accelerator(cpu=True), folder=tmp_path,
            identity={}, progress=False, checkpoint_seconds=0, callback=callback,
        )  # fmt: skip
    tensors, head = load_checkpoint(tmp_path / "last.safetensors")
    assert head["step"] == 30 == seen[-1]
    assert all(t.isfinite().all() for name, t in tensors.items() if name.startswith("model."))


def test_weights_that_only_training_reads_do_not_become_the_best_where_they_are_broken(
    experiment, tmp_path
):
    """The validation of the second epoch is the better one, and sees nothing of the parameter."""
    o = Optimisation(
        optimizer="sgd", learning_rate=0.1, epochs=2, batch=5, length=10, evaluation_batch=2
    )
    corpus = experiment.load_corpus()
    model = experiment.build(len(corpus))
    model.register_parameter("idle", torch.nn.Parameter(torch.zeros(1)))
    batches = LanguageModelBatches(corpus, o)
    last = 2 * -(-batches.rows // 10)

    def callback(step, model):
        if step == last:
            model.idle.data.fill_(math.nan)

    with pytest.raises(CourseError, match=rf"no longer finite after step {last} .epoch 2."):
        fit(
            model, batches, o, Accelerator(cpu=True), folder=tmp_path, identity={},
            progress=False, callback=callback,
        )  # fmt: skip
    tensors, head = load_checkpoint(tmp_path / "best.safetensors")
    assert head["epoch"] == 1 and tensors["model.idle"].isfinite().all()


BAD_STEP = """
import json, math, os, sys
from pathlib import Path
import course_lab
from course_lib.errors import CourseError
folder = Path(sys.argv[1])
experiment = course_lab.Experiment.from_dict(json.loads((folder / "e.json").read_text()))
def callback(step, model):
    if step == 39:  # the gradient of step 40, after which a checkpoint is due
        model.words.weight.register_hook(lambda g: g * math.nan)
options = {"device": "cpu", "progress": False, "checkpoint_seconds": 0, "patience": 20}
try:
    course_lab.run(experiment, folder / "run", callback=callback, **options)
except CourseError as error:
    (folder / os.environ["RANK"]).write_text(str(error))
"""


def test_all_processes_stop_where_weights_are_not_finite(experiment, tmp_path):
    """Only the first one has them all to look at; the others do not wait for it in vain."""
    experiment = experiment.change(optimisation={"batch": 4, "random_length": False, "length": 4})
    (tmp_path / "e.json").write_text(json.dumps(experiment.to_dict()), "utf-8")
    (tmp_path / "bad.py").write_text(BAD_STEP, "utf-8")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", "2", str(tmp_path / "bad.py"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr[-2000:]
    for process in ("0", "1"):
        said = (tmp_path / process).read_text("utf-8")
        assert "a weight is no longer finite after step 40 (epoch 1)" in said
    tensors, head = load_checkpoint(tmp_path / "run" / "last.safetensors")
    assert head["step"] == 20
    assert all(t.isfinite().all() for name, t in tensors.items() if name.startswith("model."))


def test_a_validation_that_is_not_finite_says_where_it_was_still_well(experiment, tmp_path):
    class Broken(LanguageModelBatches):
        def validate(self, model):
            return math.nan

    o, corpus = experiment.optimisation, experiment.load_corpus()
    model = experiment.build(len(corpus))
    with pytest.raises(CourseError, match=r"is nan after step \d+ .epoch 1.; the last good"):
        fit(
            model, Broken(corpus, o), o, Accelerator(cpu=True), folder=tmp_path,
            identity={}, progress=False, checkpoint_seconds=0,
        )  # fmt: skip


def test_several_processes_resume_with_their_own_chance(experiment, tmp_path):
    """Paused after the first epoch and gone on with, dropout and all: the same figures as at once,
    and the second epoch's chance is not the first's again."""
    experiment = experiment.change(optimisation={"batch": 4})
    whole = course_lab.launch(experiment, 2, folder=tmp_path / "whole", device="cpu")
    options = {"folder": tmp_path / "cut", "device": "cpu"}
    with pytest.raises(Paused):
        course_lab.launch(experiment, 2, deadline=0.0, **options)
    tensors = load_checkpoint(tmp_path / "cut" / "last.safetensors")[0]
    chance = [tensors[f"random.cpu.{process}"] for process in (0, 1)]
    assert not torch.equal(*chance)
    cut = course_lab.launch(experiment, 2, **options)
    assert figures(cut.epochs) == figures(whole.epochs)


def test_from_the_end_of_an_epoch_another_number_of_processes_goes_on(experiment, tmp_path):
    """From one to two, with the weights that the first one left: where nothing is drawn, the same
    as if one had gone on."""
    steady = {"batch": 4, "random_length": False, "partial_shuffle": False}
    experiment = experiment.change(encoder={"dropout": 0.0}, optimisation=steady)
    whole = course_lab.run(experiment, tmp_path / "whole", progress=False, device="cpu")
    folder = tmp_path / "run"

    def after_the_first(step, model):
        if (folder / "last.safetensors").exists():  # none is written within an epoch
            raise Interrupted

    with pytest.raises(Interrupted):
        course_lab.run(
            experiment, folder, progress=False, checkpoint_seconds=1e9, callback=after_the_first,
            device="cpu",
        )  # fmt: skip
    one = load_checkpoint(folder / "last.safetensors")[1]
    assert (one["epoch"], one["row"]) == (1, 0)
    both = course_lab.launch(experiment, 2, folder=folder, device="cpu")
    assert figures(both.epochs)[:1] == figures(one["epochs"]) and len(both.epochs) == 2
    for key in ("train_perplexity", "valid_perplexity"):
        assert both.epochs[1][key] == pytest.approx(whole.epochs[1][key], rel=1e-3)


def test_sizes_that_do_not_fit_are_an_error_for_the_reader(experiment, tmp_path):
    with pytest.raises(CourseError, match="test/tiny: the encoder makes contexts of 13 numbers"):
        course_lab.run(experiment.change(encoder={"units": 13}), tmp_path, progress=False)


EARLY_DEADLINE = """
import itertools, sys, time, types
from course_lib.training import loop
calls = itertools.count()
past = lambda: 1e12 * (next(calls) > 25)  # asked once a step
loop.time = types.SimpleNamespace(perf_counter=time.perf_counter, time=past)
from course_lab.cli import main
sys.exit(main())
"""


def test_several_processes_pause_in_the_middle_of_an_epoch(experiment, tmp_path):
    """With the columns' states and the chance of each: gone on with, it is the run at once."""
    experiment = experiment.change(optimisation={"batch": 4, "length": 4, "random_length": False})
    whole = course_lab.launch(experiment, 2, folder=tmp_path / "whole", device="cpu")
    cut = tmp_path / "cut"
    (tmp_path / "e.json").write_text(json.dumps(experiment.to_dict()), "utf-8")
    (tmp_path / "early.py").write_text(EARLY_DEADLINE, "utf-8")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", "2", str(tmp_path / "early.py"), "train"]
    command += [str(tmp_path / "e.json"), "--folder", str(cut), "--device", "cpu"]
    done = subprocess.run([*command, "--deadline", "1"], capture_output=True, timeout=200)
    assert done.returncode == 0 and b"paused at its deadline" in done.stdout
    assert not (cut / "result.json").exists()
    tensors, head = load_checkpoint(cut / "last.safetensors")
    assert (head["epoch"], head["step"]) == (0, 40) and head["row"] == 40 * 4
    states = [value for name, value in sorted(tensors.items()) if ".state." in name]
    one, other = states[: len(states) // 2], states[len(states) // 2 :]
    assert one and all(not a.equal(b) for a, b in zip(one, other, strict=True))
    with pytest.raises(CourseError, match="in the middle of epoch 1 of a run with 2 processes"):
        course_lab.run(experiment, cut, progress=False, device="cpu")
    went_on = course_lab.launch(experiment, 2, folder=cut, device="cpu")
    assert figures(went_on.epochs) == figures(whole.epochs)


def test_weights_of_another_model_are_refused(experiment, tmp_path):
    model = experiment.build(30)
    save_checkpoint(tmp_path / "c", {f"model.{k}": v for k, v in parameters_of(model).items()}, {})
    with pytest.raises(CourseError, match=r"words.weight should be \(31, 12\), is \(30, 12\)"):
        restore(experiment.build(31), load_checkpoint(tmp_path / "c")[0], "c")
    with pytest.raises(CourseError, match="missing"):
        restore(experiment.build(30), {}, "c")
    untied = parameters_of(experiment.change(tied=False).build(30))
    tensors = {f"model.{name}": value for name, value in untied.items()}
    with pytest.raises(CourseError, match="c belongs to another model: this one has no output_lay"):
        restore(experiment.build(30), tensors | {"random.cpu.0": torch.zeros(1)}, "c")


@pytest.mark.parametrize("length", [640, 896])  # as bytes \x80\2 and \x80\3, like a pickle's
def test_a_header_whose_length_looks_like_a_pickle_is_read(tmp_path, length):
    path, padding = tmp_path / "last.safetensors", 0
    while not path.exists() or int.from_bytes(path.read_bytes()[:8], "little") < length:
        save_checkpoint(path, {"a": torch.ones(2)}, {"x": "y" * padding})
        padding += 1
    assert int.from_bytes(path.read_bytes()[:8], "little") == length
    tensors, progress = load_checkpoint(path)
    assert tensors["a"].tolist() == [1, 1] and set(progress["x"]) == {"y"}


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs the list of mapped files")
def test_a_checkpoint_that_was_read_can_be_replaced_anywhere(tmp_path):
    """Windows replaces no file that is mapped into memory."""
    path = tmp_path / "last.safetensors"
    save_checkpoint(path, {"a": torch.ones(1 << 20)}, {})
    tensors, _ = load_checkpoint(path)
    assert str(path) not in Path("/proc/self/maps").read_text() and tensors["a"].sum() == 1 << 20


@pytest.mark.parametrize("unix", [True, False])
def test_memory_is_known_on_every_system(monkeypatch, unix):
    cpu = torch.device("cpu")
    linux = machine.peak_memory(cpu)

    def nowhere(*_):
        raise OSError

    monkeypatch.setattr(Path, "read_text", nowhere)
    monkeypatch.setattr(Path, "write_text", nowhere)
    if not unix:
        monkeypatch.setitem(sys.modules, "resource", None)
        held = SimpleNamespace(memory_info=lambda: SimpleNamespace(peak_wset=linux * 2**20))
        monkeypatch.setattr(psutil, "Process", lambda: held)
    assert 0.5 * linux < machine.reset_peak_memory(cpu) < 3 * linux


def test_settings_of_the_evaluation_fail_before_the_training(experiment, tmp_path):
    longer = experiment.change(optimisation={"evaluation_memory": 640})
    with pytest.raises(CourseError, match="has no memory to lengthen"):
        course_lab.run(longer, tmp_path, progress=False)
    assert not list(tmp_path.glob("*.safetensors"))


def test_cuts_that_a_corpus_has_not_are_refused():
    pairs = recipes["cldr/transformer-tiny"]
    with pytest.raises(CourseError, match="half is of running text"):
        pairs.change(corpus={"half": "first"}).load_corpus()
    with pytest.raises(CourseError, match="unknown option of small 'trian'; did you mean train"):
        pairs.change(corpus={"small": {"trian": 9}}).load_corpus()


def test_pickles_truncated_and_foreign_files_are_refused(tmp_path):
    path = tmp_path / "model.safetensors"
    with pytest.raises(CourseError, match="there is no checkpoint"):
        load_checkpoint(path)

    class Bomb:
        def __reduce__(self):
            return (os.mkdir, (str(tmp_path / "exploded"),))

    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        path.write_bytes(pickle.dumps(Bomb(), protocol))
        with pytest.raises(CourseError, match="is a pickle"):
            load_checkpoint(path)
    torch.save({"w": torch.zeros(2)}, path)
    with pytest.raises(CourseError, match="is a pickle"):
        load_checkpoint(path)
    assert not (tmp_path / "exploded").exists()
    save_checkpoint(path, {"w": torch.zeros(100)}, {"epoch": 1})
    assert load_checkpoint(path)[1] == {"epoch": 1}
    whole = path.read_bytes()
    for keep in (0, 3, 20, len(whole) - 1):
        path.write_bytes(whole[:keep])
        with pytest.raises(CourseError, match="truncated or not a safetensors"):
            load_checkpoint(path)
    save_file({"w": torch.zeros(2)}, path)
    with pytest.raises(CourseError, match="no progress"):
        load_checkpoint(path)
    for head in ("[1]", "{"):
        save_file({"w": torch.zeros(2)}, path, {"progress": head})
        with pytest.raises(CourseError, match="no progress"):
            load_checkpoint(path)


def test_a_flipped_bit_in_a_checkpoint_is_refused(tmp_path):
    """In any byte of a tensor or of the progress; a checkpoint without a digest is still read."""
    path = tmp_path / "last.safetensors"
    tensors = {
        "w": torch.randn(3, 4),
        "count": torch.tensor(3.0, dtype=torch.float64),
        "empty": torch.zeros(0, 2),
        "random": torch.get_rng_state()[:9],
        "half": torch.randn(5).bfloat16(),
    }
    progress = {"epoch": 1, "nll": 0.1, "best": math.inf, "name": "é"}
    save_checkpoint(path, tensors, progress)
    read, head = load_checkpoint(path)
    assert head == progress and all(torch.equal(read[k], t) for k, t in tensors.items())
    whole = bytearray(path.read_bytes())
    data_begins = 8 + int.from_bytes(whole[:8], "little")
    for place in (data_begins, len(whole) - 1, data_begins + 30, whole.index(b"0.1") + 2):
        for bit in (0, 2):
            damaged = bytearray(whole)
            damaged[place] ^= 1 << bit
            path.write_bytes(damaged)
            with pytest.raises(CourseError, match="last.safetensors is damaged: .*remove it"):
                load_checkpoint(path)
    save_file(tensors, path, {"progress": json.dumps(progress)})
    assert load_checkpoint(path)[1] == progress


def test_a_damaged_checkpoint_is_not_trained_on(experiment, tmp_path):
    experiment = experiment.change(optimisation={"epochs": 1})
    course_lab.run(experiment, tmp_path, progress=False)
    path = tmp_path / "last.safetensors"
    content = bytearray(path.read_bytes())
    content[-400] ^= 4
    path.write_bytes(content)
    task = LanguageModelBatches(experiment.load_corpus(), experiment.optimisation)
    with pytest.raises(CourseError, match="last.safetensors is damaged"):
        fit(
            experiment.build(40 + 1), task, experiment.optimisation, Accelerator(cpu=True),
            folder=tmp_path, identity={}, progress=False,
        )  # fmt: skip


class Recorded(LanguageModelBatches):
    """Batches that remember where each epoch's order comes from, judged as they are told."""

    def __init__(self, corpus, optimisation, judged=()):
        super().__init__(corpus, optimisation)
        self.orders = []
        self.judged = iter(judged)

    def updates(self, generator):
        self.orders.append(torch.randint(2**31, (), generator=generator.clone_state()).item())
        yield from super().updates(generator)

    def validate(self, model):
        return next(self.judged, 9.0)


def test_every_epoch_has_an_order_of_its_own_and_every_seed(experiment, tmp_path):
    o = replace(experiment.optimisation, epochs=3)
    corpus = experiment.load_corpus()

    def orders(seed):
        task = Recorded(corpus, o)
        model = experiment.build(len(corpus))
        folder = tmp_path / f"{seed} {len(list(tmp_path.iterdir()))}"
        accelerator = Accelerator(cpu=True)
        fit(model, task, o, accelerator, folder=folder, identity={}, seed=seed, progress=False)
        return task.orders

    first, other = orders(1), orders(2)
    assert len(set(first + other)) == 6 and orders(1) == first


def test_another_number_of_processes_goes_on_with_the_chance_of_its_epoch():
    """The states of two processes are not those of one, which seeds itself anew."""
    here = SimpleNamespace(process_index=0, num_processes=1, device=torch.device("cpu"))
    run = SimpleNamespace(seed=2, epoch=3, row=0, carried=(None,), accelerator=here)
    run.seed_generators = lambda: loop._Run.seed_generators(run)
    states = {f"random.cpu.{process}": torch.get_rng_state() for process in range(2)}
    torch.manual_seed(0)
    loop._Run.resume_process(run, states, Path("last.safetensors"))
    resumed = torch.initial_seed()
    run.seed_generators()
    assert resumed == torch.initial_seed() != 0


def test_processes_and_epochs_have_chance_of_their_own():
    def seed(number, index, workers, epoch):
        accelerator = SimpleNamespace(process_index=index, num_processes=workers)
        run = SimpleNamespace(seed=number, epoch=epoch, accelerator=accelerator)
        loop._Run.seed_generators(run)
        return torch.initial_seed()

    for workers in (1, 2, 3):
        places = [(n, i, workers, e) for n in (1, 2) for i in range(workers) for e in range(4)]
        assert len({seed(*place) for place in places}) == len(places)


def test_of_equal_epochs_the_first_is_the_best(experiment, tmp_path):
    """And a worse or an equal one afterwards does not take its place."""
    o = replace(experiment.optimisation, epochs=4)
    corpus = experiment.load_corpus()
    model, task = experiment.build(len(corpus)), Recorded(corpus, o, [9.0, 8.0, 8.0, 8.5])
    accelerator = Accelerator(cpu=True)
    fit(model, task, o, accelerator, folder=tmp_path, identity={}, progress=False)
    assert load_checkpoint(tmp_path / "best.safetensors")[1]["epoch"] == 2


def test_a_changed_result_is_refused(tmp_path, experiment):
    course_lab.run(experiment, tmp_path, progress=False)
    path = tmp_path / "result.json"
    content = json.loads(path.read_text())
    content["metrics"]["test_perplexity"] = 1.0
    path.write_text(json.dumps(content))
    with pytest.raises(CourseError, match="checksum"):
        course_lab.read_result(tmp_path)
    path.write_text("{")
    with pytest.raises(CourseError, match="not readable JSON"):
        course_lab.read_result(tmp_path)
    path.write_text("[1]")
    with pytest.raises(CourseError, match="no figures by name"):
        course_lab.read_result(tmp_path)
    path.unlink()
    shutil.copy(tmp_path / "best.safetensors", tmp_path / "last.safetensors")
    with pytest.raises(CourseError, match="no checkpoint of a run to go on with .it has no step"):
        course_lab.run(experiment, tmp_path, progress=False)
    with pytest.raises(CourseError, match="no result"):
        course_lab.read_result(tmp_path / "nowhere")


def test_a_batch_must_divide_among_processes_and_fit_the_corpus(experiment, tmp_path):
    with pytest.raises(CourseError, match="the valid split of .* too few for an evaluation_batch"):
        long = experiment.change(optimisation={"evaluation_batch": 5000})
        course_lab.run(long, tmp_path, progress=False)
    with pytest.raises(CourseError, match="the train split of .* too few for a batch of"):
        course_lab.run(experiment.change(optimisation={"batch": 5000}), tmp_path, progress=False)
