"""Schedules: the factor on all learning rates at every step, as frozen data.

A schedule is called with the share of all steps that is done, in [0, 1], with the number of the
epoch and with that of the step over the whole run, both from 1.
"""

import math
from dataclasses import dataclass

from course_lib.ranges import BelowOne, Count, InRange, Positive, Share, Whole, check


@dataclass(frozen=True)
class Constant:
    """The learning rate stays as it is."""

    def __call__(self, progress: float, epoch: int, step: int) -> float:
        return 1.0


@dataclass(frozen=True)
class EpochDecay(InRange):
    """The learning rate is multiplied by `rate` at the beginning of some epochs.

    Epoch `start` is the first whose learning rate is lower, and epoch `last`, if given, the last
    that multiplies: the factor in epoch e is rate^max(0, min(e, last) − start + 1). The released
    code of Zaremba et al. (2014), with whose settings inan2017 trains, has the exponent
    max(e − max_epoch, 0): `start` is its `max_epoch` + 1.
    """

    rate: Positive = 0.9
    start: Count = 6
    last: Count | None = None

    def __call__(self, progress: float, epoch: int, step: int) -> float:
        epoch = epoch if self.last is None else min(epoch, self.last)
        return self.rate ** max(0, epoch - self.start + 1)


@dataclass(frozen=True)
class InverseSquareRoot(InRange):
    """A rise over `warmup` steps, then a fall ∝ step^−½ from 1 (Vaswani et al. 2017, eq. 3)."""

    warmup: Count = 4000

    def __call__(self, progress: float, epoch: int, step: int) -> float:
        return min(step / self.warmup, math.sqrt(self.warmup / step))


@dataclass(frozen=True)
class Cosine(InRange):
    """Half a cosine from 1 to `floor` over the run, times a rise from 0 to 1 in `warmup` steps.

    The last update of a run is at its end and has `floor`; one of 0 leaves the weights as they are.
    """

    warmup: Whole = 0
    floor: Share = 0.0

    def __call__(self, progress: float, epoch: int, step: int) -> float:
        decay = self.floor + (1 - self.floor) * 0.5 * (1 + math.cos(math.pi * progress))
        return decay * min(1.0, step / max(1, self.warmup))


@dataclass(frozen=True)
class OneCycle(InRange):
    """A rise along half a cosine, a level stretch, and a fall to 0 along half a cosine.

    The first of n updates is at 1/n of the run, so it has more than 1/`start`; the last is at the
    end, and its factor of 0 leaves the weights as they are.

    rise: share of the run over which the factor rises from 1/`start` to 1.
    start: how many times lower the learning rate is at the beginning.
    hold: share of the run over which the factor stays at 1.
    """

    rise: BelowOne = 0.3
    start: Positive = 25.0
    hold: BelowOne = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check("rise + hold of OneCycle", self.rise + self.hold, BelowOne)

    def __call__(self, progress: float, epoch: int, step: int) -> float:
        if progress < self.rise:
            up = 0.5 * (1 - math.cos(math.pi * progress / self.rise))
            return 1 / self.start + (1 - 1 / self.start) * up
        fall = max(0.0, progress - self.rise - self.hold) / (1 - self.rise - self.hold)
        return 0.5 * (1 + math.cos(math.pi * fall))


SCHEDULES = {s.__name__: s for s in (Constant, EpochDecay, InverseSquareRoot, Cosine, OneCycle)}
