"""The geometry that every run leaves."""

import json

import numpy as np
import pytest
import torch

import course_lab
from course_lab import part
from course_lib.errors import CourseError
from course_lib.metrics import geometry, subspaces
from course_lib.metrics.registry import METRICS, Figure, Metric, summary
from course_lib.training import Optimisation

pytestmark = pytest.mark.usefixtures("device")


def test_summary_is_the_single_metrics_of_the_right_rows():
    random = np.random.default_rng(0)
    W = torch.from_numpy(random.normal(size=(900, 12)) + 0.3)
    counts = np.repeat([10_000, 2_000, 1], [500, 200, 200])  # only the last are rarer than 1e-4
    found = json.loads(json.dumps(summary(W, counts)))
    assert found["mean_cosine"] == pytest.approx(geometry.mean_cosine(W))
    assert found["mean_cosine_rare"] == pytest.approx(geometry.mean_cosine(W[700:]))
    assert found["mean_cosine_frequent"] == pytest.approx(geometry.mean_cosine(W[:500]))
    assert found["singular_values"] == pytest.approx(np.linalg.svd(W)[1], rel=1e-5)
    assert (found["I1"], found["I2"]) == pytest.approx(geometry.isotropy(W))
    assert found["positive_share"] == pytest.approx(geometry.positive_share(W))
    assert found["drift"] == pytest.approx(geometry.common_drift(W).share)
    assert found["mean_norm"] == pytest.approx(np.linalg.norm(W, axis=1).mean())


def test_isotropy_of_a_large_vocabulary_is_also_that_of_draws_of_40_000_words(monkeypatch):
    W, counts = torch.randn(300, 6), np.ones(300)
    monkeypatch.setattr("course_lib.metrics.registry.SAMPLED", 300)
    assert "sampled_I1" not in summary(W, counts)
    monkeypatch.setattr("course_lib.metrics.registry.SAMPLED", 200)
    found, wanted = summary(W, counts), geometry.sampled_isotropy(W, 200)
    assert (found["sampled_I1"], found["sampled_I2"]) == pytest.approx(wanted)
    assert found["sampled_I1"] != found["I1"] == pytest.approx(geometry.isotropy(W).I1)


def test_every_figure_is_declared_and_lies_in_its_range(monkeypatch):
    monkeypatch.setattr("course_lib.metrics.registry.SAMPLED", 200)
    found = summary(torch.randn(300, 6), np.arange(300))
    declared = {key: value for m in METRICS.values() for key, value in m.figures.items()}
    assert list(found) == list(declared)
    for name, figure in declared.items():
        values = np.atleast_1d(np.array(found[name], dtype=float))
        assert ((figure.low <= values) & (values <= figure.high)).all(), name
        assert figure.meaning.endswith(".")


def test_a_metric_that_is_entered_is_in_every_summary(monkeypatch):
    rows = Metric(lambda W, counts: {"rows": len(W)}, {"rows": Figure("How many.", 1, np.inf)})
    monkeypatch.setitem(METRICS, "rows", rows)
    assert summary(torch.randn(5, 2), np.ones(5))["rows"] == 5


def test_without_counts_every_metric_has_the_figures_that_need_none():
    W, counts = torch.randn(300, 6), np.arange(300)
    for name, metric in METRICS.items():
        known, unknown = metric.compute(W, counts), metric.compute(W, None)
        assert known.keys() == unknown.keys(), name
        assert unknown == {key: unknown[key] and known[key] for key in known}, name
    assert [name for name, value in summary(W, None).items() if value is None] == [
        "mean_cosine_rare",
        "mean_cosine_frequent",
    ]


def test_a_matrix_has_as_many_counts_as_words():
    with pytest.raises(CourseError, match="for each of the 3 words"):
        summary(torch.randn(3, 2), np.ones(2))


def test_a_group_of_one_word_has_no_cosine():
    counts = np.array([100, 50, 30, 0])
    assert summary(torch.randn(4, 3), counts)["mean_cosine_rare"] is None


def test_a_run_leaves_the_geometry_of_the_matrix_that_predicts(tmp_path):
    experiment = course_lab.Experiment(
        name="test/geometry",
        corpus=part("docstrings", small={"train": 3_000, "valid": 300, "test": 400, "words": 80}),
        size=8,
        tied=False,
        encoder=part("VariationalLSTM", units=8),
        optimisation=Optimisation(epochs=1),
    )
    run = course_lab.run(experiment, folder=tmp_path, progress=False)
    metrics = json.loads((tmp_path / "result.json").read_text())["metrics"]
    kept = metrics["geometry"]
    predicts = run.model.output_layer.words.matrix().detach().cpu()
    assert kept == summary(predicts, run.corpus.counts)
    assert kept["mean_norm"] != pytest.approx(
        float(run.model.words.matrix().detach().norm(dim=1).mean())
    )
    reads = run.model.words.matrix().detach().cpu()
    assert metrics["input_geometry"] == summary(reads, run.corpus.counts)
    distance = subspaces.subspace_distance(predicts, reads)
    assert metrics["subspace_distance"] == pytest.approx(distance)
