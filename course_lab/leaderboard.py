"""Every published row with ours beside it, and the n-grams that any model has to beat."""

import json
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from course_lab import comparison, evidence, provenance, published, ranks
from course_lab.evidence import Evidence, Run, Setting
from course_lab.experiment import Experiment
from course_lab.planned import earlier
from course_lab.plans import read_plan
from course_lab.recipes import recipes
from course_lab.statistics import mean_interval, written
from course_lab.tables import models_of
from course_lib.errors import CourseError

if TYPE_CHECKING:
    import pandas as pd

FIGURES = {"perplexity": "test_perplexity", "bleu": "test_bleu"}
COLUMNS = ["paper", "table", "corpus", "model", "method", "setting", "metric", "published"]
COLUMNS += ["ours", "low", "high", "n", "tier", "run", "text", "budget", "recipe"]
TIERS = ("at scale", "desk", "another model", "small", "recipe only", "no recipe", "counted")
# Where nothing but one of these follows the method in a row's recipe, a smaller model with the same
# method stands for the row, itself by one of these or by a budget of ours. What else follows, such
# as a cache, is another thing.
PLAIN = ("", "et-asgd", "nt-asgd", "finetuned", "second-session")
OURS = (*PLAIN, "short", "adamw", "sgd")
DESK = "ptb/desk"  # the family of the board
BOARD = {  # its figures of the word matrix and of log P
    "rare cosine": "geometry/mean_cosine_rare",
    "positive pairs": "geometry/positive_share",
    "flatness": "flatness",
    "Press' rank": "log_prob/press_rank",
    "effective rank": "log_prob/effective_rank/0.001",
    "ρ": "word similarity",
    "ρ centred": "centred similarity",
}


def rows(of: Evidence) -> "pd.DataFrame":
    """Return a row for each published test figure, and one for each n-gram model.

    of: the results to go by.

    The column `tier` says what ours is: `at scale` is the row's own recipe; `desk` is the same
    method in a model of the row's kind, of another size or budget, and `another model` in one of
    another kind, both on a whole text, whose name the column text has; `small` is on a part of a
    text; `recipe only` has not been run; `no recipe` cannot be; `counted` is an n-gram model.
    ours, low and high are the mean over n seeds and its interval; with one seed there is no
    interval. run, text and budget say what was trained, and for how long.
    """
    import pandas as pd

    printed = published.rows()
    printed = printed[printed.metric.isin(FIGURES) & (printed.split == "test")]
    told = [_row(row, of) for _, row in printed.iterrows()]
    counted = [
        {"corpus": evidence.title_of(text), "text": evidence.title_of(text), "method": name}
        | {"metric": "perplexity", "ours": perplexity, "tier": "counted", "model": "n-gram"}
        for text in counted_texts(of)
        for name, perplexity in of.ngrams[text].items()
    ]
    return pd.DataFrame([*told, *counted], columns=COLUMNS)


def shown(table: "pd.DataFrame") -> "pd.DataFrame":
    """Return a leaderboard with its numbers written out, for a page."""
    names = ["paper", "table", "corpus", "model", "method", "setting", "metric"]
    written = table.loc[:, names].copy()
    written["published"] = [f"{value:.2f}" if value == value else "" for value in table.published]
    written["ours"] = _with_intervals(table)
    written["n"] = [f"{n:.0f}" if n == n else "" for n in table.n]
    written[["tier", "text", "budget", "run"]] = table[["tier", "text", "budget", "run"]]
    return written.astype(object).fillna("")


def _with_intervals(table: "pd.DataFrame") -> list[str]:
    """Return our figures as text, with the interval where there is one."""
    rows = zip(table.ours, table.low, table.high, strict=True)
    return [written(mean, low, high, ".2f") for mean, low, high in rows]


def board(of: Evidence, family: str = DESK) -> "pd.DataFrame":
    """Return a row for each recipe of a family, the least perplexity first.

    of: the results to go by.
    family: what the names of the recipes begin with. Runs with other settings are left out.

    The index is the recipe's name without the family's. Columns: tier, `desk` or `recipe only`;
    n seeds; ours, the mean of their test perplexities, low and high, the ends of its interval;
    `BOARD`, means over the seeds that have the figure; at least, whether the number of contexts
    limits Press' rank; minutes, MB and seconds an epoch over the runs on a CPU, where there is one,
    else on a GPU; machine, those of all runs.
    """
    import pandas as pd

    rows = {}
    for name in recipes:
        own = [s for s in of.settings if s.recipe == name and not s.variant]
        if name.startswith(f"{family}/"):
            told = _on_board(of, of.best(of.longest(own))) if own else {"tier": "recipe only"}
            rows[name.removeprefix(f"{family}/")] = told
    columns = ["tier", "n", "ours", "low", "high", *BOARD, "at least"]
    columns += ["minutes", "seconds", "MB", "machine"]
    table = pd.DataFrame.from_dict(rows, orient="index", columns=columns)
    return table.sort_values("ours", kind="stable")


def board_shown(table: "pd.DataFrame") -> "pd.DataFrame":
    """Return the rows of a board that have runs with their numbers written out, for a page."""
    ran: Any = table[table.ours.notna()]
    shown = ran.drop(columns=["tier", "ours", "low", "high", "at least"])
    counts = ["n", "effective rank", "seconds", "MB"]
    shown = shown.round(2).astype(object)
    shown[counts] = ran[counts].round().astype("Int64")
    press = ranks.at_least(ran["Press' rank"], ran["at least"], ".0f")
    shown["Press' rank"] = [rank.replace("nan", "") for rank in press]
    shown["minutes"] = [f"{minutes:.3g}" for minutes in ran.minutes]
    shown.insert(1, "test perplexity", _with_intervals(ran))
    return shown


def _on_board(of: Evidence, setting: Setting) -> dict:
    """Return what a board says of a setting."""
    row = _ours(of, setting, "test_perplexity", "desk")
    runs, timed = of.settings[setting].values(), _timed(of, setting)
    row |= {name: _mean(runs, path) for name, path in BOARD.items()}
    ranked = [run for run in runs if run.figure("log_prob/press_rank") is not None]
    row["at least"] = any(map(ranks.is_limited, ranked))
    row |= {"minutes": _mean(timed, "minutes"), "MB": _median(timed, "peak_memory_mb")}
    row["seconds"] = _mean(timed, "seconds an epoch")
    devices = Counter(run.content["provenance"]["device"].partition(",")[0] for run in runs)
    row["machine"] = ", ".join(f"{n} × {device}" for device, n in devices.items())
    return row


def _mean(runs: Iterable[Run], path: str) -> float:
    """Return the mean of a figure over the runs that have it, NaN where none has."""
    values = [value for value in (run.figure(path) for run in runs) if value is not None]
    return float(np.mean(values)) if values else np.nan


def seeds_of_family(of: Evidence, plan: str = "desk", baseline: str = "tied") -> "pd.DataFrame":
    """Return how far the pairs of each model of a plan spread, and which difference they can show.

    of: the results to go by. The pairs are those of a model and the baseline.

    Columns: pairs; sd, of the differences in per cent of perplexity; detectable, the least true
    difference that so many pairs show in four of five tries; corrected, the same with Bonferroni's
    correction for all models of the plan; seeds for 2 %, in four of five tries, uncorrected.
    """
    import pandas as pd

    names = models_of(read_plan(plan))
    scores: dict[str, dict[int, float]] = {}
    for name, (planned, run) in zip(names, evidence.of_plan(of, plan), strict=True):
        if run is not None:
            scores.setdefault(name, {})[planned.seed] = run.perplexity("test")
    seeds = scores.get(baseline, {}).keys()
    family = len(set(names)) - 1
    rows = {}
    for name in [n for n, own in scores.items() if n != baseline and len(own.keys() & seeds) > 1]:
        d = comparison.paired_differences(scores, name, baseline)
        sd, n = float(d.std(ddof=1)), len(d)
        shown = [comparison.detectable(sd, n, alpha=0.05 / tests) for tests in (1, family)]
        rows[name] = [n, sd, *shown, comparison.seeds_for(2.0, sd)]
    columns = ["pairs", "sd", "detectable", "corrected", "seeds for 2 %"]
    table = pd.DataFrame.from_dict(rows, orient="index", columns=columns)
    return table.sort_values(["pairs", "sd"], ascending=[False, True])


def on_text(table: "pd.DataFrame", text: str) -> "pd.DataFrame":
    """Return the rows whose perplexity, published and ours, is of one text, the worst first.

    Each recipe has one row, named by paper and recipe.
    """
    of_text = (table.corpus == text) & (table.text == text) & (table.metric == "perplexity")
    chosen = table.loc[of_text & table.published.notna()].drop_duplicates("recipe", keep="last")
    names = [
        f"{paper} {recipe.removeprefix(f'{text}/')}"
        for paper, recipe in zip(chosen.paper, chosen.recipe, strict=True)
    ]
    return chosen.set_axis(names).sort_values("published", ascending=False)


def counted_texts(of: Evidence) -> list[str]:
    """Return the texts whose n-grams are counted, by corpus and by number of training tokens."""

    def order(text: str) -> tuple[str, float]:
        corpus = json.loads(text)
        return corpus["kind"], corpus["options"].get("small", {}).get("train", np.inf)

    return sorted(of.ngrams, key=order)


def counted_on(of: Evidence, text: str) -> dict[str, float]:
    """Return the test perplexities of the Kneser-Ney models of a text, as far as they are kept."""
    for name, perplexities in of.ngrams.items():
        if evidence.title_of(name) == text:
            return {n: value for n, value in perplexities.items() if "Ney" in n}
    return {}


def _row(row: "pd.Series", of: Evidence) -> dict:
    """Return a published row with the best of ours that stands for it."""
    told = {name: row[name] for name in ("paper", "table", "corpus", "model", "method", "setting")}
    told |= {"metric": row.metric, "published": row.value, "recipe": row.recipe}
    if not row.recipe:
        return told | {"tier": "no recipe"}
    figure = FIGURES[row.metric]
    settings = [s for s in of.settings if _has(of, s, figure)]
    name = evidence.named(row.recipe, row.change)
    _, method, rest = evidence.parts_of(row.recipe)
    for setting in settings:
        if setting[:3] == name and of.first(setting).tier == "at scale":
            return told | _ours(of, setting, figure, "at scale")
    parts = {setting: evidence.parts_of(setting.recipe) for setting in settings}
    same = [s for s in settings if rest in PLAIN and parts[s][1] == method and parts[s][2] in OURS]
    if not same:
        return told | {"tier": "recipe only"}
    places = {setting: _place(of, setting, row) for setting in same}
    first = min(places.values())
    best = of.best(of.longest([s for s in same if places[s] == first]), figure)
    _, is_small, is_other_model = first
    tier = "small" if is_small else "another model" if is_other_model else "desk"
    return told | _ours(of, best, figure, tier)


def _place(of: Evidence, setting: Setting, row: "pd.Series") -> tuple[bool, bool, bool]:
    """Return the order of choice before `Evidence.best`: corpus, a whole text, the row's kind."""
    is_small = of.first(setting).tier == "small"
    is_other_text = evidence.title_of(setting.text) != row.corpus
    is_other_model = evidence.model_of(setting.recipe) != evidence.model_of(row.recipe)
    return is_other_text, is_small, is_other_model


def _ours(of: Evidence, setting: Setting, figure: str, tier: str) -> dict:
    """Return what a row says of our runs of a setting."""
    runs = of.settings[setting].values()
    figures = [run.figure(figure) for run in runs]
    values = np.array([value for value in figures if value is not None])
    row = {"ours": float(values.mean()), "n": len(values), "text": evidence.title_of(setting.text)}
    row |= {"tier": tier, "budget": budget(of, setting)}
    row["run"] = setting.label
    if len(values) > 1:
        interval = mean_interval(values)
        row |= {"low": interval.low, "high": interval.high}
    return row


def budget(of: Evidence, setting: Setting) -> str:
    """Return what a run took: tokens, minutes and threads, in the middle of the setting's seeds.

    Where some seeds ran on a GPU, the minutes are those of the others; where all did, a GPU's. Of
    runs that began with another run's weights, the tokens that this other run read are named, too.
    """
    tokens = _median(of.settings[setting].values(), "tokens_seen")
    timed = _timed(of, setting)
    minutes = _mean(timed, "minutes")
    threads = max(run.content["provenance"].get("threads", 1) for run in timed)
    on_gpu = provenance.on_gpu(timed[0].content["provenance"])
    where = "on a GPU" if on_gpu else f"× {threads}"
    first = _first_session(of, setting)
    return f"{tokens / 1e6:.3g} M tokens, {minutes:.3g} min {where}{first}"


def _timed(of: Evidence, setting: Setting) -> list[Run]:
    """Return a setting's runs on a CPU; where all ran on a GPU, all."""
    runs = list(of.settings[setting].values())
    return [run for run in runs if not provenance.on_gpu(run.content["provenance"])] or runs


def _median(runs: Iterable[Run], name: str) -> float:
    """Return the median over runs of a number of their provenance."""
    return float(np.median([run.content["provenance"].get(name, np.nan) for run in runs]))


def _first_session(of: Evidence, setting: Setting) -> str:
    """Return what the run had read with whose weights those of a setting began; "" for none."""
    run = of.first(setting)
    told = run.content.get("experiment", {})
    if told.get("start_from") is None:
        return ""
    try:
        first = earlier(Experiment.from_dict(told))
    except CourseError:  # a part or a recipe of another reader
        first = None
    if first is None:
        return f", after a first session `{told['start_from']}` that is not known here"
    recipe = f"{first.name} {first.variant}".strip()
    text = evidence.text_of(first.to_dict())
    setting = Setting(first.name, first.profile, first.variant, text)
    starts = of.settings.get(setting, {}).values()
    read = [start.content["provenance"].get("tokens_seen", np.nan) for start in starts]
    if not read:
        return f", after a first session `{recipe}` that is not kept"
    return f", after {np.median(read) / 1e6:.3g} M tokens of `{recipe}`"


def _has(of: Evidence, setting: Setting, figure: str) -> bool:
    return any(run.figure(figure) is not None for run in of.settings[setting].values())
