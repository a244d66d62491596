"""From one long row of tokens to the batches of truncated backpropagation through time."""

from collections.abc import Iterator

import torch

from course_lib.errors import CourseError
from course_lib.ranges import Count, checked


@checked
def columns(
    tokens: torch.Tensor, batch: Count, where: str = "the split", before: int | None = None
) -> torch.Tensor:
    """Cut tokens (L,) into `batch` contiguous columns (n, batch), n = L // batch.

    Column j is tokens[j n : (j + 1) n], and the remainder is dropped.

    where: what the CourseError calls the split if a column has fewer than two tokens.
    before: the id that the first token is predicted from; with it n = (L + 1) // batch.
    """
    text = tokens if before is None else torch.cat([tokens.new_tensor([before]), tokens])
    n = len(text) // batch
    if n < 2:
        least = 2 * batch - len(text) + len(tokens)
        raise CourseError(
            f"{where} has {len(tokens):,} tokens, too few for a batch of {batch:,} columns "
            f"(at least {least:,} are needed); use a longer text or a smaller batch"
        )
    return text[: n * batch].view(batch, n).t().contiguous()


@checked
def batches(
    columns: torch.Tensor,
    length: Count,
    generator: torch.Generator | None = None,
    random_length: bool = False,
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield consecutive pairs (input, target), each (T, B); target is the input one step later.

    Every row but the first is a target once, so that the state can be carried from pair to pair.

    columns: (n, B).
    length: T; the last pair may be shorter.
    generator: of the lengths.
    random_length: whether `draw_length` gives each T.
    """
    start = 0
    last = len(columns) - 1
    while start < last:
        steps = draw_length(length, generator) if random_length else length
        stop = min(start + steps, last)
        yield columns[start:stop], columns[start + 1 : stop + 1]
        start = stop


def draw_length(length: int, generator: torch.Generator | None = None) -> int:
    """Return one segment length by the rule of AWD-LSTM (Merity et al. 2018, section 5).

    It is drawn from N(length, 5) with probability 0.95, else from N(length / 2, 5), and at least 5.
    """
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
