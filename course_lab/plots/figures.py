"""The figures that the lessons share, drawn by seaborn in the house style.

Every function takes plain arrays, draws on `ax` or on a figure of its own, and returns the figure.
"""

import textwrap

import numpy as np
import pandas as pd
import seaborn
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, StrMethodFormatter

from course_lab.plots.style import (
    COLOURS,
    FREQUENCY,
    HALO,
    INK,
    LINES,
    LOST_WON,
    PAPER,
    colours,
    curve_style,
    panels,
)
from course_lab.statistics import mean_interval
from course_lib.errors import CourseError

POINTS = {1: "o", 3: "s", 0: "^", 2: "D", 4: "v", 5: "P"}  # rare, between, frequent; then others
SHOWN = 30  # states of a class
MARKED = 16  # points of a curve that all have their marks
LETTER = 0.105  # inches that a letter of a tick label takes, about


def lines(series, xlabel: str, ylabel: str, log: str = "", title: str = "", ax=None) -> Figure:
    """Draw curves with distinct styles and markers: training curves, sweeps, spectra.

    series: {name: y, or (x, y)}. y (n,) is one curve; y (seeds, n) is drawn as the mean over the
    seeds with its 95 % interval. x (n,) counts from 1 where it is not given. A single curve has a
    gap where y is NaN or infinite.
    xlabel, ylabel, title: words, with units.
    log: "x", "y" or "xy" for logarithmic axes.
    """
    own = ax is None
    if own:
        ax = panels(height=4.4 if len(series) > 3 else 3.9)[1]

    # the curves
    inks = colours(series)
    for i, (name, values) in enumerate(series.items()):
        x, y = values if isinstance(values, tuple) else (None, values)
        y = np.atleast_2d(np.asarray(y, dtype=float))
        x = np.arange(1, y.shape[1] + 1) if x is None else np.asarray(x)
        every = 1 if y.shape[1] <= MARKED else 0.12  # all points, or a share of the axes' diagonal
        style = curve_style(i) | {"markevery": every, "label": name}
        style |= {"color": inks[i], "markeredgecolor": inks[i]}
        if len(y) == 1:  # seaborn would join the neighbours of a point that is missing
            ax.plot(x, np.where(np.isfinite(y[0]), y[0], np.nan), **style)
            continue
        points = {"x": np.tile(x, len(y)), "y": y.ravel()}
        seaborn.lineplot(**points, errorbar=_interval, sort=False, legend=False, **style, ax=ax)
    _name_axes(ax, xlabel, ylabel, title)

    # the axes: no half epochs, and numbers that can be read on a logarithmic axis
    if "x" in log:
        ax.set_xscale("log")
    elif all(float(x).is_integer() for line in ax.lines for x in line.get_xdata()):
        ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    if "y" in log:
        ax.set_yscale("log")
        low, high = ax.get_ylim()
        if high < 10 * low:  # no power of ten to label: plain numbers between
            ax.yaxis.set_major_locator(LogLocator(subs=(1, 1.5, 2, 3, 5, 7)))
            ax.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
            ax.yaxis.set_minor_formatter(NullFormatter())

    # the legend, below the axes where it would cover curves
    if own and len(series) > 3:
        ax.figure.legend(loc="outside lower center", ncols=2)
    elif len(series) > 1:
        ax.legend()
    return ax.figure


def learning_curve(epochs, ylabel: str = "perplexity") -> Figure:
    """Draw the training and validation perplexity of a result's `epochs`.

    epochs: a list of {"epoch": …, "train_perplexity": …, "valid_perplexity": …}.
    """
    at = [epoch["epoch"] for epoch in epochs]
    keys = {"training": "train_perplexity", "validation": "valid_perplexity"}
    curves = {name: (at, [epoch[key] for epoch in epochs]) for name, key in keys.items()}
    return lines(curves, "epoch", ylabel, log="y")


def singular_values(curves, ax=None, title: str = "") -> Figure:
    """Draw spectra on one scale, so that matrices of different sizes share a picture.

    The singular values are divided by their largest and drawn against k / number of values
    (gao2019, Figures 1 and 2).

    curves: {name: singular values, falling}.
    """
    curves = {
        name: (np.arange(1, len(values) + 1) / len(values), np.asarray(values) / max(values))
        for name, values in curves.items()
    }
    return lines(curves, "rank of the singular value / d", "σₖ / σ₁", "y", title, ax)


def seeds(groups, intervals, xlabel: str, ylabel: str, title: str = "", ax=None) -> Figure:
    """Draw every seed of every setting, and the settings' means with their intervals.

    Settings that are numbers stand at their place on the axis, and a line joins their means. Other
    settings stand side by side, the seeds a little left of the mean.

    groups: {setting: values over seeds}.
    intervals: {setting: (mean, low, high, …)}; no bar is drawn where low and high are equal.
    """
    ax = ax or panels()[1]
    numbers = all(isinstance(setting, int | float) for setting in groups)
    places = np.array(list(groups) if numbers else range(len(groups)), dtype=float)
    aside = 0.0 if numbers else 0.09

    # the means above the seeds
    mean, low, high = np.array([tuple(intervals[setting])[:3] for setting in groups]).T
    reach = np.where(high > low, (mean - low, high - mean), np.nan)  # of one seed there is no bar
    ax.errorbar(
        places + aside,
        mean,
        yerr=reach,
        fmt="s--" if numbers else "s",
        capsize=6,
        color=COLOURS[1],
        label="mean and interval",
    )
    seaborn.scatterplot(
        x=np.repeat(places - aside, [len(values) for values in groups.values()]),
        y=np.concatenate([np.asarray(values, dtype=float) for values in groups.values()]),
        color=COLOURS[0],
        edgecolor=PAPER,
        linewidth=0.5,
        s=36,
        alpha=0.7,
        label="a seed",
        legend=False,
        ax=ax,
    )

    # the axes
    if not numbers:
        _name_places(ax, list(groups))
    _name_axes(ax, xlabel, ylabel, title)
    ax.legend()
    return ax.figure


def differences(table, margin: float, title: str = "") -> Figure:
    """Draw each model's difference from the baseline, in per cent, with its interval.

    table: the DataFrame of `comparison.compare`; models without a difference are left out.
    margin: the difference that would not matter, drawn as a band around 0.
    Raises CourseError where no model has a difference.
    """
    rows = table[table["difference"].notna()]
    if rows.empty:
        raise CourseError("no model has a difference to draw: two seeds in common are needed")
    ax = panels(height=2.2 + 0.45 * len(rows))[1]
    ax.axvspan(-margin, margin, color=COLOURS[0], alpha=0.12, label=f"within {margin:g} %")
    ax.axvline(0, color=INK, linewidth=0.8)
    middle = rows["difference"].to_numpy(float)
    reach = (middle - rows["difference low"], rows["difference high"] - middle)
    ax.errorbar(
        middle,
        np.arange(len(rows)),
        xerr=np.array(reach, dtype=float),
        fmt="s",
        capsize=5,
        color=COLOURS[1],
        label="mean and interval",
    )
    equal = rows["pairs"].nunique() == 1
    names = [
        textwrap.fill(name if equal else f"{name} ({n:.0f}\u00a0pairs)", 28)
        for name, n in zip(map(str, rows.index), rows["pairs"], strict=True)
    ]
    ax.set_yticks(np.arange(len(rows)), names)
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.margins(x=0.12)  # the number of the outermost tick would be cut off
    baseline = ", ".join(table.index[table["verdict"] == "baseline"])
    each = f"\n({rows['pairs'].iloc[0]:.0f} pairs each)" if equal else ""
    figure = "BLEU" if "BLEU" in table else "perplexity"
    _name_axes(ax, f"{figure} against {baseline}, %{each}", "", "")
    figure = ax.figure
    figure.suptitle(textwrap.fill(title, 56))
    figure.legend(loc="outside lower center", ncols=2)
    figure.set_layout_engine("constrained")
    return figure


def wins(table, benchmarks: int, title: str = "", ax=None) -> Figure:
    """Draw how often the model of a row beats that of a column: a number and a shade a cell.

    White stands for half of the benchmarks, one hue for more, the other for fewer (parthiban2021,
    Figure 4).

    table: the DataFrame of `statistics.wins`.
    benchmarks: how many there are.
    """
    ax = ax or panels(height=4.6)[1]
    seaborn.heatmap(
        table,
        mask=np.eye(len(table), dtype=bool),
        annot=True,
        fmt="g",
        annot_kws={"color": INK},
        cmap=LOST_WON,
        vmin=0,
        vmax=benchmarks,
        square=True,
        linewidths=1.5,
        linecolor=PAPER,
        cbar=False,
        ax=ax,
    )
    ax.set_xticks(*_ticks(ax.xaxis), rotation=45, ha="right", rotation_mode="anchor")
    ax.set_yticks(*_ticks(ax.yaxis), rotation=0)
    ax.grid(False)
    _name_axes(ax, "against", "wins of", title)
    return ax.figure


def cloud(points, share=None, words=None, title: str = "", ax=None) -> Figure:
    """Draw a cloud of word vectors in the plane, with the origin marked.

    points: (n, 2).
    share: (n,), each word's share of the tokens, which colours its point; frequent words are drawn
    last and larger, words never seen in the colour of half the smallest share.
    words: {row: name} to be written beside points.
    """
    ax = ax or panels(height=4.4)[1]
    points = np.asarray(points)
    if share is None:
        _scatter(points, ax, s=9, color=COLOURS[0], alpha=0.6)
    else:
        share = np.asarray(share, dtype=float)
        level = np.log10(np.where(share > 0, share, share[share > 0].min() / 2))
        order = np.argsort(level, kind="stable")
        size = np.interp(level[order], [-4, -2], [7, 30])
        _scatter(points[order], ax, c=level[order], s=size, cmap=FREQUENCY, alpha=0.75)
        label = "log₁₀ of the word's frequency"
        ax.figure.colorbar(ax.collections[-1], ax=ax, label=label, pad=0.02)
    origin(ax)
    for row, name in (words or {}).items():
        ax.annotate(
            name,
            points[row],
            xytext=(4, 3),
            textcoords="offset points",
            fontsize=11,
            zorder=6,
            path_effects=HALO,
        )
    _name_axes(ax, "first singular direction", "second", title)
    return ax.figure


def groups_of_points(points, group, names, title: str = "", ax=None) -> Figure:
    """Draw points (n, 2) with a colour and a marker for each group (n,), and the origin.

    group: numbers 0 … len(names) − 1, drawn in that order.
    """
    ax = ax or panels(height=4.4)[1]
    points = np.asarray(points)
    group = np.asarray(group)
    for i, (name, colour) in enumerate(zip(names, colours(names), strict=True)):
        style = {"s": 13, "color": colour, "marker": POINTS[COLOURS.index(colour)], "alpha": 0.7}
        _scatter(points[group == i], ax, label=name, **style)
    origin(ax)
    _name_axes(ax, "first singular direction", "second", title)
    ax.legend(loc="best", markerscale=1.8, handletextpad=0.2)
    return ax.figure


def cosine_histogram(groups, ax=None, title: str = "") -> Figure:
    """Draw the densities of cosines over [−1, 1]: an outline for each group, lightly filled.

    groups: {name: cosines}.
    """
    ax = ax or panels()[1]
    inks = colours(groups)
    for i, (name, cosines) in enumerate(groups.items()):
        seaborn.histplot(
            x=np.asarray(cosines, dtype=float),
            bins=np.linspace(-1, 1, 81),
            stat="density",
            element="step",
            alpha=0.15,
            color=inks[i],
            linestyle=LINES[i],
            linewidth=2,
            label=name,
            ax=ax,
        )
    ax.axvline(0, color=INK, linewidth=1)
    ax.set_xlim(-1, 1)
    _name_axes(ax, "cosine of two word vectors", "density", title)
    ax.legend(loc="upper left")
    return ax.figure


def frequency_rank(counts, rare: float = 1e-4, title: str = "", ax=None) -> Figure:
    """Draw each word's share of the tokens against its rank, both logarithmic (Zipf).

    A dashed line is the law 1 / rank through the tenth word, a dotted one the share `rare` below
    which gao2019 calls a word rare.

    counts: (N,), how often each word comes; words that never come are left out.
    """
    ax = ax or panels()[1]
    counts = np.asarray(counts, dtype=float)
    share = np.sort(counts)[::-1] / counts.sum()
    share = share[share > 0]
    rank = np.arange(1, len(share) + 1)
    tenth = min(10, len(share))
    law = share[tenth - 1] * tenth / rank
    for i, (name, y) in enumerate({"words of the corpus": share, "1 / rank": law}.items()):
        style = curve_style(i) | {"marker": None, "label": name, "legend": False}
        seaborn.lineplot(x=rank, y=y, estimator=None, sort=False, **style, ax=ax)
    ax.axhline(rare, color=INK, linestyle=":", linewidth=1.4, label=f"rare below {rare:g}")
    ax.set(xscale="log", yscale="log")
    _name_axes(ax, "rank of the word (1 = most frequent)", "share of the tokens", title)
    ax.legend(loc="lower left")
    return ax.figure


def against_frequency(values, counts, ylabel: str, title: str = "", ax=None) -> Figure:
    """Draw a dot for each word, and the medians in bins of equal width in log count.

    values: (N,), a number for each word.
    counts: (N,), how often each word comes in training; words that never come are left out.
    """
    ax = ax or panels()[1]
    words = pd.DataFrame({"count": np.asarray(counts), "value": np.asarray(values)})
    words = words[words["count"] > 0]
    edges = np.geomspace(1, words["count"].max() + 1, 13)
    bins = words.groupby(np.digitize(words["count"], edges))
    median = bins.median()[bins.size() > 2]
    _scatter(words.to_numpy(), ax, s=8, color=COLOURS[5], alpha=0.25)
    seaborn.lineplot(
        x=median["count"],
        y=median["value"],
        estimator=None,
        color=COLOURS[1],
        linestyle="-",
        marker="s",
        markeredgecolor=COLOURS[1],
        label="median",
        legend=False,
        ax=ax,
    )
    ax.set_xscale("log")
    _name_axes(ax, "occurrences in training", ylabel, title)
    ax.legend()
    return ax.figure


def states_and_classes(states, labels, classes, title: str = "", ax=None) -> Figure:
    """Draw hidden states as the numerals of their labels, class vectors as numbered arrows.

    Of a class with many states the first SHOWN are drawn, since more would be a heap of ink. The
    longest class vector is drawn as long as the longest state, so the axes have no numbers.

    states: (n, 2).
    labels: (n,), numbers 0 … C − 1.
    classes: (C, 2).
    """
    ax = ax or panels(height=4.4)[1]
    states, labels, classes = (np.asarray(part) for part in (states, labels, classes))
    longest, longest_class = (np.linalg.norm(part, axis=1).max() for part in (states, classes))
    tips = classes * longest / max(longest_class, 1e-12)
    spots = _apart(1.1 * tips, 0.18 * longest)
    for number, (tip, spot) in enumerate(zip(tips, spots, strict=True)):
        ax.plot(
            *states[labels == number][:SHOWN].T,
            marker=f"${number}$",
            markersize=6.5,
            linestyle="",
            color=COLOURS[number % 5],
            alpha=0.5,
            markeredgewidth=0,
        )
        ax.plot(*(1.2 * tip), alpha=0)  # an annotation alone does not widen the view
        ax.annotate("", tip, (0, 0), arrowprops={"arrowstyle": "-|>", "color": INK, "lw": 1.2})
        middle = {"ha": "center", "va": "center", "fontweight": "bold"}
        ax.annotate(str(number), spot, **middle, zorder=5, path_effects=HALO)
    origin(ax)
    ax.set(xticklabels=[], yticklabels=[])  # arrows and states have different units
    _name_axes(ax, "first singular direction", "second", title)
    return ax.figure


def arrows(vectors, names, ax) -> None:
    """Draw vectors (n, 2) as lines from the origin with the styles that `lines` gives, named."""
    for i, (vector, name) in enumerate(zip(np.asarray(vectors), names, strict=True)):
        style = curve_style(i)
        marker = style.pop("marker")
        ax.plot(*np.stack([0 * vector, vector], axis=1), **style)
        ax.plot(*vector, marker=marker, markersize=8, color=style["color"])
        right, up = vector > 0
        ax.annotate(
            name,
            vector,
            xytext=(0, 9 if up else -9),
            textcoords="offset points",
            ha="left" if right else "right",
            va="bottom" if up else "top",
        )
    ax.margins(0.18)  # room for the names


def origin(ax) -> None:
    """Mark the origin and give both axes the same scale."""
    ax.plot(0, 0, "+", color=INK, markersize=16, markeredgewidth=2, zorder=5)
    ax.annotate(
        "origin",
        (0, 0),
        (7, -14),
        textcoords="offset points",
        fontsize=10.5,
        color=INK,
        zorder=5,
        path_effects=HALO,
    )
    ax.set_aspect("equal", adjustable="datalim")
    ax.locator_params(nbins=5)


def _scatter(points, ax, **style) -> None:
    """Draw points (n, 2) without outlines; a NaN point is left out with its size and colour."""
    ax.scatter(*points.T, linewidths=0, **style)


def _interval(values) -> tuple[float, float]:
    """Return the ends of the interval of the mean, for seaborn's error bars."""
    mean = mean_interval(values)
    return mean.low, mean.high


def _name_axes(ax, xlabel: str, ylabel: str, title: str) -> None:
    """Set the words of the axes; seaborn hides the labels of axes that share their ticks.

    A title has several lines where it is wider than the axes.
    """
    room = ax.get_position(original=True).width * ax.figure.get_figwidth() / LETTER
    title = "\n".join(textwrap.fill(line, max(int(room), 20)) for line in title.split("\n"))
    ax.set(xlabel=xlabel, ylabel=ylabel, title=title)
    ax.xaxis.label.set_visible(True)
    ax.yaxis.label.set_visible(True)


def _name_places(ax, names: list) -> None:
    """Put names at 0, 1, … of the x axis, turned where they would run into each other."""
    width = ax.get_position().width * ax.figure.get_figwidth() / len(names)
    longest = max(len(row) for name in names for row in str(name).split("\n"))
    turned = {"rotation": 25, "ha": "right", "rotation_mode": "anchor"}
    ax.set_xticks(range(len(names)), names, **(turned if LETTER * longest > width else {}))
    ax.set_xlim(-0.6, len(names) - 0.4)


def _ticks(axis) -> tuple[list, list]:
    """Return the places of an axis' ticks and their words."""
    return list(axis.get_ticklocs()), [label.get_text() for label in axis.get_ticklabels()]


def _apart(spots, gap: float) -> list:
    """Return spots (n, 2) for labels, moved so that none lies nearer than `gap` to an earlier one.

    A spot moves across its own direction, to the side where more room is.
    """
    placed = []
    for spot in spots:
        if placed and min(np.linalg.norm(spot - other) for other in placed) < gap:
            across = gap * np.array([-spot[1], spot[0]]) / max(np.linalg.norm(spot), 1e-12)
            sides = (spot + across, spot - across)
            spot = max(sides, key=lambda s: min(np.linalg.norm(s - other) for other in placed))
        placed.append(spot)
    return placed
