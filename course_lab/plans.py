"""A plan: which runs make a table. Recipes × seeds × settings, read from a small TOML file.

title = "inan2017, Table 1: four columns of a small LSTM"
[[runs]]
recipes = ["ptb/vd-lstm-200/*"]           # names, or globs: * stays within one part of a name
profile = "full"                          # the default
seeds = [1, 2, 3]                         # the default is [1]
change = {"optimisation.epochs" = 10}     # settings that differ from the recipe; "none" for none
grid = {"encoder.dropout" = [0.2, 0.4]}   # all combinations
"""

import hashlib
import inspect
import json
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, is_dataclass, replace
from fnmatch import fnmatchcase
from itertools import product
from pathlib import Path
from types import NoneType
from typing import Any, get_type_hints

from course_lab import results
from course_lab.experiment import KINDS, Experiment, Part, fits, kinds_of, options_of, spelled
from course_lab.recipes import profile, recipes
from course_lib import data
from course_lib.data import folders
from course_lib.errors import CourseError, unknown
from course_lib.training import batches
from course_lib.training.optimisation import OPTIONS

KEYS = ("recipes", "profile", "seeds", "change", "grid")
GIVEN = {"encoder": 1, "words": 2, "output_layer": 2}  # what a part is built with, not its options
ROLES = {"objectives": "objective", "regularizers": "regularizer", "output_words": "words"}
ELSEWHERE = ("name", "source", "profile", "seed", "variant")  # not for a plan to change
LABEL = 80  # characters; longer labels become a digest


# One run -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Planned:
    """A recipe at a profile and seed, with `change`: dotted settings and their values.

    Settings equal to the recipe's are dropped, so that one experiment has one name. CourseError
    for an unknown recipe, profile or setting, for a value that does not fit, and for a setting of
    another kind of run.
    """

    recipe: str
    profile: str = "full"
    seed: int = 1
    change: dict = field(default_factory=dict)

    def __post_init__(self):
        base = profile(recipes[self.recipe], self.profile, self.seed)
        changed = override(base, self.change)
        _check_read(changed, self.change)
        object.__setattr__(self, "profile", base.profile)
        object.__setattr__(self, "change", dict(sorted(differences(base, changed))))
        earlier(changed)  # what it starts from is a recipe, and has the settings that it hands on

    @property
    def variant(self) -> str:
        """What `change` is called in names of folders."""
        return label(self.change)

    def experiment(self) -> Experiment:
        """The experiment itself, its `variant` set."""
        base = profile(recipes[self.recipe], self.profile, self.seed)
        return override(base, self.change).change(variant=self.variant)

    @property
    def key(self) -> str:
        """The run's name, equal on every machine: its folder below `runs`."""
        folder = results.run_folder(self.experiment())
        return folder.relative_to(folders.home() / "runs").as_posix()


# What only language models read, and what only translators do.
OF_TEXT = ("batch", "length", "evaluation_batch", "evaluation_length", *batches.OF_TEXT)
OF_TEXT = (*(f"optimisation.{name}" for name in OF_TEXT), "adaptation", "ranked_contexts")
OF_PAIRS = ("optimisation.max_tokens", "decoding")
# What a run without training reads of the optimisation, and what only some optimisers read.
UNTRAINED = ("epochs", "batch", "accumulate", "max_tokens", "evaluation_batch")
UNTRAINED += ("evaluation_length", "evaluation_memory", "evaluation_clamp")
OF_OPTIMIZERS = {name for names in OPTIONS.values() for name in names}


def _check_read(experiment: Experiment, paths) -> None:
    """CourseError for settings that would be without effect."""
    o = experiment.optimisation
    for path in paths:
        if {path, path.split(".")[0]} & set(OF_TEXT if experiment.translates else OF_PAIRS):
            kind = "translator" if experiment.translates else "language model"
            raise CourseError(f"{experiment.name} is a {kind}, to which {path} says nothing")
        if path == "ranked_contexts" and experiment.adaptation is not None:
            raise CourseError(f"{path} is of the plain evaluation; {experiment.name} adapts")
        setting = path.split(".")[1] if path.startswith("optimisation.") else ""
        if setting and not o.epochs and setting not in UNTRAINED:
            raise CourseError(f"{experiment.name} trains no epochs, so {path} is without effect")
        kinds = {o.optimizer, *(group.get("optimizer", o.optimizer) for group in o.groups.values())}
        if setting in OF_OPTIMIZERS and not any(setting in OPTIONS[kind] for kind in kinds):
            raise CourseError(
                f"{experiment.name} trains with {' and '.join(sorted(kinds))}, to which {path} "
                "says nothing; change optimisation.optimizer as well"
            )


OWN = ("name", "source", "profile", "seed", "variant", "start_from", "start_weights")
OWN += ("optimisation", "adaptation", "decoding", "ranked_contexts")


def earlier(experiment: Experiment) -> Experiment | None:
    """What it begins with the weights of; None if it begins anew.

    That is the recipe it starts from, at the same profile and seed, and with the settings in which
    this run differs from its own recipe, as far as the two recipes agree in them: a plan's
    `encoder.dropout` or `output_layer.alpha` holds for both. Those of the optimisation and of the
    test time are each run's own. CourseError for a recipe or setting that is not there.
    """
    if experiment.start_from is None:
        return None
    kind, seed = experiment.profile, experiment.seed
    first, handed_on = profile(recipes[experiment.start_from], kind, seed), {}
    if experiment.name in recipes:
        own = profile(recipes[experiment.name], kind, seed)
        handed_on = {
            path: value
            for path, value in differences(own, experiment)
            if path.split(".")[0] not in OWN
            and _plain(at(own, path)) == _plain(at(first, path))
            and not has_settings(value)  # another part altogether, as no plan can ask for
        }
    return Planned(first.name, kind, seed, handed_on).experiment()


def command(experiment: Experiment) -> str:
    """The command that trains a recipe with these settings."""
    base = profile(recipes[experiment.name], experiment.profile, experiment.seed)
    changes = [f" --change '{p}={_short(v)}'" for p, v in differences(base, experiment)]
    return (
        f"python -m course_lab train {experiment.name} --profile {experiment.profile} "
        f"--seed {experiment.seed}" + "".join(changes)
    )


def label(change: dict) -> str:
    """`encoder.dropout=0.4,size=100`; twelve characters of a SHA-256 where that makes no name."""
    text = ",".join(f"{path}={_short(value)}" for path, value in sorted(change.items()))
    if len(text) <= LABEL and re.fullmatch(r"([\w.,=+\[\]-]*[\w\]])?", text, re.ASCII):
        return text
    plain = json.dumps(change, sort_keys=True)
    return hashlib.sha256(plain.encode()).hexdigest()[:12]


def _short(value) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


# Settings by dotted names ------------------------------------------------------------------------


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
        elif type(_plain(current)) is not type(_plain(value)) or _plain(current) != _plain(value):
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


def _plain(value):
    """A tuple as the list that JSON makes of it."""
    return [_plain(v) for v in value] if isinstance(value, list | tuple) else value


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


# The file ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Plan:
    """The runs of a plan file, in the order in which they are to be done."""

    path: Path
    title: str
    runs: tuple[Planned, ...]


def plans() -> dict[str, Path]:
    """The plans that come with the course, by name."""
    found = (folders.home() / "data" / "plans").glob("*.toml")
    return {path.stem: path for path in sorted(found)}


def read_plan(name: str | Path) -> Plan:
    """The plan of a file, or of that name under data/plans.

    CourseError, with the file and near matches, for a plan that cannot be meant.
    """
    path, known = Path(name), plans()
    if not path.is_file():
        if path.suffix == ".toml" or len(path.parts) > 1:
            raise CourseError(f"there is no plan file {path}")
        if str(name) not in known:
            raise unknown("plan", str(name), known)
        path = known[str(name)]
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CourseError(f"{path} is not readable TOML: {error}") from None
    try:
        return Plan(path, *_expanded(content))
    except CourseError as error:
        raise CourseError(f"{path}: {error}") from None


def _expanded(content: dict) -> tuple[str, tuple[Planned, ...]]:
    """(title, runs)."""
    _only(content, "key of a plan", ("title", "runs"))
    _typed(content, "title", str)
    if not _typed(content, "runs", list, dict):
        raise CourseError("a plan has at least one table [[runs]]")
    runs: dict[str, Planned] = {}
    for number, entry in enumerate(content["runs"], 1):
        try:
            for planned in _entry(entry):
                if runs.setdefault(planned.key, planned) is not planned:
                    raise CourseError(f"{planned.key} is in the plan already")
        except CourseError as error:
            raise CourseError(f"[[runs]] number {number}: {error}") from None
    return content["title"], tuple(runs.values())


def _entry(entry: dict):
    """The runs of one [[runs]]: seeds outermost, so that every setting is tried once first."""
    _only(entry, "key of [[runs]]", KEYS)
    names = [n for pattern in _typed(entry, "recipes", list, str) for n in _matching(pattern)]
    change, grid = (_typed(entry, key, dict) if key in entry else {} for key in ("change", "grid"))
    for path in grid:
        if path in change:
            raise CourseError(f"{path} is both in change and in grid")
        if not _typed(grid, path, list):
            raise CourseError(f"the grid of {path} is empty")
    seeds = _typed(entry, "seeds", list, int) if "seeds" in entry else [1]
    level = _typed(entry, "profile", str) if "profile" in entry else "full"
    if not names or not seeds:
        raise CourseError("recipes and seeds must not be empty")
    for seed, name, values in product(seeds, names, product(*grid.values())):
        yield Planned(name, level, seed, change | dict(zip(grid, values, strict=True)))


def _matching(pattern: str) -> list[str]:
    """The recipes of a name or glob."""
    if not re.search(r"[*?\[]", pattern):
        return [recipes[pattern].name]
    wanted = pattern.split("/")
    found = []
    for name in recipes:
        parts = name.split("/")
        if len(parts) == len(wanted) and all(map(fnmatchcase, parts, wanted)):
            found.append(name)
    if not found:
        raise unknown("recipe", pattern, recipes)
    return found


def _only(table: dict, kind: str, known: tuple[str, ...]) -> None:
    for key in table:
        if key not in known:
            raise unknown(kind, key, known)


def _typed(table: dict, key: str, kind: type, inner: type | None = None):
    """table[key], which is there and of this type."""
    value = table.get(key)
    ok = type(value) is kind and (inner is None or all(type(v) is inner for v in value))
    if not ok:
        wanted = {str: "a string", dict: "a table"}.get(kind, "a list")
        of = {str: " of strings", int: " of integers", dict: " of tables"}.get(inner, "")
        given = "missing" if key not in table else repr(value)
        raise CourseError(f"{key} must be {wanted}{of}; it is {given}")
    return value
