"""N-gram models are recipes like any other: run, read again, planned, compared, refused clearly."""

import json

import numpy as np
import pytest
import torch

import course_lab
from course_lab import cost, rates, results, tables
from course_lab.batch_states import state
from course_lab.experiment import Experiment
from course_lab.final_figures import TEST_LOSSES
from course_lab.hugging_face import export
from course_lab.launch import _processes
from course_lab.plans import read_plan
from course_lab.recipes import PROFILES, recipes
from course_lib.data import folders
from course_lib.errors import CourseError
from course_lib.models.kneser_ney import KneserNey, Ngrams

NAME = "docstrings/kneser-ney/order-3"
COUNTED = [name for name, recipe in recipes.items() if recipe.is_counted]


def smoke(name=NAME):
    return course_lab.profile(recipes[name], "smoke")


def test_a_run_counts_the_train_split_and_predicts_the_others(tmp_path):
    experiment = smoke()
    result = course_lab.run(experiment, tmp_path, progress=False)
    corpus = experiment.load_corpus()
    plain = KneserNey.fit(corpus.train, corpus.eos, len(corpus), order=3)
    assert result.metrics["valid_perplexity"] == plain.perplexity(corpus.valid)
    assert result.metrics["test_perplexity"] == plain.perplexity(corpus.test)
    assert result.metrics["ngrams"] == plain.size() == sum(len(o.keys) for o in plain.orders)
    assert result.epochs == [] and result.provenance["tokens_seen"] == len(corpus.train)
    losses = results.read_arrays(tmp_path)[TEST_LOSSES].astype(float)
    np.testing.assert_allclose(losses, -plain.log_prob(corpus.test), rtol=1e-3)
    assert sorted(p.name for p in tmp_path.iterdir() if p.suffix in (".npz", ".json")) == [
        "arrays.npz",
        "result.json",
    ]


def test_a_finished_run_is_read_and_its_model_counted_again(tmp_path):
    first = course_lab.run(smoke(), tmp_path, progress=False)
    before = (tmp_path / "result.json").read_bytes()
    again = course_lab.run(smoke(), tmp_path, progress=False)
    assert (tmp_path / "result.json").read_bytes() == before
    assert again.metrics == first.metrics
    text = again.corpus.test
    np.testing.assert_array_equal(again.model.log_prob(text), first.model.log_prob(text))
    with pytest.raises(CourseError, match="has the result of another experiment"):
        course_lab.run(smoke("docstrings/kneser-ney/order-5"), tmp_path, progress=False)


@pytest.mark.parametrize("profile", PROFILES)
def test_recipes_of_ngrams_round_trip_through_json(profile):
    assert len(COUNTED) == 9
    for name in COUNTED:
        experiment = course_lab.profile(recipes[name], profile)
        assert Experiment.from_dict(json.loads(json.dumps(experiment.to_dict()))) == experiment
        assert experiment.encoder.build("encoder") == Ngrams(int(name[-1]))
        embedded = profile in ("smoke", "quick")
        assert experiment.corpus.kind == ("docstrings" if embedded else name.split("/")[0])


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"size": 300}, "size is of a network"),
        ({"optimisation": {"epochs": 3}}, "optimisation is of a network"),
        ({"seed": 2}, "draws nothing; its only seed is 1"),
        ({"encoder": {"order": 0}}, "order of Ngrams must be a whole number of at least 1, not 0"),
        ({"encoder": {"ordr": 3}}, "unknown option of Ngrams 'ordr'"),
    ],
)
def test_what_would_change_nothing_is_refused(changes, told):
    with pytest.raises(CourseError, match=told):
        recipes[NAME].change(**changes)


def test_one_process_counts_however_many_gpus_there_are(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    assert _processes(recipes[NAME]) == 1
    assert _processes(recipes["docstrings/transformer-128/tied"]) == 4


def test_what_needs_weights_or_products_says_that_there_are_none(tmp_path):
    with pytest.raises(CourseError, match="counts n-grams and has no weights"):
        recipes[NAME].build(300)
    with pytest.raises(CourseError, match="takes seconds and no products"):
        cost.cost(recipes[NAME], cost.Rates(rates.H100, rates.H100))
    course_lab.run(smoke(), tmp_path, progress=False)
    for read in (course_lab.load_checkpoint, export.run_of):
        with pytest.raises(CourseError, match="counted n-grams and has no weights"):
            read(tmp_path)


def test_a_plan_compares_ngrams_by_the_one_run_of_each(tmp_path, monkeypatch):
    monkeypatch.setattr(folders, "home", lambda: tmp_path)
    lines = 'title = "t"\nhours = 1\n[[runs]]\nprofile = "smoke"\nseeds = {}\nrecipes = [{}]\n'
    names = [f'"docstrings/kneser-ney/order-{order}"' for order in (3, 5)]
    path = tmp_path / "plan.toml"
    path.write_text(lines.format([1, 2], ", ".join(names)))
    with pytest.raises(CourseError, match="its only seed is 1"):
        read_plan(path)
    path.write_text(lines.format([1], ", ".join(names)))
    plan = read_plan(path)
    assert str(state(plan.runs[0])) == "waiting"
    folder = results.run_folder(plan.runs[0].experiment())
    folder.mkdir(parents=True)
    (folder / "failed.json").write_text('{"cell": 2, "error": "E: it broke"}')
    assert str(state(plan.runs[0])) == "failed cell 2: E: it broke"  # it has no epochs
    for run in plan.runs:
        course_lab.run(run.experiment(), progress=False)
    assert str(state(plan.runs[0])).startswith("done, valid perplexity")
    table = tables.table_of(plan)
    assert list(table.models.n) == [1, 1]
    for order in (3, 5):
        own = table.models.perplexity[f"order-{order}"]
        assert own == pytest.approx(table.ngrams[f"Kneser-Ney {order}"])
