"""Mixtures: several contexts for each position (Yang et al. 2018; parthiban2021, section 2)."""

import torch
from torch import Tensor, nn

from course_lib.dropout import locked_dropout
from course_lib.output_layers.kernel import IGNORE
from course_lib.output_layers.layer import OutputLayer

# Numbers in the contexts of one segment, 8 MB in float32. K contexts for each position are K
# times what the encoder holds; all at once they would outgrow the blocks of logits.
SEGMENT = {"cpu": 1 << 21, "cuda": 1 << 27}


class MixtureOfSoftmaxes(OutputLayer):
    """P(y | h) = Σ_k π_k softmax(W h_k + b)_y, π = softmax(Q h), h_k = tanh(U_k h + c_k).

    Its log-probabilities are not bound to rank d + 1. Everything stays in logarithms:

        log P = logsumexp_k(log π_k + log_softmax(W h_k + b))

    where the released codes take log(Σ …), one of them with 1e-8 added, which changes the
    perplexity. K = `components`.
    Naive: `torch.log((π[..., None] * (h_k @ W.T + b).softmax(-1)).sum(-2))`.
    """

    def __init__(
        self,
        words,
        hidden_size: int | None = None,
        bias: bool = True,
        components: int = 15,
        dropout: float = 0.0,
    ):
        """`dropout`: share of the contexts' entries dropped, one mask a sequence ("latent")."""
        super().__init__(words, hidden_size, bias)
        self.components, self.dropout = components, dropout
        self.prior = nn.Linear(self.hidden_size, components, bias=False)
        self.latent = nn.Linear(self.hidden_size, components * words.shape[1])

    def contexts(self, hidden):
        """hidden (T, …, h) → h_k (T, …, K, d), log π (T, …, K)."""
        latent = self.latent(hidden).tanh_()
        if self.training:
            latent = locked_dropout(latent, self.dropout)
        log_weights = self.prior(hidden).log_softmax(-1, torch.promote_types(hidden.dtype, _WIDE))
        return latent.unflatten(-1, (self.components, -1)), log_weights

    def forward(self, hidden, target, objective=None, soft=None, reduction="mean"):
        """As `OutputLayer.forward`, a few columns of the batch at a time where there are many."""
        numbers = target.numel() * self.latent.out_features
        limit = SEGMENT.get(hidden.device.type, SEGMENT["cpu"])
        if numbers <= limit or target.dim() < 2 or soft is not None or reduction == "none":
            return super().forward(hidden, target, objective, soft, reduction)
        width = max(1, target.shape[1] * limit // numbers)

        def segment(h, y):
            return OutputLayer.forward(self, h, y, objective, None, "sum")

        if torch.is_grad_enabled():
            loss, nll = _Segments.apply(segment, width, hidden, target, *self.parameters())
        else:  # a custom function would not know
            pieces = zip(hidden.split(width, 1), target.split(width, 1), strict=True)
            loss, nll = map(sum, zip(*(segment(h, y) for h, y in pieces), strict=True))
        counted = (target != IGNORE).sum().clamp(min=1) if reduction == "mean" else 1
        return loss / counted, nll / counted


class _Segments(torch.autograd.Function):
    """Σ segment(hidden[:, columns], target[:, columns]), with the gradients made on the way."""

    @staticmethod
    def forward(ctx, segment, width, hidden, target, *parameters):
        wanted = [p for p in (hidden, *parameters) if p.requires_grad]
        loss, nll, to_hidden = 0, 0, []
        sums = [None] * (len(wanted) - hidden.requires_grad)
        for h, y in zip(hidden.split(width, 1), target.split(width, 1), strict=True):
            with torch.set_grad_enabled(bool(wanted)):
                h = h.detach().requires_grad_(hidden.requires_grad)
                part, part_nll = segment(h, y)
            loss, nll = loss + part.detach(), nll + part_nll
            if not wanted:
                continue
            inputs = [h if p is hidden else p for p in wanted]
            found = torch.autograd.grad(part, inputs, allow_unused=True, materialize_grads=True)
            if hidden.requires_grad:
                to_hidden.append(found[0])
                found = found[1:]
            sums = [f if s is None else s.add_(f) for s, f in zip(sums, found, strict=True)]
        rest = iter([torch.cat(to_hidden, 1), *sums] if to_hidden else sums)
        ctx.grads = [next(rest) if p.requires_grad else None for p in (hidden, *parameters)]
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad_loss, _):
        grads, ctx.grads = ctx.grads, None
        if grads is None:
            raise RuntimeError("a mixture's loss over many positions has one backward pass only")
        to_hidden, *rest = [g if g is None else g.mul_(grad_loss) for g in grads]
        return None, None, to_hidden, None, *rest


_WIDE = torch.float32


class MixtureOfContexts(MixtureOfSoftmaxes):
    """P(y | h) = softmax(W Σ_k π_k h_k + b)_y: a mixture's parameters with a softmax's rank.

    Naive: `((π[..., None] * h_k).sum(-2) @ W.T + b).log_softmax(-1)` (parthiban2021, section 2).
    """

    def contexts(self, hidden):
        """hidden (T, …, h) → Σ_k π_k h_k (T, …, 1, d), None."""
        latent, log_weights = super().contexts(hidden)
        return _mix(log_weights.exp(), latent), None


def _mix(weights: Tensor, latent: Tensor) -> Tensor:
    """weights (…, K), latent (…, K, d) → (…, 1, d)."""
    return weights.to(latent.dtype).unsqueeze(-2) @ latent
