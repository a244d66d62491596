"""What modules promise: who has which protocol, and that a stranger's class takes part."""

import pytest
import torch
from torch import nn

from course_lib import models, protocols, regularizers
from course_lib.output_layers import FullWords, SpectralWords
from course_lib.output_layers.gating import GatedSoftmax


def words():
    return FullWords(9, 4)


PARTS = {
    "Annealed": (lambda: models.InputEmbedding(noise=0.1), words),
    "Constrained": (words, lambda: models.InputEmbedding()),
    "Accumulating": (lambda: GatedSoftmax(words()), words),
    "Blocked": (lambda: models.TransformerXL(4, 2, 2, 2, 8), lambda: models.RHN(4, 4, 2)),
    "Unrolled": (lambda: models.RHN(4, 4, 2), lambda: models.AWDLSTM(4, (4,))),
    "WithMemory": (
        lambda: models.TransformerXL(4, 2, 2, 2, 8),
        lambda: models.Transformer(4, 1, 2, 8),
    ),
    "Translator": (lambda: models.Transformer(4, 1, 2, 8), lambda: models.TransformerXL(4, 2, 2)),
    "SpectrumPrior": (
        lambda: regularizers.PolynomialPrior(1.0, 1.0, 1.0),
        lambda: regularizers.MuLoss(),
    ),
    "Learning": (lambda: regularizers.PastDecode(), lambda: regularizers.MuLoss()),
    "Spectral": (lambda: SpectralWords(9, 4), words),
    "Sharded": (None, lambda: torch.zeros(2)),
    "Resharded": (None, words),
}


@pytest.mark.parametrize("name", PARTS)
def test_a_protocol_tells_who_has_it_from_who_has_not(name):
    protocol = getattr(protocols, name)
    has, has_not = PARTS[name]
    assert has is None or isinstance(has(), protocol)
    assert not isinstance(has_not(), protocol)


def test_every_protocol_is_documented_and_tested():
    own = {k for k, v in vars(protocols).items() if getattr(v, "_is_protocol", False)}
    own.discard("Protocol")
    assert own == set(PARTS)
    assert all(len(getattr(protocols, name).__doc__.split()) > 20 for name in own)


def test_which_encoders_translate_is_known_of_the_class():
    translators = {
        name
        for name in models.__all__
        if isinstance(kind := getattr(models, name), type)
        and issubclass(kind, protocols.Translator)
    }
    assert translators == {"Transformer", "LSTMTranslator"}


def test_a_strangers_module_takes_part_without_inheriting():
    class Stranger(nn.Module):
        def anneal(self, progress):
            self.progress = progress

    assert isinstance(Stranger(), protocols.Annealed)
    assert not isinstance(Stranger(), protocols.Constrained)
