"""TF32 imitated on a CPU: what is cut, when, and that no product is left out."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from benchmarks import tf32
from benchmarks.cli import app
from benchmarks.tf32 import CutProducts, cut
from course_lab import results
from course_lab.planned import Planned
from course_lab.run import run
from course_lib.errors import CourseError
from course_lib.evaluation.perplexity import float32_products, perplexity
from tools import site_pages


def test_ten_digits_behind_the_point_are_left():
    """Of 1 + k / 2^10 all are, and of 1 + k / 2^11 the last is not; signs and scales stay."""
    k = torch.arange(1024.0)
    assert torch.equal(cut(-8 * (1 + k / 2**10)), -8 * (1 + k / 2**10))
    assert torch.equal(cut(1 + (2 * k + 1) / 2**11), 1 + k / 2**10)
    x = torch.randn(50, 7).T  # a view, whose rows are not in order
    assert (
        torch.equal(cut(x), cut(x.contiguous())) and ((x - cut(x)).abs() <= x.abs() / 2**10).all()
    )
    assert cut(x.double()).dtype == torch.float64 and torch.equal(cut(x.double()), x.double())


def test_products_and_their_gradients_are_those_of_cut_numbers():
    """A tensor core's sums are in float32; a sum of cut numbers in float64 is nearly the same."""
    x, w, b = torch.randn(6, 64), torch.randn(64, 5), torch.randn(5)
    x.requires_grad_(), w.requires_grad_()
    slope = torch.randn(6, 5)
    with CutProducts(), float32_products("tf32"):
        y = torch.addmm(b, x, w)
        y.backward(slope)
    exact = [cut(t.detach()).double() for t in (x, w, slope)]
    expected = b.double() + exact[0] @ exact[1], exact[2] @ exact[1].T, exact[0].T @ exact[2]
    for found, wanted in zip((y, x.grad, w.grad), expected, strict=True):
        torch.testing.assert_close(found.detach().double(), wanted, rtol=1e-5, atol=1e-5)
    assert not torch.allclose(y, b + x @ w, rtol=1e-5, atol=1e-5)


def test_nothing_is_cut_where_all_bits_are_asked_for():
    x, w = torch.randn(6, 64), torch.randn(64, 5)
    with CutProducts(), float32_products("ieee"):
        inside = x @ w
    assert torch.equal(inside, x @ w)


@pytest.mark.parametrize(
    "product",
    [
        lambda x: torch.nn.functional.conv1d(x[None], x[:, :, None]),
        torch.nn.LSTM(8, 8),
    ],
)
def test_a_product_that_would_go_on_uncut_is_refused(product):
    with CutProducts(), float32_products("tf32"):
        with pytest.raises(CourseError, match="is not known, so TF32 cannot be imitated"):
            product(torch.randn(8, 8))


@pytest.fixture
def plan(tmp_path, monkeypatch):
    """Two seeds of a tiny model in both precisions; runs and tables go to `tmp_path`."""
    small = {"train": 3000, "valid": 300, "test": 300, "words": 200}
    change = {"corpus.small": small, "optimisation.epochs": 1}
    planned = [
        Planned(
            "docstrings/vd-lstm-128/tied",
            "smoke",
            seed,
            change | {"optimisation.precision": precision},
        )
        for precision in ("fp32", "bf16")
        for seed in (1, 2)
    ]
    plan = SimpleNamespace(runs=planned, margin=1.0)
    monkeypatch.setattr(tf32.plans, "read_plan", lambda name: plan)
    monkeypatch.setattr(results, "runs_folder", lambda: tmp_path / "runs")
    monkeypatch.setattr(results, "kept_folder", lambda: tmp_path / "kept")
    return [one.experiment() for one in planned[:2]]


def test_training_is_cut_and_validation_is_not(plan, tmp_path):
    """On a CPU TF32 is fp32 without the imitation, and fp32 is fp32 within it."""

    def trained(precision):
        experiment = plan[0].change(optimisation={"precision": precision})
        folder = tmp_path / f"{precision}-{len(list(tmp_path.iterdir()))}"
        return run(experiment, folder, device="cpu", progress=False)

    plainly = [trained("fp32"), trained("tf32")]
    with CutProducts():
        exact, imitated = trained("fp32"), trained("tf32")
    losses = [r.epochs[-1]["train_perplexity"] for r in (*plainly, exact, imitated)]
    assert losses[0] == losses[1] == losses[2] != losses[3]
    assert losses[3] == pytest.approx(losses[0], rel=1e-3)
    corpus, length = imitated.corpus, plan[0].optimisation.evaluation_length
    again = perplexity(imitated.model, corpus.valid, corpus.eos, length=length)
    assert imitated.metrics["valid_perplexity"] == pytest.approx(again, rel=1e-9)


def test_pairs_are_trained_kept_and_compared(plan, tmp_path):
    """One command does it; before that the page says nothing, and one pair is no comparison."""
    assert site_pages._cost_of_tf32() == []
    run(plan[0], results.run_folder(plan[0]), device="cpu", progress=False)
    done = CliRunner().invoke(app, ["tf32", "--keep"])
    assert done.exit_code != 0 and "trained in both precisions is 1" in str(done.exception)
    run(plan[1], results.run_folder(plan[1]), device="cpu", progress=False)
    done = CliRunner().invoke(app, ["tf32", "--keep"])
    assert done.exit_code == 0, done.output

    (row, other) = results.read_table(tf32.TABLE)["rows"]
    for exact, imitation in tf32.experiments():
        alike = {"name": exact.name, "variant": exact.variant}
        assert imitation.change(optimisation={"precision": "fp32"}, **alike) == exact
    assert (row["seed"], other["seed"]) == (1, 2) and row["fp32"] != row["tf32-imitated"]
    found = tf32.table().models
    difference = [np.log(r["tf32-imitated"] / r["fp32"]) for r in (row, other)]
    assert found.loc["tf32-imitated", "difference"] == pytest.approx(
        100 * np.mean(difference), rel=0.01
    )
    heading, _, table = site_pages._cost_of_tf32()
    assert heading.startswith("## What TF32 costs") and "| `tf32-imitated` | 2 |" in table
    assert "baseline" in table


def test_an_unknown_seed_is_refused(plan):
    done = CliRunner().invoke(app, ["tf32", "--seed", "9"])
    assert done.exit_code != 0 and "seed" in str(done.exception)
