"""Adaptive gradient gating: rare words are pushed away less (Yu et al. 2022, ACL)."""

import torch
from torch import Tensor, distributed

from course_lib.machine import accelerated
from course_lib.output_layers.kernel import check_targets
from course_lib.output_layers.layer import OutputLayer, Softmax, Words
from course_lib.ranges import Count, NonNegative, checked


class GradientGating(OutputLayer):
    """Smaller gradients where rare words' rows are pushed away from other words' contexts.

    a_v is the mean number of times per step that word v has lately been a target. Words with
    a_v < α are rare. The gradient of row v from a position whose target is another word is
    multiplied by

        a_v                  where v is rare and the target is not (g₁ of the paper)
        min(a_v / ā, 1)      where both are rare, ā the mean of a over the rare words (g₂)
        1                    where v is not rare

    Contexts and biases receive the whole gradient, and so do σ and V of `SpectralWords`, whose U
    alone is gated; probabilities do not change. The gates of a loss without reduction, and of a
    second backward pass, are those that hold when the backward pass runs.
    Naive: `logits = gate * logits + (1 - gate) * logits.detach()` with hidden states and biases
    detached, beside the plain loss with the word matrix detached.

    The paper counts over the last K steps, which takes N·K numbers. Here a is an exponential
    average with the same horizon, which takes N. The targets of all processes are counted; where
    `micro_batches` calls make an update, each stands for the whole. Source: Yu et al. 2022.
    """

    @checked
    def __init__(
        self, words: Words, *arguments, alpha: NonNegative = 0.02, horizon: Count = 1600, **options
    ):
        """Make the layer that stands right of this class, with gated gradients.

        alpha: α, in targets a step, 0.02 to 0.03 in the paper; horizon: K, in steps.
        Raises CourseError for a constant out of its range.
        """
        super().__init__(words, *arguments, **options)
        self.alpha = alpha
        self.horizon = horizon
        self.micro_batches = 1  # calls an update is made of
        self.appearances: Tensor
        self.steps: Tensor
        self.register_buffer("appearances", torch.zeros(words.shape[0]))
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))

    def forward(self, hidden, target, objective=None, soft=None, reduction="mean"):
        """Return what `OutputLayer.forward` does; in training the targets are counted first."""
        if self.training:
            check_targets(target, hidden.shape[:-1], len(self.appearances))
            self.count(target)
        return super().forward(hidden, target, objective, soft, reduction)

    def _apply(self, fn, recurse=True):
        """Move or convert the layer; its counters stay in float32, as in bf16 they stand still."""
        super()._apply(fn, recurse)
        self.appearances = self.appearances.float()
        return self

    @torch.no_grad()
    def count(self, target: Tensor) -> None:
        """Take the targets of one call into the average; negative ones do not count."""
        counts = torch.zeros_like(self.appearances, dtype=target.dtype)
        seen = target.flatten()  # a bincount would wait for the device to say how many there are
        counts.scatter_add_(0, seen.clamp(min=0), (seen >= 0).to(counts))
        if distributed.is_available() and distributed.is_initialized():
            distributed.all_reduce(counts)  # an update sees the targets of all processes
        counts = self.micro_batches * counts.to(self.appearances)
        self.appearances.lerp_(counts, 1 / (self.micro_batches * self.horizon))
        self.steps += 1

    def gates(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return which words are rare (N,), g₁ (N,) and g₂ (N,) at this step."""
        # the average, without the zeros that it began with
        memory = 1 - 1 / (self.micro_batches * self.horizon)
        a = self.appearances / (1 - memory ** self.steps.double()).to(self.appearances)
        # the rare words and their gates
        rare = a < self.alpha
        mean = (a * rare).sum() / rare.sum().clamp(min=1)
        among = a / mean.clamp(min=torch.finfo(a.dtype).tiny)  # no rare word has been a target yet
        ones = torch.ones_like(a)
        return rare, torch.where(rare, a, ones), torch.where(rare, among.clamp(max=1), ones)

    def gate(self, gradient: Tensor, target: Tensor) -> Tensor:
        """Return the gradient (n, N) as the rows receive it, written over it; target: (n,)."""
        rare, to_rare, among_rare = self.gates()
        at_target = gradient.gather(1, target[:, None])
        if accelerated(gradient):  # which rows have rare targets is not known without waiting
            gates = torch.where(rare[target][:, None], among_rare, to_rare)
            return gradient.mul_(gates).scatter_(1, target[:, None], at_target)
        rare_targets = rare[target].nonzero()[:, 0]
        from_rare = gradient[rare_targets] * among_rare.to(gradient)
        gradient.mul_(to_rare.to(gradient))
        gradient[rare_targets] = from_rare
        return gradient.scatter_(1, target[:, None], at_target)


class GatedSoftmax(GradientGating, Softmax):  # pyright: ignore[reportIncompatibleVariableOverride]
    """The softmax with adaptive gradient gating."""
