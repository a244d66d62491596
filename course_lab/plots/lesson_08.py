"""The figures of lesson 8 and of the notebook that goes deeper."""

import numpy as np
from matplotlib.figure import Figure

from course_lab.plots.figures import (
    cosine_histogram,
    groups_of_points,
    singular_values,
)
from course_lab.plots.style import (
    COLOURS,
    HALO,
    INK,
    colours,
    curve_style,
    panels,
)
from course_lab.statistics import mean_of_known


def stretched_and_turned(round_cloud, stages) -> Figure:
    """Draw a cloud, and what a stretch and a turn make of it, with the two axes as arrows.

    round_cloud: (n, 2).
    stages: {title: (stretch, turn)}, both (2, 2); a point x becomes turn · stretch · x.
    """
    figure, axes = panels(1, len(stages), height=3.0, sharex=True, sharey=True)
    for ax, (title, (stretch, turn)) in zip(axes, stages.items(), strict=True):
        ax.plot(*(round_cloud @ stretch @ turn.T).T, ".", ms=3, alpha=0.4, color=COLOURS[0])
        for k, name in enumerate(("σ₁", "σ₂")):
            tip = 2 * stretch[k, k] * turn[:, k]
            ax.annotate("", tip, (0, 0), arrowprops={"arrowstyle": "-|>", "lw": 2, "color": INK})
            place = tip + 0.9 * turn[:, k]
            name = "1" if stretch[k, k] == 1 else name
            middle = {"ha": "center", "va": "center", "path_effects": HALO}
            ax.annotate(name, place, **middle)
        ax.set(title=title, xlim=(-5, 5), ylim=(-5, 5), aspect="equal", xlabel="first coordinate")
    axes[0].set_ylabel("second")
    return figure


def share_under_ceiling(curves) -> Figure:
    """Draw the share that all words have in common, over training, and the ceiling above it.

    curves: {model: (steps, shares, ceilings)}; each curve has its name at its end.
    """
    figure, ax = panels(height=4.2)
    for ink, (model, (steps, *both)) in zip(colours(curves), curves.items(), strict=True):
        names = {"share s": ("-", "o"), "ceiling 1/r": ("--", None)}
        for values, (name, (dashes, marker)) in zip(both, names.items(), strict=True):
            ax.plot(steps, values, linestyle=dashes, marker=marker, color=ink)
            beside = {"xytext": (7, 0), "textcoords": "offset points", "va": "center"}
            ax.annotate(f"{name}, {model}", (steps[-1], values[-1]), color=ink, **beside)
    ax.set(xscale="log", yscale="log", xlabel="training step", ylabel="share of the cloud")
    return figure


def two_clouds(clouds, group, names, values, cosines) -> Figure:
    """Draw the clouds of two matrices with their words in groups, all spectra, and all cosines.

    clouds: {matrix: points (N, 2)}, two of them.
    group: (N,), the group of a word, a number that counts `names`.
    values: {matrix: singular values, falling}.
    cosines: {matrix: cosines of pairs of words}.
    """
    figure, grid = panels(2, 2, height=3.7)
    for ax, (title, points) in zip(grid[0], clouds.items(), strict=True):
        groups_of_points(points, group, names, title, ax)
        ax.locator_params(axis="x", nbins=4)
    of_words = grid[0, 0].get_legend_handles_labels()
    for ax in grid[0]:
        ax.legend_.remove()
    figure.legend(*of_words, loc="outside upper center", ncols=3, markerscale=1.8)
    singular_values(values, grid[1, 0], "singular values")
    cosine_histogram(cosines, grid[1, 1], "pairs of words")
    return figure


def seeds_by_row(measures) -> Figure:
    """Draw settings one below the other: every seed, the mean and its interval.

    measures: {measure: {setting: values over seeds}}, a panel each, one below the other.
    """
    most = max(map(len, measures.values()))
    figure, axes = panels(len(measures), 1, height=1.0 + 0.33 * most, squeeze=False)
    for ax, (measure, groups) in zip(axes[:, 0], measures.items(), strict=True):
        for place, values in enumerate(groups.values()):
            told = mean_of_known(values)
            reach = [[told.mean - told.low], [told.high - told.mean]]
            style = {"fmt": "s", "capsize": 4, "color": COLOURS[1]}
            ax.errorbar(told.mean, place, xerr=reach, label="mean and interval", **style)
            ax.plot(values, [place] * len(values), "o", color=COLOURS[0], alpha=0.7, label="a seed")
        ax.set_yticks(range(len(groups)), list(groups))
        ax.set(xlabel=measure, ylim=(len(groups) - 0.5, -0.5))
    handles, labels = axes[0, 0].get_legend_handles_labels()
    names = dict(zip(labels, handles, strict=True))  # each name once
    figure.legend(names.values(), names, loc="outside lower center", ncols=2)
    return figure


def where_penalties_lead(spectra, least: float = 1e-3) -> Figure:
    """Draw spectra over their largest value, each with its name where it leaves the picture.

    spectra: {penalty: singular values, falling}.
    least: the lower end of the axis.
    """
    figure, ax = panels(height=4.4)
    for i, (name, values) in enumerate(spectra.items()):
        heights = np.asarray(values) / max(values)
        shown = heights > least
        k = np.arange(1, len(heights) + 1)[shown]
        ax.plot(k, heights[shown], **curve_style(i) | {"marker": None})
        beside = {"xytext": (7, 0), "textcoords": "offset points", "va": "center"}
        ax.annotate(name, (k[-1], heights[shown][-1]), color=COLOURS[i], **beside)
    ax.set(yscale="log", ylim=(least, 1.5), xlabel="k", ylabel="σₖ / σ₁")
    return figure
