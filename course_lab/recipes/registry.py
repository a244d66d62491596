"""The table of recipes, and how the files beside this one enter theirs."""

from typing import Any

from course_lab.experiment import Experiment
from course_lab.recipes import elsewhere
from course_lib.errors import unknown


class Recipes(dict):
    """Recipes by name; an unknown name lists the near matches.

    A name such as `my_recipes.py:mine/tied` is looked for in that file.
    """

    def __missing__(self, name):
        if found := elsewhere.split(name):
            file, name = found
            elsewhere.load(file)
            return self[name]
        raise unknown("recipe", name, self)


recipes = Recipes()


def name_in(run: str) -> str:
    """Return the name of the recipe in that of a run, which may have a text's name before it."""
    recipe = run.partition("/")[2]
    return recipe if run not in recipes and recipe in recipes else run


# What a recipe changes in the profiles `smoke` and `quick`, beside what every recipe changes there.
SMALL: dict[str, dict] = {}


def add(base: Experiment | None = None, small: dict | None = None, **fields) -> Experiment:
    """Enter a recipe.

    base: the experiment that it changes; None for a new one
    small: what the recipe changes in the profiles `smoke` and `quick`
    fields: of the experiment, as `Experiment.change` takes them
    """
    experiment = Experiment(**fields) if base is None else base.change(**fields)
    recipes[experiment.name] = experiment
    elsewhere.note(experiment.name)
    if small:
        SMALL[experiment.name] = small
    return experiment


def continued(base: Experiment, suffix: str, **fields) -> Experiment:
    """Enter `<base>/<suffix>`, which begins with the weights of the best epoch of `base`.

    base: the recipe that it continues
    suffix: what follows its name
    fields: as `add` takes them
    """
    started: dict[str, Any] = {"start_from": base.name, "start_weights": "best"}
    return add(base, name=f"{base.name}/{suffix}", **started | fields)
