"""How a model is trained, as data: optimiser, schedule, batches, clipping, precision."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from torch import Tensor
from torch.optim import SGD, AdamW, Muon, Optimizer

from course_lib.dropout import check_probability
from course_lib.errors import CourseError, unknown
from course_lib.training.optimizers import CoupledAdam, Together


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
    """Multiplied by `rate` at the beginning of each epoch from number `start` on (inan2017), to
    number `last` where there is one."""

    rate: float = 0.9
    start: int = 5
    last: int | None = None

    def __post_init__(self):
        _positive("rate", self.rate)
        _whole("start", self.start, least=1)
        _whole("last", self.last, least=1)

    def __call__(self, progress, epoch, step):
        epoch = epoch if self.last is None else min(epoch, self.last)
        return self.rate ** max(0, epoch - self.start + 1)


@dataclass(frozen=True)
class InverseSquareRoot:
    """Linear over `warmup` steps, then ∝ step^−½, 1 at the peak (Vaswani et al. 2017, eq. 3)."""

    warmup: int = 4000

    def __post_init__(self):
        _whole("warmup", self.warmup, least=1)

    def __call__(self, progress, epoch, step):
        return min(step / self.warmup, math.sqrt(self.warmup / step))


@dataclass(frozen=True)
class Cosine:
    """Half a cosine from 1 to `floor` over the run, after a linear `warmup` in steps."""

    warmup: int = 0
    floor: float = 0.0

    def __post_init__(self):
        _whole("warmup", self.warmup, least=0)
        check_probability("floor", self.floor)

    def __call__(self, progress, epoch, step):
        decay = self.floor + (1 - self.floor) * 0.5 * (1 + math.cos(math.pi * progress))
        return decay * min(1.0, step / max(1, self.warmup))


@dataclass(frozen=True)
class OneCycle:
    """Up from 1/`start` over the first `rise` of the run, along half a cosine; there for the share
    `hold` of it; then down to 0, along half a cosine."""

    rise: float = 0.3
    start: float = 25.0
    hold: float = 0.0

    def __post_init__(self):
        check_probability("rise", self.rise)
        check_probability("hold", self.hold)
        check_probability("rise + hold", self.rise + self.hold)
        _positive("start", self.start)

    def __call__(self, progress, epoch, step):
        if progress < self.rise:
            up = 0.5 * (1 - math.cos(math.pi * progress / self.rise))
            return 1 / self.start + (1 - 1 / self.start) * up
        fall = max(0.0, progress - self.rise - self.hold) / (1 - self.rise - self.hold)
        return 0.5 * (1 + math.cos(math.pi * fall))


SCHEDULES = {s.__name__: s for s in (Constant, EpochDecay, InverseSquareRoot, Cosine, OneCycle)}
OPTIMIZERS = {"sgd": SGD, "adamw": AdamW, "coupled-adam": CoupledAdam, "muon": Muon}
OPTIONS = {  # what a group of each may set beside its optimizer, learning rate and weight decay
    "sgd": (),
    "adamw": ("betas", "eps"),
    "coupled-adam": ("betas", "eps"),
    "muon": ("momentum", "nesterov", "ns_steps", "adjust_lr_fn"),
}
_AVERAGES = ("average_from", "average_after", "average_last")
_COUNTS = (*_AVERAGES, "max_steps", "patience", "batch", "max_tokens", "accumulate", "length")
_COUNTS += ("evaluation_batch", "evaluation_length")
KEPT = ("best", "last")
PRECISIONS = {"fp32": "no", "bf16": "bf16"}  # the course's names -> accelerate's


@dataclass(frozen=True)
class Optimisation:
    """Every setting of a training run; CourseError when one is out of range.

    groups: other settings for the parameters whose names begin so, the longest prefix deciding:
    {"words.": {"optimizer": "muon", "learning_rate": 0.02}, "output_layer.free_slopes": {…}}. A
    group may set optimizer, learning_rate, weight_decay and the options of its optimiser, by
    default those below or, for Muon, PyTorch's; the schedule multiplies every group's own learning
    rate. A tied matrix has one name, that of the matrix which reads.
    """

    optimizer: str = "sgd"
    learning_rate: float = 1.0
    schedule: object = field(default_factory=Constant)
    epochs: int = 40  # 0 takes the weights it starts from as they are
    max_steps: int | None = None  # ends within an epoch; schedules then run over these steps
    keep: str = "best"  # the epoch whose weights are evaluated: best in validation, or the last
    patience: int | None = None  # or ends at an epoch above the best of those before so many last
    batch: int = 20  # columns, over all processes
    max_tokens: int = 4096  # of a batch of sentence pairs, over all processes and parts
    accumulate: int = 1  # parts of a batch whose gradients are added before the step
    length: int = 35  # steps of truncated backpropagation
    random_length: bool = False  # the rule of AWD-LSTM; the learning rate follows the drawn length
    partial_shuffle: bool = False
    sum_over_steps: bool = False  # loss summed over the unrolled steps (Zaremba et al. 2014)
    clip: float | None = None  # global norm of the gradient
    average_from: int | None = None  # epoch from whose start weights are averaged (ET-ASGD)
    average_after: int | None = None  # or epochs without a new best before it begins (NT-ASGD)
    average_last: int | None = None  # or the weights at the end of so many last epochs
    weight_decay: float = 0.0
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    groups: dict[str, dict] = field(default_factory=dict)
    precision: str = "fp32"
    shard: bool = False  # parameters, gradients and optimiser state over the processes (FSDP)
    evaluation_batch: int = 10  # while training; final figures are at batch 1
    evaluation_length: int = 512
    evaluation_memory: int | None = None  # of a Transformer-XL, longer than in training
    evaluation_clamp: int | None = None

    def __post_init__(self):
        if self.precision not in PRECISIONS:
            raise unknown("precision", self.precision, PRECISIONS)
        if self.keep not in KEPT:
            raise unknown("epoch to keep", self.keep, KEPT)
        for name in _COUNTS:
            _whole(name, getattr(self, name), least=1)
        _whole("epochs", self.epochs, least=0)
        _whole("evaluation_memory", self.evaluation_memory, least=0)
        _whole("evaluation_clamp", self.evaluation_clamp, least=1)
        if self.clip is not None:
            _positive("clip", self.clip)
        starts = [n for n in _AVERAGES if getattr(self, n) is not None]
        if len(starts) > 1:
            raise CourseError(f"weights are averaged by one rule, not by {' and '.join(starts)}")
        for name in ("average_from", "average_last"):
            if getattr(self, name) is not None and self.max_steps is not None:
                raise CourseError(f"{name} counts epochs: end the run by epochs, not by max_steps")
        if self.average_last is not None and self.patience is not None:
            raise CourseError("average_last needs to know the last epoch: leave out patience")
        if self.epochs and (self.average_from or 0) > self.epochs:
            raise CourseError(
                f"averaging would begin in epoch {self.average_from}, but the run ends with epoch "
                f"{self.epochs}; change average_from (optimisation.average_from) as well"
            )
        groups = {prefix: _tupled(group) for prefix, group in self.groups.items()}
        object.__setattr__(self, "groups", groups)  # tuples where JSON has lists
        for group in ({}, *groups.values()):
            self._settings(group)

    def _settings(self, group: dict) -> dict:
        """Every setting of one group: its own, else those of the run. CourseError for a bad one."""
        kind = group.get("optimizer", self.optimizer)
        if kind not in OPTIMIZERS:
            raise unknown("optimizer", kind, OPTIMIZERS)
        known = ("optimizer", "learning_rate", "weight_decay", *OPTIONS[kind])
        for name in group:
            if name not in known:
                raise unknown(f"setting of a group with {kind}", name, known)
        shared = {name: getattr(self, name) for name in known if hasattr(self, name)}
        settings = _tupled(shared | group)
        _positive("learning_rate", settings["learning_rate"])
        decay, betas = settings["weight_decay"], settings.get("betas", ())
        if not _real(decay) or decay < 0:
            raise CourseError(f"weight_decay must be a number of 0 or more, not {decay!r}")
        if "eps" in settings:
            _positive("eps", settings["eps"])
        pair = isinstance(betas, tuple) and len(betas) == 2 and all(map(_real, betas))
        if "betas" in settings and not pair:
            raise CourseError(f"betas must be two numbers, not {betas!r}")
        for beta in betas:
            check_probability("each of betas", beta)
        return settings

    def build(self, parameters: Iterable[tuple[str, Tensor]]) -> Optimizer:
        """The optimiser over named parameters: one, or with groups several `Together`.

        Every param_group keeps its own learning rate as "initial_lr". CourseError for a prefix
        that no name begins with, for Muon over something that is not a matrix, and for what the
        optimiser itself refuses.
        """
        parameters = dict(parameters)
        members = {prefix: {} for prefix in ("", *self.groups)}
        for prefix in self.groups:
            if not any(name.startswith(prefix) for name in parameters):
                modules = {name[: name.rfind(".") + 1] for name in parameters} - {""}
                raise unknown("group of parameters", prefix, modules | parameters.keys())
        for name, parameter in parameters.items():
            members[max(filter(name.startswith, members), key=len)][name] = parameter
        optimizers = [
            _optimizer(members[prefix], **self._settings(self.groups.get(prefix, {})))
            for prefix in members
            if members[prefix]
        ]
        return optimizers[0] if len(optimizers) == 1 else Together(optimizers)

    def factor(self, progress: float, epoch: int, step: int, steps: int) -> float:
        """What multiplies the learning rates at a step whose segment has `steps` tokens a column.

        progress, epoch, step: as the schedules take them.
        """
        scale = steps / self.length if self.random_length else 1.0
        return scale * self.schedule(progress, epoch, step)


def _optimizer(
    named: dict[str, Tensor], optimizer: str, learning_rate: float, **settings
) -> Optimizer:
    for name, parameter in named.items():
        if optimizer == "muon" and parameter.ndim != 2:
            raise CourseError(f"muon is for matrices; {name} has shape {tuple(parameter.shape)}")
    sharded = any(hasattr(parameter, "device_mesh") for parameter in named.values())
    if optimizer == "adamw" or (optimizer == "sgd" and not sharded):  # SGD's cannot be sharded
        settings["fused"] = True
    try:
        built = OPTIMIZERS[optimizer](named.values(), lr=learning_rate, **settings)
    except ValueError as error:
        raise CourseError(f"{optimizer} refuses its settings: {error}") from None
    for group in built.param_groups:
        group["initial_lr"] = learning_rate
    return built


def _real(value) -> bool:
    """A finite number, NumPy's floats among them, and no truth value."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and math.isfinite(value)


def _positive(name: str, value: float) -> None:
    if not _real(value) or value <= 0:
        raise CourseError(f"{name} must be a number above 0, not {value!r}")


def _whole(name: str, value: int | None, least: int) -> None:
    if value is not None and (type(value) is not int or value < least):
        raise CourseError(f"{name} must be a whole number of {least} or more, not {value}")


def _tupled(settings: dict) -> dict:
    """Lists, as JSON returns them, as tuples."""
    return {k: tuple(v) if isinstance(v, list) else v for k, v in settings.items()}
