"""Kept results that may be missing: a lesson runs without them, and says what is untested.

A run that is not kept has a `Blank` for each of its figures. So tables and figures keep their
rows, in which such a figure is not a number.
"""

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from course_lab import results, statistics, tables
from course_lab.planned import Planned
from course_lab.plans import Plan
from course_lib.errors import CourseError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

UNTESTED = "not kept: untested"
mean = statistics.mean_of_known  # of seeds, some of which may be blank


class Blank(float):
    """A figure that is not kept is not a number, and neither is what is looked up in it."""

    def __new__(cls):
        return super().__new__(cls, math.nan)

    def __getitem__(self, key: Any) -> "Blank":
        return self

    def __iter__(self):
        """Yield nothing; without this Python would look up 0, 1, … without end."""
        return iter(())

    def get(self, key: Any, default: Any = None) -> "Blank":
        """Return a blank, whatever is asked for."""
        return self

    def __ror__(self, other: dict) -> dict:
        """Return what `other` has, since `other | blank` adds nothing to it."""
        return other


def read(runs: Iterable[Planned]) -> list[Any]:
    """Return the kept result of each run, a `Blank` where there is none; display how many lack.

    Raises CourseError for a result that is damaged.
    """
    planned = list(runs)
    here = [results.is_done(results.kept_folder() / run.key) for run in planned]
    say_how_many(here.count(False), len(here))
    pairs = zip(planned, here, strict=True)
    return [results.read_kept(run.key) if kept else Blank() for run, kept in pairs]


def table_of(plan: Plan, baseline: str | None = None, split: tables.Split = "test") -> tables.Table:
    """Return `tables.table_of` with a row for every model of a plan; display what is untested."""
    tables.check_baseline(plan, baseline)
    names = list(dict.fromkeys(tables.models_of(plan)))
    try:
        table = tables.table_of(plan, baseline, split=split)
    except CourseError:  # no run of the baseline is done
        table = tables.without_results(plan, split)
    missing = [name for name in names if name not in table.models.index]
    if missing:
        say(f"Of {len(names)} models of the plan `{plan.path.stem}` {len(missing)} are {UNTESTED}.")
    models = table.models.reindex(names)
    models.loc[missing, "verdict"] = UNTESTED
    return tables.Table(models, table.ngrams, table.missing, table.notes, table.figure)


def compared(plan: Plan, pairs: Mapping[str, tuple[str, str]]) -> "pd.DataFrame":
    """Return a row of the plan's table for each pair, as `batch table --baseline` prints it.

    pairs: a method and its baseline by the name of the row, both as `tables.models_of` names them.
    """
    import pandas as pd

    of = {baseline: table_of(plan, baseline).models for _, baseline in pairs.values()}
    rows = {name: of[baseline].loc[method] for name, (method, baseline) in pairs.items()}
    return pd.DataFrame.from_dict(rows, orient="index")


def difference(row: "pd.Series", digits: int = 1) -> str:
    """Return the difference of a row of such a table as text, in per cent, or `UNTESTED`."""
    mean, low, high = row[["difference", "difference low", "difference high"]]
    return statistics.written(mean, low, high, f"+.{digits}f", " %") or UNTESTED


def spearman(x: Iterable[float], y: Iterable[float]) -> statistics.Correlation:
    """Return the rank correlation of the pairs that are known; of fewer than four no number."""
    import numpy as np

    pairs = np.array([pair for pair in zip(x, y, strict=True) if not np.isnan(pair).any()])
    if len(pairs) < 4:
        return statistics.Correlation(math.nan, math.nan, math.nan, math.nan, len(pairs))
    return statistics.spearman(*pairs.T)


def drawn(models: "pd.DataFrame", margin: float, title: str) -> "Figure":
    """Return `plots.differences` of a table's models; an empty figure if none has a difference."""
    from course_lab import plots

    differences: Any = models["difference"]
    if differences.notna().any():
        return plots.differences(models, margin, title)
    ax = plots.panels(height=2.2)[1]
    ax.set_axis_off()
    ax.set_title(UNTESTED)
    return ax.figure


def interval(values: Iterable[float], digits: int = 2) -> str:
    """Return `mean` as text: the interval in brackets from two seeds on, `UNTESTED` for none."""
    m = mean(values)
    ends = (m.low, m.high) if m.n > 1 else (math.nan, math.nan)
    return statistics.written(m.mean, *ends, f".{digits}f") or UNTESTED


def say_how_many(missing: int, runs: int) -> None:
    """Display how many of the runs of a part of the lesson are not kept, if any."""
    if missing:
        say(f"Of {runs} runs of this part of the lesson {missing} are {UNTESTED}.")


def say(sentence: str) -> None:
    """Display a sentence below the cell."""
    from IPython.display import Markdown, display

    display(Markdown(f"*{sentence}*"))
