"""Is one model better than another, and how many seeds does it take to say so?

Samples are a model's results over seeds, (n,); SciPy computes. Every interval has the confidence
1 − α that is asked for, 95 % if nothing is.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from course_lib.errors import CourseError, unknown


class Mean(NamedTuple):
    """Mean, its interval, the sample's standard deviation (n − 1 in the denominator) and n."""

    mean: float
    low: float
    high: float
    sd: float
    n: int


def mean_interval(values, confidence: float = 0.95) -> Mean:
    """Return the mean ± t s/√n, with Student's t of n − 1 degrees of freedom, and s.

    CourseError for fewer than 2 values.
    """
    values = _sample(values, 2, "an interval of the mean")
    n, sd = len(values), float(values.std(ddof=1))
    half = stats.t.ppf((1 + confidence) / 2, n - 1) * sd / np.sqrt(n)
    mean = float(values.mean())
    return Mean(mean, float(mean - half), float(mean + half), sd, n)


class Difference(NamedTuple):
    """mean(a) − mean(b), its interval, t, degrees of freedom, two-sided p."""

    difference: float
    low: float
    high: float
    t: float
    df: float
    p: float


def welch(a, b, confidence: float = 0.95) -> Difference:
    """Test whether two means are equal, without pairs and whatever the variances (Welch).

    CourseError for fewer than 2 values in a sample, or if neither varies.
    """
    a, b = (_sample(values, 2, "each side of a t-test") for values in (a, b))
    if np.ptp(a) == 0 and np.ptp(b) == 0:
        raise CourseError("a t-test needs values that vary, in one of the two samples at least")
    return _difference(
        stats.ttest_ind(a, b, equal_var=False), float(a.mean() - b.mean()), confidence
    )


def paired(a, b, confidence: float = 0.95) -> Difference:
    """Test whether the mean difference between pairs is 0: a[i] and b[i] share a seed.

    What a seed brings to both of a pair cancels, so that fewer seeds are needed than for unpaired
    samples. CourseError for fewer than 2 pairs, or if the differences do not vary.
    """
    a, b = (_sample(values, 2, "each side of a paired t-test") for values in (a, b))
    if len(a) != len(b):
        raise CourseError(f"a paired t-test needs pairs, got {len(a)} and {len(b)} values")
    if np.ptp(a - b) == 0:
        raise CourseError("a paired t-test needs differences that vary")
    return _difference(stats.ttest_rel(a, b), float((a - b).mean()), confidence)


def holm(p_values, family: int | None = None) -> np.ndarray:
    """Return p-values (k,) corrected for their number: the greatest (k − rank) p so far, ≤ 1.

    family: how many tests were declared, at least k; k if None. A test that is not done yet counts
        as if it had shown nothing.

    Rejecting those below α, the chance of any false rejection is at most α (Holm 1979).
    """
    p = np.asarray(p_values, np.float64)
    order = p.argsort(kind="stable")
    factors = (family or len(p)) - np.arange(len(p))
    corrected = np.empty_like(p)
    corrected[order] = np.maximum.accumulate(p[order] * factors).clip(max=1)
    return corrected


class Correlation(NamedTuple):
    """The coefficient, its interval, the two-sided p of none, and the number of pairs."""

    r: float
    low: float
    high: float
    p: float
    n: int


def pearson(x, y, confidence: float = 0.95, lost: int = 0) -> Correlation:
    """Return Pearson's r; its interval is Fisher's, artanh r ± z/√(n − 3).

    lost: pairs that do not count in n, because means were taken from x and y with their help.

    CourseError for fewer than 4 pairs that count, or if x or y does not vary.
    """
    x, y = _pairs(x, y)
    n = len(x) - lost
    if n < 4:
        raise CourseError(f"a correlation needs 4 pairs, and of {len(x)} only {n} count")
    correlation: Any = stats.pearsonr(x, y)
    r = float(correlation.statistic)
    z = stats.norm.ppf((1 + confidence) / 2)
    with np.errstate(divide="ignore"):
        low, high = np.tanh(np.arctanh(r) + z / np.sqrt(n - 3) * np.array([-1, 1]))
        t = abs(r) * np.sqrt((n - 2) / (1 - r**2)) if abs(r) < 1 else np.inf
    return Correlation(r, float(low), float(high), float(2 * stats.t.sf(t, n - 2)), n)


def spearman(x, y, confidence: float = 0.95) -> Correlation:
    """Return Spearman's ρ, in artanh ρ ± z √((1 + ρ²/2)/(n − 3)) (Bonett and Wright 2000).

    CourseError for fewer than 4 pairs, or if x or y does not vary.
    """
    x, y = _pairs(x, y)
    rho, p = map(float, stats.spearmanr(x, y))
    return Correlation(rho, *spearman_interval(rho, len(x), confidence), p, len(x))


def spearman_interval(rho: float, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return the interval of a Spearman's ρ over n pairs (Bonett and Wright 2000)."""
    half = stats.norm.ppf((1 + confidence) / 2) * np.sqrt((1 + rho**2 / 2) / (n - 3))
    with np.errstate(divide="ignore"):
        middle = np.arctanh(rho)
    return float(np.tanh(middle - half)), float(np.tanh(middle + half))


class Equivalence(NamedTuple):
    """mean(a) − mean(b), its 1 − 2α interval, the greater p of the two one-sided tests, verdict."""

    difference: float
    low: float
    high: float
    p: float
    equivalent: bool


def equivalence(a, b, margin: float, alpha: float = 0.05) -> Equivalence:
    """Test whether two means differ by less than `margin`, by two one-sided Welch tests.

    Source: Schuirmann 1987.

    Equivalent if the difference is significantly above −margin and below margin, which is so if its
    interval of confidence 1 − 2α lies between them. A test that finds no difference shows nothing
    of the kind. CourseError unless margin > 0, and as `welch`.
    """
    if not margin > 0:
        raise CourseError(f"the margin of an equivalence test must be above 0, not {margin}")
    both = welch(a, b, 1 - 2 * alpha)
    a, b = (np.asarray(values, np.float64) for values in (a, b))
    above: Any = stats.ttest_ind(a + margin, b, equal_var=False, alternative="greater")
    below: Any = stats.ttest_ind(a - margin, b, equal_var=False, alternative="less")
    p = float(max(above.pvalue, below.pvalue))
    return Equivalence(both.difference, both.low, both.high, p, p < alpha)


def power(difference: float, sd: float, n: int, alpha: float = 0.05) -> float:
    """Return the chance that Student's test on n seeds a model finds a true `difference`.

    P(|t| > t_{1−α/2}) of the noncentral t with 2n − 2 degrees of freedom and noncentrality
    difference / (sd √(2/n)); sd is that of one model over seeds. CourseError unless n ≥ 2, sd > 0.
    """
    if n < 2 or not sd > 0:
        raise CourseError(f"power needs 2 seeds or more and sd > 0, not n = {n}, sd = {sd}")
    df = 2 * n - 2
    shift = abs(difference) / (sd * np.sqrt(2 / n))
    edge = stats.t.ppf(1 - alpha / 2, df)
    return float(stats.nct.sf(edge, df, [shift, -shift]).sum())  # its cdf is NaN far out


def seeds_needed(difference: float, sd: float, wanted: float = 0.8, alpha: float = 0.05) -> int:
    """Return the least n a model whose `power` to find a true `difference` is `wanted` or more.

    CourseError unless difference ≠ 0, sd > 0 and alpha < wanted < 1.
    """
    if not (difference and sd > 0 and alpha < wanted < 1):
        raise CourseError(
            "the number of seeds needs difference ≠ 0, sd > 0 and alpha < power < 1, not "
            f"{difference}, {sd}, {alpha} and {wanted}"
        )
    low, high = 1, 2
    while power(difference, sd, high, alpha) < wanted:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if power(difference, sd, middle, alpha) < wanted:
            low = middle
        else:
            high = middle
    return high


DIFFERENCE = ("difference", "difference low", "difference high", "p", "verdict")


def summary(
    results: Mapping[str, object],
    baseline: str,
    lower_is_better: bool = True,
    margin: float | None = None,
    alpha: float = 0.05,
) -> pd.DataFrame:
    """Compare every model with the baseline: a row each with mean, interval, n, and verdict.

    results: model -> values over seeds. Columns mean, low, high, sd, n; difference to the baseline
    with its interval and Welch's p, corrected by Holm for the number of models; verdict. With a
    margin "equivalent" comes first: what differs by less does not matter, however surely it
    differs; that test is not corrected. Else "better" or "worse" if p < α, and "inconclusive" if
    not, for which more seeds would have to be run (`seeds_needed`). CourseError for an unknown
    baseline, and as `welch`.
    """
    if baseline not in results:
        raise unknown("baseline", baseline, results)
    others = [name for name in results if name != baseline]
    tests = {name: welch(results[name], results[baseline], 1 - alpha) for name in others}
    corrected = dict(zip(others, holm([test.p for test in tests.values()]), strict=True))
    rows = {}
    for name, values in results.items():
        rows[name] = mean_interval(values, 1 - alpha)._asdict() | {"verdict": "baseline"}
        if name == baseline:
            continue
        test, p = tests[name], corrected[name]
        if margin is not None and equivalence(values, results[baseline], margin, alpha).equivalent:
            verdict = "equivalent"
        elif p >= alpha:
            verdict = "inconclusive"
        else:
            verdict = "better" if (test.difference < 0) == lower_is_better else "worse"
        rows[name] |= dict(zip(DIFFERENCE, (*test[:3], p, verdict), strict=True))
    return pd.DataFrame.from_dict(rows, orient="index", columns=[*Mean._fields, *DIFFERENCE])


def wins(scores: Mapping[str, Iterable[float]]) -> pd.DataFrame:
    """Return on how many benchmarks the ρ of a row's model is greater than that of a column's.

    What is NaN for one of two models counts for neither (parthiban2021, Figure 4).

    scores: model -> ρ by benchmark, the same benchmarks in the same order.
    Raises CourseError where models have different numbers of benchmarks.
    """
    scores = {model: list(values) for model, values in scores.items()}
    lengths = {len(values) for values in scores.values()}
    if len(lengths) > 1:
        raise CourseError(f"models with different numbers of benchmarks, {sorted(lengths)}")
    table = np.array(list(scores.values()), np.float64)
    count = (table[:, None] > table[None]).sum(-1)
    return pd.DataFrame(count, index=list(scores), columns=list(scores))


def density(values, points: int = 200) -> tuple[np.ndarray, np.ndarray]:
    """Return places and the Gaussian kernel density of numbers (n,) at them.

    The numbers are nearest-neighbour distances in wang2019, figure 1a. The `points` places reach
    from three bandwidths below the least number to three above the greatest. CourseError for fewer
    than 2 numbers, or where all are the same.
    """
    values = _sample(values, 2, "a density", varied=True)
    kernel: Any = stats.gaussian_kde(values)
    reach = 3 * kernel.factor * values.std(ddof=1)
    places = np.linspace(values.min() - reach, values.max() + reach, points)
    return places, kernel(places)


def _difference(found, difference: float, confidence: float) -> Difference:
    """SciPy's t-test as a `Difference`."""
    interval = found.confidence_interval(confidence)
    t, df, p = (float(v) for v in (found.statistic, found.df, found.pvalue))
    return Difference(difference, float(interval.low), float(interval.high), t, df, p)


def _sample(values, least: int, what: str, varied: bool = False) -> np.ndarray:
    sample = np.asarray(values, np.float64).ravel()
    if len(sample) < least or not np.isfinite(sample).all():
        raise CourseError(f"{what} needs {least} finite values or more, got {sample.tolist()}")
    if varied and np.ptp(sample) == 0:
        raise CourseError(f"{what} needs values that vary, got {len(sample)} times {sample[0]:g}")
    return sample


def _pairs(x, y) -> tuple[np.ndarray, np.ndarray]:
    x, y = (_sample(values, 4, "a correlation", varied=True) for values in (x, y))
    if len(x) != len(y):
        raise CourseError(f"a correlation needs pairs, got {len(x)} and {len(y)} values")
    return x, y
