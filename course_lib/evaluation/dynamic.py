"""Dynamic evaluation: the model goes on learning from the text it is tested on (Krause 2018).

`mean_squares` passes once over the train split. `losses` then passes over the text: it scores a
segment, steps on the gradients of that segment, and goes on to the next. `dynamic_perplexity` adds
the scores up; it has the formula of the step.
"""

from collections.abc import Iterator
from itertools import repeat
from typing import Any

import torch
from torch import Tensor, nn
from tqdm import tqdm

from course_lib.data.batches import columns
from course_lib.errors import CourseError
from course_lib.evaluation import perplexity
from course_lib.ranges import Count, NonNegative, checked

SEGMENT = 5  # tokens between two updates
EPSILON = 2e-5  # for roots of mean squares; of sums over the segments it would be some 1e-3
PART = 1 << 17  # numbers of a parameter that are updated at once on a CPU


def _gradients(model: nn.Module, text: Tensor, length: int) -> Iterator[tuple[Tensor, int]]:
    """Yield (nats a token, number of tokens) of each segment of text (L, B), state carried.

    While a segment is handed on, the parameters hold their gradients of it.
    """
    model.zero_grad()  # of what a caller left
    for step, target in perplexity.segments(model, text, length):
        step.loss.backward()
        yield step.nll, target.numel()
        model.zero_grad()


@checked
def mean_squares(
    model: nn.Module,
    tokens: Tensor,
    batch: Count = 100,
    length: Count = SEGMENT,
    progress: bool = True,
    where: str = "the train split",
) -> dict[str, Tensor]:
    """Return MS_g by parameter: the mean over the train split's segments of the squared gradient.

    model: keeps its weights and its mode; its gradients are dropped.
    tokens: the train split, read in `batch` columns.
    length: tokens of a segment.
    progress: whether a bar is shown.
    where: what the CourseError for columns of fewer than two tokens calls the split.
    """
    text = columns(tokens, batch, where).to(next(model.parameters()).device)
    squares = {name: torch.zeros_like(p) for name, p in model.named_parameters()}
    count = -(-(len(text) - 1) // length)
    with perplexity.evaluating(model), torch.enable_grad():
        steps = _gradients(model, text, length)
        for _ in tqdm(steps, total=count, disable=not progress, desc="gradient statistics"):
            for name, p in model.named_parameters():
                if p.grad is not None:
                    squares[name].addcmul_(p.grad, p.grad, value=1 / count)
    return squares


@checked
def losses(
    model: nn.Module,
    tokens: Tensor,
    eos: int,
    squares: dict[str, Tensor],
    rate: NonNegative,
    decay: NonNegative,
    epsilon: NonNegative = EPSILON,
    length: Count = SEGMENT,
) -> Iterator[tuple[Tensor, int]]:
    """Yield (nats a token, number of tokens) of each segment of a split (L,).

    A segment is scored before the model learns from it. The model is in evaluation mode meanwhile,
    and its weights return when the iterator ends or is closed. Products are in full float32, or in
    autocast's type, where the caller iterates under autocast.

    model, tokens, eos: the first token is predicted from eos.
    squares: MS_g by parameter, as `mean_squares` returns it.
    rate, decay, epsilon, length: η, λ, ε and the segment, as `dynamic_perplexity` has them.

    CourseError for settings out of range, a split without tokens and squares of another model.
    """
    shapes = {name: p.shape for name, p in model.named_parameters()}
    if shapes != {name: square.shape for name, square in squares.items()}:
        raise CourseError("the squares are of another model; take the mean_squares of this one")

    text = columns(tokens, 1, before=eos).to(next(model.parameters()).device)

    # One update a parameter, which backpropagation calls as soon as the gradient is complete.
    roots = {p: squares[n].sqrt() for n, p in model.named_parameters() if p.requires_grad}
    mean = torch.stack([root.mean() for root in roots.values()]).mean()
    pull = (decay / mean).item()
    updates = [_Update(p, root, rate, pull, epsilon) for p, root in roots.items()]
    hooks = [u.parameter.register_post_accumulate_grad_hook(u) for u in updates]

    # The segments. What is set for the process is set back before anything is handed on.
    with perplexity.in_evaluation_mode(model):
        try:
            steps = _gradients(model, text, length)
            while True:
                with perplexity.float32_products("ieee"), torch.enable_grad():
                    step = next(steps, None)
                if step is None:
                    break
                for update in updates:
                    update.finish()
                if torch.is_autocast_enabled(mean.device.type):
                    torch.clear_autocast_cache()  # of narrow copies of the weights before
                yield step
        finally:
            for hook in hooks:
                hook.remove()
            for update in updates:
                update.parameter.detach().copy_(update.home)
            model.zero_grad()


class _Update:
    """The step of one parameter θ, called as the hook that runs when its gradient g is complete.

    g is still in the processor's cache then, and its memory serves the next gradient. The step is
    bound by memory traffic; on a CPU it walks through θ, θ₀, √MS_g and g in parts that fit a cache.
    """

    def __init__(self, parameter: Tensor, root: Tensor, rate: float, pull: float, epsilon: float):
        self.parameter = parameter
        self.root = root  # √MS_g
        self.home = parameter.detach().clone()  # θ₀
        self.rate = rate
        self.pull = pull  # λ / mean √MS_g
        self.epsilon = epsilon
        numbers = PART if root.device.type == "cpu" else root.numel()
        self.spare = torch.empty_like(root.view(-1)[:numbers])
        self.done = False  # whether this segment's step has been made

    @torch.no_grad()
    def __call__(self, parameter: Tensor) -> None:
        """Set θ ← θ + min(λ √MS_g / mean, 1) (θ₀ − θ) − η g / (√MS_g + ε), and forget g."""
        self.done = True
        flat = [t.view(-1).split(len(self.spare)) for t in (parameter, self.home, self.root)]
        gradients = repeat(None)
        if parameter.grad is not None:
            gradients = parameter.grad.view(-1).split(len(self.spare))
        for p, home, root, gradient in zip(*flat, gradients, strict=False):
            spare = self.spare[: len(p)]
            p.lerp_(home, torch.mul(root, self.pull, out=spare).clamp_(max=1))
            if gradient is not None:
                torch.add(root, self.epsilon, out=spare)
                p.addcdiv_(gradient, spare, value=-self.rate)
        parameter.grad = None

    def finish(self) -> None:
        """Pull θ back to θ₀ if this segment gave the parameter no gradient, and so no step."""
        if not self.done:
            self(self.parameter)
        self.done = False


def dynamic_perplexity(
    model: nn.Module,
    tokens: Tensor,
    eos: int,
    squares: dict[str, Tensor],
    progress: bool = True,
    **settings: Any,
) -> float:
    """Return the perplexity of a split at batch 1, each segment scored before the model learns it.

        Δθ = −η g / (√MS_g + ε) + λ (θ₀ − θ) √MS_g / mean √MS_g,   λ √MS_g / mean ≤ 1

    model: has its own weights θ₀ again at the end.
    tokens, eos: the split (L,), whose first token is predicted from eos.
    squares: MS_g by parameter, as `mean_squares` returns it.
    progress: whether a bar is shown.
    settings: η = `rate`, λ = `decay`, ε = `epsilon` and `length` of a segment.

    The mean is of the tensors' own means, as in the code that made the paper's figures. A bias
    counts for as much as a matrix and has larger gradients. The same λ therefore pulls a matrix
    back several times less than with the mean of all numbers, which the paper suggests.

    The released code once took the root of the *sum* of the squares over the segments; now it takes
    that of their mean, as here. Divide an ε and an η for the sum by the root of the number of
    segments. The mean of λ was a sum over tensors then: divide such a λ by the number of tensors.
    """
    steps = losses(model, tokens, eos, squares, **settings)
    pieces = -(-len(tokens) // settings.get("length", SEGMENT))
    total: Any = 0.0
    with perplexity.exactly(model):
        for nll, count in tqdm(steps, total=pieces, disable=not progress, desc="dynamic"):
            total = total + nll.double() * count
    return (total / len(tokens)).exp().item()  # inf, not an error, where it diverges
