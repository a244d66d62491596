"""Whole figures of single lessons, one call each, made of the shared ones."""

import re

import numpy as np
import torch
from matplotlib.figure import Figure
from scipy.spatial import ConvexHull

from course_lab.plots.figures import (
    against_frequency,
    arrows,
    cloud,
    cosine_histogram,
    lines,
    origin,
    singular_values,
    states_and_classes,
)
from course_lab.plots.interactive import Panel, collapse_animation, explorer
from course_lab.plots.style import (
    COLOURS,
    HALO,
    INK,
    MEANING,
    PAPER,
    Animation,
    curve_style,
    panels,
)

LAYERS = {"softmax": MEANING["plain"], "GSS": MEANING["remedy"], "kinked": 4}  # their colours


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


def bent_line(bends, odds, spectra) -> Figure:
    """Draw increasing functions, and what log P becomes when one number h moves all logits.

    bends: {layer: (logits, bent logits)}.
    odds: {layer: (log-odds, log-odds)} of three words, the line that h draws in the plane.
    spectra: {layer: singular values, falling} of log P of many words.
    """
    figure, grid = panels(2, 2, height=3.3)
    lines(bends, "logit l", "f(l)", title="the function", ax=grid[0, 0])
    lines(odds, "log P₁/P₃", "log P₂/P₃", title="three words", ax=grid[0, 1])
    n = len(next(iter(spectra.values())))
    values = {name: np.asarray(s) / max(s) for name, s in spectra.items()}
    lines(values, "k", "σₖ / σ₁ of log P", "xy", f"{n} words", grid[1, 0])
    grid[1, 0].set_ylim(1e-17, 3)
    for ax in grid.flat[:3]:
        _as_layers(ax)
        ax.legend_.remove()

    # the fourth panel is the legend
    handles, names = grid[0, 0].get_legend_handles_labels()
    grid[1, 1].axis("off")
    grid[1, 1].legend(handles, names, loc="center", fontsize=12.5, labelspacing=1.2)
    return figure


def bends_explorer(sliders, bend, described, places) -> Animation:
    """Sliders that bend the logits of a softmax, and the probabilities of one context.

    It begins at the middle c and the last k.

    sliders: {"c": values (n,), "k": values (m,)}; at k = 1 nothing is bent.
    bend: a function of logits, c and k.
    described: a function of c and k that returns probabilities (Q,), falling, and a caption.
    places: (Q,), the places of the words with these probabilities, from 1.
    """
    x = torch.linspace(-12, 12, 97)
    at = np.log10(places)
    bent = [[bend(x, c, k).numpy() for k in sliders["k"]] for c in sliders["c"]]
    told = [[described(c, k) for k in sliders["k"]] for c in sliders["c"]]
    after = np.array([[np.asarray(p) for p, _ in row] for row in told]).clip(1e-12)
    captions = [[caption for _, caption in row] for row in told]
    before = np.asarray(described(0.0, 1.0)[0]).clip(1e-12)
    logits = x.numpy()
    left = {"softmax": (logits, logits), "bent": (logits, np.array(bent))}
    right = {"softmax": (at, before), "bent": (at, after)}
    xlabel = "log₁₀ of the word's place"
    end = float(at.max()) + 0.1
    axes = [
        Panel(left, "logit x", "PL(x)", (-12, 12), (-30, 12), "the bend"),
        Panel(right, xlabel, "probability", (0, end), (1e-8, 1), "one context", log=True),
    ]
    start = (len(sliders["c"]) // 2, len(sliders["k"]) - 1)
    return explorer(sliders, axes, captions, start)


def slight_changes(ranks, changes, bound: int) -> Figure:
    """Draw the rank of log P against the size of a change, and that of perplexity below it.

    ranks: {change: (sizes, ranks)}.
    changes: {change: (sizes, changes of perplexity in per cent)}.
    bound: the rank of a softmax, as a line.
    """
    figure, (top, bottom) = panels(2, 1, height=3.1, sharex=True)
    lines(ranks, "", "Press' rank of log P", "x", ax=top)
    top.legend_.remove()
    top.axhline(bound, color=INK, linestyle=":", linewidth=1.2)
    first = min(min(sizes) for sizes, _ in ranks.values())
    top.annotate(f"d + 1 = {bound}", (first, bound), (0, 6), textcoords="offset points")
    lines(changes, "size ε of the change", "change of perplexity, %", "xy", ax=bottom)
    bottom.legend(loc="upper left")
    return figure


def directions_taken_away(spectra, kept, bound: int, threshold: float) -> Figure:
    """Draw the singular values of log P, and the perplexity with the first r directions below.

    spectra: {layer: singular values, falling}.
    kept: {layer: (numbers of directions kept, perplexities)}.
    bound: the rank of a softmax, as a line across both panels.
    threshold: that of Press' rank, as a share of the largest singular value.
    """
    figure, (top, bottom) = panels(2, 1, height=3.1, sharex=True)
    values = {name: np.asarray(s) / max(s) for name, s in spectra.items()}
    lines(values, "", "σₖ / σ₁ of log P", "xy", ax=top)
    top.set_ylim(1e-8, 3)
    top.axhline(threshold, color=INK, linestyle=":", linewidth=1.2)
    top.annotate("Press' threshold", (1, threshold), (2, 4), textcoords="offset points")
    lines(kept, "direction k; directions kept, r", "perplexity", "xy", ax=bottom)
    for ax in (top, bottom):
        _as_layers(ax)
        ax.axvline(bound, color=INK, linestyle=":", linewidth=1.2)
        ax.legend(loc="upper right" if ax is bottom else "lower left")
    words = {"textcoords": "offset points", "va": "top", "path_effects": HALO}
    bottom.annotate(f"d + 1 = {bound}", (bound, bottom.get_ylim()[1]), (6, -2), **words)
    bottom.legend_.remove()
    return figure


def random_slopes(functions, edges, slopes) -> Figure:
    """Draw chains of straight pieces before training, and the slopes of neighbouring pieces.

    functions: {name: (logits, values)}.
    edges: (n + 1,), where the pieces begin and end.
    slopes: (n,).
    """
    figure, (left, right) = panels(1, 2, height=4.0)
    lines(functions, "logit x", "f(x) − f(0)", title="the function", ax=left)
    right.stairs(slopes, edges, linewidth=1.6, color=COLOURS[0])
    right.set(
        xlabel="logit x", ylabel="slope", title=f"slopes of {len(slopes)} pieces", ylim=(0, None)
    )
    right.locator_params(axis="x", nbins=4)
    return figure


def learned_bend(functions, slopes, middle_half) -> Figure:
    """Draw a learned function of the logits beside others, and the slopes of all below it.

    functions: {name: (logits, values)}.
    slopes: {name: (logits, slopes)}.
    middle_half: (low, high), where half of the logits lie that count, as a band.
    """
    figure, (top, bottom) = panels(2, 1, height=3.3, sharex=True)
    lines(functions, "", "f(x) − f(median)", ax=top)
    lines(slopes, "logit x", "slope of f", ax=bottom)
    for ax in (top, bottom):
        ax.axvspan(*middle_half, color="#bbbbbb", alpha=0.35, linewidth=0)
        _as_layers(ax)
        ax.legend_.remove()
    handles, names = top.get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=2)
    return figure


def _as_layers(ax) -> None:
    """Give each curve the colour, line and marker of the layer that its name begins with."""
    for line in ax.lines:
        layer = re.match(r"\w*", line.get_label()).group()
        if layer in LAYERS:
            line.set(**curve_style(LAYERS[layer]))
