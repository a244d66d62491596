"""A training step of the translation papers' Transformer, in the course's form and a plain one."""

from dataclasses import dataclass

import torch
from torch import nn

from benchmarks.reference_models import PlainTranslator
from benchmarks.timing import zipf_text
from benchmarks.work import PASSES, Reference, Training, Work, stepping
from course_lib.models import Transformer, TranslationModel
from course_lib.output_layers import FullWords, Softmax


@dataclass(frozen=True)
class Translation(Training):
    """A training step of the Transformer on `batch` pairs, three ways tied.

    Both sentences of a pair have `length` pieces, and none is padded.
    """

    vocabulary: int
    size: int
    layers: int  # of the encoder, and of the decoder
    heads: int
    feedforward: int
    batch: int
    length: int
    reference: Reference | None = None
    rate: float = 1e-3

    def build(self, kind: str, device: str) -> nn.Module:
        """Return the model in training mode."""
        shape = self.layers, self.heads, self.feedforward
        if kind == "plain":
            return PlainTranslator(self.vocabulary, self.size, *shape).to(device)
        words = FullWords(self.vocabulary, self.size, self.size**-0.5, normal=True)
        encoder = Transformer(self.size, *shape)
        return TranslationModel(words, encoder, Softmax(words, bias=False)).to(device)

    def stepper(self, kind, precision, device):
        """Return a step on random pairs: forward, backward, clipping and SGD."""
        torch.manual_seed(1)
        model = self.build(kind, device)
        count = self.batch * self.length
        text = 1 + zipf_text(self.vocabulary - 1, 3 * count)  # piece 0 is padding
        source, tokens, target = text.view(3, self.length, self.batch).to(device)

        def losses():
            made = model(source, tokens, target)
            yield made if kind == "plain" else made.loss

        return stepping(model, losses, self.rate, kind, precision, device, clip=1.0)

    def work(self, precision: str) -> Work:
        """6 operations for each weight of a product, and for each pair of positions that is seen.

        A target piece comes with a source piece, since both sentences are of one length.
        """
        d, T = self.size, self.length
        network = 2 * d * self.feedforward
        encoder = 4 * d * d + network + 2 * d * T  # the last: scores and values of all pairs
        decoder = 8 * d * d + network + 2 * d * (T + (T + 1) / 2)  # of the source, of the target
        products = self.layers * (encoder + decoder) + d * self.vocabulary
        weights = self.layers * (12 * d * d + 2 * network) + d * self.vocabulary
        return Work(6 * products, 0.0, PASSES * weights / (self.batch * T))
