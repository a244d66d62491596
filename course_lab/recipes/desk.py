"""The desk tier: shapes that were tried."""

from course_lab.parts import part
from course_lab.recipes import own  # noqa: F401  (its recipes come first)
from course_lab.recipes.registry import add, recipes

_start = recipes["ptb/vd-lstm-200/tied/adamw"]
add(
    _start,
    name="ptb/desk-awd-lstm/tied",
    source="the course's own: a shape that was tried for the desk tier",
    encoder=part(
        "AWDLSTM", units=[400, 200], weight_drop=0.2, input_dropout=0.1, hidden_dropout=0.1
    ),
    output_dropout=0.1,
)
add(
    _start,
    name="ptb/desk-qrnn/tied",
    source="the course's own: a shape that was tried for the desk tier",
    encoder=part("QRNN", units=[640, 200], input_dropout=0.1, hidden_dropout=0.1),
    output_dropout=0.1,
)
