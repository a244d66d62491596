"""The figures of lesson 9 and of the notebook that goes deeper."""

import numpy as np
from matplotlib.figure import Figure

from course_lab.plots.evidence import _written_out
from course_lab.plots.figures import (
    lines,
)
from course_lab.plots.style import (
    COLOURS,
    INK,
    LINES,
    MARKERS,
    MEANING,
    panels,
)

LAYERS = {"softmax": MEANING["plain"], "MoS": MEANING["remedy"], "MoC": 4}  # a colour each


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
    right.set(title="log-ratios", xlim=(-5, 5), ylim=(-5, 5))
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
    figure.legend(*axes[0, -1].get_legend_handles_labels(), loc="outside lower center", ncols=3)
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
    """Draw perplexity against a setting, seed by seed with the mean, and ranks of log P beside it.

    perplexities: {seed: {setting: value}}.
    ranks: {name of the rank: {setting: mean over the seeds}}.
    """
    figure, (left, right) = panels(1, 2, height=4.2)
    settings = list(next(iter(perplexities.values())))
    each = np.array([list(values.values()) for values in perplexities.values()])
    for i, values in enumerate(each):
        style = {"color": COLOURS[5], "linestyle": "-", "linewidth": 0.9, "alpha": 0.6}
        left.plot(settings, values, label="a seed" if i == 0 else None, **style)
    left.plot(settings, each.mean(axis=0), color=INK, linestyle="-", marker="o", label="mean")
    left.legend()
    curves = {name: (list(r), list(r.values())) for name, r in ranks.items()}
    lines(curves, xlabel, "rank of log P", log="xy", ax=right)
    left.set(xlabel=xlabel, ylabel="test perplexity", xscale="log", title="what it predicts")
    right.set(title="how many directions it has")
    for ax in (left, right):
        ax.set_xticks(settings, [str(k) for k in settings])
        ax.minorticks_off()
    return figure
