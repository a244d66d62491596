"""A short budget: published models in a small part of their 500 to 1000 epochs.

AdamW, one cycle of the learning rate, a larger batch and bf16 in place of averaged SGD. Model,
dropouts and penalties are those of the recipe before `/short`. Plan: half-hour-gpu.

They begin at what Gugger and Howard found for WikiText-2, who reached AWD-LSTM's perplexity there
in 90 epochs ("AdamW and Super-convergence", 2018, and its released code): 5e-3 at a batch of 100,
held for five twelfths of the run, and little memory of the gradient. Theirs is Adam with 1.2e-6 of
L2 in the loss; the decoupled decay is ours, and so are batch and rate for the Penn Treebank, which
has half the text: about as many steps, at a rate that falls with the square root of the batch.

The decay shrinks a weight by exp(-sum of rate x decay) over a run. Averaged SGD at 30 with 1.2e-6
does so by exp(-12) in 500 epochs of the Penn Treebank and exp(-10) in 750 of WikiText-2; a decay of
0.1 by exp(-6) and exp(-10) in 90. A tenth of that leaves the words' norms twice as large and is
worse on validation data. Both are kept for a third of the epochs, one seed each, in `results
'ptb/awd-lstm/softmax/short'`, and far from the published figure: 30 epochs are too few, and what 90
reach is not measured. Search the settings on validation data before a comparison.

The recipes of `/one-sitting` are for two cores with AMX and 2 hours 40 minutes without a break, as
estimated. To the recipe above they add what record runs gain most from for its cost: the mean of
the weights over the last third of the epochs, and columns that begin elsewhere in every epoch
(Press 2019). The lengths of segments are drawn as AWD-LSTM's, as in every recipe of this file.
Past-decode regularisation (Brahma 2018) is a row of its own. No paper has the cosine penalty or
spectrum control on the Penn Treebank: here they are gao2019's and wang2020's, on this model. The
pilots of a third of the length are plan short-budget-pilots, the runs plan short-budget.
"""

from course_lab.parts import part
from course_lab.recipes import (  # noqa: F401  (their recipes come first)
    gao2019,
    parthiban2021,
    wang2019,
    wang2020,
)
from course_lab.recipes.baselines import adapted
from course_lab.recipes.gao2019 import COSINE
from course_lab.recipes.registry import add, recipes
from course_lab.recipes.wang2020 import controlled, exponential
from course_lib.training import OneCycle

_BUDGET = {
    "optimizer": "adamw",
    "learning_rate": 5e-3,
    "schedule": OneCycle(rise=1 / 12, hold=5 / 12, start=10.0),
    "betas": (0.7, 0.99),
    "weight_decay": 0.1,
    "epochs": 90,
    "batch": 100,
    "average_after": None,
    "average_from": None,
    "precision": "bf16",
}
_PTB = {"batch": 40, "learning_rate": 3e-3}
_SLOW_WORDS = {"words.": {"learning_rate": 5e-4, "weight_decay": 0.0}}  # of U, σ, V: see wang2020
# 100,000 slopes that lmkit's rate lets hardly move, as none need to (parthiban2021, Table 4), and
# whose pieces are narrower than bf16 tells logits apart.
_SLOPES = {"output_layer.free_slopes": {"learning_rate": 1e-5, "weight_decay": 0.0}}
_OWN = {
    "wikitext-2/awd-lstm/spectrum-control": {"groups": _SLOW_WORDS},
    "wikitext-2/awd-lstm/spectrum-control/polynomial-prior": {"groups": _SLOW_WORDS},
    "wikitext-2/awd-lstm/mos": {"epochs": 60},  # a mixture over its vocabulary takes its time
    "ptb/awd-lstm/plif/et-asgd": {"groups": _SLOPES, "precision": "fp32"},
}

for _name in (
    "ptb/awd-lstm/softmax/et-asgd",  # parthiban2021's, with the same dropout as the next two
    "ptb/awd-lstm/gss/et-asgd",
    "ptb/awd-lstm/plif/et-asgd",
    "ptb/awd-lstm/adversarial",
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
        optimisation=_BUDGET | (_PTB if _name.startswith("ptb/") else {}) | _OWN.get(_name, {}),
    )

# One sitting.
_EPOCHS = 42
_SITTING = _BUDGET | _PTB
_SITTING |= {"epochs": _EPOCHS, "average_last": _EPOCHS // 3, "partial_shuffle": True}
_CONTROLLED = {"words.": {"learning_rate": 3e-4, "weight_decay": 0.0}}
_plain = recipes["ptb/awd-lstm/softmax/et-asgd"].change(optimisation=_SITTING)
_models = {
    "softmax": _plain,
    "past-decode": _plain.change(regularizers=(*_plain.regularizers, part("PastDecode"))),
    "cosine": _plain.change(regularizers=(*_plain.regularizers, COSINE)),
    # c₁ is such that W begins with the Frobenius norm of the plain matrix, as wang2020's do.
    "spectrum-control": controlled(_plain, exponential(14.5)),
    "gss": recipes["ptb/awd-lstm/gss/et-asgd"],
    "adversarial": recipes["ptb/awd-lstm/adversarial"],
    "mos": recipes["ptb/awd-lstm/mos"],
}
for _name, _model in _models.items():
    add(
        _model,
        name=f"ptb/awd-lstm/{_name}/one-sitting",
        source="the course's own, short budget in one sitting",
        optimisation=_SITTING | ({"groups": _CONTROLLED} if _name == "spectrum-control" else {}),
    )

# Afterwards the plain model adapts to what it reads. Settings are searched on validation data, few
# of them, as the whole search of the released dynamic evaluation would take a day.
_softmax = recipes["ptb/awd-lstm/softmax/one-sitting"]
_CACHE = part("ContinuousCache", window=[500, 2000], theta=[0.3, 1.0], weight=[0.05, 0.1, 0.2])
_DYNAMIC = part(
    "DynamicEvaluation", rate=[3e-5, 6e-5, 1e-4], decay=2e-3, epsilon=2e-5, search_tokens=15_000
)
for _name, _adaptation, _small in (
    ("continuous-cache", _CACHE, {"window": 50, "theta": 1.0, "weight": 0.1}),
    ("dynamic-evaluation", _DYNAMIC, wang2019.DYNAMIC_SMALL),
):
    _source = f"the course's own, short budget in one sitting: {_name}"
    adapted(_softmax, _name, _source, _adaptation, _softmax, small=_small)
