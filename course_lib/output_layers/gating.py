"""Adaptive gradient gating: rare words are pushed away less (Yu et al. 2022, ACL)."""

import torch
from torch import distributed

from course_lib.output_layers.kernel import check_targets
from course_lib.output_layers.layer import OutputLayer, Softmax


class GradientGating(OutputLayer):
    """Scales the part of the gradient that pushes rare words' rows away from other words' contexts.

    a_v is the mean number of times per step that word v has lately been a target; words with
    a_v < α are rare. The gradient of row v from a position whose target is another word is
    multiplied by

        a_v                  where v is rare and the target is not (g₁ of the paper)
        min(a_v / ā, 1)      where both are rare, ā the mean of a over the rare words (g₂)
        1                    where v is not rare

    Contexts and biases receive the whole gradient; probabilities do not change.
    Naive: `logits = gate * logits + (1 - gate) * logits.detach()` with hidden states and biases
    detached, beside the plain loss with the word matrix detached.

    The paper counts over the last K steps, which takes N·K numbers; here a is an exponential
    average with the same horizon, which takes N. Over all processes; where an update consists of
    several `micro_batches`, each stands for the whole.
    """

    def __init__(self, words, *arguments, alpha: float = 0.02, horizon: int = 1600, **options):
        """`alpha`: α, targets a step (0.02–0.03 in the paper); `horizon`: K, in steps."""
        super().__init__(words, *arguments, **options)
        self.alpha, self.horizon = alpha, horizon
        self.micro_batches = 1  # calls an update is made of
        self.register_buffer("appearances", torch.zeros(words.shape[0]))
        self.register_buffer("steps", torch.zeros(()))

    def forward(self, hidden, target, objective=None, soft=None, reduction="mean"):
        """As `OutputLayer.forward`; in training the targets are counted first."""
        if self.training:
            check_targets(target, len(self.appearances))
            self._count(target)
        return super().forward(hidden, target, objective, soft, reduction)

    @torch.no_grad()
    def _count(self, target):
        counts = torch.zeros_like(self.appearances, dtype=target.dtype)
        seen = target.flatten()  # a bincount would wait for the device to say how many there are
        counts.scatter_add_(0, seen.clamp(min=0), (seen >= 0).to(counts))
        if distributed.is_available() and distributed.is_initialized():
            distributed.all_reduce(counts)  # an update sees the targets of all processes
        counts = self.micro_batches * counts.to(self.appearances)
        self.appearances.lerp_(counts, 1 / (self.micro_batches * self.horizon))
        self.steps += 1

    def gates(self):
        """(rare (N,) of booleans, g₁ (N,), g₂ (N,)) at this step."""
        kept = 1 - 1 / (self.micro_batches * self.horizon)
        a = self.appearances / (1 - kept ** self.steps.double()).to(self.appearances)
        rare = a < self.alpha
        mean = (a * rare).sum() / rare.sum().clamp(min=1)
        among = a / mean.clamp(min=torch.finfo(a.dtype).tiny)  # no rare word has been a target yet
        one = torch.ones_like(a)
        return rare, torch.where(rare, a, one), torch.where(rare, among.clamp(max=1), one)

    def gate(self, gradient, target):
        """gradient (n, N), target (n,) → the gradient as the rows receive it, in place."""
        rare, to_rare, among_rare = self.gates()
        own = gradient.gather(1, target[:, None])
        here = rare[target].nonzero()[:, 0]
        kept = gradient[here] * among_rare.to(gradient)
        gradient.mul_(to_rare.to(gradient))
        gradient[here] = kept
        return gradient.scatter_(1, target[:, None], own)


class GatedSoftmax(GradientGating, Softmax):
    """The softmax with adaptive gradient gating."""
