"""Statistics against SciPy, closed forms and simulation."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from course_lab.statistics import (
    density,
    equivalence,
    holm,
    mean_interval,
    paired,
    pearson,
    power,
    seeds_needed,
    spearman,
    summary,
    welch,
    wins,
)
from course_lib.errors import CourseError

few = settings(max_examples=40, deadline=None)
seeds = st.integers(0, 2**32 - 1)
sizes = st.integers(2, 12)


def normal(seed, n, mean=0.0, sd=1.0):
    return np.random.default_rng(seed).normal(mean, sd, n)


@few
@given(seeds, sizes, st.floats(0.5, 0.999))
def test_mean_interval_is_students(seed, n, confidence):
    values = normal(seed, n, 57, 0.3)
    found = mean_interval(values, confidence)
    expected = stats.t.interval(confidence, n - 1, values.mean(), stats.sem(values))
    assert found[:3] == pytest.approx((values.mean(), *expected))
    assert found.sd == pytest.approx(values.std(ddof=1)) and found.n == n


def test_the_interval_covers_as_often_as_it_says():
    random = np.random.default_rng(0)
    hits = [
        m.low < 3 < m.high for m in (mean_interval(random.normal(3, 1, 4)) for _ in range(2000))
    ]
    assert np.mean(hits) == pytest.approx(0.95, abs=0.015)


@few
@given(seeds, sizes, st.floats(0.5, 0.999))
def test_a_paired_test_is_students_of_the_differences(seed, n, confidence):
    """The interval is that of the mean difference; what both of a pair share cancels."""
    shared = normal(seed, n, 0, 1000)
    a, b = normal(seed + 1, n, 0.5), normal(seed + 2, n)
    found, expected = paired(a + shared, b + shared, confidence), stats.ttest_1samp(a - b, 0)
    assert found[:3] == pytest.approx(mean_interval(a - b, confidence)[:3], abs=1e-9)
    assert found[3:] == pytest.approx((expected.statistic, n - 1, expected.pvalue), rel=1e-6)


@few
@given(seeds, sizes, sizes, st.floats(-3, 3), st.floats(0.1, 10))
def test_the_unpaired_test_is_scipys(seed, n, m, shift, scale):
    a, b = normal(seed, n, shift, scale), normal(seed + 1, m)
    found, expected = welch(a, b), stats.ttest_ind(a, b, equal_var=False)
    assert found[3:] == pytest.approx((expected.statistic, expected.df, expected.pvalue))
    assert found[:3] == pytest.approx((a.mean() - b.mean(), *expected.confidence_interval()))
    assert (found.p < 0.05) == (not found.low <= 0 <= found.high)
    other = welch(b, a)
    assert (other.difference, other.p) == pytest.approx((-found.difference, found.p))
    assert found.df <= n + m - 2 + 1e-9


@few
@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_rejects_what_its_steps_reject(p_values):
    corrected, alpha = holm(p_values), 0.05
    order, rejected = np.argsort(p_values, kind="stable"), set()
    for step, i in enumerate(order):
        if p_values[i] * (len(p_values) - step) >= alpha:
            break
        rejected.add(i)
    assert set(np.flatnonzero(corrected < alpha)) == rejected
    assert (corrected >= p_values).all() and corrected.max() <= 1
    assert (np.diff(corrected[order]) >= 0).all()
    bonferroni = np.minimum(np.array(p_values) * len(p_values), 1)
    assert (corrected <= bonferroni).all() and corrected.min() == bonferroni.min()


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]).shape == (0,)
    # tests that are declared and not done count as if they had shown nothing
    assert holm([0.01, 0.04], family=5) == pytest.approx(holm([0.01, 0.04, 1, 1, 1])[:2])


@few
@given(seeds, st.integers(4, 40), st.floats(-1, 1))
def test_correlations_are_scipys(seed, n, rho):
    x = normal(seed, n)
    y = rho * x + normal(seed + 1, n)
    found, expected = pearson(x, y), stats.pearsonr(x, y)
    assert found == pytest.approx(
        (expected.statistic, *expected.confidence_interval(), expected.pvalue, n)
    )
    ranks = spearman(x, y)
    assert (ranks.r, ranks.p) == pytest.approx(tuple(stats.spearmanr(x, y)))
    half = stats.norm.ppf(0.975) * np.sqrt((1 + ranks.r**2 / 2) / (n - 3))
    if abs(ranks.r) < 1:
        middle = (np.arctanh(ranks.low) + np.arctanh(ranks.high)) / 2
        assert middle == pytest.approx(np.arctanh(ranks.r), abs=1e-6)
        width = np.arctanh(ranks.high) - np.arctanh(ranks.low)
        assert width == pytest.approx(2 * half, rel=1e-6)
    assert spearman(np.exp(x), y)[:3] == pytest.approx(ranks[:3])  # ranks alone count
    assert pearson(3 * x - 1, y)[:3] == pytest.approx(found[:3])


def test_a_perfect_correlation_has_no_width():
    assert pearson([1, 2, 3, 4], [2, 4, 6, 8])[:3] == pytest.approx((1, 1, 1))
    assert spearman([1, 2, 3, 4], [1, 8, 9, 99])[:3] == (1, 1, 1)
    assert spearman([1, 2, 3, 4], [4, 3, 2, 1])[:3] == (-1, -1, -1)


@few
@given(seeds, sizes, sizes, st.floats(-1, 1), st.floats(0.1, 3), st.floats(0.01, 0.2))
def test_equivalence_is_its_interval_within_the_margin(seed, n, m, shift, margin, alpha):
    a, b = normal(seed, n, shift), normal(seed + 1, m)
    found = equivalence(a, b, margin, alpha)
    interval = stats.ttest_ind(a, b, equal_var=False).confidence_interval(1 - 2 * alpha)
    assert found[:3] == pytest.approx((a.mean() - b.mean(), *interval))
    assume(min(abs(found.low + margin), abs(found.high - margin)) > 1e-9)
    assert found.equivalent == (-margin < found.low and found.high < margin) == (found.p < alpha)
    assert equivalence(b, a, margin, alpha).p == pytest.approx(found.p)
    assert equivalence(a, b, 2 * margin, alpha).p < found.p


def test_no_difference_is_not_equivalence():
    """Three noisy seeds each find nothing, and show nothing."""
    a, b = [57.0, 57.9, 58.4], [57.2, 58.1, 58.3]
    assert welch(a, b).p > 0.5 and not equivalence(a, b, 0.3).equivalent
    many = np.tile(a, 100), np.tile(b, 100)
    assert equivalence(*many, 0.3).equivalent


def test_power_is_the_share_of_tests_that_find_it():
    random, n = np.random.default_rng(0), 6
    a, b = random.normal(0.8, 0.5, (4000, n)), random.normal(0, 0.5, (4000, n))
    share = (stats.ttest_ind(a, b, axis=1).pvalue < 0.05).mean()
    assert power(0.8, 0.5, n) == pytest.approx(share, abs=0.02)
    assert power(-0.8, 0.5, n) == power(0.8, 0.5, n)
    assert power(0.0, 1.0, 7, alpha=0.03) == pytest.approx(0.03)
    assert power(30.0, 0.1, 2) == pytest.approx(1)


@few
@given(st.floats(0.01, 200), st.integers(2, 1000), st.floats(0.001, 0.2))
def test_power_is_that_of_the_squared_statistic(shift, n, alpha):
    """t² has the noncentral F distribution."""
    edge = stats.f.ppf(1 - alpha, 1, 2 * n - 2)
    expected = stats.ncf.sf(edge, 1, 2 * n - 2, shift**2)
    assert power(shift * np.sqrt(2 / n), 1.0, n, alpha) == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("effect, wanted, n", [(0.2, 0.8, 394), (0.5, 0.8, 64), (0.8, 0.8, 26)])
def test_seeds_of_cohens_tables(effect, wanted, n):
    """Cohen 1988, Table 2.4.1 (two-sided 0.05; the exact values of later programs)."""
    assert seeds_needed(effect, 1.0, wanted) == n


@few
@given(st.floats(0.05, 5), st.floats(0.1, 3), st.floats(0.2, 0.99))
def test_seeds_needed_are_the_fewest(difference, sd, wanted):
    n = seeds_needed(difference, sd, wanted, alpha=0.1)
    assert power(difference, sd, n, 0.1) >= wanted
    assert n == 2 or power(difference, sd, n - 1, 0.1) < wanted
    assert seeds_needed(-difference, sd, wanted, alpha=0.1) == n


def results():
    return {
        "softmax": normal(1, 10, 57.0, 0.1),
        "better": normal(2, 10, 55.0, 0.1),
        "worse": normal(3, 5, 58.0, 0.3),
        "same": normal(4, 10, 57.02, 0.1),
        "few": [56.0, 58.1],
    }


def test_summary_says_what_the_tests_say():
    table = summary(results(), "softmax", margin=0.5)
    verdicts = ["baseline", "better", "worse", "equivalent", "inconclusive"]
    assert table.verdict.tolist() == verdicts and table.index.tolist() == list(results())
    others = [name for name in results() if name != "softmax"]
    tests = {name: welch(results()[name], results()["softmax"]) for name in others}
    corrected = holm([test.p for test in tests.values()])
    for (name, test), p in zip(tests.items(), corrected, strict=True):
        row = table.loc[name]
        assert tuple(row[["difference", "difference low", "difference high"]]) == pytest.approx(
            test[:3]
        )
        assert row.p == pytest.approx(p)
        assert tuple(row[["mean", "low", "high", "sd", "n"]]) == pytest.approx(
            mean_interval(results()[name])
        )
    assert table.loc["softmax"].isna().sum() == 4


def test_summary_turns_round_where_higher_is_better():
    table = summary(results(), "softmax", lower_is_better=False)
    verdicts = ["baseline", "worse", "better", "inconclusive", "inconclusive"]
    assert table.verdict.tolist() == verdicts


def test_summary_corrects_for_the_number_of_models():
    """p = 0.03 alone is a finding; among ten it is none."""
    base, other = normal(0, 10), normal(5, 10, 1.0)
    single = welch(other, base).p
    assert 0.005 < single < 0.05
    alone = summary({"base": base, "other": other}, "base")
    crowd = {f"none {i}": normal(10 + i, 10) for i in range(9)}
    among = summary({"base": base, "other": other} | crowd, "base")
    assert alone.verdict["other"] == "worse" and among.verdict["other"] == "inconclusive"


def test_a_sure_but_tiny_difference_is_equivalent():
    a, b = normal(0, 500, 57.0, 0.1), normal(1, 500, 57.05, 0.1)
    assert summary({"a": a, "b": b}, "a").verdict["b"] == "worse"
    assert summary({"a": a, "b": b}, "a", margin=0.5).verdict["b"] == "equivalent"


@pytest.mark.parametrize(
    "call, match",
    [
        (lambda: mean_interval([3.0]), "2 finite values or more"),
        (lambda: mean_interval([3.0, np.nan]), "2 finite values or more"),
        (lambda: welch([1.0], [1.0, 2.0]), "each side of a t-test needs 2"),
        (lambda: welch([1.0, 1.0], [2.0, 2.0]), "values that vary"),
        (lambda: paired([1.0, 2.0], [1.0]), "each side of a paired t-test needs 2"),
        (lambda: paired([1.0, 2.0], [1.0, 2.0, 3.0]), "pairs, got 2 and 3"),
        (lambda: paired([1.0, 2.0], [2.0, 3.0]), "differences that vary"),
        (lambda: pearson([1, 2, 3], [1, 2, 3]), "4 finite values"),
        (lambda: spearman([1, 2, 3, 4], [1, 2, 3, 4, 5]), "pairs, got 4 and 5"),
        (lambda: spearman([1, 1, 1, 1], [1, 2, 3, 4]), "values that vary"),
        (lambda: equivalence([1, 2], [1, 2], 0), "margin .* above 0"),
        (lambda: power(1, 1, 1), "2 seeds or more"),
        (lambda: power(1, 0, 3), "sd > 0"),
        (lambda: seeds_needed(0, 1), "difference ≠ 0"),
        (lambda: seeds_needed(1, 1, 1.0), "power < 1"),
        (lambda: seeds_needed(1, 1, 0.04), "alpha < power"),
        (lambda: summary({"softmax": [1, 2]}, "sotfmax"), "did you mean softmax"),
    ],
)
def test_what_cannot_be_computed_is_refused(call, match):
    with pytest.raises(CourseError, match=match):
        call()


@few
@given(seeds)
def test_a_density_is_the_mean_of_bells_and_has_area_one(seed):
    values = normal(seed, 40, 7, 3)
    x, y = density(values, points=300)
    width = values.std(ddof=1) * 40 ** (-1 / 5)  # Scott's rule
    bells = np.exp(-(((x[:, None] - values) / width) ** 2) / 2).mean(1) / width / np.sqrt(2 * np.pi)
    np.testing.assert_allclose(y, bells, atol=1e-9)
    assert np.trapezoid(y, x) == pytest.approx(1, abs=0.01)


def test_a_density_needs_numbers_that_vary():
    with pytest.raises(CourseError, match="needs values that vary"):
        density(np.ones(5))
    with pytest.raises(CourseError, match="2 finite values or more"):
        density([1.0, np.nan])


def test_wins_count_benchmarks():
    rho = {"mos": [0.1, 0.5, 0.3], "moc": [0.2, 0.5, 0.4], "plif": [0.15, np.nan, 0.2]}
    table = wins(rho)
    assert table.loc["moc", "mos"] == 2 and table.loc["mos", "moc"] == 0
    assert table.loc["plif", "mos"] == 1 and table.loc["mos", "plif"] == 1
    assert (np.diag(table) == 0).all() and table.index.tolist() == table.columns.tolist()
    with pytest.raises(CourseError, match="different numbers of benchmarks"):
        wins({"a": [1.0], "b": [1.0, 2.0]})
