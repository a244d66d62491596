"""Rank and perplexity: interventions on runs whose truth is known, and correlations divided."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from course_lab import evidence, ranks, results
from course_lab.planned import Planned
from course_lab.statistics import holm, pearson


@pytest.fixture
def keep(tmp_path, monkeypatch):
    """Put a run of PTB with a rank into an empty folder of kept results."""
    monkeypatch.setattr(results, "kept_folder", lambda: tmp_path)

    def keep(recipe, seed, perplexity, rank, change=None, more=None, contexts=3000):
        planned = Planned(recipe, "full", seed, change or {})
        ranked = {"press_rank": rank, "effective_rank": {e: rank // 10 for e in ranks.EPSILONS}}
        ranked |= {"contexts": contexts, "words": 10_000}
        metrics = {"test_perplexity": perplexity, "valid_perplexity": 2 * perplexity}
        epochs = [{"epoch": 1, "valid_perplexity": 3 * perplexity}]
        origin = {"tokens_seen": 1000}
        folder = tmp_path / planned.key
        figures = metrics | {"log_prob": ranked} | (more or {})
        results.write_result(folder, planned.experiment(), epochs, figures, origin)

    return keep


GSS = "ptb/awd-lstm/gss/et-asgd"


def test_an_intervention_is_a_pair_of_settings_that_differ_in_one_knob(keep):
    for c, rank, level in ((-1.0, 1000, 60.0), (1.0, 500, 50.0)):
        for seed in (1, 2, 3):
            change = {"output_layer.c": c, "output_layer.k": 3.0}
            keep(GSS, seed, level + seed / 10, rank, change)
            keep(GSS, seed, 90.0, rank, change | {"optimisation.clip": 0.5})
    keep(GSS, 1, 10.0, 9999, {"optimisation.clip": 0.75})  # no other setting agrees with it
    table = ranks.points(evidence.read())
    changes = ranks.interventions(table)
    assert list(changes.knob) == ["c, k", "c, k"] and list(changes["rank"]) == [2, 2]
    assert set(changes["from"]) == {"1, 3"} and set(changes.to) == {"-1, 3"}
    d = [100 * np.log((60 + s / 10) / (50 + s / 10)) for s in (1, 2, 3)]
    first, second = sorted(changes.difference, reverse=True)
    assert (first, second) == pytest.approx((np.mean(d), 0))
    last = ranks.interventions(table, "last valid")
    assert list(last.difference) == pytest.approx(list(changes.difference))
    assert (table["last valid"] / table.perplexity).tolist() == pytest.approx([3] * len(table))


def test_a_mixtures_knob_is_told_at_the_best_epoch_and_at_the_last_one(keep):
    for components, rank in ((2, 100), (8, 300)):
        for seed in (1, 2):
            change = {"output_layer.components": components}
            keep("ptb/desk/mos", seed, 50.0 + components, rank, change)
    keep("ptb/desk/mos", 1, 10.0, 9999, {"optimisation.clip": 0.75})  # a group of one value
    table = ranks.points(evidence.read())
    both = ranks.at_two_epochs(table, "components")
    assert list(both.index) == [("ptb", "ptb/desk/mos", 2), ("ptb", "ptb/desk/mos", 8)]
    assert both["Press' rank"].tolist() == ["100", "300"] and both.n.tolist() == [2, 2]
    assert both[ranks.EFFECTIVE].tolist() == [10, 30]
    assert both.best.tolist() == [104, 116] and both["last"].tolist() == [156, 174]
    assert both.change.tolist() == pytest.approx([100 * np.log(1.5)] * 2)
    assert ranks.at_two_epochs(table, "latent dropout").empty


def test_an_exchange_of_the_softmax_is_an_intervention_and_evidence_comes_first(keep):
    """A result from before a setting was invented is of the same setting as one that has none."""
    old = "ptb/desk/tied"
    counts = {"unigram": 600.0, "Kneser-Ney 3": 150.0, "Kneser-Ney 5": 140.0}
    text = evidence.text_of(Planned(old, "full", 1, {}).experiment().to_dict())
    results.write_table("ngrams", {"rows": [{"text": text, "test": counts}]})
    small = {"corpus.small": {"train": 1000, "valid": 100, "test": 100, "words": 50}}
    for seed in (1, 2, 3):
        keep(old, seed, 120.0, 200, small)
        for method in ("mos", "gss", "sigsoftmax"):  # more settings than on the whole text
            keep(f"ptb/desk/{method}", seed, 110.0, 400, small)
        keep(old, seed, 90.0 + seed / 10, 200)
        keep("ptb/desk/mos", seed, 81.0, 2400)
        keep("ptb/desk/cosine", seed, 70.0, 2400)  # no other output layer
        keep(old, seed, 99.0, 200, {"output_layer.bias": True})  # not the layer of the recipe
    of = evidence.read()
    for run in of.runs:
        if run.setting.recipe == old:
            assert run.content["experiment"]["optimisation"].pop("tied_until") is None
    table = ranks.points(of)
    changes = ranks.interventions(table)
    assert changes.evidence.tolist() == [True, False, False, False]
    row = changes.iloc[0].to_dict()
    assert (row["knob"], row["from"], row["to"], row["n"]) == (ranks.LAYER, "tied", "mos", 3)
    d = [100 * np.log(81 / (90 + s / 10)) for s in (1, 2, 3)]
    assert row["difference"] == pytest.approx(np.mean(d))
    assert row["rank"] == 12 and row["low"] < row["difference"] < row["high"] < 0
    (told,) = ranks.told(changes[changes.evidence]).splitlines()
    assert told.startswith(
        "- The output layer goes from tied to mos on ptb: the effective rank is 12.0 times as "
        "high and Press' rank 12.0 times as high, and perplexity"
    )
    assert f"differs by {np.mean(d):.1f} % [" in told and told.endswith("over 3 pairs of seeds.")
    assert ranks.told(changes[:0]) == "No intervention is kept that is evidence."
    chosen = ranks.most_settings(table)
    assert set(chosen.method) == {"tied", "mos"} and set(chosen.tier) == {"desk"}
    assert ranks.most_settings(table[table.method == "tied"]).empty
    of.ngrams.clear()  # a baseline that may be worse than counting is no evidence
    assert not ranks.interventions(ranks.points(of)).evidence.any()


def test_a_rank_that_reaches_the_number_of_contexts_is_at_least_so_high(keep):
    counts = {"unigram": 600.0, "Kneser-Ney 3": 150.0, "Kneser-Ney 5": 140.0}
    text = evidence.text_of(Planned("ptb/desk/tied", "full", 1, {}).experiment().to_dict())
    results.write_table("ngrams", {"rows": [{"text": text, "test": counts}]})
    for seed in (1, 2, 3):
        keep("ptb/desk/tied", seed, 90.0 + seed / 10, 200, contexts=2500)
        keep("ptb/desk/mos", seed, 81.0, 2500, contexts=2500)
        keep("ptb/desk/capped-15", seed, 90.0, 2400, contexts=2500)
        keep("ptb/desk/sigsoftmax", seed, 91.0, 2200, contexts=2500)
        keep("ptb/desk/gss", seed, 92.0, 9990, contexts=10_400)  # all words: a full rank
    changes = ranks.interventions(ranks.points(evidence.read()))
    found = dict(zip(changes.to, changes["at least"], strict=True))
    assert found == {"mos": True, "capped-15": True, "sigsoftmax": False, "gss": False}
    shown = ranks.shown(changes).set_index("to")
    assert changes["from softmax"].notna().all()  # and equal to the difference, so not shown twice
    assert shown[["from softmax", "softmax low", "softmax high"]].isna().all(axis=None)
    told = shown["Press' rank, ratio"]
    assert told["mos"] == "≥ 12.5" and told["sigsoftmax"] == "11.0"
    (mos,) = (line for line in ranks.told(changes).splitlines() if "to mos" in line)
    assert "effective rank is 12.5 times as high and Press' rank at least 12.5 times" in mos
    assert "at least" not in ranks.told(changes[changes.to == "gss"])
    six = ranks.table_6(evidence.read())
    assert six.limited["mos, ours"] and not six.limited["sigsoftmax, ours"]
    assert not six.limited[six.index.str.endswith("published")].any()


def test_runs_whose_best_epoch_is_the_last_say_nothing_about_overfitting(keep):
    counts = {"unigram": 600.0, "Kneser-Ney 3": 150.0, "Kneser-Ney 5": 140.0}
    text = evidence.text_of(Planned("ptb/desk/tied", "full", 1, {}).experiment().to_dict())
    results.write_table("ngrams", {"rows": [{"text": text, "test": counts}]})
    for seed in (1, 2):
        keep("ptb/desk/tied", seed, 90.0 + seed / 10, 200, more={"best_epoch": 1})
        keep("ptb/desk/mos", seed, 81.0, 2500, more={"best_epoch": 1})
    table = ranks.points(evidence.read())
    told = ranks.at_last_told(*(ranks.interventions(table, f) for f in ("valid", "last valid")))
    assert told.startswith("In every run that is evidence the best epoch is the last one")
    keep("ptb/desk/gss", 1, 92.0, 2400, more={"best_epoch": 1})
    keep("ptb/desk/gss", 2, 92.0, 2400, more={"best_epoch": 0})
    table = ranks.points(evidence.read())
    told = ranks.at_last_told(*(ranks.interventions(table, f) for f in ("valid", "last valid")))
    assert told == (
        "From the best to the last epoch a difference from the reference changes by 0.0 % at most "
        "where it is evidence, and by 0.0 % at most in all 2 rows."
    )


def test_the_family_is_what_the_plans_declare(monkeypatch):
    settings = {("ptb/desk/gss", "full", ""), ("ptb/desk/gss", "full", "output_layer.c=1")}
    settings |= {("ptb/desk/mos", "full", ""), ("ptb/desk/capped", "full", "")}
    settings |= {("ptb/desk/tied", "full", ""), ("ptb/awd-lstm/mos", "full", "")}
    monkeypatch.setattr(ranks, "_planned", lambda: settings)
    assert ranks.count_planned(["ptb/desk/tied", "ptb/desk/mos"]) == 2 * 2 + 3 + 1
    assert ranks.count_planned(["wikitext-2/desk/tied"]) == 0


def test_ranks_lie_in_two_groups_only_with_a_gap_of_most_of_their_range():
    told = ranks.two_groups([201, 2223, 202, 2500])
    assert told.startswith("Press' rank is 201 to 202 in 2 of these runs and 2,223 or more in the ")
    assert told.endswith("other 2. So a correlation with Press' rank compares two groups.")
    assert ranks.two_groups([10, 20, 40, 80]) == "Press' rank is 10 to 80 in these runs."
    assert ranks.two_groups([200, 200]) == "Press' rank is 200 to 200 in these runs."


def test_p_is_corrected_over_all_rises_and_an_equal_rank_is_none(keep, monkeypatch):
    monkeypatch.setattr(ranks, "count_planned", lambda names: 7 if set(names) == {GSS} else 0)
    noise = np.array([0.0, 0.3, -0.2])
    layers = (-1.0, 1000, 60.0), (0.0, 800, 51.0), (1.0, 500, 50.0), (2.0, 504, 70.0)
    for c, rank, level in layers:
        for seed in (1, 2, 3):
            keep(GSS, seed, level + noise[seed - 1] * c, rank, {"output_layer.c": c})
    changes = ranks.interventions(ranks.points(evidence.read()))
    assert len(changes) == 2 and not changes.to.str.startswith("2").any()
    level, k = {-1.0: 60.0, 0.0: 51.0}, {}
    for c, high in level.items():
        d = 100 * np.log((high + noise * c) / (50 + noise))
        k[c] = float(stats.ttest_1samp(d, 0).pvalue)
    expected = dict(zip(k, holm(list(k.values()), 7), strict=True))
    found = {float(to.split(",")[0]): p for to, p in zip(changes.to, changes.p, strict=True)}
    assert found == pytest.approx(expected)


def test_a_setting_is_also_compared_with_the_softmax_that_has_all_else_equal(keep):
    """The reference of a group may itself be better than the softmax."""
    for seed in (1, 2, 3):
        noise = seed / 10
        keep("ptb/desk/gss", seed, 50.0 + noise, 500, {"output_layer.c": 1.0})
        keep("ptb/desk/gss", seed, 51.0 + noise, 900, {"output_layer.c": -1.0})
        keep("ptb/desk/tied", seed, 52.0 + noise, 300, {})
        keep("ptb/desk/tied", seed, 10.0 + noise, 300, {"optimisation.clip": 0.25})
    (row,) = ranks.interventions(ranks.points(evidence.read())).to_dict("records")
    d = [100 * np.log((51 + s / 10) / (52 + s / 10)) for s in (1, 2, 3)]
    assert row["difference"] > 0 and row["from softmax"] == pytest.approx(np.mean(d))
    assert row["softmax low"] < np.mean(d) < row["softmax high"] < 0


def test_a_setting_of_several_knobs_is_told_once_by_its_exchange(keep):
    """The reference of the knob c, k is another setting of gss, that of the exchange is tied."""
    counts = {"unigram": 600.0, "Kneser-Ney 3": 150.0, "Kneser-Ney 5": 140.0}
    text = evidence.text_of(Planned("ptb/desk/tied", "full", 1, {}).experiment().to_dict())
    results.write_table("ngrams", {"rows": [{"text": text, "test": counts}]})
    for seed in (1, 2, 3):
        keep("ptb/desk/tied", seed, 90.0 + seed / 10, 200, more={"parameters": 1000})
        keep("ptb/desk/gss", seed, 85.0, 2400, more={"parameters": 1000})
        keep("ptb/desk/gss", seed, 91.0, 300, {"output_layer.c": 30.0}, {"parameters": 1000})
    changes = ranks.interventions(ranks.points(evidence.read()))
    assert len(changes) == 2 and changes.setting.nunique() == 1
    (row,) = ranks.distinct(changes).to_dict("records")
    assert (row["knob"], row["from"], row["parameters"]) == (ranks.LAYER, "tied", 1)
    assert ranks.answer(changes).startswith("Yes, as far as this evidence goes")
    assert ranks.answer(changes).endswith("Perplexity falls with gss.")
    assert "open" in ranks.answer(changes.assign(evidence=False))


def changed(*rows):
    """Return interventions by (to, low, high, parameters) that are evidence."""
    table = pd.DataFrame(rows, columns=["to", "low", "high", "parameters"])
    fixed = {"knob": ranks.LAYER, "text": "ptb", "evidence": True, "rank": 12.0}
    fixed |= {"effective rank": 1.5}
    return table.assign(**fixed, difference=(table.low + table.high) / 2, setting=table.index)


def test_a_fall_that_comes_with_parameters_is_none_by_the_rank_alone():
    mos, gss, same = ("mos", -8, -7, 1.05), ("gss", 2, 3, 1), ("sigsoftmax", -1, 1, 1)
    told = ranks.answer(changed(mos, gss, same))
    assert told.startswith("No evidence says so") and "More parameters come with mos." in told
    assert "Perplexity rises with gss. It changes by less than 2 %, by the whole inter" in told
    assert "interval, with sigsoftmax." in told and "larger changes" not in told
    assert "falls with" in told and "changes by -7.5 % to +2.5 %" in told
    assert "effective rank is 1.5 to 1.5 times as high" in told and "12 times as high or hi" in told
    alone = ("plif", -3, -2, 1.0)
    assert "rank alone with plif only" in ranks.answer(changed(mos, gss, alone))
    unknown = ranks.answer(changed(("mos", -8, -7, np.nan)))
    assert unknown.startswith("No evidence says so") and "More parameters" not in unknown


def test_hardly_any_change_is_an_interval_around_0_within_2_per_cent():
    table = changed(("a", -1.9, 1.9, 1), ("b", -2.1, 1, 1), ("c", -1, 2.1, 1), ("d", 0.5, 1, 1))
    assert list(ranks.hardly_any(table)) == [True, False, False, False]
    assert "The interval contains 0 and larger changes with b and c." in ranks.answer(table)
    assert not ranks.hardly_any(table.assign(low=np.nan, high=np.nan)).any()  # of one pair


def test_all_our_rows_of_table_6_are_of_one_model(keep):
    """The softmax of another model would have been the better one."""
    keep("ptb/awd-lstm/softmax/short", 1, 40.0, 402, {})
    for method, rank in (("tied", 300), ("gss", 900), ("mos", 950)):
        keep(f"ptb/desk/{method}", 1, 50.0, rank, {})
    six = ranks.table_6(evidence.read())
    ours = {name: rank for name, rank in six.Press.items() if name.endswith("ours")}
    assert ours == {"softmax, ours": 300, "gss, ours": 900, "mos, ours": 950}


def test_one_pair_has_no_interval(keep):
    for c, rank in ((-1.0, 900), (1.0, 500)):
        keep(GSS, 1, 50.0 - c, rank, {"output_layer.c": c})
    (low,) = ranks.interventions(ranks.points(evidence.read())).low
    assert np.isnan(low)


def test_a_correlation_can_have_one_sign_within_and_the_other_between():
    setting = np.repeat(np.arange(5), 4)
    seed = np.tile([-1.5, -0.5, 0.5, 1.5], 5)
    wobble = 0.02 * np.random.default_rng(0).standard_normal(20)
    x = setting + 0.1 * seed
    y = setting - 0.1 * seed + wobble
    parts = ranks.divided(x, y, setting)
    assert parts.within.r < -0.9 and parts.between.r > 0.9
    assert (parts.within.n, parts.between.n) == (16, 5)  # 20 runs, of which means cost 4
    inner = wobble - np.repeat(wobble.reshape(5, 4).mean(1), 4)
    wide = pearson(seed, inner - 0.1 * seed)
    assert wide.r == pytest.approx(parts.within.r)
    assert parts.within.low < wide.low and parts.within.high > wide.high
    low, high = ranks.leaving_one_out(x, y, setting)
    assert low <= parts.within.r <= high
    assert "n = 16" in ranks.written(parts.within)


def test_a_seed_that_all_settings_share_is_no_witness_for_each_of_them():
    """Only the seed moves both, so that nothing is left once its mean is taken away."""
    rng = np.random.default_rng(0)
    setting = np.repeat(np.arange(12), 3)
    seed = np.tile([1, 2, 3], 12)
    luck = np.array([1.0, -0.2, -0.8])[seed - 1]
    noise = 0.3 * rng.standard_normal((2, 36))
    x = setting + luck + noise[0]
    y = setting - luck + noise[1]
    within = ranks.divided(x, y, setting, seed).within
    assert ranks.divided(x, y, setting).within.r < -0.8  # as if there were 25 witnesses
    residuals = []
    for values in noise:
        table = values.reshape(12, 3)
        rows, columns = table.mean(1, keepdims=True), table.mean(0)
        residuals.append((table - rows - columns + table.mean()).ravel())
    assert within.r == pytest.approx(np.corrcoef(residuals)[0, 1])
    assert (within.low, within.high, within.n) == (-1, 1, 3)
    low, high = ranks.leaving_one_out(x, y, setting, seed)
    assert low <= within.r <= high
    more = ranks.divided(*np.tile([x, y, setting], 2), np.r_[seed, seed + 3]).within
    assert more.n == 6 and -1 < more.low
    assert ranks.divided(luck, luck, setting, seed).within is None


def test_what_cannot_be_correlated_is_unknown():
    nothing = ranks.divided([], [], [])
    assert nothing == (None, None, None) and "unknown" in ranks.written(None)
    assert np.isnan(ranks.leaving_one_out([], [], [])).all()
    assert ranks.divided([1.0, 2, 3, 5], [1.0, 3, 2, 4], [0, 1, 2, 3]).within is None


def test_narrowing_the_range_is_what_the_formula_says():
    rng = np.random.default_rng(0)
    y = rng.standard_normal(400_000)
    x = 0.6 * y + 0.8 * rng.standard_normal(len(y))
    near = np.abs(y) < 0.7
    measured = np.corrcoef(x[near], y[near])[0, 1]
    assert ranks.restricted(0.6, y[near].std()) == pytest.approx(measured, abs=0.01)
    assert ranks.restricted(0.6, 1) == pytest.approx(0.6)
    assert ranks.restricted(0.48, 0.45) == pytest.approx(0.24, abs=0.005)


def test_the_published_interventions_are_those_of_the_tables():
    rows = ranks.published_interventions().set_index(["knob", "corpus"])
    dropout = rows.loc[("latent dropout", "ptb")]
    assert dropout.difference.max() == pytest.approx(100 * np.log(64.82 / 56.07))
    assert (rows.loc[("components", "ptb")].difference < 0).all()
    six = ranks.table_6(evidence.read())
    assert six.loc["softmax, published"].tolist()[:4] == [402, 52, 201, 306]
    assert six.loc["mos, published"].tolist()[:4] == [9983, 81, 1521, 6428]
    assert isinstance(six, pd.DataFrame)
