"""AWD-LSTM (Merity, Keskar and Socher 2018): an LSTM stack with DropConnect on its recurrence."""

from course_lib.dropout import locked_dropout
from course_lib.models.entry_dropout import entry_dropout
from course_lib.models.lstm import LSTMStack
from course_lib.ranges import Count, Dropout


class AWDLSTM(LSTMStack):
    """Three layers, the last of them as wide as a word vector, so that the matrix can be tied.

    In training entries of each recurrent matrix are dropped, once a call, and so the same for all
    time steps (DropConnect): a function of the parameter, which itself is untouched and serves
    evaluation whole. One mask a sequence drops entries of the word vectors and of what a layer
    hands to the next. Dropout of the last layer's output, of rows of the word matrix, and the
    penalties on activations are the language model's: `output_dropout`, `InputEmbedding`,
    `regularizers`.
    """

    def __init__(
        self,
        input_size: int,
        units: tuple[Count, ...] = (1150, 1150, 400),
        weight_drop: Dropout = 0.5,
        input_dropout: Dropout = 0.4,
        hidden_dropout: Dropout = 0.25,
        init: float | None = None,
    ):
        """`units`: of each layer; the mixture models have (960, 960, 620) and (1150, 1150, 650)."""
        super().__init__([input_size, *units], init)
        self.weight_drop, self.input_dropout = weight_drop, input_dropout
        self.hidden_dropout = hidden_dropout

    def layer_input(self, layer, x):
        """Locked dropout of the word vectors, or between layers."""
        return locked_dropout(x, self.hidden_dropout if layer else self.input_dropout)

    def recurrent_weight(self, layer):
        """DropConnect."""
        return entry_dropout(self.recurrent[layer], self.weight_drop)
