"""The ledger of claims: verdicts on runs whose truth is known, and what a missing run changes."""

import json
import re
import shutil
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from course_lab import claims, comparison, evidence, leaderboard, plans, published, results
from course_lab.claims_table import BOUNDED, CLAIMS, LENGTHS, UNSEARCHED, Claim
from course_lab.cli import application
from course_lab.experiment import Experiment
from course_lab.planned import Planned
from course_lib.errors import CourseError
from course_lib.metrics import geometry
from course_lib.regularizers import ExponentialPrior, PolynomialPrior
from tests.evidence_sample import PTB

METHOD, PLAIN = "ptb/awd-lstm/mos/et-asgd", "ptb/awd-lstm/softmax/et-asgd"
MOS = "parthiban2021-mos"


def test_pairs_at_scale_decide_a_claim_as_the_formulas_say(kept):
    plain = {1: 57.0, 2: 57.2, 3: 56.9}
    method = {1: 54.9, 2: 55.0, 3: 54.8, 4: 60.0}  # seed 4 has no partner
    for recipe, values in ((PLAIN, plain), (METHOD, method)):
        for seed, value in values.items():
            kept(recipe, seed, value)
    row = claims.ledger(evidence.read()).loc[MOS]
    d = np.array([100 * np.log(method[s] / plain[s]) for s in plain])
    assert (row.verdict, row.tier, row.n, row.seeds) == ("agrees", "at scale", 3, "1 2 3")
    assert row.ours == pytest.approx(d.mean())
    assert (row.low, row.high) == pytest.approx(comparison.interval(d))
    assert row.published == pytest.approx(
        np.mean([100 * np.log(54.91 / 57.08), 100 * np.log(61.96 / 64.63)])
    )
    # Corrected for every claim that runs can test, whether they were run or not
    family = len(CLAIMS) - 2
    assert [bool(claim.needs) for claim in CLAIMS].count(True) == 2
    assert row.p == pytest.approx(min(1, family * comparison.p_value(d)))
    for seed, value in plain.items():
        kept(METHOD.replace("mos", "gss"), seed, value + 0.1 * seed)
    again = claims.ledger(evidence.read()).loc[MOS]
    assert (again.p, again.verdict) == (row.p, row.verdict)  # whatever else was run


def test_the_opposite_disagrees_and_a_run_that_is_removed_leaves_its_claim_untested(kept):
    folders = [kept(METHOD, seed, value) for seed, value in ((1, 59.0), (2, 59.207))]
    for seed, value in ((1, 57.0), (2, 57.2)):
        kept(PLAIN, seed, value)
    row = claims.ledger(evidence.read()).loc[MOS]
    assert row.verdict == "disagrees"
    shutil.rmtree(folders[0])
    row = claims.ledger(evidence.read()).loc[MOS]
    assert (row.verdict, row.why) == ("untested", "fewer than two seeds of both models are kept")
    shutil.rmtree(folders[1])
    row = claims.ledger(evidence.read()).loc[MOS]
    assert (row.verdict, row.why) == ("untested", "no runs of both models are kept")


@pytest.mark.parametrize(("level", "verdict"), [(1.0, "agrees"), (1.6, "untested")])
def test_a_desk_model_is_evidence_only_if_it_beats_counting(kept, level, verdict):
    change = {"optimisation.epochs": 2}
    for seed, noise in ((1, 0.0), (2, 0.3), (3, -0.2)):
        kept("ptb/transformer-128/softmax", seed, level * 100 + noise, change)
        kept("ptb/transformer-128/mos", seed, level * 95 + noise, change)
    row = claims.ledger(evidence.read()).loc[MOS]
    assert row.verdict == "untested" and "are not counted" in row.why
    kept.count()
    row = claims.ledger(evidence.read()).loc[MOS]
    assert (row.verdict, row.tier) == (verdict, "desk")
    assert row.ours == pytest.approx(100 * np.log(0.95), abs=0.05)
    rows = leaderboard.rows(evidence.read())
    lstm = rows[(rows.recipe == METHOD) & rows.ours.notna()]
    assert set(lstm.tier) == {"another model"}  # a Transformer is no smaller LSTM


def test_a_verdict_stands_beside_what_the_plan_says_of_tuning(kept, monkeypatch):
    """And a claim without a verdict beside nothing."""
    kept.count()
    for seed in (1, 2, 3):
        for method, value in (("tied", 90.0), ("adversarial", 110.0), ("mos", 85.0)):
            kept(f"ptb/desk/{method}", seed, value + seed / 10, profile="standard")
    kept("ptb/desk/gss", 1, 91.0, profile="standard")
    of = evidence.read()
    ledger = claims.ledger(of)
    row = ledger.loc["wang2019-perplexity"]
    said = f"Plan `desk`: {plans.read_plan('desk').tuned}"
    assert (row.verdict, row.tuning) == ("disagrees", said)
    assert said in claims.conclusions("wang2019-perplexity", of=of)
    assert said in " ".join(claims.printed(ledger).split())
    assert claims.shown(ledger).tuning["wang2019-perplexity"] == said
    assert claims.shown(ledger).tuning["parthiban2021-gss"] == ""
    # of one plan that has both sides and of another that has one
    monkeypatch.setattr(
        evidence,
        "_plans_of",
        lambda family: [
            evidence._PlannedSeeds("untold", "", {ours[:3]: {1}, plain[:3]: {1}}),
            evidence._PlannedSeeds("one", "A.", {ours[:3]: {1}}),
            evidence._PlannedSeeds("both", "B.", {ours[:3]: {1, 2, 3}, plain[:3]: {2, 3, 4}}),
        ],
    )
    ours, plain = (
        next(s for s in of.settings if s.recipe == f"ptb/desk/{m}") for m in ("mos", "tied")
    )
    assert evidence.tuning(ours, plain) == "Plan `both`: B."
    assert evidence.tuning(ours) == "Plan `one`: A."
    assert (evidence.planned_seeds(ours, plain), evidence.planned_seeds(ours)) == (2, 3)
    assert evidence.planned_seeds(ours._replace(recipe="ptb/desk/none")) == 0
    assert evidence.tuning(plain._replace(variant="size=1")) == ""


def test_a_row_that_is_withdrawn_decides_nothing_and_says_why(kept):
    kept.count()
    for seed in (1, 2, 3):
        kept("ptb/desk/tied", seed, 90.0 + seed / 10, profile="standard")
        kept("ptb/desk/spectral-normalization", seed, 99.0, profile="standard")
    row = claims.ledger(evidence.read()).loc["wang2020-normalisation"]
    assert (row.verdict, row.why) == ("untested", BOUNDED)
    for recipe, value in (("softmax", 66.0), ("spectral-normalization", 73.0)):
        for seed in (1, 2, 3):
            kept(f"wikitext-2/awd-lstm/{recipe}", seed, value + seed / 10)
    row = claims.ledger(evidence.read()).loc["wang2020-normalisation"]
    assert (row.verdict, row.tier) == ("agrees", "at scale")


def test_a_verdict_of_fewer_than_five_pairs_is_interim(kept, monkeypatch):
    """Even where a plan gives the comparison fewer, or none has both sides."""
    monkeypatch.setattr(evidence, "planned_seeds", lambda *sides: 3)
    for seed in range(1, 6):
        kept(PLAIN, seed, 57.0 + seed / 10)
        kept(METHOD, seed, 54.0 + seed / 11)
        row = claims.ledger(evidence.read()).loc[MOS]
        told = {1: "", 5: ""}.get(seed, f"{seed} of 5 pairs")
        assert row.interim == told, seed
        if seed > 1:
            assert claims.interim(claims.ledger(evidence.read())) == (seed < 5)
            suffix = f" (interim: {told})" if told else ""
            assert claims.verdict_of(row) == claims.shown(row.to_frame().T).verdict[MOS]
            assert claims.verdict_of(row) == row.verdict + suffix


def test_a_comparison_within_a_family_is_interim_by_its_plans():
    """Ten pairs for a headline, and five for what no plan names."""
    assert claims.is_interim("ptb/desk", "untied", 9)
    assert not claims.is_interim("ptb/desk", "untied", 10)
    assert claims.is_interim("ptb/desk", "no such method", 4)
    assert not claims.is_interim("ptb/desk", "no such method", 5)


def test_a_headline_is_interim_until_it_has_the_pairs_of_its_plan(kept):
    """The plan of the desk gives ten seeds to the tied and the untied softmax."""
    kept.count()
    for seed in range(1, 11):
        kept("ptb/desk/tied", seed, 90.0 + seed / 10, profile="standard")
        kept("ptb/desk/untied", seed, 100.0 + seed / 11, profile="standard")
        if seed in (2, 5, 9, 10):
            row = claims.ledger(evidence.read()).loc["inan2017-tying"]
            told = f"{seed} of 10 pairs" if seed < 10 else ""
            assert (row.verdict, row.interim) == ("agrees", told)


def test_runs_that_only_lack_a_seed_come_before_those_that_lose_to_counting(kept):
    kept.count()
    for seed in (1, 2):
        kept("ptb/transformer-128/softmax", seed, 600.0 + seed)
        kept("ptb/transformer-128/mos", seed, 500.0 + seed)
    (losing, *_) = claims.tests(claims.claim(MOS), evidence.read())
    assert "does not beat" in losing.against
    kept("ptb/desk/tied", 1, 90.0, profile="standard")
    kept("ptb/desk/mos", 1, 88.0, profile="standard")
    (first, *_) = claims.tests(claims.claim(MOS), evidence.read())
    assert (first.against, first.seeds) == (claims.FEW, (1,))


def test_a_ledger_is_told_with_what_is_withdrawn(kept):
    kept.count()
    for seed in (1, 2, 3):
        kept("ptb/desk/tied", seed, 90.0 + seed / 10, profile="standard")
        kept("ptb/desk/spectrum-control", seed, 110.0 + seed / 9, profile="standard")
        kept("ptb/desk/untied", seed, 100.0 + seed / 11, profile="standard")
        kept("ptb/desk/gss", seed, 90.2 + seed / 10, profile="standard")
    told = claims.told(claims.ledger(evidence.read()))
    assert "agree with 2, of which 2 are about perplexity" in told  # tying, and no gain by GSS
    assert "1 of these agreements are with a claim of no gain" in told
    assert "The runs of 1 of these are withdrawn, and those of 1 speak against the paper." in told


def test_an_interval_on_the_denied_side_is_contrary():
    def told(low, high, name="wang2020-perplexity"):
        return claims.is_contrary(pd.Series({"low": low, "high": high}, name=name))

    assert told(17.5, 21.7) and not told(-1, 2) and not told(-3, -2) and not told(np.nan, np.nan)
    higher = "wang2020-normalisation"
    assert told(-3, -2, higher) and not told(1, 2, higher)
    assert not told(1, 2, "parthiban2021-gss")  # of no gain


def test_an_undecided_claim_is_not_interim(kept):
    for seed, value in {1: 57.0, 2: 58.0, 3: 56.0}.items():
        kept(PLAIN, seed, value)
        kept(METHOD, seed, 114 - value)
    row = claims.ledger(evidence.read()).loc[MOS]
    assert row.verdict.startswith("undecided") and row.interim == ""


def test_pairs_of_two_precisions_are_told(kept):
    mine = Planned("ptb/desk/tied", "standard", 1, {}).experiment().optimisation.precision
    other = {"bf16": "fp32", "fp32": "bf16"}[mine]
    for seed in (1, 2):
        kept("ptb/desk/tied", seed, 90.0 + seed, profile="standard")
        change = {"optimisation.precision": other}
        kept("ptb/desk/mos", seed, 88.0 + seed, change, profile="standard")
    (test,) = claims._elsewhere(claims.claim(MOS), evidence.read())
    assert f"was trained in {other}, and" in test.note and test.note.endswith(f"in {mine}")


@pytest.mark.parametrize("stale", [1, 2])
def test_a_seed_of_an_older_recipe_makes_its_setting_no_row_of_the_paper(kept, stale):
    """Whichever seed it is, the first or another."""
    folders = {}
    for seed in (1, 2):
        kept(PLAIN, seed, 57.0 + seed)
        folders[seed] = kept(METHOD, seed, 55.0 + seed)
    assert list(claims._at_scale(claims.claim(MOS), evidence.read()))
    told = results.read_result(folders[stale])
    other = Planned(METHOD, "full", stale, {"optimisation.learning_rate": 1.0}).experiment()
    results.write_result(folders[stale], other, [], told["metrics"], told["provenance"])
    assert not list(claims._at_scale(claims.claim(MOS), evidence.read()))


def test_a_claim_about_one_optimiser_is_tested_by_its_models_alone(kept):
    kept.count()
    shares = {"ptb/desk/tied": 0.99, "ptb/vd-lstm-200/tied": 0.5}  # the second is trained by SGD
    for recipe, share in shares.items():
        for seed in (1, 2, 3):
            cloud = {"positive_share": share + seed / 1000}
            kept(recipe, seed, 90.0, profile="standard", geometry=cloud)
    tests = claims.tests(claims.claim("gao2019-cone"), evidence.read())
    assert {test.method.recipe for test in tests} == {"ptb/desk/tied"}


def test_shorter_rows_alone_are_more_isotropic_which_the_claims_of_isotropy_say(kept):
    W = torch.randn(400, 8, generator=torch.Generator().manual_seed(1)) + 1.0
    long, short = geometry.isotropy(W), geometry.isotropy(W / 4)
    assert short.I1 > 2 * long.I1 and short.I2 < long.I2 / 2
    for seed in (1, 2):
        for method, value in (("tied", 0.005), ("spectrum-control", 0.9)):
            cloud = {"I1": value + seed / 1000, "I2": 1 - value}
            kept(f"ptb/desk/{method}", seed, 90.0, profile="standard", geometry=cloud)
    ledger = claims.ledger(evidence.read())
    for name in ("wang2020-isotropy-1", "wang2020-isotropy-2"):
        assert LENGTHS in ledger.note[name]


@pytest.mark.parametrize("name", ["spectrum-control", "spectrum-polynomial"])
def test_singular_values_stay_where_the_prior_lets_them_begin(name):
    """As `UNSEARCHED` says of the desk's runs; those of the tied softmax are far from there."""
    desk = [run for run in evidence.read().runs if not run.setting.variant]
    runs = [run for run in desk if run.setting.recipe == f"ptb/desk/{name}"]
    assert runs and "hardly move from where it lets them begin" in UNSEARCHED
    kind, options = next(
        (part["kind"], part["options"])
        for part in runs[0].experiment["regularizers"]
        if part["kind"].endswith("Prior")
    )
    prior = {"ExponentialPrior": ExponentialPrior, "PolynomialPrior": PolynomialPrior}[kind]
    tied = next(run for run in desk if run.setting.recipe == "ptb/desk/tied")
    for run, near in [*((run, True) for run in runs), (tied, False)]:
        values = np.array(run.figure("geometry/singular_values"))
        begins = prior(**options).values(len(values)).numpy()
        assert (np.abs(np.log(values / begins)).max() < 0.1) == near


def test_both_sides_of_a_context_are_chosen_by_validation(kept):
    """Of two baselines the better in validation is taken, though the other is easier to beat."""
    kept.count()
    for rate, value in ((0.1, 100.0), (0.2, 110.0)):
        change = {"optimisation.epochs": 2, "optimisation.learning_rate": rate}
        for seed in (1, 2, 3):
            kept("ptb/transformer-128/softmax", seed, value + seed / 10, change)
    for seed in (1, 2, 3):
        kept("ptb/transformer-128/mos", seed, 105.0, {"optimisation.epochs": 2})
    row = claims.ledger(evidence.read()).loc[MOS]
    assert row.tried == "1 / 2" and "0.1" in row.baseline and row.verdict == "disagrees"


def test_neither_a_lucky_seed_nor_another_thing_stands_for_a_row(kept):
    for seed in (1, 2, 3):
        kept("ptb/awd-lstm/softmax", seed, 100.0 + seed, {"optimisation.clip": 0.5})
    kept("ptb/awd-lstm/softmax", 1, 90.0, {"optimisation.clip": 0.7})
    for seed in (1, 2, 3, 4):
        kept("ptb/awd-lstm/softmax/equal-width", seed, 50.0)
    rows = leaderboard.rows(evidence.read())
    ours = rows[(rows.recipe == PLAIN) & rows.ours.notna()]
    assert len(ours) and set(ours.n) == {3} and set(ours.tier) == {"desk"}
    assert not (rows.ours == 50.0).any()


def test_a_run_of_the_recipe_as_it_was_is_not_at_scale(kept):
    for seed in (1, 2):
        kept(PLAIN, seed, 57.0 + seed)
        folder = kept(METHOD, seed, 55.0 + seed)
        content = results.read_result(folder)
        content["experiment"]["optimisation"]["clip"] = 0.3
        del content["sha256"]
        old = Experiment.from_dict(content["experiment"])
        results.write_result(folder, old, [], content["metrics"], content["provenance"])
    table = claims.ledger(evidence.read())
    assert table.loc[MOS, "verdict"] == "untested"
    rows = leaderboard.rows(evidence.read())
    assert set(rows[rows.recipe == METHOD].tier) == {"desk"}
    assert set(rows[rows.recipe == PLAIN].tier) == {"at scale"}


def test_each_seed_is_at_scale_by_its_own_settings(kept):
    """The recipe changed between the two seeds."""
    folder = kept(METHOD, 1, 55.0)
    kept(METHOD, 2, 55.0)
    rewritten(folder, lambda c: c["experiment"]["optimisation"].update(clip=0.3))
    tiers = {run.seed: run.tier for run in evidence.read().runs}
    assert tiers == {1: "desk", 2: "at scale"}


@pytest.mark.parametrize(
    ("expects", "differences", "said"),
    [
        ("lower", [-1.0, -1.1, -0.9], "agrees"),
        ("higher", [-1.0, -1.1, -0.9], "disagrees"),
        ("higher", [1.0, 1.1, 0.9], "agrees"),
        ("same", [0.1, -0.1, 0.05], "agrees"),
        ("same", [5.0, 5.1, 4.9], "disagrees"),
        ("same", [1.1, 1.5, 1.9], "undecided"),  # real, and perhaps too small to matter
        ("lower", [0.1, -0.1, 0.05], "no difference larger than 2 %"),
        ("not lower", [5.0, 5.1, 4.9], "agrees"),
        ("not lower", [-1.0, -1.1, -0.9], "agrees"),  # lower by less than would matter
        ("not lower", [-5.0, -5.1, -4.9], "disagrees"),
        ("not lower", [-4.0, 5.0, -1.0], "undecided"),
        ("not higher", [5.0, 5.1, 4.9], "disagrees"),
        ("not higher", [-5.0, -5.1, -4.9], "agrees"),
        ("lower", [4.0, -5.0, 1.0], "undecided"),
        ("same", [4.0, -5.0, 1.0], "undecided"),
    ],
)
def test_verdicts(expects, differences, said):
    p = comparison.p_value(np.array(differences))
    assert claims.verdict(expects, differences, p, 2.0).startswith(said)
    assert claims.kind_of(claims.verdict(expects, differences, p, 2.0)) in claims.VERDICTS


@given(
    st.sampled_from(["same", "not lower", "not higher"]),
    st.floats(-6, 6),
    st.floats(0.3, 3),
    st.integers(1, 60),
)
def test_as_many_seeds_as_are_said_decide_claims_of_no_gain_and_no_fewer(expects, mean, sd, family):
    """The pairs have exactly this mean and spread, and p is that of the family's first."""

    def said(n):
        d = np.resize([-1.0, 1.0], n)
        d = mean + sd * (d - d.mean()) / d.std(ddof=1)
        return claims.verdict(expects, d, min(1, family * comparison.p_value(d)), 2.0, 0.05, family)

    if told := re.search(r"undecided: about (\d+) seeds", said(3)):
        n = int(told.group(1))
        assert said(n) in ("agrees", "disagrees")
        assert said(n - 1).startswith("undecided")


def test_more_seeds_are_needed_than_there_are():
    """Five pairs that would decide alone, and do not among many: so many decide nothing."""
    said = claims.verdict("same", [2.4, 2.7, 3.0, 3.3, 3.6], 0.2, 2.0)
    assert said == "undecided: about 6 seeds would decide"


def test_the_seeds_of_an_undecided_claim_are_for_the_whole_family(kept):
    kept.count()
    change = {"optimisation.epochs": 2}
    noisy = (94.0, 106.0, 97.0)
    for seed, value in enumerate(noisy, 1):
        kept("ptb/transformer-128/softmax", seed, 100.0, change)
        kept("ptb/transformer-128/mos", seed, value, change)
    d = 100 * np.log(np.array(noisy) / 100)
    margin = claims.margin_of(claims.claim(MOS).published_differences(), "lower")
    said = claims.ledger(evidence.read()).loc[MOS, "verdict"]
    family = sum(not claim.needs for claim in CLAIMS)
    alone = comparison.verdict(d, 1.0, margin)
    assert said == comparison.verdict(d, 1.0, margin, family=family) != alone
    assert said.startswith("undecided")


def test_a_margin_is_rounded_down_to_what_the_verdict_prints():
    assert claims.margin_of([-2.586, -2.587], "lower") == 2.5
    assert claims.margin_of([0.1], "higher") == claims.LEAST
    assert claims.margin_of([50.0], "higher") == claims.MOST
    assert claims.margin_of([0.3], "not lower") == claims.margin_of([], "lower") == claims.USUAL


def test_the_minutes_of_a_budget_are_those_of_cores_where_there_are_any():
    cpu = {"device": "AMD EPYC", "threads": 2, "wall_seconds": 1200, "tokens_seen": 3e6}
    gpu = {"device": "NVIDIA H200", "threads": 1, "wall_seconds": 60, "tokens_seen": 3e6}

    def budget(*origins):
        told = [{"provenance": origin, "epochs": []} for origin in origins]
        runs = [SimpleNamespace(content=c, figure=lambda _, c=c: evidence.minutes(c)) for c in told]
        of = SimpleNamespace(settings={"one": dict(enumerate(runs))}, first=lambda _: runs[0])
        return leaderboard.budget(of, "one")

    assert budget(gpu, cpu, gpu) == "3 M tokens, 20 min × 2"
    assert budget(gpu, gpu) == "3 M tokens, 1 min on a GPU"


def test_a_level_is_a_claim_about_one_model(kept):
    kept.count()
    for seed in (1, 2, 3):
        shape = {"geometry": {"positive_share": 0.99 - seed / 1000}}
        kept("ptb/transformer-128/softmax", seed, 100.0, {"optimisation.epochs": 2}, **shape)
    row = claims.ledger(evidence.read()).loc["gao2019-cone"]
    assert row.verdict == "agrees" and row.baseline == 0.9
    assert row.ours == pytest.approx(100 * np.log(0.988 / 0.9), abs=0.01)


def test_a_damaged_result_is_told_and_concerns_no_other(kept):
    folder = kept(METHOD, 1, 55.0)
    kept(PLAIN, 1, 57.0)
    kept.count()
    path = folder / "result.json"
    path.write_text(path.read_text().replace("55.0", "50.0"))
    of = evidence.read()
    assert len(of.runs) == 1 and "checksum" in of.damaged[0]
    done = CliRunner().invoke(application(), ["claims"])
    assert done.exit_code == 1 and "not read" in done.output


def rewritten(folder, change):
    """Change the content of a result, with a checksum that fits."""
    content = results.read_result(folder)
    del content["sha256"]
    change(content)
    content |= {"sha256": results._digest(content)}
    (folder / "result.json").write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda c: c["metrics"].update(x=float("nan")), "x = nan, which is no figure"),
        (lambda c: c["metrics"].pop("test_perplexity"), "test_perplexity = None, which is no"),
        (lambda c: c["experiment"].pop("seed"), "KeyError: 'seed'"),
        (lambda c: c["experiment"].update(corpus="ptb"), "not 'ptb'"),
        (lambda c: c["experiment"].update(encoder={}), "encoder needs the field kind"),
    ],
)
def test_a_result_without_what_every_run_has_is_told_and_concerns_no_other(kept, change, said):
    kept.count()
    folders = [kept(METHOD, seed, 55.0) for seed in (1, 2)]
    rewritten(folders[0], change)
    of = evidence.read()
    (sentence,) = of.damaged
    assert said in sentence and str(folders[0]) in sentence and len(of.runs) == 1
    assert claims.counts(claims.ledger(of))["untested"] == len(CLAIMS)


def test_a_run_of_ones_own_whose_name_hides_a_setting_is_no_seed_of_its_recipe(kept, tmp_path):
    folder = shutil.move(kept(METHOD, 1, 55.0), tmp_path.parent / "hidden")
    rewritten(folder, lambda c: c["experiment"]["optimisation"].update(clip=0.3))
    kept.count()
    of = evidence.read([folder])
    assert not of.runs and "hidden: the result is called" in of.damaged[0]
    assert "differs from that recipe in optimisation.clip" in of.damaged[0]


def test_texts_of_ones_own_runs_are_counted_and_damage_stops_nothing(kept, tmp_path):
    planned = Planned("docstrings/transformer-128/tied", "smoke", 1)
    figures = {"test_perplexity": 5.0, "valid_perplexity": 5.0}
    results.write_result(tmp_path.parent / "counted", planned.experiment(), [], figures, {})
    (kept(METHOD, 1, 55.0) / "result.json").write_text("{")
    done = CliRunner().invoke(
        application(), ["claims", "--count", str(tmp_path.parent / "counted")]
    )
    (row,) = results.read_table("ngrams")["rows"]
    assert row["test"]["Kneser-Ney 5"] > 1 and "not read" in done.output
    table = tmp_path / "ngrams.json"
    whole = table.read_text()
    table.write_text("{")
    with pytest.raises(CourseError, match="restore it from a clone of the course"):
        evidence.count_ngrams()
    table.write_text(whole.replace("unigram", "unigrams", 1))
    before = table.read_text()
    with pytest.raises(CourseError, match="its own checksum"):
        evidence.count_ngrams()
    assert table.read_text() == before and any(
        "--count" in said for said in evidence.read().damaged
    )


def test_a_result_of_an_unknown_part_leaves_its_text_to_the_others(kept):
    recipe = "docstrings/transformer-128/tied"
    folder = kept(recipe, 1, 5.0, profile="smoke")
    kept(recipe, 2, 5.0, profile="smoke")
    rewritten(folder, lambda c: c["experiment"]["output_layer"].update(kind="OfAnotherReader"))
    evidence.count_ngrams()
    assert len(results.read_table("ngrams")["rows"]) == 1


def test_without_any_result_every_claim_is_untested(kept):
    of = evidence.read()
    table = claims.ledger(of)
    assert claims.counts(table)["untested"] == len(CLAIMS) == len(table)
    assert claims.coverage(of).to_numpy().sum() == 0
    assert set(leaderboard.rows(of).tier) == {"recipe only", "no recipe"}


def test_runs_of_ones_own_count(kept, tmp_path):
    own = [kept(METHOD, seed, 55.0 * (1 + seed / 570)) for seed in (1, 2)]
    moved = [shutil.move(folder, tmp_path.parent / f"own-{i}") for i, folder in enumerate(own)]
    for seed in (1, 2):
        kept(PLAIN, seed, 57.0 + seed / 10)
    assert claims.ledger(evidence.read()).loc[MOS, "verdict"] == "untested"
    assert claims.ledger(evidence.read(moved)).loc[MOS, "verdict"] == "agrees"
    done = CliRunner().invoke(application(), ["claims", *map(str, moved)])
    nowhere = CliRunner().invoke(application(), ["claims", "nowhere"])
    assert "there is no run or checkpoint nowhere" in str(nowhere.exception)
    assert "1 agrees" in done.output


def test_commands_name_the_seeds_that_are_missing(kept):
    kept(METHOD, 1, 55.0)
    kept(PLAIN, 2, 57.0)
    of = evidence.read()
    (test,) = [t for t in claims.tests(claims.claim(MOS), of) if t.tier == "at scale"]
    lines = claims.commands(test, of, seeds=2)
    assert lines == [
        f"python -m course_lab train {METHOD} --profile standard --seed 2",
        f"python -m course_lab train {PLAIN} --profile standard --seed 1",
    ]


# The table ---------------------------------------------------------------------------------------


def test_every_claim_names_rows_that_are_published():
    rows = published.rows()
    recipes = set(rows.recipe)
    for claim in CLAIMS:
        assert claim.pairs or claim.method or claim.needs, claim.name
        for pair in claim.pairs:
            for name in pair:
                recipe, change = f"{name} ".split(" ", 1)
                evidence.named(recipe, change)  # an unknown recipe or setting raises
                if "Figure" not in claim.place:
                    assert recipe in recipes, name
        if claim.pairs and "Figure" not in claim.place and claim.metric != "seconds-per-epoch":
            assert claim.published_differences(), claim.name


def test_published_differences_go_the_way_that_is_claimed():
    """Or the claim was copied wrongly; a claim of no difference or gain is one within 2 %."""
    for claim in CLAIMS:
        differences = claim.published_differences()
        if differences:
            mean = np.mean(differences)
            sound = {"lower": mean < 0, "higher": mean > 0, "same": abs(mean) < 2}
            sound |= {"not lower": mean > -2, "not higher": mean < 2}
            assert sound[claim.expects], (claim.name, differences)


def test_names_of_claims_are_found_and_mistyped_ones_refused():
    assert isinstance(claims.claim(MOS), Claim)
    with pytest.raises(CourseError, match=MOS):
        claims.claim("parthiban2021-mso")
    assert len({claim.name for claim in CLAIMS}) == len(CLAIMS)


@pytest.mark.parametrize(
    ("recipe", "parts"),
    [
        ("ptb/awd-lstm/softmax", ("ptb/awd-lstm", "tied", "")),
        ("ptb/vd-lstm-200/baseline", ("ptb/vd-lstm-200", "untied", "")),
        ("wmt14/en-de/transformer-base/cosine", ("wmt14/en-de/transformer-base", "cosine", "")),
        (
            "wikitext-2/first-half/vd-lstm-200/tied",
            ("wikitext-2/first-half/vd-lstm-200", "tied", ""),
        ),
        ("ptb/awd-lstm/mos/et-asgd", ("ptb/awd-lstm", "mos", "et-asgd")),
        ("mine", ("mine", "", "")),
    ],
)
def test_names_of_recipes_have_parts(recipe, parts):
    assert evidence.parts_of(recipe) == parts


# The kept results --------------------------------------------------------------------------------


def test_every_kept_text_is_counted_and_its_counts_are_sound():
    of = evidence.read()
    assert not of.damaged
    for run in of.runs:
        if "test_bleu" not in run.content["metrics"]:
            assert run.setting.text in of.ngrams
    assert of.ngrams[PTB][evidence.COUNTING] == pytest.approx(141.2, rel=0.01)
    for text, counted in of.ngrams.items():
        assert counted["Kneser-Ney 5"] < counted["unigram"], text


def test_the_leaderboard_has_every_published_row_once():
    rows = leaderboard.rows(evidence.read())
    printed = published.rows()
    wanted = printed[printed.metric.isin(["perplexity", "bleu"]) & (printed.split == "test")]
    assert (rows.published.notna()).sum() == len(wanted)
    assert set(rows.tier) <= set(leaderboard.TIERS)
    scale = rows[rows.tier == "at scale"]
    for _, row in scale.iterrows():  # each is what its file says
        recipe, profile, *variant = row.run.split(" ")
        folders = (results.kept_folder() / recipe).glob(f"{profile}-seed*")
        ours = [
            json.loads((folder / "result.json").read_text())["metrics"]["test_perplexity"]
            for folder in folders
            if re.sub(r"^\w+-seed\d+-?", "", folder.name) == " ".join(variant)
        ]
        assert row.ours == pytest.approx(np.mean(ours)) and row.n == len(ours)


def test_a_conclusion_names_its_evidence_or_says_that_there_is_none(kept):
    told = claims.conclusions(MOS, "own-muon")
    assert told.count("\n- ") == 1 and told.count("untested here") == 2
    assert "no runs of both models are kept" in told and "(parthiban2021, Table 2)" in told
    for seed, value in {1: 57.0, 2: 57.2, 3: 56.9}.items():
        kept(PLAIN, seed, value)
        kept(METHOD, seed, 0.97 * value)
    told = claims.conclusions(MOS)
    differs = f"`{METHOD} standard` differs from `{PLAIN} standard` in test perplexity by -3.0 % ["
    assert f"**agrees (interim: 3 of 11 pairs)**. {differs}" in told
    printed = np.mean(claims.claim(MOS).published_differences())
    assert f"3 pairs of seeds (1 2 3), in print by {printed:+.1f} %; p = " in told
    assert told.endswith(
        "corrected for all claims of its table. Both models are trained as in the paper. "
        f"Plan `parthiban2021-table-1`: {plans.read_plan('parthiban2021-table-1').tuned}"
    )
    assert "untested" not in told
    with pytest.raises(CourseError, match="parthiban2021-mos"):
        claims.conclusions("parthiban2021-moss")


def test_small_runs_stand_beside_the_evidence_and_the_evidence_counts(kept):
    assert claims.beside(MOS, -2.0).endswith("No evidence on a whole text is kept beside it.")
    for seed, value in {1: 57.0, 2: 57.2, 3: 56.9}.items():
        kept(PLAIN, seed, value)
        kept(METHOD, seed, 0.97 * value)
    same = claims.beside(MOS, -2.0)
    assert "by -2.0 %, in those of the list by -3.0 %. Both numbers point the same way." in same
    other = claims.beside(MOS, +2.0)
    opposite = "by +2.0 %, in those of the list by -3.0 %. The two numbers point opposite ways."
    assert opposite in other
    assert other.endswith("list goes. Both models are trained as in the paper.")
    with pytest.raises(CourseError, match="parthiban2021-mos"):
        claims.beside("parthiban2021-moss", 1.0)


def test_the_leaderboard_chooses_among_the_longest_runs(kept):
    """More seeds of a tenth of the training do not stand for a method that was trained whole."""
    kept.count()
    short, whole = {"optimisation.epochs": 2}, {"optimisation.epochs": 20}
    for seed in (1, 2):
        kept("ptb/transformer-128/mos", seed, 160.0, short, tokens=100)
    kept("ptb/transformer-128/mos", 1, 90.0, whole)
    rows = leaderboard.rows(evidence.read())
    ours = rows.loc[(rows.method == "mos") & rows.ours.notna(), ["ours", "n"]].drop_duplicates()
    assert ours.to_numpy().tolist() == [[90.0, 1.0]]


@pytest.mark.parametrize(
    ("family", "tier"), [("transformer-small", "desk"), ("lstm-256", "another model")]
)
def test_a_model_of_another_size_is_of_the_rows_kind_and_another_encoder_is_not(kept, family, tier):
    kept(f"multi30k/{family}/cosine", 1, 10.0, test_bleu=30.0)
    rows = leaderboard.rows(evidence.read())
    ours = rows[rows.recipe.str.contains("transformer-base/cosine", na=False) & rows.ours.notna()]
    assert len(ours) and set(ours.tier) == {tier}


def test_the_papers_kind_of_model_stands_before_another(kept):
    for family in ("lstm-256", "transformer-small"):
        for method in ("softmax", "cosine"):
            kept(f"multi30k/{family}/{method}", 1, 10.0, test_bleu=30.0)
    assert "transformer" in claims.ledger(evidence.read()).loc["gao2019-bleu", "method"]


def test_pairs_of_two_kinds_of_devices_are_told(kept):
    kept.count()
    for seed in (1, 2, 3):
        kept("ptb/desk/tied", seed, 90.0 + seed, device="NVIDIA H200" if seed == 3 else "AMD EPYC")
        kept("ptb/desk/mos", seed, 84.0 + 1.1 * seed)
    said = "in the pair of seed 3 one run is of a GPU and the other of a CPU"
    assert said in claims.ledger(evidence.read()).loc[MOS, "note"]
    assert f"Note: {said}" in claims.conclusions(MOS)


def test_times_are_compared_on_one_machine(kept):
    ((method, plain),) = claims.claim("wang2020-seconds").pairs
    for seed, device in ((1, "AMD EPYC"), (2, "AMD EPYC"), (3, "NVIDIA H200")):
        for name, seconds, where in ((plain, 20.0, device), (method, 30.0 + seed, "AMD EPYC")):
            recipe, change = name.split(" ", 1)
            change = published.change_of({"change": change})
            kept(recipe, seed, 90.0, change, where, epochs=[{"seconds": seconds}])
    row = claims.ledger(evidence.read()).loc["wang2020-seconds"]
    assert (row.seeds, row.note) == ("1 2", "")
    assert row.ours == pytest.approx(50 * np.log(31 * 32 / 400))


def test_a_note_is_of_pairs_that_have_the_figure(kept):
    kept.count()
    for seed in (1, 2, 3):
        device = "NVIDIA H200" if seed == 3 else "AMD EPYC"
        rank = {} if seed == 3 else {"log_prob": {"press_rank": 100.0 + seed}}
        kept("ptb/desk/tied", seed, 90.0, device=device, **rank)
        kept("ptb/desk/mos", seed, 84.0, log_prob={"press_rank": 300.0 + seed})
    row = claims.ledger(evidence.read()).loc["parthiban2021-mos-rank"]
    assert (row.seeds, row.note) == ("1 2", claims.claim("parthiban2021-mos-rank").note)


def test_seeds_that_have_a_figure_are_compared_where_the_first_was_kept_without_it(kept):
    kept.count()
    for seed in (1, 2, 3):
        for recipe, more in (("ptb/desk/tied", 0.0), ("ptb/desk/mos", 0.01)):
            share = {"predictions": {"among": {"5": 0.4 + 0.1 * seed + more}}}
            kept(recipe, seed, 90.0, profile="standard", **(share if seed > 1 else {}))
    row = claims.ledger(evidence.read()).loc["parthiban2021-top-5"]
    expected = [100 * np.log(0.61 / 0.6), 100 * np.log(0.71 / 0.7)]
    assert row.seeds == "2 3" and row.ours == pytest.approx(np.mean(expected))
    assert row.verdict.startswith("undecided")


def test_a_setting_counts_by_its_seeds_that_have_the_figure(kept):
    """Else one late seed of many took the place of a setting whose seeds all have it."""
    kept.count()
    for seed in (1, 2, 3, 4):
        share = {"predictions": {"among": {"5": 0.5 + 0.01 * seed}}}
        kept("ptb/desk/tied", seed, 90.0, profile="standard", **share)
        late = share if seed == 4 else {}
        kept("ptb/desk/mos", seed, 80.0, profile="standard", **late)
        if seed < 3:
            change = {"output_layer.components": 2}
            kept("ptb/desk/mos", seed, 85.0, change, profile="standard", **share)
    row = claims.ledger(evidence.read()).loc["parthiban2021-top-5"]
    assert (row.seeds, row.ours, row.tried) == ("1 2", 0.0, "2 / 1")


def test_so_does_a_setting_that_is_compared_with_a_level(kept):
    kept.count()
    for seed in (1, 2, 3):
        late = {"geometry": {"positive_share": 0.99}} if seed == 3 else {}
        kept("ptb/desk/tied", seed, 80.0, profile="standard", **late)
    for seed in (1, 2):
        share = {"geometry": {"positive_share": 0.95}}
        change = {"optimisation.epochs": 9}
        kept("ptb/desk/tied", seed, 85.0, change, profile="standard", **share)
    row = claims.ledger(evidence.read()).loc["gao2019-cone"]
    assert (row.seeds, row.tried) == ("1 2", "2 / 0")


def test_the_leaderboard_takes_the_seeds_that_have_its_figure(kept):
    for seed, score in ((1, {}), (2, {"test_bleu": 30.0}), (3, {"test_bleu": 32.0})):
        kept("multi30k/transformer-small/softmax", seed, 6.0, profile="standard", **score)
    for seed in (1, 2, 3, 4):  # of four seeds one has a score
        late, change = {"test_bleu": 40.0} if seed == 4 else {}, {"optimisation.epochs": 9}
        kept("multi30k/transformer-small/softmax", seed, 5.0, change, profile="standard", **late)
    rows = leaderboard.rows(evidence.read())
    bleu = rows[(rows.metric == "bleu") & rows.ours.notna()]
    assert len(bleu) and (bleu.ours == 31.0).all() and (bleu.n == 2).all()


def test_no_seed_is_left_out_because_of_its_figure(kept):
    """A share of 0 has no logarithm; without that seed the claim would rest on the others."""
    kept.count()
    for seed, share in ((1, 0.5), (2, 0.4), (3, 0.0)):
        shape = {"geometry": {"positive_share": share}}
        kept("ptb/transformer-128/softmax", seed, 100.0, {"optimisation.epochs": 2}, **shape)
    row = claims.ledger(evidence.read()).loc["gao2019-cone"]
    assert (row.verdict, row.why) == ("untested", "a figure that is not above 0 has no logarithm")


def test_a_rank_correlation_differs_by_hundredths_whatever_its_sign(kept):
    kept.count()
    plain, mos = {1: 0.31, 2: 0.30, 3: -0.02}, {1: 0.26, 2: 0.25, 3: -0.07}
    for recipe, by_seed in (("tied", plain), ("mos", mos)):
        for seed, rho in by_seed.items():
            lists = {"SimLex-999": {"found": 500, "rho": 0.9, "rho_centred": rho + seed * 1e-4}}
            name = f"ptb/desk/{recipe}"
            kept(name, seed, 90.0, profile="standard", word_similarity=lists)
    row = claims.ledger(evidence.read()).loc["parthiban2021-similarity"]
    assert (row.n, row.unit, row.verdict) == (3, "hundredths", "agrees")
    assert row.ours == pytest.approx(-5) and row.low == pytest.approx(-5)
    told = claims.shown(row.to_frame().T).ours["parthiban2021-similarity"]
    assert told == "-5.0 hundredths [-5.0, -5.0]"
    slight = Claim("x-y", "here", "It rises.", "higher", method="mos", figure="centred similarity")
    for seed, rho in plain.items():
        lists = {"SimLex-999": {"found": 500, "rho": 0.9, "rho_centred": rho + 0.001 * seed}}
        kept("ptb/desk/gss", seed, 90.0, profile="standard", word_similarity=lists)
    same = claims.ledger(evidence.read(), [replace(slight, method="gss")])
    assert same.verdict.tolist() == ["no difference larger than 2 hundredths"]
    line = claims.conclusions("parthiban2021-similarity")
    assert f"by {told} over 3 pairs of seeds" in line and "%" not in line.split("; one-sided")[0]


def test_one_pair_of_settings_is_one_test(kept):
    for seed in (1, 2):
        kept(PLAIN, seed, 57.0 + seed / 9)
        kept(METHOD, seed, 55.0 + seed / 10)
    kept.count()
    (test,) = claims.tests(claims.claim(MOS), evidence.read())
    assert test.tier == "at scale"


def test_what_is_no_evidence_is_told_as_such(kept):
    for seed, value in {1: 300.0, 2: 310.0}.items():  # counting has 140
        kept("ptb/desk/tied", seed, value)
        kept("ptb/desk/muon", seed, 0.9 * value)
    kept.count()
    told = claims.conclusions("own-muon")
    assert "untested here" in told and "does not beat Kneser-Ney 5" in told
    assert "by -10.5 % [-10.5, -10.5], seeds 1 2. This comparison is no evidence." in told
    assert "(own" not in told
    assert "&lt;unk>" in claims.conclusions("inan2017-frequent-words")


def test_where_no_result_is_kept_the_ledger_says_where_there_are_some(monkeypatch):
    monkeypatch.setattr(evidence, "read", lambda own: evidence.Evidence((), (), {}))
    done = CliRunner().invoke(application(), ["claims"])
    assert done.exit_code == 0 and "come with a clone" in done.stdout


def test_a_large_difference_is_told_as_a_factor(kept):
    kept.count()
    for seed in (1, 2):
        for recipe, rank in (("mos", 300.0), ("tied", 100.0)):
            kept(f"ptb/desk/{recipe}", seed, 90.0, log_prob={"press_rank": rank + seed})
    told = claims.conclusions("parthiban2021-mos-rank")
    assert "in Press' rank of log P over the ranked contexts by a factor of 2.97 [" in told


def test_the_ledger_on_a_page_names_the_runs_of_a_row(kept):
    for seed in (1, 2, 3):
        kept(PLAIN, seed, 57.0 + seed / 10)
        kept(METHOD, seed, 55.0)
    shown = claims.shown(claims.ledger(evidence.read()))
    assert shown.runs[MOS] == f"{METHOD} standard against {PLAIN} standard, seeds 1 2 3"
    assert shown.place[MOS] == claims.claim(MOS).place
    assert shown.figure[MOS] == "test perplexity"
    compared = [not claims.claim(name).needs for name in shown.index]
    assert ((shown.figure != "") == compared).all() and not all(compared)
    assert (shown.runs[shown.verdict == "untested"] == "").any()


def test_pairs_that_all_differ_alike_are_told_beside_their_p_of_0(kept):
    kept.count()
    for seed in (1, 2, 3):
        for recipe, rank in (("mos", 300.0), ("tied", 100.0)):
            kept(f"ptb/desk/{recipe}", seed, 90.0, log_prob={"press_rank": rank})
    shown = claims.shown(claims.ledger(evidence.read()))
    assert shown["p (Holm)"]["parthiban2021-mos-rank"] == "0, as all pairs differ alike"


def test_farther_neighbours_agree_and_one_setting_of_each_is_told(kept):
    kept.count()
    for seed in (1, 2, 3, 4, 5):
        for method, mean in (("tied", 1.0), ("adversarial", 1.2)):
            kept(f"ptb/desk/{method}", seed, 90.0, neighbours={"mean": mean + seed / 1000})
    told = claims.conclusions("wang2019-neighbours")
    assert "**agrees (interim: 5 of 10 pairs)**" in told
    assert "the mean distance to the nearest neighbour by +18." in told
    assert "Settings tried: one of each, so a tuned one may say otherwise." in told
    slow = {"optimisation.learning_rate": 0.001}
    kept("ptb/desk/tied", 1, 95.0, slow, neighbours={"mean": 2.0})
    told = claims.conclusions("wang2019-neighbours")
    assert "Settings tried: 1 of the method, 2 of the baseline." in told


@pytest.mark.parametrize(
    ("name", "verdict", "one_sided", "corrected"),
    [
        (MOS, "agrees", False, True),
        (MOS, "no difference larger than 2 %", True, False),
        ("parthiban2021-top-5", "agrees", True, False),
        ("parthiban2021-top-5", "disagrees", False, True),
        ("parthiban2021-top-5", "undecided: about 9 seeds would decide", True, True),
    ],
)
def test_a_verdict_names_the_tests_that_it_comes_from(name, verdict, one_sided, corrected):
    told = claims._tests_of(pd.Series({"verdict": verdict, "p": 0.01}, name=name))
    assert ("one-sided" in told, "p = 0.01, corrected" in told) == (one_sided, corrected)


def test_half_of_a_text_is_no_whole_text():
    half = '{"kind": "wikitext-2", "options": {"half": "first"}}'
    assert [evidence.tier_of(text, False) for text in (PTB, half)] == ["desk", "small"]


def test_a_run_on_another_text_is_found_by_its_plan(kept, tmp_path):
    kept("docstrings/transformer-128/tied", 1, 50.0, {"corpus": "ptb"})
    plan = tmp_path / "other.toml"
    plan.write_text(
        'title = "t"\n[[runs]]\nrecipes = ["docstrings/transformer-128/tied"]\ncorpus = "ptb"\n'
    )
    ((_, run),) = evidence.of_plan(evidence.read(), plan)
    assert run is not None and run.perplexity("test") == 50.0


def test_the_hours_of_a_plan_are_those_of_its_kept_runs(kept):
    """Hours of a core and of a GPU are apart, missing runs count, and no plan is left out."""
    for seed in (1, 2, 3):
        kept("ptb/desk/tied", seed, 90.0, profile="standard")
    of = evidence.read()
    for run in of.runs:
        run.content["provenance"] |= {"wall_seconds": 5400, "threads": 2}
    of.runs[2].content["provenance"]["device"] = "NVIDIA H200"
    spent = evidence.hours(of)
    desk = spent.loc["desk"]
    assert (desk.kept, desk.core, desk.gpu) == (3, 6.0, 1.5)
    assert desk.estimated == plans.read_plan("desk").hours
    assert desk.runs == len(plans.read_plan("desk").runs)
    assert list(spent.index) == list(plans.plans())
    others = spent.drop(["desk", "desk-sgd-alone", "record-holders"])  # they have these runs
    assert (others.core == 0).all() and (others.gpu == 0).all()


def test_every_plan_says_why_runs_are_missing():
    spent = evidence.hours(evidence.read())
    complete = spent.kept == spent.runs
    assert (spent.missing[complete] == "").all()
    unexplained = spent.index[~complete & ~spent.missing.str.endswith(".")]
    assert unexplained.empty, unexplained.to_list()


def test_the_ledger_fits_a_terminal():
    table = claims.ledger(evidence.read())
    text = claims.printed(table, width=60)
    assert max(map(len, text.splitlines())) <= 60
    flat = " ".join(text.split())
    for name, row in table.iterrows():
        assert f"({name}, {row.place})" in flat and " ".join(row.says.split()) in flat
    for name, row in claims.shown(table).iterrows():
        for told in (row.figure, row.published, row.ours, row.runs, row["why untested"], row.note):
            assert " ".join(str(told).split()) in flat, name
    assert text.count("\n\n") == len(table) - 1
