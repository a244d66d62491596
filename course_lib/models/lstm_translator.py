"""A translator of LSTM layers with one attention between the two sides (Wu et al. 2016)."""

from typing import Any

import torch
from torch import Tensor, nn

from course_lib.errors import CourseError
from course_lib.models.transformer import Attention, EncoderDecoder, seen
from course_lib.ranges import Count, Dropout, NonNegative, checked


class LSTMTranslator(EncoderDecoder):
    """`layers` LSTM layers on either side of one attention, between word vectors and contexts.

    On the source's side the first layer reads with half of its units in each direction. The others
    read forwards, and the output of the last is the memory. On the target's side the first layer
    reads word vectors, and its output h_t asks the source: a_t = Attention(h_t, memory). Every
    other layer reads [the output of the layer below, a_t]. From the third layer on, the output
    below is added to a layer's own. With that it is the model of Wu et al. (2016, section 3) as it
    is trained in parallel: a_t comes from this step's h_t, not from the last one's, and is a
    product, q kᵀ/√u, where theirs is a small network.
    """

    @checked
    def __init__(
        self,
        input_size: Count,
        units: Count | None = None,
        layers: Count = 2,
        dropout: Dropout = 0.2,
        init: NonNegative = 0.1,
    ):
        """Draw the parameters; CourseError for one layer, or an odd number of units.

        input_size: numbers in a word vector.
        units: of every layer, by default as many as a word vector has numbers, which tying needs.
        layers: on either side of the attention, which would reach nothing with one.
        dropout: share dropped of the word vectors and of what each layer hands to the next.
        init: half-width of the uniform distribution of all matrices; biases begin at 0.
        """
        super().__init__()
        units = units or input_size
        if layers < 2 or units % 2:
            raise CourseError(
                "an LSTM translator needs two layers or more, and an even number of units, half of "
                f"which read backwards; got {layers} layers of {units}"
            )
        self.output_size = units
        self.dropout = nn.Dropout(dropout)
        self.both_ways = nn.LSTM(input_size, units // 2, bidirectional=True)
        self.source_layers = nn.ModuleList(nn.LSTM(units, units) for _ in range(layers - 1))
        self.first = nn.LSTM(input_size, units)
        self.attention = Attention(units, heads=1, dropout=0.0)
        self.target_layers = nn.ModuleList(nn.LSTM(2 * units, units) for _ in range(layers - 1))
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.uniform_(parameter, -init, init)
            else:
                nn.init.zeros_(parameter)

    def encode(self, x: Tensor, padding: Tensor) -> Tensor:
        """Return the memory (S, B, u) of x (S, B, d), padding (S, B) behind each column's end.

        Every column needs a word that is not padding.
        """
        memory = _both_ways(self.both_ways, self.dropout(x), padding)

        # The others read forwards, from the third layer on with a residual connection.
        for number, layer in enumerate(self.source_layers):
            above, _ = layer(self.dropout(memory))
            memory = above + memory if number else above
        return memory

    def decode(
        self, y: Tensor, memory: Any, padding: Tensor, state: Any = None
    ) -> tuple[Tensor, Any]:
        """Return contexts (T, C, u), state of y (T, C, d), memory (S, B, u), padding (S, B).

        The state holds every layer's h and c, and the keys and values of the memory.
        """
        past, source = state or ((None,) * (1 + len(self.target_layers)), None)
        source = self.attention.keys_values(memory) if source is None else source

        # The first layer reads the words and asks the source.
        x, after = _run_layer(self.first, self.dropout(y), past[0])
        answer = self.attention(x, *source, seen(padding))
        new = [after]

        # The others read [what the layer below gives, the answer].
        for number, layer in enumerate(self.target_layers):
            below = torch.cat([self.dropout(x), answer], -1)
            above, after = _run_layer(layer, below, past[number + 1])
            x = above + x if number else above
            new.append(after)
        return x, (tuple(new), tuple(source))


def _both_ways(layer: nn.LSTM, x: Tensor, padding: Tensor) -> Tensor:
    """Run a bidirectional layer of x (S, B, d) -> (S, B, u), zeros where there is padding.

    What reads backwards begins at the last word of each column. The columns are turned round for
    it, so that the host need not know their lengths, for which it would wait.
    """
    last = (~padding).sum(0) - 1
    place = last - torch.arange(len(x), device=x.device)[:, None]
    place = torch.where(place < 0, len(x) + place, place)[..., None]  # a permutation
    forwards, backwards = layer._all_weights
    outputs = []
    for names, read in ((forwards, x), (backwards, x.take_along_dim(place, 0))):
        weights = [getattr(layer, name) for name in names]
        start = [x.new_zeros(1, x.shape[1], layer.hidden_size)] * 2
        outputs.append(torch.lstm(read, start, weights, True, 1, 0.0, True, False, False)[0])
    outputs[1] = outputs[1].take_along_dim(place, 0)  # the permutation is its own inverse
    return torch.cat(outputs, -1).masked_fill(padding[..., None], 0.0)


def _run_layer(layer: Any, x: Tensor, past: tuple | None) -> tuple[Tensor, tuple]:
    """Return outputs (T, C, u), (h, c) of x (T, C, …), started from `past` (h, c) or from 0."""
    outputs, (h, c) = layer(x, past and tuple(t[None] for t in past))
    return outputs, (h[0], c[0])
