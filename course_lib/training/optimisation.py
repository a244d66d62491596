"""How a model is trained, as data: optimiser, schedule, batches, clipping, precision."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, get_type_hints

from torch import Tensor
from torch.optim import SGD, AdamW, Muon, Optimizer

from course_lib.errors import CourseError, unknown
from course_lib.protocols import Sharded
from course_lib.ranges import BelowOne, Count, InRange, NonNegative, Positive, Whole, check
from course_lib.training.optimizers import CoupledAdam, Ember, Together
from course_lib.training.schedules import Constant

OPTIMIZERS = {"sgd": SGD, "adamw": AdamW, "muon": Muon}
OPTIMIZERS |= {"coupled-adam": CoupledAdam, "ember": Ember}
# What a group of parameters may set beside its optimizer, learning rate and weight decay.
OPTIONS = {
    "sgd": (),
    "adamw": ("betas", "eps"),
    "coupled-adam": ("betas", "eps"),
    "ember": ("beta2", "eps"),
    "muon": ("momentum", "nesterov", "ns_steps", "adjust_lr_fn"),
}
# of the optimisers' options
RANGES = {"momentum": BelowOne, "nesterov": bool, "ns_steps": Count, "beta2": BelowOne}
AVERAGES = ("average_from", "average_after", "average_last")


@dataclass(frozen=True)
class Optimisation(InRange):
    """Every setting of a training run; CourseError when one is out of range.

    groups: other settings for the parameters whose names begin so, the longest prefix deciding:
        {"words.": {"optimizer": "muon", "learning_rate": 0.02}}. A group may set optimizer,
        learning_rate, weight_decay and the options of its optimiser, by default those below or else
        the optimiser's. The schedule multiplies every group's own learning rate. A tied matrix has
        one name, that of the matrix which reads, and so have two that are tied at first.
    """

    optimizer: str = "sgd"
    learning_rate: Positive = 1.0
    schedule: Any = field(default_factory=Constant)
    epochs: Whole = 40  # 0 takes the weights it starts from as they are
    max_steps: Count | None = None  # the most steps of the run; schedules run over these
    keep: Literal["best", "last"] = "best"  # the epoch of the final weights; best: in validation
    patience: Count | None = None  # ends a run by AWD-LSTM's trigger; one check may, see `stalled`
    batch: Count = 20  # columns, over all processes
    max_tokens: Count = 4096  # of a batch of sentence pairs, over all processes and parts
    accumulate: Count = 1  # parts of a batch whose gradients are added before the step
    length: Count = 35  # steps of truncated backpropagation
    random_length: bool = False  # the rule of AWD-LSTM; the learning rate follows the drawn length
    partial_shuffle: bool = False
    sum_over_steps: bool = False  # the loss, penalties too, times the steps (Zaremba et al. 2014)
    clip: Positive | None = None  # global norm of the gradient
    average_from: Count | None = None  # epoch from whose start weights are averaged (ET-ASGD)
    average_after: Count | None = None  # averaged once validation has `stalled` so long (NT-ASGD)
    average_last: Count | None = None  # averaged: the weights at the end of so many last epochs
    weight_decay: NonNegative = 0.0
    betas: tuple[BelowOne, BelowOne] = (0.9, 0.999)
    eps: Positive = 1e-8
    tied_until: BelowOne | None = None  # share of the run that an untied model's matrices are one
    groups: dict[str, dict] = field(default_factory=dict)
    # Of products; tf32 is fp32 but on a GPU, bf16 is autocast.
    precision: Literal["fp32", "tf32", "bf16"] = "fp32"
    shard: bool = False  # parameters, gradients and optimiser state over the processes (FSDP)
    evaluation_batch: Count = 10  # while training; final figures are at batch 1
    evaluation_length: Count = 512
    evaluation_memory: Whole | None = None  # of a Transformer-XL, longer than in training
    evaluation_clamp: Count | None = None

    def __post_init__(self) -> None:
        # Each setting by itself.
        super().__post_init__()
        if not callable(self.schedule):
            raise CourseError(f"schedule must be one such as Constant(), not {self.schedule!r:.60}")

        # Settings that exclude each other.
        averages = [name for name in AVERAGES if getattr(self, name) is not None]
        if len(averages) > 1:
            raise CourseError(f"weights are averaged by one rule, not by {' and '.join(averages)}")
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

        # The groups, with tuples where JSON has lists.
        for prefix, group in self.groups.items():
            if not isinstance(group, dict):
                raise CourseError(f"the group {prefix!r} must be a table, not {group!r:.60}")
        groups = {prefix: _tupled(group) for prefix, group in self.groups.items()}
        object.__setattr__(self, "groups", groups)
        for prefix in ("", *groups):
            self._settings(prefix)

    def _settings(self, prefix: str) -> dict:
        """Return every setting of one group: its own, else those of the run.

        CourseError for a setting that the group's optimiser does not have or that is out of range.
        """
        group = self.groups.get(prefix, {})
        kind = group.get("optimizer", self.optimizer)
        if kind not in list(OPTIMIZERS):  # a list, since what no table can look up may be given
            raise unknown("optimizer", kind, OPTIMIZERS)
        known = ("optimizer", "learning_rate", "weight_decay", *OPTIONS[kind])
        ranges = get_type_hints(type(self), include_extras=True) | RANGES
        for name, value in group.items():
            if name not in known:
                raise unknown(f"setting of a group with {kind}", name, known)
            check(f"{name} of the group {prefix!r}", value, ranges.get(name, object))
        shared = {name: getattr(self, name) for name in known if hasattr(self, name)}
        return _tupled(shared | group)

    def build(self, parameters: Iterable[tuple[str, Tensor]]) -> Optimizer:
        """Return the optimiser over named parameters: one, or with groups several `Together`.

        Every param_group keeps its own learning rate as "initial_lr". CourseError for a prefix
        that no name begins with, for Muon over no matrix, and for what the optimiser refuses.
        """
        named = dict(parameters)
        called = {name: name for name in named}
        if self.tied_until is not None:
            called |= {f"output_layer.{n}": n for n in named if n.startswith("words.")}
        members = {prefix: {} for prefix in ("", *self.groups)}
        for prefix in self.groups:
            if not any(name.startswith(prefix) for name in called.values()):
                modules = {name[: name.rfind(".") + 1] for name in called.values()} - {""}
                raise unknown("group of parameters", prefix, modules | set(called.values()))
        for name, parameter in named.items():
            prefix = max(filter(called[name].startswith, members), key=len)
            members[prefix][name] = parameter
        used = {prefix: own for prefix, own in members.items() if own}
        optimizers = [_optimizer(own, **self._settings(prefix)) for prefix, own in used.items()]
        return optimizers[0] if len(optimizers) == 1 else Together(optimizers)

    def factor(self, progress: float, epoch: int, step: int, steps: int) -> float:
        """Return what multiplies the learning rates at one step.

        progress, epoch, step: the place in the run, as a schedule takes it.
        steps: tokens a column of the step's segment. With `random_length` the rate follows them,
        so that the shorter last segment of an epoch has a lower rate, too. The released code of
        AWD-LSTM scales the rate by the length that it drew, even where fewer tokens are left.
        """
        scale = steps / self.length if self.random_length else 1.0
        return scale * self.schedule(progress, epoch, step)


def _optimizer(
    named: dict[str, Tensor], optimizer: str, learning_rate: float, **settings
) -> Optimizer:
    """Return one optimiser over parameters by name."""
    for name, parameter in named.items():
        if optimizer in ("ember", "muon") and parameter.ndim != 2:
            shape = tuple(parameter.shape)
            raise CourseError(f"{optimizer} is for matrices; {name} has shape {shape}")
    sharded = any(isinstance(parameter, Sharded) for parameter in named.values())
    if optimizer == "adamw" or (optimizer == "sgd" and not sharded):  # SGD's cannot be sharded
        settings["fused"] = True
    try:
        built = OPTIMIZERS[optimizer](named.values(), lr=learning_rate, **settings)
    except ValueError as error:
        raise CourseError(f"{optimizer} refuses its settings: {error}") from None
    for group in built.param_groups:
        group["initial_lr"] = learning_rate
    return built


def _tupled(settings: dict) -> dict:
    """Return a copy in which lists, as JSON has them, are tuples."""
    return {k: tuple(v) if isinstance(v, list) else v for k, v in settings.items()}
