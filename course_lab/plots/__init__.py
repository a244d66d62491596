"""Every figure that the lessons share, in one house style.

`style` has the palette and shows a figure with its alternative text, `figures` draws with seaborn,
`evidence` draws our results beside published ones, `interactive` makes what moves.
"""

from course_lab.plots.evidence import beside, claims, correlated, coverage, turned
from course_lab.plots.figures import (
    against_frequency,
    arrows,
    cloud,
    cosine_histogram,
    differences,
    frequency_rank,
    groups_of_points,
    learning_curve,
    lines,
    origin,
    seeds,
    singular_values,
    states_and_classes,
    wins,
)
from course_lab.plots.interactive import Panel, attended, collapse_animation, explorer, live
from course_lab.plots.style import (
    COLOURS,
    FREQUENCY,
    INK,
    LINES,
    MARKERS,
    PAPER,
    Animation,
    panels,
    png,
    show,
)

__all__ = [
    "COLOURS",
    "FREQUENCY",
    "INK",
    "LINES",
    "MARKERS",
    "PAPER",
    "Animation",
    "Panel",
    "against_frequency",
    "arrows",
    "attended",
    "beside",
    "claims",
    "cloud",
    "collapse_animation",
    "correlated",
    "cosine_histogram",
    "coverage",
    "differences",
    "explorer",
    "frequency_rank",
    "groups_of_points",
    "learning_curve",
    "lines",
    "live",
    "origin",
    "panels",
    "png",
    "seeds",
    "show",
    "singular_values",
    "states_and_classes",
    "turned",
    "wins",
]
