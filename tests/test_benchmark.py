"""The benchmark compares like with like and prints what it measured."""

import pytest
import torch
from typer.testing import CliRunner

from course_lib.cli.benchmark import app
from course_lib.errors import CourseError
from course_lib.experiments import benchmark_layers
from course_lib.experiments.benchmark import (
    VARIANTS,
    Course,
    Plain,
    language_model,
    peak_memory,
    stepper,
)


def test_both_models_have_the_same_parameters():
    sizes = [sum(p.numel() for p in kind(50).parameters()) for kind in (Plain, Course)]
    assert sizes[0] == sizes[1]


def test_both_steps_train():
    """A step changes the weights of either kind, from about the same loss."""
    torch.manual_seed(0)
    text = torch.randint(50, (7, 2))
    losses = [kind(50).eval()(text[:-1], None, text[1:])[0].item() for kind in (Plain, Course)]
    assert losses[0] == pytest.approx(losses[1], rel=0.05)
    for variant in VARIANTS:
        stepper(*variant, 50)()


def test_table(monkeypatch):
    rows = language_model(300, rounds=1, device="cpu")
    assert [r["variant"] for r in rows] == [" ".join(v) for v in VARIANTS]
    assert rows[0]["speed ratio"] == rows[0]["memory ratio"] == 1
    assert all(r["tokens/s"] > 0 for r in rows)
    monkeypatch.setattr("course_lib.experiments.benchmark.language_model", lambda *a: rows)
    printed = CliRunner().invoke(app, ["--words", "300", "--rounds", "1"])
    assert printed.exit_code == 0 and printed.stdout.count("course bf16") == 1


def test_memory_counts_what_a_step_touches():
    small, large = (peak_memory("plain", "fp32", n, "cpu", 1) for n in (200, 60_000))
    assert large > small + 60_000 * 200 * 4 / 2**20  # at least the gradient of the word matrix


@pytest.mark.parametrize("name", benchmark_layers.METHODS)
def test_naive_and_fast_form_of_a_method_are_the_same_loss(name):
    """The same weights, the same loss; what differs between the columns is only how."""
    torch.manual_seed(0)
    method = benchmark_layers.METHODS[name]
    model = benchmark_layers._Alone(method, 450, naive=False).double()
    hidden = torch.randn(6, 5, 400, dtype=torch.float64)
    target = torch.randint(450, (6, 5))
    for _ in range(60):  # the power iterations converge over the calls
        loss = model(hidden, target)
    model.naive = True
    assert loss.item() == pytest.approx(model(hidden, target).item(), rel=1e-5)


def test_table_of_output_layers(monkeypatch):
    monkeypatch.setattr(benchmark_layers, "SHAPES", {400: 40})
    monkeypatch.setattr(benchmark_layers, "SIZES", (400, 20, 400))
    rows = list(benchmark_layers.output_layers(400, ["mos", "gss"], "fp32", 1, device="cpu"))
    assert [r["method"] for r in rows] == ["softmax", "mos", "gss"]
    assert all(r[key] > 0 for r in rows for key in ("ms", "naive ms", "of naive", "step"))
    monkeypatch.setattr(benchmark_layers.results, "total_memory", lambda device: 0)
    (row,) = benchmark_layers.output_layers(400, [], "bf16", 1, whole=False, device="cpu")
    assert row["naive ms"] != row["naive ms"]  # NaN: it would not fit
    printed = CliRunner().invoke(app, ["output-layers", "sofmax"])
    assert isinstance(printed.exception, CourseError) and "did you mean softmax" in str(
        printed.exception
    )
    monkeypatch.setattr(benchmark_layers, "output_layers", lambda *a: rows)
    command = ["output-layers", "mos", "--words", "400", "--precision", "fp32"]
    printed = CliRunner().invoke(app, command)
    assert printed.exit_code == 0 and "mos" in printed.stdout and "of softmax" in printed.stdout
