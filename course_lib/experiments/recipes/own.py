"""The course's own models, small enough to train while the reader waits."""

from course_lib.experiments.experiment import part
from course_lib.experiments.recipes.registry import add
from course_lib.training import Cosine, Optimisation

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
