"""One house style and every figure the lessons share.

Importing this module sets the style: the colour-blind-safe palette of Okabe and Ito with a line
style and a marker for each colour, so that greyscale is enough; dark ink on its own paper, which
reads on a light page and on a dark one; letters that stay legible when a phone shrinks the figure.
Every function takes plain arrays, returns the figure and leaves showing to `show`.
"""

import base64
import hashlib
import html
import inspect
import io
import json
import math
from importlib import resources
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from cycler import cycler
from IPython import get_ipython
from IPython.display import display
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, StrMethodFormatter
from PIL import Image

from course_lib.errors import CourseError, unknown

INK, PAPER = "#1f2430", "#fdfcf9"
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#8B3F77", "#A66F00", "#3D3D3D"]
LINES = ["-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 2))]
MARKERS = ["o", "s", "^", "D", "v", "P"]
FREQUENCY = LinearSegmentedColormap.from_list("rare to frequent", ["#F2A65A", "#C4446A", "#1B1F5E"])
_LOST_WON = LinearSegmentedColormap.from_list("lost to won", ["#E8A15C", PAPER, "#6FB1DC"])
ANIMATION_BYTES = 300_000
AWAY = "In JupyterLab this cell has controls; on the website the figure above has its own."

plt.rcParams.update(
    {
        "figure.figsize": (6.2, 3.9),
        "figure.dpi": 100,
        "figure.constrained_layout.use": True,
        "figure.facecolor": PAPER,
        "axes.facecolor": PAPER,
        "savefig.facecolor": PAPER,
        "font.size": 12.5,
        "axes.titlesize": 13,
        "axes.labelsize": 12.5,
        "legend.fontsize": 11.5,
        "legend.framealpha": 0.85,  # a line that runs through it does not run through its words
        "legend.facecolor": PAPER,
        "legend.edgecolor": "none",
        "legend.handlelength": 2.6,
        "lines.linewidth": 2.0,
        "lines.markersize": 5,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "grid.color": "#dddad2",
        "grid.linewidth": 0.7,
        "axes.axisbelow": True,
        "axes.prop_cycle": cycler(color=COLOURS, linestyle=LINES),
        **{f"{part}.color": INK for part in ("text", "xtick", "ytick")},
        "axes.labelcolor": INK,
        "axes.edgecolor": INK,
    }
)


def show(fig, alt: str) -> None:
    """Display a figure, or an `Animation`, with its alternative text, and close it.

    The text goes to the output's metadata, `["image/png"]["alt"]`, where the website finds it.
    Few colours are kept (a quarter of the bytes), and no date: the same figure is the same file.
    Raises CourseError if `alt` says too little.
    """
    if len(alt.strip()) < 20:
        raise CourseError(f"describe the figure in a sentence for those who cannot see it: {alt!r}")
    bundle = {"text/plain": alt}
    if isinstance(fig, Animation):
        bundle["text/html"] = fig.page.replace("@ALT@", html.escape(alt, quote=True))
        fig = fig.last
    bundle["image/png"] = base64.b64encode(png(fig)).decode()
    display(bundle, raw=True, metadata={"image/png": {"alt": alt}})
    plt.close(fig)


def png(fig: Figure) -> bytes:
    """`fig` as a PNG of at most 256 colours, 120 dots an inch."""
    drawn, small = io.BytesIO(), io.BytesIO()
    fig.savefig(drawn, format="png", dpi=120)
    picture = Image.open(drawn).convert("RGB").quantize(256, dither=Image.Dither.NONE)
    picture.save(small, format="png", optimize=True)
    return small.getvalue()


def panels(rows: int = 1, columns: int = 1, height: float = 3.6, **options):
    """Figure and axes, at most 7.4 inches wide, `height` inches a row; as `plt.subplots`, but
    unknown to pyplot, so that a notebook shows it only through `show`."""
    width = 6.2 if columns == 1 else 7.4
    figure = Figure(figsize=(width, height * rows))
    return figure, figure.subplots(rows, columns, **options)


def lines(series, xlabel: str, ylabel: str, log: str = "", title: str = "", ax=None) -> Figure:
    """Curves with distinct styles and markers. series: {name: values, or (x, values)};
    `log`: "x", "y" or "xy" for logarithmic axes. Training curves, sweeps, spectra."""
    own, ax = ax is None, ax or panels(height=4.4 if len(series) > 3 else 3.9)[1]
    for i, (name, values) in enumerate(series.items()):
        x, y = values if isinstance(values, tuple) else (np.arange(1, len(values) + 1), values)
        style = {"marker": MARKERS[i % 6], "markevery": max(1, math.ceil(len(y) / 8))}
        ax.plot(x, y, label=name, color=COLOURS[i % 6], linestyle=LINES[i % 6], **style)
    ax.set(xlabel=xlabel, ylabel=ylabel, title=title)
    if "x" in log:
        ax.set_xscale("log")
    elif all(float(x).is_integer() for line in ax.lines for x in line.get_xdata()):
        ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))  # no half epochs
    if "y" in log:
        ax.set_yscale("log")
        low, high = ax.get_ylim()
        if high < 10 * low:  # no power of ten to label: plain numbers between
            ax.yaxis.set_major_locator(LogLocator(subs=(1, 1.5, 2, 3, 5, 7)))
            ax.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
            ax.yaxis.set_minor_formatter(NullFormatter())
    if own and len(series) > 3:
        ax.figure.legend(loc="outside lower center", ncols=2)
    elif len(series) > 1:
        ax.legend()
    return ax.figure


def learning_curve(epochs, ylabel: str = "perplexity") -> Figure:
    """Training and validation perplexity of a result's `epochs`, each {"epoch": …,
    "train_perplexity": …, "valid_perplexity": …}."""
    at = [epoch["epoch"] for epoch in epochs]
    parts = {"training": "train_perplexity", "validation": "valid_perplexity"}
    curves = {name: (at, [epoch[key] for epoch in epochs]) for name, key in parts.items()}
    return lines(curves, "epoch", ylabel, log="y")


def seeds(groups, intervals, xlabel: str, ylabel: str, title: str = "", ax=None) -> Figure:
    """Every seed of every setting, and the settings' means with their intervals.

    groups: {setting: values}; intervals: {setting: (mean, low, high, …)}. Settings that are numbers
    stand at their place on the axis, others side by side.
    """
    ax = ax or panels()[1]
    numbers = all(isinstance(setting, int | float) for setting in groups)
    places = np.array(list(groups) if numbers else range(len(groups)), dtype=float)
    for place, values in zip(places, groups.values(), strict=True):
        x = np.full(len(values), place)
        ax.plot(x, values, "o", color=COLOURS[0], alpha=0.45, label="a seed")
    mean, low, high = np.array([tuple(intervals[setting])[:3] for setting in groups]).T
    ax.errorbar(
        places, mean, yerr=(mean - low, high - mean), fmt="s" + "--" * numbers, capsize=6,
        color=COLOURS[1], label="mean and interval",
    )  # fmt: skip
    if not numbers:
        ax.set_xticks(places, list(groups))
        ax.set_xlim(-0.6, len(groups) - 0.4)
    handles = dict(zip(*ax.get_legend_handles_labels()[::-1], strict=True))
    ax.legend(handles.values(), handles)
    ax.set(xlabel=xlabel, ylabel=ylabel, title=title)
    return ax.figure


def wins(table, benchmarks: int, title: str = "", ax=None) -> Figure:
    """How often the model of a row beats that of a column, a number and a shade a cell: the
    DataFrame of `metrics.similarity.wins` (parthiban2021, Figure 4). White: half of `benchmarks`;
    the one hue for more, the other for fewer."""
    ax, names = ax or panels(height=4.6)[1], list(table.index)
    values = np.array(table, float)
    np.fill_diagonal(values, np.nan)
    ax.imshow(values, cmap=_LOST_WON, vmin=0, vmax=benchmarks, aspect="equal")
    for (i, j), value in np.ndenumerate(values):
        if i != j:
            ax.text(j, i, f"{value:g}", ha="center", va="center", color=INK)
    ax.set_xticks(range(len(names)), names, rotation=45, ha="right", rotation_mode="anchor")
    ax.set_yticks(range(len(names)), names)
    ax.set(xlabel="against", title=title)
    ax.grid(False)
    return ax.figure


def singular_values(curves, ax=None, title: str = "") -> Figure:
    """curves: {name: singular values}; each divided by its largest, against k / number of values,
    so that matrices of different sizes share one picture (gao2019, figures 1 and 2)."""
    curves = {
        name: (np.arange(1, len(s) + 1) / len(s), np.asarray(s) / max(s))
        for name, s in curves.items()
    }
    return lines(curves, "rank of the singular value / d", "σₖ / σ₁", "y", title, ax)


def cloud(points, share=None, words=None, title: str = "", ax=None) -> Figure:
    """Points (n, 2) with the origin marked, coloured by `share`, each word's share of the tokens
    (n,), frequent words drawn last and larger, words never seen in the colour of half the smallest
    share; `words`: {row: name} to be written beside points."""
    ax = ax or panels(height=4.4)[1]
    points = np.asarray(points)
    if share is None:
        ax.scatter(*points.T, s=9, color=COLOURS[0], alpha=0.6, linewidths=0)
    else:
        share = np.asarray(share, dtype=float)
        level = np.log10(np.where(share > 0, share, share[share > 0].min() / 2))
        order = np.argsort(level, kind="stable")
        size = np.interp(level[order], [-4, -2], [7, 30])
        drawn = ax.scatter(
            *points[order].T, c=level[order], s=size, cmap=FREQUENCY, alpha=0.75, linewidths=0
        )
        ax.figure.colorbar(drawn, ax=ax, label="log₁₀ of the word's frequency", pad=0.02)
    origin(ax)
    for row, name in (words or {}).items():
        ax.annotate(name, points[row], xytext=(4, 3), textcoords="offset points", fontsize=11)
    ax.set(xlabel="first singular direction", ylabel="second", title=title)
    return ax.figure


def states_and_classes(states, labels, classes, title: str = "", ax=None) -> Figure:
    """Hidden states (n, 2) as the numerals of their labels (n,), class vectors (C, 2) as numbered
    arrows; the longest class vector is drawn as long as the longest state."""
    ax = ax or panels(height=4.4)[1]
    states, labels, classes = (np.asarray(part) for part in (states, labels, classes))
    lengths = [np.linalg.norm(part, axis=1).max() for part in (states, classes)]
    tips = classes * lengths[0] / max(lengths[1], 1e-12)
    spots = _apart(1.1 * tips, 0.18 * lengths[0])
    for number, (tip, spot) in enumerate(zip(tips, spots, strict=True)):
        colour = COLOURS[number % 5]
        ax.plot(*states[labels == number].T, marker=f"${number}$", markersize=5.5, linestyle="",
                color=colour, alpha=0.4, markeredgewidth=0)  # fmt: skip
        ax.plot(*(1.2 * tip), alpha=0)  # an annotation alone does not widen the view
        ax.annotate("", tip, (0, 0), arrowprops={"arrowstyle": "-|>", "color": INK, "lw": 1.2})
        ax.annotate(
            str(number), spot, ha="center", va="center", fontweight="bold", zorder=5,
            path_effects=[withStroke(linewidth=2.5, foreground=PAPER)],
        )  # fmt: skip
    origin(ax)
    ax.set(xlabel="first singular direction", ylabel="second", title=title)
    return ax.figure


def _apart(spots, gap: float) -> list:
    """Spots (n, 2) for labels; one nearer than `gap` to an earlier one moves aside by as much, to
    the side where more room is."""
    placed = []
    for spot in spots:
        if placed and min(np.linalg.norm(spot - other) for other in placed) < gap:
            across = gap * np.array([-spot[1], spot[0]]) / max(np.linalg.norm(spot), 1e-12)
            sides = (spot + across, spot - across)
            spot = max(sides, key=lambda s: min(np.linalg.norm(s - other) for other in placed))
        placed.append(spot)
    return placed


def arrows(vectors, names, ax) -> None:
    """Vectors (n, 2) as lines from the origin with the styles that `lines` gives, named."""
    for i, (vector, name) in enumerate(zip(np.asarray(vectors), names, strict=True)):
        style = {"color": COLOURS[i % 6], "linestyle": LINES[i % 6]}
        ax.plot(*np.stack([0 * vector, vector], axis=1), **style)
        ax.plot(*vector, marker=MARKERS[i % 6], markersize=8, color=COLOURS[i % 6])
        right, up = vector > 0
        ax.annotate(
            name, vector, xytext=(0, 9 if up else -9), textcoords="offset points",
            ha="left" if right else "right", va="bottom" if up else "top",
        )  # fmt: skip


def origin(ax) -> None:
    """Mark the origin and give both axes the same scale."""
    ax.plot(0, 0, "+", color=INK, markersize=16, markeredgewidth=2, zorder=5)
    ax.annotate(
        "origin", (0, 0), (7, -14), textcoords="offset points", fontsize=10.5, color=INK, zorder=5,
        path_effects=[withStroke(linewidth=2.5, foreground=PAPER)],
    )  # fmt: skip
    ax.set_aspect("equal", adjustable="datalim")
    ax.locator_params(nbins=5)


def cosine_histogram(groups, ax=None, title: str = "") -> Figure:
    """groups: {name: cosines}; outlines, filled lightly, over [-1, 1]."""
    ax = ax or panels()[1]
    bins = np.linspace(-1, 1, 81)
    for i, (name, cosines) in enumerate(groups.items()):
        heights = np.histogram(cosines, bins, density=True)[0]
        ax.stairs(heights, bins, color=COLOURS[i], fill=True, alpha=0.15)
        ax.stairs(heights, bins, color=COLOURS[i], linestyle=LINES[i], linewidth=2, label=name)
    ax.axvline(0, color=INK, linewidth=1)
    ax.set(xlabel="cosine of two word vectors", ylabel="density", title=title, xlim=(-1, 1))
    ax.legend(loc="upper left")
    return ax.figure


def frequency_rank(counts, rare: float = 1e-4, title: str = "", ax=None) -> Figure:
    """Zipf's picture: share of the tokens against rank, both logarithmic; the line `rare` marks
    gao2019's rare words, a dashed line the law 1 / rank through the tenth word."""
    ax = ax or panels()[1]
    share = np.sort(np.asarray(counts, dtype=float))[::-1] / np.sum(np.asarray(counts))
    share = share[share > 0]
    rank = np.arange(1, len(share) + 1)
    ax.plot(rank, share, color=COLOURS[0], linestyle="-", label="words of the corpus")
    law = share[min(9, len(share) - 1)] * min(10, len(share)) / rank
    ax.plot(rank, law, color=COLOURS[1], linestyle="--", label="1 / rank")
    ax.axhline(rare, color=INK, linestyle=":", linewidth=1.4, label=f"rare below {rare:g}")
    ax.set(xscale="log", yscale="log", title=title)
    ax.set(xlabel="rank of the word (1 = most frequent)", ylabel="share of the tokens")
    ax.legend(loc="lower left")
    return ax.figure


def against_frequency(values, counts, ylabel: str, title: str = "", ax=None) -> Figure:
    """One dot a word, and the median in bins of equal width on the logarithmic count axis."""
    ax = ax or panels()[1]
    values, counts = np.asarray(values), np.asarray(counts)
    seen = counts > 0
    ax.plot(counts[seen], values[seen], ".", color=COLOURS[5], markersize=3, alpha=0.25)
    edges = np.geomspace(1, counts.max() + 1, 13)
    cell = np.digitize(counts, edges)
    filled = [i for i in range(1, len(edges)) if (seen & (cell == i)).sum() > 2]
    middle = [np.median(counts[cell == i]) for i in filled]
    median = [np.median(values[cell == i]) for i in filled]
    ax.plot(middle, median, color=COLOURS[1], linestyle="-", marker="s", label="median")
    ax.set(xscale="log", xlabel="occurrences in training", ylabel=ylabel, title=title)
    ax.legend()
    return ax.figure


class Animation(NamedTuple):
    """A figure that plays: a page fragment, and its last moment as a figure for paper."""

    page: str
    last: Figure


def collapse_animation(frames, group, names, captions) -> Animation:
    """Snapshots of a cloud to be played or dragged through; works offline, in JupyterLab too.

    frames (F, P, 2): the P points of each snapshot; group (P,): 0 … len(names)-1, at most three
    groups, drawn in that order as discs, squares and triangles; captions: a line a snapshot.
    Each snapshot fills the view: the radius that holds 99 % of its points is stated under it.
    Points travel as 16-bit integers in base64; the page takes its colours from the text around
    it (light or dark), and moves in jumps where the reader prefers reduced motion.
    Raises CourseError if shapes disagree or the page exceeds 300 kB.
    """
    frames, group = np.asarray(frames, dtype=float), np.asarray(group)
    F, P, _ = frames.shape
    if len(group) != P or len(captions) != F:
        raise CourseError(
            f"{F} snapshots of {P} points need {F} captions and {P} groups, "
            f"got {len(captions)} and {len(group)}"
        )
    radius = np.quantile(np.abs(frames).max(-1), 0.99, axis=1).clip(1e-12)
    whole = np.clip(np.rint(frames / radius[:, None, None] * 16_000), -32_767, 32_767)
    data = {
        "points": base64.b64encode(whole.astype("<i2").tobytes()).decode(),
        "group": base64.b64encode(group.astype("u1").tobytes()).decode(),
        "shape": [F, P],
        "radius": [float(f"{r:.3g}") for r in radius],
        "captions": list(captions),
    }
    encoded = json.dumps(data, separators=(",", ":")).replace("</", "<\\/")
    legend = "".join(
        f'<span><svg viewBox="0 0 12 12" aria-hidden="true">{shape}</svg>{html.escape(name)}</span>'
        for name, shape in zip(names, _SHAPES, strict=False)
    )
    slots = {"LAST": str(F - 1), "LEGEND": legend}
    page = _page("collapse.html", slots, encoded)
    return Animation(page, groups_of_points(frames[-1], group, names))


def _page(file: str, slots: dict, encoded: str) -> str:
    """The fragment in `file` with its slots filled, and an id that its data decide."""
    page, redraw = (
        resources.files("course_lib.plots").joinpath(name).read_text(encoding="utf-8")
        for name in (file, "redraw.js")
    )
    key = file[0] + hashlib.sha256(encoded.encode()).hexdigest()[:10]
    for slot, value in {"KEY": key, "REDRAW": redraw, **slots, "DATA": encoded}.items():
        page = page.replace(f"@{slot}@", value)
    if len(page) > ANIMATION_BYTES:
        raise CourseError(
            f"the animation takes {len(page):,} bytes of at most {ANIMATION_BYTES:,}: "
            "show fewer points or snapshots"
        )
    return page


class Panel(NamedTuple):
    """One of an `explorer`'s axes. curves: {name: (x (P,), y)}, with y (P,) for a curve that stays
    and (n, …, P) for one that follows the sliders; `log`: whether y is logarithmic."""

    curves: dict
    xlabel: str
    ylabel: str
    xlim: tuple[float, float]
    ylim: tuple[float, float]
    title: str = ""
    log: bool = False


def explorer(sliders, axes, captions, start) -> Animation:
    """Curves with a slider for each setting they depend on; works offline, in JupyterLab too.

    sliders: {setting: values (n,)}, one or more; axes: `Panel`s; captions (n, …): a line for each
    combination of values; start: the indices shown first, and in the figure for paper. Everything
    is precomputed: points travel as 16-bit integers in base64, a ten-thousandth of the axis each.
    The page takes its colours from the text around it (light or dark). At most 4 names of curves,
    which keep their colour and dashes in all panels.
    Raises CourseError if shapes disagree or the page exceeds 300 kB.
    """
    shape = tuple(len(values) for values in sliders.values())
    styles = {name: i for i, name in enumerate(dict.fromkeys(n for p in axes for n in p.curves))}
    texts = np.asarray(captions, dtype=object)
    shapes = {f"curve {name}": np.shape(y) for p in axes for name, (_, y) in p.curves.items()}
    for what, found in {"captions": (*texts.shape, 0), **shapes}.items():
        if found[:-1] not in ((), shape) or (what == "captions" and found[:-1] != shape):
            raise CourseError(f"{what}: {found[:-1]} values for sliders of {shape}")
    data = {
        "names": list(sliders),
        "values": [[f"{v:g}".replace("-", "−") for v in values] for values in sliders.values()],
        "captions": texts.ravel().tolist(),
        "panels": [_packed(panel, styles) for panel in axes],
    }
    encoded = json.dumps(data, separators=(",", ":")).replace("</", "<\\/")
    line = '<svg viewBox="0 0 36 8" aria-hidden="true"><line x2="36" y1="4" y2="4" stroke-width="3"'
    ranges = [
        f'<label><span></span><input type="range" min="0" max="{n - 1}" step="1" value="{at}" '
        f'aria-label="{html.escape(name, quote=True)}"></label>'
        for name, n, at in zip(sliders, shape, start, strict=True)
    ]
    slots = {
        "CANVASES": "".join(
            f'<canvas role="img" aria-label="{html.escape(text, quote=True)}"></canvas>'
            for text in (f"{p.title}: {p.ylabel} against {p.xlabel}" for p in axes)
        ),
        "LEGEND": "".join(f"<span>{line}/></svg>{html.escape(name)}</span>" for name in styles),
        "SLIDERS": "\n".join(ranges),
    }
    return Animation(_page("explorer.html", slots, encoded), _explored(axes, styles, start))


def _packed(panel: Panel, styles: dict) -> dict:
    """A panel for the page: its words, ticks and curves as shares of the axes."""
    ends = np.log10(panel.ylim) if panel.log else np.asarray(panel.ylim, dtype=float)

    def whole(values, low, high):
        share = np.rint((np.asarray(values, dtype=float) - low) / (high - low) * 1e4)
        return base64.b64encode(share.clip(-32_767, 32_767).astype("<i2").tobytes()).decode()

    def ticks(places, labels, low, high):
        return [[float((p - low) / (high - low)), x] for p, x in zip(places, labels, strict=True)]

    def plain(low, high):
        places = [p for p in MaxNLocator(5).tick_values(low, high) if low <= p <= high]
        return ticks(places, [f"{p:g}".replace("-", "−") for p in places], low, high)

    every = max(1, int(np.ptp(ends)) // 5)
    powers = range(math.ceil(ends[0]), math.floor(ends[1]) + 1, every)
    raised = [f"10{str(p).translate(_RAISED)}" for p in powers]
    return {
        **{name: getattr(panel, name) for name in ("title", "xlabel", "ylabel")},
        "xticks": plain(*panel.xlim),
        "yticks": ticks(powers, raised, *ends) if panel.log else plain(*ends),
        "curves": [
            {
                "style": styles[name],
                "moves": np.ndim(y) > 1,
                "x": whole(x, *panel.xlim),
                "y": whole(np.log10(y) if panel.log else y, *ends),
            }
            for name, (x, y) in panel.curves.items()
        ],
    }


def _explored(several, styles, start) -> Figure:
    """The `Panel`s at one setting, as a figure."""
    figure, axes = panels(1, len(several), height=4.0, squeeze=False)
    for ax, panel in zip(axes[0], several, strict=True):
        for name, (x, y) in panel.curves.items():
            i = styles[name]
            y = y[tuple(start)] if np.ndim(y) > 1 else y
            ax.plot(x, y, color=COLOURS[i], linestyle=LINES[i], label=name)
        ax.set(xlabel=panel.xlabel, ylabel=panel.ylabel, xlim=panel.xlim, title=panel.title)
        ax.set(yscale="log" if panel.log else "linear", ylim=panel.ylim)
    handles = {k: h for ax in axes[0] for h, k in zip(*ax.get_legend_handles_labels(), strict=True)}
    figure.legend(handles.values(), handles, loc="outside lower center", ncols=2)
    return figure


def live(draw, **controls) -> None:
    """Controls with which a person who sits at the notebook in JupyterLab draws a figure anew.

    controls: {argument of draw: (label, values, start)}, a slider for numbers, a menu for words;
    start is one of the values. draw(**values) gives a figure and a sentence on what it shows: its
    alternative text, and written under it. Nothing is precomputed, so draw may take a second.
    Where nobody can move a control (the course's runs, the tests) draw is only tried at the start,
    and a line points to the figure above, which is always the same one: see `explorer`.
    Raises CourseError for an argument that draw lacks, or a start that is none of the values.
    """
    arguments = inspect.signature(draw).parameters
    for name, (_, values, start) in controls.items():
        if name not in arguments:
            raise unknown(f"argument of {draw.__name__}", name, arguments)
        if start not in list(values):
            raise CourseError(
                f"the control {name} starts at {start!r}, which is none of its values"
            )

    def redraw(**values):
        figure, sentence = draw(**values)
        show(figure, sentence)
        print(sentence)

    if attended():
        from ipywidgets import interactive

        display(interactive(redraw, **{name: _control(*c) for name, c in controls.items()}))
    else:
        draw(**{name: start for name, (_, _, start) in controls.items()})
        print(AWAY)


def attended() -> bool:
    """Whether somebody sits at the notebook: JupyterLab lets a cell ask its reader a question,
    while papermill, nbval and nbconvert, which execute alone, forbid it."""
    return bool(getattr(getattr(get_ipython(), "kernel", None), "_allow_stdin", False))


def _control(label: str, values, start):
    """A slider over numbers, a menu of words; moves count when the reader lets go."""
    from ipywidgets import Dropdown, SelectionSlider

    look = {"description": label, "style": {"description_width": "initial"}}
    if all(isinstance(value, str) for value in values):
        return Dropdown(options=list(values), value=start, **look)
    named = [(f"{value:g}".replace("-", "−"), value) for value in values]
    wide = {"width": "min(100%, 36rem)"}
    return SelectionSlider(options=named, value=start, continuous_update=False, layout=wide, **look)


def groups_of_points(points, group, names, title: str = "", ax=None) -> Figure:
    """Points (n, 2) with a colour and a marker for each group (n,), the origin marked."""
    ax = ax or panels(height=4.4)[1]
    points, group = np.asarray(points), np.asarray(group)
    for i, name in enumerate(names):
        style = {"color": COLOURS[(1, 3, 0)[i % 3]], "marker": MARKERS[i % 3]}
        ax.scatter(*points[group == i].T, s=13, alpha=0.7, linewidths=0, label=name, **style)
    origin(ax)
    ax.set(xlabel="first singular direction", ylabel="second", title=title)
    ax.legend(loc="best", markerscale=1.8, handletextpad=0.2)
    return ax.figure


_SHAPES = (
    '<circle cx="6" cy="6" r="3.2"/>',
    '<rect x="2.5" y="2.5" width="7" height="7"/>',
    '<path d="M6 1 11 10 1 10Z"/>',
)
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
