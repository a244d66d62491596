"""From one long row of tokens to the batches of truncated backpropagation through time."""

from collections.abc import Iterator

import torch

from course_lib.errors import CourseError


def columns(tokens: torch.Tensor, batch: int, where: str = "the split") -> torch.Tensor:
    """Cut tokens (L,) into `batch` contiguous columns (n, batch), n = L // batch.

    Column j is tokens[j n : (j + 1) n]; the remainder is dropped. `CourseError` if a column would
    have fewer than two tokens (one to read and one to predict).
    """
    if batch < 1:
        raise CourseError(f"a batch needs at least 1 column, not {batch}")
    n = len(tokens) // batch
    if n < 2:
        raise CourseError(
            f"{where} has {len(tokens):,} tokens, too few for a batch of {batch:,} columns "
            f"(at least {2 * batch:,} are needed); use a longer text or a smaller batch"
        )
    return tokens[: n * batch].view(batch, n).t().contiguous()


def batches(
    columns: torch.Tensor,
    length: int,
    generator: torch.Generator | None = None,
    random_length: bool = False,
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Consecutive pairs (input, target), each (T, B); target is the input one step later.

    Every row but the first is a target once, so that the state can be carried from pair to pair.
    T = length, the last pair shorter. With `random_length` T is drawn anew each step by the rule
    of AWD-LSTM (Merity et al. 2018, section 5): N(length, 5) with probability 0.95, else
    N(length / 2, 5), and at least 5.
    """
    if length < 1:
        raise CourseError(f"a segment needs at least 1 step, not {length}")
    start, last = 0, len(columns) - 1
    while start < last:
        steps = draw_length(length, generator) if random_length else length
        stop = min(start + steps, last)
        yield columns[start:stop], columns[start + 1 : stop + 1]
        start = stop


def draw_length(length: int, generator: torch.Generator | None = None) -> int:
    """One segment length by the rule of AWD-LSTM."""
    short = torch.rand((), generator=generator).item() >= 0.95
    mean = length / 2 if short else length
    return max(5, int(mean + 5 * torch.randn((), generator=generator).item()))


def partial_shuffle(
    columns: torch.Tensor, generator: torch.Generator | None = None
) -> torch.Tensor:
    """Rotate each column (n, B) by its own random offset (wang2019, section 5.1; Press 2019).

    Naive: torch.stack([c.roll(-k) for c, k in zip(columns.T, offsets)], 1).
    """
    n, batch = columns.shape
    offsets = torch.randint(n, (batch,), generator=generator)
    rows = (torch.arange(n)[:, None] + offsets) % n
    return columns.gather(0, rows.to(columns.device))
