"""Which tokens of the test split gain between two methods, from the loss that each run keeps."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from course_lab import evidence, results
from course_lab.evidence import Run, Setting
from course_lab.experiment import Experiment
from course_lab.final_figures import TEST_LOSSES
from course_lib.data import Corpus
from course_lib.errors import CourseError

if TYPE_CHECKING:
    import pandas as pd

BLOCK = 100  # tokens that are drawn together, since the losses of neighbours depend on each other
LIKELY = (0.0, 1e-4, 1e-3, 1e-2, 0.1, 0.5, 1.0)  # bounds of how likely a token was to two models


class Trained(NamedTuple):
    """The runs of one method by seed, and its name for readers."""

    name: str
    runs: dict[int, Run]


def two(runs: Iterable[Run], baseline: str = "tied") -> tuple[Trained, ...]:
    """Return the two methods whose losses of tokens are compared; empty where there are none.

    runs: of one context. The baseline is compared with the method of least perplexity among those
    that share two seeds or more with it, else among those that share one. The perplexity is that of
    the validation split, because tokens of the test split are compared.
    """
    methods = by_method(runs)
    plain = methods.pop(baseline, {})

    def order(name: str) -> tuple:
        is_single = len(methods[name].keys() & plain.keys()) < 2
        return is_single, _loss(methods[name])

    others = [name for name in methods if methods[name].keys() & plain.keys()]
    if not others:
        return ()
    best = min(others, key=order)
    return Trained(baseline, plain), Trained(best, methods[best])


def by_method(runs: Iterable[Run]) -> dict[str, dict[int, Run]]:
    """Return the runs of each method by seed, of runs of one context.

    Two seeds of different settings are no pair, so the best setting of a method stands for it.
    """
    settings: dict[str, dict[Setting, dict[int, Run]]] = {}
    for run in runs:
        settings.setdefault(run.method, {}).setdefault(run.setting, {})[run.seed] = run
    chosen = {}
    for method, several in settings.items():
        best = evidence.best_of({setting: [*own.values()] for setting, own in several.items()})
        chosen[method] = several[best]
    return chosen


def _loss(runs: dict[int, Run]) -> float:
    return float(np.mean([np.log(run.perplexity("valid")) for run in runs.values()]))


def token_losses(runs: Iterable[Run]) -> dict[int, np.ndarray]:
    """Return the losses of every test token by seed, in nats; runs that kept none are left out."""
    losses = {}
    for run in runs:
        try:
            arrays = results.read_arrays(run.folder)
        except CourseError:  # the array was left behind, or is damaged
            continue
        if TEST_LOSSES in arrays:
            losses[run.seed] = arrays[TEST_LOSSES].astype(np.float64)
    return losses


def gained(ours: dict[int, np.ndarray], theirs: dict[int, np.ndarray]) -> np.ndarray:
    """Return by how much each token's loss is less than theirs, in nats, the mean over seeds.

    ours, theirs: losses by seed. A seed whose texts differ in length is left out. Empty where no
        seed is common.
    """
    seeds = common(ours, theirs)
    return np.mean([theirs[s] - ours[s] for s in seeds], axis=0) if seeds else np.empty(0)


def common(ours: Mapping[int, np.ndarray], theirs: Mapping[int, np.ndarray]) -> list[int]:
    """Return the seeds that both have with losses of as many tokens."""
    return [s for s in sorted(ours.keys() & theirs.keys()) if len(ours[s]) == len(theirs[s])]


def bootstrap(gain: np.ndarray, resamples: int = 1_000, seed: int = 0) -> tuple[float, float]:
    """Return the 95 % interval of a mean gain over tokens, of which blocks are drawn anew.

    A block has `BLOCK` tokens. NaN gains are of tokens that do not count. The interval tells how
    far the mean hangs on this text. What another seed of the training would do is another matter,
    and the paired statistic over seeds tells that.
    """
    blocks = np.array_split(gain, max(1, len(gain) // BLOCK))
    sums = np.array([np.nansum(block) for block in blocks])
    sizes = np.array([np.isfinite(block).sum() for block in blocks])
    drawn = np.random.default_rng(seed).integers(0, len(blocks), (resamples, len(blocks)))
    means = sums[drawn].sum(1) / np.maximum(1, sizes[drawn].sum(1))
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)


def gain_told(pair: Sequence[Trained], gain: np.ndarray, seeds: int) -> str:
    """Return what the second of two settings gains or loses against the first one, in words.

    pair: of `two`.
    gain: of `gained`, the second one's, the mean over `seeds` seeds.
    """
    baseline, method = (trained.name for trained in pair)
    verb, sign = ("gains", 1) if gain.mean() > 0 else ("loses", -1)
    low, high = bootstrap(sign * gain)
    amount = f"{sign * gain.mean():.3f} nats a token [{low:.3f}, {high:.3f}]"
    return f"`{method}` {verb} {amount} against `{baseline}`, seeds in common: {seeds}"


def by_likelihood(ours: dict[int, np.ndarray], theirs: dict[int, np.ndarray]) -> "pd.DataFrame":
    """Return the gain of tokens by how likely they were: tokens, gain, low, high, part.

    A token's class is that of exp(−mean loss of both models). Classes by the loss of the one model
    would show a gain for its worst tokens and a loss for its best, whatever the other model is.
    part: what the class adds to the mean gain over all tokens, in nats.
    """
    import pandas as pd

    gain = gained(ours, theirs)
    columns = ["tokens", "gain", "low", "high", "part"]
    if not len(gain):
        return pd.DataFrame(columns=columns)
    both = [(ours[s] + theirs[s]) / 2 for s in common(ours, theirs)]
    likely = np.exp(-np.mean(both, axis=0))
    rows = {}
    for low, high in zip(LIKELY, LIKELY[1:], strict=False):
        inside = (likely > low) & (likely <= high)
        if inside.any():
            interval = bootstrap(np.where(inside, gain, np.nan))
            part = gain[inside].sum() / len(gain)
            row = [int(inside.sum()), gain[inside].mean(), *interval, part]
            rows[f"{low:g} to {high:g}"] = row
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns)


def tokens_of(run: Run, count: int) -> np.ndarray | None:
    """Return the words of a run's test split, (count,); None where its text is not here.

    Where the split has another length it is another text, and there are none either.

    count: how many tokens have a loss.
    """
    try:
        corpus = Experiment.from_dict(run.content["experiment"]).load_corpus()
    except CourseError:
        return None
    assert isinstance(corpus, Corpus)  # only texts have losses of tokens
    ids = np.asarray(corpus.test)
    return np.array(corpus.words)[ids] if len(ids) == count else None


def by_word(gain: np.ndarray, tokens: np.ndarray, most: int = 8) -> "pd.DataFrame":
    """Return the words that gain and lose most: chosen in one half of the text, told in the other.

    gain, tokens: (n,), what each token gains, and its word.
    most: how many of the words that add most to the mean gain are told, and of those that take most
        from it.

    The halves are every other block. Who chooses and measures in the same tokens finds gains that
    are chance. Columns: tokens, gain, low, high and part, as in `by_likelihood`, in the half that
    did not choose; chosen, the part in the other half, by which the rows are ordered.
    """
    import pandas as pd

    choosing = np.arange(len(gain)) // BLOCK % 2 == 0
    sums = pd.Series(gain[choosing]).groupby(tokens[choosing]).sum() / choosing.sum()
    ordered = sums.sort_values(ascending=False)
    rows = {}
    for word in [*ordered.index[:most], *ordered.index[-most:]]:
        inside = ~choosing & (tokens == word)
        if inside.any():
            interval = bootstrap(np.where(inside, gain, np.nan)[~choosing])
            part = gain[inside].sum() / (~choosing).sum()
            rows[word] = [int(inside.sum()), gain[inside].mean(), *interval, part, ordered[word]]
    columns = ["tokens", "gain", "low", "high", "part", "chosen"]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns)


def concentration(gain: np.ndarray, shares: Iterable[float]) -> np.ndarray:
    """Return the part of all |gain| that the largest of them make up, for shares of the tokens."""
    falling = np.sort(np.abs(gain))[::-1]
    total = np.concatenate([[0.0], falling.cumsum()])
    places = (np.asarray(list(shares)) * len(gain)).round().astype(int)
    return total[places] / total[-1]
