"""The benchmark compares like with like and prints what it measured."""

import functools
import itertools
import json
import math
import re
import shutil
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from filelock import FileLock
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from typer.testing import CliRunner

from benchmarks import bars, floor, models, output_layers, reference_training, timing
from benchmarks.cli import app
from benchmarks.launches import launches, where
from benchmarks.output_layers import METHODS
from benchmarks.reference_models import (
    PlainEncoded,
    PlainLSTM,
    PlainTranslator,
    plain_cache,
    plain_dynamic,
    plain_variational_lstm,
)
from benchmarks.timing import (
    VARIANTS,
    Course,
    Plain,
    Seconds,
    alternating,
    in_a_process,
    language_model,
    peak_memory,
    stepper,
)
from benchmarks.work import stepping
from course_lab import kept_costs, part, results
from course_lab.locks import TRAINING
from course_lib import machine
from course_lib.data import folders
from course_lib.errors import CourseError
from course_lib.evaluation import cache, dynamic
from course_lib.models import AWDLSTM, QRNN, RHN, VariationalLSTM, lstm_recurrence
from course_lib.output_layers import FullWords, Softmax
from course_lib.targets import IGNORE
from course_lib.training.checkpoint import load_checkpoint, restore, save_checkpoint
from tools import site_pages


def here(function, *arguments):
    """In the place of `in_a_process`, which takes seconds: the figure is then another."""
    return function(*arguments) or 1.0


def test_a_fresh_process_has_a_peak_of_its_own():
    """Not the 400 MB that this one has just held."""
    held = torch.ones(100 << 20)
    arguments = SMALL["awd-lstm/ptb"], "course", "fp32", "cpu", 1
    assert 50 < models.peak_memory(*arguments) < machine.peak_memory(held.device)


def test_both_models_have_the_same_parameters():
    sizes = [sum(p.numel() for p in kind(50).parameters()) for kind in (Plain, Course)]
    assert sizes[0] == sizes[1]


@pytest.fixture
def updates(monkeypatch):
    """For each update by SGD so far, whether it moved all weights."""
    moved, step = [], torch.optim.SGD.step

    def watched(optimizer, *arguments):
        weights = [w for group in optimizer.param_groups for w in group["params"]]
        before = [w.detach().clone() for w in weights]
        step(optimizer, *arguments)
        moved.append(not any(map(torch.equal, weights, before)))

    monkeypatch.setattr(torch.optim.SGD, "step", watched)
    return moved


def test_both_steps_train(updates):
    """A step changes the weights of either kind, from about the same loss."""
    torch.manual_seed(0)
    text = torch.randint(50, (7, 2))
    losses = [kind(50).eval()(text[:-1], None, text[1:])[0].item() for kind in (Plain, Course)]
    assert losses[0] == pytest.approx(losses[1], rel=0.05)
    for variant in VARIANTS:
        stepper(*variant, 50)()
    assert updates == [True] * len(VARIANTS)


def test_table(monkeypatch):
    monkeypatch.setattr("benchmarks.timing.in_a_process", here)
    rows = language_model(300, rounds=1, device="cpu")
    assert [r["variant"] for r in rows] == [" ".join(v) for v in VARIANTS]
    assert rows[0]["speed ratio"] == rows[0]["memory ratio"] == 1
    assert all(r["tokens/s"] > 0 for r in rows)
    monkeypatch.setattr("benchmarks.timing.language_model", lambda *a: rows)
    printed = CliRunner().invoke(app, ["--words", "300", "--rounds", "1"])
    assert printed.exit_code == 0 and printed.stdout.count("course bf16") == 1


def test_a_time_beside_other_work_does_not_count(monkeypatch):
    """By clocks of our own: two processors, 10 seconds, of which this process takes 10."""
    clocks = {"user": 50.0, "system": 5.0, "idle": 900.0, "iowait": 3.0, "steal": 1.0}
    own = 20.0

    def times():
        return SimpleNamespace(_asdict=lambda: dict(clocks))

    monkeypatch.setattr(timing.psutil, "cpu_times", times)
    monkeypatch.setattr(timing.psutil, "cpu_count", lambda: 2)
    monkeypatch.setattr(timing.os, "times", lambda: (own - 5.0, 2.0, 2.0, 1.0, 7.0))
    monkeypatch.setattr(timing.time, "perf_counter", lambda: own)
    watch = timing.Watch()
    own += 10.0
    clocks["user"] += 9.0
    clocks["system"] += 2.0
    clocks["idle"] += 8.0
    clocks["iowait"] += 1.0
    assert watch.others() == pytest.approx(0.05)
    quiet = timing.conditions("cpu", Seconds({"a": [1.0]}, watch.others()))
    assert quiet["counts"] and timing.remark(quiet) == ""
    clocks["steal"] += 6.0
    assert watch.others() == pytest.approx(0.35)
    parts = Seconds({"a": [1.0]}, 0.0), Seconds({"a": [1.0]}, watch.others())
    busy = timing.conditions("cpu", *parts)
    assert not busy["counts"] and "others took 35%: does not count" in timing.remark(busy)


@pytest.mark.parametrize("amx", [False, True])
def test_a_row_names_the_machine_and_what_it_multiplies_bf16_with(monkeypatch, amx):
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: amx, raising=False)
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: True, raising=False)
    kind = timing.conditions("cpu", Seconds({"a": [1.0]}))["machine"]
    assert kind == f"{machine.processor()}, {'AMX' if amx else 'no AMX'}, AVX-512 bf16"


def test_nothing_is_kept_of_a_busy_machine(monkeypatch, tmp_path):
    row = {"method": "gss", "ms": 3.0, "of softmax": 1.0, "machine": "", "others": 0.4}
    monkeypatch.setattr(models, "measured", lambda *a: iter([row | {"counts": False}]))
    monkeypatch.setattr(folders, "home", lambda: tmp_path)
    printed = CliRunner().invoke(app, ["models", "--keep", "--precision", "fp32"])
    assert "up to 40% of the machine" in str(printed.exception) and not list(tmp_path.iterdir())
    assert "others took 40%: does not count" in printed.stdout


def test_a_disturbed_measurement_is_made_again():
    rows = iter([{"counts": False, "n": 1}, {"counts": True, "n": 2}, {"counts": True, "n": 3}])
    assert timing.undisturbed(lambda: next(rows))["n"] == 2
    rows = iter([{"counts": False, "n": n} for n in range(9)])
    assert timing.undisturbed(lambda: next(rows), tries=3)["n"] == 2


@pytest.mark.parametrize("what", ["models", "their layers", "output layers"])
def test_each_table_measures_a_disturbed_row_again(monkeypatch, what):
    module = output_layers if what == "output layers" else models
    others = iter([1.0, 0.0])

    def in_turn(steps, rounds):
        for step in steps.values():
            step()
        return Seconds(dict.fromkeys(steps, [1.0]), next(others))

    monkeypatch.setattr(module, "alternating", in_turn)
    monkeypatch.setattr(module, "limits", functools.partial(floor.limits, size=64, megabytes=1))
    monkeypatch.setattr(module, "in_a_process", here)
    monkeypatch.setattr(models, "MODELS", SMALL)
    monkeypatch.setattr(output_layers, "SHAPES", {400: 40})
    if what == "models":
        rows = models.models(["awd-lstm/ptb"], "fp32", 1, device="cpu")
    elif what == "their layers":
        rows = models.output_layers(["softmax"], "fp32", 1, device="cpu")
    else:
        rows = output_layers.output_layers(400, [], "fp32", 1, whole=False, device="cpu")
    (row,) = rows
    assert row["counts"] and next(others, None) is None


def test_a_long_round_warms_up_once(monkeypatch):
    """Three steps in all for two rounds, where a short one takes four."""
    calls = []
    alternating({"a": lambda: calls.append(1)}, 2)
    assert len(calls) == 4
    monkeypatch.setattr(timing, "LONG", -1.0)
    alternating({"a": lambda: calls.append(1)}, 2)
    assert len(calls) == 4 + 3


def test_options_before_a_subcommand_are_not_lost():
    done = CliRunner().invoke(app, ["--threads", "1", "output-layers"])
    assert "--threads comes after output-layers" in str(done.exception)


def test_memory_counts_what_a_step_touches():
    # each in a process of its own: this one may have held more before, and its peak would not rise
    small, large = (in_a_process(peak_memory, "plain", "fp32", n, "cpu", 1) for n in (200, 60_000))
    assert large > small + 60_000 * 200 * 4 / 2**20  # at least the gradient of the word matrix


@pytest.mark.parametrize("name", output_layers.METHODS)
def test_naive_and_fast_form_of_a_method_are_the_same_loss(name):
    """The same weights, the same loss and gradients; the columns differ only in how."""
    torch.manual_seed(0)
    method = output_layers.METHODS[name]
    model = output_layers._Alone(method, 450, naive=False).double()
    shape = (4, output_layers.BATCH)
    hidden = torch.randn(*shape, 400, dtype=torch.float64, requires_grad=True)
    target = torch.randint(450, shape)
    for _ in range(60):  # the power iterations converge over the calls
        loss = model(hidden, target)
    model.naive = True
    naive = model(hidden, target)
    assert loss.item() == pytest.approx(naive.item(), rel=1e-5)
    among = [hidden, *model.parameters()]
    ours, expected = (torch.autograd.grad(x, among, allow_unused=True) for x in (loss, naive))
    for mine, theirs in zip(ours, expected, strict=True):
        assert (mine is None) == (theirs is None)
        if mine is not None:
            torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-6 * theirs.abs().max())


def test_table_of_output_layers(monkeypatch, tmp_path):
    monkeypatch.setattr(output_layers, "in_a_process", here)
    monkeypatch.setattr(output_layers, "SHAPES", {400: 40})
    monkeypatch.setattr(output_layers, "SIZES", (400, 20, 400))
    floors = []

    def limits(precision, device):
        """A machine of 10⁹ operations a second in the first round, of half as many in the next."""
        rates = floor.Limits(1e9 / (1 + len(floors)), 1e9, 1e9)
        floors.append(rates.seconds(output_layers.softmax_work(400, 40)))
        return rates

    monkeypatch.setattr(output_layers, "limits", limits)
    rows = list(output_layers.output_layers(400, ["mos", "gss"], "fp32", 1, device="cpu"))
    assert [r["method"] for r in rows] == ["softmax", "mos", "gss"]
    assert ["of floor" in r for r in rows] == [True, False, False]
    # rounds to warm up come before the one that counts
    assert rows[0]["floor ms"] == 1e3 * floors[-1]
    share = rows[0]["floor ms"] / rows[0]["ms"]
    assert rows[0]["of floor"] == pytest.approx(share) and rows[0]["where"]
    assert all(r[key] > 0 for r in rows for key in ("ms", "naive ms", "of naive", "step"))
    monkeypatch.setattr(output_layers.machine, "total_memory", lambda device: 0)
    (row,) = output_layers.output_layers(400, [], "bf16", 1, whole=False, device="cpu")
    assert row["naive ms"] != row["naive ms"]  # NaN: it would not fit
    printed = CliRunner().invoke(app, ["output-layers", "sofmax"])
    assert isinstance(printed.exception, CourseError) and "did you mean softmax" in str(
        printed.exception
    )
    monkeypatch.setattr(output_layers, "output_layers", lambda *a: rows)
    command = ["output-layers", "mos", "--words", "400", "--precision", "fp32"]
    printed = CliRunner().invoke(app, command)
    assert printed.exit_code == 0 and "mos" in printed.stdout and "of softmax" in printed.stdout
    # In what is kept a missing number is none, and not "not a number".
    monkeypatch.setattr(folders, "home", lambda: tmp_path)
    command.remove("mos")

    def stopped(*a):
        yield row | {"counts": True, "ms": 7.0}
        yield row | {"counts": True, "ms": 8.0, "method": "mos"}
        yield row | {"counts": False, "method": "gss"}
        raise KeyboardInterrupt

    # A row is kept as soon as it is measured, unless other work disturbed it.
    monkeypatch.setattr(output_layers, "output_layers", stopped)
    assert CliRunner().invoke(app, [*command, "--keep"]).exit_code != 0
    (kept,) = results.tables("benchmarks/layers").values()
    assert [(r["method"], r["ms"]) for r in kept["rows"]] == [("softmax", 7.0), ("mos", 8.0)]
    busy = [row | {"counts": False}, row | {"counts": True, "method": "mos"}]
    monkeypatch.setattr(output_layers, "output_layers", lambda *a: busy)
    printed = CliRunner().invoke(app, [*command, "--keep"])
    assert "meanwhile: softmax (400 words, fp32); measure" in str(printed.exception)
    # A whole table takes the place of all that was kept.
    monkeypatch.setattr(output_layers, "output_layers", lambda *a: [row | {"counts": True}])
    assert CliRunner().invoke(app, [*command, "--keep"]).exit_code == 0
    ((name, kept),) = results.tables("benchmarks/layers").items()
    assert name.endswith("/400-fp32") and kept["rows"][0]["naive ms"] is None
    (told,) = kept_costs.layers().itertuples()
    assert (told.words, told.precision, told.method) == (400, "fp32", "softmax")
    assert told.ms == row["ms"] and math.isnan(told.step)
    site_pages.write_speed(tmp_path)
    page = (tmp_path / "speed.md").read_text("utf-8")
    assert f"\n| `softmax` | {row['ms']:,.0f} |  |" in page
    judged = f"| `softmax` alone, share of the floor, 400 words | fp32 | {row['of floor']:.3f} | "
    judged += "≥\N{NO-BREAK SPACE}0.85 | "
    judged += "met |" if row["of floor"] >= 0.85 else "**missed** |"
    assert judged in page and "of 1.\n" in page  # of the naive form nothing is known
    told = (
        f"`softmax` reaches {row['of floor']:.2f} of its floor, which is {row['floor ms']:,.0f} ms"
    )
    assert f"{told}. Its time goes to `{next(iter(row['where']))}` " in page
    # Named methods take their places in the table that is kept, whose other rows stay as they are.
    both = [
        row | {"method": method, "ms": ms, "counts": True}
        for method, ms in (("softmax", 1.0), ("gss", 2.0))
    ]
    monkeypatch.setattr(output_layers, "output_layers", lambda *a: both)
    command.insert(1, "gss")
    assert CliRunner().invoke(app, [*command, "--keep", "--rounds", "7"]).exit_code == 0
    again = results.read_table(name)
    softmax, gss = again["rows"]
    assert softmax == kept["rows"][0] and again["rounds"] == kept["rounds"] == 5
    assert (gss["method"], gss["ms"], gss["rounds"]) == ("gss", 2.0, 7)
    assert gss["provenance"]["packages"]["torch"] == torch.__version__
    site_pages.write_speed(tmp_path)
    page = (tmp_path / "speed.md").read_text("utf-8")
    assert "Added later, `gss`. Measured with" in page and "7 rounds" in page
    # What another PyTorch has measured stays, behind all that this one knows.
    monkeypatch.setattr(output_layers, "METHODS", {"gss": METHODS["gss"]})
    assert CliRunner().invoke(app, [*command, "--keep"]).exit_code == 0
    assert [row["method"] for row in results.read_table(name)["rows"]] == ["gss", "softmax"]


CASES = models.MODELS
SMALL = {
    "awd-lstm/ptb": replace(
        CASES["awd-lstm/ptb"], vocabulary=30, sizes=(6, 9, 6), batch=4, length=7
    ),
    "mos/ptb": replace(
        CASES["mos/ptb"], vocabulary=30, sizes=(6, 9, 8), batch=4, length=7, components=3, parts=2
    ),
    "transformer-xl/ptb": replace(
        CASES["transformer-xl/ptb"],
        vocabulary=30, size=8, layers=2, heads=2, head_size=5, feedforward=11, batch=3, length=7,
        memory=7,
    ),
}  # fmt: skip
SMALL["transformer-base/wmt14"] = replace(
    CASES["transformer-base/wmt14"],
    vocabulary=30, size=8, layers=2, heads=2, feedforward=11, batch=3, length=7,
)  # fmt: skip
SMALL["transformer-128/ptb"] = replace(SMALL["transformer-xl/ptb"], memory=0)
SMALL |= {
    name: replace(CASES[name], vocabulary=30, size=6, encoder=encoder, batch=4, length=7)
    for name, encoder in {
        "vd-lstm-200/ptb": functools.partial(VariationalLSTM, 6, 6, dropout=0.3),
        "vd-rhn/ptb": functools.partial(RHN, 6, units=6, depth=3),
        "awd-qrnn/ptb": functools.partial(QRNN, 6, units=(9, 6)),
    }.items()
}
SMALL["dynamic/ptb"] = replace(CASES["dynamic/ptb"], model=SMALL["mos/ptb"], segments=2)
SMALL["cache/ptb"] = replace(
    CASES["cache/ptb"], vocabulary=30, size=6, window=5, tokens={"course": 40, "plain": 10}
)


def same_weights(case):
    """The plain and the course's model of a case, in float64 and evaluation mode."""
    torch.manual_seed(0)
    plain, ours = (case.build(kind, "cpu").double().eval() for kind in ("plain", "course"))
    pairs = []
    if isinstance(plain, PlainEncoded):
        pairs += [(plain.embedding.weight, ours.words.weight)]
        pairs += zip(plain.encoder.parameters(), ours.encoder.parameters(), strict=True)
    elif isinstance(plain, PlainLSTM):
        reference_training.copy_weights(ours, plain)
        if case.components:
            for name in ("prior", "latent"):
                both = getattr(plain, name), getattr(ours.output_layer, name)
                pairs += zip(*(module.parameters() for module in both), strict=True)
    elif isinstance(plain, PlainTranslator):
        pairs += [(plain.embedding.weight, ours.words.weight)]
        for stack in ("encoder", "decoder"):
            layers = getattr(ours.encoder, f"{stack}_layers")
            for theirs, layer in zip(getattr(plain, stack), layers, strict=True):
                attentions = [layer.attention]
                attentions += [layer.source_attention] if stack == "decoder" else []
                for one, other in zip(theirs["attentions"], attentions, strict=True):
                    qkv = torch.cat([other.query.weight, other.key_value.weight])
                    pairs += [(one.in_proj_weight, qkv)]
                    pairs += [(one.out_proj.weight, other.output.weight)]
                norms = zip(theirs["norms"], layer.residuals, strict=True)
                both = [(norm, residual.norm) for norm, residual in norms]
                for modules in [*both, (theirs["feedforward"], layer.feedforward)]:
                    pairs += zip(*(module.parameters() for module in modules), strict=True)
    else:
        encoder = ours.encoder
        pairs += [(plain.embedding.weight, ours.words.weight)]
        pairs += [(plain.u, encoder.content_bias), (plain.v, encoder.position_bias)]
        for theirs, layer in zip(plain.layers, encoder.layers, strict=True):
            qkv = torch.cat([layer.attention.query.weight, layer.attention.key_value.weight])
            pairs.append((theirs["qkv"].weight, qkv))
            both = (
                (theirs["position"], layer.attention.position),
                (theirs["output"], layer.attention.output),
                (theirs["norm"], layer.attention_norm),
                (theirs["feedforward"], layer.feedforward),
                (theirs["feedforward_norm"], layer.feedforward_norm),
            )
            for modules in both:
                pairs += zip(*(module.parameters() for module in modules), strict=True)
    with torch.no_grad():
        for to, weight in pairs:
            to.copy_(weight)
    return plain, ours


TRAINED = [name for name, case in SMALL.items() if hasattr(case, "build")]
TRANSLATION = "transformer-base/wmt14"


def test_plain_and_course_translators_are_the_same_function():
    plain, ours = same_weights(SMALL[TRANSLATION])
    assert sum(p.numel() for p in plain.parameters()) == sum(p.numel() for p in ours.parameters())
    source, tokens, target = torch.randint(1, 30, (3, 7, 3))
    expected = plain(source, tokens, target).item()
    assert ours(source, tokens, target).loss.item() == pytest.approx(expected, rel=1e-6)
    assert plain(source.flip(0), tokens, target).item() != pytest.approx(expected, rel=1e-4)
    # what comes later is not seen
    target[1:] = IGNORE
    changed = torch.cat([tokens[:1], 31 - tokens[1:].clamp(2)])
    assert plain(source, changed, target).item() == pytest.approx(
        plain(source, tokens, target).item(), rel=1e-12
    )


@pytest.mark.parametrize("kind", ["course", "plain"])
def test_a_step_adds_gradients_clips_them_and_updates(kind):
    model = torch.nn.Linear(1, 1, bias=False)

    def losses():
        yield from (30 * model.weight.sum(), 10 * model.weight.sum())

    for clip, gradient in ((2.0, 2.0), (50.0, 40.0)):
        torch.nn.init.constant_(model.weight, 0.25)
        stepping(model, losses, 0.5, kind, "fp32", "cpu", clip)()
        assert model.weight.item() == pytest.approx(0.25 - 0.5 * gradient, rel=1e-4)
        assert model.weight.grad is None


def test_launches_are_operators_and_not_views():
    x = torch.ones(3, 3, requires_grad=True)
    assert launches(lambda: x.detach().T.add(1).mul(2)) == 2
    assert launches(lambda: x.view(9)[:4].expand(2, 4)) == 0
    assert launches(lambda: torch.empty_like(torch.empty(3)).fill_(1)) == 1
    W = torch.ones(4, 3)
    assert launches(lambda: torch.nn.functional.linear(torch.ones_like(x)[None], W)) == 2
    step = SMALL["vd-lstm-200/ptb"].stepper("course", "fp32", "cpu")
    step()
    assert launches(step) == launches(step) > 20


def test_what_is_computed_in_full_float32_has_a_row_in_fp32_only(monkeypatch):
    monkeypatch.setattr(models, "models", lambda names, *a: iter(names))
    names = ["mos/ptb", "cache/ptb", "dynamic/ptb"]
    assert list(models.measured(names, "fp32", 1, layers=False)) == names
    for precision in ("tf32", "bf16"):
        assert list(models.measured(names, precision, 1, layers=False)) == ["mos/ptb"]
        with pytest.raises(CourseError, match=f"full float32 and has no row in {precision}"):
            list(models.measured(["dynamic/ptb"], precision, 1, layers=False))


def test_of_unlike_steps_memory_and_launches_are_for_as_many_tokens(monkeypatch):
    """The plain cache is timed on fewer tokens than ours, because it is a hundred times as slow."""
    asked = []

    def memory(case, kind, *_):
        asked.append(case.tokens)
        return 1.0

    monkeypatch.setattr(models, "MODELS", {"cache/ptb": SMALL["cache/ptb"]})
    monkeypatch.setattr(models, "peak_memory", memory)
    # the floor of the timed round alone, not of the two that warm up
    floors = itertools.cycle([9.0, 9.0, 0.5])
    limits = SimpleNamespace(seconds=lambda work: next(floors))
    monkeypatch.setattr(models, "launches", lambda step, device: 7)
    monkeypatch.setattr(models, "limits", lambda *_: limits)
    (row,) = models.models(["cache/ptb"], "fp32", 1, "cpu")
    assert row["floor"] == 2
    assert {(*tokens.values(),) for tokens in asked} == {(40, 40)}
    assert (row["launches"], row["plain launches"]) == (7, 28)


def test_a_segment_of_one_row_is_trained_on_as_the_course_does():
    case = SMALL["awd-lstm/ptb"]
    plain = case.build("plain", "cpu")
    loss, _ = plain(torch.tensor([[1]]), None, torch.tensor([[2]]))
    assert torch.isfinite(loss)
    text = torch.arange(12).view(12, 1) % case.vocabulary
    o = reference_training.experiments()["course"].optimisation
    optimizer = torch.optim.SGD(plain.parameters(), 0.1)
    read = [n for _, n in reference_training._steps(plain, optimizer, text, o, 1, 1)]
    assert sum(read) == 11


def test_both_trainings_predict_the_first_word_of_the_validation():
    corpus = SimpleNamespace(valid=torch.arange(1, 8), eos=0)
    columns = reference_training._validation(corpus, SimpleNamespace(evaluation_batch=2))
    assert columns.tolist() == [[0, 4], [1, 5], [2, 6], [3, 7]]


def test_two_trainings_that_are_compared_average_no_weights():
    for epochs, after in ((3, 5), (6, 5), (7, None)):
        made = reference_training.experiments(epochs)
        assert {e.optimisation.average_after for e in made.values()} == {after}


def test_tf32_is_refused_where_no_gpu_is_seen(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    refused = CliRunner().invoke(app, ["models", "--precision", "tf32"])
    assert isinstance(refused.exception, CourseError) and "PyTorch sees none" in str(
        refused.exception
    )


@pytest.mark.parametrize("name", [name for name in TRAINED if name != TRANSLATION])
def test_plain_and_course_models_are_the_same_function(name):
    """Two segments, the state carried: the same losses from the same weights, and as many."""
    case = SMALL[name]
    plain, ours = same_weights(case)
    assert sum(p.numel() for p in plain.parameters()) == sum(p.numel() for p in ours.parameters())
    text, states = torch.randint(case.vocabulary, (15, case.batch)), [None, None]
    for start in (0, 7):
        tokens, target = text[start : start + 7], text[start + 1 : start + 8]
        expected, states[0] = plain(tokens, states[0], target)
        step = ours(tokens, states[1], target)
        states[1] = step.state
        assert step.loss.item() == pytest.approx(expected.item(), rel=1e-6)  # log(p + 1e-8)


def test_plain_dynamic_evaluation_is_the_course_s():
    plain, ours = same_weights(SMALL["mos/ptb"])
    text = torch.randint(30, (23,))
    # made of the weights, since the two keep their parameters in another order
    ordered = [(0.01 + p.detach().abs()).square() for p in plain.parameters()]
    squares = {n: (0.01 + p.detach().abs()).square() for n, p in ours.named_parameters()}
    options = {"rate": 0.03, "decay": 0.5, "epsilon": 1e-3}
    row = torch.cat([torch.tensor([4]), text])[:, None]
    expected = [loss.item() for loss in plain_dynamic(plain, row, ordered, **options)]
    found = [loss.item() for loss, _ in dynamic.losses(ours, text, 4, squares, **options)]
    assert found == pytest.approx(expected, rel=1e-6) and len(found) == 5
    assert max(found[1:]) != pytest.approx(found[0], rel=1e-6)


def test_plain_cache_is_the_course_s():
    torch.manual_seed(0)
    layer = Softmax(FullWords(9, 6, init=1.0)).eval()
    hidden, target = torch.randn(40, 6), torch.randint(9, (40,))
    seen = torch.nn.functional.one_hot(target[:5], 9).float()
    total = plain_cache(hidden, layer.words.weight, layer.bias, target, seen, 0.7, 0.2, length=4)
    nll, _ = layer(hidden, target, reduction="none")
    found = cache.Predictions(-nll.detach(), hidden, target)
    cached = cache.cache_probability(found, 5, 0.7)
    mixed = 0.2 * cached + 0.8 * found.log_prob.exp()
    assert total == pytest.approx(-mixed[5:].log().sum().item(), rel=1e-5)


class Products(TorchDispatchMode):
    """Counts the operations of matrix products: two for each multiplication."""

    total = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        made = function(*args, **kwargs or {})
        name = function.overloadpacket.__name__
        if name in ("mm", "bmm", "addmm", "addmm_", "baddbmm"):
            left = args[0] if name in ("mm", "bmm") else args[1]
            self.total += 2 * made.numel() * left.shape[-1]
        return made


@pytest.mark.parametrize(
    ("name", "least"),
    [(name, 0.85 if "transformer" in name else 0.97) for name in TRAINED],
)
def test_the_floor_counts_no_more_operations_than_a_step_makes(name, least, monkeypatch):
    """All but those of biases and, in attention, of the pairs that are masked."""
    # torch's own LSTM is one operation, in which no products can be counted
    monkeypatch.setattr(lstm_recurrence, "quickest", lambda question, ways: "loop")
    case = SMALL[name]
    step = case.stepper("course", "fp32", "cpu")
    step()  # fills the memory
    with sdpa_kernel(SDPBackend.MATH), Products() as products:  # its products can be counted
        step()
    counted = case.work("fp32").operations * case.tokens["course"]
    assert least * products.total < counted <= products.total


def test_floors_add_operations_and_bytes():
    work = models.Work(operations=30, cached=5, memory=7)
    machine = floor.Limits(operations=10, cached=4, memory=2)
    assert machine.seconds(work) == pytest.approx(3 + 5 + 14)
    measured = floor.limits("fp32", "cpu", size=64, megabytes=1)
    assert min(measured.operations, measured.cached, measured.memory) > 0
    parameters = 4 * 9 * (6 + 9) + 4 * 6 * (9 + 6) + 30 * 6  # matrices of the small AWD-LSTM
    work = SMALL["awd-lstm/ptb"].work("fp32")
    assert work.operations == 6 * parameters - 2 * 4 * (81 + 36) / 7
    assert work.memory * 28 == 7 * parameters and work.cached * 28 == 2 * 6 * 4 * (81 + 36)
    assert SMALL["awd-lstm/ptb"].work("bf16").cached == work.cached / 2
    text = timing.zipf_text(1000, 5000)
    assert (text < 10).sum() > (text >= 500).sum() > 0


def test_the_operator_that_takes_the_time_is_named_first():
    """Models as small as those of the table spend theirs anywhere, from one run to the next."""
    x = torch.randn(2000, 2000)  # of 600 rows a disturbed sigmoid once took more than the product
    shares = where(lambda: (x @ x).sigmoid_(), "cpu")
    assert next(iter(shares)) in ("aten::mm", "aten::addmm") and "aten::sigmoid_" in shares
    assert max(shares.values()) > 0.5


def test_table_of_models(monkeypatch, tmp_path):
    monkeypatch.setattr(models, "MODELS", SMALL)
    monkeypatch.setattr(models, "in_a_process", here)
    monkeypatch.setattr(timing, "BUSY", math.inf)  # the tests may run beside each other
    monkeypatch.setattr(models, "_with_layer", lambda *a: lambda: sum(range(1000)))
    monkeypatch.setattr(models, "limits", functools.partial(floor.limits, size=256, megabytes=4))
    rows = list(models.models(list(SMALL), "bf16", 1, device="cpu"))
    assert [row["model"] for row in rows] == list(SMALL)
    for row in rows:
        shares = list(row["where"].values())
        assert shares == sorted(shares, reverse=True) and 0 < min(shares) and sum(shares) <= 1
        assert row["over plain"] == pytest.approx([row["tokens/s"] / row["plain"]])
    figures = ("tokens/s", "plain", "floor", "MB", "plain MB", "launches", "plain launches")
    assert all(row[key] > 0 for row in rows for key in figures)
    layers = list(models.output_layers(["softmax", "gss"], "fp32", 1, "cpu"))
    assert layers[0]["of softmax"] == 1 and layers[1]["ms"] > 0
    rows[0] |= {"tokens/s": 1730.0, "MB": 1105.0}
    monkeypatch.setattr(models, "models", lambda *a: iter(rows))
    command = ["models", "--precision", "fp32", "--threads", "1"]
    printed = CliRunner().invoke(app, command)
    assert printed.exit_code == 0, printed.exception
    lines = printed.stdout.splitlines()
    (line,) = (
        line for line in lines if "salesforce/awd-lstm-lm" in line and "awd-lstm/ptb " in line
    )
    assert line.split()[1:3] == ["865-1,080", "1.6-2"] and " 1.00 " in line
    assert any(line.startswith("mos/ptb ") and " of" not in line for line in lines)
    assert any(line.startswith("plif") for line in lines)
    monkeypatch.setattr(folders, "home", lambda: tmp_path)
    assert not list(tmp_path.iterdir())  # nothing is kept unasked
    site_pages.write_speed(tmp_path)
    assert (tmp_path / "speed.md").read_text("utf-8") == "No measurement is kept yet.\n"
    printed = CliRunner().invoke(app, ["models", "--precision", "fp32", "--keep"])
    assert printed.exit_code == 0, printed.exception
    ((name, kept),) = results.tables("benchmarks").items()
    assert name.startswith("benchmarks/models/") and name.endswith("/fp32")
    assert kept["rows"][: len(rows)] == json.loads(json.dumps(rows))
    assert {row["method"] for row in kept["rows"][len(rows) :]} == set(METHODS)
    assert kept["machine"] == rows[0]["machine"]
    assert kept["provenance"]["threads"] == torch.get_num_threads() and kept["rounds"] == 3
    site_pages.write_speed(tmp_path)
    page = (tmp_path / "speed.md").read_text("utf-8")
    assert "\n| `awd-lstm/ptb` | 865-1,080 | 1.6-2 | 1.00 |\n" in page
    second = f"\n| `{rows[1]['model']}` | {rows[1]['tokens/s']:,.0f} |"
    assert "\n| `plif` | " in page and second in page
    started = [f"{rows[1][key]:,}" for key in ("launches", "plain launches")]
    assert f"\n| `{rows[1]['model']}` | {' | '.join(started)} |\n" in page
    assert f"| {models.over_plain(rows[1])} |" in page and "In brackets: the least" in page
    path = results.kept_folder() / f"{name}.json"
    path.write_text(path.read_text("utf-8").replace("1730.0", "2730.0"), "utf-8")
    with pytest.raises(CourseError, match="checksum; it was changed"):
        site_pages.write_speed(tmp_path)


def test_the_floor_of_the_softmax_counts_its_three_products():
    work = output_layers.softmax_work(vocabulary=7, positions=5)
    assert work.operations == 3 * 2 * 5 * 400 * 7 and work.memory == 3 * 400 * 7


def judged(*given):
    return {bar.what: bar for bar in bars.of_models(*given)}


def test_bars_are_of_a_machine_and_a_precision():
    row = {"model": "awd-lstm/ptb", "tokens/s": 1200.0, "plain": 1000.0, "floor": 1500.0}
    reference = {"tokens": [900.0, 1100.0], "megabytes": 2.5}
    row |= {"MB": 1.0, "plain MB": 2.0, "reference": reference}
    other = row | {"model": "mos/ptb", "plain": 1300.0, "MB": 1.2}
    step = {"method": "gss", "of softmax": 1.06}
    table = {"machine": "Xeon, AMX", "rows": [row, other, step]}
    found = judged("fp32", table)
    released = found["speed of `awd-lstm/ptb` over the released code, where the floor allows 1.5"]
    assert released.measured == 1.2 and released.bar == 1.2 and released.met
    slowest = found["speed of every model over plain PyTorch, the least: `mos/ptb`"]
    assert slowest.measured == pytest.approx(1200 / 1300) and not slowest.met
    share = found["`awd-lstm/ptb`, share of the floor"]
    assert share.measured == 0.8 and share.bar == 0.85 and not share.met
    memory = found["memory of `mos/ptb` over plain"]
    assert memory.at_most and memory.measured == 0.6 and not memory.met
    memory = found["memory of `mos/ptb` over the released code"]
    assert memory.at_most and memory.measured == 0.48 and not memory.met
    assert found["memory of `awd-lstm/ptb` over the released code"].met
    assert not found["step of AWD-LSTM with `gss` over one with our softmax"].met
    # bf16 has bars of its own, a processor without AMX too, and a GPU none
    found = judged("bf16", table)
    assert found["`awd-lstm/ptb`, share of the floor"].met
    assert not any("every model" in what for what in found)
    assert found[released.what].bar == 4
    assert judged("bf16", table | {"machine": "AMD, no AMX"})[released.what].bar == 2.2
    assert judged("fp32", table | {"machine": "NVIDIA H200"}) == {}
    # where rounds are kept, their median counts
    kept = table | {"rows": [row | {"over plain": [0.5, 0.9, 3.0]}]}
    slowest = next(bars.of_models("fp32", kept))
    assert slowest.measured == 0.9 and "the least: `awd-lstm/ptb`" in slowest.what


def test_every_bar_is_of_something_that_is_measured():
    """A name that no table has would have its bar unread."""
    models_of = (bars.RELEASED, bars.NO_AMX, bars.OVER_PLAIN, bars.RELEASED_MEMORY)
    assert {name for some in models_of for name in some} <= set(models.MODELS)
    assert set(bars.NEAR_THE_FLOOR) | set(bars.MEMORY) - {"softmax"} <= set(models.MODELS)
    assert set(bars.STEPS) <= set(METHODS)
    for name in {**bars.RELEASED, **bars.RELEASED_MEMORY}:
        assert models.MODELS[name].reference is not None


def test_the_slowest_output_layer_is_judged_and_torch_s_own_is_none_of_ours():
    rows = [
        {"method": "softmax", "of naive": 0.8, "MB": 1.0, "naive MB": 5.0, "of floor": 0.9},
        {"method": "gss", "of naive": 1.01, "MB": 1.0, "naive MB": 5.0},
        {"method": "mos", "of naive": None, "MB": 1.0, "naive MB": None},
        {"method": "softmax by torch", "of naive": 1.3, "MB": 1.0, "naive MB": 5.0},
    ]
    table = {"machine": "Xeon, AMX", "rows": rows}
    slowest, speed, memory, share = bars.of_layers(10_000, "fp32", table)
    assert "`gss`, 10,000 words" in slowest.what and slowest.measured == 1.01 and not slowest.met
    assert speed.measured == 1.25 and speed.bar == 1.1 and speed.met
    assert memory.measured == 0.2 and memory.at_most and memory.met
    assert share.measured == 0.9 and share.bar == 0.85 and share.met
    assert not list(bars.of_layers(10_000, "bf16", table | {"rows": rows[1:]}))
    assert not list(bars.of_layers(10_000, "fp32", table | {"machine": "NVIDIA H200"}))


def test_a_ratio_of_speeds_says_how_far_the_rounds_are_apart():
    rounds = timing.Seconds({"plain": [2.0, 3.0, 9.0], "course": [2.0, 4.0, 3.0]})
    row = {"tokens/s": 10.0, "plain": 8.0, "over plain": rounds.ratios("plain", "course")}
    assert models.over_plain(row) == "1.00 [0.75, 3.00]"
    del row["over plain"]
    assert models.over_plain(row) == "1.25"  # of a table from before rounds were kept


def test_a_row_that_fails_costs_no_other_row(monkeypatch, tmp_path):
    """On one GPU the last model of twelve failed, and the minutes of eleven were lost."""
    monkeypatch.setattr(folders, "home", lambda: tmp_path)
    monkeypatch.setattr(models, "MODELS", {"awd-lstm/ptb": models.MODELS["awd-lstm/ptb"]})
    monkeypatch.setattr(models, "METHODS", {"softmax": METHODS["softmax"], "gss": METHODS["gss"]})
    failing, others = {"awd-lstm/ptb", "gss"}, iter([0.0] * 4 + [0.9] * 9)

    def measured_row(made):
        (name,) = made.args
        if name in failing:
            raise RuntimeError("backward can only be called in training mode\nand a second line")
        busy = next(others)
        row = {"method": name, "ms": 3.0, "of softmax": 1.0, "machine": timing.machine_kind()}
        return row | {"counts": not busy, "others": busy}

    def run(*precisions):
        asked = [word for name in precisions or ["fp32"] for word in ("--precision", name)]
        return CliRunner().invoke(app, ["models", "--keep", *asked])

    monkeypatch.setattr(models, "undisturbed", measured_row)
    printed = run()
    assert printed.exit_code == 1 and isinstance(printed.exception, SystemExit)
    told = "failed: RuntimeError: backward can only be called in training mode"
    lines = printed.stdout.splitlines()
    assert [line.split()[0] for line in lines if line.endswith(told)] == ["awd-lstm/ptb", "gss"]
    assert "Traceback" in printed.stderr
    (kept,) = results.tables("benchmarks").values()
    assert [row.get("method") for row in kept["rows"]] == ["softmax"]
    assert kept["failed"] == ["awd-lstm/ptb", "gss"]
    site_pages.write_speed(tmp_path)
    page = (tmp_path / "speed.md").read_text("utf-8")
    assert "because the measurement failed: `awd-lstm/ptb`, `gss`." in page
    # a row that is kept already is not lost
    failing.remove("gss")
    failing.add("softmax")
    printed = run()
    told = "the kept table stays as it is: awd-lstm/ptb, softmax failed"
    assert printed.exit_code == 1 and told in str(printed.exception)
    assert [*results.tables("benchmarks").values()] == [kept]
    # where all rows fail, or one was disturbed, nothing is kept, and the next precision is measured
    failing |= {"gss"}
    printed = run("bf16", "fp32")
    told = "awd-lstm/ptb, softmax, gss failed"
    assert f"bf16: nothing is kept: {told}; fp32: the kept" in str(printed.exception)
    failing -= {"softmax", "gss"}
    next(others), next(others)
    assert "up to 90% of the machine" in str(run("bf16").exception)
    assert len(results.tables("benchmarks")) == 1


def test_a_gpu_s_peak_is_beyond_what_it_held_and_of_steps_with_a_graph(monkeypatch):
    """A graph is recorded in the fourth step, and holds memory of its own."""
    steps = []

    class Case:
        def stepper(self, *arguments):
            return lambda: steps.append(arguments)

    monkeypatch.setattr(machine, "reset_peak_memory", lambda where: 30.0)
    monkeypatch.setattr(machine, "peak_memory", lambda where: 100.0)
    assert models.peak_memory(Case(), "course", "bf16", "cuda", 1) == 70.0
    assert len(steps) == models.RECORDED == models.graphs.PLAIN + 2


@pytest.mark.parametrize("kind", models.KINDS)
def test_a_step_replays_its_encoder_where_training_does(monkeypatch, kind):
    """And its graph is recorded once as many steps have run as a GPU is warmed up with."""
    case = models.Encoded(
        50, 6, functools.partial(VariationalLSTM, 6, 6), plain_variational_lstm, 2, 5
    )
    model = case.build(kind, "cpu")
    recorded = []
    expected = model.encoder, torch.device("cpu"), 1, 1
    monkeypatch.setattr(models.graphs, "fits", lambda *asked: asked == expected)
    monkeypatch.setattr(
        torch.cuda, "make_graphed_callables", lambda call, sample: recorded.append(1) or call
    )
    step = models.whole_step(model, case, kind, "fp32", "cpu", clip=0.25)
    for _ in range(models.RECORDED - 1):
        step()
    assert not recorded
    step()
    step()
    assert len(recorded) == (kind == "course")


def test_only_the_whole_table_of_models_is_kept():
    printed = CliRunner().invoke(app, ["models", "--model", "awd-lstm/ptb", "--keep"])
    assert "leave --model out" in str(printed.exception)


@pytest.mark.parametrize("option", [["--rounds", "0"], ["--threads", "-1"]])
@pytest.mark.parametrize("what", ["output-layers", "models"])
def test_no_rounds_and_fewer_threads_than_none_are_refused(what, option):
    refused = CliRunner().invoke(app, [what, *option])
    assert refused.exit_code == 2 and option[0] in refused.output


@pytest.mark.parametrize("option", [["--model", "awd-lstm/pbt"], ["--precision", "fp16"]])
def test_unknown_models_and_precisions_are_refused(option):
    printed = CliRunner().invoke(app, ["models", *option])
    assert isinstance(printed.exception, CourseError) and "did you mean" in str(printed.exception)


@pytest.mark.parametrize("name", ["softmax", "spectrum", "mos"])
def test_an_output_layer_is_put_on_awd_lstm_as_it_is(monkeypatch, updates, name):
    """With its word matrix, which the model reads, too, and its penalties beside AWD-LSTM's."""
    made = []
    whole_step = models.whole_step
    monkeypatch.setattr(
        models, "whole_step", lambda m, *a, **o: made.append(m) or whole_step(m, *a, **o)
    )
    models._with_layer(name, SMALL["awd-lstm/ptb"], "fp32", "cpu")()
    (model,), method = made, METHODS[name]
    assert type(model.output_layer) is type(method.layer(method.words(30, 6)))
    assert type(model.words) is method.words and model.output_layer.words is model.words
    assert model.regularizers == SMALL["awd-lstm/ptb"].penalties + method.regularizers
    assert isinstance(model.encoder, AWDLSTM) and updates == [True]


def test_a_penalty_that_learns_learns_on_awd_lstm(monkeypatch):
    made = []
    whole_step = models.whole_step
    monkeypatch.setattr(
        models, "whole_step", lambda m, *a, **o: made.append(m) or whole_step(m, *a, **o)
    )
    models._with_layer("past-decode", SMALL["awd-lstm/ptb"], "fp32", "cpu")()
    assert made[0].output_layer.past_bias.all()  # zeros before the step


def test_course_and_plain_training_of_the_same_model(monkeypatch, tmp_path):
    monkeypatch.setattr("course_lib.data.folders.home", lambda: tmp_path)
    trained = ["training", "--profile", "smoke", "--epochs", "2"]
    done = CliRunner().invoke(app, trained)
    assert done.exit_code == 0, done.output
    checked = CliRunner().invoke(app, [*trained, "--check", "--keep"])
    assert checked.exit_code == 0, checked.output
    assert re.search(r"of 24 segments the largest difference \d\.\de-0[5-9]", checked.stdout)
    found = reference_training.experiments(2, "smoke")
    _check_the_twins(found)
    table = results.read_table("ptb/awd-lstm/softmax/smoke-seed1-optimisation.epochs=2-check")
    assert (
        table["iterates"] == reference_training.check(found)["iterates"]
        and len(results.kept_results()) == 2
    )
    with pytest.raises(CourseError, match="--keep goes with --check"):
        CliRunner().invoke(app, [*trained, "--keep"], catch_exceptions=False)
    course, plain = (results.read_result(results.run_folder(found[k])) for k in found)
    assert course["metrics"]["parameters"] == plain["metrics"]["parameters"]
    assert [e["tokens"] for e in course["epochs"]] == [e["tokens"] for e in plain["epochs"]]
    assert f"{plain['epochs'][0]['valid_perplexity']:.2f}" in done.stdout
    first = course["epochs"][0]["valid_perplexity"]  # then rounding has had its time to grow
    assert first == pytest.approx(plain["epochs"][0]["valid_perplexity"], rel=5e-3)
    folder = results.run_folder(found["plain"])
    first = reference_training.experiments(1, "smoke")[
        "plain"
    ]  # an interruption after the first epoch
    for name in ("result.json", "last.safetensors"):
        (folder / name).unlink()
    short = reference_training.train("plain", first, progress=False) / "last.safetensors"
    shutil.copy(short, folder)
    with pytest.raises(CourseError, match="is of another training .*; remove it"):
        reference_training.train("plain", found["plain"], progress=False)
    weights, head = load_checkpoint(short)
    own = head["identity"] | {"experiment": found["plain"].identity()}
    save_checkpoint(folder / short.name, weights, head | {"identity": own})
    with FileLock(folder / TRAINING), pytest.raises(CourseError, match="another process trains"):
        reference_training.train("plain", found["plain"], progress=False)
    reference_training.train("plain", found["plain"], progress=False)
    again = results.read_result(folder)
    assert again["metrics"] == plain["metrics"]
    elsewhere = found["plain"].change(size=9)  # in that folder
    with pytest.raises(CourseError, match="has the result of another experiment"):
        reference_training.train("plain", elsewhere, progress=False)
    for trained in (results.run_folder(found[k]) / "last.safetensors" for k in found):
        content = trained.read_bytes()
        trained.write_bytes(content + b"of another training")
        with pytest.raises(CourseError, match="does not hold the weights of the result beside it"):
            reference_training.check(found)
        trained.write_bytes(content)
    monkeypatch.setattr(
        reference_training, "ReferenceLSTM", None
    )  # trained already: read, not trained again
    again = CliRunner().invoke(app, ["training", "plain", "--profile", "smoke", "--epochs", "2"])
    assert again.stdout == done.stdout
    with pytest.raises(CourseError, match="course"):
        CliRunner().invoke(app, ["training", "corse"], catch_exceptions=False)


def test_both_trainings_are_the_same_where_rounding_does_not_grow(monkeypatch, tmp_path):
    """Step by step: lengths, masks, states, rates, penalties, clipping, weight decay, epochs."""
    monkeypatch.setattr("course_lib.data.folders.home", lambda: tmp_path)
    calm = {"learning_rate": 2.0, "weight_decay": 1e-3}
    found = {
        k: e.change(optimisation=calm)
        for k, e in reference_training.experiments(2, "smoke").items()
    }
    folders = {kind: reference_training.train(kind, e, progress=False) for kind, e in found.items()}
    trained = {k: load_checkpoint(v / "last.safetensors")[0] for k, v in folders.items()}
    model = found["course"].build(len(found["course"].load_corpus()))
    restore(model, trained["course"], "the course")
    for name, weight in reference_training.as_plain(model).state_dict().items():
        torch.testing.assert_close(weight, trained["plain"][f"model.{name}"], rtol=0, atol=2e-5)
    course, plain = (results.read_result(folders[k])["metrics"] for k in ("course", "plain"))
    for split in ("valid_perplexity", "test_perplexity"):
        assert course[split] == pytest.approx(plain[split], rel=1e-4)


def _check_the_twins(found):
    """The same weights and masks have the same loss, and one that is not theirs is seen."""
    for one, other in reference_training.same_weights(found["course"]):
        assert one == pytest.approx(other, rel=1e-5)
    wrong = found["course"].change(objectives=(part("CrossEntropy"), part("ZLoss", weight=0.01)))
    for one, other in reference_training.same_weights(wrong):
        assert one > other * 1.01
    iterates = {
        k: reference_training.going_on(k, e, steps=7, every=3, progress=False)
        for k, e in found.items()
    }
    assert all(len(v) == 2 and min(v) > 1 for v in iterates.values())
    assert iterates["course"] != iterates["plain"]  # each from its own weights
    assert iterates["plain"] == reference_training.going_on(
        "plain", found["plain"], steps=6, every=3
    )
    table = reference_training.check(found)
    pairs = list(reference_training.same_weights(found["course"]))
    assert table["same_weights"]["segments"] == len(pairs) == 24
    largest = table["same_weights"]["largest_difference"]
    assert largest == max(abs(a - b) for a, b in pairs)
    assert table["same_weights"]["plain_loss"] == pytest.approx(sum(b for _, b in pairs) / 24)
    assert table["iterates"] == {k: reference_training.going_on(k, e) for k, e in found.items()}
    digests = {k: results.read_result(results.run_folder(e))["sha256"] for k, e in found.items()}
    assert table["results"] == digests
    untrained = found["course"].change(variant="elsewhere")
    with pytest.raises(CourseError, match="is not here, only its result"):
        next(reference_training.same_weights(untrained))


def test_models_alone_leave_the_kept_rows_of_the_layers(tmp_path, monkeypatch):
    monkeypatch.setattr(folders, "home", lambda: tmp_path)

    def row(**told):
        return {"machine": timing.machine_kind(), "counts": True, "others": 0.0} | told

    table = models.TABLE.replace("PRECISION", "fp32")
    model, layer = row(model="awd-lstm/ptb", ms=1.0), row(method="softmax", ms=2.0)
    timing.keep(table, [model, layer], 5)
    monkeypatch.setattr(models, "measured", lambda *a: iter([model | {"ms": 9.0}]))
    monkeypatch.setattr(models, "report", lambda kind, rows: map(str, rows))
    asked = ["models", "--precision", "fp32", "--no-layers", "--keep"]
    assert CliRunner().invoke(app, asked).exit_code == 0
    (kept,) = results.tables("benchmarks/models").values()
    told = [(timing.name_of(one), one["ms"]) for one in kept["rows"]]
    assert told == [("awd-lstm/ptb", 9.0), ("softmax", 2.0)]


def test_a_table_of_layers_is_not_kept_without_its_steps():
    asked = ["output-layers", "softmax", "--words", "10000", "--no-step", "--keep"]
    printed = CliRunner().invoke(app, asked)
    assert isinstance(printed.exception, CourseError) and "no-step out" in str(printed.exception)


def test_a_pair_is_found_by_the_names_of_today(tmp_path, monkeypatch):
    """And by those that the first pairs were kept under."""
    old = reference_training.kept_pairs()
    assert set(old) == {1, 2} and reference_training.kept_check() == results.read_table(
        "ptb/awd-lstm/softmax/standard-seed1-3-epochs-check"
    )
    monkeypatch.setattr(results, "kept_folder", lambda: tmp_path)
    for number, experiment in enumerate(reference_training.experiments(seed=3).values()):
        epochs = [{"valid_perplexity": 100.0 + number}]
        origin = {"device": "AMD EPYC", "threads": 2}
        folder = tmp_path / results.key_of(experiment)
        results.write_result(folder, experiment, epochs, {}, origin)
    assert reference_training.kept_pairs() == {3: ([100.0], [101.0])}


def test_the_kept_check_is_of_the_kept_pair():
    """The table that the page of speeds shows beside the two results, of which it must be."""
    first = "ptb/awd-lstm/softmax/standard-seed1-3-epochs"
    pair = {
        "course": results.kept_folder() / first,
        "plain": results.kept_folder() / f"{first}-plainly",
    }
    table = results.read_table(f"{first}-check")
    assert table["results"] == {k: results.read_result(path)["sha256"] for k, path in pair.items()}
    assert table["same_weights"]["largest_difference"] < 1e-5  # nats a token: rounding
    course, plain = (sum(looks) / len(looks) for looks in table["iterates"].values())
    assert course == pytest.approx(plain, rel=0.02)


def test_the_plain_model_has_the_settings_of_the_recipe():
    """Those that are written into it."""
    experiment = reference_training.experiments()["plain"]
    encoder, penalties = experiment.encoder.options, experiment.regularizers
    assert encoder["weight_drop"] == 0.5 and experiment.output_dropout == 0.4
    assert experiment.input_embedding.options == {"row_dropout": 0.1}
    assert [p.options["weight"] for p in penalties] == [2.0, 1.0]


def test_ratios_are_taken_within_a_round():
    """A machine that gets slower and slower does not change them."""
    seconds = Seconds({"ours": [1.0, 2.0, 40.0], "plain": [2.0, 4.0, 80.0]})
    assert seconds["ours"] == 2.0 and seconds.ratio("ours", "plain") == 0.5


def test_steps_alternate_and_the_order_turns():
    done = []
    steps = {name: functools.partial(done.append, name) for name in "ab"}
    taken = alternating(steps, rounds=2)
    assert "".join(done) == "abbaabba" and [len(s) for s in taken.rounds.values()] == [2, 2]
