"""The statements of the speed records: each is whole, has a recipe, and stands beside our runs."""

import re

import numpy as np
import pandas as pd
import pytest

from course_lab import comparison, evidence, published, records, results
from course_lab.claims_table import OURS, RECORDS
from course_lab.planned import Planned
from course_lab.plans import read_plan
from course_lab.recipes import recipes


def test_every_statement_is_whole_and_every_trick_has_its_recipes_and_its_runs_in_the_plan():
    told = published.records()
    claimed = told[told.side == "claim"]
    assert {*told.side} == {"claim", "counter"}
    assert list(claimed.claim) == [claim.name for claim in RECORDS]
    assert {*told.claim} - {""} == {*claimed.claim}
    for row in told.itertuples():
        assert row.source and row.place and row.says.endswith("."), row
        assert re.fullmatch(r"https://(github\.com|arxiv\.org)/\S+", row.url), row
        assert re.fullmatch(r"20\d\d(-\d\d(-\d\d)?)?", row.date), row
        assert (row.unit == "") == np.isnan(row.effect), row
        assert np.isnan(row.of) or abs(row.effect) < row.of, row
    planned = {run.recipe for run in read_plan("record-holders").runs}
    for claim, place in zip(RECORDS, claimed.place, strict=True):
        assert {f"ptb/desk/{name}" for name in (claim.method, claim.baseline)} <= planned
        assert planned <= recipes.keys()
        assert claim.place == ("lesson 12" if claim.paper == OURS else place)


@pytest.fixture
def keep(tmp_path, monkeypatch):
    """Keep runs of the desk in an empty folder."""
    monkeypatch.setattr(results, "kept_folder", lambda: tmp_path)
    counted = {"unigram": 600.0, "Kneser-Ney 5": 140.0}
    results.write_table(
        "ngrams", {"rows": [{"text": '{"kind": "ptb", "options": {}}', "test": counted}]}
    )

    def kept(method, seed, perplexity):
        planned = Planned(f"ptb/desk/{method}", "standard", seed, {})
        metrics = {"test_perplexity": perplexity, "valid_perplexity": perplexity}
        origin = {"tokens_seen": 1000}
        results.write_result(tmp_path / planned.key, planned.experiment(), [], metrics, origin)

    return kept


def test_ours_stand_beside_a_claim_as_far_as_runs_are_kept(keep):
    nothing = records.beside(evidence.read())
    assert {*nothing.ours} == {"no run is kept yet"} and {*nothing.verdict} == {"untested"}
    tied, untied = {1: 90.0, 2: 91.0, 3: 92.0}, {1: 93.0, 2: 94.5, 3: 95.0}
    for method, perplexities in {"tied": tied, "untied": untied}.items():
        for seed, perplexity in perplexities.items():
            keep(method, seed, perplexity)
    keep("capped", 2, 90.0)
    keep("muon", 4, 99.0)
    keep("tied/sgd", 1, 1.0)  # another optimiser, which is not the desk's
    table = records.beside(evidence.read())
    d = np.array([100 * np.log(untied[seed] / tied[seed]) for seed in tied])
    low, high = comparison.interval(d)
    worse, better = table.loc["speedrun-untied"], table.loc["speedrun-retied"]
    assert worse.ours == f"{d.mean():+.1f} % [{low:+.1f}, {high:+.1f}]"
    assert (worse.pairs, worse.verdict, better.verdict) == (
        3,
        "disagrees (interim: 3 of 10 pairs)",
        "agrees (interim: 3 of 10 pairs)",
    )
    once = f"{100 * np.log(90 / 91):+.1f} %; one seed: no interval"
    assert table.ours["speedrun-capped"] == once and table.pairs["speedrun-capped"] == 1
    assert table.ours["jordan2024-muon"] == "no seed in common"
    assert table.ours["shah2026-ember"] == "no run is kept yet"


def test_an_effect_is_told_with_its_unit_and_in_per_cent_where_it_has_a_whole():
    table = records.beside(evidence.read())
    assert table.claimed["speedrun-retied"] == "-3.2 of 127.1 s (-2.5 %)"
    assert table.claimed["brahma2018-past-decode"] == "-1.8 perplexity"
    assert table.claimed["shah2026-ember"] == "±0.001 loss"  # of which no side is told
    assert table.claimed["jordan2024-muon"] == "none stated"
    in_nats = "-0.0194 nats (-1.9 % of perplexity)"  # and not per cent of the nats themselves
    assert table.claimed["golf-spectrum-start"] == in_nats
    assert {"none stated", "-0.019 bits a byte"} < {*records.against().effect}
    assert "" not in {*table.claimed, *records.against().effect}
    counter = records.against()
    assert "tied against untied" in counter.index and "all" in counter.index


def test_one_comparison_that_two_claims_read_is_counted_once():
    rows = [("untied against tied", 5, "disagrees"), ("tied against untied", 5, "agrees")]
    rows += [
        ("muon against tied", 2, "undecided: at most about 9 seeds"),
        ("a against b", 1, "untested"),
    ]
    rows += [("capped against tied", 2, "no difference larger than 2 %")]
    told = records.told(pd.DataFrame(rows, columns=["trick", "pairs", "verdict"]))
    assert told.startswith("Of 5 claims 4 are tested, by 3 comparisons of models.")
    assert "The direction is sure in 1 of them: `untied against tied`. A difference" in told
    assert "is excluded in 1, and" in told
    assert told.endswith("and 1 are undecided.")
