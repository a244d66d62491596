"""Optimisation as data, the training loop, checkpoints."""

from course_lib.training.optimisation import Optimisation
from course_lib.training.optimizers import CoupledAdam
from course_lib.training.schedules import Constant, Cosine, EpochDecay, InverseSquareRoot, OneCycle

__all__ = ["Constant", "Cosine", "CoupledAdam", "EpochDecay", "InverseSquareRoot", "OneCycle"]
__all__ += ["Optimisation"]
