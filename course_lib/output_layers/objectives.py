"""The objectives that are minimised are formulas on one block of positions.

An objective reads a `Block` and returns one loss a position. Most need only three statistics of
the logits l (b, K, N): log Z, the target's logit and the mean logit. Their gradient with respect
to all logits then follows from their slopes: s_Z · softmax(l) + s_y · onehot(y) + s_m / N, so the
kernel never differentiates through a vocabulary-wide tensor. An objective that asks for `logits`,
`log_prob` or `soft_logits` is differentiated through the block itself: slower, still one block.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from course_lib.first_order import first_order
from course_lib.machine import accelerated
from course_lib.output_layers.products import type_of_sums
from course_lib.ranges import InRange, NonNegative, Positive, Share

STRIP = 1 << 17  # logits at a time on a CPU: a core's own cache holds several such strips


class Block:
    """The statistics of b positions, K components and N words; a loss is differentiated by them.

    `log_z`, `target_logit`, `log_weights` (b, K) and `target` (b,) and given soft targets are
    there at once; the rest, which costs a walk through the vocabulary, is made for those who ask.
    """

    def __init__(self, logits, log_z, target_logit, mean_logit, log_weights, soft_logits, target):
        """Take the statistics; those that cost a walk through the vocabulary are functions.

        logits, mean_logit: functions that give (b, K, N) and (b, K);
        log_weights: log π_k, None for one component;
        soft_logits: (b, N), None where the caller gives no soft targets.
        """
        self._logits = logits
        self._mean_logit = mean_logit
        self._soft_logits = soft_logits
        self.target = target
        self.log_z = log_z.requires_grad_()
        self.target_logit = target_logit.requires_grad_()
        if log_weights is None:
            log_weights = torch.zeros_like(log_z)
        self.log_weights = log_weights.detach().requires_grad_()

    @cached_property
    def mean_logit(self) -> Tensor:
        """The mean over the vocabulary (b, K)."""
        return self._mean_logit().requires_grad_()

    @cached_property
    def logits(self) -> Tensor:
        """Return the logits (b, K, N)."""
        return self._logits().detach().requires_grad_()

    @cached_property
    def soft_logits(self) -> Tensor:
        """Return the soft targets' logits E E_y (b, N), the view that E has of the target."""
        assert self._soft_logits is not None
        return self._soft_logits.detach().requires_grad_()

    @cached_property
    def log_prob(self) -> Tensor:
        """Return the logarithm of the mixture's probabilities (b, N)."""
        return torch.logsumexp(self.log_weights[..., None] + self.logits.log_softmax(-1), dim=1)


class TableBlock(Block):
    """A block whose whole log P is given and differentiated through, whatever it was made of."""

    def __init__(self, log_prob, log_z, target, soft_logits):
        """Take a table of log-probabilities.

        log_prob: (b, N); log_z: (b,), which `ZLoss` reads; target: (b,);
        soft_logits: (b, N) or None.
        """
        # The losses take l_y − log Z for log P(y), so these logits are log P + log Z.
        self.logits = (log_prob + log_z[:, None]).unsqueeze(1)
        self.target = target
        self.log_z = log_z[:, None]
        self.target_logit = self.logits[:, 0].gather(1, target[:, None])
        self.log_weights = torch.zeros_like(self.log_z)
        self.mean_logit = self.logits.mean(-1)
        self.soft_logits = soft_logits


class Objective(InRange):
    """A loss (b,) of a `Block`; objectives add: `CrossEntropy() + ZLoss(1e-4)`.

    A variant is a frozen dataclass. CourseError for a field out of its declared range.
    """

    needs_soft_targets = False
    gradient = True  # whether the soft targets that it needs receive one
    needs_logits = True  # False: log Z, the target's logit and the log-weights are all it reads

    def __call__(self, block: Block) -> Tensor:
        raise TypeError(f"{type(self).__name__} does not say how it is computed")

    def __add__(self, other: "Objective") -> "Objective":
        return Sum((*getattr(self, "terms", (self,)), *getattr(other, "terms", (other,))))


@dataclass(frozen=True)
class Sum(Objective):
    """The sum of several objectives."""

    terms: tuple[Objective, ...]

    @property
    def needs_soft_targets(self) -> bool:
        return any(term.needs_soft_targets for term in self.terms)

    @property
    def gradient(self) -> bool:
        return any(term.gradient for term in self.terms if term.needs_soft_targets)

    @property
    def needs_logits(self) -> bool:
        return any(term.needs_logits for term in self.terms)

    def __call__(self, block: Block) -> Tensor:
        first, *others = self.terms
        return sum((term(block) for term in others), first(block))


@dataclass(frozen=True)
class CrossEntropy(Objective):
    """−weight · log P(y), with P the mixture Σ_k π_k softmax(l_k), in nats a token.

    Naive: `F.cross_entropy(logits, target)`; of a mixture `F.nll_loss(log_prob, target)`.
    """

    weight: NonNegative = 1.0
    needs_logits = False

    def __call__(self, block: Block) -> Tensor:
        log_prob = block.log_weights + block.target_logit - block.log_z
        return -self.weight * torch.logsumexp(log_prob, dim=-1)


@dataclass(frozen=True)
class LabelSmoothing(Objective):
    """weight · ((1 − ε) (−log P(y)) + ε · mean over words of −log P).

    That is the cross-entropy with the target mixed with the uniform distribution.
    Naive: `F.cross_entropy(logits, target, label_smoothing=epsilon)`.
    Source: Szegedy et al. 2016.
    """

    epsilon: Share = 0.1
    weight: NonNegative = 1.0

    def __call__(self, block: Block) -> Tensor:
        if block.log_z.shape[1] == 1:
            uniform = (block.log_z - block.mean_logit - block.log_weights)[:, 0]
        else:  # the logarithm of a mixture is not linear in its components' logits
            uniform = -block.log_prob.mean(-1)
        target = CrossEntropy()(block)
        return self.weight * ((1 - self.epsilon) * target + self.epsilon * uniform)


@dataclass(frozen=True)
class ZLoss(Objective):
    """weight · Σ_k (log Z_k)², which holds the softmax's free constant near zero.

    Naive: `weight * logits.logsumexp(-1).square()`.
    Source: PaLM (2022).
    """

    weight: NonNegative = 1e-4
    needs_logits = False

    def __call__(self, block: Block) -> Tensor:
        return self.weight * block.log_z.square().sum(-1)


@dataclass(frozen=True)
class AugmentedLoss(Objective):
    """weight · KL(ỹ ‖ ŷ), with ỹ = softmax(E E_y / τ) and ŷ = softmax(l / τ).

    E is the input embedding. For a mixture, l is the mixture's log-probability, which gives the
    same ŷ when there is one component.
    Naive: `weight * F.kl_div((l / τ).log_softmax(-1), ỹ, reduction="none").sum(-1)`.
    Source: inan2017, section 3.
    """

    weight: NonNegative = 1.0
    temperature: Positive = 20.0  # τ
    gradient: bool = False  # whether the gradient flows through ỹ into E
    needs_soft_targets = True

    def __call__(self, block: Block) -> Tensor:
        soft = block.soft_logits if self.gradient else block.soft_logits.detach()
        logits = block.logits.squeeze(1) if block.log_z.shape[1] == 1 else block.log_prob
        return self.weight * _Softened.apply(logits, soft, self.temperature)


class _Softened(torch.autograd.Function):
    """KL(ỹ ‖ ŷ) of each row, with ỹ = softmax(s / τ) and ŷ = softmax(l / τ), and its gradients.

        τ ∂/∂l = ŷ − ỹ,    τ ∂/∂s = ỹ ∘ (r − Σ ỹ r),    r = (s − l) / τ,

    They are made in the same walk over strips of rows that stay in the cache. Autograd would write
    about fifteen tensors as large as the logits; this writes one for each gradient that is wanted.
    """

    @staticmethod
    def forward(ctx, logits, soft, temperature):
        loss = torch.empty(len(logits), dtype=logits.dtype, device=logits.device)
        grads = [torch.empty_like(logits) if w else None for w in ctx.needs_input_grad[:2]]
        rows = max(1, STRIP // logits.shape[1]) if logits.device.type == "cpu" else len(logits)
        for start in range(0, len(logits), rows):
            strip = slice(start, start + rows)
            s = soft[strip] / temperature
            l = logits[strip] / temperature  # noqa: E741 — the papers' letter
            given = s.softmax(-1)
            predicted = l.softmax(-1)
            # KL = Σ ỹ r + log Z(l) − log Z(s)
            any_word = torch.zeros(len(l), dtype=torch.long, device=l.device)
            log_z = log_normaliser(l[:, 0], predicted, any_word, l.detach)
            log_z = log_z - log_normaliser(s[:, 0], given, any_word, s.detach)
            ratio = s.sub_(l)
            mean = torch.linalg.vecdot(given, ratio)
            loss[strip] = mean + log_z
            if grads[1] is not None:
                torch.mul(ratio.sub_(mean[:, None]), given, out=grads[1][strip])
            if grads[0] is not None:
                torch.sub(predicted, given, out=grads[0][strip])
        ctx.temperature = temperature
        ctx.save_for_backward(*grads)  # a checkpoint drops what is saved here
        return loss

    @staticmethod
    @first_order
    def backward(ctx, grad):
        slope = (grad / ctx.temperature)[:, None]  # in place: one backward pass only
        return *(None if g is None else g.mul_(slope) for g in ctx.saved_tensors), None


def log_normaliser(logit: Tensor, p: Tensor, word: Tensor, logits: Callable[[], Tensor]) -> Tensor:
    """Return log Z (m,), in float32 or wider; from a p in bfloat16 to within 0.004.

    It is l − log p at any word whose p has not underflowed. On a CPU `word` is tried first, which
    saves a walk through the rows; after an underflow, and on a GPU, it is the likeliest word.

    logit: (m,), that of `word` (m,); p: (m, N), the softmax; logits: gives (m, N) where needed.
    """
    real = type_of_sums(p)
    if not accelerated(p):
        p_word = p.gather(1, word[:, None])[:, 0]
        if bool((p_word >= torch.finfo(p.dtype).tiny).all()):
            return logit - p_word.to(real).log()
    return logits().amax(-1).to(real) - p.amax(-1).to(real).log()
