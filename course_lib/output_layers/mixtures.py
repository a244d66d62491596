"""Mixtures: several contexts for each position (Yang et al. 2018; parthiban2021)."""

import torch
from torch import Tensor, nn

from course_lib.dropout import locked_dropout
from course_lib.first_order import first_order
from course_lib.machine import accelerated
from course_lib.output_layers.layer import OutputLayer, Words
from course_lib.output_layers.products import type_of_sums
from course_lib.ranges import Count, Dropout, checked
from course_lib.targets import IGNORE

# Bytes of the contexts of one segment. K contexts for each position are K times what the encoder
# holds; all at once they would outgrow the blocks of logits.
SEGMENT = {"cpu": 1 << 23, "cuda": 1 << 29}


class MixtureOfSoftmaxes(OutputLayer):
    """P(y | h) = Σ_k π_k softmax(W h_k + b)_y, π = softmax(Q h), h_k = tanh(U_k h + c_k).

    The matrix of log P may have a rank above d + 2, a softmax's bound. All stays in logarithms:

        log P = logsumexp_k(log π_k + log_softmax(W h_k + b))

    The released codes take the logarithm of the sum, one of them of the sum plus 1e-8.
    Naive: `torch.log((π[..., None] * (h_k @ W.T + b).softmax(-1)).sum(-2))`.
    Source: Yang et al. 2018; MoS in parthiban2021.
    """

    maps_hidden = True

    @checked
    def __init__(
        self, words: Words, *arguments, components: Count = 15, dropout: Dropout = 0.0, **options
    ):
        """Make the mixture, of hidden states of any `hidden_size`.

        components: K;
        dropout: share of the contexts' entries dropped ("latent"), alike along the first axis.
        Raises CourseError for a constant out of its range, ValueError where a class that changes
        `forward` stands right of the mixture, which takes a large batch in segments.
        """
        kinds = type(self).__mro__
        right = kinds[kinds.index(MixtureOfSoftmaxes) + 1 : kinds.index(OutputLayer)]
        if changing := [kind.__name__ for kind in right if "forward" in vars(kind)]:
            raise ValueError(f"{changing[0]} must stand left of the mixture, or it is left out")
        super().__init__(words, *arguments, **options)
        self.components = components
        self.dropout = dropout
        self.prior = nn.Linear(self.hidden_size, components, bias=False)
        self.latent = nn.Linear(self.hidden_size, components * words.shape[1])

    def contexts(self, hidden: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return h_k (T, …, K, d) and log π (T, …, K) of hidden states (T, …, h)."""
        latent = self.latent(hidden).tanh_()
        if self.training:
            latent = locked_dropout(latent, self.dropout)
        log_weights = self.prior(hidden).log_softmax(-1, type_of_sums(hidden))
        return latent.unflatten(-1, (self.components, -1)), log_weights

    def forward(self, hidden, target, objective=None, soft=None, reduction="mean"):
        """Return what `OutputLayer.forward` does, a few columns of a large batch at a time."""
        size = target.numel() * self.latent.out_features * hidden.element_size()
        limit = SEGMENT["cuda" if accelerated(hidden) else "cpu"]
        if size <= limit or target.ndim < 2 or soft is not None or reduction not in ("mean", "sum"):
            return super().forward(hidden, target, objective, soft, reduction)
        width = max(1, target.shape[1] * limit // size)

        def segment(h, y):
            return OutputLayer.forward(self, h, y, objective, None, "sum")

        if torch.is_grad_enabled():
            loss, nll = _Segments.apply(segment, width, hidden, target, *self.parameters())
        else:  # a function of autograd could not see that no gradients are wanted
            pieces = zip(hidden.split(width, 1), target.split(width, 1), strict=True)
            loss, nll = map(sum, zip(*(segment(h, y) for h, y in pieces), strict=True))
        counted = (target != IGNORE).sum().clamp(min=1) if reduction == "mean" else 1
        return loss / counted, nll / counted


class _Segments(torch.autograd.Function):
    """Σ segment(hidden[:, columns], target[:, columns]), with the gradients made on the way."""

    @staticmethod
    def forward(ctx, segment, width, hidden, target, *parameters):
        wanted = [p for p in (hidden, *parameters) if p.requires_grad]
        loss = nll = 0
        to_hidden = []  # a segment each
        sums = [None] * (len(wanted) - hidden.requires_grad)  # over segments, of each parameter
        for h, y in zip(hidden.split(width, 1), target.split(width, 1), strict=True):
            # the segment's loss
            with torch.set_grad_enabled(bool(wanted)):
                h = h.detach().requires_grad_(hidden.requires_grad)
                part, part_nll = segment(h, y)
            loss = loss + part.detach()
            nll = nll + part_nll
            if not wanted:
                continue
            # its gradients
            inputs = [h if p is hidden else p for p in wanted]
            grads = torch.autograd.grad(part, inputs, allow_unused=True, materialize_grads=True)
            if hidden.requires_grad:
                to_hidden.append(grads[0])
                grads = grads[1:]
            sums = [g if s is None else s.add_(g) for s, g in zip(sums, grads, strict=True)]
        rest = iter([torch.cat(to_hidden, 1), *sums] if to_hidden else sums)
        ctx.grads = [next(rest) if p.requires_grad else None for p in (hidden, *parameters)]
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    @first_order
    def backward(ctx, grad_loss, _):
        grads, ctx.grads = ctx.grads, None
        if grads is None:
            raise RuntimeError("a mixture's loss over many positions is differentiated only once")
        to_hidden, *rest = [g if g is None else g.mul_(grad_loss) for g in grads]
        return None, None, to_hidden, None, *rest


class MixtureOfContexts(MixtureOfSoftmaxes):
    """P(y | h) = softmax(W Σ_k π_k h_k + b)_y: a mixture's parameters with a softmax's rank.

    Naive: `((π[..., None] * h_k).sum(-2) @ W.T + b).log_softmax(-1)`.
    Source: MoC in parthiban2021.
    """

    def contexts(self, hidden: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return Σ_k π_k h_k (T, …, 1, d), and None, of hidden states (T, …, h)."""
        latent, log_weights = super().contexts(hidden)
        assert log_weights is not None
        weights = log_weights.exp().to(latent.dtype)
        return weights.unsqueeze(-2) @ latent, None
