"""Ensembles of several seeds' models, and how far models of two methods differ beyond a seed.

An ensemble of K models gives a token the mean probability (p₁ + … + p_K) / K. It needs no training:
its losses follow from the loss that each run keeps of every test token. By Jensen's inequality its
perplexity is never above the geometric mean of theirs. Of two models, what it gains is

    Δ = 100 · mean over tokens of log cosh(δ / 2)   per cent,    δ the difference of a token's loss,

about δ² / 8 for a small δ, and 0 only where both give every token the same probability. So Δ is
also the *disagreement* of the two models.

Two seeds of one method disagree, too. What methods A and B differ *beyond a seed* is

    D = E Δ(A, B) − (E Δ(A, A′) + E Δ(B, B′)) / 2,    A′ another seed of A,

which is what an ensemble of one model of each gains over the mean of the two ensembles of one
method. It is half an energy distance (Székely & Rizzo 2013), a mean over the tokens: log cosh is of
negative type, since every positive power of 1 / cosh is positive definite (Schoenberg 1938), so
that D ≥ 0; and all frequencies count in it, so that D = 0 only where the loss of each token has one
distribution over seeds in both methods. The estimate, over pairs of different seeds, is unbiased
and may lie below 0. Runs of one seed of A and of B may depend on each other: no pair has both.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from course_lab.evidence import Run
from course_lab.statistics import jackknife
from course_lab.token_gains import by_method, common, token_losses

if TYPE_CHECKING:
    import pandas as pd

LEAST = 3  # seeds; fewer leave a jackknife nothing to average once one is away

Losses = Mapping[int, np.ndarray]  # of every test token by seed, in nats


def losses_of(runs: Iterable[Run]) -> dict[str, Losses]:
    """Return the losses of every test token by method and seed, of runs of one context.

    Runs that kept none are left out, and so are runs of another number of tokens than most have.
    Of a method with several settings `token_gains.by_method` chooses one.
    """
    losses = {method: token_losses(own.values()) for method, own in by_method(runs).items()}
    lengths = [len(tokens) for by_seed in losses.values() for tokens in by_seed.values()]
    usual = max(lengths, key=lengths.count, default=0)
    return {
        method: {seed: tokens for seed, tokens in by_seed.items() if len(tokens) == usual}
        for method, by_seed in losses.items()
    }


def ensemble_losses(losses: Sequence[np.ndarray]) -> np.ndarray:
    """Return −log of the mean probability of each token, from the models' losses of it in nats."""
    return np.log(len(losses)) - np.logaddexp.reduce(-np.asarray(losses), axis=0)


def disagreement(ours: np.ndarray, theirs: np.ndarray) -> float:
    """Return by how many per cent an ensemble of two models lowers their mean perplexity.

    ours, theirs: their losses of the same tokens in nats.
    """
    half = (ours - theirs) / 2
    return float(100 * (np.logaddexp(half, -half) - np.log(2)).mean())


def sizes(by_seed: Losses) -> list[float]:
    """Return the perplexity of ensembles of 1, 2, … of a method's models.

    Each is the geometric mean over all ensembles of so many of the seeds.
    """
    models = list(by_seed.values())
    losses = [
        np.mean([ensemble_losses(some).mean() for some in combinations(models, size)])
        for size in range(1, len(models) + 1)
    ]
    return np.exp(losses).tolist()


def of_two(losses: Mapping[str, Losses], baseline: str = "tied") -> "pd.DataFrame":
    """Return for each method what one model and an ensemble of two reach, beside a baseline.

    losses: of every method, see `losses_of`. A method of one seed is left out.
    baseline: the method with which the others are compared.

    Columns: seeds; one and two, geometric mean perplexities of a model and of an ensemble of two;
    gain, by how many per cent two are better than one; shared, the seeds that the baseline has,
    too; single and together, the difference from the baseline in per cent, of models and of
    ensembles of two; mixed, the perplexity of an ensemble with a model of the baseline of another
    seed. The last four need two shared seeds. gain, single and together have 95 % intervals,
    `… low` and `… high`, from `LEAST` seeds on.
    """
    import pandas as pd

    plain = losses.get(baseline, {})
    rows = {}
    for method, by_seed in losses.items():
        if len(by_seed) < 2:
            continue
        one, two, *_ = sizes(by_seed)
        models = list(by_seed.values())
        row: dict[str, Any] = {"seeds": len(models), "one": one, "two": two}
        row |= _interval("gain", _disagreements(models, models))
        ours, theirs = _shared(by_seed, plain)
        row["shared"] = len(ours)
        if len(ours) > 1:
            own, of_plain = _disagreements(ours, ours), _disagreements(theirs, theirs)
            gap = 100 * (np.mean(ours, axis=1) - np.mean(theirs, axis=1))
            of_pairs = (gap[:, None] + gap) / 2
            row |= _interval("single", of_pairs) | _interval("together", of_pairs - own + of_plain)
            across = _over_seeds(_disagreements(ours, theirs))[0]
            row["mixed"] = np.exp((np.mean(ours) + np.mean(theirs)) / 2 - across / 100)
        rows[method] = row
    columns = ["seeds", "one", "two", *_three("gain"), "shared", *_three("single")]
    columns += [*_three("together"), "mixed"]
    table = pd.DataFrame.from_dict(rows, orient="index", columns=columns)
    return table.sort_values("one", kind="stable")


def beyond_a_seed(losses: Mapping[str, Losses], baseline: str = "tied") -> "pd.DataFrame":
    """Return how far the models of each method differ from the baseline's, beyond another seed.

    losses: of every method, see `losses_of`.
    baseline: the method from which the others differ.

    Columns, in per cent of perplexity: across, the disagreement of the two methods over different
    seeds, and same, over equal ones; own and plain, that of two seeds of the method and of the
    baseline; beyond, across less the mean of these two, with a 95 % interval; seeds, those that
    both have. Methods that share fewer than `LEAST` are left out.

    root: √(beyond / mean of own and plain), which compares nats with nats, since a disagreement
    grows with the square of a difference of losses; 0 where the estimate is below 0.
    """
    import pandas as pd

    plain = losses.get(baseline, {})
    rows = {}
    for method, by_seed in losses.items():
        ours, theirs = _shared(by_seed, plain)
        if method == baseline or len(ours) < LEAST:
            continue
        across = _disagreements(ours, theirs)
        sides = _disagreements(ours, ours), _disagreements(theirs, theirs)
        row = {"across": _over_seeds(across)[0], "same": np.diag(across).mean()}
        row |= {"own": _over_seeds(sides[0])[0], "plain": _over_seeds(sides[1])[0]}
        row |= _interval("beyond", across - (sides[0] + sides[1]) / 2)
        row["root"] = np.sqrt(2 * max(0.0, row["beyond"]) / (row["own"] + row["plain"]))
        rows[method] = row | {"seeds": len(ours)}
    columns = ["across", "same", "own", "plain", *_three("beyond"), "root", "seeds"]
    table = pd.DataFrame.from_dict(rows, orient="index", columns=columns)
    return table.sort_values("beyond", kind="stable")


def _shared(ours: Losses, theirs: Losses) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return the losses of the seeds that both have, in one order."""
    seeds = common(ours, theirs)
    return [ours[seed] for seed in seeds], [theirs[seed] for seed in seeds]


def _disagreements(ours: Sequence[np.ndarray], theirs: Sequence[np.ndarray]) -> np.ndarray:
    """Return the disagreement of each model of ours with each of theirs."""
    return np.array([[disagreement(a, b) for b in theirs] for a in ours])


def _over_seeds(table: np.ndarray) -> tuple[float, float, float]:
    """Return the mean of a square table over different seeds, with its 95 % interval.

    The interval is the jackknife's, since two pairs that share a seed are not independent. It is
    NaN for fewer than `LEAST` seeds, and too wide where the mean is 0 for want of any difference.
    """

    def mean(kept: np.ndarray) -> float:
        return float(table[np.ix_(kept, kept)][~np.eye(len(kept), dtype=bool)].mean())

    if len(table) < LEAST:
        return mean(np.arange(len(table))), np.nan, np.nan
    return jackknife(mean, len(table))[:3]


def _three(name: str) -> list[str]:
    """Return the columns of a mean and its interval."""
    return [name, f"{name} low", f"{name} high"]


def _interval(name: str, table: np.ndarray) -> dict[str, float]:
    """Return the mean of a table over different seeds and its interval, by column."""
    return dict(zip(_three(name), _over_seeds(table), strict=True))
