"""The figures of lesson 7 and of the notebook that goes deeper."""

import numpy as np
from matplotlib.figure import Figure

from course_lab.plots.figures import (
    lines,
)
from course_lab.plots.style import (
    COLOURS,
    HALO,
    INK,
    MARKERS,
    MEANING,
    panels,
)


def moved_targets(words, epsilon, degrees) -> Figure:
    """Draw a target's disc, the worst place in it, and the half-plane of what beats it there.

    words: (n, 2), the target first and the nearest rival second.
    epsilon: the radius of the disc.
    degrees: {title: the angle of the context}, a panel each.
    """
    figure, axes = panels(1, len(degrees), height=4.2)
    words = np.asarray(words)
    circle = np.linspace(0, 2 * np.pi, 100)
    for ax, (title, angle) in zip(axes, degrees.items(), strict=True):
        h = np.array([np.cos(np.radians(angle)), np.sin(np.radians(angle))])
        worst = words[0] - epsilon * h
        # the half-plane beyond the worst place, and the disc
        along = 9 * np.array([-h[1], h[0]])
        corners = [worst - along, worst + along, worst + along + 9 * h, worst - along + 9 * h]
        ax.fill(*np.transpose(corners), alpha=0.15, color=COLOURS[1])
        place = words[0][:, None] + epsilon * np.stack([np.cos(circle), np.sin(circle)])
        ax.fill(*place, alpha=0.5, color=COLOURS[0])
        # the words, the context, and the worst place
        ax.plot(*words[1:].T, "o", color=INK)
        ax.plot(*words[0], "o", color=COLOURS[0], markersize=8)
        ax.plot(*worst, "X", color=COLOURS[1], markersize=9)
        ax.annotate("", 1.1 * h, (0, 0), arrowprops={"arrowstyle": "-|>", "color": INK, "lw": 1.6})
        named = {"fontsize": 12.5, "path_effects": HALO}
        ax.annotate("$w_y$", words[0] + [0.3, 0.2], **named)
        ax.annotate(r"$w_y+\delta^*$", worst + [-0.1, -0.42], **named)
        ax.annotate("$h$", 1.15 * h + [0.08, -0.12], **named)
        ax.annotate("rival", words[1] + [-0.1, 0.12], ha="right", **named)
        ax.plot(0, 0, "+", color=INK, markersize=14)
        ax.set(xlim=(-1.9, 2.6), ylim=(-1.8, 2.6), title=title, aspect="equal")
        ax.set(xlabel="first dimension", ylabel="second dimension")
    return figure


def beside_each_other(curves, xlabel: str, log: str = "", plain=None) -> Figure:
    """Draw the same methods in several panels, with one legend below all of them.

    curves: {label of the panel's y axis: {method: y, or (x, y)}}, as `lines` takes them.
    plain: the level of the plain model in each panel, drawn as a line.
    """
    figure, axes = panels(1, len(curves), height=4.2)
    for number, (ax, (label, methods)) in enumerate(zip(axes, curves.items(), strict=True)):
        lines(methods, xlabel, label, log, ax=ax)
        ax.legend_.remove()
        if plain is not None:
            style = {"color": COLOURS[MEANING["plain"]], "linewidth": 1.2, "linestyle": (0, (1, 1))}
            ax.axhline(plain[number], label="plain softmax", **style)
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=min(len(names), 4))
    return figure


def below_the_diagonal(groups, xlabel: str, ylabel: str) -> Figure:
    """Draw points that a theorem keeps below the diagonal, which is drawn as a line.

    groups: {name: (x, y)}, at most six.
    """
    figure, ax = panels(height=4.2)
    for number, (name, (x, y)) in enumerate(groups.items()):
        style = {"color": COLOURS[number], "alpha": 0.7, "linestyle": ""}
        ax.plot(x, y, MARKERS[number], label=name, **style)
    highest = max(np.asarray(x).max() for x, _ in groups.values())
    ax.plot([0, highest], [0, highest], "--", color=INK, label="equal")
    ax.set(xlabel=xlabel, ylabel=ylabel)
    ax.legend()
    return figure
