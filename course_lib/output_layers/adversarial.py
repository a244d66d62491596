"""The adversarial softmax: each target word is pushed away from its context (wang2019)."""

import torch
from torch import Tensor

from course_lib.errors import unknown
from course_lib.output_layers.layer import OutputLayer, Softmax
from course_lib.output_layers.mixtures import MixtureOfSoftmaxes

GRADIENTS = ("none", "hidden", "full")


class Adversarial(OutputLayer):
    """In training, the target's logit is w_yᵀh − ε ‖h‖: its worst case over ‖δ‖ ≤ ε of
    (w_y + δ)ᵀh (wang2019, theorem 3.1). Evaluation uses the plain probabilities.

    Naive: `logits - epsilon * h.norm(dim=-1, keepdim=True) * F.one_hot(target, N)`.

    Put it left of any other layer. On a mixture each component's logit is perturbed, by the norm
    of its own context. The noise is per position: a word that is the target twice in a batch is
    perturbed twice, each time against its own context.
    """

    def __init__(
        self,
        words,
        *arguments,
        alpha: float = 0.005,
        epsilon: float | None = None,
        gradient: str = "none",
        gated: bool = False,
        random: bool = False,
        **options,
    ):
        """ε = α ‖w_y‖, adaptive (equation 10), or the constant `epsilon` if one is given.

        gradient: how much of −ε ‖h‖ is differentiated. "none" is the paper's text; "hidden",
        with ε held constant, its released code, where δ is constant but (w + δ)ᵀh is not; "full"
        goes through ‖w_y‖, too. gated: only targets with cos(h, w_y) > 0 are perturbed, as in
        that code. random: for comparison, a δ as long as the worst one, ‖δ‖ = ε, in a direction
        drawn anew at every position: δᵀh = ε ‖h‖ cos(δ, h). CourseError for an unknown `gradient`.
        """
        super().__init__(words, *arguments, **options)
        if gradient not in GRADIENTS:
            raise unknown("gradient of the adversarial softmax", gradient, GRADIENTS)
        self.alpha, self.epsilon = alpha, epsilon
        self.gradient, self.gated, self.random = gradient, gated, random

    def target_offset(self, contexts, target):
        """contexts (n, K, d), target (n,) → −ε ‖h‖ (n, K)."""
        rows = None
        if self.epsilon is None or self.gated:
            with torch.set_grad_enabled(self.gradient == "full" and torch.is_grad_enabled()):
                rows = self.words(target)
        epsilon = self.epsilon
        if epsilon is None:
            epsilon = self.alpha * _norm(rows)[:, None]
        offset = -epsilon * _norm(contexts if self.gradient != "none" else contexts.detach())
        if self.gated:
            with torch.no_grad():
                aligned = torch.einsum("nkd,nd->nk", contexts.to(rows), rows) > 0
            offset = offset * aligned
        if self.random:  # the cosine of a random direction is the same for every h
            draw = torch.randn_like(contexts, requires_grad=False)
            offset = offset * draw[..., 0] / _norm(draw)
        return offset


def _norm(x: Tensor) -> Tensor:
    """‖x‖ over the last dimension, in float32 or wider, with gradient 0 at x = 0."""
    wide = torch.promote_types(x.dtype, torch.float32)
    return torch.linalg.vector_norm(x, dim=-1, dtype=wide)


class AdversarialSoftmax(Adversarial, Softmax):
    """The softmax with adversarial targets (wang2019, equations 7–10)."""


class AdversarialMixtureOfSoftmaxes(Adversarial, MixtureOfSoftmaxes):
    """A mixture whose every component has adversarial targets (wang2019, section 4.1)."""
