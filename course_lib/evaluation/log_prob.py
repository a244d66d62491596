"""log P of every word after every context of a text: the matrix whose rank is the bottleneck."""

from collections.abc import Iterator

import torch
from torch import Tensor
from tqdm import tqdm

from course_lib.evaluation.perplexity import exactly, in_evaluation_mode
from course_lib.models import LanguageModel
from course_lib.models.state import detach
from course_lib.ranges import Count, checked


@checked
@torch.no_grad()
def log_prob_blocks(
    model: LanguageModel,
    tokens: Tensor,
    eos: int,
    block: Count = 64,
    length: Count = 512,
    contexts: Count | None = None,
    memory: int | None = None,
    clamp: int | None = None,
    progress: bool = True,
) -> Iterator[Tensor]:
    """Yield blocks (≤ block, N) of log P(· | everything before), in nats, a row for every token.

        metrics.rank.spectrum(log_prob_blocks(model, corpus.test, corpus.eos))

    model: is in evaluation mode until the iterator ends or is closed; computes in float32 or wider.
    tokens, eos: the split (L,), read at batch 1 with the state carried, the first token predicted
        from eos. Row t at column tokens[t] is what `perplexity` averages.
    block: rows at once; a mixture holds `block` × K × N numbers.
    length: tokens that go through the encoder at once.
    contexts: how many rows; None for all L.
    memory, clamp: as `evaluating` takes them.
    progress: whether a bar is shown.
    """
    device = next(model.parameters()).device
    state = None
    tokens = tokens[:contexts]
    text = torch.cat([tokens.new_tensor([eos]), tokens])[:-1, None].to(device)
    with (
        in_evaluation_mode(model, memory, clamp),
        tqdm(total=len(text), desc="log P", unit="context", disable=not progress) as bar,
    ):
        for piece in text.split(length):
            with exactly(model):
                step = model(piece, state)
            state = detach(step.state)
            for rows in step.hidden[:, 0].split(block):
                with exactly(model):
                    table = model.output_layer.log_prob(rows)
                yield table
                bar.update(len(rows))
