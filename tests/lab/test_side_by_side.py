"""Methods of a plan: their names, their best settings, and which of them do the same."""

import math

import numpy as np
import pandas as pd

from course_lab import evidence, side_by_side, untested
from course_lab.planned import Planned
from course_lab.plans import read_plan

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


def test_a_setting_of_which_one_run_is_kept_does_not_win_by_it():
    rows = [("a", "whole", seed, 80.0, 90.0) for seed in (1, 2)]
    rows += [("a", "lucky", 1, 10.0, 10.0), ("a", "lucky", 2, np.nan, np.nan)]
    runs = pd.DataFrame(rows, columns=["method", "setting", "seed", "valid", "test"])
    assert set(side_by_side.at_best(runs).setting) == {"whole"}


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


def test_runs_that_are_not_kept_have_rows_without_numbers(monkeypatch):
    """The sentence counts them, the first setting stands for all, and nothing is like another."""
    said = []
    monkeypatch.setattr(untested, "say", said.append)
    runs = side_by_side.runs_of(evidence.Evidence((), (), {}), "lessons-11")
    planned = read_plan("lessons-11").runs
    assert len(runs) == len(planned)
    assert runs[["valid", "test", *side_by_side.SHAPE]].isna().all(axis=None)
    assert said == [
        f"Of {len(runs)} runs of this part of the lesson {len(runs)} are {untested.UNTESTED}."
    ]
    best = side_by_side.at_best(runs)
    assert set(best.method) == set(runs.method)
    assert not best.groupby("method").setting.nunique().gt(1).any()
    clouds = best.groupby("method")[list(side_by_side.SHAPE)].mean().assign(loss=0.0)
    assert side_by_side.roundest(clouds) == untested.UNTESTED
    assert not any(side_by_side.alike(clouds, within=0.02).values())


def test_one_kept_run_decides_the_setting_of_its_method():
    rows = [("a", "first", 1, math.nan), ("a", "second", 1, 90.0), ("a", "second", 2, math.nan)]
    best = side_by_side.at_best(pd.DataFrame(rows, columns=["method", "setting", "seed", "valid"]))
    assert set(best.setting) == {"second"} and set(best.tried) == {2}


def test_the_roundest_has_the_least_cosine():
    table = pd.DataFrame({"cosine of rare words": {"a": 0.4, "b": 0.1, "c": math.nan}})
    assert side_by_side.roundest(table) == "b"
