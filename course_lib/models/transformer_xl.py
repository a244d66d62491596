"""Transformer-XL: a causal Transformer with relative positions and a memory of past segments.

Source: Dai et al., "Transformer-XL: Attentive Language Models beyond a Fixed-Length Context", 2019,
section 3.2 and 3.3, and the settings of its released code (u and v shared by all layers, no bias in
the projections of the attention, dropout on input, positions, sublayers and output).
"""

import copy
import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.dropout import EntryDropout, entry_dropout
from course_lib.errors import CourseError
from course_lib.machine import accelerated
from course_lib.models.state import check_segment
from course_lib.ranges import Count, Dropout, NonNegative, Whole, checked


def sinusoids(distances: Tensor, size: int, dtype: torch.dtype) -> Tensor:
    """Return R (S, size) of S distances in tokens: sines, then cosines, of size/2 frequencies.

    R_{i-j} = [sin((i-j) ω_1) … cos((i-j) ω_1) …], ω_k = 10000^{-2(k-1)/size}.
    """
    exact = torch.promote_types(dtype, torch.float32)  # bfloat16 cannot count beyond 256
    steps = torch.arange(0, size, 2, device=distances.device, dtype=exact)
    angles = torch.outer(distances.to(exact), torch.exp(steps * (-math.log(10000) / size)))
    return torch.cat([angles.sin(), angles.cos()], dim=-1).to(dtype)


class RelativeAttention(nn.Module):
    """Attention of T queries to S = M + T keys whose positions enter as distances only.

    For query i, key j ≤ i (both counted from the oldest key) and each head

        score_ij = ((q_i + u)ᵀ k_j + (q_i + v)ᵀ W_R R_{i-j}) / √head_size        (Dai et al., 3.3)
    """

    def __init__(self, size: int, heads: int, head_size: int, dropout: float):
        super().__init__()
        self.heads = heads
        self.head_size = head_size
        self.dropout = dropout
        inner = heads * head_size
        self.query = nn.Linear(size, inner, bias=False)
        self.key_value = nn.Linear(size, 2 * inner, bias=False)
        self.position = nn.Linear(size, inner, bias=False)
        self.output = nn.Linear(inner, size, bias=False)

    def forward(self, x: Tensor, past: Tensor, positions: Tensor, mask: Tensor, u, v) -> Tensor:
        """Return the mixed values of every position, (T, B, d).

        x: the inputs of this segment, (T, B, d).
        past: the memory and then x, (S, B, d).
        positions: a row of zeros, then R for the distances S-1 … 0, (S+1, d).
        mask: (T, S), −∞ where a key is not seen.
        u, v: the content bias and the position bias, (heads, head_size) each.

        With the row of zeros the paper's shift from (query, distance) to (query, key) is a view:
        the score of query t of T and key j lies S t + j + T places into a T-by-(S+1) block. Nothing
        is copied, and what wraps round belongs to keys after the query, which are masked.
        """
        T, B, _ = x.shape
        S = len(past)
        H, K = self.heads, self.head_size

        # Queries, keys, values and positions of every head; keys and values are (H, B, S, K).
        q = self.query(x).view(T, B, H, K).permute(2, 1, 0, 3)  # (H, B, T, K)
        keys, values = self.key_value(past).view(S, B, 2, H, K).permute(2, 3, 1, 0, 4)
        r = self.position(positions).view(S + 1, H, K).permute(1, 2, 0)  # (H, K, S+1)

        # Scores by content and by position, the latter shifted; then the mixture of the values.
        q = q * K**-0.5
        content = torch.add(q, u[:, None, None], alpha=K**-0.5).reshape(H * B, T, K)
        position = torch.add(q, v[:, None, None], alpha=K**-0.5).reshape(H, B * T, K)
        shifted = torch.bmm(position, r).view(H * B, T * (S + 1))[:, T:].view(H * B, T, S)
        if accelerated(x):  # one operation, which keeps no weights for the backward pass
            bias = (shifted + mask).view(H, B, T, S)
            dropout = self.dropout if self.training else 0.0
            content = content.view(H, B, T, K)
            mixed = F.scaled_dot_product_attention(content, keys, values, bias, dropout, scale=1.0)
        else:
            scores = torch.baddbmm(shifted, content, keys.reshape(H * B, S, K).mT)
            weights = entry_dropout(scores.add_(mask).softmax(-1), self.dropout, self.training)
            mixed = torch.bmm(weights, values.reshape(H * B, S, K))
        return self.output(mixed.view(H, B, T, K).permute(2, 1, 0, 3).reshape(T, B, H * K))


class Layer(nn.Module):
    """Attention, then a two-layer ReLU network, each with dropout, a residual and layer norm."""

    def __init__(self, size, heads, head_size, inner, dropout, attention_dropout, pre_norm):
        super().__init__()
        self.pre_norm = pre_norm
        self.dropout = EntryDropout(dropout)
        self.attention = RelativeAttention(size, heads, head_size, attention_dropout)
        self.attention_norm = nn.LayerNorm(size)
        self.feedforward_norm = nn.LayerNorm(size)
        parts = nn.Linear(size, inner), nn.ReLU(), EntryDropout(dropout), nn.Linear(inner, size)
        self.feedforward = nn.Sequential(*parts)

    def forward(self, past: Tensor, T: int, *shared: Tensor) -> Tensor:
        """Return outputs (T, B, d) of past (S, B, d), the memory and then T inputs.

        shared: what all layers' attentions share: positions, mask, u and v.
        """
        x = past[-T:]
        if self.pre_norm:
            past = self.attention_norm(past)
            x = x + self.dropout(self.attention(past[-T:], past, *shared))
            return x + self.dropout(self.feedforward(self.feedforward_norm(x)))
        x = self.attention_norm(x + self.dropout(self.attention(x, past, *shared)))
        return self.feedforward_norm(x + self.dropout(self.feedforward(x)))


class TransformerXL(nn.Module):
    """`layers` layers of relative attention over the current segment and `memory` tokens before it.

    The state has a tensor for each layer, its latest inputs (at most `memory`, B, d), oldest first.
    The caller detaches it between training steps, as the paper stops the gradient.

    With d = input_size, A = heads · head_size, F = feedforward there are
    layers · (5 d A + 2 d F + F + 5 d) + 2 A parameters, and 2 d more with `pre_norm`.
    """

    @checked
    def __init__(
        self,
        input_size: Count,
        layers: Count = 4,
        heads: Count = 10,
        head_size: Count = 41,
        feedforward: Count = 2100,
        dropout: Dropout = 0.1,
        attention_dropout: Dropout = 0.0,
        memory: Whole = 150,
        clamp: Count | None = None,
        input_scale: bool = True,
        init: NonNegative = 0.02,
        pre_norm: bool = False,
    ):
        """Draw the parameters; CourseError if input_size is odd.

        input_size: d, the numbers in a word vector and in a context.
        layers: how many.
        heads, head_size: of each attention.
        feedforward: F, the inner size of the feed-forward networks.
        dropout: share dropped of inputs, positions, sublayers and outputs.
        attention_dropout: share dropped of the attention's weights.
        memory: tokens before the segment that are remembered; 0 makes it a plain causal
            Transformer with relative positions.
        clamp: the largest distance in tokens, which those above it count as; None: no limit.
        input_scale: whether the inputs are multiplied by √d, as the paper does with word vectors.
        init: standard deviation of every weight; biases are 0, layer norm gains N(1, init).
        pre_norm: whether layer norm comes before each sublayer, not after the residual sum.
        """
        super().__init__()
        if input_size % 2:
            why = "half of a position's vector are sines and half cosines"
            raise CourseError(f"TransformerXL needs an even input_size: {why}; got {input_size}")
        self.input_size = self.output_size = input_size
        self.memory = memory
        self.clamp = clamp
        self.same_length = False  # in training the later of a segment's tokens see further back
        self.scale = math.sqrt(input_size) if input_scale else 1.0
        self.dropout = EntryDropout(dropout)
        self.content_bias = nn.Parameter(torch.empty(heads, head_size))
        self.position_bias = nn.Parameter(torch.empty(heads, head_size))
        options = input_size, heads, head_size, feedforward, dropout, attention_dropout, pre_norm
        self.layers = nn.ModuleList(Layer(*options) for _ in range(layers))
        self.norm = nn.LayerNorm(input_size) if pre_norm else nn.Identity()
        for name, parameter in self.named_parameters():
            if name.endswith(".bias"):
                nn.init.zeros_(parameter)
            else:
                nn.init.normal_(parameter, 1.0 if name.endswith("norm.weight") else 0.0, init)

    @property
    def blocks(self) -> list[nn.Module]:
        """The modules that are called whole, one after the other."""
        return list(self.layers)

    @checked
    def with_memory(self, memory: Whole, clamp: Count | None = None) -> "TransformerXL":
        """Return the same encoder for evaluation, with another memory and all parameters shared.

        Every token attends to itself and to the memory − 1 tokens before it, as in the released
        code (`same_length`), so that hidden states do not depend on how a text is cut into
        segments. With memory 0 a token attends to all of its segment up to itself. The modules are
        shared, and so is their training mode: evaluate within `in_evaluation_mode`, which keeps it.
        """
        other = copy.copy(self)
        other.memory = memory
        other.clamp = clamp
        other.same_length = memory > 0
        return other

    def forward(self, x: Tensor, state: tuple[Tensor, ...] | None = None):
        """Return hidden (T, B, d) and the new state of x (T, B, d) and a state or None."""
        check_segment(x, None)
        T, B, d = x.shape
        if state is None:
            state = tuple(x.new_empty(0, B, d) for _ in self.layers)
        S = len(state[0]) + T

        # The positions, a row of zeros and then R for the distances S−1 … 0, and the mask.
        distances = torch.arange(S - 1, -1, -1, device=x.device).clamp(max=self.clamp or S)
        positions = sinusoids(distances, d, x.dtype)
        positions = self.dropout(F.pad(positions, (0, 0, 1, 0)))
        blocked = x.new_full((T, S), -math.inf)
        mask = blocked.triu(S - T + 1)
        if self.same_length:
            mask = mask + blocked.tril(S - T - self.memory)

        # Each layer reads its memory and its inputs, of which the latest are remembered.
        x = self.dropout(x * self.scale)
        remembered = []
        for layer, memory in zip(self.layers, state, strict=True):
            past = torch.cat([memory, x])
            remembered.append(past[max(0, S - self.memory) :].clone())  # not all of the past
            x = layer(past, T, positions, mask, self.content_bias, self.position_bias)
        return self.dropout(self.norm(x)), tuple(remembered)
