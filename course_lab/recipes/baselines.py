"""The papers start from these: AWD-LSTM, its mixture of softmaxes, the Transformer for translation.

Settings are those of the released codes' own instructions. Nothing is entered here: a paper enters
what its tables quote.
"""

from course_lab.experiment import Experiment
from course_lab.parts import Part, part
from course_lab.recipes.registry import continued
from course_lib.training import InverseSquareRoot, Optimisation

# AWD-LSTM (Merity, Keskar and Socher 2018), its PyTorch 0.4 code. NT-ASGD: SGD until validation has
# not improved for n = 5 epochs, then the mean of all weights from there on.
AWD_LSTM_PTB = Experiment(
    name="",
    corpus=part("ptb"),
    size=400,
    words=part("FullWords", init=0.1),
    input_embedding=part("InputEmbedding", row_dropout=0.1),
    encoder=part(
        "AWDLSTM",
        units=[1150, 1150, 400],
        weight_drop=0.5,
        input_dropout=0.4,
        hidden_dropout=0.25,
    ),
    output_layer=part("Softmax", bias=True),
    output_dropout=0.4,
    regularizers=(
        part("ActivationRegularizer", weight=2.0),
        part("TemporalActivationRegularizer", weight=1.0),
    ),
    optimisation=Optimisation(
        optimizer="sgd",
        learning_rate=30.0,
        epochs=500,
        batch=20,
        length=70,
        random_length=True,
        clip=0.25,
        weight_decay=1.2e-6,
        average_after=5,
    ),
    ranked_contexts=82_430,  # the whole test split (parthiban2021)
)
AWD_LSTM_WT2 = AWD_LSTM_PTB.change(
    corpus=part("wikitext-2"),
    ranked_contexts=33_320,
    encoder={"input_dropout": 0.65, "hidden_dropout": 0.2},
    optimisation={"batch": 80, "epochs": 750},
)

# Mixture of softmaxes on AWD-LSTM (Yang et al. 2018). On WikiText-2 its code adds up the gradients
# of three parts of 5 columns, to fit the memory, and draws the masks of words and of recurrent
# weights for each part. The kernel needs no parts, and the paper names none: here one mask serves
# the batch. `--change optimisation.accumulate=3` trains as the code does. The code also cuts
# segments at `max_seq_len_delta` tokens above the mean, for the memory; ours are not cut.
MOS_PTB = AWD_LSTM_PTB.change(
    size=280,
    encoder={"units": [960, 960, 620], "hidden_dropout": 0.225},
    output_layer=part("MixtureOfSoftmaxes", components=15, dropout=0.29),
    optimisation={"learning_rate": 20.0, "batch": 12, "epochs": 1000},
)
MOS_WT2 = AWD_LSTM_WT2.change(
    size=300,
    encoder={"units": [1150, 1150, 650], "input_dropout": 0.55},
    output_layer=part("MixtureOfSoftmaxes", components=15, dropout=0.29),
    optimisation={"learning_rate": 15.0, "batch": 15, "epochs": 1000},
)

# ET-ASGD: averaging begins when 200 epochs are done, instead of at the first stall.
ET_ASGD = {"average_after": None, "average_from": 201}

# Continuous cache (Grave et al. 2017) as in the released AWD-LSTM code.
CACHE_PTB = part("ContinuousCache", window=500, theta=1.0, weight=0.1)
CACHE_WT2 = part("ContinuousCache", window=3785, theta=0.662, weight=0.1279)


def finetuned(base: Experiment, source: str, name: str = "finetuned", **changes) -> Experiment:
    """Enter ASGD restarted from the best weights, until 5 epochs bring nothing.

    That is AWD-LSTM's finetune.py. The epochs of `base` stay the limit. The released program cuts
    segments at bptt + 10 tokens, 80 here; ours draws lengths as the training does, of which about
    one in fifty is longer.

    base: the trained recipe
    source: table and row of the paper
    name: what follows the name of `base`
    changes: other fields of the experiment
    """
    restart = {"average_after": None, "average_from": 1, "patience": 5, "tied_until": None}
    restart |= changes.pop("optimisation", {})
    return continued(base, name, source=source, optimisation=restart, **changes)


def adapted(
    base: Experiment,
    name: str,
    source: str,
    adaptation: Part,
    start: Experiment,
    small: dict | None = None,
) -> Experiment:
    """Enter `<base>/<name>`: the best weights of `start`, adapted to the text that they read.

    Nothing is trained.

    base: the recipe whose model it is
    name: what follows the name of `base`
    source: table and row of the paper
    adaptation: the method
    start: the recipe whose best weights are taken
    small: settings of the method in the profiles `smoke` and `quick`
    """
    nothing = {"epochs": 0, "average_after": None, "average_from": None, "average_last": None}
    nothing |= {"patience": None, "tied_until": None}
    return continued(
        base,
        name,
        source=source,
        start_from=start.name,
        small=small and {"adaptation": small},
        adaptation=adaptation,
        ranked_contexts=None,  # of the plain evaluation
        optimisation=nothing,
    )


# The Transformer for translation: Vaswani et al. 2017 on WMT 2014 (Tensor2Tensor), and the sizes of
# IWSLT 2014 (fairseq; Tensor2Tensor's small with four layers). One matrix reads the source, reads
# the target and predicts. gao2019 took the official code's defaults "as in Vaswani et al."; its
# later versions have others (layers normalised before, not after; dropout of attention, of ReLUs;
# another warm-up). Ours are those of Vaswani et al., that code's `transformer_base_v1`.
_SIZES = {
    "wmt14": {
        "base": {"size": 512, "layers": 6, "heads": 8, "feedforward": 2048, "dropout": 0.1},
        "big": {"size": 1024, "layers": 6, "heads": 16, "feedforward": 4096, "dropout": 0.3},
    },
    "iwslt14": {
        "base": {"size": 512, "layers": 6, "heads": 4, "feedforward": 1024, "dropout": 0.3},
        "small": {"size": 256, "layers": 4, "heads": 4, "feedforward": 1024, "dropout": 0.3},
    },
}
_CORPORA = {
    # 100,000 steps (base) and 300,000 (big) of 25,000 tokens a side; the mean of the last 5 and 20
    # checkpoints, each 10 minutes after the one before, is about that of the last 2 epochs.
    "wmt14": {
        "epochs": {"base": 20, "big": 60},
        "max_tokens": 25_000,
        "average_last": 2,
        "decoding": part("BeamSearch", beam=4, length_penalty=0.6),
    },
    # wang2020 names the code of Ott et al. and gives neither the length of its training nor its
    # search. Ours is about fairseq's recipe, with two differences: fairseq divides a translation's
    # log-probability by its length, and we by ((5 + length) / 6)^α; fairseq shares only the
    # decoder's two matrices, and here one matrix reads the source as well.
    "iwslt14": {
        "epochs": {"base": 50, "small": 50},
        "max_tokens": 4096,
        "learning_rate": 5e-4,
        "weight_decay": 1e-4,
        "average_last": 5,
        "decoding": part("BeamSearch", beam=5, length_penalty=1.0),
    },
}


def transformer(corpus: str, direction: str, size: str) -> Experiment:
    """Return `<corpus>/<direction>/transformer-<size>`, which is not entered as a recipe.

    It has label smoothing, and Adam's rate falls with the inverse square root of the step.

    corpus: "wmt14" or "iwslt14"
    direction: such as "de-en"
    size: "small", "base" or "big"
    """
    settings, encoder = _CORPORA[corpus], dict(_SIZES[corpus][size])
    d = encoder.pop("size")
    return Experiment(
        name=f"{corpus}/{direction}/transformer-{size}",
        corpus=part(corpus, direction=direction),
        size=d,
        words=part("FullWords", init=d**-0.5, normal=True),
        encoder=part("Transformer", **encoder),
        output_layer=part("Softmax", bias=False),
        objectives=(part("LabelSmoothing", epsilon=0.1),),
        decoding=settings["decoding"],
        optimisation=Optimisation(
            optimizer="adamw",  # Adam, where nothing decays
            learning_rate=settings.get("learning_rate", (d * 4000) ** -0.5),  # when warm-up ends
            weight_decay=settings.get("weight_decay", 0.0),
            schedule=InverseSquareRoot(warmup=4000),
            betas=(0.9, 0.98),
            eps=1e-9,
            epochs=settings["epochs"][size],
            max_tokens=settings["max_tokens"],
            average_last=settings["average_last"],
        ),
    )
