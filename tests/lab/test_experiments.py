"""Experiments as data; tests/test_recipes.py has what is said of each recipe."""

import json
import math
import os
import re
import shutil
import subprocess
import sys
from typing import Literal, Optional

import numpy as np
import pytest
import torch
from filelock import FileLock
from typer.testing import CliRunner

import course_lab
from course_lab import (
    Experiment,
    Part,
    cost,
    overrides,
    part,
    planned,
    profile,
    provenance,
    recipes,
    results,
)
from course_lab import parts as parts_module
from course_lab.locks import TRAINING
from course_lab.planned import Planned
from course_lab.recipes import add
from course_lib.data import folders
from course_lib.errors import CourseError
from course_lib.output_layers import Softmax
from course_lib.output_layers.scratch import BlockScratch
from course_lib.training import Cosine
from course_lib.training.checkpoint import load_checkpoint, save_checkpoint


def test_initial_weights_depend_on_the_seed_alone():
    one, two, other = (recipes["ptb/vd-lstm-200/tied"].change(seed=s).build(20) for s in (1, 1, 2))
    weights = [m.words.weight for m in (one, two, other)]
    assert (weights[0] == weights[1]).all() and not (weights[0] == weights[2]).all()


def test_the_memory_of_a_block_is_a_setting(monkeypatch):
    """Of every layer: the same loss in more blocks."""
    blocks, start_block = [], BlockScratch.start_block
    monkeypatch.setattr(BlockScratch, "start_block", lambda s: (blocks.append(1), start_block(s)))
    plain = recipes["ptb/vd-lstm-200/tied"].change(size=8, encoder={"units": 8, "dropout": 0.0})
    text = torch.arange(600).view(100, 6)
    adaptive = part("AdaptiveSoftmax", cutoffs=[200, 2000])
    for layer in (plain.output_layer, part("MixtureOfSoftmaxes", components=2), adaptive):
        losses, numbers, limits = [], [], []
        for limit in (None, 1):
            blocks.clear()
            model = plain.change(output_layer=layer, block_memory=limit).build(10_000).double()
            losses.append(model(text, target=text)[0].item())
            numbers.append(len(blocks))
            limits.append(model.output_layer.scratch.limit)
        assert losses[0] == pytest.approx(losses[1], rel=1e-12) and numbers[0] < numbers[1]
        assert limits == [256 << 20, 1 << 20]

    assert Planned("ptb/desk/tied", change={"block_memory": 64}).experiment().block_memory == 64
    rates = cost.Rates(*({"fp32": 1e11, "tf32": 1e11, "bf16": 1e11} for _ in range(2)))
    first, second = (cost.cost(plain.change(block_memory=m), rates).memory for m in (100, 300))
    assert second - first == 200 << 20
    for bad in (0, 0.5, "1 GB"):
        with pytest.raises(CourseError, match=f"block_memory must be a whole .*, not .?{bad}"):
            plain.change(block_memory=bad)
    with pytest.raises(CourseError, match="counts n-grams, and block_memory is of a network"):
        recipes["ptb/kneser-ney/order-5"].change(block_memory=64)


def test_every_kind_of_part_builds_from_json():
    """Options of mixins and of their bases, a list for a tuple, a prior that training begins at."""
    experiment = recipes["ptb/vd-lstm-200/tied"].change(
        size=6,
        encoder={"units": 8},
        words=part("SpectralWords", init=0.5),
        input_embedding=part("InputEmbedding", row_dropout=0.1, noise=0.2),
        output_dropout=0.4,
        output_layer=part("AdversarialMixtureOfSoftmaxes", alpha=0.01, components=3, dropout=0.2),
        regularizers=(
            part("PolynomialPrior", weight=1.0, c1=4.0, gamma=1.0),
            part("Orthogonality", spectral_V=0.0),
        ),
    )
    again = Experiment.from_dict(json.loads(json.dumps(experiment.to_dict())))
    assert again == experiment
    model = again.build(20)
    layer = model.output_layer
    assert (layer.components, layer.dropout, layer.alpha, layer.hidden_size) == (3, 0.2, 0.01, 8)
    assert model.input_embedding.row_dropout == 0.1 and model.output_dropout == 0.4
    assert model.words.singular_values().tolist() == pytest.approx([4 / k for k in range(1, 7)])
    adaptive = part("AdaptiveSoftmax", cutoffs=[3, 7])
    model = experiment.change(encoder={"units": 6}, output_layer=adaptive, regularizers=()).build(9)
    assert model.output_layer.edges == [0, 3, 7, 9]
    untied = experiment.change(
        encoder={"units": 8}, output_layer=part("Softmax"), tied=False, regularizers=()
    ).build(20)
    assert untied.words.shape == (20, 6) and untied.output_layer.words.shape == (20, 8)
    apart = experiment.change(
        encoder={"units": 8}, output_layer=part("Softmax"), tied=False, regularizers=(),
        words=part("FullWords", constraint="unit"), output_words=part("SpectralWords"),
    )  # fmt: skip
    assert Experiment.from_dict(json.loads(json.dumps(apart.to_dict()))) == apart
    built = apart.build(20)
    assert built.words.constraint == "unit" and built.output_layer.words.V.shape == (8, 8)
    with pytest.raises(CourseError, match="is tied and predicts with `words`"):
        apart.change(tied=True)
    nothing = experiment.change(objectives=())
    assert Experiment.from_dict(json.loads(json.dumps(nothing.to_dict()))) == nothing
    with pytest.raises(CourseError, match="unknown option of AdversarialMixture.*'componets'"):
        experiment.change(output_layer={"componets": 3}).build(20)
    with pytest.raises(CourseError, match="unknown option of SigSoftmax 'k'"):  # it fixes k
        experiment.change(encoder={"units": 6}, output_layer=part("SigSoftmax", k=2)).build(20)


@pytest.mark.parametrize(
    "name, options",
    [
        ("ptb/vd-lstm-200/tied", {}),
        ("wikitext-103/transformer-xl-4/softmax", {}),
        ("wikitext-2/awd-lstm/spectrum-control", {}),
        ("iwslt14/de-en/transformer-base/spectrum-control", {}),
        ("multi30k/transformer-small/softmax", {"direction": "fr-en", "pieces": 300}),
    ],
)
def test_small_profiles_take_the_beginning_of_ones_own_corpus(name, options, tmp_path):
    """Where every other is replaced by an embedded one."""
    own = recipes[name].change(corpus=part(str(tmp_path), **options))
    for kind in ("smoke", "quick"):
        embedded = profile(recipes[name], kind).corpus
        assert embedded.kind in ("docstrings", "cldr")
        small = {"small": embedded.options["small"]}
        mine = profile(own, kind)
        assert mine.corpus == part(str(tmp_path), **options, **small)
        assert mine.regularizers == profile(recipes[name], kind).regularizers
        assert profile(own.change(name="mine"), kind).corpus == mine.corpus
    mine = recipes[name].change(corpus=part(str(tmp_path), **options, small={"train": 9}))
    assert profile(mine, "quick").corpus == mine.corpus  # cut already, to whatever vocabulary
    assert profile(own, "standard").corpus == own.corpus


def test_unknown_names_list_the_near_matches():
    with pytest.raises(CourseError, match="unknown recipe 'ptb/vd-lstm-200/tide'; did you mean"):
        recipes["ptb/vd-lstm-200/tide"]
    experiment = recipes["ptb/vd-lstm-200/tied"]
    with pytest.raises(CourseError, match="unknown profile 'quik'; did you mean quick"):
        course_lab.profile(experiment, "quik")
    with pytest.raises(CourseError, match="unknown encoder 'VariationalLTSM'; did you mean Var"):
        experiment.change(encoder=part("VariationalLTSM")).build(9)
    with pytest.raises(
        CourseError, match="unknown option of VariationalLSTM 'droput'; did you mean"
    ):
        experiment.change(encoder={"droput": 0.1}).build(9)
    with pytest.raises(CourseError, match="unknown field of optimisation 'lr'"):
        experiment.change(optimisation={"lr": 0.1})
    with pytest.raises(
        CourseError, match="unknown field of an experiment 'sede'; did you mean seed"
    ):
        experiment.change(sede=1)
    with pytest.raises(CourseError, match="unknown field of an experiment"):
        Experiment.from_dict(experiment.to_dict() | {"colour": 1})
    for plain, message in [
        ([1], "an experiment must be a table with named fields .*, not .1."),
        ({"name": "x", "corpus": {"kind": "zipf"}}, "an experiment needs the field encoder"),
        (
            {"name": "x", "corpus": "ptb", "encoder": {}},
            "corpus must be a table .*kind.*, not 'ptb'",
        ),
        (
            experiment.to_dict() | {"words": {"kind": "FullWords", "options": 3}},
            "words.options must be a table",
        ),
        (experiment.to_dict() | {"optimisation": 3}, "optimisation must be a table .*, not 3"),
        (
            experiment.to_dict() | {"objectives": None},
            "objectives must be a list, each .* table .*, not None",
        ),
        (experiment.to_dict() | {"tied": "no"}, "tied must be true or false, not 'no'"),
        (
            experiment.to_dict() | {"optimisation": {"learning_rate": "high"}},
            "optimisation.learning_rate must be a .*number.*, not 'high'",
        ),
        (
            experiment.to_dict() | {"seed": -1},
            "seed must be a whole number of at least 0 .*, not -1",
        ),
    ]:
        with pytest.raises(CourseError, match=message):
            Experiment.from_dict(plain)
    with pytest.raises(CourseError, match="dropout of VariationalLSTM must be .*below 1, not 1"):
        experiment.change(encoder={"dropout": 1}).build(9)
    with pytest.raises(CourseError, match="at least one objective"):
        experiment.change(objectives=()).build(9)


@pytest.mark.parametrize("name", ["size", "regularizers", "adaptation"])
def test_what_has_no_named_settings_is_given_whole(name):
    with pytest.raises(CourseError, match=f"{name} has no named settings; give the whole value"):
        recipes["ptb/vd-lstm-200/tied"].change(**{name: {"weight": 2}})


def test_a_part_of_a_text_is_told_by_its_sizes():
    plain = recipes["ptb/vd-lstm-200/tied"].to_dict()
    plain["corpus"]["options"]["small"] = None
    with pytest.raises(CourseError, match="corpus.small must be a table, not None"):
        Experiment.from_dict(plain)


def test_a_run_needs_a_name(tmp_path):
    nameless = course_lab.profile(recipes["ptb/vd-lstm-200/tied"].change(name=""), "smoke")
    with pytest.raises(CourseError, match="give the experiment a name"):
        course_lab.run(nameless, tmp_path)


def test_changes_leave_the_original_alone():
    base = recipes["ptb/vd-lstm-200/tied"]
    changed = base.change(
        encoder={"dropout": 0.5}, optimisation={"schedule": Cosine(), "epochs": 3}
    )
    assert changed.encoder.options["dropout"] == 0.5 and changed.encoder.options["units"] == 200
    assert base.encoder.options["dropout"] == 0.3 and base.optimisation.epochs == 40
    assert changed.optimisation.schedule == Cosine() and changed.optimisation.clip == 5.0


def test_a_second_session_needs_the_first():
    second = recipes["ptb/vd-lstm-200/tied/second-session"].change(
        corpus=part("ptb"), start_from="ptb/vd-lstm-200/baseline", seed=987_654
    )
    with pytest.raises(
        CourseError, match="first run: python -m course_lab train ptb/vd-lstm-200/base"
    ):
        course_lab.run(second.change(corpus=recipes_smoke_corpus()), progress=False)


def test_the_command_changes_settings_of_a_recipe(tmp_path, monkeypatch):
    from course_lab.cli import application

    app, seen, name = application(), [], "ptb/vd-lstm-200/tied"

    def run(experiment, *arguments, **options):
        seen.append(experiment)
        raise CourseError("enough")

    monkeypatch.setattr(course_lab, "run", run)
    arguments = ["train", name, "--seed", "3", "--change", "encoder.dropout=0.4"]
    CliRunner().invoke(app, [*arguments, "--change", "optimisation.shard=true"])
    assert seen[0].encoder.options["dropout"] == 0.4 and seen[0].optimisation.shard
    assert seen[0].seed == 3 and seen[0].variant == "encoder.dropout=0.4,optimisation.shard=true"
    CliRunner().invoke(app, ["train", name])
    assert seen[1] == course_lab.profile(recipes[name], "standard", 1)
    (tmp_path / "mine.json").write_text(json.dumps(seen[1].to_dict()))
    done = CliRunner().invoke(app, ["train", str(tmp_path / "mine.json"), "--change", "size=3"])
    assert "--change goes with a recipe's name" in str(done.exception) and len(seen) == 2
    for option, value in (("--seed", "1"), ("--profile", "standard")):
        done = CliRunner().invoke(app, ["train", str(tmp_path / "mine.json"), option, value])
        assert f"{option} goes with a recipe's name" in str(done.exception) and len(seen) == 2
    (tmp_path / "mine.json").write_text(json.dumps(seen[1].to_dict() | {"seed": -1}))
    for arguments, said in (
        ([str(tmp_path / "mine.json")], f"{tmp_path / 'mine.json'}: seed must be"),
        ([name, "--pieces", "5"], "--pieces is of your own text; name it with --corpus"),
        ([name, "--corpus", "ptb", "--change", "corpus=wikitext-2"], "corpus is given by --corpus"),
    ):
        done = CliRunner().invoke(app, ["train", *arguments])
        assert said in str(done.exception) and len(seen) == 2


def test_one_command_trains_a_row_and_what_it_starts_from(tmp_path, monkeypatch):
    """Each where the next one looks for it, with the settings that the next one hands on."""
    from course_lab.cli import application

    monkeypatch.setattr(folders, "home", lambda: tmp_path)
    row = ["train", "ptb/awd-lstm/softmax/continuous-cache", "--profile", "smoke"]
    row += ["--change", "encoder.weight_drop=0.2", "--device", "cpu"]
    alone = CliRunner().invoke(application(), row)
    assert "first run: python" in str(alone.exception) and "--starts" in str(alone.exception)
    done = CliRunner().invoke(application(), [*row, "--starts", "--folder", str(tmp_path / "row")])
    assert done.exit_code == 0 and "test perplexity" in done.stdout
    assert "ptb/awd-lstm/softmax/finetuned is trained, in " in done.stdout
    found = sorted(path.parent for path in tmp_path.rglob("result.json"))
    trained = tmp_path / "runs/ptb/awd-lstm/softmax"
    one = "smoke-seed1-encoder.weight_drop=0.2"
    assert found == [tmp_path / "row", trained / "finetuned" / one, trained / one]
    drops = [course_lab.read_result(f)["experiment"]["encoder"]["options"] for f in found]
    assert [o["weight_drop"] for o in drops] == [0.2] * 3
    shutil.rmtree(trained / one)  # no longer needed: what began with it is done
    again = [*row, "--starts", "--folder", str(tmp_path / "again")]
    assert CliRunner().invoke(application(), again).exit_code == 0
    assert not (trained / one).exists()
    shutil.rmtree(trained / "finetuned")  # nor for a row that is done itself
    assert CliRunner().invoke(application(), again).exit_code == 0
    assert not (trained / "finetuned").exists()


AT_HOME = """
import os, pathlib, sys
from course_lib.data import folders
folders.home = lambda: pathlib.Path(os.environ["HOME_OF_RUNS"])
from course_lab.cli import main
sys.exit(main())
"""


def test_several_processes_train_a_row_and_what_it_starts_from(tmp_path):
    """All of them wait until the weights that the next run begins with are written."""
    (tmp_path / "at_home.py").write_text(AT_HOME, "utf-8")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", "2", str(tmp_path / "at_home.py"), "train"]
    command += ["ptb/vd-lstm-200/tied/second-session", "--starts", "--profile", "smoke"]
    command += ["--device", "cpu"]
    where = os.environ | {"HOME_OF_RUNS": str(tmp_path)}
    done = subprocess.run(command, env=where, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.count("ptb/vd-lstm-200/tied is trained, in ") == 1
    trained = tmp_path / "runs/ptb/vd-lstm-200/tied"
    for folder in (trained / "smoke-seed1", trained / "second-session/smoke-seed1"):
        assert course_lab.read_result(folder)["provenance"]["processes"] == 2


def test_a_folder_is_trained_in_by_one_process_at_a_time(tmp_path):
    experiment = course_lab.profile(recipes["ptb/vd-lstm-200/tied"], "smoke")
    other = pytest.raises(CourseError, match="another process trains in")
    with FileLock(tmp_path / TRAINING), other:
        course_lab.run(experiment, tmp_path, progress=False)
    assert [path.name for path in tmp_path.iterdir()] == [TRAINING]


def recipes_smoke_corpus():
    return course_lab.profile(recipes["ptb/vd-lstm-200/tied"], "smoke").corpus


def test_a_second_session_begins_with_the_final_weights_of_the_first(tmp_path, monkeypatch):
    from course_lib.data import folders

    cache = folders.cache()  # the embedded text is there
    monkeypatch.setattr(folders, "cache", lambda: cache)
    monkeypatch.setattr(folders, "home", lambda: tmp_path)
    seed = 4
    names = ("ptb/vd-lstm-200/tied", "ptb/vd-lstm-200/tied/second-session")
    small = {"optimisation": {"epochs": 1}, "size": 8, "encoder": {"units": 8}}
    try:
        kept = {n: recipes[n] for n in names}
        for n in names:
            add(kept[n], **small)
        first = course_lab.run(course_lab.profile(recipes[names[0]], "smoke", seed), progress=False)
        begin = {}
        second = course_lab.profile(recipes[names[1]], "smoke", seed)

        def keep(step, model):
            if step == 0:
                begin["weight"] = model.words.weight.detach().clone()

        course_lab.run(second, progress=False, callback=keep)
        last = course_lab.load_checkpoint(first.folder / "last.safetensors")[0]
        assert (begin["weight"] == last.words.weight).all()
        wild = second.change(optimisation={"learning_rate": 20.0})
        worse = course_lab.run(wild, tmp_path / "worse", progress=False)  # its start is kept
        assert worse.metrics["best_epoch"] == 0 and len(worse.epochs) == 1
        assert (worse.model.words.weight == last.words.weight).all()
        # Neither a finished second session nor a new one takes another first session for its own.
        done = course_lab.run(second, progress=False)
        assert done.provenance["start"] == first.provenance["weights"]["last"]
        path = first.folder / "last.safetensors"
        weights, head = load_checkpoint(path)
        save_checkpoint(path, weights | {"model.words.weight": last.words.weight + 1}, head)
        with pytest.raises(CourseError, match="from weights of .*tied, but .* now holds others"):
            course_lab.run(second, progress=False)
        with pytest.raises(CourseError, match="does not hold what ptb/vd-lstm-200/tied ended with"):
            course_lab.run(second, tmp_path / "new", progress=False)
        identity = head["identity"] | {"experiment": second.identity()}
        save_checkpoint(path, weights, head | {"identity": identity})
        with pytest.raises(CourseError, match="ended with .*name is 'ptb/vd-lstm-200/tied/second"):
            course_lab.run(second, tmp_path / "new", progress=False)
    finally:
        recipes.update(kept)


def test_kept_results_are_listed_and_checked(tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from course_lab.cli import application
    from course_lib.data import folders

    monkeypatch.setattr(folders, "home", lambda: tmp_path)
    change = {"size": 8, "encoder.units": 8}
    smoke = planned.Planned("ptb/vd-lstm-200/tied", "smoke", 5, change).experiment()
    result = course_lab.run(smoke, tmp_path / "smoke", progress=False)
    with pytest.raises(CourseError, match="profile smoke, .* no result; train it with --profile"):
        course_lab.keep_result(tmp_path / "smoke")
    experiment = planned.Planned("ptb/vd-lstm-200/tied", "quick", 5, change).experiment()
    figures = result.epochs, result.metrics, result.provenance
    results.write_result(tmp_path / "run", experiment, *figures)
    shown = CliRunner().invoke(application(), ["results", "--keep", str(tmp_path / "run")])
    assert shown.exit_code == 0
    assert f"{result.metrics['test_perplexity']:.2f}" in shown.stdout
    folder = tmp_path / "data/results/ptb/vd-lstm-200/tied/quick-seed5-encoder.units=8,size=8"
    assert course_lab.kept_results() == [folder]
    assert course_lab.read_result(folder)["metrics"] == result.metrics
    run = CliRunner().invoke
    for pattern in ("ptb/*", "lstm-200"):
        assert "ptb/vd-lstm-200/tied" in run(application(), ["results", pattern]).stdout
    with pytest.raises(CourseError, match="unknown recipe of a kept result 'wikitext"):
        run(application(), ["results", "wikitext-2"], catch_exceptions=False)
    assert course_lab.keep_result(tmp_path / "run") == folder  # the same once more
    second = planned.Planned("ptb/vd-lstm-200/tied", "quick", 6, change).experiment()
    results.write_result(tmp_path / "second", second, *figures)
    lines = run(application(), ["results", "--keep", str(tmp_path / "second")]).stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["kept", "recipe", "ptb/vd-lstm-200/tied"]
    results.write_result(results.run_folder(second), second, *figures)  # by its name below runs
    named = run(
        application(),
        ["results", "--keep", str(results.run_folder(second).relative_to(tmp_path / "runs"))],
    )
    assert named.exit_code == 0 and f"kept {tmp_path}" in named.stdout
    missing = run(application(), ["results", "--keep", "nowhere"])
    assert "there is no run or checkpoint nowhere; finished runs" in str(missing.exception)
    other = {**result.metrics, "test_perplexity": 1.0}
    results.write_result(tmp_path / "again", experiment, result.epochs, other, result.provenance)
    with pytest.raises(CourseError, match="keeps another result of this run; remove it"):
        course_lab.keep_result(tmp_path / "again")
    assert course_lab.read_result(folder)["metrics"] == result.metrics
    for variant in ("", "size=8"):  # as if it were the recipe's own run, or that one setting's
        hidden = experiment.change(variant=variant)
        results.write_result(tmp_path / "hidden", hidden, [], other, {})
        with pytest.raises(CourseError, match="differs from that recipe in .*units, size; train"):
            course_lab.keep_result(tmp_path / "hidden")
    hidden = experiment.change(output_layer=part("MixtureOfSoftmaxes", components=2), variant="")
    results.write_result(tmp_path / "hidden", hidden, [], other, {})
    with pytest.raises(CourseError, match="has output_layer of its own, .* a name of its own"):
        course_lab.keep_result(tmp_path / "hidden")
    mine = experiment.change(name="mine", variant="")
    results.write_result(tmp_path / "mine", mine, [], other, {})
    assert course_lab.keep_result(tmp_path / "mine") == tmp_path / "data/results/mine/quick-seed5"


def kept_content(folder, **changes):
    """Write a result.json with a right checksum: that of a small run, with these changes."""
    experiment = course_lab.profile(recipes["ptb/vd-lstm-200/tied"], "smoke").to_dict()
    content = {
        "experiment": experiment,
        "metrics": {"valid_perplexity": 90.0, "test_perplexity": 80.0},
        "epochs": [],
        "provenance": {"commit": "a" * 40},
    }
    content = {name: value for name, value in (content | changes).items() if value is not None}
    folder.mkdir(parents=True)
    text = json.dumps(content | {"sha256": results._digest(content)})
    (folder / "result.json").write_text(text)


def test_a_run_without_an_epoch_is_no_checkpoint_yet(tmp_path):
    (tmp_path / "last.safetensors").touch()
    with pytest.raises(CourseError, match="has not finished an epoch"):
        course_lab.load_checkpoint(tmp_path)


BAD_RESULTS = {
    "no metrics": ({"metrics": None}, "result.json has no metrics"),
    "no perplexity": ({"metrics": {}}, "has no 'valid_perplexity'"),
    "a word for a number": (
        {"metrics": {"valid_perplexity": "low", "test_perplexity": 1.0}},
        "a value of the wrong kind",
    ),
    "a list": ([1], "has no figures by name"),
    "no JSON": ("{", "is not readable JSON"),
    "endless brackets": ("[" * 100_000, "is not readable JSON"),
    "no text": (b"\xff\xfe", "is not readable JSON"),
    "edited": ('{"metrics": {}, "sha256": "0"}', "does not match its own checksum"),
}


def test_a_result_that_cannot_be_read_does_not_hide_the_others(tmp_path, monkeypatch):
    from course_lab.cli import application

    monkeypatch.setattr(folders, "home", lambda: tmp_path)
    kept = tmp_path / "data" / "results"
    assert "no result is kept in" in CliRunner().invoke(application(), ["results"]).stdout
    kept_content(kept / "good" / "smoke-seed1")
    sound = CliRunner().invoke(application(), ["results"])
    assert sound.exit_code == 0 and "80.00" in sound.stdout
    for name, (content, _) in BAD_RESULTS.items():
        folder = kept / "bad" / name / "smoke-seed1"
        if isinstance(content, dict):
            kept_content(folder, **content)
            continue
        folder.mkdir(parents=True)
        text = json.dumps(content) if isinstance(content, list) else content
        text = text.encode() if isinstance(text, str) else text
        (folder / "result.json").write_bytes(text)
    (kept / "bad" / "a folder" / "smoke-seed1" / "result.json").mkdir(parents=True)
    done = CliRunner().invoke(application(), ["results"])
    lines = done.stdout.splitlines()
    assert done.exit_code == 1 and done.stdout.count("80.00") == 1
    for name, (_, why) in BAD_RESULTS.items():
        (line,) = (line for line in lines if line.startswith(f"bad/{name} "))
        assert "unreadable: " in line and why in line
    assert any(line.startswith("bad/a folder ") and "Is a directory" in line for line in lines)
    only = CliRunner().invoke(application(), ["results", "ptb/*"])
    assert only.exit_code == 0 and "unreadable" not in only.stdout


def test_a_result_with_a_part_of_another_reader_is_listed(tmp_path, monkeypatch):
    """`--with` its file tells in what it differs from the recipe; without, its variant does."""
    from course_lab.cli import application

    monkeypatch.setattr(folders, "home", lambda: tmp_path)
    experiment = course_lab.profile(recipes["ptb/vd-lstm-200/tied"], "quick").to_dict()
    experiment["output_layer"] = {"kind": "Theirs", "options": {}}
    kept = tmp_path / "data" / "results" / "theirs" / "quick-seed1-k=3"
    kept_content(kept, experiment=experiment | {"name": "theirs", "variant": "k=3"})
    done = CliRunner().invoke(application(), ["results"])
    assert done.exit_code == 0 and "80.00" in done.stdout and done.stdout.rstrip().endswith("k=3")
    file = tmp_path / "their_file.py"
    file.write_text("print('their file is loaded')\n")
    assert (
        "their file is loaded"
        in CliRunner().invoke(application(), ["results", "--with", str(file)]).stdout
    )


def test_a_pattern_without_a_result_is_answered_with_names_near_it(tmp_path, monkeypatch):
    from course_lab.cli import application

    monkeypatch.setattr(folders, "home", lambda: tmp_path)
    kept_content(tmp_path / "data" / "results" / "ptb" / "vd-lstm-200" / "tied" / "smoke-seed1")
    answers = {
        "ptb/vd-lstm-200/tide": "unknown recipe of a kept result .*did you mean ptb/vd-lstm-200/ti",
        "nope*": "unknown recipe of a kept result 'nope.*known: ptb/vd-lstm-200/tied",
        "vd-lstm*": "try '.vd-lstm.'",
    }
    for pattern, answer in answers.items():
        with pytest.raises(CourseError, match=answer):
            CliRunner().invoke(application(), ["results", pattern], catch_exceptions=False)


@pytest.mark.parametrize("name", ["../up", "/root", "a//b", "a/./b", "a\\b", "c:b"])
def test_names_that_lead_out_of_the_folder_of_runs_are_refused(name):
    experiment = recipes["ptb/vd-lstm-200/tied"]
    with pytest.raises(CourseError, match="name names the folder of a run"):
        experiment.change(name=name)
    for setting in ("variant", "profile"):
        for wrong in ("a/b", name):
            with pytest.raises(CourseError, match=f"{setting} names the folder of a run"):
                experiment.change(**{setting: wrong})
        with pytest.raises(CourseError, match=f"{setting} must be a word, not 3"):
            experiment.change(**{setting: 3})


def test_options_are_held_against_their_annotations():
    """Also those that no list of counts and shares knows."""
    for role, wrong, said in [
        ("output_layer", part("Softmax", bias="no"), "bias of Softmax must be true or false, not"),
        ("words", part("FullWords", init=[0.1]), "init of FullWords must be a .*number.*, not"),
        (
            "adaptation",
            part("ContinuousCache", theta=[9, "x"]),
            "number.* or a list, each entry a .*number",
        ),
        ("encoder", part("AWDLSTM", units=[8], init="x"), "init .* must be a .*number.* or none"),
    ]:
        with pytest.raises(CourseError, match=said):
            wrong.build(role, *[8] * {"words": 2, "encoder": 1, "output_layer": 1}.get(role, 0))
    part("ContinuousCache", window=9, theta=[0.1, 1], weight=0.2).build("adaptation")
    part("ZLoss", weight=np.float64(0.1)).build("objective")  # which is a float
    rate = {"learning_rate": np.float64(0.1)}
    recipes["ptb/vd-lstm-200/tied"].change(optimisation=rate | {"groups": {"words.": rate}})


def test_classes_of_the_reader_need_no_annotations(monkeypatch):
    """As lessons 5 and 9 have them written; or such as only a type checker understands."""

    class Plain(Softmax):
        def __init__(self, words, hidden_size=None, share=4, kind="a", bias=True):
            super().__init__(words, hidden_size, bias)
            self.share = share

    class Typed(Softmax):
        def __init__(self, words, size, share: "Optional[int]" = 4, kind: Literal["b"] = "b"):  # noqa: UP045
            super().__init__(words, size)
            self.share = share

    kinds = dict(parts_module.KINDS)
    kinds["output_layer"] = (*kinds["output_layer"], Plain, Typed)
    monkeypatch.setattr(parts_module, "KINDS", kinds)
    base = recipes["ptb/vd-lstm-200/tied"].change(size=8, encoder={"units": 8})
    for name in ("Plain", "Typed"):
        mine = base.change(output_layer=Part(name, {"share": 2, "kind": "b"}))
        mine = overrides.override(mine, {"output_layer.share": 3})
        assert mine.build(9).output_layer.share == 3
    typed = base.change(output_layer=part("Typed", share=2))
    with pytest.raises(CourseError, match="share must be a whole number or none, not 'x'"):
        overrides.override(typed, {"output_layer.share": "x"})


def test_committed_results_are_whole_and_say_where_they_come_from():
    for folder in course_lab.kept_results():
        content = course_lab.read_result(folder)
        experiment = Experiment.from_dict(content["experiment"])
        runs = folders.home() / "runs"
        assert folder == results.kept_folder() / results.run_folder(experiment).relative_to(runs)
        # lessons take a run's settings from today's recipe
        base = profile(recipes[experiment.name], experiment.profile, experiment.seed)
        changes = dict(overrides.differences(base, experiment))
        if (
            "/vd-lstm-200/" in experiment.name and not experiment.start_from
        ):  # of before their decay began an epoch later
            changes.pop("optimisation.schedule.start", None)
        if experiment.variant in ("3-epochs", "3-epochs-plainly"):  # of before plans named them
            assert changes.keys() <= {"optimisation.epochs", "ranked_contexts"}
        else:
            assert planned.label(changes) == experiment.variant, folder
        epochs = 0 if experiment.is_counted else experiment.optimisation.epochs
        assert len(content["epochs"]) == epochs
        digests = content["provenance"]["corpus_sha256"]
        sides = experiment.corpus.options.get("direction", "").split("-")  # of sentence pairs
        assert all(len(digests[f"train.{side}".strip(".")]) == 64 for side in sides)


def test_clusters_by_frequency_need_words_by_frequency(tmp_path):
    """Else each would hold words at random, which trains and says nothing."""
    for split in ("train", "valid", "test"):
        (tmp_path / f"{split}.txt").write_text("a b b c c c c\n" * 3)
    own, adaptive = part(str(tmp_path)), part("AdaptiveSoftmax", cutoffs=[2])
    tied = recipes["ptb/vd-lstm-200/tied"].change(corpus=own, output_layer=adaptive)
    with pytest.raises(CourseError, match="in another order; load them with the option by_freq"):
        course_lab.run(tied, tmp_path / "run", progress=False)
    counts = tied.change(corpus={"by_frequency": True}).load_corpus().counts
    assert counts.tolist() == sorted(counts.tolist(), reverse=True)
    small = {"train": 500, "valid": 200, "test": 200, "words": 20, "by_frequency": True}
    quick = {"size": 4, "encoder": {"units": 4}, "optimisation": {"epochs": 1, "batch": 5}}
    fits = tied.change(corpus=part("docstrings", small=small), **quick)
    course_lab.run(fits, tmp_path / "fits", progress=False, device="cpu")


def test_clusters_by_frequency_look_at_the_text_that_is_trained_on(tmp_path):
    """The half of a text has counts of its own: its words are put in their order, or refused."""
    words = {"first": "b a c c", "second": "a b b a a c"}
    text = "".join(f"{line}\n" * 60 for line in words.values())
    for split in ("train", "valid", "test"):
        (tmp_path / f"{split}.txt").write_text(text)
    recipe = recipes["ptb/vd-lstm-200/tied"].change(
        output_layer=part("AdaptiveSoftmax", cutoffs=[2]),
        size=4,
        encoder={"units": 4},
        optimisation={"epochs": 1, "batch": 2, "evaluation_batch": 2},
    )
    for half in words:
        unsorted = recipe.change(corpus=part(str(tmp_path), half=half))
        with pytest.raises(CourseError, match=f"{half} half. are in another order; load them with"):
            course_lab.run(unsorted, tmp_path / half, progress=False)
        by_frequency = unsorted.change(corpus={"by_frequency": True})
        corpus = by_frequency.load_corpus()
        assert corpus.is_by_frequency and corpus.decode(corpus.valid[:5]) == "b a c c\n"
        course_lab.run(by_frequency, tmp_path / f"sorted-{half}", progress=False, device="cpu")
    # a part of a half keeps that order, which is not the whole's
    small = {"train": 200, "valid": 100, "test": 100}
    counts = by_frequency.change(corpus={"small": small}).load_corpus().counts
    assert counts.tolist() == sorted(counts.tolist(), reverse=True)


def test_where_results_come_from_is_said_of_all_of_them():
    def kept(device, threads, torch, commit):
        source = {"device": device, "threads": threads, "commit": commit * 10}
        return {"provenance": source | {"packages": {"torch": torch}}}

    one = kept("a CPU", 1, "2.13", "abcd")
    assert provenance.describe_origin([]) == "No result is kept here."
    assert provenance.describe_origin([one]) == (
        "1 kept results, made on a CPU, 1 thread, with PyTorch 2.13 at commit abcdabc."
    )
    three = provenance.describe_origin([one, kept("a GPU", 2, "2.11", "efgh"), one])
    assert three == (
        "3 kept results, made on a CPU and a GPU, 1 and 2 threads, with PyTorch 2.11 and 2.13 at "
        "commits abcdabc and efghefg."
    )


def test_a_figure_that_is_not_finite_is_no_result(tmp_path):
    experiment = recipes["ptb/vd-lstm-200/tied"]
    metrics = {"test_perplexity": 3.0, "geometry": {"norms": [1.0, math.inf]}}
    with pytest.raises(CourseError, match="norms.1 is inf after the training.* learning rate"):
        results.write_result(tmp_path, experiment, [], metrics, {})
    assert not list(tmp_path.iterdir())


def test_arrays_of_a_result_are_kept_and_checked(tmp_path, monkeypatch):
    monkeypatch.setattr(folders, "home", lambda: tmp_path)
    experiment, folder = recipes["ptb/vd-lstm-200/tied"], tmp_path / "run"
    arrays = {"values": np.arange(5.0, dtype=np.float32), "counts": np.ones((2, 3), dtype=int)}
    figures = {"test_perplexity": 2.0}
    results.write_result(folder, experiment, [], figures, {}, arrays)
    target = course_lab.keep_result(folder)
    for name, array in results.read_arrays(target).items():
        assert array.dtype == arrays[name].dtype and (array == arrays[name]).all()
    results.write_result(folder, experiment, [], figures, {}, arrays)  # at another time
    assert course_lab.keep_result(folder) == target
    changed = arrays | {"values": arrays["values"] + 1}
    results.write_result(folder, experiment, [], figures, {}, changed)
    with pytest.raises(CourseError, match="keeps another result"):
        course_lab.keep_result(folder)
    np.savez(target / "arrays.npz", **changed)
    with pytest.raises(CourseError, match="does not match the checksums"):
        results.read_arrays(target)
    (target / "arrays.npz").write_bytes((target / "arrays.npz").read_bytes()[:100])
    with pytest.raises(CourseError, match="is damaged"):
        results.read_arrays(target)
    (target / "arrays.npz").unlink()
    with pytest.raises(CourseError, match="is missing; bring it beside"):
        results.read_arrays(target)
    results.write_result(folder, experiment, [], figures, {})
    assert results.read_arrays(folder) == {}


# --- results of an earlier day ---


def of_an_earlier_day(experiment: Experiment) -> dict:
    """The experiment as results were written that had the field `reading`."""
    plain = experiment.to_dict()
    plain["reading"] = plain.pop("input_embedding") | {"kind": "Reading"}
    return plain


def test_an_earlier_result_keeps_its_names_and_its_defaults():
    """The adversarial softmax that stated no gradient held the margin constant on that day."""
    today = recipes["docstrings/transformer-128/adversarial"]
    assert "gradient" not in today.output_layer.options  # which is Algorithm 1's
    then = Experiment.from_dict(of_an_earlier_day(today))
    assert then.input_embedding == today.input_embedding
    assert then.output_layer.options == today.output_layer.options | {"gradient": "none"}
    assert then.identity() != today.identity()
    stated = today.change(output_layer={"gradient": "hidden"})
    assert Experiment.from_dict(of_an_earlier_day(stated)) == stated
    plain = recipes["ptb/vd-lstm-200/tied"]
    assert Experiment.from_dict(of_an_earlier_day(plain)) == plain


@pytest.mark.parametrize("reading", [3, None, [1], {"kind": "Nonsense"}])
def test_a_damaged_earlier_result_is_refused_in_a_sentence(reading):
    plain = of_an_earlier_day(recipes["ptb/vd-lstm-200/tied"]) | {"reading": reading}
    with pytest.raises(CourseError):
        Experiment.from_dict(plain)


def test_a_result_of_both_days_is_refused():
    today = recipes["ptb/vd-lstm-200/tied"]
    plain = of_an_earlier_day(today) | {"input_embedding": today.to_dict()["input_embedding"]}
    with pytest.raises(CourseError, match="reading"):
        Experiment.from_dict(plain)


def test_the_list_of_results_says_what_a_recipe_has_changed_since():
    """Runs kept before the schedule of VD-LSTM was corrected began to decay an epoch earlier."""
    from course_lab.cli.results import _row

    folder = results.kept_folder() / "ptb/vd-lstm-200/baseline/standard-seed1"
    assert _row(folder).variant == "optimisation.schedule.start=5"
    folder = results.kept_folder() / "ptb/vd-lstm-200/tied/adamw/standard-seed1"
    assert _row(folder).variant == ""


def test_the_list_of_results_names_settings_and_has_recipes_first():
    """No variant is a checksum, whatever the name of its folder is."""
    from course_lab.cli import application
    from course_lab.cli.results import _row

    done = CliRunner().invoke(application(), ["results", "ptb/*"])
    lines = done.stdout.splitlines()[1:]
    variants = [bool(line.split(maxsplit=7)[7:]) for line in lines]
    assert variants == sorted(variants) and len(set(variants)) == 2
    assert not any(re.search(r"  [0-9a-f]{12}$", line) for line in lines)
    digests = [f for f in course_lab.kept_results() if re.search("-[0-9a-f]{12}$", f.name)]
    shown = {}
    for folder in digests[:: len(digests) // 20]:
        content = course_lab.read_result(folder)
        row = _row(folder)
        assert content["experiment"]["variant"] not in row.variant and "=" in row.variant
        shown.setdefault((row.name, row.profile, row.seed, row.variant), []).append(folder)
    assert all(len(folders) == 1 for folders in shown.values())
