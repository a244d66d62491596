"""One statistic for every comparison of the course: runs of one seed are pairs.

Two models that are trained from one seed share the start of their common parameters and the order
of their batches, so the difference of their log perplexities varies less than either. Of n seeds

    d_s = 100 (log perplexity of the method - log perplexity of the baseline)   per cent,
    d̄ ± t_{n-1, 1-α/2} · sd(d) / √n                                            its interval,

and p is that of the paired t-test, corrected by Holm over all methods that were declared, those
without runs so far included. A verdict is

    better, worse    the corrected p is below α;
    no difference larger than x %    both one-sided tests at α refuse a difference of x = `margin`
                                     (Schuirmann 1987), so that the 1 - 2α interval lies inside;
                                     this is not corrected;
    undecided: at most about n seeds would decide    neither; n seeds would give one of the verdicts
                                             above, whatever their mean, if their pairs spread as
                                             these do; fewer may.

Translators are compared by BLEU in the same way, of which more is better.

A difference that is real and smaller than the margin is called better or worse, not equivalent.
Per cent are 100 times a difference of logarithms everywhere, in the margin, too.
"""

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from annotated_types import Gt, Lt
from scipy import optimize, stats

from course_lab.statistics import holm, mean_interval
from course_lib.errors import CourseError, unknown
from course_lib.ranges import Count, Positive, checked

if TYPE_CHECKING:
    import pandas as pd

MOST_SEEDS = 10_000  # beyond which nobody would run an experiment
OPPOSITE = {"better": "worse", "worse": "better"}  # where more of a figure is better
ROUNDING = 1e-12  # of a difference, by which pairs that are equal may differ


@checked
def compare(
    results: Mapping[str, Mapping[int, float]],
    baseline: str,
    margin: Positive = 2.0,
    alpha: Annotated[float, Gt(0), Lt(0.5)] = 0.05,
    family: Count | None = None,
    figure: Literal["perplexity", "BLEU"] = "perplexity",
) -> "pd.DataFrame":
    """Compare every model with the baseline, a row each, by the seeds that both have.

    results: model → {seed: its figure}; margin: per cent of the figure that would not matter.
    family: how many comparisons were declared, for Holm's correction; those of `results` if None.
    figure: what is compared. A lower perplexity is better, and a higher BLEU.

    Columns: n (the model's seeds), the figure (its mean over all of them), low, high (its
    interval), pairs (seeds in common with the baseline), difference, difference low, difference
    high (per cent), p (Holm), verdict.
    CourseError for an unknown baseline, for figures that are not positive, and for a model that
    shares fewer than two seeds with the baseline.
    """
    import pandas as pd

    if baseline not in results:
        raise unknown("baseline", baseline, results)
    others = [name for name in results if name != baseline]
    differences = {name: paired_differences(results, name, baseline) for name in others}
    told = tested(differences, margin, alpha, family)
    rows = {}
    for name, by_seed in results.items():
        values = _logarithms(name, by_seed)
        mean = mean_interval(np.exp(values), 1 - alpha) if len(values) > 1 else None
        rows[name] = {"n": len(values), figure: float(np.exp(values).mean())}
        rows[name] |= {"low": mean.low, "high": mean.high} if mean else {}
        rows[name] |= {"verdict": "baseline"}
        if name == baseline:
            continue
        own = told[name]
        own |= {"difference low": own.pop("low"), "difference high": own.pop("high")}
        own["pairs"] = own.pop("n")
        if figure == "BLEU":
            own["verdict"] = OPPOSITE.get(own["verdict"], own["verdict"])
        rows[name] |= own
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns(figure))


def columns(figure: str) -> list[str]:
    """Return the columns of `compare`."""
    of_pairs = ["pairs", "difference", "difference low", "difference high", "p", "verdict"]
    return ["n", figure, "low", "high", *of_pairs]


def tested(
    differences: Mapping[Any, np.ndarray],
    margin: float = 2.0,
    alpha: float = 0.05,
    family: int | None = None,
    unit: str = "%",
) -> dict[Any, dict]:
    """Return what the statistic says of a family of comparisons, by name.

    differences: name → paired differences (n,), two or more, in the unit of `margin`.
    family: how many comparisons were declared; the number of `differences` if None.
    unit: what a verdict calls it.

    Keys: difference (their mean), low, high (its interval), n, p (Holm over the family), verdict.
    """
    family = family or len(differences)
    corrected = holm([p_value(d) for d in differences.values()], family)
    rows = {}
    for (name, d), p in zip(differences.items(), corrected, strict=True):
        low, high = interval(d, 1 - alpha)
        rows[name] = {"difference": float(np.mean(d)), "low": low, "high": high, "n": len(d)}
        rows[name] |= {"p": float(p), "verdict": verdict(d, p, margin, alpha, family, unit)}
    return rows


def paired_differences(results, name: str, baseline: str) -> np.ndarray:
    """Return 100 (log perplexity - that of the baseline) of every seed that both models have."""
    seeds = sorted(results[name].keys() & results[baseline].keys())
    if len(seeds) < 2:
        raise CourseError(
            f"{name} and {baseline} share {len(seeds)} of their seeds; a comparison needs two"
        )
    method, base = ({s: results[m][s] for s in seeds} for m in (name, baseline))
    return 100 * (_logarithms(name, method) - _logarithms(baseline, base))


def p_value(differences) -> float:
    """Return the two-sided p of the paired t-test; pairs that are equal leave no doubt."""
    differences = np.asarray(differences, np.float64)
    if np.ptp(differences) <= ROUNDING * np.abs(differences).max():
        return 0.0 if differences.any() else 1.0
    test: Any = stats.ttest_1samp(differences, 0)
    return float(test.pvalue)


def interval(differences, confidence: float = 0.95) -> tuple[float, float]:
    """Return the confidence interval of the mean of two or more paired differences."""
    mean = mean_interval(differences, confidence)
    return mean.low, mean.high


def verdict(
    differences, p: float, margin: float, alpha: float = 0.05, family: int = 1, unit: str = "%"
) -> str:
    """Return the verdict on paired differences.

    p: corrected for the `family` of comparisons.
    unit: of the differences and of `margin`.
    """
    differences = np.asarray(differences, np.float64)
    if p < alpha:
        return "better" if differences.mean() < 0 else "worse"
    low, high = interval(differences, 1 - 2 * alpha)
    if -margin < low and high < margin:
        return f"no difference larger than {margin:g} {unit}"
    # Where 0 lies inside the corrected interval, |d̄| is at most t' sd / √n. With t of the one-sided
    # test the whole interval of equivalence then lies inside the margin if (t' + t) sd / √n does.
    levels = np.array([1 - alpha / (2 * family), 1 - alpha])
    sd = differences.std(ddof=1)
    return undecided(
        lambda n: stats.t.ppf(levels, n - 1).sum() * sd / math.sqrt(n) < margin,
        len(differences),
        "at most about",
    )


def undecided(decide: Callable[[int], bool], have: int, roughly: str = "about") -> str:
    """Return the verdict of pairs that decide nothing, with how many would.

    decide: whether so many pairs would give a verdict; those above them, too. have: at hand.
    roughly: what is said before the number.
    """
    n = _least(decide, have + 1)
    return f"undecided: {roughly if n < MOST_SEEDS else 'more than'} {n} seeds would decide"


def paired_power(difference: float, sd: float, n: int, alpha: float = 0.05) -> float:
    """Return how often n pairs of spread `sd` show a true difference, by the noncentral t."""
    if sd == 0:
        return float(difference != 0)
    shift = abs(difference) / sd * math.sqrt(n)
    critical = stats.t.ppf(1 - alpha / 2, n - 1)
    # SciPy returns NaN where the shift is so great that the one is 1 and the other underflows.
    right = np.nan_to_num(stats.nct.sf(critical, n - 1, shift), nan=1.0)
    wrong_side = np.nan_to_num(stats.nct.cdf(-critical, n - 1, shift))
    return float(right + wrong_side)


def seeds_for(difference: float, sd: float, wanted: float = 0.8, alpha: float = 0.05) -> int:
    """Return the least number of pairs that show `difference` in the share `wanted` of tries.

    sd: spread of the pairs' differences in a pilot. At most MOST_SEEDS.
    """
    return _least(lambda n: paired_power(difference, sd, n, alpha) >= wanted, 2)


def detectable(sd: float, n: int, wanted: float = 0.8, alpha: float = 0.05) -> float:
    """Return the least true difference that n pairs show in the share `wanted` of tries.

    sd: spread of the pairs' differences in a pilot, whose unit the result has.
    """
    if sd == 0:
        return 0.0
    high = sd
    while paired_power(high, sd, n, alpha) < wanted:
        high *= 2
    difference: Any = optimize.brentq(lambda d: paired_power(d, sd, n, alpha) - wanted, 0, high)
    return difference


def _least(enough: Callable[[int], bool], few: int) -> int:
    """Return the least number of seeds from `few` on that is enough, as all above it are.

    The number is doubled until it is enough, then the gap is halved. At most MOST_SEEDS.
    """
    low, high = few - 1, few
    while high < MOST_SEEDS and not enough(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if enough(middle):
            high = middle
        else:
            low = middle
    return min(high, MOST_SEEDS)


def _logarithms(name: str, by_seed: Mapping[int, float]) -> np.ndarray:
    values = np.array([by_seed[seed] for seed in sorted(by_seed)], np.float64)
    if not len(values) or not (np.isfinite(values) & (values > 0)).all():
        told = {seed: by_seed[seed] for seed in sorted(by_seed)}
        raise CourseError(f"{name} needs finite figures above 0, by seed not {told}")
    return np.log(values)
