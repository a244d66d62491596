"""Monotone functions of the logits between word matrix and softmax (parthiban2021, section 3)."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from course_lib.output_layers.layer import OutputLayer
from course_lib.output_layers.scratch import block_memory


def _like(name, x, dtype=None):
    return block_memory(name, x.shape, dtype or x.dtype, x.device)


class _Bend(torch.autograd.Function):
    """x − (k − 1) softplus(c − x), which keeps only its slope, made in the same pass."""

    @staticmethod
    def forward(ctx, x, c, k):
        distance = torch.sub(c, x, out=_like("distance", x))
        if ctx.needs_input_grad[0]:
            slope = torch.sigmoid(distance, out=_like("slope", x))
            ctx.save_for_backward(slope.mul_(k - 1).add_(1))
        # linear from 40 on, where exp(−40) vanishes in float64, too; F.softplus' 20 is too soon
        bend = torch.ops.aten.softplus.out(distance, 1, 40, out=_like("bend", x))
        return torch.add(x, bend, alpha=1 - k, out=bend)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gradient):
        (slope,) = ctx.saved_tensors
        return torch.mul(gradient, slope, out=_like("distance", gradient)), None, None


class GeneralizedSigSoftmax(OutputLayer):
    """softmax(PL(l)), PL(x) = k (x − c) + c − (k − 1) softplus(x − c): slope k far below c, 1 far
    above, so that k = 1 is the softmax (parthiban2021, equation 8).

    Computed as x − (k − 1) softplus(c − x), which neither overflows nor cancels.
    Naive: `(logits - (k - 1) * F.softplus(c - logits)).log_softmax(-1)`.
    """

    def __init__(
        self,
        words,
        hidden_size: int | None = None,
        bias: bool = True,
        c: float = -1.5,
        k: float = 2.5,
    ):
        """`c`, `k`: the bend's place and the slope below it; the paper's for Penn Treebank."""
        super().__init__(words, hidden_size, bias)
        self.c, self.k = c, k

    def transform(self, logits):
        """PL, elementwise."""
        return _Bend.apply(logits, self.c, self.k)


class SigSoftmax(GeneralizedSigSoftmax):
    """∝ exp(l) σ(l) (Kanai et al. 2018): c = 0, k = 2."""

    def __init__(self, words, hidden_size: int | None = None, bias: bool = True):
        super().__init__(words, hidden_size, bias, c=0.0, k=2.0)


class SoftCappedSoftmax(OutputLayer):
    """softmax(s · tanh(l / s)): no logit leaves [−s, s] (Gemma 2, 2024); s = `cap`.

    Naive: `(cap * torch.tanh(logits / cap)).log_softmax(-1)`.
    """

    def __init__(self, words, hidden_size: int | None = None, bias: bool = True, cap: float = 30.0):
        super().__init__(words, hidden_size, bias)
        self.cap = cap

    def transform(self, logits):
        """s · tanh(l / s), elementwise."""
        return torch.tanh(logits / self.cap) * self.cap


class _Pieces(torch.autograd.Function):
    """intercepts[i] + slopes[i] · x, with i the piece x lies in."""

    @staticmethod
    def forward(ctx, x, slopes, intercepts, low, high):
        pieces, value = len(slopes), _like("value", x)
        torch.sub(x, low, out=value).mul_(pieces / (high - low)).clamp_(0, pieces - 1)
        value.nan_to_num_(0.0)  # a NaN has no piece; it comes back with x below
        at = _like("piece", x, torch.int64).copy_(value).flatten()
        slope = _like("slope", x)
        torch.index_select(slopes, 0, at, out=slope.view(-1))
        torch.index_select(intercepts, 0, at, out=value.view(-1))
        ctx.save_for_backward(x, at, slope)
        ctx.pieces = pieces
        return value.addcmul_(slope, x)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gradient):
        x, at, slope = ctx.saved_tensors
        to_slopes = to_intercepts = None
        if ctx.needs_input_grad[1]:
            # One histogram a lane, which threads can share: a sum into one is sequential.
            lanes = next(n for n in (4, 2, 1) if x.numel() % n == 0)
            where = at.view(lanes, -1)

            def histogram(values):
                bins = values.new_zeros(lanes, ctx.pieces)
                return bins.scatter_add_(1, where, values.reshape(lanes, -1)).sum(0)

            to_intercepts = histogram(gradient)
            moment = torch.mul(gradient, x, out=_like("value", x))  # which nobody needs by now
            to_slopes = histogram(moment)
        return (
            torch.mul(gradient, slope, out=_like("value", x)),
            to_slopes,
            to_intercepts,
            None,
            None,
        )


class PiecewiseLinearSoftmax(OutputLayer):
    """softmax(f(l)) with f increasing, linear on each of K equal pieces of [low, high], beyond
    which the outermost pieces go on: LMS-PLIF (parthiban2021, section 3.3; Ganea et al. 2019).

        f(x) = (x − x_i) s_i + Δ Σ_{j<i} s_j,   s = softplus(v),   x_i = low + i Δ

    with i the piece of x. v ~ N(log(e − 1), 1), so that slopes begin around 1; `frozen` leaves
    them there. The paper trains v with a learning rate of its own, 0.02: give
    `output_layer.free_slopes` a group in the optimisation.
    Naive: `((x - x_i[i]) * s[i] + Δ * (s.cumsum(0) - s)[i]).log_softmax(-1)`.
    """

    def __init__(
        self,
        words,
        hidden_size: int | None = None,
        bias: bool = True,
        pieces: int = 100_000,
        low: float = -20.0,
        high: float = 20.0,
        frozen: bool = False,
        spread: float = 1.0,
    ):
        """`spread`: standard deviation of v; with 0 the layer begins as the softmax."""
        super().__init__(words, hidden_size, bias)
        self.low, self.high = low, high
        v = torch.empty(pieces).normal_(math.log(math.expm1(1)), spread)
        self.free_slopes = nn.Parameter(v, requires_grad=not frozen)

    def transform_parameters(self):
        """Slopes s (K,) and intercepts Δ Σ_{j<i} s_j − x_i s_i (K,): f is intercept + slope · x."""
        real = torch.promote_types(self.free_slopes.dtype, torch.float32)
        slopes = F.softplus(self.free_slopes.double())
        width = (self.high - self.low) / len(slopes)
        numbers = torch.arange(len(slopes), device=slopes.device, dtype=slopes.dtype)
        starts = self.low + width * numbers
        intercepts = width * (slopes.cumsum(0) - slopes) - starts * slopes
        return slopes.to(real), intercepts.to(real)

    def transform(self, logits, slopes, intercepts):
        """f, elementwise."""
        return _Pieces.apply(logits, slopes, intercepts, self.low, self.high)
