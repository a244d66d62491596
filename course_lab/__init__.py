"""Experiments as data, recipes for published rows, runs and their results.

A public name is loaded when it is first asked for, so that a batch's workers and `--help` need no
PyTorch.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from course_lab import extras

if TYPE_CHECKING:  # what `__getattr__` loads
    from course_lab.checkpoints import load_checkpoint as load_checkpoint
    from course_lab.checkpoints import with_starts as with_starts
    from course_lab.experiment import Experiment as Experiment
    from course_lab.keep import keep_result as keep_result
    from course_lab.launch import launch as launch
    from course_lab.parts import Part as Part
    from course_lab.parts import part as part
    from course_lab.provenance import describe_origin as describe_origin
    from course_lab.recipes import PROFILES as PROFILES
    from course_lab.recipes import profile as profile
    from course_lab.recipes import recipes as recipes
    from course_lab.results import Result as Result
    from course_lab.results import kept_results as kept_results
    from course_lab.results import read_kept as read_kept
    from course_lab.results import read_result as read_result
    from course_lab.results import run_folder as run_folder
    from course_lab.run import run as run

_MODULES = {
    "PROFILES": "recipes",
    "Experiment": "experiment",
    "Part": "parts",
    "Result": "results",
    "describe_origin": "provenance",
    "keep_result": "keep",
    "kept_results": "results",
    "launch": "launch",
    "load_checkpoint": "checkpoints",
    "part": "parts",
    "profile": "recipes",
    "read_kept": "results",
    "read_result": "results",
    "recipes": "recipes",
    "run": "run",
    "run_folder": "results",
    "with_starts": "checkpoints",
}  # public name: the file that defines it

__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    """Load a public name from the file that defines it."""
    if name not in _MODULES:
        raise AttributeError(f"module 'course_lab' has no attribute {name!r}")
    try:
        module = import_module(f"course_lab.{_MODULES[name]}")
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in ("course_lab", "course_lib"):
            raise
        raise ModuleNotFoundError(extras.refusal([package]), name=error.name) from error
    value = getattr(module, name)
    globals()[name] = value
    return value


class _Laboratory(ModuleType):
    """The package, in which `run` stays the function `run` when the file `run.py` is imported."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _MODULES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Laboratory
