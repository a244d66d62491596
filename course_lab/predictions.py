"""The predictions of kept models: best words, loss by frequency, calibration, tokens that gain.

Results of whole texts keep a few figures of their predictions (`course_lab.predicting`) and the
loss of every test token. Methods are compared within one context: one family, text and budget.
"""

import itertools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from course_lab import comparison, evidence, predicting, published, results
from course_lab.evidence import Evidence, Run
from course_lab.final_figures import TEST_LOSSES
from course_lab.statistics import mean_interval
from course_lib.errors import CourseError

if TYPE_CHECKING:
    import pandas as pd

PRINTED = {"tied": "softmax"}  # our methods by the names of parthiban2021's Table S2
MARGIN = 1.0  # hundredths of a nat, or of a probability, that would not matter
FAR = 0.2  # nats, a large difference of loss between two methods
BLOCK = 100  # tokens that are drawn together, since the losses of neighbours depend on each other
LIKELY = (0.0, 1e-4, 1e-3, 1e-2, 0.1, 0.5, 1.0)  # bounds of how likely a token was to two models
VERDICTS = {"better": "lower", "worse": "higher"}  # of a figure that has no better side


class Trained(NamedTuple):
    """The runs of one method by seed, and its name for readers."""

    name: str
    runs: dict[int, Run]


def chosen(of: Evidence) -> list[Run]:
    """Return the runs of the context in which most methods have kept their predictions.

    Of contexts with as many methods it is that with most runs, then with the least perplexity.
    """
    contexts: dict[tuple, list[Run]] = {}
    for run in of.runs:
        if "predictions" in run.content["metrics"]:
            contexts.setdefault(run.context, []).append(run)

    def worth(runs: list[Run]) -> tuple:
        losses = [run.perplexity("test") for run in runs]
        return len({run.method for run in runs}), len(runs), -min(losses)

    return max(contexts.values(), key=worth, default=[])


def sort_out(of: Evidence, runs: Iterable[Run]) -> tuple[list[Run], list[Run]]:
    """Return the runs whose settings hold their own against counting, and those that lose to it."""
    sides: tuple[list[Run], list[Run]] = [], []
    for run in runs:
        sides[of.beats_counting(run.setting) is False].append(run)
    return sides


def name_of(runs: Sequence[Run]) -> str:
    """Return the family of chosen runs; empty for none."""
    return evidence.parts_of(runs[0].setting.recipe)[0] if runs else ""


# Words at the papers' contexts -------------------------------------------------------------------


def printed_words() -> "pd.DataFrame":
    """Return parthiban2021's Table S2: context, place, method, rank, word and probability."""
    rows = published.rows()
    rows = rows[(rows.paper == "parthiban2021") & (rows.table == "S2")]
    form = r"context (?P<context>\d+) at (?P<place>\d+) rank (?P<rank>\d+): (?P<word>.*)"
    told = rows.setting.str.extract(form).astype({"context": int, "place": int, "rank": int})
    told = told.assign(method=rows.method, probability=rows.value)
    return told[["context", "place", "method", "rank", "word", "probability"]]


def own_words(runs: Iterable[Run]) -> "pd.DataFrame":
    """Return the best words of runs: method, seed, place, rank, word and probability."""
    import pandas as pd

    rows = []
    for run in runs:
        for place, best in run.content["metrics"]["predictions"]["places"].items():
            for rank, (word, probability) in enumerate(best, 1):
                row = {"method": run.method, "seed": run.seed, "place": int(place), "rank": rank}
                rows.append(row | {"word": word, "probability": probability})
    columns = ["method", "seed", "place", "rank", "word", "probability"]
    return pd.DataFrame(rows, columns=columns)


def beside(ours: "pd.DataFrame", printed: "pd.DataFrame", place: int) -> "pd.DataFrame":
    """Return the best words at a place, a row for each model and a column for each rank.

    Printed models come first. Of our methods it is the run of the least seed.
    """
    import pandas as pd

    rows = {}
    for method, group in printed[printed.place == place].groupby("method", sort=False):
        rows[f"{method}, printed"] = group
    for method, group in ours[ours.place == place].groupby("method", sort=False):
        rows[f"{method}, ours"] = group[group.seed == group.seed.min()]
    table = {
        name: {
            rank: f"{word} {p:.2f}"
            for rank, word, p in zip(g["rank"], g.word, g.probability, strict=True)
        }
        for name, g in rows.items()
    }
    columns = range(1, predicting.BEST + 1)
    return pd.DataFrame.from_dict(table, orient="index", columns=columns).fillna("")


def right_words(ours: "pd.DataFrame", printed: "pd.DataFrame") -> "pd.DataFrame":
    """Return how often each model has the right word first, and among its first five.

    Columns: contexts, those that are told; first and among five, as shares of them. The rows are
    methods, `printed` or `ours`; ours are means over seeds.
    """
    import pandas as pd

    places = published.contexts("S2")
    next_word = dict(zip(places.place, places.next, strict=True))
    rows = {}
    for source, table in (("printed", printed), ("ours", ours)):
        of_places = table[table.place.isin(next_word)].copy()
        if of_places.empty:
            continue
        of_places["right"] = of_places.word == of_places.place.map(next_word)
        of_places["first"] = of_places.right & (of_places["rank"] == 1)
        models = ["method", "place"] if source == "printed" else ["method", "seed", "place"]
        by_place = of_places.groupby(models, sort=False)[["first", "right"]].any()
        for method, group in by_place.groupby("method", sort=False):
            told = group.index.get_level_values("place").nunique()
            rows[f"{method}, {source}"] = [told, *group.mean()]
    columns = ["contexts", "first", "among five"]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns)


def right_of_all(runs: Iterable[Run]) -> "pd.DataFrame":
    """Return the shares of all tokens that are the likeliest word, or among the likeliest five.

    A row for each method with results that keep it: seeds, first, and among five, in per cent,
    with 95 % intervals where there are two seeds.
    """
    import pandas as pd

    rows = {}
    for method, of_method in _shares(runs).items():
        first, five = ([100 * among[k] for among in of_method] for k in ("1", "5"))
        rows[method] = [len(of_method), *map(_mean_and_interval, (first, five))]
    columns = ["seeds", "first, %", "among five, %"]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns)


def orders_told(runs: Iterable[Run], right: "pd.DataFrame", baseline: str = "tied") -> str:
    """Return how the best method and the baseline have the right word among five, in words.

    right: of `right_words`. The best method is that of the greatest share of all tokens, of those
    with two seeds or more. Empty where the baseline or another method lacks them.
    """
    shares = {m: [100 * r["5"] for r in rows] for m, rows in _shares(runs).items() if len(rows) > 1}
    others = [method for method in shares if method != baseline]
    if baseline not in shares or not others:
        return ""
    best = max(others, key=lambda method: np.mean(shares[method]))
    first, second = (_mean_and_interval(shares[m], " %") for m in (best, baseline))
    told = f"Over all tokens of the test split `{best}` has the right word among five in {first}, "
    told += f"and `{baseline}` in {second}"
    few = 100 * right["among five"].reindex([f"{best}, ours", f"{baseline}, ours"]).to_numpy()
    means = np.array([np.mean(shares[best]), np.mean(shares[baseline])])
    if not np.isfinite(few).all():
        return f"{told}."
    agree = np.sign(few[0] - few[1]) == np.sign(means[0] - means[1])
    how = "in the same order" if agree else "in another order"
    return f"{told}. The eighteen contexts have the two {how}: {few[0]:.0f} % and {few[1]:.0f} %."


def _shares(runs: Iterable[Run]) -> dict[str, list[dict]]:
    """Return for each method what its runs keep of the right word among so many likeliest ones."""
    shares: dict[str, list[dict]] = {}
    for run in runs:
        if among := run.content["metrics"]["predictions"].get("among"):  # older results have none
            shares.setdefault(run.method, []).append(among)
    return shares


def _mean_and_interval(values: Sequence[float], unit: str = "") -> str:
    if len(values) < 2:
        return f"{values[0]:.1f}{unit}"
    mean = mean_interval(values)
    return f"{mean.mean:.1f}{unit} [{mean.low:.1f}, {mean.high:.1f}]"


def pairs_of_lists(ours: "pd.DataFrame", printed: "pd.DataFrame") -> "pd.DataFrame":
    """Return every pair of models at each of the eighteen contexts: kind, place, shared, first.

    shared: how many of their five best words they have in common. first: whether they have the same
    first word. Kinds: `two methods in print`,
    `two methods of ours`, `two seeds of one method`, `one method, printed and ours`.
    """
    import pandas as pd

    alike: Any = ours[ours.place.isin(published.contexts("S2").place)]
    models = {("print", m, 0): g for m, g in printed.groupby("method")}
    by_seed = alike.groupby(["method", "seed"])
    models |= {("ours", PRINTED.get(m, m), s): g for (m, s), g in by_seed}
    best = {
        name: {place: list(g.word) for place, g in group.groupby("place")}
        for name, group in models.items()
    }
    rows = []
    for first, second in itertools.combinations(sorted(best), 2):
        if kind := _kind(first, second):
            for place in best[first].keys() & best[second].keys():
                a, b = best[first][place], best[second][place]
                rows.append((kind, place, len(set(a) & set(b)), a[0] == b[0]))
    return pd.DataFrame(rows, columns=["kind", "place", "shared", "first"])


def shared_words(pairs: "pd.DataFrame") -> "pd.DataFrame":
    """Return the mean of each kind of `pairs_of_lists`: pairs, shared of five, same first word."""
    kinds: Any = pairs.groupby("kind", sort=False)
    means = kinds[["shared", "first"]].mean()
    means.insert(0, "pairs", kinds.size())
    names = {"shared": "shared of five", "first": "same first word"}
    return means.rename(columns=names).rename_axis(None)


def apart_told(pairs: "pd.DataFrame") -> str:
    """Return whether two methods of ours share fewer best words than two seeds do, in words.

    pairs: of `pairs_of_lists`. The difference has a 95 % interval over contexts. It is called small
    where it is less than half of what seeds differ by. Empty where one of the two kinds is missing.
    """
    shared = pairs.pivot_table(index="place", columns="kind", values="shared")
    shared = shared.reindex(columns=["two seeds of one method", "two methods of ours"]).dropna()
    if len(shared) < 2:
        return ""
    seeds, methods = (mean_interval(shared[kind]).mean for kind in shared)
    gap = mean_interval(shared.iloc[:, 0] - shared.iloc[:, 1])
    small = gap.mean < (predicting.BEST - seeds) / 2
    tell = "do not tell" if gap.low <= 0 else "hardly tell" if small else "tell"
    return (
        f"Two methods of ours share {methods:.2f} of five words, and two seeds of one method "
        f"{seeds:.2f}. The difference is {gap.mean:.2f} [{gap.low:.2f}, {gap.high:.2f}] over "
        f"contexts: the lists {tell} methods apart."
    )


def _kind(first: tuple, second: tuple) -> str:
    """Return what two models (source, method, seed) have in common; empty if too little."""
    if first[0] != second[0]:
        return "one method, printed and ours" if first[1] == second[1] else ""
    if first[1] == second[1]:
        return "two seeds of one method"
    where = {"print": "in print", "ours": "of ours"}[first[0]]
    return f"two methods {where}" if first[2] == second[2] else ""


# Losses and probabilities by word ----------------------------------------------------------------


def by_group(runs: Iterable[Run]) -> "pd.DataFrame":
    """Return the mean loss of each group of words: method, seed, group, tokens, loss in nats."""
    import pandas as pd

    rows = []
    for run in runs:
        for group, (tokens, loss) in run.content["metrics"]["predictions"]["losses"].items():
            row = {"method": run.method, "seed": run.seed, "group": group, "tokens": tokens}
            rows.append(row | {"loss": loss})
    return pd.DataFrame(rows, columns=["method", "seed", "group", "tokens", "loss"])


def decades(table: "pd.DataFrame") -> list[str]:
    """Return the groups of words by frequency, the rarest first, without the watched words."""
    return [name for name in table.group.unique() if name not in predicting.WATCHED]


def occurrences(names: Iterable[str]) -> list[int]:
    """Return the least number of occurrences of each group of words by frequency."""
    return [int(name.split()[0].replace(",", "")) for name in names]


def watched(runs: Iterable[Run]) -> "pd.DataFrame":
    """Return what `<unk>`, "a", "an" and "the" are given: method, seed, word, there, elsewhere.

    They are mean probabilities, where the word is the next one and where it is not.
    """
    import pandas as pd

    rows = []
    for run in runs:
        told = run.content["metrics"]["predictions"]["watched"]
        for word, (tokens, there, elsewhere) in told.items():
            row = {"method": run.method, "seed": run.seed, "word": word, "tokens": tokens}
            rows.append(row | {"there": there, "elsewhere": elsewhere})
    columns = ["method", "seed", "word", "tokens", "there", "elsewhere"]
    return pd.DataFrame(rows, columns=columns)


def differences(
    table: "pd.DataFrame", by: str, figure: str, baseline: str, scale: float = 100.0
) -> "pd.DataFrame":
    """Return each method against a baseline in every group, by the one paired statistic.

    table: of `by_group` or `watched`.
    by: its column of groups.
    figure: the column that is compared.
    baseline: the method with which the others are compared.
    scale: of the difference; 100 gives hundredths.

    The family of the correction is all methods and groups of the table. The index is (method,
    group). A method that shares fewer than two seeds with the baseline is left out.
    """
    import pandas as pd

    samples = {}
    wide = table.pivot_table(index=["method", by], columns="seed", values=figure)
    for method, group in wide.index:
        if method != baseline and (baseline, group) in wide.index:
            d = (scale * (wide.loc[(method, group)] - wide.loc[(baseline, group)])).dropna()
            if len(d) > 1:
                samples[method, group] = d.to_numpy()
    columns = ["difference", "low", "high", "n", "p", "verdict"]
    tested = comparison.tested(samples, MARGIN)
    index = pd.MultiIndex.from_tuples(list(tested), names=["method", by])
    rows = pd.DataFrame(list(tested.values()), index=index, columns=columns)
    said = rows.verdict.astype(str).replace(VERDICTS).str.replace("1 %", "a hundredth")
    rows["verdict"] = said.str.replace(":.*", "", regex=True)  # how many seeds would decide
    return rows


def gaps(table: "pd.DataFrame", method: str, baseline: str) -> np.ndarray:
    """Return the difference of losses by seed and frequency (seeds, groups), in hundredths.

    table: of `by_group`; NaN where a run has no words of a group.
    """
    wide = table.pivot_table(index="seed", columns=["method", "group"], values="loss")
    names = decades(table)
    ours, theirs = (wide.loc[:, one].reindex(columns=names) for one in (method, baseline))
    d = 100 * (ours - theirs)
    return d.dropna(how="all").to_numpy()


def frequency_told(changes: "pd.DataFrame", tokens: "pd.Series") -> str:
    """Return at which words the losses differ most from the baseline, by how much, in words.

    changes: of `differences` by group, in hundredths of a nat.
    tokens: how many the test split has of each group.
    """
    if changes.empty:
        return "By frequency no method is compared: none shares two seeds with the tied softmax."
    nats = changes.difference.unstack("group") / 100
    most = nats.abs().mean().idxmax()
    surely = changes.verdict.isin(set(VERDICTS.values())).unstack("group")[most]
    there = nats.loc[surely, most].sort_values(key=abs, ascending=False)
    figures = ", ".join(f"`{name}` {d:+.2f}" for name, d in there.items())
    sure = f"the sure differences are {figures} nats" if figures else "no difference is sure"
    rest = nats.drop(columns=most).abs().max(axis=1)
    rest = rest[rest > FAR]
    far = ": " * bool(len(rest)) + ", ".join(f"`{m}` (up to {d:.2f})" for m, d in rest.items())
    return (
        f"Losses differ most at words that occur {most} times: from the tied softmax {sure}. "
        f"These words are {tokens[most] / tokens.sum():.0%} of the tokens. In the other groups of "
        f"words {len(rest)} of {len(nats)} methods differ by more than {FAR} nats{far}."
    )


# Calibration -------------------------------------------------------------------------------------


def calibration(runs: Iterable[Run]) -> "pd.DataFrame":
    """Return how often the likeliest word is right: method, seed, bin, tokens, probability, right.

    The bins are of the greatest probability. Of a calibrated model the mean probability and the
    share that is right are equal in every bin. Empty bins are left out.
    """
    import pandas as pd

    rows = []
    for run in runs:
        bins = run.content["metrics"]["predictions"]["calibration"]
        for number, (tokens, probability, right) in enumerate(bins):
            if tokens:
                row = {"method": run.method, "seed": run.seed, "bin": number, "tokens": tokens}
                rows.append(row | {"probability": probability, "right": right})
    columns = ["method", "seed", "bin", "tokens", "probability", "right"]
    return pd.DataFrame(rows, columns=columns)


def calibration_error(table: "pd.DataFrame") -> "pd.DataFrame":
    """Return the expected calibration error of each method: mean, min, max and n over its seeds.

    It is the mean over tokens of |share right − probability|, taken by bins. `confident` is the
    same mean with its sign: above 0 the probabilities are too great.
    """
    off = (table.probability - table.right) * table.tokens
    runs = [table.method, table.seed]
    tokens = table.groupby(["method", "seed"]).tokens.sum()
    error = off.abs().groupby(runs).sum() / tokens
    rows = error.groupby("method").agg(["mean", "min", "max", "size"])
    rows["confident"] = (off.groupby(runs).sum() / tokens).groupby("method").mean()
    return rows.rename(columns={"size": "n"}).sort_values("mean")


def likeliest(table: "pd.DataFrame") -> "pd.DataFrame":
    """Return how likely each method's likeliest word is in the mean, and in what share it is right.

    table: of `calibration`. Columns: method, probability, right, and error of `calibration_error`.
    """
    import pandas as pd

    error = calibration_error(table)["mean"]
    rows = []
    for method, bins in table.groupby("method"):
        means = [np.average(bins[name], weights=bins.tokens) for name in ("probability", "right")]
        rows.append((method, *means, error[method]))
    return pd.DataFrame(rows, columns=["method", "probability", "right", "error"])


# Tokens ------------------------------------------------------------------------------------------


def two(runs: Iterable[Run], baseline: str = "tied") -> tuple[Trained, ...]:
    """Return the two methods whose losses of tokens are compared; empty where there are none.

    runs: of one context. The baseline is compared with the method of least perplexity among those
    that share two seeds or more with it, else among those that share one. The perplexity is that of
    the validation split, because tokens of the test split are compared.
    """
    methods: dict[str, dict[int, Run]] = {}
    for run in runs:
        methods.setdefault(run.method, {})[run.seed] = run
    plain = methods.pop(baseline, {})

    def order(name: str) -> tuple:
        is_single = len(methods[name].keys() & plain.keys()) < 2
        return is_single, _loss(methods[name])

    others = [name for name in methods if methods[name].keys() & plain.keys()]
    if not others:
        return ()
    best = min(others, key=order)
    return Trained(baseline, plain), Trained(best, methods[best])


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


def next_words(runs: Iterable[Run], table: str = "4") -> "pd.DataFrame":
    """Return the probability of the right word at a table's contexts, a column for each method.

    runs: of PTB. Means over seeds of exp(−loss), from the losses that are kept of every token.
    """
    import pandas as pd

    places = published.contexts(table)
    rows = places.set_index("next").loc[:, ["phrase"]]
    by_method: dict[str, list[Run]] = {}
    for run in runs:
        by_method.setdefault(run.method, []).append(run)
    for method, members in by_method.items():
        losses = [x for x in token_losses(members).values() if len(x) > places.place.max()]
        if losses:
            likely = np.exp(-np.array([x[places.place] for x in losses])).mean(0)
            rows[method] = pd.Series(likely, index=rows.index)
    return rows


def gained(ours: dict[int, np.ndarray], theirs: dict[int, np.ndarray]) -> np.ndarray:
    """Return by how much each token's loss is less than theirs, in nats, the mean over seeds.

    ours, theirs: losses by seed. A seed whose texts differ in length is left out. Empty where no
        seed is common.
    """
    seeds = _common(ours, theirs)
    return np.mean([theirs[s] - ours[s] for s in seeds], axis=0) if seeds else np.empty(0)


def _common(ours: dict[int, np.ndarray], theirs: dict[int, np.ndarray]) -> list[int]:
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
    both = [(ours[s] + theirs[s]) / 2 for s in _common(ours, theirs)]
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


def concentration(gain: np.ndarray, shares: Iterable[float]) -> np.ndarray:
    """Return the part of all |gain| that the largest of them make up, for shares of the tokens."""
    falling = np.sort(np.abs(gain))[::-1]
    total = np.concatenate([[0.0], falling.cumsum()])
    places = (np.asarray(list(shares)) * len(gain)).round().astype(int)
    return total[places] / total[-1]


def samples(runs: Iterable[Run]) -> dict[str, str]:
    """Return a text that each method's run of the least seed wrote."""
    texts: dict[str, str] = {}
    for run in sorted(runs, key=lambda run: run.seed):
        texts.setdefault(run.method, run.content["metrics"]["predictions"]["sample"])
    return texts
