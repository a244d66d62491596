"""Plans: what a file expands to, settings by dotted names, and what is refused."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

import course_lab
from course_lab import Experiment, corpora, evidence, part, plans, recipes, results, tables
from course_lab.comparison import paired_differences, seeds_for
from course_lab.keep import check_name
from course_lab.overrides import at, differences, override, settings
from course_lab.parts import Part
from course_lab.planned import Planned, command, earlier, label
from course_lab.plans import read_plan
from course_lib.errors import CourseError

BASE, CACHE = "ptb/vd-lstm-200/tied", "ptb/awd-lstm/softmax/continuous-cache"


def written(tmp_path, text, name="mine.toml"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def entries(tmp_path, *tables):
    text = 'title = "t"\n' + "".join(f"[[runs]]\n{table}\n" for table in tables)
    return read_plan(written(tmp_path, text))


# What a plan expands to --------------------------------------------------------------------------


def test_a_plan_is_the_product_of_recipes_seeds_and_settings(tmp_path):
    plan = entries(
        tmp_path,
        'recipes = ["ptb/vd-lstm-200/*"]',
        f'recipes = ["{BASE}"]\nprofile = "standard"\nseeds = [2, 3]\n'
        'change = {"optimisation.epochs" = 7}\n'
        'grid = {"encoder.dropout" = [0.1, 0.5], "size" = [8, 16]}',
    )
    assert (plan.title, plan.path.name) == ("t", "mine.toml")
    columns = ["baseline", "augmented", "tied", "tied-augmented"]  # and no second session
    assert [p.recipe for p in plan.runs[:4]] == [f"ptb/vd-lstm-200/{c}" for c in columns]
    assert all((p.profile, p.seed, p.change) == ("standard", 1, {}) for p in plan.runs[:4])
    assert [(p.seed, p.change["encoder.dropout"], p.change["size"]) for p in plan.runs[4:]] == [
        (seed, dropout, size) for seed in (2, 3) for dropout in (0.1, 0.5) for size in (8, 16)
    ]
    assert all(p.change["optimisation.epochs"] == 7 for p in plan.runs[4:])
    assert len({p.key for p in plan.runs}) == 12
    assert entries(tmp_path, f'recipes = ["{BASE}"]').runs == (Planned(BASE),)


@hypothesis_settings(deadline=None)
@given(
    seeds=st.lists(st.integers(1, 50), min_size=1, max_size=3, unique=True),
    dropout=st.lists(st.sampled_from([0.1, 0.2, 0.4, 0.6]), min_size=1, max_size=3, unique=True),
    epochs=st.lists(st.integers(1, 9), min_size=1, max_size=3, unique=True),
)
def test_the_order_of_settings_does_not_change_the_runs(tmp_path_factory, seeds, dropout, epochs):
    tmp_path = tmp_path_factory.mktemp("plans")
    one, two = f'"encoder.dropout" = {dropout}', f'"optimisation.epochs" = {epochs}'
    keys = []
    for grid in (f"{one}, {two}", f"{two}, {one}"):
        table = f'recipes = ["{BASE}"]\nseeds = {seeds}\ngrid = {{{grid}}}'
        keys.append({p.key for p in entries(tmp_path, table).runs})
    assert keys[0] == keys[1] and len(keys[0]) == len(seeds) * len(dropout) * len(epochs)


def test_a_planned_run_is_its_recipe_with_the_settings_changed():
    planned = Planned(BASE, "smoke", 3, {"encoder.dropout": 0.4, "optimisation.epochs": 5})
    experiment = planned.experiment()
    wanted = course_lab.profile(recipes[BASE], "smoke", 3).change(
        encoder={"dropout": 0.4}, optimisation={"epochs": 5}, variant=planned.variant
    )
    assert experiment == wanted
    assert planned.variant == "encoder.dropout=0.4,optimisation.epochs=5"
    assert planned.key == f"{BASE}/smoke-seed3-{planned.variant}"
    assert Experiment.from_dict(json.loads(json.dumps(experiment.to_dict()))) == experiment


def test_one_experiment_has_one_name():
    """Settings equal to the recipe's are dropped; 5 is 5.0 where the recipe has a 5.0."""
    plain = Planned(BASE, "full", 3)
    assert plain == Planned(BASE, "standard", 3)  # where the two are the same training
    assert plain.key == f"{BASE}/standard-seed3" and plain.experiment().variant == ""
    same_again = {"encoder.dropout": 0.3, "optimisation.clip": 5, "size": 200}
    assert Planned(BASE, "full", 3, same_again) == plain
    whole = Planned(BASE, change={"optimisation.clip": 4})
    assert whole == Planned(BASE, change={"optimisation.clip": 4.0})
    assert type(whole.experiment().optimisation.clip) is float
    shorter = "docstrings/transformer-128/tied"
    full, standard = Planned(shorter, "full"), Planned(shorter, "standard")
    assert (full.profile, standard.profile) == ("full", "standard") and full.key != standard.key


def test_differences_are_the_settings_that_override_would_take():
    """Of two experiments: a round trip; a list is one setting, 1 is not True, 1 is not 1.0."""
    base = recipes["ptb/awd-lstm/mos"]
    changes = {
        "encoder.units": [960, 960, 500],
        "output_layer.components": 10,
        "optimisation.epochs": 3,
        "regularizers.1.weight": 0.5,
        "objectives.0.weight": 2.0,  # which the recipe leaves at its default
        "tied": False,
    }
    changed = override(base, changes)
    assert dict(differences(base, changed)) == changes
    assert list(differences(base, base)) == [] == list(differences(changed, changed))
    assert override(base, dict(differences(base, changed))) == changed
    again = Experiment.from_dict(json.loads(json.dumps(changed.to_dict())))
    assert list(differences(changed, again)) == []  # tuples and lists are one
    part_of = {"a": True, "b": 1, "c": {"d": 1}}
    assert dict(differences(part_of, {"a": 1, "b": 1.0, "c": {"d": 1}})) == {"a": 1, "b": 1.0}
    assert dict(differences(part_of, {"a": True, "b": 1, "c": {"e": 1}})) == {"c": {"e": 1}}


def test_an_option_that_is_left_out_is_a_difference_that_no_plan_asks_for():
    base = recipes["ptb/awd-lstm/softmax/finetuned"]
    options = {name: v for name, v in base.encoder.options.items() if name != "hidden_dropout"}
    mine = base.change(encoder=Part(base.encoder.kind, options))
    assert [path for path, _ in differences(base, mine)] == ["encoder.hidden_dropout"]
    with pytest.raises(
        CourseError, match="has encoder.hidden_dropout of its own, as no plan can ask"
    ):
        check_name(mine)
    assert earlier(mine) == earlier(base)
    with pytest.raises(
        CourseError, match="has encoder.hidden_dropout of its own, as no command can ask"
    ):
        command(mine)


def test_settings_reach_the_run_that_one_starts_from():
    """Those of the model, as far as the two recipes agree in them; not those of the training."""
    name = f"{BASE}/second-session"
    run = Planned(name, "quick", 2, {"encoder.dropout": 0.4, "optimisation.epochs": 3})
    wanted = Planned(BASE, "quick", 2, {"encoder.dropout": 0.4}).experiment()
    assert earlier(run.experiment()) == wanted
    said = f"python -m course_lab train {BASE} --profile quick --seed 2 --change '"
    assert command(wanted) == f"{said}encoder.dropout=0.4'"
    with pytest.raises(CourseError, match=r"first run: .* --seed 2 --change 'encoder.dropout=0.4'"):
        course_lab.run(run.experiment(), progress=False)
    elsewhere = run.experiment().change(corpus=part("ptb"))
    assert earlier(elsewhere) == wanted  # by no plan; it begins with what there is
    plain = Planned(BASE, "quick", 2).experiment()
    assert earlier(Planned(name, "quick", 2, {"optimisation.clip": 1.0}).experiment()) == plain
    assert earlier(plain) is None
    # each round of fine-tuning goes back to the one before it, to the training that began it
    last = "ptb/awd-lstm/mos+adversarial/finetuned"
    chain = [Planned(last, "smoke", 1, {"size": 8}).experiment()]
    while chain[-1].start_from is not None:
        chain.append(earlier(chain[-1]))
    assert len(chain) > 2 and all((e.size, e.variant) == (8, "size=8") for e in chain)
    # the last round has a latent dropout of its own
    assert recipes[last].output_layer != earlier(recipes[last]).output_layer
    own = earlier(Planned(last, "smoke", 1, {"output_layer.dropout": 0.6}).experiment())
    assert own.variant == ""


def test_labels_are_readable_or_a_digest():
    assert label({}) == ""
    assert label({"output_layer.k": 1.5}) == "output_layer.k=1.5"
    assert label({"b": True, "a": [3, 4]}) == "a=[3,4],b=true"
    assert label({"a": "none"}) == "a=none"
    long = {f"encoder.option{i}": i for i in range(9)}
    digests = [label(long), label(long | {"encoder.option0": 1}), label({"a": "x/y"})]
    assert all(len(d) == 12 and int(d, 16) for d in digests) and len(set(digests)) == 3
    assert label(dict(reversed(long.items()))) == digests[0]
    assert label({"a": "trailing."}) == label({"a": "trailing."}) != "a=trailing."  # for Windows


def test_plans_of_the_course_are_known_by_name():
    assert "smoke" in plans.plans()
    plan = read_plan("smoke")
    assert len(plan.runs) == 8 and {p.profile for p in plan.runs} == {"smoke"}


# Settings by dotted names ------------------------------------------------------------------------


def rich():
    """An experiment with every kind of node."""
    return recipes[BASE].change(
        objectives=(part("CrossEntropy"), part("ZLoss", weight=0.1)),
        regularizers=(part("PolynomialPrior", weight=2.0, c1=1, gamma=0.9),),
        corpus=part("docstrings", small={"train": 100, "words": 20}),
        optimisation={"groups": {"words.": {"learning_rate": 0.5}}},
    )


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("size", 100),
        ("tied", False),
        ("start_weights", "best"),
        ("output_dropout", 0.5),
        ("optimisation.epochs", 10),
        ("optimisation.clip", 0.25),
        ("optimisation.average_after", 3),  # None in the recipe
        ("optimisation.schedule.start", 9),
        ("optimisation.betas", (0.5, 0.6)),
        ("optimisation.groups", {"words.": {"learning_rate": 2.0}}),
        ("encoder.dropout", 0.9),
        ("words.normal", True),  # an option that the recipe does not state
        ("corpus.half", "first"),
        ("corpus.small.train", 50),
        ("objectives.1.weight", 0.7),
        ("regularizers.0.gamma", 0.5),
    ],
)
def test_override_changes_one_setting_and_no_other(path, value):
    before = rich()
    after = override(before, {path: list(value) if isinstance(value, tuple) else value})
    assert at(after, path) == value and type(at(after, path)) is type(value)
    assert before == rich() and after != before
    back = at(before, path)
    if back is not None:
        assert override(after, {path: back}) == before
    assert Experiment.from_dict(json.loads(json.dumps(after.to_dict()))) == after


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("sise", 1, "unknown setting 'sise'; did you mean size"),
        ("optimisation.epoch", 1, "did you mean optimisation.epochs"),
        ("optimisation.schedule.rat", 1, "did you mean optimisation.schedule.rate"),
        ("encoder.droput", 0.1, "did you mean encoder.dropout"),
        ("encoder.input_size", 1, "unknown setting 'encoder.input_size'"),
        ("output_layer.hidden_size", 1, "unknown setting 'output_layer.hidden_size'"),
        ("output_layer.k", 1.5, "unknown setting 'output_layer.k'; did you mean"),  # of a softmax
        ("regularizers.1.gamma", 1.0, "known: regularizers.0|did you mean regularizers.0"),
        ("regularizers.0.gama", 1.0, "did you mean regularizers.0.gamma"),
        ("corpus.small.trian", 1, "did you mean corpus.small.train"),
        ("corpus.smal", 1, "did you mean corpus.small"),
        ("corpus.pieces", 99, "unknown setting 'corpus.pieces'"),  # of sentence pairs
        ("corpus.small.train", -5, "small.train must be a whole number of at least 1, not -5"),
        ("corpus.half", "third", "corpus.half must be 'first' or 'second', not 'third'"),
        ("output_dropout", float("nan"), "output_dropout must be a number .*, not nan"),
        ("start_weights", "lst", "start_weights must be 'last' or 'best', not 'lst'"),
        ("size.x", 1, "size is 200, with nothing in it"),
        ("adaptation.window", 1, "adaptation is not set in the recipe"),
        ("encoder", "QRNN", "encoder is made of several settings; name one, in quotes: \"enc"),
        ("optimisation", {"epochs": 1}, '"optimisation.optimizer"'),
        ("regularizers", [1], '"regularizers.0"'),
        ("seed", 2, "unknown setting 'seed'"),
        ("variant", "x", "unknown setting 'variant'"),
        ("optimisation.epochs", 2.5, "optimisation.epochs must be a whole number.*, not 2.5"),
        ("optimisation.epochs", True, "epochs must be a whole number.*, not True"),
        ("optimisation.clip", "5", "clip must be a .*number.* or none, not '5'"),
        ("size", -3, "size must be a whole number of at least 1, not -3"),
        ("encoder.dropout", 1.5, "dropout must be a number at least 0 and below 1, not 1.5"),
        ("optimisation.epochs", -1, "epochs .*must be a whole number of"),
        ("encoder.dropout", "high", "encoder.dropout must be a .*number.*, not 'high'"),
        ("encoder.units", {"a": 1}, "units must be a whole number.*, not {'a': 1}"),
        ("encoder.units", -5, "encoder.units must be a whole number of at least 1, not -5"),
        ("encoder.layers", 2.5, "layers must be a whole number.*, not 2.5"),
        ("encoder.dropout", [0.1, 0.2], "dropout must be a .*number.*, not .0.1"),  # no search
        ("encoder.init", "wide", "encoder.init must be a .*number.*, not 'wide'"),
        ("output_layer.bias", "yes", "output_layer.bias must be true or false, not 'yes'"),
        ("optimisation.betas", [0.9], "betas must be a list of 2, each entry a .*number"),
        ("optimisation.weight_decay", -0.1, "weight_decay .*must be a number .*0"),
        ("encoder.layers", 0, "encoder.layers must be a whole number of at least 1, not 0"),
    ],
)  # fmt: skip
def test_settings_that_cannot_be_meant_are_refused(path, value, message):
    with pytest.raises(CourseError, match=message):
        override(rich(), {path: value})


@pytest.mark.parametrize(
    ("recipe", "path", "value"),
    [
        ("ptb/awd-lstm/gss/et-asgd", "output_layer.k", -1),
        ("ptb/awd-lstm/mos", "output_layer.components", 0),
        ("ptb/awd-lstm/adversarial", "output_layer.alpha", -5.0),
        ("ptb/awd-lstm/adversarial", "input_embedding.noise", -1.0),
        ("docstrings/transformer-128/capped", "output_layer.cap", -30),
        ("docstrings/transformer-128/smoothed", "objectives.0.epsilon", 5),
        ("docstrings/transformer-128/smoothed", "objectives.0.epsilon", -1),
        ("docstrings/transformer-128/augmented", "objectives.1.temperature", -20),
        ("wikitext-2/awd-lstm/cosine", "regularizers.2.weight", float("nan")),
    ],
)
def test_constants_out_of_their_range_are_refused_before_a_run(recipe, path, value):
    """Each range is declared where the constant is; all of these once gave regular results."""
    with pytest.raises(CourseError, match=f"{path} must be .*, not {value}"):
        Planned(recipe, change={path: value})


def test_changes_hold_together_in_any_order():
    """One rule of averaging for another; "none" where TOML has no null."""
    base = recipes["ptb/awd-lstm/softmax"]
    changes = {"optimisation.average_after": "none", "optimisation.average_from": 3}
    changes |= {
        "optimisation.epochs": 5,
        "encoder.input_dropout": 0.1,
        "encoder.units": [8, 8, 400],
    }
    found = override(base, changes)
    assert found == override(base, dict(reversed(changes.items())))
    assert found.optimisation.average_after is None and found.optimisation.average_from == 3
    assert found.encoder.options == base.encoder.options | {
        "input_dropout": 0.1, "units": [8, 8, 400]
    }  # fmt: skip
    assert Planned(base.name, change=changes).change["optimisation.average_after"] is None
    none = {"optimisation.average_after": None}
    assert override(base, none) == override(base, {"optimisation.average_after": "none"})
    with pytest.raises(CourseError, match="epochs must be .*, not 'none'"):
        override(base, {"optimisation.epochs": "none"})
    with pytest.raises(CourseError, match="averaged by one rule, not by average_from and average_"):
        override(base, {"optimisation.average_from": 3})
    with pytest.raises(CourseError, match="would begin in epoch 9, but the run ends with epoch 5"):
        Planned(base.name, change=changes | {"optimisation.average_from": 9})
    with pytest.raises(CourseError, match="corpus.small is given both as a whole and in part"):
        override(rich(), {"corpus.small": {"train": 3}, "corpus.small.train": 4})


def test_none_may_be_a_word():
    """Of an option that knows it: the adversarial softmax's gradient."""
    base = recipes["ptb/awd-lstm/adversarial"]
    given = override(base, {"output_layer.gradient": "none"})
    assert given.output_layer.options["gradient"] == "none"
    stated = override(base, {"output_layer.gradient": "hidden"})
    assert override(stated, {"output_layer.gradient": "none"}) == given
    stated = override(base, {"output_layer.epsilon": 0.1})
    none = override(stated, {"output_layer.epsilon": "none"})
    assert none.output_layer.options["epsilon"] is None
    with pytest.raises(CourseError, match="alpha must be a .*number.*, not 'none'"):
        override(base, {"output_layer.alpha": "none"})
    missing = [
        planned.key
        for name in plans.plans()
        if name.startswith("lessons-")
        for planned in read_plan(name).runs
        if not (results.kept_folder() / planned.key / "result.json").exists()
    ]
    assert missing == []


@pytest.mark.parametrize(
    ("recipe", "path", "value", "said"),
    [
        (
            "cldr/transformer-tiny",
            "optimisation.batch",
            5,
            "a translator, which does not read",
        ),
        ("cldr/transformer-tiny", "optimisation.random_length", True, "is a translator"),
        ("cldr/transformer-tiny", "optimisation.evaluation_length", 9, "is a translator"),
        (
            "cldr/transformer-tiny",
            "ranked_contexts",
            9,
            "which does not read ranked_contexts",
        ),
        (BASE, "optimisation.max_tokens", 9, "is a language model, which does not read opt"),
        (CACHE, "ranked_contexts", 9, "adapts at test time, .* leave ranked_contexts off"),
        (CACHE, "optimisation.learning_rate", 1.0, "trains no epochs, so opt.* without effect"),
        (
            BASE,
            "optimisation.betas",
            [0.5, 0.6],
            "sgd, which does not read opt.*betas",
        ),
        (BASE, "optimisation.eps", 1e-6, "which does not read optimisation.eps; change"),
    ],
)
def test_settings_that_nothing_reads_are_refused(recipe, path, value, said):
    with pytest.raises(CourseError, match=said):
        Planned(recipe, change={path: value})


def test_a_run_without_training_still_divides_its_text_among_processes():
    assert Planned(CACHE, change={"optimisation.batch": 24}).experiment().optimisation.batch == 24


def test_settings_of_a_command_line():
    given = ["encoder.dropout=0.4", "optimisation.shard=true", "output_layer.gradient=hidden"]
    assert settings([*given, "encoder.units=[8, 4]"]) == {
        "encoder.dropout": 0.4, "optimisation.shard": True, "output_layer.gradient": "hidden",
        "encoder.units": [8, 4],
    }  # fmt: skip
    with pytest.raises(CourseError, match="given as path=value, such as .*, not 'seed'"):
        settings(["seed"])
    with pytest.raises(CourseError, match="size is given twice; leave one"):
        settings(["size=3", "encoder.dropout=0.4", "size=4"])


def test_a_plan_that_is_not_there(tmp_path):
    for path in (tmp_path / "mine.toml", tmp_path, Path("mine.toml")):
        with pytest.raises(CourseError, match=f"there is no plan file {path}$"):
            read_plan(path)
    with pytest.raises(CourseError, match="unknown plan 'xyz'; known: desk.* and [0-9]+ more$"):
        read_plan("xyz")


def test_a_start_that_does_not_exist_is_refused_with_the_plan():
    with pytest.raises(CourseError, match="unknown recipe 'ptb/vd-lstm-200/tide'; did you mean"):
        Planned(BASE, change={"start_from": "ptb/vd-lstm-200/tide"})


# Refused files -----------------------------------------------------------------------------------

ONE = f'title = "t"\n[[runs]]\nrecipes = ["{BASE}"]\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("title = x", "mine.toml is not readable TOML: .*line 1"),
        ('title = "t"\n[[run]]', "unknown field of a plan 'run'; did you mean runs"),
        ('title = "t"', r"a plan needs the field runs"),
        ('title = "t"\nruns = []', r"at least one table \[\[runs\]\]"),
        ("title = 3\nruns = []", "title must be a word, not 3"),
        (ONE + "seed = [1]", r"number 1: unknown field of \[\[runs\]\] 'seed'; did you mean seeds"),
        (
            ONE + "seeds = 3",
            "seeds must be a list, each entry a whole number of at least 0 .*, not 3",
        ),
        (ONE + "seeds = [true]", "seeds.0 must be a whole number of at least 0 .*, not True"),
        (ONE + "seeds = []", "seeds must not be empty"),
        (ONE + 'profile = "ful"', "unknown profile 'ful'; did you mean full"),
        (ONE + "profile = 1", "profile must be a word, not 1"),
        (ONE + "change = 3", "change must be a table, not 3"),
        (ONE + 'change = {"optimisation.epoch" = 3}', "did you mean optimisation.epochs"),
        (ONE + "change = {optimisation.epochs = 3}", "optimisation is made of several settings"),
        (ONE + "grid = {size = []}", "grid of size is empty"),
        (ONE + "grid = {size = 3}", "grid.size must be a list, not 3"),
        (ONE + "change = {size = 3}\ngrid = {size = [3]}", "size is both in change and in grid"),
        (ONE + "seeds = [1, 1]", "tied/standard-seed1 is in the plan already"),
        (ONE + "grid = {size = [8, 8]}", "size=8 is in the plan already"),
        (
            ONE + ONE.partition("\n")[2] + 'profile = "standard"',
            "is in the plan already: the profiles full and standard are the same here",
        ),
        (
            ONE + 'corpus = "a.txt"\nchange = {corpus = "b.txt"}',
            "corpus is both a field of its own and in change or grid",
        ),
        (ONE + ONE.partition("\n")[2] + "change = {size = 200}", "number 2: .* is in the plan al"),
        (
            'title = "t"\n[[runs]]\nrecipes = "a"',
            "recipes must be a list, each entry a word, not 'a'",
        ),
        ('title = "t"\n[[runs]]\nseeds = [1]', r"\[\[runs\]\] needs the field recipes"),
        ('title = "t"\n[[runs]]\nrecipes = ["ptb/vd-lstm-200/tide"]', "did you mean ptb/vd-lstm"),
        ('title = "t"\n[[runs]]\nrecipes = ["ptb/vd-lstm-201/*"]', "did you mean ptb/vd-lstm-2"),
    ],
)
def test_plans_that_cannot_be_meant_are_refused_with_the_file(tmp_path, text, message):
    with pytest.raises(CourseError, match=message) as caught:
        read_plan(written(tmp_path, text))
    assert "mine.toml" in str(caught.value)


def test_a_plan_with_a_byte_order_mark_is_read(tmp_path):
    assert read_plan(written(tmp_path, "\ufeff" + ONE)).runs == (Planned(BASE),)


@pytest.mark.parametrize("settings", [3, 11])
def test_a_plan_of_too_many_runs_is_refused_before_they_are_made(tmp_path, monkeypatch, settings):
    """A grid of 10⁶ runs, and one of more than a machine's whole numbers hold."""
    monkeypatch.setattr(plans, "Planned", None)
    grid = ", ".join(f'"setting{i}" = {list(range(100))}' for i in range(settings))
    with pytest.raises(CourseError, match="comes to 10*,[0,]+ runs, but may have at most 5,000"):
        read_plan(written(tmp_path, f"{ONE}grid = {{{grid}}}"))


def test_an_unknown_plan_lists_the_near_matches(tmp_path):
    with pytest.raises(CourseError, match="unknown plan 'smok'; did you mean smoke"):
        read_plan("smok")
    (tmp_path / "bytes.toml").write_bytes(b"title = '\xff'")
    with pytest.raises(CourseError, match="bytes.toml is not readable TOML"):
        read_plan(tmp_path / "bytes.toml")


def test_options_of_a_corpus_are_those_of_its_loader():
    """Stated in the recipe or not: by a plan or a command the same as in a recipe."""
    lower = override(recipes["multi30k/transformer-small/softmax"], {"corpus.lowercase": False})
    assert lower.corpus.options["lowercase"] is False
    ordered = override(recipes["ptb/awd-lstm/softmax"], {"corpus.by_frequency": True})
    assert ordered.corpus.options["by_frequency"] is True
    with pytest.raises(CourseError, match="corpus.by_frequency must be true or false, not 'False'"):
        override(recipes["ptb/awd-lstm/softmax"], {"corpus.by_frequency": "False"})
    for name, option in (
        ("ptb/awd-lstm/softmax", "words"),
        ("multi30k/transformer-small/softmax", "half"),
        ("multi30k/transformer-small/softmax", "words"),
        ("ptb/awd-lstm/softmax", "download"),
    ):
        with pytest.raises(CourseError, match=f"unknown setting 'corpus.{option}'"):
            override(recipes[name], {f"corpus.{option}": 1})


@pytest.mark.parametrize(
    ("recipe", "path", "value", "named"),
    [
        ("ptb/awd-lstm/softmax", "encoder.init", 1, "1.0"),  # may be none
        ("ptb/awd-lstm/adversarial", "output_layer.epsilon", 1, "1.0"),
        ("docstrings/transformer-128/plif", "output_layer.low", -20, "-20"),
        ("docstrings/transformer-128/adversarial", "output_layer.alpha", 1, "1.0"),  # stated
    ],
)
def test_folders_of_runs_keep_their_names(recipe, path, value, named):
    """Another name would train a run again that is done."""
    assert Planned(recipe, "quick", 1, {path: value}).variant == f"{path}={named}"


@pytest.mark.parametrize("pieces", [0, -1])
def test_a_vocabulary_of_no_pieces_is_refused(pieces):
    with pytest.raises(CourseError, match="pieces must be a whole number of at least 1"):
        Planned("multi30k/transformer-small/softmax", "full", 1, {"corpus.pieces": pieces})
    with pytest.raises(CourseError, match="pieces must be a whole number of at least 1"):
        corpora.load("cldr", pieces=pieces)


def test_a_date_is_no_word(tmp_path):
    with pytest.raises(CourseError, match="2020-01-01 has to be in quotes"):
        written = tmp_path / "plan.toml"
        written.write_text(f'title = 2020-01-01\n[[runs]]\nrecipes = ["{BASE}"]\n')
        read_plan(written)
    with pytest.raises(CourseError, match="2020-01-01 has to be in quotes"):
        entries(tmp_path, f'recipes = ["{BASE}"]\nchange = {{start_from = 2020-01-01}}')


# What a plan declares ----------------------------------------------------------------------------

COMPARED = "lessons-* desk* optimiser-and-cone record-holders half-hour-gpu generalisation gss-grid"


def test_every_plan_that_a_claim_may_read_declares_family_tuning_and_budget():
    """A claim reads kept runs of any plan, and the kept runs to come of these."""
    spent = evidence.hours(evidence.read())
    names = {*spent.index[spent.kept > 0]}
    for pattern in (*COMPARED.split(), "precision", "short-budget*"):
        matching = {name for name in plans.plans() if Path(name).match(pattern)}
        assert matching, pattern
        names |= matching
    for name in plans.plans():
        plan = read_plan(name)
        assert plan.tuned, name
        if name not in names:
            continue
        assert plan.baselines and plan.hours, name
        assert plan.margin == 2.0 or name == "precision"
        tables.check_baseline(plan)
        for part_of_plan in tables.by_text(plan):
            models = tables.models_of(part_of_plan)
            declared = [one for one in plan.baselines if one in models]
            assert len(declared) == 1, (name, declared)


def test_a_plan_says_how_it_was_tuned_in_a_sentence(tmp_path):
    text = f'title = "t"\ntuned = "By hand."\n[[runs]]\nrecipes = ["{BASE}"]\n'
    assert read_plan(written(tmp_path, text)).tuned == "By hand."
    with pytest.raises(CourseError, match="tuned is a sentence: it ends with a full stop"):
        read_plan(written(tmp_path, text.replace("hand.", "hand")))


def test_the_search_of_the_desk_tries_the_baseline_as_often_as_every_method():
    """And says so, as the desk says that it has no rate from there, until all of it is run."""
    search = read_plan("desk-tuning")
    tries = {run.recipe: 0 for run in search.runs}
    for run in search.runs:
        tries[run.recipe] += 1
    assert {*tries.values()} == {9} and "nine tries" in search.title and "nine" in search.tuned
    groups = {name: set() for name in tries}
    for run in search.runs:
        groups[run.recipe].add(str(run.experiment().optimisation.groups))
    own = {name for name, rates in groups.items() if len(rates) > 1}
    assert own == {f"ptb/desk/{m}" for m in ("spectrum-control", "spectrum-polynomial", "muon")}
    runs = evidence.of_plan(evidence.read(), "desk-tuning")
    is_done = all(run is not None for _, run in runs)
    assert read_plan("desk").tuned.startswith("Nothing was tuned") != is_done


def test_the_seeds_of_the_desk_see_two_per_cent():
    """By the spread of its pilot, as if pairs spread like strangers, and by its own pairs."""
    of = evidence.read()

    def perplexities(name):
        plan, by_model = read_plan(name), {}
        models = tables.models_of(plan)
        for model, (planned, run) in zip(models, evidence.of_plan(of, name), strict=True):
            by_model.setdefault(model, {})
            if run is not None:
                by_model[model][planned.seed] = run.perplexity("test")
        return by_model

    plan, desk = read_plan("desk"), perplexities("desk")
    seeds = {model: 0 for model in desk}
    for model in tables.models_of(plan):
        seeds[model] += 1
    assert {*seeds.values()} == {5, 10} and seeds[plan.baselines[0]] == 10
    pilot = np.log([*perplexities("optimiser-and-cone")["tied/adamw"].values()])
    assert len(pilot) == 5
    assert seeds_for(plan.margin, 100 * np.sqrt(2) * pilot.std(ddof=1)) < min(seeds.values())
    for model, by_seed in desk.items():
        if model != plan.baselines[0] and len(by_seed) > 2:  # two seeds tell no spread
            spread = paired_differences(desk, model, plan.baselines[0]).std(ddof=1)
            assert seeds_for(plan.margin, spread) <= seeds[model], model
