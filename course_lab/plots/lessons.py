"""Whole figures of single lessons, one call each, made of the shared ones."""

import numpy as np
from matplotlib.figure import Figure
from scipy.spatial import ConvexHull

from course_lab.plots.evidence import _written_out
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
from course_lab.plots.interactive import collapse_animation
from course_lab.plots.style import (
    COLOURS,
    HALO,
    INK,
    LINES,
    MARKERS,
    MEANING,
    PAPER,
    Animation,
    panels,
)

LAYERS = {"softmax": MEANING["plain"], "MoS": MEANING["remedy"], "MoC": 4}  # a colour each


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


def softmax_and_mixture(words, curve, chord, ends, means) -> Figure:
    """Draw the distributions of one softmax and of a mixture of two over three words.

    They are drawn in the triangle of all distributions, and as log-ratios to the second word.

    words: the three words.
    curve, chord: (n, 3), what one softmax and what the mixture can say.
    ends: (2, 3), the two softmaxes that are mixed.
    means: (2, 3), the mean of the softmaxes and the softmax of the mean context.
    """
    figure, (left, right) = panels(1, 2, height=4.2)
    corners = np.array([[0, 0], [0.5, 0.75**0.5], [1, 0]])
    left.plot(*corners[[0, 1, 2, 0]].T, color=INK, linewidth=1, linestyle="-")
    for corner, name in zip(corners, words, strict=True):
        aside = (0, 7 if corner[1] else -18)
        left.annotate(name, corner, aside, textcoords="offset points", ha="center")

    # the same curves and points in both panels
    def in_triangle(p):
        return (np.asarray(p) @ corners).T

    def log_ratios(p):
        p = np.asarray(p)
        return np.log(p[:, [0, 2]] / p[:, [1]]).T

    plain, mixed = (COLOURS[LAYERS[name]] for name in ("softmax", "MoS"))
    of_softmaxes, of_contexts = np.asarray(means)[:, None]
    for ax, place in ((left, in_triangle), (right, log_ratios)):
        ax.plot(*place(curve), color=plain, linestyle=LINES[0], label="one softmax")
        ax.plot(*place(chord), color=mixed, linestyle=LINES[1], label="mixture of two")
        ax.plot(*place(ends), "o", color=INK, markersize=6, label="the two softmaxes")
        ax.plot(*place(of_softmaxes), "^", color=mixed, markersize=10, label="mean of softmaxes")
        ax.plot(*place(of_contexts), "D", color=plain, markersize=8, label="mean of contexts")
    left.set(title="probabilities", aspect="equal", ylim=(-0.15, 1.05))
    left.axis("off")
    right.set(title="log-probabilities", xlim=(-5, 5), ylim=(-5, 5))
    first, between, last = words
    right.set(xlabel=f"log {first} / {between}", ylabel=f"log {last} / {between}")
    figure.legend(*right.get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure


def layer_spectra(values, bound: int) -> Figure:
    """Draw the singular values of log P for output layers, and the rank that one softmax can have.

    values: {name of the layer: singular values, falling}.
    bound: the number of singular values beyond which a softmax has none.
    """
    figure, ax = panels(height=4.0)
    for i, (name, sizes) in enumerate(values.items()):
        places = np.arange(1, len(sizes) + 1)
        style = {"color": COLOURS[LAYERS[name]], "linestyle": LINES[i], "label": name}
        ax.plot(places, np.asarray(sizes) / sizes[0], **style)
    ax.axvline(bound, color=INK, linestyle=":", linewidth=1.3)
    ax.annotate(f"d + 1 = {bound}", (bound, 0.3), (6, 0), textcoords="offset points")
    ax.set(xscale="log", yscale="log", ylim=(1e-8, 2))
    ax.set(xlabel="number k of the singular value", ylabel="σₖ / σ₁")
    ax.legend(loc="lower left")
    return figure


def joined_by_seed(groups, ylabel: str) -> Figure:
    """Draw models side by side, a panel a group, with a line that joins the runs of one seed.

    groups: {title: {model: {seed: value}}}.
    """
    widths = [1 + len(models) for models in groups.values()]
    figure, axes = panels(1, len(groups), height=4.2, squeeze=False, width_ratios=widths)
    for ax, (title, models) in zip(axes[0], groups.items(), strict=True):
        names = list(models)
        for i, seed in enumerate(next(iter(models.values()))):
            values = [models[name][seed] for name in names]
            style = {"color": COLOURS[0], "linestyle": LINES[i], "marker": MARKERS[i]}
            ax.plot(names, values, linewidth=1.3, label=f"seed {seed}", **style)
        ax.margins(x=0.3)
        ax.set_title(title)
    axes[0, 0].set_ylabel(ylabel)
    figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def excess_and_size(fits) -> Figure:
    """Draw the excess of fitted layers against d, and against how many numbers they learn.

    fits: {layer: (d, numbers, excess)}, three sequences each.
    """
    figure, axes = panels(1, 2, height=4.3, sharey=True)
    for number, ax in enumerate(axes):
        curves = {name: (np.asarray(fit[number]), fit[2]) for name, fit in fits.items()}
        label = ("d", "numbers learned, thousands")[number]
        curves = {name: (x / (1, 1000)[number], y) for name, (x, y) in curves.items()}
        lines(curves, label, "" if number else "excess, nats a word", log="y", ax=ax)
        ax.legend_.remove()
    _written_out(axes[0].yaxis, (1, 2, 5))
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def responsibilities(shares, words) -> Figure:
    """Draw how much of each word's probability each component of a mixture gives, as shades.

    shares: (words, K), between 0 and 1.
    words: a name for each row.
    """
    figure, ax = panels(height=3.2)
    shares = np.asarray(shares)
    drawn = ax.imshow(shares.T, aspect="auto", cmap="cividis", vmin=0, vmax=1)
    ax.set_xticks(range(len(words)), words, rotation=90, fontsize=10.5)
    ax.set_yticks(range(shares.shape[1]), range(1, shares.shape[1] + 1))
    ax.grid(False)
    ax.set(xlabel="word that came", ylabel="component")
    figure.colorbar(drawn, ax=ax, label="responsibility", ticks=[0, 0.5, 1])
    return figure


def rank_and_perplexity(perplexities, ranks, xlabel: str) -> Figure:
    """Draw perplexity against a setting, seed by seed, and ranks of log P beside it.

    perplexities: {seed: {setting: value}}.
    ranks: {name of the rank: {setting: mean over the seeds}}.
    """
    figure, (left, right) = panels(1, 2, height=4.2)
    for i, (seed, values) in enumerate(perplexities.items()):
        style = {"color": COLOURS[0], "linestyle": LINES[i], "marker": MARKERS[i]}
        left.plot(list(values), list(values.values()), label=f"seed {seed}", **style)
    curves = {name: (list(r), list(r.values())) for name, r in ranks.items()}
    lines(curves, xlabel, "rank of log P", log="xy", ax=right)
    left.set(xlabel=xlabel, ylabel="test perplexity", xscale="log", title="what it predicts")
    right.set(title="how many directions it has")
    for ax in (left, right):
        ax.set_xticks(list(values), [str(k) for k in values])
        ax.minorticks_off()
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure
