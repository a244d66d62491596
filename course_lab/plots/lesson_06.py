"""The figures of lesson 6 and of the notebook that goes deeper."""

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Circle

from course_lab.plots.figures import (
    against_frequency,
    groups_of_points,
    lines,
)
from course_lab.plots.style import COLOURS, INK, MEANING, panels
from course_lib.metrics import geometry, subspaces


def pushes_on_a_circle(clouds) -> Figure:
    """Draw directions on a circle, their mean m, and the push of the cosine penalty on each.

    clouds: {title: unit vectors (n, 2)}. Where m is 0 there is no push.
    """
    figure, axes = panels(1, len(clouds), height=2.8)
    arrow = {"angles": "xy", "scale_units": "xy", "scale": 1, "width": 0.016}
    for ax, (title, dots) in zip(axes, clouds.items(), strict=True):
        dots = np.asarray(dots)
        m = dots.mean(0)
        ax.add_patch(Circle((0, 0), 1, fill=False, color=INK, lw=0.8))
        if np.linalg.norm(m) > 0.01:
            across = m - (dots @ m)[:, None] * dots  # the part of m at right angles to each
            ax.quiver(*dots.T, *(-0.8 * across).T, **arrow, color=COLOURS[MEANING["remedy"]])
            ax.quiver(0, 0, *m, **arrow, color=INK)
            ax.annotate("m", 0.5 * m + (0.12, -0.22))
        else:
            ax.annotate("m = 0", (0.1, -0.22))
        ax.plot(*dots.T, "o", color=COLOURS[MEANING["rare"]])
        ax.plot(0, 0, "+", color=INK, ms=12)
        ax.set(title=title, xlim=(-1.35, 1.35), ylim=(-1.35, 1.35), aspect=1)
        ax.axis("off")
    return figure


def cosines_over_training(snapshots, groups) -> Figure:
    """Draw the mean cosine of groups of words over training, a panel each, a curve for each model.

    snapshots: {model: {step: word matrix (N, d)}}.
    groups: {group: rows of the matrix}.
    """
    figure, axes = panels(1, len(groups), height=3.7, sharey=True)
    for ax, (group, ids) in zip(axes, groups.items(), strict=True):
        curves = {
            model: (list(taken), [geometry.mean_cosine(W[ids]) for W in taken.values()])
            for model, taken in snapshots.items()
        }
        lines(curves, "training step", "mean cosine", title=f"{group} words", ax=ax)
        ax.legend_.remove()
        ax.locator_params(axis="x", nbins=5)
    axes[-1].set_ylabel("")
    axes[-1].legend(loc="upper left")
    return figure


def stacked_clouds(matrices, groups) -> Figure:
    """Draw the clouds of several models, each on its own plane, below each other on one scale.

    matrices: {model: word matrix (N, d)}.
    groups: {group: rows}, the rare words and the frequent ones; the others lie between.
    """
    low, high = groups.values()
    number = np.ones(len(next(iter(matrices.values()))), int)
    number[low], number[high] = 0, 2
    first, last = groups
    figure, axes = panels(len(matrices), 1, height=2.5, sharex=True, sharey=True)
    for ax, (model, W) in zip(axes, matrices.items(), strict=True):
        names = [first, "between", last]
        groups_of_points(subspaces.project(W).points, number, names, model, ax)
        ax.set(xlabel="", aspect="equal", adjustable="box")
        ax.legend_.remove()
    axes[-1].set_xlabel("first singular direction")
    marks, labels = axes[0].get_legend_handles_labels()
    figure.legend(marks, labels, loc="outside lower center", ncols=3, markerscale=2)
    return figure


def spectra_twice(spectra) -> Figure:
    """Draw singular values divided by their largest, and beside them undivided.

    spectra: {name: singular values, falling}, of the same number.
    """
    figure, (left, right) = panels(1, 2, height=4.0)
    scaled = {name: values / values[0] for name, values in spectra.items()}
    lines(scaled, "k", "σₖ / σ₁", "y", "as the paper draws them", left)
    lines(spectra, "k", "σₖ", "y", "undivided", right)
    many = len(next(iter(spectra.values())))
    for ax in (left, right):
        ax.legend_.remove()
        ax.set_xticks([1, *(many * quarter // 4 for quarter in (1, 2, 3, 4))])
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def swept(cosines, changes, setting: str) -> Figure:
    """Draw mean cosines of groups of words over a setting, and each seed's change of perplexity.

    cosines: {group: means (n,)}.
    changes: a table in per cent, a row for each seed, and a column for each of the n settings.
    """
    figure, (left, right) = panels(1, 2, height=3.9)
    places = np.arange(len(changes.columns))
    curves = {group: (places, np.asarray(means)) for group, means in cosines.items()}
    lines(curves, setting, "mean cosine", ax=left)
    left.set_ylim(top=1.1)  # room for the legend above the curves
    seed = {"color": COLOURS[MEANING["remedy"]], "lw": 1, "alpha": 0.6, "marker": "o"}
    for row in changes.to_numpy():
        right.plot(places, row, **seed, linestyle="-")
    right.plot([], [], **seed, linestyle="-", label="a seed")
    right.plot(places, changes.mean(), "s--", color=INK, label="mean")
    right.axhline(0, color=INK, lw=1)
    right.legend(loc="lower left")
    right.set(xlabel=setting, ylabel="change of test perplexity, %")
    for ax in (left, right):
        ax.set_xticks(places, [f"{value:g}" for value in changes.columns])
    return figure


def frequency_ranks(counts, rare: float = 1e-4) -> Figure:
    """Draw the share of the tokens against rank for several vocabularies (gao2019, Figure 3).

    counts: {vocabulary: (N,)}, how often each of its words comes.
    rare: the share below which a word is rare, drawn as a dotted line.
    """
    curves = {}
    for name, seen in counts.items():
        share = np.sort(np.asarray(seen, float))[::-1] / np.sum(seen)
        share = share[share > 0]
        curves[f"{len(seen):,} {name}"] = (np.arange(1, len(share) + 1), share)
    figure = lines(curves, "rank (1 = most frequent)", "share of the tokens", "xy")
    for curve in figure.axes[0].lines:
        curve.set_marker("")
    figure.axes[0].axhline(rare, color=INK, linestyle=":", label=f"rare below {rare:g}")
    figure.axes[0].legend(loc="lower left")
    return figure


def shares_of_a_difference(parts, ylabel: str) -> Figure:
    """Draw how much each group of tokens adds to a difference, with numbers at the bars.

    parts: {title: {group: number}}, two of them.
    """
    figure, axes = panels(1, len(parts), height=3.9, sharey=True)
    for ax, (title, numbers) in zip(axes, parts.items(), strict=True):
        bars = ax.bar(list(numbers), list(numbers.values()), color=COLOURS[MEANING["remedy"]])
        ax.bar_label(bars, fmt="{:+.3f}", padding=2, fontsize=10)
        ax.axhline(0, color=INK, lw=1)
        ax.margins(y=0.12)
        ax.set(xlabel="occurrences in training", title=title)
        ax.tick_params(axis="x", labelsize=9)
    axes[0].set_ylabel(ylabel)
    return figure


def ratio_against_frequency(ratio, counts, ylabel: str) -> Figure:
    """Draw a ratio for each word on a logarithmic axis against how often the word comes."""
    figure = against_frequency(ratio, counts, ylabel)
    ax = figure.axes[0]
    ax.set_yscale("log")
    ax.axhline(1, color=INK, lw=1)
    above = {"xytext": (0, 3), "textcoords": "offset points", "ha": "right"}
    ax.annotate("equally long", (0.99, 1), xycoords=("axes fraction", "data"), **above)
    return figure
