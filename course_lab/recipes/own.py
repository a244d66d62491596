"""The course's own models, small enough to train while the reader waits."""

from course_lab.parts import part
from course_lab.recipes import inan2017  # noqa: F401  (its recipes come first)
from course_lab.recipes.registry import add, recipes
from course_lib.training import Cosine, InverseSquareRoot, OneCycle, Optimisation

# Small enough to degenerate before the reader's eyes.
_tied = add(
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
        evaluation_length=64,  # in fp32: bf16 is slower on processors without AMX
    ),
)

# The same with one remedy each. Their constants are starting points, to be swept by a plan.
_AUGMENTED = part("CrossEntropy"), part("AugmentedLoss", weight=0.65 * 20, temperature=20.0)
# Penalties in the middle of wang2020's ranges; W begins with the norm of independent numbers of
# standard deviation 0.02, so that no parameter needs a learning rate of its own.
_ORTHOGONALITY = part(
    "Orthogonality", frobenius_U=0.1, frobenius_V=0.1, spectral_U=0.1, spectral_V=0.1
)
_EXPONENTIAL = part("ExponentialPrior", weight=0.1, c1=3.4, c2=0.05, gamma=0.6)
_SPECTRUM = {
    "words": part("SpectralWords"),
    "regularizers": (_ORTHOGONALITY, _EXPONENTIAL),
}
# The polynomial prior has the norm of the exponential one. Penalties that fail keep σ at 1 or less.
_POLYNOMIAL = part("PolynomialPrior", weight=0.1, c1=5.8, gamma=0.3)
_NORMALISED = {
    "words": part("SpectralWords", normalise=True),
    "regularizers": (_ORTHOGONALITY,),
}
_D_OPTIMAL = _NORMALISED | {"regularizers": (_ORTHOGONALITY, part("DOptimal", weight=0.1))}
_ADVERSARIAL = {"output_layer": part("AdversarialSoftmax", alpha=0.005, bias=False)}
_VARIANTS = {
    "untied": ("05", {"tied": False}),
    "augmented": ("05", {"tied": False, "objectives": _AUGMENTED}),
    "tied-augmented": ("05", {"objectives": _AUGMENTED}),
    "smoothed": ("05", {"objectives": (part("LabelSmoothing", epsilon=0.1),)}),
    "cosine": ("06", {"regularizers": (part("CosineRegularizer", weight=1.0),)}),
    "adversarial": ("07", _ADVERSARIAL),
    "spectrum": ("08", _SPECTRUM),
    "spectrum-polynomial": ("08", _SPECTRUM | {"regularizers": (_ORTHOGONALITY, _POLYNOMIAL)}),
    "spectral-normalization": ("08", _NORMALISED),
    "spectral-normalization+d-optimal": ("08", _D_OPTIMAL),
    "mos": ("09", {"output_layer": part("MixtureOfSoftmaxes", components=4, bias=False)}),
    "moc": ("09", {"output_layer": part("MixtureOfContexts", components=4, bias=False)}),
    "gss": ("10", {"output_layer": part("GeneralizedSigSoftmax", c=-1.5, k=2.5, bias=False)}),
    "plif": ("10", {"output_layer": part("PiecewiseLinearSoftmax", pieces=1_000, bias=False)}),
    "centred": ("11", {"words": {"constraint": "centred"}}),
    "mu-loss": ("11", {"regularizers": (part("MuLoss"),)}),
    "gated": ("11", {"output_layer": part("GatedSoftmax", bias=False)}),
    "coupled-adam": (
        "11",
        {"optimisation": {"groups": {"words.": {"optimizer": "coupled-adam"}}}},
    ),
    "z-loss": ("11", {"objectives": (part("CrossEntropy"), part("ZLoss"))}),
    "capped": ("11", {"output_layer": part("SoftCappedSoftmax", bias=False)}),
    "muon": (
        "11",
        {"optimisation": {"groups": {"words.": {"optimizer": "muon", "learning_rate": 0.02}}}},
    ),
    "spectrum-adversarial": ("11", _SPECTRUM | _ADVERSARIAL),
}
for _name, (_lesson, _changes) in _VARIANTS.items():
    _source = f"the course's own, lesson {_lesson}"
    add(_tied, name=f"docstrings/transformer-128/{_name}", source=_source, **_changes)

# The adversarial softmax and its plain rival on an LSTM, whose contexts are free to grow: those of
# the Transformer leave a layer normalisation, which fixes their length.
_lstm = add(
    _tied,
    name="docstrings/vd-lstm-128/tied",
    source="the course's own, lesson 07",
    words={"init": 0.1, "normal": False},
    encoder=part("VariationalLSTM", units=128, layers=2, dropout=0.0, init=0.1),
)
_ACTIVATION = {"regularizers": (part("ActivationRegularizer", weight=2.0),)}
for _name, _changes in {"adversarial": _ADVERSARIAL, "activation": _ACTIVATION}.items():
    _source = "the course's own, lesson 07"
    add(_lstm, name=f"docstrings/vd-lstm-128/{_name}", source=_source, **_changes)

# The output layers of parthiban2021's Figure 4 on a text of which the benchmarks of word similarity
# know the words. They begin wider than those of lesson 02, which wants to show the cone.
_six = {
    "softmax": {},
    "sigsoftmax": {"output_layer": part("SigSoftmax", bias=False)},
    **{name: _VARIANTS[name][1] for name in ("gss", "plif", "mos", "moc")},
}
for _name, _changes in _six.items():
    add(
        _tied,
        name=f"ptb/transformer-128/{_name}",
        source="the course's own, lesson 10",
        **{"corpus": part("ptb"), "words": {"init": 0.1}} | _changes,
    )

# Translators of Multi30k, an hour or two on two CPU cores.
_softmax = add(
    name="multi30k/transformer-small/softmax",
    source="the course's own, lesson 21",
    corpus=part("multi30k", direction="de-en", pieces=6_000, lowercase=True),
    size=256,
    words=part("FullWords", init=256**-0.5, normal=True),
    encoder=part("Transformer", layers=3, heads=4, feedforward=512, dropout=0.25),
    output_layer=part("Softmax", bias=False),
    objectives=(part("LabelSmoothing", epsilon=0.1),),
    decoding=part("BeamSearch", beam=5, length_penalty=1.0),
    optimisation=Optimisation(
        optimizer="adamw",
        learning_rate=1e-3,
        schedule=InverseSquareRoot(warmup=600),
        betas=(0.9, 0.98),
        weight_decay=0.01,
        epochs=14,
        max_tokens=2_000,
        average_last=3,  # in fp32: bf16 is slower on processors without AMX
    ),
)
add(
    _softmax,
    name="multi30k/transformer-small/cosine",
    regularizers=(part("CosineRegularizer", weight=1.0),),
)
# gao2019 finds the same degeneration in the LSTM translator of Wu et al. 2016.
_lstm = add(
    _softmax,
    name="multi30k/lstm-256/softmax",
    source="the course's own, after gao2019, section 3: LSTM translator",
    encoder=part("LSTMTranslator", layers=2, dropout=0.3),
    optimisation={"clip": 1.0},
)
add(
    _lstm,
    name="multi30k/lstm-256/cosine",
    source="the course's own, after gao2019, section 3: LSTM translator, cosine regularisation",
    regularizers=(part("CosineRegularizer", weight=1.0),),
)
# A translator of the embedded phrases, for the minute that a lesson has.
add(
    _softmax,
    name="cldr/transformer-tiny",
    corpus=part("cldr", direction="de-en"),
    size=64,
    words={"init": 64**-0.5},
    encoder={"layers": 2, "feedforward": 128, "dropout": 0.1},
    optimisation={
        "learning_rate": 3e-3,
        "schedule": InverseSquareRoot(warmup=100),
        "epochs": 8,
        "average_last": 2,
    },
)

# The cone follows the optimiser: inan2017's tied model from the same start, by AdamW in place of
# the SGD of `ptb/vd-lstm-200/tied`, and by Adam whose second moment is shared by all words.
_ADAMW = {
    "optimizer": "adamw",
    "learning_rate": 4e-3,
    "schedule": OneCycle(rise=1 / 8, hold=3 / 8),
    "betas": (0.7, 0.99),
    "weight_decay": 0.05,
    "epochs": 10,
    "length": 70,
    "sum_over_steps": False,
    "clip": 0.5,
    "precision": "bf16",
}
for _name, _changes in {
    "adamw": _ADAMW,
    "coupled-adam": _ADAMW | {"groups": {"words.": {"optimizer": "coupled-adam"}}},
}.items():
    add(
        recipes["ptb/vd-lstm-200/tied"],
        name=f"ptb/vd-lstm-200/tied/{_name}",
        source="the course's own: the optimiser's part in the cone",
        optimisation=_changes,
    )
