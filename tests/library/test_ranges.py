"""Ranges hold where they are declared, for numbers of every kind."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from annotated_types import Ge
from hypothesis import given
from hypothesis import strategies as st

from course_lib.errors import CourseError
from course_lib.ranges import Count, Dropout, Finite, InRange, Positive, Share, check, checked

GOOD = [(Positive, 2), (Positive, np.float32(0.5)), (Finite, -3.0), (Share, 1), (Dropout, 0)]
GOOD += [
    (float, -3),
    (int, 10**400),
    (Count, 1),
    (Count, np.int64(4)),
    (Count | None, None),
    (Positive | Sequence[Positive], [1, 2]),
]
BAD = [(Positive, 0), (Positive, math.inf), (Positive, math.nan), (Positive, True), (Positive, "1")]
BAD += [(Finite, -math.inf), (Share, 1.5), (Dropout, 1.0), (Count, 0), (Count, 1.0), (Count, True)]
BAD += [(float, math.inf), (float, -math.inf), (float, math.nan), (int, 1.0), (int, True)]
BAD += [(bool, "no"), (bool, 1), (Count | None, 0), (Positive | Sequence[Positive], [1, 0])]


@pytest.mark.parametrize(("hint", "value"), GOOD)
def test_a_value_inside_passes(hint, value):
    check("x", value, hint)


@pytest.mark.parametrize(("hint", "value"), BAD)
def test_a_value_outside_is_refused_by_name(hint, value):
    with pytest.raises(CourseError, match="^x must be "):
        check("x", value, hint)


@given(st.floats(allow_nan=True))
def test_a_share_is_what_lies_between_0_and_1(value):
    if 0 <= value <= 1:
        check("x", value, Share)
    else:
        with pytest.raises(CourseError):
            check("x", value, Share)


PAIR = tuple[Dropout, Count]


@pytest.mark.parametrize(
    ("hint", "value", "fits"),
    [
        (Positive | Sequence[Positive], range(1, 4), True),
        (Sequence[Positive], "12", False),
        (PAIR, (0.5, 3), True),
        (PAIR, (0.5, 0), False),
        (PAIR, (0.5,), False),
        (PAIR, (), False),
        (tuple[Count, ...], (), True),
        (list[Count], [1, 0], False),
    ],
)
def test_sequences_are_judged_entry_by_entry(hint, value, fits):
    if fits:
        check("x", value, hint)
    else:
        with pytest.raises(CourseError, match="^x must be a list|^x must be a number"):
            check("x", value, hint)


def test_numpys_numbers_become_pythons():
    import json
    from dataclasses import asdict

    from course_lib.training import Optimisation

    settings = asdict(Optimisation(epochs=np.int64(3), learning_rate=np.float32(0.5)))
    assert json.loads(json.dumps(settings))["epochs"] == 3
    words = {"optimizer": "adamw", "betas": [np.float32(0.5), 0.9], "eps": np.float32(0.25)}
    settings = asdict(Optimisation(betas=(np.float32(0.5), 0.75), groups={"words.": words}))
    assert json.loads(json.dumps(settings))["betas"] == [0.5, 0.75]
    assert settings["groups"]["words."]["betas"] == (0.5, 0.9)


def test_the_message_says_range_owner_and_value():
    class Layer:
        @checked
        def __init__(self, words, k: Positive = 1.0, *, n: Count | None = None):
            self.k = k

    assert Layer("anything", 2.0).k == 2.0
    with pytest.raises(CourseError, match="^k of Layer must be a number above 0, not -1$"):
        Layer("anything", k=-1)
    with pytest.raises(
        CourseError, match="n of Layer must be a whole number of at least 1 or none"
    ):
        Layer("anything", n=0)
    with pytest.raises(TypeError, match=r"Layer.__init__\(\) got an unexpected .* 'm'"):
        Layer("anything", m=0)


def test_fields_of_a_dataclass_are_checked():
    @dataclass(frozen=True)
    class Loss(InRange):
        weight: Finite = 1.0
        name: str = ""

    assert Loss(-2.0).weight == -2.0
    with pytest.raises(CourseError, match="weight of Loss must be a finite number, not nan"):
        Loss(math.nan)


def test_bounds_that_nobody_named_hold_too():
    from typing import Annotated

    check("x", 3.5, Annotated[float, Ge(3)])
    with pytest.raises(CourseError, match="a number at least 3"):
        check("x", 2.5, Annotated[float, Ge(3)])


def test_an_annotation_for_type_checkers_alone_says_nothing():
    @checked
    def f(x: "NobodyKnows", k: "Positive" = 1.0) -> "NobodyKnows":  # noqa: F821
        return x

    assert f("anything") == "anything"
    with pytest.raises(CourseError, match="k must be"):
        f("anything", 0)


def test_a_class_with_ranges_asks_for_one_of_its_instances():
    @dataclass(frozen=True)
    class Loss(InRange):
        weight: Finite = 1.0

    for good in (Loss(), None):
        check("x", good, Loss | None)
    for bad in (Loss, 1.0, lambda: Loss()):
        with pytest.raises(CourseError, match="^x must be an instance of Loss or none, not "):
            check("x", bad, Loss | None)
    with pytest.raises(CourseError, match="^x must be a list, each entry an instance of Loss"):
        check("x", (Loss(), 1.0), tuple[Loss, ...])
