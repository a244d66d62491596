"""Keep the result of a run where it is committed, under the name that tells what it is a run of."""

from pathlib import Path

from course_lab import overrides, planned, results
from course_lab.experiment import Experiment
from course_lab.recipes import profile, recipes
from course_lib.data import folders
from course_lib.errors import CourseError


def keep_result(folder: Path) -> Path:
    """Copy the checked result of a finished run to where it is committed; return that folder.

    Raise CourseError where the result's name hides how the run differs from its recipe, as lessons
    and tables go by names, and where another result of that run is there already.
    """
    content = results.read_result(folder)
    experiment = Experiment.from_dict(content["experiment"])
    _check_name(experiment)
    target = results.kept_folder() / results.run_folder(experiment).relative_to(
        folders.home() / "runs"
    )
    there = (target / "result.json").exists()
    if there and results.read_result(target)["sha256"] != content["sha256"]:
        raise CourseError(f"{target} keeps another result of this run; remove it to replace it")
    results.write(target, content, results.read_arrays(folder))
    return target


def _check_name(e: Experiment) -> None:
    """Raise CourseError for a run of a recipe with settings that its variant does not tell."""
    if e.name not in recipes:  # of the reader's own: its name is all there is to go by
        return
    changes = dict(overrides.differences(profile(recipes[e.name], e.profile, e.seed), e))
    if parts := [path for path, value in changes.items() if overrides.has_settings(value)]:
        raise CourseError(
            f"the result is called {e.name}, but has {' and '.join(parts)} of its own, as no plan "
            "can ask for; give the experiment a name of its own"
        )
    if planned.label(changes) != e.variant:
        settings = ", ".join(changes) or "nothing"
        raise CourseError(
            f"the result is called {e.name}{', ' * bool(e.variant)}{e.variant}, but differs from "
            f"that recipe in {settings}; train it as `{planned.command(e)}`"
        )
