"""SmolLM2's forward pass: the Llama architecture in plain PyTorch, with the tensors of a GGUF file.

Each of its blocks adds to a position's vector what its attention reads at earlier positions, and
what a gated network of one hidden layer makes of it (Touvron et al. 2023). The contexts are
those vectors behind the last normalisation; their products with the word matrix are the logits.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor
from torch.nn.functional import linear, rms_norm, scaled_dot_product_attention, silu

from course_lab.examine import gguf_files
from course_lab.examine.tensor_files import check_finite, open_tensors
from course_lib.errors import CourseError

CONTROL = 3  # the type of a piece that stands for no text
# How the files call the rule that cuts a text before its pieces are merged, and the rule: SmolLM
# takes each digit for itself, and then, as GPT-2 does, words with the blank before them.
CUTS = {
    "smollm": lambda: [
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False),
    ],
    "gpt-2": lambda: [pre_tokenizers.ByteLevel(add_prefix_space=False)],
    "llama-bpe": lambda: [
        pre_tokenizers.Split(
            Regex(
                r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
                r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
            ),
            "isolated",
        ),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ],
}


@dataclass(frozen=True)
class Shape:
    """The sizes of a Llama, and the constants of its rotary positions and its normalisation."""

    blocks: int
    size: int
    heads: int
    readers: int  # heads of keys and values, each read by as many heads of queries
    hidden: int  # numbers within a block's network
    longest: int  # context in tokens
    base: float
    epsilon: float

    @classmethod
    def of(cls, file: Path, metadata: dict) -> "Shape":
        """Return the shape that a file states; CourseError if it states none of a plain Llama."""
        architecture = metadata.get("general.architecture")
        if architecture != "llama":
            raise CourseError(
                f"{file} is a model of the architecture {architecture!r:.40}; only llama can be run"
            )
        names = {
            "blocks": "block_count", "size": "embedding_length", "heads": "attention.head_count",
            "readers": "attention.head_count_kv", "hidden": "feed_forward_length",
            "longest": "context_length",
            "base": "rope.freq_base", "epsilon": "attention.layer_norm_rms_epsilon",
        }  # fmt: skip
        values: dict[str, Any] = {name: metadata.get(f"llama.{key}") for name, key in names.items()}
        values["readers"] = values["readers"] or values["heads"]
        values["base"] = values["base"] or 10_000.0
        for name, value in values.items():
            kinds = (int, float) if name in ("base", "epsilon") else (int,)
            if type(value) not in kinds or not 0 < value < 1e9:
                raise CourseError(f"{file} says of its {name} {value!r:.40}: it cannot be run")
        shape = cls(**values)
        if shape.size % shape.heads or shape.size // shape.heads % 2 or shape.heads % shape.readers:
            raise CourseError(f"{file}: {shape.size} numbers do not divide into {shape.heads} "
                              f"heads of which {shape.readers} are read")  # fmt: skip
        # what another forward pass would heed
        width = shape.size // shape.heads
        plain = {"rope.dimension_count": width, "attention.key_length": width,
                 "attention.value_length": width, "rope.scaling.factor": 1,
                 "rope.scale_linear": 1}  # fmt: skip
        for key, value in plain.items():
            said = metadata.get(f"llama.{key}", value)
            if said != value:
                raise CourseError(
                    f"{file} says of llama.{key} {said!r:.40}, and this forward pass knows "
                    f"{value} alone: it cannot be run"
                )
        return shape

    def tensors(self, words: int) -> dict[str, tuple[int, ...]]:
        """Return the shape of every weight but the output's by its name, with N = `words`."""
        read = self.size // self.heads * self.readers
        block = {
            "attn_norm": (self.size,), "attn_q": (self.size, self.size),
            "attn_k": (read, self.size), "attn_v": (read, self.size),
            "attn_output": (self.size, self.size), "ffn_norm": (self.size,),
            "ffn_gate": (self.hidden, self.size), "ffn_up": (self.hidden, self.size),
            "ffn_down": (self.size, self.hidden),
        }  # fmt: skip
        shapes = {"token_embd": (words, self.size), "output_norm": (self.size,)}
        for i in range(self.blocks):
            shapes |= {f"blk.{i}.{part}": numbers for part, numbers in block.items()}
        return {f"{name}.weight": numbers for name, numbers in shapes.items()}


class Llama:
    """A language model that is only read from: `contexts`, `log_prob`, `generate`.

    shape: its sizes. tensors: its weights in float32 by their names in the file. words: (N, d), the
    matrix that reads. W: (N, d), the one that predicts, the same if the model is tied.
    """

    def __init__(self, shape: Shape, tensors: dict[str, Tensor]):
        self.shape = shape
        self.tensors = tensors
        self.words = tensors["token_embd.weight"]
        self.W = tensors.get("output.weight", self.words)

    @torch.no_grad()
    def contexts(self, ids: Tensor) -> Tensor:
        """Return the context (T, d) of each of T token ids, from those up to it."""
        x = self.words[ids]
        turns = self._turns(len(ids))
        for block in range(self.shape.blocks):
            x = x + self._attend(block, self._normalised(x, f"blk.{block}.attn_norm"), turns)
            h = self._normalised(x, f"blk.{block}.ffn_norm")
            gate = silu(self._times(h, f"blk.{block}.ffn_gate"))
            up = self._times(h, f"blk.{block}.ffn_up")
            x = x + self._times(gate * up, f"blk.{block}.ffn_down")
        return self._normalised(x, "output_norm")

    @torch.no_grad()
    def log_prob(self, ids: Tensor, W: Tensor | None = None) -> Tensor:
        """Return log P (T, N) of the token after each of T ids; W takes the matrix's place."""
        return linear(self.contexts(ids), self.W if W is None else W).log_softmax(-1)

    def generate(self, ids: list[int], tokens: int) -> list[int]:
        """Return ids with the likeliest token appended, `tokens` times."""
        for _ in range(tokens):
            last = self.contexts(torch.tensor(ids))[-1]
            ids = [*ids, int((self.W @ last).argmax())]
        return ids

    def _times(self, x: Tensor, name: str) -> Tensor:
        return linear(x, self.tensors[f"{name}.weight"])

    def _normalised(self, x: Tensor, name: str) -> Tensor:
        return rms_norm(x, x.shape[-1:], self.tensors[f"{name}.weight"], self.shape.epsilon)

    def _turns(self, T: int) -> Tensor:
        """Return the complex numbers (T, 1, k) that turn pairs of a head by their position."""
        width = self.shape.size // self.shape.heads
        rates = self.shape.base ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
        angles = torch.outer(torch.arange(T, dtype=torch.float64), rates)
        return torch.polar(torch.ones_like(angles), angles)[:, None].to(torch.complex64)

    def _attend(self, block: int, x: Tensor, turns: Tensor) -> Tensor:
        heads, readers = self.shape.heads, self.shape.readers
        # GGUF keeps the numbers of a pair, which a position turns, side by side
        q, k = (
            torch.view_as_real(
                torch.view_as_complex(
                    self._times(x, f"blk.{block}.attn_{name}").unflatten(-1, (count, -1, 2))
                )
                * turns
            ).flatten(-2)
            for name, count in (("q", heads), ("k", readers))
        )
        v = self._times(x, f"blk.{block}.attn_v").unflatten(-1, (readers, -1))
        q, k, v = (part.transpose(0, 1) for part in (q, k, v))  # (heads, T, width)
        k, v = (part.repeat_interleave(heads // readers, 0) for part in (k, v))
        read = scaled_dot_product_attention(q, k, v, is_causal=True)
        return self._times(read.transpose(0, 1).flatten(1), f"blk.{block}.attn_output")


def read_llama(file: Path) -> Llama:
    """Return the model in a GGUF file; CourseError if it is no Llama, or not a plain one.

    A tensor or a setting that the forward pass does not know would give a wrong perplexity.
    """
    table = open_tensors(Path(file))
    entries = table.entries
    shape = Shape.of(file, table.gguf.metadata)
    if shape.blocks > len(entries):
        raise CourseError(f"{file} says of {shape.blocks:,} blocks and has fewer tensors")
    reads = entries.get("token_embd.weight")
    shapes = shape.tensors(reads.shape[0] if reads and reads.shape else 0)
    if "output.weight" in entries:
        shapes["output.weight"] = shapes["token_embd.weight"]
    strange = set(entries) - set(shapes)
    if strange:
        raise CourseError(
            f"{file} has {min(strange)}, which this forward pass does not know: it cannot be run"
        )
    tensors = {}
    for name, numbers in shapes.items():
        if name not in entries or not entries[name].floating:
            raise CourseError(f"{file} has no tensor {name} that can be read: it cannot be run")
        if entries[name].shape != numbers:
            raise CourseError(
                f"{file}: {name} has the shape {entries[name].shape}, not {numbers}: it cannot be "
                "run"
            )
        tensors[name] = table.tensor(name)
        check_finite(file, name, tensors[name])
    return Llama(shape, tensors)


def tokenizer(file: Path, found: gguf_files.Contents) -> Tokenizer | None:
    """Return the byte-pair encoding of a GGUF file; None if it has another one, or none."""
    pieces = gguf_files.tokens(found)
    merges = found.metadata.get("tokenizer.ggml.merges")
    cut = CUTS.get(str(found.metadata.get("tokenizer.ggml.pre")))
    if not pieces or not isinstance(merges, list) or cut is None:
        return None
    vocabulary = {piece: row for row, piece in enumerate(pieces)}
    pairs: list[Any] = [tuple(str(merge).split(" ", 1)) for merge in merges]
    try:
        encode = Tokenizer(models.BPE(vocabulary, pairs))
    except Exception as error:  # tokenizers raises nothing more special
        raise CourseError(f"{file}: its merges are no byte-pair encoding ({error})") from None
    encode.pre_tokenizer = pre_tokenizers.Sequence(cut())
    encode.decoder = decoders.ByteLevel()
    kinds = found.metadata.get("tokenizer.ggml.token_type") or []
    special = [piece for piece, kind in zip(pieces, kinds, strict=False) if kind == CONTROL]
    encode.add_special_tokens(special)
    return encode
