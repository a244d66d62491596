"""A second derivative is refused wherever the backward pass is written out."""

import pytest
import torch

from course_lib.models import AWDLSTM, QRNN
from course_lib.output_layers import (
    FullWords,
    GeneralizedSigSoftmax,
    PiecewiseLinearSoftmax,
    SoftCappedSoftmax,
    Softmax,
    SpectralWords,
)
from course_lib.output_layers.objectives import _Softened
from course_lib.regularizers import CosineRegularizer, Orthogonality


def bent(kind):
    """Return Σ log P of a layer whose logits are bent, and the contexts."""
    hidden = torch.randn(3, 4, requires_grad=True)
    return kind(FullWords(7, 4)).log_prob(hidden)[:, 2].sum(), hidden


def encoded(encoder):
    x = torch.randn(5, 2, 4, requires_grad=True)
    return encoder(x)[0].sum(), x


def penalised(regularizer):
    words = SpectralWords(7, 4)
    return regularizer(words), words.U


def softened():
    logits = torch.randn(3, 7, requires_grad=True)
    return _Softened.apply(logits, torch.randn(3, 7), 2.0).sum(), logits


def whole():
    hidden = torch.randn(3, 4, requires_grad=True)
    return Softmax(FullWords(7, 4))(hidden, torch.tensor([1, 2, 3]))[0], hidden


def expected():
    hidden = torch.randn(3, 4, requires_grad=True)
    return Softmax(FullWords(7, 4)).expectation(hidden, torch.randn(7, 2)).sum(), hidden


CASES = {
    "expectation": expected,
    "bend": lambda: bent(GeneralizedSigSoftmax),
    "cap": lambda: bent(SoftCappedSoftmax),
    "pieces": lambda: bent(PiecewiseLinearSoftmax),
    "LSTM": lambda: encoded(AWDLSTM(4, (6, 4))),
    "QRNN": lambda: encoded(QRNN(4, (6, 4))),
    "cosine": lambda: penalised(CosineRegularizer()),
    "Gram": lambda: penalised(Orthogonality()),
    "softened": softened,
    "kernel": whole,
}


@pytest.mark.parametrize("name", CASES)
def test_a_gradient_of_gradients_is_refused(name):
    """Also where the incoming gradient needs none, as that of a sum."""
    loss, leaf = CASES[name]()
    (gradient,) = torch.autograd.grad(loss, leaf, retain_graph=True)
    assert gradient.isfinite().all()
    with pytest.raises(RuntimeError, match="cannot be differentiated again: leave out create_gra"):
        torch.autograd.grad(loss, leaf, create_graph=True)
