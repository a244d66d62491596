"""Pictures of evidence: rows beside published ones, claims, and what rank and cost go with."""

import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import seaborn
from matplotlib.figure import Figure
from matplotlib.ticker import AutoLocator, LogLocator, NullFormatter
from matplotlib.transforms import Bbox

from course_lab.plots.figures import _name_axes, wins
from course_lab.plots.style import COLOURS, HALO, INK, MARKERS, MEANING, PAPER, panels

if TYPE_CHECKING:
    import pandas as pd

WIDTH = 54  # letters of a title's line
NEAR = 1.2  # the ratio of two costs below which their numbers would overlap
REACH = 3.0  # times the least perplexity, to the upper end of an axis
KNOB_NAMES = {"c, k": "c, k (GSS)", "components": "components (MoS)"}  # where a figure has them
KNOB_NAMES |= {"latent dropout": "dropout (MoS)", "output layer": "softmax exchanged"}
PALE = 0.3  # how opaque the marks are that are no evidence
RANK_TICKS = (10, 25, 50, 100, 200, 500, 1_000, 2_500, 5_000, 10_000)
RING = {"facecolor": PAPER, "edgecolor": INK, "zorder": 3}  # a published figure
# The number of the colour and marker of a tier.
TIER_STYLE = {"at scale": 0, "desk": 1, "small": 2, "another model": 3}


def _finished(figure: Figure, title: str, columns: int = 0, note: str | None = None) -> Figure:
    """Return a figure with its title above it and its legend, in so many columns, below it.

    columns: 0 for no legend. note: what stands above the legend.
    """
    figure.suptitle(textwrap.fill(title, WIDTH))
    if columns:
        figure.legend(loc="outside lower center", ncols=columns, title=note)
    return figure


def _name_rows(ax, names, **look) -> None:
    """Name the places 0, 1, … of an axis, from above."""
    ax.set_yticks(np.arange(len(names)), names, **look)
    ax.set_ylim(len(names) - 0.5, -0.5)


def _written_out(axis, subs) -> None:
    """Write the ticks of a logarithmic axis as numbers, at `subs` times the powers of ten."""
    axis.set_major_locator(LogLocator(subs=subs))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(NullFormatter())


def beside(rows, lines, xlabel: str, title: str) -> Figure:
    """Draw published figures, if any, as rings and ours as filled marks with their intervals.

    A mark of one seed has no interval, and the legend says so.

    rows: a DataFrame with the columns published, ours, low, high and tier; its index names rows.
    lines: {name: value}, such as the n-gram models, drawn across.
    """
    figure, ax = panels(height=1.9 + 0.27 * len(rows))
    places = np.arange(len(rows))
    for i, (name, value) in enumerate(lines.items()):
        ax.axvline(value, color=INK, linestyle=(":", "--", "-.")[i % 3], linewidth=1.1, label=name)
    if rows.published.notna().any():
        ax.scatter(rows.published, places, 52, marker="o", label="published", **RING)
    for tier, number in TIER_STYLE.items():
        ours = rows[(rows.tier == tier) & rows.ours.notna()]
        if len(ours):
            reach = np.array([ours.ours - ours.low, ours.high - ours.ours], dtype=float)
            style = {"color": COLOURS[number], "fmt": MARKERS[number], "capsize": 4, "zorder": 4}
            at = places[rows.index.isin(ours.index)]
            ax.errorbar(ours.ours, at, xerr=reach, label=f"ours, {tier}", **style)
    _name_rows(ax, rows.index, fontsize=9.5)
    ax.set_xscale("log")
    low, high = ax.get_xlim()
    _written_out(ax.xaxis, (1, 1.5, 2, 3, 4, 6, 8))
    if high < 2.5 * low:  # hardly any of these would be a tick
        ax.xaxis.set_major_locator(AutoLocator())
    _name_axes(ax, xlabel, "", "")
    alone = (rows.ours.notna() & rows.low.isna()).any()
    said = "without a bar: one seed" if alone else None
    return _finished(figure, title, 3, said)


def tested_claims(table, title: str) -> Figure:
    """Draw each claim that has evidence as its sentence, with our number and the published one.

    table: the DataFrame of `claims.ledger`. A claim's colour is that of its verdict, and the mark
        of an interim verdict is hollow. The axis is linear to 10 %, beyond which its ticks are
        factors: per cent are of logarithms here. A claim in another unit names it.
    """
    kinds = {"agrees": "remedy", "disagrees": "rare", "no difference": "frequent"}
    kinds |= {"undecided": "plain"}
    rows = table[table.verdict != "untested"]
    figure, ax = panels(height=1.5 + 0.46 * len(rows))
    places = np.arange(len(rows))
    ax.axvline(0, color=INK, linewidth=0.9)
    ax.scatter(rows.published, places, 34, marker="D", label="published", **RING)
    for kind, meaning in kinds.items():
        label = f"ours: {kind}"
        for is_interim in (False, True):
            chosen = (
                rows.verdict.str.startswith(kind) & ((rows.interim != "") == is_interim)
            ).to_numpy()
            if chosen.any():
                ours = rows[chosen]
                reach = [ours.ours - ours.low, ours.high - ours.ours]
                number = MEANING[meaning]
                style = {"color": COLOURS[number], "fmt": MARKERS[number], "capsize": 3}
                style |= {"zorder": 4, "label": label} | ({"mfc": PAPER} if is_interim else {})
                ax.errorbar(ours.ours, places[chosen], xerr=reach, **style)
                label = None
    ax.set_xscale("symlog", linthresh=10, linscale=1)
    factors = (2, 100)
    ticks = {-100 * np.log(n): f"÷ {n}" for n in factors}
    ticks |= {-10.0: "−10 %", 0.0: "0", 10.0: "+10 %"}
    ticks |= {100 * np.log(n): f"× {n}" for n in factors}
    ax.set_xticks(list(ticks), list(ticks.values()), fontsize=8.5)
    ax.minorticks_off()
    units = ["" if unit == "%" else f", in {unit}" for unit in rows.unit]
    sides = zip(rows.says, rows.paper, units, strict=True)
    said = [f"{says[:-1]} ({paper}{unit})" for says, paper, unit in sides]
    _name_rows(ax, [textwrap.fill(line, 44) for line in said], fontsize=8.5)
    _name_axes(ax, "method against baseline", "", "")
    hollow = "hollow: interim, fewer pairs than planned" if (rows.interim != "").any() else None
    return _finished(figure, title, 3, hollow)


def turned(ours, printed, title: str) -> Figure:
    """Draw what turning a knob does to perplexity, against what it does to two ranks.

    ours: the DataFrame of `ranks.interventions`, drawn filled with intervals, and pale where a row
        is no evidence. Marks of one knob and nearly one rank are moved a little to the side, else
        their intervals would coincide. An arrow leads on from a Press' rank that is at least so
        much.
    printed: that of `ranks.published_interventions`, whose Press' rank is drawn hollow.
    """
    figure, axes = panels(columns=2, height=4.8, sharey=True)
    knobs = dict.fromkeys([*ours.knob, *printed.knob])
    for ax, column in zip(axes, ("effective rank", "rank"), strict=True):
        ax.axhline(0, color=INK, linewidth=0.9)
        for i, knob in enumerate(knobs):
            style = {"color": COLOURS[i], "marker": MARKERS[i], "linestyle": ""}
            name = KNOB_NAMES.get(knob, knob)
            rows = ours[ours.knob == knob].sort_values(column)
            rows = rows.assign(place=_beside(rows[column].to_numpy(float)))
            _with_intervals(ax, rows, f"{name}, ours", style)
            if column == "rank":
                for row in rows[rows["at least"]].itertuples():
                    alpha = 1 if row.evidence else PALE
                    _lead_on(ax, row.place, row.difference, COLOURS[i], alpha)
                rows = printed[printed.knob == knob]
                hollow = {"markerfacecolor": PAPER, "markersize": 7, "label": f"{name}, published"}
                if len(rows):
                    ax.plot(rows["rank"], rows.difference, **hollow, **style)
        ax.set_xscale("log")
        _written_out(ax.xaxis, (1, 2, 5) if column == "rank" else (0.5, 1, 1.5, 2, 3))
    label = "change of perplexity, %"
    _name_axes(axes[0], "effective rank, ratio", label, "")
    _name_axes(axes[1], "Press' rank, ratio (→ at least)", "", "")
    figure.suptitle(textwrap.fill(title, WIDTH))
    pale = None if ours.evidence.all() else "pale: no evidence"
    handles, labels = axes[1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, title=pale)
    return figure


def _with_intervals(ax, rows, label: str, style: dict) -> None:
    """Draw interventions at their places with intervals, those that are no evidence pale."""
    said: str | None = label
    for is_evidence, alpha in ((True, 1), (False, PALE)):
        part = rows[rows.evidence == is_evidence]
        if len(part):
            reach = np.array([part.difference - part.low, part.high - part.difference], float)
            error = {"capsize": 3, "elinewidth": 1.2, "alpha": alpha, "zorder": 2 + alpha}
            place = part.place.to_numpy()
            ax.errorbar(place, part.difference, yerr=reach, label=said, **error, **style)
            said = None  # the legend has each knob once


def _lead_on(ax, x: float, y: float, colour, alpha: float) -> None:
    """Draw an arrow to the right of a mark: its true place lies there or further on."""
    look = {"arrowstyle": "<-", "color": colour, "alpha": alpha, "linewidth": 1.4}
    ax.annotate("", (x, y), (22, 0), textcoords="offset points", arrowprops=look)


def _beside(x: np.ndarray) -> np.ndarray:
    """Return rising places on a logarithmic axis, none of them nearer to the last than 4 %."""
    places = x.copy()
    for i in range(1, len(x)):
        places[i] = max(x[i], 1.04 * places[i - 1])
    return places


def correlated(x, y, setting, method, xlabel: str, ylabel: str, title: str) -> Figure:
    """Draw runs as points and the means of their settings as squares, on logarithmic axes.

    x, y: (n,), a number for each run, x a rank.
    setting: (n,), equal for runs that differ in their seed only; a line joins a run to its mean.
    method: (n,), words; each stands at the right of its runs, at the height of their geometric
        mean, or lower where another name would be in its way.
    """
    figure, ax = panels(height=4.2)
    x, y, setting, method = (np.asarray(values) for values in (x, y, setting, method))
    means = np.array(
        [[np.exp(np.log(v[setting == s]).mean()) for v in (x, y)] for s in np.unique(setting)]
    )
    for number, mean in zip(np.unique(setting), means, strict=True):
        for place in zip(x[setting == number], y[setting == number], strict=True):
            joined = {"color": COLOURS[5], "linestyle": "-", "linewidth": 0.7, "alpha": 0.6}
            ax.plot(*zip(mean, place, strict=True), **joined)
    ax.plot(x, y, "o", color=COLOURS[0], markersize=4, alpha=0.6, label="a run")
    ax.plot(*means.T, "s", color=COLOURS[1], markersize=6, label="mean of a setting")
    ax.set(xscale="log", yscale="log")
    ax.set_xticks(RANK_TICKS, [f"{tick:g}" for tick in RANK_TICKS])
    ax.set_xlim(x.min() / 1.3, 2 * x.max())  # room for the names at the right
    ax.xaxis.set_minor_formatter(NullFormatter())
    _written_out(ax.yaxis, (1, 1.5, 2, 3, 5, 7))
    _name_axes(ax, xlabel, ylabel, "")
    figure.suptitle(textwrap.fill(title, WIDTH))
    figure.legend(loc="outside lower center", ncols=2)  # where it lies on no run
    _name_to_the_right(figure, ax, x, y, method)
    return figure


def _name_to_the_right(figure, ax, x, y, method) -> None:
    """Write each method beside its runs, from above, at least a line below the last name near."""
    figure.draw_without_rendering()  # or the axes would not have their limits and place yet
    places = {
        name: (x[method == name].max(), np.exp(np.log(y[method == name]).mean()))
        for name in dict.fromkeys(method)
    }
    points = {n: ax.transData.transform(at) * 72 / figure.dpi for n, at in places.items()}
    taken: list[Bbox] = []
    for name in sorted(points, key=lambda n: -points[n][1]):
        across, up = points[name]
        box = Bbox.from_bounds(across + 7, up - 6, 6 * len(name), 12)
        while box.count_overlaps(taken):
            box = box.translated(0, -1)
        taken.append(box)
        look = {"va": "center", "fontsize": 10.5, "path_effects": HALO, "zorder": 6}
        shift = (7, box.y0 + 6 - up)
        ax.annotate(name, places[name], shift, textcoords="offset points", **look)


def centring(table, title: str) -> Figure:
    """Draw each model's mean ρ as it is, filled, and without the mean row, hollow.

    table: a DataFrame with the columns rho and centred; its index names the models.
    """
    figure, ax = panels(height=1.9 + 0.27 * len(table))
    places = np.arange(len(table))
    ax.hlines(places, table.rho, table.centred, color=COLOURS[5], linewidth=1)
    ax.plot(table.rho, places, MARKERS[0], color=COLOURS[0], zorder=4, label="as it is")
    hollow = {"markerfacecolor": PAPER, "markersize": 8, "label": "without its mean row"}
    ax.plot(table.centred, places, MARKERS[1], color=COLOURS[1], zorder=3, **hollow)
    names = [textwrap.fill(name, 46, break_on_hyphens=False) for name in table.index]
    _name_rows(ax, names, fontsize=9)
    ax.set_xlim(left=min(0, table.centred.min()) - 0.01)
    _name_axes(ax, "mean Spearman's ρ", "", "")
    return _finished(figure, title, columns=2)


def off_half(counts, title: str) -> Figure:
    """Draw how far counts of wins lie from half of the lists: bars, a colour for each kind of pair.

    counts: the DataFrame of `similarities.wins_of`. Which run of a pair is the first one is
        arbitrary, so that a count and its counterpart are one distance.
    """
    figure, ax = panels(height=4.2)
    off = (counts.wins - counts.lists / 2).abs()
    kinds = dict.fromkeys(counts.kind)
    places = np.arange(off.min() % 1, counts.lists.max() / 2 + 0.5)
    width = 0.8 / len(kinds)
    for i, kind in enumerate(kinds):
        of_kind = off[counts.kind == kind]
        share = [(of_kind == place).mean() for place in places]
        at = places + width * (i - (len(kinds) - 1) / 2)
        hatch = ("", "//", "..")[i % 3]
        ax.bar(at, share, width, color=COLOURS[i], hatch=hatch, edgecolor=PAPER, label=kind)
    ax.set_xticks(places)
    _name_axes(ax, f"lists off half of {counts.lists.max()}", "share of the pairs of runs", "")
    return _finished(figure, title, columns=2)


def win_matrices(matrices: "Mapping[str, pd.DataFrame]", lists: int, title: str) -> Figure:
    """Draw tables of wins one below the other, each under its name.

    matrices: DataFrames of `statistics.wins` by name, with the same models. lists: how many there
        are; half of them is white.
    """
    models = max(map(len, matrices.values()))
    figure, axes = panels(len(matrices), height=2.0 + 0.32 * models, squeeze=False)
    for ax, (name, matrix) in zip(axes.flat, matrices.items(), strict=True):
        wins(matrix, lists, name, ax)
    return _finished(figure, title)


def wins_beside(matrices: "Mapping[str, pd.DataFrame]", lists: int, title: str) -> Figure:
    """Draw two tables of wins side by side: numbers name the columns, and the names stand once.

    matrices, lists: as in `win_matrices`, with the same models in the same order.
    """
    names = next(iter(matrices.values())).index
    numbers = [str(i) for i in range(1, len(names) + 1)]
    figure, axes = panels(1, len(matrices), height=1.2 + 0.18 * len(names))
    labels = [f"{name}  {number}" for name, number in zip(names, numbers, strict=True)]
    places = np.arange(len(names)) + 0.5
    for ax, (name, matrix) in zip(axes, matrices.items(), strict=True):
        wins(matrix, lists, name, ax)
        ax.set_xticks(places, numbers, fontsize=7.5, rotation=0, ha="center")
        ax.set_yticks(places, labels, fontsize=8)
        ax.tick_params(left=False, bottom=False, pad=1)
        for number in ax.texts:
            number.set_fontsize(6.5)
        _name_axes(ax, "against", "", name)
        labels = numbers  # the names stand once
    return _finished(figure, title)


def shares(table, title: str) -> Figure:
    """Draw the share of a row's pairs that a column has as well, in per cent, but for 0.

    table: the DataFrame of `corpora.similarity.overlap`.
    """
    figure, ax = panels(height=2.6 + 0.3 * len(table))
    per_cent = (100 * table).round().astype(int)
    seaborn.heatmap(
        table,
        annot=np.where(per_cent > 0, per_cent.astype(str), ""),
        fmt="",
        annot_kws={"fontsize": 9, "color": INK},
        cmap=seaborn.light_palette(COLOURS[0], as_cmap=True),
        vmin=0,
        vmax=1.4,  # so that the numbers stand out from the darkest cell
        linewidths=1,
        linecolor=PAPER,
        cbar=False,
        ax=ax,
    )
    ax.grid(False)
    ax.tick_params(left=False, bottom=False)
    middle = np.arange(len(table)) + 0.5
    turned = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
    ax.set_xticks(middle, table.columns, fontsize=9.5, **turned)
    ax.set_yticks(middle, table.index, fontsize=9.5, rotation=0)
    _name_axes(ax, "is in this list, too", "% of the pairs of", "")
    return _finished(figure, title)


def numbered_points(x, y, names, xlabel: str, ylabel: str, title: str) -> Figure:
    """Draw numbered points, whose names the legend has, on a logarithmic axis from left to right.

    x, y: (n,), x above 0. names: (n,), words. A number stands beside its point, above or below,
    where it lies on no point and on no number before it.
    """
    figure, ax = panels(height=4.2 + 0.13 * len(names))
    x, y = (np.asarray(values, float) for values in (x, y))
    ax.plot(x, y, linestyle="", marker="o", markersize=4, color=COLOURS[0])
    ax.set(xscale="log")
    if x.max() < 10 * x.min():  # hardly a power of ten would be a tick
        _written_out(ax.xaxis, (1,))
        ax.xaxis.set_major_locator(AutoLocator())
    ax.margins(x=0.08, y=0.12)
    _name_axes(ax, xlabel, ylabel, "")
    figure.suptitle(textwrap.fill(title, WIDTH))
    for number, name in enumerate(names, 1):
        ax.plot([], [], linestyle="", label=f"{number}  {name}")
    figure.legend(loc="outside lower center", ncols=3, fontsize=9, handlelength=0)
    figure.draw_without_rendering()  # or the axes would not have their limits and place yet
    places = ax.transData.transform(np.column_stack([x, y])) * 72 / figure.dpi  # in points
    taken = [Bbox.from_bounds(across - 2.5, up - 2.5, 5, 5) for across, up in places]
    for i, place in enumerate(places):
        number = str(i + 1)
        others = taken[:i] + taken[i + 1 :]
        shift, box = _free_side(place, len(number), others)
        taken.append(box)
        style = {"ha": "center", "va": "center", "fontsize": 9, "color": INK}
        style |= {"xytext": shift, "textcoords": "offset points", "path_effects": HALO}
        ax.annotate(number, (x[i], y[i]), **style)
    return figure


def _free_side(place, letters: int, others: list[Bbox]) -> tuple[tuple[float, float], Bbox]:
    """Return how far from its point the middle of a number of so many letters stands, and its box.

    All in points. Of all sides, the nearest first, that is taken whose box is the first to overlap
    no other one, else the last.
    """
    wide, high = 6.2 * letters, 10.0
    for far in (1.0, 1.6, 2.2):
        for across, up in ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1)):
            shift = far * across * (4 + wide / 2), far * up * (3.5 + high / 2)
            left, bottom = place + np.array(shift) - (wide / 2, high / 2)
            box = Bbox.from_bounds(left, bottom, wide, high)
            if not box.count_overlaps(others):
                return shift, box
    return shift, box


def priced(table, on_front, xlabel: str, title: str) -> Figure:
    """Draw perplexity against cost, each setting a mark, and join those that no other beats.

    The joined ones are numbered from the cheapest, since their names would lie over each other. Of
    two marks of nearly the same cost one has its number below and the other above. Marks at more
    than `REACH` times the least perplexity are left out, and a line says how many.

    table: a DataFrame with the columns cost, perplexity, family.
    on_front: (n,), whether no other setting is as cheap and as good.
    """
    figure, ax = panels(height=5.0)
    highest = REACH * table.perplexity.min()
    for i, (family, rows) in enumerate(table.groupby("family", sort=False)):
        style = {"color": COLOURS[i % 6], "marker": (*MARKERS, "*", "X")[i % 8], "linestyle": ""}
        ax.plot(rows.cost, rows.perplexity, label=family, **style)
    best = table[np.asarray(on_front, dtype=bool)].sort_values("cost")
    ax.plot(best.cost, best.perplexity, color=INK, linewidth=1, linestyle="--", zorder=1)
    low, high = table.cost.min(), table.cost.max()
    ax.set(xscale="log", yscale="log", xlim=(low / 1.6, high * 1.6))
    is_above, last = False, 0.0
    for number, row in enumerate(best.itertuples(), 1):
        is_above = row.cost < NEAR * last and not is_above
        last = row.cost
        ax.annotate(
            str(number),
            (row.cost, row.perplexity),
            xytext=(0, 8 if is_above else -15),
            textcoords="offset points",
            ha="center",
            fontsize=9.5,
            path_effects=HALO,
        )
    _written_out(ax.xaxis, (1, 2, 5) if high < 1_000 * low else (1,))
    _written_out(ax.yaxis, (1, 1.5, 2, 3, 5, 7))
    ax.set_ylim(table.perplexity.min() / 1.12, highest)
    if above := int((table.perplexity > highest).sum()):
        told = f"{above} setting{'s' * (above > 1)} above, up to {table.perplexity.max():,.0f}"
        ax.text(0.99, 0.97, told, transform=ax.transAxes, ha="right", va="top", fontsize=8.5)
    _name_axes(ax, xlabel, "test perplexity", "")
    return _finished(figure, title, columns=2)


def multiples(table, title: str) -> Figure:
    """Draw how many times the baseline's cost each method has, ours and published.

    table: the DataFrame of `kept_costs.ratios`.
    """
    figure, ax = panels(height=2.0 + 0.34 * len(table))
    places = np.arange(len(table))
    ax.axvline(1, color=INK, linewidth=0.9)
    reach = [table.ratio - table.low, table.high - table.ratio]
    ours = {"fmt": MARKERS[0], "capsize": 4, "color": COLOURS[0], "label": "ours"}
    ax.errorbar(table.ratio, places, xerr=np.array(reach), **ours)
    ax.scatter(table.published, places, 40, marker="D", label="published, on a GPU", **RING)
    _name_rows(ax, table.method)
    _name_axes(ax, "times the softmax", "", "")
    return _finished(figure, title, columns=2)


def grids(cells, title: str) -> Figure:
    """Draw Press' rank and test perplexity over a grid of c and k, a cell a model.

    cells: the DataFrame of `ranks.grid`; a cell without a run stays white.
    """
    figure, axes = panels(columns=2, height=4.2)
    for ax, column in zip(axes, ("rank", "perplexity"), strict=True):
        table = cells.pivot_table(index="k", columns="c", values=column, dropna=False)
        seaborn.heatmap(
            table.iloc[::-1],
            annot=True,
            fmt=".0f" if column == "rank" else ".1f",
            annot_kws={"fontsize": 7},
            cmap=seaborn.light_palette(COLOURS[0], as_cmap=True),
            cbar=False,
            linewidths=1,
            linecolor=PAPER,
            ax=ax,
        )
        ax.grid(False)
        ax.tick_params(left=False, bottom=False, labelsize=9)
        ax.tick_params(axis="x", rotation=0)
        ax.tick_params(axis="y", rotation=0)
        _name_axes(ax, "c", "k", "Press' rank" if column == "rank" else "test perplexity")
    return _finished(figure, title)


def kinds(table, title: str) -> Figure:
    """Draw ρ of each list by kind of matrix with its interval, and what the cosine owes frequency.

    table: the DataFrame of `similarities.by_kind`.
    """
    lists = list(dict.fromkeys(table.index.get_level_values("list")))
    figure, (left, right) = panels(columns=2, height=2.0 + 0.34 * len(lists), sharey=True)
    for ax in (left, right):
        ax.axvline(0, color=INK, linewidth=0.9)
    for i, kind in enumerate(dict.fromkeys(table.index.get_level_values("kind"))):
        rows = table.xs(kind, level="kind").loc[lists]
        places = np.arange(len(lists)) + 0.22 * (i - 1)
        style = {"color": COLOURS[i], "marker": MARKERS[i], "linestyle": "", "markersize": 5}
        reach = np.array([rows.rho - rows.low, rows.high - rows.rho])
        left.errorbar(rows.rho, places, xerr=reach, capsize=2, label=kind, **style)
        right.plot(rows.frequency, places, **style)
    _name_rows(left, lists, fontsize=9)
    _name_axes(left, "ρ with the judgements", "", "")
    _name_axes(right, "ρ of cosine and frequency", "", "")
    return _finished(figure, title, columns=3)
