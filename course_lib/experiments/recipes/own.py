"""The course's own models, small enough to train while the reader waits."""

from course_lib.experiments.experiment import part
from course_lib.experiments.recipes.registry import add
from course_lib.training import Cosine, InverseSquareRoot, Optimisation

# Small enough to degenerate before the reader's eyes.
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

# Translators of Multi30k for two CPU cores and about half an hour.
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
