"""The adversarial softmax: each target word is pushed away from its context (wang2019)."""

import torch
from torch import Tensor

from course_lib.errors import unknown
from course_lib.output_layers.layer import OutputLayer, Softmax, Words
from course_lib.output_layers.mixtures import MixtureOfSoftmaxes
from course_lib.output_layers.products import type_of_sums
from course_lib.ranges import NonNegative, checked

GRADIENTS = ("hidden", "none", "full")


class Adversarial(OutputLayer):
    """In training the target's logit is w_yᵀh − ε ‖h‖; evaluation uses the plain probabilities.

    That is the smallest value of (w_y + δ)ᵀh over all perturbations with ‖δ‖ ≤ ε, and
    δ = −ε h/‖h‖ attains it (wang2019, theorem 3.1). The loss is −log AdvSoft of equation 7. The
    radius is ε = α ‖w_y‖, adaptive as in section 5.1, or a constant.

    The paper leaves open how much of −ε ‖h‖ is differentiated:

    * "hidden" holds ε constant, as the released code does. It is Algorithm 1, which fixes δ: h then
      receives the gradient of (w_y + δ)ᵀh, which is that of w_yᵀh − ε ‖h‖ with ε constant.
    * "none" holds ε ‖h‖ constant. One sentence of section 3.1 says so, "without back-propagating
      through the norm term ε‖h‖", and contradicts Algorithm 1. It is here as an ablation.
    * "full" differentiates ‖w_y‖, too: the gradient of the loss itself, also an ablation.

    Put this class left of any other layer. On a mixture each component's logit is perturbed, by the
    norm of the component's own context. A word that is the target twice in a batch is perturbed
    twice, each time against its own context; the released code has one δ for each word of a batch.
    Naive: `logits - epsilon * h.norm(dim=-1, keepdim=True) * F.one_hot(target, N)`.
    """

    @checked
    def __init__(
        self,
        words: Words,
        *arguments,
        alpha: NonNegative = 0.005,
        epsilon: NonNegative | None = None,
        gradient: str = "hidden",
        gated: bool = False,
        random: bool = False,
        **options,
    ):
        """Make the layer that stands right of this class, with perturbed targets.

        alpha: α, the radius as a share of the target's norm;
        epsilon: a constant radius ε in the place of α ‖w_y‖;
        gradient: "hidden", "none" or "full", see above;
        gated: perturb only targets with cos(h, w_y) > 0, as the released code does;
        random: for comparison, a δ of length ε in a direction drawn anew at every position, so that
        δᵀh = ε ‖h‖ cos(δ, h).
        Raises CourseError for an unknown gradient or a radius below 0.
        """
        super().__init__(words, *arguments, **options)
        if gradient not in GRADIENTS:
            raise unknown("gradient of the adversarial softmax", gradient, GRADIENTS)
        self.alpha = alpha
        self.epsilon = epsilon
        self.gradient = gradient
        self.gated = gated
        self.random = random

    def target_offset(self, contexts: Tensor, target: Tensor) -> Tensor:
        """Return −ε ‖h‖ (n, K) of contexts (n, K, d) and their targets (n,)."""
        # ε, and what of ε ‖h‖ is differentiated
        with torch.set_grad_enabled(self.gradient == "full" and torch.is_grad_enabled()):
            rows = self.words(target)
        epsilon = self.alpha * _norm(rows)[:, None] if self.epsilon is None else self.epsilon
        h = contexts.detach() if self.gradient == "none" else contexts
        offset = -epsilon * _norm(h)
        # the two variants
        if self.gated:
            with torch.no_grad():
                aligned = torch.einsum("nkd,nd->nk", contexts.to(rows), rows) > 0
            offset = offset * aligned
        if self.random:  # the cosine of a random direction is the same for every h
            draw = torch.randn_like(contexts, requires_grad=False)
            offset = offset * draw[..., 0] / _norm(draw)
        return offset


def _norm(x: Tensor) -> Tensor:
    """Return ‖x‖ over the last dimension, in the type of sums, with gradient 0 at x = 0."""
    return torch.linalg.vector_norm(x, dim=-1, dtype=type_of_sums(x))


class AdversarialSoftmax(Adversarial, Softmax):
    """The softmax with adversarial targets (wang2019, equation 7)."""


class AdversarialMixtureOfSoftmaxes(Adversarial, MixtureOfSoftmaxes):
    """A mixture whose every component has adversarial targets (wang2019, section 5.1)."""
