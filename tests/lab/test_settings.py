"""The settings of the papers and of their released codes, written down once more.

A recipe states differences from its base; here is what must come out of them.
"""

import pytest

from course_lab import Part, recipes
from course_lab.corpora.translation import IWSLT14_PIECES
from course_lab.overrides import at
from course_lib.output_layers import FullWords
from course_lib.training import EpochDecay, InverseSquareRoot

VD_LSTM = {
    "encoder.kind": "VariationalLSTM",
    "encoder.layers": 2,
    "optimisation.optimizer": "sgd",
    "optimisation.learning_rate": 1.0,
    "optimisation.sum_over_steps": True,
    "optimisation.length": 35,
    "optimisation.batch": 20,
    "optimisation.weight_decay": 0.0,
    "input_embedding.row_dropout": None,
}
SMALL = {"size": 200, "words.init": 0.1, "encoder.units": 200, "encoder.init": 0.1}
SMALL |= {"optimisation.clip": 5.0, "optimisation.schedule": EpochDecay(0.9, 6)}
MEDIUM = {"size": 650, "words.init": 0.05, "encoder.units": 650, "encoder.init": 0.05}
MEDIUM |= {"optimisation.clip": 5.0, "optimisation.schedule": EpochDecay(0.9, 11)}
LARGE = {"size": 1500, "words.init": 0.04, "encoder.units": 1500, "encoder.init": 0.04}
LARGE |= {"optimisation.clip": 6.0, "optimisation.schedule": EpochDecay(0.97, 2)}

AWD = {
    "encoder.kind": "AWDLSTM",
    "encoder.weight_drop": 0.5,
    "output_dropout": 0.4,
    "input_embedding.row_dropout": 0.1,
    "regularizers.0.weight": 2.0,
    "regularizers.1.weight": 1.0,
    "optimisation.optimizer": "sgd",
    "optimisation.clip": 0.25,
    "optimisation.length": 70,
    "optimisation.random_length": True,
    "optimisation.weight_decay": 1.2e-6,
    "optimisation.evaluation_batch": 10,
}
NT, ET = ({"optimisation.average_after": a, "optimisation.average_from": f}
          for a, f in ((5, None), (None, 201)))  # fmt: skip
WIDE = {"size": 400, "encoder.units": [1150, 1150, 400], "output_layer.kind": "Softmax"}
PTB = {"encoder.input_dropout": 0.4, "encoder.hidden_dropout": 0.25, "optimisation.batch": 20}
PTB |= {"optimisation.learning_rate": 30.0, "optimisation.epochs": 500}
WT2 = {"encoder.input_dropout": 0.65, "encoder.hidden_dropout": 0.2, "optimisation.batch": 80}
WT2 |= {"optimisation.learning_rate": 30.0, "optimisation.epochs": 750}
MOS = {"output_layer.kind": "MixtureOfSoftmaxes", "output_layer.components": 15}
MOS |= {"output_layer.dropout": 0.29}
MOS_PTB = MOS | {"size": 280, "encoder.units": [960, 960, 620], "encoder.hidden_dropout": 0.225}
MOS_PTB |= {"encoder.input_dropout": 0.4, "optimisation.batch": 12}
MOS_WT2 = MOS | {"size": 300, "encoder.units": [1150, 1150, 650], "encoder.hidden_dropout": 0.2}
MOS_WT2 |= {"encoder.input_dropout": 0.55, "optimisation.batch": 15}
FINETUNED = {"optimisation.average_from": 1, "start_weights": "best"}

PARTHIBAN = {"encoder.hidden_dropout": 0.3, "encoder.input_dropout": 0.4}
PARTHIBAN |= {"optimisation.learning_rate": 20.0}
PLIF = {"output_layer.kind": "PiecewiseLinearSoftmax", "output_layer.pieces": 100_000}
PLIF_RATE = {"optimisation.groups": {"output_layer.free_slopes": {"learning_rate": 0.02}}}

TRANSFORMER = {"optimisation.betas": (0.9, 0.98), "optimisation.schedule": InverseSquareRoot(4000)}
TRANSFORMER |= {"objectives.0.kind": "LabelSmoothing", "objectives.0.epsilon": 0.1, "tied": True}
VASWANI = {"optimisation.weight_decay": 0.0, "decoding.beam": 4, "decoding.length_penalty": 0.6}


def layers(size, number, heads, feedforward):
    return {"size": size, "encoder.layers": number, "encoder.heads": heads,
            "encoder.feedforward": feedforward}  # fmt: skip


XL = {
    "size": 410,
    "encoder.heads": 10,
    "encoder.head_size": 41,
    "encoder.feedforward": 2100,
    "encoder.memory": 150,
    "output_layer.kind": "AdaptiveSoftmax",
    "output_layer.cutoffs": [20_000, 40_000, 200_000],
    "optimisation.length": 150,
    "optimisation.evaluation_length": 64,
    "optimisation.evaluation_memory": 640,
    "optimisation.evaluation_clamp": 400,
}

SETTINGS = {
    # inan2017, appendix A; γ in [0.5, 0.8] on Penn Treebank and [1, 1.5] on WikiText-2, τ = 20
    "ptb/vd-lstm-200/baseline": VD_LSTM | SMALL | {"encoder.dropout": 0.3, "tied": False},
    "ptb/vd-lstm-650/baseline": VD_LSTM | MEDIUM | {"encoder.dropout": 0.5},
    "ptb/vd-lstm-1500/baseline": VD_LSTM | LARGE | {"encoder.dropout": 0.65},
    "wikitext-2/vd-lstm-200/baseline": VD_LSTM | SMALL | {"encoder.dropout": 0.2},
    "wikitext-2/vd-lstm-650/baseline": VD_LSTM | MEDIUM | {"encoder.dropout": 0.4},
    "wikitext-2/first-half/vd-lstm-200/baseline": VD_LSTM
    | SMALL
    | {"encoder.dropout": 0.2, "corpus.half": "first"},
    "wikitext-2/second-half/vd-lstm-200/augmented": {
        "encoder.dropout": 0.2,
        "corpus.half": "second",
        "objectives.1.weight": 1.25 * 20,
    },
    "ptb/vd-lstm-200/tied": SMALL | {"tied": True, "output_layer.bias": False},
    "ptb/vd-lstm-200/augmented": {
        "tied": False,
        "objectives.1.kind": "AugmentedLoss",
        "objectives.1.weight": 0.65 * 20,
        "objectives.1.temperature": 20.0,
    },
    "wikitext-2/vd-lstm-200/tied-augmented": {
        "objectives.1.weight": 1.25 * 20,
        "objectives.1.gradient": True,
        "tied": True,
    },
    "ptb/vd-rhn/baseline": {  # and Zilly et al.'s code
        "encoder.units": 830,
        "encoder.depth": 10,
        "input_embedding.row_dropout": 0.25,
        "tied": False,
        "optimisation.learning_rate": 0.2,
        "optimisation.schedule": EpochDecay(1 / 1.02, 21),
        "optimisation.clip": 10.0,
        "optimisation.weight_decay": 1e-7,
    },
    # AWD-LSTM and the mixture on it, as released
    "ptb/awd-lstm/softmax": AWD | NT | WIDE | PTB,
    "wikitext-2/awd-lstm/softmax": AWD | NT | WIDE | WT2,
    "wikitext-2/awd-lstm/softmax/finetuned": WT2 | FINETUNED,
    "ptb/awd-lstm/softmax/continuous-cache": {
        "adaptation.window": 500,
        "adaptation.theta": 1.0,
        "adaptation.weight": 0.1,
    },
    "ptb/awd-lstm/mos": AWD | NT | MOS_PTB | {"optimisation.learning_rate": 20.0},
    "wikitext-2/awd-lstm/mos": AWD | NT | MOS_WT2 | {"optimisation.learning_rate": 15.0},
    # gao2019
    "wikitext-2/awd-lstm/cosine": AWD | NT | WIDE | WT2 | {"regularizers.2.weight": 1.0},
    "wikitext-2/awd-lstm/cosine/continuous-cache": {
        "adaptation.window": 3785,
        "adaptation.theta": 0.662,
        "adaptation.weight": 0.1279,
    },
    "wmt14/en-de/transformer-base/cosine": TRANSFORMER
    | VASWANI
    | layers(512, 6, 8, 2048)
    | {"regularizers.0.weight": 1.0, "encoder.dropout": 0.1},
    "wmt14/en-de/transformer-big/cosine": TRANSFORMER
    | VASWANI
    | layers(1024, 6, 16, 4096)
    | {"encoder.dropout": 0.3},
    # wang2019: its own input dropout, trigger, α and noise; released fine-tuning
    "ptb/awd-lstm/adversarial": AWD
    | ET
    | {"encoder.input_dropout": 0.3, "output_layer.alpha": 0.005, "input_embedding.noise": 0.2},
    "wikitext-2/awd-lstm/adversarial": AWD | ET | {"encoder.input_dropout": 0.5},
    "ptb/awd-lstm/adversarial/finetuned": FINETUNED
    | {"output_layer.alpha": 0.005, "input_embedding.noise": 0.0},
    "ptb/awd-lstm/mos+adversarial": AWD
    | ET
    | MOS_PTB
    | {"output_layer.kind": "AdversarialMixtureOfSoftmaxes", "output_layer.alpha": 0.005},
    "ptb/awd-lstm/mos+adversarial/finetuned/round-3": {
        "output_layer.dropout": 0.29,
        "output_layer.alpha": 0.028,
        "input_embedding.noise": 0.0,
    },
    "ptb/awd-lstm/mos+adversarial/finetuned": {"output_layer.dropout": 0.5},
    "ptb/awd-lstm/mos+partial-shuffle": MOS_PTB | {"optimisation.partial_shuffle": True},
    "wikitext-103/qrnn/softmax": {
        "encoder.kind": "QRNN",
        "encoder.units": [2500, 2500, 2500, 400],
        "encoder.weight_drop": 0.0,
        "encoder.input_dropout": 0.1,
        "encoder.hidden_dropout": 0.1,
        "output_dropout": 0.1,
        "optimisation.optimizer": "adamw",
        "optimisation.learning_rate": 1e-3,
        "optimisation.epochs": 14,
        "optimisation.batch": 60,
        "optimisation.length": 140,
        "optimisation.weight_decay": 0.0,
    },
    "iwslt14/de-en/transformer-small/softmax": TRANSFORMER
    | VASWANI
    | layers(256, 4, 4, 1024)
    | {"encoder.dropout": 0.1, "optimisation.learning_rate": (256 * 4000) ** -0.5}
    | {"corpus.variant": "wang2019"},
    "iwslt14/de-en/transformer-base/adversarial": TRANSFORMER
    | VASWANI
    | layers(512, 6, 4, 1024)
    | {"encoder.dropout": 0.4, "optimisation.max_tokens": 6400, "output_layer.alpha": 0.005}
    | {"corpus.variant": "wang2019"},
    "iwslt14/de-en/transformer-base/softmax": TRANSFORMER
    | layers(512, 6, 4, 1024)
    | {
        "encoder.dropout": 0.3,
        "optimisation.learning_rate": 5e-4,
        "optimisation.weight_decay": 1e-4,
        "decoding.beam": 5,
    },
    # wang2020
    "wikitext-2/awd-lstm/spectrum-control": AWD
    | ET
    | {"words.kind": "SpectralWords", "regularizers.3.kind": "ExponentialPrior"},
    "wikitext-103/transformer-xl-16/softmax": XL | {"encoder.layers": 16},
    "wikitext-103/transformer-xl-4/spectrum-control": XL
    | {"encoder.layers": 4, "regularizers.1.kind": "PolynomialPrior"},
    # parthiban2021
    "ptb/awd-lstm/softmax/et-asgd": AWD | ET | WIDE | PTB | PARTHIBAN,
    "wikitext-2/awd-lstm/softmax/et-asgd": AWD | ET | WIDE | WT2,
    "ptb/awd-lstm/gss/et-asgd": PARTHIBAN | {"output_layer.c": -1.5, "output_layer.k": 2.5},
    "wikitext-2/awd-lstm/gss/et-asgd": {"output_layer.c": -1.5, "output_layer.k": 3.0},
    "ptb/awd-lstm/plif/nt-asgd": NT | PARTHIBAN | PLIF | PLIF_RATE,
    "wikitext-2/awd-lstm/plif/et-asgd": ET | PLIF | PLIF_RATE,
    "ptb/awd-lstm/plif-frozen/et-asgd": ET | PARTHIBAN | PLIF | {"output_layer.frozen": True},
    "ptb/awd-lstm/mos/et-asgd": ET | MOS_PTB,
    "ptb/awd-lstm/mos/equal-capacity": {
        "size": 280,
        "encoder.units": [960, 960, 280],
        "encoder.input_dropout": 0.4,
        "encoder.hidden_dropout": 0.225,
        "output_dropout": 0.4,
        "input_embedding.row_dropout": 0.1,
        "input_embedding.noise": 0.1,
        "optimisation.weight_decay": 1.2e-6,
        "optimisation.batch": 12,
    },
    "ptb/awd-lstm/softmax/equal-capacity": {
        "size": 340,
        "encoder.units": [960, 960, 340],
        "encoder.input_dropout": 0.28,
        "encoder.hidden_dropout": 0.225,
        "output_dropout": 0.26,
        "input_embedding.row_dropout": 0.125,
        "input_embedding.noise": 0.15,
        "optimisation.weight_decay": 1.5e-6,
        "optimisation.batch": 12,
    },
}


@pytest.mark.parametrize(
    ("name", "stated"),
    [("ptb/vd-lstm-200/tied", 5), ("ptb/vd-lstm-650/tied", 10), ("ptb/vd-lstm-1500/tied", 1)],
)
def test_the_rate_falls_after_the_stated_epoch(name, stated):
    """inan2017, appendix A; Zaremba et al.'s code: rate ** max(epoch - max_epoch, 0)."""
    schedule = recipes[name].optimisation.schedule
    for epoch in range(1, 30):
        assert schedule(0.0, epoch, 1) == schedule.rate ** max(epoch - stated, 0)


@pytest.mark.parametrize("name", SETTINGS)
def test_a_recipe_has_the_settings_of_its_paper(name):
    found = {path: at(recipes[name], path.removesuffix(".kind")) for path in SETTINGS[name]}
    found = {p: v.kind if p.endswith(".kind") else v for p, v in found.items()}
    assert found == SETTINGS[name]


def test_adversarial_recipes_follow_algorithm_1():
    """wang2019: the offset is fixed, and what the layer computes with it is differentiated.

    The desk tier alone has the inert gradient beside it, as a row that says so in its name.
    """
    parts = [
        recipe.output_layer
        for name, recipe in recipes.items()
        if "Adversarial" in recipe.output_layer.kind and name != "ptb/desk/adversarial-inert"
    ]
    assert len(parts) > 25 and not any("gradient" in part.options for part in parts)
    for kind in {part.kind for part in parts}:
        layer = Part(kind, {"alpha": 0.1}).build("output_layer", FullWords(5, 4), 4)
        assert layer.gradient == "hidden" and not layer.gated


def test_iwslt14_has_the_pieces_of_its_papers():
    assert IWSLT14_PIECES == {"wang2020": 10_000, "wang2019": 33_000}


@pytest.mark.parametrize("name", ["plif", "plif-frozen"])
def test_the_pieces_of_plif_lie_between_minus_20_and_20(name):
    """Of the frozen one not stated in the recipe: the defaults of the layer."""
    layer = recipes[f"ptb/awd-lstm/{name}/et-asgd"].build(50).output_layer
    assert (layer.low, layer.high, len(layer.free_slopes)) == (-20.0, 20.0, 100_000)


def test_the_highway_networks_drop_what_the_released_code_drops():
    """Not stated in the recipe: the defaults of the encoder."""
    encoder = recipes["ptb/vd-rhn/baseline"].build(50).encoder
    assert (encoder.input_dropout, encoder.dropout, encoder.output_dropout) == (0.75, 0.25, 0.75)
