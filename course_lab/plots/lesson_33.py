"""The figures of the notebook that goes deeper than lesson 33."""

import numpy as np
from matplotlib.figure import Figure

from course_lab.plots.evidence import _finished, _name_rows
from course_lab.plots.style import COLOURS, INK, MARKERS, MEANING, PAPER, panels


def beyond_a_seed(table, title: str) -> Figure:
    """Draw how far methods differ from a baseline as bars: what a seed does, and what is beyond.

    table: the DataFrame of `ensembles.beyond_a_seed`.
    """
    figure, ax = panels(height=2.0 + 0.4 * len(table))
    places = np.arange(len(table))
    seed = (table.own + table.plain) / 2
    plain, remedy = (COLOURS[MEANING[name]] for name in ("plain", "remedy"))
    ax.barh(places, seed, color=plain, alpha=0.45, label="two seeds of one method")
    ax.barh(places, table.beyond, left=seed, color=remedy, label="beyond a seed")
    reach = [table.beyond - table["beyond low"], table["beyond high"] - table.beyond]
    style = {"fmt": "none", "ecolor": INK, "capsize": 3}
    ax.errorbar(seed + table.beyond, places, xerr=np.array(reach, dtype=float), **style)
    _name_rows(ax, table.index)
    ax.set_xlabel("disagreement of two models, %")
    return _finished(figure, title, 2)


def single_and_together(table, baseline: str, title: str) -> Figure:
    """Draw each method's difference from a baseline, of single models and of ensembles of two.

    table: the DataFrame of `ensembles.of_two`.
    baseline: the method that lies at 0.
    """
    rows = table[table.single.notna() & (table.index != baseline)]
    figure, ax = panels(height=2.2 + 0.42 * len(rows))
    ax.axvline(0, color=INK, linewidth=0.9)
    number = MEANING["remedy"]
    looks = {
        "single": {"fmt": "o", "mfc": PAPER, "color": INK, "label": "single models"},
        "together": {"fmt": MARKERS[number], "color": COLOURS[number], "label": "ensembles of two"},
    }
    for shift, (name, look) in zip((-0.14, 0.14), looks.items(), strict=True):
        reach = [rows[name] - rows[f"{name} low"], rows[f"{name} high"] - rows[name]]
        places = np.arange(len(rows)) + shift
        ax.errorbar(rows[name], places, xerr=np.array(reach, dtype=float), capsize=3, **look)
    _name_rows(ax, [f"{name} ({n:.0f} seeds)" for name, n in rows.shared.items()])
    ax.set_xlabel(f"perplexity against {baseline}, %")
    alone = (rows.shared == 2).any()
    return _finished(figure, title, 2, "without a bar: two seeds" if alone else None)
