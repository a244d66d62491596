"""Figures that move: snapshots that play, curves with sliders, and controls in JupyterLab.

Animations and explorers are page fragments that hold all they show, computed before; they work
offline, on the website and in JupyterLab. Points travel as 16-bit integers in base64. A page takes
its colours from the text around it, light or dark.
"""

import base64
import hashlib
import html
import inspect
import json
import math
from importlib import resources
from typing import Literal, NamedTuple

import numpy as np
from IPython import get_ipython
from IPython.display import display
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from course_lab.plots.figures import groups_of_points
from course_lab.plots.style import COLOURS, HALO, LINES, Animation, panels, show
from course_lib.errors import CourseError, unknown

ANIMATION_BYTES = 300_000
AWAY = "In JupyterLab this cell has controls; on the website the figure above has its own."
SHAPES = (  # of the groups in the legend: disc, square, triangle
    '<circle cx="6" cy="6" r="3.2"/>',
    '<rect x="2.5" y="2.5" width="7" height="7"/>',
    '<path d="M6 1 11 10 1 10Z"/>',
)
DASH = '<svg viewBox="0 0 36 8" aria-hidden="true"><line x2="36" y1="4" y2="4" stroke-width="3"'
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def collapse_animation(frames, group, names, captions, one_scale: bool = False) -> Animation:
    """Snapshots of a cloud to be played or dragged through.

    Each snapshot fills the view: the radius that holds 99 % of its points is stated under it. The
    page moves in jumps where the reader prefers reduced motion.

    frames: (F, P, 2), the P points of each snapshot.
    group: (P,), numbers 0 … len(names) − 1, drawn in that order as discs, squares and triangles.
    names: at most three.
    captions: a line for each snapshot.
    one_scale: whether all snapshots have the view of the widest one.
    Raises CourseError if shapes disagree or the page exceeds 300 kB.
    """
    frames = np.asarray(frames, dtype=float)
    group = np.asarray(group)
    F, P, _ = frames.shape
    if len(group) != P or len(captions) != F:
        raise CourseError(
            f"{F} snapshots of {P} points need {F} captions and {P} groups, "
            f"got {len(captions)} and {len(group)}"
        )
    radius = np.quantile(np.abs(frames).max(-1), 0.99, axis=1).clip(1e-12)
    if one_scale:
        radius = np.full(F, np.abs(frames).max())
    data = {
        "points": _packed(frames / radius[:, None, None] * 16_000),
        "group": base64.b64encode(group.astype("u1").tobytes()).decode(),
        "shape": [F, P],
        "radius": [float(f"{r:.3g}") for r in radius],
        "captions": list(captions),
    }
    legend = "".join(
        f'<span><svg viewBox="0 0 12 12" aria-hidden="true">{shape}</svg>{html.escape(name)}</span>'
        for name, shape in zip(names, SHAPES, strict=False)
    )
    page = _page("collapse.html", {"LAST": str(F - 1), "LEGEND": legend}, data)
    return Animation(page, groups_of_points(frames[-1], group, names))


class Panel(NamedTuple):
    """The axes of an `explorer`, one of several.

    curves: {name: (x (P,), y)}, with y (P,) for a curve that stays and (n, …, P), an array or
    a list of rows, for one that follows the sliders.
    log: whether y is logarithmic.
    labels: where the names stand in the axes: at the "top" of each curve, at its "end", or only in
        the legend.
    square: whether the axes are as wide as high, as directions in a plane need.
    """

    curves: dict
    xlabel: str
    ylabel: str
    xlim: tuple[float, float]
    ylim: tuple[float, float]
    title: str = ""
    log: bool = False
    labels: Literal["top", "end"] | None = None
    square: bool = False


def explorer(sliders, axes, captions, start) -> Animation:
    """Curves with a slider for each setting on which they depend, all computed before.

    sliders: {setting: values (n,)}, one or more.
    axes: `Panel`s, with at most 5 names of curves, which keep colour and dashes in all of them.
    captions: (n, …), a line for each combination of values.
    start: the indices of the values shown first, and in the figure for paper.
    Raises CourseError if shapes disagree, for a sixth name, or if the page exceeds 300 kB.
    """
    # every curve that moves, and the captions, have an entry for each combination of values
    shape = tuple(len(values) for values in sliders.values())
    texts = np.asarray(captions, dtype=object)
    if texts.shape != shape:
        raise CourseError(f"captions: {texts.shape} values for sliders of {shape}")
    for panel in axes:
        for name, (_, y) in panel.curves.items():
            if np.shape(y)[:-1] not in ((), shape):
                raise CourseError(f"curve {name}: {np.shape(y)[:-1]} values for sliders of {shape}")

    # what the page draws
    names = dict.fromkeys(name for panel in axes for name in panel.curves)
    if len(names) > 5:
        raise CourseError(f"an explorer has 5 names of curves at most, not {', '.join(names)}")
    styles = {name: i for i, name in enumerate(names)}
    data = {
        "names": list(sliders),
        "values": [[f"{v:g}".replace("-", "−") for v in values] for values in sliders.values()],
        "captions": texts.ravel().tolist(),
        "panels": [_panel_data(panel, styles) for panel in axes],
    }

    # the page around it
    labels = [f"{panel.title}: {panel.ylabel} against {panel.xlabel}" for panel in axes]
    canvases = [
        f'<canvas role="img" aria-label="{html.escape(label, quote=True)}"></canvas>'
        for label in labels
    ]
    ranges = [
        f'<label><span></span><input type="range" min="0" max="{n - 1}" step="1" value="{at}" '
        f'aria-label="{html.escape(name, quote=True)}"></label>'
        for name, n, at in zip(sliders, shape, start, strict=True)
    ]
    slots = {
        "CANVASES": "".join(canvases),
        "LEGEND": "".join(f"<span>{DASH}/></svg>{html.escape(name)}</span>" for name in styles),
        "SLIDERS": "\n".join(ranges),
    }
    return Animation(_page("explorer.html", slots, data), _explored(axes, styles, start))


def live(draw, **controls) -> None:
    """Show controls with which a person who sits at the notebook draws a figure anew.

    Nothing is computed before, so that draw may take a second. Where nobody can move a control (in
    the course's runs and the tests) draw is only tried at the start, and a line points to the
    figure above, which is always the same one: see `explorer`.

    draw: a function of the controls' values that returns a figure and a sentence on what it shows,
    which is its alternative text and is written under it.
    controls: {argument of draw: (label, values, start)}, a slider for numbers, a menu for words;
    start is one of the values.
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
    """Return whether somebody sits at the notebook.

    JupyterLab lets a cell ask its reader a question, while papermill, nbval and nbconvert, which
    execute alone, forbid it.
    """
    return bool(getattr(getattr(get_ipython(), "kernel", None), "_allow_stdin", False))


def _control(label: str, values, start):
    """Return a slider over numbers, a menu of words; a move counts when the reader lets go."""
    from ipywidgets import Dropdown, SelectionSlider

    look = {"description": label, "style": {"description_width": "initial"}}
    if all(isinstance(value, str) for value in values):
        return Dropdown(options=list(values), value=start, **look)
    named = [(f"{value:g}".replace("-", "−"), value) for value in values]
    wide = {"width": "min(100%, 36rem)"}
    return SelectionSlider(options=named, value=start, continuous_update=False, layout=wide, **look)


def _page(file: str, slots: dict, data: dict) -> str:
    """Return the fragment in `file` with its slots filled, and an id that its data decide."""
    encoded = json.dumps(data, separators=(",", ":")).replace("</", "<\\/")
    page, redraw = (
        resources.files("course_lab.plots").joinpath(name).read_text(encoding="utf-8")
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


def _packed(numbers) -> str:
    """Return numbers, rounded to whole ones of 16 bits, in base64."""
    whole = np.rint(numbers).clip(-32_767, 32_767)
    return base64.b64encode(whole.astype("<i2").tobytes()).decode()


def _panel_data(panel: Panel, styles: dict) -> dict:
    """Return a panel for the page: its words, ticks and curves as ten-thousandths of the axes."""
    left, right = panel.xlim
    low, high = np.log10(panel.ylim) if panel.log else np.asarray(panel.ylim, dtype=float)

    # places as shares of an axis, and its ticks
    def along(values, start, end):
        return (np.asarray(values, dtype=float) - start) / (end - start)

    def plain_ticks(start, end):
        places = [p for p in MaxNLocator(5).tick_values(start, end) if start <= p <= end]
        words = [f"{p:g}".replace("-", "−") for p in places]
        return [[float(along(p, start, end)), word] for p, word in zip(places, words, strict=True)]

    def power_ticks(start, end):
        every = max(1, int(end - start) // 5)
        powers = range(math.ceil(start), math.floor(end) + 1, every)
        return [[float(along(p, start, end)), f"10{str(p).translate(RAISED)}"] for p in powers]

    # the curves
    curves = []
    for name, (x, y) in panel.curves.items():
        heights = np.log10(np.asarray(y)) if panel.log else y
        curves.append(
            {
                "name": name,
                "labels": panel.labels and [_label(row, panel.labels) for row in _rows(y)],
                "style": styles[name],
                "moves": np.ndim(y) > 1,
                "x": _packed(1e4 * along(x, left, right)),
                "y": _packed(1e4 * along(heights, low, high)),
            }
        )
    return {
        "title": panel.title,
        "xlabel": panel.xlabel,
        "square": panel.square,
        "ylabel": panel.ylabel,
        "xticks": plain_ticks(left, right),
        "yticks": power_ticks(low, high) if panel.log else plain_ticks(low, high),
        "curves": curves,
    }


def _rows(y) -> np.ndarray:
    """Return the heights of a curve, a row for each combination of values."""
    return np.asarray(y, dtype=float).reshape(-1, np.shape(y)[-1])


def _label(y: np.ndarray, where: str) -> tuple[int, int]:
    """Return at which point of a curve its name stands, and whether above (1) or below it (−1).

    At the top it is the middle of the places that are as high but for what nobody sees; at the end
    it is below where the curve falls.
    """
    if where == "end":
        return len(y) - 1, 1 if y[-1] >= y[0] else -1
    first = int(np.argmax(y))
    lower = np.flatnonzero(y[first:] < y[first] - 0.005 * np.ptp(y))
    last = first + int(lower[0]) - 1 if len(lower) else len(y) - 1
    return (first + last) // 2, 1


def _explored(several, styles, start) -> Figure:
    """Return the `Panel`s at one setting, as a figure."""
    figure, axes = panels(1, len(several), height=4.0, squeeze=False)
    for ax, panel in zip(axes[0], several, strict=True):
        for name, (x, y) in panel.curves.items():
            i = styles[name]
            y = np.asarray(y)[tuple(start)] if np.ndim(y) > 1 else y
            ax.plot(x, y, color=COLOURS[i], linestyle=LINES[i], label=name)
            if panel.labels:
                at, side = _label(y, panel.labels)
                look = {"color": COLOURS[i], "path_effects": HALO, "ha": "center", "va": "center"}
                ax.annotate(name, (x[at], y[at]), (0, 9 * side), textcoords="offset points", **look)
        ax.set(xlabel=panel.xlabel, ylabel=panel.ylabel, xlim=panel.xlim, title=panel.title)
        ax.set(yscale="log" if panel.log else "linear", ylim=panel.ylim)
        ax.set_box_aspect(1 if panel.square else None)
    handles = {k: h for ax in axes[0] for h, k in zip(*ax.get_legend_handles_labels(), strict=True)}
    figure.legend(handles.values(), handles, loc="outside lower center", ncols=2)
    return figure
