"""inan2017, "Tying Word Vectors and Word Classifiers": every trained row of Tables 1 to 3."""

from course_lab.experiment import Experiment
from course_lab.parts import part
from course_lab.recipes.registry import add, recipes
from course_lib.training import Cosine, EpochDecay, Optimisation

# Tables 1 and 2: 2-layer LSTMs with variational dropout; appendix A for the settings. The rate
# falls after the epoch that the appendix names (5, 10 and 1), as in Zaremba et al.'s code, whose
# exponent is max(epoch − max_epoch, 0): `start` is the first lower epoch.
_small = Experiment(
    name="",
    corpus=part("ptb"),
    size=200,
    words=part("FullWords", init=0.1),
    encoder=part("VariationalLSTM", units=200, layers=2, dropout=0.3, init=0.1),
    output_layer=part("Softmax", bias=True),
    tied=False,
    optimisation=Optimisation(
        optimizer="sgd",
        learning_rate=1.0,
        schedule=EpochDecay(rate=0.9, start=6),
        epochs=40,  # the paper gives none; by then the rate has fallen to 0.9^35 ≈ 0.025
        batch=20,
        length=35,
        sum_over_steps=True,  # the convention that a rate of 1 and a clip norm of 5 belong to
        clip=5.0,  # in fp32: bf16 is no faster for it on processors without AMX
    ),
)
_SIZES = {
    "small": _small,
    "medium": _small.change(
        size=650,
        words={"init": 0.05},
        encoder={"units": 650, "dropout": 0.5, "init": 0.05},
        optimisation={"schedule": EpochDecay(rate=0.9, start=11), "epochs": 45},
    ),
    "large": _small.change(
        size=1500,
        words={"init": 0.04},
        encoder={"units": 1500, "dropout": 0.65, "init": 0.04},
        optimisation={"schedule": EpochDecay(rate=0.97, start=2), "epochs": 100, "clip": 6.0},
    ),
}
_WT2_DROPOUT = {"small": 0.2, "medium": 0.4}
# α = γτ with τ = 20; of γ the paper gives a range for each corpus, here its middle.
_GAMMA = {"ptb": 0.65, "wikitext-2": 1.25}


def _inan2017(table: int, base: Experiment, size: str, text: str, **changes) -> None:
    """The four columns: baseline, augmented loss (AL), reused embedding (RE) and both (REAL)."""
    loss = {"weight": _GAMMA[text.partition("/")[0]] * 20, "temperature": 20.0}
    augmented = (part("CrossEntropy"), part("AugmentedLoss", **loss))
    # The paper does not say whether gradients flow through the soft target. In a tied model they
    # must: as a constant it runs away from the logits that should meet it (lesson 5).
    through = (part("CrossEntropy"), part("AugmentedLoss", **loss, gradient=True))
    tied = {"tied": True, "output_layer": part("Softmax", bias=False)}
    columns = {
        "baseline": ("", {}),
        "augmented": ("+AL", {"objectives": augmented}),
        "tied": ("+RE", tied),
        "tied-augmented": ("+REAL", tied | {"objectives": through}),
    }
    for name, (label, column) in columns.items():
        add(
            base,
            name=f"{text}/vd-lstm-{base.size}/{name}",
            source=f"inan2017, Table {table}, VD-LSTM{label} {size}, {text}",
            **changes,
            **column,
        )


for _size, _base in _SIZES.items():
    _inan2017(1, _base, _size, "ptb")
# Table 3 compares its largest model with the highway networks below.
_source = "inan2017, Tables 1, 3, VD-LSTM+REAL large, ptb"
add(recipes["ptb/vd-lstm-1500/tied-augmented"], source=_source)
for _size, _dropout in _WT2_DROPOUT.items():
    _corpus = {"corpus": part("wikitext-2"), "encoder": {"dropout": _dropout}}
    _inan2017(1, _SIZES[_size], _size, "wikitext-2", **_corpus)
for _half in ("first", "second"):
    _corpus = {"corpus": part("wikitext-2", half=_half), "encoder": {"dropout": 0.2}}
    _inan2017(2, _small, "small", f"wikitext-2/{_half}-half", **_corpus)
for _name in ("baseline", "augmented", "tied", "tied-augmented"):
    _source = recipes[f"ptb/vd-lstm-200/{_name}"].source + " (footnote 4: trained again)"
    if _name == "baseline":
        _source = "the course's own: inan2017, footnote 4 says that this changes nothing"
    add(
        recipes[f"ptb/vd-lstm-200/{_name}"],
        name=f"ptb/vd-lstm-200/{_name}/second-session",
        source=_source,
        start_from=f"ptb/vd-lstm-200/{_name}",
        # The paper does not say how it trained again; a shorter run to about as low a rate.
        optimisation={"epochs": 18, "schedule": EpochDecay(rate=0.8, start=3)},
    )

# Figure 1: does the augmented loss alone bring the two matrices together? β = 0.5, τ = 10 of
# equation 18, (1 − β) CE + β τ² KL; plan inan2017-figure-1 sweeps both. Nothing regularises.
add(
    _small,
    name="ptb/lstm-300/subspace",
    source="inan2017, Figure 1, 20,000 tokens of ptb",
    corpus=part("ptb", small={"train": 20_000, "valid": 5_000, "test": 5_000, "words": 10_000}),
    size=300,
    words={"constraint": "unit"},  # of the input embedding only
    output_words=part("FullWords", init=0.1),
    encoder={"units": 300, "dropout": 0.0},
    output_layer=part("Softmax", bias=False),
    objectives=(
        part("CrossEntropy", weight=0.5),
        part("AugmentedLoss", weight=50.0, temperature=10.0),
    ),
    # The paper trains its language models by SGD and gives no settings for this one. What matters
    # is a training loss as low as it gets, which AdamW reaches sooner, so the last epoch counts:
    # without regularisation the best in validation is an early one.
    optimisation=Optimisation(
        keep="last",
        optimizer="adamw",
        learning_rate=2e-3,
        schedule=Cosine(),
        epochs=60,
        batch=20,
        length=35,
        clip=5.0,
    ),
)

# Table 3: recurrent highway networks, with the settings of Zilly et al.'s code. Its word dropout
# draws a mask for each sequence of a batch, ours one for the batch, as AWD-LSTM's; and it keeps the
# output's bias when it ties, where ours goes, as in all of inan2017's tied models.
_rhn = add(
    name="ptb/vd-rhn/baseline",
    source="inan2017, Table 3, VD-RHN, PTB (Zilly et al. 2016)",
    corpus=part("ptb"),
    size=830,
    words=part("FullWords", init=0.04),
    input_embedding=part("InputEmbedding", row_dropout=0.25),
    encoder=part("RHN", units=830, depth=10),
    output_layer=part("Softmax", bias=True),
    tied=False,
    optimisation=Optimisation(
        learning_rate=0.2,
        schedule=EpochDecay(rate=1 / 1.02, start=21),
        epochs=500,
        batch=20,
        length=35,
        sum_over_steps=True,
        clip=10.0,
        weight_decay=1e-7,
    ),
)
add(
    _rhn,
    name="ptb/vd-rhn/tied",
    source="inan2017, Table 3, VD-RHN+RE, PTB (Zilly et al. 2016)",
    tied=True,
    output_layer=part("Softmax", bias=False),
)
