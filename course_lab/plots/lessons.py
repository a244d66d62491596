"""Whole figures of single lessons, one call each, made of the shared ones."""

import numpy as np
from matplotlib.figure import Figure
from scipy.spatial import ConvexHull
from scipy.special import softmax

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
from course_lab.plots.style import COLOURS, HALO, PAPER, Animation, panels


def toy_layer(vectors, names, lengths, start: int) -> Animation:
    """Draw a layer of a few words in the plane, and who wins while the context turns.

    vectors: (n, 2), with a name each. lengths: (L,), those of the context between which a slider
        chooses. start: the index of the one shown first.
    """
    vectors = np.asarray(vectors, float)
    degrees = np.arange(0, 361, 2.0)
    around = np.stack([np.cos(np.radians(degrees)), np.sin(np.radians(degrees))], 1)
    logits = np.asarray(lengths)[:, None, None] * (around @ vectors.T)  # (L, A, n)
    probabilities = softmax(logits, axis=-1)
    reach = 1.4 * np.abs(vectors).max()
    rows = {
        name: (np.array([0, x]), np.array([0, y]))
        for name, (x, y) in zip(names, vectors, strict=True)
    }
    curves = {name: (degrees, probabilities[:, :, i]) for i, name in enumerate(names)}
    box = (-reach, reach)
    turning = "angle of the context (°)", "probability", (0, 360), (0, 1.12), "who wins where"
    plane = "first number", "second number", box, box, "five word vectors"
    axes = [
        Panel(rows, *plane, labels="end", square=True),
        Panel(curves, *turning, labels="top"),
    ]
    best = probabilities.max(-1)
    captions = [
        f"Length {length:g}: the likeliest word has a probability of {least:.2f} to {most:.2f}."
        for length, least, most in zip(lengths, best.min(1), best.max(1), strict=True)
    ]
    return explorer({"length": lengths}, axes, captions, (start,))


def bottleneck_explorer(truth, fitted, sizes, captions, d: int) -> Animation:
    """Draw what softmaxes of several sizes can say of a language whose truth is known.

    truth: log P, (M, N), with the singular values on the left and the ten likeliest words of the
        least certain context on the right. fitted: a softmax's log P for each of the sizes.
    captions: a line for each. d: the size shown first.
    """
    truth = np.asarray(truth)
    context = truth.max(1).argmin()
    likely = np.argsort(-truth[context])[:10]

    def falling(log_p):
        values = np.linalg.svd(np.asarray(log_p), compute_uv=False)[:20]
        return values / values[0]

    def shares(log_p):
        return np.exp(np.asarray(log_p)[context, likely])

    def beside(view):
        rows = np.array([view(log_p) for log_p in fitted])
        places = np.arange(1, rows.shape[1] + 1)
        return {"truth": (places, view(truth)), "softmax": (places, rows)}

    spectrum = "k", "σ / σ₁", (1, 20), (1e-5, 1), "singular values of log P"
    words = beside(shares)
    top = 1.1 * max(np.max(y) for _, y in words.values())
    axes = [
        Panel(beside(falling), *spectrum, log=True),
        Panel(words, "word", "probability", (1, 10), (0, top), "ten words of one context"),
    ]
    return explorer({"d": sizes}, axes, captions, (sizes.index(d),))


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
    _hull(plane, v, left)
    left.fill(*np.r_[[[0, 0]], negative].T, alpha=0.35, color=COLOURS[1])
    below = {"ha": "center", "va": "top", "path_effects": HALO}
    left.annotate("contexts", (plane[:, 0].mean(), plane[:, 1].min() - 0.15), **below)
    left.annotate("negative\ndirections", negative.mean(0) + (0.35, -0.75), **below)
    origin(left)
    left.set_xlim(left=-1.6)
    left.set(xlabel="first coordinate", ylabel="second")
    lines(losses, "length of w", "loss L(w)", ax=right)
    right.set_ylim(-0.1, 4)
    return figure


def _hull(points, v, ax) -> None:
    """Draw contexts (M, 2) with their hull, and the direction v (2,) as an arrow if it is not 0."""
    points, v = np.asarray(points), np.asarray(v)
    ax.fill(*points[ConvexHull(points).vertices].T, alpha=0.25, color=COLOURS[0])
    ax.plot(*points.T, "o", color=COLOURS[0])
    if v.any():
        ax.plot(*(1.3 * v), alpha=0)  # an arrow alone does not widen the view
        ax.quiver(0, 0, *v, angles="xy", scale_units="xy", scale=1, width=0.012)
        ax.annotate("v", 1.15 * v - 0.1, fontsize=14)


def moving_hull(clouds, directions, captions) -> Animation:
    """Contexts that move over the origin, with the outline of their hull and a direction each.

    The page draws all of it as points. The figure for paper has the last moment as a hull with an
    arrow.

    clouds: (F, M, 2), the contexts at each moment.
    directions: (F, 2), the uniformly negative direction at each, 0 where there is none.
    captions: a line for each moment.
    """
    towards = np.linspace(0, 1, 24)[:, None]  # places between the origin and v
    frames = []
    for cloud_now, direction in zip(clouds, directions, strict=True):
        points = np.asarray(cloud_now)
        corners = points[ConvexHull(points).vertices]
        along = np.linspace(0, 1, 24, endpoint=False)[:, None, None]
        outline = (1 - along) * corners + along * np.roll(corners, -1, axis=0)
        arrow = towards * np.asarray(direction)
        frames.append(np.concatenate([outline.reshape(-1, 2), points, arrow]))
    most = max(len(frame) for frame in frames)
    frames = [np.pad(frame, ((most - len(frame), 0), (0, 0)), mode="edge") for frame in frames]
    n = len(clouds[0])
    sizes = most - n - len(towards), n, len(towards)
    group = np.repeat([0, 1, 2], sizes)
    names = ["outline of the hull", "contexts", "v"]
    moving = collapse_animation(np.array(frames), group, names, captions, one_scale=True)
    last, ax = panels(height=4.2)
    _hull(clouds[-1], directions[-1], ax)
    at = np.asarray(clouds[-1]).mean(0)
    ax.annotate("contexts", at, ha="center", va="center", path_effects=HALO)
    origin(ax)
    ax.set(xlabel="first coordinate", ylabel="second")
    return moving._replace(last=last)


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
