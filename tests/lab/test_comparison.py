"""The one statistic: SciPy's paired test on logarithms, verdicts that err as often as they say."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from course_lab.comparison import (
    compare,
    detectable,
    interval,
    p_value,
    paired_power,
    seeds_for,
    verdict,
)
from course_lab.statistics import mean_interval
from course_lib.errors import CourseError


def runs(rng, n, effect=0.0, shared=0.05, own=0.01):
    """Two models whose seeds share most of their luck; `effect` in per cent."""
    luck = rng.normal(0, shared, n)
    base = np.exp(4.6 + luck + rng.normal(0, own, n))
    method = np.exp(4.6 + luck + effect / 100 + rng.normal(0, own, n))
    tables = [dict(enumerate(map(float, values))) for values in (base, method)]
    return dict(zip(("plain", "method"), tables, strict=True))


@given(st.integers(0, 999), st.integers(2, 12), st.floats(-5, 5))
def test_a_row_is_scipys_paired_test_of_logarithms(seed, n, effect):
    results = runs(np.random.default_rng(seed), n, effect)
    row = compare(results, "plain").loc["method"]
    logs = [np.log([results[m][s] for s in range(n)]) for m in ("method", "plain")]
    test = stats.ttest_rel(*logs)
    assert row.p == pytest.approx(test.pvalue)
    bounds = test.confidence_interval(0.95)
    assert row["difference"] == pytest.approx(100 * (logs[0] - logs[1]).mean())
    assert row["difference low"] == pytest.approx(100 * bounds.low)
    assert row["difference high"] == pytest.approx(100 * bounds.high)


def test_the_level_is_that_of_every_interval_and_a_mean_is_arithmetic():
    results = runs(np.random.default_rng(5), 6, 1.0)
    row = compare(results, "plain", alpha=0.1).loc["method"]
    values = [[results[m][s] for s in range(6)] for m in ("method", "plain")]
    bounds = stats.ttest_rel(*np.log(values)).confidence_interval(0.9)
    assert row["difference low"] == pytest.approx(100 * bounds.low)
    assert row["difference high"] == pytest.approx(100 * bounds.high)
    mean = mean_interval(values[0], 0.9)
    assert (row.low, row.high) == pytest.approx((mean.low, mean.high))
    assert row.perplexity == pytest.approx(np.mean(values[0]), rel=1e-12)


def test_equal_pairs_leave_no_doubt_and_warn_of_nothing(recwarn):
    nearly = np.full(3, 0.25) * [1, 1 + 1e-15, 1 - 1e-15]
    assert p_value([0.25, 0.25]) == p_value(nearly) == 0 and p_value([0, 0]) == 1
    assert not recwarn.list


def test_only_seeds_that_both_have_are_paired():
    results = {"plain": {1: 100.0, 2: 110.0, 3: 90.0}, "method": {2: 99.0, 3: 81.0, 4: 5.0}}
    row = compare(results, "plain").loc["method"]
    assert (row.n, row.pairs) == (3, 2) and row["difference"] == pytest.approx(100 * np.log(0.9))
    assert compare(results, "plain").loc["plain", "n"] == 3


@given(st.floats(1.3, 6), st.floats(-4, 4), st.integers(1, 30))
def test_as_many_seeds_as_are_said_decide_if_pairs_spread_alike(sd, mean, family):
    d = np.array([-sd, 0, sd])
    n = int(re.search(r"(\d+) seeds", verdict(d, 1.0, 2.0, family=family)).group(1))
    if n < 10_000:
        many = np.resize([-1.0, 1.0], n)
        many = (many - many.mean()) * d.std(ddof=1) / many.std(ddof=1) + mean
        p = min(1.0, family * float(stats.ttest_1samp(many, 0).pvalue))
        assert not verdict(many, p, 2.0, family=family).startswith("undecided")


def test_the_family_is_the_declared_one_whatever_is_done():
    results = runs(np.random.default_rng(0), 6, -2.0)
    alone = compare(results, "plain").loc["method", "p"]
    declared = compare(results, "plain", family=28).loc["method", "p"]
    assert declared == pytest.approx(min(1, 28 * alone))


def test_p_values_are_corrected_for_the_whole_table():
    rng = np.random.default_rng(0)
    results = runs(rng, 6, -2.0)
    alone = compare(results, "plain").loc["method", "p"]
    for i in range(4):
        results[f"other {i}"] = runs(rng, 6)["method"]
    assert compare(results, "plain").loc["method", "p"] == pytest.approx(5 * alone)


@pytest.mark.parametrize(
    ("effect", "n", "starts"),
    [(-5, 6, "better"), (5, 6, "worse"), (0, 12, "no difference larger than 2 %")],
)
def test_verdicts(effect, n, starts):
    results = runs(np.random.default_rng(3), n, effect)
    assert compare(results, "plain").loc["method", "verdict"] == starts


def test_too_few_seeds_are_undecided_and_say_how_many_would_decide():
    d = np.array([-3.0, 2.0, 0.5])
    n = int(re.search(r"about (\d+) seeds", verdict(d, 0.9, margin=2.0)).group(1))
    for seeds, decides in ((n, True), (n - 1, False)):
        t = stats.t.ppf([0.975, 0.95], seeds - 1).sum()
        assert (t * d.std(ddof=1) / np.sqrt(seeds) < 2.0) == decides
    nearly = [-0.1, 0.5, 1.1, 1.7, 2.3]  # p = 0.06: as many seeds as there are decide nothing
    assert verdict(nearly, 0.06, margin=2.0) == "undecided: at most about 6 seeds would decide"
    assert "more than 10000" in verdict([-900.0, 1000.0, 20.0], 0.9, margin=2.0)


@pytest.mark.parametrize("alpha", [0, 0.5, 1])
def test_a_level_without_meaning_is_refused(alpha):
    with pytest.raises(CourseError, match="alpha must be a number above 0 and below 0.5"):
        compare(runs(np.random.default_rng(0), 4), "plain", alpha=alpha)


def test_a_verdict_of_no_difference_is_rarely_wrong():
    """Of 400 tables with a true difference of just the margin at most about 5 % deny it."""
    rng = np.random.default_rng(1)
    denied = 0
    for _ in range(400):
        d = rng.normal(2.0, 1.0, 8)
        p = float(stats.ttest_1samp(d, 0).pvalue)
        denied += verdict(d, p, margin=2.0).startswith("no difference")
    assert denied <= 32


@given(st.floats(0.2, 10), st.floats(0.2, 10))
def test_seeds_needed_are_the_least_that_reach_the_power(difference, sd):
    n = seeds_for(difference, sd)
    if n < 10_000:
        assert paired_power(difference, sd, n) >= 0.8
        assert n == 2 or paired_power(difference, sd, n - 1) < 0.8


def test_power_is_that_of_simulated_experiments():
    rng = np.random.default_rng(2)
    d = rng.normal(1.0, 1.0, (20_000, 8))
    p = stats.ttest_1samp(d, 0, axis=1).pvalue
    assert paired_power(1.0, 1.0, 8) == pytest.approx((p < 0.05).mean(), abs=0.01)
    assert paired_power(0.0, 1.0, 8) == pytest.approx(0.05)


def test_power_is_sure_of_great_differences_and_never_of_none():
    assert paired_power(0, 0, 5) == 0 and paired_power(0.1, 0, 5) == 1
    assert seeds_for(0, 0) == 10_000
    assert paired_power(1.0, 1e-6, 5) == paired_power(1.0, 1e-300, 5) == 1


def test_one_pair_has_no_interval():
    with pytest.raises(CourseError, match="an interval of the mean needs 2 finite values"):
        interval([1.0])


def test_the_interval_holds_the_truth_as_often_as_it_says():
    rng = np.random.default_rng(4)
    inside = [
        low <= 0.3 <= high for low, high in (interval(rng.normal(0.3, 1, 5)) for _ in range(4000))
    ]
    assert np.mean(inside) == pytest.approx(0.95, abs=0.012)


@pytest.mark.parametrize(
    ("results", "message"),
    [
        ({"method": {1: 1.0}}, "unknown baseline 'plain'"),
        ({"plain": {1: 1.0, 2: 2.0}, "method": {2: 1.0}}, "share 1 of their seeds"),
        ({"plain": {1: 1.0, 2: 0.0}, "method": {1: 1.0, 2: 1.0}}, "not {1: 1.0, 2: 0.0}"),
    ],
)
def test_what_cannot_be_compared_is_refused(results, message):
    with pytest.raises(CourseError, match=message):
        compare(results, "plain")


@pytest.mark.parametrize(("sd", "n", "alpha"), [(0.5, 5, 0.05), (3.0, 2, 0.05), (1.0, 40, 0.001)])
def test_a_detectable_difference_is_that_which_the_power_function_gives(sd, n, alpha):
    d = detectable(sd, n, alpha=alpha)
    assert paired_power(d, sd, n, alpha) == pytest.approx(0.8)
    assert detectable(sd, n, wanted=0.9, alpha=alpha) > d
    assert detectable(2 * sd, n, alpha=alpha) == pytest.approx(2 * d)
    assert detectable(0.0, n) == 0.0


def test_so_many_seeds_as_a_difference_needs_detect_it():
    n = seeds_for(2.0, 1.5)
    assert detectable(1.5, n) <= 2.0 < detectable(1.5, n - 1)
