"""Recipes and parts of the reader's own, from a file that is named or a package that is installed.

my_recipes.py:mine/vd-lstm-200/tied      the recipe of that name, which the file enters by `add`

A package is asked where it has an entry point of the group `course_lab.recipes`, whose module
enters its recipes when it is imported.
"""

import hashlib
import sys
import warnings
from importlib.metadata import entry_points
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from course_lib.errors import CourseError

GROUP = "course_lab.recipes"
MARK = ".py:"  # between a file and the name of a recipe in it


def split(name: str) -> tuple[Path, str] | None:
    """Return the file and the recipe of `my_recipes.py:mine/tied`; None for another name."""
    file, mark, recipe = name.rpartition(MARK)
    return (Path(file + ".py"), recipe) if mark else None


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
    name = f"course_recipes_{hashlib.sha256(str(file).encode()).hexdigest()[:12]}"
    if name in sys.modules:
        return
    if not file.is_file():
        raise CourseError(f"there is no file {file} with recipes")
    spec = spec_from_file_location(name, file)
    module = sys.modules[name] = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise CourseError(f"{file}{_line(error, file)}: {type(error).__name__}: {error}") from error


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
