"""Methods of a plan: their names, their best settings, and which of them do the same."""

import pandas as pd

from course_lab import evidence, side_by_side
from course_lab.planned import Planned

TIED, UNTIED = ("docstrings/transformer-128/" + name for name in ("tied", "untied"))


def test_a_method_is_named_by_its_recipe_and_by_another_optimiser_of_the_words():
    slower, by_sgd = {"learning_rate": 3e-3}, {"optimizer": "sgd", "learning_rate": 1.0}
    coupled = TIED.replace("tied", "coupled-adam")
    for recipe, groups, name in (
        (TIED, {}, "tied"),
        (coupled, {}, "coupled-adam"),
        (TIED, {"words.": slower}, "tied"),
        (TIED, {"words.": by_sgd}, "tied + sgd"),
        (UNTIED, {"output_layer.words.": by_sgd}, "untied + sgd"),
    ):
        change = {"optimisation.groups": groups} if groups else {}
        assert side_by_side.method_of(Planned(recipe, "quick", 1, change)) == name


def test_the_best_setting_is_that_of_least_validation_loss_among_those_with_all_seeds():
    rows = [
        ("a", "high", 1, 100.0, 50.0),
        ("a", "high", 2, 100.0, 50.0),
        ("a", "low", 1, 80.0, 90.0),
        ("a", "low", 2, 81.0, 90.0),
        ("a", "lucky", 1, 10.0, 10.0),
        ("b", "only", 1, 85.0, 70.0),
        ("b", "only", 2, 85.0, 70.0),
    ]
    runs = pd.DataFrame(rows, columns=["method", "setting", "seed", "valid", "test"])
    best = side_by_side.at_best(runs)
    assert sorted(zip(best.method, best.setting, best.tried, strict=True)) == [
        ("a", "low", 3),
        ("a", "low", 3),
        ("b", "only", 1),
        ("b", "only", 1),
    ]


def test_a_further_seed_of_one_method_loses_no_other():
    rows = [("a", "x", seed, 80.0) for seed in (1, 2, 3)]
    rows += [("b", "y", seed, 90.0) for seed in (1, 2)]
    best = side_by_side.at_best(pd.DataFrame(rows, columns=["method", "setting", "seed", "valid"]))
    assert set(best.method) == {"a", "b"}


def test_methods_alike_stand_with_the_first_of_them():
    table = pd.DataFrame({"x": [0.0, 0.01, 0.5, 0.515], "y": [1.0, 1, 1, 1.5]}, index=list("abcd"))
    assert side_by_side.alike(table, 0.02) == {"a": ["b"], "c": [], "d": []}


def test_the_kept_runs_of_lesson_11_have_every_figure():
    runs = side_by_side.runs_of(evidence.read(), "lessons-11")
    assert {"tied", "tied + sgd", "untied + coupled-adam", "muon"} <= set(runs.method)
    assert not runs.isna().any(axis=None) and set(runs.seed) == {1, 2, 3}
