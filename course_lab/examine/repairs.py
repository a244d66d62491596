"""The repairs after training, and the perplexity of a model before and after them."""

from collections.abc import Callable
from itertools import islice

import torch
from torch import Tensor

from course_lib import data
from course_lib.evaluation.perplexity import check_weights, perplexity
from course_lib.evaluation.translation import translation_perplexity
from course_lib.output_layers import FullWords
from course_lib.output_layers.centring import all_but_the_top, centred


def principal_components(size: int) -> int:
    """Return how many principal components all-but-the-top takes from words of this size."""
    return max(1, round(size / 100))


REPAIRS: dict[str, Callable[[Tensor], Tensor]] = {
    "centring": centred,
    "all-but-the-top": lambda W: all_but_the_top(W, principal_components(W.shape[1])),
}
TOKENS = 20_000  # of the validation split: enough to compare
COLUMNS = 10  # read in parallel


def perplexities(model, corpus, experiment, matrices: dict[str, Tensor]) -> dict[str, float]:
    """Return the perplexity with each output matrix on the beginning of the validation split.

    model: of a run. corpus: its text, of which 20,000 tokens are read. experiment: says how it is
    evaluated. matrices: by name, (N, d) each.

    Only the output matrix is replaced: a tied model goes on reading with its own, since it has
    learned to read that one. The model is left as it was.
    Raises CourseError for weights that are not finite.
    """
    check_weights(model)
    own = model.output_layer.words
    values = {}
    for name, W in matrices.items():
        with torch.device("meta"):  # the matrix exists already
            words = FullWords(W.shape[0], W.shape[1])
        device = next(model.parameters()).device
        words.weight = torch.nn.Parameter(W.float().to(device), requires_grad=False)
        model.output_layer.words = words
        try:
            values[name] = _perplexity(model, corpus, experiment.optimisation)
        finally:
            model.output_layer.words = own
    return values


def read_in_part(corpus) -> tuple[str, ...]:
    """Say which part of the validation split is read, where it is not the whole."""
    pairs = isinstance(corpus, data.SentencePairs)
    tokens = sum(map(len, corpus.valid.target)) if pairs else len(corpus.valid)
    if tokens <= TOKENS:
        return ()
    first = f"{'about ' if pairs else ''}the first {TOKENS:,} of {tokens:,} tokens"
    return (f"perplexity: {first} of the validation split",)


def _perplexity(model, corpus, optimisation) -> float:
    if isinstance(corpus, data.SentencePairs):
        batches = data.token_batches(corpus.valid, optimisation.max_tokens)
        return translation_perplexity(model, islice(batches, 1 + TOKENS // optimisation.max_tokens))
    text = corpus.valid[:TOKENS]
    return perplexity(
        model, text, corpus.eos,
        batch=min(COLUMNS, max(1, len(text) // 100)), length=optimisation.evaluation_length,
        memory=optimisation.evaluation_memory, clamp=optimisation.evaluation_clamp,
    )  # fmt: skip
