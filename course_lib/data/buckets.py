"""Batches of sentence pairs of similar length, bounded in tokens."""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from course_lib.data.pairs import SentencePairs, Split
from course_lib.errors import CourseError
from course_lib.targets import IGNORE


def buckets(
    split: Split,
    max_tokens: int,
    generator: torch.Generator | None = None,
    rank: int = 0,
    world: int = 1,
    where: str = "",
) -> list[list[int]]:
    """Return the pairs of each batch of process `rank` of `world`, as positions in the split.

    Over all processes every pair occurs exactly once, and every process has as many batches.

    split: the pairs.
    max_tokens: the longer side of a batch, with its `<eos>` or `<bos>`, times the number of pairs
        is at most this.
    generator: decides which of equally long pairs meet and the order of the batches; it is equal in
        all processes. Without one both are by length.
    rank, world: the number of this process, and how many there are.
    where: what the CourseError for a sentence that is too long for a batch calls the split.
    """
    source = split.source.lengths + 1
    target = split.target.lengths + 1
    longer = np.maximum(source, target)
    if longer.max() > max_tokens:
        i = int(longer.argmax())
        raise CourseError(
            f"pair {i + 1:,}{where} has {longer[i]:,} tokens, more than a batch of {max_tokens:,}: "
            f"{split.target_text[i][:60]!r}; use larger batches or leave the pair out"
        )

    # Sorted by both lengths, equal ones in the order of chance, and cut.
    n = len(split)
    order = np.arange(n) if generator is None else torch.randperm(n, generator=generator).numpy()
    order = order[np.lexsort((source[order], longer[order]))]
    batches = even(cut(longer[order].tolist(), max_tokens), world)

    # Neighbours in length belong to different processes; all have them in the same order.
    groups = [batches[i + rank] for i in range(0, len(batches), world)]
    if generator is not None:
        groups = [groups[i] for i in torch.randperm(len(groups), generator=generator)]
    return [order[start:stop].tolist() for start, stop in groups]


def cut(lengths: list[int], max_tokens: int) -> list[tuple[int, int]]:
    """Return ranges of rising lengths, as few as can be: last length × number <= max_tokens."""
    batches = []
    start = 0
    for i, length in enumerate(lengths):
        if length * (i + 1 - start) > max_tokens:
            batches.append((start, i))
            start = i
    return [*batches, (start, len(lengths))]


def even(batches: list[tuple[int, int]], world: int) -> list[tuple[int, int]]:
    """Return as many batches as divide by `world`: the largest are halved until they do."""
    batches = list(batches)
    while len(batches) % world:
        i = max(range(len(batches)), key=lambda i: batches[i][1] - batches[i][0])
        start, stop = batches[i]
        if stop - start < 2:
            raise CourseError(
                f"{len(batches)} batches of one pair each do not divide by {world} processes; use "
                "more pairs, larger batches or fewer processes"
            )
        batches[i : i + 1] = [(start, (start + stop) // 2), ((start + stop) // 2, stop)]
    return batches


def collate(split: Split, rows: list[int]) -> tuple[Tensor, Tensor, Tensor]:
    """Return source (S, B), tokens (T, B), target (T, B), int64, of the pairs at `rows`.

    The source is [x … eos] and the tokens are [bos y …], both padded with `pad`; the target is
    [y … eos], padded with IGNORE.
    """
    bos = torch.tensor([SentencePairs.bos])
    eos = torch.tensor([SentencePairs.eos])
    x = [split.source[i] for i in rows]
    y = [split.target[i] for i in rows]
    return (
        pad_sequence([torch.cat([row, eos]) for row in x], padding_value=SentencePairs.pad),
        pad_sequence([torch.cat([bos, row]) for row in y], padding_value=SentencePairs.pad),
        pad_sequence([torch.cat([row, eos]) for row in y], padding_value=IGNORE),
    )


def token_batches(split: Split, *arguments, **options) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Yield one epoch of `buckets`, whose arguments it takes, as `collate` makes them."""
    return (collate(split, rows) for rows in buckets(split, *arguments, **options))
