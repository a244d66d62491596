"""What a profile changes in every recipe: the same code at a size for the occasion."""

from course_lib.errors import unknown
from course_lib.experiments.experiment import Experiment, part

PROFILES = ("smoke", "quick", "standard", "full")

_SMALL = {"train": 12_000, "valid": 1_500, "test": 1_500, "words": 300}
_CHANGES = {
    "smoke": {"corpus": part("docstrings", small=_SMALL), "optimisation": {"epochs": 1}},
    "quick": {
        "corpus": part(
            "docstrings",
            small={"train": 250_000, "valid": 20_000, "test": 20_000, "words": 10_000},
        ),
        "optimisation": {"epochs": 2},
    },
    "standard": {},
    "full": {},
}
# Where one recipe wants another size than the common one.
_OWN = {
    "docstrings/transformer-128/tied": {
        # words rarer than 1e-4 must exist
        "smoke": {
            "corpus": {"small": {"train": 30_000, "valid": 2_000, "test": 2_000, "words": 3_000}},
            "optimisation": {"epochs": 1, "batch": 8, "length": 32},
        },
        "quick": {
            "corpus": {
                "small": {"train": 600_000, "valid": 20_000, "test": 20_000, "words": 10_000}
            },
            "optimisation": {"epochs": 1},
        },
        "standard": {"optimisation": {"epochs": 5}},
    },
}


def profile(experiment: Experiment, name: str, seed: int = 1) -> Experiment:
    """The experiment at the size of a profile; CourseError for an unknown profile."""
    if name not in PROFILES:
        raise unknown("profile", name, PROFILES)
    changes = _OWN.get(experiment.name, {}).get(name, _CHANGES[name])
    return experiment.change(**changes, profile=name, seed=seed)
