"""Keep the result of a run where it is committed, under the name that tells what it is a run of."""

from collections.abc import Iterable
from pathlib import Path

from course_lab import overrides, planned, results
from course_lab.experiment import Experiment
from course_lib.errors import CourseError


def keep_result(folder: Path, named: Iterable[Experiment] = ()) -> Path:
    """Copy the checked result of a finished run to where it is committed; return that folder.

    folder: the run's folder.
    named: experiments whose names are known to whoever reads their results, whatever they hide.

    CourseError if another result of that run is kept already. Of runs that are not `named` it is
    also raised for the profile `smoke`, which is no result, and where the run's name hides how it
    differs from its recipe, because lessons and tables go by names.
    """
    content = results.read_result(folder)
    experiment = Experiment.from_dict(content["experiment"])
    if experiment.identity() not in [other.identity() for other in named]:
        if experiment.profile == "smoke":
            raise CourseError(
                f"{folder} has a run of the profile smoke, which shows that the code runs and is "
                "no result; train it with --profile quick or a larger one"
            )
        check_name(experiment)
    target = results.kept_folder() / results.key_of(experiment)
    if results.is_done(target) and results.read_result(target)["sha256"] != content["sha256"]:
        raise CourseError(f"{target} keeps another result of this run; remove it to replace it")
    results.write(target, content, results.read_arrays(folder))
    return target


def check_name(experiment: Experiment) -> None:
    """Raise CourseError for a run of a recipe with settings that its variant does not tell."""
    e = experiment
    changes = planned.changes_of(e)
    if changes is None:  # an experiment of one's own is known by its name alone
        return
    if replaced := [path for path, value in changes.items() if overrides.has_settings(value)]:
        raise CourseError(
            f"the result is called {e.name}, but has {' and '.join(replaced)} of its own, as no "
            "plan can ask for; give the experiment a name of its own"
        )
    if planned.label(changes) != e.variant:
        called = f"{e.name}, {e.variant}" if e.variant else e.name
        settings = ", ".join(changes) or "nothing"
        raise CourseError(
            f"the result is called {called}, but differs from that recipe in {settings}; train it "
            f"as `{planned.command(e)}`"
        )
