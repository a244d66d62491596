"""Perplexity exactly as published figures mean it."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.data.batches import columns
from course_lib.errors import CourseError
from course_lib.models import LanguageModel
from course_lib.models.state import detach
from course_lib.protocols import WithMemory
from course_lib.ranges import Count, checked


@contextmanager
def float32_products(kind: str) -> Iterator[None]:
    """Have a GPU multiply float32 numbers as `kind` says: "ieee", with all their bits, or "tf32".

    By itself PyTorch takes TF32 for recurrent layers and all bits for other products.
    """
    # Each kind of layer is read and set by itself: PyTorch refuses to read its one flag for both
    # where they differ, and that flag would leave them to a setting for all of PyTorch.
    cudnn: Any = torch.backends.cudnn  # whose flags are made at run time
    matmul = torch.backends.cuda.matmul
    before = cudnn.rnn.fp32_precision, cudnn.conv.fp32_precision, matmul.fp32_precision
    cudnn.allow_tf32 = kind == "tf32"
    cudnn.rnn.fp32_precision = cudnn.conv.fp32_precision = matmul.fp32_precision = kind
    try:
        yield
    finally:
        cudnn.allow_tf32 = "tf32" in before[:2]
        cudnn.rnn.fp32_precision, cudnn.conv.fp32_precision, matmul.fp32_precision = before


@contextmanager
def exactly(model: nn.Module) -> Iterator[None]:
    """Compute without autocast on the model's device, and all products in full float32.

    Both are settings of the process, not of the model. No iterator may hand anything on within
    them: its reader would be held to them, and the end would restore what there no longer was.
    """
    device = next(model.parameters()).device.type
    with torch.autocast(device, enabled=False), float32_products("ieee"):
        yield


@contextmanager
def evaluating(model: nn.Module, memory: int | None = None, clamp: int | None = None):
    """Evaluate a model `exactly` and `in_evaluation_mode`, which takes the same arguments."""
    with in_evaluation_mode(model, memory, clamp), exactly(model):
        yield model


@contextmanager
def in_evaluation_mode(model: Any, memory: int | None = None, clamp: int | None = None):
    """Set a model to evaluation mode, and every module back to its own mode afterwards.

    model: the model that is evaluated.
    memory, clamp: of a Transformer-XL, which is evaluated with a longer memory than it was trained
        with (Dai et al. 2019, section 4.1), the same for every token, so that the length of the
        segments does not matter. None for both keeps its own; CourseError for other encoders.
    """
    training = [module for module in model.modules() if module.training]
    longer = (memory, clamp) != (None, None)
    encoder: Any = model.encoder if longer else None
    if longer:
        if not isinstance(encoder, WithMemory):
            raise CourseError(f"{type(encoder).__name__} has no memory to lengthen or to clamp")
        model.encoder = encoder.with_memory(
            encoder.memory if memory is None else memory, encoder.clamp if clamp is None else clamp
        )
    model.eval()
    try:
        yield model
    finally:
        if longer:
            model.encoder = encoder
        for module in training:
            module.training = True


def check_weights(model: nn.Module) -> None:
    """Raise a CourseError that names the first parameter which holds NaN or infinity."""
    for name, parameter in model.named_parameters():
        if not parameter.isfinite().all():
            raise CourseError(
                f"the weights are broken: {name} holds a number that is not finite; take an "
                "earlier checkpoint"
            )


def best_first(rows: list[dict]) -> list[dict]:
    """Return the rows of a search by their "perplexity", those that diverged to NaN last."""
    return sorted(rows, key=lambda row: (math.isnan(row["perplexity"]), row["perplexity"]))


def segments(model: Any, text: Tensor, length: int, loss: bool = True) -> Iterator[Any]:
    """Yield (step, target) of each segment of text (L, B) in `length` tokens, state carried.

    step: what the model returns of the segment; it has a loss only where `loss` asks for it.
    target: the tokens after those that were read.
    """
    state = None
    for start in range(0, len(text) - 1, length):
        target = text[start + 1 : start + 1 + length]
        step = model(text[start : start + len(target)], state, target if loss else None)
        state = detach(step.state)
        yield step, target


@checked
@torch.no_grad()
def perplexity(
    model: nn.Module,
    tokens: Tensor,
    eos: int,
    batch: Count = 1,
    length: Count = 512,
    memory: int | None = None,
    clamp: int | None = None,
) -> float:
    """Return exp(mean −log P) over every token of a split, in float32 or wider, state carried.

    model: is left in the mode that it was in.
    tokens, eos: the split (L,), whose first token is predicted from eos.
    batch: contiguous columns that the split is cut into. At batch 1 all L tokens count; larger
        batches are quicker, for monitoring.
    length: tokens that are processed at once; the value for an LSTM does not depend on it.
    memory, clamp: as `evaluating` takes them.
    """
    device = next(model.parameters()).device
    text = columns(tokens, batch, before=eos).to(device)
    total = torch.zeros((), dtype=torch.float64, device=device)
    count = 0
    with evaluating(model, memory, clamp):
        for step, target in segments(model, text, length):
            total += step.nll.double() * target.numel()
            count += target.numel()
    return (total / count).exp().item()


def scored(model: LanguageModel, tokens: Tensor, eos: int, length: int) -> Iterator[Any]:
    """Yield (−log P (T,), h (T, d), target (T,)) of each segment of a split, state carried.

    CourseError for a split without words.
    """
    text = columns(tokens, 1, before=eos).to(next(model.parameters()).device)
    for step, target in segments(model, text, length, loss=False):
        nll, _ = model.output_layer(step.hidden, target, reduction="none")
        yield nll[:, 0], step.hidden[:, 0], target[:, 0]


@torch.no_grad()
def token_losses(
    model: LanguageModel,
    tokens: Tensor,
    eos: int,
    length: int = 512,
    memory: int | None = None,
    clamp: int | None = None,
) -> Tensor:
    """Return −log P of every token of a split (L,) in nats: what `perplexity` averages at batch 1.

    The arguments are those of `perplexity`. The losses lie on the model's device.
    """
    with evaluating(model, memory, clamp):
        return torch.cat([nll for nll, _, _ in scored(model, tokens, eos, length)])
