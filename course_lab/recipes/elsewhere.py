"""Recipes and parts of the reader's own, from a file that is named or a package that is installed.

my_recipes.py:mine/vd-lstm-200/tied      the recipe of that name, which the file enters by `add`

A package is asked where it has an entry point of the group `course_lab.recipes`, whose module
enters its recipes when it is imported.

The digest of a file goes into the provenance of the runs that it has a part in, because a commit of
the course says nothing of it.
"""

import hashlib
import sys
import warnings
from importlib.metadata import entry_points
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from course_lib.errors import CourseError

if TYPE_CHECKING:
    from course_lab.experiment import Experiment

GROUP = "course_lab.recipes"
MARK = ".py:"  # between a file and the name of a recipe in it


class OwnFile(NamedTuple):
    """A file that was imported, as it was then."""

    path: Path
    sha256: str
    recipes: tuple[str, ...]  # the names that it entered


_LOADED: dict[str, OwnFile] = {}  # by the name of its module
_entered: list[str] = []  # by the course and all files, in order; a file may import another one


def split(name: str) -> tuple[Path, str] | None:
    """Return the file and the recipe of `my_recipes.py:mine/tied`; None for another name."""
    file, mark, recipe = name.rpartition(MARK)
    return (Path(file + ".py"), recipe) if mark else None


def without_file(name: str) -> str:
    """Return the name of a recipe as its file enters it, without the file."""
    in_file = split(name)
    return in_file[1] if in_file else name


def absolute(name: str, below: Path) -> str:
    """Return a recipe's name as every process finds it; a file's path begins in `below`."""
    found = split(name)
    if found is None:
        return name
    file, recipe = found
    return f"{(below / file.expanduser()).resolve()}:{recipe}"


def load(file: Path) -> None:
    """Import a file that enters recipes, once in a process.

    Raise CourseError, with the file and the line, where it is missing or fails.
    """
    file = file.expanduser().resolve()
    name = _module_of(file)
    if name in sys.modules:
        return
    if not file.is_file():
        raise CourseError(f"there is no file {file} with recipes")
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    before = len(_entered)
    spec = spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise CourseError(f"{file} is no file of Python: its name must end in .py")
    module = sys.modules[name] = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise CourseError(f"{file}{_line(error, file)}: {type(error).__name__}: {error}") from error
    _LOADED[name] = OwnFile(file, digest, tuple(_entered[before:]))


def entered_by(file: Path) -> tuple[str, ...]:
    """Import a file, and return the names of the recipes that it enters; errors are `load`'s."""
    load(file)
    return _LOADED[_module_of(file.expanduser().resolve())].recipes


def _module_of(file: Path) -> str:
    """Return the name that the module of a file has, given its whole path."""
    return f"course_recipes_{hashlib.sha256(str(file).encode()).hexdigest()[:12]}"


def note(recipe: str) -> None:
    """Note the name of a recipe that is entered now, by whichever file is being imported."""
    _entered.append(recipe)


def files_of(experiment: "Experiment") -> list[OwnFile]:
    """Return the files that an experiment needs: that of its recipe and those of its parts."""
    name = experiment.name
    recipe = name if name in _entered else name.partition("/")[2]  # a text's name may come first
    modules = {part.class_in(role).__module__ for role, part in experiment.parts()}
    loaded = ((key, file) for key, file in _LOADED.items() if key in sys.modules)
    return [file for key, file in loaded if key in modules or recipe in file.recipes]


def digests_of(experiment: "Experiment") -> dict[str, str]:
    """Return the SHA-256 of each file that an experiment needs, by the file's name."""
    return {file.path.name: file.sha256 for file in files_of(experiment)}


def changed(before: dict[str, str], now: dict[str, str]) -> list[str]:
    """Return the names of the files whose digests differ, in order; none where none is loaded."""
    return sorted(name for name in before | now if now and before.get(name) != now.get(name))


def _line(error: Exception, file: Path) -> str:
    """Return `, line 3`, the last line of the file that led to the error."""
    number = error.lineno if isinstance(error, SyntaxError) else None
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(file):
            number = trace.tb_lineno
        trace = trace.tb_next
    return f", line {number}" if number else ""


def load_installed() -> None:
    """Import the recipes of installed packages; one that fails is left out with a warning."""
    for point in entry_points(group=GROUP):
        try:
            point.load()
        except Exception as error:
            warnings.warn(
                f"the recipes of {point.value} are left out: {type(error).__name__}: {error}",
                stacklevel=2,
            )
