"""Settings of an experiment by dotted names, and how two experiments differ."""

import inspect
import json
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from types import NoneType
from typing import Any, get_type_hints

from course_lab.experiment import KINDS, Experiment, Part, fits, kinds_of, options_of, spelled
from course_lib import data
from course_lib.errors import CourseError, unknown

GIVEN = {"encoder": 1, "words": 2, "output_layer": 2}  # what a part is built with, not its options


ROLES = {"objectives": "objective", "regularizers": "regularizer", "output_words": "words"}


ELSEWHERE = ("name", "source", "profile", "seed", "variant")  # not for a plan to change


def override(experiment: Experiment, changes: dict) -> Experiment:
    """The experiment with other settings, named by dotted paths.

    override(e, {"optimisation.epochs": 10, "encoder.dropout": 0.4, "regularizers.0.weight": 2.0})

    They hold together, in whichever order they come: one rule of averaging for another, say. None
    takes away a setting that may be none, and so does "none" where a file has no other way to say
    it. CourseError with near matches for an unknown setting, and for a value of another type.
    """
    return _replaced(experiment, {tuple(p.split(".")): v for p, v in changes.items()}, (), "")


def settings(texts: list[str]) -> dict:
    """Of `path=value` each, as a command line gives them: numbers, true, lists and such as JSON has
    them, anything else a word. CourseError for a text without `=`."""
    found = {}
    for text in texts:
        path, equals, value = text.partition("=")
        if not equals:
            example = "encoder.dropout=0.4"
            raise CourseError(f"a setting is given as path=value, such as {example}, not {text!r}")
        try:
            found[path] = json.loads(value)
        except json.JSONDecodeError:
            found[path] = value
    return found


def at(experiment: Experiment, path: str):
    """The value of a dotted setting; None where the experiment does not state it."""
    node = experiment
    for name in path.split("."):
        node = _members(node).get(name)
    return node


def differences(old, new, path: str = "") -> Iterator[tuple[str, Any]]:
    """(dotted path, value in `new`) of every setting in which two experiments, or parts, differ.

    A list of numbers is one setting; 1 is not True; stating an option's default is a difference.
    """
    before = _members(old)
    for name, value in _members(new).items():
        if not path and name in ELSEWHERE:
            continue
        current, whole = before.get(name), f"{path}{name}"
        if _alike(current, value):
            yield from differences(current, value, f"{whole}.")
        elif type(plain(current)) is not type(plain(value)) or plain(current) != plain(value):
            yield whole, value


def has_settings(value) -> bool:
    """Whether it is a part, the optimisation or a tuple of parts, which no value of a plan is."""
    several = isinstance(value, tuple) and any(isinstance(v, Part) for v in value)
    return is_dataclass(value) or several


def _alike(old, new) -> bool:
    """Whether two values hold settings of the same names, to be looked at one by one."""
    if isinstance(old, Part) and isinstance(new, Part):
        return old.kind == new.kind
    if type(old) is not type(new):
        return False
    if isinstance(old, dict):
        return old.keys() == new.keys() and not any("." in name for name in old)
    if isinstance(old, tuple):
        return len(old) == len(new) and all(isinstance(v, Part) for v in (*old, *new))
    return is_dataclass(old)


def plain(value):
    """A tuple as the list that JSON makes of it."""
    return [plain(v) for v in value] if isinstance(value, list | tuple) else value


def _members(node) -> dict:
    """What a node holds, by name."""
    if isinstance(node, Part):
        return node.options
    if isinstance(node, tuple | list):
        return {str(i): value for i, value in enumerate(node)}
    if is_dataclass(node):
        return {f.name: getattr(node, f.name) for f in fields(node)}
    return node if isinstance(node, dict) else {}


def _known(node, role: str) -> list[str]:
    """The names that may follow: all options of a part, stated or not."""
    stated = list(_members(node))
    if isinstance(node, Experiment):
        return [name for name in stated if name not in ELSEWHERE]
    if not isinstance(node, Part):
        return stated
    if role == "corpus":  # a name or a path, with options of its loader and of `load_corpus`
        of_loader = _of_loader(node)
        of_text = [] if "direction" in of_loader else ["half"]
        return [*(name for name in of_loader if name != "download"), *of_text, "small"]
    return stated + list(_takes(node, role))


def _takes(node: Part, role: str) -> dict[str, inspect.Parameter]:
    """The options of a part, stated or not; none of a kind that does not exist."""
    role = ROLES.get(role, role)
    make = {kind.__name__: kind for kind in KINDS.get(role, ())}.get(node.kind)
    takes = list(options_of(make).items()) if make else []
    return dict(takes[GIVEN.get(role, 0) :])


def _of_loader(corpus: Part) -> dict[str, Any]:
    """The options of a corpus' loader with their defaults."""
    parameters = inspect.signature(data.loader_of(corpus.kind, list(corpus.options))).parameters
    return {n: None if p.default is p.empty else p.default for n, p in parameters.items()}


def _replaced(node, changes: dict[tuple[str, ...], Any], above: tuple[str, ...], role: str):
    """A copy of `node` with the settings at the paths in it; `above`, the path to it, and `role`
    are for its messages."""
    inside: dict[str, dict] = {}
    for (name, *rest), value in changes.items():
        inside.setdefault(name, {})[tuple(rest)] = value
    new, known = {}, _known(node, role)
    for name, values in inside.items():
        current, path = _members(node).get(name), (*above, name)
        whole = ".".join(path)
        if name not in known:
            asked = ".".join([*path, *next(iter(values))])
            raise unknown("setting", asked, [".".join([*above, k]) for k in known])
        if () not in values:
            if not _members(current) and not isinstance(current, Part):
                asked = ".".join([*path, *next(iter(values))])
                stated = "is not set in the recipe" if current is None else f"is {current!r}"
                raise CourseError(f"unknown setting {asked!r}: {name} {stated}, with nothing in it")
            inner = role if name.isdigit() else name  # an entry of `regularizers` is one of them
            new[name] = _replaced(current, values, path, inner)
        elif len(values) > 1:
            raise CourseError(f"{whole} is given both as a whole and in part")
        elif has_settings(current) or (above == () and isinstance(current, tuple)):
            names = [f'"{whole}.{k}"' for k in _known(current, name)[:3]]
            raise CourseError(
                f"{name} is made of several settings; name one, in quotes: "
                + (" or ".join(names) or "it has none")
            )
        else:
            if role == "corpus" and name not in _members(node):  # nor is another type its default's
                current = _of_loader(node).get(name)
            new[name] = _fitted(values[()], current, _hint(node, role, name), whole)
    if isinstance(node, Part):
        return Part(node.kind, node.options | new)
    if is_dataclass(node):
        return replace(node, **new)
    if isinstance(node, dict):
        return node | new
    return type(node)(new.get(str(i), v) for i, v in enumerate(node))


def _hint(node, role: str, name: str):
    """The annotation of a setting; None where there is none, as for those of a corpus."""
    if is_dataclass(node) and not isinstance(node, Part):
        return get_type_hints(type(node))[name]
    takes = _takes(node, role) if isinstance(node, Part) else {}
    hint = takes[name].annotation if name in takes else inspect.Parameter.empty
    return None if hint is inspect.Parameter.empty else hint


def _fitted(value, current, hint, whole: str):
    """`value` in the type of what it replaces; CourseError where it has another.

    hint: the setting's annotation; without one the type of the current value counts."""
    given = value
    if hint is None:  # as of the value which it replaces
        if value == "none" and isinstance(current, int | float | list | tuple | dict):
            return None
        good = current is None or all(
            isinstance(value, t) == isinstance(current, t) for t in (str, bool, dict)
        )
    else:
        kinds = kinds_of(hint)
        if value == "none" and NoneType in kinds and str not in kinds:
            value = None
        good = fits(value, hint)
    if not good:
        takes = f"; it must be {spelled(hint)}" if hint is not None else ""
        raise CourseError(f"{whole} is {current!r}; {given!r} has another type{takes}")
    # As the recipe has it, so that one experiment has one name: 2 as 2.0, a list as a tuple.
    if type(value) is int and (type(current) is float or hint == (float | None)):
        return float(value)
    return tuple(value) if type(value) is list and type(current) is tuple else value
