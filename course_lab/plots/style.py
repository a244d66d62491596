"""The house style of every figure, and how a figure is shown with its words.

Importing this module sets Matplotlib's defaults, with which seaborn draws, too. The palette is that
of Okabe and Ito, safe for the colour-blind, with a line style and a marker for each colour, so that
greyscale is enough. Dark ink stands on its own paper, which reads on a light page and on a dark
one. Letters stay legible when a phone shrinks the figure.
"""

import base64
import html
import io
import math
import re
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
from cycler import cycler
from IPython.display import display
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from PIL import Image

from course_lib.errors import CourseError

INK, PAPER = "#1f2430", "#fdfcf9"
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#8B3F77", "#A66F00", "#3D3D3D"]
MEANING = {"rare": 1, "between": 3, "frequent": 0, "plain": 5, "remedy": 2}  # in every lesson
MEANING |= {"penalty": 2, "centred": 4}  # remedies, too
MEANING |= {"control": MEANING["remedy"]}  # spectrum control is a remedy
LINES = ["-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 2))]
MARKERS = ["o", "s", "^", "D", "v", "P"]
FREQUENCY = LinearSegmentedColormap.from_list("rare to frequent", ["#F2A65A", "#C4446A", "#1B1F5E"])
LOST_WON = LinearSegmentedColormap.from_list("lost to won", ["#E8A15C", PAPER, "#6FB1DC"])
HALO = [withStroke(linewidth=2.5, foreground=PAPER)]  # around words that stand on points

_DEFAULTS: Any = {
    "figure.figsize": (6.2, 3.9),
    "figure.dpi": 100,
    "figure.constrained_layout.use": True,
    "figure.constrained_layout.w_pad": 0.07,
    "figure.constrained_layout.h_pad": 0.07,
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
plt.rcParams.update(_DEFAULTS)


def colours(names) -> list[str]:
    """Return a colour for each name: that of its meaning, where it speaks of rare words and so on.

    The other names take the colours that are left, in order, and begin again where none is left.
    """
    words = [set(re.findall(r"\w+", str(name))) for name in names]
    meant = [next((i for word, i in MEANING.items() if word in own), None) for own in words]
    free = [i for i in range(len(COLOURS)) if i not in meant] or list(range(len(COLOURS)))
    others = 0
    chosen = []
    for number in meant:
        if number is None:
            number = free[others % len(free)]
            others += 1
        chosen.append(COLOURS[number])
    return chosen


def curve_style(number: int) -> dict:
    """Return colour, line style and marker of the curve of that number, counted from 0."""
    i = number % len(COLOURS)
    colour = {"color": COLOURS[i], "markeredgecolor": COLOURS[i]}
    return colour | {"linestyle": LINES[i], "marker": MARKERS[i]}


def panels(rows: int = 1, columns: int = 1, height: float = 3.6, **options) -> tuple[Figure, Any]:
    """Return a figure and its axes, at most 7.4 inches wide, `height` inches a row.

    The figure is unknown to pyplot, so that a notebook shows it only through `show`.

    rows, columns: the number of axes; the axes come as `plt.subplots` returns them.
    options: those of `Figure.subplots`.
    """
    width = 6.2 if columns == 1 else 7.4
    figure = Figure(figsize=(width, height * rows))
    return figure, figure.subplots(rows, columns, **options)


class Animation(NamedTuple):
    """A figure that plays: a page fragment, and its last moment as a figure for paper."""

    page: str
    last: Figure


def show(fig, alt: str) -> None:
    """Display a figure, or an `Animation`, with its alternative text, and close it.

    The text goes to the output's metadata, `["image/png"]["alt"]`, where the website finds it.
    Raises CourseError if `alt` says too little.
    """
    if len(alt.strip()) < 20:
        raise CourseError(f"describe the figure in a sentence for those who cannot see it: {alt!r}")
    bundle = {"text/plain": alt}
    if isinstance(fig, Animation):
        bundle["text/html"] = fig.page.replace("@ALT@", html.escape(alt, quote=True))
        fig = fig.last
    _without_numbers(fig)
    bundle["image/png"] = base64.b64encode(png(fig)).decode()
    display(bundle, raw=True, metadata={"image/png": {"alt": alt}})
    plt.close(fig)


def _without_numbers(fig: Figure) -> None:
    """Make axes linear that are logarithmic and empty, as where no result is kept."""
    for ax in fig.axes:
        for axis, change in ((ax.xaxis, ax.set_xscale), (ax.yaxis, ax.set_yscale)):
            if axis.get_scale() == "log" and not math.isfinite(axis.get_minpos()):
                change("linear")


def png(fig: Figure) -> bytes:
    """Return `fig` as a PNG file: the same figure gives the same bytes.

    The file has 120 dots an inch and at most 256 colours, which are a quarter of the bytes, and it
    carries no date.
    """
    drawn = io.BytesIO()
    fig.savefig(drawn, format="png", dpi=120)
    picture = Image.open(drawn).convert("RGB").quantize(256, dither=Image.Dither.NONE)
    small = io.BytesIO()
    picture.save(small, format="png", optimize=True)
    return small.getvalue()
