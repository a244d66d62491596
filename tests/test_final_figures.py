"""What a run is judged by: longer memories, the cache and dynamic evaluation, as data."""

import math

import pytest

from course_lib import experiments
from course_lib.errors import CourseError
from course_lib.evaluation import cache, dynamic
from course_lib.evaluation.adaptation import ContinuousCache, DynamicEvaluation
from course_lib.evaluation.perplexity import evaluating, perplexity
from course_lib.experiments import part
from course_lib.experiments.run import final_figures
from course_lib.training import Optimisation

ADAPTATIONS = {
    "ContinuousCache": {"window": [20, 50], "theta": 0.3, "weight": [0.05, 0.2]},
    "DynamicEvaluation": {"rate": [1e-3, 1e-4], "decay": 1e-3, "batch": 4, "search_tokens": 100},
}


@pytest.fixture
def experiment():
    small = {"train": 2000, "valid": 300, "test": 250, "words": 60}
    return experiments.Experiment(
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
    experiment = experiments.Experiment.from_dict(experiment.to_dict())
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
        assert settings == {"rate": best, "decay": 1e-3, "epsilon": 1e-3}
        assert found["valid_perplexity"] == pytest.approx(value(corpus.valid, best))
        assert found["test_perplexity"] == pytest.approx(value(corpus.test, best))


SPLITS = ("valid", "test")


def test_one_setting_needs_no_search(experiment):
    corpus = experiment.load_corpus()
    model = experiment.build(len(corpus))
    plain = perplexity(model, corpus.valid, corpus.eos)
    still = DynamicEvaluation(rate=1e-12, decay=0.0, batch=4)(model, corpus, progress=False)
    assert still["valid_perplexity"] == pytest.approx(plain, rel=1e-5)
    off = ContinuousCache(weight=0.0)(model, corpus)
    assert off["valid_perplexity"] == pytest.approx(plain, rel=1e-5)


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
    figures = final_figures(model, corpus, experiment, progress=False)
    assert figures["valid_perplexity"] == pytest.approx(at_once, rel=1e-5)
    assert model.encoder.memory == 8 and math.isfinite(figures["test_perplexity"])
    ranks = figures["log_prob"]
    assert (ranks["contexts"], ranks["words"]) == (len(corpus.test), len(corpus))
    assert 1 <= ranks["effective_rank"]["0.001"] <= ranks["press_rank"] <= experiment.size + 2
    with evaluating(model, clamp=3) as clamped:
        assert clamped.encoder.clamp == 3 and clamped.encoder.memory == 8
    clamped = perplexity(model, corpus.valid, corpus.eos, length=16, memory=400, clamp=2)
    assert clamped != pytest.approx(at_once, rel=1e-3) and model.encoder.clamp is None
    with pytest.raises(CourseError, match="VariationalLSTM has no memory"):
        recurrent = experiment.change(encoder=part("VariationalLSTM", units=12))
        final_figures(recurrent.build(len(corpus)), corpus, recurrent, progress=False)
