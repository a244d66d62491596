"""Optimisation as data, the training loop, checkpoints."""

from course_lib.training.optimisation import (
    Constant,
    Cosine,
    EpochDecay,
    InverseSquareRoot,
    OneCycle,
    Optimisation,
)
from course_lib.training.optimizers import CoupledAdam

__all__ = [
    "Constant",
    "Cosine",
    "CoupledAdam",
    "EpochDecay",
    "InverseSquareRoot",
    "OneCycle",
    "Optimisation",
]
