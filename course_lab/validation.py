"""Values of files and commands, held against annotations by pydantic and refused in sentences."""

import functools
import json
from dataclasses import is_dataclass
from typing import Any, get_args, get_origin, get_type_hints

from pydantic import ConfigDict, PydanticSchemaGenerationError, TypeAdapter, ValidationError

from course_lib.errors import CourseError, unknown
from course_lib.ranges import described

# A dataclass that is read from a table has this as its `__pydantic_config__`.
CONFIG = ConfigDict(extra="forbid", allow_inf_nan=False)


def validated(name: str, value: Any, hint: Any) -> Any:
    """Return a value in the type of its annotation, by the strict rules of JSON.

    A whole number serves where a number is asked for, a list as a tuple, a table as a dataclass;
    True is no number.

    name: what the message calls the value
    value: plain data, as JSON or TOML give it
    hint: the annotation, with the range that `course_lib.ranges` declares

    Raise CourseError where the value has another type or lies outside the range.
    """

    def refuse(unknown_kind: Any):  # such as a date, which TOML has and JSON lacks
        raise CourseError(f"{name} must be {_wanted(hint)}; {unknown_kind} has to be in quotes")

    try:
        return _adapter(hint).validate_json(json.dumps(value, default=refuse), strict=True)
    except ValidationError as error:
        raise _refusal(name, value, hint, error) from None


def accepts(hint: Any, value: Any) -> bool:
    """Return whether an annotation allows a value."""
    try:
        validated("", value, hint)
    except CourseError:
        return False
    return True


@functools.cache
def hints_of(cls: type) -> dict[str, Any]:
    """Return the annotations of a dataclass's fields by name, with their ranges."""
    return get_type_hints(cls, include_extras=True)


def check_plain_fields(instance: Any) -> None:
    """Check every field of a dataclass that holds no other dataclass; for its `__post_init__`."""
    for name, hint in _plain_hints(type(instance)):
        validated(name, getattr(instance, name), hint)


@functools.cache
def _plain_hints(cls: type) -> list[tuple[str, Any]]:
    return [(name, hint) for name, hint in hints_of(cls).items() if _dataclass_in(hint) is None]


@functools.cache
def _adapter(hint: Any) -> TypeAdapter:
    if isinstance(hint, type) and is_dataclass(hint):  # which brings its own configuration
        return TypeAdapter(hint)
    try:
        return TypeAdapter(hint, config=CONFIG)
    except PydanticSchemaGenerationError:  # a class of the reader's own, which no file can hold
        return TypeAdapter(Any)


def _refusal(name: str, value: Any, hint: Any, error: ValidationError) -> CourseError:
    """Return pydantic's first complaint as a sentence: where, what must be there, what is given."""
    # A mistyped name comes first: the name that is missing is often the one that was meant.
    errors = sorted(error.errors(), key=lambda e: e["type"] != "unexpected_keyword_argument")
    path = ""
    steps: tuple[Any, ...] = errors[0]["loc"]
    for step in steps:
        owner = path or name
        if isinstance(step, int) and isinstance(value, list | tuple) and step < len(value):
            hint = get_args(hint)[0]
        elif get_origin(hint) is dict and isinstance(value, dict):
            hint = get_args(hint)[1]
        elif (cls := _dataclass_in(hint)) and isinstance(value, dict):
            if step not in hints_of(cls):
                return unknown(f"field of {owner}", str(step), hints_of(cls))
            if step not in value:
                return CourseError(f"{owner} needs the field {step}")
            hint = hints_of(cls)[step]
        else:  # the name of one alternative of a union, of which the message tells them all
            break
        value = value[step]
        path = f"{path}.{step}".removeprefix(".")
    return CourseError(f"{path or name} must be {_wanted(hint)}, not {value!r:.60}")


def _wanted(hint: Any) -> str:
    """Return an annotation in words, a dataclass as the table that it is read from."""
    if get_origin(hint) in (list, tuple) and _dataclass_in(hint):
        return f"a list, each entry {_wanted(get_args(hint)[0])}"
    if cls := _dataclass_in(hint):
        first = list(hints_of(cls))[:3]
        return f"a table with named fields such as {', '.join(first)}"
    if get_origin(hint) is dict:
        return "a table"
    return "a list" if hint is list else described(hint)


def _dataclass_in(hint: Any) -> type | None:
    """Return the dataclass that an annotation is or holds."""
    classes = (cls for cls in (hint, *get_args(hint)) if isinstance(cls, type))
    return next(filter(is_dataclass, classes), None)
