"""What a run trains on and is judged by: its updates, epoch by epoch, and its validation figure."""

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn

from course_lib import data
from course_lib.data.buckets import buckets, collate, token_batches
from course_lib.errors import CourseError
from course_lib.evaluation.perplexity import perplexity
from course_lib.evaluation.translation import translation_perplexity
from course_lib.training.optimisation import Optimisation

# Settings that change how running text is read, and are off unless asked for.
OF_TEXT = ("random_length", "partial_shuffle", "sum_over_steps")
OF_TEXT += ("evaluation_memory", "evaluation_clamp")


class MicroBatch(NamedTuple):
    """A micro-batch: model(*inputs, state=…, target=target) gives the mean loss of its targets."""

    inputs: tuple[Tensor, ...]
    target: Tensor
    weight: float  # of its loss in the update's; over all parts and processes they average to 1


class Update(NamedTuple):
    """What one step of the optimiser sees in this process."""

    micro_batches: list[MicroBatch]
    rows: int  # how far it brings the epoch
    steps: int  # time steps unrolled
    tokens: int  # targets of all processes


class Task(Protocol):
    """The batches of one process."""

    rows: int  # in an epoch

    def updates(self, generator: torch.Generator) -> Iterator[Update]:
        """One epoch; all order and chance from the generator, equal in all processes."""

    def validate(self, model: nn.Module) -> float:
        """The perplexity of the validation split, for monitoring."""


class LanguageModelBatches:
    """Language modelling: contiguous columns, the state carried from one segment to the next.

    With `accumulate` above 1 the columns of a batch are read in so many parts, one after the
    other, and their gradients added: the same update in less memory, except that every part draws
    masks of its own where dropout has one mask for all columns (of words, of recurrent weights).
    """

    def __init__(self, corpus, optimisation: Optimisation, index: int = 0, workers: int = 1):
        o = self.optimisation = optimisation
        self.corpus, self.workers, parts = corpus, workers, workers * o.accumulate
        if o.batch % parts:
            split = f"{workers} processes" + f" × {o.accumulate} parts" * (o.accumulate > 1)
            raise CourseError(f"a batch of {o.batch} does not divide by {split}")
        self.columns = data.columns(corpus.train, o.batch, f"the train split of {corpus.name}")
        self.rows = len(self.columns) - 1
        if len(corpus.valid) + 1 < 2 * o.evaluation_batch:
            raise CourseError(
                f"the valid split of {corpus.name} has {len(corpus.valid):,} tokens, too few for "
                f"an evaluation_batch of {o.evaluation_batch:,} columns; give it a longer text, or "
                "--change optimisation.evaluation_batch=1"
            )
        share = o.batch // workers
        self.mine = slice(index * share, (index + 1) * share)

    def updates(self, generator):
        o, columns = self.optimisation, self.columns
        if o.partial_shuffle:
            columns = data.partial_shuffle(columns, generator)
        columns = columns[:, self.mine]
        for tokens, target in data.batches(columns, o.length, generator, o.random_length):
            pairs = zip(tokens.chunk(o.accumulate, 1), target.chunk(o.accumulate, 1), strict=True)
            parts = [MicroBatch((x,), y, 1 / o.accumulate) for x, y in pairs]
            yield Update(parts, len(target), len(target), target.numel() * self.workers)

    def validate(self, model):
        o, corpus = self.optimisation, self.corpus
        return perplexity(
            model, corpus.valid, corpus.eos, o.evaluation_batch, o.evaluation_length,
            o.evaluation_memory, o.evaluation_clamp,
        )  # fmt: skip


class TranslationBatches:
    """Translation: batches of sentence pairs of similar length, at most `max_tokens` on either
    side over all processes and parts. Every target counts the same, in however long a batch.

    CourseError for a setting of running text, of which pairs of sentences have nothing.
    """

    def __init__(self, corpus, optimisation: Optimisation, index: int = 0, workers: int = 1):
        for name in OF_TEXT:
            value = getattr(optimisation, name)
            if value is not None and value is not False:  # a memory of 0 is asked for, too
                raise CourseError(f"{name} is of running text; {corpus.name} has sentence pairs")
        self.corpus, self.optimisation = corpus, optimisation
        self.index, self.workers = index, workers
        self.max_tokens = optimisation.max_tokens // (workers * optimisation.accumulate)
        train = f" of the train split of {corpus.name}"
        self.rows = len(buckets(corpus.train, self.max_tokens, None, index, workers, train))
        for name in ("valid", "test"):  # now, not after the training
            where = f" of the {name} split of {corpus.name}"
            buckets(getattr(corpus, name), optimisation.max_tokens, where=where)

    def updates(self, generator):
        train, parts = self.corpus.train, self.optimisation.accumulate
        targets, batches = train.target.lengths + 1, []
        for rank in range(self.workers):  # all processes draw alike and know each other's counts
            same = generator.clone_state()
            batches.append(buckets(train, self.max_tokens, same, rank, self.workers))
        for start in range(0, self.rows, parts):
            now = [of_rank[start : start + parts] for of_rank in batches]
            counts = [[int(targets[rows].sum()) for rows in of_rank] for of_rank in now]
            total, own = sum(map(sum, counts)), []
            for rows, count in zip(now[self.index], counts[self.index], strict=True):
                source, tokens, target = collate(train, rows)
                own.append(MicroBatch((source, tokens), target, self.workers * count / total))
            yield Update(own, len(own), 1, total)

    def validate(self, model):
        batches = token_batches(self.corpus.valid, self.optimisation.max_tokens)
        return translation_perplexity(model, batches)
