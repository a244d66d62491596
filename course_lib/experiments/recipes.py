"""One recipe for every published row that can be trained here, and what each profile changes.

A recipe states how it differs from its base and which table and row of which paper it stands for.
"""

from course_lib.errors import unknown
from course_lib.experiments.experiment import Experiment, part
from course_lib.training import Cosine, EpochDecay, Optimisation

PROFILES = ("smoke", "quick", "standard", "full")


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


# inan2017, Table 1: 2-layer LSTMs with variational dropout; appendix A for the settings.
_small = add(
    name="ptb/vd-lstm-200/baseline",
    source="inan2017, Table 1, VD-LSTM small, PTB",
    corpus=part("ptb"),
    size=200,
    words=part("FullWords", init=0.1),
    encoder=part("VariationalLSTM", units=200, layers=2, dropout=0.3, init=0.1),
    output_layer=part("Softmax", bias=True),
    tied=False,
    optimisation=Optimisation(
        optimizer="sgd",
        learning_rate=1.0,
        schedule=EpochDecay(rate=0.9, start=5),
        epochs=40,  # the paper gives none; by then the rate has fallen to 0.9^36 ≈ 0.02
        batch=20,
        length=35,
        sum_over_steps=True,  # the convention that a rate of 1 and a clip norm of 5 belong to
        clip=5.0,  # in fp32, as the paper: bf16 is no faster for it on processors without AMX
    ),
)
_tied = add(
    _small,
    name="ptb/vd-lstm-200/tied",
    source="inan2017, Table 1, VD-LSTM+RE small, PTB (first session)",
    tied=True,
    output_layer=part("Softmax", bias=False),
)
add(
    _tied,
    name="ptb/vd-lstm-200/tied/second-session",
    source="inan2017, Table 1, VD-LSTM+RE small, PTB (footnote 4: trained again)",
    start_from="ptb/vd-lstm-200/tied",
    # The paper does not say how it trained again; a shorter run that ends at the same low rate.
    optimisation={"epochs": 18, "schedule": EpochDecay(rate=0.8, start=3)},
)

# α = γτ; the paper gives τ = 20 and, for Penn Treebank, γ between 0.5 and 0.8: the middle of it.
_augmented = (part("CrossEntropy"), part("AugmentedLoss", weight=0.65 * 20, temperature=20.0))
add(
    _small,
    name="ptb/vd-lstm-200/augmented",
    source="inan2017, Table 1, VD-LSTM+AL small, PTB (first session)",
    objectives=_augmented,
)
add(
    _tied,
    name="ptb/vd-lstm-200/tied-augmented",
    source="inan2017, Table 1, VD-LSTM+REAL small, PTB (first session)",
    objectives=_augmented,
)

# The course's own model: small enough to degenerate before the reader's eyes.
add(
    name="docstrings/transformer-128/tied",
    source="the course's own, lesson 02",
    corpus=part("docstrings"),
    size=128,
    # A narrow start: Adam moves every row at the same speed, so that the common direction of the
    # rare words outgrows a cloud of this size within one epoch.
    words=part("FullWords", init=0.01, normal=True),  # small, so that what training does shows
    encoder=part(
        "TransformerXL",
        layers=2,
        heads=4,
        head_size=32,
        feedforward=512,
        dropout=0.0,
        memory=0,
    ),
    output_layer=part("Softmax", bias=False),
    optimisation=Optimisation(
        optimizer="adamw",
        learning_rate=1e-3,
        schedule=Cosine(warmup=50, floor=0.1),
        epochs=20,
        batch=16,
        length=64,
        clip=1.0,
        weight_decay=0.01,
        betas=(0.9, 0.98),
        precision="bf16",
        evaluation_length=64,
    ),
)

# What a profile changes in every recipe: the same code at a size for the occasion.
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
