"""A language model: a word matrix to read with, an encoder, an output layer to predict with."""

from typing import Any, NamedTuple

from torch import Tensor, nn

from course_lib.output_layers.objectives import CrossEntropy, Objective


class Step(NamedTuple):
    """What one call of a language model gives."""

    loss: Tensor | None  # what to differentiate: the objective, a mean over target tokens
    nll: Tensor | None  # its cross-entropy part in nats a token, without gradient
    hidden: Tensor  # (T, B, d), the contexts
    state: Any  # hand it to the next call


class LanguageModel(nn.Module):
    """Tokens in, contexts and, with a target, the loss out.

    The loss is computed inside `forward`, so that a data-parallel wrapper sees one call. Tying
    (inan2017, section 4) is giving `words` and `output_layer` the same word matrix.
    """

    def __init__(
        self,
        words: nn.Module,
        encoder: nn.Module,
        output_layer: nn.Module,
        objective: Objective | None = None,
    ):
        super().__init__()
        self.words, self.encoder, self.output_layer = words, encoder, output_layer
        self.objective = objective or CrossEntropy()
        sizes = encoder.output_size, output_layer.words.shape[1]
        if sizes[0] != sizes[1]:
            raise ValueError(
                f"the encoder makes contexts of {sizes[0]} numbers, the words {sizes[1]}"
            )

    @property
    def tied(self) -> bool:
        """Whether one matrix reads and predicts."""
        return self.words is self.output_layer.words

    def forward(self, tokens: Tensor, state: Any = None, target: Tensor | None = None) -> Step:
        """tokens, target (T, B); state None starts anew. In evaluation mode: cross-entropy."""
        hidden, state = self.encoder(self.words(tokens), state)
        if target is None:
            return Step(None, None, hidden, state)
        objective = self.objective if self.training else CrossEntropy()
        soft = None
        if objective.needs_soft_targets:  # ỹ ∝ exp(E E_y / τ), E the input embedding
            soft = self.words.factors(self.words(target.flatten().clamp(min=0)))
        loss, nll = self.output_layer(hidden, target, objective, soft)
        return Step(loss, nll, hidden, state)
