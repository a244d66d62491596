"""A6, the final project: its steps; the laws stand by idea in files of their own."""

from tools.assignments.laws import a6_examination, a6_layer, a6_registration
from tools.assignments.laws.common import Limits, Step

TORCH = Limits(60, 200, True)
RIGHT, CANDIDATES = {}, {}  # no step asks for a law
STEPS = (
    Step(
        "6.1",
        "register",
        "analysis",
        ("layer", "baseline"),
        20,
        90,
        a6_registration.LAWS,
        read="lesson 23, Is the difference real?",
        kind="project",
    ),
    Step(
        "6.2",
        "examine",
        "report",
        ("W", "counts"),
        30,
        150,
        a6_examination.LAWS,
        (a6_examination.many_words,),
        "lesson 36, How ill is ill?",
        {"memory": "{} for 100,000 words: no table of pairs is needed"},
        limits=Limits(calls=12),
        kind="project",
    ),
    Step(
        "6.3",
        "combine",
        "Layer",
        ("methods", "W", "bias", "p", "strengths", "h", "y", "block"),
        40,
        180,
        a6_layer.LAWS,
        (a6_layer.no_table,),
        "lesson 07, The code",
        {"memory": "{} for 1,600 contexts of 12,000 words: what does autograd keep of a block?"},
        TORCH,
        harness=a6_layer.HARNESS,
        shown="values(Layer, methods, W, bias, p, strengths, h, y, block)",
    ),
    Step("6.4", "run", "", (), 40, 180, read="lesson 23, Is the difference real?", kind="project"),
    Step("6.5", "claim", "", (), 30, 60, read="lesson 23, Is the difference real?", kind="project"),
    Step("6.6", "report", "", (), 30, 150, kind="manual"),
    Step("6.7", "referee", "", (), 10, 30, kind="manual"),
)
TITLE = "A6. Final project: examine, combine, defend"
