"""The likeliest words at the papers' contexts, printed and ours: are they right, and shared?"""

import itertools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from course_lab import predicting, published
from course_lab.evidence import Run
from course_lab.statistics import mean_interval, written
from course_lab.token_gains import token_losses, two

if TYPE_CHECKING:
    import pandas as pd

PRINTED = {"tied": "softmax"}  # our methods by the names of parthiban2021's Table S2


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

    right: of `right_words`. The best method has the least validation perplexity, as in
    `token_gains.two`, of those that keep the shares of two seeds or more. Empty where the baseline
    or every other method lacks them, and where no seed is common.
    """
    shares = {m: [100 * r["5"] for r in rows] for m, rows in _shares(runs).items() if len(rows) > 1}
    pair = two([run for run in runs if run.method in shares and _among(run)], baseline)
    if not pair:
        return ""
    best = pair[1].name
    first, second = (_mean_and_interval(shares[m], " %") for m in (best, baseline))
    told = f"Over all tokens of the test split `{best}`, the best method by validation, has the "
    told += f"right word among five in {first}, and `{baseline}` in {second}"
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
        if among := _among(run):
            shares.setdefault(run.method, []).append(among)
    return shares


def _among(run: Run) -> dict | None:
    """Return a run's shares of tokens by number of likeliest words; older results have none."""
    return run.content["metrics"]["predictions"].get("among")


def _mean_and_interval(values: Sequence[float], unit: str = "") -> str:
    if len(values) < 2:
        return f"{values[0]:.1f}{unit}"
    mean = mean_interval(values)
    return written(mean.mean, mean.low, mean.high, ".1f", unit)


def pairs_of_lists(ours: "pd.DataFrame", printed: "pd.DataFrame") -> "pd.DataFrame":
    """Return every pair of models at each of the eighteen contexts: kind, place, shared, first.

    shared: how many of their five best words they have in common. first: whether they have the same
    first word. Kinds: `two methods in print`, `two methods of one seed`, `two methods of two
    seeds`, `two seeds of one method`, `one method, printed and ours`.
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

    pairs: of `pairs_of_lists`. On both sides the models are of two seeds, since two methods of one
    seed share their start and their batches. The difference has a 95 % interval over contexts. It
    is called small where it is less than half of what seeds differ by. Empty where one of the two
    kinds is missing.
    """
    shared = pairs.pivot_table(index="place", columns="kind", values="shared")
    sides = ["two seeds of one method", "two methods of two seeds"]
    shared = shared.reindex(columns=sides).dropna()
    if len(shared) < 2:
        return ""
    seeds, methods = (mean_interval(shared[kind]).mean for kind in shared)
    gap = mean_interval(shared.iloc[:, 0] - shared.iloc[:, 1])
    small = gap.mean < (predicting.BEST - seeds) / 2
    tell = "do not tell" if gap.low <= 0 else "hardly tell" if small else "tell"
    return (
        f"Two methods of two seeds share {methods:.2f} of five words, and two seeds of one method "
        f"share {seeds:.2f}. The difference is {gap.mean:.2f} [{gap.low:.2f}, {gap.high:.2f}] over "
        f"contexts: the lists {tell} methods apart."
    )


def _kind(first: tuple, second: tuple) -> str:
    """Return what two models (source, method, seed) have in common; empty if too little."""
    if first[0] != second[0]:
        return "one method, printed and ours" if first[1] == second[1] else ""
    if first[1] == second[1]:
        return "two seeds of one method"
    if first[0] == "print":
        return "two methods in print"
    return "two methods of one seed" if first[2] == second[2] else "two methods of two seeds"


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
