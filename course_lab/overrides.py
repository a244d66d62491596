"""Settings of an experiment by dotted names, and how two experiments differ."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from course_lab.experiment import ROLES, Experiment, corpus_hints
from course_lab.parts import Part, plain
from course_lab.validation import accepts, hints_of, validated
from course_lib.errors import CourseError, unknown

ELSEWHERE = ("name", "source", "profile", "seed", "variant")  # not for a plan to change


@dataclass(frozen=True, repr=False)
class LeftOut:
    """An option that an experiment leaves at its default and another one states."""

    def __repr__(self):
        return "left out"


def override(experiment: Experiment, changes: dict) -> Experiment:
    """Return the experiment with other settings, named by dotted paths.

    override(e, {"optimisation.epochs": 10, "encoder.dropout": 0.4, "regularizers.0.weight": 2.0})

    The changes hold together, in whichever order they come: one rule of averaging may replace
    another, say. None takes away a setting that may be none, and so does "none", for TOML has no
    null.

    Raise CourseError for an unknown setting, with near matches, and for a value that the setting
    cannot have.
    """
    return _replaced(experiment, {tuple(p.split(".")): v for p, v in changes.items()}, (), "")


def settings(texts: list[str]) -> dict:
    """Return the settings of a command line, each `path=value`.

    A value is what JSON reads (numbers, true, lists), and anything else is a word. Raise
    CourseError for a text without `=`, and for a setting that is given twice.
    """
    changes = {}
    for text in texts:
        path, equals, value = text.partition("=")
        if not equals:
            example = "encoder.dropout=0.4"
            raise CourseError(f"a setting is given as path=value, such as {example}, not {text!r}")
        if path in changes:
            raise CourseError(f"{path} is given twice; leave one of the two off")
        try:
            changes[path] = json.loads(value)
        except json.JSONDecodeError:
            changes[path] = value
    return changes


def settings_in(text: str) -> dict:
    """Return the settings of a JSON object, `{"encoder.dropout": 0.4}`; no text is no setting.

    Raise CourseError for anything else.
    """
    example = '{"encoder.dropout": 0.4, "optimisation.epochs": 10}'
    wanted = f"settings are a JSON object, such as {example}, not {text!r:.80}"
    try:
        changes = json.loads(text or "{}")
    except json.JSONDecodeError as error:
        raise CourseError(f"{wanted} ({error})") from None
    if not isinstance(changes, dict):
        raise CourseError(wanted)
    return changes


def at(experiment: Experiment, path: str) -> Any:
    """Return the value of a dotted setting; None where the experiment does not state it."""
    node = experiment
    for name in path.split("."):
        node = _members(node).get(name)
    return node


def differences(old: Any, new: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every setting in which two experiments, or parts, differ.

    Each is a pair of its dotted path and its value in `new`. A list of numbers is one setting; 1 is
    not True; stating an option's default is a difference, and so is leaving an option out.

    old, new: the two experiments or parts
    path: what every dotted path begins with
    """
    before, after = _members(old), _members(new)
    for name in before | after:
        if not path and name in ELSEWHERE:
            continue
        current, value = before.get(name), after.get(name, LeftOut())
        if _alike(current, value):
            yield from differences(current, value, f"{path}{name}.")
        elif type(plain(current)) is not type(plain(value)) or plain(current) != plain(value):
            yield f"{path}{name}", value


def has_settings(value: Any) -> bool:
    """Return whether a value is a part, the optimisation, a tuple of parts or left out.

    A plan can give none of these.
    """
    several = isinstance(value, tuple) and any(isinstance(v, Part) for v in value)
    return is_dataclass(value) or several


def _alike(old: Any, new: Any) -> bool:
    """Return whether two values hold settings of the same names, to be compared one by one."""
    if isinstance(old, Part) and isinstance(new, Part):
        return old.kind == new.kind
    if type(old) is not type(new):
        return False
    if isinstance(old, dict):
        return old.keys() == new.keys() and not any("." in name for name in old)
    if isinstance(old, tuple):
        return len(old) == len(new) and all(isinstance(v, Part) for v in (*old, *new))
    return is_dataclass(old)


def _members(node: Any) -> dict[str, Any]:
    """Return what a node holds, by name."""
    if isinstance(node, Part):
        return node.options
    if isinstance(node, tuple | list):
        return {str(i): value for i, value in enumerate(node)}
    if is_dataclass(node):
        return {f.name: getattr(node, f.name) for f in fields(node)}
    return node if isinstance(node, dict) else {}


def _hints(node: Any, field: str) -> dict[str, Any]:
    """Return the annotations of all settings of a node, by name.

    An option of a part is one whether the part states it or not.

    field: the field of the experiment that the node stands in
    """
    if isinstance(node, Part):
        return corpus_hints(node) if field == "corpus" else node.hints(ROLES[field])
    if is_dataclass(node):
        hidden = ELSEWHERE if isinstance(node, Experiment) else ()
        return {name: hint for name, hint in hints_of(type(node)).items() if name not in hidden}
    # Of the entries of a table nothing is declared: each stays of the type that it has.
    numbers = {int: int, float: float, bool: bool, str: str}
    return {name: numbers.get(type(value), Any) for name, value in _members(node).items()}


def _replaced(
    node: Any, changes: dict[tuple[str, ...], Any], above: tuple[str, ...], field: str
) -> Any:
    """Return a copy of a node with the settings at the paths in it.

    node: an experiment, or what lies in one
    changes: values by their paths below the node
    above: the path to the node
    field: the field of the experiment that the node stands in
    """
    # Changes with the same first name belong to one member of the node.
    inside: dict[str, dict] = {}
    for (name, *rest), value in changes.items():
        inside.setdefault(name, {})[tuple(rest)] = value
    hints = _hints(node, field)
    new = {}
    for name, values in inside.items():
        path = (*above, name)
        if name not in hints:
            asked = ".".join([*path, *next(iter(values))])
            raise unknown("setting", asked, [".".join([*above, known]) for known in hints])
        current = _members(node).get(name)
        if () not in values:
            new[name] = _replaced_inside(current, values, path, field or name)
        else:
            _check_single(current, values, path, field or name)
            fitted = _fitted(values[()], hints[name], ".".join(path))
            keeps = _keeps_form(node, current, values[()], hints[name])
            new[name] = values[()] if keeps else fitted
    # The copy: options are lists as JSON has them, so that one experiment has one form.
    if isinstance(node, Part):
        return Part(node.kind, node.options | {name: plain(value) for name, value in new.items()})
    if isinstance(node, dict):
        return node | new
    if isinstance(node, list | tuple):
        return type(node)(new.get(str(i), v) for i, v in enumerate(node))
    return replace(node, **new)


def _keeps_form(node: Any, current: Any, value: Any, hint: Any) -> bool:
    """Return whether a number keeps its form, as folders of runs are named after it.

    One experiment has one name, so 2 becomes 2.0 where a number is asked for. The exceptions are
    options that the recipe leaves at their default: there lists stay as they are, and so does 2
    unless the option may be none.
    """
    unstated = isinstance(node, Part) and current is None
    return unstated and (isinstance(value, list) or type(value) is int and not accepts(hint, None))


def _replaced_inside(current: Any, values: dict, path: tuple[str, ...], field: str):
    """Return a copy of a node's member with other settings; CourseError where it holds none."""
    if not _members(current) and not isinstance(current, Part):
        asked = ".".join([*path, *next(iter(values))])
        stated = "is not set in the recipe" if current is None else f"is {current!r}"
        raise CourseError(f"unknown setting {asked!r}: {path[-1]} {stated}, with nothing in it")
    return _replaced(current, values, path, field)


def _check_single(current: Any, values: dict, path: tuple[str, ...], field: str) -> None:
    """Raise CourseError where a path names several settings at once."""
    whole = ".".join(path)
    if len(values) > 1:
        raise CourseError(f"{whole} is given both as a whole and in part")
    if has_settings(current) or (len(path) == 1 and isinstance(current, tuple)):
        names = [f'"{whole}.{name}"' for name in list(_hints(current, field))[:3]]
        raise CourseError(
            f"{path[-1]} is made of several settings; name one, in quotes: "
            + (" or ".join(names) or "it has none")
            + "; another part in its place needs a recipe of its own"
        )


def _fitted(value: Any, hint: Any, whole: str) -> Any:
    """Return a value in the type of its setting, "none" as None where a setting may be none."""
    if value == "none" and accepts(hint, None) and not accepts(hint, "none"):
        value = None
    return validated(whole, value, hint)
