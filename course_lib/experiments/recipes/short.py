"""A short budget: published models in a small part of their 500 to 1000 epochs.

AdamW, one cycle of the learning rate, a larger batch and bf16 in place of averaged SGD, as fast.ai
trained AWD-LSTM in 90 epochs ("AdamW and Super-convergence", 2018). Model, dropouts and penalties
are those of the recipe before `/short`. Runs of data/plans/half-hour-gpu.toml.

What they reach here is not measured: there is no result of them under data/results yet. Rate and
decay are fast.ai's, to be searched on validation data before a comparison.
"""

from course_lib.experiments.recipes import (  # noqa: F401  (their recipes come first)
    gao2019,
    parthiban2021,
    wang2019,
    wang2020,
)
from course_lib.experiments.recipes.registry import add, recipes
from course_lib.training import OneCycle

_BUDGET = {
    "optimizer": "adamw",
    "learning_rate": 3e-3,
    "schedule": OneCycle(rise=0.3),
    "betas": (0.9, 0.99),
    "weight_decay": 0.02,
    "epochs": 90,
    "batch": 80,
    "average_after": None,
    "average_from": None,
    "precision": "bf16",
}
_SLOW_WORDS = {"words.": {"learning_rate": 3e-4, "weight_decay": 0.0}}  # of U, σ, V: see wang2020
_OWN = {
    "wikitext-2/awd-lstm/spectrum-control": {"groups": _SLOW_WORDS},
    "wikitext-2/awd-lstm/spectrum-control/polynomial-prior": {"groups": _SLOW_WORDS},
    "wikitext-2/awd-lstm/mos": {"epochs": 60},  # a mixture over its vocabulary takes its time
    "ptb/awd-lstm/plif/et-asgd": {"groups": {"output_layer.free_slopes": {"weight_decay": 0.0}}},
}

for _name in (
    "ptb/awd-lstm/softmax",
    "ptb/awd-lstm/adversarial",
    "ptb/awd-lstm/gss/et-asgd",
    "ptb/awd-lstm/plif/et-asgd",
    "ptb/awd-lstm/mos",
    "wikitext-2/awd-lstm/softmax",
    "wikitext-2/awd-lstm/cosine",
    "wikitext-2/awd-lstm/adversarial",
    "wikitext-2/awd-lstm/spectrum-control",
    "wikitext-2/awd-lstm/spectrum-control/polynomial-prior",
    "wikitext-2/awd-lstm/mos",
):
    add(
        recipes[_name],
        name=f"{_name.removesuffix('/et-asgd')}/short",
        source="the course's own, short budget",
        optimisation=_BUDGET | _OWN.get(_name, {}),
    )
