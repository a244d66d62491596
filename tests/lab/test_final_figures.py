"""What a run is judged by: longer memories, the cache and dynamic evaluation, as data."""

import json
import math
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
import torch

import course_lab
from course_lab import part, provenance, results
from course_lab.adaptation import ContinuousCache, DynamicEvaluation
from course_lab.corpora import registry
from course_lab.corpora.similarity import Benchmark
from course_lab.figure_cache import FigureCache
from course_lab.final_figures import (
    fetched_benchmarks,
    final_figures,
    word_matrix_geometry,
    word_similarity,
)
from course_lib.data import folders
from course_lib.errors import CourseError, Paused
from course_lib.evaluation import cache, dynamic
from course_lib.evaluation.log_prob import log_prob_blocks
from course_lib.evaluation.perplexity import evaluating, perplexity
from course_lib.metrics.rank import press_rank
from course_lib.metrics.similarity import similarity
from course_lib.training import Optimisation

ADAPTATIONS = {
    "ContinuousCache": {"window": [20, 50], "theta": 0.3, "weight": [0.05, 0.2]},
    "DynamicEvaluation": {"rate": [1e-3, 1e-4], "decay": 1e-3, "batch": 4, "search_tokens": 100},
}


@pytest.fixture
def experiment():
    small = {"train": 2000, "valid": 300, "test": 250, "words": 60}
    return course_lab.Experiment(
        name="test/adapted",
        corpus=part("docstrings", small=small),
        size=12,
        encoder=part("VariationalLSTM", units=12, dropout=0.0),
        optimisation=Optimisation(learning_rate=2.0, epochs=1, batch=5, length=10),
    )


@pytest.mark.parametrize("kind", ADAPTATIONS)
def test_an_adaptation_searches_on_the_validation_split(experiment, kind):
    """The best of all combinations there, and with those settings the test split."""
    experiment = experiment.change(adaptation=part(kind, **ADAPTATIONS[kind]))
    experiment = course_lab.Experiment.from_dict(experiment.to_dict())
    corpus = experiment.load_corpus()
    model = experiment.build(len(corpus))
    found = final_figures(model, corpus, experiment, progress=False)
    settings = found["adaptation"]
    if kind == "ContinuousCache":
        seen = {s: cache.predictions(model, getattr(corpus, s), corpus.eos) for s in SPLITS}

        def value(split, window, theta, weight):
            cached = cache.cache_probability(seen[split], window, theta)
            return cache.mixed_perplexity(seen[split], cached, weight)

        grid = [(w, 0.3, s) for w in (20, 50) for s in (0.05, 0.2)]
        rows = {choice: value("valid", *choice) for choice in grid}
        best = min(rows, key=rows.get)
        assert tuple(settings.values()) == best
        assert found["valid_perplexity"] == pytest.approx(rows[best])
        assert found["test_perplexity"] == pytest.approx(value("test", *best))
    else:
        squares = dynamic.mean_squares(model, corpus.train, 4, progress=False)

        def value(tokens, rate):
            return dynamic.dynamic_perplexity(
                model, tokens, corpus.eos, squares, rate=rate, decay=1e-3, progress=False
            )

        rows = {rate: value(corpus.valid[:100], rate) for rate in (1e-3, 1e-4)}
        best = min(rows, key=rows.get)
        assert settings == {"rate": best, "decay": 1e-3, "epsilon": dynamic.EPSILON}
        assert found["valid_perplexity"] == pytest.approx(value(corpus.valid, best))
        assert found["test_perplexity"] == pytest.approx(value(corpus.test, best))


def test_a_text_too_short_for_gradient_statistics_is_named(experiment):
    changes = {"batch": 10_000_000, "segment": 5}
    experiment = experiment.change(adaptation=part("DynamicEvaluation", **changes))
    corpus = experiment.load_corpus()
    model = experiment.build(len(corpus))
    with pytest.raises(CourseError, match=r"adaptation\.batch.*train split of .*smaller batch"):
        final_figures(model, corpus, experiment, progress=False)


@pytest.mark.parametrize("kind", ADAPTATIONS)
def test_a_search_goes_on_where_it_was_interrupted(experiment, kind, tmp_path, monkeypatch):
    """At every figure past the deadline: to the same result, no figure computed twice."""
    experiment = experiment.change(adaptation=part(kind, **ADAPTATIONS[kind]))
    corpus = experiment.load_corpus()
    model = experiment.build(len(corpus))
    whole = final_figures(model, corpus, experiment, progress=False)
    computed, of, pauses = [], {"weights": "a"}, 0
    for name in ("dynamic_perplexity", "mean_squares"):
        real = getattr(dynamic, name)

        def noticed(*given, real=real, name=name, **options):
            computed.append(name)
            return real(*given, **options)

        monkeypatch.setattr(dynamic, name, noticed)
    while True:
        noted = FigureCache(tmp_path / "figures.json", of, deadline=time.time() - 1)
        try:
            found = final_figures(model, corpus, experiment, progress=False, noted=noted)
            break
        except Paused as pause:
            pauses += 1
            assert f"with {pauses} final figures noted" in str(pause)
    assert found == whole
    passes = {"ContinuousCache": 3, "DynamicEvaluation": 4}[kind]  # two of them of the search
    dynamics = computed.count("dynamic_perplexity"), computed.count("mean_squares")
    assert pauses == passes - 1 and dynamics == ((4, 4) if kind == "DynamicEvaluation" else (0, 0))
    computed.clear()
    assert final_figures(model, corpus, experiment, progress=False, noted=noted) == whole
    assert not computed
    assert FigureCache(noted.path, of).known == noted.known
    starts = [{"commit": "old"}, {"commit": "new"}]
    assert FigureCache(noted.path, of, starts=starts[:1])("more", lambda: 1) == 1
    assert FigureCache(noted.path, of, starts=starts[1:]).starts == starts
    assert FigureCache(noted.path, {}, starts=starts[1:]).starts == starts[1:]
    assert FigureCache(noted.path, {"weights": "b"}).known == {}
    noted.forget()
    assert FigureCache(noted.path, of).known == {} and not noted.path.exists()


BAD = "", "[]", "{}", '{"of": {}}', '{"of": {}, "starts": [], "figures": 3}'


@pytest.mark.parametrize("content", BAD)
def test_damaged_notes_cost_time_and_nothing_else(tmp_path, content):
    path = tmp_path / "figures.json"
    path.write_text(content)
    noted = FigureCache(path, {})
    assert noted("a", lambda: math.inf) == math.inf
    assert FigureCache(path, {})("a", lambda: 1.0) == math.inf


def test_a_run_whose_time_ends_among_its_final_figures_goes_on_with_them(
    experiment, tmp_path, monkeypatch
):
    folder, commits = tmp_path / "run", iter(("trained", "one figure", "the others"))
    monkeypatch.setattr(provenance, "commit", lambda: next(commits))
    whole = course_lab.run(experiment, folder, progress=False)
    (folder / "result.json").unlink()
    with pytest.raises(Paused, match="with 1 final figures noted; run it again"):
        course_lab.run(experiment, folder, progress=False, deadline=0.0)
    assert not (folder / "result.json").exists() and (folder / "figures.json").exists()
    result = course_lab.run(experiment, folder, progress=False)
    assert result.metrics == whole.metrics and not (folder / "figures.json").exists()
    earlier = [start["commit"] for start in result.provenance["earlier_starts"]]
    assert earlier == ["trained", "one figure"] and result.provenance["commit"] == "the others"


def test_figures_are_noted_until_the_result_is_written(experiment, tmp_path, monkeypatch):
    def full(*args):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(results, "write_result", full)
        with pytest.raises(OSError, match="No space left"):
            course_lab.run(experiment, tmp_path, progress=False)
    noted = json.loads((tmp_path / "figures.json").read_text())["figures"]
    (tmp_path / "failed.json").write_text('{"cell": 1, "error": "OSError"}')  # by a plan
    result = course_lab.run(experiment, tmp_path, progress=False)
    assert noted["test"] == result.metrics["test_perplexity"]
    assert not [name for name in ("figures", "failed") if (tmp_path / f"{name}.json").exists()]


SPLITS = ("valid", "test")


def test_one_setting_needs_no_search(experiment):
    corpus = experiment.load_corpus()
    model = experiment.build(len(corpus))
    plain = perplexity(model, corpus.valid, corpus.eos)
    still = DynamicEvaluation(rate=1e-12, decay=0.0, batch=4)(model, corpus, progress=False)
    assert still["valid_perplexity"] == pytest.approx(plain, rel=1e-5)
    off = ContinuousCache(weight=0.0)(model, corpus)
    assert off["valid_perplexity"] == pytest.approx(plain, rel=1e-5)


@pytest.mark.parametrize(
    ("kind", "options", "said"),
    [
        (
            ContinuousCache,
            {"weight": 1.0},
            "weight of ContinuousCache must be .* below 1 .*not 1.0",
        ),
        (
            ContinuousCache,
            {"weight": [0.1, 1.5]},
            "weight of ContinuousCache must be .* not .0.1, 1.5.",
        ),
        (ContinuousCache, {"window": 0}, "window of ContinuousCache must be .* at least 1 .*not 0"),
        (ContinuousCache, {"theta": math.inf}, "theta of ContinuousCache must be a finite number"),
        (DynamicEvaluation, {"segment": 0}, "segment of DynamicEvaluation must be .* at least 1"),
        (
            DynamicEvaluation,
            {"search_tokens": 0},
            "search_tokens of DynamicEvaluation must be .* at least 1",
        ),
        (DynamicEvaluation, {"rate": []}, "rate of DynamicEvaluation is an empty list"),
        (
            DynamicEvaluation,
            {"decay": -1.0},
            "decay of DynamicEvaluation must be .* at least 0 .*not -1.0",
        ),
    ],
)
def test_settings_that_would_give_no_figure_are_refused(kind, options, said):
    with pytest.raises(CourseError, match=said):
        kind(**options)


def test_weights_that_diverge_at_test_time_are_an_error_not_a_figure(experiment):
    corpus = experiment.load_corpus()
    wild = DynamicEvaluation(rate=1e9, decay=0.0, batch=4)
    with pytest.raises(CourseError, match="dynamic evaluation diverged with .*smaller rates"):
        wild(experiment.build(len(corpus)), corpus, progress=False)


def test_a_transformer_is_evaluated_with_a_longer_memory(experiment):
    """With a memory that holds the whole split, segments of any length give one value: the one of
    reading it at once. The model itself keeps its memory."""
    encoder = part("TransformerXL", layers=2, heads=2, head_size=6, feedforward=24, memory=8)
    settings = {"evaluation_memory": 400, "evaluation_length": 16}
    experiment = experiment.change(encoder=encoder, optimisation=settings)
    corpus = experiment.load_corpus()
    model = experiment.build(len(corpus))
    for layer in model.encoder.layers:  # larger than at the start, so that the past matters
        for p in layer.parameters():
            p.data.mul_(8)
    at_once = perplexity(model, corpus.valid, corpus.eos, length=1000)
    assert perplexity(model, corpus.valid, corpus.eos, length=16) != pytest.approx(at_once)
    cuts = {perplexity(model, corpus.valid, corpus.eos, length=n, memory=20) for n in (5, 16, 300)}
    assert max(cuts) == pytest.approx(min(cuts), rel=1e-6)  # any memory, any cut: as an LSTM
    assert max(cuts) != pytest.approx(at_once, rel=1e-4)
    figures = final_figures(model, corpus, experiment, progress=False)
    assert figures["valid_perplexity"] == pytest.approx(at_once, rel=1e-5)
    assert model.encoder.memory == 8 and math.isfinite(figures["test_perplexity"])
    ranks = figures["log_prob"]
    assert (ranks["contexts"], ranks["words"]) == (len(corpus.test), len(corpus))
    assert 1 <= ranks["effective_rank"]["0.001"] <= ranks["press_rank"] <= experiment.size + 2
    with evaluating(model, clamp=3) as clamped:
        assert clamped.encoder.clamp == 3 and clamped.encoder.memory == 8
        with evaluating(clamped, memory=20) as longer:
            assert longer.encoder.clamp == 3 and longer.encoder.memory == 20
    adapting = experiment.change(adaptation=part("ContinuousCache", weight=0.0))
    adapted = final_figures(model, corpus, adapting, progress=False)
    assert adapted["test_perplexity"] == pytest.approx(figures["test_perplexity"], rel=1e-4)
    clamped = perplexity(model, corpus.valid, corpus.eos, length=16, memory=400, clamp=2)
    assert clamped != pytest.approx(at_once, rel=1e-3) and model.encoder.clamp is None
    with pytest.raises(CourseError, match="VariationalLSTM has no memory"):
        recurrent = experiment.change(encoder=part("VariationalLSTM", units=12))
        final_figures(recurrent.build(len(corpus)), corpus, recurrent, progress=False)


def test_an_experiment_says_of_how_many_contexts_the_ranks_are_taken(experiment, monkeypatch):
    """The first ones of the test split; without a word about it only of a small vocabulary."""
    corpus = experiment.load_corpus()
    model = experiment.build(len(corpus))
    few = experiment.change(ranked_contexts=70)
    arrays = {}
    found = final_figures(model, corpus, few, progress=False, arrays=arrays)["log_prob"]
    assert (found["contexts"], found["words"]) == (70, len(corpus))
    blocks = list(log_prob_blocks(model, corpus.test[:70], corpus.eos, progress=False))
    values = np.linalg.svd(np.concatenate(blocks).astype(np.float64), compute_uv=False)
    assert found["press_rank"] == press_rank(values, (70, len(corpus)))
    np.testing.assert_allclose(arrays["log_prob_singular_values"], values, rtol=1e-4, atol=1e-3)
    monkeypatch.setattr(sys.modules["course_lab.final_figures"], "RANKED", len(corpus) - 1)
    assert "log_prob" not in final_figures(model, corpus, experiment, progress=False)
    assert final_figures(model, corpus, few, progress=False)["log_prob"] == found


@pytest.mark.parametrize("encoder", ["VariationalLSTM", "TransformerXL"])
def test_the_loss_of_every_test_token_is_kept(experiment, encoder):
    """The losses are those of the table of log P; their mean is the perplexity's logarithm."""
    if encoder == "TransformerXL":
        small = part(encoder, layers=2, heads=2, head_size=6, feedforward=16, memory=20)
        longer = replace(experiment.optimisation, evaluation_memory=64, evaluation_length=32)
        experiment = experiment.change(encoder=small, optimisation=longer)
    corpus = experiment.load_corpus()
    model = experiment.build(len(corpus))
    o = experiment.optimisation
    arrays = {}
    figures = final_figures(model, corpus, experiment, progress=False, arrays=arrays)
    losses = arrays["test_losses"]
    assert losses.dtype == np.float16 and losses.shape == (len(corpus.test),)
    mean = losses.astype(np.float64).mean()
    assert math.exp(mean) == pytest.approx(figures["test_perplexity"], rel=1e-3)
    blocks = log_prob_blocks(
        model,
        corpus.test,
        corpus.eos,
        length=o.evaluation_length,
        memory=o.evaluation_memory,
        progress=False,
    )
    table = np.concatenate(list(blocks))
    expected = -table[np.arange(len(table)), corpus.test]
    np.testing.assert_allclose(losses, expected, rtol=1e-3)


def test_word_similarity_is_that_of_the_vectors_that_predict(experiment):
    experiment = experiment.change(tied=False)
    corpus = experiment.load_corpus()
    model = experiment.build(len(corpus))
    words = [word for word in corpus.words if word.isalpha()][:24]
    pairs = list(zip(words[:12], words[12:], strict=True)) + [("absent", words[0])]
    scores = np.arange(13.0)
    few = Benchmark(pairs[11:], scores[11:])
    found = word_similarity(model, corpus, {"one": Benchmark(pairs, scores), "few": few})
    W = model.output_layer.words.matrix()
    expected, moved = (
        similarity(M, corpus.words, Benchmark(pairs, scores)).rho for M in (W, W - W.mean(0))
    )
    agreed = {"rho": expected, "rho_centred": moved, "found": 12, "missing": 1}
    again = {f"{key}_as_written": value for key, value in agreed.items()}
    assert found["one"] == agreed | again  # the embedded text has no capitals
    assert expected != moved
    assert (found["few"]["rho"], found["few"]["rho_centred"]) == (None, None)
    assert (found["few"]["found"], found["few"]["missing"]) == (1, 1)
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert expected != pytest.approx(
        similarity(model.words.matrix(), corpus.words, Benchmark(pairs, scores)).rho
    )


def test_both_look_ups_are_kept_where_they_find_other_pairs(experiment):
    corpus = experiment.load_corpus()
    model = experiment.build(len(corpus))
    written = [word for word in corpus.words if word.isalpha()][:16]
    capitals = {written[0]: written[0].upper()}
    corpus = replace(corpus, words=[capitals.get(word, word) for word in corpus.words])
    pairs = Benchmark(list(zip(written[:8], written[8:], strict=True)), np.arange(8.0))
    found = word_similarity(model, corpus, {"own": pairs})["own"]
    W = model.output_layer.words.matrix()
    assert (found["found"], found["missing"]) == (8, 0)
    assert (found["found_as_written"], found["missing_as_written"]) == (7, 1)
    assert found["rho"] == similarity(W, corpus.words, pairs).rho
    rest = Benchmark(pairs.pairs[1:], pairs.scores[1:])
    assert found["rho_as_written"] == similarity(W, corpus.words, rest).rho


def test_only_a_fetched_text_is_judged_by_fetched_benchmarks(experiment, tmp_path, monkeypatch):
    monkeypatch.setattr(folders, "corpora", lambda: tmp_path)
    ptb = experiment.change(corpus=part("ptb"))
    assert fetched_benchmarks(ptb) == {}  # not there, and nothing is downloaded for them
    folder = tmp_path / "word-similarity"
    folder.mkdir()
    for _, file, *_ in registry.BENCHMARKS:
        (folder / file).write_text("tiger cat 7.35\n")
    assert fetched_benchmarks(experiment) == {}  # the embedded text
    with pytest.raises(CourseError, match="is not the published file"):
        fetched_benchmarks(ptb)  # before an hour of training is lost to a damaged file


def test_a_run_keeps_its_word_similarity(experiment, tmp_path, monkeypatch):
    words = [word for word in experiment.load_corpus().words if word.isalpha()][:8]
    pairs = Benchmark(list(zip(words[:4], words[4:], strict=True)), np.arange(4.0))
    running = sys.modules["course_lab.run"]  # `course_lab.run` is the function
    monkeypatch.setattr(running, "fetched_benchmarks", lambda experiment: {"own": pairs})
    done = course_lab.run(experiment, folder=tmp_path, progress=False, device="cpu")
    kept = course_lab.read_result(tmp_path)["metrics"]["word_similarity"]
    W = done.model.output_layer.words.matrix()
    assert kept["own"]["found"] == 4
    assert kept["own"]["rho"] == similarity(W, done.corpus.words, pairs).rho


# --- word vectors --------------------------------------------------------------------------------


def test_the_nearest_neighbours_of_a_few_words_are_kept(experiment, monkeypatch):
    corpus = experiment.load_corpus()
    model = experiment.build(len(corpus))
    kept = word_matrix_geometry(model, corpus.counts)["neighbours"]
    W = model.output_layer.words.matrix().detach().double()
    nearest = torch.cdist(W, W).fill_diagonal_(math.inf).min(1).values
    assert kept["mean"] == pytest.approx(nearest.mean().item(), rel=1e-5)
    for q, distance in kept["quantiles"].items():
        assert distance == pytest.approx(nearest.quantile(float(q)).item(), rel=1e-5)
    monkeypatch.setattr("course_lab.final_figures.PAIRED", len(corpus) - 1)
    assert "neighbours" not in word_matrix_geometry(model, corpus.counts)
