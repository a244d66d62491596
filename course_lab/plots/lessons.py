"""Whole figures of single lessons, one call each, made of the shared ones."""

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Circle
from scipy.spatial import ConvexHull

from course_lab.plots.figures import (
    against_frequency,
    arrows,
    cloud,
    cosine_histogram,
    groups_of_points,
    lines,
    origin,
    singular_values,
    states_and_classes,
)
from course_lab.plots.interactive import collapse_animation
from course_lab.plots.style import COLOURS, HALO, INK, MEANING, PAPER, Animation, panels
from course_lib.metrics import geometry, subspaces


def toy_layer(vectors, names, degrees, probabilities) -> Figure:
    """Draw a layer of a few words in the plane, and who wins while the context turns.

    vectors: (n, 2), with a name each.
    degrees: (A,), the angles of the context.
    probabilities: (A, n). Each curve has its word's name at its highest point.
    """
    figure, (left, right) = panels(1, 2, height=4.0)
    arrows(vectors, names, left)
    left.set(xlabel="first number", ylabel="second number", title="five word vectors")
    reach = 1.55 * np.abs(np.asarray(vectors)).max()
    left.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect=1)
    probabilities = np.asarray(probabilities)
    curves = {name: (degrees, probabilities[:, i]) for i, name in enumerate(names)}
    lines(curves, "angle of the context (°)", "probability", ax=right, title="who wins where")
    right.legend_.remove()
    right.set(xticks=range(0, 361, 90), ylim=(-0.03, 1.12))
    for i, name in enumerate(names):
        highest = int(probabilities[:, i].argmax())
        at = (degrees[highest], probabilities[highest, i])
        style = {"color": COLOURS[i], "ha": "center", "fontsize": 11.5, "path_effects": HALO}
        right.annotate(name, at, (0, 5), textcoords="offset points", **style)
    return figure


def cloud_and_cosines(points, share, words, cosines) -> Figure:
    """Draw a cloud of words coloured by frequency, and beside it the cosines of pairs of words.

    points: (N, 2), with a share of the tokens each.
    words: {row: name} to be written beside points.
    cosines: {group: cosines of its pairs}.
    """
    figure, (left, right) = panels(1, 2, height=4.2)
    cloud(points, share, words, "word vectors after training", left)
    cosine_histogram(cosines, right, "pairs of words after training")
    return figure


def several_against_frequency(measures, counts) -> Figure:
    """Draw measures of the words, one a panel, against how often the words come.

    measures: {name: values (N,)}, two of them.
    """
    figure, axes = panels(1, len(measures), height=3.9)
    for ax, (name, values) in zip(axes, measures.items(), strict=True):
        against_frequency(values, counts, name, ax=ax)
    return figure


def three_matrices(clouds, classifier, values) -> Figure:
    """Draw two clouds of words, a classifier, and the singular values of all matrices.

    clouds: {name: points (n, 2)}, two of them.
    classifier: states (n, 2), their labels and the classes (C, 2).
    values: {name: singular values, falling}.
    """
    figure, grid = panels(2, 2, height=3.9)
    for ax, (title, points) in zip(grid[0], clouds.items(), strict=True):
        cloud(points, title=title, ax=ax)
    states, labels, classes = classifier
    states_and_classes(states, labels, classes, "classifier", grid[1, 0])
    singular_values(values, grid[1, 1], "singular values")
    grid[1, 1].legend(fontsize=9.5, loc=(0.3, 0.13), labelspacing=0.2)
    return figure


def hull_and_loss(plane, direction, losses) -> Figure:
    """Draw contexts with their hull and the wedge of negative directions, and losses beside them.

    plane: (M, 2), contexts.
    direction: (2,), a uniformly negative direction, drawn as the arrow v.
    losses: {way: (lengths, losses)}.
    """
    figure, (left, right) = panels(1, 2, height=4.2)
    plane = np.asarray(plane)
    v = np.asarray(direction)
    angles = np.linspace(0, 2 * np.pi, 721)
    circle = np.stack([np.cos(angles), np.sin(angles)], 1)
    negative = circle[(circle @ plane.T < 0).all(1)]
    left.fill(*plane[ConvexHull(plane).vertices].T, alpha=0.25, color=COLOURS[0])
    left.plot(*plane.T, "o", color=COLOURS[0])
    left.fill(*np.r_[[[0, 0]], negative].T, alpha=0.35, color=COLOURS[1])
    left.quiver(0, 0, *v, angles="xy", scale_units="xy", scale=1, width=0.012)
    left.annotate("v", 1.15 * v - 0.1, fontsize=14)
    below = {"ha": "center", "va": "top", "path_effects": HALO}
    left.annotate("contexts", (plane[:, 0].mean(), plane[:, 1].min() - 0.15), **below)
    left.annotate("negative\ndirections", negative.mean(0) + (0.35, -0.75), **below)
    origin(left)
    left.set_xlim(left=-1.6)
    left.set(xlabel="first coordinate", ylabel="second")
    lines(losses, "length of w", "loss L(w)", ax=right)
    right.set_ylim(-0.1, 4)
    return figure


def moving_hull(clouds, directions, captions) -> Animation:
    """Contexts that move over the origin, with the outline of their hull and a direction each.

    clouds: (F, M, 2), the contexts at each moment.
    directions: (F, 2), the uniformly negative direction at each, 0 where there is none.
    captions: a line for each moment.
    """
    frames = []
    for cloud_now, direction in zip(clouds, directions, strict=True):
        points = np.asarray(cloud_now)
        corners = points[ConvexHull(points).vertices]
        along = np.linspace(0, 1, 24, endpoint=False)[:, None, None]
        outline = (1 - along) * corners + along * np.roll(corners, -1, axis=0)
        frames.append(np.concatenate([outline.reshape(-1, 2), points, [direction]]))
    most = max(len(frame) for frame in frames)
    frames = [np.pad(frame, ((most - len(frame), 0), (0, 0)), mode="edge") for frame in frames]
    group = np.repeat([0, 1, 2], [most - len(points) - 1, len(points), 1])
    names = ["outline of the hull", "contexts", "v"]
    moving = collapse_animation(np.array(frames), group, names, captions, one_scale=True)
    moving.last.axes[0].set(xlabel="first coordinate", ylabel="second")
    return moving


def soft_targets(vectors, names, targets) -> Figure:
    """Draw word vectors in the plane, and targets over the words as bars beside them.

    vectors: (n, 2), with a name each.
    targets: {name: probabilities (n,)}, at most four.
    """
    figure, (left, right) = panels(1, 2, height=4.2)
    arrows(vectors, names, left)
    origin(left)
    left.margins(0.25)
    left.set(title="word vectors", xlabel="first coordinate", ylabel="second")
    for k, (name, heights) in enumerate(targets.items()):
        look = {"color": COLOURS[k], "hatch": ["", "//", "..", "xx"][k], "edgecolor": PAPER}
        places = np.arange(len(names)) + (k - 1.5) / 5
        right.bar(places, heights, 1 / 5, label=name, linewidth=0.5, **look)
    right.set_xticks(range(len(names)), names)
    right.set(title=f"the target is {names[0]}", ylabel="probability in the target")
    right.legend()
    return figure


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
