"""Language models from elsewhere, run on a text: a Llama in a GGUF file, a Hugging Face folder.

The contexts are computed once. Each repaired matrix is then multiplied with them, so that a
perplexity before and after a repair costs one run of the model. A tied model goes on reading with
its own matrix.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn.functional import linear

from course_lab.examine.frequencies import read_tokenizer
from course_lab.examine.llama_files import read_llama, tokenizer
from course_lab.examine.lost_gradient import Lost, column_space, lost_in_a_text
from course_lab.examine.source import Source
from course_lab.examine.tensor_files import GGUF, open_tensors
from course_lib.data import Corpus, SentencePairs
from course_lib.errors import CourseError

READ = 1024  # tokens of the validation split, in one context or two
POSITIONS = 128  # whose log-probabilities are held at once
ALIKE = 1e-3  # of the logits' spread: logits so near are the same but for rounding
AHEAD = 7  # words that are changed behind a word, to see whether its logits change


@dataclass(frozen=True)
class Reading:
    """The contexts (T, d) that a model made of a text, and the tokens (T,) that came after them."""

    contexts: Tensor
    target: Tensor
    bias: Tensor | None = None

    def perplexity(self, W: Tensor) -> float:
        """Return the perplexity with the output matrix W (N, d)."""
        loss = torch.zeros((), dtype=torch.float64)
        for log_prob, target in self._blocks(W):
            loss -= log_prob.gather(1, target[:, None]).double().sum()
        return float((loss / len(self.target)).exp())

    def lost(self, W: Tensor) -> Lost:
        """Return the share of the gradient that W (N, d) does not hand to the contexts."""
        basis = column_space(W)
        parts = [
            (lost_in_a_text(basis, log_prob, target), len(target))
            for log_prob, target in self._blocks(W)
        ]
        return Lost.mean(parts)

    def _blocks(self, W: Tensor):
        for start in range(0, len(self.target), POSITIONS):
            part = slice(start, start + POSITIONS)
            yield linear(self.contexts[part], W, self.bias).log_softmax(-1), self.target[part]


def encoding(source: Source) -> Tokenizer | None:
    """Return the tokenizer of a checkpoint: in its GGUF file, or beside it; None if it has none."""
    if source.file.suffix == GGUF:
        return tokenizer(source.file, open_tensors(source.file).gguf)
    path = source.folder / "tokenizer.json"
    return read_tokenizer(path) if path.is_file() else None


def read_text(source: Source, corpus: Corpus | SentencePairs, tokens: int = READ) -> Reading:
    """Return what the model of a checkpoint makes of the beginning of a validation split.

    Raises CourseError, which says why, for a model that cannot be run here.
    """
    encode = encoding(source)
    if encode is None:
        raise CourseError("there is no tokenizer that can be read to encode a text with")
    if isinstance(corpus, SentencePairs):
        raise CourseError(f"{corpus.name} has sentence pairs; a perplexity needs running text")
    text = corpus.decode(corpus.valid[: 2 * tokens])
    ids = encode.encode(text, add_special_tokens=False).ids[: tokens + 1]
    if len(ids) < 2 or max(ids) >= len(source.W):
        raise CourseError(f"{corpus.name} gives no two tokens that the model knows")
    return read_ids(source, torch.tensor(ids))


def read_ids(source: Source, ids: Tensor) -> Reading:
    """Return what the model of a checkpoint makes of token ids (T + 1,)."""
    if source.predicts is not True:
        raise CourseError("the matrix does not predict")
    contexts, bias = _runner(source)(ids[:-1])
    return Reading(contexts, ids[1:], bias)


def _runner(source: Source) -> Callable[[Tensor], tuple[Tensor, Tensor | None]]:
    """Return the function from ids (T,) to contexts (T, d) and the output layer's bias."""
    if source.file.suffix == GGUF:
        model = read_llama(source.file)
        longest = model.shape.longest

        def run(ids):
            return torch.cat([model.contexts(part) for part in ids.split(longest)]), None

        return run
    if (source.folder / "config.json").is_file():
        return _hugging_face(source.folder)
    raise CourseError("a run of this course, a GGUF file or a Hugging Face folder can be run")


def _hugging_face(folder: Path) -> Callable[[Tensor], tuple[Tensor, Tensor | None]]:
    """Return the runner of a model folder, where transformers is installed; no code of it runs."""
    try:
        from transformers import AutoModelForCausalLM
    except ImportError:
        raise CourseError("transformers, which would run this model, is not installed") from None
    try:
        model = AutoModelForCausalLM.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False, dtype=torch.float32
        ).eval()
    except Exception as error:  # of many kinds, by version and model
        raise CourseError(f"transformers cannot load it ({str(error).splitlines()[0]})") from None
    head = model.get_output_embeddings()
    if not isinstance(head, torch.nn.Linear):
        raise CourseError("its output layer is no matrix")
    longest = getattr(model.config, "max_position_embeddings", None) or READ
    if _sees_ahead(model):
        raise CourseError("it reads what comes after a word: it has no perplexity of next words")

    @torch.no_grad()
    def run(ids):
        contexts = []
        hook = head.register_forward_pre_hook(lambda _, inputs: contexts.append(inputs[0][0]))
        try:
            logits = torch.cat([model(part[None]).logits[0] for part in ids.split(longest)])
        finally:
            hook.remove()
        h = torch.cat(contexts)
        bias = None if head.bias is None else head.bias.detach()
        ours = linear(h, head.weight, bias)
        if (ours - logits).abs().max() > ALIKE * logits.std():
            raise CourseError("its logits are not the product of contexts and matrix")
        return h, bias

    return run


@torch.no_grad()
def _sees_ahead(model: torch.nn.Module) -> bool:
    """Return whether a model's logits at a word depend on later words, as those of BERT do."""
    texts = torch.tensor([[0] + AHEAD * [0], [0] + AHEAD * [1]])
    first, second = model(texts).logits[:, 0]
    return bool((first - second).abs().max() > ALIKE * first.std())
