"""The figures of lesson 10 and of the notebook that goes deeper."""

import re

import numpy as np
import torch
from matplotlib.figure import Figure

from course_lab.plots.figures import (
    lines,
)
from course_lab.plots.interactive import Panel, explorer
from course_lab.plots.style import (
    HALO,
    INK,
    MEANING,
    Animation,
    curve_style,
    panels,
)

LEAST = 1e-5  # per cent; a smaller change of perplexity is drawn as this one
LAYERS = {"softmax": MEANING["plain"], "GSS": MEANING["remedy"], "kinked": 4}  # their colours


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
    changes: {change: (sizes, changes of perplexity in per cent)}; what is below LEAST is drawn
        there, on a line that says so.
    bound: the rank of a softmax, as a line.
    """
    figure, (top, bottom) = panels(2, 1, height=3.1, sharex=True)
    lines(ranks, "", "Press' rank of log P", "x", ax=top)
    top.legend_.remove()
    top.axhline(bound, color=INK, linestyle=":", linewidth=1.2)
    first = min(min(sizes) for sizes, _ in ranks.values())
    top.annotate(f"d + 1 = {bound}", (first, bound), (0, 6), textcoords="offset points")
    seen = {name: (sizes, np.maximum(moved, LEAST)) for name, (sizes, moved) in changes.items()}
    lines(seen, "size ε of the change", "change of perplexity, %", "xy", ax=bottom)
    bottom.axhline(LEAST, color=INK, linestyle=":", linewidth=1.2)
    right = {"ha": "right", "textcoords": "offset points"}
    bottom.annotate(f"{LEAST:g} or less", (bottom.get_xlim()[1], LEAST), (0, 5), **right)
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
        band = {"color": "#bbbbbb", "alpha": 0.35, "linewidth": 0}
        ax.axvspan(*middle_half, label="middle half of the logits", **band)
        _as_layers(ax)
        ax.legend_.remove()
    handles, names = top.get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=2)
    return figure


def _as_layers(ax) -> None:
    """Give each curve the colour, line and marker of the layer that its name begins with."""
    for line in ax.lines:
        layer = re.split(r"\W", line.get_label(), maxsplit=1)[0]
        if layer in LAYERS:
            line.set(**curve_style(LAYERS[layer]))
