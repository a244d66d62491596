"""Drawings of the model, of tying, and of push and pull, as SVG that code writes.

Every lesson shows the same model. What the lesson is about has a colour. The drawings lie in
`notebooks/images`, where `python -m tools notebooks draw` puts them.
"""

import html
from typing import NamedTuple

from course_lab.plots.style import COLOURS, INK, MEANING, PAPER

LETTERS = "font-family='Source Sans 3, Helvetica, Arial, sans-serif' font-size='21'"
PULL, PUSH = COLOURS[MEANING["frequent"]], COLOURS[MEANING["rare"]]
PALE = "#fbe3d0"  # the fill of a part that has a colour
PARTS = {  # of the model, from left to right: the two lines of words, and the width of the box
    "E": (("reads", "E"), 96),
    "encoder": (("encoder", ""), 112),
    "h": (("h", ""), 44),
    "W": (("predicts", "W"), 112),
    "softmax": (("softmax", ""), 112),
}
GAP = 25  # between two boxes, where an arrow stands
TOP, HEIGHT = 68, 84  # of the boxes


class Schematic(NamedTuple):
    """A drawing of the model: the parts with a colour, a line below it, and what it shows.

    `tied` draws the arc from E to W.
    """

    coloured: tuple[str, ...]
    line: str
    tied: bool = True


SCHEMATICS = {  # by lesson
    "01": Schematic(("E", "W"), "One matrix reads words and predicts them."),
    "02": Schematic(("W",), "While the model trains, the rows of W collapse into a cone."),
    "03": Schematic(("h", "W"), "All contexts h lie on one side; rare rows of W flee from them."),
    "04": Schematic(("h", "W", "softmax"), "log P has rank d + 2 at most.", tied=False),
    "05": Schematic(("E", "W", "tying"), "May E and W be one matrix?"),
    "06": Schematic(("W",), "A penalty shortens the mean direction of the rows of W."),
    "07": Schematic(("W",), "The row of the target is moved away from h."),
    "08": Schematic(("W",), "The singular values of W are chosen."),
    "09": Schematic(("h", "softmax"), "Several contexts give several softmaxes, which are mixed."),
    "10": Schematic(("softmax",), "The logits are bent by a rising curve before the softmax."),
    "11": Schematic(("W",), "Who moves the mean of the rows of W?"),
    "12": Schematic(("E", "W", "tying", "softmax"), "One matrix or two? A cap? Which start?"),
}


def words(name: str) -> str:
    """Return the alternative text of a lesson's drawing."""
    schematic = SCHEMATICS[name]
    parts = " and ".join(part for part in schematic.coloured)
    tied = " An arc ties E and W." if schematic.tied else ""
    return (
        "A language model from left to right: matrix E reads words, encoder, context h, matrix W "
        f"predicts words, softmax.{tied} In colour: {parts}. {schematic.line}"
    )


def model(name: str) -> str:
    """Return the drawing of the model for a lesson, as the text of an SVG file."""
    schematic = SCHEMATICS[name]
    colours = {part: PUSH for part in schematic.coloured}

    # The boxes with an arrow before each, and the arrows at both ends.
    pieces = []
    middles = {}
    x = 42
    middle = TOP + HEIGHT / 2
    for part, (lines, width) in PARTS.items():
        pieces.append(_arrow(x - GAP + 3, x - 4, middle))
        pieces.append(_box(x, width, lines, colours.get(part)))
        middles[part] = x + width / 2
        x += width + GAP
    pieces.append(_arrow(x - GAP + 3, x - 4, middle))
    pieces.append(_text(14, middle + 7, "i"))
    pieces.append(_text(x + 10, middle + 7, "p"))

    # The arc of tying, and the line below.
    if schematic.tied:
        ink = colours.get("tying", INK)
        start, end = middles["E"], middles["W"]
        path = f"M{start:g},{TOP - 3} C{start:g},26 {end:g},26 {end:g},{TOP - 3}"
        pieces.append(f"<path d='{path}' fill='none' stroke='{ink}' stroke-width='2.5'/>")
        pieces.append(_text((start + end) / 2, 28, "tied: one matrix", ink))
    pieces.append(_text(330, TOP + HEIGHT + 38, schematic.line))
    return _drawing(674, TOP + HEIGHT + 56, words(name), pieces)


def push_and_pull() -> str:
    """Return the drawing of one step of the softmax in a plane, as the text of an SVG file."""
    alt = (
        "A plane with the origin, a context h that points to the right, and four word vectors. "
        "The row of the target is pulled along h. The three other rows are pushed the other way, "
        "all in the same direction."
    )
    centre = (250, 150)
    pieces = [_line(centre, (470, 110), INK, 3), _text(492, 108, "h")]
    tips = {"target": (330, 60), "rare": (205, 75), "rarer": (165, 150), "frequent": (290, 235)}
    for name, tip in tips.items():
        step = (70, -13) if name == "target" else (-58, 11)
        colour = PULL if name == "target" else PUSH
        pieces.append(_line(centre, tip, INK, 1.5, head=False))
        end = (tip[0] + step[0], tip[1] + step[1])
        pieces.append(_line(tip, end, colour, 4))
        pieces.append(f"<circle cx='{tip[0]}' cy='{tip[1]}' r='5' fill='{INK}'/>")
    pieces.append(_text(372, 36, "pull: the target's row", PULL))
    pieces.append(_text(118, 262, "push: all other rows", PUSH))
    pieces.append(f"<circle cx='{centre[0]}' cy='{centre[1]}' r='3.5' fill='{INK}'/>")
    pieces.append(_text(centre[0] + 58, centre[1] + 24, "origin"))
    return _drawing(560, 285, alt, pieces)


def drawings() -> dict[str, str]:
    """Return every drawing by its file's name."""
    files = {f"{name}_model.svg": model(name) for name in SCHEMATICS}
    return files | {"push_and_pull.svg": push_and_pull()}


def _drawing(width: float, height: float, alt: str, pieces: list[str]) -> str:
    """Return an SVG file with its own paper, which reads on a light page and on a dark one."""
    title = html.escape(alt)
    paper = f"<rect width='{width:g}' height='{height:g}' rx='10' fill='{PAPER}'/>"
    head = (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width:g} {height:g}' "
        f"width='{width:g}' height='{height:g}' role='img'>"
    )
    return "\n".join([head, f"<title>{title}</title>", paper, *pieces, "</svg>"]) + "\n"


def _box(x: float, width: float, lines: tuple[str, str], colour: str | None) -> str:
    """Return a box with one line of words or two."""
    fill, ink, thick = (PALE, colour, 4) if colour else ("none", INK, 2)
    drawn = (
        f"<rect x='{x:g}' y='{TOP}' width='{width:g}' height='{HEIGHT}' rx='8' fill='{fill}' "
        f"stroke='{ink}' stroke-width='{thick}'/>"
    )
    middle = x + width / 2
    first, second = lines
    if not second:
        return drawn + _text(middle, TOP + HEIGHT / 2 + 7, first)
    return drawn + _text(middle, TOP + 34, second) + _text(middle, TOP + 64, first)


def _text(x: float, y: float, words: str, colour: str = INK) -> str:
    """Return words whose middle stands at x."""
    place = f"x='{x:g}' y='{y:g}' text-anchor='middle' fill='{colour}'"
    return f"<text {place} {LETTERS}>{html.escape(words)}</text>"


def _arrow(start: float, end: float, y: float) -> str:
    """Return a level arrow."""
    return _line((start, y), (end, y), INK, 2)


def _line(start, end, colour: str, thick: float, head: bool = True) -> str:
    """Return a line from `start` to `end`, with a head at its end."""
    (x, y), (u, v) = start, end
    drawn = (
        f"<line x1='{x:g}' y1='{y:g}' x2='{u:g}' y2='{v:g}' stroke='{colour}' "
        f"stroke-width='{thick:g}'/>"
    )
    if not head:
        return drawn
    length = ((u - x) ** 2 + (v - y) ** 2) ** 0.5
    along = ((u - x) / length, (v - y) / length)
    reach = 4 + 2.2 * thick
    corners = [(u + along[0] * 2, v + along[1] * 2)]
    for side in (1, -1):
        back = (u - along[0] * reach, v - along[1] * reach)
        corners.append(
            (back[0] - side * along[1] * reach / 2, back[1] + side * along[0] * reach / 2)
        )
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in corners)
    return f"{drawn}<polygon points='{points}' fill='{colour}'/>"
