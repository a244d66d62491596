"""The encoder-decoder Transformer (Vaswani et al., "Attention Is All You Need", 2017)."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.errors import CourseError
from course_lib.models.state import check_segment, map_state
from course_lib.models.transformer_xl import sinusoids
from course_lib.ranges import Count, Dropout, checked


class Attention(nn.Module):
    """Concat(head_1, …, head_H) W_O with head_h = softmax(q_h k_hᵀ / √K) v_h, K = size / heads.

    q = x W_Q, k = m W_K and v = m W_V, no bias (Vaswani et al., section 3.2.2).
    """

    def __init__(self, size: int, heads: int, dropout: float):
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.query = nn.Linear(size, size, bias=False)
        self.key_value = nn.Linear(size, 2 * size, bias=False)
        self.output = nn.Linear(size, size, bias=False)

    def keys_values(self, memory: Tensor, past: tuple | None = None) -> tuple[Tensor, ...]:
        """Return keys and values (B, H, S, K) of the memory (S, B, d), behind those of the past."""
        S, B, _ = memory.shape
        new = self.key_value(memory).view(S, B, 2, self.heads, -1).permute(2, 1, 3, 0, 4).unbind()
        return tuple(torch.cat(pair, 2) for pair in zip(past, new, strict=True)) if past else new

    def forward(self, x, keys, values, mask: Tensor | None = None, causal: bool = False) -> Tensor:
        """Return the mixed values of every position, shaped as x.

        x: what asks, (T, C, d). Where C is a multiple of B, the C/B columns of a source attend to
            the same keys, which are not repeated for them; then `mask` has no T.
        keys, values: what is attended to, (B, H, S, K) each.
        mask: (B or 1, 1, T or 1, S), True where a key is seen; None: all are.
        causal: whether the last position sees all keys, the one before it one less, and so on.
        """
        T, C, d = x.shape
        B = len(keys)
        q = self.query(x).view(T, B, C // B, self.heads, -1).permute(1, 3, 0, 2, 4).flatten(2, 3)
        S = keys.shape[2]
        if causal and T not in (1, S):  # one position sees all, a target from its start a triangle
            mask = torch.ones(T, S, dtype=torch.bool, device=x.device).tril(S - T)
        dropout = self.dropout if self.training else 0.0
        mixed = F.scaled_dot_product_attention(q, keys, values, mask, dropout, causal and T == S)
        mixed = mixed.unflatten(2, (T, C // B)).permute(2, 0, 3, 1, 4).reshape(T, C, d)
        return self.output(mixed)


class Residual(nn.Module):
    """norm(x + dropout(f(x))), or x + dropout(f(norm(x))) with `pre_norm` (Xiong et al. 2020)."""

    def __init__(self, size: int, dropout: float, pre_norm: bool):
        super().__init__()
        self.norm = nn.LayerNorm(size)
        self.dropout = nn.Dropout(dropout)
        self.pre_norm = pre_norm

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """Apply `sublayer`, which keeps the shape (…, d) of x."""
        if self.pre_norm:
            return x + self.dropout(sublayer(self.norm(x)))
        return self.norm(x + self.dropout(sublayer(x)))


def feedforward(size: int, inner: int) -> nn.Sequential:
    """Return the network max(0, x W_1 + b_1) W_2 + b_2 (Vaswani et al., equation 2)."""
    return nn.Sequential(nn.Linear(size, inner), nn.ReLU(), nn.Linear(inner, size))


class EncoderLayer(nn.Module):
    """Attention to the whole source, then the feed-forward network."""

    def __init__(self, size, heads, inner, dropout, attention_dropout, pre_norm):
        super().__init__()
        self.attention = Attention(size, heads, attention_dropout)
        self.feedforward = feedforward(size, inner)
        self.residuals: Any = nn.ModuleList(Residual(size, dropout, pre_norm) for _ in range(2))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Return the layer's output (S, B, d) of x (S, B, d), mask (B, 1, 1, S)."""
        around_attention, around_network = self.residuals
        x = around_attention(x, lambda h: self.attention(h, *self.attention.keys_values(h), mask))
        return around_network(x, self.feedforward)


class DecoderLayer(nn.Module):
    """Attention to the target so far, attention to the source, the feed-forward network."""

    def __init__(self, size, heads, inner, dropout, attention_dropout, pre_norm):
        super().__init__()
        self.attention = Attention(size, heads, attention_dropout)
        self.source_attention = Attention(size, heads, attention_dropout)
        self.feedforward = feedforward(size, inner)
        self.residuals: Any = nn.ModuleList(Residual(size, dropout, pre_norm) for _ in range(3))

    def forward(self, y: Tensor, memory: Any, mask: Tensor, past: Any, source: Any) -> Any:
        """Return (T, C, d), past, source of y (T, C, d), memory (S, B, d), mask (B, 1, 1, S).

        past: keys and values of the target before y; None at its start.
        source: those of the memory, which is only looked at when they are None.
        """
        if source is None:
            source = self.source_attention.keys_values(memory)

        def attend_to_target(h):
            nonlocal past
            past = self.attention.keys_values(h, past)
            return self.attention(h, *past, causal=True)

        around_target, around_source, around_network = self.residuals
        y = around_target(y, attend_to_target)
        y = around_source(y, lambda h: self.source_attention(h, *source, mask))
        return around_network(y, self.feedforward), past, source


class EncoderDecoder(nn.Module):
    """A stack of layers that reads a source, and one that goes on with its targets.

    `encode(x, padding)` returns memory, `decode(y, memory, padding, state)` contexts and a state.
    A call does both.

    x: word vectors of the source, (S, B, d).
    padding: (S, B), True at what no position may see. Every column needs a word that may be seen.
    memory: what `encode` makes of the source, (S, B, u).
    y: word vectors of the targets, (T, C, d). C is B or a multiple of it: then C/B columns one
        after the other are targets of the same source.
    state: (what belongs to the columns of y, what belongs to those of x), tensors with columns
        first. Given one, y continues its targets, and x and memory may be None. Targets piece by
        piece give what they give in one call.
    """

    def forward(
        self: Any, x: Tensor | None, y: Tensor, padding: Tensor, state: Any = None
    ) -> tuple[Tensor, Any]:
        """Return contexts (T, C, u) and the new state; CourseError where columns do not fit."""
        C, B = y.shape[1], padding.shape[1]
        if not B or C % B:
            raise CourseError(f"each of {B} sources needs as many targets, not {C} for all of them")
        check_segment(y, state and state[0])
        check_segment(padding, state and state[1])
        memory = self.encode(x, padding) if state is None else None
        return self.decode(y, memory, padding, state)

    @staticmethod
    def select(state: Any, columns: Tensor, sources: Tensor | None = None) -> Any:
        """Return the state of these columns of y (C',), and of x (B',) or all of x, in order."""
        past, source = state
        if sources is not None:
            source = map_state(lambda t: t.index_select(0, sources), source)
        return map_state(lambda t: t.index_select(0, columns), past), source


class Transformer(EncoderDecoder):
    """`layers` encoder and as many decoder layers between word vectors and contexts, time-major.

    Each context follows from the targets up to its own. There is no word matrix inside.

    With d = input_size and F = feedforward there are layers · (12 d² + 4 d F + 2 F + 12 d)
    parameters, plus 4 d with `pre_norm`, which normalises before each sublayer and at both ends.

    Weights begin uniform with variance 1/mean(fan in, fan out) (Glorot and Bengio 2010), the three
    of an attention each as a matrix of its own, biases at 0.
    """

    @checked
    def __init__(
        self,
        input_size: Count,
        layers: Count = 6,
        heads: Count = 8,
        feedforward: Count = 2048,
        dropout: Dropout = 0.1,
        attention_dropout: Dropout = 0.0,
        pre_norm: bool = False,
        input_scale: bool = True,
    ):
        """Draw the parameters; CourseError for an odd input_size, or if heads do not divide it.

        input_size: d, the numbers in a word vector and in a context.
        layers: of the encoder, and of the decoder.
        heads: of each attention.
        feedforward: F, the inner size of the feed-forward networks.
        dropout: share dropped of each sublayer's output, and of the sums of word vectors and
            positions (section 5.4).
        attention_dropout: share dropped of the attention's weights.
        pre_norm: whether layer normalisation comes before each sublayer.
        input_scale: whether word vectors are multiplied by √d (section 3.4).
        """
        super().__init__()
        if input_size % 2 or input_size % heads:
            raise CourseError(
                f"a Transformer needs an even input_size (half of a position's vector are sines) "
                f"that its heads divide; got {input_size} and {heads} heads"
            )
        self.input_size = self.output_size = input_size
        self.scale = math.sqrt(input_size) if input_scale else 1.0
        self.dropout = nn.Dropout(dropout)
        options = (input_size, heads, feedforward, dropout, attention_dropout, pre_norm)
        self.encoder_layers = nn.ModuleList(EncoderLayer(*options) for _ in range(layers))
        self.decoder_layers = nn.ModuleList(DecoderLayer(*options) for _ in range(layers))
        end = (lambda: nn.LayerNorm(input_size)) if pre_norm else nn.Identity
        self.encoder_norm = end()
        self.decoder_norm = end()
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                for matrix in parameter.data.chunk(2 if "key_value" in name else 1):
                    nn.init.xavier_uniform_(matrix)
            elif name.endswith(".bias"):
                nn.init.zeros_(parameter)

    @property
    def blocks(self) -> list[nn.Module]:
        """The modules that are called whole, one after the other."""
        return [*self.encoder_layers, *self.decoder_layers]

    def encode(self, x: Tensor, padding: Tensor) -> Tensor:
        """Return the memory (S, B, d) of x (S, B, d), padding (S, B)."""
        x = self._placed(x, 0)
        for layer in self.encoder_layers:
            x = layer(x, seen(padding))
        return self.encoder_norm(x)

    def decode(
        self, y: Tensor, memory: Tensor | None, padding: Tensor, state: Any = None
    ) -> tuple[Tensor, Any]:
        """Return contexts (T, C, d), state of y (T, C, d), memory (S, B, d), padding (S, B).

        The state holds the keys and values of the targets so far and of the memory. Padding at the
        end of a target needs no mask, since no word looks ahead.
        """
        nothing: Any = ((None,) * len(self.decoder_layers),) * 2
        past, source = state or nothing
        y = self._placed(y, 0 if state is None else past[0][0].shape[2])
        new_state = []
        for layer, *of_layer in zip(self.decoder_layers, past, source, strict=True):
            y, *of_layer = layer(y, memory, seen(padding), *of_layer)
            new_state.append(of_layer)
        return self.decoder_norm(y), tuple(zip(*new_state, strict=True))

    def _placed(self, x: Tensor, start: int) -> Tensor:
        """Return word vectors (T, B, d), scaled, plus the positions from `start` on, in tokens."""
        places = torch.arange(start, start + len(x), device=x.device)
        return self.dropout(x * self.scale + sinusoids(places, x.shape[-1], x.dtype)[:, None])


def seen(padding: Tensor) -> Tensor:
    """Return the mask (B, 1, 1, S) of padding (S, B), True where a position may be seen."""
    return ~padding.T[:, None, None]
