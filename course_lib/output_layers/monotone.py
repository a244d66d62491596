"""Monotone functions of the logits between word matrix and softmax (parthiban2021)."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.errors import CourseError
from course_lib.first_order import first_order
from course_lib.output_layers.layer import OutputLayer, Words
from course_lib.output_layers.products import type_of_sums
from course_lib.output_layers.scratch import FRESH, Scratch
from course_lib.ranges import Count, Finite, NonNegative, Positive, checked


class _Elementwise(torch.autograd.Function):
    """A function of x whose forward pass saves its slope, and uses up the memory "to_x"."""

    @staticmethod
    @first_order
    def backward(ctx, gradient):
        (slope,) = ctx.saved_tensors
        to_x = ctx.frame.empty_like("to_x", gradient)
        return torch.mul(gradient, slope, out=to_x), *[None] * (len(ctx.needs_input_grad) - 1)


class _Bend(_Elementwise):
    """x − (k − 1) softplus(c − x), which keeps only its slope, made in the same pass."""

    @staticmethod
    def forward(ctx, x, c, k, frame):
        distance = frame.empty_like("to_x", x)
        torch.sub(c, x, out=distance)
        if ctx.needs_input_grad[0]:
            slope = frame.empty_like("slope", x)
            torch.sigmoid(distance, out=slope)
            ctx.save_for_backward(slope.mul_(k - 1).add_(1))
        ctx.frame = frame
        # linear from 40 on, where exp(−40) vanishes in float64, too; F.softplus' 20 is too soon
        bend = frame.empty_like("bend", x)
        torch.ops.aten.softplus.out(distance, 1, 40, out=bend)
        return torch.add(x, bend, alpha=1 - k, out=bend)


class GeneralizedSigSoftmax(OutputLayer):
    """GSS: softmax(PL(l)), with a function PL whose slope is k far below c and 1 far above.

        PL(x) = k (x − c) + c − (k − 1) softplus(x − c) = x − (k − 1) softplus(c − x)

    The second form does not overflow, nor cancel from k = 1 on, where the layer is the softmax.
    Naive: `(logits - (k - 1) * F.softplus(c - logits)).log_softmax(-1)`.
    Source: parthiban2021, equations 3 and 5.
    """

    @checked
    def __init__(self, words: Words, *arguments, c: Finite = -1.5, k: Positive = 2.5, **options):
        """Make the layer; c: where the function bends; k: its slope below.

        The defaults are the paper's for the Penn Treebank. CourseError for one out of its range.
        """
        super().__init__(words, *arguments, **options)
        self.c = c
        self.k = k

    def transform(self, logits: Tensor, scratch: Scratch = FRESH) -> Tensor:
        """Return PL of each logit."""
        return _Bend.apply(logits, self.c, self.k, scratch.frame())

    def formula(self, logits: Tensor) -> Tensor:
        return logits - (self.k - 1) * F.softplus(self.c - logits, threshold=40)


class SigSoftmax(GeneralizedSigSoftmax):
    """SS: probabilities proportional to exp(l) σ(l), GSS with c = 0 and k = 2.

    It has no options to hand on; combine GSS(0, 2) with a mixture.
    Naive: `(logits + F.logsigmoid(logits)).log_softmax(-1)`.
    Source: Kanai et al. 2018; parthiban2021, equations 1 and 4.
    """

    def __init__(self, words: Words, hidden_size: int | None = None, bias: bool = True):
        super().__init__(words, hidden_size, bias, c=0.0, k=2.0)


class _Cap(_Elementwise):
    """s · tanh((x + shift) / w), which keeps only its slope (1 − tanh²) s / w, made in one pass."""

    @staticmethod
    def forward(ctx, x, cap, width, shift, frame):
        value = torch.div(x, width, out=frame.empty_like("value", x))
        value = (value.add_(shift / width) if shift else value).tanh_()
        if ctx.needs_input_grad[0]:
            slope = torch.square(value, out=frame.empty_like("slope", x))
            ctx.save_for_backward(slope.mul_(-cap / width).add_(cap / width))
        ctx.frame = frame
        return value.mul_(cap)


class SoftCappedSoftmax(OutputLayer):
    """softmax(s · tanh((l + shift) / w)): no logit leaves [−s, s], with s = `cap`, w = `width`.

    With w = s and no shift it is the cap of Gemma 2, whose slope is 1 at 0. The records of
    modded-nanogpt write a σ((l + shift) / b), which is a/2 + (a/2) tanh((l + shift) / 2b), and the
    first a/2 changes no probability. So 30 σ(l / 7.5) is the cap 15, and their later
    23 σ((l + 5) / 7.5) has cap 11.5, width 15 and shift 5.
    Naive: `(cap * torch.tanh((logits + shift) / width)).log_softmax(-1)`.
    Source: Gemma 2 (2024); modded-nanogpt (2025), pull request 181.
    """

    @checked
    def __init__(
        self,
        words: Words,
        *arguments,
        cap: Positive = 30.0,
        width: Positive | None = None,
        shift: Finite = 0.0,
        **options,
    ):
        """Make the layer.

        cap: the bound; width: by what logits are divided, `cap` if None; shift: added to them.
        Raises CourseError for a number out of its range.
        """
        super().__init__(words, *arguments, **options)
        self.cap = cap
        self.width = width or cap
        self.shift = shift

    def transform(self, logits: Tensor, scratch: Scratch = FRESH) -> Tensor:
        """Return s · tanh((l + shift) / w) of each logit."""
        return _Cap.apply(logits, self.cap, self.width, self.shift, scratch.frame())

    def formula(self, logits: Tensor) -> Tensor:
        return self.cap * torch.tanh((logits + self.shift) / self.width)


class _Pieces(torch.autograd.Function):
    """intercepts[i] + slopes[i] · x, with i the piece that x lies in."""

    @staticmethod
    def forward(ctx, x, slopes, intercepts, low, high, frame):
        # the piece of each logit
        pieces = len(slopes)
        value = frame.empty_like("value", x)
        torch.sub(x, low, out=value)
        value.mul_(pieces / (high - low)).clamp_(0, pieces - 1)
        value.nan_to_num_(0.0)  # a NaN has no piece; it comes back with x below
        piece = frame.empty_like("piece", x, torch.int64).copy_(value).flatten()
        # its slope and its intercept
        slope = frame.empty_like("slope", x)
        torch.index_select(slopes, 0, piece, out=slope.view(-1))
        torch.index_select(intercepts, 0, piece, out=value.view(-1))
        ctx.save_for_backward(x, piece, slope)
        ctx.pieces = pieces
        ctx.frame = frame
        return value.addcmul_(slope, x)

    @staticmethod
    @first_order
    def backward(ctx, gradient):
        x, piece, slope = ctx.saved_tensors
        to_slopes = to_intercepts = None
        if ctx.needs_input_grad[1]:
            to_intercepts = _histogram(piece, gradient, ctx.pieces)
            moment = ctx.frame.empty_like("value", x)  # which nobody needs by now
            torch.mul(gradient, x, out=moment)
            to_slopes = _histogram(piece, moment, ctx.pieces)
        to_x = ctx.frame.empty_like("value", x)
        torch.mul(gradient, slope, out=to_x)
        return to_x, to_slopes, to_intercepts, None, None, None


def _histogram(piece: Tensor, values: Tensor, pieces: int) -> Tensor:
    """Return the sum (K,) of the values on each of K = `pieces` pieces.

    One histogram a lane, which threads can share: a sum into one is sequential.
    """
    lanes = next(n for n in (4, 2, 1) if piece.numel() % n == 0)
    bins = values.new_zeros(lanes, pieces)
    return bins.scatter_add_(1, piece.view(lanes, -1), values.reshape(lanes, -1)).sum(0)


class PiecewiseLinearSoftmax(OutputLayer):
    """LMS-PLIF: softmax(f(l)) with f increasing and linear on each of K pieces of [low, high].

        f(x) = (x − x_i) s_i + Δ Σ_{j<i} s_j,   s = softplus(v),   x_i = low + i Δ

    with i the piece of x and Δ the pieces' width. Beyond the interval the outermost pieces go on.
    v begins as N(log(e − 1), 1), so that slopes begin around 1. The paper trains v with a rate of
    its own, 0.02: give `output_layer.free_slopes` a group in the optimisation.
    Naive: `((x - x_i[i]) * s[i] + Δ * (s.cumsum(0) - s)[i]).log_softmax(-1)`.
    Source: Ganea et al. 2019; parthiban2021, LMS-PLIF and its frozen form.
    """

    @checked
    def __init__(
        self,
        words: Words,
        *arguments,
        pieces: Count = 100_000,
        low: Finite = -20.0,
        high: Finite = 20.0,
        frozen: bool = False,
        spread: NonNegative = 1.0,
        **options,
    ):
        """Make the layer with slopes drawn at random.

        pieces: K; low, high: the interval of logits that the pieces divide, low < high;
        frozen: leave the slopes as they are drawn;
        spread: standard deviation of v; with 0 the layer begins as the softmax.
        Raises CourseError for a constant out of its range.
        """
        super().__init__(words, *arguments, **options)
        if not low < high:
            name = type(self).__name__
            raise CourseError(f"low of {name} must be below high, not {low} ≥ {high}")
        self.low = low
        self.high = high
        v = torch.empty(pieces).normal_(math.log(math.expm1(1)), spread)
        self.free_slopes = nn.Parameter(v, requires_grad=not frozen)

    def transform_parameters(self) -> tuple[Tensor, ...]:
        """Return slopes s (K,) and intercepts Δ Σ_{j<i} s_j − x_i s_i (K,).

        On its piece, f is intercept + slope · x.
        """
        real = type_of_sums(self.free_slopes)
        slopes = F.softplus(self.free_slopes.double())
        width = (self.high - self.low) / len(slopes)
        numbers = torch.arange(len(slopes), device=slopes.device, dtype=slopes.dtype)
        starts = self.low + width * numbers
        intercepts = width * (slopes.cumsum(0) - slopes) - starts * slopes
        return slopes.to(real), intercepts.to(real)

    def transform(self, logits, slopes, intercepts, scratch: Scratch = FRESH):
        """Return f of each logit."""
        return _Pieces.apply(logits, slopes, intercepts, self.low, self.high, scratch.frame())

    def formula(self, logits: Tensor, slopes: Tensor, intercepts: Tensor) -> Tensor:
        place = (logits - self.low) * (len(slopes) / (self.high - self.low))
        i = place.clamp(0, len(slopes) - 1).nan_to_num(0.0).long()
        return intercepts[i] + slopes[i] * logits
