"""Means, correlations and densities of results over seeds, each with its interval.

Samples are a model's results over seeds, (n,); SciPy computes. Every interval has the confidence
1 − α that is asked for, 95 % if nothing is. Two models are compared by `comparison`, which takes
its intervals and Holm's correction from here.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from course_lib.errors import CourseError


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


def jackknife(statistic: Callable[[np.ndarray], float], n: int) -> Mean:
    """Return a statistic of n units with its interval, from what it is without each (Tukey 1958).

    The pseudo-values n θ − (n − 1) θ₍ᵢ₎ are treated as a sample, where θ₍ᵢ₎ leaves out unit i. The
    mean of theirs is θ itself where θ is a mean over pairs, triples … of the units.

    statistic: of the numbers of the units that are kept, such as array([0, 2, 3]).
    CourseError for fewer than 2 units.
    """
    units = np.arange(n)
    whole = statistic(units)
    without = (statistic(np.delete(units, unit)) for unit in units)
    return mean_interval([n * whole - (n - 1) * part for part in without])


def mean_of_known(values: Iterable[float]) -> Mean:
    """Return the mean and 95 % interval of the values that are numbers.

    The interval of one value is that value alone, and of none it is not a number.
    """
    known = [float(value) for value in values if value == value]
    if len(known) > 1:
        return mean_interval(known)
    alone = known[0] if known else np.nan
    return Mean(alone, alone, alone, 0.0, len(known))


def written(mean: float, low: float, high: float, form: str, unit: str = "") -> str:
    """Return a mean as text, with its interval where it has one; nothing if there is no mean.

    form: of each number, such as "+.1f". unit: what stands behind the mean.
    """
    interval = f" [{low:{form}}, {high:{form}}]" if low == low else ""
    return f"{mean:{form}}{unit}{interval}" if mean == mean else ""


def holm(p_values, family: int | None = None) -> np.ndarray:
    """Return p-values (k,) corrected for their number: the greatest (k − rank) p so far, ≤ 1.

    family: how many tests were declared, at least k; k if None. A test that is not done yet counts
        as if it had shown nothing.

    Rejecting those below α, the chance of any false rejection is at most α (Holm 1979).
    CourseError for a family that is less than k.
    """
    p = np.asarray(p_values, np.float64)
    if family is not None and family < len(p):
        raise CourseError(
            f"a family of {family} tests cannot hold {len(p)}; give how many were declared"
        )
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
