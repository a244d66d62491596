"""The range of every constant, declared where the constant is.

    class SoftCappedSoftmax(OutputLayer):
        @checked
        def __init__(self, words: Words, cap: Positive = 30.0): ...

A type such as `Positive` is `Annotated[float, Gt(0)]`: a type checker sees a number, `checked`
and `InRange` compare each value with the bounds, and so does pydantic in the laboratory.
"""

import functools
import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import fields
from numbers import Integral, Real
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from annotated_types import Ge, Gt, Le, Lt

from course_lib.errors import CourseError

Finite = Annotated[float, Gt(-math.inf), Lt(math.inf)]
Positive = Annotated[float, Gt(0), Lt(math.inf)]
NonNegative = Annotated[float, Ge(0), Lt(math.inf)]
BelowOne = Annotated[float, Ge(0), Lt(1)]
Dropout = BelowOne  # a share that is dropped; something must be left
Share = Annotated[float, Ge(0), Le(1)]
Count = Annotated[int, Ge(1)]
Whole = Annotated[int, Ge(0)]
Function = TypeVar("Function", bound=Callable[..., Any])

_BOUNDS = {
    Ge: ("at least {:g}", lambda value, bound: value >= bound.ge),
    Gt: ("above {:g}", lambda value, bound: value > bound.gt),
    Le: ("at most {:g}", lambda value, bound: value <= bound.le),
    Lt: ("below {:g}", lambda value, bound: value < bound.lt),
}


def check(name: str, value: Any, hint: Any) -> None:
    """Raise CourseError unless `value` lies in the range that the annotation `hint` declares.

    A union is satisfied by any of its members, a list or tuple by ranges of its entries. `int` and
    `float` ask for a finite number, `bool` for a truth value, `Literal` for one of its values and a
    class of `InRange` for its instances; any other annotation without a range says nothing.
    """
    if not _fits(value, hint):
        raise CourseError(f"{name} must be {described(hint)}, not {value!r:.60}")


def described(hint: Any) -> str:
    """Return an annotation in words: `a number above 0`, `a whole number of at least 1 or none`."""
    if get_origin(hint) in (Union, UnionType):
        return " or ".join(map(described, get_args(hint)))
    if get_origin(hint) is Literal:
        return " or ".join(map(repr, get_args(hint)))
    if get_origin(hint) is not Annotated:
        names = {type(None): "none", bool: "true or false", int: "a whole number"}
        names |= {float: "a finite number", str: "a word", dict: "a table"}
        inside = get_args(hint)
        if get_origin(hint) is tuple and inside and inside[-1] is not Ellipsis:
            return f"a list of {len(inside)}, each entry {described(inside[0])}"
        if get_origin(hint) in (list, tuple, Sequence) and inside:
            return f"a list, each entry {described(inside[0])}"
        return names.get(hint, f"an instance of {getattr(hint, '__name__', hint)}")
    kind, *bounds = get_args(hint)
    noun = "a whole number of" if kind is int else "a number"
    limits = [_BOUNDS[type(b)][0].format(_limit(b)) for b in bounds if math.isfinite(_limit(b))]
    return f"{noun} {' and '.join(limits)}" if limits else "a finite number"


def checked(function: Function) -> Function:
    """Decorate a function or constructor so that each call checks its arguments' ranges."""
    signature = inspect.signature(function)

    @functools.cache
    def hints() -> dict[str, Any]:
        return {name: _evaluated(hint, function) for name, hint in function.__annotations__.items()}

    def inside(*arguments, **options):
        try:
            given = signature.bind(*arguments, **options).arguments
        except TypeError:  # Python's own message names the function
            return function(*arguments, **options)
        owner = type(arguments[0]).__name__ if "self" in signature.parameters else ""
        for name, value in given.items():
            if name in hints():
                check(f"{name} of {owner}" if owner else name, value, hints()[name])
        return function(*arguments, **options)

    wrapped: Any = functools.wraps(function)(inside)  # a type checker sees the signature itself
    return wrapped


class InRange:
    """A dataclass whose fields lie in the ranges that they declare, or it raises CourseError."""

    def __post_init__(self: Any) -> None:
        """Check every field. NumPy's numbers become Python's, which JSON can hold, at any depth."""
        hints = get_type_hints(type(self), include_extras=True)
        for field in fields(self):
            value = getattr(self, field.name)
            check(f"{field.name} of {type(self).__name__}", value, hints[field.name])
            object.__setattr__(self, field.name, _plain(value))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(_plain, value))
    if isinstance(value, Real) and not isinstance(value, int | float):
        return int(value) if isinstance(value, Integral) else float(value)
    return value


def _evaluated(hint: Any, function) -> Any:
    """An annotation as an object; one that only type checkers know says nothing of a value."""
    if not isinstance(hint, str):
        return hint
    try:
        return eval(hint, function.__globals__)
    except NameError:
        return Any


def _limit(bound) -> float:
    return getattr(bound, type(bound).__name__.lower())


def _fits(value: Any, hint: Any) -> bool:
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return any(_fits(value, one) for one in get_args(hint))
    if hint in (bool, type(None)) or inspect.isclass(hint) and issubclass(hint, InRange):
        return isinstance(value, hint)
    if origin is Literal:
        return value in get_args(hint)
    if origin in (list, tuple, Sequence):
        kind = Sequence if origin is Sequence else list | tuple
        if not isinstance(value, kind) or isinstance(value, str):
            return False
        inside = get_args(hint)
        if origin is tuple and inside[-1] is not Ellipsis:
            return len(value) == len(inside) and all(map(_fits, value, inside))
        return all(_fits(entry, inside[0]) for entry in value)
    if origin is not Annotated:
        return hint not in (int, float) or _is_number(value, hint) and abs(value) < math.inf
    kind, *bounds = get_args(hint)
    return _is_number(value, kind) and all(_BOUNDS[type(b)][1](value, b) for b in bounds)


def _is_number(value: Any, kind: type) -> bool:
    """A truth value is no number, and NaN is none that a constant may have."""
    number = isinstance(value, Integral if kind is int else Real) and not isinstance(value, bool)
    return number and value == value
