"""The figures of lesson 11 and of the notebook that goes deeper."""

import textwrap

import numpy as np
from matplotlib.figure import Figure

from course_lab.plots.figures import (
    lines,
    origin,
)
from course_lab.plots.style import (
    COLOURS,
    HALO,
    INK,
    LINES,
    MARKERS,
    MEANING,
    colours,
    panels,
)

# The colours and markers of the optimisers in lesson 11: Adam is the plain method.
OPTIMISERS = {"SGD": 4, "Adam": MEANING["plain"], "coupled Adam": MEANING["remedy"], "Muon": 3}

_END = {"textcoords": "offset points", "ha": "right", "fontsize": 11}  # a label that ends at x


def means_and_losses(paths) -> Figure:
    """Draw the length of the mean word vector and the loss over training, by optimiser.

    paths: {optimiser: (losses, lengths)}, a number of each for every step. Losses are drawn as
    means of ten steps.
    """
    figure, (left, right) = panels(1, 2, height=4.2)
    means = {name: length for name, (_, length) in paths.items()}
    tens = {name: _tens(losses) for name, (losses, _) in paths.items()}
    _by_optimiser(means, "step", "length of the mean ‖μ‖", "y", left)
    _by_optimiser(tens, "step", "loss, nats a word", "", right)
    for ax in (left, right):
        ax.locator_params(axis="x", nbins=5)
    _one_legend(figure, (left, right))
    return figure


def from_frequent_to_rare(clouds, rare, frequent) -> Figure:
    """Draw the rare and the frequent words of clouds along the line between their means.

    clouds: {title: W (N, d)}, two of them, in one view.
    rare, frequent: numbers of rows.
    """
    figure, axes = panels(1, 2, height=4.2)
    flat = {}
    for title, W in clouds.items():
        W = np.asarray(W, dtype=float)
        line = W[rare].mean(0) - W[frequent].mean(0)
        line /= np.linalg.norm(line)
        across = W - np.outer(W @ line, line)
        other = np.linalg.svd(across - across.mean(0), full_matrices=False)[2][0]
        flat[title] = np.stack([W @ line, W @ other], 1)
    reach = 1.1 * max(np.quantile(np.abs(points), 0.999) for points in flat.values())
    groups = {"frequent words": frequent, "rare words": rare}
    for ax, (title, points) in zip(axes, flat.items(), strict=True):
        for (name, rows), ink in zip(groups.items(), colours(groups), strict=True):
            style = {"marker": MARKERS[name.startswith("rare")], "linewidths": 0, "alpha": 0.7}
            ax.scatter(*points[rows].T, s=13, color=ink, label=name, **style)
        origin(ax)
        ax.set_aspect("equal", adjustable="box")
        ax.set(title=title, xlabel="from frequent to rare", xlim=(-reach, reach))
        ax.set_ylim(-reach, reach)
    axes[0].set_ylabel("across")
    _one_legend(figure, axes, markerscale=1.8)
    return figure


def swept_losses(sweeps, plain) -> Figure:
    """Draw measures of a cloud against the weight of a loss, a panel for each loss.

    sweeps: {loss: DataFrame with a row for each weight and a column for each measure}.
    plain: the measures without the loss, drawn as dotted lines.
    """
    figure, axes = panels(1, len(sweeps), height=4.2, sharey=True)
    for ax, (title, table) in zip(axes, sweeps.items(), strict=True):
        curves = {name: (table.index, values) for name, values in table.items()}
        lines(curves, "weight λ", "share, cosine", "x", title, ax)
        for name, ink in zip(table, colours(table), strict=True):
            ax.axhline(plain[name], color=ink, linewidth=1.2, linestyle=":")
            at = {"xycoords": ("axes fraction", "data"), "fontsize": 9, "path_effects": HALO}
            said = "without the loss"
            ax.annotate(said, (0.02, plain[name]), (0, 2), textcoords="offset points", **at)
        ax.set_ylim(0, 1)
    axes[1].set_ylabel("")
    _one_legend(figure, axes)
    return figure


def loss_and_cosine(table) -> Figure:
    """Draw each method's difference from the baseline, and the mean cosine of its rare words.

    table: rows by method, with the columns difference, difference low, difference high and cosine
    of rare words. The baseline, which has no difference, has the colour of the plain method.
    """
    names = [textwrap.fill(name, 28) for name in table.index]
    rows = sum(name.count("\n") + 1 for name in names)
    figure, (left, right) = panels(1, 2, height=1.6 + 0.36 * rows, sharey=True)
    figure.set_layout_engine("constrained")
    places = np.arange(len(table))
    plain = table["difference"].isna()
    for group, name in ((plain, "plain"), (~plain, "remedy")):
        middle = table["difference"][group].fillna(0)
        low, high = (table[f"difference {end}"][group] for end in ("low", "high"))
        style = {"color": COLOURS[MEANING[name]], "fmt": "o" if name == "plain" else "s"}
        left.errorbar(middle, places[group], xerr=(middle - low, high - middle), capsize=4, **style)
        cosine = table["cosine of rare words"][group]
        right.plot(cosine, places[group], style["fmt"], color=style["color"])
    left.axvline(0, color=INK, linewidth=1, linestyle=":")
    left.set_yticks(places, names)
    left.set_ylim(len(table) - 0.5, -0.5)
    left.set_xlabel("perplexity against\nthe baseline, %")
    right.set_xlabel("mean cosine\nof rare words")
    right.set_xlim(left=min(0, right.get_xlim()[0]))
    right.tick_params(axis="y", length=0)
    return figure


def caps(factors, logits) -> Figure:
    """Draw what soft-capping leaves of the gradient, over the logits that a model really has.

    factors: {cap: (logits, factor on the gradient)}.
    logits: numbers, drawn as a histogram of the height 1.
    """
    figure = lines(factors, "logit l", "factor on the gradient")
    ax = figure.axes[0]
    density, edges = np.histogram(logits, 120, ax.get_xlim())
    style = {"fill": True, "alpha": 0.3, "color": COLOURS[5], "label": "logits of the model"}
    ax.stairs(density / density.max(), edges, **style)
    if ax.legend_:
        ax.legend_.remove()
    figure.legend(loc="outside lower center", ncols=2)
    return figure


def gates_and_ways(often, gates, ways) -> Figure:
    """Draw the gates on the pushes of a word, and the ways that words went with and without them.

    often: (n,), how often each word is a target, rising.
    gates: {target: factors on the push (n,)}.
    ways: {name: (occurrences, distances)}.
    """
    figure, (left, right) = panels(1, 2, height=4.4)
    lines({name: (often, values) for name, values in gates.items()}, "", "", "xy", ax=left)
    left.set(xlabel="times a word is a target, a step", ylabel="factor on the push")
    left.set_title("which pushes are cut")
    left.legend(loc="lower right", fontsize=10.5)
    lines(ways, "occurrences in training", "distance travelled", "x", ax=right)
    right.set_title("how far the words go")
    right.legend(fontsize=10.5)
    right.set_ylim(0)
    return figure


def spectra_and_ways(spectra, ways) -> Figure:
    """Draw the singular values of what training added to W, and how far words went, by optimiser.

    spectra: {optimiser: singular values, falling}.
    ways: {optimiser: (occurrences, distances)}.
    """
    figure, (left, right) = panels(1, 2, height=4.4)
    relative = {
        name: (np.arange(1, len(values) + 1) / len(values), np.asarray(values) / max(values))
        for name, values in spectra.items()
    }
    _by_optimiser(relative, "rank of the singular value / d", "σₖ / σ₁", "y", left)
    left.set(ylim=(3e-3, 1.5), title="directions of the way")
    _by_optimiser(ways, "occurrences in training", "distance travelled", "xy", right)
    right.set_title("how far the words go")
    _one_legend(figure, (left, right))
    return figure


def repairs(table, before: float) -> Figure:
    """Draw the loss and the cloud against the principal components that a repair takes away.

    table: rows by the number of components, with the columns loss, σ₂/σ₁ and cosine of rare words.
    before: the loss without a repair.
    """
    figure, (left, right) = panels(1, 2, height=3.9)
    left.axhline(before, color=INK, linestyle=":")
    left.annotate("as trained", (table.index[-1], before), (0, 5), **_END)
    lines({"repaired": (table.index, table["loss"])}, "", "loss, nats a word", ax=left)
    cloud_of = table[["σ₂/σ₁", "cosine of rare words"]]
    curves = {name: (table.index, values) for name, values in cloud_of.items()}
    lines(curves, "", "ratio, mean cosine", ax=right)
    right.legend(loc=(0.2, 0.17))
    for ax in (left, right):
        ax.set_xlabel("components removed")
    return figure


def loss_against_cloud(table, measures) -> Figure:
    """Draw a named point for each method: its loss against measures of its cloud, one a panel.

    table: rows by method, with the column difference, which the baseline lacks, and the measures.
        A method that lacks a measure has no point.
    measures: names of two columns.
    """
    figure, axes = panels(1, 2, height=4.8, sharey=True)
    axes[0].set_ylabel("perplexity against the baseline, %")
    for ax, column in zip(axes, measures, strict=True):
        ax.set_xlabel(column)
    table = table.dropna(subset=list(measures))
    if table.empty:
        return figure
    y = table["difference"].fillna(0).to_numpy(float)
    gap = 0.075 * np.ptp(y)
    for ax, column in zip(axes, measures, strict=True):
        x = table[column].to_numpy(float)
        plain = table["difference"].isna()
        ax.plot(x[~plain], y[~plain], "s", color=COLOURS[MEANING["remedy"]])
        ax.plot(x[plain], y[plain], "o", color=COLOURS[MEANING["plain"]])
        ax.axhline(0, color=INK, linewidth=1, linestyle=":")
        room = 0.75 * np.ptp(x)
        ax.set_xlim(x.min() - 0.1 * room, x.max() + 0.15 * room)
        middle = (x.min() + x.max()) / 2
        for to_the_left in (False, True):
            at = -np.inf
            for i in np.argsort(y, kind="stable"):
                if (x[i] > middle) != to_the_left:
                    continue
                at = max(y[i], at + gap)
                side = -8 if to_the_left else 8
                style = {"ha": "right" if to_the_left else "left", "va": "center"}
                ax.annotate(
                    table.index[i],
                    (x[i], at),
                    (side, 0),
                    textcoords="offset points",
                    fontsize=9.5,
                    path_effects=HALO,
                    **style,
                )
    return figure


def _by_optimiser(curves, xlabel: str, ylabel: str, log: str, ax) -> None:
    """Draw curves with the colours and markers of their optimisers."""
    lines(curves, xlabel, ylabel, log, ax=ax)
    for line, name in zip(ax.lines, curves, strict=True):
        number = OPTIMISERS[name]
        line.set(color=COLOURS[number], markeredgecolor=COLOURS[number])
        line.set(marker=MARKERS[number], linestyle=LINES[number])


def _tens(values) -> tuple[np.ndarray, np.ndarray]:
    """Return the middles of groups of ten steps, and the means of the values in them."""
    means = np.asarray(values).reshape(-1, 10).mean(1)
    return np.arange(len(means)) * 10 + 5, means


def _one_legend(figure, axes, **options) -> None:
    """Put the legend of the first axes below the figure, in place of one in each."""
    handles, labels = axes[0].get_legend_handles_labels()
    for ax in axes:
        if ax.legend_:
            ax.legend_.remove()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), **options)
