"""A translation model: one word matrix for both languages, an encoder-decoder, an output layer."""

from typing import Any

from torch import Tensor

from course_lib.models.language_model import OutputModel, Step

PAD = 0  # the id that fills up short sentences


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
        tokens: (T, C), [bos y …]. C is B or a multiple of it: several hypotheses for each source,
            one after the other.
        target: (T, C), [y … eos] with IGNORE where padded; None: no loss.
        state: of an earlier call, whose tokens these go on with. Its source, which is the same, is
            not encoded again. None: the source is read now.
        """
        x = self.input_embedding(self.words, source) if state is None else None
        y = self.input_embedding(self.words, tokens)
        raw, state = self.encoder(x, y, source == PAD, state)
        return self.predict(raw, None if self.training else state, target)
