"""The figures of the notebook that goes deeper than lesson 33."""

import textwrap

import numpy as np
from matplotlib.figure import Figure

from course_lab.plots.evidence import RING, _name_rows
from course_lab.plots.style import COLOURS, INK, MARKERS, MEANING, panels


def beyond_a_seed(table, title: str) -> Figure:
    """Draw how far methods differ from a baseline as bars: what a seed does, and what is beyond.

    table: the DataFrame of `averaging.beyond_a_seed`.
    """
    figure, ax = panels(height=2.0 + 0.4 * len(table))
    places = np.arange(len(table))
    plain, remedy = (COLOURS[MEANING[name]] for name in ("plain", "remedy"))
    ax.barh(places, table.own, color=plain, alpha=0.45, label="two seeds of one method")
    ax.barh(places, table.beyond, left=table.own, color=remedy, label="beyond a seed")
    reach = np.array([table.beyond - table.low, table.high - table.beyond], dtype=float)
    ends = table.own + table.beyond
    ax.errorbar(ends, places, xerr=reach, fmt="none", ecolor=INK, capsize=3)
    _name_rows(ax, table.index)
    ax.set_xlabel("disagreement of two models, %")
    figure.suptitle(textwrap.fill(title, 52))
    figure.legend(loc="outside lower center", ncols=2)
    return figure


def single_and_together(table, baseline: str, title: str) -> Figure:
    """Draw each method's difference from a baseline, of single models and of means of all seeds.

    table: the DataFrame of `averaging.means`.
    baseline: the method that lies at 0.
    """
    rows = table[table.single.notna() & (table.index != baseline)]
    figure, ax = panels(height=2.0 + 0.4 * len(rows))
    places = np.arange(len(rows))
    number = MEANING["remedy"]
    ax.axvline(0, color=INK, linewidth=0.9)
    ax.hlines(places, rows.single, rows.together, color=COLOURS[number], linewidth=1.2)
    ax.scatter(rows.single, places, 44, marker="o", label="single models", **RING)
    style = {"color": COLOURS[number], "marker": MARKERS[number], "zorder": 4}
    ax.scatter(rows.together, places, 44, label="the mean of all seeds", **style)
    names = [f"{name} ({n:.0f} seeds)" for name, n in rows.seeds.items()]
    _name_rows(ax, names)
    ax.set_xlabel(f"perplexity against {baseline}, %")
    figure.suptitle(textwrap.fill(title.replace("`", ""), 52))
    figure.legend(loc="outside lower center", ncols=2)
    return figure
