"""Experiments as data, recipes for published rows, runs and their results.

A public name is loaded when it is first asked for, so that a batch's workers and `--help` need no
PyTorch.
"""

import sys
from importlib import import_module
from types import ModuleType

from course_lab import extras

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


def __getattr__(name: str):
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

    def __setattr__(self, name, value):
        if not (name in _MODULES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Laboratory
