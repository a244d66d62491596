"""The log of what did not help: what stands there is what the kept results and the commits say."""

import re
import subprocess
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from course_lab import claims, comparison, evidence, kept_costs, plans, results
from course_lab.notebook_source import ROOT
from tools import lab_log
from tools.cli import application


@pytest.fixture(scope="module")
def of():
    return evidence.read()


def test_every_claim_of_an_entry_has_a_line_that_says_what_its_pairs_show(of):
    """By the files of the results: the pairs are computed once more from their own figures."""
    shown = []
    for entry in lab_log.METHODS:
        assert len(lab_log.lines_of(entry, of)) >= len(entry.claims)
        for name in entry.claims:
            claim = claims.claim(name)
            line = lab_log._of_claim(claim, of)
            test = next((t for t in claims.tests(claim, of) if len(t.seeds) > 1), None)
            if test is None:
                assert "no two seeds of both models are kept" in line
                continue
            ours, theirs = (of.settings[side] for side in (test.method, test.baseline))
            pairs = [
                100 * np.log(ours[s].figure(claim.figure) / theirs[s].figure(claim.figure))
                for s in test.seeds
            ]
            low, high = comparison.interval(pairs)
            assert claims.by(float(np.mean(pairs)), low, high) in line
            gains = low > 0 if claim.expects == "higher" else high < 0
            assert ("the method gains" in line) == gains
            said = claims.ledger(of, [claim]).verdict[name]
            if claim.expects == "lower" and said in ("agrees", "disagrees"):  # as the ledger has it
                assert ("the method gains" in line) == (said == "agrees")
            shown.append(lab_log.outcome(claim, of))
            assert (
                test.method.recipe in line and "from {} and {} settings".format(*test.tried) in line
            )
            assert ("no evidence" in line) == bool(test.against) and test.against in line
    assert shown.count("no gain") >= 6 and "gain" in shown


@pytest.mark.parametrize(
    "differences, outcome",
    [([-3.0, -3.1, -2.9], "gain"), ([5.0, -5.0, 1.0], "undecided"), ([0.1, -0.1, 0.0], "no gain")],
)
def test_pairs_show_a_gain_none_or_nothing(of, monkeypatch, differences, outcome):
    claim = claims.claim("inan2017-tying")  # whose perplexity shall fall
    test = replace(claims.tests(claim, of)[0], differences=np.array(differences))
    monkeypatch.setattr(lab_log, "_deciding", lambda claim, of: test)
    assert lab_log.outcome(claim, of) == outcome


def test_no_sentence_denies_a_gain_that_a_line_shows(of):
    """Centring does not help, and coupled Adam does: both stand in one entry."""
    entry = next(e for e in lab_log.METHODS if "own-coupled-adam" in e.claims)
    page = lab_log.written(entry, of)
    outcomes = [lab_log.outcome(claims.claim(name), of) for name in entry.claims]
    assert outcomes == ["no gain", "gain"]
    assert page.count("the method gains") == page.count("the method does not gain") == 1
    assert "Of 2 claims the runs show no gain for 1, a gain for 1. What shows" in page


def test_what_later_results_speak_for_leaves_the_page(of, monkeypatch):
    entry = next(e for e in lab_log.METHODS if "own-centred" in e.claims)
    assert entry.question in lab_log.page(of)
    real = claims.tests

    def turned(low, high):
        """The same pairs, from `low` to `high` per cent better."""
        return lambda claim, of: [
            claims.Test(**{**vars(t), "differences": -np.linspace(low, high, len(t.seeds))})
            for t in real(claim, of)
        ]

    monkeypatch.setattr(claims, "tests", turned(10, 20))
    assert not lab_log.written(entry, of) and entry.question not in lab_log.page(of)
    monkeypatch.setattr(claims, "tests", turned(-30, 40))  # nothing follows from such pairs
    assert not lab_log.written(entry, of)
    monkeypatch.setattr(claims, "tests", turned(-20, -10))
    assert "Of 2 claims the runs show no gain for 2. What shows" in lab_log.written(entry, of)


def test_the_benchmarks_on_the_page_are_the_slow_ones():
    table = kept_costs.models()
    slow = table[table.ours / table.plain < lab_log.NO_GAIN].set_index(["model", "machine"])
    lines = lab_log.no_quicker_than_plain()
    assert len(lines) == len(slow) > 0
    for line in lines:
        model, machine = re.match(r"`(.+?)` in .* \((.+)\)$", line).groups()
        row = slow.loc[model, machine]
        told = row.ours / row.plain, row.megabytes / row["plain megabytes"], row.floor / row.ours
        assert re.findall(r"(\d\.\d\d) times", line) == [f"{value:.2f}" for value in told]
    for line in lab_log.slower_in_bf16():
        model, machine = re.match(r"`(.+)`: .+ \((.+)\)$", line).groups()
        rows = table[(table.model == model) & (table.machine == machine)]
        ours = dict(zip(rows.precision, rows.ours, strict=True))
        assert ours["bf16"] < ours["fp32"] and f"{ours['bf16'] / ours['fp32']:.2f} times" in line


def test_each_shape_of_the_pilots_but_the_best_is_on_the_page():
    kept = {p.recipe: results.read_kept(p.key) for p in plans.read_plan(lab_log.PILOTS).runs}
    reached = {recipe: run["metrics"]["test_perplexity"] for recipe, run in kept.items()}
    best = min(reached.values())
    lines = lab_log.shapes_of_the_desk()
    assert len(lines) == len(reached) - 1 > 0
    for line in lines:
        recipe, perplexity, beside = re.match(
            r"`(.+?)`: .* ([\d.]+) in .* ([\d.]+) of", line
        ).groups()
        assert reached[recipe] > best
        assert (perplexity, beside) == (f"{reached[recipe]:.1f}", f"{best:.1f}")


@pytest.mark.parametrize("commit, sentence", lab_log.quoted())
def test_quotations_are_of_their_commits(commit, sentence):
    show = ["git", "show", "-s", "--format=%B", commit]
    done = subprocess.run(show, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        pytest.skip("the history is not here")
    assert sentence in " ".join(done.stdout.split())


def test_the_command_prints_the_page(of):
    done = CliRunner().invoke(application(), ["lab-log"])
    assert done.exit_code == 0 and done.output.strip() == lab_log.page(of).strip()
    assert not re.search(r"nan|None", done.output)


def test_pilots_that_are_not_kept_have_no_line(tmp_path, monkeypatch):
    """The entry leaves the page where none is kept."""
    assert lab_log.shapes_of_the_desk()
    monkeypatch.setattr(results, "kept_folder", lambda: tmp_path)
    assert lab_log.shapes_of_the_desk() == []
