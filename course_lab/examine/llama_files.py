"""A Llama in a GGUF file: its shape, its weights and its byte-pair encoding, each checked."""

from pathlib import Path
from typing import Any

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

from course_lab.examine import gguf_files
from course_lab.examine.tensor_files import check_finite, open_tensors
from course_lib.errors import CourseError
from course_lib.models import Llama, LlamaShape

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


def shape_of(file: Path, metadata: dict) -> LlamaShape:
    """Return the shape that a file states; CourseError if it states none of a plain Llama."""
    architecture = metadata.get("general.architecture")
    if architecture != "llama":
        raise CourseError(
            f"{file} is a model of the architecture {architecture!r:.40}; only llama can be run"
        )
    names = {
        "blocks": "block_count", "size": "embedding_length", "heads": "attention.head_count",
        "key_value_heads": "attention.head_count_kv", "inner": "feed_forward_length",
        "longest": "context_length",
        "base": "rope.freq_base", "epsilon": "attention.layer_norm_rms_epsilon",
    }  # fmt: skip
    values: dict[str, Any] = {name: metadata.get(f"llama.{key}") for name, key in names.items()}
    values["key_value_heads"] = values["key_value_heads"] or values["heads"]
    values["base"] = values["base"] or 10_000.0
    for name, value in values.items():
        kinds = (int, float) if name in ("base", "epsilon") else (int,)
        if type(value) not in kinds or not 0 < value < 1e9:
            raise CourseError(f"{file} says of its {name} {value!r:.40}: it cannot be run")
    shape = LlamaShape(**values)
    uneven = shape.size % shape.heads or shape.size // shape.heads % 2
    if uneven or shape.heads % shape.key_value_heads:
        raise CourseError(
            f"{file}: {shape.size} numbers do not divide into {shape.heads} heads of queries and "
            f"{shape.key_value_heads} of keys and values"
        )
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


def weights(shape: LlamaShape, words: int) -> dict[str, tuple[int, ...]]:
    """Return the shape of every weight but the output's by its name, with N = `words`."""
    read = shape.size // shape.heads * shape.key_value_heads
    block = {
        "attn_norm": (shape.size,), "attn_q": (shape.size, shape.size),
        "attn_k": (read, shape.size), "attn_v": (read, shape.size),
        "attn_output": (shape.size, shape.size), "ffn_norm": (shape.size,),
        "ffn_gate": (shape.inner, shape.size), "ffn_up": (shape.inner, shape.size),
        "ffn_down": (shape.size, shape.inner),
    }  # fmt: skip
    shapes = {"token_embd": (words, shape.size), "output_norm": (shape.size,)}
    for i in range(shape.blocks):
        shapes |= {f"blk.{i}.{part}": numbers for part, numbers in block.items()}
    return {f"{name}.weight": numbers for name, numbers in shapes.items()}


def read_llama(file: Path) -> Llama:
    """Return the model in a GGUF file; CourseError if it is no Llama, or not a plain one.

    A tensor or a setting that the forward pass does not know would give a wrong perplexity.
    """
    table = open_tensors(Path(file))
    entries = table.entries
    shape = shape_of(file, table.gguf.metadata)
    if shape.blocks > len(entries):
        raise CourseError(f"{file} says of {shape.blocks:,} blocks and has fewer tensors")
    reads = entries.get("token_embd.weight")
    shapes = weights(shape, reads.shape[0] if reads and reads.shape else 0)
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
