"""Optimisation as data, the training loop, checkpoints."""

from course_lib.training.optimisation import (
    Constant,
    Cosine,
    EpochDecay,
    InverseSquareRoot,
    OneCycle,
    Optimisation,
)

__all__ = ["Constant", "Cosine", "EpochDecay", "InverseSquareRoot", "OneCycle", "Optimisation"]
