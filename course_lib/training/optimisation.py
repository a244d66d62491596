"""How a model is trained, as data: optimiser, schedule, batches, clipping, precision."""

import math
from dataclasses import dataclass, field

import torch

from course_lib.errors import CourseError, unknown


@dataclass(frozen=True)
class Constant:
    """The learning rate stays."""

    def __call__(self, progress: float, epoch: int, step: int) -> float:
        """The factor on the learning rate.

        progress: share of all steps done, in [0, 1]; epoch: from 1; step: from 1.
        """
        return 1.0


@dataclass(frozen=True)
class EpochDecay:
    """Multiplied by `rate` at the beginning of each epoch from number `start` on (inan2017)."""

    rate: float = 0.9
    start: int = 5

    def __call__(self, progress, epoch, step):
        return self.rate ** max(0, epoch - self.start + 1)


@dataclass(frozen=True)
class InverseSquareRoot:
    """Linear over `warmup` steps, then ∝ step^−½, 1 at the peak (Vaswani et al. 2017, eq. 3)."""

    warmup: int = 4000

    def __call__(self, progress, epoch, step):
        return min(step / self.warmup, math.sqrt(self.warmup / step))


@dataclass(frozen=True)
class Cosine:
    """Half a cosine from 1 to `floor` over the run, after a linear `warmup` in steps."""

    warmup: int = 0
    floor: float = 0.0

    def __call__(self, progress, epoch, step):
        decay = self.floor + (1 - self.floor) * 0.5 * (1 + math.cos(math.pi * progress))
        return decay * min(1.0, step / max(1, self.warmup))


@dataclass(frozen=True)
class OneCycle:
    """Up from 1/`start` over the first `rise` of the run, then down to 0, along half cosines."""

    rise: float = 0.3
    start: float = 25.0

    def __call__(self, progress, epoch, step):
        if progress < self.rise:
            up = 0.5 * (1 - math.cos(math.pi * progress / self.rise))
            return 1 / self.start + (1 - 1 / self.start) * up
        return 0.5 * (1 + math.cos(math.pi * (progress - self.rise) / (1 - self.rise)))


SCHEDULES = {s.__name__: s for s in (Constant, EpochDecay, InverseSquareRoot, Cosine, OneCycle)}
OPTIMIZERS = ("sgd", "adamw")
PRECISIONS = {"fp32": "no", "bf16": "bf16"}  # the course's names -> accelerate's


@dataclass(frozen=True)
class Optimisation:
    """Every setting of a training run; CourseError when one is out of range."""

    optimizer: str = "sgd"
    learning_rate: float = 1.0
    schedule: object = field(default_factory=Constant)
    epochs: int = 40
    batch: int = 20  # columns, over all processes
    length: int = 35  # steps of truncated backpropagation
    random_length: bool = False  # the rule of AWD-LSTM; the learning rate follows the drawn length
    partial_shuffle: bool = False
    sum_over_steps: bool = False  # loss summed over the unrolled steps (Zaremba et al. 2014)
    clip: float | None = None  # global norm of the gradient
    weight_decay: float = 0.0
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    precision: str = "fp32"
    evaluation_batch: int = 10  # while training; final figures are at batch 1
    evaluation_length: int = 512

    def __post_init__(self):
        if self.optimizer not in OPTIMIZERS:
            raise unknown("optimizer", self.optimizer, OPTIMIZERS)
        if self.precision not in PRECISIONS:
            raise unknown("precision", self.precision, PRECISIONS)
        for name in ("learning_rate", "epochs", "batch", "length", "evaluation_batch"):
            if getattr(self, name) <= 0:
                raise CourseError(f"{name} must be above 0, not {getattr(self, name)}")

    def build(self, parameters) -> torch.optim.Optimizer:
        """The optimiser over `parameters`."""
        settings = {"lr": self.learning_rate, "weight_decay": self.weight_decay, "fused": True}
        if self.optimizer == "sgd":
            return torch.optim.SGD(parameters, **settings)
        return torch.optim.AdamW(parameters, betas=tuple(self.betas), eps=self.eps, **settings)

    def rate(self, progress: float, epoch: int, step: int, steps: int) -> float:
        """The learning rate of one step whose segment has `steps` tokens a column."""
        scale = steps / self.length if self.random_length else 1.0
        return self.learning_rate * scale * self.schedule(progress, epoch, step)
