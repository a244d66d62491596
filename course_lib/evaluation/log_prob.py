"""log P of every word after every context of a text: the matrix whose rank is the bottleneck."""

from collections.abc import Iterator

import torch
from torch import Tensor
from tqdm import tqdm

from course_lib.errors import CourseError
from course_lib.evaluation.perplexity import exactly, in_evaluation_mode
from course_lib.models.state import detach


@torch.no_grad()
def log_prob_blocks(
    model,
    tokens: Tensor,
    eos: int,
    block: int = 64,
    length: int = 512,
    contexts: int | None = None,
    memory: int | None = None,
    clamp: int | None = None,
    progress: bool = True,
) -> Iterator[Tensor]:
    """Blocks (≤ block, N) of log P(· | everything before), a row for every token of a split (L,).

    The rows, `contexts` of them or all L, are in the text's order: batch 1, state carried, the
    first token predicted from `<eos>`, so that row t at column tokens[t] is what `perplexity`
    averages. In nats, in float32 or wider if the model is. `length` tokens go through the encoder
    at once; a mixture holds `block` × K × N numbers. memory, clamp: as `evaluating` takes them. The
    model is in evaluation mode until the iterator ends or is closed.

        metrics.rank.spectrum(log_prob_blocks(model, corpus.test, corpus.eos))

    CourseError if block, length or contexts is below 1.
    """
    if min(block, length, 1 if contexts is None else contexts) < 1:
        raise CourseError(
            f"block, length and contexts are at least 1, not {block}, {length} and {contexts}"
        )
    device, state = next(model.parameters()).device, None
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
