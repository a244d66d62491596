"""Averaged SGD: the mean of the weights after every step from some point on (Polyak 1992)."""

from contextlib import contextmanager

import torch
from torch import Tensor, nn


class WeightAverage:
    """The mean of a model's parameters, x̄_t = x̄_{t−1} + (x_t − x̄_{t−1}) / t, t from 1.

    torch.optim.ASGD(t0=0, lambd=0) keeps the same beside SGD's own weights, but leaves its first
    step out of the mean. It also takes each step with the learning rate set for the one before,
    which is the former segment's where the rate follows the drawn length.
    """

    def __init__(self, model: nn.Module, steps: int = 0, mean: dict[str, Tensor] | None = None):
        """Begin an average of the model, or go on with the `mean`, by name, of so many steps."""
        self.parameters = dict(model.named_parameters())
        self.steps = steps
        begun = mean or {k: p.detach().clone() for k, p in self.parameters.items()}
        self.mean = {name: begun[name] for name in self.parameters}  # in one order

    @torch.no_grad()
    def update(self) -> None:
        """Take the weights of the step just done."""
        self.steps += 1
        now: list[Tensor] = list(self.parameters.values())
        move = torch._foreach_lerp_  # pyright: ignore[reportPrivateImportUsage] (no public one)
        move(list(self.mean.values()), now, 1 / self.steps)

    @contextmanager
    @torch.no_grad()
    def in_place(self):
        """Give the model its average weights within the `with` block."""
        own = {name: p.clone() for name, p in self.parameters.items()}
        for name, parameter in self.parameters.items():
            parameter.copy_(self.mean[name])
        try:
            yield
        finally:
            for name, parameter in self.parameters.items():
                parameter.copy_(own[name])


def stalled(perplexities: list[float], checks: int) -> bool:
    """Return whether the last value is worse than the best of those more than `checks` before it.

    The non-monotone trigger of AWD-LSTM (Merity et al. 2018, algorithm 1, as its code has it). A
    new best among those `checks` does not count, and equal values never trigger.
    """
    before = perplexities[:-1]
    return len(before) > checks and perplexities[-1] > min(before[:-checks])
