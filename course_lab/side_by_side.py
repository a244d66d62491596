"""The methods of a plan side by side: each at the setting that is best on validation text."""

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from course_lab import evidence, plans, tables, untested
from course_lab.evidence import Evidence
from course_lab.planned import Planned

if TYPE_CHECKING:
    import pandas as pd

WORDS = ("words.", "output_layer.words.")  # groups of the optimiser: the matrices of words
SHAPE = {  # what is told of a cloud of words, by the name that readers see
    "σ₂/σ₁": lambda cloud: cloud["singular_values"][1] / cloud["singular_values"][0],
    "cosine of rare words": lambda cloud: cloud["mean_cosine_rare"],
    "drift": lambda cloud: cloud["drift"],
}


def runs_of(of: Evidence, plan: str) -> "pd.DataFrame":
    """Return a row for each run of a plan: method, setting, seed, model, perplexities, cloud.

    of: the results to go by. A run that is not kept has no number in its row, and a sentence
        below the cell says how many lack.
    plan: its name under data/plans. Its table has a row for each `model`.
    """
    import pandas as pd

    rows = []
    names = tables.models_of(plans.read_plan(plan))
    found = evidence.of_plan(of, plan)
    for name, (planned, run) in zip(names, found, strict=True):
        row = {"method": method_of(planned), "setting": planned.variant, "seed": planned.seed}
        row["model"] = name
        for split in ("valid", "test"):
            row[split] = run.figure(f"{split}_perplexity") if run else math.nan
        cloud = run.content["metrics"]["geometry"] if run else untested.Blank()
        rows.append(row | {name: figure(cloud) for name, figure in SHAPE.items()})
    untested.say_how_many(sum(run is None for _, run in found), len(found))
    return pd.DataFrame(rows)


def method_of(planned: Planned) -> str:
    """Return the recipe's last name, and the optimiser that the plan gives to the words instead.

    `…/untied` with `output_layer.words.` by SGD is `untied + sgd`.
    """
    name = planned.recipe.rsplit("/", 1)[-1]
    groups = planned.experiment().optimisation.groups
    own = {groups.get(prefix, {}).get("optimizer", name) for prefix in WORDS}
    return " + ".join([name, *sorted(own - {name})])


def at_best(runs: "pd.DataFrame") -> "pd.DataFrame":
    """Return the runs of each method at its setting of least mean validation loss.

    Only settings with as many seeds as any of the method are compared: a lucky seed must not win.
    Of a method of which no run is kept the first setting stands for all. The new column `tried` is
    the number of the method's settings, those with fewer seeds included.
    """
    losses = runs.assign(loss=np.log(runs.valid)).groupby(["method", "setting"]).loss
    seeds = losses.count()
    means = losses.mean()[seeds == seeds.groupby("method").transform("max")]
    best = set(means.fillna(math.inf).groupby("method").idxmin())
    pairs = zip(runs.method, runs.setting, strict=True)
    tried = seeds.groupby("method").size()
    chosen = runs[[pair in best for pair in pairs]]
    return chosen.assign(tried=chosen.method.map(tried))


def judged(best: "pd.DataFrame", plan: str, baseline: str) -> "pd.DataFrame":
    """Return the methods' rows of the plan's table, as `batch table --baseline` prints them.

    best: of `at_best`. baseline: the method whose best setting the others are compared with.
    """
    models: Any = best.groupby("method")["model"].first()
    table = untested.table_of(plans.read_plan(plan), models[baseline]).models
    return table.loc[models].set_axis(models.index)


def roundest(table: "pd.DataFrame") -> str:
    """Return the method whose rare words have the least mean cosine, or `UNTESTED`."""
    cosines = table["cosine of rare words"].dropna()
    return untested.UNTESTED if cosines.empty else str(cosines.idxmin())


def alike(table: "pd.DataFrame", within: float) -> dict[str, list[str]]:
    """Return the methods of which no figure is further than `within` from a method before them.

    A method without results is like no other.

    table: a row of figures for each method. Keys are the first methods, in the table's order; the
    values are their likes.
    """
    groups: dict[str, list[str]] = {}
    for name, row in table.iterrows():
        for first in groups:
            if (row - table.loc[first]).abs().max(skipna=False) < within:
                groups[first].append(str(name))
                break
        else:
            groups[str(name)] = []
    return groups
