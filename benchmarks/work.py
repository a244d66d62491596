"""What the benchmarks of models share: a case, the work of a token, a training step."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from course_lib.evaluation.perplexity import float32_products

KINDS = ("course", "plain")
PRECISIONS = {"fp32": 4, "tf32": 4, "bf16": 2}  # and the bytes of a number that enters a product
# Over parameters in a step: read forward and backward; gradient written, read for its norm and for
# the update; weight read and written.
PASSES = 7


@dataclass(frozen=True)
class Reference:
    """The speed of a public implementation on one machine, which is another than the row's.

    Two virtual processors (Xeon with AVX-512 and AMX; products at 230-260 GFLOP/s in fp32, 900-1900
    in bf16), torch 2.13, two threads, fp32, median of uncontended steps; runs drift by about 15 %.
    """

    code: str
    tokens: tuple[float, float]  # a second, the slowest and the fastest run
    megabytes: float  # peak of the process


@dataclass(frozen=True)
class Work:
    """The least work of a token or, where its maker says so, of a whole step."""

    operations: float  # in matrix products: twice the multiplications
    cached: float = 0.0  # float32 numbers of matrices that each time step reads; bf16 ones halved
    memory: float = 0.0  # float32 numbers to and from memory


class Case:
    """What is timed by the course's form and by a plain one."""

    @property
    def alike(self):
        """Return the case with as many tokens for both forms, by which memory is compared."""
        return self


class Training(Case):
    """A training step of a `batch` of texts, each of them `length` tokens long."""

    @property
    def tokens(self) -> dict[str, int]:
        """Return the tokens of a step of the course's form and of the plain one."""
        return dict.fromkeys(KINDS, self.batch * self.length)


def stepping(
    model: nn.Module,
    losses: Callable[[], Iterator[Tensor]],
    rate: float,
    kind: str,
    precision: str,
    device: str,
    clip: float,
) -> Callable[[], None]:
    """Return a training step: the gradients of all `losses`, clipping, and SGD.

    losses: a function that yields the loss of each part of a batch, already weighed.
    rate: of learning. kind: of `KINDS`; the course's update is one fused operator. clip: the norm
    of the gradient at most.
    """
    fused = {"fused": True} if kind == "course" else {}
    optimizer = torch.optim.SGD(model.parameters(), rate, weight_decay=1.2e-6, **fused)

    def step():
        for loss in losses():
            with torch.autocast(device, enabled=False):
                loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        optimizer.zero_grad()

    return timed(step, precision, device)


def timed(step: Callable, precision: str, device: str) -> Callable[[], None]:
    """Return the step in a precision, finished when it returns."""
    products = "tf32" if precision == "tf32" else "ieee"

    def run():
        narrow = torch.autocast(device, torch.bfloat16, enabled=precision == "bf16")
        with float32_products(products), narrow:
            step()
        if device != "cpu":
            torch.cuda.synchronize()

    return run
