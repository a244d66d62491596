"""Every published row has a recipe, every recipe trains, and every option matters: of each kind of
part each option that some recipe states, tried in the first that does."""

import functools
import json
import re
import tempfile
from collections import defaultdict
from dataclasses import asdict, fields, replace
from pathlib import Path
from statistics import median
from types import SimpleNamespace

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

import course_lab
from course_lab import PROFILES, Experiment, Part, corpora, cost, published, rates, recipes, results
from course_lab.parts import KINDS, annotations
from course_lab.planned import Planned
from course_lab.plans import plans, read_plan
from course_lab.recipes import baselines, profiles, wang2020
from course_lab.recipes.registry import Recipes, add, continued
from course_lib import data
from course_lib.data import folders
from course_lib.errors import CourseError
from course_lib.models import detach, lstm_recurrence
from course_lib.output_layers import SpectralWords
from course_lib.regularizers import Orthogonality
from course_lib.training import Constant, Optimisation

OWN = "the course's own"
DESK = ("ptb/desk/", "ptb/desk-part/", "wikitext-2/desk/", "multi30k/transformer-small/")
MODELS = {name: (r.encoder.kind, r.output_layer.kind) for name, r in recipes.items()}
TRAINED = {name: r for name, r in recipes.items() if not r.is_counted}  # n-grams: test_counting.py


# Published rows ----------------------------------------------------------------------------------


def test_every_published_row_has_a_recipe_that_names_its_table():
    """Total over the file; a row without a recipe says why."""
    table = published.rows()
    assert len(table) == 1232 and not table["value"].isna().any()
    reached = defaultdict(set)
    for _, row in table.iterrows():
        name = row["recipe"]
        assert (name == "") == row["note"].startswith("no recipe: ")
        assert row["task"] != "theory" or not name
        if name:
            reached[name].add((row["paper"], row["table"]))
            assert (row["paper"], row["table"]) in published.cited(recipes[name].source), name
            corpus, model, method = row["corpus"], row["model"], row["method"]
            assert name.startswith(f"{corpus}/{model}/")
            assert method in name or row["paper"] == "inan2017"
    # What a recipe cites is there for it or for one that goes on from it, and none is left over.
    for name, tables in list(reached.items()):
        while name := recipes[name].start_from:
            reached[name] |= tables
    for name, recipe in recipes.items():
        assert recipe.source.startswith(OWN) or published.cited(recipe.source) <= reached[name]
        assert recipe.source.startswith(OWN) == (name not in reached), name


@pytest.mark.parametrize(
    ("row", "name"),
    [
        ("inan2017,1,ptb,vd-lstm-200,tied,", "ptb/vd-lstm-200/tied/second-session"),
        ("inan2017,1,ptb,vd-lstm-200,baseline,", "ptb/vd-lstm-200/baseline"),
        ("wang2019,1,ptb,awd-lstm,mos,without dynamic evaluation", "ptb/awd-lstm/mos/finetuned"),
        ("wang2020,8,wikitext-2,awd-lstm,spectrum-control,polynomial prior",
         "wikitext-2/awd-lstm/spectrum-control/polynomial-prior"),
        ("wang2020,8,wmt14/en-de,transformer-base,spectrum-control,polynomial prior",
         "wmt14/en-de/transformer-base/spectrum-control"),
        ("parthiban2021,S4,ptb,awd-lstm,mos,NT-ASGD K=3", "ptb/awd-lstm/mos/components-3"),
        ("parthiban2021,S4,ptb,awd-lstm,mos,NT-ASGD K=15", "ptb/awd-lstm/mos"),
        ("parthiban2021,S12,ptb,awd-lstm,mos,NT-ASGD latent dropout 0",
         "ptb/awd-lstm/mos/latent-dropout-0"),
        ("parthiban2021,S11,wikitext-2,awd-lstm,softmax,NT-ASGD authors' seed",
         "wikitext-2/awd-lstm/softmax"),
        ("parthiban2021,S3,ptb,awd-lstm,moc,MEN", "ptb/awd-lstm/moc/et-asgd"),
        ("parthiban2021,S1,wikitext-2,awd-lstm,mos,10 seeds", "wikitext-2/awd-lstm/mos/et-asgd"),
        ("gao2019,2,wmt14/de-en,conv-s2s,softmax,trained by the authors", ""),
    ],
)  # fmt: skip
def test_rows_stand_for_the_recipe_that_a_reader_would_choose(row, name):
    table = published.rows()
    columns = ["paper", "table", "corpus", "model", "method"]
    wanted = row.split(",")
    alike = table[(table[columns] == wanted[:5]).all(axis=1)]
    alike = alike[alike["setting"].str.match(rf"{re.escape(wanted[5])}(?![.\d])")]
    assert set(alike["recipe"]) == {name}


def test_the_change_of_a_row_is_that_of_its_plan():
    """Table 7 of wang2020 times one epoch, in batches of its own."""
    table = published.rows()
    changed = table[table["change"] != ""]
    assert set(changed["paper"] + changed["table"]) == {"wang20207"} and len(changed) == 12
    runs = read_plan("wang2020-table-7").runs
    for row in changed.to_dict("records"):
        assert Planned(row["recipe"], change=published.change_of(row)) in runs


def test_supplementary_tables_agree_with_the_tables_of_the_paper():
    """Ranks of Tables S17 and S18 are those of Table 6; two figures of one model are both told."""
    table = published.rows()
    table = table[(table["paper"] == "parthiban2021") & (table["corpus"] != "")]
    ranked = table[table["metric"] == "effective-rank"]
    columns = ["corpus", "method", "setting", "value"]
    both = [set(map(tuple, ranked[ranked["table"].isin(t)][columns].values)) for t in
            (["6"], ["S17", "S18"])]  # fmt: skip
    assert both[0] == both[1] and len(both[0]) == 30
    told = table[table["note"].str.startswith("the paper gives two")]
    assert set(told["value"]) == {13_229, 13_215, 35.92, 39.11}
    shown = table[table["table"] == "S2"]
    assert len(shown) == 500 and shown["value"].between(0, 1).all()


def test_published_ranks_are_taken_by_the_runs_that_they_are_of():
    """Of as many contexts as the paper takes, at full scale and not where the text is small."""
    contexts, table = {"ptb": 82_430, "wikitext-2": 33_320}, published.rows()
    table = table[table.metric.isin(["rank", "effective-rank"]) & (table.task != "theory")]
    names = set(table["recipe"])
    assert len(names) > 25
    for name in names:
        assert recipes[name].ranked_contexts == contexts[recipes[name].corpus.kind], name
        assert course_lab.profile(recipes[name], "full").ranked_contexts is not None
        assert course_lab.profile(recipes[name], "quick").ranked_contexts is None
    assert all(r.ranked_contexts is None for r in recipes.values() if r.adaptation is not None)
    for bad in (0, 2.5, "all"):
        with pytest.raises(CourseError, match=f"ranked_contexts must be a whole .*, not .?{bad}"):
            recipes["ptb/awd-lstm/softmax"].change(ranked_contexts=bad)


def test_published_figures_need_the_repository(tmp_path, monkeypatch):
    monkeypatch.setattr(folders, "home", lambda: tmp_path)
    with pytest.raises(CourseError, match="published.csv is missing"):
        published.rows()


# Recipes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", PROFILES)
def test_recipes_round_trip_through_json_and_build(profile):
    for name, recipe in TRAINED.items():
        experiment = course_lab.profile(recipe, profile, seed=3)
        same = course_lab.profile(recipe, "standard").optimisation == recipe.optimisation
        of_the_desk = profile == "desk" and name.startswith(DESK)  # of that size already
        named = "standard" if of_the_desk or (profile == "full" and same) else profile
        assert experiment.profile == named and experiment.seed == 3 and experiment.source
        assert Experiment.from_dict(json.loads(json.dumps(experiment.to_dict()))) == experiment
        if recipe.start_from is not None:  # the same model, whatever the profile
            start = course_lab.profile(recipes[recipe.start_from], profile, seed=3)
            assert built_alike(start) == built_alike(experiment), name
        elif profile == "full":
            assert built_alike(experiment), name
        for role in ("adaptation", "decoding"):
            if getattr(experiment, role) is not None:
                getattr(experiment, role).build(role)


def test_small_texts_keep_what_a_recipe_needs_of_its_own(embedded):
    """Halves are different texts; what has clusters of words has words by falling frequency."""

    def small(name):
        return course_lab.profile(recipes[name], "smoke").load_corpus()

    halves = [n for n, r in recipes.items() if "half" in r.corpus.options]
    texts = {(r.corpus.options["half"], small(n).sha256["train"]) for n in halves
             for r in [recipes[n]]}  # fmt: skip
    assert len(texts) == len({text for _, text in texts}) == 2
    clustered = [n for n, r in recipes.items() if r.output_layer.kind == "AdaptiveSoftmax"]
    assert clustered and all((small(n).counts.diff() <= 0).all() for n in clustered[:2])


def built_alike(experiment):
    """The shapes of all parameters, on the meta device."""
    return tuple((k, tuple(p.shape)) for k, p in meta(experiment, 2_000).named_parameters())


def meta(experiment, words):
    """The model without weights; recipes with the same parts share one."""
    e = experiment
    parts = (
        e.encoder,
        e.words,
        e.output_words,
        e.size,
        e.tied,
        e.output_layer,
        e.regularizers,
        e.objectives,
    )
    key = repr((*parts, words))
    if key not in _META:
        if e.output_layer.kind == "AdaptiveSoftmax" and words < 200_001:
            experiment = e.change(output_layer={"cutoffs": [100, 200]})
        with torch.device("meta"):
            _META[key] = experiment.build(words)
    return _META[key]


_META = {}
MILLION = 1_000_000


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("ptb/vd-lstm-200/baseline", 4_653_200),
        ("ptb/vd-lstm-200/tied", 2_643_200),
        ("ptb/vd-lstm-1500/tied-augmented", 51 * MILLION),
        ("ptb/vd-rhn/baseline", 32 * MILLION),
        ("ptb/vd-rhn/tied", 24 * MILLION),
        ("ptb/awd-lstm/softmax", 24_221_600),
        ("wikitext-2/awd-lstm/softmax", 33_556_078),
        ("ptb/awd-lstm/plif/et-asgd", 24_321_600),
        ("wikitext-2/awd-lstm/plif/et-asgd", 33_656_078),
        ("ptb/awd-lstm/mos/components-1", 19_057_620),
        ("ptb/awd-lstm/mos/components-3", 19_406_620),
        ("ptb/awd-lstm/mos/components-5", 19_755_620),
        ("ptb/awd-lstm/mos/components-10", 20_628_120),
        ("ptb/awd-lstm/mos", 21_500_620),
        ("ptb/awd-lstm/moc/et-asgd", 21_500_620),
        ("ptb/awd-lstm/mos/components-20", 22_373_120),
        ("wikitext-2/awd-lstm/mos", 34_909_528),
        ("ptb/awd-lstm/mos/equal-capacity", 17_535_200),
        ("ptb/awd-lstm/softmax/equal-capacity", 17_560_880),
        ("ptb/awd-lstm/softmax/equal-width", 16_350_800),
        ("wikitext-103/transformer-xl-16/softmax", 151 * MILLION),
        ("wikitext-103/transformer-xl-4/softmax", 120 * MILLION),
        ("wmt14/en-de/transformer-base/softmax", 63 * MILLION),  # Vaswani et al. 2017, Table 3: 65
        ("wmt14/en-de/transformer-big/softmax", 214 * MILLION),  # 213
    ],
)
def test_parameter_counts_are_the_published_ones(name, parameters):
    words = cost.corpus_size(recipes[name].corpus).words
    model = meta(recipes[name], words)
    rounded = parameters % MILLION == 0  # as the table gives them
    count = sum(p.numel() for p in model.parameters())
    assert count == pytest.approx(parameters, abs=600_000 if rounded else 0)


def test_parameters_of_published_rows():
    """parthiban2021, Table 2: rounded to ten thousand, the second corpus rounded down."""
    table = published.rows()
    for _, row in table[table["metric"] == "parameters"].iterrows():
        recipe = recipes[row["recipe"]]
        model = meta(recipe, cost.corpus_size(recipe.corpus).words)
        count = sum(p.numel() for p in model.parameters())
        assert count == pytest.approx(row["value"], abs=10_000)


def test_every_trained_row_of_inan2017_has_a_recipe():
    """Tables 1 to 3: four columns for each size and corpus, the halves, the highway networks."""
    kinds = ("baseline", "augmented", "tied", "tied-augmented")
    corpora = {"ptb": (200, 650, 1500), "wikitext-2": (200, 650)}
    corpora |= {f"wikitext-2/{half}-half": (200,) for half in ("first", "second")}
    for corpus, sizes in corpora.items():
        for size in sizes:
            four = [recipes[f"{corpus}/vd-lstm-{size}/{kind}"] for kind in kinds]
            assert [r.tied for r in four] == [False, False, True, True]
            assert [len(r.objectives) for r in four] == [1, 2, 1, 2]
            assert all(r.size == size == r.encoder.options["units"] for r in four)
            gamma = four[1].objectives[1].options["weight"] / 20
            assert gamma == (0.65 if corpus == "ptb" else 1.25)
    dropouts = [recipes[f"{c}/vd-lstm-{s}/tied"].encoder.options["dropout"]
                for c, s in (("ptb", 200), ("ptb", 650), ("ptb", 1500), ("wikitext-2", 200),
                             ("wikitext-2", 650))]  # fmt: skip
    assert dropouts == [0.3, 0.5, 0.65, 0.2, 0.4]
    o = recipes["ptb/vd-lstm-200/tied"].optimisation
    assert (o.learning_rate, o.clip, o.batch, o.length) == (1.0, 5.0, 20, 35)
    assert (o.schedule.rate, o.schedule.start, o.sum_over_steps) == (0.9, 6, True)


def test_recipes_compute_in_the_precision_that_the_page_on_gpus_states():
    narrow = {name for name, recipe in recipes.items() if recipe.optimisation.precision == "bf16"}
    own = {f"ptb/vd-lstm-200/tied/{name}" for name in ("adamw", "coupled-adam")}
    desk = {name for name in recipes if "/desk" in name and not name.endswith("/sgd")}
    own |= desk - {"ptb/desk/plif", "ptb/desk/plif-frozen"}
    short = {name for name in recipes if name.endswith("/short") or "/one-sitting" in name}
    assert narrow == own | (short - {"ptb/awd-lstm/plif/short"})
    assert all(recipes[name].optimisation.precision == "fp32" for name in set(recipes) - narrow)


def test_the_page_on_gpus_says_what_precision_costs_as_soon_as_it_is_measured():
    """Kept results that differ in nothing else measure it, or for TF32 a table of its imitation.

    The page says where there are none.
    """
    precisions = defaultdict(set)
    for path in results.kept_folder().rglob("result.json"):
        experiment = json.loads(path.read_text("utf-8"))["experiment"]
        precision = experiment["optimisation"].pop("precision")
        unlike = {k: v for k, v in experiment.items() if k not in ("name", "seed", "variant")}
        precisions[json.dumps(unlike, sort_keys=True)].add(precision)
    page = (folders.home() / "docs/how-to/gpu.md").read_text("utf-8")
    for narrow in ("tf32", "bf16"):
        measured = any({"fp32", narrow} <= kinds for kinds in precisions.values())
        if narrow == "tf32":
            measured |= (results.kept_folder() / "benchmarks/tf32.json").exists()
        unmeasured = f"What `{narrow}` costs in perplexity is not measured yet" in page
        assert unmeasured != measured, narrow


def test_every_row_of_parthiban2021_has_one_trigger():
    """Two models are compared under the same rule of averaging only."""
    for name, recipe in recipes.items():
        o = recipe.optimisation
        if name.endswith("/et-asgd"):
            assert (o.average_from, o.average_after) == (201, None)
        if name.endswith("/nt-asgd") or "/mos/components" in name or "/latent-dropout" in name:
            assert (o.average_from, o.average_after) == (None, 5)
        if name.endswith(("/et-asgd", "/nt-asgd")) and "mo" not in name.split("/")[2]:
            assert o.learning_rate == (20 if name.startswith("ptb") else 30)


def test_finetuning_starts_from_the_best_weights_and_goes_on_from_round_to_round():
    name = "ptb/awd-lstm/mos+adversarial"
    rounds = [f"{name}/finetuned/round-{i}" for i in (1, 2, 3)] + [f"{name}/finetuned"]
    assert [recipes[r].start_from for r in rounds] == [name, *rounds[:-1]]
    assert recipes[f"{name}/dynamic-evaluation"].start_from == rounds[-1]
    for finetuned in map(recipes.get, rounds):
        o = finetuned.optimisation
        assert finetuned.start_weights == "best"
        assert (o.average_from, o.average_after, o.patience, o.learning_rate) == (1, None, 5, 25)
        assert finetuned.output_layer.options["alpha"] == 0.028
        assert finetuned.input_embedding.options["noise"] == 0
    latent = [recipes[r].output_layer.options["dropout"] for r in rounds]
    assert latent == [0.29, 0.29, 0.29, 0.5]
    adapted = recipes["wikitext-2/awd-lstm/cosine/continuous-cache"]
    assert adapted.optimisation.epochs == 0 and adapted.adaptation == baselines.CACHE_WT2


def test_rows_of_the_desk_begin_with_one_norm():
    """Every prior's σ have the Frobenius norm of the plain matrix, N d numbers within ±0.1."""
    plain = (10_000 * 200 * 0.1**2 / 3) ** 0.5
    norms = {
        name: prior.build("regularizer").values(200).norm().item()
        for name, recipe in recipes.items()
        if name.startswith("ptb/desk/")
        for prior in recipe.regularizers
        if prior.kind.endswith("Prior")
    }
    assert len(norms) >= 6 and norms == pytest.approx(dict.fromkeys(norms, plain), rel=0.005)


def test_the_record_s_start_is_all_that_its_row_changes():
    """Parametrisation, penalties and rates are those of `tied`; only σ falls, from the same σ₁."""
    tied, half = (recipes[f"ptb/desk/{name}"] for name in ("tied", "spectrum-start-half"))
    same = half.change(words=tied.words, name=tied.name, source=tied.source)
    assert same.to_dict() == tied.to_dict()
    begun = [course_lab.profile(recipe, "smoke").build(300) for recipe in (tied, half)]
    plain, falling = (torch.linalg.svdvals(model.words.matrix().detach()) for model in begun)
    torch.testing.assert_close(falling, plain[0] / torch.arange(1, len(plain) + 1).sqrt())


def test_what_the_past_and_the_copy_need_draws_nothing():
    """The rows that differ in no shape begin as `tied` does, weight by weight."""
    begun = {
        name: course_lab.profile(recipes[f"ptb/desk/{name}"], "smoke").build(300).state_dict()
        for name in (
            "tied",
            "past-decode",
            "tied-then-untied",
            "input-gradient-scaled",
            "capped-15",
        )
    }
    for name, weights in begun.items():
        assert all(torch.equal(weights[k], v) for k, v in begun["tied"].items()), name
    one, two = (begun["tied-then-untied"][f"{w}words.weight"] for w in ("", "output_layer."))
    assert torch.equal(one, two)


def test_priors_begin_with_the_norm_of_the_usual_initialisation():
    for name, recipe in recipes.items():
        priors = [p for p in recipe.regularizers if p.kind.endswith("Prior")]
        if priors and recipe.source.startswith("wang2020"):  # the course's own begin smaller
            words, size = cost.corpus_size(recipe.corpus).words, recipe.size
            values = priors[0].build("regularizer").values(size)
            usual = {"AWDLSTM": 0.1 / 3**0.5, "TransformerXL": 0.02, "Transformer": size**-0.5}
            usual = usual[recipe.encoder.kind] * (words * size) ** 0.5
            assert values.square().sum().sqrt().item() == pytest.approx(usual, rel=0.01), name
            assert 0.04 < values[-1] / values[0] < 0.18
    base = recipes["wikitext-2/awd-lstm/softmax"]
    ours = wang2020.controlled(base, sigma=2.0).optimisation
    assert ours.groups == {"words.": {"learning_rate": 7.5}}
    adam = base.change(optimisation={"optimizer": "adamw"})
    ours = wang2020.controlled(adam, sigma=2.0).optimisation
    assert ours.groups == {"words.": {"learning_rate": 15.0}}


def test_recipes_are_entered_by_difference():
    """`add` changes a base, `continued` goes on from one; unknown names list the near matches."""
    before = dict(recipes)
    try:
        first = add(recipes["ptb/awd-lstm/softmax"], name="mine", output_dropout=0.1)
        second = continued(first, "longer", optimisation={"epochs": 3})
        assert (second.name, second.start_from, second.start_weights) == (
            "mine/longer",
            "mine",
            "best",
        )
        assert recipes["mine/longer"].optimisation.epochs == 3 and second.output_dropout == 0.1
        finetuned = baselines.finetuned(first, "me")
        cached = baselines.adapted(first, "cache", "me", baselines.CACHE_WT2, start=finetuned)
        parted = add(first, name="parted", tied=False, optimisation={"tied_until": 0.5})
        after = (
            baselines.finetuned(parted, "me"),
            baselines.adapted(parted, "cache", "me", baselines.CACHE_WT2, start=parted),
        )
        assert [one.optimisation.tied_until for one in after] == [None, None]  # parted for good
        assert cached.start_from == "mine/finetuned" and cached.optimisation.average_from is None
        assert baselines.transformer("wmt14", "de-en", "big").size == 1024
    finally:
        for name in set(recipes) - set(before):
            del recipes[name]
    with pytest.raises(CourseError, match="unknown recipe 'ptb/vd-lstm-200/tide'; did you mean"):
        Recipes(recipes)["ptb/vd-lstm-200/tide"]


# Training ----------------------------------------------------------------------------------------


TEXT = {"train": 1_500, "valid": 80, "test": 80, "words": 300}
PAIRS = {"train": 60, "valid": 10, "test": 4, "words": 300}


@pytest.fixture(scope="module")
def embedded():
    """Embedded corpora are read once, and git is not asked about every run."""
    patch, known, load = pytest.MonkeyPatch(), {}, Experiment.load_corpus

    def loaded(experiment):
        key = repr(experiment.corpus)
        if key not in known:
            known[key] = load(experiment)
        return known[key]

    patch.setattr(Experiment, "load_corpus", loaded)
    patch.setattr("course_lab.provenance.commit", lambda: "")
    yield
    patch.undo()


def tiny(recipe, **changes):
    """The recipe in the smoke profile, on a text of a few steps, from weights of its own."""
    clusters = recipe.output_layer.kind == "AdaptiveSoftmax"  # of words by frequency
    own = {"corpus": {"small": TEXT | {"by_frequency": True} if clusters else TEXT}}
    if recipe.translates:
        own = {"corpus": {"small": PAIRS}, "decoding": {"beam": 2, "extra": 2}}
    experiment = course_lab.profile(recipe, "smoke").change(start_from=None)
    return experiment.change(**own | changes)


def trained(experiment, folder):
    """Everything a run of `experiment` ends with: weights, figures by epoch, final figures."""
    result = course_lab.run(experiment, folder, progress=False, device="cpu")
    rows = [{k: v for k, v in e.items() if "seconds" not in k} for e in result.epochs]
    return result.model.state_dict(), rows, result.metrics


def shape(experiment):
    """What decides which code runs: kinds of parts and which options are at work, no sizes."""
    e, o = experiment, asdict(experiment.optimisation)

    def kind(p):
        off = (0, 0.0, None, False)
        return p and (p.kind, tuple(k for k, v in p.options.items() if v not in off))

    run = [type(e.optimisation.schedule).__name__] + [
        o[k] if isinstance(o[k], str | bool) else o[k] is None or not o[k]
        for k in ("optimizer", "precision", "average_from", "average_after", "average_last")
        + ("partial_shuffle", "random_length", "epochs", "groups", "clip", "sum_over_steps")
    ]  # fmt: skip
    parts = (e.encoder, e.words, e.output_layer, e.input_embedding, e.adaptation)
    parts = [*map(kind, (*parts, *e.objectives, *e.regularizers)), e.tied]
    return repr((parts, run))


def groups():
    """One recipe for each shape."""
    chosen = {}
    for name, recipe in TRAINED.items():
        chosen.setdefault(shape(tiny(recipe)), name)
    return list(chosen.values())


@pytest.mark.parametrize("name", groups())
def test_every_recipe_trains_in_the_smoke_profile(name, tmp_path, embedded):
    """Two steps or more through `run`, on the code of each recipe; sizes apart they are alike."""
    experiment = tiny(recipes[name])
    weights, rows, metrics = trained(experiment, tmp_path)
    assert len(rows) == experiment.optimisation.epochs
    for row in rows:
        assert row["tokens"] > 0 and row["train_perplexity"] > 1
    assert all(w.isfinite().all() for w in weights.values())
    assert 1 < metrics["valid_perplexity"] < 1e6 and 1 < metrics["test_perplexity"] < 1e6
    if rows:
        fresh = experiment.build(300).state_dict()
        moved = [k for k, w in fresh.items() if k in weights and w.shape == weights[k].shape]
        assert any((fresh[k] != weights[k]).any() for k in moved)


class Enough(Exception):
    """Two steps have been done."""


def after_two(step, model):
    if step == 2:
        raise Enough


@pytest.mark.parametrize("name", sorted(set(TRAINED) - set(groups())))
def test_every_other_recipe_takes_two_steps(name, tmp_path, embedded):
    """Those whose code another one runs to the end above, with their own options."""
    experiment = tiny(recipes[name])
    options = {"progress": False, "device": "cpu"}
    if experiment.optimisation.epochs == 0:  # adapted only
        course_lab.run(experiment, tmp_path, **options)
    else:
        with pytest.raises(Enough):
            course_lab.run(experiment, tmp_path, callback=after_two, **options)


def test_a_whole_chain_of_recipes_runs_one_from_the_other(tmp_path, monkeypatch, embedded):
    monkeypatch.setattr(folders, "home", lambda: tmp_path)
    monkeypatch.setitem(profiles._TEXT, "smoke", TEXT)
    name = "ptb/awd-lstm/mos+adversarial"
    chain = ["", "/finetuned/round-1", "/finetuned/round-2", "/finetuned/round-3", "/finetuned"]
    results = []
    for suffix in (*chain, "/dynamic-evaluation"):
        experiment = course_lab.profile(recipes[name + suffix], "smoke")
        results.append(course_lab.run(experiment, progress=False, device="cpu"))
    best = [course_lab.load_checkpoint(r.folder)[0].state_dict() for r in results]
    for i, (before, after) in enumerate(zip(best[:-2], best[1:-1], strict=True), 1):
        # no worse than its start, or the start itself where no epoch was better
        kept = results[i].metrics["best_epoch"] == 0
        assert kept == all((before[k] == after[k]).all() for k in before)
        figures = [results[j].metrics["valid_perplexity"] for j in (i - 1, i)]
        assert figures[1] == pytest.approx(figures[0]) if kept else figures[1] < figures[0] * 1.01
    assert all((best[-2][k] == best[-1][k]).all() for k in best[-1])  # adapted, then back
    assert "adaptation" in results[-1].metrics


def test_the_factors_of_spectral_normalization_train_at_a_rate_that_their_penalty_bears():
    """From near orthonormal columns SGD settles at the recipe's rate, and not at the loss's."""
    recipe = recipes["wikitext-2/awd-lstm/spectral-normalization"]
    rate = recipe.optimisation.groups["words.U"]["learning_rate"]
    assert rate == recipe.optimisation.groups["words.V"]["learning_rate"]
    penalty = next(p for p in recipe.regularizers if p.kind == "Orthogonality").build("regularizer")
    ends = {}
    for name, step in {"recipe": rate, "loss": recipe.optimisation.learning_rate}.items():
        torch.manual_seed(0)
        words = SpectralWords(60, 8)
        with torch.no_grad():
            for factor in (words.U, words.V):
                factor += 0.01 * torch.randn_like(factor)
        factors, begin = [words.U, words.V], penalty(words).item()
        for _ in range(30):
            for factor, slope in zip(
                factors, torch.autograd.grad(penalty(words), factors), strict=True
            ):
                factor.data -= step * slope
        ends[name] = penalty(words).item() / begin
    assert ends["recipe"] < 0.1 and not ends["loss"] < 1


# Options -----------------------------------------------------------------------------------------

# What another value is where one more or half as much would not show on a text of a few steps.
OTHER = {
    "memory": 5,
    "window": 20,
    "cutoffs": [150, 250],
    "evaluation_memory": 5,
    "evaluation_clamp": 1,
}
OTHER |= {"average_from": None, "groups": {}, "max_steps": 1, "low": -0.01}
OTHER |= {"high": 0.01, "betas": (0.5, 0.6), "eps": 1e-3, "optimizer": "coupled-adam"}
OTHER |= {"max_tokens": 200, "average_last": None, "constraint": "centred"}
# Read by the loop between epochs (tests/test_training.py); how much is read in a search.
ELSEWHERE = {"average_after", "keep", "patience", "search_tokens", "evaluation_length"}


def other(name, value):
    """Another value for an option."""
    if name in OTHER:
        return OTHER[name]
    if name == "precision":
        return "fp32" if value == "bf16" else "bf16"
    if value == "none":  # the inert gradient of an adversarial softmax
        return "hidden"
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return 1 if name == "heads" else value + 1
    if isinstance(value, float):
        return value / 2 if value else 0.3
    if isinstance(value, list):
        return [value[0] + 1, *value[1:]]
    raise AssertionError(f"no other value for {name} = {value}")


def stated():
    """(setting, its recipe's name) for every option of a part that some recipe states."""
    found = {}
    for name, recipe in TRAINED.items():
        parts = {role: getattr(recipe, role) for role in ("encoder", "words", "output_layer")}
        parts["output_words"] = recipe.output_words
        parts |= {"input_embedding": recipe.input_embedding, "adaptation": recipe.adaptation}
        for role in ("objectives", "regularizers"):
            parts |= {f"{role}.{i}": p for i, p in enumerate(getattr(recipe, role))}
        for role, p in parts.items():
            for option in p.options if p else ():
                if option not in ELSEWHERE:
                    found.setdefault((role.partition(".")[0], p.kind, option), (role, name))
    return [(*place, option) for (_, _, option), place in found.items()]


@functools.cache
def reference(name, epochs):
    """The run that a changed one is compared with."""
    with tempfile.TemporaryDirectory() as folder:
        return trained(tiny(recipes[name], optimisation={"epochs": epochs}), Path(folder))


def differ(one, two):
    """Whether two runs end with other weights or other figures."""
    (w, rows, figures), (v, others, more) = one, two
    same = w.keys() == v.keys() and all(
        w[k].shape == v[k].shape and bool((w[k] == v[k]).all()) for k in w
    )
    return not (same and rows == others and figures == more)


@pytest.mark.parametrize(
    ("name", "epochs"),
    sorted({(name, 0 if role == "adaptation" else 1) for role, name, _ in stated()}),
)
def test_the_same_options_make_no_difference(name, epochs, tmp_path, embedded):
    """Else the next test would pass whatever an option did."""
    same = tiny(recipes[name], optimisation={"epochs": epochs})
    assert not differ(reference(name, epochs), trained(same, tmp_path))


@pytest.mark.parametrize(("role", "name", "option"), stated())
def test_every_option_of_a_part_makes_a_difference(role, name, option, tmp_path, embedded):
    """Weights, figures or predictions are others when an option has another value."""
    epochs = 0 if role == "adaptation" else 1
    experiment = tiny(recipes[name], optimisation={"epochs": epochs})
    kind, _, index = role.partition(".")
    if index:
        parts = list(getattr(experiment, kind))
        value = parts[int(index)].options[option]
        options = parts[int(index)].options | {option: other(option, value)}
        parts[int(index)] = Part(parts[int(index)].kind, options)
        experiment = experiment.change(**{kind: tuple(parts)})
    else:
        value = getattr(experiment, role).options[option]
        experiment = experiment.change(**{role: {option: other(option, value)}})
    assert differ(reference(name, epochs), trained(experiment, tmp_path))


def test_every_option_of_a_corpus_reaches_what_reads_it(monkeypatch):
    """What each does there is tested beside the corpora: tests/lab/test_corpora_….py."""
    monkeypatch.setattr(corpora, "load", lambda kind, **options: (kind, options))
    monkeypatch.setattr(Experiment, "translates", False)  # what is loaded here is neither
    for recipe in recipes.values():
        kind, options = recipe.corpus.kind, dict(recipe.corpus.options)
        for part_of_it in ("half", "small"):
            options.pop(part_of_it, None)
        assert recipe.change(corpus=Part(kind, options)).load_corpus() == (kind, options)


def set_fields():
    """(field of the optimisation, a recipe that states another value than the default's)."""
    found = {}
    for name, recipe in recipes.items():
        for f in fields(Optimisation):
            if getattr(recipe.optimisation, f.name) != getattr(Optimisation(), f.name):
                found.setdefault(f.name, name)
    return [(f, name) for f, name in found.items() if f not in {*ELSEWHERE, "schedule"}]


@pytest.mark.parametrize(("name", "recipe"), set_fields())
def test_every_setting_of_the_optimisation_makes_a_difference(name, recipe, tmp_path, embedded):
    epochs = 2 if name == "average_last" else 1
    experiment = tiny(recipes[recipe], optimisation={"epochs": epochs})
    if name == "average_last":
        experiment = experiment.change(optimisation={name: 2})
    if experiment.encoder.kind == "TransformerXL":  # distances tell little with small weights
        experiment = experiment.change(encoder={"init": 0.3})
    value = getattr(experiment.optimisation, name)
    changed = experiment.change(optimisation={name: other(name, value)})
    runs = [trained(e, tmp_path / f"{i}") for i, e in enumerate((experiment, changed))]
    assert differ(*runs)


def grouped():
    """(recipe, group, setting) for each setting that some recipe gives a group of parameters."""
    found = {}
    for name, recipe in recipes.items():
        for group, settings in recipe.optimisation.groups.items():
            for setting in settings:
                found.setdefault((group, setting), name)
    return [(name, *place) for place, name in found.items()]


@pytest.mark.parametrize(("name", "group", "setting"), grouped())
def test_every_setting_of_a_group_makes_a_difference(name, group, setting, tmp_path, embedded):
    """To the parameters of that group."""
    experiment = tiny(recipes[name], optimisation={"epochs": 1})
    groups = experiment.optimisation.groups
    another = {"optimizer": "muon"}.get(setting) or other(setting, groups[group][setting])
    groups = groups | {group: groups[group] | {setting: another}}
    changed = trained(experiment.change(optimisation={"groups": groups}), tmp_path)[0]
    before = reference(name, 1)[0]
    names = [parameter for parameter in before if parameter.startswith(group)]
    assert names and any(not torch.equal(before[p], changed[p]) for p in names)


def factors(schedule, epochs, steps=20_000):
    """The schedule's factors over a run."""
    at = range(1, steps, 20)
    return [schedule(step / steps, 1 + step * epochs // steps, step) for step in at]


def test_every_schedule_makes_a_difference():
    for name, recipe in recipes.items():
        schedule, epochs = recipe.optimisation.schedule, recipe.optimisation.epochs
        found = factors(schedule, epochs or 100)  # none: the weights are another recipe's
        assert schedule == Constant() or len(set(found)) > 1, name
        assert max(found) <= 1 and min(found) >= 0


def test_every_setting_of_a_schedule_makes_a_difference():
    """In every recipe, over its own number of epochs."""
    run = {(r.optimisation.schedule, r.optimisation.epochs) for r in recipes.values()}
    tried = set()
    for schedule, epochs in ((s, e) for s, e in run if e):
        for f in fields(schedule):
            value = getattr(schedule, f.name)
            if value == f.default:
                continue
            another = value + 1 if isinstance(value, int) else value / 2
            changed = replace(schedule, **{f.name: another})
            assert factors(changed, epochs) != factors(schedule, epochs), (schedule, f.name)
            tried.add((type(schedule).__name__, f.name))
    assert {("EpochDecay", "rate"), ("EpochDecay", "start"), ("OneCycle", "hold")} <= tried


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("ptb/vd-lstm-200/baseline", {"tied": True}),
        ("ptb/awd-lstm/softmax", {"output_dropout": 0.0}),
        ("ptb/awd-lstm/softmax", {"regularizers": ()}),
        ("ptb/vd-lstm-200/augmented", {"objectives": (Part("CrossEntropy"),)}),
        ("wikitext-2/awd-lstm/cosine/continuous-cache", {"adaptation": None}),
        ("multi30k/transformer-small/softmax", {"objectives": (Part("CrossEntropy"),)}),
        ("wikitext-2/awd-lstm/spectrum-control", {"words": Part("FullWords"), "regularizers": ()}),
        ("ptb/awd-lstm/sigsoftmax/et-asgd", {"output_layer": Part("Softmax")}),
    ],
)
def test_what_a_recipe_adds_makes_a_difference(name, changes, tmp_path, embedded):
    assert differ(trained(tiny(recipes[name]), tmp_path / "a"),
                  trained(tiny(recipes[name], **changes), tmp_path / "b"))  # fmt: skip


# Costs -------------------------------------------------------------------------------------------


RATES = cost.Rates({"fp32": 2e11, "bf16": 8e11}, {"fp32": 1e11, "bf16": 2e11})
COUNTED = [
    "ptb/vd-lstm-200/tied",
    "ptb/awd-lstm/mos",
    "ptb/awd-lstm/moc/et-asgd",
    "ptb/vd-rhn/tied",
    "wikitext-103/qrnn/softmax",
    "ptb/desk/past-decode",
    "wikitext-103/transformer-xl-4/softmax",
    "wikitext-2/awd-lstm/spectrum-control",
    "iwslt14/de-en/transformer-base/spectrum-control",
]


@pytest.mark.parametrize("name", COUNTED)
def test_operations_are_those_that_torch_counts(name, embedded, monkeypatch):
    """One training step of a small model, every product of matrices counted."""
    size = {"size": 32} | ({"encoder": {"units": [48, 48, 32]}} if "awd" in name else {})
    if "moc" in name or "mos" in name:
        size["encoder"] = {"units": [48, 48, 40]}
    o = {"batch": 8, "length": 40, "max_tokens": 400, "precision": "fp32"}
    experiment = tiny(recipes[name]).change(**size, optimisation=o)
    if experiment.encoder.kind in ("VariationalLSTM", "RHN"):
        experiment = experiment.change(encoder={"units": 32})
    elif experiment.encoder.kind == "QRNN":
        experiment = experiment.change(encoder={"units": [48, 48, 32]})
    if experiment.output_layer.kind == "AdaptiveSoftmax":  # whose share depends on the targets
        experiment = experiment.change(output_layer=Part("Softmax"))
    model = experiment.build(500).train()
    # torch's own LSTM is one operation, in which no products can be counted
    monkeypatch.setattr(lstm_recurrence, "quickest", lambda question, ways: "loop")
    generator = torch.Generator().manual_seed(0)
    tokens, target = torch.randint(4, 500, (2, 40, 8), generator=generator)
    state, inputs = None, (tokens,)
    if experiment.translates:
        length = cost.SENTENCE[experiment.corpus.kind]
        tokens, target, inputs = tokens[:length], target[:length], (tokens[:length],) * 2
    elif experiment.encoder.kind == "TransformerXL":
        state = detach(model(tokens.repeat(4, 1)).state)  # a full memory

    def in_place(into, a, b, out_shape=None, **_):  # which torch leaves out
        return 2 * a[0] * a[1] * b[1]

    mapping = {torch.ops.aten.addmm_: in_place}
    with FlopCounterMode(display=False, custom_mapping=mapping) as counter:
        model(*inputs, state=state, target=target).loss.backward()
    macs = cost.encoder_macs(model, experiment) + cost.output_macs(model, experiment)
    expected = 6 * macs * target.numel() + cost._penalties(model)
    assert counter.get_total_flops() == pytest.approx(expected, rel=0.12)


def test_operations_of_the_penalties_are_those_that_torch_counts():
    """Alone: beside a training step they are less than its estimate may be off."""
    words, penalty = SpectralWords(500, 32), Orthogonality()
    with FlopCounterMode(display=False) as counter:
        penalty(words).backward()
    model = SimpleNamespace(regularizers=(penalty,), output_layer=SimpleNamespace(words=words))
    assert counter.get_total_flops() == pytest.approx(cost._penalties(model), rel=0.02)
    assert cost._penalties(SimpleNamespace(regularizers=())) == 0


def test_costs_follow_the_sizes_of_a_run():
    """Epochs, components, precision and the head's share; text and pairs; test-time methods."""

    def of(name, **changes):
        return cost.cost(recipes[name].change(**changes), RATES)

    plain, twice = (
        of("ptb/vd-lstm-200/tied"),
        of("ptb/vd-lstm-200/tied", optimisation={"epochs": 80}),
    )
    assert plain.parameters == 2_643_200
    assert plain.flops == pytest.approx(6 * 2.64e6 * 37.2e6, rel=0.05)  # 40 epochs
    assert twice.flops / plain.flops == pytest.approx(2, rel=0.02) and twice.memory == plain.memory
    assert plain.seconds == pytest.approx(plain.flops / 2e11 / cost.EFFICIENCY, rel=0.2)
    few, many = of("ptb/awd-lstm/mos/components-1"), of("ptb/awd-lstm/mos/components-20")
    plainly, loss = recipes["ptb/vd-lstm-200/tied-augmented"].objectives
    constant = plainly, Part(loss.kind, loss.options | {"gradient": False})
    once = of("ptb/vd-lstm-200/tied-augmented", objectives=constant).flops
    thrice = of("ptb/vd-lstm-200/tied-augmented").flops
    assert once > 1.15 * plain.flops
    assert thrice - plain.flops == pytest.approx(3 * (once - plain.flops))  # the gradient's two
    assert 3 < many.flops / few.flops < 5
    assert of("ptb/awd-lstm/moc/et-asgd").flops < of("ptb/awd-lstm/mos").flops / 2
    half = of("wikitext-2/first-half/vd-lstm-200/tied").flops
    assert of("wikitext-2/vd-lstm-200/tied").flops / half == pytest.approx(2, rel=0.1)
    xl = of("wikitext-103/transformer-xl-16/softmax")
    dense = of("wikitext-103/transformer-xl-16/softmax", output_layer=Part("Softmax"))
    assert xl.flops < dense.flops / 2
    zipf = 1 / torch.arange(1, 10_001).double()
    edges = [0, 1_000, 3_000, 10_000]
    met = 1_000 + (2_000 * zipf[1_000:3_000].sum() + 7_000 * zipf[3_000:].sum()) / zipf.sum()
    assert cost._adaptive_rows(edges) == pytest.approx(met.item(), rel=0.05)
    steps = recipes["wikitext-103/transformer-xl-16/softmax"].optimisation.max_steps
    assert 6 * 60e6 * steps * 60 * 150 < xl.flops < 6 * 90e6 * steps * 60 * 150
    cached, dynamic = (of(f"wikitext-2/awd-lstm/softmax/{method}")
                       for method in ("continuous-cache", "dynamic-evaluation"))  # fmt: skip
    assert cached.flops < dynamic.flops < of("wikitext-2/awd-lstm/softmax").flops / 100
    assert cached.memory < dynamic.memory
    adam = of("ptb/awd-lstm/softmax", optimisation={"optimizer": "adamw"}).memory
    sgd, parameters = of("ptb/awd-lstm/softmax").memory, 24_221_600
    assert adam - sgd == pytest.approx(2 * 4 * parameters)
    fast = of("ptb/awd-lstm/softmax", optimisation={"precision": "bf16"})
    assert fast.seconds < of("ptb/awd-lstm/softmax").seconds / 2
    big, base = (of(f"wmt14/en-de/transformer-{s}/softmax") for s in ("big", "base"))
    assert 8 < big.flops / base.flops < 12 and big.parameters > 3 * base.parameters
    with pytest.raises(CourseError, match="the size of nowhere is not known"):
        cost.corpus_size(Part("nowhere"))


def test_sizes_of_corpora_are_those_of_the_corpora(embedded):
    """Of texts exactly; of sentence pairs the length of a sentence is about right."""
    for name in ("docstrings", "cldr"):
        corpus, size = corpora.load(name), cost.corpus_size(Part(name))
        if name == "docstrings":
            assert size == (len(corpus), *(len(getattr(corpus, s)) for s in data.SPLITS))
        else:
            tokens = [(split.target.lengths + 1).sum() for split in (corpus.train, corpus.valid)]
            assert size[1:3] == pytest.approx(tokens, rel=0.25)
            assert size.words == pytest.approx(len(corpus), rel=0.05)
    small = cost.corpus_size(Part("docstrings", {"small": TEXT}))
    assert small == (300, 1_500, 80, 80)
    least = cost.corpus_size(Part("docstrings", {"small": {"train": 5_000}}))
    text = corpora.load("docstrings").small(train=5_000)
    assert least == (len(text), *(len(getattr(text, s)) for s in data.SPLITS))
    every = {"words": None, "small": {"words": 400}}  # all words of the text, of which 400 stay
    assert cost.corpus_size(Part("docstrings", every)).words == 400
    with pytest.raises(CourseError, match="how many words docstrings has is not known"):
        cost.corpus_size(Part("docstrings", {"words": None}))


def test_activations_are_about_what_autograd_keeps(embedded):
    """Within a factor of two: it is an estimate."""
    for name in ("ptb/awd-lstm/softmax", "wikitext-103/transformer-xl-4/softmax", "ptb/vd-rhn/tied",
                 "wikitext-103/qrnn/softmax"):  # fmt: skip
        e = recipes[name].change(corpus=Part("docstrings"), size=64, optimisation={"batch": 16})
        units = {"units": 64} if "rhn" in name else {"units": [96, 96, 64]}
        e = e.change(encoder={} if "xl" in name else units, output_layer=Part("Softmax"))
        model, kept = e.build(50).train(), {}
        hooks = torch.autograd.graph.saved_tensors_hooks(
            lambda t, kept=kept: kept.update({t.untyped_storage().data_ptr(): t.numel()}) or t,
            lambda t: t,
        )
        with hooks:
            hidden, _ = model.encoder(torch.randn(e.optimisation.length, 16, 64))
        weights = sum(p.numel() for p in model.parameters())
        found = (sum(kept.values()) - weights) / hidden[..., 0].numel()
        assert 0.5 < found / cost.activations(model, e.optimisation) < 2, name


# The command line --------------------------------------------------------------------------------


def invoke(*arguments):
    from typer.testing import CliRunner

    from course_lab.cli import application

    return CliRunner().invoke(application(), ["recipes", *arguments])


def test_recipes_are_listed_with_what_they_cost(tmp_path, monkeypatch):
    here = rates.Measured(RATES, "a machine", 2, 0.0)
    monkeypatch.setattr(rates, "this_machine", lambda: here)
    listed = invoke("ptb/vd-lstm-200/*").stdout
    lines, notes = (part.splitlines() for part in listed.split("\n\n"))
    assert lines[0].split() == ["recipe", "parameters", "PFLOP", "GB", "time", "H100", "source"]
    assert notes[0] == f"time: estimated at half the rates of {here}"
    assert notes[1].startswith("H100: a floor, the operations at the 67 in fp32, 495 in tf32")
    first = next(line for line in lines if line.startswith("ptb/vd-lstm-200/tied "))
    assert first.split()[1] == "2,643,200" and "inan2017, Table 1, VD-LSTM+RE" in first
    assert len(lines) == 1 + 10
    names = invoke("--paper", "gao2019", "--corpus", "wmt14", "--plain").stdout.split()
    assert len(names) == 6 and all("transformer" in name for name in names)
    assert set(invoke("--plain").stdout.split()) == set(recipes)
    mine = recipes["ptb/vd-lstm-200/tied"].change(source="x", corpus=Part(str(tmp_path)))
    monkeypatch.setitem(recipes, "ptb/mine", mine)  # of a text that nobody has counted
    listed = invoke("--corpus", str(tmp_path)).stdout.split("\n\n")[0].splitlines()
    assert listed[1].split() == ["ptb/mine", *"–––––", "x"] and len(listed) == 2
    assert invoke("cache", "--plain").stdout.split() == [n for n in sorted(recipes) if "cache" in n]
    for arguments, message in (
        (("--paper", "gao2018"), "unknown paper 'gao2018'; did you mean gao2019"),
        (("--corpus", "ptp"), "unknown corpus 'ptp'; did you mean ptb"),
        (("nothing",), "no recipe matches 'nothing'"),
    ):
        assert message in str(invoke(*arguments).exception)


# Plans -------------------------------------------------------------------------------------------


def test_every_table_has_a_plan_with_all_its_recipes():
    """And each recipe comes after the one whose weights it begins with."""
    table = published.rows()
    covered = {name: read_plan(name) for name in plans()}
    for (paper, number), rows in table[table["recipe"] != ""].groupby(["paper", "table"]):
        kind = f"figure-{number[1:]}" if number.startswith("F") else f"table-{number}"
        done = [run.recipe for run in covered[f"{paper}-{kind}"].runs]
        assert set(rows["recipe"]) <= set(done), (paper, number)
    for name, plan in covered.items():
        done = [(run.recipe, run.seed) for run in plan.runs]
        for place, (recipe, seed) in enumerate(done):
            start = recipes[recipe].start_from
            assert start is None or (start, seed) in done[:place], (name, recipe)


def test_plans_have_the_seeds_and_grids_of_the_paper():
    sizes = {name: len(read_plan(f"parthiban2021-{name}").runs)
             for name in ("figure-2", "table-2", "table-4")}  # fmt: skip
    assert sizes == {"figure-2": 9 * 8 + 9 * 4, "table-2": 11 * 10, "table-4": 10 * 4}
    priors = [run.experiment() for run in read_plan("wang2020-priors").runs]
    assert [e.regularizers[2].kind for e in priors] == ["Orthogonality"] * len(priors)
    assert {e.regularizers[3].kind for e in priors} == {"ExponentialPrior", "PolynomialPrior"}


def test_the_half_hour_plan_takes_half_an_hour():
    """At a large GPU's rates: 400 TFLOP/s in bf16, 20 in a recurrent step, half of it reached."""
    large = cost.Rates({"fp32": 4e13, "bf16": 4e14}, {"fp32": 1e13, "bf16": 2e13})
    for run in read_plan("half-hour-gpu").runs:
        assert cost.cost(run.experiment(), large).seconds < 30 * 60, run.recipe
    for name in recipes:
        if name.endswith("/short"):
            base = name.removesuffix("/short")
            base = recipes.get(base) or recipes[f"{base}/et-asgd"]
            assert recipes[name].optimisation.epochs < base.optimisation.epochs / 5
            assert built_alike(base) == built_alike(recipes[name])


def test_recipes_of_one_sitting_add_what_costs_nothing_to_the_model_that_they_shorten():
    """A mean over the last third, columns that begin elsewhere, lengths drawn as AWD-LSTM's."""
    sitting = {name: recipes[name] for name in recipes if name.endswith("/one-sitting")}
    plain = sitting["ptb/awd-lstm/softmax/one-sitting"]
    assert built_alike(plain) == built_alike(recipes["ptb/awd-lstm/softmax/short"])
    added = {"partial_shuffle": True, "average_last": plain.optimisation.epochs // 3}
    short = replace(recipes["ptb/awd-lstm/softmax/short"].optimisation, **added)
    assert plain.optimisation == replace(short, epochs=plain.optimisation.epochs)
    for name, recipe in sitting.items():
        o = recipe.optimisation
        assert replace(o, groups={}) == plain.optimisation and o.random_length
        if name.split("/")[-2] in ("gss", "mos", "adversarial"):
            assert built_alike(recipe) == built_alike(recipes[name.replace("one-sitting", "short")])
    for way in (
        "continuous-cache",
        "dynamic-evaluation",
    ):  # which train nothing and average nothing
        adapts = recipes[f"{plain.name}/{way}"]
        assert adapts.start_from == plain.name and adapts.optimisation.average_last is None
    penalties = {name.split("/")[-2]: recipe.regularizers for name, recipe in sitting.items()}
    mine = {
        method: [p.kind for p in parts if p not in plain.regularizers]
        for method, parts in penalties.items()
    }
    assert mine["past-decode"] == ["PastDecode"] and mine["cosine"] == ["CosineRegularizer"]
    assert mine["spectrum-control"] == ["Orthogonality", "ExponentialPrior"]
    prior = penalties["spectrum-control"][-1].build("regularizer")
    n, d = 10_000, plain.size
    begins = plain.words.options["init"] / 3**0.5 * (n * d) ** 0.5  # uniform entries
    assert float(prior.values(d).norm()) == pytest.approx(begins, rel=0.01)


def test_pilots_are_a_third_as_long_and_the_kept_short_runs_are_of_their_plan():
    pilots = [run.experiment() for run in read_plan("short-budget-pilots").runs]
    whole = recipes["ptb/awd-lstm/softmax/one-sitting"].optimisation
    thirds = [e for e in pilots if e.optimisation.epochs == whole.epochs // 3]
    kept = [e for e in pilots if e not in thirds]
    assert len(thirds) > 8 and {e.optimisation.epochs for e in kept} == {30}
    assert all((results.kept_folder() / r.key).exists()
               for r in read_plan("short-budget-pilots").runs
               if r.experiment() in kept)  # fmt: skip
    for e in thirds:
        assert e.optimisation.average_last in (None, 5)
    recipe_names = {run.recipe for run in read_plan("short-budget").runs}
    methods = {name.split("/")[2] for name in recipe_names}
    assert methods >= {"softmax", "mos", "gss", "cosine", "spectrum-control", "adversarial"}
    assert {f"ptb/awd-lstm/softmax/one-sitting/{way}"
            for way in ("continuous-cache", "dynamic-evaluation")} <= recipe_names  # fmt: skip


def test_the_hours_of_the_short_budget_follow_from_kept_epochs_and_the_benchmark():
    """On two cores of the Xeon with AMX, as the comments of the two plans say."""
    place = "benchmarks/models/intel-r-xeon-r-processor-avx512-amx-avx-512-bf16/bf16"
    rows = results.read_table(place)["rows"]
    steps = {row["method"]: row["of softmax"] for row in rows if "method" in row}
    rows += results.read_table(place.replace("/bf16", "/fp32"))["rows"][::-1]
    speeds: dict = {}
    for row in (row for row in rows if "model" in row):  # dynamic evaluation has a row in fp32 only
        speeds.setdefault(row["model"], row["tokens/s"])
    times = {"mos": speeds["awd-lstm/ptb"] / speeds["mos/ptb"]}
    times |= {"spectrum-control": steps["spectrum"]}
    run = read_plan("short-budget-pilots").runs[0]
    kept = json.loads((results.kept_folder() / run.key / "result.json").read_text("utf-8"))
    epoch, validation = (
        median([row[key] for row in kept["epochs"]]) for key in ("seconds", "validation_seconds")
    )
    whole = recipes["ptb/awd-lstm/softmax/one-sitting"].optimisation.epochs
    assert whole * (epoch + validation) < 2 * 3600 + 40 * 60 < 1.1 * whole * (epoch + validation)
    for name in ("short-budget-pilots", "short-budget"):
        plan, seconds = read_plan(name), 0.0
        for planned in plan.runs:
            e = planned.experiment()
            method = planned.recipe.split("/")[2]
            longer = times.get(method) or steps[method]
            seconds += e.optimisation.epochs * (longer * epoch + validation)
            if e.adaptation is not None and e.adaptation.kind == "DynamicEvaluation":
                search = len(e.adaptation.options["rate"]) * e.adaptation.options["search_tokens"]
                splits = 73_760 + 82_430
                seconds += (search + splits) / speeds["dynamic/ptb"]
        assert plan.hours == pytest.approx(2 * seconds / 3600, rel=0.1), name


@pytest.mark.parametrize("kind", KINDS["output_layer"])
def test_a_layer_takes_its_own_constants_last(kind):
    """What an experiment builds a layer with is counted by its place."""
    assert list(annotations(kind))[:3] == ["words", "hidden_size", "bias"]


def test_by_sgd_alone_nothing_but_the_optimiser_differs():
    """And the weights shrink as fast: rate × decay is the same."""
    for name in ("tied", "cosine"):
        one, other = recipes[f"ptb/desk/{name}"], recipes[f"ptb/desk/{name}/sgd-alone"]
        adam, sgd = one.optimisation, other.optimisation
        named = {"name": other.name, "source": other.source}
        assert replace(one, optimisation=sgd, **named) == other
        settings = {"optimizer": "sgd", "learning_rate": sgd.learning_rate}
        assert replace(adam, weight_decay=sgd.weight_decay, **settings) == sgd
        shrinks = [o.learning_rate * o.weight_decay for o in (adam, sgd)]
        assert shrinks[0] == pytest.approx(shrinks[1]) and shrinks[0] > 0
