"""The LSTM with variational dropout (Gal 2015, as inan2017 uses it)."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from course_lib.dropout import keep_mask, locked_dropout
from course_lib.errors import CourseError
from course_lib.models.lstm_recurrence import run_layer
from course_lib.models.state import check_segment
from course_lib.output_layers.products import product_type, type_of_sums
from course_lib.ranges import Count, Dropout, NonNegative, checked


class LSTMStack(nn.Module):
    """Layers of LSTM; a variant says what is dropped, by overriding one of three methods."""

    @checked
    def __init__(self, sizes: Sequence[Count], init: NonNegative | None = None):
        """Draw the parameters.

        sizes: of the input and of each layer, in numbers.
        init: half-width of the uniform distribution; None, as in PyTorch: 1/√units of each layer.

        CourseError where there is no layer.
        """
        super().__init__()
        if len(sizes) < 2:
            raise CourseError(f"{type(self).__name__} needs at least one layer of units")
        self.sizes = list(sizes)
        self.output_size = sizes[-1]
        pairs = list(zip(sizes, sizes[1:], strict=False))
        self.input = nn.ParameterList(torch.empty(4 * units, size) for size, units in pairs)
        self.recurrent = nn.ParameterList(torch.empty(4 * units, units) for _, units in pairs)
        # Two biases that only act as a sum, as in cuDNN and in the published parameter counts.
        self.input_bias = nn.ParameterList(torch.empty(4 * units) for _, units in pairs)
        self.recurrent_bias = nn.ParameterList(torch.empty(4 * units) for _, units in pairs)
        for kind in (self.input, self.recurrent, self.input_bias, self.recurrent_bias):
            for parameter, (_, units) in zip(kind, pairs, strict=True):
                width = units**-0.5 if init is None else init
                nn.init.uniform_(parameter, -width, width)

    def layer_input(self, layer: int, x: Tensor) -> Tensor:
        """Return what the layer reads of x (T, B, size) in training."""
        return x

    def recurrent_weight(self, layer: int) -> Tensor:
        """Return the layer's recurrent matrix (4u, u) in training."""
        return self.recurrent[layer]

    def recurrent_mask(self, layer: int, hidden: Tensor) -> Tensor | None:
        """Return what multiplies the layer's hidden state (B, u) wherever it goes, in training."""
        return None

    def forward(self, x: Tensor, state: tuple | None = None) -> tuple[Tensor, tuple]:
        """Return hidden (T, B, units), state ((h, c), …), one a layer, of x (T, B, input_size).

        The states are unmasked, so that a new sequence may draw new masks; None starts at zero.
        CourseError for no time step or a state of other columns, ValueError for other layers.
        """
        dtype = product_type(x)
        if state is None:
            wide = type_of_sums(x)
            zeros = [x.new_zeros(x.shape[1], units, dtype=wide) for units in self.sizes[1:]]
            state = tuple((zero, zero) for zero in zeros)
        check_segment(x, state)

        # One layer after the other, all time steps at once.
        new_state = []
        for layer, (h, c) in zip(range(len(self.recurrent)), state, strict=True):
            recurrent = self.recurrent[layer]
            biases = self.input_bias[layer], self.recurrent_bias[layer]
            mask = None
            if self.training:
                x = self.layer_input(layer, x)
                recurrent = self.recurrent_weight(layer)
                mask = self.recurrent_mask(layer, h)
            x, h, c = run_layer(x, self.input[layer], recurrent, biases, mask, h, c, dtype)
            new_state.append((h, c))
        return x, tuple(new_state)


class VariationalLSTM(LSTMStack):
    """A stack of LSTM layers with one dropout mask a sequence (inan2017, appendix A).

    The mask of a layer's hidden state serves the layer's own recurrence, the input of the next
    layer, and at the top the output layer. The word vectors, the input of the first layer, have
    `input_dropout` of their own. The paper can be read either way: it drops nothing "in the input
    embedding layer" and the same share of "inputs and hidden states". The recipes drop none of the
    word vectors; `encoder.input_dropout` is there for the other reading. Masks are drawn anew at
    each call in training, the same for all its time steps.
    """

    @checked
    def __init__(
        self,
        input_size: Count,
        units: Count,
        layers: Count = 2,
        dropout: Dropout = 0.0,
        input_dropout: Dropout = 0.0,
        init: NonNegative | None = 0.1,
    ):
        """Draw the parameters.

        input_size: numbers in a word vector.
        units: of each layer.
        layers: how many.
        dropout: share of the units that is dropped.
        input_dropout: share of the numbers of word vectors that is dropped.
        init: half-width of the uniform distribution; None: 1/√units.
        """
        super().__init__([input_size] + [units] * layers, init)
        self.dropout = dropout
        self.unrolled = dropout > 0  # without masks PyTorch's own layer runs it
        self.input_dropout = input_dropout

    def layer_input(self, layer: int, x: Tensor) -> Tensor:
        """Drop entries of the word vectors; other layers read what is masked already."""
        return x if layer else locked_dropout(x, self.input_dropout)

    def recurrent_mask(self, layer: int, hidden: Tensor) -> Tensor | None:
        """Draw one mask for the recurrence, the next layer and the output."""
        return keep_mask(hidden, self.dropout) if self.dropout else None
