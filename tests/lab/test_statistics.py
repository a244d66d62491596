"""Statistics against SciPy, closed forms and simulation."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from course_lab.statistics import (
    density,
    holm,
    mean_interval,
    mean_of_known,
    pearson,
    spearman,
    wins,
    written,
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


def test_a_mean_of_what_is_known_leaves_out_what_is_not_a_number():
    assert mean_of_known([1.0, np.nan, 3.0, 2.5]) == mean_interval([1.0, 3.0, 2.5])
    assert tuple(mean_of_known([np.nan, 4.0])) == (4.0, 4.0, 4.0, 0.0, 1)
    none = mean_of_known([np.nan])
    assert none.n == 0 and np.isnan(none[:3]).all()


def test_a_mean_is_written_with_the_interval_that_it_has():
    assert written(1.25, 1.0, 1.5, "+.1f", " %") == "+1.2 % [+1.0, +1.5]"
    assert written(2.0, np.nan, np.nan, ".2f") == "2.00"
    assert written(np.nan, np.nan, np.nan, ".2f", " %") == ""


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


def test_pairs_that_do_not_count_take_their_degrees_of_freedom():
    x, y = normal(0, 12), normal(1, 12)
    found = pearson(x, y, lost=3)
    t = found.r * np.sqrt(7 / (1 - found.r**2))
    assert found.n == 9 and found.p == pytest.approx(2 * stats.t.sf(abs(t), 7))
    width = np.arctanh(found.high) - np.arctanh(found.low)
    assert width == pytest.approx(2 * stats.norm.ppf(0.975) / np.sqrt(6))


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


@pytest.mark.parametrize(
    "call, match",
    [
        (lambda: mean_interval([3.0]), "2 finite values or more"),
        (lambda: mean_interval([3.0, np.nan]), "2 finite values or more"),
        (lambda: pearson([1, 2, 3], [1, 2, 3]), "4 finite values"),
        (lambda: spearman([1, 2, 3, 4], [1, 2, 3, 4, 5]), "pairs, got 4 and 5"),
        (lambda: spearman([1, 1, 1, 1], [1, 2, 3, 4]), "values that vary"),
        (lambda: holm([0.01, 0.04], family=1), "a family of 1 tests cannot hold 2"),
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
