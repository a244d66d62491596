"""Dynamic evaluation: the model goes on learning from the text it is tested on (Krause 2018)."""

from collections.abc import Iterator
from itertools import product, repeat

import torch
from torch import Tensor, nn
from tqdm import tqdm

from course_lib.data.batches import columns
from course_lib.evaluation.perplexity import (
    best_first,
    evaluating,
    exactly,
    full_float32,
    in_evaluation_mode,
)
from course_lib.models.state import detach

SEGMENT = 5  # tokens between two updates
EPSILON = 2e-5  # for roots of mean squares; of sums over the segments it would be some 1e-3
PART = 1 << 17  # numbers of a parameter that are updated at once on a CPU


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
    model: nn.Module,
    tokens: Tensor,
    batch: int = 100,
    length: int = SEGMENT,
    progress: bool = True,
    where: str = "the train split",
) -> dict[str, Tensor]:
    """MS_g by parameter: the mean of the squared gradients over the segments of the train split.

    CourseError that names `where` if its `batch` columns would have fewer than two tokens.
    """
    text = columns(tokens, batch, where).to(next(model.parameters()).device)
    squares = {name: torch.zeros_like(p) for name, p in model.named_parameters()}
    segments = -(-(len(text) - 1) // length)
    with evaluating(model):
        steps = _gradients(model, text, length)
        for _ in tqdm(steps, total=segments, disable=not progress, desc="gradient statistics"):
            for name, p in model.named_parameters():
                if p.grad is not None:
                    squares[name].addcmul_(p.grad, p.grad, value=1 / segments)
    return squares


def losses(
    model: nn.Module,
    tokens: Tensor,
    eos: int,
    squares: dict[str, Tensor],
    rate: float,
    decay: float,
    epsilon: float = EPSILON,
    length: int = SEGMENT,
) -> Iterator[tuple[Tensor, int]]:
    """Yield the nats a token and the number of tokens of each segment of a split (L,).

    A segment is scored before the model learns from it as `dynamic_perplexity` says.
    The model is in evaluation mode meanwhile. Its weights return when the iterator ends or is
    closed. Products are in full float32, or in the type that autocast has where it is read.
    """
    updates = {p: squares[n].sqrt() for n, p in model.named_parameters() if p.requires_grad}
    mean = torch.stack([r.mean() for r in updates.values()]).mean()
    updates = {p: _Update(p, r, rate, (decay / mean).item(), epsilon) for p, r in updates.items()}
    text = torch.cat([tokens.new_tensor([eos]), tokens])[:, None].to(mean.device)
    hooks = [p.register_post_accumulate_grad_hook(u) for p, u in updates.items()]
    with in_evaluation_mode(model):
        try:
            steps = _gradients(model, text, length)
            while True:
                with full_float32():  # left before anything is handed on
                    step = next(steps, None)
                if step is None:
                    break
                for update in updates.values():
                    update.finish()
                if torch.is_autocast_enabled(mean.device.type):
                    torch.clear_autocast_cache()  # of narrow copies of the weights before
                yield step
        finally:
            for hook in hooks:
                hook.remove()
            for update in updates.values():
                update.go_home()
            model.zero_grad()


class _Update:
    """One parameter's step, made as soon as its gradient is there and nothing else needs it.

    The gradient is still in the cache then, and its memory serves the next one. What is left is
    traffic: the step walks through θ, θ₀, √MS_g and g together, a part at a time that the caches
    beside the processors hold.
    """

    def __init__(self, parameter, root, rate, decay, epsilon):
        self.parameter, self.root, self.home = parameter, root, parameter.detach().clone()
        self.rate, self.decay, self.epsilon = rate, decay, epsilon
        numbers = PART if root.device.type == "cpu" else root.numel()
        self.spare, self.done = torch.empty_like(root.view(-1)[:numbers]), False

    @torch.no_grad()
    def __call__(self, parameter):
        """θ ← θ + min(λ √MS_g / mean, 1) (θ₀ − θ) − η g / (√MS_g + ε); forgets g."""
        flat = [t.view(-1).split(len(self.spare)) for t in (parameter, self.home, self.root)]
        gradients, self.done = repeat(None), True
        if parameter.grad is not None:
            gradients = parameter.grad.view(-1).split(len(self.spare))
        for p, home, root, gradient in zip(*flat, gradients, strict=False):
            spare = self.spare[: len(p)]
            p.lerp_(home, torch.mul(root, self.decay, out=spare).clamp_(max=1))
            if gradient is not None:
                torch.add(root, self.epsilon, out=spare)
                p.addcdiv_(gradient, spare, value=-self.rate)
        parameter.grad = None

    def finish(self):
        """The way back alone, if this segment gave the parameter no gradient."""
        if not self.done:
            self(self.parameter)
        self.done = False

    @torch.no_grad()
    def go_home(self):
        """Back to θ₀."""
        self.parameter.copy_(self.home)


def dynamic_perplexity(
    model: nn.Module,
    tokens: Tensor,
    eos: int,
    squares: dict[str, Tensor],
    progress: bool = True,
    **settings,
) -> float:
    """Return the perplexity of a split at batch 1, each segment scored before the model learns it.

        Δθ = −η g / (√MS_g + ε) + λ (θ₀ − θ) √MS_g / mean √MS_g,   λ √MS_g / mean ≤ 1

    settings as `losses` takes them: η = `rate`, λ = `decay`, ε = `epsilon`, `length` of a segment.
    The weights return to θ₀ at the end.

    The paper says "mean" of all parameters; the code that made its figures, and this, means the
    mean of the tensors' own means. A bias vector then counts for as much as a matrix, and as its
    gradients are larger, the same λ pulls a matrix back several times more weakly than with the
    mean of all numbers: a published λ belongs to the former.

    Published settings come in two conventions: the released code took the root of the *sum* of the
    squares over the segments once and takes that of their mean now, as here. The older ε, 1e-3, is
    to be divided by the root of the number of segments, and η with it; the older λ, whose mean was
    a sum over the tensors, by their number.
    """
    steps = losses(model, tokens, eos, squares, **settings)
    segments = -(-len(tokens) // settings.get("length", SEGMENT))
    total = 0.0
    with exactly(model):
        for nll, count in tqdm(steps, total=segments, disable=not progress, desc="dynamic"):
            total = total + nll.double() * count
    return (total / len(tokens)).exp().item()  # inf, not an error, where it diverges


def combinations(rates, decays, epsilons=(EPSILON,)) -> list[dict]:
    """All settings that can be made of these, as `losses` names them."""
    names = "rate", "decay", "epsilon"
    return [dict(zip(names, v, strict=True)) for v in product(rates, decays, epsilons)]


def search(
    model, tokens, eos, squares, rates, decays, epsilons=(EPSILON,), **options
) -> list[dict]:
    """Perplexity of every combination, best first, diverged ones last: for a validation split."""
    rows = []
    for settings in combinations(rates, decays, epsilons):
        value = dynamic_perplexity(model, tokens, eos, squares, **settings, **options)
        rows.append(settings | {"perplexity": value})
    return best_first(rows)
