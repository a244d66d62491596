"""Experiments as data, recipes for published rows, runs and their results."""

from course_lab.checkpoints import load_checkpoint, with_starts
from course_lab.experiment import Experiment
from course_lab.keep import keep_result
from course_lab.launch import launch
from course_lab.parts import Part, part
from course_lab.recipes import PROFILES, profile, recipes
from course_lab.results import Result, kept_results, read_result, run_folder
from course_lab.run import run

__all__ = [
    "PROFILES",
    "Experiment",
    "Part",
    "Result",
    "keep_result",
    "kept_results",
    "launch",
    "load_checkpoint",
    "part",
    "profile",
    "read_result",
    "recipes",
    "run",
    "run_folder",
    "with_starts",
]
