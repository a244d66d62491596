"""What runs cost: ratios of pairs that share a machine, and the front of cost and quality."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from course_lab import evidence, families, kept_costs, published
from course_lab.evidence import Evidence
from tests import evidence_sample


def table(**changes):
    """Three seeds of a softmax and of a mixture that takes three times as long."""
    rows = []
    for method, factor in (("tied", 1.0), ("mos", 3.0)):
        for seed, noise in ((1, 1.0), (2, 1.1), (3, 0.9)):
            row = {
                "recipe": f"f/{method}",
                "family": "f",
                "rest": "",
                "text": "ptb",
                "machine": "one",
                "tokens": 9,
            }
            row |= {"size": 8, "shape": "", "precision": "fp32", "method": method, "seed": seed}
            row |= {"seconds": 10 * factor * noise}
            row |= {"components": 15 if method == "mos" else 1}
            rows.append(row | {k: v for k, v in changes.items() if method == "mos"})
    return pd.DataFrame(rows)


def test_ratios_are_of_pairs():
    (row,) = kept_costs.ratios(table()).itertuples()
    assert row.ratio == pytest.approx(3) and row.n == 3
    assert (row.low, row.high) == pytest.approx((3, 3))  # the noise is that of the seed
    rows = published.rows()
    seconds = rows[(rows.metric == "seconds-per-epoch") & (rows.corpus == "ptb")]
    seconds = seconds.set_index("method").value
    assert row.published == pytest.approx(seconds["mos"] / seconds["softmax"])


def test_the_correction_counts_methods_that_have_no_runs_yet():
    noisy = table().assign(seconds=lambda t: t.seconds + np.arange(len(t)))
    alone, among = (
        kept_costs.ratios(noisy.assign(recipe=recipe)).p[0] for recipe in ("f/mos", "ptb/desk/mos")
    )
    declared = families.declared("ptb/desk")
    assert among == pytest.approx(len(declared) * alone) and among < 1
    other = noisy.assign(recipe="ptb/desk/mos", machine="another")
    both = kept_costs.ratios(pd.concat([noisy.assign(recipe="ptb/desk/mos"), other]))
    assert both.p[0] == pytest.approx(2 * len(declared) * alone)


@pytest.mark.parametrize(
    "changed", ["machine", "text", "family", "tokens", "size", "shape", "precision"]
)
def test_runs_of_two_machines_or_budgets_are_no_pair(changed):
    assert kept_costs.ratios(table(**{changed: "another"})).empty


def test_of_several_runs_of_a_method_and_seed_the_median_counts():
    twice = pd.concat([table(), table().assign(seconds=lambda t: 1.2 * t.seconds)])
    (row,) = kept_costs.ratios(twice).itertuples()
    assert row.ratio == pytest.approx(3) and row.n == 3
    last = table()[lambda t: t.method == "tied"].assign(seconds=1000.0)
    (row,) = kept_costs.ratios(pd.concat([table(), table(), last])).itertuples()
    assert row.ratio == pytest.approx(3)  # the last of them is none the more


def test_a_mixture_of_fewer_components_has_no_published_ratio():
    (row,) = kept_costs.ratios(table(components=4)).itertuples()
    assert row.ratio == pytest.approx(3) and np.isnan(row.published)


def test_the_desk_is_compared_on_each_machine_whatever_the_seeds(kept):
    """Another text, another optimiser and a changed setting are no runs of the desk's methods."""
    epochs = {"tied": 10.0, "mos": 30.0}
    for device, factor in (("AMD EPYC, AVX512", 1.0), ("NVIDIA H200", 0.1)):
        for seed, (method, seconds) in enumerate(epochs.items(), 10 if factor < 1 else 1):
            told = [{"epoch": 1, "seconds": factor * seconds}]
            kept(f"ptb/desk/{method}", seed, 90.0, device=device, epochs=told)
    slow = [{"epoch": 1, "seconds": 999.0}]
    kept("ptb/desk/plif", 1, 90.0, device="NVIDIA H200", epochs=slow)  # in fp32, as no softmax ran
    kept("ptb/desk/mos", 3, 90.0, {"optimisation.epochs": 4}, epochs=slow)
    kept("ptb/desk/tied/sgd-alone", 3, 90.0, epochs=slow)
    kept("ptb/desk/mos", 4, 90.0, device="Another", epochs=slow)  # where no softmax ran
    table = kept_costs.by_machine(evidence.read())
    assert list(table.columns.unique(0)) == ["AMD EPYC, bf16", "NVIDIA H200, bf16"]
    for machine in ("AMD EPYC, bf16", "NVIDIA H200, bf16"):
        assert table[machine].ratio.to_dict() == pytest.approx({"mos": 3.0, "tied": 1.0})
        assert table[machine].n.to_dict() == {"mos": 1, "tied": 1}
    assert kept_costs.by_machine(Evidence((), (), {})).empty


def test_the_desk_is_told_by_methods_with_two_runs():
    def told(**methods):
        rows = pd.DataFrame.from_dict(methods, orient="index", columns=["ratio", "n", "swing"])
        return kept_costs.desk_told(pd.concat({"one": rows.astype({"n": "Int64"})}, axis=1), "one")

    tied, mos = (1.0, 2, 1.2), (2.5, 2, 1.1)
    said = told(tied=tied, mos=mos, plif=(3.9, 1, 1), gss=(0.98, 3, 1), gated=(np.nan, pd.NA, 1))
    assert "on one, an epoch takes 1.0 (`gss`) to 2.5 (`mos`) times" in said
    assert "The slow epochs of `tied` take 1.2 times as long" in said and "busy" not in said
    assert "busy" in told(tied=(1.0, 2, 2.6), mos=mos)  # one load or another makes all of it
    assert "busy" in told(tied=tied, mos=(2.5, 2, 2.6))
    assert told(tied=(1.0, 1, 1.2), mos=mos) == told(tied=tied, mos=(2.5, 1, 1.0)) == ""


def test_the_swing_of_a_machine_is_over_all_epochs_of_a_methods_runs(kept):
    quick, slow = ([{"epoch": e, "seconds": s} for e in range(1, 12)] for s in (10.0, 13.0))
    kept("ptb/desk/tied", 1, 90.0, device="NVIDIA H200", epochs=quick)
    kept("ptb/desk/tied", 2, 90.0, device="NVIDIA H200", epochs=slow)
    one = [{"epoch": e, "seconds": 300.0 if e == 4 else 20.0} for e in range(1, 12)]
    kept("ptb/desk/mos", 1, 90.0, device="NVIDIA H200", epochs=one)
    table = kept_costs.by_machine(evidence.read())["NVIDIA H200, bf16"]
    assert table.swing.to_dict() == pytest.approx({"mos": 1.0, "tied": 1.3})


def test_an_epoch_during_which_the_machine_stood_still_costs_as_much_as_any(kept):
    epochs = [{"epoch": e, "seconds": 4491.0 if e == 9 else 174.0} for e in range(1, 12)]
    kept("ptb/desk/tied", 1, 90.0, device="AMD EPYC", epochs=epochs)
    of = evidence.read()
    of.runs[0].content["provenance"] |= {"wall_seconds": 6300, "threads": 2}
    assert of.runs[0].figure("minutes") == pytest.approx(11 * 174 / 60)
    assert list(kept_costs.runs(of)["core minutes"]) == pytest.approx([2 * 11 * 174 / 60])
    of.runs[0].content["epochs"] = []  # as of a model that counts
    assert of.runs[0].figure("minutes") == 105


def test_an_epoch_of_a_model_is_that_of_its_plain_softmax():
    one = table().assign(megabytes=100.0, continued=False, variant="", recipe="f/tied")
    other = one.assign(
        family="g", recipe="g/untied", method=one.method.replace("tied", "untied"), megabytes=200.0
    )
    both = pd.concat([one, one.assign(method="untied", seconds=99.0), other])
    wide = one.assign(size=400, seconds=30.0)  # of another size, so no run of the same row
    assert list(kept_costs.by_model(pd.concat([one, wide])).seconds) == [10, 30]
    found = kept_costs.by_model(both).droplevel(["text", "machine", "precision"])
    assert list(found.index) == ["f/tied", "g/untied"] and list(found.n) == [3, 3]
    assert list(found.seconds) == [10, 10] and list(found.megabytes) == [100, 200]
    assert kept_costs.by_model(both.assign(continued=True)).empty


def test_validation_chooses_the_front_and_each_setting_has_its_seeds():
    rows = [("a", 1, 10.0, 90.0, 95.0), ("a", 2, 12.0, 92.0, 97.0), ("b", 1, 20.0, 80.0, 99.0)]
    names = ["recipe", "seed", "core minutes", "perplexity", "valid"]
    runs = pd.DataFrame(rows, columns=names).assign(family="f", text="ptb", continued=False)
    runs = runs.assign(
        variant="",
        machine=["AMD EPYC, AVX512 × 1", "Intel Xeon, AMX × 1"] + ["AMD EPYC, AVX512 × 2"],
    )
    points = kept_costs.settings_of(runs).set_index("recipe")
    assert points.n.to_dict() == {"a": 2, "b": 1} and points.cost["a"] == 11
    assert points.machine.to_dict() == {"a": "AMD EPYC and Intel Xeon", "b": "AMD EPYC"}
    assert points["on front"].to_dict() == {"a": True, "b": False}  # by test both would be
    assert kept_costs.settings_of(runs.assign(continued=True)).empty


def test_what_only_a_gpu_ran_is_named():
    of = evidence.read()
    left_out = kept_costs.on_gpus_only(of)
    kept = kept_costs.runs(of)
    whole = {run.setting.recipe for run in of.runs if run.setting.text == evidence_sample.PTB}
    assert {*left_out} == whole - {*kept[kept.text == "ptb"].recipe}
    assert "ptb/desk/tied" not in left_out


def test_nothing_beats_a_point_of_the_front():
    cost = np.array([3.0, 1, 5, 1, 2, 4, 3])
    loss = np.array([3.0, 5, 1, 5, 4, 3, 4])
    assert kept_costs.front(cost, loss).tolist() == [True, True, True, True, True, False, False]
    assert kept_costs.front([], []).tolist() == []


def test_runs_are_those_of_whole_texts_with_what_they_took():
    runs = kept_costs.runs(evidence.read())
    variants = {run.setting.variant for run in evidence.read().runs}
    assert "3-epochs-plainly" in variants and "3-epochs-plainly" not in set(runs.variant)
    one = next(run for run in evidence.read().runs if run.setting.recipe == "ptb/desk/tied")
    own = replace(one, setting=one.setting._replace(recipe="ptb/awd-lstm/softmax/plainly"))
    (row,) = kept_costs.runs(Evidence((one, own), (), {})).itertuples()
    assert row.recipe == "ptb/desk/tied"
    assert set(runs.text) == {"ptb"} and (runs.seconds > 0).sum() > 60
    assert set(runs.family[~(runs.seconds > 0)]) == {"ptb/kneser-ney"}  # which has no epochs
    assert not runs.machine.str.contains("NVIDIA").any()  # whose minutes are no core's
    assert runs.continued.sum() == runs.recipe.str.contains("second-session").sum()
    models = kept_costs.models()
    assert (models.floor > models.ours).all() and set(models.precision) == {"fp32", "bf16"}
    assert not models.duplicated(["machine", "model", "precision"]).any()
