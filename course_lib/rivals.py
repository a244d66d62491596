"""Other implementations on a GPU: the quickest that computes the same is taken.

For a GPU there are kernels that serve one card, and a compiler. Which of them is quicker than the
course's own code depends on the card and on the sizes. So each is compared with our code, timed
once, and then taken or left. On a CPU the course's own code is the quickest that was measured.
"""

import importlib.util
import warnings
from collections.abc import Callable
from functools import lru_cache, partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib import machine
from course_lib.machine import accelerated, quickest, total_memory
from course_lib.targets import IGNORE

LARGE = 1 << 22  # logits, below which a launch takes as long as the work
ROOM = 1 / 16  # share of the memory that three tables as large as all logits may take
# By how much two implementations may differ, as a share of the largest number, by the bytes of what
# their products read. TF32, which a library may take for float32, rounds to 11 bits.
ROUNDING = {2: 2e-2, 4: 2e-3, 8: 1e-9}
_EQUAL: dict[str, list[str]] = {}  # the ways that compute the same here, by question


def quickest_equal(
    question: str, ways: dict[str, Callable[..., Tensor]], dtype: torch.dtype, *arguments
) -> Callable:
    """Return the quickest of several implementations of one function.

    question: names the function, as in `machine.quickest`; sizes, types and what learns are added.
    dtype: of what the products read, which says what counts as rounding.
    ways: functions by name, of the same arguments; the first is right.
    arguments: tensors or None. Those that require a gradient are differentiated.

    A way that fails, or whose value or gradient differs by more than rounding, is left out with a
    warning. The number of rows, the first argument's length, counts as the power of two below it.
    """
    own, *others = ways
    rows = len(arguments[0])
    about = 1 << (rows.bit_length() - 1)  # random lengths are no question each
    shapes = [None if a is None else tuple(a.shape) for a in arguments]
    shapes = [(about, *s[1:]) if s and s[0] == rows else s for s in shapes]
    device = torch.cuda.get_device_name() if arguments[0].is_cuda else "cpu"
    learned = [a is not None and a.requires_grad for a in arguments]
    products = f"{dtype} by {torch.backends.cuda.matmul.fp32_precision}"
    question = f"{question}, {shapes}, gradients {learned}, {products} on {device}"
    if arguments[0].is_meta:  # a rehearsal has no numbers to compare, and no time
        return ways[own]
    if question not in _EQUAL:
        expected = _with_gradients(ways[own], arguments)
        timed = {own: partial(_with_gradients, ways[own], arguments)}
        for name in others:
            try:
                differs = _distance(_with_gradients(ways[name], arguments), expected)
                equal = differs <= ROUNDING[dtype.itemsize]
                fault = None if equal else f"it is {differs:.1g} of the largest off"
            except Exception as error:  # whatever another package may raise
                fault = f"it fails: {error}"
            if fault:
                warnings.warn(f"{name} is not used for {question}: {fault}", stacklevel=2)
            else:
                timed[name] = partial(_with_gradients, ways[name], arguments)
        _EQUAL[question] = [*timed]
        quickest(question, timed)
    taken = machine.CHOICES[question]  # a checkpoint may name one that is not here
    return ways[taken if taken in _EQUAL[question] else own]


def _with_gradients(way: Callable[..., Tensor], arguments) -> list[Tensor]:
    """Return the value and its gradients, when the device has finished them."""
    leaves = [a if a is None else a.detach().requires_grad_(a.requires_grad) for a in arguments]
    wanted = [leaf for leaf in leaves if leaf is not None and leaf.requires_grad]
    with torch.enable_grad():
        value = way(*leaves)
        result = [value.detach().clone()]  # a backward pass may write over what it has used up
        result += torch.autograd.grad(value.sum(), wanted) if wanted else ()
    if value.is_cuda:
        torch.cuda.synchronize()
    return result


def _distance(actual: list[Tensor], expected: list[Tensor]) -> float:
    """Return the largest difference as a share of the largest number, the worst of all tensors."""
    pairs = zip(actual, expected, strict=True)
    shares = [(a - b).abs().max() / b.abs().max().clamp(min=1e-30) for a, b in pairs]
    return torch.stack([share.double() for share in shares]).max().item()  # NaN, if one is


def softmax_loss(own: Callable, x: Tensor, matrix, bias, log_weights, target, dtype) -> Tensor:
    """Return the mean cross-entropy of Σ_k π_k softmax(x_k Mᵀ + bias), by the quickest kernel.

    own: the course's kernel, a function of x, matrix, bias and log_weights.
    x: (n, K, d); matrix: (N, d); bias: (N,) or None; log_weights: log π, (n, K), which only where K
    is 1 may be None; target: (n,), `IGNORE` where it does not count; dtype: of the products.
    """
    ways = {"course": own}
    size = x.shape[:2].numel() * len(matrix)
    if accelerated(x) and size >= LARGE:
        rival = partial(computed, target=target, dtype=dtype)
        table = 3 * size * torch.promote_types(dtype, torch.float32).itemsize
        if table <= ROOM * total_memory(x.device):
            ways["table"] = partial(rival, by_table)
        if hasattr(F, "linear_cross_entropy") and log_weights is None:
            ways["torch"] = partial(rival, by_torch)
        if importlib.util.find_spec("quack") and dtype.itemsize == 2 and log_weights is None:
            ways["QuACK"] = partial(rival, by_quack)
    if len(ways) > 1:
        own = quickest_equal("softmax", ways, dtype, x, matrix, bias, log_weights)
    return own(x, matrix, bias, log_weights)


def computed(way: Callable, x, matrix, bias, log_weights, target, dtype) -> Tensor:
    """Return a way's loss with products in `dtype`, and 0 where no target counts, not 0 / 0."""
    counts = (target != IGNORE).any()
    some = 0 if bias is None else bias.argmax()  # a word whose bias is not −∞: 0 · ∞ is NaN
    tensors = [t if t is None else t.to(dtype) for t in (x, matrix, bias)]
    with torch.autocast(x.device.type, enabled=False):
        return way(*tensors, log_weights, target.where(counts, some)) * counts


def by_table(x, matrix, bias, log_weights, target) -> Tensor:
    """Return the loss by the table of all logits at once, in few launches."""
    logits = F.linear(x, matrix, bias).flatten(0, 1).to(torch.promote_types(x.dtype, torch.float32))
    if log_weights is None:
        return F.cross_entropy(logits, target)
    each = F.cross_entropy(logits, target.repeat_interleave(x.shape[1]), reduction="none")
    mixed = (log_weights - each.view_as(log_weights)).logsumexp(-1)
    counted = target != IGNORE
    return -(mixed * counted).sum() / counted.sum()


def by_torch(x, matrix, bias, log_weights, target, reduction: str = "mean") -> Tensor:
    """Return one softmax's loss by PyTorch's own chunked cross-entropy, from version 2.13 on."""
    options = {"reduction": reduction, "options": nn.LinearCrossEntropyOptions()}
    return F.linear_cross_entropy(x.squeeze(1), matrix, target, linear_bias=bias, **options)


def by_quack(x, matrix, bias, log_weights, target) -> Tensor:
    """Return one softmax's loss by QuACK, to which a bias is one more column of the matrix."""
    quack = importlib.import_module("quack.linear_cross_entropy")  # where there is a GPU for it
    x = x.squeeze(1)
    if bias is not None:
        x = torch.cat([x, torch.ones_like(x[:, :1])], 1)
        matrix = torch.cat([matrix, bias[:, None]], 1)
    if fill := -x.shape[1] % 8:  # each row of both begins at a multiple of 16 bytes
        x, matrix = F.pad(x, (0, fill)), F.pad(matrix, (0, fill))
    return quack.chunked_linear_cross_entropy(x, matrix, target, ignore_index=IGNORE)


def elementwise(written: Callable, formula: Callable | None, logits: Tensor, *parameters: Tensor):
    """Return an elementwise function of logits and parameters: `written`, or its formula compiled.

    On a GPU `torch.compile` makes one launch of a formula in plain PyTorch.
    """
    if formula is None or not accelerated(logits) or logits.numel() < LARGE:
        return written
    ways = {"written": written, "compiled": _compiled(formula)}
    return quickest_equal(formula.__qualname__, ways, logits.dtype, logits, *parameters)


_compiled = lru_cache(2)(torch.compile)  # few, since a formula holds its layer
