"""AWD-LSTM (Merity, Keskar and Socher 2018): an LSTM stack with DropConnect on its recurrence."""

from torch import Tensor

from course_lib.dropout import entry_dropout, locked_dropout
from course_lib.models.lstm import LSTMStack
from course_lib.ranges import Count, Dropout, NonNegative, checked


class AWDLSTM(LSTMStack):
    """Three layers, the last of them as wide as a word vector, so that the matrix can be tied.

    In training entries of each recurrent matrix are dropped once a call, the same for all time
    steps (DropConnect); the parameter itself stays whole. One mask a sequence drops entries of the
    word vectors and of what a layer hands to the next. The language model does the rest: it drops
    entries of the last output (`output_dropout`) and rows of the word matrix (`InputEmbedding`),
    and penalises activations (`regularizers`).
    """

    @checked
    def __init__(
        self,
        input_size: Count,
        units: tuple[Count, ...] = (1150, 1150, 400),
        weight_drop: Dropout = 0.5,
        input_dropout: Dropout = 0.4,
        hidden_dropout: Dropout = 0.25,
        init: NonNegative | None = None,
    ):
        """Draw the parameters.

        input_size: numbers in a word vector.
        units: of each layer; the mixture models have (960, 960, 620) and (1150, 1150, 650).
        weight_drop, input_dropout, hidden_dropout: shares dropped of each recurrent matrix, of the
            word vectors, of what a layer hands to the next.
        init: half-width of the uniform distribution; None: 1/√units of each layer.
        """
        super().__init__([input_size, *units], init)
        self.weight_drop = weight_drop
        self.input_dropout = input_dropout
        self.hidden_dropout = hidden_dropout

    def layer_input(self, layer: int, x: Tensor) -> Tensor:
        return locked_dropout(x, self.hidden_dropout if layer else self.input_dropout)

    def recurrent_weight(self, layer: int) -> Tensor:
        return entry_dropout(self.recurrent[layer], self.weight_drop)
