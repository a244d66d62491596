"""Word matrices and the output layers on them."""

from course_lib.output_layers.kernel import IGNORE, chunked_loss
from course_lib.output_layers.objectives import (
    AugmentedLoss,
    CrossEntropy,
    LabelSmoothing,
    Objective,
    ZLoss,
)
from course_lib.output_layers.softmax import OutputLayer, Softmax
from course_lib.output_layers.words import FullWords, SpectralWords

__all__ = [
    "IGNORE",
    "AugmentedLoss",
    "CrossEntropy",
    "FullWords",
    "LabelSmoothing",
    "Objective",
    "OutputLayer",
    "Softmax",
    "SpectralWords",
    "ZLoss",
    "chunked_loss",
]
