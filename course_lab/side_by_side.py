"""The methods of a plan side by side: each at the setting that is best on validation text."""

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
    """Return a row for each kept run of a plan: method, setting, seed, model, perplexities, cloud.

    of: the results to go by.
    plan: its name under data/plans. Its table has a row for each `model`.
    """
    import pandas as pd

    rows = []
    names = tables.models_of(plans.read_plan(plan))
    for name, (planned, run) in zip(names, evidence.of_plan(of, plan), strict=True):
        if run is None:
            continue
        row = {"method": method_of(planned), "setting": planned.variant, "seed": planned.seed}
        row["model"] = name
        row |= {split: run.figure(f"{split}_perplexity") for split in ("valid", "test")}
        cloud = run.content["metrics"]["geometry"]
        rows.append(row | {name: figure(cloud) for name, figure in SHAPE.items()})
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
    The new column `tried` is the number of the method's settings, those with fewer seeds included.
    """
    losses = runs.assign(loss=np.log(runs.valid)).groupby(["method", "setting"]).loss
    size = losses.size()
    means = losses.mean()[size == size.groupby("method").transform("max")]
    best = set(means.groupby("method").idxmin())
    pairs = zip(runs.method, runs.setting, strict=True)
    tried = size.groupby("method").size()
    chosen = runs[[pair in best for pair in pairs]]
    return chosen.assign(tried=chosen.method.map(tried))


def judged(best: "pd.DataFrame", plan: str, baseline: str) -> "pd.DataFrame":
    """Return the methods' rows of the plan's table, as `batch table --baseline` prints them.

    best: of `at_best`. baseline: the method whose best setting the others are compared with.
    """
    models: Any = best.groupby("method")["model"].first()
    table = untested.table_of(plans.read_plan(plan), models[baseline]).models
    return table.loc[models].set_axis(models.index)


def alike(table: "pd.DataFrame", within: float) -> dict[str, list[str]]:
    """Return the methods of which no figure is further than `within` from a method before them.

    table: a row of figures for each method. Keys are the first methods, in the table's order; the
    values are their likes.
    """
    groups: dict[str, list[str]] = {}
    for name, row in table.iterrows():
        for first in groups:
            if (row - table.loc[first]).abs().max() < within:
                groups[first].append(str(name))
                break
        else:
            groups[str(name)] = []
    return groups
