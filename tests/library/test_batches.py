"""What a run trains on: every target once, and the same weight for each of them."""

import json
import math
import sys
from dataclasses import replace

import pytest
import sacrebleu
import torch

import course_lab
from course_lab import corpora, part
from course_lib import data
from course_lib.errors import CourseError
from course_lib.evaluation.perplexity import perplexity
from course_lib.evaluation.translation import BeamSearch, translate
from course_lib.output_layers import IGNORE
from course_lib.training import Optimisation
from course_lib.training.batches import (
    LanguageModelBatches,
    MicroBatch,
    Task,
    TranslationBatches,
    Update,
)
from course_lib.training.checkpoint import load_checkpoint, save_checkpoint

SMALL = {"train": 300, "valid": 40, "test": 20, "words": 300}


@pytest.fixture(scope="module")
def phrases():
    return corpora.load("cldr").small(**SMALL)


@pytest.fixture
def experiment():
    return course_lab.Experiment(
        name="test/translator",
        corpus=part("cldr", small=SMALL),
        size=16,
        encoder=part("Transformer", layers=1, heads=2, feedforward=32, dropout=0.0),
        decoding=part("BeamSearch", beam=2, extra=5),
        optimisation=Optimisation(
            optimizer="adamw", learning_rate=0.01, epochs=2, max_tokens=300, clip=1.0
        ),
    )


def epoch(task: Task) -> list[Update]:
    return list(task.updates(torch.Generator().manual_seed(3)))


@pytest.mark.parametrize("workers,parts", [(1, 1), (2, 1), (1, 3), (2, 2)])
def test_columns_hold_every_target_once(workers, parts):
    corpus = corpora.load("docstrings").small(words=100)
    o = Optimisation(batch=12, length=9, accumulate=parts, partial_shuffle=True)
    tasks = [LanguageModelBatches(corpus, o, index, workers) for index in range(workers)]
    seen, rows = [], []
    for update in zip(*map(epoch, tasks), strict=True):
        rows.append(update[0].rows)
        assert sum(p.weight for u in update for p in u.micro_batches) / workers == pytest.approx(1)
        assert sum(p.target.numel() for u in update for p in u.micro_batches) == update[0].tokens
        seen += [p.target.flatten() for u in update for p in u.micro_batches]
    assert sum(rows) == tasks[0].rows == len(corpus.train) // 12 - 1
    whole = torch.cat(seen).bincount(minlength=100)
    plain = data.columns(corpus.train, 12)
    missing = plain.flatten().bincount(minlength=100) - whole  # one row is never a target
    assert missing.min() >= 0 and missing.sum() == 12


def test_epochs_are_judged_as_the_final_figures_are():
    """With the memory and the clamped distances of evaluation, not of training."""
    corpus = corpora.load("docstrings").small(**SMALL)
    o = Optimisation(
        batch=2, evaluation_batch=2, evaluation_length=6, evaluation_memory=9, evaluation_clamp=4
    )
    experiment = course_lab.Experiment(
        name="test/xl",
        corpus=part("docstrings", small=SMALL),
        size=8,
        encoder=part("TransformerXL", layers=2, heads=2, head_size=4, feedforward=8, memory=3),
        optimisation=o,
    )
    model, options = experiment.build(len(corpus)), {"batch": 2, "length": 6}
    found = LanguageModelBatches(corpus, o).validate(model)
    assert found == perplexity(model, corpus.valid, corpus.eos, **options, memory=9, clamp=4)
    for other in ({}, {"memory": 9}, {"memory": 3, "clamp": 4}):
        assert found != perplexity(model, corpus.valid, corpus.eos, **options, **other)


@pytest.mark.parametrize("workers,parts", [(1, 1), (2, 1), (1, 3), (2, 2)])
def test_pairs_weigh_every_target_alike(phrases, experiment, workers, parts):
    """The parts' losses of all processes, weighted, give the mean over all targets."""
    o = Optimisation(max_tokens=300, accumulate=parts)
    tasks = [TranslationBatches(phrases, o, index, workers) for index in range(workers)]
    model = experiment.build(len(phrases)).double().eval()
    sentences = 0
    for update in zip(*map(epoch, tasks), strict=True):
        total, nll, mine = 0, 0.0, 0.0
        for u in update:
            for one in u.micro_batches:
                assert isinstance(one, MicroBatch) and one.inputs[0].numel() <= 300 // (
                    workers * parts
                )
                targets = (one.target != IGNORE).sum().item()
                loss = model(*one.inputs, target=one.target).loss.item()
                total, nll = total + targets, nll + loss * targets
                mine += loss * one.weight / workers
                sentences += one.target.shape[1]
        assert total == update[0].tokens
        assert mine == pytest.approx(nll / total, rel=1e-12)
    assert sentences == len(phrases.train)
    assert sum(u.rows for u in epoch(tasks[0])) == tasks[0].rows


def test_a_sentence_too_long_for_evaluation_is_found_before_the_training(phrases):
    longest = int(phrases.test.target.lengths.max()) + 1
    shorter = max(int(s.lengths.max()) + 1 for s in (phrases.train.source, phrases.train.target))
    long = replace(phrases, test=phrases.train, train=phrases.test)
    with pytest.raises(CourseError, match=f"{shorter - 1:,}"):
        TranslationBatches(long, Optimisation(max_tokens=shorter - 1))
    assert longest < shorter and TranslationBatches(long, Optimisation(max_tokens=shorter)).rows


@pytest.mark.parametrize(
    "setting",
    [{"random_length": True}, {"partial_shuffle": True}, {"sum_over_steps": True}]
    + [{"evaluation_memory": 0}, {"evaluation_clamp": 5}],
)
def test_pairs_refuse_settings_of_running_text(phrases, setting):
    """The first would divide the learning rate by the length, the others be without effect."""
    [name] = setting
    with pytest.raises(CourseError, match=f"{name} is of running text; cldr .* has sentence"):
        TranslationBatches(phrases, Optimisation(max_tokens=600, **setting))


def test_a_translator_trains_resumes_and_is_scored(experiment, tmp_path):
    """Through the real entry point; interrupted in its second epoch it ends with the same bits."""
    whole = course_lab.run(experiment, tmp_path / "whole", progress=False)

    def interrupt(step, model):
        if step == 25:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        course_lab.run(
            experiment, tmp_path / "cut", progress=False, checkpoint_seconds=0, callback=interrupt
        )
    head = load_checkpoint(tmp_path / "cut" / "last.safetensors")[1]
    assert (head["epoch"], head["step"]) == (1, 25)  # within the second
    cut = course_lab.run(experiment, tmp_path / "cut", progress=False, checkpoint_seconds=0)
    assert cut.metrics == whole.metrics
    first, last = whole.epochs[0], whole.epochs[-1]
    assert last["train_perplexity"] < 0.7 * first["train_perplexity"]
    metrics = whole.metrics
    assert 0 <= metrics["test_bleu"] <= 100 and "tok:13a" in metrics["bleu_signature"]
    assert "tok:none" in metrics["tokenised_bleu_signature"]
    assert math.isfinite(metrics["test_perplexity"])
    model, corpus, loaded = course_lab.load_checkpoint(tmp_path / "cut")
    assert loaded == experiment and len(corpus) == len(whole.corpus) and model.tied
    best = tmp_path / "cut" / "best.safetensors"
    tensors, head = load_checkpoint(best)
    head["identity"]["corpus"]["train.de"] = "0" * 64
    save_checkpoint(best, tensors, head)
    with pytest.raises(CourseError, match="another text than .*: the checksum of train.de differs"):
        course_lab.load_checkpoint(best, experiment.corpus.kind)


@pytest.mark.parametrize("lowercase", [False, True])
def test_bleu_is_of_each_split_beside_its_own_references(
    experiment, phrases, monkeypatch, lowercase
):
    """Half of the words found, in capitals, by the search that the experiment asks for."""
    module, searches = sys.modules["course_lab.final_figures"], []
    wanted = {id(split.source): split for split in (phrases.valid, phrases.test)}

    def found(model, source, search, progress):
        searches.append(search)
        texts = wanted[id(source)].target_text
        return [text.upper() if i % 2 else text for i, text in enumerate(texts)]

    monkeypatch.setattr(module, "translate", found)
    monkeypatch.setattr(module, "token_batches", lambda split, max_tokens: (split, max_tokens))
    monkeypatch.setattr(
        module, "translation_perplexity", lambda model, given: (len(given[0].source), given[1])
    )
    corpus = replace(phrases, lowercase=lowercase)
    monkeypatch.setattr(corpus, "decode", str)
    model = experiment.build(len(corpus))
    figures = module.final_figures(model, corpus, experiment, progress=False)
    assert searches == [BeamSearch(beam=2, extra=5)] * 2
    for name in ("valid", "test"):
        split = getattr(phrases, name)
        assert figures[f"{name}_perplexity"] == (len(split.source), 300)
        refs = list(split.target_text)
        hyps = [ref.upper() if i % 2 else ref for i, ref in enumerate(refs)]
        expected = sacrebleu.corpus_bleu(hyps, [refs], lowercase=lowercase).score
        assert figures[f"{name}_bleu"] == pytest.approx(expected)
        assert (expected > 99) == lowercase
        hyps, refs = ([data.tokenise(text) for text in side] for side in (hyps, refs))
        options = {"lowercase": lowercase, "tokenize": "none", "force": True}
        expected = sacrebleu.corpus_bleu(hyps, [refs], **options).score
        assert figures[f"{name}_tokenised_bleu"] == pytest.approx(expected)
        assert f"{name}_compound_split_bleu" not in figures
    corpus.compound_split = True  # as WMT 2014 has it
    figures = module.final_figures(model, corpus, experiment, progress=False)
    hyps, refs = ([data.split_compounds(text) for text in side] for side in (hyps, refs))
    expected = sacrebleu.corpus_bleu(hyps, [refs], **options).score
    assert figures["test_compound_split_bleu"] == pytest.approx(expected)


def test_compounds_are_split_at_their_hyphens():
    assert data.split_compounds("die E-Mail - ein Ost-West-Weg") == (
        "die E ##AT##-##AT## Mail - ein Ost ##AT##-##AT## West ##AT##-##AT## Weg"
    )
    assert data.split_compounds("a-b-c") == "a ##AT##-##AT## b-c"  # as the script does


class Both(TranslationBatches):
    """The batches of two processes in one, as parts of each update."""

    def __init__(self, corpus, optimisation, index, workers):
        each = replace(optimisation, accumulate=1)
        self.two = [TranslationBatches(corpus, each, index, 2) for index in (0, 1)]
        super().__init__(corpus, each, 0, 2)

    def updates(self, generator):
        for updates in zip(*(t.updates(generator.clone_state()) for t in self.two), strict=True):
            parts = [p._replace(weight=p.weight / 2) for u in updates for p in u.micro_batches]
            yield updates[0]._replace(micro_batches=parts)


def test_two_processes_train_a_translator_as_one(experiment, tmp_path, monkeypatch):
    """torchrun on two CPU processes: every target of an update counts the same, in however long a
    batch of whichever process, and so the loss curve is that of one process to rounding."""
    experiment = experiment.change(optimisation={"optimizer": "sgd", "learning_rate": 0.2})
    two = course_lab.launch(experiment, 2, folder=tmp_path / "two", device="cpu")
    monkeypatch.setattr(sys.modules["course_lab.run"], "TranslationBatches", Both)
    both = experiment.change(optimisation={"accumulate": 2})  # of the states that are carried
    one = course_lab.run(both, tmp_path / "one", progress=False, device="cpu")
    assert two.provenance["processes"] == 2
    for a, b in zip(one.epochs, two.epochs, strict=True):
        assert a["tokens"] == b["tokens"]
        for key in ("train_perplexity", "valid_perplexity"):
            assert b[key] == pytest.approx(a[key], rel=1e-4)
    assert two.metrics["test_perplexity"] == pytest.approx(one.metrics["test_perplexity"], rel=1e-4)


def test_a_sharded_translator_is_the_same_translator(experiment, tmp_path):
    """Its layers put together one by one in training, in validation and in every step of a beam."""
    whole = course_lab.launch(experiment, 2, folder=tmp_path / "whole", device="cpu")
    sharded = experiment.change(optimisation={"shard": True})
    parts = course_lab.launch(sharded, 2, folder=tmp_path / "parts", device="cpu")
    for a, b in zip(whole.epochs, parts.epochs, strict=True):
        assert b["valid_perplexity"] == pytest.approx(a["valid_perplexity"], rel=1e-3)
    assert parts.metrics["test_bleu"] == pytest.approx(whole.metrics["test_bleu"], abs=2)


def test_the_commands_ask_each_model_what_it_can_answer(experiment, tmp_path):
    from typer.testing import CliRunner

    from course_lab.cli import application

    call, app = CliRunner().invoke, application()
    result = course_lab.run(experiment, tmp_path, progress=False)
    sentences = [result.corpus.test.source_text[i] for i in (0, 1)]
    done = call(app, ["translate", str(tmp_path), *sentences, "--json"])
    found = [row["translation"] for row in json.loads(done.stdout)["translations"]]
    search = BeamSearch(beam=2, extra=5)
    sources = [result.corpus.encode(sentence) for sentence in sentences]
    expected = translate(result.model, sources, search, progress=False)
    assert found == [result.corpus.decode(ids) for ids in expected]
    lines = call(app, ["translate", str(tmp_path), "--beam", "2"], input="\n".join(sentences))
    assert lines.stdout.splitlines() == found
    for command in ("score", "next", "generate"):
        refused = call(app, [command, str(tmp_path), "word"])
        assert isinstance(refused.exception, CourseError)
        assert "translator" in str(refused.exception)
    recurrent = experiment.change(
        corpus=part("docstrings", small=SMALL | {"train": 2000, "valid": 200, "test": 200}),
        encoder=part("VariationalLSTM", units=16),
        optimisation={"epochs": 1},
    )
    course_lab.run(recurrent, tmp_path / "text", progress=False)
    refused = call(app, ["translate", str(tmp_path / "text"), "word"])
    assert "is a language model" in str(refused.exception)


def test_a_corpus_of_the_wrong_kind_is_refused(experiment):
    with pytest.raises(CourseError, match="Transformer needs sentence pairs, but corpus docstr"):
        experiment.change(corpus=part("docstrings")).load_corpus()
    recurrent = experiment.change(encoder=part("VariationalLSTM", units=16))
    with pytest.raises(CourseError, match="VariationalLSTM needs running text, but corpus cldr"):
        recurrent.load_corpus()
