"""Word similarity in the kept results: scores, what frequency knows, and what a win is worth."""

from collections.abc import Mapping
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.stats import rankdata

from course_lab import comparison, evidence, families, published, results
from course_lab.corpora import similarity
from course_lab.corpora.similarity import Benchmark
from course_lab.evidence import Evidence, Run
from course_lab.pair_cosines import COSINES, COUNTS, KINDS
from course_lab.statistics import Correlation, spearman, wins
from course_lab.statistics import written as with_interval
from course_lib.errors import CourseError

if TYPE_CHECKING:
    import pandas as pd

Score = Literal["rho", "centred"]  # of the matrix as it is, and without its mean row

ENOUGH = evidence.ENOUGH_PAIRS
EMBEDDED = {"WS-353": "wordsim353.tsv", "SimLex-999": "simlex999.txt"}  # in gensim's test data
MARGIN = 2.0  # hundredths of ρ that would not matter


def scores(of: Evidence) -> "pd.DataFrame":
    """Return a row for each run and list of the kept word-similarity scores.

    Columns: model, its recipe and settings; family, method, seed; perplexity, and valid, that of
    validation; beats, whether the setting beats counting; list; rho and centred, Spearman's ρ of
    the matrix as it is and without its mean row; pairs, those that were found. A list without a ρ
    is left out, and so are runs on a part of a text.
    """
    import pandas as pd

    rows = []
    for run in of.runs:
        lists = run.content["metrics"].get("word_similarity") or {}
        if run.tier == "small":
            continue
        setting = run.setting
        family = evidence.family_of(setting.recipe)
        model = " ".join([setting.recipe, setting.variant]).strip()
        beats = of.beats_counting(setting) is True
        for name, told in lists.items():
            if told.get("rho") is not None:
                row = {"model": model, "family": family, "method": run.method, "seed": run.seed}
                row |= {"perplexity": run.perplexity("test"), "valid": run.perplexity("valid")}
                row |= {"beats": beats, "list": name}
                row |= {"rho": told["rho"], "centred": told.get("rho_centred")}
                rows.append(row | {"pairs": told["found"]})
    columns = ["model", "family", "method", "seed", "perplexity", "valid", "beats", "list", "rho"]
    return pd.DataFrame(rows, columns=[*columns, "centred", "pairs"]).astype({"beats": bool})


def known(table: "pd.DataFrame") -> "pd.Series":
    """Return how many pairs of each list the vocabularies know, the most of all runs."""
    return table.groupby("list").pairs.max().sort_values(ascending=False)


def told_whether(known: "pd.Series") -> "pd.Series":
    """Return for each list whether it counts: `yes`, or `no` and the reason.

    known: of `known`.
    """
    index: Any = known.index
    long = index[known >= ENOUGH]
    apart = similarity.apart(long)
    told = {name: "yes" if name in apart else "no, too few pairs" for name in index}
    for name in long.difference(apart):
        holders = sorted(similarity.holders()[name].intersection(long))
        told[name] = f"no, a part of {', '.join(holders)}"
    return index.to_series().map(told)


def counted(table: "pd.DataFrame") -> "pd.DataFrame":
    """Return the rows of lists that count: `ENOUGH` pairs or more, and within no other of these."""
    long: Any = table[table.pairs >= ENOUGH]
    return long[long["list"].isin(similarity.apart(long["list"].unique()))]


def one_setting(table: "pd.DataFrame") -> "pd.DataFrame":
    """Return the rows of one setting of each method, since two seeds of different ones are no pair.

    table: of `scores`, of one family. The setting with the most seeds stands for its method, and of
    several such settings the one with the least validation perplexity.
    """
    settings = table.groupby(["method", "model"]).agg(
        n=("seed", "nunique"), valid=("valid", "mean")
    )
    first: Any = (
        settings.sort_values(["n", "valid"], ascending=[False, True]).groupby("method").head(1)
    )
    chosen: Any = table[table.model.isin(first.index.get_level_values("model"))]
    return chosen


def by_run(table: "pd.DataFrame") -> "pd.DataFrame":
    """Return the mean of ρ over the lists that count, a row each run.

    The index is (model, seed); the columns are rho, centred, perplexity and valid.
    """
    columns = ["rho", "centred", "perplexity", "valid"]
    means: Any = counted(table).groupby(["model", "seed"])[columns].mean()
    return means


def by_recipe(table: "pd.DataFrame") -> "pd.DataFrame":
    """Return the means over seeds of `by_run`, of each recipe's best setting that beats counting.

    The best one has the least validation perplexity. The index is the recipe, the best ρ first.
    """
    beating: Any = table[table.beats]
    means: Any = by_run(beating).groupby("model").mean()
    if means.empty:
        return means
    best = means.valid.groupby([model.partition(" ")[0] for model in means.index]).idxmin()
    return means.loc[best].set_axis(best.index).sort_values("rho", ascending=False)


def with_perplexity(table: "pd.DataFrame", family: str) -> "pd.DataFrame":
    """Return the rank correlation of perplexity and score over three sets of settings.

    The rows are all settings, those that beat counting, and of these the ones of a family, which
    differ in their method alone. Columns: settings; raw and centred, the correlation with the score
    of the matrix as it is and without its mean row, None for fewer than four settings.
    """
    import pandas as pd

    beats = f"beat {evidence.COUNTING}"
    sets: dict[str, Any] = {"all settings": table, f"settings that {beats}": table[table.beats]}
    sets[f"{family}, settings that {beats}"] = table[table.beats & (table.family == family)]
    rows = {}
    for name, part in sets.items():
        means: Any = by_run(part).groupby("model").mean()
        pair = (_spearman(means.perplexity, means[score]) for score in ("rho", "centred"))
        rows[name] = [len(means), *pair]
    index = ["settings", "raw", "centred"]
    return pd.DataFrame(list(rows.values()), index=list(rows), columns=index)


def leaving_one_out(
    table: "pd.DataFrame", family: str, column: Literal["method", "list"]
) -> dict[str, Correlation | None]:
    """Return the rank correlation of perplexity and centred score without each method or list.

    table: of `scores`. Only settings of the family that beat counting are used. None where fewer
    than four of them are left.
    """
    kept: Any = table[table.beats & (table.family == family)]
    members: Any = counted(kept)
    names = sorted(set(members[column]))
    parts = {name: by_run(members[members[column] != name]) for name in names}
    means: dict[str, Any] = {name: part.groupby("model").mean() for name, part in parts.items()}
    return {name: _spearman(mean.perplexity, mean.centred) for name, mean in means.items()}


def in_order(table: "pd.DataFrame", family: str) -> tuple[int, int]:
    """Return in how many pairs of settings less perplexity goes with more ρ, centred, and of all.

    table: of `scores`. Only settings of the family that beat counting are used.
    """
    members: Any = table[table.beats & (table.family == family)]
    means: Any = by_run(members).groupby("model").mean()
    pairs = list(combinations(means[["perplexity", "centred"]].to_numpy(), 2))
    return sum((one[0] < other[0]) == (one[1] > other[1]) for one, other in pairs), len(pairs)


def _spearman(x: "pd.Series", y: "pd.Series") -> Correlation | None:
    """Return the rank correlation of two columns; None where it is unknown."""
    try:
        return spearman(x, y)
    except CourseError:  # fewer than four, or all the same
        return None


def written(correlation: Correlation | None) -> str:
    """Return a rank correlation as words: ρ, its interval, and the number of points."""
    if correlation is None:
        return "unknown (too few runs)"
    rho, low, high, _, n = correlation
    return f"ρ = {with_interval(rho, low, high, '+.2f')} (n = {n})"


def compared(
    table: "pd.DataFrame", family: str, score: Score = "centred", baseline: str = "tied"
) -> "pd.DataFrame":
    """Return each method of a family against a baseline by the one paired statistic.

    score: `rho` for the matrix as it is, `centred` for that without its mean row.

    The difference is that of the mean ρ in hundredths, over the seeds that both have; `MARGIN` is
    what would not matter. p is corrected by Holm over all methods of the family's recipes, those
    without runs so far included. perplexity, with low and high, is the difference of perplexity in
    per cent over the same seeds. Methods with one pair are left out.
    """
    import pandas as pd

    members: Any = table[table.family == family]
    members = one_setting(members)
    figures = by_run(members.assign(model=members.method))
    means, perplexity = figures[score].unstack("seed"), figures.perplexity.unstack("seed")
    columns = ["difference", "low", "high", "n", "p", "verdict"]
    columns += ["perplexity", "perplexity low", "perplexity high"]
    if baseline not in means.index:
        return pd.DataFrame(columns=columns)
    # A greater ρ is better, and `verdict` takes less for better: what is tested is ρ lost.
    lost = {m: (100 * (means.loc[baseline] - means.loc[m])).dropna() for m in means.index}
    lost = {m: values for m, values in lost.items() if m != baseline and len(values) > 1}
    declared = families.declared(family, baseline)
    number = len(declared | lost.keys())
    rows = comparison.tested(lost, MARGIN, family=number, unit="hundredths")
    for method, row in rows.items():
        row |= {"difference": -row["difference"], "low": -row["high"], "high": -row["low"]}
        d = (100 * np.log(perplexity.loc[method] / perplexity.loc[baseline])).dropna()
        row["perplexity"] = d.mean()
        row["perplexity low"], row["perplexity high"] = comparison.interval(d)
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns)


def wins_of(table: "pd.DataFrame", family: str, score: Score = "centred") -> "pd.DataFrame":
    """Return for each pair of runs of a family on how many lists the first has the greater ρ.

    score: as in `compared`. Only lists that count are used, see `counted`.

    The runs have two seeds, or what they share of their start and batches would make two methods
    more alike than two seeds of one method are. Columns: first and second (method, seed), wins,
    lists, kind: `two seeds of one method` or `two methods, two seeds`.
    """
    import pandas as pd

    rho = _by_list(table, family, score, ["method", "seed"])
    rows = []
    for i, one in enumerate(rho):
        for other in list(rho)[i + 1 :]:
            if one[1] != other[1]:
                same = one[0] == other[0]
                kind = "two seeds of one method" if same else "two methods, two seeds"
                row = {"first": one, "second": other, "lists": len(rho), "kind": kind}
                rows.append(row | {"wins": int(np.sum(rho[one] > rho[other]))})
    return pd.DataFrame(rows, columns=["first", "second", "wins", "lists", "kind"])


def win_matrices(
    table: "pd.DataFrame",
    family: str,
    score: Score = "centred",
    seeds: tuple[int, int] = (1, 2),
) -> list["pd.DataFrame"]:
    """Return for two seeds on how many lists a row's method has a greater ρ than a column's.

    table: of `scores`. The methods are those of the family that have runs of both seeds, in the
    order of their wins at the first. Only lists that count are used, see `counted`. No tables where
    no two methods have both seeds.
    """
    of_seeds: Any = table[table.seed.isin(seeds)]
    rho = _by_list(of_seeds, family, score, ["seed", "method"])
    both = set.intersection(*({m for s, m in rho if s == seed} for seed in seeds))
    if len(both) < 2:
        return []
    one, other = (wins({method: rho[seed, method] for method in both}) for seed in seeds)
    first = _most_wins_first(one)
    return [first, other.loc[first.index, first.index]]


def _by_list(table: "pd.DataFrame", family: str, score: Score, runs: list[str]) -> "pd.DataFrame":
    """Return the scores of a family, a row each list that counts and a column each run."""
    members: Any = table[table.family == family]
    return counted(one_setting(members)).pivot_table(index="list", columns=runs, values=score)


def _most_wins_first(matrix: "pd.DataFrame") -> "pd.DataFrame":
    """Return a win matrix in the order of all wins, and of names where these are equal."""
    order = matrix.sort_index().sum(axis=1).sort_values(ascending=False, kind="stable").index
    return matrix.loc[order, order]


def changed_winners(one: "pd.DataFrame", other: "pd.DataFrame") -> tuple[int, int]:
    """Return of how many pairs of methods two win matrices name different winners, and of all.

    A pair that wins equally often has no winner, which differs from having one.
    """
    ahead = [np.sign(matrix.to_numpy() - matrix.to_numpy().T) for matrix in (one, other)]
    above = np.triu_indices(len(one), 1)
    differ = ahead[0][above] != ahead[1][above]
    return int(differ.sum()), len(differ)


def published_wins(corpus: str) -> "pd.DataFrame":
    """Return parthiban2021's counts of wins on a corpus, made of its Table S3."""
    group = published_scores().query("corpus == @corpus")
    rho = group.pivot_table(index="list", columns="method", values="rho")
    return _most_wins_first(wins({method: rho[method] for method in rho}))


def published_scores() -> "pd.DataFrame":
    """Return parthiban2021's Table S3: corpus, method, list and ρ."""
    rows = published.rows()
    rows = rows.loc[(rows.metric == "spearman") & (rows.table == "S3")]
    names = {"setting": "list", "value": "rho"}
    return rows.rename(columns=names)[["corpus", "method", "list", "rho"]].reset_index(drop=True)


# Pairs -------------------------------------------------------------------------------------------


def pairs_of(run: Run, lists: Mapping[str, Benchmark]) -> "pd.DataFrame":
    """Return the pairs of a run that kept their cosines: list, score, `KINDS` and often.

    lists: of `at_hand`; pairs of another list have no score. often is the mean of the logarithms of
    how often the two words occur in training. Pairs with an unknown word are left out. Empty where
    the run kept no cosines.
    """
    import pandas as pd

    columns = ["list", "score", *KINDS, "often"]
    try:
        arrays = results.read_arrays(run.folder)
    except CourseError:  # the arrays were left behind, or are damaged
        arrays = {}
    if COSINES not in arrays:
        return pd.DataFrame(columns=columns)
    told = run.content["metrics"]["word_similarity"]  # in the order of the array
    sizes = {name: one["found"] + one["missing"] for name, one in told.items()}
    table = pd.DataFrame(arrays[COSINES].astype(np.float64), columns=list(KINDS))
    table["list"] = np.repeat(list(sizes), list(sizes.values()))
    table["score"] = np.concatenate(
        [
            lists[name].scores
            if name in lists and len(lists[name].scores) == size
            else np.full(size, np.nan)
            for name, size in sizes.items()
        ]
    )
    counts = arrays[COUNTS].clip(min=1)  # words that are unknown are left out below
    table["often"] = np.log(counts).mean(1)
    return table.loc[table[KINDS[0]].notna(), columns]


def by_kind(pairs: "pd.DataFrame", resamples: int = 500) -> "pd.DataFrame":
    """Return ρ of each list by `KINDS`, and what is left of it when frequency is held fixed.

    pairs: of `pairs_of`.
    resamples: of the bootstrap over pairs, from which low and high are taken.

    The index is (list, kind), with the lists that count of which the scores are known.
    Columns: pairs; rho, low, high; held, the partial rank correlation given `often`; frequency, ρ
    of the cosine and `often`; judged, ρ of the judgements and `often`.
    """
    import pandas as pd

    rows = {}
    groups = {str(name): group for name, group in pairs.dropna().groupby("list", sort=False)}
    for name in similarity.apart(name for name in groups if len(groups[name]) >= ENOUGH):
        group = groups[name]
        drawn = np.random.default_rng(0).integers(0, len(group), (resamples, len(group)))
        for kind in KINDS:
            x, y = group[kind].to_numpy(), group.score.to_numpy()
            low, high = np.quantile([rank_correlation(x[d], y[d]) for d in drawn], [0.025, 0.975])
            row = [len(group), rank_correlation(x, y), low, high]
            often = group.often.to_numpy()
            row += [held_fixed(x, y, often), rank_correlation(x, often)]
            rows[name, kind] = [*row, rank_correlation(y, often)]
    columns = ["pairs", "rho", "low", "high", "held", "frequency", "judged"]
    index = pd.MultiIndex.from_tuples(list(rows), names=["list", "kind"])
    return pd.DataFrame(list(rows.values()), index=index, columns=columns)


def by_model(tables: Mapping[str, "pd.DataFrame"]) -> "pd.DataFrame":
    """Return the means over lists of what `by_kind` says, for several models.

    tables: of `pairs_of`, by the name of the model.

    The index is (model, kind). Columns: rho, held, frequency; regained, what ρ gains when frequency
    is held fixed.
    """
    import pandas as pd

    columns = ["rho", "held", "frequency"]
    rows = {}
    for model, pairs in tables.items():
        means: Any = by_kind(pairs, resamples=2)[columns].groupby("kind").mean()
        rows |= {(model, kind): means.loc[kind] for kind in KINDS if kind in means.index}
    index = pd.MultiIndex.from_tuples(list(rows), names=["model", "kind"])
    table = pd.DataFrame(list(rows.values()), index=index, columns=columns)
    return table.assign(regained=table.held - table.rho)


def rank_correlation(x: np.ndarray, y: np.ndarray) -> float:
    """Return Spearman's ρ."""
    return float(np.corrcoef(rankdata(x), rankdata(y))[0, 1])


def held_fixed(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> float:
    """Return the partial rank correlation of x and y given z.

    (ρ_xy − ρ_xz ρ_yz) / √((1 − ρ_xz²)(1 − ρ_yz²))
    """
    xy, xz, yz = (rank_correlation(a, b) for a, b in ((x, y), (x, z), (y, z)))
    return (xy - xz * yz) / float(np.sqrt((1 - xz**2) * (1 - yz**2)))


def with_pairs(of: Evidence) -> list[Run]:
    """Return the runs that kept the cosines of pairs, the best model first, a run each setting.

    The best one has the least validation perplexity, in the mean of its seeds that kept them.
    """
    kept = []
    for members in of.settings.values():
        runs = [run for run in members.values() if COSINES in run.content.get("arrays", {})]
        if runs:
            loss = np.mean([np.log(run.perplexity("valid")) for run in runs])
            kept.append((loss, min(runs, key=lambda run: run.seed)))
    return [run for _, run in sorted(kept, key=lambda pair: pair[0])]


# Lists -------------------------------------------------------------------------------------------


def at_hand() -> dict[str, Benchmark]:
    """Return the lists of pairs: all 13 where they have been fetched, else those in gensim."""
    if similarity.fetched():
        return similarity.load_word_similarity()
    from gensim.test.utils import datapath

    lists = {}
    for name, file in EMBEDDED.items():
        text = Path(datapath(file)).read_text("utf-8").lower()
        rows = [line.split("\t") for line in text.splitlines() if line and line[0] != "#"]
        pairs = [(a, b) for a, b, _ in rows]
        lists[name] = Benchmark(pairs, np.array([float(score) for *_, score in rows]))
    return lists
