"""Word matrices and the output layers on them."""

from course_lib.output_layers.adaptive import AdaptiveSoftmax
from course_lib.output_layers.adversarial import (
    Adversarial,
    AdversarialMixtureOfSoftmaxes,
    AdversarialSoftmax,
)
from course_lib.output_layers.gating import GatedSoftmax, GradientGating
from course_lib.output_layers.kernel import chunked_loss
from course_lib.output_layers.layer import OutputLayer, Softmax
from course_lib.output_layers.mixtures import MixtureOfContexts, MixtureOfSoftmaxes
from course_lib.output_layers.monotone import (
    GeneralizedSigSoftmax,
    PiecewiseLinearSoftmax,
    SigSoftmax,
    SoftCappedSoftmax,
)
from course_lib.output_layers.naive import NAIVE
from course_lib.output_layers.objectives import (
    AugmentedLoss,
    CrossEntropy,
    LabelSmoothing,
    Objective,
    ZLoss,
)
from course_lib.output_layers.scratch import FRESH, Scratch
from course_lib.output_layers.words import FullWords, SpectralWords
from course_lib.targets import IGNORE

OUTPUT_LAYERS = tuple(globals()[name] for name in NAIVE)  # every layer has a plain form

__all__ = ["FRESH", "IGNORE", "OUTPUT_LAYERS", "AdaptiveSoftmax", "Adversarial"]
__all__ += ["AdversarialMixtureOfSoftmaxes", "AdversarialSoftmax", "AugmentedLoss", "CrossEntropy"]
__all__ += ["FullWords", "GatedSoftmax", "GeneralizedSigSoftmax", "GradientGating", "Scratch"]
__all__ += ["LabelSmoothing", "MixtureOfContexts", "MixtureOfSoftmaxes", "Objective", "OutputLayer"]
__all__ += ["PiecewiseLinearSoftmax", "SigSoftmax", "SoftCappedSoftmax", "Softmax", "SpectralWords"]
__all__ += ["ZLoss", "chunked_loss"]
