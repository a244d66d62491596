"""Ensembles of seeds, and how far two methods differ beyond a seed."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from course_lab import (
    comparison,
    ensembles,
    evidence,
    predictions,
    results,
    statistics,
    token_gains,
)
from course_lab.final_figures import TEST_LOSSES
from course_lib.errors import CourseError
from tests import evidence_sample

LOSSES = arrays(np.float64, (3, 40), elements=st.floats(0.001, 40))


@given(LOSSES)
def test_the_mean_of_models_is_the_mean_of_their_probabilities(losses):
    naive = -np.log(np.exp(-losses).mean(0))
    np.testing.assert_allclose(ensembles.ensemble_losses(losses), naive, rtol=1e-10, atol=1e-12)


@given(LOSSES)
def test_disagreement_is_what_the_mean_of_two_models_gains(losses):
    ours, theirs = losses[:2]
    gain = 100 * ((ours + theirs).mean() / 2 - ensembles.ensemble_losses([ours, theirs]).mean())
    assert ensembles.disagreement(ours, theirs) == pytest.approx(gain, abs=1e-9)
    assert ensembles.disagreement(theirs, ours) == pytest.approx(gain, abs=1e-9)
    assert ensembles.disagreement(ours, ours) == 0 <= gain + 1e-9


@given(arrays(np.float64, (6, 5), elements=st.floats(-30, 30)))
def test_disagreement_is_of_negative_type(losses):
    """Σ cᵢcⱼ d(i, j) ≤ 0 where Σ cᵢ = 0: so an energy distance of it is never negative."""
    d = np.array([[ensembles.disagreement(a, b) for b in losses] for a in losses])
    centre = np.eye(6) - 1 / 6
    assert np.linalg.eigvalsh(centre @ d @ centre).max() <= 1e-8 * max(1, abs(d).max())


def drawn(rng, shift=0.0, spread=1.0, seeds=5, tokens=4_000):
    """Losses of a method: tokens that are hard for all models, and what a seed changes."""
    hard = np.random.default_rng(0).gamma(2.0, 2.0, tokens)
    signs = np.random.default_rng(1).choice([-1, 1], tokens)
    return {
        seed: hard + 5 + shift * signs + spread * rng.standard_normal(tokens)
        for seed in range(1, seeds + 1)
    }


def test_a_method_like_the_baseline_differs_by_nothing_beyond_a_seed():
    inside = 0
    for draw in range(40):
        rng = np.random.default_rng(draw)
        losses = {"tied": drawn(rng), "twin": drawn(rng)}
        row = ensembles.beyond_a_seed(losses).loc["twin"]
        assert row.across == pytest.approx((row.own + row.plain) / 2 + row.beyond)
        inside += row["beyond low"] <= 0 <= row["beyond high"]
    assert inside >= 34  # 95 % of 40 are 38


def test_a_shift_of_tokens_is_found_beyond_a_seed():
    """log cosh(δ / 2) is about δ²/8, so D is shift²/8, and the root of its share shift / noise."""
    rng = np.random.default_rng(3)
    losses = {"tied": drawn(rng, spread=0.3), "shifted": drawn(rng, shift=0.2, spread=0.3)}
    row = ensembles.beyond_a_seed(losses).loc["shifted"]
    assert row.beyond == pytest.approx(100 * 0.2**2 / 8, rel=0.1)
    assert 0 < row["beyond low"] < row.beyond < row["beyond high"] < row.own
    assert row.own == pytest.approx(100 * 2 * 0.3**2 / 8, rel=0.1)
    assert row.root == pytest.approx(0.2 / (0.3 * np.sqrt(2)), rel=0.1)


def test_each_side_has_its_own_disagreement_and_the_nearest_comes_first():
    rng = np.random.default_rng(6)
    losses = {"far": drawn(rng, shift=0.3, spread=0.1, seeds=3)}
    losses |= {"tied": drawn(rng, spread=0.1, seeds=4), "noisy": drawn(rng, spread=0.4)}
    table = ensembles.beyond_a_seed(losses)
    row = table.loc["noisy"]
    assert row.own == pytest.approx(100 * 2 * 0.4**2 / 8, rel=0.1)
    assert row.plain == pytest.approx(100 * 2 * 0.1**2 / 8, rel=0.1)
    assert list(table.index) == ["noisy", "far"] and row.across > table.across["far"]
    assert table.seeds.to_dict() == {"noisy": 4, "far": 3}


def test_pairs_of_one_seed_do_not_count():
    tied = drawn(np.random.default_rng(8))
    row = ensembles.beyond_a_seed({"tied": tied, "copy": dict(tied)}).loc["copy"]
    assert row.across == pytest.approx(row.own) and row.beyond == pytest.approx(0, abs=1e-9)
    assert row.same == 0 and row.root < 1e-4


def test_the_interval_over_pairs_is_that_of_the_rows_widened():
    """Of a mean over pairs, pseudo-values are 2 (n − 1) / (n − 2) times the row means, shifted."""
    table, n = np.random.default_rng(1).random((5, 5)), 5
    rows = ((table + table.T) / 2 * (1 - np.eye(n))).sum(1) / (n - 1)
    half = stats.t.ppf(0.975, n - 1) * 2 * (n - 1) / (n - 2) * rows.std(ddof=1) / np.sqrt(n)
    mean, low, high = ensembles._over_seeds(table)
    assert mean == pytest.approx(rows.mean())
    assert (mean - low, high - mean) == pytest.approx((half, half))


def test_sizes_are_geometric_means_over_all_ensembles():
    models = drawn(np.random.default_rng(9), seeds=3)
    first, second, third = models.values()
    pairs = [(first, second), (first, third), (second, third)]
    naive = [np.exp(np.mean(list(models.values())))]
    naive += [np.exp(np.mean([-np.log((np.exp(-a) + np.exp(-b)) / 2).mean() for a, b in pairs]))]
    naive += [np.exp(ensembles.ensemble_losses([first, second, third]).mean())]
    assert ensembles.sizes(models) == pytest.approx(naive)
    assert naive[0] > naive[1] > naive[2]


def test_ensembles_of_two_are_those_of_the_losses_by_hand():
    rng = np.random.default_rng(7)
    losses = {
        "mos": drawn(rng, spread=1.5),
        "tied": drawn(rng, seeds=3),
        "one": drawn(rng, seeds=1),
    }
    table = ensembles.of_two(losses)
    assert set(table.index) == {"mos", "tied"} and list(table.one) == sorted(table.one)
    row = table.loc["mos"]
    assert (row.seeds, row.shared) == (5, 3)
    assert (row.one, row.two) == pytest.approx(ensembles.sizes(losses["mos"])[:2])
    assert row.gain == pytest.approx(100 * np.log(row.one / row.two))
    models = list(losses["mos"].values())
    whole = ensembles._over_seeds(ensembles._disagreements(models, models))
    assert tuple(row[["gain", "gain low", "gain high"]]) == pytest.approx(whole)

    # Beside the baseline: the three seeds that it has
    mos, tied = ([losses[name][seed] for seed in (1, 2, 3)] for name in ("mos", "tied"))
    both = [ensembles.sizes(dict(enumerate(side))) for side in (mos, tied)]
    single, together = 100 * np.log(np.divide(*both))[:2]
    assert (row.single, row.together) == pytest.approx((single, together))
    gaps = [100 * (a.mean() - b.mean()) for a, b in zip(mos, tied, strict=True)]
    assert (row["single low"], row["single high"]) == pytest.approx(comparison.interval(gaps))
    assert row["together low"] < row.together < row["together high"]
    mixed = [ensembles.ensemble_losses([a, b]).mean()
             for i, a in enumerate(mos) for j, b in enumerate(tied) if i != j]  # fmt: skip
    assert row.mixed == pytest.approx(np.exp(np.mean(mixed)))
    assert tuple(table.loc["tied", ["single", "together"]]) == pytest.approx((0, 0))


def test_few_seeds_have_no_interval_and_none_no_row():
    rng = np.random.default_rng(5)
    losses = {"tied": drawn(rng, seeds=5), "two": drawn(rng, seeds=2)}
    row = ensembles.of_two(losses).loc["two"]
    assert row.gain == pytest.approx(100 * np.log(row.one / row.two))
    assert np.isfinite([row.single, row.together, row.mixed]).all()
    assert row[[f"{name} low" for name in ("gain", "single", "together")]].isna().all()
    assert ensembles.beyond_a_seed(losses).empty
    assert ensembles.of_two({}).empty and ensembles.beyond_a_seed({}).empty
    losses["tied"] = {2: losses["tied"][2]}  # one shared seed makes no pair
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # such as that of a mean of nothing
        row = ensembles.of_two(losses).loc["two"]
    assert row.shared == 1 and row[["single", "together", "mixed"]].isna().all()


def test_kept_runs_are_read_by_method_and_seed(tmp_path, monkeypatch):
    monkeypatch.setattr(results, "kept_folder", lambda: tmp_path)
    evidence_sample.keep(tmp_path)
    runs = predictions.chosen(evidence.read())
    losses = ensembles.losses_of(runs)
    assert losses.keys() == set(evidence_sample.METHODS)
    assert all(set(by_seed) == set(evidence_sample.SEEDS) for by_seed in losses.values())
    table = ensembles.of_two(losses)
    assert table.loc["untied", "gain"] == pytest.approx(table.loc["tied", "gain"])
    assert table.loc["mos", "single"] < 0
    # A run on another text, such as one that is cut, is not compared
    other = runs[0]
    arrays = {TEST_LOSSES: np.ones(7, np.float16)}
    monkeypatch.setattr(results, "read_arrays", lambda f: arrays if f == other.folder else {})
    assert ensembles.losses_of(runs)[other.method].keys() == {other.seed}  # alone, it is usual
    read = {run.folder: np.ones(8 + (run is other), np.float16) for run in runs}
    monkeypatch.setattr(results, "read_arrays", lambda folder: {TEST_LOSSES: read[folder]})
    assert other.seed not in ensembles.losses_of(runs)[other.method]


def test_seeds_of_two_settings_are_not_mixed(kept):
    for seed in (1, 2, 3):
        kept("ptb/desk/tied", seed, 90.0, profile="standard")
    for seed, valid in ((1, 80.0), (2, 81.0), (3, 82.0)):
        change = {"optimisation.epochs": 9}
        kept("ptb/desk/tied", seed, valid, change, profile="standard")
    kept("ptb/desk/tied", 1, 10.0, {"optimisation.epochs": 8}, profile="standard")  # a lucky one
    runs = token_gains.by_method(evidence.read().runs)["tied"]
    assert {seed: run.perplexity("test") for seed, run in runs.items()} == {1: 80, 2: 81, 3: 82}


def test_the_jackknife_of_a_mean_is_students_interval():
    values = np.random.default_rng(2).gamma(2.0, size=7)
    assert statistics.jackknife(lambda kept: values[kept].mean(), 7) == pytest.approx(
        statistics.mean_interval(values)
    )
    with pytest.raises(CourseError):
        statistics.jackknife(lambda kept: 1.0, 1)


def test_the_jackknife_of_a_mean_over_pairs_is_that_mean():
    table = np.random.default_rng(4).random((5, 5))

    def pairs(kept):
        part = table[np.ix_(kept, kept)]
        return part[~np.eye(len(kept), dtype=bool)].mean()

    assert statistics.jackknife(pairs, 5).mean == pytest.approx(pairs(np.arange(5)))
