"""Rank of log P and perplexity: interventions first, then correlations and what they hide.

An intervention sets the rank by one knob of the output layer, or by another output layer, and
changes nothing else. A correlation over runs mixes all that differs between them, so it is divided
here into what is within a setting, from seed to seed, and what is between the means of settings.

Press' rank cannot exceed the number of contexts. Where it comes near, more contexts would give a
higher one, and it is told as "at least" so much. The effective rank stays far below and leads.
"""

import functools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from course_lab import claims, comparison, evidence, plans, published
from course_lab.evidence import Evidence, Run
from course_lab.recipes import recipes
from course_lab.statistics import Correlation, holm, pearson
from course_lib.errors import CourseError

if TYPE_CHECKING:
    import pandas as pd

# What turns the rank of an output layer: the options of which one stands for the others' value.
KNOBS = {"c, k": ("c", "k"), "components": ("components",), "latent dropout": ("dropout",)}
LAYER = "output layer"  # the knob that exchanges it for another one
MIXTURES = ("mos", "moc")  # methods with components and latent dropout
# Methods that lift the bound.
LITTLE = claims.USUAL  # per cent of perplexity that would not matter
RANKED = ("gss", "sigsoftmax", "plif", "plif-frozen", *MIXTURES)
RANKED += ("capped", "capped-15", "capped-sigmoid")
DEFAULTS = {"dropout": 0.0}  # of options that an experiment may leave out
EPSILONS = ("0.001", "0.0001", "1e-05")
RANK = "log_prob/press_rank"
EFFECTIVE = f"effective rank, ε = {EPSILONS[0]}"  # as tables and figures name it
FULL = 0.95  # the share of the contexts from which on their number limits a rank
ABOUT = ["setting", "recipe", "method", "text", "tier", "seed", "c", "k", "components", "dropout"]
ABOUT += ["own layer"]  # whether the output layer is that of the recipe
ABOUT += ["context", "rate"]  # equal where runs differ in method and seed only, see `evidence.Run`
ABOUT += ["all but layer"]  # equal where runs differ in output layer and seed only
ABOUT += ["evidence"]  # whether the setting may be the baseline of evidence, see `claims.against`
ABOUT += ["limited"]  # whether the number of contexts limits the rank, see `FULL`
ABOUT += ["best is last"]  # whether the best epoch is the last one
FIGURES = ["rank", *EPSILONS, "perplexity", "valid", "last valid", "parameters"]
CHANGES = ["knob", "from", "to", "effective rank", "rank", "at least"]
CHANGES += ["difference", "low", "high", "n"]
CHANGES += ["p", "evidence", "text", "rate", "from softmax", "softmax low", "softmax high"]
CHANGES += ["parameters", "setting", "best is last"]
LEAST = 1.01  # from this ratio of ranks on a knob counts as turned


def points(of: Evidence) -> "pd.DataFrame":
    """Return a row for each run that has the rank of log P.

    Columns: setting, a number for each; what it is (`ABOUT`); the rank, the effective ranks by ε,
    perplexity on the test split, on validation at the best epoch and at the last one, and the
    number of parameters (`FIGURES`). For each knob a column `all but …`, equal in runs that differ
    in that knob only.
    """
    import pandas as pd

    rows = []
    for number, (setting, runs) in enumerate(of.settings.items()):
        tier = next(iter(runs.values())).tier
        counts = not claims.against(of, tier, setting, pairs=2)
        for seed, run in runs.items():
            if run.figure(RANK) is None:
                continue
            layer = run.experiment["output_layer"]["options"]
            options = DEFAULTS | layer
            row = {"setting": number, "recipe": setting.recipe, "method": run.method, "seed": seed}
            row |= {"text": evidence.title_of(setting.text), "tier": tier, "evidence": counts}
            row |= {name: options.get(name) for names in KNOBS.values() for name in names}
            row |= {f"all but {knob}": _all_but(run, names) for knob, names in KNOBS.items()}
            row |= {e: run.figure(f"log_prob/effective_rank/{e}") for e in EPSILONS}
            own = recipes[setting.recipe].output_layer if setting.recipe in recipes else None
            row["context"] = str(run.context)
            row["rate"] = run.experiment["optimisation"]["learning_rate"]
            row["all but layer"] = _without_layer(run)
            row["own layer"] = own is not None and own.options == layer
            row["limited"] = is_limited(run)
            row["best is last"] = run.content["epochs"][-1:] == [_best_epoch(run)]
            row |= {"rank": run.figure(RANK), "perplexity": run.figure("test_perplexity")}
            row |= {"valid": run.figure("valid_perplexity"), "last valid": _last(run)}
            row["parameters"] = run.figure("parameters")
            rows.append(row)
    groups = [f"all but {knob}" for knob in KNOBS]
    table = pd.DataFrame(rows, columns=[*ABOUT, *groups, *FIGURES])
    words = dict.fromkeys(["own layer", "evidence", "limited", "best is last"], bool)
    return table.astype(words | {"parameters": float})


def _all_but(run: Run, names: Sequence[str]) -> str:
    """Return a digest of all settings of a run but its seed and some options of its layer."""
    told = run.experiment
    layer = told["output_layer"]
    options = {k: v for k, v in (DEFAULTS | layer["options"]).items() if k not in names}
    layer = {"kind": layer["kind"], "options": options}
    return evidence.settings_digest(told | {"output_layer": layer})


def _without_layer(run: Run) -> str:
    """Return a digest of all settings of a run but its seed and its output layer."""
    told = run.experiment
    return evidence.settings_digest({k: v for k, v in told.items() if k != "output_layer"})


def is_limited(run: Run) -> bool:
    """Return whether more contexts would give a higher rank; more than words never would."""
    log_prob = run.content["metrics"]["log_prob"]
    contexts = log_prob.get("contexts", np.inf)
    return contexts < log_prob.get("words", 0) and log_prob["press_rank"] >= FULL * contexts


def _best_epoch(run: Run) -> dict | None:
    """Return the best epoch of a run; None if it is unknown."""
    best = run.figure("best_epoch")
    return next((epoch for epoch in run.content["epochs"] if epoch["epoch"] == best), None)


def _last(run: Run) -> float:
    """Return the validation perplexity of the last epoch, which need not be the best one."""
    epochs = run.content["epochs"]
    return epochs[-1]["valid_perplexity"] if epochs else run.perplexity("valid")


# Interventions -----------------------------------------------------------------------------------


def interventions(table: "pd.DataFrame", figure: str = "perplexity") -> "pd.DataFrame":
    """Return what follows when a knob of the output layer is turned and nothing else is changed.

    table: of `points`.
    figure: its column that is compared.

    A row is a setting against that of least rank in its group; where the whole layer is exchanged,
    a recipe's own layer against the tied softmax. Columns: knob, its values; effective rank (ε =
    1e-3) and rank as ratios; at least, whether the number of contexts limits the rank; the
    difference of the figure's logarithm in per cent by pairs of seeds, with its interval where
    there are two pairs; n pairs; p, corrected by Holm over `count_planned`; evidence,
    whether there are two pairs and a reference on a whole text that beats counting; text; rate, the
    learning rate; from softmax, softmax low and high, the same difference from the tied softmax,
    all settings of which but the output layer are equal; the parameters as a ratio; setting, its
    number, since one setting may have several knobs, see `distinct`; best is last, whether all runs
    of both settings are best in their last epoch. All rows of a group share their reference. A
    setting whose rank is hardly higher, see `LEAST`, is left out. Evidence comes first.
    """
    import pandas as pd

    rows: list[dict] = []
    for knob, names in KNOBS.items():
        turned = table.dropna(subset=list(names))
        turned = turned.loc[turned.method.isin(["gss", *MIXTURES])]
        for _, group in turned.groupby(f"all but {knob}"):
            settings = dict(iter(group.groupby("setting")))
            least = min(settings, key=lambda number: settings[number]["rank"].mean())
            for number, runs in settings.items():
                if number != least:
                    row = {"knob": knob} | _change(runs, settings[least], names, figure)
                    rows.append(row | _from_softmax(runs, table, figure))
    rows += _exchanged(table, figure)
    rows = [row for row in rows if row["rank"] >= LEAST]
    rows.sort(key=lambda row: not row["evidence"])
    tested = [row for row in rows if "p" in row]
    family = max(len(tested), count_planned(row["recipe"] for row in tested))
    for row, p in zip(tested, holm([row["p"] for row in tested], family), strict=True):
        row["p"] = float(p)
    words = dict.fromkeys(["evidence", "at least", "best is last"], bool)
    return pd.DataFrame(rows, columns=CHANGES).astype(words)


def count_planned(names: Iterable[str]) -> int:
    """Return how many interventions the plans declare on the families of some recipes, at most.

    Each planned setting of a layer that lifts the bound is one by its exchange, and one by each
    knob that its layer has.
    """
    families = {evidence.parts_of(name)[0] for name in names}
    told = (evidence.parts_of(recipe)[:2] for recipe, *_ in _planned())
    methods = [method for family, method in told if family in families]
    knobs = {"gss": 1} | dict.fromkeys(MIXTURES, 2)
    return sum(1 + knobs.get(method, 0) for method in methods if method in RANKED)


@functools.cache
def _planned() -> frozenset[tuple[str, str, str]]:
    """Return recipe, profile and variant of each setting of the plans of the course."""
    runs = (run for name in plans.plans() for run in plans.read_plan(name).runs)
    return frozenset((run.recipe, run.profile, run.variant) for run in runs)


def at_two_epochs(table: "pd.DataFrame", knob: str) -> "pd.DataFrame":
    """Return what turning a knob of a mixture does at the best epoch and at the last one.

    table: of `points`.
    knob: of `KNOBS`, with one option.

    The index is (text, recipe, value of the knob), of the groups of runs that differ in the knob
    alone and have two values of it. Columns, means over n seeds: n; of the best weights the
    effective rank and Press' rank, as text; best and last, the validation perplexity at the two
    epochs; change, from best to last in per cent.
    """
    import pandas as pd

    (option,) = KNOBS[knob]
    turned = table.dropna(subset=[option])
    turned = turned.loc[turned.method.isin(MIXTURES)]
    alike: Any = turned.groupby(f"all but {knob}")
    several = turned[alike[option].transform("nunique") > 1]
    several = several.assign(change=100 * np.log(several["last valid"] / several.valid))
    groups: Any = several.groupby(["text", "recipe", f"all but {knob}", option])
    means = groups[[EPSILONS[0], "rank", "valid", "last valid", "change"]].mean()
    means.insert(0, "n", groups.size())
    means["rank"] = at_least(means["rank"], groups.limited.any(), ".0f")
    names = {EPSILONS[0]: EFFECTIVE, "rank": "Press' rank", "valid": "best", "last valid": "last"}
    return pd.DataFrame(means).droplevel(f"all but {knob}").rename(columns=names)


def _exchanged(table: "pd.DataFrame", figure: str) -> list[dict]:
    """Return how each output layer of higher rank differs from the tied softmax, all else equal."""
    own = table.loc[table["own layer"]]
    softmax = dict(iter(own.loc[own.method == "tied"].groupby("all but layer")))
    layers = own.loc[own.method.isin(RANKED)]
    rows = []
    for _, runs in layers.groupby(["all but layer", "setting"]):
        first = softmax.get(runs["all but layer"].iloc[0])
        if first is not None:
            row = _change(runs, first, ("method",), figure)
            rows.append({"knob": LAYER} | row | _from_softmax(runs, table, figure))
    return rows


def _change(runs: "pd.DataFrame", first: "pd.DataFrame", names: Sequence[str], figure: str) -> dict:
    """Return how the runs of a setting differ from those of the setting of least rank."""
    pairs = runs.merge(first, on="seed", suffixes=("", " before"))
    row = {"from": _values(first, names), "to": _values(runs, names), "n": len(pairs)}
    row |= {"rank": runs["rank"].mean() / first["rank"].mean()}
    row |= {"at least": bool(runs.limited.any())}
    row |= {"effective rank": runs[EPSILONS[0]].mean() / first[EPSILONS[0]].mean()}
    row |= {"best is last": bool(runs["best is last"].all() and first["best is last"].all())}
    row |= {"evidence": bool(first.evidence.all()) and len(pairs) > 1}
    row |= {name: runs[name].iloc[0] for name in ("recipe", "text", "rate", "setting")}
    row |= {"parameters": runs.parameters.mean() / first.parameters.mean()}
    d = _differences(pairs, figure)
    if len(d):
        row["difference"] = d.mean()
    if len(d) > 1:
        row["low"], row["high"] = comparison.interval(d)
        row["p"] = comparison.p_value(d)
    return row


def _from_softmax(runs: "pd.DataFrame", table: "pd.DataFrame", figure: str) -> dict:
    """Return how the runs of a setting differ from the tied softmax with all else equal."""
    alike = table["all but layer"] == runs["all but layer"].iloc[0]
    softmax = table[alike & (table.method == "tied")]
    pairs = runs.merge(softmax, on="seed", suffixes=("", " before"))
    d = _differences(pairs, figure)
    if len(d) < 2 or pairs.seed.duplicated().any():
        return {}
    low, high = comparison.interval(d)
    return {"from softmax": d.mean(), "softmax low": low, "softmax high": high}


def _differences(pairs: "pd.DataFrame", figure: str) -> Any:
    """Return 100 times the difference of a figure's logarithms, of pairs of runs."""
    return 100 * np.log(pairs[figure] / pairs[f"{figure} before"])


def _values(runs: "pd.DataFrame", names: Sequence[str]) -> str:
    values = (runs[name].iloc[0] for name in names)
    return ", ".join(v if isinstance(v, str) else f"{v:g}" for v in values)


def at_least(ranks, limited, style: str = ".1f") -> list[str]:
    """Return ranks, or ratios of ranks, as text: `≥ 12.4` where contexts limit them.

    ranks: (n,), numbers; limited: (n,), whether contexts limit them.
    """
    both = zip(ranks, limited, strict=True)
    return [f"{'≥ ' if is_limited else ''}{rank:{style}}" for rank, is_limited in both]


def shown(changes: "pd.DataFrame") -> "pd.DataFrame":
    """Return a table of `interventions` for readers, the effective rank before Press' rank.

    The softmax is the reference of an exchange already, so its columns are empty there.
    """
    left_out = ["rank", "at least", "parameters", "setting", "evidence", "best is last"]
    told = changes.drop(columns=left_out).rename(
        columns={"effective rank": "effective rank, ratio"}
    )
    ratios = at_least(changes["rank"], changes["at least"])
    told.insert(list(told).index("difference"), "Press' rank, ratio", ratios)
    told.loc[changes.knob == LAYER, ["from softmax", "softmax low", "softmax high"]] = np.nan
    return told


def at_last_told(best: "pd.DataFrame", last: "pd.DataFrame") -> str:
    """Return how far differences at the last epoch are from those at the best one, in words.

    best, last: of `interventions` at the two epochs, with evidence among them.
    """
    several = best.n > 1
    apart: Any = (last.difference - best.difference).abs()[several]
    evident = best.evidence[several]
    over_all = f"{apart.max():.1f} % at most in all {len(apart)} rows"
    evident_rows: Any = best.loc[best.evidence, "best is last"]
    if evident_rows.all():
        return (
            "In every run that is evidence the best epoch is the last one, so these runs say "
            "nothing about overfitting. From the best to the last epoch a difference from the "
            f"reference changes by {over_all}."
        )
    return (
        "From the best to the last epoch a difference from the reference changes by "
        f"{apart[evident].max():.1f} % at most where it is evidence, and by {over_all}."
    )


def distinct(changes: "pd.DataFrame") -> "pd.DataFrame":
    """Return a row for each setting of some interventions, evidence first.

    changes: of `interventions`. A setting that has both a knob and an exchange of the softmax keeps
    the exchange, whose reference is the softmax.
    """
    exchanged = changes.knob == LAYER
    order = np.lexsort((~exchanged, ~changes.evidence))
    return changes.iloc[order].drop_duplicates(["text", "setting"])


def told(changes: "pd.DataFrame") -> str:
    """Return what some interventions did, an item of a Markdown list each.

    changes: rows of `interventions` by test perplexity that are evidence.
    """
    if changes.empty:
        return "No intervention is kept that is evidence."
    items = []
    for row in changes.to_dict("records"):
        said = claims.by(row["difference"], row["low"], row["high"])
        items.append(
            f"- The {row['knob']} goes from {row['from']} to {row['to']} on {row['text']}: the "
            f"effective rank is {row['effective rank']:.1f} times as high and Press' rank "
            f"{'at least ' if row['at least'] else ''}{row['rank']:.1f} times as high"
            f"{_with_more(row['parameters'])}, and perplexity differs by {said} over {row['n']} "
            "pairs of seeds."
        )
    return "\n".join(items)


def _with_more(parameters: float) -> str:
    """Return how a ratio of parameters is told within a sentence; nothing where it is unknown."""
    if np.isnan(parameters):
        return ""
    more = 100 * (parameters - 1)
    return f" with {more:.0f} % more parameters" if more >= 0.5 else " with no more parameters"


def answer(changes: "pd.DataFrame") -> str:
    """Return in words whether a higher rank alone lowers perplexity, by what is evidence.

    changes: of `interventions` by test perplexity. A fall counts for the rank alone only where the
    setting is known to add no parameters.
    """
    evident: Any = changes[changes.evidence]
    rows: Any = distinct(evident)
    if rows.empty:
        return "No intervention is kept that is evidence, so the question is open."
    falls, rises, small = rows.high < 0, rows.low > 0, hardly_any(rows)
    alone = falls & (rows.parameters < 1.005)
    if alone.all():
        verdict = (
            "Yes, as far as this evidence goes: each rise of the rank alone lowers perplexity."
        )
    elif alone.any():
        verdict = f"Not always: perplexity falls by the rank alone with {_named(rows[alone])} only."
    else:
        verdict = "No evidence says so: no intervention lowers perplexity by the rank alone."
    said = [
        verdict,
        f"On {' and '.join(rows.text.unique())} {len(rows)} interventions are evidence. The "
        f"effective rank is {rows['effective rank'].min():.1f} to "
        f"{rows['effective rank'].max():.1f} times as high with them, Press' rank is "
        f"{rows['rank'].min():.0f} times as high or higher, and perplexity changes by "
        f"{rows.difference.min():+.1f} % to {rows.difference.max():+.1f} %.",
    ]
    parts = {"Perplexity falls with": falls, "Perplexity rises with": rises}
    parts |= {f"It changes by less than {LITTLE:g} %, by the whole interval, with": small}
    parts |= {"The interval contains 0 and larger changes with": ~(falls | rises | small)}
    parts |= {"More parameters come with": rows.parameters >= 1.005}
    said += [f"{words} {_named(rows[chosen])}." for words, chosen in parts.items() if chosen.any()]
    return " ".join(said)


def hardly_any(changes: "pd.DataFrame") -> "pd.Series":
    """Return which interventions have an interval that contains 0 and lies within ±`LITTLE`."""
    return (
        (changes.low <= 0)
        & (changes.high >= 0)
        & (changes[["low", "high"]].abs() < LITTLE).all(axis=1)
    )


def _named(rows: "pd.DataFrame") -> str:
    """Return the settings of some interventions as a list in words."""
    names = [
        row["to"] if row["knob"] == LAYER else f"{row['knob']} = {row['to']}"
        for row in rows.to_dict("records")
    ]
    *most, last = dict.fromkeys(names)
    return f"{', '.join(most)} and {last}" if most else last


def most_settings(table: "pd.DataFrame") -> "pd.DataFrame":
    """Return the runs of the one experiment that tried most settings of layers that set the rank.

    table: of `points`.

    An experiment is a model, a text, a budget and a learning rate. It has two methods at least, and
    one on a whole text comes before any on a part. There is no row without such an experiment.
    """
    layers = table.loc[table.method.isin([*RANKED, "tied"])]
    groups = [group for _, group in layers.groupby(["context", "rate"])]
    groups = [group for group in groups if group.method.nunique() > 1]

    def worth(group: "pd.DataFrame") -> tuple[bool, int]:
        return group.tier.iloc[0] != "small", group.setting.nunique()

    return max(groups, key=worth, default=layers[:0])


def grid(of: Evidence, plan: str = "gss-grid") -> "pd.DataFrame":
    """Return the grid of c and k that a plan trains, a row for each cell.

    Columns: c, k; Press' rank, the effective rank (ε = 1e-3), and test perplexity, NaN where the
    cell has not been run.
    """
    import pandas as pd

    rows = []
    for planned, run in evidence.of_plan(of, plan):
        options = planned.experiment().output_layer.options
        row = {name: options[name] for name in KNOBS["c, k"]}
        figures = {"rank": RANK, "effective rank": f"log_prob/effective_rank/{EPSILONS[0]}"}
        figures["perplexity"] = "test_perplexity"
        told = {n: run.figure(path) if run else None for n, path in figures.items()}
        rows.append(row | {n: np.nan if v is None else float(v) for n, v in told.items()})
    return pd.DataFrame(rows)


def over_grid(cells: "pd.DataFrame", share: float = 0.5) -> "pd.DataFrame":
    """Return the correlation of rank and perplexity over the cells of a grid, in words.

    cells: of `grid`.
    share: of the cells, those of middle perplexity, that are taken a second time by themselves, as
        parthiban2021 leaves outliers out.

    Columns: correlation, for all cells and the middle ones, and spread, that of the logarithm of
    perplexity over the one of all cells.
    """
    import pandas as pd

    logs = pd.DataFrame(np.log(cells[["rank", "perplexity"]].dropna()))
    edge = (1 - share) / 2
    low, high = logs.perplexity.quantile([edge, 1 - edge]) if len(logs) else (0, 0)
    middle = logs[logs.perplexity.between(low, high)]
    rows = {}
    for name, part in (("all cells", logs), (f"the middle {share:.0%}", middle)):
        r = divided(part["rank"], part.perplexity, np.arange(len(part))).over_all
        spread = part.perplexity.std() / logs.perplexity.std() if len(part) > 1 else np.nan
        rows[name] = {"correlation": written(r), "spread": spread}
    return pd.DataFrame(rows).T


def published_points() -> "pd.DataFrame":
    """Return the rows of parthiban2021 that have both a rank and a perplexity."""
    rows = published.rows()
    rows = rows[(rows.paper == "parthiban2021") & (rows.split == "test")]
    index = ["table", "corpus", "method", "setting"]
    values = rows.pivot_table(index=index, columns="metric", values="value", sort=False)
    return values[["rank", "perplexity"]].dropna().reset_index()


def published_interventions() -> "pd.DataFrame":
    """Return the paper's own interventions: tables S4, S5 and S12 of parthiban2021.

    Columns: knob, corpus, to (its value); against the setting of least rank the rank as a ratio,
    and the difference of test perplexity in per cent.
    """
    import pandas as pd

    rows = published_points()
    changes = []
    groups: Any = rows.groupby(["table", "corpus"])
    for (table, corpus), group in groups:
        first = group.loc[group["rank"].idxmin()]
        knob = {"S4": "components", "S5": "components", "S12": "latent dropout"}.get(table)
        for _, row in group.iterrows():
            if knob and row["rank"] > first["rank"]:
                d = 100 * np.log(row.perplexity / first.perplexity)
                value = row.setting.split()[-1].removeprefix("K=")
                changes.append((knob, corpus, value, row["rank"] / first["rank"], d))
    return pd.DataFrame(changes, columns=["knob", "corpus", "to", "rank", "difference"])


def table_6(of: Evidence) -> "pd.DataFrame":
    """Return Table 6 of parthiban2021 for PTB with ours beside it, a row each.

    Press' rank and the effective ranks for three ε; limited, whether the number of contexts limits
    Press' rank, which no published row says. Ours are of runs with the output
    layer of their recipe, on a whole text where there is one. All are of the one model and text
    that has run most of the methods, and of each method's runs there the one with least validation
    perplexity.
    """
    import pandas as pd

    rows = published.rows()
    rows = rows[(rows.paper == "parthiban2021") & (rows.table == "6") & (rows.corpus == "ptb")]
    names = {"softmax": "tied"}  # of our methods
    ours = _alike(points(of), {names.get(str(method), str(method)) for method in rows.method})
    told = {}
    for method, group in rows.groupby("method", sort=False):
        values = dict(zip(group.setting.str.replace("epsilon ", ""), group.value, strict=True))
        rank = group.value[group.metric == "rank"].iloc[0]
        effective = [values[epsilon] for epsilon in ("1e-3", "1e-4", "1e-5")]
        told[f"{method}, published"] = [rank, *effective, False, "ptb"]
        same = ours.loc[ours.method == names.get(str(method), method)]
        if len(same):
            best = same.loc[same.valid.idxmin()]
            figures = [best["rank"], *(best[epsilon] for epsilon in EPSILONS)]
            told[f"{method}, ours"] = [*figures, best.limited, best.text]
    columns = [
        "Press",
        *(f"ε = {epsilon:.0e}" for epsilon in (1e-3, 1e-4, 1e-5)),
        "limited",
        "text",
    ]
    return pd.DataFrame.from_dict(told, orient="index", columns=columns)


def _alike(table: "pd.DataFrame", methods: set[str]) -> "pd.DataFrame":
    """Return the runs of methods in the one context that has most of them, whole texts first."""
    known: Any = table[table.method.isin(methods) & table["own layer"]]
    whole = known[known.tier != "small"]
    known = whole if len(whole) else known
    if known.empty:
        return known
    most = known.groupby("context").method.nunique().idxmax()
    return known[known.context == most]


# Correlations ------------------------------------------------------------------------------------


def two_groups(rank: Sequence[float]) -> str:
    """Return in words whether ranks lie in two groups, with a gap of most of their range between.

    rank: (n,), two at least.
    """
    placed = np.sort(np.asarray(rank, float))
    steps = np.diff(np.log(placed))
    if steps.max() <= steps.sum() / 2:
        return f"Press' rank is {placed[0]:,.0f} to {placed[-1]:,.0f} in these runs."
    below = int(steps.argmax()) + 1
    first = " to ".join(f"{one:,.0f}" for one in np.unique(placed[[0, below - 1]]))
    return (
        f"Press' rank is {first} in {below} of these runs and {placed[below]:,.0f} or more in the "
        f"other {len(placed) - below}. So a correlation with Press' rank compares two groups."
    )


class Divided(NamedTuple):
    """A correlation over runs, and what it is within and between settings; None where unknown."""

    over_all: Correlation | None
    within: Correlation | None
    between: Correlation | None


def divided(x, y, setting, seed=None) -> Divided:
    """Return the correlation of x and y over runs, within settings and between their means.

    x, y: (n,), a number for each run.
    setting: (n,), equal for runs that differ in their seed only.
    seed: (n,), where the settings share their seeds; None where no two runs share one.

    Within a setting the mean of the setting is taken from both, so that only seeds differ. What the
    means cost is taken from the number of points: of n runs in g settings n − g + 1 count. A seed
    that settings share moves them all, so that they are no independent witnesses. Then the mean of
    the seed is taken away, too, and only the seeds count as points. With three the interval is all
    of [−1, 1].
    """
    import pandas as pd

    table = pd.DataFrame({"x": x, "y": y, "setting": setting})
    table["seed"] = 0 if seed is None else seed
    table = table.dropna()
    several = table.groupby("setting").x.transform("size") > 1
    inner = _without_means(table.loc[several])
    outer: Any = table.groupby("setting")[["x", "y"]].mean()
    if seed is None:
        lost = max(0, table.setting[several].nunique() - 1)
        return Divided(_pearson(table), _pearson(inner, lost), _pearson(outer))
    within = _of_seeds(inner, table.seed[several].nunique())
    return Divided(_pearson(table), within, _pearson(outer))


def _without_means(table: "pd.DataFrame") -> "pd.DataFrame":
    """Return x and y without what is additive in setting and seed."""
    import pandas as pd

    means = pd.get_dummies(table[["setting", "seed"]].astype(str), dtype=float)
    values: Any = table[["x", "y"]].astype(float)
    fitted = means.to_numpy() @ np.linalg.lstsq(means, values, rcond=None)[0]
    return (values - fitted).round(10)  # what rounding leaves of 0 is no spread


def _of_seeds(inner: "pd.DataFrame", seeds: int) -> Correlation | None:
    """Return a correlation in which only the seeds count as points."""
    if seeds > 3:
        return _pearson(inner, len(inner) - seeds)
    r = _pearson(inner)
    return None if r is None else r._replace(low=-1.0, high=1.0, p=np.nan, n=seeds)


def _pearson(table: "pd.DataFrame", lost: int = 0) -> Correlation | None:
    """Return the correlation of the columns x and y with n − lost points; None where unknown."""
    try:
        return pearson(table.x, table.y, lost=lost)
    except CourseError:  # too few, or all the same
        return None


def leaving_one_out(x, y, setting, seed=None) -> tuple[float, float]:
    """Return the least and the greatest correlation within settings when any one is left out.

    The arguments are those of `divided`. NaN where it is unknown.
    """
    columns = [np.asarray(values) for values in (x, y, setting, seed) if values is not None]
    setting = columns[2]
    rest = [divided(*(v[setting != one] for v in columns)).within for one in set(setting)]
    known = [one.r for one in rest if one is not None]
    return (min(known), max(known)) if known else (np.nan, np.nan)


def written(correlation: Correlation | None) -> str:
    """Return a correlation as words: r, its interval, and the number of points that count."""
    if correlation is None:
        return "unknown (too few runs)"
    r, low, high, _, n = correlation
    return f"r = {r:+.2f} [{low:+.2f}, {high:+.2f}] (n = {n})"


def restricted(r: float, share: float) -> float:
    """Return what is left of a correlation when the spread of one variable shrinks to a share.

        r u / √(1 − r² + r²u²)        (Thorndike 1949, case 2)

    r: the correlation over the whole range.
    share: u, the spread that is left over the spread that was.
    """
    return r * share / float(np.sqrt(1 - r**2 + r**2 * share**2))
