"""A recipe on another text: what it is called, and what of the recipe stays."""

import re
from pathlib import Path

from course_lab import corpora
from course_lab.experiment import Experiment
from course_lab.parts import Part
from course_lab.recipes import name_in, profile, recipes
from course_lib.errors import CourseError

# Options of a recipe's corpus that another text has as well.
SHARED = ("direction", "by_frequency")


def on_text(recipe: Experiment, text: str) -> Experiment:
    """Return a recipe with another corpus.

    recipe: of the course, or the reader's own.
    text: a corpus by name, a folder or a text file. The run is called after it:
        `wikitext-2/ptb/vd-lstm-200/tied`, or `novel/ptb/vd-lstm-200/tied`.

    Raise CourseError for a text that is neither known nor there, and for a translator's that is
    one file.
    """
    if recipe.translates and is_own(text) and Path(text).is_file():
        raise CourseError(
            f"{recipe.name} is a translator, which needs a folder of sentence pairs; {text} is one "
            "file"
        )
    options = {name: value for name, value in recipe.corpus.options.items() if name in SHARED}
    options |= dict.fromkeys(recipe.requires, True)
    corpora.loader_of(text, options)
    return recipe.change(name=f"{_called(text)}/{recipe.name}", corpus=Part(text, options))


def is_own(text: str) -> bool:
    """Return whether a corpus is a folder or a file of the reader's own."""
    return text not in corpora.names()


def is_moved(experiment: Experiment) -> bool:
    """Return whether the name of a run is that of a recipe with that of another text before it."""
    name = name_in(experiment.name)
    moved = f"{_called(experiment.corpus.kind)}/{name}"
    return name != experiment.name and experiment.name == moved


def _called(text: str) -> str:
    return re.sub(r"[^\w.-]+", "-", Path(text).stem) if is_own(text) else text


def absolute(text: str, below: Path) -> str:
    """Return a corpus as every process finds it: by name, or by its whole path.

    A word that is neither stays as it is: `loader_of` lists the names near it.

    below: the folder in which a relative path begins.
    """
    path = below / Path(text).expanduser()
    is_path = path.exists() or path.suffix or len(Path(text).parts) > 1
    return str(path.resolve()) if is_own(text) and is_path else text


def recipe_of(experiment: Experiment) -> Experiment | None:
    """Return the recipe that a run trains, with the run's text, profile and seed; None if none.

    Raise CourseError where that text is not here.
    """
    recipe = recipes.get(experiment.name)
    if is_moved(experiment):
        recipe = on_text(recipes[name_in(experiment.name)], experiment.corpus.kind)
    return recipe and profile(recipe, experiment.profile, experiment.seed)
