"""A plan: which runs make a table. Recipes × seeds × settings, read from a small TOML file.

title = "inan2017, Table 1: four columns of a small LSTM"
baseline = "tied"                         # all other models are the family of the correction; a
                                          # plan of several texts may list one for each of them
margin = 2.0                              # per cent of perplexity that would not matter
hours = 60                                # of one core, as the plan's author estimates
tuned = "Nothing was tuned: …"            # how baseline and methods were, in a sentence: which
                                          # grid, how many tries for each, on which data
missing = "Each run takes days."          # why not all of its runs are done
slurm = {gpus = 1, hours = 8}             # what each run asks of a cluster, `Resources`
[[runs]]
recipes = ["ptb/vd-lstm-200/*"]           # names, or globs: * stays within one part of a name;
                                          # my_recipes.py:mine/* are those of a file
profile = "full"                          # the default
seeds = [1, 2, 3]                         # the default is [1]
corpus = "novel.txt"                      # another text than the recipe's, beside the plan's file
change = {"optimisation.epochs" = 10}     # settings that differ from the recipe; "none" for none
grid = {"encoder.dropout" = [0.2, 0.4]}   # all combinations
"""

import math
import re
import tomllib
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, fields, replace
from fnmatch import fnmatchcase
from itertools import product
from pathlib import Path
from typing import Any

from course_lab.experiment import Seed
from course_lab.own_text import absolute
from course_lab.package_data import package_data
from course_lab.planned import Planned
from course_lab.recipes import elsewhere, recipes
from course_lab.resources import Resources
from course_lab.validation import CONFIG, validated
from course_lib.errors import CourseError, unknown
from course_lib.ranges import Positive

MARGIN = 2.0  # per cent, where a plan names no margin
MOST = 5_000  # runs of a plan, which take some ten seconds to name


@dataclass(frozen=True, kw_only=True)
class _Head:
    """The fields of a plan that hold for all its runs."""

    title: str
    margin: Positive = MARGIN  # per cent of perplexity that would not matter
    hours: Positive | None = None  # of one core, as the plan's author estimates
    tuned: str = ""  # how baseline and methods were tuned, in a sentence; empty if that is not said
    missing: str = ""  # why not all of its runs are done
    slurm: Resources = Resources()  # what each run asks of a Slurm cluster


@dataclass(frozen=True, kw_only=True)
class Plan(_Head):
    """The runs of a plan file, in the order in which they are to be done."""

    path: Path
    runs: tuple[Planned, ...]
    # What the others, the family of Holm's correction, stand beside: on each text the first that is
    # a model there.
    baselines: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class _File(_Head):
    """A plan file has a head and tables of runs."""

    __pydantic_config__ = CONFIG

    runs: list[dict]
    baseline: str | list[str] = field(default_factory=list)

    def __post_init__(self):
        if self.tuned and not self.tuned.endswith("."):
            raise CourseError("tuned is a sentence: it ends with a full stop")


@dataclass(frozen=True)
class _Runs:
    """A table [[runs]] names recipes, a profile, seeds and settings."""

    __pydantic_config__ = CONFIG

    recipes: list[str]
    profile: str = "full"
    seeds: list[Seed] = field(default_factory=lambda: [1])
    corpus: str | None = None
    change: dict[str, Any] = field(default_factory=dict)
    grid: dict[str, list] = field(default_factory=dict)

    def __post_init__(self):
        if self.corpus is not None and "corpus" in self.change | self.grid:
            raise CourseError("corpus is both a field of its own and in change or grid")
        for path, values in self.grid.items():
            if path in self.change:
                raise CourseError(f"{path} is both in change and in grid")
            if not values:
                raise CourseError(f"the grid of {path} is empty")
        if not self.recipes or not self.seeds:
            raise CourseError("recipes and seeds must not be empty")

    def names(self) -> list[str]:
        """Return the recipes of all names and globs."""
        return [name for pattern in self.recipes for name in _matching(pattern)]

    def count(self) -> int:
        """Return the number of runs, without making them."""
        return len(self.names()) * len(self.seeds) * math.prod(map(len, self.grid.values()))

    def runs(self, folder: Path) -> Iterator[Planned]:
        """Yield the runs: seeds outermost, so that every setting is tried once first.

        folder: of the plan, in which the paths of texts begin.
        """
        shared = self.change if self.corpus is None else {"corpus": self.corpus} | self.change
        for seed, name, values in product(self.seeds, self.names(), product(*self.grid.values())):
            change = shared | dict(zip(self.grid, values, strict=True))
            if "corpus" in change:
                change["corpus"] = absolute(str(change["corpus"]), folder)
            yield Planned(name, self.profile, seed, change)


def plans() -> dict[str, Path]:
    """Return the plans that come with the course, by name."""
    paths = (package_data() / "data" / "plans").glob("*.toml")
    return {path.stem: path for path in sorted(paths)}


def read_plan(name: str | Path) -> Plan:
    """Return the plan of a file, or of that name under data/plans.

    Raise CourseError, with the file and near matches, for a plan that cannot be meant.
    """
    path = Path(name)
    known = plans()
    if not path.is_file():
        if path.suffix == ".toml" or len(path.parts) > 1:
            raise CourseError(f"there is no plan file {path}")
        if str(name) not in known:
            raise unknown("plan", str(name), known)
        path = known[str(name)]
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8-sig"))  # with a byte-order mark, too
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CourseError(f"{path} is not readable TOML: {error}") from None
    try:
        file = validated("a plan", content, _File)
        runs = _expanded(file, path.parent)
        baselines = [file.baseline] if isinstance(file.baseline, str) else file.baseline
        head = {f.name: getattr(file, f.name) for f in fields(_Head)}
        return Plan(path=path, runs=runs, baselines=tuple(baselines), **head)
    except CourseError as error:
        raise CourseError(f"{path}: {error}") from None


def _expanded(file: _File, folder: Path) -> tuple[Planned, ...]:
    """Return the runs of a plan file; the reader's own files are looked for below its folder."""
    if not file.runs:
        raise CourseError("a plan has at least one table [[runs]]")
    runs: dict[str, Planned] = {}
    asked: dict[str, str] = {}  # profiles by run; the full one of a small text is another
    total = 0
    for number, table in enumerate(file.runs, 1):
        try:
            entry = validated("[[runs]]", table, _Runs)
            named = [elsewhere.absolute(name, folder) for name in entry.recipes]
            entry = replace(entry, recipes=named)
            total += entry.count()
            if total > MOST:
                raise CourseError(
                    f"the plan comes to {total:,} runs, but may have at most {MOST:,}; shorten its "
                    "grid or divide it into several plans"
                )
            for planned in entry.runs(folder):
                key = planned.key
                if runs.setdefault(key, planned) is not planned:
                    same = ""
                    if asked[key] != entry.profile:
                        same = f": the profiles {asked[key]} and {entry.profile} are the same here"
                    raise CourseError(f"{key} is in the plan already{same}")
                asked[key] = entry.profile
        except CourseError as error:
            raise CourseError(f"[[runs]] number {number}: {error}") from None
    return tuple(runs.values())


def _matching(pattern: str, known: Collection[str] = recipes) -> list[str]:
    """Return the recipes of a name, or those of a glob among the known ones."""
    if found := elsewhere.split(pattern):
        file, pattern = found
        return [f"{file}:{name}" for name in _matching(pattern, elsewhere.entered_by(file))]
    if not re.search(r"[*?\[]", pattern):
        return [recipes[pattern].name]
    wanted = pattern.split("/")
    names = []
    for name in known:
        parts = name.split("/")
        if len(parts) == len(wanted) and all(map(fnmatchcase, parts, wanted)):
            names.append(name)
    if not names:
        raise unknown("recipe", pattern, known)
    return names
