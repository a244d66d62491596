"""The mean of models' probabilities, and how far two methods differ beyond a seed."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from course_lab import averaging, evidence, predictions, results, statistics
from course_lab.final_figures import TEST_LOSSES
from course_lib.errors import CourseError
from tests import evidence_sample

LOSSES = arrays(np.float64, (3, 40), elements=st.floats(0.001, 40))


@given(LOSSES)
def test_the_mean_of_models_is_the_mean_of_their_probabilities(losses):
    naive = -np.log(np.exp(-losses).mean(0))
    np.testing.assert_allclose(averaging.mean_losses(losses), naive, rtol=1e-10, atol=1e-12)


@given(LOSSES)
def test_disagreement_is_what_the_mean_of_two_models_gains(losses):
    ours, theirs = losses[:2]
    gain = 100 * ((ours + theirs).mean() / 2 - averaging.mean_losses([ours, theirs]).mean())
    assert averaging.disagreement(ours, theirs) == pytest.approx(gain, abs=1e-9)
    assert averaging.disagreement(theirs, ours) == pytest.approx(gain, abs=1e-9)
    assert averaging.disagreement(ours, ours) == 0 <= gain + 1e-9


@given(arrays(np.float64, (6, 5), elements=st.floats(-30, 30)))
def test_disagreement_is_of_negative_type(losses):
    """Σ cᵢcⱼ d(i, j) ≤ 0 where Σ cᵢ = 0: so an energy distance of it is never negative."""
    d = np.array([[averaging.disagreement(a, b) for b in losses] for a in losses])
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
        row = averaging.beyond_a_seed(losses).loc["twin"]
        assert row.across == pytest.approx(row.own + row.beyond)
        inside += row.low <= 0 <= row.high
    assert inside >= 34  # 95 % of 40 are 38


def test_a_shift_of_tokens_is_found_beyond_a_seed():
    """δ over 2 ± shift/2 noise: log cosh is half its square, so the excess is about shift²/8."""
    rng = np.random.default_rng(3)
    losses = {"tied": drawn(rng, spread=0.3), "shifted": drawn(rng, shift=0.2, spread=0.3)}
    row = averaging.beyond_a_seed(losses).loc["shifted"]
    assert row.beyond == pytest.approx(100 * 0.2**2 / 8, rel=0.1)
    assert 0 < row.low < row.beyond < row.high < row.own
    assert row.own == pytest.approx(100 * 2 * 0.3**2 / 8, rel=0.1)


def test_own_is_the_mean_of_both_methods():
    rng = np.random.default_rng(6)
    losses = {"tied": drawn(rng, spread=0.1), "noisy": drawn(rng, spread=0.3)}
    row = averaging.beyond_a_seed(losses).loc["noisy"]
    assert row.own == pytest.approx(100 * (0.1**2 + 0.3**2) / 8, rel=0.1)


def test_the_table_of_means_is_that_of_the_losses_by_hand():
    rng = np.random.default_rng(7)
    losses = {"mos": drawn(rng), "tied": drawn(rng, seeds=3), "one": drawn(rng, seeds=1)}
    table = averaging.means(losses)
    assert set(table.index) == {"mos", "tied"} and list(table.one) == sorted(table.one)
    tied, mos = (list(losses[name].values()) for name in ("tied", "mos"))
    row = table.loc["tied"]
    pairs = [averaging.mean_losses(pair).mean() for pair in combinations(tied, 2)]
    gains = [100 * (np.mean(a + b) / 2 - averaging.mean_losses([a, b]).mean())
             for a, b in combinations(tied, 2)]  # fmt: skip
    assert row.one == pytest.approx(np.exp(np.mean(tied)))
    assert row.two == pytest.approx(np.exp(np.mean(pairs)))
    assert row.every == pytest.approx(np.exp(averaging.mean_losses(tied).mean()))
    assert row.gain == pytest.approx(np.mean(gains)) and row.low < row.gain < row.high
    assert row.gain == pytest.approx(100 * np.log(row.one / row.two))
    assert (row.single, row.together) == (0, 0)
    shared = mos[:3]  # the seeds that the baseline has
    row = table.loc["mos"]
    assert row.single == pytest.approx(100 * (np.mean(shared) - np.mean(tied)))
    both = [averaging.mean_losses(side).mean() for side in (shared, tied)]
    assert row.together == pytest.approx(100 * (both[0] - both[1]))


def test_few_seeds_have_no_interval_and_none_no_row():
    rng = np.random.default_rng(5)
    losses = {"tied": drawn(rng, seeds=5), "two": drawn(rng, seeds=2)}
    row = averaging.means(losses).loc["two"]
    assert row.gain == pytest.approx(100 * np.log(row.one / row.two))
    assert np.isnan([row.low, row.high]).all()
    assert averaging.beyond_a_seed(losses).empty
    assert averaging.means({}).empty and averaging.beyond_a_seed({}).empty
    without = averaging.means({"two": losses["two"]})
    assert np.isnan(without.loc["two", ["single", "together"]].astype(float)).all()


def test_kept_runs_are_read_by_method_and_seed(tmp_path, monkeypatch):
    monkeypatch.setattr(results, "kept_folder", lambda: tmp_path)
    evidence_sample.keep(tmp_path)
    runs = predictions.chosen(evidence.read())
    losses = averaging.losses_of(runs)
    assert losses.keys() == set(evidence_sample.METHODS)
    assert all(set(by_seed) == set(evidence_sample.SEEDS) for by_seed in losses.values())
    table = averaging.means(losses)
    assert table.loc["untied", "gain"] == pytest.approx(table.loc["tied", "gain"])
    assert table.loc["mos", "single"] < 0
    # A run on another text, such as one that is cut, is not compared
    other = runs[0]
    arrays = {TEST_LOSSES: np.ones(7, np.float16)}
    monkeypatch.setattr(results, "read_arrays", lambda f: arrays if f == other.folder else {})
    assert averaging.losses_of(runs)[other.method].keys() == {other.seed}  # alone, it is usual
    read = {run.folder: np.ones(8 + (run is other), np.float16) for run in runs}
    monkeypatch.setattr(results, "read_arrays", lambda folder: {TEST_LOSSES: read[folder]})
    assert other.seed not in averaging.losses_of(runs)[other.method]


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
