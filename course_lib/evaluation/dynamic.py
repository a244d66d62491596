"""Dynamic evaluation: the model goes on learning from the text it is tested on (Krause 2018)."""

import math
from collections.abc import Iterator
from itertools import product

import torch
from torch import Tensor, nn
from tqdm import tqdm

from course_lib.data.batches import columns
from course_lib.models.state import detach

SEGMENT = 5  # tokens between two updates


def _gradients(model: nn.Module, text: Tensor, length: int) -> Iterator[tuple[Tensor, int]]:
    """Leaves the model's gradients on each segment of text (L, B), state carried: (nll, tokens)."""
    state = None
    for start in range(0, len(text) - 1, length):
        target = text[start + 1 : start + 1 + length]
        step = model(text[start : start + len(target)], state, target)
        state = detach(step.state)
        step.loss.backward()
        yield step.nll, target.numel()
        model.zero_grad()


def mean_squares(
    model: nn.Module, tokens: Tensor, batch: int = 100, length: int = SEGMENT, progress: bool = True
) -> dict[str, Tensor]:
    """MS_g by parameter: the mean of the squared gradients over the segments of the train split."""
    text = columns(tokens, batch).to(next(model.parameters()).device)
    squares = {name: torch.zeros_like(p) for name, p in model.named_parameters()}
    was_training, segments = model.training, -(-(len(text) - 1) // length)
    model.eval()
    try:
        steps = _gradients(model, text, length)
        for _ in tqdm(steps, total=segments, disable=not progress, desc="gradient statistics"):
            for name, p in model.named_parameters():
                if p.grad is not None:
                    squares[name].addcmul_(p.grad, p.grad, value=1 / segments)
    finally:
        model.train(was_training)
    return squares


def dynamic_perplexity(
    model: nn.Module,
    tokens: Tensor,
    eos: int,
    squares: dict[str, Tensor],
    rate: float,
    decay: float,
    epsilon: float = 1e-3,
    length: int = SEGMENT,
    progress: bool = True,
) -> float:
    """Perplexity of a split at batch 1, each segment scored before the model learns from it:

        Δθ = −η g / (√MS_g + ε) + λ (θ₀ − θ) √MS_g / mean √MS_g,   λ √MS_g / mean ≤ 1

    η = `rate`, λ = `decay`, the mean over all parameters. The weights return to θ₀ at the end.

    The released code divides by the sum of the parameters' means instead, and takes the root of
    the sum over the segments unless told otherwise: constants, which its λ, η and ε absorb. Search
    them anew rather than copy its values.
    """
    parameters = {n: p for n, p in model.named_parameters() if p.requires_grad}
    roots = {name: squares[name].sqrt() for name in parameters}
    mean = sum(r.sum() for r in roots.values()) / sum(r.numel() for r in roots.values())
    home = {name: p.detach().clone() for name, p in parameters.items()}
    scale = {name: rate / (r + epsilon) for name, r in roots.items()}
    pull = {name: (decay * r / mean).clamp_(max=1) for name, r in roots.items()}
    text = torch.cat([tokens.new_tensor([eos]), tokens])[:, None].to(mean.device)
    was_training, total = model.training, torch.zeros((), dtype=torch.float64, device=mean.device)
    model.eval()
    try:
        steps = _gradients(model, text, length)
        bar = tqdm(steps, total=-(-len(tokens) // length), disable=not progress, desc="dynamic")
        for nll, count in bar:
            total += nll.double() * count
            with torch.no_grad():
                for name, p in parameters.items():
                    gradient = p.grad if p.grad is not None else torch.zeros_like(p)
                    p.lerp_(home[name], pull[name]).addcmul_(gradient, scale[name], value=-1)
    finally:
        with torch.no_grad():
            for name, p in parameters.items():
                p.copy_(home[name])
        model.zero_grad()
        model.train(was_training)
    return math.exp(total.item() / len(tokens))


def search(model, tokens, eos, squares, rates, decays, epsilons=(1e-3,), **options) -> list[dict]:
    """Perplexity of every combination, best first: for a validation split."""
    rows = []
    for rate, decay, epsilon in product(rates, decays, epsilons):
        value = dynamic_perplexity(model, tokens, eos, squares, rate, decay, epsilon, **options)
        rows.append({"rate": rate, "decay": decay, "epsilon": epsilon, "perplexity": value})
    return sorted(rows, key=lambda row: row["perplexity"])
