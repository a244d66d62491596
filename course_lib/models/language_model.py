"""Language and translation models: words to read, an encoder, an output layer to predict with."""

from typing import Any, NamedTuple

from torch import Tensor, nn

from course_lib.dropout import locked_dropout
from course_lib.models.input_embedding import InputEmbedding
from course_lib.output_layers.layer import OutputLayer, Words
from course_lib.output_layers.objectives import CrossEntropy, Objective
from course_lib.protocols import Learning
from course_lib.ranges import Dropout, checked
from course_lib.regularizers import Activations
from course_lib.targets import IGNORE


class Step(NamedTuple):
    """The results of one call of a language or translation model."""

    loss: Tensor | None  # to be differentiated: the objective, a mean over targets, and penalties
    nll: Tensor | None  # its cross-entropy part in nats a token, without gradient
    hidden: Tensor  # (T, B, d), the contexts
    state: Any  # hand it to the next call


class OutputModel(nn.Module):
    """Words to read, an encoder, an output layer and what is minimised; a model adds `forward`.

    The loss is computed inside `forward`, so that a data-parallel wrapper sees one call. Tying
    (inan2017, section 4) is giving `words` and `output_layer` the same word matrix.
    """

    @checked
    def __init__(
        self,
        words: Words,
        encoder: Any,
        output_layer: OutputLayer,
        objective: Objective | None = None,
        regularizers: tuple = (),
        input_embedding: InputEmbedding | None = None,
        output_dropout: Dropout = 0.0,
    ):
        """Put the parts together; ValueError where encoder and output layer do not fit.

        words: the word matrix that reads.
        encoder: from word vectors to contexts, whose length is its `output_size`.
        output_layer: from contexts to probabilities, with the word matrix that predicts.
        objective: what is minimised; None: the cross-entropy.
        regularizers: called with the output layer's words and the step's `Activations`.
        input_embedding: how words are read in training; None: as they are.
        output_dropout: share of the encoder's output that is dropped, one mask a sequence.
        """
        super().__init__()
        self.words = words
        self.encoder = encoder
        self.output_layer = output_layer
        self.objective = objective or CrossEntropy()
        self.regularizers = tuple(regularizers)
        self.input_embedding = input_embedding or InputEmbedding()
        self.output_dropout = output_dropout
        size = getattr(encoder, "output_size", None)
        if size != output_layer.hidden_size:
            raise ValueError(
                f"the encoder's output_size, the length of a context, is {size}; the output layer "
                f"reads contexts of {output_layer.hidden_size} numbers"
            )
        for regularizer in self.regularizers:
            if isinstance(regularizer, Learning):
                regularizer.prepare(output_layer)

    @property
    def tied(self) -> bool:
        """True if one matrix reads and predicts."""
        return self.words is self.output_layer.words

    def predict(self, raw: Tensor, state: Any, target: Tensor | None, tokens: Tensor) -> Step:
        """Return the step that follows from the encoder's output.

        raw, state: the encoder's output (T, B, d), and its state, which is handed on.
        target: (T, B); None: no loss.
        tokens: (T, B), those that were read, for the regularizers.

        In evaluation mode there is no dropout, no regularizer and no loss but the cross-entropy.
        """
        hidden = locked_dropout(raw, self.output_dropout, self.training)
        if target is None:
            return Step(None, None, hidden, state)
        objective = self.objective if self.training else CrossEntropy()
        soft = None
        if objective.needs_soft_targets:  # ỹ ∝ exp(E E_y / τ), E the input embedding
            soft = self.words.factors(self.words(target.flatten().clamp(min=0)))
        loss, nll = self.output_layer(hidden, target, objective, soft)
        if self.training:
            tokens = tokens.masked_fill(target == IGNORE, IGNORE)
            activations = Activations(hidden, raw, self.output_layer, tokens)
            for regularizer in self.regularizers:
                loss = loss + regularizer(self.output_layer.words, activations)
        return Step(loss, nll, hidden, state)


class LanguageModel(OutputModel):
    """Tokens in, contexts and, with a target, the loss out."""

    def forward(self, tokens: Tensor, state: Any = None, target: Tensor | None = None) -> Step:
        """Return the step of tokens and target (T, B); a state of None starts anew."""
        raw, state = self.encoder(self.input_embedding(self.words, tokens), state)
        return self.predict(raw, state, target, tokens)


class TranslationModel(OutputModel):
    """Source and target so far in, contexts and, with a target, the loss out.

    `words` read both languages; giving `output_layer` the same ones ties three ways, as all papers
    here do (Vaswani et al. 2017, section 3.4). `encoder` is a `Transformer`, an
    `LSTMTranslator`, or what has their calls.
    """

    def forward(
        self, source: Tensor, tokens: Tensor, target: Tensor | None = None, state: Any = None
    ) -> Step:
        """Return the step of a batch; its state is None in training.

        source: (S, B), [x … eos] padded with 0.
        tokens: (T, C), [bos y …]. C is B or a multiple: a source's hypotheses stand in a row.
        target: (T, C), [y … eos] with IGNORE where padded; None: no loss.
        state: of an earlier call, whose tokens these go on with. Its source, which is the same, is
            not encoded again. None: the source is read now.
        """
        x = self.input_embedding(self.words, source) if state is None else None
        y = self.input_embedding(self.words, tokens)
        padding = source == 0
        raw, state = self.encoder(x, y, padding, state)
        return self.predict(raw, None if self.training else state, target, tokens)
