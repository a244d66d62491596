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
import json
import re
import tomllib
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import product
from pathlib import Path

from course_lab import results
from course_lab.experiment import Experiment
from course_lab.overrides import at, differences, has_settings, override, plain
from course_lab.recipes import profile, recipes
from course_lib.data import folders
from course_lib.errors import CourseError, unknown
from course_lib.training import batches
from course_lib.training.optimisation import OPTIONS

KEYS = ("recipes", "profile", "seeds", "change", "grid")
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
            and plain(at(own, path)) == plain(at(first, path))
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
