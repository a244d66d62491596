"""A recipe on a text of the reader's own: what it is called, and what of the recipe stays."""

import re
from pathlib import Path

from course_lab import corpora
from course_lab.experiment import Experiment
from course_lab.parts import Part
from course_lab.recipes import recipes

# Options of a recipe's corpus that another text has as well.
SHARED = ("direction", "by_frequency")


def on_text(recipe: Experiment, text: str) -> Experiment:
    """Return a recipe with another corpus.

    recipe: of the course, or the reader's own.
    text: a corpus by name, a folder or a text file. A run on a folder or a file is called after it,
        `novel/ptb/vd-lstm-200/tied`; a run on a corpus by name keeps the recipe's name.

    Raise CourseError for a text that is neither known nor there.
    """
    options = {name: value for name, value in recipe.corpus.options.items() if name in SHARED}
    options |= dict.fromkeys(recipe.requires, True)
    corpora.loader_of(text, options)
    name = recipe.name
    if is_own(text):
        called = re.sub(r"[^\w.-]+", "-", Path(text).stem)
        name = f"{called}/{name}"
    return recipe.change(name=name, corpus=Part(text, options))


def is_own(text: str) -> bool:
    """Return whether a corpus is a folder or a file of the reader's own."""
    return text not in corpora.names()


def absolute(text: str, below: Path) -> str:
    """Return a corpus as every process finds it: by name, or by its whole path.

    below: the folder in which a relative path begins.
    """
    return str((below / Path(text).expanduser()).resolve()) if is_own(text) else text


def recipe_of(experiment: Experiment) -> Experiment | None:
    """Return the recipe that a run trains, on the run's own text; None if there is none."""
    name = experiment.name
    if name in recipes:
        return recipes[name]
    _, _, name = name.partition("/")
    if name in recipes and is_own(experiment.corpus.kind):
        return on_text(recipes[name], experiment.corpus.kind)
    return None
