"""The generalisation gap: by γ with nothing else changed, and by text."""

import numpy as np
import pandas as pd
import pytest

from course_lab import evidence, gaps, results, similarities
from course_lab.planned import Planned
from course_lib.regularizers import ExponentialPrior
from course_lib.theory.wang2020 import generalisation_gap

SPECTRUM = "docstrings/transformer-128/spectrum"


@pytest.fixture
def keep(tmp_path, monkeypatch):
    """Put a run with a prior of some γ into an empty folder of kept results."""
    monkeypatch.setattr(results, "kept_folder", lambda: tmp_path)

    def keep(gamma, seed, train, test, lost=1.1, **change):
        change = {"regularizers.1.gamma": gamma} | change
        planned = Planned(SPECTRUM, "quick", seed, change)
        epochs = [
            {"epoch": 1, "train_perplexity": train, "valid_perplexity": test, "tokens": 100},
            {
                "epoch": 2,
                "train_perplexity": train / 2,
                "valid_perplexity": 2 * test,
                "tokens": 100,
            },
        ]
        metrics = {"best_epoch": 1, "test_perplexity": lost * test, "valid_perplexity": test}
        results.write_result(tmp_path / planned.key, planned.experiment(), epochs, metrics, {})

    return keep


def test_a_sweep_turns_gamma_alone_and_pairs_seeds(keep):
    for seed in (1, 2, 3):
        keep(0.4, seed, 50.0 * seed, 100.0 * seed)
        keep(0.9, seed, 60.0 * seed, 90.0 * seed)
        keep(1.4, seed, 10.0, 11.0, size=32)  # has another width, and no partner
    table = gaps.sweep(gaps.runs(evidence.read()))
    assert list(table.index) == [0.4, 0.9] and list(table.seeds) == [3, 3]
    assert table.gap[0.4] == pytest.approx(np.log(2)) and table.gap[0.9] == pytest.approx(
        np.log(1.5)
    )
    assert table["last gap"][0.4] == pytest.approx(np.log(8))
    changes = table.loc[0.9, ["train change", "train low", "train high"]]
    assert changes.tolist() == pytest.approx([100 * np.log(60 / 50)] * 3)
    assert table["test change"][0.9] == pytest.approx(100 * np.log(0.9))


def test_a_sweep_of_one_norm_lets_the_scale_follow_gamma(keep):
    scale = "regularizers.1.c1"
    norm = {g: ExponentialPrior(0.1, 1.0, 0.05, g).values(128).norm().item() for g in (0.4, 0.9)}
    for seed in (1, 2):
        keep(0.4, seed, 50.0, 100.0, **{scale: 20 / norm[0.4]})
        keep(0.9, seed, 60.0, 90.0, **{scale: 20 / norm[0.9]})
        keep(1.4, seed, 10.0, 11.0, **{scale: 20 / norm[0.9]})  # a smaller norm
    runs = gaps.runs(evidence.read())
    assert list(gaps.sweep(runs, "all but shape").index) == [0.4, 0.9]
    assert list(gaps.sweep(runs).index) == [0.9, 1.4]


def test_the_answer_is_told_by_intervals(keep):
    assert gaps.steeper_told(gaps.sweep(gaps.runs(evidence.read()))).startswith("Untested")
    for seed in (1, 2, 3):
        keep(0.4, seed, 50.0, 100.0)
        keep(0.9, seed, 50.0, 90.0)
        keep(1.4, seed, 90.0, 110.0)
    table = gaps.sweep(gaps.runs(evidence.read()))
    assert gaps.steeper_told(table).startswith(
        "Up to a point. With the norm held the test loss changes by +0.095"
    )
    assert "The least test loss is at γ = 0.9, where it changes by -0.105 [" in gaps.steeper_told(
        table
    )
    assert "surely falls at γ = 0.9, 1.4" in gaps.steeper_told(table)
    assert gaps.steeper_told(table[:2]).startswith("Yes.")
    same_gap = table[:2].assign(**{"gap high": 1.0})
    assert gaps.steeper_told(same_gap).startswith("Undecided.")  # though the test loss falls
    assert gaps.shown(table)["test change"].tolist() == [
        "",
        "-10.5 [-10.5, -10.5]",
        "+9.5 [+9.5, +9.5]",
    ]
    assert list(gaps.shown(table)) == ["seeds", "loses", "train", "test", "gap", "last gap"] + [
        f"{figure} change" for figure in ("train", "test", "gap")
    ]
    unsure = table.assign(**{"test low": -1.0, "gap high": 1.0})
    told = gaps.steeper_told(unsure)
    assert told.startswith("Undecided.") and "no fall of it is sure" in told
    assert gaps.change_told(table, "gap", 0.9) == "-0.105 [-0.105, -0.105]"


def test_a_test_loss_that_surely_falls_nowhere_and_rises_at_last_is_a_no(keep):
    for seed in (1, 2, 3):
        keep(0.4, seed, 50.0, 100.0)
        keep(0.9, seed, 50.0, 101.0)
        keep(1.4, seed, 90.0, 110.0)
    table = gaps.sweep(gaps.runs(evidence.read()))
    assert gaps.steeper_told(table).startswith("No. With the norm held")


def test_models_that_lose_to_counting_illustrate_and_answer_nothing(keep):
    for seed in (1, 2, 3):
        keep(0.4, seed, 50.0, 100.0)
        keep(1.4, seed, 90.0, 110.0)
    of = evidence.read()
    counted = {run.setting.text: {evidence.COUNTING: 115.0} for run in of.runs}  # 110 and 121
    table = gaps.sweep(gaps.runs(evidence.Evidence(of.runs, (), counted)))
    told = gaps.steeper_told(table)
    assert told.startswith(
        "This is untested on evidence, since 1 of the 2 settings compared lose to Kneser-Ney 5. "
        "As an illustration: with the norm held the test loss changes by +0.095"
    )
    assert "No." not in told
    assert gaps.weighed("The gap falls", table).endswith("As an illustration: the gap falls")
    assert gaps.weighed("The gap falls", table[:1]) == "The gap falls"


def test_an_adversarial_model_has_no_gap(tmp_path, monkeypatch):
    """Its training loss is of perturbed targets."""
    monkeypatch.setattr(results, "kept_folder", lambda: tmp_path)
    epoch = {"epoch": 1, "train_perplexity": 90.0, "valid_perplexity": 99.0, "tokens": 100}
    metrics = {"best_epoch": 1, "test_perplexity": 98.0, "valid_perplexity": 99.0}
    perturbed = ("ptb/desk/adversarial", "ptb/desk/spectrum-adversarial")
    perturbed += ("ptb/awd-lstm/mos+adversarial",)
    for recipe in ("ptb/desk/tied", *perturbed):
        planned = Planned(recipe, "standard", 1)
        results.write_result(tmp_path / planned.key, planned.experiment(), [epoch], metrics, {})
    of = evidence.read()
    assert len(of.runs) == 4 and gaps.runs(of).method.tolist() == ["tied"]


def test_a_table_of_losses_has_the_n_grams_of_its_text():
    table = pd.DataFrame({"seeds": [3], "test": [5.25]}, index=pd.Index([0.4], name="γ"))
    told = gaps.with_counting(table, {"unigram": np.e**5.5, "Kneser-Ney 5": np.e**4.9126})
    assert told.test.to_dict() == {0.4: "5.250", "unigram": "5.500", "Kneser-Ney 5": "4.913"}
    assert told.seeds.tolist() == [3, "", ""] and told.index.name == "γ"
    assert gaps.with_counting(table, {}, digits=1).test.tolist() == ["5.2"]


def test_a_setting_that_loses_to_counting_is_marked(keep):
    keep(0.4, 1, 50.0, 100.0)
    of = evidence.read()
    assert gaps.runs(of).loses.tolist() == [False]  # nothing was counted
    counted = {run.setting.text: {evidence.COUNTING: 100.0} for run in of.runs}
    assert gaps.runs(evidence.Evidence(of.runs, (), counted)).loses.tolist() == [True]


def test_a_run_by_another_optimiser_is_no_run_of_the_family(tmp_path, monkeypatch):
    """What stands behind the method in a recipe's name is part of the family."""
    monkeypatch.setattr(results, "kept_folder", lambda: tmp_path)
    epoch = {"epoch": 1, "train_perplexity": 90.0, "valid_perplexity": 99.0, "tokens": 100}
    words = {"WS-353": {"rho": 0.3, "rho_centred": 0.3, "found": 200}}
    metrics = {"best_epoch": 1, "test_perplexity": 98.0, "valid_perplexity": 99.0}
    metrics |= {"geometry": {"singular_values": [2.0, 1.0]}, "word_similarity": words}
    for recipe in ("ptb/desk/tied", "ptb/desk/cosine", "ptb/desk/tied/sgd-alone"):
        planned = Planned(recipe, "standard", 1)
        folder = tmp_path / planned.key
        results.write_result(folder, planned.experiment(), [epoch], metrics, {})
    of = evidence.read()
    for table in (gaps.runs(of), similarities.scores(of)):
        assert sorted(table.family) == ["ptb/desk", "ptb/desk", "ptb/desk/…/sgd-alone"]
    assert list(gaps.at_trained(gaps.runs(of), "ptb/desk").seeds) == [1, 1]


def test_without_a_sweep_there_is_none(keep):
    assert gaps.sweep(gaps.runs(evidence.read())).empty
    keep(0.4, 1, 50.0, 100.0)
    assert gaps.sweep(gaps.runs(evidence.read())).empty


def trained(**matrices):
    rows = [
        {"family": "f", "method": name, "sigma": sigma, "gap": 0.1, "test": 4.0}
        for name, sigma in matrices.items()
    ]
    return gaps.at_trained(pd.DataFrame(rows), "f")


def test_the_bound_of_a_trained_matrix_is_that_of_the_theorem():
    k = np.arange(1, 101)
    table = trained(steep=1.0 / k, ten=10.0 / k, flat=np.ones(100), other=None, one=[1.0])
    assert list(table.index) == ["steep", "ten", "flat"] and (table.seeds == 1).all()
    assert table.bound["ten"] == pytest.approx(10 * table.bound["steep"])
    least = [generalisation_gap(1 / k, 1.0, N=1, n=1, delta=1 - 1e-12).least]
    assert 1.27 < table.bound["steep"] <= least[0]
    assert (table.bound > table.norm).all()  # the proof splits the norm, which can only add
    assert table.norm["flat"] == 10


def test_without_runs_there_is_no_trained_matrix():
    assert gaps.at_trained(gaps.runs(evidence.Evidence((), (), {})), "f").empty
