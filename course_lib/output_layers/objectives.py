"""What is minimised, as formulas on one block of positions.

An objective reads a `Block` and returns one loss a position. Most need only three statistics of
the logits l (b, K, N): log Z, the target's logit and the mean logit. Their gradient with respect
to all logits then follows from their slopes: s_Z · softmax(l) + s_y · onehot(y) + s_m / N, so the
kernel never differentiates through a vocabulary-wide tensor. An objective that asks for `logits`,
`log_prob` or `soft_logits` is differentiated through the block itself: slower, still one block.
"""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

STRIP = 1 << 17  # logits at a time on a CPU: what half a core's own cache holds several times


class Block:
    """b positions, K components, N words, as leaves that objectives are differentiated by."""

    def __init__(self, logits, log_z, target_logit, mean_logit, log_weights, soft_logits, target):
        self._logits, self._soft_logits = logits, soft_logits
        self.target = target  # (b,)
        self.log_z = log_z.requires_grad_()  # (b, K)
        self.target_logit = target_logit.requires_grad_()  # (b, K)
        self._mean_logit = mean_logit  # () -> (b, K)
        if log_weights is None:
            log_weights = torch.zeros_like(log_z)
        self.log_weights = log_weights.detach().requires_grad_()  # (b, K)

    @cached_property
    def mean_logit(self) -> Tensor:
        """(b, K), the mean over the vocabulary; computed only for those who ask."""
        return self._mean_logit().requires_grad_()

    @cached_property
    def logits(self) -> Tensor:
        """(b, K, N)."""
        return self._logits().detach().requires_grad_()

    @cached_property
    def soft_logits(self) -> Tensor:
        """(b, N): E E_y, the input embedding's view of the target."""
        return self._soft_logits.detach().requires_grad_()

    @cached_property
    def log_prob(self) -> Tensor:
        """(b, N): log of the mixture's probabilities."""
        return torch.logsumexp(self.log_weights[..., None] + self.logits.log_softmax(-1), dim=1)

    def used(self, name: str) -> Tensor | None:
        """The leaf `name` if an objective asked for it."""
        return self.__dict__.get(name)


class TableBlock(Block):
    """A block whose whole log P is given and differentiated through, whatever it was made of.

    log_prob (b, N), log_z (b,) a normaliser for those who regularise it, target (b,),
    soft_logits (b, N) or None.
    """

    def __init__(self, log_prob, log_z, target, soft_logits):
        logits = (log_prob + log_z[:, None]).unsqueeze(1)
        self.target, self.log_z = target, log_z[:, None]
        self.target_logit = logits[:, 0].gather(1, target[:, None])
        self.log_weights = torch.zeros_like(self.log_z)
        self.logits, self.mean_logit, self.soft_logits = logits, logits.mean(-1), soft_logits


class Objective:
    """A loss (b,) of a `Block`; objectives add: `CrossEntropy() + ZLoss(1e-4)`."""

    needs_soft_targets = False

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

    def __call__(self, block):
        return sum(term(block) for term in self.terms)


@dataclass(frozen=True)
class CrossEntropy(Objective):
    """−log P(y), with P the mixture Σ_k π_k softmax(l_k): nats a token.

    Naive: `F.cross_entropy(logits, target)`; of a mixture `F.nll_loss(log_prob, target)`.
    """

    weight: float = 1.0

    def __call__(self, block):
        log_prob = block.log_weights + block.target_logit - block.log_z
        return -self.weight * torch.logsumexp(log_prob, dim=-1)


@dataclass(frozen=True)
class LabelSmoothing(Objective):
    """(1 − ε) · (−log P(y)) + ε · mean over words of −log P: the target mixed with the uniform.

    Naive: `F.cross_entropy(logits, target, label_smoothing=epsilon)` (Szegedy et al. 2016).
    """

    epsilon: float = 0.1
    weight: float = 1.0

    def __call__(self, block):
        if block.log_z.shape[1] == 1:
            uniform = (block.log_z - block.mean_logit - block.log_weights)[:, 0]
        else:  # the logarithm of a mixture is not linear in its components' logits
            uniform = -block.log_prob.mean(-1)
        target = CrossEntropy()(block)
        return self.weight * ((1 - self.epsilon) * target + self.epsilon * uniform)


@dataclass(frozen=True)
class ZLoss(Objective):
    """weight · Σ_k (log Z_k)²: holds the softmax's free constant near zero (PaLM, 2022).

    Naive: `weight * logits.logsumexp(-1).square()`.
    """

    weight: float = 1e-4

    def __call__(self, block):
        return self.weight * block.log_z.square().sum(-1)


@dataclass(frozen=True)
class AugmentedLoss(Objective):
    """weight · KL(ỹ ‖ ŷ), ỹ = softmax(E E_y / τ), ŷ = softmax(l / τ) (inan2017, section 3).

    E is the input embedding. `gradient` lets the gradient flow through ỹ into E. For a mixture,
    l is the mixture's log-probability, which gives the same ŷ when there is one component.
    Naive: `F.kl_div((l / τ).log_softmax(-1), (E_y @ E.T / τ).softmax(-1)).sum(-1)`.
    """

    weight: float = 1.0
    temperature: float = 20.0
    gradient: bool = False
    needs_soft_targets = True

    def __call__(self, block):
        soft = block.soft_logits if self.gradient else block.soft_logits.detach()
        logits = block.logits.squeeze(1) if block.log_z.shape[1] == 1 else block.log_prob
        return self.weight * _Softened.apply(logits, soft, self.temperature)


class _Softened(torch.autograd.Function):
    """KL(ỹ ‖ ŷ) of each row, ỹ = softmax(s / τ), ŷ = softmax(l / τ), and its gradients

        τ ∂/∂l = ŷ − ỹ,    τ ∂/∂s = ỹ ∘ (r − Σ ỹ r),    r = (s − l) / τ,

    made in the same walk over strips of rows that stay in the cache: autograd would write about
    fifteen tensors as large as the logits, this writes one for each gradient that is wanted.
    """

    @staticmethod
    def forward(ctx, logits, soft, temperature):
        loss = torch.empty(len(logits), dtype=logits.dtype, device=logits.device)
        wanted = [x.requires_grad for x in (logits, soft)]
        grads = [torch.empty_like(logits) if w else None for w in wanted]
        rows = max(1, STRIP // logits.shape[1]) if logits.device.type == "cpu" else len(logits)
        for start in range(0, len(logits), rows):
            here = slice(start, start + rows)
            s, l = soft[here] / temperature, logits[here] / temperature  # noqa: E741
            given, predicted = s.softmax(-1), l.softmax(-1)
            any_word = torch.zeros(len(l), dtype=torch.long, device=l.device)
            log_z = log_normaliser(l, predicted, any_word) - log_normaliser(s, given, any_word)
            ratio = s.sub_(l)
            mean = torch.linalg.vecdot(given, ratio)
            loss[here] = mean + log_z
            if wanted[1]:
                torch.mul(ratio.sub_(mean[:, None]), given, out=grads[1][here])
            if wanted[0]:
                torch.sub(predicted, given, out=grads[0][here])
        ctx.temperature = temperature
        ctx.save_for_backward(*grads)  # which a checkpoint drops and makes again
        return loss

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        slope = (grad / ctx.temperature)[:, None]  # in place: one backward pass only
        return *(None if g is None else g.mul_(slope) for g in ctx.saved_tensors), None


def log_normaliser(logits: Tensor, p: Tensor, word: Tensor) -> Tensor:
    """log Z (m,) of logits (m, N) and their softmax p: l − log p at any word whose probability has
    not lost its digits. That is `word` (m,), which takes no walk through the rows, where looking
    needs no wait; else the likeliest one. float32 or wider."""
    real = torch.promote_types(p.dtype, torch.float32)
    if not p.is_cuda:
        there = p.gather(1, word[:, None])[:, 0]
        if bool((there >= torch.finfo(p.dtype).tiny).all()):
            return logits.gather(1, word[:, None])[:, 0] - there.to(real).log()
    return logits.amax(-1).to(real) - p.amax(-1).to(real).log()
