"""The probability of a text, the likeliest next words, and generated text.

Everything starts from `<eos>`, the line end before the first word, carries the state, and computes
log-probabilities (natural logarithms, so nats) without autocast, in float32 or wider.
"""

import math
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import torch
from annotated_types import Gt, Le
from torch import Tensor

from course_lib.data.corpus import WordEncoding
from course_lib.errors import CourseError
from course_lib.evaluation.perplexity import check_weights, evaluating
from course_lib.models import LanguageModel, OutputModel
from course_lib.protocols import WithMemory
from course_lib.ranges import Count, checked

CONTEXT = 64  # tokens: read at once, and remembered by a Transformer trained with less memory


@dataclass(frozen=True)
class Score:
    """The words of a text and log P(word | everything before it), in nats."""

    words: list[str]
    log_prob: Tensor  # (n,)

    @property
    def perplexity(self) -> float:
        """The perplexity of the text, exp(−mean log P)."""
        return math.exp(-self.log_prob.double().mean().item())


class Continuation(NamedTuple):
    """A word that may come next, and its probability."""

    word: str
    probability: float


def score(model: LanguageModel, corpus: WordEncoding, text: str) -> Score:
    """Return the log-probability of every word of a text; its line ends are the word `<eos>`.

    CourseError for an empty text, and for a word outside a vocabulary without `<unk>`.
    """
    ids = corpus.encode(text)
    if not len(ids):
        raise CourseError("there is nothing to score: the text has no words")
    with without_gradients(model):
        tables = _tables(model, torch.cat([torch.tensor([corpus.eos]), ids[:-1]]))
        log_prob = [
            table.gather(1, target[:, None].to(table.device))[:, 0]
            for (table, _), target in zip(tables, ids.split(CONTEXT), strict=True)
        ]
    return Score([corpus.words[i] for i in ids], torch.cat(log_prob).cpu())


@checked
def continuations(
    model: LanguageModel, corpus: WordEncoding, prompt: str = "", k: Count = 10
) -> list[Continuation]:
    """Return the k likeliest words after `prompt`, likeliest first."""
    with without_gradients(model):
        log_prob, _ = _after(model, corpus, prompt)
    top = log_prob.topk(min(k, len(log_prob)))
    pairs = zip(top.indices.tolist(), top.values.exp().tolist(), strict=True)
    return [Continuation(corpus.words[i], p) for i, p in pairs]


def generate(model: LanguageModel, corpus: WordEncoding, *settings, **named) -> str:
    """Return a text that is drawn word by word, with what `draw` takes; `<eos>` ends a line."""
    return corpus.decode(draw(model, corpus, *settings, **named))


def draw(
    model: LanguageModel,
    corpus: WordEncoding,
    prompt: str = "",
    length: int = 50,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int = 0,
) -> list[int]:
    """Return the ids of `length` words that are drawn one after the other.

    model, corpus: the model and the words it knows.
    prompt: the text that it goes on from.
    temperature, top_k, top_p: as `top_k_top_p` takes them; `top_k=1` takes the likeliest word.
    seed: of a generator of its own, so that no other randomness of the program moves.
    """
    generator = torch.Generator().manual_seed(seed)
    drawn: list[int] = []
    with without_gradients(model):
        log_prob, state = _after(model, corpus, prompt)
        for _ in range(length):
            probability = top_k_top_p(log_prob, temperature, top_k, top_p)
            drawn.append(int(torch.multinomial(probability, 1, generator=generator)))
            [(table, state)] = _tables(model, torch.tensor(drawn[-1:]), state)
            log_prob = table[-1].cpu()
    return drawn


@checked
def top_k_top_p(
    log_prob: Tensor,
    temperature: float = 1.0,
    top_k: Count | None = None,
    top_p: Annotated[float, Gt(0), Le(1)] | None = None,
) -> Tensor:
    """Return the distribution to draw from, (N,).

    log_prob: log P of every word, (N,).
    temperature: the exponent of P is 1 / temperature, before P is renormalised.
    top_k: only so many of the likeliest words may come (Fan et al. 2018).
    top_p: then only the smallest set of likeliest words that holds this mass may come (Holtzman et
        al. 2020). P is renormalised again.

    CourseError for settings out of range, or another shape.
    """
    if log_prob.dim() != 1:
        raise CourseError(f"log_prob must be of one position, (N,), not {tuple(log_prob.shape)}")
    if not temperature >= 1e-30:  # a lower one may make every log P / temperature −∞
        raise CourseError(f"temperature must be 1e-30 or more, not {temperature}; or use top_k=1")
    probability, words = (log_prob / temperature).softmax(-1).sort(descending=True, stable=True)
    keep = torch.arange(len(words), device=words.device) < (top_k or len(words))
    probability = probability * keep / (probability * keep).sum()
    if top_p is not None:
        likelier = probability.cumsum(-1) - probability
        probability = probability * (likelier < top_p)
    return torch.zeros_like(probability).scatter(0, words, probability / probability.sum())


@contextmanager
def without_gradients(model: OutputModel) -> Iterator[None]:
    """Compute without gradients, as `evaluating` has it, with a memory of `CONTEXT` tokens or more.

    A Transformer without memory that reads word by word would see one word at a time.
    CourseError for weights that are not finite.
    """
    check_weights(model)
    encoder = model.encoder
    short = isinstance(encoder, WithMemory) and encoder.memory < CONTEXT
    with torch.no_grad(), evaluating(model, CONTEXT if short else None):
        yield


def _tables(model: LanguageModel, ids: Tensor, state: Any = None) -> Iterator[tuple[Tensor, Any]]:
    """Yield (log P after each id, (≤ CONTEXT, N), state) for every CONTEXT of ids (n,)."""
    device = next(model.parameters()).device
    for piece in ids.split(CONTEXT):
        _, _, hidden, state = model(piece[:, None].to(device), state)
        yield model.output_layer.log_prob(hidden[:, 0]), state


def _after(model: LanguageModel, corpus: WordEncoding, prompt: str) -> tuple[Tensor, Any]:
    """Return log P (N,) of the word after `<eos>` and the prompt, on the CPU, and the state."""
    ids = torch.cat([torch.tensor([corpus.eos]), corpus.encode(prompt, "the prompt")])
    ((table, state),) = deque(_tables(model, ids), maxlen=1)
    return table[-1].cpu(), state
