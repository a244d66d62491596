"""Word similarity in results: means, wins and the paired statistic on scores that are known."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr

from course_lab import evidence, similarities
from course_lab.corpora import similarity
from course_lab.evidence import Evidence, Run, Setting
from course_lab.pair_cosines import COSINES
from course_lab.recipes import recipes
from course_lab.statistics import spearman, spearman_interval


@pytest.fixture
def scores():
    """Twelve lists, of which one is too short; `good` is 0.05 above `tied` on every list."""
    rows = []
    rng = np.random.default_rng(0)
    for seed in (1, 2, 3):
        level = rng.normal(0.3, 0.02, 12)
        for method, shift in (("tied", 0.0), ("good", 0.05 + seed / 1000), ("same", 0.0)):
            for i, rho in enumerate(level):
                row = {"model": method, "family": "f", "method": method, "seed": seed}
                row |= {"perplexity": 90.0 + seed / 10 + (method == "good"), "valid": 91.0}
                row |= {"beats": True, "list": f"list {i}", "pairs": 50 if i == 11 else 200}
                wobble = 0.004 * (-1) ** (i + seed) * (method == "same")
                value = 9.0 if i == 11 else rho + shift + wobble
                # without the mean row `good` is worse, and `same` is the same
                rows.append(row | {"rho": value, "centred": rho / 2 - shift})
    return pd.DataFrame(rows)


def test_short_lists_do_not_count(scores):
    assert similarities.by_run(scores).rho.max() < 0.5
    assert similarities.known(scores)["list 11"] == 50


@pytest.fixture
def parts(scores):
    """The same runs with two more lists, parts of one of them, on which no other method wins."""
    names = {"list 0": "WS-353", "list 1": "WS-353-SIM", "list 2": "WS-353-REL"}
    renamed = scores.assign(list=scores["list"].replace(names))
    inner = renamed["list"].isin(["WS-353-SIM", "WS-353-REL"])
    return renamed.assign(rho=renamed.rho.mask(inner, 0), centred=renamed.centred.mask(inner, 0))


def test_a_part_of_a_list_that_counts_does_not_count(scores, parts):
    without = parts[~parts["list"].isin(["WS-353-SIM", "WS-353-REL"])]
    pd.testing.assert_frame_equal(similarities.by_run(parts), similarities.by_run(without))
    assert set(similarities.wins_of(parts, "f").lists) == {9}
    assert similarities.win_matrices(parts, "f", "rho")[0].loc["good", "tied"] == 9
    told = similarities.told_whether(similarities.known(parts))
    assert told["WS-353"] == "yes" and told["WS-353-REL"] == "no, a part of WS-353"
    assert told["list 11"] == "no, too few pairs"
    # where the whole list is missing, or too short, its part counts
    alone = parts[parts["list"] != "WS-353"]
    assert "WS-353-SIM" in set(similarities.counted(alone)["list"])
    short = parts.assign(pairs=parts.pairs.mask(parts["list"] == "WS-353", 50))
    assert "WS-353-SIM" in set(similarities.counted(short)["list"])


def test_pairs_of_a_part_are_left_out():
    rng = np.random.default_rng(2)
    pairs = pd.DataFrame(rng.normal(size=(300, 5)), columns=["score", "often", *similarities.KINDS])
    pairs["list"] = np.repeat(["WS-353-REL", "one", "WS-353"], 100)
    lists = similarities.by_kind(pairs, resamples=2).index.get_level_values("list")
    assert list(dict.fromkeys(lists)) == ["one", "WS-353"]


def test_the_score_without_the_mean_row_may_have_another_verdict(scores):
    raw, centred = (similarities.compared(scores, "f", score) for score in ("rho", "centred"))
    assert raw.verdict["good"] == "better" and centred.verdict["good"] == "worse"
    assert centred.difference["good"] == pytest.approx(-raw.difference["good"])
    pd.testing.assert_frame_equal(similarities.compared(scores, "f"), centred)
    raw, centred = (
        similarities.win_matrices(scores, "f", score)[0] for score in ("rho", "centred")
    )
    assert raw.loc["good", "tied"] == 11 and centred.loc["good", "tied"] == 0
    wins = similarities.wins_of(scores, "f").set_index(["first", "second"]).wins
    assert wins[("good", 1), ("good", 2)] < 11


def test_methods_are_compared_by_pairs_of_seeds(scores):
    table = similarities.compared(scores, "f", "rho")
    assert table.difference["good"] == pytest.approx(5.2)
    assert table.verdict["good"] == "better" and table.n["good"] == 3
    assert table.verdict["same"] == "no difference larger than 2 hundredths"
    d = [100 * np.log((91 + s / 10) / (90 + s / 10)) for s in (1, 2, 3)]
    assert table.perplexity["good"] == pytest.approx(np.mean(d))
    low, high = table.loc["good", ["perplexity low", "perplexity high"]]
    assert 0 < low < np.mean(d) < high
    assert similarities.compared(scores, "another").empty


def test_wins_are_those_of_runs_of_two_seeds(scores):
    wins = similarities.wins_of(scores, "f", "rho").set_index(["first", "second"])
    assert set(wins.lists) == {11}
    assert wins.loc[(("good", 1), ("good", 2)), "kind"] == "two seeds of one method"
    assert wins.loc[(("good", 1), ("tied", 2)), "kind"] == "two methods, two seeds"
    rho = scores[scores.pairs >= 100].set_index(["method", "seed", "list"]).rho.sort_index()
    ahead = int((rho["good", 1] > rho["tied", 2]).sum())
    assert wins.loc[(("good", 1), ("tied", 2)), "wins"] == ahead
    assert (("good", 1), ("tied", 1)) not in wins.index  # share their start
    assert len(wins) == 3 * 3 + 3 * 6


def test_win_matrices_are_of_two_seeds(scores):
    one, other = similarities.win_matrices(scores, "f", "rho")
    assert list(one.index) == list(other.columns)
    assert one.loc["good", "tied"] == 11 and one.loc["tied", "good"] == 0
    assert similarities.changed_winners(one, one) == (0, len(one) * (len(one) - 1) // 2)
    n = len(one) * (len(one) - 1) // 2
    decided = sum(one.iloc[i, j] != one.iloc[j, i] for i in range(len(one)) for j in range(i))
    assert similarities.changed_winners(one, one.T) == (decided, n)
    tie = one.copy()
    tie.iloc[0, 1] = tie.iloc[1, 0] = 5
    won = one.copy()
    won.iloc[0, 1], won.iloc[1, 0] = 6, 4
    assert similarities.changed_winners(tie, won) == (1, n)  # a tie has no winner
    assert similarities.win_matrices(scores, "another") == []
    assert similarities.win_matrices(scores, "f", seeds=(1, 99)) == []


def test_the_paper_s_wins_are_counted_again():
    table = similarities.published_wins("ptb")
    assert table.loc["moc", "mos"] == 8  # Figure 4 of the paper
    assert not table.equals(similarities.published_wins("wikitext-2"))
    assert (table.sum(axis=1).diff().dropna() <= 0).all()


def test_the_interval_is_that_of_the_statistics():
    rng = np.random.default_rng(1)
    x = rng.normal(size=80)
    found = spearman(x, x + rng.normal(size=80))
    assert spearman_interval(found.r, 80) == pytest.approx((found.low, found.high))


def test_two_lists_are_at_hand_where_none_was_fetched(monkeypatch):
    monkeypatch.setattr(similarity, "fetched", lambda: False)
    lists = similarities.at_hand()
    assert len(lists["WS-353"].pairs) > 350 and len(lists["SimLex-999"].pairs) == 999


def settings_of(rows) -> pd.DataFrame:
    """Return scores of one list and seed by (model, family, beats, perplexity, valid, ρ)."""
    columns = ["model", "family", "beats", "perplexity", "valid", "rho"]
    table = pd.DataFrame(rows, columns=columns)
    return table.assign(centred=-table.rho, list="one", pairs=200, seed=1)


def test_a_recipe_stands_for_its_best_setting_that_beats_counting():
    rows = [
        ("a/b x=1", "a", True, 80.0, 90.0, 0.25),
        ("a/b x=2", "a", True, 70.0, 95.0, 0.2),
        ("a/b x=3", "a", False, 60.0, 60.0, 0.3),
        ("a/c", "a", True, 75.0, 80.0, 0.4),
    ]
    table = similarities.by_recipe(settings_of(rows))
    assert table.rho.to_dict() == {"a/c": 0.4, "a/b": 0.25}
    assert similarities.by_recipe(settings_of(rows[:0]).astype({"beats": bool})).empty


def test_a_correlation_over_all_settings_may_have_another_sign_within_a_family():
    """Models that have learned little have high perplexity and no score."""
    good = [(f"f/{i}", "f", True, 90.0 + i, 90.0, 0.2 + i / 100) for i in range(6)]
    poor = [(f"g/{i}", "g", False, 900.0 + i, 90.0, 0.1 - i / 100) for i in range(5)]
    poor.append(("f/poor", "f", False, 900.0, 90.0, -0.1))
    table = similarities.with_perplexity(settings_of(good + poor), "f")
    assert table.settings.tolist() == [12, 6, 6]
    everywhere, _, within = table.raw
    assert everywhere.r < 0 and within.r == pytest.approx(1)
    assert table.centred.iloc[2].r == pytest.approx(-1)
    assert similarities.with_perplexity(settings_of(good[:3]), "f").raw.iloc[2] is None


def test_a_correlation_may_hang_on_one_method_or_list():
    rng = np.random.default_rng(5)
    rows = [(f"f/{i}", "f", True, 90.0 + i, 90.0, 0.2 + i / 100) for i in range(5)]
    one = settings_of([*rows, ("f/odd", "f", True, 80.0, 90.0, 0.5)])  # centred is -rho
    one = pd.concat([one, settings_of([("f/poor", "f", False, 1.0, 90.0, 9.0)])])
    one = one.assign(method=one.model.str[2:])
    two = pd.concat([one, one.assign(list="two", centred=rng.normal(size=len(one)))])
    without = similarities.leaving_one_out(one, "f", "method")
    assert list(without) == ["0", "1", "2", "3", "4", "odd"]  # `poor` loses to counting
    assert without["odd"].r == pytest.approx(-1) and without["0"].r > -1
    assert similarities.in_order(one, "f") == (10, 15)
    lists = similarities.leaving_one_out(two, "f", "list")
    assert lists["two"] == similarities.with_perplexity(one, "f").centred.iloc[2]
    assert lists["one"].r != lists["two"].r
    assert similarities.in_order(one, "another") == (0, 0)
    assert similarities.leaving_one_out(one[:4], "f", "method")["0"] is None


def test_a_model_regains_what_holding_frequency_fixed_gives_back():
    rng = np.random.default_rng(4)
    often, score, noise = rng.normal(size=(3, 4_000))
    cosines = {kind: score + noise + i * often for i, kind in enumerate(similarities.KINDS)}
    pairs = pd.DataFrame({"list": "one", "score": score, "often": often} | cosines)
    table = similarities.by_model({"m": pairs}).loc["m"]
    assert table.regained.tolist() == pytest.approx((table.held - table.rho).tolist())
    none, some, much = table.regained[list(similarities.KINDS)]
    assert none == pytest.approx(0, abs=0.01) and 0.05 < some < much
    assert similarities.by_model({}).empty


def test_each_column_correlates_what_it_says():
    rng = np.random.default_rng(3)
    often, score = rng.normal(size=(2, 150))
    cosines = {kind: i * often + score for i, kind in enumerate(similarities.KINDS)}
    pairs = pd.DataFrame({"list": "one", "score": score, "often": often} | cosines)
    table = similarities.by_kind(pairs, resamples=5).loc["one"]
    for kind, cosine in cosines.items():
        row = table.loc[kind]
        assert row.rho == pytest.approx(spearmanr(cosine, score).statistic)
        assert row.frequency == pytest.approx(spearmanr(cosine, often).statistic)
        assert row.judged == pytest.approx(spearmanr(score, often).statistic)


def test_p_is_corrected_for_all_methods_that_a_family_declares(scores):
    """Runs that come later take no verdict back."""
    alone = similarities.compared(scores, "f", "rho").p
    desk = similarities.compared(scores.assign(family="ptb/desk"), "ptb/desk", "rho").p
    parts = [evidence.parts_of(name) for name in recipes]
    declared = {method for family, method, _ in parts if family == "ptb/desk"} - {"tied"}
    assert len(declared) > 30
    # `good` has the smaller p of both, which Holm multiplies by the whole family
    assert desk["good"] == pytest.approx(alone["good"] / 2 * (len(declared) + 2))


def run_of(recipe: str, seed: int, valid: float, test: float, cosines: bool) -> Run:
    """Return a run that has what `with_pairs` asks for."""
    content = {"metrics": {"valid_perplexity": valid, "test_perplexity": test}}
    content["arrays"] = {COSINES: "float16"} if cosines else {}
    setting = Setting(recipe, "standard", "", "text")
    return Run(Path(recipe, str(seed)), setting, seed, "desk", content)


def test_models_with_cosines_are_ordered_by_validation_over_their_seeds():
    runs = (
        run_of("a", 1, 60.0, 50.0, False),  # the least seed kept none
        run_of("a", 2, 95.0, 80.0, True),
        run_of("b", 1, 85.0, 91.0, True),  # a lucky seed
        run_of("b", 2, 99.0, 92.0, True),
        run_of("c", 1, 90.0, 93.0, True),
        run_of("d", 1, 50.0, 50.0, False),
    )
    found = similarities.with_pairs(Evidence(runs, (), {}))
    assert [(run.setting.recipe, run.seed) for run in found] == [("c", 1), ("b", 1), ("a", 2)]


@pytest.mark.parametrize("score", ["rho", "rho_centred"])
def test_the_mean_over_lists_leaves_parts_out(score):
    told = {"WS-353-SIM": (137, 0.9), "WS-353": (237, 0.3), "MEN": (1048, 0.1), "RG-65": (10, 1)}
    lists = {name: {"found": n, score: rho} for name, (n, rho) in told.items()}
    mean = evidence.similarity({"metrics": {"word_similarity": lists}}, score)
    assert mean == pytest.approx(0.2)
    del lists["WS-353"]  # then nothing holds its part
    mean = evidence.similarity({"metrics": {"word_similarity": lists}}, score)
    assert mean == pytest.approx(0.5)
    assert evidence.similarity({"metrics": {}}, score) is None


def test_a_rank_correlation_is_called_rho():
    x = np.arange(6.0)
    told = similarities.written(spearman(x, x[[1, 0, 2, 4, 3, 5]]))
    assert told.startswith("ρ = +0.89 [") and told.endswith("] (n = 6)")
    assert similarities.written(None) == "unknown (too few runs)"


def test_one_setting_stands_for_a_method():
    """A try of a search has one seed, and no pair of it with another setting is one of seeds."""
    rows = [("tied", "tied", 1, 95.0), ("tied", "tied", 2, 96.0), ("tied", "tied lr", 1, 80.0)]
    rows += [("mos", "mos", 1, 90.0), ("mos", "mos lr", 1, 85.0)]  # as many seeds: the better one
    names = ["method", "model", "seed", "valid"]
    table = pd.DataFrame(rows, columns=names).assign(family="f", list="WS", pairs=200)
    table = table.assign(rho=table.valid / 100, centred=table.valid / 100, perplexity=90.0)
    assert list(similarities.one_setting(table).model) == ["tied", "tied", "mos lr"]
    told = similarities.wins_of(table, "f")
    assert {
        name for pair in told[["first", "second"]].to_numpy().ravel() for name in [pair[1]]
    } == {1, 2}
    (row,) = similarities.compared(pd.concat([table, table.assign(seed=table.seed + 10)]), "f").n
    assert row == 2  # seeds 1 and 11 of the best setting of each
