"""Perplexity exactly as published figures mean it."""

import math

import torch
from torch import Tensor

from course_lib.data.batches import columns
from course_lib.models.state import detach


@torch.no_grad()
def perplexity(model, tokens: Tensor, eos: int, batch: int = 1, length: int = 512) -> float:
    """exp(mean −log P) over every token of a split (L,), in float32, state carried.

    The first token is predicted from `<eos>`. At batch 1 all L tokens count, and for an LSTM the
    value does not depend on `length`, the segment processed at once. Larger batches cut the split
    into contiguous columns: quicker, for monitoring. The model is left in the mode it was in.
    """
    device = next(model.parameters()).device
    text = columns(torch.cat([tokens.new_tensor([eos]), tokens]), batch).to(device)
    was_training, state = model.training, None
    model.eval()
    total, count = torch.zeros((), dtype=torch.float64, device=device), 0
    try:
        for start in range(0, len(text) - 1, length):
            target = text[start + 1 : start + 1 + length]
            step = model(text[start : start + len(target)], state, target)
            state = detach(step.state)
            total += step.nll.double() * target.numel()
            count += target.numel()
    finally:
        model.train(was_training)
    return math.exp(total.item() / count)
