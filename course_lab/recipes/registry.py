"""The table of recipes, and how the files beside this one enter theirs."""

from course_lab.experiment import Experiment
from course_lib.errors import unknown


class Recipes(dict):
    """Recipes by name; an unknown name lists the near matches."""

    def __missing__(self, name):
        raise unknown("recipe", name, self)


recipes = Recipes()


def add(base: Experiment | None = None, **fields) -> Experiment:
    """Enter a recipe: a new one, or `base` with changes."""
    experiment = Experiment(**fields) if base is None else base.change(**fields)
    recipes[experiment.name] = experiment
    return experiment


def continued(base: Experiment, suffix: str, **fields) -> Experiment:
    """Enter `<base>/<suffix>`, which begins with the weights of base's best epoch."""
    started = {"start_from": base.name, "start_weights": "best"}
    return add(base, name=f"{base.name}/{suffix}", **started | fields)
