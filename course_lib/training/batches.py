"""The batches that a run trains on, epoch by epoch, and the validation that it is judged by."""

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from course_lib import data
from course_lib.data.buckets import buckets, collate, token_batches
from course_lib.data.pairs import SentencePairs
from course_lib.errors import CourseError
from course_lib.evaluation.perplexity import perplexity
from course_lib.evaluation.translation import translation_perplexity
from course_lib.training.optimisation import Optimisation

# Settings that change how running text is read, and are off unless asked for.
OF_TEXT = ("random_length", "partial_shuffle", "sum_over_steps")
OF_TEXT += ("evaluation_memory", "evaluation_clamp")


class MicroBatch(NamedTuple):
    """A part of a batch: model(*inputs, state=…, target=target) gives its targets' mean loss."""

    inputs: tuple[Tensor, ...]
    target: Tensor
    weight: float  # of the loss; the sum over the parts, averaged over processes, is 1


class Update(NamedTuple):
    """The micro-batches that one step of the optimiser sees in this process."""

    micro_batches: list[MicroBatch]
    rows: int  # how far it brings the epoch
    steps: int  # time steps unrolled
    tokens: int  # targets of all processes


class Task(Protocol):
    """The batches of one process."""

    rows: int  # in an epoch

    def updates(self, generator: torch.Generator) -> Iterator[Update]:
        """Yield one epoch; order and chance come from the generator, equal in all processes."""
        ...

    def validate(self, model: nn.Module) -> float:
        """Return the perplexity of the validation split, for monitoring."""
        ...


class LanguageModelBatches:
    """Contiguous columns of running text, the state carried from one segment to the next.

    With `accumulate` above 1 a batch is read in so many micro-batches of columns, whose gradients
    are added. That is the same update in less memory, but for dropout with one mask for all
    columns, as of words or recurrent weights: it has a mask for every micro-batch. No drawn length
    is cut off; the released code of AWD-LSTM cuts it at the base length + 10 when it fine-tunes,
    and that of MoS at the base length + max_seq_len_delta.
    """

    def __init__(
        self, corpus: data.Corpus, optimisation: Optimisation, index: int = 0, workers: int = 1
    ):
        """Take the columns of process number `index` of `workers`.

        CourseError for a batch that the processes cannot share, and for splits that are too short.
        """
        o = optimisation
        self.optimisation = optimisation
        self.corpus = corpus
        self.workers = workers
        if o.batch % (workers * o.accumulate):
            split = f"{workers} processes" + f" × {o.accumulate} parts" * (o.accumulate > 1)
            raise CourseError(f"a batch of {o.batch} does not divide by {split}")
        self.columns = data.columns(corpus.train, o.batch, f"the train split of {corpus.name}")
        self.rows = len(self.columns) - 1
        if len(corpus.valid) + 1 < 2 * o.evaluation_batch:
            raise CourseError(
                f"the valid split of {corpus.name} has {len(corpus.valid):,} tokens, too few for "
                f"an evaluation_batch of {o.evaluation_batch:,} columns; give it a longer text, or "
                "set optimisation.evaluation_batch=1"
            )
        share = o.batch // workers
        self.mine = slice(index * share, (index + 1) * share)

    def updates(self, generator: torch.Generator) -> Iterator[Update]:
        """Yield one epoch of segments; with `partial_shuffle` every column begins elsewhere."""
        o = self.optimisation
        columns = self.columns
        if o.partial_shuffle:
            columns = data.partial_shuffle(columns, generator)
        columns = columns[:, self.mine]
        for tokens, target in data.batches(columns, o.length, generator, o.random_length):
            pairs = zip(tokens.chunk(o.accumulate, 1), target.chunk(o.accumulate, 1), strict=True)
            micro_batches = [MicroBatch((x,), y, 1 / o.accumulate) for x, y in pairs]
            count = target.numel() * self.workers
            yield Update(micro_batches, rows=len(target), steps=len(target), tokens=count)

    def validate(self, model: nn.Module) -> float:
        """Return the perplexity of the validation split, cut into `evaluation_batch` columns."""
        o = self.optimisation
        settings = o.evaluation_batch, o.evaluation_length, o.evaluation_memory, o.evaluation_clamp
        return perplexity(model, self.corpus.valid, self.corpus.eos, *settings)


class TranslationBatches:
    """Batches of sentence pairs of similar length.

    Either side of a batch has at most `max_tokens` tokens over all processes and micro-batches.
    Every target counts the same, in however long a batch.
    """

    def __init__(
        self, corpus: SentencePairs, optimisation: Optimisation, index: int = 0, workers: int = 1
    ):
        """Take the batches of process number `index` of `workers`.

        CourseError for a setting of running text, which sentence pairs are not, and for a pair in
        any split that is too long for a batch.
        """
        for name in OF_TEXT:
            value = getattr(optimisation, name)
            if value is not None and value is not False:  # a memory of 0 is asked for, too
                raise CourseError(f"{name} is of running text; {corpus.name} has sentence pairs")
        self.corpus = corpus
        self.optimisation = optimisation
        self.index = index
        self.workers = workers
        self.max_tokens = optimisation.max_tokens // (workers * optimisation.accumulate)
        train = f" of the train split of {corpus.name}"
        self.rows = len(buckets(corpus.train, self.max_tokens, None, index, workers, train))
        for name in ("valid", "test"):  # now, not after the training
            where = f" of the {name} split of {corpus.name}"
            buckets(getattr(corpus, name), optimisation.max_tokens, where=where)

    def updates(self, generator: torch.Generator) -> Iterator[Update]:
        """Yield one epoch of batches; chance decides their order and which pairs meet in one."""
        train = self.corpus.train
        parts = self.optimisation.accumulate
        targets = train.target.lengths + 1  # with <eos>

        # All processes draw alike, so that each knows the counts of all the others.
        batches = [
            buckets(train, self.max_tokens, generator.clone_state(), rank, self.workers)
            for rank in range(self.workers)
        ]
        for start in range(0, self.rows, parts):
            update = [of_rank[start : start + parts] for of_rank in batches]
            counts = [[int(targets[rows].sum()) for rows in of_rank] for of_rank in update]
            total = sum(map(sum, counts))
            micro_batches = []
            for rows, count in zip(update[self.index], counts[self.index], strict=True):
                source, tokens, target = collate(train, rows)
                weight = self.workers * count / total
                micro_batches.append(MicroBatch((source, tokens), target, weight))
            yield Update(micro_batches, rows=len(micro_batches), steps=1, tokens=total)

    def validate(self, model: Any) -> float:
        """Return the perplexity of the validation split."""
        batches = token_batches(self.corpus.valid, self.optimisation.max_tokens)
        return translation_perplexity(model, batches)
