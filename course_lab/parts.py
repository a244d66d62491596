"""The parts that an experiment is made of: names with options, and the classes they stand for."""

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from course_lab.adaptation import ContinuousCache, DynamicEvaluation
from course_lab.validation import validated
from course_lib.errors import CourseError, unknown
from course_lib.evaluation.translation import BeamSearch
from course_lib.models import (
    AWDLSTM,
    QRNN,
    RHN,
    InputEmbedding,
    LSTMTranslator,
    Transformer,
    TransformerXL,
    VariationalLSTM,
)
from course_lib.models.kneser_ney import Ngrams
from course_lib.output_layers import (
    OUTPUT_LAYERS,
    AugmentedLoss,
    CrossEntropy,
    FullWords,
    LabelSmoothing,
    SpectralWords,
    ZLoss,
)
from course_lib.regularizers import REGULARIZERS
from course_lib.training.schedules import SCHEDULES

# What a part's name may stand for in each role; a new method is entered here.
KINDS = {
    "encoder": (
        VariationalLSTM,
        AWDLSTM,
        QRNN,
        RHN,
        TransformerXL,
        Transformer,
        LSTMTranslator,
        Ngrams,
    ),
    "words": (FullWords, SpectralWords),
    "input_embedding": (InputEmbedding,),
    "output_layer": OUTPUT_LAYERS,
    "objective": (CrossEntropy, LabelSmoothing, ZLoss, AugmentedLoss),
    "regularizer": tuple(REGULARIZERS.values()),
    "schedule": tuple(SCHEDULES.values()),
    "adaptation": (ContinuousCache, DynamicEvaluation),
    "decoding": (BeamSearch,),
}
# The first arguments of a class, which the experiment gives and an option cannot. Those of n-grams
# are options all.
GIVEN = {"encoder": 1, "words": 2, "output_layer": 2}


def enter(role: str, kind: type) -> type:
    """Enter a class of the reader's own, so that recipes can name it; return the class.

    role: encoder, words, output_layer and so on, a key of `KINDS`.
    Raise CourseError for an unknown role, and for a name that another class of the role has.
    """
    if role not in KINDS:
        raise unknown("role", role, KINDS)
    if any(kind.__name__ == other.__name__ and kind is not other for other in KINDS[role]):
        raise CourseError(f"there is another {role} called {kind.__name__}; choose another name")
    KINDS[role] = tuple(dict.fromkeys((*KINDS[role], kind)))
    return kind


@dataclass(frozen=True)
class Part:
    """A component by name with its options: `part("VariationalLSTM", units=200)`."""

    kind: str
    options: dict[str, Any] = field(default_factory=dict)

    def class_in(self, role: str) -> type:
        """Return the class of that name; CourseError with near matches where there is none."""
        kinds = {kind.__name__: kind for kind in KINDS[role]}
        if self.kind not in kinds:
            raise unknown(role.replace("_", " "), self.kind, kinds)
        return kinds[self.kind]

    def hints(self, role: str) -> dict[str, Any]:
        """Return the annotation of every option in that role, stated or not."""
        kind = self.class_in(role)
        given = 0 if issubclass(kind, Ngrams) else GIVEN.get(role, 0)
        return dict(list(annotations(kind).items())[given:])

    def check(self, role: str) -> None:
        """Raise CourseError for an unknown kind or option, or a value that an option cannot have.

        Near matches are listed for a mistyped name.
        """
        hints = self.hints(role)
        for option, value in self.options.items():
            if option not in hints:
                raise unknown(f"option of {self.kind}", option, hints)
            validated(f"{option} of {self.kind}", value, hints[option])

    def build(self, role: str, *given) -> Any:
        """Return the object itself; CourseError as `check` raises it."""
        self.check(role)
        return self.class_in(role)(*given, **self.options)


def part(kind: str, **options) -> Part:
    """Return a `Part` with keyword options."""
    return Part(kind, options)


def plain(value: Any) -> Any:
    """Return plain data with its tuples as lists, as JSON will return them."""
    if isinstance(value, dict):
        return {name: plain(v) for name, v in value.items()}
    return [plain(v) for v in value] if isinstance(value, list | tuple) else value


@functools.cache
def annotations(make: Callable) -> dict[str, Any]:
    """Return the annotation of every argument of a class or function, by name.

    A class that hands `**options` on takes those of the classes behind it, too, whose arguments
    stand first. An argument without an annotation may be what its default value is.
    """
    calls = [make]
    if inspect.isclass(make):
        calls = [vars(cls)["__init__"] for cls in inspect.getmro(make) if "__init__" in vars(cls)]
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    chain = []
    for call in calls:
        chain.append(_parameters(call))
        if not any(p.kind in variable for p in chain[-1]):
            break
    named = [p for parameters in reversed(chain) for p in parameters if p.kind not in variable]
    return {p.name: _annotation(p) for p in named if p.name != "self"}


def _parameters(call: Callable) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(call, eval_str=True).parameters.values())
    except NameError:  # an annotation of something that is there for type checkers alone
        return list(inspect.signature(call).parameters.values())


def _annotation(parameter: inspect.Parameter) -> Any:
    """Return what an argument may be, by its annotation, else by its default value."""
    if parameter.annotation is not parameter.empty and not isinstance(parameter.annotation, str):
        return parameter.annotation
    implied = {bool: bool, str: str, int: int | float, float: float}
    return implied.get(type(parameter.default), Any)
