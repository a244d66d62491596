"""The mean of several models' probabilities, and how far models of two methods differ.

K models that read one text give its tokens the mean probability (p₁ + … + p_K) / K. The mean needs
no training: its losses follow from the loss that each run keeps of every test token. Its perplexity
is never above the geometric mean of theirs. Of two models, what it gains is

    100 · mean over tokens of log cosh(δ / 2)   per cent,    δ the difference of a token's losses,

which is 0 only where both give every token the same probability. So the gain is also a measure of
how far two models *disagree*.

Two seeds of one method disagree, too. What two methods differ *beyond a seed* is

    E d(A, B) − (E d(A, A′) + E d(B, B′)) / 2,    d the disagreement of two models, A′ another seed,

is an energy distance (Székely & Rizzo 2013): log cosh is of negative type, since every power of
1 / cosh is positive definite (Schoenberg 1938). Over all seeds it is 0 only where both methods have
the same distribution of losses at every token, and else above 0. Its estimate, over pairs of
different seeds, can come out below 0.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from course_lab.evidence import Run
from course_lab.statistics import jackknife
from course_lab.token_gains import token_losses

if TYPE_CHECKING:
    import pandas as pd

LEAST = 3  # seeds; fewer leave a jackknife nothing to average once one is away

Losses = Mapping[int, np.ndarray]  # of every test token by seed, in nats


def mean_losses(losses: Sequence[np.ndarray]) -> np.ndarray:
    """Return −log of the mean probability of each token, from the models' losses of it in nats."""
    return np.log(len(losses)) - np.logaddexp.reduce(-np.asarray(losses), axis=0)


def disagreement(ours: np.ndarray, theirs: np.ndarray) -> float:
    """Return by how many per cent the mean of two models lowers their mean perplexity.

    ours, theirs: their losses of the same tokens in nats.
    """
    half = (ours - theirs) / 2
    return float(100 * (np.logaddexp(half, -half) - np.log(2)).mean())


def means(losses: Mapping[str, Losses], baseline: str = "tied") -> "pd.DataFrame":
    """Return what one model of each method, two and all of its seeds reach together.

    losses: of every method, see `losses_of`. A method of one seed is left out.
    baseline: the method with which the others are compared.

    Columns: seeds; one, two and every, the perplexity of a model, of the mean of two, and of the
    mean of all seeds, where the first two are geometric means; gain, by how many per cent two are
    better than one, with low and high of its 95 % interval; single and together, the difference
    from the baseline in per cent, of single models and of the means of all seeds that both have.
    """
    import pandas as pd

    plain = losses.get(baseline, {})
    rows = {}
    for method, by_seed in losses.items():
        if len(by_seed) < 2:
            continue
        models = [by_seed[seed] for seed in sorted(by_seed)]
        pairs = [mean_losses(pair) for pair in combinations(models, 2)]
        row: dict[str, Any] = {"seeds": len(models)}
        row |= {"one": np.exp(np.mean(models)), "two": np.exp(np.mean(pairs))}
        row["every"] = np.exp(mean_losses(models).mean())
        row["gain"], row["low"], row["high"] = _over_seeds(_disagreements(models, models))
        if shared := sorted(by_seed.keys() & plain.keys()):
            ours, theirs = ([side[seed] for seed in shared] for side in (by_seed, plain))
            row["single"] = 100 * (np.mean(ours) - np.mean(theirs))
            row["together"] = 100 * (mean_losses(ours).mean() - mean_losses(theirs).mean())
        rows[method] = row
    columns = ["seeds", "one", "two", "every", "gain", "low", "high", "single", "together"]
    table = pd.DataFrame.from_dict(rows, orient="index", columns=columns)
    return table.sort_values("one", kind="stable")


def beyond_a_seed(losses: Mapping[str, Losses], baseline: str = "tied") -> "pd.DataFrame":
    """Return how far the models of each method differ from the baseline's, beyond another seed.

    losses: of every method, see `losses_of`.
    baseline: the method from which the others differ.

    Columns, in per cent of perplexity: across, the disagreement of the two methods over different
    seeds; own, that of two seeds of one method, the mean of both methods; beyond, their difference,
    with low and high of its 95 % interval; seeds, those that both have. Methods that share fewer
    than `LEAST` are left out.
    """
    import pandas as pd

    plain = losses.get(baseline, {})
    rows = {}
    for method, by_seed in losses.items():
        shared = sorted(by_seed.keys() & plain.keys())
        if method == baseline or len(shared) < LEAST:
            continue
        ours, theirs = ([side[seed] for seed in shared] for side in (by_seed, plain))
        across = _disagreements(ours, theirs)
        within = (_disagreements(ours, ours) + _disagreements(theirs, theirs)) / 2
        row = {"across": _over_seeds(across)[0], "own": _over_seeds(within)[0]}
        row["beyond"], row["low"], row["high"] = _over_seeds(across - within)
        rows[method] = row | {"seeds": len(shared)}
    columns = ["across", "own", "beyond", "low", "high", "seeds"]
    table = pd.DataFrame.from_dict(rows, orient="index", columns=columns)
    return table.sort_values("beyond", kind="stable")


def losses_of(runs: Iterable[Run]) -> dict[str, Losses]:
    """Return the losses of every test token by method and seed, of runs of one context.

    Runs that kept none are left out, and so are runs of another number of tokens than most have.
    """
    by_method: dict[str, list[Run]] = {}
    for run in runs:
        by_method.setdefault(run.method, []).append(run)
    losses = {method: token_losses(members) for method, members in by_method.items()}
    lengths = [len(tokens) for by_seed in losses.values() for tokens in by_seed.values()]
    usual = max(lengths, key=lengths.count, default=0)
    return {
        method: {seed: tokens for seed, tokens in by_seed.items() if len(tokens) == usual}
        for method, by_seed in losses.items()
    }


def _disagreements(ours: Sequence[np.ndarray], theirs: Sequence[np.ndarray]) -> np.ndarray:
    """Return the disagreement of each model of ours with each of theirs."""
    return np.array([[disagreement(a, b) for b in theirs] for a in ours])


def _over_seeds(table: np.ndarray) -> tuple[float, float, float]:
    """Return the mean of a square table over different seeds, with its 95 % interval.

    The interval is the jackknife's, since the pairs of one seed depend on each other. It is NaN for
    fewer than `LEAST` seeds.
    """

    def mean(kept: np.ndarray) -> float:
        return float(table[np.ix_(kept, kept)][~np.eye(len(kept), dtype=bool)].mean())

    if len(table) < LEAST:
        return mean(np.arange(len(table))), np.nan, np.nan
    return jackknife(mean, len(table))[:3]
