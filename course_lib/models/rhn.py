"""Recurrent highway networks (Zilly et al. 2017): many layers within one time step."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.dropout import keep_mask, locked_dropout
from course_lib.models.state import check_segment, zeros
from course_lib.ranges import Count, Dropout, Finite, NonNegative, checked


class RHN(nn.Module):
    """A recurrent layer whose state s passes through `depth` highway layers for each word.

        s ← t ∘ tanh(a) + (1 − t) ∘ s,   t = σ(b),   (a, b) = R_l s + bias_l  (+ W x in the first)

    As in VD-RHN, a sequence has one mask for the word vectors, one for the state wherever R reads
    it, and one for what leaves. The defaults are those of the published model, which also drops
    0.25 of the words' rows (`InputEmbedding`).
    """

    @checked
    def __init__(
        self,
        input_size: Count,
        units: Count = 830,
        depth: Count = 10,
        input_dropout: Dropout = 0.75,
        dropout: Dropout = 0.25,
        output_dropout: Dropout = 0.75,
        init: NonNegative = 0.04,
        transform_bias: Finite = -2.0,
    ):
        """Draw the parameters.

        input_size: numbers in a word vector.
        units: of the state.
        depth: highway layers for each word.
        input_dropout, dropout, output_dropout: shares dropped of the word vectors, of the state
            where R reads it, of what leaves.
        init: half-width of the uniform distribution of all matrices.
        transform_bias: where the biases of the transform gates t begin.
        """
        super().__init__()
        self.output_size = units
        self.unrolled = True
        self.input_dropout = input_dropout
        self.dropout = dropout
        self.output_dropout = output_dropout
        self.input = nn.Parameter(torch.empty(2 * units, input_size).uniform_(-init, init))
        self.recurrent = nn.Parameter(torch.empty(depth, 2 * units, units).uniform_(-init, init))
        self.bias = nn.Parameter(torch.zeros(depth, 2 * units))
        with torch.no_grad():
            self.bias[:, units:] = transform_bias

    def forward(self, x: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return hidden (T, B, u), state (B, u) of x (T, B, input_size), a state or None."""
        check_segment(x, state)
        # What does not depend on the state: W x of all steps, one mask for the state.
        x = locked_dropout(x, self.input_dropout, self.training)
        inputs = F.linear(x, self.input, self.bias[0])
        s = zeros(x, self.output_size) if state is None else state
        mask = keep_mask(s, self.dropout) if self.training and self.dropout else None

        # One word after the other, and for each one highway layer after the other.
        matrices = self.recurrent.mT.unbind()
        hidden = []
        for step in inputs.unbind():
            for matrix, offset in zip(matrices, (step, *self.bias[1:]), strict=True):
                read = s if mask is None else (s * mask).to(s.dtype)
                a, b = (read @ matrix + offset).chunk(2, dim=-1)
                s = torch.lerp(s, a.tanh().to(s.dtype), b.sigmoid().to(s.dtype))
            hidden.append(s)
        return locked_dropout(torch.stack(hidden), self.output_dropout, self.training), s
